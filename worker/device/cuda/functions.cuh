/*
 * functions - the functions of elements as types, for kernels that take one as a parameter.
 *
 * Each has `word_t`, what it reads, `out_t`, what it gives, `inputs`, how many, and
 * `apply(const word_t *)`.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_FUNCTIONS_CUH
#define CADRE_WORKER_DEVICE_CUDA_FUNCTIONS_CUH

#include "common/graph/op.h"
#include "worker/device/cuda/launch.cuh"

/* ---- map1 ---- */

#define CADRE_CUDA_MAP1_LIST(X)                                                                    \
    X(NEG, neg)                                                                                    \
    X(EXP, exp)                                                                                    \
    X(LOG, log)                                                                                    \
    X(SQRT, sqrt)                                                                                  \
    X(RSQRT, rsqrt)                                                                                \
    X(RECIP, recip)                                                                                \
    X(SQUARE, square)                                                                              \
    X(ABS, abs)                                                                                    \
    X(SIGN, sign)                                                                                  \
    X(STEP, step)                                                                                  \
    X(RELU, relu)                                                                                  \
    X(SIGMOID, sigmoid)                                                                            \
    X(TANH, tanh)                                                                                  \
    X(GELU, gelu)                                                                                  \
    X(DGELU, dgelu)                                                                                \
    X(SOFTPLUS, softplus)

#define FUNCTION(number, name)                                                                     \
    struct map1_##name##_t {                                                                       \
        typedef float word_t;                                                                      \
        typedef float out_t;                                                                       \
        static const int inputs = 1;                                                               \
        __device__ __forceinline__ float apply(const float *x) const                               \
        {                                                                                          \
            return cadre_element_##name(x[0]);                                                     \
        }                                                                                          \
    };
CADRE_CUDA_MAP1_LIST(FUNCTION)
#undef FUNCTION

/* ---- map2 and where ---- */

#define CADRE_CUDA_MAP2_LIST(X)                                                                    \
    X(ADD, add)                                                                                    \
    X(SUB, sub)                                                                                    \
    X(MUL, mul)                                                                                    \
    X(DIV, div)                                                                                    \
    X(MAX, max)                                                                                    \
    X(MIN, min)                                                                                    \
    X(GT, gt)                                                                                      \
    X(EQ, eq)

CADRE_ELEMENT float
gt_i32(int32_t left, int32_t right)
{
    return left > right ? 1 : 0;
}

CADRE_ELEMENT float
eq_i32(int32_t left, int32_t right)
{
    return left == right ? 1 : 0;
}

#define FUNCTION(name, type, element)                                                              \
    struct name##_t {                                                                              \
        typedef type word_t;                                                                       \
        typedef float out_t;                                                                       \
        static const int inputs = 2;                                                               \
        __device__ __forceinline__ float apply(const type *x) const                                \
        {                                                                                          \
            return element(x[0], x[1]);                                                            \
        }                                                                                          \
    };
FUNCTION(map2_add, float, cadre_element_add)
FUNCTION(map2_sub, float, cadre_element_sub)
FUNCTION(map2_mul, float, cadre_element_mul)
FUNCTION(map2_div, float, cadre_element_div)
FUNCTION(map2_max, float, cadre_element_max)
FUNCTION(map2_min, float, cadre_element_min)
FUNCTION(map2_gt, float, cadre_element_gt)
FUNCTION(map2_eq, float, cadre_element_eq)
FUNCTION(map2_gt_i32, int32_t, gt_i32)
FUNCTION(map2_eq_i32, int32_t, eq_i32)
#undef FUNCTION

struct where_t {
    typedef float word_t;
    typedef float out_t;
    static const int inputs = 3;
    __device__ __forceinline__ float apply(const float *x) const
    {
        return cadre_element_where(x[0], x[1], x[2]);
    }
};

/* ---- cast ---- */

struct copy_word_t {
    typedef uint32_t word_t;
    typedef uint32_t out_t;
    static const int inputs = 1;
    __device__ __forceinline__ uint32_t apply(const uint32_t *x) const
    {
        return x[0];
    }
};

struct copy_half_t {
    typedef uint16_t word_t;
    typedef uint16_t out_t;
    static const int inputs = 1;
    __device__ __forceinline__ uint16_t apply(const uint16_t *x) const
    {
        return x[0];
    }
};

#define FUNCTION(name, from, to, value)                                                            \
    struct name##_t {                                                                              \
        typedef from word_t;                                                                       \
        typedef to out_t;                                                                          \
        static const int inputs = 1;                                                               \
        __device__ __forceinline__ to apply(const from *x) const                                   \
        {                                                                                          \
            return value;                                                                          \
        }                                                                                          \
    };
FUNCTION(i32_to_f32, int32_t, float, static_cast<float>(x[0]))
FUNCTION(i32_to_bf16, int32_t, uint16_t, cadre_element_to_bf16(static_cast<float>(x[0])))
FUNCTION(f32_to_i32, float, int32_t, cadre_element_to_i32(x[0]))
FUNCTION(f32_to_bf16, float, uint16_t, cadre_element_to_bf16(x[0]))
FUNCTION(bf16_to_f32, uint16_t, float, cadre_element_from_bf16(x[0]))
FUNCTION(bf16_to_i32, uint16_t, int32_t, cadre_element_to_i32(cadre_element_from_bf16(x[0])))
#undef FUNCTION

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
