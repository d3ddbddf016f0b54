/*
 * permutation - a pseudo-random order of [0, count) that needs no table.
 *
 * Owner:   whoever holds the struct (plain data, no memory behind it).
 * Thread:  immutable after init; any thread may read it.
 *
 * An alternating Feistel network over the smallest power of two that is not below `count`, with
 * cycle walking for what falls outside. Its round keys come from Philox with (seed, epoch), so the
 * same numbers give the same order on every machine, and a worker finds row number `position` of
 * an epoch without having seen the positions before it.
 */
#ifndef CADRE_COMMON_BASE_PERMUTATION_H
#define CADRE_COMMON_BASE_PERMUTATION_H

#include <stdint.h>

enum { CADRE_PERMUTATION_ROUNDS = 8 };

typedef struct {
    uint64_t count;
    uint64_t left_mask; /* the network works on left and right halves of these widths */
    uint64_t right_mask;
    int right_bits;
    uint64_t round_keys[CADRE_PERMUTATION_ROUNDS];
} cadre_permutation_t;

/* The order that belongs to (seed, epoch). `count` may be 0: then there is no position to ask for.
 * `count` above 2^62 is a bug. */
void cadre_permutation_init(cadre_permutation_t *self, uint64_t count, uint64_t seed,
                            uint64_t epoch);

/* The number that stands at `position`, which must be below `count`. */
uint64_t cadre_permutation_at(const cadre_permutation_t *self, uint64_t position);

#endif
