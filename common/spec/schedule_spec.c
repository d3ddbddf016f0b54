#include "common/spec/schedule_spec.h"

#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/kind.h"

static const double PI = 3.14159265358979323846;

/* Steps are counted in doubles, which hold every whole number up to 2^53. A parameter that has no
 * default (such as decay_steps) has 0 in its place, which is out of its range: the check then
 * refuses a schedule that does not give it. */
#define STEPS_MAX 9007199254740992.0
#define WARMUP                                                                                     \
    {"warmup_steps", 0, 0, STEPS_MAX, false},                                                      \
    {                                                                                              \
        "warmup_initial", 0, 0, CADRE_LEARNING_RATE_MAX, false                                     \
    }
#define DECAY_STEPS(name)                                                                          \
    {                                                                                              \
        name, 0, 1, STEPS_MAX, false                                                               \
    }
#define SWITCH(name)                                                                               \
    {                                                                                              \
        name, 0, 0, 1, false                                                                       \
    }

static const cadre_parameter_t constant_parameters[] = {WARMUP};
static const cadre_parameter_t exponential_parameters[] = {
    WARMUP,
    DECAY_STEPS("decay_steps"),
    {"decay_rate", 0, 1e-20, 1e10, false},
    SWITCH("staircase"),
};
static const cadre_parameter_t cosine_parameters[] = {
    WARMUP,
    DECAY_STEPS("decay_steps"),
    {"alpha", 0, 0, 1, false},
};
static const cadre_parameter_t cosine_restarts_parameters[] = {
    WARMUP,
    DECAY_STEPS("first_decay_steps"),
    {"alpha", 0, 0, 1, false},
    {"t_mul", 2, 1, 1e6, false},
    {"m_mul", 1, 0, 1e6, false},
};
static const cadre_parameter_t polynomial_parameters[] = {
    WARMUP,
    DECAY_STEPS("decay_steps"),
    {"end_learning_rate", 0.0001, 0, CADRE_LEARNING_RATE_MAX, false},
    {"power", 1, 0, 1000, false},
    SWITCH("cycle"),
};

#define TABLE(table)                  table, CADRE_COUNT_OF(table)
#define CONSTANT_PARAMETERS           TABLE(constant_parameters)
#define PIECEWISE_CONSTANT_PARAMETERS TABLE(constant_parameters)
#define EXPONENTIAL_PARAMETERS        TABLE(exponential_parameters)
#define INVERSE_TIME_PARAMETERS       TABLE(exponential_parameters)
#define COSINE_PARAMETERS             TABLE(cosine_parameters)
#define COSINE_RESTARTS_PARAMETERS    TABLE(cosine_restarts_parameters)
#define POLYNOMIAL_PARAMETERS         TABLE(polynomial_parameters)

static const cadre_kind_t rows[] = {
#define X(name, number, text) [number] = {text, name##_PARAMETERS},
    CADRE_SCHEDULE_LIST(X)
#undef X
};

/* Which double of the public struct holds the parameter of a name. */
static const cadre_kind_field_t fields[] = {
    {"warmup_steps", offsetof(cadre_schedule_t, warmup_steps)},
    {"warmup_initial", offsetof(cadre_schedule_t, warmup_initial)},
    {"decay_steps", offsetof(cadre_schedule_t, decay_steps)},
    {"first_decay_steps", offsetof(cadre_schedule_t, decay_steps)},
    {"decay_rate", offsetof(cadre_schedule_t, decay_rate)},
    {"alpha", offsetof(cadre_schedule_t, alpha)},
    {"t_mul", offsetof(cadre_schedule_t, t_mul)},
    {"m_mul", offsetof(cadre_schedule_t, m_mul)},
    {"end_learning_rate", offsetof(cadre_schedule_t, end_learning_rate)},
    {"power", offsetof(cadre_schedule_t, power)},
};

static const cadre_kinds_t kinds = {"schedule", rows, CADRE_COUNT_OF(rows), fields,
                                    CADRE_COUNT_OF(fields)};

const char *
cadre_schedule_kind_text(cadre_schedule_kind_t kind)
{
    return cadre_kinds_text(&kinds, kind);
}

size_t
cadre_schedule_parameters(cadre_schedule_kind_t kind, const cadre_parameter_t **table)
{
    return cadre_kinds_parameters(&kinds, kind, table);
}

/* Gives the kind called `text` with its default parameters. */
int
cadre_schedule_spec_parse(cadre_schedule_spec_t *self, const char *text)
{
    cadre_schedule_spec_t spec = {0};
    uint64_t kind = 0;
    int status = cadre_kinds_parse(&kinds, text, &kind, spec.parameters);
    if (status < 0) {
        return status;
    }
    spec.kind = (cadre_schedule_kind_t)kind;
    *self = spec;
    return 0;
}

int
cadre_schedule_spec_find(const cadre_schedule_spec_t *self, const char *name, size_t *position)
{
    return cadre_kinds_find(&kinds, self->kind, name, position);
}

/* Returns the field of the public struct that holds the parameter when it is a bool; NULL for a
 * parameter that is a number. */
static bool *
switch_of(cadre_schedule_t *given, const char *name)
{
    if (strcmp(name, "staircase") == 0) {
        return &given->staircase;
    }
    return strcmp(name, "cycle") == 0 ? &given->cycle : NULL;
}

/* Converts the public struct of a user's program; one that is all 0 stands for no schedule.
 * Parameters that are bools there become 0 or 1. */
int
cadre_schedule_spec_take(cadre_schedule_spec_t *self, const cadre_schedule_t *given)
{
    if (given->kind == 0 && given->boundary_count == 0 && cadre_kinds_is_unset(&kinds, given)) {
        *self = (cadre_schedule_spec_t){0};
        return 0;
    }

    cadre_schedule_spec_t spec = {.kind = given->kind};
    int status = cadre_kinds_take(&kinds, spec.kind, given, spec.parameters);
    if (status < 0) {
        return status;
    }

    cadre_schedule_t copy = *given; /* switch_of wants one that may be written to */
    const cadre_parameter_t *table = NULL;
    size_t count = cadre_schedule_parameters(spec.kind, &table);
    for (size_t i = 0; i < count; i++) {
        const bool *given_switch = switch_of(&copy, table[i].name);
        spec.parameters[i] = given_switch ? *given_switch : spec.parameters[i];
    }

    if (spec.kind == CADRE_SCHEDULE_PIECEWISE_CONSTANT) {
        if (given->boundary_count < 0 || given->boundary_count > CADRE_SCHEDULE_BOUNDARIES_MAX) {
            return cadre_fail(CADRE_EINVALID,
                              "piecewise_constant: %d boundaries are not in 1 to %d",
                              given->boundary_count, CADRE_SCHEDULE_BOUNDARIES_MAX);
        }
        spec.boundary_count = (size_t)given->boundary_count;
        memcpy(spec.boundaries, given->boundaries, spec.boundary_count * sizeof(double));
        memcpy(spec.values, given->values, spec.boundary_count * sizeof(double));
    }
    *self = spec;
    return 0;
}

/* Converts the spec to the public struct, where some parameters are bools (switch_of). */
cadre_schedule_t
cadre_schedule_spec_give(const cadre_schedule_spec_t *self)
{
    cadre_schedule_t given = {.kind = self->kind, .boundary_count = (int)self->boundary_count};
    cadre_kinds_give(&kinds, self->kind, self->parameters, &given);
    memcpy(given.boundaries, self->boundaries, sizeof(given.boundaries));
    memcpy(given.values, self->values, sizeof(given.values));

    const cadre_parameter_t *table = NULL;
    size_t count = cadre_schedule_parameters(self->kind, &table);
    for (size_t i = 0; i < count; i++) {
        bool *given_switch = switch_of(&given, table[i].name);
        if (given_switch) {
            *given_switch = self->parameters[i] != 0;
        }
    }
    return given;
}

/* Writes the schedule's numbers as messages carry them: parameters, boundaries, values. Kind 0 (no
 * schedule) has none. */
size_t
cadre_schedule_spec_encode(const cadre_schedule_spec_t *self,
                           double numbers[CADRE_SCHEDULE_NUMBERS_MAX])
{
    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_schedule_parameters(self->kind, &table);
    const size_t boundaries = self->boundary_count;
    memcpy(numbers, self->parameters, count * sizeof(double));
    memcpy(numbers + count, self->boundaries, boundaries * sizeof(double));
    memcpy(numbers + count + boundaries, self->values, boundaries * sizeof(double));
    return count + 2 * boundaries;
}

/* Reads the schedule that a message carries as a kind and `count` numbers: parameters, then, for
 * piecewise_constant, boundaries and as many values. Kind 0 without numbers is no schedule. */
int
cadre_schedule_spec_decode(cadre_schedule_spec_t *self, uint64_t kind, const double *numbers,
                           size_t count)
{
    cadre_schedule_spec_t spec = {0};
    if (kind == 0 && count == 0) {
        *self = spec;
        return 0;
    }

    const cadre_parameter_t *table = NULL;
    size_t parameters = cadre_kinds_parameters(&kinds, kind, &table);

    /* A count that is wrong for the kind stays as it is: cadre_kinds_decode refuses it. */
    if (kind == CADRE_SCHEDULE_PIECEWISE_CONSTANT && count > parameters &&
        (count - parameters) % 2 == 0 && count <= CADRE_SCHEDULE_NUMBERS_MAX) {
        spec.boundary_count = (count - parameters) / 2;
        if (spec.boundary_count > CADRE_SCHEDULE_BOUNDARIES_MAX) {
            return cadre_fail(CADRE_EMALFORMED, "a schedule of %zu boundaries",
                              spec.boundary_count);
        }
        memcpy(spec.boundaries, numbers + parameters, spec.boundary_count * sizeof(double));
        memcpy(spec.values, numbers + parameters + spec.boundary_count,
               spec.boundary_count * sizeof(double));
        count = parameters;
    }

    int status = cadre_kinds_decode(&kinds, kind, numbers, count, spec.parameters);
    if (status < 0) {
        return status;
    }
    spec.kind = (cadre_schedule_kind_t)kind;
    status = cadre_schedule_spec_check(&spec);
    if (status < 0) {
        return status;
    }
    *self = spec;
    return 0;
}

/* Checks that boundaries (numbers of updates) rise, and that each value is a learning rate. */
static int
check_boundaries(const cadre_schedule_spec_t *self)
{
    if (self->boundary_count == 0) {
        return cadre_fail(CADRE_EINVALID, "piecewise_constant: there are no boundaries");
    }

    double before = -1;
    for (size_t i = 0; i < self->boundary_count; i++) {
        const double boundary = self->boundaries[i];
        if (!(boundary > before && boundary <= STEPS_MAX)) {
            return cadre_fail(CADRE_EINVALID,
                              "piecewise_constant: boundaries must rise and be at least 0; %.15g "
                              "comes after %.15g",
                              boundary, before);
        }
        if (!(self->values[i] >= 0 && self->values[i] <= CADRE_LEARNING_RATE_MAX)) {
            return cadre_fail(CADRE_EINVALID,
                              "piecewise_constant: values must be in [0, %g], not %g",
                              CADRE_LEARNING_RATE_MAX, self->values[i]);
        }
        before = boundary;
    }
    return 0;
}

/* Checks the parameters, those that stand for bools, and the boundaries. */
int
cadre_schedule_spec_check(const cadre_schedule_spec_t *self)
{
    if (self->kind == 0) {
        return 0;
    }
    int status = cadre_kinds_check(&kinds, self->kind, self->parameters);
    if (status < 0) {
        return status;
    }

    const cadre_parameter_t *table = NULL;
    cadre_schedule_t switches = {0}; /* only for switch_of to point into */
    size_t count = cadre_schedule_parameters(self->kind, &table);
    for (size_t i = 0; i < count; i++) {
        const double value = self->parameters[i];
        if (switch_of(&switches, table[i].name) && value != 0 && value != 1) {
            return cadre_fail(CADRE_EINVALID, "%s: %s must be 0 or 1, not %g",
                              cadre_schedule_kind_text(self->kind), table[i].name, value);
        }
    }
    return self->kind == CADRE_SCHEDULE_PIECEWISE_CONSTANT ? check_boundaries(self) : 0;
}

/* Compares as numbers: 0 and -0 are equal. */
static bool
numbers_equal(const double *left, const double *right, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (left[i] != right[i]) {
            return false;
        }
    }
    return true;
}

/* Returns whether two schedules have the same kind and the same numbers. */
bool
cadre_schedule_spec_equal(const cadre_schedule_spec_t *left, const cadre_schedule_spec_t *right)
{
    double lefts[CADRE_SCHEDULE_NUMBERS_MAX];
    double rights[CADRE_SCHEDULE_NUMBERS_MAX];
    const size_t count = cadre_schedule_spec_encode(left, lefts);
    return left->kind == right->kind && cadre_schedule_spec_encode(right, rights) == count &&
           numbers_equal(lefts, rights, count);
}

/* Adds a boundary behind the last one, so that the rates before it stay as they are. */
int
cadre_schedule_spec_extend(cadre_schedule_spec_t *self, uint64_t updates, double rate)
{
    if (self->kind != 0 && self->kind != CADRE_SCHEDULE_PIECEWISE_CONSTANT) {
        return cadre_fail(CADRE_EINVALID,
                          "the learning rate follows the schedule %s: only one that is constant, "
                          "or piecewise_constant, can be changed",
                          cadre_schedule_kind_text(self->kind));
    }

    if (updates == 0) {
        return cadre_fail(CADRE_EINVALID, "a learning rate can change after the first update, not "
                                          "after 0");
    }

    cadre_schedule_spec_t longer = *self;
    const size_t count = self->boundary_count;
    const double boundary = (double)(updates - 1);
    longer.kind = CADRE_SCHEDULE_PIECEWISE_CONSTANT;
    if (count > 0 && self->boundaries[count - 1] == boundary && self->values[count - 1] == rate) {
        return 0;
    }

    if (count == CADRE_SCHEDULE_BOUNDARIES_MAX) {
        return cadre_fail(CADRE_EFULL, "the learning rate has changed %d times, which is the most",
                          CADRE_SCHEDULE_BOUNDARIES_MAX);
    }

    longer.boundaries[count] = boundary;
    longer.values[count] = rate;
    longer.boundary_count++;
    int status = cadre_schedule_spec_check(&longer);
    if (status < 0) {
        return status;
    }

    *self = longer;
    return 0;
}

/* Returns whether `longer` has the boundaries of `shorter` first, in the same warm-up. No schedule
 * counts as a piecewise_constant one without boundaries. */
bool
cadre_schedule_spec_extends(const cadre_schedule_spec_t *longer,
                            const cadre_schedule_spec_t *shorter)
{
    if (cadre_schedule_spec_equal(longer, shorter)) {
        return true;
    }

    const size_t count = shorter->boundary_count;
    return longer->kind == CADRE_SCHEDULE_PIECEWISE_CONSTANT &&
           (shorter->kind == 0 || shorter->kind == longer->kind) &&
           count < longer->boundary_count &&
           numbers_equal(longer->parameters, shorter->parameters, CADRE_SCHEDULE_PARAMETERS_MAX) &&
           numbers_equal(longer->boundaries, shorter->boundaries, count) &&
           numbers_equal(longer->values, shorter->values, count);
}

/* --- the learning rate at a step --- */

/* Keras' PiecewiseConstantDecay: up to the first boundary, that step included, the rate is
 * `initial`; after boundary i it is values[i]. */
static double
piecewise_constant(const cadre_schedule_spec_t *self, double initial, double step)
{
    double rate = initial;
    for (size_t i = 0; i < self->boundary_count && step > self->boundaries[i]; i++) {
        rate = self->values[i];
    }
    return rate;
}

/* Returns how many times decay_steps have passed, rounded down with `staircase`. exponential and
 * inverse_time have these parameters at the same positions. */
static double
decays(const cadre_schedule_spec_t *self, double step)
{
    double done = step / self->parameters[CADRE_SCHEDULE_DECAY_STEPS];
    return self->parameters[CADRE_EXPONENTIAL_STAIRCASE] != 0 ? floor(done) : done;
}

/* Keras' PolynomialDecay: the rate falls from `initial` to `end` in decay_steps. With `cycle`,
 * decay_steps grows to its next multiple that `step` has not passed, so the rate begins to fall
 * again. */
static double
polynomial(const cadre_schedule_spec_t *self, double initial, double step)
{
    const double end = self->parameters[CADRE_POLYNOMIAL_END];
    double decay_steps = self->parameters[CADRE_SCHEDULE_DECAY_STEPS];
    if (self->parameters[CADRE_POLYNOMIAL_CYCLE] != 0) {
        decay_steps *= step == 0 ? 1 : ceil(step / decay_steps);
    }
    const double done = fmin(step / decay_steps, 1);
    return (initial - end) * pow(1 - done, self->parameters[CADRE_POLYNOMIAL_POWER]) + end;
}

/* Returns `initial` times a half cosine at the fraction `done` of its length. It falls from 1 to
 * `alpha`; `height` scales its part above `alpha`. */
static double
half_cosine(double initial, double height, double done, double alpha)
{
    const double cosine = 0.5 * height * (1 + cos(PI * done));
    return initial * ((1 - alpha) * cosine + alpha);
}

/* Returns the length of the first `count` periods, in lengths of the first period: 1 + t_mul +
 * t_mul^2 and so on. */
static double
periods_length(double t_mul, double count)
{
    return t_mul == 1 ? count : (pow(t_mul, count) - 1) / (t_mul - 1);
}

/* Keras' CosineDecayRestarts: period n, counted from 0, is t_mul^n times as long as the first, and
 * m_mul^n times as high. The logarithm may round to the wrong side just where a period begins: so
 * the number of restarts is corrected by comparing the lengths of the periods. */
static double
cosine_restarts(const cadre_schedule_spec_t *self, double initial, double step)
{
    const double t_mul = self->parameters[CADRE_COSINE_T_MUL];
    const double done = step / self->parameters[CADRE_SCHEDULE_DECAY_STEPS];
    double restarts = floor(t_mul == 1 ? done : log(1 + done * (t_mul - 1)) / log(t_mul));
    if (periods_length(t_mul, restarts) > done) {
        restarts--;
    } else if (periods_length(t_mul, restarts + 1) <= done) {
        restarts++;
    }

    const double in_period =
        (done - periods_length(t_mul, restarts)) / (t_mul == 1 ? 1 : pow(t_mul, restarts));
    const double height = pow(self->parameters[CADRE_COSINE_M_MUL], restarts);
    return half_cosine(initial, height, fmin(in_period, 1), self->parameters[CADRE_COSINE_ALPHA]);
}

/* Returns the learning rate `step` updates after the end of the warm-up, by the formula of the
 * kind. */
static double
rate_of(const cadre_schedule_spec_t *self, double initial, double step)
{
    const double *parameters = self->parameters;
    switch (self->kind) {
    case CADRE_SCHEDULE_CONSTANT:
        return initial;
    case CADRE_SCHEDULE_PIECEWISE_CONSTANT:
        return piecewise_constant(self, initial, step);
    case CADRE_SCHEDULE_EXPONENTIAL:
        return initial * pow(parameters[CADRE_EXPONENTIAL_DECAY_RATE], decays(self, step));
    case CADRE_SCHEDULE_COSINE:
        return half_cosine(initial, 1, fmin(step / parameters[CADRE_SCHEDULE_DECAY_STEPS], 1),
                           parameters[CADRE_COSINE_ALPHA]);
    case CADRE_SCHEDULE_COSINE_RESTARTS:
        return cosine_restarts(self, initial, step);
    case CADRE_SCHEDULE_POLYNOMIAL:
        return polynomial(self, initial, step);
    case CADRE_SCHEDULE_INVERSE_TIME:
        return initial / (1 + parameters[CADRE_EXPONENTIAL_DECAY_RATE] * decays(self, step));
    }
    return initial;
}

/* Returns the learning rate of an update that `steps` others came before. In the warm-up it goes
 * linearly from warmup_initial to `initial`; the schedule's own steps begin after it. */
double
cadre_schedule_spec_rate(const cadre_schedule_spec_t *self, double initial, uint64_t steps)
{
    if (self->kind == 0) {
        return initial;
    }

    const double warmup_steps = self->parameters[CADRE_SCHEDULE_WARMUP_STEPS];
    const double step = (double)steps;
    if (step < warmup_steps) {
        const double from = self->parameters[CADRE_SCHEDULE_WARMUP_INITIAL];
        return from + (initial - from) * (step / warmup_steps);
    }

    const double rate = rate_of(self, initial, step - warmup_steps);
    return fmin(fmax(rate, 0), CADRE_LEARNING_RATE_MAX);
}

/* --- the public API --- */

/* Computes the learning rate for updates of so many rows by the rule. */
int
cadre_scaled_rate(cadre_scale_t rule, double learning_rate, int64_t update_rows, int64_t base_rows,
                  double *rate)
{
    if (update_rows < 1 || base_rows < 1) {
        return cadre_fail(CADRE_EINVALID, "a learning rate is scaled by rows, at least 1, not %lld",
                          (long long)(update_rows < 1 ? update_rows : base_rows));
    }

    const double ratio = (double)update_rows / (double)base_rows;
    switch (rule) {
    case CADRE_SCALE_NONE:
        *rate = learning_rate;
        return 0;
    case CADRE_SCALE_LINEAR:
        *rate = learning_rate * ratio;
        return 0;
    case CADRE_SCALE_SQRT:
        *rate = learning_rate * sqrt(ratio);
        return 0;
    }
    return cadre_fail(CADRE_EINVALID, "%d is no rule of scaling", (int)rule);
}

cadre_schedule_t
cadre_schedule(cadre_schedule_kind_t kind)
{
    cadre_schedule_spec_t spec = {.kind = kind};
    cadre_kinds_defaults(&kinds, kind, spec.parameters);
    return cadre_schedule_spec_give(&spec);
}

/* Gives the public struct for the schedule called `word`, with its defaults. `schedule` may be
 * NULL: the word is only checked. */
int
cadre_schedule_named(const char *word, cadre_schedule_t *schedule)
{
    cadre_schedule_spec_t spec;
    int status = cadre_schedule_spec_parse(&spec, word ? word : "");
    if (status == 0 && schedule) {
        *schedule = cadre_schedule_spec_give(&spec);
    }
    return status;
}

/* Computes the learning rate of an update that `steps` others came before, for a schedule of the
 * user's program, which is checked first. */
int
cadre_schedule_rate(const cadre_schedule_t *schedule, double learning_rate, uint64_t steps,
                    double *rate)
{
    cadre_schedule_spec_t spec;
    int status = cadre_schedule_spec_take(&spec, schedule);
    if (status < 0) {
        return status;
    }
    status = cadre_schedule_spec_check(&spec);
    if (status < 0) {
        return status;
    }
    *rate = cadre_schedule_spec_rate(&spec, learning_rate, steps);
    return 0;
}
