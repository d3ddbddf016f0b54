#include "ps/core/shard_effects.h"

#include "common/base/memory.h"

/* Frees the loads that the shell has not taken. */
static void
drop_loads(cadre_shard_effects_t *self)
{
    for (size_t i = self->load_taken; i < self->load_count; i++) {
        cadre_checkpoint_load_destroy(&self->loads[i]);
    }
    cadre_free(&self->loads);
    self->load_count = 0;
    self->load_taken = 0;
}

void
cadre_shard_effects_fini(cadre_shard_effects_t *self)
{
    cadre_outbox_fini(&self->outbox);
    cadre_shard_snapshot_destroy(&self->snapshot);
    drop_loads(self);
    *self = (cadre_shard_effects_t){0};
}

void
cadre_shard_effects_write(cadre_shard_effects_t *self, cadre_shard_snapshot_t **snapshot_p)
{
    cadre_shard_snapshot_destroy(&self->snapshot);
    self->snapshot = *snapshot_p;
    *snapshot_p = NULL;
}

void
cadre_shard_effects_load(cadre_shard_effects_t *self, cadre_checkpoint_load_t **load_p)
{
    self->loads =
        cadre_realloc(self->loads, self->load_count + 1, sizeof(cadre_checkpoint_load_t *));
    self->loads[self->load_count++] = *load_p;
    *load_p = NULL;
}

void
cadre_shard_effects_give_up(cadre_shard_effects_t *self, uint64_t loads_from)
{
    cadre_shard_snapshot_destroy(&self->snapshot);
    drop_loads(self);
    self->loads_from = loads_from;
}

cadre_shard_snapshot_t *
cadre_shard_effects_take_snapshot(cadre_shard_effects_t *self)
{
    cadre_shard_snapshot_t *snapshot = self->snapshot;
    self->snapshot = NULL;
    return snapshot;
}

/* Gives the next load to the caller; the list is used again once all were taken. */
cadre_checkpoint_load_t *
cadre_shard_effects_take_load(cadre_shard_effects_t *self)
{
    if (self->load_taken == self->load_count) {
        self->load_taken = 0;
        self->load_count = 0;
        return NULL;
    }
    return self->loads[self->load_taken++];
}
