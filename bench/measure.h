/*
 * measure - time, medians, and what a process uses.
 *
 * Thread:  any.
 */
#ifndef CADRE_BENCH_MEASURE_H
#define CADRE_BENCH_MEASURE_H

#include <stddef.h>
#include <sys/types.h>

enum { CADRE_BENCH_REPETITIONS_MAX = 16 };

/* Monotonic seconds. */
double cadre_bench_now(void);

/* The value that a fraction `part` of the sorted values is below; sorts `values`. */
double cadre_bench_quantile(double *values, size_t count, double part);

/* Measures once, into `value`. */
typedef int (*cadre_bench_run_t)(void *context, double *value);

typedef struct {
    cadre_bench_run_t run;
    void *context;
    double value; /* the median */
} cadre_bench_measure_t;

/* Runs each of `count` measures once to warm up, then all in turn `repetitions` times, and takes
 * the medians. The first failure ends it. */
int cadre_bench_measure_in_turn(cadre_bench_measure_t *measures, size_t count, int repetitions);

/* CPU seconds that process `pid` has used, all threads, to the nanosecond. CADRE_EIO when it is
 * gone. */
int cadre_bench_cpu_seconds(pid_t pid, double *seconds);

/* Bytes of memory that the process has resident. */
int cadre_bench_resident_bytes(pid_t pid, double *bytes);

/* The most of them that it has had at once. */
int cadre_bench_peak_bytes(pid_t pid, double *bytes);

#endif
