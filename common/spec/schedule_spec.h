/*
 * schedule_spec - how a learning rate changes with the updates of its variable, as data.
 *
 * The shard computes the rate of an update from the number of updates that it applied to the
 * partition before (ps/core/partition.h, "steps"), which checkpoints hold. So a rate follows from
 * the schedule and that number alone, whatever was restarted, restored or run again.
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  any one.
 */
#ifndef CADRE_COMMON_SPEC_SCHEDULE_SPEC_H
#define CADRE_COMMON_SPEC_SCHEDULE_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/optimizer.h>

#include "common/spec/parameter.h"

#define CADRE_LEARNING_RATE_MIN 1e-20
#define CADRE_LEARNING_RATE_MAX 1e10

/* Positions of parameters, which are Keras' but for the warm-up. */
enum {
    CADRE_SCHEDULE_WARMUP_STEPS = 0,   /* of all: 0 */
    CADRE_SCHEDULE_WARMUP_INITIAL = 1, /* of all: 0 */

    CADRE_SCHEDULE_DECAY_STEPS = 2, /* of all but constant and piecewise_constant */

    CADRE_EXPONENTIAL_DECAY_RATE = 3, /* exponential and inverse_time */
    CADRE_EXPONENTIAL_STAIRCASE = 4,  /* 0 or 1 */

    CADRE_COSINE_ALPHA = 3, /* 0; cosine and cosine_restarts */
    CADRE_COSINE_T_MUL = 4, /* 2; cosine_restarts */
    CADRE_COSINE_M_MUL = 5, /* 1 */

    CADRE_POLYNOMIAL_END = 3,   /* 0.0001 */
    CADRE_POLYNOMIAL_POWER = 4, /* 1 */
    CADRE_POLYNOMIAL_CYCLE = 5, /* 0 or 1 */

    CADRE_SCHEDULE_PARAMETERS_MAX = 6,
    CADRE_SCHEDULE_NUMBERS_MAX = CADRE_SCHEDULE_PARAMETERS_MAX + 2 * CADRE_SCHEDULE_BOUNDARIES_MAX,
};

typedef struct {
    cadre_schedule_kind_t kind;                       /* 0: the learning rate stays as it is */
    double parameters[CADRE_SCHEDULE_PARAMETERS_MAX]; /* unused ones are 0 */
    size_t boundary_count;                            /* of piecewise_constant */
    double boundaries[CADRE_SCHEDULE_BOUNDARIES_MAX]; /* [boundary_count], rising */
    double values[CADRE_SCHEDULE_BOUNDARIES_MAX];     /* [boundary_count] the rate after each */
} cadre_schedule_spec_t;

/* The kind called `text` with its default parameters; CADRE_ENOTFOUND, naming the kinds. */
int cadre_schedule_spec_parse(cadre_schedule_spec_t *self, const char *text);

/* Finds the position of a parameter by its name; CADRE_ENOTFOUND, naming those that it has. */
int cadre_schedule_spec_find(const cadre_schedule_spec_t *self, const char *name, size_t *position);

/* Takes what a program of the public API gave. Values are left to cadre_schedule_spec_check.
 * CADRE_EINVALID for what is no kind, for parameters without a kind and for too many boundaries. */
int cadre_schedule_spec_take(cadre_schedule_spec_t *self, const cadre_schedule_t *given);

/* Returns the spec as a program of the public API has it. */
cadre_schedule_t cadre_schedule_spec_give(const cadre_schedule_spec_t *self);

/* Writes what stands for the schedule on the wire beside its kind: its parameters, then boundaries,
 * then values. Returns how many numbers these are; none where there is no schedule. */
size_t cadre_schedule_spec_encode(const cadre_schedule_spec_t *self,
                                  double numbers[CADRE_SCHEDULE_NUMBERS_MAX]);

/* The spec that came as `kind` and `count` numbers. CADRE_EMALFORMED for an unknown kind or another
 * number of numbers, CADRE_EINVALID for a value. */
int cadre_schedule_spec_decode(cadre_schedule_spec_t *self, uint64_t kind, const double *numbers,
                               size_t count);

/* Checks the values. CADRE_EINVALID, naming the schedule and the parameter. */
int cadre_schedule_spec_check(const cadre_schedule_spec_t *self);

bool cadre_schedule_spec_equal(const cadre_schedule_spec_t *left,
                               const cadre_schedule_spec_t *right);

/* "cosine" and so on; "?" for a number that is no kind. */
const char *cadre_schedule_kind_text(cadre_schedule_kind_t kind);

/* The parameters of a kind in their order on the wire. */
size_t cadre_schedule_parameters(cadre_schedule_kind_t kind, const cadre_parameter_t **table);

/* Returns the learning rate of the update after `steps` others, `initial` being the optimizer's
 * own; between 0 and CADRE_LEARNING_RATE_MAX. */
double cadre_schedule_spec_rate(const cadre_schedule_spec_t *self, double initial, uint64_t steps);

#endif
