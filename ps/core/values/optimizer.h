/*
 * optimizer - applies a gradient to values.
 *
 * Formulas are Keras' (keras/src/optimizers/<name>.py), in f32, per element: w value, g gradient,
 * lr learning rate, t the number of this update, from 1. Slots by their names in
 * common/spec/optimizer_spec.h.
 *
 *     sgd       w -= lr g
 *     momentum  m = momentum m - lr g;  w += m                       (SGD with momentum)
 *     nesterov  m = momentum m - lr g;  w += momentum m - lr g       (SGD with nesterov=True)
 *     adagrad   a += g^2;  w -= lr g / sqrt(a + epsilon)
 *     rmsprop   v = rho v + (1 - rho) g^2
 *               centered: a = rho a + (1 - rho) g, and max(v - a^2, 0) in the place of v below
 *               d = lr g / sqrt(v + epsilon)
 *               with momentum: m = momentum m + d, w -= m;  else w -= d
 *     adam      m += (g - m) (1 - beta_1);  v += (g^2 - v) (1 - beta_2)
 *               w -= m alpha / (sqrt(v) + epsilon),
 *               alpha = lr sqrt(1 - beta_2^t) / (1 - beta_1^t)
 *     adamw     w -= w weight_decay lr, then adam
 *     ftrl      n = accumulator, z = linear, p = -learning_rate_power, n' = n + g^2
 *               z += g + 2 l2_shrinkage w - (n'^p - n^p) / lr w
 *               w = (clip(z, -l1, l1) - z) / (n'^p / lr + 2 l2 + beta / lr);  n = n'
 *     delayed_nesterov, with n = delay, s = gradient_sum (Liu and others 2024, "Asynchronous
 *               local-SGD training for language modeling", algorithm 3 with c = 0)
 *               s += g
 *               when t is a multiple of n: m = momentum m + s / n;  s = 0;
 *                                          w -= lr (momentum m + g / n)
 *               else w -= lr g / n
 *     add       w += g, in the values' own type; integers wrap around
 *
 * With a schedule lr is its rate after t - 1 updates (common/spec/schedule_spec.h).
 *
 * Where a late gradient is compensated, and where one is clipped, ps/core/partition.c does it
 * before, in this order. With lambda = delay_compensation, u the value that the gradient was
 * computed from (Zheng and others 2017, "Asynchronous stochastic gradient descent with delay
 * compensation", algorithm 2):
 *
 *     g += lambda g^2 (w - u)
 *
 * Where Keras divides 0 by 0 (ftrl with nothing accumulated and no regularisation) w becomes 0, and
 * the max() of a centered rmsprop keeps rounding from taking the root of a negative number; exact
 * arithmetic has neither. alpha is computed in double.
 *
 * Owner:   whoever holds the struct (plain data).
 * Thread:  immutable after init, but for the schedule, which its owner may change between updates.
 */
#ifndef CADRE_PS_CORE_VALUES_OPTIMIZER_H
#define CADRE_PS_CORE_VALUES_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/spec/optimizer_spec.h"

typedef struct {
    cadre_optimizer_spec_t spec;
    cadre_dtype_t dtype;
    size_t slot_count;
} cadre_ps_optimizer_t;

/* Consecutive elements of a variable, to which an update is applied. An output may be the same
 * pointer as its input, else it must not overlap any input or output. Values and slots are aligned
 * for their type, the gradient need not be. */
typedef struct {
    size_t count; /* elements */
    const void *gradient;
    const void *value_in;
    void *value_out;
    const float *slots_in[CADRE_OPTIMIZER_SLOTS_MAX];
    float *slots_out[CADRE_OPTIMIZER_SLOTS_MAX];
} cadre_optimizer_span_t;

/* Makes a spec ready for variables of this dtype; fails as cadre_optimizer_spec_check does. */
int cadre_optimizer_init(cadre_ps_optimizer_t *self, const cadre_optimizer_spec_t *spec,
                         cadre_dtype_t dtype);

/* Applies update number `step`, from 1. The gradient has the values' dtype and has been checked to
 * be finite. */
void cadre_optimizer_apply(const cadre_ps_optimizer_t *self, uint64_t step,
                           const cadre_optimizer_span_t *span);

/* Returns the learning rate of update number `step`, from 1: that of the schedule, where there is
 * one. */
double cadre_optimizer_rate(const cadre_ps_optimizer_t *self, uint64_t step);

/* Moves the running average, the last slot, toward the values after update number `step`, and
 * overwrites the values with it where that is due; does nothing where no average is kept.
 * Keras (base_optimizer.py): a = m a + (1 - m) w with m = ema_momentum, in the first step 0. */
void cadre_optimizer_average(const cadre_ps_optimizer_t *self, uint64_t step,
                             const cadre_optimizer_span_t *span);

/* Computes value_out = value_in + gradient, or value_in - gradient (`subtract`), for the dtypes
 * that the optimizer `add` takes; ignores the slots. */
void cadre_optimizer_add(cadre_dtype_t dtype, bool subtract, const cadre_optimizer_span_t *span);

/* Gives the optimizer another schedule of its learning rate, which counts from the next update. */
void cadre_optimizer_reschedule(cadre_ps_optimizer_t *self, const cadre_schedule_spec_t *schedule);

#endif
