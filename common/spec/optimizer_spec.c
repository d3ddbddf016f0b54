#include "common/spec/optimizer_spec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/kind.h"
#include "common/tensor/dtype.h"

/* Each range keeps the f32 arithmetic of ps/core/values/optimizer_kernel.c away from 0/0 and
 * infinity. */
#define LEARNING_RATE(initial)                                                                     \
    {                                                                                              \
        "learning_rate", initial, CADRE_LEARNING_RATE_MIN, CADRE_LEARNING_RATE_MAX, false          \
    }
#define EPSILON                                                                                    \
    {                                                                                              \
        "epsilon", 1e-7, 1e-30, 1e10, false                                                        \
    }

static const cadre_parameter_t sgd_parameters[] = {LEARNING_RATE(0.01)};
static const cadre_parameter_t momentum_parameters[] = {
    LEARNING_RATE(0.01),
    {"momentum", 0.9, 0, 1, false},
};
static const cadre_parameter_t delayed_nesterov_parameters[] = {
    LEARNING_RATE(0.7),
    {"momentum", 0.9, 0, 1, false},
    {"delay", 4, 1, 1e6, false},
};
static const cadre_parameter_t adagrad_parameters[] = {
    LEARNING_RATE(0.001),
    {"initial_accumulator_value", 0.1, 0, 1e30, false},
    EPSILON,
};
static const cadre_parameter_t rmsprop_parameters[] = {
    LEARNING_RATE(0.001),         {"rho", 0.9, 0, 1, false}, {"momentum", 0, 0, 1, false}, EPSILON,
    {"centered", 0, 0, 1, false},
};
/* The parameters of adamw; those of adam are the same without the last one. */
static const cadre_parameter_t adamw_parameters[] = {
    LEARNING_RATE(0.001),
    {"beta_1", 0.9, 0, 1, true},
    {"beta_2", 0.999, 0, 1, true},
    EPSILON,
    {"weight_decay", 0.004, 0, 1e10, false},
};
static const cadre_parameter_t ftrl_parameters[] = {
    LEARNING_RATE(0.001),
    {"learning_rate_power", -0.5, -1, 0, false},
    {"initial_accumulator_value", 0.1, 0, 1e30, false},
    {"l1", 0, 0, 1e10, false},
    {"l2", 0, 0, 1e10, false},
    {"l2_shrinkage", 0, 0, 1e10, false},
    {"beta", 0, 0, 1e10, false},
};

#define SGD_PARAMETERS      sgd_parameters, CADRE_COUNT_OF(sgd_parameters)
#define MOMENTUM_PARAMETERS momentum_parameters, CADRE_COUNT_OF(momentum_parameters)
#define NESTEROV_PARAMETERS MOMENTUM_PARAMETERS
#define ADAGRAD_PARAMETERS  adagrad_parameters, CADRE_COUNT_OF(adagrad_parameters)
#define RMSPROP_PARAMETERS  rmsprop_parameters, CADRE_COUNT_OF(rmsprop_parameters)
#define ADAM_PARAMETERS     adamw_parameters, CADRE_COUNT_OF(adamw_parameters) - 1
#define ADAMW_PARAMETERS    adamw_parameters, CADRE_COUNT_OF(adamw_parameters)
#define FTRL_PARAMETERS     ftrl_parameters, CADRE_COUNT_OF(ftrl_parameters)
#define ADD_PARAMETERS      NULL, 0
#define DELAYED_NESTEROV_PARAMETERS                                                                \
    delayed_nesterov_parameters, CADRE_COUNT_OF(delayed_nesterov_parameters)

static const cadre_kind_t rows[] = {
#define X(name, number, text) [number] = {text, name##_PARAMETERS},
    CADRE_OPTIMIZER_LIST(X)
#undef X
};

#define SGD_SLOTS              NULL
#define MOMENTUM_SLOTS         "momentum_step"
#define NESTEROV_SLOTS         MOMENTUM_SLOTS
#define ADAGRAD_SLOTS          "accumulator"
#define RMSPROP_SLOTS          "velocity", "rmsprop_step", "average_gradient"
#define ADAM_SLOTS             "momentum", "velocity"
#define ADAMW_SLOTS            ADAM_SLOTS
#define FTRL_SLOTS             "accumulator", "linear"
#define ADD_SLOTS              NULL
#define DELAYED_NESTEROV_SLOTS "momentum", "gradient_sum"

/* The names of each optimizer's slots, which are written to checkpoints. A name stands for one
 * quantity: optimizers share it only where each may go on with what the other has summed up. The
 * momentum of adam and delayed_nesterov is one of gradients; that of momentum and nesterov is a
 * step, with its rate, that is added to the values, and rmsprop's one that is taken from them. */
static const char *const slots[][CADRE_OPTIMIZER_SLOTS_MAX] = {
#define X(name, number, text) [number] = {name##_SLOTS},
    CADRE_OPTIMIZER_LIST(X)
#undef X
};

/* Which field of the public struct is which parameter. */
#define FIELD(name) #name, offsetof(cadre_optimizer_t, name)
static const cadre_kind_field_t fields[] = {{FIELD(learning_rate)},
                                            {FIELD(momentum)},
                                            {FIELD(rho)},
                                            {FIELD(delay)},
                                            {FIELD(beta_1)},
                                            {FIELD(beta_2)},
                                            {FIELD(epsilon)},
                                            {FIELD(weight_decay)},
                                            {FIELD(initial_accumulator_value)},
                                            {FIELD(learning_rate_power)},
                                            {FIELD(l1)},
                                            {FIELD(l2)},
                                            {FIELD(l2_shrinkage)},
                                            {FIELD(beta)}};
#undef FIELD

static const cadre_kinds_t kinds = {"optimizer", rows, CADRE_COUNT_OF(rows), fields,
                                    CADRE_COUNT_OF(fields)};

const char *
cadre_optimizer_kind_text(cadre_optimizer_kind_t kind)
{
    return cadre_kinds_text(&kinds, kind);
}

size_t
cadre_optimizer_parameters(cadre_optimizer_kind_t kind, const cadre_parameter_t **table)
{
    return cadre_kinds_parameters(&kinds, kind, table);
}

/* Gives the kind called `text` with its default parameters, without schedule, clipping and average.
 * */
int
cadre_optimizer_spec_parse(cadre_optimizer_spec_t *self, const char *text)
{
    cadre_optimizer_spec_t spec = {0};
    uint64_t kind = 0;
    int status = cadre_kinds_parse(&kinds, text, &kind, spec.parameters);
    if (status < 0) {
        return status;
    }
    spec.kind = (cadre_optimizer_kind_t)kind;
    *self = spec;
    return 0;
}

/* Converts the public struct of a user's program. A struct that is all 0 stands for sgd. `centered`
 * is read apart from the other parameters: it is a bool, they are doubles. */
int
cadre_optimizer_spec_take(cadre_optimizer_spec_t *self, const cadre_optimizer_t *given)
{
    if (given->kind == 0 && !given->centered && cadre_kinds_is_unset(&kinds, given)) {
        return cadre_optimizer_spec_parse(self, "sgd");
    }

    cadre_optimizer_spec_t spec = {.kind = given->kind};
    int status = cadre_kinds_take(&kinds, spec.kind, given, spec.parameters);
    if (status < 0) {
        return status;
    }
    if (spec.kind == CADRE_OPTIMIZER_RMSPROP) {
        spec.parameters[CADRE_RMSPROP_CENTERED] = given->centered;
    }
    *self = spec;
    return 0;
}

/* Converts the spec to the public struct, which has neither schedule nor clipping nor average. */
cadre_optimizer_t
cadre_optimizer_spec_give(const cadre_optimizer_spec_t *self)
{
    cadre_optimizer_t given = {.kind = self->kind};
    cadre_kinds_give(&kinds, self->kind, self->parameters, &given);
    given.centered =
        self->kind == CADRE_OPTIMIZER_RMSPROP && self->parameters[CADRE_RMSPROP_CENTERED] != 0;
    return given;
}

cadre_optimizer_t
cadre_optimizer(cadre_optimizer_kind_t kind)
{
    cadre_optimizer_spec_t spec = {.kind = kind};
    cadre_kinds_defaults(&kinds, kind, spec.parameters);
    return cadre_optimizer_spec_give(&spec);
}

/* Gives the public struct for the optimizer called `word`, with its defaults. `optimizer` may be
 * NULL: the word is only checked. */
int
cadre_optimizer_named(const char *word, cadre_optimizer_t *optimizer)
{
    cadre_optimizer_spec_t spec;
    int status = cadre_optimizer_spec_parse(&spec, word ? word : "");
    if (status == 0 && optimizer) {
        *optimizer = cadre_optimizer_spec_give(&spec);
    }
    return status;
}

/* Sets the parameter called `name`; on failure the spec stays as it was. It is checked as for f32,
 * the one dtype that all optimizers update. */
int
cadre_optimizer_spec_set(cadre_optimizer_spec_t *self, const char *name, double value)
{
    size_t position = 0;
    int status = cadre_kinds_find(&kinds, self->kind, name, &position);
    if (status < 0) {
        return status;
    }
    cadre_optimizer_spec_t changed = *self;
    changed.parameters[position] = value;
    status = cadre_optimizer_spec_check(&changed, CADRE_F32);
    if (status == 0) {
        *self = changed;
    }
    return status;
}

/* Checks what the ranges of single parameters do not say: numbers that must be whole, fields
 * outside the table of parameters, and settings that exclude each other. */
static int
check_together(const cadre_optimizer_spec_t *self)
{
    double centered = self->parameters[CADRE_RMSPROP_CENTERED];
    if (self->kind == CADRE_OPTIMIZER_RMSPROP && centered != 0 && centered != 1) {
        return cadre_fail(CADRE_EINVALID, "rmsprop: centered must be 0 or 1, not %g", centered);
    }
    const double delay = self->parameters[CADRE_DELAYED_DELAY];
    if (self->kind == CADRE_OPTIMIZER_DELAYED_NESTEROV && delay != floor(delay)) {
        return cadre_fail(CADRE_EINVALID, "delayed_nesterov: delay must be a whole number, not %g",
                          delay);
    }
    if (self->kind == CADRE_OPTIMIZER_ADD && self->schedule.kind != 0) {
        return cadre_fail(CADRE_EINVALID, "add has no learning rate, which a schedule changes");
    }
    if (!(self->clip_value >= 0 && self->clip_value <= (double)FLT_MAX)) {
        return cadre_fail(CADRE_EINVALID, "clip_value must be in [0, %g], not %g", (double)FLT_MAX,
                          self->clip_value);
    }
    if (!(self->average_momentum >= 0 && self->average_momentum < 1)) {
        return cadre_fail(CADRE_EINVALID, "average_momentum must be in [0, 1), not %g",
                          self->average_momentum);
    }
    if (self->average_overwrite > 0 && self->average_momentum == 0) {
        return cadre_fail(CADRE_EINVALID, "there is no average to overwrite the values with: "
                                          "average_momentum is 0");
    }
    if (!(self->delay_compensation >= 0 &&
          self->delay_compensation <= CADRE_DELAY_COMPENSATION_MAX)) {
        return cadre_fail(CADRE_EINVALID, "delay_compensation must be in [0, %g], not %g",
                          CADRE_DELAY_COMPENSATION_MAX, self->delay_compensation);
    }
    if (self->kind == CADRE_OPTIMIZER_ADD && self->delay_compensation > 0) {
        return cadre_fail(CADRE_EINVALID, "add takes what is pushed as it is; delay_compensation "
                                          "is for gradients");
    }
    if (self->lazy && (self->average_momentum > 0 || self->delay_compensation > 0)) {
        return cadre_fail(CADRE_EINVALID,
                          "lazy does not go with average_momentum, which changes "
                          "all rows, or delay_compensation, which takes them whole");
    }
    if (self->kind == CADRE_OPTIMIZER_ADD && self->clip_value > 0) {
        return cadre_fail(CADRE_EINVALID, "add takes what is pushed as it is; clip_value is for "
                                          "gradients");
    }
    return 0;
}

/* Reads kind and parameters that came from wire or disk, and checks them. Schedule, clipping and
 * average are none then; the caller sets them. */
int
cadre_optimizer_spec_decode(cadre_optimizer_spec_t *self, uint64_t kind, const double *parameters,
                            size_t count)
{
    cadre_optimizer_spec_t spec = {.kind = (cadre_optimizer_kind_t)kind};
    int status = cadre_kinds_decode(&kinds, kind, parameters, count, spec.parameters);
    if (status < 0) {
        return status;
    }
    status = check_together(&spec);
    if (status < 0) {
        return status;
    }
    *self = spec;
    return 0;
}

/* Checks all values, and that the optimizer updates `dtype`: `add` every dtype that a variable may
 * have, the others f32 only. */
int
cadre_optimizer_spec_check(const cadre_optimizer_spec_t *self, cadre_dtype_t dtype)
{
    bool addable = cadre_dtype_traits(dtype)->is_of_variables;
    if (dtype != CADRE_F32 && !(self->kind == CADRE_OPTIMIZER_ADD && addable)) {
        return cadre_fail(CADRE_EDTYPE, "optimizer %s does not update %s",
                          cadre_optimizer_kind_text(self->kind), cadre_dtype_text(dtype));
    }
    if (dtype != CADRE_F32 && self->average_momentum > 0) {
        return cadre_fail(CADRE_EDTYPE, "an average is of f32, not of %s", cadre_dtype_text(dtype));
    }
    int status = cadre_kinds_check(&kinds, self->kind, self->parameters);
    if (status < 0) {
        return status;
    }
    status = cadre_schedule_spec_check(&self->schedule);
    return status < 0 ? status : check_together(self);
}

/* Returns whether two specs update a variable in the same way. Unused parameters are 0 in both. */
bool
cadre_optimizer_spec_equal(const cadre_optimizer_spec_t *left, const cadre_optimizer_spec_t *right)
{
    for (size_t i = 0; i < CADRE_OPTIMIZER_PARAMETERS_MAX; i++) {
        if (left->parameters[i] != right->parameters[i]) {
            return false;
        }
    }
    return left->kind == right->kind && left->clip_value == right->clip_value &&
           left->average_momentum == right->average_momentum &&
           left->average_overwrite == right->average_overwrite &&
           left->delay_compensation == right->delay_compensation && left->lazy == right->lazy &&
           cadre_schedule_spec_equal(&left->schedule, &right->schedule);
}

/* Returns whether the optimizer keeps the slot at this position of its row in `slots`: two slots of
 * rmsprop exist only with certain parameters. */
static bool
has_slot(const cadre_optimizer_spec_t *self, size_t place)
{
    cadre_assert(self->kind < CADRE_COUNT_OF(slots));
    if (self->kind == CADRE_OPTIMIZER_RMSPROP && place == 1) {
        return self->parameters[CADRE_RMSPROP_MOMENTUM] > 0;
    }
    if (self->kind == CADRE_OPTIMIZER_RMSPROP && place == 2) {
        return self->parameters[CADRE_RMSPROP_CENTERED] > 0;
    }
    return slots[self->kind][place] != NULL;
}

/* Returns how many slots the optimizer keeps for itself, that is, without the running average. */
static size_t
own_slots(const cadre_optimizer_spec_t *self)
{
    size_t count = 0;
    for (size_t place = 0; place < CADRE_OPTIMIZER_SLOTS_MAX; place++) {
        count += has_slot(self, place);
    }
    return count;
}

size_t
cadre_optimizer_slot_count(const cadre_optimizer_spec_t *self)
{
    return own_slots(self) + (self->average_momentum > 0);
}

size_t
cadre_optimizer_average_slot(const cadre_optimizer_spec_t *self)
{
    return own_slots(self);
}

/* Returns the name of a slot, as checkpoints have it. Slots are numbered without gaps: places of
 * the table that this optimizer does not keep are not counted. */
const char *
cadre_optimizer_slot_name(const cadre_optimizer_spec_t *self, size_t slot)
{
    cadre_assert(slot < cadre_optimizer_slot_count(self));
    if (slot == cadre_optimizer_average_slot(self)) {
        return "average";
    }
    for (size_t place = 0; place < CADRE_OPTIMIZER_SLOTS_MAX; place++) {
        if (has_slot(self, place) && slot-- == 0) {
            return slots[self->kind][place];
        }
    }
    return "?";
}

void
cadre_optimizer_slot_names(const cadre_optimizer_spec_t *self, char *text, size_t size_bytes)
{
    const size_t count = cadre_optimizer_slot_count(self);
    snprintf(text, size_bytes, "%s", count > 0 ? "" : "none");
    for (size_t i = 0; i < count; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, size_bytes - at, "%s%s", i > 0 ? ", " : "",
                 cadre_optimizer_slot_name(self, i));
    }
}

/* Returns the number with which each element of a slot begins: adagrad and ftrl have a parameter
 * for their first slot; all others but the average begin with 0. */
float
cadre_optimizer_slot_initial(const cadre_optimizer_spec_t *self, size_t slot)
{
    if (slot == 0 && self->kind == CADRE_OPTIMIZER_ADAGRAD) {
        return (float)self->parameters[CADRE_ADAGRAD_INITIAL_ACCUMULATOR];
    }
    if (slot == 0 && self->kind == CADRE_OPTIMIZER_FTRL) {
        return (float)self->parameters[CADRE_FTRL_INITIAL_ACCUMULATOR];
    }
    return 0;
}

bool
cadre_optimizer_spec_takes_rows(const cadre_optimizer_spec_t *self)
{
    return self->delay_compensation == 0;
}

/* Says of each kind whether an element whose gradient is zero stays; a running average moves. */
bool
cadre_optimizer_spec_rests(const cadre_optimizer_spec_t *self)
{
    if (self->average_momentum > 0) {
        return false;
    }
    switch (self->kind) {
    case CADRE_OPTIMIZER_SGD:
    case CADRE_OPTIMIZER_ADAGRAD:
    case CADRE_OPTIMIZER_ADD:
        return true;
    case CADRE_OPTIMIZER_MOMENTUM:
    case CADRE_OPTIMIZER_NESTEROV:
    case CADRE_OPTIMIZER_RMSPROP:
    case CADRE_OPTIMIZER_ADAM:
    case CADRE_OPTIMIZER_ADAMW:
    case CADRE_OPTIMIZER_FTRL:
    case CADRE_OPTIMIZER_DELAYED_NESTEROV:
        break;
    }
    return self->lazy;
}

bool
cadre_optimizer_spec_counts(const cadre_optimizer_spec_t *self)
{
    return self->schedule.kind != 0 || self->kind == CADRE_OPTIMIZER_ADAM ||
           self->kind == CADRE_OPTIMIZER_ADAMW;
}
