#include "common/base/random.h"

#include <math.h>

#include "common/base/assert.h"

static void
multiply(uint32_t left, uint32_t right, uint32_t *high, uint32_t *low)
{
    uint64_t product = (uint64_t)left * right;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
}

/* Computes one block of random bits from a counter and a key: Philox4x32-10 (Salmon et al., SC'11),
 * whose constants these are. */
void
cadre_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0];
    uint32_t c1 = counter[1];
    uint32_t c2 = counter[2];
    uint32_t c3 = counter[3];
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint32_t high0 = 0;
        uint32_t low0 = 0;
        uint32_t high1 = 0;
        uint32_t low1 = 0;

        multiply(UINT32_C(0xD2511F53), c0, &high0, &low0);
        multiply(UINT32_C(0xCD9E8D57), c2, &high1, &low1);
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += UINT32_C(0x9E3779B9); /* golden ratio */
        k1 += UINT32_C(0xBB67AE85); /* sqrt(3) - 1 */
    }

    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Computes block `index` of a stream: the counter is (index, stream), the key is the seed. */
void
cadre_random_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                                 (uint32_t)(stream >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    cadre_philox4x32(counter, key, out);
}

/* Turns a random word into a number in [0, 1), of its upper 24 bits: as many as a float holds
 * exactly. */
static float
unit_from(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24F;
}

/* Writes elements [first, first + count) of a stream of uniform numbers; four elements come from
 * each block. */
void
cadre_random_fill_uniform(uint64_t seed, uint64_t stream, uint64_t first, size_t count, float *out)
{
    uint32_t block[4] = {0};
    for (size_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 4 == 0) {
            cadre_random_block(seed, stream, index / 4, block);
        }
        out[i] = unit_from(block[index % 4]);
    }
}

float
cadre_random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    float value = 0;
    cadre_random_fill_uniform(seed, stream, index, 1, &value);
    return value;
}

/* Computes two normal numbers from two random words, by Box and Muller's method. */
void
cadre_random_box_muller(uint32_t left, uint32_t right, double out[2])
{
    const double two_pi = 6.283185307179586476925;
    double radius =
        sqrt(-2.0 * log(((double)left + 1.0) * 0x1p-32)); /* the argument of log is in (0, 1] */
    double angle = two_pi * ((double)right * 0x1p-32);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

/* Writes elements [first, first + count) of a stream of normal numbers. Elements 2k and 2k + 1 are
 * one pair of Box and Muller; a block has the words of two pairs. So an element is the same
 * wherever a call begins. */
void
cadre_random_fill_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t count, float *out)
{
    uint32_t block[4] = {0};
    double pair[2] = {0};

    for (size_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 4 == 0) {
            cadre_random_block(seed, stream, index / 4, block);
        }
        if (i == 0 || index % 2 == 0) {
            const uint32_t *words = block + index % 4 / 2 * 2;
            cadre_random_box_muller(words[0], words[1], pair);
        }
        out[i] = (float)pair[index % 2];
    }
}

void
cadre_random_init(cadre_random_t *self, uint64_t seed, uint64_t stream)
{
    *self = (cadre_random_t){.seed = seed, .stream = stream};
}

/* Draws the next 64-bit number; each block of the stream gives two. */
uint64_t
cadre_random_next_u64(cadre_random_t *self)
{
    uint32_t block[4];
    cadre_random_block(self->seed, self->stream, self->drawn / 2, block);
    const uint32_t *words = block + self->drawn % 2 * 2;
    self->drawn++;
    return (uint64_t)words[1] << 32 | words[0];
}

/* Draws a number in [0, bound) without bias. */
uint64_t
cadre_random_below(cadre_random_t *self, uint64_t bound)
{
    cadre_assert(bound > 0);
    /* The lowest (2^64 mod bound) numbers are drawn again, so that all remainders are equally
     * likely. */
    uint64_t excess = (UINT64_MAX - bound + 1) % bound;
    uint64_t number = 0;
    do {
        number = cadre_random_next_u64(self);
    } while (number < excess);
    return number % bound;
}
