#include "tests/worker/cuda_shim/shim_kernels.h"

#include "worker/device/cuda/launch.cuh"

static unsigned
grid(int blocks)
{
    return static_cast<unsigned>(blocks);
}

static int begun;

static __global__ void
note_order(int *out)
{
    out[blockIdx.x * blockDim.x + threadIdx.x] = begun++;
}

int
shim_kernel_order(int *out, int blocks, int threads)
{
    begun = 0;
    return launch(note_order, grid(blocks), grid(threads), nullptr, out);
}

static __global__ void
reverse(int *out, int with_barrier)
{
    CADRE_SHARED(int, shared, CADRE_SHIM_BLOCK_MAX);
    shared[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (with_barrier) {
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

int
shim_kernel_reverse(int *out, int blocks, int threads, int with_barrier)
{
    return launch(reverse, grid(blocks), grid(threads), nullptr, out, with_barrier);
}

static __global__ void
find_poison(int *out)
{
    CADRE_SHARED(float, shared, CADRE_SHIM_BLOCK_MAX);
    float found = shared[threadIdx.x];
    __syncthreads();
    shared[threadIdx.x] = 1;
    if (found == found) {
        out[blockIdx.x] = 0;
    }
}

int
shim_kernel_finds_poison(int *out, int blocks, int threads)
{
    for (int i = 0; i < blocks; i++) {
        out[i] = 1;
    }
    return launch(find_poison, grid(blocks), grid(threads), nullptr, out);
}

static __global__ void
sum_xor(int *out)
{
    int sum = static_cast<int>(threadIdx.x % WARP);
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

int
shim_kernel_sum_xor(int *out, int blocks, int threads)
{
    return launch(sum_xor, grid(blocks), grid(threads), nullptr, out);
}

static __global__ void
sum_down(int *out)
{
    int sum = static_cast<int>(threadIdx.x % WARP);
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
        sum += __shfl_down_sync(ALL_LANES, sum, lanes);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = __shfl_sync(ALL_LANES, sum, 0);
}

int
shim_kernel_sum_down(int *out, int blocks, int threads)
{
    return launch(sum_down, grid(blocks), grid(threads), nullptr, out);
}

static __global__ void
rank_in_match(const int *key, int *out)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned same = __match_any_sync(ALL_LANES, static_cast<unsigned>(key[at]));
    unsigned before = (1U << threadIdx.x % WARP) - 1;
    out[at] = __popc(same & before);
}

int
shim_kernel_rank_in_match(const int *key, int *out, int blocks, int threads)
{
    return launch(rank_in_match, grid(blocks), grid(threads), nullptr, key, out);
}

static __global__ void
atomic_sum(int *out)
{
    atomicAdd(out, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x));
}

int
shim_kernel_atomic_sum(int *out, int blocks, int threads)
{
    *out = 0;
    return launch(atomic_sum, grid(blocks), grid(threads), nullptr, out);
}

/* ---- faults ---- */

static __global__ void
some_skip_barrier(int *out)
{
    if (threadIdx.x == 3) {
        return;
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}

int
shim_kernel_some_skip_barrier(int *out, int blocks, int threads)
{
    return launch(some_skip_barrier, grid(blocks), grid(threads), nullptr, out);
}

static __global__ void
different_barriers(int *out)
{
    if (threadIdx.x < 5) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

int
shim_kernel_different_barriers(int *out, int blocks, int threads)
{
    return launch(different_barriers, grid(blocks), grid(threads), nullptr, out);
}

static __global__ void
some_skip_shuffle(int *out)
{
    if (threadIdx.x % WARP != 7) {
        __syncwarp();
    }
    out[threadIdx.x] = 1;
}

int
shim_kernel_some_skip_shuffle(int *out, int blocks, int threads)
{
    return launch(some_skip_shuffle, grid(blocks), grid(threads), nullptr, out);
}

static __global__ void
foreign_mask(int *out)
{
    out[threadIdx.x] = __shfl_sync(0x0000ffffU, 1, 0);
}

int
shim_kernel_foreign_mask(int *out, int blocks, int threads)
{
    return launch(foreign_mask, grid(blocks), grid(threads), nullptr, out);
}
