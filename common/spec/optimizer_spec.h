/*
 * optimizer_spec - how a variable is updated, as data: chosen by the coordinator, sent to each ps.
 * ps/core/values/optimizer.h applies it and holds the formulas.
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  any one.
 */
#ifndef CADRE_COMMON_SPEC_OPTIMIZER_SPEC_H
#define CADRE_COMMON_SPEC_OPTIMIZER_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cadre/optimizer.h>

#include "common/base/limits.h"
#include "common/spec/parameter.h"
#include "common/spec/schedule_spec.h"
#include "common/tensor/tensor.h"

/* Positions of parameters, with their defaults, which are those of Keras. `add` has no
 * parameters. */
enum {
    CADRE_LEARNING_RATE = 0, /* all but add; default 0.01 for sgd, momentum and nesterov,
                                0.7 for delayed_nesterov, 0.001 for the others */

    CADRE_MOMENTUM_MOMENTUM = 1, /* momentum, nesterov, delayed_nesterov; default 0.9 */
    CADRE_DELAYED_DELAY = 2,     /* delayed_nesterov; default 4 */

    CADRE_ADAGRAD_INITIAL_ACCUMULATOR = 1, /* 0.1 */
    CADRE_ADAGRAD_EPSILON = 2,             /* 1e-7 */

    CADRE_RMSPROP_RHO = 1,      /* 0.9 */
    CADRE_RMSPROP_MOMENTUM = 2, /* default 0: no momentum, and no slot for it */
    CADRE_RMSPROP_EPSILON = 3,  /* 1e-7 */
    CADRE_RMSPROP_CENTERED = 4, /* 0 or 1 */

    CADRE_ADAM_BETA_1 = 1,        /* 0.9; adam and adamw */
    CADRE_ADAM_BETA_2 = 2,        /* 0.999 */
    CADRE_ADAM_EPSILON = 3,       /* 1e-7 */
    CADRE_ADAMW_WEIGHT_DECAY = 4, /* 0.004 */

    CADRE_FTRL_LEARNING_RATE_POWER = 1, /* -0.5 */
    CADRE_FTRL_INITIAL_ACCUMULATOR = 2, /* 0.1 */
    CADRE_FTRL_L1 = 3,                  /* 0 */
    CADRE_FTRL_L2 = 4,                  /* 0 */
    CADRE_FTRL_L2_SHRINKAGE = 5,        /* 0 */
    CADRE_FTRL_BETA = 6,                /* 0 */

    CADRE_OPTIMIZER_PARAMETERS_MAX = 8,
};

#define CADRE_DELAY_COMPENSATION_MAX 1e6

typedef struct {
    cadre_optimizer_kind_t kind;
    double parameters[CADRE_OPTIMIZER_PARAMETERS_MAX]; /* unused ones are 0 */
    cadre_schedule_spec_t schedule; /* of the learning rate; kind 0: there is no schedule */
    double clip_value;              /* largest absolute value of a gradient's element; 0: any */
    double average_momentum;        /* of the running average of the values; 0: no average */
    uint64_t average_overwrite;     /* every so many updates the average becomes the values */
    double delay_compensation;      /* lambda of compensating late gradients; 0: they are not */
    bool lazy;                      /* rows that an update of rows does not name rest */
} cadre_optimizer_spec_t;

/* Gives the kind called `text` with its default parameters. Fails with CADRE_ENOTFOUND, and a text
 * that lists all kinds, when none is called so. */
int cadre_optimizer_spec_parse(cadre_optimizer_spec_t *self, const char *text);

/* Sets a parameter by Keras' name for it (ftrl: learning_rate_power, l1, l2, l2_shrinkage, beta).
 * Fails with CADRE_ENOTFOUND for another name, CADRE_EINVALID for a bad value. */
int cadre_optimizer_spec_set(cadre_optimizer_spec_t *self, const char *name, double value);

/* Converts the public struct that a user's program has filled in, which says nothing of schedule,
 * clipping and averages. Fails with CADRE_EINVALID for an unknown kind, and for parameters without
 * a kind. The values are checked by cadre_optimizer_spec_check only. */
int cadre_optimizer_spec_take(cadre_optimizer_spec_t *self, const cadre_optimizer_t *given);

/* Converts the spec to the public struct. */
cadre_optimizer_t cadre_optimizer_spec_give(const cadre_optimizer_spec_t *self);

/* Reads an optimizer that came from wire or disk as `kind` and `count` parameters; schedule,
 * clipping, average, delay compensation and lazy become 0, that is, none. Fails with
 * CADRE_EMALFORMED for an unknown kind or another number of parameters, CADRE_EINVALID for a bad
 * value. */
int cadre_optimizer_spec_decode(cadre_optimizer_spec_t *self, uint64_t kind,
                                const double *parameters, size_t count);

/* Returns whether two specs update a variable in the same way. */
bool cadre_optimizer_spec_equal(const cadre_optimizer_spec_t *left,
                                const cadre_optimizer_spec_t *right);

/* Checks all values of the spec. Fails with CADRE_EINVALID for a bad one, and with CADRE_EDTYPE
 * when the spec is not for `dtype`: `add` takes f32, f64, i32 and i64, the others, and an average,
 * take f32. */
int cadre_optimizer_spec_check(const cadre_optimizer_spec_t *self, cadre_dtype_t dtype);

/* Returns the word for a kind, such as "sgd"; "?" for a number that is no kind. */
const char *cadre_optimizer_kind_text(cadre_optimizer_kind_t kind);

/* Gives the table of a kind's parameters, in their order on the wire; returns how many there
 * are. */
size_t cadre_optimizer_parameters(cadre_optimizer_kind_t kind, const cadre_parameter_t **table);

/* Returns how many slots (f32 numbers per element) the optimizer keeps. */
size_t cadre_optimizer_slot_count(const cadre_optimizer_spec_t *self);

/* Returns the number of the slot that is the running average of the values; where there is none,
 * the number of slots. */
size_t cadre_optimizer_average_slot(const cadre_optimizer_spec_t *self);

/* Returns the name of slot `slot`, slot < count, which is written to checkpoints: Keras' name, or
 * "average". */
const char *cadre_optimizer_slot_name(const cadre_optimizer_spec_t *self, size_t slot);

/* Writes the names of all slots into `text`, with ", " between them; "none" where there are none.
 * Names for which there is no room are left out. */
void cadre_optimizer_slot_names(const cadre_optimizer_spec_t *self, char *text, size_t size_bytes);

/* Returns the number with which every element of slot `slot` begins, unless that is the average,
 * which begins as the values. */
float cadre_optimizer_slot_initial(const cadre_optimizer_spec_t *self, size_t slot);

/* Returns whether gradients may come by rows: not where they are compensated for delays, since rows
 * that are pulled in several parts are of no one version. */
bool cadre_optimizer_spec_takes_rows(const cadre_optimizer_spec_t *self);

/* Returns whether rows that an update of rows does not name stay as they are: the optimizer changes
 * nothing where the gradient is zero, or is to be lazy. Otherwise the update is one of all rows,
 * zero where it names none. */
bool cadre_optimizer_spec_rests(const cadre_optimizer_spec_t *self);

/* Returns whether what an update does follows from how many there were before: the bias of Adam's
 * moments is corrected by it, and a schedule's rate follows from it. */
bool cadre_optimizer_spec_counts(const cadre_optimizer_spec_t *self);

#endif
