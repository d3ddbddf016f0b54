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

/* Enqueues a function of two numbers of f64. */
static int
map2_f64(cadre_map2_t number, const walk_memory_t &memory)
{
    switch (number) {
#define FUNCTION(NAME, number, name, ...)                                                          \
    case CADRE_MAP2_##NAME:                                                                        \
        return launch_walk(map2_##name##_f64_t(), memory);
        CADRE_MAP2_LIST(FUNCTION)
#undef FUNCTION
    }
    return CADRE_EINVALID;
}

/* Enqueues a function of two numbers of i64. */
static int
map2_i64(cadre_map2_t number, const walk_memory_t &memory)
{
    switch (number) {
#define FUNCTION(NAME, number, name, ...)                                                          \
    case CADRE_MAP2_##NAME:                                                                        \
        return launch_walk(map2_##name##_i64_t(), memory);
        CADRE_MAP2_LIST(FUNCTION)
#undef FUNCTION
    }
    return CADRE_EINVALID;
}

/* Enqueues a function of two numbers of f32. */
static int
map2_f32(cadre_map2_t number, const walk_memory_t &memory)
{
    switch (number) {
#define FUNCTION(NAME, number, name, ...)                                                          \
    case CADRE_MAP2_##NAME:                                                                        \
        return launch_walk(map2_##name##_t(), memory);
        CADRE_MAP2_LIST(FUNCTION)
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
    switch (operands->inputs[0]->dtype) {
    case CADRE_I32: /* it has no other functions than these two */
        return number == CADRE_MAP2_GT ? launch_walk(map2_gt_i32_t(), memory)
                                       : launch_walk(map2_eq_i32_t(), memory);
    case CADRE_F64:
        return map2_f64(number, memory);
    case CADRE_I64:
        return map2_i64(number, memory);
    default:
        return map2_f32(number, memory);
    }
}

/* Chooses between words of 8 bytes, f64 or i64, by a condition of f32: one output element per
 * thread. */
template <typename divider_t>
static __global__ void
choose_wide(const __grid_constant__ walk_t<3, divider_t> walk)
{
    uint64_t unit = unit_index();
    if (static_cast<int64_t>(unit) >= walk.count) {
        return;
    }
    int64_t at[3] = {};
    walk_find<1>(walk, unit, 3, at);
    bool holds = static_cast<const float *>(walk.data[0])[at[0]] != 0;
    static_cast<uint64_t *>(walk.out)[unit] =
        holds ? static_cast<const uint64_t *>(walk.data[1])[at[1]]
              : static_cast<const uint64_t *>(walk.data[2])[at[2]];
}

/* Enqueues the choice. A broadcast walk begins at the first element of each input, so the size of
 * their words does not matter to it. */
template <typename divider_t>
static int
launch_choice(const walk_memory_t &memory)
{
    walk_t<3, divider_t> walk;
    walk_init<1>(&walk, memory, 3, sizeof(uint64_t));
    return launch(choose_wide<divider_t>, block_count(static_cast<uint64_t>(memory.count)), BLOCK,
                  memory.stream, walk);
}

/* Enqueues the choice between two inputs for every element. */
int
cadre_cuda_where(const cadre_cuda_operands_t *operands, void *stream)
{
    walk_memory_t memory = walk_memory(operands, stream);
    if (operands->out->dtype == CADRE_F32) {
        return launch_walk(where_t(), memory);
    }
    if (memory.count == 0) {
        return 0;
    }
    return memory.count <= INT32_MAX ? launch_choice<divider32_t>(memory)
                                     : launch_choice<divider64_t>(memory);
}

/* ---- cast ---- */

/* Enqueues a cast between types, or a copy of words where they are the same. */
template <typename from_t, typename to_t> struct caster_t {
    static int run(const cadre_cuda_operands_t *operands, void *stream)
    {
        return launch_map(cast_t<from_t, to_t>(), operands, stream);
    }
};

template <typename same_t> struct caster_t<same_t, same_t> {
    static int run(const cadre_cuda_operands_t *operands, void *stream)
    {
        switch (sizeof(same_t)) {
        case sizeof(uint16_t):
            return launch_map(copy_half_t(), operands, stream);
        case sizeof(uint32_t):
            return launch_map(copy_word_t(), operands, stream);
        default:
            return launch_map(copy_wide_t(), operands, stream);
        }
    }
};

/* Enqueues the cast of every element from `from_t` to the output's dtype. */
template <typename from_t>
static int
cast_from(const cadre_cuda_operands_t *operands, void *stream)
{
    switch (operands->out->dtype) {
    case CADRE_I32:
        return caster_t<from_t, int32_t>::run(operands, stream);
    case CADRE_I64:
        return caster_t<from_t, int64_t>::run(operands, stream);
    case CADRE_F64:
        return caster_t<from_t, double>::run(operands, stream);
    case CADRE_BF16:
        return caster_t<from_t, uint16_t>::run(operands, stream);
    default:
        return caster_t<from_t, float>::run(operands, stream);
    }
}

/* Enqueues the cast of every element to the output's dtype. */
int
cadre_cuda_cast(const cadre_cuda_operands_t *operands, void *stream)
{
    switch (operands->inputs[0]->dtype) {
    case CADRE_I32:
        return cast_from<int32_t>(operands, stream);
    case CADRE_I64:
        return cast_from<int64_t>(operands, stream);
    case CADRE_F64:
        return cast_from<double>(operands, stream);
    case CADRE_BF16:
        return cast_from<uint16_t>(operands, stream);
    default:
        return cast_from<float>(operands, stream);
    }
}
