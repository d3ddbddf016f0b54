/*
 * repairs - the requests to a shard that is being restored, and their answers.
 *
 * Owner:   the recovery. Thread: under the coordinator's lock.
 *
 * A repair is RESTORE to a restore point, then a CREATE of every partition that the shard is to
 * hold, then a RETIRE of each variable that was dropped. The shard is repaired when it has answered
 * all of these with success. The recovery decides what a refusal means: another restore point, or
 * the end of the job.
 *
 * The requests of repairs, and the assignments that a replay repeats, are kept apart from all
 * others (docs/protocol.md#recovery): the others wait until the shard is READY and a replay has
 * ended, and must not hold up what that takes.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_REPAIRS_H
#define CADRE_COORDINATOR_CORE_SHARDS_REPAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/wire/message.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/shards/drops.h"
#include "coordinator/core/shards/replay.h"
#include "coordinator/core/shards/restore_points.h"
#include "coordinator/core/shards/shard_requests.h"

/* The objects that the repairs read and call; borrowed for their life. */
typedef struct {
    const cadre_catalogue_t *catalogue;
    const cadre_drops_t *drops;
    cadre_replay_t *replay; /* learns of each assignment that was repeated */
    cadre_effects_t *effects;
} cadre_repairs_links_t;

/* What a shard is restored to: the restore point, and the numbers that RESTORE carries. */
typedef struct {
    const cadre_restore_point_t *point;
    uint64_t generation;
    /* Base of the shard's applied window: update ids below it are not accepted any more. */
    uint64_t base;
    uint64_t ended; /* id of the newest checkpoint that was committed or given up */
} cadre_repair_order_t;

/* Why a shard refuses to begin as it was asked to. */
typedef struct {
    int status;       /* below 0; 0: there is no refusal */
    const char *text; /* lives as long as the answer */
} cadre_refusal_t;

typedef struct {
    cadre_repairs_links_t links;
    cadre_shard_requests_t requests;
    /* [shard_count]: how many requests of the shard's repair are unanswered; 0: the repair has
     * ended, or was given up. */
    uint32_t *pending;
    /* The shard's refusal, while cadre_repairs_on_answer takes the answer. */
    cadre_refusal_t refusal;
    /* Why a restored shard refused a variable whose creation is under way and which it had accepted
     * before; 0: no shard did. */
    int creation_status;
    char creation_text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_repairs_t;

void cadre_repairs_init(cadre_repairs_t *self, const cadre_repairs_links_t *links,
                        uint32_t shard_count);
void cadre_repairs_fini(cadre_repairs_t *self);

/* Begins the repair of a shard: queues RESTORE, CREATEs and RETIREs, and drops the requests of an
 * earlier repair. */
void cadre_repairs_begin(cadre_repairs_t *self, uint32_t shard, const cadre_repair_order_t *order);

/* Gives a repair up, because the ps is lost: late answers to it count for nothing. */
void cadre_repairs_give_up(cadre_repairs_t *self, uint32_t shard);

/* Takes a shard's answer; false when it answers no request of a repair. `refusal` says whether the
 * shard refuses to begin as it was asked to. */
bool cadre_repairs_on_answer(cadre_repairs_t *self, uint32_t shard, const cadre_message_t *answer,
                             cadre_refusal_t *refusal);

/* Asks a shard to make an assignment again, in a pass of the replay. */
void cadre_repairs_repeat(cadre_repairs_t *self, const cadre_replay_assign_t *assign);

/* Forgets which shards have refused to create variables: a call is about to create other
 * variables. */
void cadre_repairs_begin_creation(cadre_repairs_t *self);

/* Returns the message RETIRE for one shard: `checkpoint` is the id of the last that holds the
 * variable, 0 where that does not matter. */
cadre_message_t cadre_repairs_retire_message(const cadre_repairs_t *self, uint32_t variable,
                                             uint32_t shard, uint64_t generation,
                                             uint64_t checkpoint);

#endif
