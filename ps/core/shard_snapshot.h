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

/* One partition of a snapshot. */
typedef struct {
    char name[CADRE_NAME_SIZE_MAX + 1];
    cadre_partition_spec_t spec;
    cadre_chunk_layout_t layout;
    cadre_partition_snapshot_t references;
} cadre_shard_snapshot_part_t;

typedef struct {
    uint64_t epoch; /* epoch of the session that asked for it */
    uint64_t checkpoint;
    uint32_t index; /* of the shard */
    char *directory;
    cadre_shard_state_t state;
    uint64_t counters[CADRE_PS_COUNTER_COUNT];
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

#endif
