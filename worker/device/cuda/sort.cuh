/*
 * sort - positions of an index in the order of the rows that they name.
 *
 * The entries that a scatter or the gradient of a bag sums into one row stand anywhere in the
 * index. Sorted by row, and within a row by position, they become a segment that is summed in a
 * fixed order: no sum is made by atomics.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_SORT_CUH
#define CADRE_WORKER_DEVICE_CUDA_SORT_CUH

#include "worker/device/cuda/launch.cuh"

struct sort_t {
    const int32_t *index;
    int64_t count; /* at least 1, below 2^31 */
    int64_t rows;  /* an index that is not below sets the fault flag */
    bool padding;  /* -1 is allowed, as padding */
    int32_t *fault;
    void *scratch; /* cadre_cuda_sort_scratch(count) bytes, aligned to 256 */
    void *stream;
};

/* The result, in the scratch memory. Entries that name no row come last, with row number `rows`. */
struct sorted_t {
    const uint32_t *rows;
    const uint32_t *positions;
};

/* Returns the bytes of scratch memory that sorting takes, a multiple of 256. */
size_t cadre_cuda_sort_scratch(int64_t count);

int cadre_cuda_sort(const sort_t &sort, sorted_t *out);

/* Returns the bytes for `count` elements, rounded up to a multiple of 256, so that what follows in
 * the scratch memory stays aligned. */
static inline size_t
scratch_part(int64_t count, size_t element_size)
{
    return (static_cast<size_t>(count) * element_size + 255) / 256 * 256;
}

#endif
