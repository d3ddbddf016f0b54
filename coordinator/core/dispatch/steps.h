/*
 * steps - synchronous steps: what their closures pushed is applied as one update, on every shard.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure of a step (coordinator/core/closures/pace.h) whose updates are held by the shards is
 * held here. When all of the step are, END_STEP tells every shard in which order to sum them; when
 * all have answered, the closures end. Nothing of the next step is handed out before, so each of
 * its pulls gets what this step made, and a second attempt pulls what the first one did.
 *
 *     CLOSURE_DONE -> held | all of the step: END_STEP -> each shard | all replied: they end
 *
 * When shards are restored (always all of them, by rollback) the closures since the cut run again
 * step by step, and END_STEP names the same updates in the same order: the same bits.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_STEPS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_STEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/record_list.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/attempts.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/shard_requests.h"

/* What it reads and whom it notifies: all borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    cadre_closure_queue_t *queue;
    cadre_replay_t *replay;
    cadre_shard_requests_t *requests;
    cadre_shard_requests_t *repairs; /* that go out while shards get back what they lost */
    cadre_attempts_t *attempts;
    cadre_effects_t *effects;
} cadre_steps_links_t;

typedef struct {
    cadre_steps_links_t links;
    cadre_closure_list_t held;    /* of the step under way, in the order of their places */
    cadre_step_update_t *updates; /* what END_STEP names; [update_capacity] */
    size_t update_count;
    size_t update_capacity;
    uint64_t again;   /* the step that runs again; 0: none */
    bool is_asked;    /* the shards were told that the step is over, */
    uint32_t pending; /* and so many have not answered */
} cadre_steps_t;

void cadre_steps_init(cadre_steps_t *self, const cadre_steps_links_t *links);
void cadre_steps_fini(cadre_steps_t *self);

/* Holds a closure of a step whose updates are in, as `reporter` says in `report`. */
void cadre_steps_hold(cadre_steps_t *self, cadre_closure_t *closure, const cadre_member_t *reporter,
                      const cadre_message_t *report);

/* Shards were restored: what is held runs again. */
void cadre_steps_restart(cadre_steps_t *self);

/* Ends the step whose closures are all held, or goes on with those that run again; called every
 * turn. It may end closures. */
void cadre_steps_tick(cadre_steps_t *self);

#endif
