/*
 * store_actor - the thread that writes snapshots to disk, one after the other.
 *
 * Owner:   the control loop.
 * Thread:  its own. Writing takes as long as the disk does, and nobody waits for it: meanwhile the
 *          actor holds references to the snapshot's chunks.
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

/* Which snapshot to stop writing. The epoch is named too, since numbers of checkpoints are unique
 * within a session only: a coordinator that starts again uses the last number again. */
typedef struct {
    uint64_t epoch;
    uint64_t checkpoint;
} cadre_store_abandon_t;

/* Starts the thread. Snapshots are written in `folders` (borrowed) only. */
int cadre_store_actor_open(cadre_context_t *context, const cadre_folders_t *folders,
                           cadre_actor_t **out);

#endif
