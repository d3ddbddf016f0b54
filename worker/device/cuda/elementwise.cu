/*
 * elementwise - map1, map2, where, cast.
 *
 * One kernel per function of element.h. All are bound by memory: each element is read once and
 * written once, 16 bytes per thread and access.
 */
#include "worker/device/cuda/functions.cuh"
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/walk.cuh"

int
cadre_cuda_map1(const cadre_cuda_operands_t *operands, void *stream)
{
    int64_t count = operands->out->count;
    switch (static_cast<cadre_map1_t>(operands->step->attributes[CADRE_FUNCTION])) {
#define FUNCTION(number, name)                                                                     \
    case CADRE_MAP1_##number:                                                                      \
        return launch_map(map1_##name##_t(), operands->data, operands->out_data, count, stream);
        CADRE_CUDA_MAP1_LIST(FUNCTION)
#undef FUNCTION
    }
    return CADRE_EINVALID;
}

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

int
cadre_cuda_cast(const cadre_cuda_operands_t *operands, void *stream)
{
    int64_t count = operands->out->count;
    cadre_dtype_t from = operands->inputs[0]->dtype;
    cadre_dtype_t to = operands->out->dtype;
    const void *const *data = operands->data;
    void *out = operands->out_data;
    if (from == to) {
        return to == CADRE_BF16 ? launch_map(copy_half_t(), data, out, count, stream)
                                : launch_map(copy_word_t(), data, out, count, stream);
    }
    if (from == CADRE_F32) {
        return to == CADRE_BF16 ? launch_map(f32_to_bf16_t(), data, out, count, stream)
                                : launch_map(f32_to_i32_t(), data, out, count, stream);
    }
    if (from == CADRE_I32) {
        return to == CADRE_BF16 ? launch_map(i32_to_bf16_t(), data, out, count, stream)
                                : launch_map(i32_to_f32_t(), data, out, count, stream);
    }
    return to == CADRE_F32 ? launch_map(bf16_to_f32_t(), data, out, count, stream)
                           : launch_map(bf16_to_i32_t(), data, out, count, stream);
}
