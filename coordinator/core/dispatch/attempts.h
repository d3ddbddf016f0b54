/*
 * attempts - closures on workers: how an attempt begins, and what becomes of the closure when the
 * attempt is over.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     queue, or replay -- take --> in flight -- begin --> on a worker
 *            ^                         ^                     |
 *            |                         '---------------------|
 *            '--- put back, or aside until a shard is back --|
 *                                      finish, fail: ended --'
 *
 * Closures that are lost with a worker go back to the front of the queue and keep their ids, so
 * that no update of them counts twice. A closure that has ended and is kept for a replay
 * (coordinator/core/shards/replay.h) takes the same way when it runs again, but nobody learns of
 * its end a second time.
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

/* The objects that it reads and calls; borrowed for its life. */
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
    cadre_totals_t *totals;     /* counters of the job: attempts and ends are counted here */
    cadre_totals_t *of_clients; /* and here too, those of closures of clients */
    cadre_effects_t *effects;
} cadre_attempts_links_t;

/* Which closures a worker has is stored with the worker (cadre_member_t, `in_flight`). */
typedef struct {
    cadre_attempts_links_t links;
    uint32_t racing;      /* closures that have two attempts under way now */
    uint64_t backups;     /* second attempts begun beside a first one */
    uint64_t backups_won; /* second attempts that ended their closure */
    /* When workers were last told to cancel closures; 0 while nothing is being cancelled. */
    uint64_t cancel_ms;
    uint64_t cancels; /* the queue's `cancels` at cancel_ms: workers hear of a later cancel at
                       * once */
} cadre_attempts_t;

void cadre_attempts_init(cadre_attempts_t *self, const cadre_attempts_links_t *links);

/* --- the beginning --- */

/* Puts a closure in flight that is queued, or that is to run again for a replay;
 * cadre_attempts_begin must follow. Returns false when the values of its arguments cannot be had:
 * the closure has then ended. */
bool cadre_attempts_take(cadre_attempts_t *self, cadre_closure_t *closure);

/* Gives a queued closure without a tag and without arguments of others its id before it is handed
 * out: it counts as begun from now on, as one that was put back does. */
void cadre_attempts_number(cadre_attempts_t *self, cadre_closure_t *closure);

/* Begins an attempt at a closure that cadre_attempts_take put in flight: gives the closure its id
 * if it has none, and sends it to the worker. */
void cadre_attempts_begin(cadre_attempts_t *self, cadre_member_t *worker, cadre_closure_t *closure);

/* Begins an attempt at a closure in flight on `other`, beside the one under way, which goes on: the
 * first to report ends the closure. The closure must not have a second attempt yet. */
void cadre_attempts_race(cadre_attempts_t *self, cadre_closure_t *closure, cadre_member_t *other);

/* Moves a closure in flight from its worker, where it is cancelled, to `other`. */
void cadre_attempts_move(cadre_attempts_t *self, cadre_closure_t *closure, cadre_member_t *other);

/* Returns the closure with this id: one that was begun and has not ended, or one that is kept for a
 * replay. NULL when there is none. */
cadre_closure_t *cadre_attempts_find(const cadre_attempts_t *self, uint64_t id);

/* --- the end of an attempt --- */

/* Takes a closure off its worker and returns it to the front of the queue (which ends it while
 * everything is being cancelled), or to the replay. */
void cadre_attempts_put_back(cadre_attempts_t *self, cadre_closure_t *closure);

/* Takes a closure off its worker and puts it aside until the shard that it needs is back. */
void cadre_attempts_put_aside(cadre_attempts_t *self, cadre_closure_t *closure);

/* Takes a closure of a synchronous step off its worker and holds it: its updates are on the shards,
 * and are applied when the step ends. A worker that still runs it is sent a CANCEL, unless that is
 * `reporter`, which has reported its end. */
void cadre_attempts_hold(cadre_attempts_t *self, cadre_closure_t *closure,
                         const cadre_member_t *reporter);

/* Puts back all closures of a worker that goes. `died`: the death counts against the closures that
 * it may have been running, and a closure that is proved to have killed its workers ends. */
void cadre_attempts_lose(cadre_attempts_t *self, cadre_member_t *worker, bool died);

/* Tells the workers to stop all closures in flight, and repeats that, while the queue is
 * cancelling. Called every turn. */
void cadre_attempts_cancel(cadre_attempts_t *self);

/* --- the end of a closure --- */

/* Ends a closure that is not kept for a replay, whatever its state. A worker that still runs it is
 * told to stop, unless that is `reporter`, which has reported its end (NULL: no worker has). */
void cadre_attempts_finish(cadre_attempts_t *self, cadre_closure_t *closure,
                           const cadre_member_t *reporter, const cadre_closure_end_t *end);

/* Notes that a closure which is kept for a replay has run again, as `reporter` says. */
void cadre_attempts_finish_again(cadre_attempts_t *self, cadre_closure_t *closure,
                                 const cadre_member_t *reporter);

/* Ends a closure in flight that has failed and is not tried again. A closure that had ended well
 * before and ran again for a replay has nobody waiting for it, but the updates that the shard lost
 * stay lost: that becomes an error of the job. */
void cadre_attempts_fail(cadre_attempts_t *self, cadre_closure_t *closure,
                         const cadre_member_t *reporter, const cadre_closure_end_t *end);

/* Ends a queued closure whose arguments cannot be had, or that no worker can run, with `status` and
 * this thread's error text. */
void cadre_attempts_refuse(cadre_attempts_t *self, cadre_closure_t *closure, int status);

/* Gives up a closure that had ended well and was to run again for a replay: the updates that the
 * restored shard lacks become an error of the job. The closure is on no worker and was taken out of
 * the replay (cadre_replay_take_out). */
void cadre_attempts_give_up(cadre_attempts_t *self, cadre_closure_t *closure, int status,
                            const char *why);

/* Takes all closures off their workers, before the core is freed: those in flight return to the
 * queue, those that ran again for a replay are freed. */
void cadre_attempts_clear(cadre_attempts_t *self);

#endif
