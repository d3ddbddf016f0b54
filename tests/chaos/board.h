/*
 * board - what a chaos test and the job under test tell each other: one page of shared memory.
 *
 * The job is a process of its own (job.c, sync_job.c), so that it can be killed like any other. The
 * test writes the settings before it starts the job and then only `finish`; the job writes the
 * rest. A job that is started again takes over the same board.
 *
 * Owner:   the test; the job maps it.
 * Thread:  any; the fields after the settings are atomic.
 */
#ifndef CADRE_TESTS_CHAOS_BOARD_H
#define CADRE_TESTS_CHAOS_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    BOARD_PATH_SIZE = 128,
    BOARD_TEXT_SIZE = 512,

    ALPHA_PARTS = 4, /* of variable "alpha", f32 */
    BETA_ROWS = 7,   /* of "beta", i64, in two parts */
    GAMMA_ROWS = 5,  /* of "gamma", f32, which only assignments change, in two parts */
    TICKS_STEPS = 3, /* updates that one call of "ticks" makes */

    TABLE_DIM = 64,      /* numbers of a row of "rows", a table, */
    TABLE_FIXED = 32,    /* whose keys 0, 1, 2 and so on every update adds 1 to, */
    TABLE_SPREAD = 4096, /* and so many keys from TABLE_FIRST on, to one of which it does */
    TABLE_FIRST = 1 << 20,
};

typedef enum {
    BOARD_STARTING, /* the job opens, and creates its variables */
    BOARD_RUNNING,
    BOARD_DONE,   /* every total was as it must be */
    BOARD_FAILED, /* `text` says why */
} board_state_t;

typedef struct {
    /* Settings. */
    char address[BOARD_PATH_SIZE];
    char checkpoints[BOARD_PATH_SIZE]; /* "": none */
    char status[BOARD_PATH_SIZE];      /* file that the job's state as JSON goes to */
    char marks[BOARD_PATH_SIZE];       /* of sync_job.c: file that its marks go to */
    int ps;
    int recovery; /* cadre_recovery_t */
    int64_t alpha_rows;
    int64_t lease_ms;
    int64_t ps_timeout_ms;
    int64_t checkpoint_every_ms;
    int64_t deadline_ms; /* of a closure; 0: none */
    uint64_t seed;
    bool assign;  /* mix assignments in */
    bool table;   /* there is one, which every update adds to, too */
    bool resume;  /* from the newest checkpoint, if there is one */
    bool nothing; /* schedule nothing until `load` */
    bool local;   /* of sync_job.c: ps and worker are threads of the job */

    _Atomic uint32_t finish; /* by the test: schedule no more, join, check, end */
    _Atomic uint32_t load;   /* by the test: begin to schedule */
    _Atomic uint32_t
        fence; /* by the test, counted up: let everything scheduled end, and check it */
    _Atomic uint32_t fenced; /* by the job: the last fence that was passed */

    _Atomic uint32_t state; /* board_state_t */
    char text[BOARD_TEXT_SIZE];
    _Atomic uint64_t beats;   /* rounds of the job's main thread */
    _Atomic uint64_t starts;  /* of the job */
    _Atomic uint64_t resumed; /* starts that took up a checkpoint */

    /* cadre_totals_t, as of the last round. */
    _Atomic uint64_t scheduled;
    _Atomic uint64_t finished;
    _Atomic uint64_t attempts;
    _Atomic uint64_t workers;
    _Atomic uint64_t workers_lost;
    _Atomic uint64_t ps_there;
    _Atomic uint64_t ps_lost;
    _Atomic uint64_t checkpoints_done;
    _Atomic uint64_t checkpoints_failed;
    _Atomic uint64_t retentions_failed;
    _Atomic uint64_t deadlines_missed;

    _Atomic uint64_t marked; /* by sync_job.c: the mark that it made last (marks.h) */

    /* At the end. */
    _Atomic uint64_t updates;   /* that every element must have */
    _Atomic uint64_t duplicate; /* of all shards */
    _Atomic uint64_t refused;
} board_t;

/* Maps the board in the file `path`, which is made when `create`. NULL when that is not possible.
 */
board_t *board_map(const char *path, bool create);

#endif
