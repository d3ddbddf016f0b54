/*
 * permutation - a pseudo-random order of [0, count) that needs no table.
 *
 * Owner:   whoever holds the struct (plain data, no memory behind it).
 * Thread:  immutable after init; any thread may read it.
 *
 * An alternating Feistel network over the smallest power of two that is not below `count`, with
 * cycle walking for values that are not below `count`. Its round keys come from Philox with (seed,
 * epoch), so the same numbers give the same order on every machine, and a worker finds row number
 * `position` of an epoch without having seen the positions before it.
 */
#ifndef CADRE_COMMON_BASE_PERMUTATION_H
#define CADRE_COMMON_BASE_PERMUTATION_H

#include <stdint.h>

enum { CADRE_PERMUTATION_ROUNDS = 8 };

typedef struct {
    uint64_t count;
    uint64_t left_mask;  /* mask of the left half's bits, shifted down to bit 0 */
    uint64_t right_mask; /* of the bits of the right half */
    int right_bits;
    uint64_t round_keys[CADRE_PERMUTATION_ROUNDS];
} cadre_permutation_t;

/* Sets up the order for (seed, epoch). `count` is at most 2^62 (asserted); with 0 there is no
 * position to ask for. */
void cadre_permutation_init(cadre_permutation_t *self, uint64_t count, uint64_t seed,
                            uint64_t epoch);

/* Returns the number at `position`, which must be below `count`. */
uint64_t cadre_permutation_at(const cadre_permutation_t *self, uint64_t position);

#endif
