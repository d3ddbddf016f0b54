#include "ps/core/shard_steps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"

struct cadre_shard_steps {
    cadre_u64_map_t held;    /* cadre_held_update_t by update */
    uint64_t size_bytes;     /* of the gradients that are held */
    uint64_t size_bytes_max; /* 0: without limit */
    uint64_t growth;         /* of tables, once what is held is applied */
    uint64_t last;           /* the step that ended last; 0: none has */
};

cadre_shard_steps_t *
cadre_shard_steps_new(uint64_t size_bytes_max)
{
    cadre_shard_steps_t *self = cadre_calloc(1, sizeof(*self));
    self->size_bytes_max = size_bytes_max;
    return self;
}

/* Frees a held update and its references; the map is left to the caller. */
static void
drop(cadre_shard_steps_t *self, cadre_held_update_t *held)
{
    self->size_bytes -= held->size_bytes;
    self->growth -= held->growth;
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

static uint64_t
size_of(const cadre_message_t *push)
{
    uint64_t size_bytes = 0;
    for (size_t i = 0; i < push->chunk_count; i++) {
        size_bytes += cadre_chunk_size_bytes(push->chunks[i]);
    }
    return size_bytes;
}

/* Refuses an update for which there is no room beside those that are held already. A single one is
 * held whatever its size: the shard has taken it in, and holds nothing else. */
int
cadre_shard_steps_check_room(const cadre_shard_steps_t *self, const cadre_message_t *push)
{
    const uint64_t size_bytes = size_of(push);
    if (self->size_bytes_max == 0 || self->size_bytes == 0 ||
        self->size_bytes + size_bytes <= self->size_bytes_max) {
        return 0;
    }
    return cadre_fail(CADRE_EFULL,
                      "%zu updates of step %" PRIu64 " take %" PRIu64
                      " bytes until it ends, %" PRIu64 " more are above the limit of %" PRIu64
                      ": use fewer step_closures, more ps, or ps with more memory",
                      self->held.count, push->push.step, self->size_bytes, size_bytes,
                      self->size_bytes_max);
}

/* Keeps the update of a PUSH until its step ends: copies `parts`, and takes references to the
 * chunks. The step must not have ended. */
void
cadre_shard_steps_hold(cadre_shard_steps_t *self, const cadre_message_t *push,
                       const cadre_held_part_t *parts, size_t part_count, uint64_t growth)
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
        .size_bytes = size_of(push),
        .growth = growth,
    };
    memcpy(held->parts, parts, part_count * sizeof(*parts));
    for (size_t i = 0; i < push->chunk_count; i++) {
        held->chunks[i] = cadre_chunk_ref(push->chunks[i]);
    }
    self->size_bytes += held->size_bytes;
    self->growth += growth;
    cadre_u64_map_put(&self->held, held->update, held);
}

uint64_t
cadre_shard_steps_growth(const cadre_shard_steps_t *self)
{
    return self->growth;
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
