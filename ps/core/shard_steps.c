#include "ps/core/shard_steps.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/u64_map.h"

struct cadre_shard_steps {
    cadre_u64_map_t held; /* cadre_held_update_t by update */
    uint64_t size_bytes;
    uint64_t last; /* the step that ended last; 0: none has */
};

cadre_shard_steps_t *
cadre_shard_steps_new(void)
{
    return cadre_calloc(1, sizeof(cadre_shard_steps_t));
}

/* Frees a held update and its references; the map is left to the caller. */
static void
drop(cadre_shard_steps_t *self, cadre_held_update_t *held)
{
    self->size_bytes -= held->size_bytes;
    for (size_t i = 0; i < held->chunk_count; i++) {
        cadre_chunk_unref(&held->chunks[i]);
    }
    free(held->chunks);
    free(held->parts);
    free(held);
}

/* Drops all held updates, and forgets which step ended last. */
void
cadre_shard_steps_clear(cadre_shard_steps_t *self)
{
    cadre_held_update_t *held = NULL;
    for (size_t cursor = 0; (held = cadre_u64_map_next(&self->held, &cursor));) {
        drop(self, held);
    }
    cadre_u64_map_fini(&self->held);
    self->last = 0;
}

void
cadre_shard_steps_destroy(cadre_shard_steps_t **self_p)
{
    cadre_shard_steps_t *self = *self_p;
    if (!self) {
        return;
    }
    cadre_shard_steps_clear(self);
    cadre_free(self_p);
}

uint64_t
cadre_shard_steps_last(const cadre_shard_steps_t *self)
{
    return self->last;
}

/* Keeps the update of a PUSH until its step ends: copies `parts`, and takes references to the
 * chunks. The step must not have ended. */
void
cadre_shard_steps_hold(cadre_shard_steps_t *self, const cadre_message_t *push,
                       const cadre_held_part_t *parts, size_t part_count)
{
    cadre_assert(push->push.step > self->last);
    cadre_held_update_t *held = cadre_calloc(1, sizeof(*held));
    *held = (cadre_held_update_t){
        .update = push->push.update,
        .step = push->push.step,
        .parts = cadre_calloc(part_count, sizeof(*parts)),
        .part_count = part_count,
        .chunks = cadre_calloc(push->chunk_count, sizeof(cadre_chunk_t *)),
        .chunk_count = push->chunk_count,
    };
    memcpy(held->parts, parts, part_count * sizeof(*parts));
    for (size_t i = 0; i < push->chunk_count; i++) {
        held->chunks[i] = cadre_chunk_ref(push->chunks[i]);
        held->size_bytes += cadre_chunk_size_bytes(push->chunks[i]);
    }
    self->size_bytes += held->size_bytes;
    cadre_u64_map_put(&self->held, held->update, held);
}

const cadre_held_update_t *
cadre_shard_steps_find(const cadre_shard_steps_t *self, uint64_t update)
{
    return cadre_u64_map_get(&self->held, update);
}

/* Ends a step: drops its updates, and what is left of earlier steps, by moving all others to a new
 * map. Returns how many were dropped. */
size_t
cadre_shard_steps_end(cadre_shard_steps_t *self, uint64_t step)
{
    cadre_u64_map_t left = {0};
    size_t dropped = 0;
    cadre_held_update_t *held = NULL;
    for (size_t cursor = 0; (held = cadre_u64_map_next(&self->held, &cursor));) {
        if (held->step <= step) {
            drop(self, held);
            dropped++;
        } else {
            cadre_u64_map_put(&left, held->update, held);
        }
    }
    cadre_u64_map_fini(&self->held);
    self->held = left;
    self->last = step;
    return dropped;
}

size_t
cadre_shard_steps_count(const cadre_shard_steps_t *self)
{
    return self->held.count;
}

uint64_t
cadre_shard_steps_size_bytes(const cadre_shard_steps_t *self)
{
    return self->size_bytes;
}
