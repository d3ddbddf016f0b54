/*
 * element - the functions of one element that every device computes alike.
 *
 * The number type is one macro: the tests build the CPU device a second time with
 * CADRE_REAL_DOUBLE, because gradient checks separate right from wrong only in double. A device
 * compiler defines CADRE_ELEMENT to mark the functions as its own.
 *
 * NaN stays NaN in each: a comparison alone would turn it into 0 and hide a diverged model.
 */
#ifndef CADRE_WORKER_DEVICE_ELEMENT_H
#define CADRE_WORKER_DEVICE_ELEMENT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef CADRE_REAL_DOUBLE
typedef double cadre_real_t;
#define CADRE_REAL_DTYPE   CADRE_F64
#define CADRE_MATH(name)   name
#define CADRE_REAL(number) number
#else
typedef float cadre_real_t;
#define CADRE_REAL_DTYPE   CADRE_F32
#define CADRE_MATH(name)   name##f
#define CADRE_REAL(number) number##F
#endif

/* On the host in f32: functions that the compiler can vectorise (element_math.h). In double, where
 * the last digits count, and on another device: the math library's. */
#if defined(CADRE_ELEMENT) || defined(CADRE_REAL_DOUBLE)
#define CADRE_ELEMENT_EXP(x)        CADRE_MATH(exp)(x)
#define CADRE_ELEMENT_LOG(x)        CADRE_MATH(log)(x)
#define CADRE_ELEMENT_LOG1P_UNIT(x) CADRE_MATH(log1p)(x)
#define CADRE_ELEMENT_TANH(x)       CADRE_MATH(tanh)(x)
#define CADRE_ELEMENT_ERF(x)        CADRE_MATH(erf)(x)
#else
#include "worker/device/element_math.h"
#define CADRE_ELEMENT_EXP(x)        cadre_math_exp(x)
#define CADRE_ELEMENT_LOG(x)        cadre_math_log(x)
#define CADRE_ELEMENT_LOG1P_UNIT(x) cadre_math_log1p_unit(x)
#define CADRE_ELEMENT_TANH(x)       cadre_math_tanh(x)
#define CADRE_ELEMENT_ERF(x)        cadre_math_erf(x)
#endif

#include "common/tensor/bf16_word.h" /* CADRE_ELEMENT: `static inline` without a device compiler */

CADRE_ELEMENT cadre_real_t
cadre_element_neg(cadre_real_t x)
{
    return -x;
}

CADRE_ELEMENT cadre_real_t
cadre_element_exp(cadre_real_t x)
{
    return CADRE_ELEMENT_EXP(x);
}

CADRE_ELEMENT cadre_real_t
cadre_element_log(cadre_real_t x)
{
    return CADRE_ELEMENT_LOG(x);
}

CADRE_ELEMENT cadre_real_t
cadre_element_sqrt(cadre_real_t x)
{
    return CADRE_MATH(sqrt)(x);
}

CADRE_ELEMENT cadre_real_t
cadre_element_rsqrt(cadre_real_t x)
{
    return 1 / CADRE_MATH(sqrt)(x);
}

CADRE_ELEMENT cadre_real_t
cadre_element_recip(cadre_real_t x)
{
    return 1 / x;
}

CADRE_ELEMENT cadre_real_t
cadre_element_square(cadre_real_t x)
{
    return x * x;
}

CADRE_ELEMENT cadre_real_t
cadre_element_abs(cadre_real_t x)
{
    return CADRE_MATH(fabs)(x);
}

CADRE_ELEMENT cadre_real_t
cadre_element_sign(cadre_real_t x)
{
    if (x > 0) {
        return 1;
    }

    return x < 0 ? -1 : x;
}

CADRE_ELEMENT cadre_real_t
cadre_element_step(cadre_real_t x)
{
    if (x > 0) {
        return 1;
    }

    return x <= 0 ? 0 : x;
}

CADRE_ELEMENT cadre_real_t
cadre_element_relu(cadre_real_t x)
{
    return x < 0 ? 0 : x;
}

CADRE_ELEMENT cadre_real_t
cadre_element_sigmoid(cadre_real_t x)
{
    return 1 / (1 + CADRE_ELEMENT_EXP(-x));
}

CADRE_ELEMENT cadre_real_t
cadre_element_tanh(cadre_real_t x)
{
    return CADRE_ELEMENT_TANH(x);
}

/* Returns x Phi(x), where Phi is the standard normal distribution function. */
CADRE_ELEMENT cadre_real_t
cadre_element_gelu(cadre_real_t x)
{
    const cadre_real_t inverse_root_two = CADRE_REAL(0.70710678118654752440);
    return CADRE_REAL(0.5) * x * (1 + CADRE_ELEMENT_ERF(x * inverse_root_two));
}

/* Returns the derivative of gelu, Phi(x) + x phi(x), where phi is the standard normal density. */
CADRE_ELEMENT cadre_real_t
cadre_element_dgelu(cadre_real_t x)
{
    const cadre_real_t inverse_root_two = CADRE_REAL(0.70710678118654752440);
    const cadre_real_t inverse_root_two_pi = CADRE_REAL(0.39894228040143267794);
    cadre_real_t below = CADRE_REAL(0.5) * (1 + CADRE_ELEMENT_ERF(x * inverse_root_two));
    return below + x * inverse_root_two_pi * CADRE_ELEMENT_EXP(CADRE_REAL(-0.5) * x * x);
}

/* Returns log(1 + exp(x)), computed so that exp cannot overflow. */
CADRE_ELEMENT cadre_real_t
cadre_element_softplus(cadre_real_t x)
{
    return (x > 0 ? x : 0) + CADRE_ELEMENT_LOG1P_UNIT(CADRE_ELEMENT_EXP(-CADRE_MATH(fabs)(x)));
}

CADRE_ELEMENT cadre_real_t
cadre_element_add(cadre_real_t left, cadre_real_t right)
{
    return left + right;
}

CADRE_ELEMENT cadre_real_t
cadre_element_sub(cadre_real_t left, cadre_real_t right)
{
    return left - right;
}

CADRE_ELEMENT cadre_real_t
cadre_element_mul(cadre_real_t left, cadre_real_t right)
{
    return left * right;
}

CADRE_ELEMENT cadre_real_t
cadre_element_div(cadre_real_t left, cadre_real_t right)
{
    return left / right;
}

CADRE_ELEMENT cadre_real_t
cadre_element_max(cadre_real_t left, cadre_real_t right)
{
    return left > right || left != left ? left : right;
}

CADRE_ELEMENT cadre_real_t
cadre_element_min(cadre_real_t left, cadre_real_t right)
{
    return left < right || left != left ? left : right;
}

CADRE_ELEMENT cadre_real_t
cadre_element_gt(cadre_real_t left, cadre_real_t right)
{
    return left > right ? 1 : 0;
}

CADRE_ELEMENT cadre_real_t
cadre_element_eq(cadre_real_t left, cadre_real_t right)
{
    return left == right ? 1 : 0;
}

CADRE_ELEMENT cadre_real_t
cadre_element_where(cadre_real_t condition, cadre_real_t yes, cadre_real_t no)
{
    return condition != 0 ? yes : no;
}

/* ---- casts ---- */

/* Rounds toward zero; a number beyond the range of i32 becomes its end, and NaN becomes 0. */
CADRE_ELEMENT int32_t
cadre_element_to_i32(cadre_real_t x)
{
    bool fits = x > CADRE_REAL(-2147483648.0) && x < CADRE_REAL(2147483648.0);
    int32_t whole = (int32_t)(fits ? x : 0);
    int32_t bound = 0;
    if (x >= 1) {
        bound = INT32_MAX;
    } else if (x <= -1) {
        bound = INT32_MIN;
    }

    return fits ? whole : bound;
}

/* Rounds to the nearest bf16, as common/tensor/bf16_word.h says. */
CADRE_ELEMENT uint16_t
cadre_element_to_bf16(cadre_real_t x)
{
    float rounded = (float)x;
    uint32_t word = 0;
    memcpy(&word, &rounded, sizeof(word));
    return cadre_bf16_word(word);
}

/* bf16 is the upper half of an f32. */
CADRE_ELEMENT cadre_real_t
cadre_element_from_bf16(uint16_t x)
{
    uint32_t word = (uint32_t)x << 16;
    float wide = 0;
    memcpy(&wide, &word, sizeof(wide));
    return wide;
}

#endif
