#include "ps/core/values/optimizer.h"

#include <math.h>
#include <string.h>

#include "common/base/assert.h"
#include "ps/core/values/optimizer_kernel.h"

/* Checks a spec against the dtype and makes it ready. */
int
cadre_optimizer_init(cadre_ps_optimizer_t *self, const cadre_optimizer_spec_t *spec,
                     cadre_dtype_t dtype)
{
    int status = cadre_optimizer_spec_check(spec, dtype);
    if (status < 0) {
        return status;
    }
    *self = (cadre_ps_optimizer_t){
        .spec = *spec, .dtype = dtype, .slot_count = cadre_optimizer_slot_count(spec)};
    return 0;
}

/* Applies delayed_nesterov: only every `delay` updates the momentum moves. */
static void
apply_delayed_nesterov(const double *parameters, uint64_t step, const cadre_kernel_span_t *span)
{
    const uint64_t delay = (uint64_t)parameters[CADRE_DELAYED_DELAY];
    cadre_kernel_delayed_nesterov(span, (float)parameters[CADRE_LEARNING_RATE],
                                  (float)parameters[CADRE_MOMENTUM_MOMENTUM],
                                  (float)(1 / (double)delay), step % delay == 0);
}

/* Applies rmsprop, with its parameters as f32. */
static void
apply_rmsprop(const double *parameters, const cadre_kernel_span_t *span)
{
    const cadre_kernel_rmsprop_t rmsprop = {
        .learning_rate = (float)parameters[CADRE_LEARNING_RATE],
        .rho = (float)parameters[CADRE_RMSPROP_RHO],
        .one_minus_rho = (float)(1 - parameters[CADRE_RMSPROP_RHO]),
        .momentum = (float)parameters[CADRE_RMSPROP_MOMENTUM],
        .epsilon = (float)parameters[CADRE_RMSPROP_EPSILON],
    };
    cadre_kernel_rmsprop(span, &rmsprop, parameters[CADRE_RMSPROP_CENTERED] > 0);
}

/* Returns the learning rate of update number `step`; never 0 for ftrl with a schedule, since it
 * divides by it. */
double
cadre_optimizer_rate(const cadre_ps_optimizer_t *self, uint64_t step)
{
    const cadre_optimizer_spec_t *spec = &self->spec;
    const double initial = spec->parameters[CADRE_LEARNING_RATE];
    if (spec->schedule.kind == 0) {
        return initial;
    }

    double rate = cadre_schedule_spec_rate(&spec->schedule, initial, step - 1);
    return spec->kind == CADRE_OPTIMIZER_FTRL ? fmax(rate, CADRE_LEARNING_RATE_MIN) : rate;
}

/* Applies adam and adamw: for adam the weight decay is 0. */
static void
apply_adam(const double *parameters, uint64_t step, const cadre_kernel_span_t *span)
{
    double learning_rate = parameters[CADRE_LEARNING_RATE];
    double beta_1 = parameters[CADRE_ADAM_BETA_1];
    double beta_2 = parameters[CADRE_ADAM_BETA_2];
    double t = (double)step;
    const cadre_kernel_adam_t adam = {
        .alpha = (float)(learning_rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t))),
        .one_minus_beta_1 = (float)(1 - beta_1),
        .one_minus_beta_2 = (float)(1 - beta_2),
        .epsilon = (float)parameters[CADRE_ADAM_EPSILON],
        .decay = (float)(parameters[CADRE_ADAMW_WEIGHT_DECAY] * learning_rate),
    };
    cadre_kernel_adam(span, &adam);
}

/* Applies ftrl (follow the regularised leader), with its parameters as f32. */
static void
apply_ftrl(const double *parameters, const cadre_kernel_span_t *span)
{
    double learning_rate = parameters[CADRE_LEARNING_RATE];
    const cadre_kernel_ftrl_t ftrl = {
        .learning_rate = (float)learning_rate,
        .power = (float)-parameters[CADRE_FTRL_LEARNING_RATE_POWER],
        .l1 = (float)parameters[CADRE_FTRL_L1],
        .twice_l2_shrinkage = (float)(2 * parameters[CADRE_FTRL_L2_SHRINKAGE]),
        .regularisation =
            (float)(2 * parameters[CADRE_FTRL_L2] + parameters[CADRE_FTRL_BETA] / learning_rate),
    };
    cadre_kernel_ftrl(span, &ftrl);
}

/* Returns the span with its pointers as f32, which the kernels take. */
static cadre_kernel_span_t
kernel_span(const cadre_optimizer_span_t *span)
{
    cadre_kernel_span_t result = {
        .count = span->count,
        .gradient = span->gradient,
        .value_in = span->value_in,
        .value_out = span->value_out,
    };
    for (size_t i = 0; i < CADRE_OPTIMIZER_SLOTS_MAX; i++) {
        result.slots_in[i] = span->slots_in[i];
        result.slots_out[i] = span->slots_out[i];
    }
    return result;
}

/* Applies update number `step` by the formula of the optimizer; the learning rate is that of its
 * schedule, where it has one. */
void
cadre_optimizer_apply(const cadre_ps_optimizer_t *self, uint64_t step,
                      const cadre_optimizer_span_t *span)
{
    cadre_assert(step > 0);
    double parameters[CADRE_OPTIMIZER_PARAMETERS_MAX];
    memcpy(parameters, self->spec.parameters, sizeof(parameters));
    parameters[CADRE_LEARNING_RATE] = cadre_optimizer_rate(self, step);
    const float learning_rate = (float)parameters[CADRE_LEARNING_RATE];
    const cadre_kernel_span_t kernel = kernel_span(span);
    switch (self->spec.kind) {
    case CADRE_OPTIMIZER_SGD:
        cadre_kernel_sgd(&kernel, learning_rate);
        break;
    case CADRE_OPTIMIZER_MOMENTUM:
        cadre_kernel_momentum(&kernel, learning_rate, (float)parameters[CADRE_MOMENTUM_MOMENTUM]);
        break;
    case CADRE_OPTIMIZER_NESTEROV:
        cadre_kernel_nesterov(&kernel, learning_rate, (float)parameters[CADRE_MOMENTUM_MOMENTUM]);
        break;
    case CADRE_OPTIMIZER_ADAGRAD:
        cadre_kernel_adagrad(&kernel, learning_rate, (float)parameters[CADRE_ADAGRAD_EPSILON]);
        break;
    case CADRE_OPTIMIZER_RMSPROP:
        apply_rmsprop(parameters, &kernel);
        break;
    case CADRE_OPTIMIZER_ADAM:
    case CADRE_OPTIMIZER_ADAMW:
        apply_adam(parameters, step, &kernel);
        break;
    case CADRE_OPTIMIZER_FTRL:
        apply_ftrl(parameters, &kernel);
        break;
    case CADRE_OPTIMIZER_DELAYED_NESTEROV:
        apply_delayed_nesterov(parameters, step, &kernel);
        break;
    case CADRE_OPTIMIZER_ADD:
        cadre_optimizer_add(self->dtype, false, span);
        break;
    }
}

/* Moves the running average, which is the last slot, toward the new values; in the first step it
 * becomes the values. */
void
cadre_optimizer_average(const cadre_ps_optimizer_t *self, uint64_t step,
                        const cadre_optimizer_span_t *span)
{
    const cadre_optimizer_spec_t *spec = &self->spec;
    if (spec->average_momentum == 0) {
        return;
    }

    const size_t slot = self->slot_count - 1;
    float *average = span->slots_out[slot];
    cadre_kernel_average_f32(span->count, step == 1 ? 0 : spec->average_momentum, span->value_out,
                             span->slots_in[slot], average);
    if (spec->average_overwrite > 0 && step % spec->average_overwrite == 0) {
        memcpy(span->value_out, average, span->count * sizeof(*average));
    }
}

/* Adds the gradient to the values, or subtracts it. Integers are added as unsigned ones, so that
 * overflow wraps around. */
void
cadre_optimizer_add(cadre_dtype_t dtype, bool subtract, const cadre_optimizer_span_t *span)
{
    const size_t count = span->count;
    const void *in = span->value_in;
    void *out = span->value_out;
    switch (dtype) {
    case CADRE_F32:
        cadre_kernel_add_f32(count, in, span->gradient, out, subtract);
        break;
    case CADRE_F64:
        cadre_kernel_add_f64(count, in, span->gradient, out, subtract);
        break;
    case CADRE_I32:
        cadre_kernel_add_u32(count, in, span->gradient, out, subtract);
        break;
    case CADRE_I64:
        cadre_kernel_add_u64(count, in, span->gradient, out, subtract);
        break;
    case CADRE_U64:
    case CADRE_U8:
    case CADRE_BF16:
        cadre_assert(dtype == CADRE_F32); /* fails: optimizer specs refuse these dtypes */
    }
}

void
cadre_optimizer_reschedule(cadre_ps_optimizer_t *self, const cadre_schedule_spec_t *schedule)
{
    self->spec.schedule = *schedule;
}
