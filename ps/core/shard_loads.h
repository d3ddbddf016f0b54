/*
 * shard_loads - what a shard wants of a checkpoint and does not have yet.
 *
 * Owner:   one shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. RESTORE and CREATE are answered when their loads come
 * back, and everything else is as if they had not come yet. Whoever asks again meanwhile is the one
 * who gets that answer.
 */
#ifndef CADRE_PS_CORE_SHARD_LOADS_H
#define CADRE_PS_CORE_SHARD_LOADS_H

#include "common/wire/task.h"
#include "ps/core/shard_effects.h"
#include "ps/core/shard_parts.h"

/* Who is answered when a load comes back. */
typedef struct {
    cadre_task_t from;
    uint64_t request;
} cadre_asker_t;

/* What became of a load. */
typedef struct {
    enum {
        CADRE_LOAD_STALE, /* nobody waits for it any more */
        CADRE_LOAD_CHECKPOINT,
        CADRE_LOAD_PART,
    } kind;
    cadre_asker_t asker;
    int status;               /* with this thread's error text */
    cadre_shard_part_t *part; /* the caller's, with its partition unless it failed */
} cadre_load_end_t;

typedef struct cadre_shard_loads cadre_shard_loads_t;

cadre_shard_loads_t *cadre_shard_loads_new(void);

/* Nothing may be under way (cadre_shard_loads_forget). */
void cadre_shard_loads_destroy(cadre_shard_loads_t **self_p);

/* Has the checkpoint at `path` opened for shard `index`. */
void cadre_shard_loads_open(cadre_shard_loads_t *self, const char *path, uint32_t index,
                            const cadre_asker_t *asker, cadre_shard_effects_t *effects);

/* Whether a checkpoint is being opened; notes who asks for it now. */
bool cadre_shard_loads_is_opening(const cadre_shard_loads_t *self);
void cadre_shard_loads_open_again(cadre_shard_loads_t *self, const cadre_asker_t *asker);

/* Whether one is open, so that parts are loaded from it. */
bool cadre_shard_loads_is_open(const cadre_shard_loads_t *self);

/* Has the part's partition, which is blank, filled from the checkpoint; takes the part. */
void cadre_shard_loads_fill(cadre_shard_loads_t *self, cadre_shard_part_t **part_p,
                            const cadre_asker_t *asker, cadre_shard_effects_t *effects);

/* The part that is being loaded, NULL when it is not; notes who asks for it now. */
const cadre_shard_part_t *cadre_shard_loads_find(const cadre_shard_loads_t *self, uint64_t variable,
                                                 uint64_t partition);
void cadre_shard_loads_fill_again(cadre_shard_loads_t *self, uint64_t variable, uint64_t partition,
                                  const cadre_asker_t *asker);

/* A load has come back: says what it was, and takes the partition out of it. */
cadre_load_end_t cadre_shard_loads_end(cadre_shard_loads_t *self, cadre_checkpoint_load_t *load);

/* Whether this asker waits for a load. */
bool cadre_shard_loads_is_awaited(const cadre_shard_loads_t *self, const cadre_asker_t *asker);

/* Gives up a load of this variable, with CADRE_EFENCED; false when there is none. */
bool cadre_shard_loads_drop(cadre_shard_loads_t *self, uint64_t variable, cadre_load_end_t *out);

/* Gives up everything, and has the checkpoint closed. */
void cadre_shard_loads_forget(cadre_shard_loads_t *self, cadre_shard_parts_t *parts,
                              cadre_shard_effects_t *effects);

#endif
