/*
 * partitioner - into how many parts a variable is cut along axis 0, and on which shards they live.
 *
 * Owner:   the struct belongs to the catalogue; the functions keep nothing else. Thread: under the
 * coordinator's lock.
 *
 * Counts are those of TensorFlow's sharded-variable partitioners, but for two: the minimum-size
 * partitioner rounds down, so that no part is under the minimum, and may use as many parts as there
 * are shards.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_PARTITIONER_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

/* The number of parts for a variable of this shape whose elements have `element_size_bytes`: at
 * least 1, at most its rows and CADRE_PARTITIONS_PER_VARIABLE_MAX. CADRE_EINVALID for a bad kind, a
 * negative count or size, a count for another kind than FIXED, given parts that do not have one
 * entry per axis, or that cut another axis than the first, or into none or more parts than rows. */
int cadre_partitioner_count(const cadre_variable_options_t *options, const int64_t *shape, int rank,
                            size_t element_size_bytes, uint32_t shard_count, uint32_t *count);

/* Where parts are put. */
typedef struct {
    bool round_robin; /* else balanced by bytes */
    uint32_t shard_count;
    uint64_t *load_bytes; /* [shard_count] */
    uint32_t next;
} cadre_placement_t;

void cadre_placement_init(cadre_placement_t *self, uint32_t shard_count, bool round_robin);
void cadre_placement_fini(cadre_placement_t *self);

/* The shard for a part of `size_bytes`, counted as its load: the least loaded, the lowest index
 * among equals; or the next in turn. */
uint32_t cadre_placement_place(cadre_placement_t *self, uint64_t size_bytes);

/* Counts a part that is put on `shard` for another reason. */
void cadre_placement_add(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes);

/* Counts a part out that was put on `shard`. */
void cadre_placement_take(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes);

#endif
