/*
 * partitioner - into how many partitions a variable is cut along axis 0, and on which shards they
 * are.
 *
 * Owner:   the struct belongs to the catalogue; the functions keep nothing else. Thread: under the
 * coordinator's lock.
 *
 * The counts are those of TensorFlow's sharded-variable partitioners with two differences, both in
 * the minimum-size partitioner: it rounds down, so that no partition is under the minimum, and it
 * may make as many partitions as there are shards.
 */
#ifndef CADRE_COORDINATOR_CORE_CATALOGUE_PARTITIONER_H
#define CADRE_COORDINATOR_CORE_CATALOGUE_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

#include <cadre/coordinator.h>

/* Gives into how many partitions a variable of this shape is cut, whose elements have
 * `element_size_bytes`: at least 1, at most its rows. CADRE_EINVALID for a bad kind, a negative
 * count or size, a count for another kind than FIXED, more than CADRE_PARTITIONS_PER_VARIABLE_MAX
 * partitions, and for given numbers that are not one for each axis, cut another axis than the
 * first, or cut it into none or into more than its rows. */
int cadre_partitioner_count(const cadre_variable_options_t *options, const int64_t *shape, int rank,
                            size_t element_size_bytes, uint32_t shard_count, uint32_t *count);

/* How partitions are put on shards. */
typedef struct {
    /* Put the next partition on the next shard; else on the one with the fewest bytes. */
    bool round_robin;
    /* Without `round_robin`: a shard is filled up to so many bytes before the one behind it gets
     * any, because to ask another shard costs more than so many bytes do; 0: none is. */
    uint64_t fill_bytes;
    uint32_t shard_count;
    uint64_t *load_bytes; /* [shard_count] */
    bool *is_used;        /* [shard_count]: a partition was put there, be it gone by now */
    uint32_t next;
} cadre_placement_t;

void cadre_placement_init(cadre_placement_t *self, uint32_t shard_count, bool round_robin);

/* Sets `fill_bytes`, before anything is placed. */
void cadre_placement_set_fill(cadre_placement_t *self, uint64_t fill_bytes);
void cadre_placement_fini(cadre_placement_t *self);

/* Returns the shard for a partition of `size_bytes`, which is added to its load: the next in turn
 * (round_robin), else, of a variable of one partition (`is_whole`), the first that is not filled by
 * it (`fill_bytes`), else the least loaded, the lowest index among equals. */
uint32_t cadre_placement_place(cadre_placement_t *self, uint64_t size_bytes, bool is_whole);

/* Adds a partition to the load of `shard` that is put there for another reason. */
void cadre_placement_add(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes);

/* Takes a partition off the load of `shard`. */
void cadre_placement_take(cadre_placement_t *self, uint32_t shard, uint64_t size_bytes);

#endif
