/*
 * random - numbers from counters.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11)
 * turns a counter and a key into 128 random bits, without state. So element `index` of a stream has
 * one value, whoever computes it, in whatever order and batch: initial values do not depend on the
 * number of partitions, dropout does not depend on the worker, and a simulation repeats itself. It
 * is no cipher: keys and secrets come from elsewhere.
 *
 * A stream is named by (seed, stream), two free 64-bit numbers: a job's seed, and what the numbers
 * are for.
 *
 * Owner:   cadre_random_t belongs to whoever holds it; everything else has no state.
 * Thread:  any.
 */
#ifndef CADRE_COMMON_BASE_RANDOM_H
#define CADRE_COMMON_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Computes one block: ten rounds on `counter`. `out` may be `counter`. */
void cadre_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Computes block `index` of a stream: counter = (index, stream), key = seed, low words first. */
void cadre_random_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);

/* Returns element `index` of a stream of uniform numbers, in [0, 1) in steps of 2^-24: made of word
 * `index % 4` of block `index / 4`. */
float cadre_random_uniform(uint64_t seed, uint64_t stream, uint64_t index);

/* Writes elements [first, first + count) of a stream of uniform numbers (cadre_random_uniform). */
void cadre_random_fill_uniform(uint64_t seed, uint64_t stream, uint64_t first, size_t count,
                               float *out);

/* Writes elements [first, first + count) of a stream of normal numbers with mean 0 and variance 1.
 * Elements 2k and 2k + 1 are made by Box and Muller's method from words of block k / 2, in double;
 * |value| < 6.7. The last bit depends on the machine's libm. */
void cadre_random_fill_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t count,
                              float *out);

/* Computes two normal numbers of two random words, by Box and Muller's method. */
void cadre_random_box_muller(uint32_t left, uint32_t right, double out[2]);

/* A generator of numbers that are drawn one after the other: ids, choices of the simulation. */
typedef struct {
    uint64_t seed;
    uint64_t stream;
    uint64_t drawn; /* how many numbers were drawn; a block gives two */
} cadre_random_t;

void cadre_random_init(cadre_random_t *self, uint64_t seed, uint64_t stream);

uint64_t cadre_random_next_u64(cadre_random_t *self);

/* Draws a number in [0, bound) without bias; `bound` is at least 1. */
uint64_t cadre_random_below(cadre_random_t *self, uint64_t bound);

#endif
