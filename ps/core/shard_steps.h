/*
 * shard_steps - the updates of a synchronous step, held on their shard until the step ends.
 *
 * Owner:   one shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. An update is held as references to the chunks of its
 * PUSH; it was checked before. END_STEP says which of those that are held count, and in which
 * order: the sum of floats depends on it. What is held of a step that is over is dropped: closures
 * that failed, and second attempts of such.
 */
#ifndef CADRE_PS_CORE_SHARD_STEPS_H
#define CADRE_PS_CORE_SHARD_STEPS_H

#include "common/wire/message.h"

/* A part of a held update: its chunks begin at `chunks` of the update. */
typedef struct {
    uint64_t variable;
    uint64_t partition;
    size_t first_chunk;
} cadre_held_part_t;

typedef struct {
    uint64_t update;
    uint64_t step;
    uint64_t size_bytes; /* of its chunks */
    cadre_held_part_t *parts;
    size_t part_count;
    cadre_chunk_t **chunks; /* references */
    size_t chunk_count;
} cadre_held_update_t;

typedef struct cadre_shard_steps cadre_shard_steps_t;

/* No step has ended and nothing is held. */
cadre_shard_steps_t *cadre_shard_steps_new(void);
void cadre_shard_steps_destroy(cadre_shard_steps_t **self_p);

/* Drops what is held and starts without any step. */
void cadre_shard_steps_clear(cadre_shard_steps_t *self);

/* The step that ended last, 0 for none. */
uint64_t cadre_shard_steps_last(const cadre_shard_steps_t *self);

/* Holds the update of a PUSH, with references to its chunks. `parts` says where those of each part
 * begin; it is copied. */
void cadre_shard_steps_hold(cadre_shard_steps_t *self, const cadre_message_t *push,
                            const cadre_held_part_t *parts, size_t part_count);

/* NULL when it is not held. */
const cadre_held_update_t *cadre_shard_steps_find(const cadre_shard_steps_t *self, uint64_t update);

/* Ends `step`: drops what is held of it and of those before it. Returns how many updates that
 * were. */
size_t cadre_shard_steps_end(cadre_shard_steps_t *self, uint64_t step);

size_t cadre_shard_steps_count(const cadre_shard_steps_t *self);
uint64_t cadre_shard_steps_size_bytes(const cadre_shard_steps_t *self);

#endif
