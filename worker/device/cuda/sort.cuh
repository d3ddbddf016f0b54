/*
 * sort - positions of an index in the order of the rows that they name.
 *
 * What a scatter or the gradient of a bag sums into a row lies anywhere in the index. Sorted by
 * row, and within a row by position, it becomes a segment that is summed in a fixed order, without
 * atomics.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_SORT_CUH
#define CADRE_WORKER_DEVICE_CUDA_SORT_CUH

#include "worker/device/cuda/launch.cuh"

struct sort_t {
    const int32_t *index;
    int64_t count; /* at least 1, below 2^31 */
    int64_t rows;  /* an index from here on raises the fault */
    bool padding;  /* -1 is allowed */
    int32_t *fault;
    void *scratch; /* cadre_cuda_sort_scratch(count) bytes, aligned to 256 */
    void *stream;
};

/* Lies in the scratch memory. Entries that name no row come last, under the row `rows`. */
struct sorted_t {
    const uint32_t *rows;
    const uint32_t *positions;
};

/* A multiple of 256. */
size_t cadre_cuda_sort_scratch(int64_t count);

int cadre_cuda_sort(const sort_t &sort, sorted_t *out);

/* Bytes for `count` elements, as a multiple of 256: parts of a scratch memory stay aligned. */
static inline size_t
scratch_part(int64_t count, size_t element_size)
{
    return (static_cast<size_t>(count) * element_size + 255) / 256 * 256;
}

#endif
