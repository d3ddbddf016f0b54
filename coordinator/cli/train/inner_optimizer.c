#include "coordinator/cli/train/inner_optimizer.h"

#include <math.h>

#include "common/base/assert.h"

static cadre_node_t
number(const cadre_inner_optimizer_t *self, double value)
{
    return cadre_op_const_f32(self->program, (float)value);
}

static bool
is_adam(const cadre_inner_optimizer_t *self)
{
    return self->spec.kind == CADRE_OPTIMIZER_ADAM || self->spec.kind == CADRE_OPTIMIZER_ADAMW;
}

bool
cadre_inner_optimizer_has(cadre_optimizer_kind_t kind)
{
    return kind == CADRE_OPTIMIZER_SGD || kind == CADRE_OPTIMIZER_MOMENTUM ||
           kind == CADRE_OPTIMIZER_NESTEROV || kind == CADRE_OPTIMIZER_ADAM ||
           kind == CADRE_OPTIMIZER_ADAMW;
}

/* Makes the constant nodes of the optimizer, which all steps and variables share. The rate of adam
 * depends on the step, so cadre_inner_optimizer_step makes it. */
void
cadre_inner_optimizer_begin(cadre_inner_optimizer_t *self, cadre_program_t *program,
                            const cadre_optimizer_spec_t *spec)
{
    cadre_assert(cadre_inner_optimizer_has(spec->kind));
    const double *parameters = spec->parameters;
    *self = (cadre_inner_optimizer_t){.program = program, .spec = *spec};
    if (!is_adam(self)) {
        self->rate = number(self, parameters[CADRE_LEARNING_RATE]);
        self->momentum = number(self, parameters[CADRE_MOMENTUM_MOMENTUM]);
        return;
    }

    self->beta_rests[0] = number(self, 1 - parameters[CADRE_ADAM_BETA_1]);
    self->beta_rests[1] = number(self, 1 - parameters[CADRE_ADAM_BETA_2]);
    self->epsilon = number(self, parameters[CADRE_ADAM_EPSILON]);
    if (spec->kind == CADRE_OPTIMIZER_ADAMW) {
        self->kept = number(self, 1 - parameters[CADRE_ADAMW_WEIGHT_DECAY] *
                                          parameters[CADRE_LEARNING_RATE]);
    }
}

/* Goes on to the next step. For adam and adamw makes its rate: the learning rate with the
 * correction of both moments' bias. */
void
cadre_inner_optimizer_step(cadre_inner_optimizer_t *self)
{
    const double *parameters = self->spec.parameters;
    self->step++;
    if (is_adam(self)) {
        double first = 1 - pow(parameters[CADRE_ADAM_BETA_1], self->step);
        double second = 1 - pow(parameters[CADRE_ADAM_BETA_2], self->step);
        self->rate = number(self, parameters[CADRE_LEARNING_RATE] * sqrt(second) / first);
    }
}

/* Returns the new moment m: momentum m - lr g, where `moved` is lr g. A moment without a node is
 * 0. */
static cadre_node_t
velocity(const cadre_inner_optimizer_t *self, cadre_node_t moment, cadre_node_t moved)
{
    cadre_program_t *program = self->program;
    return moment.id == 0
               ? cadre_op_neg(program, moved)
               : cadre_op_sub(program, cadre_op_mul(program, self->momentum, moment), moved);
}

/* Returns the value after a step of momentum; nesterov adds the moment as it will be after a
 * further step with this gradient. */
static cadre_node_t
apply_momentum(const cadre_inner_optimizer_t *self, cadre_node_t value, cadre_node_t gradient,
               cadre_inner_slots_t *slots)
{
    cadre_program_t *program = self->program;
    cadre_node_t moved = cadre_op_mul(program, self->rate, gradient);
    cadre_node_t moment = velocity(self, slots->moments[0], moved);
    slots->moments[0] = moment;
    if (self->spec.kind == CADRE_OPTIMIZER_NESTEROV) {
        moment = velocity(self, moment, moved);
    }
    return cadre_op_add(program, value, moment);
}

/* Returns m + (x - m) (1 - beta), the running mean m moved toward x; `rest` is 1 - beta. A mean
 * without a node is 0. */
static cadre_node_t
toward(const cadre_inner_optimizer_t *self, cadre_node_t moment, cadre_node_t x, cadre_node_t rest)
{
    cadre_program_t *program = self->program;
    if (moment.id == 0) {
        return cadre_op_mul(program, x, rest);
    }
    cadre_node_t way = cadre_op_mul(program, cadre_op_sub(program, x, moment), rest);
    return cadre_op_add(program, moment, way);
}

/* Returns the value after a step of adam or adamw, whose moments are running means of the gradient
 * and of its square. adamw first shrinks the value (weight decay). */
static cadre_node_t
apply_adam(const cadre_inner_optimizer_t *self, cadre_node_t value, cadre_node_t gradient,
           cadre_inner_slots_t *slots)
{
    cadre_program_t *program = self->program;
    cadre_node_t *moments = slots->moments;
    cadre_node_t square = cadre_op_square(program, gradient);
    moments[0] = toward(self, moments[0], gradient, self->beta_rests[0]);
    moments[1] = toward(self, moments[1], square, self->beta_rests[1]);
    if (self->spec.kind == CADRE_OPTIMIZER_ADAMW) {
        value = cadre_op_mul(program, value, self->kept);
    }

    cadre_node_t size = cadre_op_add(program, cadre_op_sqrt(program, moments[1]), self->epsilon);
    cadre_node_t moved = cadre_op_mul(program, moments[0], self->rate);
    return cadre_op_sub(program, value, cadre_op_div(program, moved, size));
}

/* Returns the value of a variable after this step by its gradient, and updates the variable's
 * slots. */
cadre_node_t
cadre_inner_optimizer_apply(const cadre_inner_optimizer_t *self, cadre_node_t value,
                            cadre_node_t gradient, cadre_inner_slots_t *slots)
{
    if (is_adam(self)) {
        return apply_adam(self, value, gradient, slots);
    }
    if (self->spec.kind != CADRE_OPTIMIZER_SGD) {
        return apply_momentum(self, value, gradient, slots);
    }
    cadre_node_t moved = cadre_op_mul(self->program, self->rate, gradient);
    return cadre_op_sub(self->program, value, moved);
}
