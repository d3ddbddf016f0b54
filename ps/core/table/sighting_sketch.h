/*
 * sighting_sketch - about how often each key was seen, however many keys there are.
 *
 * Layers of counters, each twice as large as the one before. A sighting is counted in the newest
 * layer alone; when that has counted CADRE_SIGHTING_LAYER_KEYS keys, or twice as many for each
 * doubling, a new one begins, and the others do not change any more. A key was seen as often as all
 * layers together say. So no layer is ever fuller than the first one may be, and growing copies
 * nothing and touches no memory: a layer is made of blocks, each of which is taken when a key first
 * falls into it.
 *
 * Each layer is a count-min sketch (Cormode and Muthukrishnan 2005) that raises only the smallest
 * of a key's counters (conservative update: Estan and Varghese 2002). The counters of a key are in
 * one group, a line of each row, so that a lookup takes lines next to each other. A key is never
 * counted too low, and too high only where it shares all its counters of a layer with others: as
 * one key in 100 does with a layer that is full.
 *
 * Beyond CADRE_SIGHTING_SIZE_MAX the oldest layers go, and what they counted is forgotten: a stream
 * without an end does not fill the sketch, and what was seen since (44 to 89 million keys) still
 * counts. Blocks of layers that went are used again, one by one.
 *
 * Blocks are copied on write: a copy of the sketch takes references.
 *
 * Owner:   one table.
 * Thread:  the shard's actor only; but a copy may be handed to another thread.
 */
#ifndef CADRE_PS_CORE_TABLE_SIGHTING_SKETCH_H
#define CADRE_PS_CORE_TABLE_SIGHTING_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/tensor/chunk.h"

enum {
    CADRE_SIGHTING_ROWS = 4,              /* counters of a key, of a byte each */
    CADRE_SIGHTING_BLOCK_SIZE = 64 << 10, /* bytes */
    CADRE_SIGHTING_FIRST_BLOCKS = 16,     /* of the first layer */
    CADRE_SIGHTING_LAYER_KEYS = 87381,    /* of the first layer: 12 bytes for each */
    CADRE_SIGHTING_DOUBLINGS = 9,         /* the largest layers have 512 MiB, */
    CADRE_SIGHTING_SIZE_MAX = 1024 << 20, /* all of them this many bytes, */
    CADRE_SIGHTING_LAYERS_MAX = 10,       /* and there are so many at a time */
};

typedef struct cadre_sighting_sketch cadre_sighting_sketch_t;

cadre_sighting_sketch_t *cadre_sighting_sketch_new(void);

/* Returns a sketch that goes its own way from where this one stands. */
cadre_sighting_sketch_t *cadre_sighting_sketch_copy(const cadre_sighting_sketch_t *self);

void cadre_sighting_sketch_destroy(cadre_sighting_sketch_t **self_p);

/* Counts a sighting of a key; returns how many there were, this one included, at most 255. */
uint32_t cadre_sighting_sketch_see(cadre_sighting_sketch_t *self, uint64_t key);

/* Returns how many sightings of a key there were. */
uint32_t cadre_sighting_sketch_count(const cadre_sighting_sketch_t *self, uint64_t key);

/* Returns how many layers have begun, ever, and how many keys the newest has counted. */
uint64_t cadre_sighting_sketch_begun(const cadre_sighting_sketch_t *self);
uint64_t cadre_sighting_sketch_keys(const cadre_sighting_sketch_t *self);

/* Returns how many positions blocks have; the block of a position, NULL where none was taken. */
uint32_t cadre_sighting_sketch_positions(const cadre_sighting_sketch_t *self);
const cadre_chunk_t *cadre_sighting_sketch_block(const cadre_sighting_sketch_t *self,
                                                 uint32_t position);

/* Makes a sketch that goes on where one stood, once it has the blocks of that. Fails with
 * CADRE_ECORRUPT for numbers that no sketch has. */
int cadre_sighting_sketch_restore(uint64_t begun, uint64_t keys, cadre_sighting_sketch_t **out);

/* Copies a block to its position. Fails with CADRE_ECORRUPT when the bytes are of another size, or
 * there is no such position, or a block in it. */
int cadre_sighting_sketch_load(cadre_sighting_sketch_t *self, uint32_t position, const void *bytes,
                               size_t size_bytes);

/* Returns the bytes of all blocks; and about how many more they can be after `count` sightings. */
uint64_t cadre_sighting_sketch_size_bytes(const cadre_sighting_sketch_t *self);
uint64_t cadre_sighting_sketch_growth(const cadre_sighting_sketch_t *self, size_t count);

#endif
