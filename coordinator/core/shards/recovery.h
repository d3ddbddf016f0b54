/*
 * recovery - what becomes of a shard whose ps is lost (docs/protocol.md#recovery).
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     AWAY       nobody serves it; workers are told so, requests to it wait
 *      -> RESTORING  another process said HELLO: RESTORE to the last cut, then a CREATE of every
 *                    part
 *          -> READY      all were answered: workers are told who serves it
 *      -> READY      the process that was lost is back with its state
 *
 * A checkpoint that cannot be read is passed over for the one before: what is kept for a replay
 * reaches back to that one's cut.
 *
 * With `replay` a shard that is READY after RESTORING is `replaying` until the pass that begins
 * then (coordinator/core/shards/replay.h) has ended; requests of the API wait for that. `rollback`
 * restores every shard, all to one cut, and then does the same. `relaxed` does without, and counts
 * what may be lost; so do the others once nothing is kept any more.
 *
 * It knows of no coordinator: what it reads and whom it tells are its links, and what others are to
 * do about it is its outcome, which the core takes after every call.
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
    uint64_t holder; /* incarnation whose state has been this generation since READY; 0: nobody's */
    bool replaying;
    uint64_t assigned; /* the last assignment that it was asked to make */
    int point;         /* which of the restore points it begins with, or did */
    uint64_t drops;    /* it does not have what these took, since it was restored last */
    bool begin_anew;   /* that point could not be read: it is to begin with the other one */
    cadre_shard_health_t health; /* of the ps that serves it */
    bool lost_once;              /* it was served before */
    uint64_t lost_ms;            /* when it was lost */
    uint64_t deadline_ms;        /* the job ends when it is AWAY still; 0: it may stay away */
    char lost_text[320];         /* who it was and why */
} cadre_place_t;

/* What the recovery reads, and whom it tells: all borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_membership_t *members;
    const cadre_catalogue_t *catalogue;
    const cadre_drops_t *drops;
    cadre_begun_t *begun;
    cadre_replay_t *replay;
    cadre_shard_requests_t *requests; /* of everybody else */
    cadre_effects_t *effects;
} cadre_recovery_links_t;

/* What others are to do about shards. */
typedef struct {
    bool is_ready;      /* some shard is READY again: closures that wait for one may go */
    bool is_unreadable; /* the newest checkpoint could not be read: another one is due */
    uint32_t restored;  /* shards that are READY without what they had */
    uint64_t at_risk;   /* closures whose updates these lack for good */
    int status;         /* below 0: the job cannot go on, and why; told once */
    const char *text;   /* lives as long as the recovery */
} cadre_recovery_outcome_t;

/* What a turn says of the checkpoint under way. */
typedef struct {
    uint64_t ended;     /* the newest that is not under way any more */
    bool is_committing; /* a restore waits until it is known to which cut */
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
    bool job_ended; /* the outcome has said so, for this reason */
    char job_text[CADRE_CLOSURE_ERROR_SIZE];
} cadre_shard_recovery_t;

void cadre_recovery_init(cadre_shard_recovery_t *self, const cadre_recovery_links_t *links);
void cadre_recovery_fini(cadre_shard_recovery_t *self);

/* Begins with a checkpoint, before the first ps joins. */
void cadre_recovery_resume(cadre_shard_recovery_t *self, const char *path, uint64_t id,
                           uint64_t cut);

/* Takes what others are to do since the last call; false when that is nothing. */
bool cadre_recovery_take_outcome(cadre_shard_recovery_t *self, cadre_recovery_outcome_t *outcome);

/* --- what happens --- */

/* A process that is new here serves the shard from now on. */
void cadre_recovery_on_ps(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                          const cadre_hello_message_t *hello);

/* A ps believed that it served another shard than the one it was given: what it holds of any shard
 * is not known any more. */
void cadre_recovery_on_confused(cadre_shard_recovery_t *self, uint64_t incarnation);

/* Returns how a ps goes by what it says. One that does not go on is to be lost, for the reason in
 * `why`. */
cadre_ps_condition_t cadre_recovery_on_heartbeat(cadre_shard_recovery_t *self,
                                                 const cadre_member_t *ps,
                                                 const cadre_heartbeat_message_t *heartbeat,
                                                 char why[CADRE_RECOVERY_WHY_SIZE]);

/* A ps has gone; it is a member still. */
void cadre_recovery_on_lost(cadre_shard_recovery_t *self, const cadre_member_t *ps,
                            const char *why);

/* The coordinator stood still: a shard that is away may be so for `ms` longer. */
void cadre_recovery_excuse(cadre_shard_recovery_t *self, uint64_t ms);

/* A checkpoint is committed: shards begin there from now on. Takes what `point` holds. */
void cadre_recovery_on_commit(cadre_shard_recovery_t *self, const cadre_restore_point_t *point);

/* Takes a shard's answer to what it was asked, by the recovery or by anybody else; or to a PROBE.
 */
void cadre_recovery_on_answer(cadre_shard_recovery_t *self, uint32_t shard,
                              const cadre_message_t *answer);
void cadre_recovery_on_probed(cadre_shard_recovery_t *self, uint32_t shard,
                              const cadre_message_t *probed);

/* The ps may not have taken what was sent to it on the control plane: asks after it at once. */
void cadre_recovery_doubt(cadre_shard_recovery_t *self, uint32_t shard);

/* Moves on; called every turn. Returns when it must be called again at the latest. */
uint64_t cadre_recovery_tick(cadre_shard_recovery_t *self, const cadre_recovery_turn_t *turn);

/* Sends what shards are to be asked now, by the recovery and by everybody else; false when that is
 * nothing. */
bool cadre_recovery_pump(cadre_shard_recovery_t *self);

/* --- what others ask --- */

/* Every shard is READY and no pass is under way: a checkpoint may cut. */
bool cadre_recovery_is_calm(const cadre_shard_recovery_t *self);

/* What ended before is on its shards, or will not be: join need not wait for recovery. */
bool cadre_recovery_is_settled(const cadre_shard_recovery_t *self);

/* Whether a shard is being restored, or closures run again for one: what is kept for that must not
 * go yet. */
bool cadre_recovery_is_under_way(const cadre_shard_recovery_t *self);

bool cadre_recovery_is_ready(const cadre_shard_recovery_t *self, uint32_t shard);

/* Where `shard` begins, or did when it was restored last. */
const cadre_restore_point_t *cadre_recovery_point(const cadre_shard_recovery_t *self,
                                                  uint32_t shard);

/* Returns whether the checkpoint that `shard` begins with, or did, does not hold this variable,
 * whatever it holds under the name. */
bool cadre_recovery_is_fresh(const cadre_shard_recovery_t *self, uint32_t shard,
                             const cadre_variable_t *variable);

/* Returns the generation that a ps in this place serves its shard in: the next one, while nobody
 * does. */
uint64_t cadre_recovery_welcome_generation(const cadre_shard_recovery_t *self, uint32_t shard);

/* Says which shard is lost or being restored, or how much runs again for one; gives `text`, or NULL
 * when there is nothing of that. */
const char *cadre_recovery_words(const cadre_shard_recovery_t *self,
                                 char text[CADRE_WAITING_TEXT_SIZE]);

/* Counts an assignment that the shard is asked to make; returns its number. */
uint64_t cadre_recovery_next_assignment(cadre_shard_recovery_t *self, uint32_t shard);

/* Variables are about to be created: forgets who has refused any before. */
void cadre_recovery_begin_creation(cadre_shard_recovery_t *self);

/* Returns RETIRE for one shard: `checkpoint` is the last that holds the variable. */
cadre_message_t cadre_recovery_retire_message(const cadre_shard_recovery_t *self, uint32_t variable,
                                              uint32_t shard, uint64_t checkpoint);

/* Tells a worker where a shard is, or that it is away; nothing of one that was never there. */
void cadre_recovery_tell(const cadre_shard_recovery_t *self, const cadre_member_t *worker,
                         uint32_t shard);

#endif
