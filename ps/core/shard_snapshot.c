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
