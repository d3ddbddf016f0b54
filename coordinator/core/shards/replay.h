/*
 * replay - what must be done again when a shard is restored: the closures that pushed updates and
 * the assignments since the last committed cut.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure that ended well after pushing updates is kept. When a restored shard is ready, a pass
 * begins: every kept closure is run again under its own ids, the oldest first, in front of new
 * work; shards that have an update already answer that it is a duplicate. An assignment is repeated
 * at its place: after the kept closures that were begun before it, before those begun after it. A
 * shard that is restored meanwhile restarts the pass. A commit drops what it covers.
 *
 *     LOG  kept, nothing to do   -- pass begins -->  REDO  to be run again  -- taken -->  in flight
 *      ^                                              ^  |                                  |
 *      |                                              |  '-- its shard is away --> ASIDE    |
 *      '------------------------- done ---------------'---------- lost, refused, stale -----'
 *
 * Bounds: CADRE_REPLAY_CLOSURES_MAX closures or CADRE_REPLAY_SIZE_MAX bytes, or two fifths of the
 * window of ids. At one the coordinator takes a checkpoint, at twice one it begins nothing new;
 * without checkpoints it gives up keeping (cadre_replay_stop), and a lost ps costs updates.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_REPLAY_H
#define CADRE_COORDINATOR_CORE_SHARDS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/wire/outbox.h"
#include "coordinator/core/shards/closure_log.h"

/* An assignment of one part, as it was sent. */
typedef struct {
    uint64_t position; /* the id that the next new closure would have got */
    uint32_t shard;
    uint32_t variable;
    cadre_outbox_entry_t entry;
} cadre_replay_assign_t;

typedef struct {
    bool keeping;
    cadre_u64_map_t kept; /* by id: every closure of the three logs, and those in flight */
    cadre_closure_log_t log;
    cadre_closure_log_t redo;
    cadre_closure_log_t aside;
    size_t in_flight;   /* kept ones */
    size_t size_bytes;  /* of closures, assignments, and results that closures take as arguments */
    uint64_t forgotten; /* closures so far */
    uint64_t unsaved;   /* closures with updates that ended and are not kept: only goes up */
    bool holds;         /* nothing new is begun until a checkpoint makes room */

    size_t old_count; /* closures from below the newest cut: kept for the checkpoint before it, */
    size_t old_bytes; /* and their bytes */

    cadre_replay_assign_t *assigns; /* oldest first */
    size_t assign_count;
    size_t assign_capacity;
    uint64_t assign_dropped; /* how many came before assigns[0] */

    bool is_stepwise; /* closures run again a synchronous step at a time: */
    uint64_t pause;   /* those with an id below this; 0: none, between two steps */

    bool active;           /* a pass is under way */
    uint64_t from;         /* its first id */
    uint64_t assigns_from; /* how many assignments come before its first */
    size_t pass_count;     /* closures that it runs again */
    size_t assign_next;    /* of the pass: first that was not repeated */
    size_t assign_pending; /* repeated and not answered; all have position `assign_at` */
    uint64_t assign_at;
} cadre_replay_t;

void cadre_replay_init(cadre_replay_t *self, bool keeping, bool is_stepwise);

/* Nothing may be in flight: the owner has taken those out with cadre_replay_drop. */
void cadre_replay_fini(cadre_replay_t *self);

/* --- keeping --- */

/* Takes a closure that has ended; its id is new here. */
void cadre_replay_keep(cadre_replay_t *self, cadre_closure_t *closure);

/* Counts a closure with updates that has ended and is not kept. */
void cadre_replay_note_unsaved(cadre_replay_t *self);

/* Notes an assignment that is about to be sent; shares its chunks. */
void cadre_replay_note_assign(cadre_replay_t *self, uint32_t shard, uint64_t position,
                              const cadre_message_t *message);

/* Assignments noted so far, dropped ones included: what a snapshot covers. */
uint64_t cadre_replay_assigns(const cadre_replay_t *self);

/* A commit with cut `cut`; the one before it covers every closure below `cut_before` and the first
 * `assigns_before` assignments, which go. No pass may be under way. */
void cadre_replay_commit(cadre_replay_t *self, uint64_t cut, uint64_t cut_before,
                         uint64_t assigns_before);

/* How often the bounds are reached by what came since the newest cut: 0, 1, or 2 for twice and
 * beyond.
 */
int cadre_replay_fullness(const cadre_replay_t *self, uint64_t next_id);

/* Says whether new closures wait until a checkpoint makes room. */
void cadre_replay_hold(cadre_replay_t *self, bool holds);

/* Forgets everything and keeps nothing from now on: what was kept is unsaved. No pass may be under
 * way. */
void cadre_replay_stop(cadre_replay_t *self);

/* The lowest id from `from` on that may be run again, UINT64_MAX when there is none. */
uint64_t cadre_replay_lowest(const cadre_replay_t *self, uint64_t from);

/* The fewest drops of variables before any closure that is kept; UINT64_MAX when none is. */
uint64_t cadre_replay_fewest_drops(const cadre_replay_t *self);

/* Whether a shard that begins where every closure below `cut` and the first `assigns` assignments
 * are in has anything to get back. */
bool cadre_replay_has_work(const cadre_replay_t *self, uint64_t cut, uint64_t assigns);

cadre_closure_t *cadre_replay_find(const cadre_replay_t *self, uint64_t id);

/* --- a pass --- */

/* Begins one over what has_work looks at, or restarts the one under way, which keeps its
 * beginning where that is older. Attempts so far are stale. */
void cadre_replay_begin(cadre_replay_t *self, uint64_t cut, uint64_t assigns);

/* Only closures with an id below this may be handed out, kept or not. */
uint64_t cadre_replay_limit(const cadre_replay_t *self);

/* The next kept closure for worker `worker`, which has these abilities; NULL when there is
 * none for now: it looks past CADRE_REPLAY_PASSED_MAX that are not for this worker, or that
 * `filter` (NULL: there is none) keeps from it. `present` tells of a tag whether that worker is
 * there: where it is not, anyone may. */
cadre_closure_t *cadre_replay_next(const cadre_replay_t *self, uint32_t worker,
                                   const cadre_abilities_t *abilities,
                                   const cadre_closure_filter_t *filter,
                                   bool (*present)(const void *context, uint32_t tag),
                                   const void *context);

/* Puts it in flight. */
void cadre_replay_take_out(cadre_replay_t *self, cadre_closure_t *closure);

/* Both, for a worker without resources and data: the next one, in flight; NULL. */
cadre_closure_t *cadre_replay_take(cadre_replay_t *self, uint32_t worker,
                                   bool (*present)(const void *context, uint32_t tag),
                                   const void *context);

/* What becomes of a kept closure in flight. `drop` frees it: it failed for good. */
void cadre_replay_done(cadre_replay_t *self, cadre_closure_t *closure);
void cadre_replay_put_back(cadre_replay_t *self, cadre_closure_t *closure);
void cadre_replay_put_aside(cadre_replay_t *self, cadre_closure_t *closure);
void cadre_replay_drop(cadre_replay_t *self, cadre_closure_t *closure);

/* What was put aside may go again. */
void cadre_replay_release(cadre_replay_t *self);

/* How many assignments are noted from the first one of the pass on: under way, or the last. */
size_t cadre_replay_pass_assigns(const cadre_replay_t *self);

/* The number of the next assignment to repeat, counted from 0 over all that were ever noted. */
uint64_t cadre_replay_assign_number(const cadre_replay_t *self);

/* The next assignment to repeat now, or NULL: none is left, or its turn has not come. Counts as
 * pending until cadre_replay_assigned. */
const cadre_replay_assign_t *cadre_replay_next_assign(cadre_replay_t *self);
void cadre_replay_assigned(cadre_replay_t *self);

/* Of a stepwise one: lets closures with an id below `pause` run again, and then waits. 0: the step
 * is over. */
void cadre_replay_pause_at(cadre_replay_t *self, uint64_t pause);

/* Returns whether all below that have run. */
bool cadre_replay_is_paused(const cadre_replay_t *self);

/* Ends the pass when nothing of it is left; true when it did. */
bool cadre_replay_ends(cadre_replay_t *self);

#endif
