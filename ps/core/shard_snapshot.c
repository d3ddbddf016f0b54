#include "ps/core/shard_snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"

cadre_shard_snapshot_t *
cadre_shard_snapshot_new(uint64_t checkpoint, const char *directory, size_t parts_max)
{
    cadre_shard_snapshot_t *self = cadre_calloc(1, sizeof(*self));
    self->checkpoint = checkpoint;
    self->directory = cadre_strdup(directory);
    self->parts = cadre_calloc(parts_max, sizeof(*self->parts));
    return self;
}

/* Frees the snapshot and drops its references. */
void
cadre_shard_snapshot_destroy(cadre_shard_snapshot_t **self_p)
{
    cadre_shard_snapshot_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (size_t i = 0; i < self->part_count; i++) {
        cadre_partition_snapshot_fini(&self->parts[i].references);
        cadre_table_close(&self->parts[i].table);
    }
    free(self->parts);
    free(self->directory);
    free(self);
}

/* Adds a partition as it is now; the snapshot was made with room for it. */
void
cadre_shard_snapshot_add(cadre_shard_snapshot_t *self, const char *name,
                         const cadre_partition_t *partition)
{
    cadre_shard_snapshot_part_t *part = &self->parts[self->part_count++];
    snprintf(part->name, sizeof(part->name), "%s", name);
    part->spec = *cadre_partition_spec(partition);
    part->layout = *cadre_partition_layout(partition);
    cadre_partition_snapshot(partition, &part->references);
}

/* Adds the fork of a table; the snapshot was made with room for it. */
void
cadre_shard_snapshot_add_table(cadre_shard_snapshot_t *self, const cadre_shard_part_t *part,
                               cadre_table_t **table_p, cadre_table_base_t own,
                               cadre_table_base_t base)
{
    cadre_shard_snapshot_part_t *added = &self->parts[self->part_count++];
    snprintf(added->name, sizeof(added->name), "%s", part->name);
    added->spec = part->spec;
    added->table = *table_p;
    *table_p = NULL;
    added->own = own;
    added->base = base;
}
