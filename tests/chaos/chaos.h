/*
 * chaos - what the chaos tests have in common: a table of them, each a function that ends its
 * process when something is wrong and otherwise says its figure.
 *
 * Owner:   chaos_main.c, which runs each test in a process of its own.
 * Thread:  one.
 */
#ifndef CADRE_TESTS_CHAOS_CHAOS_H
#define CADRE_TESTS_CHAOS_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/random.h"

enum { CHAOS_TEXT_SIZE = 1536, CHAOS_SKIPPED = 77 /* exit code of a test that cannot run here */ };

/* One run of one test. */
typedef struct {
    int count; /* faults */
    bool short_form;
    int shape_ps; /* of a test that goes through clusters of several shapes: the only one; 0: all */
    int shape_workers;
    uint64_t seed;
    cadre_random_t random; /* of the faults; everything random comes from the seed */

    char text[CHAOS_TEXT_SIZE]; /* the figure, for people */
    char json[CHAOS_TEXT_SIZE]; /* and as members of an object, each with a comma before it */
} chaos_run_t;

typedef struct {
    const char *name;
    void (*run)(chaos_run_t *run);
    int short_count;
    int full_count;
    int deadline_s; /* for the full form */
    const char *what;
} chaos_test_t;

/* Adds to the figure. */
void chaos_say(chaos_run_t *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a number to the JSON. */
void chaos_number(chaos_run_t *self, const char *name, double value);

/* Ends the test's process as one that cannot run here, with the reason. */
_Noreturn void chaos_skip(chaos_run_t *self, const char *why);

/* A number in [0, below). */
int chaos_draw(chaos_run_t *self, int below);

/* The p-th percentile (0 to 100) of values that this sorts. */
double chaos_percentile(double *values, int count, int percent);

void chaos_worker_kill(chaos_run_t *run);
void chaos_ps_kill(chaos_run_t *run);
void chaos_coordinator_kill(chaos_run_t *run);
void chaos_everything_kill(chaos_run_t *run);
void chaos_table_kill(chaos_run_t *run);
void chaos_stop(chaos_run_t *run);
void chaos_partition(chaos_run_t *run);
void chaos_disk(chaos_run_t *run);
void chaos_recovery_time(chaos_run_t *run);
void chaos_accuracy(chaos_run_t *run);
void chaos_namespaces(chaos_run_t *run);
void chaos_unreachable(chaos_run_t *run);
void chaos_stuck_ps(chaos_run_t *run);
void chaos_captive(chaos_run_t *run);
void chaos_deadline(chaos_run_t *run);
void chaos_slow_worker(chaos_run_t *run);
void chaos_sync_kill(chaos_run_t *run);
void chaos_strangers(chaos_run_t *run);

#endif
