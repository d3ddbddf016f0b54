/*
 * load_actor - the thread that reads checkpoints for the shard, so that the shard answers whatever
 * else it is asked meanwhile.
 *
 * Owner:   the shard actor.
 * Thread:  its own; it has the chunks of one load read by as many threads as there are CPUs
 *          (common/system/parallel.h).
 *
 * Pipe, to it: LOAD with a cadre_checkpoint_load_t, FROM with a uint64_t: loads with a lower number
 * are given up. From it: LOADED with each cadre_checkpoint_load_t, in their order. Each object is
 * the receiver's. There are at most as many loads as the coordinator has questions unanswered.
 */
#ifndef CADRE_PS_LOAD_ACTOR_H
#define CADRE_PS_LOAD_ACTOR_H

#include <stdatomic.h>

#include "common/net/actor.h"
#include "ps/folders.h"

enum {
    CADRE_LOAD_LOAD = 1,
    CADRE_LOAD_FROM = 2,
    CADRE_LOAD_LOADED = 3,
};

/* Starts the thread. Checkpoints are read in `folders` only; `steps` is incremented while a load
 * makes progress. Both are borrowed. */
int cadre_load_actor_open(cadre_context_t *context, const cadre_folders_t *folders,
                          atomic_uint_fast64_t *steps, cadre_actor_t **out);

/* Frees the object in a message from or to this actor, by the message's kind. */
void cadre_load_actor_drop(cadre_pipe_message_t *message);

#endif
