/*
 * replay - the replay log: the closures that pushed updates and the assignments since the last
 * committed cut, which are done again when a shard is restored.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A closure that ended well after pushing updates is kept. When a restored shard is ready, a pass
 * begins: every kept closure is run again under its own ids, in the order in which they were first
 * handed out, in front of new work; shards that have an update already answer that it is a
 * duplicate. An assignment is repeated at its place: after the kept closures that were handed out
 * before it, before those handed out after it. Ids do not tell that: a closure may have its id
 * before the assignment, and be handed out after it (dispatch/dispatcher.h). A shard that is
 * restored during a pass restarts it. A commit drops the closures and assignments that the
 * checkpoint before it holds: a shard may yet have to begin with that one.
 *
 *     LOG  kept, nothing to do   -- pass begins -->  REDO  to be run again  -- taken -->  in flight
 *      ^                                              ^  |                                  |
 *      |                                              |  '-- its shard is away --> ASIDE    |
 *      '------------------------- done ---------------'---------- lost, refused, stale -----'
 *
 * Bounds: the log is bounded by CADRE_REPLAY_CLOSURES_MAX closures, CADRE_REPLAY_SIZE_MAX bytes,
 * and two fifths of the window of ids. When it reaches a bound the coordinator takes a checkpoint,
 * at twice a bound it begins no new closure. Without checkpoints it stops keeping closures at a
 * bound (cadre_replay_stop), and a lost ps costs updates.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_REPLAY_H
#define CADRE_COORDINATOR_CORE_SHARDS_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/wire/outbox.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/closure_log.h"

/* An assignment of one partition, as it was sent to its shard. */
typedef struct {
    /* Where it belongs among closures: the number that the next one handed out for the first time
     * got. */
    uint64_t position;
    uint32_t shard;
    uint32_t variable;
    cadre_outbox_entry_t entry;
} cadre_replay_assign_t;

typedef struct {
    bool keeping;
    /* All kept closures by id: those in `log`, `redo` and `aside`, and those in flight. */
    cadre_u64_map_t kept;
    cadre_closure_log_t log;
    cadre_closure_log_t redo;
    cadre_closure_log_t aside;
    size_t in_flight; /* how many kept closures are in flight */
    /* Bytes of kept closures, assignments, and results that kept closures take as arguments. */
    size_t size_bytes;
    uint64_t highest;   /* highest id of a closure that was kept; 0: none was */
    uint64_t keeps;     /* how many closures were kept so far, */
    uint64_t forgotten; /* and how many forgotten */
    /* How many closures that pushed updates have ended and are not kept; only goes up. */
    uint64_t unsaved;
    /* No new closure is begun until a checkpoint is committed, which empties the log. */
    bool holds;

    /* How many closures from below the newest cut are kept, for the checkpoint before it. */
    size_t old_count;
    size_t old_bytes; /* bytes of these closures */

    cadre_replay_assign_t *assigns; /* oldest first */
    size_t assign_count;
    size_t assign_capacity;
    /* How many assignments were noted before assigns[0] and are forgotten. */
    uint64_t assign_dropped;

    bool is_stepwise; /* closures run again one synchronous step at a time, up to `pause` */
    /* Closures with a number below this may run again; 0: between two steps, none may. */
    uint64_t pause;

    bool active;           /* a pass is under way */
    uint64_t from;         /* the pass runs closures from this id on again */
    uint64_t assigns_from; /* number of its first assignment, counted from 0 over all ever noted */
    size_t pass_count;     /* how many closures the pass runs again */
    size_t assign_next;    /* index in `assigns` of the next assignment to repeat */
    /* How many assignments were repeated and not answered; all have position `assign_at`. */
    size_t assign_pending;
    uint64_t assign_at;
} cadre_replay_t;

void cadre_replay_init(cadre_replay_t *self, bool keeping, bool is_stepwise);

/* Frees the log. No kept closure may be in flight: the owner has taken them out with
 * cadre_replay_drop. */
void cadre_replay_fini(cadre_replay_t *self);

/* --- keeping closures and assignments --- */

/* Keeps a closure that has ended, which the replay owns from now on. It must not be kept
 * already. */
void cadre_replay_keep(cadre_replay_t *self, cadre_closure_t *closure);

/* Counts a closure with updates that has ended and is not kept. */
void cadre_replay_note_unsaved(cadre_replay_t *self);

/* Notes an assignment that is about to be sent; shares its chunks. */
void cadre_replay_note_assign(cadre_replay_t *self, uint32_t shard, uint64_t position,
                              const cadre_message_t *message);

/* Returns how many assignments were noted so far, forgotten ones included: the first so many are in
 * a cut that opens now. */
uint64_t cadre_replay_assigns(const cadre_replay_t *self);

/* Takes a commit with cut `cut`. The checkpoint before it is now the oldest that a shard may begin
 * with: forgets the closures and assignments that it holds, those below `cut_before` and the first
 * `assigns_before`. No pass may be under way. */
void cadre_replay_commit(cadre_replay_t *self, uint64_t cut, uint64_t cut_before,
                         uint64_t assigns_before);

/* Returns how full the log is, counting only closures and assignments since the newest cut: 0 below
 * the bounds, 1 from a bound on, 2 from twice a bound on. */
int cadre_replay_fullness(const cadre_replay_t *self, uint64_t next_id);

/* Sets whether new closures wait until a checkpoint is committed (`holds`). */
void cadre_replay_hold(cadre_replay_t *self, bool holds);

/* Forgets everything and keeps nothing from now on: the closures that were kept count as `unsaved`.
 * No pass may be under way. */
void cadre_replay_stop(cadre_replay_t *self);

/* Returns the lowest id from `from` on of a kept closure, UINT64_MAX when there is none. */
uint64_t cadre_replay_lowest(const cadre_replay_t *self, uint64_t from);

/* Returns the lowest `drops` of all kept closures; UINT64_MAX when none is kept. */
uint64_t cadre_replay_fewest_drops(const cadre_replay_t *self);

/* Returns the lowest `removals` of all kept closures; UINT64_MAX when none is kept. */
uint64_t cadre_replay_fewest_removals(const cadre_replay_t *self);

/* Returns whether a shard whose restore point holds every closure below `cut` and the first
 * `assigns` assignments has lost anything that the log can bring back. */
bool cadre_replay_has_work(const cadre_replay_t *self, uint64_t cut, uint64_t assigns);

cadre_closure_t *cadre_replay_find(const cadre_replay_t *self, uint64_t id);

/* --- one pass over the log --- */

/* Begins a pass over the closures from `cut` on and the assignments after the first `assigns`.
 * Restarts a pass that is under way, from its own beginning if that is earlier. All attempts so far
 * become stale. */
void cadre_replay_begin(cadre_replay_t *self, uint64_t cut, uint64_t assigns);

/* Returns the number below which closures, kept or not, may be handed out during the pass. */
uint64_t cadre_replay_limit(const cadre_replay_t *self);

/* Returns the next kept closure to run again on the worker with index `worker`, which has these
 * abilities; NULL when there is none for now. Skips at most CADRE_REPLAY_PASSED_MAX closures that
 * are not for this worker, or that `filter` (may be NULL) keeps from it. A closure whose
 * tag names a worker that is not connected may run on any worker. */
cadre_closure_t *cadre_replay_next(const cadre_replay_t *self, uint32_t worker,
                                   const cadre_abilities_t *abilities,
                                   const cadre_closure_filter_t *filter,
                                   const cadre_membership_t *members);

/* Puts a closure that is to run again in flight. */
void cadre_replay_take_out(cadre_replay_t *self, cadre_closure_t *closure);

/* Take a kept closure out of flight: because it has run again (done), must run again (put_back),
 * waits for a shard that is away (put_aside), or is given up and freed (drop). */
void cadre_replay_done(cadre_replay_t *self, cadre_closure_t *closure);
void cadre_replay_put_back(cadre_replay_t *self, cadre_closure_t *closure);
void cadre_replay_put_aside(cadre_replay_t *self, cadre_closure_t *closure);
void cadre_replay_drop(cadre_replay_t *self, cadre_closure_t *closure);

/* Lets all closures that were put aside run again. */
void cadre_replay_release(cadre_replay_t *self);

/* Returns how many assignments the pass repeats: the one under way, or the last. */
size_t cadre_replay_pass_assigns(const cadre_replay_t *self);

/* Returns the number of the next assignment to repeat, counted from 0 over all that were ever
 * noted. */
uint64_t cadre_replay_assign_number(const cadre_replay_t *self);

/* Returns the next assignment to repeat now, which counts as pending until cadre_replay_assigned is
 * called. NULL when none is left, or older closures must run again first. */
const cadre_replay_assign_t *cadre_replay_next_assign(cadre_replay_t *self);
void cadre_replay_assigned(cadre_replay_t *self);

/* In a stepwise replay: lets closures with a number below `pause` run again, and no others. 0: the
 * step is over, and no closure may run until the next call. */
void cadre_replay_pause_at(cadre_replay_t *self, uint64_t pause);

/* Returns whether all closures with a number below `pause` have run again. */
bool cadre_replay_is_paused(const cadre_replay_t *self);

/* Ends the pass if every closure and assignment of it is done; returns whether it ended. */
bool cadre_replay_ends(cadre_replay_t *self);

#endif
