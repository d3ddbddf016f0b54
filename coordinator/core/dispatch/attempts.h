/*
 * attempts - closures on workers: how an attempt begins, and what becomes of the closure when it is
 * over.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     queue, or replay -- take --> in flight -- begin --> on a worker
 *            ^                         ^                     |
 *            |                         '---------------------|
 *            '--- put back, or aside until a shard is back --|
 *                                      finish, fail: ended --'
 *
 * What is lost with a worker goes back to the front of the queue under the same ids, so that no
 * update of it counts twice. A closure that has ended and is kept for a replay
 * (coordinator/core/shards/replay.h) takes the same way, but its end is not told again.
 */
#ifndef CADRE_COORDINATOR_CORE_DISPATCH_ATTEMPTS_H
#define CADRE_COORDINATOR_CORE_DISPATCH_ATTEMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/checkpoint/checkpoint.h"
#include "coordinator/core/closures/begun.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/dispatch/apart.h"
#include "coordinator/core/dispatch/closure_sender.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/replay.h"

/* What is read, and who is told: all borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    cadre_closure_queue_t *queue;
    cadre_begun_t *begun;
    cadre_replay_t *replay;
    cadre_checkpoint_t *checkpoint;
    cadre_apart_t *apart;
    const cadre_closure_sender_t *sender;
    cadre_totals_t *totals; /* attempts and ends are counted there */
    cadre_effects_t *effects;
} cadre_attempts_links_t;

/* What a worker has is kept with the member (`in_flight`). */
typedef struct {
    cadre_attempts_links_t links;
    uint32_t racing;      /* closures that have two attempts under way now */
    uint64_t backups;     /* second attempts that were begun beside the first, */
    uint64_t backups_won; /* and those that ended their closure */
    uint64_t cancel_ms;   /* when workers were last told to cancel; 0 while nothing is */
} cadre_attempts_t;

void cadre_attempts_init(cadre_attempts_t *self, const cadre_attempts_links_t *links);

/* --- the beginning --- */

/* Puts a closure that is queued, or is to run again, in flight: it is begun next. Returns false
 * when its arguments cannot be had, which has ended it. */
bool cadre_attempts_take(cadre_attempts_t *self, cadre_closure_t *closure);

/* Begins an attempt at a closure that was taken: gives it its id if it has none, and sends it. */
void cadre_attempts_begin(cadre_attempts_t *self, cadre_member_t *worker, cadre_closure_t *closure);

/* Begins an attempt at a closure in flight on `other`, beside the one under way, which goes on: the
 * first to report ends the closure. It has no such attempt yet. */
void cadre_attempts_race(cadre_attempts_t *self, cadre_closure_t *closure, cadre_member_t *other);

/* Moves a closure in flight from its worker, where it is cancelled, to `other`. */
void cadre_attempts_move(cadre_attempts_t *self, cadre_closure_t *closure, cadre_member_t *other);

/* Returns the closure with this id that was begun and may have to end or to run again, NULL for one
 * that is done with. */
cadre_closure_t *cadre_attempts_find(const cadre_attempts_t *self, uint64_t id);

/* --- the end of an attempt --- */

/* Takes a closure off its worker and gives it back to whoever handed it out, who may end it. */
void cadre_attempts_put_back(cadre_attempts_t *self, cadre_closure_t *closure);

/* Takes a closure off its worker; it waits until a shard is back. */
void cadre_attempts_put_aside(cadre_attempts_t *self, cadre_closure_t *closure);

/* Takes a closure off its worker whose updates are in, and count when its step ends. `reporter`,
 * who has told of it, need not be told to stop. */
void cadre_attempts_hold(cadre_attempts_t *self, cadre_closure_t *closure,
                         const cadre_member_t *reporter);

/* Puts everything back that a worker which goes has. `died`: what it may have been running counts
 * the attempt as lost, and ends when it is proved to have killed its workers. */
void cadre_attempts_lose(cadre_attempts_t *self, cadre_member_t *worker, bool died);

/* Tells the workers to stop what is in flight, while the queue is cancelling. Called every turn. */
void cadre_attempts_cancel(cadre_attempts_t *self);

/* --- the end of a closure --- */

/* Ends a closure that is not kept, wherever it is. `reporter`, who has told of it, need not be told
 * to stop; NULL: nobody has. */
void cadre_attempts_finish(cadre_attempts_t *self, cadre_closure_t *closure,
                           const cadre_member_t *reporter, const cadre_closure_end_t *end);

/* Notes that a closure that is kept has run again; `reporter` has told so. */
void cadre_attempts_finish_again(cadre_attempts_t *self, cadre_closure_t *closure,
                                 const cadre_member_t *reporter);

/* Ends a closure in flight that has failed for good. One that had ended before fails nobody's wait,
 * but the updates that its shard lost are not there: that becomes an error of the job. */
void cadre_attempts_fail(cadre_attempts_t *self, cadre_closure_t *closure,
                         const cadre_member_t *reporter, const cadre_closure_end_t *end);

/* Ends a queued closure whose arguments cannot be had, or that nobody can run, for the reason in
 * this thread's error text. */
void cadre_attempts_refuse(cadre_attempts_t *self, cadre_closure_t *closure, int status);

/* Gives up a closure that had ended and was to run again, and that is in flight no longer but taken
 * out (cadre_replay_take_out): reports the updates that its shard lacks as an error of the job. */
void cadre_attempts_give_up(cadre_attempts_t *self, cadre_closure_t *closure, int status,
                            const char *why);

/* Takes everything off its worker before the core goes. */
void cadre_attempts_clear(cadre_attempts_t *self);

#endif
