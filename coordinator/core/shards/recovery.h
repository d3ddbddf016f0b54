/*
 * recovery - what becomes of a shard whose ps is lost (docs/protocol.md#recovery).
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     AWAY       no ps serves the shard; workers are notified, requests to it wait
 *      -> RESTORING  another process said HELLO: it is sent RESTORE to the last cut, then a CREATE
 *                    of every part
 *          -> READY      it has answered them all: workers are notified that it serves the shard
 *      -> READY      the process that was lost is back with its state
 *
 * A checkpoint that cannot be read is skipped for the checkpoint before: what is kept for a
 * replay reaches back to the cut of that checkpoint.
 *
 * With `replay` a shard that is READY after RESTORING is `replaying` until the pass that begins
 * then (coordinator/core/shards/replay.h) has ended; requests of the API wait for that. `rollback`
 * restores every shard, all to one cut, and then runs the same pass. `relaxed` runs nothing again
 * and counts the closures that are at risk; so do the other two once the replay log is full.
 *
 * The recovery does not know the coordinator: it reads and tells its links, and what others are to
 * do about shards is its outcome, which the core takes after every call.
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
    uint64_t holder;    /* incarnation of the ps that has held this generation since READY; 0: no ps
                        does */
    bool replaying;
    uint64_t assigned; /* number of the last assignment that the shard was asked to make */
    int point;         /* index of the restore point that the shard begins with, or did last */
    uint64_t drops;    /* drops that were done when it was restored last: it lacks those
                          variables */
    bool begin_anew;   /* the checkpoint of `point` could not be read: it is to begin with the other
                          one */
    cadre_shard_health_t health; /* of the ps that serves it */
    bool lost_once;              /* a ps has served it before */
    uint64_t lost_ms;            /* when its ps was lost */
    uint64_t deadline_ms;        /* the job ends if it is AWAY still; 0: it may stay away */
    char lost_text[320];         /* which ps was lost and why */
} cadre_place_t;

/* What the recovery reads, and whom it tells: all borrowed for its life. */
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

/* What others are to do about shards. */
typedef struct {
    bool is_ready;      /* some shard is READY again: closures that wait for it may go */
    bool is_unreadable; /* the newest checkpoint could not be read: another one is due */
    uint32_t restored;  /* shards that became READY without the state they had */
    uint64_t at_risk;   /* closures whose updates these shards lack for good */
    int status;         /* below 0: the job cannot go on, for the reason `text`; told once */
    const char *text;   /* lives as long as the recovery */
} cadre_recovery_outcome_t;

/* What a turn says of the checkpoint under way. */
typedef struct {
    uint64_t ended;     /* id of the newest checkpoint that is not under way any more */
    bool is_committing; /* the rename is under way: a restore waits until it is known which
                           checkpoint is the newest */
} cadre_recovery_turn_t;

typedef struct {
    cadre_recovery_links_t links;
    cadre_recovery_turn_t turn; /* under way, or the last */
    cadre_place_t *places;      /* [ps_count] */
    cadre_restore_points_t points;
    cadre_repairs_t repairs;
    uint64_t announced; /* sum of the places' announced generations */
    bool has_outcome;
    cadre_recovery_outcome_t outcome;
    bool job_ended; /* the outcome has said that, for the reason `job_text` */
    char job_text[CADRE_CLOSURE_ERROR_SIZE];
} cadre_shard_recovery_t;

void cadre_recovery_init(cadre_shard_recovery_t *self, const cadre_recovery_links_t *links);
void cadre_recovery_fini(cadre_shard_recovery_t *self);

/* Sets the checkpoint that all shards begin with, before the first ps joins. */
void cadre_recovery_resume(cadre_shard_recovery_t *self, const char *path, uint64_t id,
                           uint64_t cut);

/* Takes what others are to do since the last call; false when there is nothing. */
bool cadre_recovery_take_outcome(cadre_shard_recovery_t *self, cadre_recovery_outcome_t *outcome);

/* --- what happens --- */

/* Takes the HELLO of a ps that is to serve its shard: it is back with the state that it had, or is
 * to restore the shard. */
void cadre_recovery_on_ps(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                          const cadre_hello_message_t *hello);

/* Marks a ps as confused: it believed that it served another shard than the one it was given, so
 * what it holds of any shard is not known any more. */
void cadre_recovery_on_confused(cadre_shard_recovery_t *self, uint64_t incarnation);

/* Returns the condition of a ps, by its HEARTBEAT. A ps that makes no progress is to be treated as
 * lost, for the reason in `why`. */
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

/* Makes a checkpoint that was committed the one that shards begin with from now on. Takes what
 * `point` owns. */
void cadre_recovery_on_commit(cadre_shard_recovery_t *self, const cadre_restore_point_t *point);

/* Takes a shard's answer to a request of the recovery or of anybody else, or to a PROBE. */
void cadre_recovery_on_answer(cadre_shard_recovery_t *self, uint32_t shard,
                              const cadre_message_t *answer);
void cadre_recovery_on_probed(cadre_shard_recovery_t *self, uint32_t shard,
                              const cadre_message_t *probed);

/* Asks the ps of a shard at once what it has taken, because messages on the control plane may have
 * been lost. */
void cadre_recovery_doubt(cadre_shard_recovery_t *self, uint32_t shard);

/* Carries recoveries on; called every turn. Returns when it must be called again at the latest. */
uint64_t cadre_recovery_tick(cadre_shard_recovery_t *self, const cadre_recovery_turn_t *turn);

/* Sends the requests that shards are to get now, of the recovery and of everybody else; false when
 * there are none. */
bool cadre_recovery_pump(cadre_shard_recovery_t *self);

/* --- what others ask --- */

/* Returns whether every shard is READY and no replay pass is under way, so that a checkpoint may
 * cut. */
bool cadre_recovery_is_calm(const cadre_shard_recovery_t *self);

/* Returns whether the updates of all closures that have ended are on their shards, or never will
 * be: join need not wait for a recovery. */
bool cadre_recovery_is_settled(const cadre_shard_recovery_t *self);

/* Returns whether a shard is being restored, or closures run again for one: what is kept for a
 * replay must stay until that is over. */
bool cadre_recovery_is_under_way(const cadre_shard_recovery_t *self);

bool cadre_recovery_is_ready(const cadre_shard_recovery_t *self, uint32_t shard);

/* Returns the restore point that `shard` begins with, or did when it was restored last. */
const cadre_restore_point_t *cadre_recovery_point(const cadre_shard_recovery_t *self,
                                                  uint32_t shard);

/* Returns whether `shard` does not get this variable from the checkpoint that it begins with, or
 * did, though that may hold another variable of the same name. */
bool cadre_recovery_is_fresh(const cadre_shard_recovery_t *self, uint32_t shard,
                             const cadre_variable_t *variable);

/* Returns the generation in which a ps in this place serves its shard: the next generation, while
 * no ps serves it. */
uint64_t cadre_recovery_welcome_generation(const cadre_shard_recovery_t *self, uint32_t shard);

/* Writes which shard is lost or being restored, or how many closures run again for a shard; returns
 * `text`, or NULL when no recovery is under way. */
const char *cadre_recovery_words(const cadre_shard_recovery_t *self,
                                 char text[CADRE_WAITING_TEXT_SIZE]);

/* Counts an assignment that the shard is asked to make; returns the assignment's number. */
uint64_t cadre_recovery_next_assignment(cadre_shard_recovery_t *self, uint32_t shard);

/* Forgets which shards have refused to create variables: others are about to be created. */
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
