/*
 * philox - the numbers of common/base/random.h on a device, bit for bit.
 *
 * Philox4x32-10; element `index` of a uniform stream is word `index % 4` of block `index / 4`.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_PHILOX_CUH
#define CADRE_WORKER_DEVICE_CUDA_PHILOX_CUH

#include "worker/device/cuda/launch.cuh"

enum { PHILOX_WORDS = 4 };

struct philox_block_t {
    uint32_t words[PHILOX_WORDS];
};

static __device__ __forceinline__ philox_block_t
philox_block(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t c0 = static_cast<uint32_t>(index);
    uint32_t c1 = static_cast<uint32_t>(index >> 32);
    uint32_t c2 = static_cast<uint32_t>(stream);
    uint32_t c3 = static_cast<uint32_t>(stream >> 32);
    uint32_t k0 = static_cast<uint32_t>(seed);
    uint32_t k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(UINT32_C(0xD2511F53), c0);
        uint32_t low0 = UINT32_C(0xD2511F53) * c0;
        uint32_t high1 = __umulhi(UINT32_C(0xCD9E8D57), c2);
        uint32_t low1 = UINT32_C(0xCD9E8D57) * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
    return {{c0, c1, c2, c3}};
}

/* Returns a number in [0, 1), a multiple of 2^-24, made of the word's upper 24 bits. */
static __device__ __forceinline__ float
philox_uniform(uint32_t word)
{
    return static_cast<float>(word >> 8) * 5.9604644775390625e-8F;
}

#endif
