/*
 * element_wide - the functions of one element of f64 or i64 that every device computes alike.
 *
 * i64 wraps around: sums and products are taken as unsigned. A quotient rounds toward zero; it is 0
 * where the divisor is 0, as in NumPy, since integers have no NaN. Included from element.h's users,
 * which define CADRE_ELEMENT for another device.
 */
#ifndef CADRE_WORKER_DEVICE_ELEMENT_WIDE_H
#define CADRE_WORKER_DEVICE_ELEMENT_WIDE_H

#include "worker/device/element.h"

/* ---- f64 ---- */

CADRE_ELEMENT double
cadre_f64_add(double left, double right)
{
    return left + right;
}

CADRE_ELEMENT double
cadre_f64_sub(double left, double right)
{
    return left - right;
}

CADRE_ELEMENT double
cadre_f64_mul(double left, double right)
{
    return left * right;
}

CADRE_ELEMENT double
cadre_f64_div(double left, double right)
{
    return left / right;
}

/* NaN wins, as in f32. */
CADRE_ELEMENT double
cadre_f64_max(double left, double right)
{
    return left > right || left != left ? left : right;
}

CADRE_ELEMENT double
cadre_f64_min(double left, double right)
{
    return left < right || left != left ? left : right;
}

CADRE_ELEMENT cadre_real_t
cadre_f64_gt(double left, double right)
{
    return left > right ? 1 : 0;
}

CADRE_ELEMENT cadre_real_t
cadre_f64_eq(double left, double right)
{
    return left == right ? 1 : 0;
}

/* ---- i64 ---- */

CADRE_ELEMENT int64_t
cadre_i64_add(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left + (uint64_t)right);
}

CADRE_ELEMENT int64_t
cadre_i64_sub(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left - (uint64_t)right);
}

CADRE_ELEMENT int64_t
cadre_i64_mul(int64_t left, int64_t right)
{
    return (int64_t)((uint64_t)left * (uint64_t)right);
}

CADRE_ELEMENT int64_t
cadre_i64_div(int64_t left, int64_t right)
{
    if (right == 0) {
        return 0;
    }
    /* The least number has no counterpart: processors trap on its division by -1. */
    return right == -1 ? cadre_i64_sub(0, left) : left / right;
}

CADRE_ELEMENT int64_t
cadre_i64_max(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

CADRE_ELEMENT int64_t
cadre_i64_min(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

CADRE_ELEMENT cadre_real_t
cadre_i64_gt(int64_t left, int64_t right)
{
    return left > right ? 1 : 0;
}

CADRE_ELEMENT cadre_real_t
cadre_i64_eq(int64_t left, int64_t right)
{
    return left == right ? 1 : 0;
}

/* ---- casts: as cadre_element_to_i32, the ends of the range stand for what is beyond it ---- */

CADRE_ELEMENT int32_t
cadre_i64_to_i32(int64_t x)
{
    if (x > INT32_MAX) {
        return INT32_MAX;
    }
    return x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

CADRE_ELEMENT int64_t
cadre_f64_to_i64(double x)
{
    if (x >= 9223372036854775808.0) { /* 2^63 */
        return INT64_MAX;
    }
    if (x < -9223372036854775808.0) {
        return INT64_MIN;
    }
    return x == x ? (int64_t)x : 0;
}

CADRE_ELEMENT int32_t
cadre_f64_to_i32(double x)
{
    return cadre_i64_to_i32(cadre_f64_to_i64(x));
}

#endif
