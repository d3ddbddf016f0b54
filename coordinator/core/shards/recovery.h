/*
 * recovery - brings back a shard whose ps is lost (docs/protocol.md#recovery).
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     AWAY             no ps serves the shard; workers are notified, requests to the shard wait
 *      -> RESTORING    another process said HELLO: it is sent RESTORE to the last cut, then a
 *                      CREATE of every partition
 *          -> READY    the process has answered all of these: workers learn that it serves the
 *                      shard
 *      -> READY        the process that was lost is back with its state
 *
 * A checkpoint that cannot be read is skipped for the checkpoint before: what is kept for a
 * replay reaches back to the cut of that checkpoint.
 *
 * With `replay` a shard that is READY after RESTORING is `replaying` until the pass that begins
 * then (coordinator/core/shards/replay.h) has ended; requests of the API wait for that. `rollback`
 * restores every shard, all to one cut, and then runs the same pass. `relaxed` runs nothing again
 * and counts the closures that are at risk; so do the other two once the replay log is full.
 *
 * The recovery does not know the coordinator: it reads and calls only its links. What other classes
 * are to do about shards it puts into its outcome, which the core takes after every call.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_RECOVERY_H
#define CADRE_COORDINATOR_CORE_SHARDS_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/begun.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/closure_words.h"
#include "coordinator/core/members/membership.h"
#include "coordinator/core/shards/drops.h"
#include "coordinator/core/shards/repairs.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/restore_points.h"
#include "coordinator/core/shards/shard_health.h"
#include "coordinator/core/shards/shard_requests.h"

enum { CADRE_RECOVERY_WHY_SIZE = 160 }; /* bytes of a reason for which a ps is lost */

typedef enum {
    CADRE_PLACE_AWAY,
    CADRE_PLACE_RESTORING,
    CADRE_PLACE_READY,
} cadre_place_state_t;

enum { CADRE_PLACE_STATES = CADRE_PLACE_READY + 1 };

/* Returns "away", "restoring" or "ready". */
const char *cadre_place_state_text(cadre_place_state_t state);

typedef struct {
    cadre_place_state_t state;
    uint64_t generation;
    uint64_t announced; /* the last generation that workers were told of */
    /* Incarnation of the ps that has held this generation since it was READY; 0: no ps has its
     * state. */
    uint64_t holder;
    bool replaying;
    uint64_t assigned; /* number of the last assignment that the shard was asked to make */
    uint64_t step;     /* the last synchronous step that it has ended, as it says; 0: none since it
                          was restored */
    /* Index of the restore point that the shard begins with, or began with last. */
    int point;
    /* How many drops had retired at the cut of the shard's last restore point: the shard does not
     * have the variables of those drops. */
    uint64_t drops;
    /* The checkpoint of `point` could not be read: in the next turn the restore starts again with
     * the other restore point. */
    bool begin_anew;
    cadre_shard_health_t health; /* condition of the ps that serves it */
    bool lost_once;              /* a ps has served it before */
    uint64_t lost_ms;            /* when its ps was lost */
    /* When the job ends if the shard still has no ps; 0: the shard may stay away. */
    uint64_t deadline_ms;
    char lost_text[320]; /* says which ps was lost and why */
} cadre_place_t;

/* The objects that the recovery reads and calls; borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_drops_t *drops;
    cadre_begun_t *begun;
    cadre_replay_t *replay;
    cadre_shard_requests_t *requests; /* the requests of the API and the checkpoint */
    cadre_effects_t *effects;
} cadre_recovery_links_t;

/* What other classes are to do about shards. */
typedef struct {
    bool is_ready;      /* a shard is READY again: closures that wait aside may go */
    bool is_unreadable; /* the newest checkpoint could not be read: another one is due */
    uint32_t restored;  /* how many shards became READY without the state that they had */
    uint64_t at_risk;   /* how many closures have lost updates with these shards for good */
    int status;         /* below 0: the job cannot go on, for the reason `text`; told once */
    const char *text;   /* lives as long as the recovery */
} cadre_recovery_outcome_t;

/* What the core tells the recovery in each turn about the checkpoint under way. */
typedef struct {
    uint64_t ended;     /* id of the newest checkpoint that is not under way any more */
    bool is_committing; /* the rename is under way: a restore waits until it is known which
                           checkpoint is the newest */
} cadre_recovery_turn_t;

typedef struct {
    cadre_recovery_links_t links;
    cadre_recovery_turn_t turn; /* what the last cadre_recovery_tick was given */
    cadre_place_t *places;      /* [ps_count] */
    cadre_restore_points_t points;
    cadre_repairs_t repairs;
    uint64_t announced; /* sum of `announced` over all places */
    bool has_outcome;
    cadre_recovery_outcome_t outcome;
    bool job_ended; /* an outcome has said that the job cannot go on, for the reason `job_text` */
    char job_text[CADRE_CLOSURE_ERROR_SIZE];
} cadre_shard_recovery_t;

void cadre_recovery_init(cadre_shard_recovery_t *self, const cadre_recovery_links_t *links);
void cadre_recovery_fini(cadre_shard_recovery_t *self);

/* Sets the checkpoint that all shards begin with, before the first ps joins. */
void cadre_recovery_resume(cadre_shard_recovery_t *self, const char *path, uint64_t id,
                           uint64_t cut);

/* Takes out what other classes are to do since the last call; false when there is nothing. */
bool cadre_recovery_take_outcome(cadre_shard_recovery_t *self, cadre_recovery_outcome_t *outcome);

/* Ends the job by the outcome, for the first reason that is given: `status` below 0 and `text`. */
void cadre_recovery_end_job(cadre_shard_recovery_t *self, int status, const char *text);

/* --- events --- */

/* Takes the HELLO of a ps that is to serve the shard of its place: either it is back with the state
 * that it had, or the shard is to be restored. */
void cadre_recovery_on_ps(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                          const cadre_hello_message_t *hello);

/* Marks a ps as confused: it believed that it served another shard than the one it was given, so
 * what it holds of any shard is not known any more. */
void cadre_recovery_on_confused(cadre_shard_recovery_t *self, uint64_t incarnation);

/* Returns the condition of a ps, by its HEARTBEAT. A ps that is not CADRE_PS_GOES_ON is to be
 * treated as lost, for the reason in `why`. */
cadre_ps_condition_t cadre_recovery_on_heartbeat(cadre_shard_recovery_t *self,
                                                 const cadre_member_t *ps,
                                                 const cadre_heartbeat_message_t *heartbeat,
                                                 char why[CADRE_RECOVERY_WHY_SIZE]);

/* Marks the shard of a ps as AWAY, because that ps is lost; called before the ps stops being a
 * member. */
void cadre_recovery_on_lost(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                            const char *why);

/* Gives shards that are away `ms` longer, in which the coordinator itself stood still. */
void cadre_recovery_excuse(cadre_shard_recovery_t *self, uint64_t ms);

/* Makes a committed checkpoint the one that lost shards are restored from. The path and array of
 * `point` are taken. */
void cadre_recovery_on_commit(cadre_shard_recovery_t *self, const cadre_restore_point_t *point);

/* Takes all shards back to `point`, which holds every closure and assignment so far, and forgets
 * what is kept for a replay: nothing runs again. The recovery must be calm, and no closure may be
 * begun. The path and array of `point` are taken. */
void cadre_recovery_go_back(cadre_shard_recovery_t *self, const cadre_restore_point_t *point);

/* Take a shard's answer to a request, the recovery's or another's (on_answer); take its answer to a
 * PROBE (on_probed). */
void cadre_recovery_on_answer(cadre_shard_recovery_t *self, uint32_t shard,
                              const cadre_message_t *answer);
void cadre_recovery_on_probed(cadre_shard_recovery_t *self, uint32_t shard,
                              const cadre_message_t *probed);

/* Asks the ps of a shard at once what it has taken, because messages on the control plane may have
 * been lost. */
void cadre_recovery_doubt(cadre_shard_recovery_t *self, uint32_t shard);

/* Carries recoveries on; called every turn. Returns when it must be called again at the latest. */
uint64_t cadre_recovery_tick(cadre_shard_recovery_t *self, const cadre_recovery_turn_t *turn);

/* Sends the requests that shards are to get now, the recovery's and all others; false when there
 * are none. */
bool cadre_recovery_pump(cadre_shard_recovery_t *self);

/* --- queries --- */

/* Returns whether every shard is READY and no replay pass is under way, so that a checkpoint may
 * open its cut. */
bool cadre_recovery_is_calm(const cadre_shard_recovery_t *self);

/* Returns whether no recovery can bring back any update of a closure that has ended: all are on
 * their shards, or lost for good. So join need not wait for a recovery. */
bool cadre_recovery_is_settled(const cadre_shard_recovery_t *self);

/* Returns whether a shard is being restored, or closures run again for one: closures that are kept
 * for a replay must stay until that is over. */
bool cadre_recovery_is_under_way(const cadre_shard_recovery_t *self);

bool cadre_recovery_is_ready(const cadre_shard_recovery_t *self, uint32_t shard);

/* Returns the restore point that `shard` is being restored from, or was restored from last. */
const cadre_restore_point_t *cadre_recovery_point(const cadre_shard_recovery_t *self,
                                                  uint32_t shard);

/* Returns whether the restore point of `shard` (cadre_recovery_point) lacks this variable, though
 * it may hold another variable of the same name: the shard must then initialise it. */
bool cadre_recovery_is_fresh(const cadre_shard_recovery_t *self, uint32_t shard,
                             const cadre_variable_t *variable);

/* Notes that a shard has ended a synchronous step. */
void cadre_recovery_note_step(cadre_shard_recovery_t *self, uint32_t shard, uint64_t step);

/* Returns the generation in which a ps that joins in this place will serve the shard: the next one
 * while the shard is AWAY. */
uint64_t cadre_recovery_welcome_generation(const cadre_shard_recovery_t *self, uint32_t shard);

/* Writes which shard is lost or being restored, or how many closures run again for a shard; returns
 * `text`, or NULL when no recovery is under way. */
const char *cadre_recovery_words(const cadre_shard_recovery_t *self,
                                 char text[CADRE_WAITING_TEXT_SIZE]);

/* Counts an assignment that the shard is asked to make; returns the assignment's number. */
uint64_t cadre_recovery_next_assignment(cadre_shard_recovery_t *self, uint32_t shard);

/* Forgets which shards have refused to create variables: a call is about to create other
 * variables. */
void cadre_recovery_begin_creation(cadre_shard_recovery_t *self);

/* Returns the RETIRE of a variable for one shard; `checkpoint` is the last that holds the variable.
 */
cadre_message_t cadre_recovery_retire_message(const cadre_shard_recovery_t *self, uint32_t variable,
                                              uint32_t shard, uint64_t checkpoint);

/* Tells a worker which ps serves a shard, or that the shard is away; says nothing of a shard that
 * no ps has served yet. */
void cadre_recovery_tell(const cadre_shard_recovery_t *self, const cadre_member_t *worker,
                         uint32_t shard);

#endif
