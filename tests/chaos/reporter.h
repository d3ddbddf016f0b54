/*
 * reporter - how a job under test tells its board how it stands: its totals, its state as a file of
 * JSON, and why it has failed.
 *
 * Owner:   the job's process (job.c, sync_job.c).
 * Thread:  any; but one at a time shows.
 */
#ifndef CADRE_TESTS_CHAOS_REPORTER_H
#define CADRE_TESTS_CHAOS_REPORTER_H

#include <cadre/coordinator.h>

#include "tests/chaos/board.h"

/* Ends the process, with the reason on the board. */
_Noreturn void reporter_fail(board_t *board, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same unless `status` is 0 or above; `what` was tried. */
void reporter_must(board_t *board, int status, const char *what);

/* Shows totals, and now and then the state as JSON. */
void reporter_show(board_t *board, cadre_coordinator_t *coordinator);

/* The options of a coordinator that the board's settings say; its log goes to stderr. */
cadre_coordinator_options_t reporter_options(const board_t *board);

#endif
