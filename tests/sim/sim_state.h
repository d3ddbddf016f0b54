/*
 * sim_state - what one shard holds from one RESTORE to the next, as the oracle sees it.
 *
 * Owner:   the oracle; copies of it belong to simulated files.
 * Thread:  one.
 *
 * It follows what the shard answered. Every update and assignment in it has a stamp, the number of
 * the event that brought it, so that their order can be checked after a replay. A copy has no
 * history of values, and everything else: what a restored shard goes on from.
 */
#ifndef CADRE_TESTS_SIM_SIM_STATE_H
#define CADRE_TESTS_SIM_SIM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "tests/sim/sim_table.h"

enum { SIM_STEPS_MAX = 3 };

/* One part of a variable. */
typedef struct {
    sim_number_t now;
    sim_number_t last; /* what the last update added; 0 before the first */
    uint64_t updates;
    uint64_t version;      /* updates and assignments */
    uint64_t step_version; /* that the last synchronous step made; 0: none has */
    uint64_t first;        /* version that history begins with */
    sim_number_t *history; /* what it was at each version from `first` on; of a table NULL, and */
    sim_rows_t *rows;      /* its rows then */
    size_t capacity;
    uint64_t kept[CADRE_PULLED_VERSIONS_MAX]; /* where delays are compensated: versions that the
                                                 shard has kept for it, ascending */
    size_t kept_count;
} sim_value_t;

/* An assignment that a part has taken. */
typedef struct {
    uint32_t assignment; /* which, of the oracle's records */
    uint32_t variable;   /* index */
    uint32_t part;
    uint64_t stamp;
} sim_taken_t;

/* An update that is held for the end of its step. */
typedef struct {
    uint64_t update;
    uint64_t step;
    uint32_t call;
    int64_t strength;
    uint64_t *parts; /* (variable, partition) each */
    size_t part_count;
    uint64_t size_bytes; /* of its gradients */
    bool is_over;        /* its step has ended, with it or without it */
} sim_pushed_t;

typedef struct sim_state {
    uint32_t shard;
    uint64_t epoch;
    uint64_t generation;
    uint64_t cut;         /* nothing below it may be applied any more */
    uint64_t begun_event; /* of the RESTORE that it began with */
    uint64_t applied;
    uint64_t duplicate;
    uint64_t refused;
    /* Gradients of variables with delay compensation that were late, since the restore: those
     * whose values the shard still had, and those that it took as they came. */
    uint64_t compensated;
    uint64_t uncompensated;
    uint64_t sequence; /* of the last assignment since the restore */
    uint64_t *stamps;  /* [SIM_STEPS_MAX * call + step]; 0: not applied */
    uint32_t call_capacity;
    sim_value_t *values[SIM_VARIABLES_MAX]; /* [parts of the variable], NULL: at initial values */
    uint32_t part_counts[SIM_VARIABLES_MAX];
    uint32_t admit_after[SIM_VARIABLES_MAX]; /* of tables, in the life that it is of */
    sim_taken_t *taken;
    size_t taken_count;
    sim_pushed_t *held; /* since the restore */
    size_t held_count;
    uint64_t step;           /* that ended last */
    uint32_t calls;          /* in series: 1 + the number of the last call that it has */
    uint64_t checkpoint;     /* of the last cut that was opened here, or had ended before */
    struct sim_state *image; /* what is below the cut that is open; NULL: none is */
    char problem[160];       /* why nothing may be restored from this copy; "" for none */
} sim_state_t;

sim_state_t *sim_state_new(uint32_t shard, uint64_t epoch, uint64_t generation, uint64_t cut);
sim_state_t *sim_state_copy(const sim_state_t *self);
void sim_state_destroy(sim_state_t **self_p);

/* When a call's step was applied; 0: it was not. */
uint64_t sim_state_stamp(const sim_state_t *self, uint32_t call, uint32_t step);
void sim_state_apply(sim_state_t *self, uint32_t call, uint32_t step, uint64_t stamp);

/* When a part took an assignment; 0: it did not. */
uint64_t sim_state_taken(const sim_state_t *self, const sim_taken_t *like);
void sim_state_take(sim_state_t *self, const sim_taken_t *taken);

/* Holds an update; the one that was held under this id, or NULL. */
void sim_state_hold(sim_state_t *self, const sim_pushed_t *held);
sim_pushed_t *sim_state_held(const sim_state_t *self, uint64_t update);

/* One part, at its initial values when it was not touched before. */
sim_value_t *sim_state_value(sim_state_t *self, const sim_variable_t *variable, uint32_t part);

/* Forgets a variable: it begins at its initial values. */
void sim_state_forget(sim_state_t *self, uint32_t variable);

/* A change: the part is this, in a new version; of a table its rows do. */
void sim_value_change(sim_value_t *self, const sim_number_t *number);
void sim_value_change_rows(sim_value_t *self, const sim_rows_t *rows);

/* The rows of a table now; at a version, NULL when it had none. */
const sim_rows_t *sim_value_rows(const sim_value_t *self);
const sim_rows_t *sim_value_rows_at(const sim_value_t *self, uint64_t version);

/* How many rows of a table have gone. */
uint64_t sim_value_gone(const sim_value_t *self);

/* What an update is. */
typedef struct {
    int64_t strength;
    uint64_t keys;              /* of a table: to which */
    const sim_number_t *pulled; /* what it is compensated for (sim_number_push); NULL: nothing */
} sim_update_t;

void sim_value_push(sim_value_t *self, const sim_variable_t *variable, const sim_update_t *update);

/* What the part was at this version; NULL when it had none. */
const sim_number_t *sim_value_at(const sim_value_t *self, uint64_t version);

/* The shard has answered a worker's pull: where delays are compensated it keeps this version, for
 * which the oldest goes when there are too many. Returns what a version that is kept was; NULL
 * where it is not. An assignment lets all go. */
void sim_value_keep(sim_value_t *self);
const sim_number_t *sim_value_kept(const sim_value_t *self, uint64_t version);

#endif
