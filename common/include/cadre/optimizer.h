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
 * A learning rate that changes while the job trains is a schedule beside the optimizer:
 *
 *     options.schedule = cadre_schedule(CADRE_SCHEDULE_COSINE);
 *     options.schedule.decay_steps = 10000;
 *     options.schedule.warmup_steps = 500;
 *
 * None of these structs can get further fields, since cadre_variable_options_t contains them.
 * Fields that a kind does not have are ignored. The words are those of job files
 * (docs/job-file.md).
 */
#ifndef CADRE_OPTIMIZER_H
#define CADRE_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Optimizers --- */

/* The optimizers. Columns: name, number on the wire and on disk, word in job files. */
#define CADRE_OPTIMIZER_LIST(X)                                                                    \
    X(SGD, 1, "sgd")                                                                               \
    X(MOMENTUM, 2, "momentum")                                                                     \
    X(NESTEROV, 3, "nesterov")                                                                     \
    X(ADAGRAD, 4, "adagrad")                                                                       \
    X(RMSPROP, 5, "rmsprop")                                                                       \
    X(ADAM, 6, "adam")                                                                             \
    X(ADAMW, 7, "adamw")                                                                           \
    X(FTRL, 8, "ftrl")                                                                             \
    X(ADD, 9, "add")                                                                               \
    X(DELAYED_NESTEROV, 10, "delayed_nesterov")

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

    /* Of all kinds but add, above 0. Default: 0.01 for sgd, momentum and nesterov, 0.7 for
     * delayed_nesterov, else 0.001. */
    double learning_rate;

    /* Of momentum, nesterov and delayed_nesterov, default 0.9; of rmsprop, default 0, which means
     * no momentum and takes no memory for it. */
    double momentum;

    /* A union, so that the struct keeps its size: no kind has both. */
    union {
        /* Of rmsprop: the decay of its running averages. Default: 0.9. */
        double rho;

        /* Of delayed_nesterov: after how many updates the momentum is computed again, from all of
         * these updates; a whole number from 1, usually the number of workers. Default: 4. */
        double delay;
    };

    /* Of rmsprop: whether it divides by the standard deviation of the gradients instead of their
     * root mean square. Default: false. */
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
 * CADRE_ENOTFOUND: no kind is called so; the text lists the kinds. */
CADRE_API int cadre_optimizer_named(const char *word, cadre_optimizer_t *optimizer);

/* --- Learning-rate schedules --- */

/* The schedules. Columns: name, number on the wire and on disk, word in job files. */
#define CADRE_SCHEDULE_LIST(X)                                                                     \
    X(CONSTANT, 1, "constant")                                                                     \
    X(PIECEWISE_CONSTANT, 2, "piecewise_constant")                                                 \
    X(EXPONENTIAL, 3, "exponential")                                                               \
    X(INVERSE_TIME, 4, "inverse_time")                                                             \
    X(POLYNOMIAL, 5, "polynomial")                                                                 \
    X(COSINE, 6, "cosine")                                                                         \
    X(COSINE_RESTARTS, 7, "cosine_restarts")

typedef enum {
#define CADRE_SCHEDULE_ENUM(name, number, text) CADRE_SCHEDULE_##name = number,
    CADRE_SCHEDULE_LIST(CADRE_SCHEDULE_ENUM)
#undef CADRE_SCHEDULE_ENUM
} cadre_schedule_kind_t;

enum { CADRE_SCHEDULE_BOUNDARIES_MAX = 16 };

/* How the learning rate of a variable follows from t, the updates that were applied to it before:
 * Keras' `iterations`, counted by each ps for what it serves, kept in checkpoints, and not
 * advanced by assignments. A synchronous step is one update. With `initial` for the optimizer's
 * learning_rate, formulas and defaults are those of
 * keras/src/optimizers/schedules/learning_rate_schedule.py:
 *
 *     while t < warmup_steps   warmup_initial + (initial - warmup_initial) t / warmup_steps
 *     else, t being counted from the end of the warm-up:
 *     constant                 initial
 *     piecewise_constant       initial up to boundaries[0], then values[0] up to boundaries[1] ...
 *     exponential              initial decay_rate^p
 *     inverse_time             initial / (1 + decay_rate p)
 *                              p = t / decay_steps, rounded down with `staircase`
 *     polynomial               (initial - end_learning_rate) (1 - p)^power + end_learning_rate
 *                              p = t / decay_steps, at most 1; with `cycle`, decay_steps is
 *                              multiplied by t / decay_steps, rounded up, instead
 *     cosine                   initial ((1 - alpha) (1 + cos(pi p)) / 2 + alpha),
 *                              p = t / decay_steps, at most 1
 *     cosine_restarts          the same over periods of decay_steps, of which each is t_mul times
 *                              as long as the one before and begins m_mul times as high
 *
 * A rate is at most 1e10. With `ftrl`, which divides by it, it is at least 1e-20. */
typedef struct {
    /* If this and all other fields are 0 there is no schedule: the learning rate is constant. */
    cadre_schedule_kind_t kind;

    /* Of all kinds. Defaults: 0. (Where there is a warm-up, `initial` is what Keras' CosineDecay
     * calls warmup_target.) */
    double warmup_steps;
    double warmup_initial;

    /* Of all kinds but constant and piecewise_constant, at least 1; it has no default. For
     * cosine_restarts the length of the first period, first_decay_steps in job files. */
    double decay_steps;

    /* Of exponential and inverse_time. The rate is above 0 and has no default; staircase: false. */
    double decay_rate;
    bool staircase;

    /* Of polynomial. Defaults: 0.0001, 1 and false. */
    double end_learning_rate;
    double power;
    bool cycle;

    /* Of cosine and cosine_restarts. Default: 0. */
    double alpha;

    /* Of cosine_restarts. Defaults: 2 and 1. */
    double t_mul;
    double m_mul;

    /* Of piecewise_constant: how many boundaries there are, at which number of updates each is, and
     * the learning rate after each. */
    int boundary_count;
    double boundaries[CADRE_SCHEDULE_BOUNDARIES_MAX];
    double values[CADRE_SCHEDULE_BOUNDARIES_MAX];
} cadre_schedule_t;

/* Returns `kind` with its defaults, as cadre_optimizer does. */
CADRE_API cadre_schedule_t cadre_schedule(cadre_schedule_kind_t kind);

/* Gives the kind called `word`, such as "cosine", with its defaults.
 *
 * CADRE_ENOTFOUND: no kind is called so; the text lists the kinds. */
CADRE_API int cadre_schedule_named(const char *word, cadre_schedule_t *schedule);

/* Gives the learning rate of an update that `steps` others came before, as a ps computes it: to
 * plot a schedule, or to show the rate while training.
 *
 * CADRE_EINVALID: a field of the schedule is out of range; the text names it. */
CADRE_API int cadre_schedule_rate(const cadre_schedule_t *schedule, double learning_rate,
                                  uint64_t steps, double *rate);

/* --- Scaling with the batch --- */

/* How a learning rate follows from the rows of an update, for the same training with larger
 * batches. */
typedef enum {
    CADRE_SCALE_NONE = 0,
    /* In proportion to the rows: Goyal and others 2017, "Accurate, large minibatch SGD". */
    CADRE_SCALE_LINEAR = 1,
    /* To the root of the rows: Krizhevsky 2014, "One weird trick for parallelizing convolutional
     * neural networks". */
    CADRE_SCALE_SQRT = 2,
} cadre_scale_t;

/* Gives the learning rate for updates of `update_rows` rows, from one that is right for updates of
 * `base_rows`. An update has the rows of as many closures as cadre_coordinator_replicas says. As
 * optimizer.scale_with of a job file.
 *
 * CADRE_EINVALID: an unknown rule, or a number of rows below 1. */
CADRE_API int cadre_scaled_rate(cadre_scale_t rule, double learning_rate, int64_t update_rows,
                                int64_t base_rows, double *rate);

/* --- Initializers --- */

/* The initializers. Columns: name, number on the wire and on disk, word in job files. */
#define CADRE_INITIALIZER_LIST(X)                                                                  \
    X(ZEROS, 1, "zeros")                                                                           \
    X(CONSTANT, 2, "constant")                                                                     \
    X(UNIFORM, 3, "uniform")                                                                       \
    X(NORMAL, 4, "normal")                                                                         \
    X(TRUNCATED_NORMAL, 5, "truncated_normal")                                                     \
    X(GLOROT_UNIFORM, 6, "glorot_uniform")                                                         \
    X(GLOROT_NORMAL, 7, "glorot_normal")                                                           \
    X(HE_UNIFORM, 8, "he_uniform")                                                                 \
    X(HE_NORMAL, 9, "he_normal")                                                                   \
    X(LECUN_UNIFORM, 10, "lecun_uniform")                                                          \
    X(LECUN_NORMAL, 11, "lecun_normal")                                                            \
    X(IDENTITY, 12, "identity")

typedef enum {
#define CADRE_INITIALIZER_ENUM(name, number, text) CADRE_INITIALIZER_##name = number,
    CADRE_INITIALIZER_LIST(CADRE_INITIALIZER_ENUM)
#undef CADRE_INITIALIZER_ENUM
} cadre_initializer_kind_t;

typedef struct {
    /* If this and all other fields are 0: CADRE_INITIALIZER_ZEROS. Kinds with random numbers are
     * for f32 variables only. */
    cadre_initializer_kind_t kind;

    /* Of constant; default: 0. Of identity, a matrix, the numbers where row and column are the
     * same; default: 1. */
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
 * CADRE_ENOTFOUND: no kind is called so; the text lists the kinds. */
CADRE_API int cadre_initializer_named(const char *word, cadre_initializer_t *initializer);

/* Which fan of a variable's shape a variance follows from. */
typedef enum {
    CADRE_FAN_IN = 0,
    CADRE_FAN_OUT = 1,
    CADRE_FAN_AVERAGE = 2, /* the mean of both */
} cadre_fan_t;

/* Gives the initializer for a variable of this shape whose numbers have the variance
 * `scale` / max(1, fan): Keras' VarianceScaling. Glorot's kinds are those of scale 1 and
 * CADRE_FAN_AVERAGE, He's of scale 2 and CADRE_FAN_IN, LeCun's of scale 1 and CADRE_FAN_IN.
 *
 * `distribution`: CADRE_INITIALIZER_UNIFORM, of +- sqrt(3 * variance); CADRE_INITIALIZER_NORMAL; or
 * CADRE_INITIALIZER_TRUNCATED_NORMAL, of sqrt(variance) / 0.87962566103423978, so that the variance
 * is that after truncation. fan_in and fan_out of a shape: rank 0: 1; rank 1: the length; rank 2:
 * rows and columns; above, as for the kernel of a convolution: the second to last and the last
 * dimension, each times the product of all before these two.
 *
 * CADRE_EINVALID: another distribution, an unknown fan, a scale that is not above 0 or beyond 1e30,
 *   or a shape that no variable may have. */
CADRE_API int cadre_variance_scaling(double scale, cadre_fan_t fan,
                                     cadre_initializer_kind_t distribution, const int64_t *shape,
                                     int rank, cadre_initializer_t *initializer);

#ifdef __cplusplus
}
#endif
#endif
