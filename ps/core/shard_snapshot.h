/*
 * shard_snapshot - references to everything of one shard that is below one cut, to be written to
 * its file of a checkpoint.
 *
 * Owner:   whoever holds it: the shard that makes it, the store that writes it.
 * Thread:  any; a snapshot may be read and freed on another thread than the one that made it.
 */
#ifndef CADRE_PS_CORE_SHARD_SNAPSHOT_H
#define CADRE_PS_CORE_SHARD_SNAPSHOT_H

#include "common/checkpoint/shard_file.h"
#include "ps/core/partition.h"
#include "ps/core/shard_parts.h"

/* One partition, or the part of a table, of a snapshot. */
typedef struct {
    char name[CADRE_NAME_SIZE_MAX + 1];
    cadre_partition_spec_t spec;
    cadre_chunk_layout_t layout;
    cadre_partition_snapshot_t references; /* of a partition */

    /* Of a table: a frozen fork; NULL for a partition, and once the writer has taken it. What
     * stands in the file that `base` names may be left out; its checkpoint is 0 where nothing
     * is. */
    cadre_table_t *table;
    cadre_table_base_t own;
    cadre_table_base_t base;
} cadre_shard_snapshot_part_t;

typedef struct {
    uint64_t epoch; /* epoch of the session that asked for it */
    uint64_t checkpoint;
    uint32_t index; /* of the shard */
    char *directory;
    cadre_shard_state_t state;
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
    uint64_t step; /* the synchronous step that had ended last at the cut; 0: none */
    size_t part_count;
    cadre_shard_snapshot_part_t *parts;
} cadre_shard_snapshot_t;

/* Returns a snapshot without parts, with room for `parts_max`. */
cadre_shard_snapshot_t *cadre_shard_snapshot_new(uint64_t checkpoint, const char *directory,
                                                 size_t parts_max);
void cadre_shard_snapshot_destroy(cadre_shard_snapshot_t **self_p);

/* Adds a partition as it is now, by references to its chunks; `name` is that of its variable. */
void cadre_shard_snapshot_add(cadre_shard_snapshot_t *self, const char *name,
                              const cadre_partition_t *partition);

/* Adds a table: a frozen fork of what the part serves, which is taken. */
void cadre_shard_snapshot_add_table(cadre_shard_snapshot_t *self, const cadre_shard_part_t *part,
                                    cadre_table_t **table_p, cadre_table_base_t own,
                                    cadre_table_base_t base);

#endif
