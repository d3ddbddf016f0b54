/*
 * shard_steps - the updates of a synchronous step, held on their shard until the step ends.
 *
 * Owner:   one shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. An update is held as references to the chunks of its
 * PUSH, which was checked before. END_STEP says which held updates count, and in which order, since
 * a sum of floats depends on the order. Other updates of that step are dropped: they are of
 * closures that failed in the end.
 *
 * What is held at once has a limit, but for a single update. An update beyond it is refused, and
 * does not wait: room comes when the step ends, which waits for that update.
 */
#ifndef CADRE_PS_CORE_SHARD_STEPS_H
#define CADRE_PS_CORE_SHARD_STEPS_H

#include "common/wire/message.h"

enum { CADRE_STEP_PERCENT = 50 }; /* percent of a shard's memory: the limit of what is held */

/* A part of a held update: its chunks are those of the update from number `first_chunk` on. */
typedef struct {
    uint64_t variable;
    uint64_t partition;
    size_t first_chunk;
    uint64_t rows; /* of how many rows its gradients are; 0: of all; of a table, of none */
} cadre_held_part_t;

typedef struct {
    uint64_t update;
    uint64_t step;
    uint64_t size_bytes; /* of its chunks */
    uint64_t growth;     /* bytes that tables can be larger once it is applied */
    cadre_held_part_t *parts;
    size_t part_count;
    cadre_chunk_t **chunks; /* references */
    size_t chunk_count;
} cadre_held_update_t;

typedef struct cadre_shard_steps cadre_shard_steps_t;

/* Returns an object that holds nothing and knows of no step that has ended. `size_bytes_max`: the
 * most bytes of gradients that it holds, but for a single update; 0: without limit. */
cadre_shard_steps_t *cadre_shard_steps_new(uint64_t size_bytes_max);
void cadre_shard_steps_destroy(cadre_shard_steps_t **self_p);

/* Drops all held updates and forgets which steps have ended. */
void cadre_shard_steps_clear(cadre_shard_steps_t *self);

/* Returns the step that ended last, 0 for none. */
uint64_t cadre_shard_steps_last(const cadre_shard_steps_t *self);

/* Checks that there is room for the update of a PUSH; fails with CADRE_EFULL, whose text says what
 * to change. */
int cadre_shard_steps_check_room(const cadre_shard_steps_t *self, const cadre_message_t *push);

/* Holds the update of a PUSH, with references to its chunks. `parts` (copied) says at which chunk
 * each partition's gradient begins, `growth` how many bytes larger tables can be once it is
 * applied. */
void cadre_shard_steps_hold(cadre_shard_steps_t *self, const cadre_message_t *push,
                            const cadre_held_part_t *parts, size_t part_count, uint64_t growth);

/* Returns how many bytes larger tables can be once all held updates are applied. */
uint64_t cadre_shard_steps_growth(const cadre_shard_steps_t *self);

/* Returns the held update with this id; NULL when it is not held. */
const cadre_held_update_t *cadre_shard_steps_find(const cadre_shard_steps_t *self, uint64_t update);

/* Ends `step`: drops the updates of this and of earlier steps. Returns how many were dropped. */
size_t cadre_shard_steps_end(cadre_shard_steps_t *self, uint64_t step);

size_t cadre_shard_steps_count(const cadre_shard_steps_t *self);
uint64_t cadre_shard_steps_size_bytes(const cadre_shard_steps_t *self);

#endif
