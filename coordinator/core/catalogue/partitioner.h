/*
 * partitioner - into how many parts a variable is cut along axis 0, and on which shards the parts
 * live.
 *
 * Owner:   the struct belongs to the catalogue; the functions keep nothing else. Thread: under the
 * coordinator's lock.
 *
 * The counts are those of TensorFlow's sharded-variable partitioners with two differences, both in
 * the minimum-size partitioner: it rounds down, so that no part is under the minimum, and it may
 * use as many parts as there are shards.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_PARTITIONER_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

/* Gives the number of parts for a variable of this shape whose elements have `element_size_bytes`:
 * at least 1, at most its rows. CADRE_EINVALID for a bad kind, a negative count or size, a count
 * for another kind than FIXED, more than CADRE_PARTITIONS_PER_VARIABLE_MAX parts, and for given
 * parts that do not have one entry per axis, cut another axis than the first, or cut it into none
 * or into more parts than rows. */
int cadre_partitioner_count(const cadre_variable_options_t *options, const int64_t *shape, int rank,
                            size_t element_size_bytes, uint32_t shard_count, uint32_t *count);

/* How parts are put on shards. */
typedef struct {
    /* Put the next part on the next shard; else on the one with the fewest bytes. */
    bool round_robin;
    uint32_t shard_count;
    uint64_t *load_bytes; /* [shard_count] */
    uint32_t next;
} cadre_placement_t;

void cadre_placement_init(cadre_placement_t *self, uint32_t shard_count, bool round_robin);
void cadre_placement_fini(cadre_placement_t *self);

/* Returns the shard for a part of `size_bytes`, which is added to its load: the next in turn
 * (round_robin), else the least loaded, the lowest index among equals. */
uint32_t cadre_placement_place(cadre_placement_t *self, uint64_t size_bytes);

/* Adds a part to the load of `shard` that is put there for another reason. */
void cadre_placement_add(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes);

/* Takes a part off the load of `shard`. */
void cadre_placement_take(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes);

#endif
