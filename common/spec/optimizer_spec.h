/*
 * optimizer_spec - how a variable is updated, as data: chosen by the coordinator, sent to each ps.
 * ps/core/optimizer.h applies it and holds the formulas.
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  any one.
 */
#ifndef CADRE_COMMON_SPEC_OPTIMIZER_SPEC_H
#define CADRE_COMMON_SPEC_OPTIMIZER_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include <cadre/optimizer.h>

#include "common/spec/parameter.h"
#include "common/tensor/tensor.h"

/* Positions of parameters, with Keras' defaults. `add` has none. */
enum {
    CADRE_LEARNING_RATE = 0, /* of all others: 0.01 for sgd, momentum, nesterov, else 0.001 */

    CADRE_MOMENTUM_MOMENTUM = 1, /* 0.9; of momentum and nesterov */

    CADRE_ADAGRAD_INITIAL_ACCUMULATOR = 1, /* 0.1 */
    CADRE_ADAGRAD_EPSILON = 2,             /* 1e-7 */

    CADRE_RMSPROP_RHO = 1,      /* 0.9 */
    CADRE_RMSPROP_MOMENTUM = 2, /* 0: no momentum, and no slot for it */
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
    CADRE_OPTIMIZER_SLOTS_MAX = 3,
};

typedef struct {
    cadre_optimizer_kind_t kind;
    double parameters[CADRE_OPTIMIZER_PARAMETERS_MAX]; /* unused ones are 0 */
} cadre_optimizer_spec_t;

/* The kind called `text` with its default parameters; CADRE_ENOTFOUND, naming the kinds. */
int cadre_optimizer_spec_parse(cadre_optimizer_spec_t *self, const char *text);

/* Sets a parameter by the name Keras gives it (ftrl: learning_rate_power, l1, l2, l2_shrinkage,
 * beta). CADRE_ENOTFOUND for another name, CADRE_EINVALID for a bad value. */
int cadre_optimizer_spec_set(cadre_optimizer_spec_t *self, const char *name, double value);

/* Takes what a program of the public API gave. Values are left to cadre_optimizer_spec_check.
 * CADRE_EINVALID for what is no kind, and for parameters without a kind. */
int cadre_optimizer_spec_take(cadre_optimizer_spec_t *self, const cadre_optimizer_t *given);

/* Returns the spec as a program of the public API has it. */
cadre_optimizer_t cadre_optimizer_spec_give(const cadre_optimizer_spec_t *self);

/* The spec that came as `kind` and `count` parameters from wire or disk. CADRE_EMALFORMED for an
 * unknown kind or another number of parameters, CADRE_EINVALID for a value. */
int cadre_optimizer_spec_decode(cadre_optimizer_spec_t *self, uint64_t kind,
                                const double *parameters, size_t count);

/* Checks the values, and that they suit values of `dtype`: `add` takes f32, f64, i32 and i64, the
 * others f32 (CADRE_EDTYPE). */
int cadre_optimizer_spec_check(const cadre_optimizer_spec_t *self, cadre_dtype_t dtype);

/* "sgd" and so on; "?" for a number that is no kind. */
const char *cadre_optimizer_kind_text(cadre_optimizer_kind_t kind);

/* The parameters of a kind in their order on the wire. */
size_t cadre_optimizer_parameters(cadre_optimizer_kind_t kind, const cadre_parameter_t **table);

/* Slots: the f32 numbers that an optimizer keeps per element. Their names (Keras') stand in
 * checkpoints. */
size_t cadre_optimizer_slot_count(const cadre_optimizer_spec_t *self);

/* The name of slot `slot`, slot < count. */
const char *cadre_optimizer_slot_name(const cadre_optimizer_spec_t *self, size_t slot);

/* What every element of slot `slot` begins with. */
float cadre_optimizer_slot_initial(const cadre_optimizer_spec_t *self, size_t slot);

#endif
