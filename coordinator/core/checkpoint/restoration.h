/*
 * restoration - takes a running job back to one of its checkpoints
 * (docs/protocol.md#going-back-to-a-checkpoint).
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * All shards begin with the checkpoint, in new generations, as in a rollback; but nothing runs
 * again. The state of the checkpoint takes the place of all that was done so far, under ids that
 * only go up: it holds, from now on, every closure that was ever begun and every assignment that
 * was made. A shard that is lost later begins with it too, and runs again what came after it.
 */
#ifndef CADRE_COORDINATOR_CORE_CHECKPOINT_RESTORATION_H
#define CADRE_COORDINATOR_CORE_CHECKPOINT_RESTORATION_H

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/closures/begun.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/shards/drops.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/shard_requests.h"
#include "coordinator/core/shards/windows.h"

/* The objects that it reads and calls; borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_catalogue_t *catalogue;
    const cadre_drops_t *drops;
    const cadre_closure_queue_t *queue;
    const cadre_begun_t *begun;
    const cadre_replay_t *replay;
    const cadre_shard_requests_t *requests;
    cadre_shard_recovery_t *recovery;
    cadre_windows_t *windows;
    cadre_checkpoint_t *checkpoint;
    cadre_effects_t *effects;
} cadre_restoration_links_t;

typedef struct {
    cadre_restoration_links_t links;
} cadre_restoration_t;

/* The checkpoint that the job goes back to. */
typedef struct {
    const char *path;
    uint64_t id;
    const cadre_sequences_t *sequences; /* of the closures that it holds */
} cadre_restoration_target_t;

void cadre_restoration_init(cadre_restoration_t *self, const cadre_restoration_links_t *links);

/* Returns 0 when the job may go back now.
 *
 * CADRE_EAGAIN: it must wait for `what` (a text that lives for ever), which ends by itself: a shard
 *   is away or lacks what runs again for it, a checkpoint is under way, a variable is being created
 *   or dropped, or a shard has not answered an assignment, which would have no place before or
 *   after.
 * CADRE_ESTATE: a closure, common or pinned, is queued or in flight; a variable that was resumed is
 *   not created again yet; or the job has no variables. */
int cadre_restoration_check(const cadre_restoration_t *self, const char **what);

/* Takes the job back, which cadre_restoration_check must allow: every shard is being restored when
 * this returns, and the job is what it was when cadre_recovery_is_calm again. */
void cadre_restoration_begin(cadre_restoration_t *self, const cadre_restoration_target_t *target);

#endif
