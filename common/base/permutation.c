#include "common/base/permutation.h"

#include "common/base/assert.h"
#include "common/base/random.h"

/* Keeps the permutation's random stream (Philox) apart from other streams of the same seed. */
static const uint64_t STREAM_SALT = UINT64_C(0x7065726d75746521);

/* Mixes the bits of a number, by the finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input
 * bit reaches every output bit. */
static uint64_t
mix(uint64_t value)
{
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* Sets up the pseudo-random order of [0, count) for (seed, epoch): the two halves of a number of as
 * many bits as `count` needs, and a key for each round from a random stream. */
void
cadre_permutation_init(cadre_permutation_t *self, uint64_t count, uint64_t seed, uint64_t epoch)
{
    cadre_assert(count <= UINT64_C(1) << 62);
    int bits = 0;
    while ((UINT64_C(1) << bits) < count) {
        bits++;
    }

    *self = (cadre_permutation_t){.count = count, .right_bits = bits / 2};
    self->left_mask = (UINT64_C(1) << (bits - bits / 2)) - 1;
    self->right_mask = (UINT64_C(1) << (bits / 2)) - 1;
    for (int i = 0; i < CADRE_PERMUTATION_ROUNDS; i++) {
        uint32_t block[4];
        cadre_random_block(seed ^ STREAM_SALT, epoch, (uint64_t)i, block);
        self->round_keys[i] = (uint64_t)block[1] << 32 | block[0];
    }
}

/* Runs a number through the Feistel network. Each round changes one half by a function of the other
 * and can be undone, so the whole is a bijection of [0, 2^bits) whatever `mix` computes. */
static uint64_t
walk(const cadre_permutation_t *self, uint64_t value)
{
    uint64_t left = value >> self->right_bits;
    uint64_t right = value & self->right_mask;
    for (int i = 0; i < CADRE_PERMUTATION_ROUNDS; i += 2) {
        left ^= mix(right + self->round_keys[i]) & self->left_mask;
        right ^= mix(left + self->round_keys[i + 1]) & self->right_mask;
    }
    return left << self->right_bits | right;
}

/* Returns the number at `position` of the pseudo-random order. */
uint64_t
cadre_permutation_at(const cadre_permutation_t *self, uint64_t position)
{
    cadre_assert(position < self->count);
    /* Cycle walking: apply the larger bijection until the value is below count. That ends, because
     * `position` itself is on the cycle, and takes at most two applications on average. */
    uint64_t value = walk(self, position);
    while (value >= self->count) {
        value = walk(self, value);
    }
    return value;
}
