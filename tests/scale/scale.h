/*
 * scale - a coordinator in the experiment's process, ps as processes, and any number of workers.
 *
 * The workers are light: `scale_workers` holds many in one process, each with the real worker core
 * and a control connection of its own, so that what is measured is the coordinator. They run
 * every closure at once and give nothing back; they make no data connections. Sockets and logs are
 * in one scratch directory. Errors end the experiment with a message.
 *
 * Owner:   an experiment.
 * Thread:  its main one.
 */
#ifndef CADRE_TESTS_SCALE_SCALE_H
#define CADRE_TESTS_SCALE_SCALE_H

#include <cadre/coordinator.h>
#include <stdio.h>
#include <sys/types.h>

#include "tests/system/process.h"
#include "tests/system/scratch.h"

enum {
    SCALE_PS_MAX = 16,
    SCALE_GROUPS_MAX = 16,  /* processes with workers */
    SCALE_NUMBERS_MAX = 8,  /* of a command line */
    SCALE_WAIT_MS = 300000, /* for anything at all */
    SCALE_LEASE_MS = 60000, /* unless the options say otherwise */
};

/* What the command line says. */
typedef struct {
    bool is_short; /* --short: the small form, a part of make check */
    long numbers[SCALE_NUMBERS_MAX];
    int count;
} scale_arguments_t;

scale_arguments_t scale_arguments(int count, char **words);

/* Number `i` of the command line, else `full` or, with --short, `small`. */
long scale_number(const scale_arguments_t *self, int i, long full, long small);

typedef struct {
    scratch_t scratch;
    cadre_coordinator_t *coordinator;
    char *address;
    FILE *log; /* the coordinator's events */
    pid_t ps[SCALE_PS_MAX];
    pid_t groups[SCALE_GROUPS_MAX];
    const char *native; /* library of those workers, seen from the programs; NULL: none */
    pid_t *tasks;       /* workers that are a process each */
    int task_count;
    int ps_count;
    int group_count;
    int worker_count;
} scale_cluster_t;

/* Opens the coordinator with `options`, of which `address`, `ps_count` and `log` are the cluster's
 * and a lease of 0 means SCALE_LEASE_MS, starts `ps` ps and waits until they have joined. */
void scale_cluster_open(scale_cluster_t *self, int ps, const cadre_coordinator_options_t *options);

/* Starts `count` light workers with `slots` slots each, in one process; does not wait. */
void scale_cluster_add_workers(scale_cluster_t *self, int count, int slots);

/* Starts `count` real workers, each a process; does not wait. */
void scale_cluster_add_processes(scale_cluster_t *self, int count, int slots);

/* Closes the coordinator and waits for the end of all processes. */
void scale_cluster_close(scale_cluster_t *self);

/* Schedules `count` closures of a function that does nothing, and waits until all have ended. */
void scale_cluster_run(scale_cluster_t *self, int count);

/* Waits until `count` closures in all have ended; the time of scale_now then. */
double scale_await_finished(scale_cluster_t *self, uint64_t count);

/* The counter `name` of ps 0 (CADRE_PS_COUNTERS) as its heartbeats tell it, once it is `least` or
 * more, and a heartbeat later. */
uint64_t scale_await_count(scale_cluster_t *self, const char *name, uint64_t least);

/* Ends the experiment with `what` and the error's text unless the status is a success. */
void scale_check(int status, const char *what);

/* Seconds of a clock that only goes on; CPU seconds of this process; MiB resident now, and the most
 * ever, of a process. */
double scale_now(void);
double scale_cpu(void);
long scale_memory_mib(pid_t pid);
long scale_memory_peak_mib(pid_t pid);

/* Prints "PASS" or "FAIL", then the line; the exit status that goes with it. */
int scale_verdict(bool passed, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
