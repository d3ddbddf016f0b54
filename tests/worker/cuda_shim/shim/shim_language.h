/*
 * shim_language - the words of CUDA C++ that kernels use, on top of shim.h.
 *
 * Only what our kernels need. Warp operations and barriers are macros because the shim tells them
 * apart by file and line.
 *
 * Plain functions without state. C++ only, included by shim.h.
 */
#ifndef CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_SHIM_LANGUAGE_H
#define CADRE_TESTS_WORKER_CUDA_SHIM_SHIM_SHIM_LANGUAGE_H

#include <math.h>
#include <string.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__

#define threadIdx cadre_shim_thread_index
#define blockIdx  cadre_shim_block_index
#define blockDim  cadre_shim_block_size

struct dim3 : cadre_shim_index_t {
    dim3(unsigned x_size = 1, unsigned y_size = 1, unsigned z_size = 1)
        : cadre_shim_index_t{x_size, y_size, z_size}
    {
    }
};

/* ---- launching ---- */

template <typename Body>
static inline int
cadre_shim_launch(dim3 grid, dim3 block, const Body &body)
{
    return cadre_shim_run(
        grid, block, [](const void *context) { (*static_cast<const Body *>(context))(); }, &body);
}

/* ---- waiting ---- */

#define __syncthreads() cadre_shim_block_barrier(__FILE__, __LINE__)
#define __syncwarp()    ((void)cadre_shim_collect(__FILE__, __LINE__, 0xffffffffU, 0))
#define CADRE_SHIM_ASK(source, mask, value)                                                        \
    cadre_shim_answer(__FILE__, __LINE__, mask, value, source)
#define __shfl_sync(mask, value, lane)      CADRE_SHIM_ASK(lane, mask, value)
#define __shfl_xor_sync(mask, value, lanes) CADRE_SHIM_ASK(cadre_shim_lane() ^ (lanes), mask, value)
#define __shfl_down_sync(mask, value, lanes)                                                       \
    CADRE_SHIM_ASK(cadre_shim_lane() + (lanes), mask, value)
#define __shfl_up_sync(mask, value, lanes) CADRE_SHIM_ASK(cadre_shim_lane() - (lanes), mask, value)
#define __match_any_sync(mask, value)      cadre_shim_match(__FILE__, __LINE__, mask, value)

static inline int
cadre_shim_lane()
{
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    return static_cast<int>(thread % CADRE_SHIM_WARP);
}

/* The value of lane `source`; beyond the warp's ends one's own, as CUDA has it. */
template <typename Value>
static inline Value
cadre_shim_answer(const char *file, int line, uint32_t mask, Value value, int source)
{
    static_assert(sizeof(Value) <= sizeof(uint64_t), "one word");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof(value));
    const uint64_t *words = cadre_shim_collect(file, line, mask, word);
    if (source < 0 || source >= CADRE_SHIM_WARP) {
        return value;
    }
    if (!(mask >> source & 1)) {
        cadre_shim_fail(file, line, "a lane asks one that the mask leaves out");
    }
    memcpy(&value, &words[source], sizeof(value));
    return value;
}

static inline unsigned
cadre_shim_match(const char *file, int line, uint32_t mask, uint32_t value)
{
    const uint64_t *words = cadre_shim_collect(file, line, mask, value);
    unsigned lanes = 0;
    for (int lane = 0; lane < CADRE_SHIM_WARP; lane++) {
        lanes |= (mask >> lane & 1) && words[lane] == value ? 1U << lane : 0;
    }
    return lanes;
}

/* ---- atomics: no fiber is interrupted ---- */

template <typename Number>
static inline Number
atomicAdd(Number *at, Number value)
{
    Number before = *at;
    *at = before + value;
    return before;
}

/* ---- single words ---- */

static inline int
__popc(unsigned word)
{
    return __builtin_popcount(word);
}

static inline unsigned
__umulhi(unsigned left, unsigned right)
{
    return static_cast<unsigned>(static_cast<uint64_t>(left) * right >> 32);
}

#endif
