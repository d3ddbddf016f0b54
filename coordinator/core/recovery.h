/*
 * recovery - what becomes of a shard whose ps is lost (docs/protocol.md#recovery).
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 *     AWAY       nobody serves it; workers are told so, requests to it wait
 *      -> RESTORING  another process said HELLO: RESTORE to the last cut, then a CREATE of every
 * part
 *          -> READY      all were answered: workers are told who serves it
 *      -> READY      the process that was lost is back with its state
 *
 * A checkpoint that cannot be read is passed over for the one before: what is kept for a replay
 * reaches back to that one's cut.
 *
 * With `replay` a shard that is READY after RESTORING is `replaying` until the pass that begins
 * then (coordinator/core/replay.h) has ended; requests of the API wait for that. `rollback`
 * restores every shard, all to one cut, and then does the same. `relaxed` does without, and counts
 * what may be lost; so do the others once nothing is kept any more.
 */
#ifndef CADRE_COORDINATOR_CORE_RECOVERY_H
#define CADRE_COORDINATOR_CORE_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/membership.h"
#include "coordinator/core/shard_requests.h"

struct cadre_core;
struct cadre_variable;

/* Where a shard can begin: everything below `cut` and the first `assigns` assignments are in it.
 * What came since is kept for a replay, or may be lost: that is counted from here. */
typedef struct {
    char *path;  /* of the checkpoint; "" for initial values */
    uint64_t id; /* of the checkpoint, 0 for initial values */
    uint64_t cut;
    uint64_t assigns;   /* noted for a replay */
    uint64_t *assigned; /* [ps_count]: each shard's last assignment in it; NULL: none is */
    uint64_t unsaved;   /* what the core's was */
    uint64_t risked;    /* closures since, not kept, that are in totals.closures_at_risk already */
    uint32_t
        variable_count; /* of a checkpoint of this session: it holds variables up to this id, */
    uint64_t drops;     /* but for those that so many drops had taken */
} cadre_restore_point_t;

void cadre_restore_point_fini(cadre_restore_point_t *self);

typedef enum {
    CADRE_PLACE_AWAY,
    CADRE_PLACE_RESTORING,
    CADRE_PLACE_READY,
} cadre_place_state_t;

typedef struct {
    cadre_place_state_t state;
    uint64_t generation;
    uint64_t announced; /* the last generation that workers were told of */
    uint64_t holder; /* incarnation whose state has been this generation since READY; 0: nobody's */
    bool replaying;
    int point;             /* which of the core's restore points it begins with, or did */
    uint64_t drops;        /* it does not have what these took, since it was restored last */
    bool begin_anew;       /* that point could not be read: it is to begin with the other one */
    uint64_t connected_ms; /* when the shell was last told to connect to it */
    uint32_t mutes;        /* connections given up one after the other with nothing heard on them */
    uint32_t pending;      /* RESTORE and CREATEs not answered */
    uint64_t progress;     /* what the ps's last HEARTBEAT said, */
    uint64_t progress_ms;  /* since when it has not changed, */
    uint32_t progress_same; /* and how many have said so; */
    uint64_t differs_ms; /* since when it has said that it serves something else; 0: it does not, */
    uint32_t differs_same; /* and how often */
    bool lost_once;        /* it was served before */
    uint64_t lost_ms;      /* when it was lost */
    uint64_t deadline_ms;  /* the job ends when it is AWAY still; 0: it may stay away */
    char lost_text[320];   /* who it was and why */
} cadre_place_t;

/* --- what happens --- */

/* A process that is new here serves the shard from now on. */
void cadre_recovery_on_ps(struct cadre_core *core, cadre_member_t *ps,
                          const cadre_hello_message_t *hello);

/* A ps believed that it served another shard than the one it was given: what it holds of any shard
 * is not known any more. */
void cadre_recovery_on_confused(struct cadre_core *core, uint64_t incarnation);

/* A ps says how it goes. One whose shard stands still for a lease, or serves something else than is
 * believed for as long, is lost: it may be gone when this returns. */
void cadre_recovery_on_heartbeat(struct cadre_core *core, cadre_member_t *ps,
                                 const cadre_heartbeat_message_t *heartbeat);

/* A ps has gone; it is a member still. */
void cadre_recovery_on_lost(struct cadre_core *core, const cadre_member_t *ps, const char *why);

/* A checkpoint is committed: shards begin there from now on. Takes what `point` holds. */
void cadre_recovery_on_commit(struct cadre_core *core, const cadre_restore_point_t *point);

/* Moves on; called every turn. Returns when it must be called again at the latest. */
uint64_t cadre_recovery_tick(struct cadre_core *core);

/* --- what others ask --- */

/* Every shard is READY and no pass is under way: a checkpoint may cut. */
bool cadre_recovery_is_calm(const struct cadre_core *core);

/* What ended before is on its shards, or will not be: join need not wait for recovery. */
bool cadre_recovery_is_settled(const struct cadre_core *core);

/* Who is to be asked for `shard` by the API, and by the recovery itself. */
cadre_shard_target_t cadre_recovery_target(const struct cadre_core *core, uint32_t shard);
cadre_shard_target_t cadre_recovery_repair_target(const struct cadre_core *core, uint32_t shard);

/* Where `shard` begins, or did when it was restored last. */
const cadre_restore_point_t *cadre_recovery_point(const struct cadre_core *core, uint32_t shard);

/* Returns whether the checkpoint that `shard` begins with, or did, does not hold this variable,
 * whatever it holds under the name. One of another session may hold any: only names tell there. */
bool cadre_recovery_is_fresh(const struct cadre_core *core, uint32_t shard,
                             const struct cadre_variable *variable);

/* --- between the files of the core --- */

/* replaying.c: what a turn does for the pass that is under way, and for the bounds. */
void cadre_recovery_replay(struct cadre_core *core);

#endif
