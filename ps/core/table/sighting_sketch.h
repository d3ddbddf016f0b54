/*
 * sighting_sketch - about how often each key was seen, in memory that does not grow.
 *
 * A count-min sketch (Cormode and Muthukrishnan 2005) that raises only the smallest of a key's
 * counters (conservative update: Estan and Varghese 2002): a key is never counted too low, and too
 * high only where it shares all its counters with others. For a stream without an end all counters
 * are halved after a number of sightings (the "reset" of TinyLFU: Einziger, Friedman and Manes
 * 2017), so that keys which are seen once in a while do not fill it.
 *
 * Owner:   one table.
 * Thread:  the shard's actor only.
 */
#ifndef CADRE_PS_CORE_TABLE_SIGHTING_SKETCH_H
#define CADRE_PS_CORE_TABLE_SIGHTING_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/tensor/chunk.h"

enum {
    CADRE_SIGHTING_ROWS = 4,         /* counters of a key */
    CADRE_SIGHTING_WIDTH = 1 << 18,  /* counters of a row, of a byte each */
    CADRE_SIGHTING_RESET = 10 << 18, /* sightings, after which all counters are halved */
};

typedef struct cadre_sighting_sketch cadre_sighting_sketch_t;

cadre_sighting_sketch_t *cadre_sighting_sketch_new(void);

cadre_sighting_sketch_t *cadre_sighting_sketch_copy(const cadre_sighting_sketch_t *self);

void cadre_sighting_sketch_destroy(cadre_sighting_sketch_t **self_p);

/* Counts a sighting of a key; returns how many there were, this one included, at most 255. */
uint32_t cadre_sighting_sketch_see(cadre_sighting_sketch_t *self, uint64_t key);

/* Returns how many sightings of a key there were. */
uint32_t cadre_sighting_sketch_count(const cadre_sighting_sketch_t *self, uint64_t key);

/* Gives a copy of all counters, which the caller drops; returns how many sightings there were since
 * they were halved. */
uint64_t cadre_sighting_sketch_save(const cadre_sighting_sketch_t *self, cadre_chunk_t **counters);

/* Goes on with counters that were saved. Fails with CADRE_ECORRUPT for another number of them, and
 * for more sightings than there may be. */
int cadre_sighting_sketch_load(cadre_sighting_sketch_t *self, uint64_t sightings,
                               const cadre_chunk_t *counters);

uint64_t cadre_sighting_sketch_size_bytes(void);

#endif
