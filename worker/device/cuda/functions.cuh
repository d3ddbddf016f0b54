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

/* ---- cast ---- */

FUNCTION(copy_word, uint32_t, uint32_t, 1, x[0])
FUNCTION(copy_half, uint16_t, uint16_t, 1, x[0])
FUNCTION(i32_to_f32, int32_t, float, 1, static_cast<float>(x[0]))
FUNCTION(i32_to_bf16, int32_t, uint16_t, 1, cadre_element_to_bf16(static_cast<float>(x[0])))
FUNCTION(f32_to_i32, float, int32_t, 1, cadre_element_to_i32(x[0]))
FUNCTION(f32_to_bf16, float, uint16_t, 1, cadre_element_to_bf16(x[0]))
FUNCTION(bf16_to_f32, uint16_t, float, 1, cadre_element_from_bf16(x[0]))
FUNCTION(bf16_to_i32, uint16_t, int32_t, 1, cadre_element_to_i32(cadre_element_from_bf16(x[0])))
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
