/*
 * scratch - a directory under /tmp that goes when the test goes, however that ends.
 *
 * A process beside the test waits for its end: a test that dies, fails or is killed leaves no
 * directory behind, and the last lines of the logs in it are printed.
 *
 * Owner:   a test.
 * Thread:  the test's main one, before it starts others.
 */
#ifndef CADRE_TESTS_SYSTEM_SCRATCH_H
#define CADRE_TESTS_SYSTEM_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCRATCH_PATH_SIZE = 64 };

typedef struct {
    char path[SCRATCH_PATH_SIZE];
    int guard; /* closed by the end of the test, however that comes */
} scratch_t;

/* Makes the directory. Ends the program with a message when it cannot. */
void scratch_open(scratch_t *self);

/* Removes the directory; the logs in it are not shown, because the test has passed. */
void scratch_close(scratch_t *self);

/* "PATH/NAME", freed by the caller. */
char *scratch_path(const scratch_t *self, const char *name);

/* Ends the program with `text` and the system's reason, unless `condition` holds. */
void require(bool condition, const char *text);

/* The whole file as a string, freed by the caller; "" for one that is not there. */
char *file_text(const char *path);

/* A moment that a wait must not pass. */
typedef struct {
    int64_t end_ms;
} deadline_t;

deadline_t deadline_in(int64_t ms);

/* Waits a moment before the condition is looked at again: `while (!met) { require(again(deadline),
 * "what"); }`. False when the deadline has passed. */
bool again(deadline_t deadline);

#endif
