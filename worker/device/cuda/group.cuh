/*
 * group - per-row reductions by a warp or a block.
 *
 * Each thread first folds its own part of the row. Then the threads (lanes) of a warp exchange
 * parts in a butterfly, so that the order of every sum is fixed and every lane has the result. The
 * warps of a block combine theirs in shared memory.
 *
 * An operation is a type with `part_t` and two device functions: `combine(part_t, part_t)`, which
 * is commutative, and `swap(part_t, lanes)`, which returns the part of the lane whose number
 * differs in the bits of `lanes`.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_GROUP_CUH
#define CADRE_WORKER_DEVICE_CUDA_GROUP_CUH

#include "worker/device/cuda/launch.cuh"

/* A row of up to so many elements is reduced by a warp, a longer one by a block. */
static const int64_t WARP_ROW_MAX = 1024;

template <int threads>
static __device__ __forceinline__ int
group_lane()
{
    return static_cast<int>(threadIdx.x) % threads;
}

/* Returns the row of this thread's group. */
template <int threads>
static __device__ __forceinline__ int64_t
group_row()
{
    return static_cast<int64_t>(blockIdx.x) * (BLOCK / threads) + threadIdx.x / threads;
}

template <typename operation_t>
static __device__ __forceinline__ typename operation_t::part_t
combine_warp(typename operation_t::part_t part)
{
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
        part = operation_t::combine(part, operation_t::swap(part, lanes));
    }
    return part;
}

/* Combines the parts of all threads of a group; every thread gets the result. `shared` has room for
 * WARPS parts and is used for one call in a kernel: a second call could write there while a warp of
 * the first still reads. */
template <typename operation_t, int threads>
static __device__ __forceinline__ typename operation_t::part_t
combine_group(typename operation_t::part_t part, typename operation_t::part_t *shared)
{
    part = combine_warp<operation_t>(part);
    if (threads == WARP) {
        return part;
    }
    if (threadIdx.x % WARP == 0) {
        shared[threadIdx.x / WARP] = part;
    }
    __syncthreads();
    part = shared[0];
    for (int warp = 1; warp < WARPS; warp++) {
        part = operation_t::combine(part, shared[warp]);
    }
    return part;
}

/* ---- operations ---- */

struct group_sum_t {
    typedef float part_t;
    static __device__ __forceinline__ float combine(float left, float right)
    {
        return left + right;
    }
    static __device__ __forceinline__ float swap(float part, int lanes)
    {
        return __shfl_xor_sync(ALL_LANES, part, lanes);
    }
};

/* NaN wins. */
struct group_max_t {
    typedef float part_t;
    static __device__ __forceinline__ float combine(float left, float right)
    {
        return cadre_element_max(left, right);
    }
    static __device__ __forceinline__ float swap(float part, int lanes)
    {
        return __shfl_xor_sync(ALL_LANES, part, lanes);
    }
};

#endif
