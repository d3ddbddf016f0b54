#include "ps/core/values/optimizer_kernel.h"

#include <float.h>
#include <math.h>

#include "common/tensor/clones.h"

/* Tells the compiler that no iteration of a loop reads what another writes: an output is the same
 * array as its input, element by element, or overlaps none. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Applies SGD: value -= learning_rate gradient. */
CADRE_CLONES void
cadre_kernel_sgd(const cadre_kernel_span_t *span, float learning_rate)
{
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        value_out[i] = value_in[i] - learning_rate * gradient[i];
    }
}

/* Applies SGD with momentum: m = momentum m - learning_rate gradient; value += m. */
CADRE_CLONES void
cadre_kernel_momentum(const cadre_kernel_span_t *span, float learning_rate, float momentum)
{
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    const float *momentum_in = span->slots_in[0];
    float *momentum_out = span->slots_out[0];
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float m = momentum * momentum_in[i] - learning_rate * gradient[i];
        momentum_out[i] = m;
        value_out[i] = value_in[i] + m;
    }
}

/* Applies SGD with Nesterov momentum: looks one step of the momentum ahead. */
CADRE_CLONES void
cadre_kernel_nesterov(const cadre_kernel_span_t *span, float learning_rate, float momentum)
{
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    const float *momentum_in = span->slots_in[0];
    float *momentum_out = span->slots_out[0];
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float step = learning_rate * gradient[i];
        float m = momentum * momentum_in[i] - step;
        momentum_out[i] = m;
        value_out[i] = value_in[i] + (momentum * m - step);
    }
}

/* The loop of delayed_nesterov. It is inlined twice, with a constant for `is_last`: once for the
 * update that moves the momentum, once for those before it. */
static inline __attribute__((always_inline)) void
delayed_nesterov(const cadre_kernel_span_t *span, float learning_rate, float momentum, float share,
                 const bool is_last)
{
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    const float *momentum_in = span->slots_in[0];
    float *momentum_out = span->slots_out[0];
    const float *sum_in = span->slots_in[1];
    float *sum_out = span->slots_out[1];
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        float sum = sum_in[i] + g;
        float m = momentum_in[i];
        float step = share * g;
        if (is_last) {
            m = momentum * m + share * sum;
            step += momentum * m;
            sum = 0;
        }
        momentum_out[i] = m;
        sum_out[i] = sum;
        value_out[i] = value_in[i] - learning_rate * step;
    }
}

/* Applies one update of delayed_nesterov, with a loop of its own for the update that moves the
 * momentum. */
CADRE_CLONES void
cadre_kernel_delayed_nesterov(const cadre_kernel_span_t *span, float learning_rate, float momentum,
                              float share, bool is_last)
{
    if (is_last) {
        delayed_nesterov(span, learning_rate, momentum, share, true);
    } else {
        delayed_nesterov(span, learning_rate, momentum, share, false);
    }
}

/* Applies adagrad: divides the step by the root of the sum of all squared gradients. */
CADRE_CLONES void
cadre_kernel_adagrad(const cadre_kernel_span_t *span, float learning_rate, float epsilon)
{
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    const float *accumulator_in = span->slots_in[0];
    float *accumulator_out = span->slots_out[0];
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        float accumulator = accumulator_in[i] + g * g;
        accumulator_out[i] = accumulator;
        value_out[i] = value_in[i] - learning_rate * g / sqrtf(accumulator + epsilon);
    }
}

/* The loop of rmsprop. It is inlined four times, with constants for its two flags, so that none of
 * the four loops tests them. */
static inline __attribute__((always_inline)) void
rmsprop(const cadre_kernel_span_t *span, const cadre_kernel_rmsprop_t *parameters,
        const bool with_momentum, const bool centered)
{
    const cadre_kernel_rmsprop_t p = *parameters;
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    const float *velocity_in = span->slots_in[0];
    float *velocity_out = span->slots_out[0];
    const float *momentum_in = span->slots_in[1];
    float *momentum_out = span->slots_out[1];
    const float *average_in = span->slots_in[with_momentum ? 2 : 1];
    float *average_out = span->slots_out[with_momentum ? 2 : 1];
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        float velocity = p.rho * velocity_in[i] + p.one_minus_rho * (g * g);
        velocity_out[i] = velocity;
        if (centered) {
            float average = p.rho * average_in[i] + p.one_minus_rho * g;
            average_out[i] = average;
            velocity -= average * average;
            velocity = velocity > 0 ? velocity : 0;
        }
        float step = p.learning_rate * g / sqrtf(velocity + p.epsilon);
        if (with_momentum) {
            step += p.momentum * momentum_in[i];
            momentum_out[i] = step;
        }
        value_out[i] = value_in[i] - step;
    }
}

/* Applies rmsprop, by the loop for its two flags. */
CADRE_CLONES void
cadre_kernel_rmsprop(const cadre_kernel_span_t *span, const cadre_kernel_rmsprop_t *parameters,
                     bool centered)
{
    if (parameters->momentum > 0) {
        if (centered) {
            rmsprop(span, parameters, true, true);
        } else {
            rmsprop(span, parameters, true, false);
        }
    } else if (centered) {
        rmsprop(span, parameters, false, true);
    } else {
        rmsprop(span, parameters, false, false);
    }
}

/* Applies adam, whose bias correction is in `alpha`; with a `decay` above 0 it is adamw. */
CADRE_CLONES void
cadre_kernel_adam(const cadre_kernel_span_t *span, const cadre_kernel_adam_t *parameters)
{
    const cadre_kernel_adam_t p = *parameters;
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    const float *momentum_in = span->slots_in[0];
    float *momentum_out = span->slots_out[0];
    const float *velocity_in = span->slots_in[1];
    float *velocity_out = span->slots_out[1];
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        float m = momentum_in[i] + (g - momentum_in[i]) * p.one_minus_beta_1;
        float v = velocity_in[i] + (g * g - velocity_in[i]) * p.one_minus_beta_2;
        momentum_out[i] = m;
        velocity_out[i] = v;
        float w = value_in[i] - value_in[i] * p.decay;
        value_out[i] = w - m * p.alpha / (sqrtf(v) + p.epsilon);
    }
}

/* Returns the new w and sets the new z (optimizer.h), given sigma = (n'^p - n^p) / lr and
 * `quadratic` = n'^p / lr. */
static inline __attribute__((always_inline)) float
ftrl_step(const cadre_kernel_ftrl_t *p, float g, float w, float sigma, float quadratic, float *z)
{
    float linear = *z + (g + p->twice_l2_shrinkage * w) - sigma * w;
    *z = linear;
    float clipped = linear < -p->l1 ? -p->l1 : linear;
    clipped = clipped > p->l1 ? p->l1 : clipped;
    quadratic += p->regularisation;
    return quadratic > 0 ? (clipped - linear) / quadratic : 0;
}

/* Applies ftrl with a power of one half. sqrt(n') - sqrt(n) is computed as
 * g^2 / (sqrt(n') + sqrt(n)), which does not lose digits by cancellation. */
CADRE_CLONES static void
ftrl_root(const cadre_kernel_span_t *span, const cadre_kernel_ftrl_t *parameters)
{
    const cadre_kernel_ftrl_t p = *parameters;
    const size_t count = span->count;
    const cadre_unaligned_f32_t *gradient = span->gradient;
    const float *value_in = span->value_in;
    float *value_out = span->value_out;
    const float *accumulator_in = span->slots_in[0];
    float *accumulator_out = span->slots_out[0];
    const float *linear_in = span->slots_in[1];
    float *linear_out = span->slots_out[1];
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i];
        float n = accumulator_in[i];
        float z = linear_in[i];
        float root_before = sqrtf(n);
        n += g * g;
        float root = sqrtf(n);
        float sum = root + root_before;
        float sigma = g * g / (sum > FLT_MIN ? sum : FLT_MIN) / p.learning_rate;
        float w = ftrl_step(&p, g, value_in[i], sigma, root / p.learning_rate, &z);
        accumulator_out[i] = n;
        linear_out[i] = z;
        value_out[i] = w;
    }
}

/* Applies ftrl with any power; powers and their difference are computed in double. */
static void
ftrl_power(const cadre_kernel_span_t *span, const cadre_kernel_ftrl_t *p)
{
    const double power = (double)p->power;
    const double learning_rate = (double)p->learning_rate;
    for (size_t i = 0; i < span->count; i++) {
        float g = span->gradient[i];
        double n = (double)span->slots_in[0][i];
        double power_before = pow(n, power);
        n += (double)g * (double)g;
        double power_after = pow(n, power);
        float sigma = (float)((power_after - power_before) / learning_rate);
        float z = span->slots_in[1][i];
        span->value_out[i] =
            ftrl_step(p, g, span->value_in[i], sigma, (float)(power_after / learning_rate), &z);
        span->slots_out[0][i] = (float)n;
        span->slots_out[1][i] = z;
    }
}

void
cadre_kernel_ftrl(const cadre_kernel_span_t *span, const cadre_kernel_ftrl_t *parameters)
{
    if (parameters->power == 0.5F) {
        ftrl_root(span, parameters);
    } else {
        ftrl_power(span, parameters);
    }
}

/* Defines the adding of a type: a loop for + and one for -. Integers are added as unsigned ones,
 * for which overflow wraps around. */
#define ADD(suffix, type)                                                                          \
    CADRE_CLONES void cadre_kernel_add_##suffix(size_t count, const type *in, const void *change,  \
                                                type *out, bool subtract)                          \
    {                                                                                              \
        const cadre_unaligned_##suffix##_t *by = change;                                           \
        if (subtract) {                                                                            \
            INDEPENDENT                                                                            \
            for (size_t i = 0; i < count; i++) {                                                   \
                out[i] = in[i] - by[i];                                                            \
            }                                                                                      \
        } else {                                                                                   \
            INDEPENDENT                                                                            \
            for (size_t i = 0; i < count; i++) {                                                   \
                out[i] = in[i] + by[i];                                                            \
            }                                                                                      \
        }                                                                                          \
    }

ADD(f32, float)
ADD(f64, double)
ADD(u32, uint32_t)
ADD(u64, uint64_t)

/* Limits each number of the gradient to -limit and limit. */
CADRE_CLONES void
cadre_kernel_clip_f32(size_t count, float limit, const void *gradient, float *out)
{
    const cadre_unaligned_f32_t *numbers = gradient;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const float above = numbers[i] < -limit ? -limit : numbers[i];
        out[i] = above > limit ? limit : above;
    }
}

/* Compensates a late gradient by what the values have moved since: its square stands for the
 * diagonal of the Hessian. */
CADRE_CLONES void
cadre_kernel_compensate_f32(size_t count, float lambda, const void *gradient, const float *value,
                            const float *pulled, float *out)
{
    const cadre_unaligned_f32_t *in = gradient;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        const float g = in[i];
        const float compensated = g + lambda * g * g * (value[i] - pulled[i]);
        /* false for NaN too, which an infinite square times 0 is */
        out[i] = fabsf(compensated) <= FLT_MAX ? compensated : g;
    }
}

/* Moves a running average toward the values. */
CADRE_CLONES void
cadre_kernel_average_f32(size_t count, double momentum, const float *value, const float *average_in,
                         float *average_out)
{
    const float kept = (float)momentum;
    const float added = (float)(1 - momentum);
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        average_out[i] = kept * average_in[i] + added * value[i];
    }
}

CADRE_CLONES void
cadre_kernel_scale_f32(size_t count, float weight, const void *gradient, float *out)
{
    const cadre_unaligned_f32_t *numbers = gradient;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        out[i] = weight * numbers[i];
    }
}

CADRE_CLONES void
cadre_kernel_add_scaled_f32(size_t count, float weight, const void *gradient, float *sum)
{
    const cadre_unaligned_f32_t *numbers = gradient;
    INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        sum[i] += weight * numbers[i];
    }
}
