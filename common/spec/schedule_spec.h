/*
 * schedule_spec - a learning-rate schedule as data: its kind, its parameters, and how the rate
 * follows from the number of updates.
 *
 * The shard computes the rate of an update from the number of updates that it applied to the
 * partition before (ps/core/partition.h, "steps"), a number that checkpoints hold. So the rate
 * follows from schedule and number alone, whatever was restarted, restored or run again.
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

/* Positions in `parameters`, with the default of each where it has one; a parameter without a
 * default must be given by the program. Names and meanings are those of Keras but for the warm-up,
 * which is ours. */
enum {
    CADRE_SCHEDULE_WARMUP_STEPS = 0,   /* all kinds; default 0 */
    CADRE_SCHEDULE_WARMUP_INITIAL = 1, /* all kinds; default 0 */

    CADRE_SCHEDULE_DECAY_STEPS = 2, /* all but constant and piecewise_constant; no default */

    CADRE_EXPONENTIAL_DECAY_RATE = 3, /* exponential and inverse_time; no default */
    CADRE_EXPONENTIAL_STAIRCASE = 4,  /* exponential and inverse_time: 0 or 1; default 0 */

    CADRE_COSINE_ALPHA = 3, /* cosine and cosine_restarts; default 0 */
    CADRE_COSINE_T_MUL = 4, /* cosine_restarts; default 2 */
    CADRE_COSINE_M_MUL = 5, /* cosine_restarts; default 1 */

    CADRE_POLYNOMIAL_END = 3,   /* polynomial; default 0.0001 */
    CADRE_POLYNOMIAL_POWER = 4, /* polynomial; default 1 */
    CADRE_POLYNOMIAL_CYCLE = 5, /* polynomial: 0 or 1; default 0 */

    CADRE_SCHEDULE_PARAMETERS_MAX = 6,
    CADRE_SCHEDULE_NUMBERS_MAX = CADRE_SCHEDULE_PARAMETERS_MAX + 2 * CADRE_SCHEDULE_BOUNDARIES_MAX,
};

typedef struct {
    cadre_schedule_kind_t kind;                       /* 0: the learning rate stays as it is */
    double parameters[CADRE_SCHEDULE_PARAMETERS_MAX]; /* unused ones are 0 */
    size_t boundary_count;                            /* of piecewise_constant */
    double boundaries[CADRE_SCHEDULE_BOUNDARIES_MAX]; /* [boundary_count], rising */
    double values[CADRE_SCHEDULE_BOUNDARIES_MAX];     /* values[i]: rate after boundaries[i] */
} cadre_schedule_spec_t;

/* Makes the kind called `text` with its default parameters. Fails with CADRE_ENOTFOUND, and a text
 * that lists the kinds, when none is called so. */
int cadre_schedule_spec_parse(cadre_schedule_spec_t *self, const char *text);

/* Finds the position of a parameter by its name. Fails with CADRE_ENOTFOUND, and a text that lists
 * the parameters of this kind, when it has none of that name. */
int cadre_schedule_spec_find(const cadre_schedule_spec_t *self, const char *name, size_t *position);

/* Converts the public struct. Values are not checked (cadre_schedule_spec_check does that). Fails
 * with CADRE_EINVALID for an unknown kind, parameters without a kind, or too many boundaries. */
int cadre_schedule_spec_take(cadre_schedule_spec_t *self, const cadre_schedule_t *given);

/* Returns the spec as the public struct. */
cadre_schedule_t cadre_schedule_spec_give(const cadre_schedule_spec_t *self);

/* Writes the numbers of the schedule as messages carry them beside its kind: parameters, then
 * boundaries, then values. Returns how many were written; 0 where there is no schedule. */
size_t cadre_schedule_spec_encode(const cadre_schedule_spec_t *self,
                                  double numbers[CADRE_SCHEDULE_NUMBERS_MAX]);

/* Makes the spec that a message carries as `kind` and `count` numbers. Fails with CADRE_EMALFORMED
 * for an unknown kind or a `count` that does not fit the kind, with CADRE_EINVALID for a value out
 * of range. */
int cadre_schedule_spec_decode(cadre_schedule_spec_t *self, uint64_t kind, const double *numbers,
                               size_t count);

/* Checks the values. Fails with CADRE_EINVALID, and a text that names kind and parameter, when one
 * is out of range. */
int cadre_schedule_spec_check(const cadre_schedule_spec_t *self);

bool cadre_schedule_spec_equal(const cadre_schedule_spec_t *left,
                               const cadre_schedule_spec_t *right);

/* Changes the rate to `rate` for every update that at least `updates` others came before, by one
 * more boundary: no schedule becomes piecewise_constant. Changes nothing where its last boundary
 * says so already.
 *
 * CADRE_EINVALID: another kind, `updates` not above the boundary before, or a bad rate.
 * CADRE_EFULL: it has CADRE_SCHEDULE_BOUNDARIES_MAX boundaries. */
int cadre_schedule_spec_extend(cadre_schedule_spec_t *self, uint64_t updates, double rate);

/* Returns whether `longer` is `shorter`, or what cadre_schedule_spec_extend makes of it. */
bool cadre_schedule_spec_extends(const cadre_schedule_spec_t *longer,
                                 const cadre_schedule_spec_t *shorter);

/* Returns the word of a kind, such as "cosine"; "?" for a number that is no kind. */
const char *cadre_schedule_kind_text(cadre_schedule_kind_t kind);

/* Gives the parameters of a kind, in their order on the wire, and returns how many they are. */
size_t cadre_schedule_parameters(cadre_schedule_kind_t kind, const cadre_parameter_t **table);

/* Returns the learning rate of an update that `steps` others came before, between 0 and
 * CADRE_LEARNING_RATE_MAX. `initial` is the learning rate of the optimizer. */
double cadre_schedule_spec_rate(const cadre_schedule_spec_t *self, double initial, uint64_t steps);

#endif
