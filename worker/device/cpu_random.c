/*
 * cpu_random - random numbers, many at a time: those of cadre_random_fill_uniform, bit for bit.
 *
 * Philox's rounds (common/base/random.h) written out over arrays, so that the compiler computes
 * several counters at once.
 */
#include "worker/device/cpu.h"
#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

enum {
    COUNTERS = 64,        /* Philox counters that are worked on together */
    BATCH = 4 * COUNTERS, /* random numbers that so many counters give */
    ROUNDS = 10,
    COST = 14 /* what a number costs, in additions */
};

typedef struct {
    uint32_t word[4][COUNTERS];
} blocks_t;

/* Computes one Philox round of all counters. */
CADRE_INLINED void
round_of(blocks_t *blocks, uint32_t key_low, uint32_t key_high)
{
    for (int i = 0; i < COUNTERS; i++) {
        uint64_t low = UINT64_C(0xD2511F53) * blocks->word[0][i];
        uint64_t high = UINT64_C(0xCD9E8D57) * blocks->word[2][i];
        blocks->word[0][i] = (uint32_t)(high >> 32) ^ blocks->word[1][i] ^ key_low;
        blocks->word[1][i] = (uint32_t)high;
        blocks->word[2][i] = (uint32_t)(low >> 32) ^ blocks->word[3][i] ^ key_high;
        blocks->word[3][i] = (uint32_t)low;
    }
}

/* Writes the BATCH numbers of the COUNTERS counters from `first` on. */
CADRE_VECTOR static void
fill_batch(uint64_t seed, uint64_t stream, uint64_t first, cadre_real_t *out)
{
    CADRE_UNINITIALIZED _Alignas(64) blocks_t blocks;
    for (int i = 0; i < COUNTERS; i++) {
        uint64_t index = first + (uint64_t)i;
        blocks.word[0][i] = (uint32_t)index;
        blocks.word[1][i] = (uint32_t)(index >> 32);
        blocks.word[2][i] = (uint32_t)stream;
        blocks.word[3][i] = (uint32_t)(stream >> 32);
    }
    uint32_t key_low = (uint32_t)seed;
    uint32_t key_high = (uint32_t)(seed >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        round_of(&blocks, key_low, key_high);
        key_low += 0x9E3779B9;
        key_high += 0xBB67AE85;
    }
    for (int i = 0; i < COUNTERS; i++) {
        for (int k = 0; k < 4; k++) {
            out[4 * i + k] = (cadre_real_t)(int32_t)(blocks.word[k][i] >> 8) * CADRE_REAL(0x1p-24);
        }
    }
}

/* Writes batches begin..end of the step's random numbers; those of a batch depend on the closure's
 * seed, the op's stream and the batch's position alone, not on threads. */
static void
rand_part(const void *context, int64_t begin, int64_t end)
{
    const cadre_operands_t *operands = context;
    /* "rand" in the upper half: other users of the same seed have other streams. */
    uint64_t stream =
        (UINT64_C(0x72616e64) << 32) | (uint64_t)operands->step->attributes[CADRE_RAND_STREAM];
    cadre_real_t *out = operands->out_data;
    for (int64_t at = begin; at < end; at++) {
        CADRE_UNINITIALIZED _Alignas(64) cadre_real_t numbers[BATCH];
        int64_t left = operands->out->count - at * BATCH;
        fill_batch(operands->seed, stream, (uint64_t)at * COUNTERS, numbers);
        for (int64_t i = 0; i < (left < BATCH ? left : BATCH); i++) {
            out[at * BATCH + i] = numbers[i];
        }
    }
}

/* Fills the output with uniform random numbers in [0, 1). */
int
cadre_cpu_rand(const cadre_operands_t *operands)
{
    cadre_cpu_pool_run(operands->pool, (operands->out->count + BATCH - 1) / BATCH,
                       CADRE_CPU_PART_COST / BATCH / COST, rand_part, operands);
    return 0;
}
