/*
 * element_math - exp, log and their kin in f32, written so that a compiler can compute many at
 * once: no branches, no calls, no tables.
 *
 * The C library's functions are exact to the last bit but are called one element at a time, ten to
 * twenty times slower. These are within 2 units in the last place (tested over the whole range),
 * and give the same bits whatever vector length they are compiled for: nothing here may be
 * contracted to fused operations (CMakeLists.txt says so). Infinities, NaN and numbers too small
 * to be normal behave as in the library.
 *
 * Reductions of the range are Cody and Waite's; polynomials were fitted by weighted least squares
 * until the relative error was level over the interval that stands beside each.
 */
#ifndef CADRE_WORKER_DEVICE_ELEMENT_MATH_H
#define CADRE_WORKER_DEVICE_ELEMENT_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t
cadre_math_bits(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float
cadre_math_from_bits(uint32_t bits)
{
    float x = 0;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Returns 2^n, for n in -126..127. */
static inline float
cadre_math_power(int32_t n)
{
    return cadre_math_from_bits((uint32_t)(n + 127) << 23);
}

/* Returns e^x = 2^n e^r with |r| <= log(2) / 2. Adding `magic` rounds x / log(2) to the whole
 * number n, which is then in the lowest bits. The factor 2^n is applied in two steps, since 2^n
 * alone may overflow or underflow. */
static inline float
cadre_math_exp(float x)
{
    const float magic = 0x1.8p23F;
    x = x > 89.0F ? 89.0F : x; /* infinity by rounding */
    x = x < -104.0F ? -104.0F : x;
    float shifted = x * 1.44269504F + magic;
    float whole = shifted - magic;
    float r = (x - whole * 0.693359375F) - whole * -2.12194440e-4F; /* log(2) as a sum of two */
    float p = 0.00138116605F;
    p = p * r + 0.00837013498F;
    p = p * r + 0.0416685268F;
    p = p * r + 0.166665092F;
    p = p * r + 0.49999994F;
    p = p * (r * r) + r + 1;
    int32_t n = x == x ? (int32_t)(cadre_math_bits(shifted) - cadre_math_bits(magic)) : 0;
    int32_t half = n >> 1;
    return p * cadre_math_power(half) * cadre_math_power(n - half);
}

/* Returns log(x) = n log(2) + log(1 + f), where x = 2^n (1 + f) and sqrt(1/2) <= 1 + f <
 * sqrt(2). */
static inline float
cadre_math_log(float x)
{
    const uint32_t root_half = 0x3f3504f3; /* the bits of sqrt(1/2) */
    int32_t tiny = x < 0x1p-126F;          /* subnormal: scaled by 2^23 first */
    uint32_t bits = cadre_math_bits(tiny ? x * 0x1p23F : x) - root_half;
    float n = (float)(((int32_t)bits >> 23) - (tiny ? 23 : 0));
    float f = cadre_math_from_bits((bits & 0x7fffff) + root_half) - 1;
    float p = -0.0763442963F;
    p = p * f + 0.127615497F;
    p = p * f + -0.131601945F;
    p = p * f + 0.142017618F;
    p = p * f + -0.166233569F;
    p = p * f + 0.200012267F;
    p = p * f + -0.250008225F;
    p = p * f + 0.333333313F;
    float square = f * f;
    float result = f + (p * f * square + n * -2.12194440e-4F - 0.5F * square) + n * 0.693359375F;
    result = x == INFINITY ? x : result;
    result = x == 0 ? -INFINITY : result;
    return x >= 0 ? result : NAN;
}

/* Returns log(1 + x) for x in 0..1: it is 2 artanh(s) with s = x / (2 + x) <= 1/3. */
static inline float
cadre_math_log1p_unit(float x)
{
    float s = x / (2 + x);
    float z = s * s;
    float p = 0.242895678F;
    p = p * z + 0.214307368F;
    p = p * z + 0.286165982F;
    p = p * z + 0.39998889F;
    p = p * z + 0.666666746F;
    return 2 * s + s * z * p;
}

/* Returns tanh(x): by a polynomial for |x| up to 0.625, from there on by exp. */
static inline float
cadre_math_tanh(float x)
{
    float size = fabsf(x);
    float z = x * x;
    float p = -0.00570497848F;
    p = p * z + 0.0206390787F;
    p = p * z + -0.0537397116F;
    p = p * z + 0.133314416F;
    p = p * z + -0.333332807F;
    float near = x + x * z * p;
    float far = 1 - 2 / (cadre_math_exp(2 * size) + 1);
    return size < 0.625F ? near : copysignf(far, x);
}

/* Returns erf(x): by a polynomial for |x| up to 1, from there on as 1 - erfc, where the polynomial
 * p is -log(erfc(x)) on 1..4. */
static inline float
cadre_math_erf(float x)
{
    float size = fabsf(x);
    float z = x * x;
    float q = 7.85385419e-05F;
    q = q * z + -0.000801019138F;
    q = q * z + 0.00518832728F;
    q = q * z + -0.026853811F;
    q = q * z + 0.112835854F;
    q = q * z + -0.37612626F;
    q = q * z + 0.128379166F;
    float near = x + x * q;
    float t = size > 4 ? 4.0F : size;
    float p = -0.000186380086F;
    p = p * t + 0.00294766692F;
    p = p * t + -0.0218380969F;
    p = p * t + 0.103106819F;
    p = p * t + 0.638144732F;
    p = p * t + 1.12708926F;
    p = p * t + 0.000341512583F;
    float far = 1 - cadre_math_exp(-p);
    return size < 1 ? near : copysignf(far, x);
}

#endif
