/*
 * steps - synchronous steps: the updates that the closures of a step pushed are applied as one, on
 * every shard.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure of a step (coordinator/core/closures/pace.h) whose updates the shards hold unapplied is
 * held here. When all closures of the step are held, END_STEP tells every shard in which order to
 * sum the updates; when all shards have answered, the closures end. Shards that never had a part of
 * a variable hold nothing, and are not told. No closure of the next step is
 * handed out before, so each of its pulls gets the values after this step, and a second attempt
 * pulls the same values as the first.
 *
 *     CLOSURE_DONE -> held | all of the step: END_STEP -> each shard | all replied: they end
 *
 * When shards are restored (always all of them, by rollback) the closures since the cut run again
 * step by step, and END_STEP names the same updates in the same order: the same bits.
 *
 * A shard that refuses END_STEP ends the job. It refuses only what contradicts the updates that it
 * holds (ps/core/shard_updates.h), and a restore would lead to the same step with the same updates.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_STEPS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/record_list.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/shards/recovery.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/shard_requests.h"

/* The objects that it reads and calls; borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_catalogue_t *catalogue;
    cadre_closure_queue_t *queue;
    cadre_replay_t *replay;
    cadre_shard_requests_t *requests;
    /* Requests that are sent even while shards are being restored. */
    cadre_shard_requests_t *repairs;
    cadre_shard_recovery_t *recovery;
    cadre_attempts_t *attempts;
    cadre_effects_t *effects;
} cadre_steps_links_t;

typedef struct {
    cadre_steps_links_t links;
    /* Closures of the step under way whose updates the shards have, in the order of their
     * places. */
    cadre_closure_list_t held;
    cadre_step_update_t *updates; /* [update_capacity]: updates that END_STEP names */
    size_t update_count;
    size_t update_capacity;
    uint64_t again;   /* number of the step that runs again for a replay; 0: none */
    bool is_asked;    /* END_STEP was sent for the step under way */
    uint64_t asked;   /* number of the step that END_STEP was sent for last */
    uint32_t pending; /* how many shards have not answered END_STEP */
} cadre_steps_t;

void cadre_steps_init(cadre_steps_t *self, const cadre_steps_links_t *links);
void cadre_steps_fini(cadre_steps_t *self);

/* Holds a closure of a step whose updates are on the shards, as the worker `reporter` says in
 * `report`. */
void cadre_steps_hold(cadre_steps_t *self, cadre_closure_t *closure, const cadre_member_t *reporter,
                      const cadre_message_t *report);

/* Starts the step under way again after shards were restored: the closures that are held run
 * again. */
void cadre_steps_restart(cadre_steps_t *self);

/* Ends the step whose closures are all held, or goes on with the steps that run again for a replay;
 * called every turn. May end closures. */
void cadre_steps_tick(cadre_steps_t *self);

#endif
