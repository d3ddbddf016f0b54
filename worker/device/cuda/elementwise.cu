/*
 * elementwise - map1, map2, where, cast.
 *
 * One kernel per function of element.h. All are bound by memory: each element is read once and
 * written once, 16 bytes per thread and access.
 */
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/walk.cuh"

/* ---- map1 ---- */

#define MAP1_LIST(X)                                                                               \
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
MAP1_LIST(FUNCTION)
#undef FUNCTION

int
cadre_cuda_map1(const cadre_cuda_operands_t *operands, void *stream)
{
    int64_t count = operands->out->count;
    switch (static_cast<cadre_map1_t>(operands->step->attributes[CADRE_FUNCTION])) {
#define FUNCTION(number, name)                                                                     \
    case CADRE_MAP1_##number:                                                                      \
        return launch_map(map1_##name##_t(), operands->data, operands->out_data, count, stream);
        MAP1_LIST(FUNCTION)
#undef FUNCTION
    }
    return CADRE_EINVALID;
}

/* ---- map2 and where ---- */

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

static walk_memory_t
memory_of(const cadre_cuda_operands_t *operands, void *stream)
{
    return {&operands->step->walk, operands->out->count, operands->data, operands->out_data,
            stream};
}

int
cadre_cuda_map2(const cadre_cuda_operands_t *operands, void *stream)
{
    walk_memory_t memory = memory_of(operands, stream);
    bool i32 = operands->inputs[0]->dtype == CADRE_I32;
    switch (static_cast<cadre_map2_t>(operands->step->attributes[CADRE_FUNCTION])) {
    case CADRE_MAP2_ADD:
        return launch_walk(map2_add_t(), memory);
    case CADRE_MAP2_SUB:
        return launch_walk(map2_sub_t(), memory);
    case CADRE_MAP2_MUL:
        return launch_walk(map2_mul_t(), memory);
    case CADRE_MAP2_DIV:
        return launch_walk(map2_div_t(), memory);
    case CADRE_MAP2_MAX:
        return launch_walk(map2_max_t(), memory);
    case CADRE_MAP2_MIN:
        return launch_walk(map2_min_t(), memory);
    case CADRE_MAP2_GT:
        return i32 ? launch_walk(map2_gt_i32_t(), memory) : launch_walk(map2_gt_t(), memory);
    case CADRE_MAP2_EQ:
        return i32 ? launch_walk(map2_eq_i32_t(), memory) : launch_walk(map2_eq_t(), memory);
    }
    return CADRE_EINVALID;
}

int
cadre_cuda_where(const cadre_cuda_operands_t *operands, void *stream)
{
    return launch_walk(where_t(), memory_of(operands, stream));
}

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

struct cast_to_f32_t {
    typedef int32_t word_t;
    typedef float out_t;
    static const int inputs = 1;
    __device__ __forceinline__ float apply(const int32_t *x) const
    {
        return static_cast<float>(x[0]);
    }
};

/* Toward zero; what an i32 cannot hold becomes its nearest, and NaN becomes 0. */
struct cast_to_i32_t {
    typedef float word_t;
    typedef int32_t out_t;
    static const int inputs = 1;
    __device__ __forceinline__ int32_t apply(const float *x) const
    {
        if (!(x[0] > -2147483648.0F)) {
            return x[0] != x[0] ? 0 : INT32_MIN;
        }
        return x[0] >= 2147483648.0F ? INT32_MAX : static_cast<int32_t>(x[0]);
    }
};

int
cadre_cuda_cast(const cadre_cuda_operands_t *operands, void *stream)
{
    int64_t count = operands->out->count;
    bool from_i32 = operands->inputs[0]->dtype == CADRE_I32;
    bool to_i32 = operands->out->dtype == CADRE_I32;
    void *out = operands->out_data;
    if (from_i32 && !to_i32) {
        return launch_map(cast_to_f32_t(), operands->data, out, count, stream);
    }
    if (!from_i32 && to_i32) {
        return launch_map(cast_to_i32_t(), operands->data, out, count, stream);
    }
    return launch_map(copy_word_t(), operands->data, out, count, stream);
}
