#include "common/graph/inner_optimizer.h"

#include <math.h>

#include "common/graph/program_data.h"
#include "common/spec/optimizer_spec.h"

/* The constant nodes that all steps and variables share, as places in `shared`. */
enum {
    RATE = 0, /* of sgd, momentum and nesterov; that of adam and adamw is another at each step */
    MOMENTUM = 1,

    BETA_1_REST = 0, /* 1 - beta_1; of adam and adamw, like the next */
    BETA_2_REST = 1,
    EPSILON = 2,
    KEPT = 3, /* of adamw: the factor by which a step shrinks a value, 1 - weight_decay lr */
};

static const cadre_node_t none = {0};

/* One step that is being added. */
typedef struct {
    cadre_program_t *program;
    const cadre_optimizer_spec_t *spec;
    const cadre_node_t *shared;
    cadre_node_t rate; /* of this step: for adam and adamw with the correction of both moments */
} step_t;

static bool
is_adam(cadre_optimizer_kind_t kind)
{
    return kind == CADRE_OPTIMIZER_ADAM || kind == CADRE_OPTIMIZER_ADAMW;
}

bool
cadre_inner_optimizer_has(cadre_optimizer_kind_t kind)
{
    return kind == CADRE_OPTIMIZER_SGD || kind == CADRE_OPTIMIZER_MOMENTUM ||
           kind == CADRE_OPTIMIZER_NESTEROV || is_adam(kind);
}

static cadre_node_t
number(cadre_program_t *program, double value)
{
    return cadre_op_const_f32(program, (float)value);
}

/* Makes the shared constants, before the first step. */
static void
make_shared(cadre_program_t *program, const cadre_optimizer_spec_t *spec, cadre_node_t *shared)
{
    const double *parameters = spec->parameters;
    if (!is_adam(spec->kind)) {
        shared[RATE] = number(program, parameters[CADRE_LEARNING_RATE]);
        shared[MOMENTUM] = spec->kind == CADRE_OPTIMIZER_SGD
                               ? none
                               : number(program, parameters[CADRE_MOMENTUM_MOMENTUM]);
        return;
    }

    shared[BETA_1_REST] = number(program, 1 - parameters[CADRE_ADAM_BETA_1]);
    shared[BETA_2_REST] = number(program, 1 - parameters[CADRE_ADAM_BETA_2]);
    shared[EPSILON] = number(program, parameters[CADRE_ADAM_EPSILON]);
    if (spec->kind == CADRE_OPTIMIZER_ADAMW) {
        shared[KEPT] = number(program, 1 - parameters[CADRE_ADAMW_WEIGHT_DECAY] *
                                               parameters[CADRE_LEARNING_RATE]);
    }
}

/* Returns the rate of step number `step`, from 1: for adam and adamw the learning rate with the
 * correction of both moments' bias. */
static cadre_node_t
rate_of(cadre_program_t *program, const cadre_optimizer_spec_t *spec, int step,
        const cadre_node_t *shared)
{
    const double *parameters = spec->parameters;
    if (!is_adam(spec->kind)) {
        return shared[RATE];
    }
    double first = 1 - pow(parameters[CADRE_ADAM_BETA_1], step);
    double second = 1 - pow(parameters[CADRE_ADAM_BETA_2], step);
    return number(program, parameters[CADRE_LEARNING_RATE] * sqrt(second) / first);
}

/* Returns the new moment m: momentum m - lr g, where `moved` is lr g. A moment without a node is
 * 0. */
static cadre_node_t
velocity(const step_t *self, cadre_node_t moment, cadre_node_t moved)
{
    cadre_program_t *program = self->program;
    return moment.id == 0
               ? cadre_op_neg(program, moved)
               : cadre_op_sub(program, cadre_op_mul(program, self->shared[MOMENTUM], moment),
                              moved);
}

/* Returns the value after a step of momentum; nesterov adds the moment as it will be after a
 * further step with this gradient. */
static cadre_node_t
apply_momentum(const step_t *self, cadre_node_t value, cadre_node_t gradient,
               cadre_inner_slots_t *slots)
{
    cadre_program_t *program = self->program;
    cadre_node_t moved = cadre_op_mul(program, self->rate, gradient);
    cadre_node_t moment = velocity(self, slots->moments[0], moved);
    slots->moments[0] = moment;
    if (self->spec->kind == CADRE_OPTIMIZER_NESTEROV) {
        moment = velocity(self, moment, moved);
    }
    return cadre_op_add(program, value, moment);
}

/* Returns m + (x - m) (1 - beta), the running mean m moved toward x; `rest` is 1 - beta. A mean
 * without a node is 0. */
static cadre_node_t
toward(cadre_program_t *program, cadre_node_t moment, cadre_node_t x, cadre_node_t rest)
{
    if (moment.id == 0) {
        return cadre_op_mul(program, x, rest);
    }
    cadre_node_t way = cadre_op_mul(program, cadre_op_sub(program, x, moment), rest);
    return cadre_op_add(program, moment, way);
}

/* Returns the value after a step of adam or adamw, whose moments are running means of the gradient
 * and of its square. adamw first shrinks the value (weight decay). */
static cadre_node_t
apply_adam(const step_t *self, cadre_node_t value, cadre_node_t gradient,
           cadre_inner_slots_t *slots)
{
    cadre_program_t *program = self->program;
    const cadre_node_t *shared = self->shared;
    cadre_node_t *moments = slots->moments;
    cadre_node_t square = cadre_op_square(program, gradient);
    moments[0] = toward(program, moments[0], gradient, shared[BETA_1_REST]);
    moments[1] = toward(program, moments[1], square, shared[BETA_2_REST]);
    if (self->spec->kind == CADRE_OPTIMIZER_ADAMW) {
        value = cadre_op_mul(program, value, shared[KEPT]);
    }

    cadre_node_t size = cadre_op_add(program, cadre_op_sqrt(program, moments[1]), shared[EPSILON]);
    cadre_node_t moved = cadre_op_mul(program, moments[0], self->rate);
    return cadre_op_sub(program, value, cadre_op_div(program, moved, size));
}

/* Returns the value of a variable after the step by its gradient, and updates its slots. */
static cadre_node_t
apply(const step_t *self, cadre_node_t value, cadre_node_t gradient, cadre_inner_slots_t *slots)
{
    if (is_adam(self->spec->kind)) {
        return apply_adam(self, value, gradient, slots);
    }
    if (self->spec->kind != CADRE_OPTIMIZER_SGD) {
        return apply_momentum(self, value, gradient, slots);
    }
    cadre_node_t moved = cadre_op_mul(self->program, self->rate, gradient);
    return cadre_op_sub(self->program, value, moved);
}

/* Reads the optimizer and checks that it can be built of nodes; if not, notes the mistake. */
static bool
take_optimizer(cadre_program_t *program, const cadre_optimizer_t *given,
               cadre_optimizer_spec_t *spec)
{
    int status = cadre_optimizer_spec_take(spec, given);
    status = status < 0 ? status : cadre_optimizer_spec_check(spec, CADRE_F32);
    if (status == 0 && !cadre_inner_optimizer_has(spec->kind)) {
        status =
            cadre_fail(CADRE_EINVALID, "programs can run " CADRE_INNER_OPTIMIZER_WORDS ", not %s",
                       cadre_optimizer_kind_text(spec->kind));
    }
    if (status < 0) {
        cadre_program_mistake(program, cadre_fail_within(status, "inner step"));
    }
    return status == 0;
}

/* Returns whether value and gradient are nodes of one shape, so that neither is broadcast; if not,
 * notes the mistake. */
static bool
check_pair(cadre_program_t *program, cadre_node_t value, cadre_node_t gradient)
{
    if (!cadre_program_has(program, value, "inner step") ||
        !cadre_program_has(program, gradient, "inner step")) {
        return false;
    }
    bool fits = cadre_extents_equal(&cadre_program_at(program, value)->shape,
                                    &cadre_program_at(program, gradient)->shape);
    if (!fits) {
        cadre_program_misfit(program, "inner step", (cadre_named_node_t){"gradient", gradient},
                             (cadre_named_node_t){"value", value});
    }
    return fits;
}

/* Adds the next step for all values. What a mistake leaves out is the empty node. */
void
cadre_op_inner_step(cadre_program_t *self, cadre_inner_optimizer_t *inner, cadre_node_t *values,
                    const cadre_node_t *gradients, cadre_inner_slots_t *slots, int count)
{
    cadre_optimizer_spec_t spec;
    if (!take_optimizer(self, &inner->optimizer, &spec)) {
        return;
    }
    if (inner->step == 0) {
        make_shared(self, &spec, inner->shared);
    }
    inner->step++;
    const step_t step = {.program = self,
                         .spec = &spec,
                         .shared = inner->shared,
                         .rate = rate_of(self, &spec, inner->step, inner->shared)};
    for (int i = 0; i < count; i++) {
        values[i] = check_pair(self, values[i], gradients[i])
                        ? apply(&step, values[i], gradients[i], &slots[i])
                        : none;
    }
}
