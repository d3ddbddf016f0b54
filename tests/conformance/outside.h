/*
 * outside - a cluster whose coordinator is a process of its own, the driver, so that it can be
 * killed like any other task.
 *
 * The driver (driver.c) gives the rows of a file to "visit" in shuffled epochs, in batches of
 * OUTSIDE_BATCH, and resumes from the newest checkpoint. Its output says "start N" (closures that a
 * checkpoint covered), "holding" when it waits, and in the last line what was counted, as JSON.
 *
 * Owner:   a test.
 * Thread:  the test's main one.
 */
#ifndef CADRE_TESTS_CONFORMANCE_OUTSIDE_H
#define CADRE_TESTS_CONFORMANCE_OUTSIDE_H

#include <jansson.h>

#include "tests/system/local_cluster.h"

enum {
    OUTSIDE_BATCH = 3,
    OUTSIDE_QUEUE = 16,
    OUTSIDE_ARGUMENTS = 10, /* of the driver, its name included */
};

typedef struct {
    local_cluster_t cluster; /* without a coordinator in this process */
    char *checkpoints;
    char *data;
    char *release;
    char *output; /* of the newest driver */
    pid_t driver; /* 0 when none runs */
    int drivers;  /* started so far */
} outside_t;

/* What a driver does. */
typedef struct {
    int epochs;
    int every_ms; /* between automatic checkpoints; 0: none */
    int save_at;  /* before this closure of the job a checkpoint is saved; 0: never */
    int hold_at;  /* before this one it waits for outside_release; 0: never */
} outside_job_t;

/* Starts `size` ps and as many workers, and writes `rows` rows. */
void outside_open(outside_t *self, int size, int rows);

void outside_drive(outside_t *self, const outside_job_t *job);

/* Waits until the driver has said `text`. */
void outside_await(const outside_t *self, const char *text);

/* Waits until there is a checkpoint with a greater id than `than`; gives its id. */
uint64_t outside_await_checkpoint(const outside_t *self, uint64_t than);

/* Lets drivers that hold, now and later, go on. */
void outside_release(const outside_t *self);

void outside_kill_driver(outside_t *self);

/* Waits for the driver, which must succeed; its last line, which the caller decrefs. */
json_t *outside_result(outside_t *self);

/* Every task must leave by itself, as its job has ended. */
void outside_close(outside_t *self);

#endif
