/*
 * optimizer_kernel - the loops behind ps/core/values/optimizer.h, one per formula, compiled by
 * themselves with -O3.
 *
 * On x86-64 each loop is compiled twice, plain and with AVX2, and the CPU decides at run time. AVX2
 * without FMA rounds like plain code, so a restored shard gets the same bits on another machine
 * (but for ftrl with another power than one half, which follows libm's pow).
 *
 * The rules of cadre_optimizer_span_t hold: an output is the input itself, or overlaps nothing.
 *
 * Thread:  any.
 */
#ifndef CADRE_PS_CORE_VALUES_OPTIMIZER_KERNEL_H
#define CADRE_PS_CORE_VALUES_OPTIMIZER_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Types of numbers that may stand at any address: gradients come from the wire unaligned. */
typedef float cadre_unaligned_f32_t __attribute__((aligned(1), may_alias));
typedef double cadre_unaligned_f64_t __attribute__((aligned(1), may_alias));
typedef uint32_t cadre_unaligned_u32_t __attribute__((aligned(1), may_alias));
typedef uint64_t cadre_unaligned_u64_t __attribute__((aligned(1), may_alias));

typedef struct {
    size_t count;
    const cadre_unaligned_f32_t *gradient;
    const float *value_in;
    float *value_out;
    const float *slots_in[4];
    float *slots_out[4];
} cadre_kernel_span_t;

void cadre_kernel_sgd(const cadre_kernel_span_t *span, float learning_rate);

/* Slot 0: momentum. */
void cadre_kernel_momentum(const cadre_kernel_span_t *span, float learning_rate, float momentum);
void cadre_kernel_nesterov(const cadre_kernel_span_t *span, float learning_rate, float momentum);

/* Applies delayed_nesterov. Slots: momentum, gradient sum. `share` is 1 / delay; `is_last`: this
 * update is the last of `delay` ones, whose mean gradient moves the momentum. */
void cadre_kernel_delayed_nesterov(const cadre_kernel_span_t *span, float learning_rate,
                                   float momentum, float share, bool is_last);

/* Slot 0: accumulator. */
void cadre_kernel_adagrad(const cadre_kernel_span_t *span, float learning_rate, float epsilon);

typedef struct {
    float learning_rate;
    float rho;
    float one_minus_rho;
    float momentum;
    float epsilon;
} cadre_kernel_rmsprop_t;

/* Applies rmsprop. Slots: velocity; then momentum, where the momentum is above 0; then the average
 * gradient, where `centered`. */
void cadre_kernel_rmsprop(const cadre_kernel_span_t *span, const cadre_kernel_rmsprop_t *parameters,
                          bool centered);

typedef struct {
    float alpha;
    float one_minus_beta_1;
    float one_minus_beta_2;
    float epsilon;
    float decay; /* weight decay times learning rate; 0 for adam */
} cadre_kernel_adam_t;

/* Slots: momentum, velocity. */
void cadre_kernel_adam(const cadre_kernel_span_t *span, const cadre_kernel_adam_t *parameters);

typedef struct {
    float learning_rate;
    float power; /* minus learning_rate_power */
    float l1;
    float twice_l2_shrinkage;
    float regularisation; /* 2 l2 + beta / learning_rate */
} cadre_kernel_ftrl_t;

/* Applies ftrl. Slots: accumulator, linear. A power of one half has a loop of its own. */
void cadre_kernel_ftrl(const cadre_kernel_span_t *span, const cadre_kernel_ftrl_t *parameters);

/* Compute out = in + change, or in - change (`subtract`), for `count` elements. */
void cadre_kernel_add_f32(size_t count, const float *in, const void *change, float *out,
                          bool subtract);
void cadre_kernel_add_f64(size_t count, const double *in, const void *change, double *out,
                          bool subtract);
void cadre_kernel_add_u32(size_t count, const uint32_t *in, const void *change, uint32_t *out,
                          bool subtract);
void cadre_kernel_add_u64(size_t count, const uint64_t *in, const void *change, uint64_t *out,
                          bool subtract);

/* Limits each element of `gradient` to -limit and limit, in `out`, which may be the same place. */
void cadre_kernel_clip_f32(size_t count, float limit, const void *gradient, float *out);

/* Computes out = gradient + lambda gradient^2 (value - pulled); `out` may be `gradient`. An element
 * for which that is beyond f32 stays as it came. */
void cadre_kernel_compensate_f32(size_t count, float lambda, const void *gradient,
                                 const float *value, const float *pulled, float *out);

/* Computes average_out = momentum average_in + (1 - momentum) value. */
void cadre_kernel_average_f32(size_t count, double momentum, const float *value,
                              const float *average_in, float *average_out);

/* Compute out = weight * gradient, and sum += weight * gradient: together the weighted sum of
 * several gradients. */
void cadre_kernel_scale_f32(size_t count, float weight, const void *gradient, float *out);
void cadre_kernel_add_scaled_f32(size_t count, float weight, const void *gradient, float *sum);

#endif
