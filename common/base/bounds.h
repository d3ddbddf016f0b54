/*
 * bounds - the smaller and the larger of two numbers.
 *
 * Functions and no macro, so that each argument is evaluated once. size_t is a uint64_t where Cadre
 * runs.
 */
#ifndef CADRE_COMMON_BASE_BOUNDS_H
#define CADRE_COMMON_BASE_BOUNDS_H

#include <stdint.h>

static inline uint64_t
cadre_min_u64(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

static inline uint64_t
cadre_max_u64(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

static inline int64_t
cadre_min_i64(int64_t left, int64_t right)
{
    return left < right ? left : right;
}

static inline int64_t
cadre_max_i64(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

static inline int
cadre_min_int(int left, int right)
{
    return left < right ? left : right;
}

static inline int
cadre_max_int(int left, int right)
{
    return left > right ? left : right;
}

#endif
