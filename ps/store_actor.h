/*
 * store_actor - the thread that writes snapshots to disk, one after the other.
 *
 * Owner:   the control loop.
 * Thread:  its own. Writing takes as long as the disk does; it holds references to the snapshot's
 *          chunks meanwhile and nobody waits for it.
 *
 * Pipe, to it: WRITE with a cadre_shard_snapshot_t, ABANDON with a cadre_store_abandon_t, each the
 * actor's from then on. From it: WRITTEN with a cadre_ps_written_t, one for each WRITE.
 */
#ifndef CADRE_PS_STORE_ACTOR_H
#define CADRE_PS_STORE_ACTOR_H

#include "common/net/actor.h"
#include "ps/folders.h"

enum {
    CADRE_STORE_WRITE = 1,
    CADRE_STORE_ABANDON = 2,
    CADRE_STORE_WRITTEN = 3,
};

/* Numbers of checkpoints are unique within a session only: a coordinator that starts again uses the
 * one that was under way. */
typedef struct {
    uint64_t epoch;
    uint64_t checkpoint;
} cadre_store_abandon_t;

/* `folders`: what checkpoints may be in; borrowed. */
int cadre_store_actor_open(cadre_context_t *context, const cadre_folders_t *folders,
                           cadre_actor_t **out);

#endif
