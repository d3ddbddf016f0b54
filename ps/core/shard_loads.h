/*
 * shard_loads - what a shard wants of a checkpoint and does not have yet.
 *
 * Owner:   one shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. RESTORE and CREATE are answered when their loads come
 * back; until then all other messages are answered as if the RESTORE or CREATE had not come. A
 * request that is repeated meanwhile takes the place of the first: its sender gets the answer.
 */
#ifndef CADRE_PS_CORE_SHARD_LOADS_H
#define CADRE_PS_CORE_SHARD_LOADS_H

#include "common/wire/task.h"
#include "ps/core/shard_effects.h"
#include "ps/core/shard_parts.h"

/* The sender and request id that are answered when a load comes back. */
typedef struct {
    cadre_task_t from;
    uint64_t request;
} cadre_asker_t;

/* What became of a load. */
typedef struct {
    enum {
        CADRE_LOAD_STALE, /* no request waits for it any more */
        CADRE_LOAD_CHECKPOINT,
        CADRE_LOAD_PART,
    } kind;
    cadre_asker_t asker;
    int status; /* 0, or a failure, whose text is this thread's error text */
    /* The part, which is the caller's now, with its partition unless the load failed. */
    cadre_shard_part_t *part;
} cadre_load_end_t;

typedef struct cadre_shard_loads cadre_shard_loads_t;

cadre_shard_loads_t *cadre_shard_loads_new(void);

/* Frees the object. No load may be under way: call cadre_shard_loads_forget before. */
void cadre_shard_loads_destroy(cadre_shard_loads_t **self_p);

/* Has the checkpoint at `path` opened for shard `index`. */
void cadre_shard_loads_open(cadre_shard_loads_t *self, const char *path, uint32_t index,
                            const cadre_asker_t *asker, cadre_shard_effects_t *effects);

/* Returns whether a checkpoint is being opened. */
bool cadre_shard_loads_is_opening(const cadre_shard_loads_t *self);

/* Notes that the RESTORE whose checkpoint is being opened was repeated: `asker` is answered, no
 * longer who asked before. */
void cadre_shard_loads_open_again(cadre_shard_loads_t *self, const cadre_asker_t *asker);

/* Returns whether a checkpoint is open, so that parts are loaded from it. */
bool cadre_shard_loads_is_open(const cadre_shard_loads_t *self);

/* Has the part's partition, which is blank, or its table, of at most `room` bytes, filled from the
 * checkpoint; takes the part. */
void cadre_shard_loads_fill(cadre_shard_loads_t *self, cadre_shard_part_t **part_p, uint64_t room,
                            const cadre_asker_t *asker, cadre_shard_effects_t *effects);

/* Returns the part if it is being loaded, else NULL. */
cadre_shard_part_t *cadre_shard_loads_find(const cadre_shard_loads_t *self, uint64_t variable,
                                           uint64_t partition);

/* Notes that the CREATE of a part that is being loaded was repeated: `asker` is answered, no longer
 * who asked before. */
void cadre_shard_loads_fill_again(cadre_shard_loads_t *self, uint64_t variable, uint64_t partition,
                                  const cadre_asker_t *asker);

/* Takes a load that has come back: returns what it was for, and takes the partition out of it. */
cadre_load_end_t cadre_shard_loads_end(cadre_shard_loads_t *self, cadre_checkpoint_load_t *load);

/* Returns whether this request waits for a load. */
bool cadre_shard_loads_is_awaited(const cadre_shard_loads_t *self, const cadre_asker_t *asker);

/* Gives up a load of this variable, with CADRE_EFENCED; false when there is none. */
bool cadre_shard_loads_drop(cadre_shard_loads_t *self, uint64_t variable, cadre_load_end_t *out);

/* Gives up every load, and has the checkpoint closed. */
void cadre_shard_loads_forget(cadre_shard_loads_t *self, cadre_shard_parts_t *parts,
                              cadre_shard_effects_t *effects);

#endif
