/*
 * cluster - a job on this machine: a coordinator in this process, real ps and workers beside it.
 *
 * Owner:   a section.
 * Thread:  main's.
 */
#ifndef CADRE_BENCH_CLUSTER_H
#define CADRE_BENCH_CLUSTER_H

#include <cadre/coordinator.h>
#include <sys/types.h>

#include "bench/bench.h"

enum { CADRE_BENCH_WORKERS_MAX = 4 };

typedef struct {
    cadre_coordinator_t *coordinator;
    pid_t ps;
    pid_t workers[CADRE_BENCH_WORKERS_MAX];
    int worker_count;
} cadre_bench_cluster_t;

/* Opens the coordinator over ipc, starts one ps and `workers` workers and waits until all are
 * there. On failure there is nothing left to close. */
int cadre_bench_cluster_open(cadre_bench_t *bench, int workers, cadre_bench_cluster_t *self);

/* The same over tcp on loopback, with the keys of that directory, or without any when it is NULL.
 */
int cadre_bench_cluster_open_tcp(cadre_bench_t *bench, int workers, const char *keys,
                                 cadre_bench_cluster_t *self);

/* Harmless on a zeroed one. */
void cadre_bench_cluster_close(cadre_bench_cluster_t *self);

/* CPU seconds that all its tasks, this process included, have used so far. */
int cadre_bench_cluster_cpu_seconds(const cadre_bench_cluster_t *self, double *seconds);

/* Schedules `count` calls of `function`, waits until all have ended, and gives the seconds from the
 * first call to that. */
int cadre_bench_cluster_run(cadre_bench_cluster_t *self, const cadre_function_t *function,
                            int count, double *seconds);

#endif
