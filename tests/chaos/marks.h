/*
 * marks - what a synchronous job has computed after every MARK_CLOSURES closures: memory that the
 * job (sync_job.c) shares with its test, and that outlives both a killed job and the file.
 *
 * Owner:   the test; the job maps it.
 * Thread:  any; the job writes a mark, and then that it is there.
 */
#ifndef CADRE_TESTS_CHAOS_MARKS_H
#define CADRE_TESTS_CHAOS_MARKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MARK_CLOSURES = 200,
    MARKS_MAX = 1 << 14, /* of a job; it fails where it would have more */

    STEP_CLOSURES = 4, /* of a step; divides MARK_CLOSURES */
    MODEL_ROWS = 6,    /* of a batch */
    MODEL_INPUTS = 12, /* and of a row of the table "rows" */
    MODEL_HIDDEN = 9,
    MODEL_OUTPUTS = 5,                         /* and of a row of the tables "few" and "rare" */
    MODEL_KEYS = 96,                           /* of a table */
    RARE_KEYS = 3,                             /* of "rare": not every step has all of them */
    FEW_ROWS_MAX = STEP_CLOSURES * MODEL_ROWS, /* rows that a ps keeps of "few": those of a step */
};

/* What follows from the closures alone. */
typedef struct {
    float first[MODEL_INPUTS * MODEL_HIDDEN];
    float second[MODEL_HIDDEN * MODEL_OUTPUTS];
    float rows[MODEL_KEYS * MODEL_INPUTS];
    float rare[RARE_KEYS * MODEL_OUTPUTS];
} mark_weights_t;

/* What follows from the number of ps, too: of a table from which rows go. */
typedef struct {
    float few[MODEL_KEYS * MODEL_OUTPUTS];
} mark_few_t;

typedef struct {
    _Atomic bool is_there;
    mark_weights_t weights;
    mark_few_t few;
} mark_t;

typedef struct {
    mark_t marks[MARKS_MAX + 1]; /* i: after i * MARK_CLOSURES closures */
} marks_t;

/* Maps the marks in the file `path`, which is made when `create`. NULL when that is not possible.
 */
marks_t *marks_map(const char *path, bool create);
void marks_unmap(marks_t **self_p);

#endif
