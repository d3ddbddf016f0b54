/*
 * functions - the functions of elements as types, for kernels that take one as a template
 * parameter.
 *
 * Each type has `word_t` (the type that it reads), `out_t` (the type of the result), `inputs` (how
 * many arguments) and `apply(const word_t *)`.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_FUNCTIONS_CUH
#define CADRE_WORKER_DEVICE_CUDA_FUNCTIONS_CUH

#include "common/graph/op.h"
#include "worker/device/cuda/launch.cuh"

#define FUNCTION(name, from, to, input_count, value)                                               \
    struct name##_t {                                                                              \
        typedef from word_t;                                                                       \
        typedef to out_t;                                                                          \
        static const int inputs = input_count;                                                     \
        __device__ __forceinline__ to apply(const from *x) const                                   \
        {                                                                                          \
            return value;                                                                          \
        }                                                                                          \
    };

/* ---- map1 ---- */

#define MAP1(NAME, number, name, ...)                                                              \
    FUNCTION(map1_##name, float, float, 1, cadre_element_##name(x[0]))
CADRE_MAP1_LIST(MAP1)
#undef MAP1

/* ---- map2 and where ---- */

#define MAP2(NAME, number, name, ...)                                                              \
    FUNCTION(map2_##name, float, float, 2, cadre_element_##name(x[0], x[1]))
CADRE_MAP2_LIST(MAP2)
#undef MAP2
FUNCTION(map2_gt_i32, int32_t, float, 2, x[0] > x[1] ? 1 : 0)
FUNCTION(map2_eq_i32, int32_t, float, 2, x[0] == x[1] ? 1 : 0)
FUNCTION(where, float, float, 3, cadre_element_where(x[0], x[1], x[2]))

/* A comparison gives f32, every other function what it is given. */
#define MAP2(NAME, number, name, ...)                                                              \
    FUNCTION(map2_##name##_f64, double, decltype(cadre_f64_##name(0, 0)), 2,                       \
             cadre_f64_##name(x[0], x[1]))                                                         \
    FUNCTION(map2_##name##_i64, int64_t, decltype(cadre_i64_##name(0, 0)), 2,                      \
             cadre_i64_##name(x[0], x[1]))
CADRE_MAP2_LIST(MAP2)
#undef MAP2

/* ---- copies of words, by their size ---- */

FUNCTION(copy_half, uint16_t, uint16_t, 1, x[0])
FUNCTION(copy_word, uint32_t, uint32_t, 1, x[0])
FUNCTION(copy_wide, uint64_t, uint64_t, 1, x[0])
#undef FUNCTION

/* ---- cast: every dtype has another C++ type, and bf16 is uint16_t ---- */

template <typename number_t>
static __device__ __forceinline__ void
convert(number_t x, float *out)
{
    *out = static_cast<float>(x);
}

template <typename number_t>
static __device__ __forceinline__ void
convert(number_t x, double *out)
{
    *out = static_cast<double>(x);
}

template <typename number_t>
static __device__ __forceinline__ void
convert(number_t x, uint16_t *out)
{
    *out = cadre_element_to_bf16(static_cast<float>(x));
}

static __device__ __forceinline__ void
convert(int64_t x, int32_t *out)
{
    *out = cadre_i64_to_i32(x);
}

static __device__ __forceinline__ void
convert(float x, int32_t *out)
{
    *out = cadre_element_to_i32(x);
}

static __device__ __forceinline__ void
convert(double x, int32_t *out)
{
    *out = cadre_f64_to_i32(x);
}

static __device__ __forceinline__ void
convert(int32_t x, int64_t *out)
{
    *out = x;
}

static __device__ __forceinline__ void
convert(float x, int64_t *out)
{
    *out = cadre_f64_to_i64(static_cast<double>(x));
}

static __device__ __forceinline__ void
convert(double x, int64_t *out)
{
    *out = cadre_f64_to_i64(x);
}

/* Returns the number that an element is; bf16 is a number as f32. */
template <typename number_t>
static __device__ __forceinline__ number_t
number_of(number_t x)
{
    return x;
}

static __device__ __forceinline__ float
number_of(uint16_t x)
{
    return cadre_element_from_bf16(x);
}

/* Casts between two types that differ. */
template <typename from_t, typename to_t> struct cast_t {
    typedef from_t word_t;
    typedef to_t out_t;
    static const int inputs = 1;
    __device__ __forceinline__ to_t apply(const from_t *x) const
    {
        to_t result;
        convert(number_of(x[0]), &result);
        return result;
    }
};

struct share_t {
    typedef float word_t;
    typedef float out_t;
    static const int inputs = 1;
    float copies;
    __device__ __forceinline__ float apply(const float *x) const
    {
        return x[0] / copies;
    }
};

#endif
