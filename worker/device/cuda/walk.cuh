/*
 * walk - an element kernel over inputs that are broadcast, transposed or sliced.
 *
 * One thread computes one vector of four neighbouring output elements where memory allows, one
 * element elsewhere. It finds its inputs from its number alone, by one division per axis: no loop
 * carries state, and any grid does.
 *
 * A function of elements is a type with `word_t`, `out_t`, `inputs` and a device function
 * `apply(const word_t *)`; its members are the same for all threads.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_WALK_CUH
#define CADRE_WORKER_DEVICE_CUDA_WALK_CUH

#include "worker/device/cuda/divider.cuh"
#include "worker/device/cuda/kernels.h"
#include "worker/device/strided.h"

/* A walk over `count` output elements. Axis 0 needs no divider: when the element's number was
 * divided by all other sizes, the quotient is the index on axis 0. */
template <int inputs, typename divider_t> struct walk_t {
    int rank;
    int64_t count;
    divider_t size[CADRE_PROGRAM_RANK_MAX]; /* the last axis in units of the vector's width */
    int64_t stride[inputs][CADRE_PROGRAM_RANK_MAX];
    const void *data[inputs]; /* first elements */
    void *out;
};

/* Finds the offsets, from their first elements, at which the first `input_count` inputs are read
 * for a unit of `width` output elements. */
template <int width, int inputs, typename divider_t>
static __device__ __forceinline__ void
walk_find(const walk_t<inputs, divider_t> &walk, uint64_t unit, int input_count,
          int64_t (&at)[inputs])
{
    typename divider_t::index_t rest = static_cast<typename divider_t::index_t>(unit);
    for (int axis = walk.rank - 1; axis >= 0; axis--) {
        typename divider_t::index_t index = rest;
        if (axis > 0) {
            rest = divide(walk.size[axis], &index);
        }
        int64_t step = axis == walk.rank - 1 ? width : 1;
        for (int i = 0; i < inputs && i < input_count; i++) {
            at[i] += static_cast<int64_t>(index) * step * walk.stride[i][axis];
        }
    }
}

/* Applies the function to `width` neighbouring output elements per thread. A vector (width > 1)
 * lies within one row, and along that row an input's stride is 1, or 0 where it is broadcast
 * (walk_takes_vectors). */
template <typename function_t, int width, typename divider_t>
static __global__ void
walk_kernel(const __grid_constant__ function_t function,
            const __grid_constant__ walk_t<function_t::inputs, divider_t> walk)
{
    typedef typename function_t::word_t word_t;
    typedef typename function_t::out_t out_t;
    uint64_t unit = unit_index();
    int64_t first = static_cast<int64_t>(unit) * width;
    if (first >= walk.count) {
        return;
    }
    int64_t at[function_t::inputs] = {};
    walk_find<width>(walk, unit, function_t::inputs, at);
    out_t *out = static_cast<out_t *>(walk.out) + first;
    if (width == VECTOR && first + VECTOR <= walk.count) {
        vector_t<word_t> in[function_t::inputs];
        for (int i = 0; i < function_t::inputs; i++) {
            const word_t *data = static_cast<const word_t *>(walk.data[i]) + at[i];
            if (walk.stride[i][walk.rank - 1] == 1) {
                in[i] = *reinterpret_cast<const vector_t<word_t> *>(data);
            } else {
                in[i] = {{*data, *data, *data, *data}};
            }
        }
        vector_t<out_t> results;
        for (int k = 0; k < VECTOR; k++) {
            word_t words[function_t::inputs];
            for (int i = 0; i < function_t::inputs; i++) {
                words[i] = in[i].words[k];
            }
            results.words[k] = function.apply(words);
        }
        *reinterpret_cast<vector_t<out_t> *>(out) = results;
        return;
    }
    /* One element (width 1), or the rest of a walk over one axis that is shorter than a vector. */
    for (int k = 0; k < width && first + k < walk.count; k++) {
        word_t words[function_t::inputs];
        for (int i = 0; i < function_t::inputs; i++) {
            words[i] = static_cast<const word_t *>(
                walk.data[i])[at[i] + k * walk.stride[i][walk.rank - 1]];
        }
        out[k] = function.apply(words);
    }
}

/* ---- launching ---- */

/* What a walk reads and writes, from a step's operands. */
struct walk_memory_t {
    const cadre_strided_t *walk;
    int64_t count;
    const void *const *data;
    void *out;
    void *stream;
};

static inline walk_memory_t
walk_memory(const cadre_cuda_operands_t *operands, void *stream)
{
    return {&operands->step->walk, operands->out->count, operands->data, operands->out_data,
            stream};
}

/* Returns whether the walk may use vectors, of elements of at most `word_size` bytes: each is
 * aligned to its size and lies within one row. */
static inline bool
walk_takes_vectors(const walk_memory_t &memory, int inputs, size_t word_size = sizeof(float))
{
    const cadre_strided_t *walk = memory.walk;
    int inner = walk->rank - 1;
    if (!is_vector_aligned(memory.out, word_size) ||
        (inner > 0 && walk->size[inner] % VECTOR != 0)) {
        return false;
    }
    for (int i = 0; i < inputs; i++) {
        if (walk->stride[i][inner] == 0) {
            continue;
        }
        if (walk->stride[i][inner] != 1 || !is_vector_aligned(memory.data[i], word_size) ||
            walk->offset[i] % VECTOR != 0) {
            return false;
        }
        for (int axis = 0; axis < inner; axis++) {
            if (walk->stride[i][axis] % VECTOR != 0) {
                return false;
            }
        }
    }
    return true;
}

/* Makes the kernel's parameter for the first `input_count` inputs, whose elements have `word_size`
 * bytes. */
template <int width, int inputs, typename divider_t>
static void
walk_init(walk_t<inputs, divider_t> *self, const walk_memory_t &memory, int input_count,
          int64_t word_size)
{
    const cadre_strided_t *from = memory.walk;
    *self = {};
    self->rank = from->rank;
    self->count = memory.count;
    self->out = memory.out;
    for (int axis = 0; axis < from->rank; axis++) {
        if (axis > 0) {
            int units = axis == from->rank - 1 ? width : 1;
            divider_init(&self->size[axis], from->size[axis] / units);
        }
        for (int i = 0; i < input_count; i++) {
            self->stride[i][axis] = from->stride[i][axis];
        }
    }
    for (int i = 0; i < input_count; i++) {
        self->data[i] = static_cast<const char *>(memory.data[i]) + from->offset[i] * word_size;
    }
}

template <typename divider_t, int width, typename function_t>
static int
launch_walk_sized(const function_t &function, const walk_memory_t &memory)
{
    walk_t<function_t::inputs, divider_t> walk;
    walk_init<width>(&walk, memory, function_t::inputs, sizeof(typename function_t::word_t));
    auto kernel = walk_kernel<function_t, width, divider_t>;
    uint64_t units = (static_cast<uint64_t>(memory.count) + width - 1) / width;
    return launch(kernel, block_count(units), BLOCK, memory.stream, function, walk);
}

/* Computes function(inputs) for each element of the output. */
template <typename function_t>
static int
launch_walk(const function_t &function, const walk_memory_t &memory)
{
    if (memory.count == 0) {
        return 0;
    }
    const size_t word_size = sizeof(typename function_t::word_t);
    const size_t out_size = sizeof(typename function_t::out_t);
    bool vectors =
        walk_takes_vectors(memory, function_t::inputs, word_size > out_size ? word_size : out_size);
    bool small = memory.count <= INT32_MAX;
    if (vectors) {
        return small ? launch_walk_sized<divider32_t, VECTOR>(function, memory)
                     : launch_walk_sized<divider64_t, VECTOR>(function, memory);
    }
    return small ? launch_walk_sized<divider32_t, 1>(function, memory)
                 : launch_walk_sized<divider64_t, 1>(function, memory);
}

/* Computes function(inputs) for each element of the output, where inputs have the output's
 * shape. */
template <typename function_t>
static int
launch_map(const function_t &function, const cadre_cuda_operands_t *operands, void *stream)
{
    cadre_strided_t walk = {};
    walk.rank = 1;
    walk.size[0] = operands->out->count;
    for (int i = 0; i < function_t::inputs; i++) {
        walk.stride[i][0] = 1;
    }
    walk_memory_t memory = walk_memory(operands, stream);
    memory.walk = &walk;
    return launch_walk(function, memory);
}

#endif
