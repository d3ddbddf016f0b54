/*
 * elementwise - map1, map2, where, cast.
 *
 * One kernel per function of element.h. All are bound by memory: each element is read once and
 * written once, 16 bytes per thread and access.
 */
#include "worker/device/cuda/functions.cuh"
#include "worker/device/cuda/kernels.h"
#include "worker/device/cuda/walk.cuh"

/* Enqueues a function of one number for every element. */
int
cadre_cuda_map1(const cadre_cuda_operands_t *operands, void *stream)
{
    switch (static_cast<cadre_map1_t>(operands->step->attributes[CADRE_FUNCTION])) {
#define FUNCTION(NAME, number, name, ...)                                                          \
    case CADRE_MAP1_##NAME:                                                                        \
        return launch_map(map1_##name##_t(), operands, stream);
        CADRE_MAP1_LIST(FUNCTION)
#undef FUNCTION
    }
    return CADRE_EINVALID;
}

/* Enqueues a function of two numbers for every element, with inputs broadcast to the output. */
int
cadre_cuda_map2(const cadre_cuda_operands_t *operands, void *stream)
{
    walk_memory_t memory = walk_memory(operands, stream);
    cadre_map2_t number = static_cast<cadre_map2_t>(operands->step->attributes[CADRE_FUNCTION]);
    if (operands->inputs[0]->dtype == CADRE_I32) { /* i32 has no other functions than these two */
        return number == CADRE_MAP2_GT ? launch_walk(map2_gt_i32_t(), memory)
                                       : launch_walk(map2_eq_i32_t(), memory);
    }
    switch (number) {
#define FUNCTION(NAME, number, name, ...)                                                          \
    case CADRE_MAP2_##NAME:                                                                        \
        return launch_walk(map2_##name##_t(), memory);
        CADRE_MAP2_LIST(FUNCTION)
#undef FUNCTION
    }
    return CADRE_EINVALID;
}

int
cadre_cuda_where(const cadre_cuda_operands_t *operands, void *stream)
{
    return launch_walk(where_t(), walk_memory(operands, stream));
}

/* Enqueues the cast of every element to the output's dtype. */
int
cadre_cuda_cast(const cadre_cuda_operands_t *operands, void *stream)
{
    cadre_dtype_t from = operands->inputs[0]->dtype;
    cadre_dtype_t to = operands->out->dtype;
    if (from == to) {
        return to == CADRE_BF16 ? launch_map(copy_half_t(), operands, stream)
                                : launch_map(copy_word_t(), operands, stream);
    }
    if (from == CADRE_F32) {
        return to == CADRE_BF16 ? launch_map(f32_to_bf16_t(), operands, stream)
                                : launch_map(f32_to_i32_t(), operands, stream);
    }
    if (from == CADRE_I32) {
        return to == CADRE_BF16 ? launch_map(i32_to_bf16_t(), operands, stream)
                                : launch_map(i32_to_f32_t(), operands, stream);
    }
    return to == CADRE_F32 ? launch_map(bf16_to_f32_t(), operands, stream)
                           : launch_map(bf16_to_i32_t(), operands, stream);
}
