/*
 * launch - included by every kernel file: CUDA, or the shim that stands for it in tests, and the
 * launching of kernels.
 *
 * g++ compiles the CUDA C++ files too (with the shim). So a kernel is launched by a function, not
 * by <<<>>>, and an array shared by a block is declared by a macro; everything else is plain CUDA.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_LAUNCH_CUH
#define CADRE_WORKER_DEVICE_CUDA_LAUNCH_CUH

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#ifdef __CUDACC__

#include <cuda_runtime.h>

/* Declares an array of `count` elements that the threads of a block share; undefined at first. */
#define CADRE_SHARED(type, name, count) __shared__ type name[count]

/* Enqueues a kernel on a cudaStream_t; returns 0, or CADRE_EDEVICE when the launch was refused. */
template <typename... parameters_t, typename... arguments_t>
static inline int
launch(void (*kernel)(parameters_t...), unsigned grid, unsigned block, void *stream,
       const arguments_t &...arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(block);
    config.stream = static_cast<cudaStream_t>(stream);
    cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
    /* Always cleared, so that no later call finds the error of this one. */
    cudaError_t last = cudaGetLastError();
    return error == cudaSuccess && last == cudaSuccess ? 0 : CADRE_EDEVICE;
}

#define CADRE_ELEMENT static __device__ __forceinline__

#else

#include CADRE_KERNEL_SHIM /* what stands for a device: the tests say which header */

#define CADRE_SHARED(type, name, count)                                                            \
    static type name[count];                                                                       \
    static const bool name##_is_known = cadre_shim_shared(name, sizeof(name));                     \
    static_cast<void>(name##_is_known)

template <typename... parameters_t, typename... arguments_t>
static inline int
launch(void (*kernel)(parameters_t...), unsigned grid, unsigned block, void *,
       const arguments_t &...arguments)
{
    auto body = [=] { kernel(arguments...); };
    return cadre_shim_launch(grid, block, body) == 0 ? 0 : CADRE_EDEVICE;
}

#endif

#include "worker/device/element_wide.h"

/* Models are computed in f32: the build of the tests in double has no CUDA device. */
static_assert(sizeof(cadre_real_t) == 4, "a CUDA device computes in f32");

enum {
    WARP = 32,
    BLOCK = 256, /* threads of a block, unless a kernel says otherwise */
    WARPS = BLOCK / WARP,
    VECTOR = 4, /* elements that one thread loads at once: 16 bytes of f32 */
};

/* Four words that are read or written in one access. */
template <typename word_t> struct alignas(VECTOR * sizeof(word_t)) vector_t {
    word_t words[VECTOR];
};

static const unsigned ALL_LANES = 0xffffffffU;

/* Returns how many blocks of BLOCK threads give one thread to each unit; 0, with which every launch
 * fails, when that exceeds the limit of a grid. */
static inline unsigned
block_count(uint64_t units)
{
    uint64_t blocks = (units + BLOCK - 1) / BLOCK;
    return blocks <= INT32_MAX ? static_cast<unsigned>(blocks) : 0;
}

static __device__ __forceinline__ uint64_t
unit_index()
{
    return static_cast<uint64_t>(blockIdx.x) * BLOCK + threadIdx.x;
}

/* Returns whether a pointer is aligned for accesses of VECTOR elements of at most `word_size`
 * bytes. NULL counts as aligned, since it is never read. */
static inline bool
is_vector_aligned(const void *data, size_t word_size = sizeof(float))
{
    return reinterpret_cast<uintptr_t>(data) % (VECTOR * word_size) == 0;
}

#endif
