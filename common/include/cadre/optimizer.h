/*
 * optimizer - how the gradients that closures push change a variable, and what it begins with.
 *
 * Both are chosen when the variable is created and run on its ps. Each is a kind with its
 * parameters by name; cadre_optimizer and cadre_initializer give a kind with its defaults, which
 * are those of Keras, and a program sets what it wants otherwise:
 *
 *     cadre_variable_options_t options = cadre_variable_options();
 *     options.initializer = cadre_initializer(CADRE_INITIALIZER_GLOROT_UNIFORM);
 *     options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
 *     options.optimizer.learning_rate = 0.003;
 *
 * Neither struct can get further fields, since cadre_variable_options_t contains them. Fields that
 * a kind does not have are ignored. The words are those of job files (docs/job-file.md).
 */
#ifndef CADRE_OPTIMIZER_H
#define CADRE_OPTIMIZER_H

#include <stdbool.h>

#include <cadre/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Optimizers --- */

/* name, number on the wire and on disk, word */
#define CADRE_OPTIMIZER_LIST(X)                                                                    \
    X(SGD, 1, "sgd")                                                                               \
    X(MOMENTUM, 2, "momentum")                                                                     \
    X(NESTEROV, 3, "nesterov")                                                                     \
    X(ADAGRAD, 4, "adagrad")                                                                       \
    X(RMSPROP, 5, "rmsprop")                                                                       \
    X(ADAM, 6, "adam")                                                                             \
    X(ADAMW, 7, "adamw")                                                                           \
    X(FTRL, 8, "ftrl")                                                                             \
    X(ADD, 9, "add")

typedef enum {
#define CADRE_OPTIMIZER_ENUM(name, number, text) CADRE_OPTIMIZER_##name = number,
    CADRE_OPTIMIZER_LIST(CADRE_OPTIMIZER_ENUM)
#undef CADRE_OPTIMIZER_ENUM
} cadre_optimizer_kind_t;

typedef struct {
    /* If this and all other fields are 0: CADRE_OPTIMIZER_SGD with its defaults.
     * CADRE_OPTIMIZER_ADD adds what is pushed, in the variable's own type, and has no
     * parameters. */
    cadre_optimizer_kind_t kind;

    /* Of all kinds but add, above 0. Default: 0.01 for sgd, momentum and nesterov, else 0.001. */
    double learning_rate;

    /* Of momentum and nesterov, default 0.9; of rmsprop, default 0, which means no momentum and
     * takes no memory for it. */
    double momentum;

    /* Of rmsprop: the decay of its running averages, default 0.9; and whether it divides by the
     * standard deviation of the gradients instead of their root mean square, default false. */
    double rho;
    bool centered;

    /* Of adam and adamw, below 1. Defaults: 0.9 and 0.999. */
    double beta_1;
    double beta_2;

    /* Of adagrad, rmsprop, adam and adamw. Default: 1e-7. */
    double epsilon;

    /* Of adamw. Default: 0.004. */
    double weight_decay;

    /* Of adagrad and ftrl. Default: 0.1. */
    double initial_accumulator_value;

    /* Of ftrl. Defaults: -0.5 for the power, 0 for the others. */
    double learning_rate_power;
    double l1;
    double l2;
    double l2_shrinkage;
    double beta;
} cadre_optimizer_t;

/* Returns `kind` with its defaults. A number that is no kind is refused by the call that uses the
 * struct. */
CADRE_API cadre_optimizer_t cadre_optimizer(cadre_optimizer_kind_t kind);

/* Gives the kind called `word`, such as "adam", with its defaults.
 *
 * CADRE_ENOTFOUND: there is none; the text names those there are. */
CADRE_API int cadre_optimizer_named(const char *word, cadre_optimizer_t *optimizer);

/* --- Initializers --- */

/* name, number on the wire and on disk, word */
#define CADRE_INITIALIZER_LIST(X)                                                                  \
    X(ZEROS, 1, "zeros")                                                                           \
    X(CONSTANT, 2, "constant")                                                                     \
    X(UNIFORM, 3, "uniform")                                                                       \
    X(NORMAL, 4, "normal")                                                                         \
    X(TRUNCATED_NORMAL, 5, "truncated_normal")                                                     \
    X(GLOROT_UNIFORM, 6, "glorot_uniform")                                                         \
    X(GLOROT_NORMAL, 7, "glorot_normal")                                                           \
    X(HE_UNIFORM, 8, "he_uniform")                                                                 \
    X(HE_NORMAL, 9, "he_normal")

typedef enum {
#define CADRE_INITIALIZER_ENUM(name, number, text) CADRE_INITIALIZER_##name = number,
    CADRE_INITIALIZER_LIST(CADRE_INITIALIZER_ENUM)
#undef CADRE_INITIALIZER_ENUM
} cadre_initializer_kind_t;

typedef struct {
    /* If this and all other fields are 0: CADRE_INITIALIZER_ZEROS. Kinds with random numbers are
     * for f32 variables only. */
    cadre_initializer_kind_t kind;

    /* Of constant. Default: 0. */
    double value;

    /* Of uniform. Defaults: -0.05 and 0.05. */
    double min;
    double max;

    /* Of normal and truncated_normal. Defaults: 0 and 0.05. */
    double mean;
    double stddev;
} cadre_initializer_t;

/* Returns `kind` with its defaults, as cadre_optimizer does. */
CADRE_API cadre_initializer_t cadre_initializer(cadre_initializer_kind_t kind);

/* Gives the kind called `word`, such as "he_normal", with its defaults.
 *
 * CADRE_ENOTFOUND: there is none; the text names those there are. */
CADRE_API int cadre_initializer_named(const char *word, cadre_initializer_t *initializer);

#ifdef __cplusplus
}
#endif
#endif
