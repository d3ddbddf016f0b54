/*
 * repairs - what a shard that is being restored is asked, and what it answers.
 *
 * Owner:   the recovery. Thread: under the coordinator's lock.
 *
 * RESTORE to a restore point, then a CREATE of every part that the shard is to hold, then a RETIRE
 * of what was dropped. The shard is repaired when it has answered all of them with success. What a
 * refusal means, another restore point or the end of the job, is the recovery's to decide.
 *
 * Its requests are apart from everybody else's (docs/protocol.md#recovery): those wait until the
 * shard is READY, and for the end of a replay; these, and the assignments that a replay repeats,
 * are what it waits for.
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

/* What the repairs read, and whom they tell: borrowed for their life. */
typedef struct {
    const cadre_catalogue_t *catalogue;
    const cadre_drops_t *drops;
    cadre_replay_t *replay; /* told of each assignment that was repeated */
    cadre_effects_t *effects;
} cadre_repairs_links_t;

/* How a shard is to begin: the restore point, and the numbers that RESTORE carries. */
typedef struct {
    const cadre_restore_point_t *point;
    uint64_t generation;
    uint64_t base;  /* base of its applied window: updates below it count for nothing any more */
    uint64_t ended; /* the newest checkpoint that is not under way any more */
} cadre_repair_order_t;

/* Why a shard refuses to begin as it was asked to. */
typedef struct {
    int status;       /* below 0; 0: there is no refusal */
    const char *text; /* lives as long as the answer */
} cadre_refusal_t;

typedef struct {
    cadre_repairs_links_t links;
    cadre_shard_requests_t requests;
    uint32_t *pending;       /* [shard_count]: requests of the repair that are not answered; 0: it
                                has ended, or was given up */
    cadre_refusal_t refusal; /* the refusal in the answer that is being taken */
    int creation_status; /* why a restored shard refused variables that are being created and that
                            it had accepted before; 0: no shard did */
    char creation_text[CADRE_TEXT_SIZE_MAX + 1];
} cadre_repairs_t;

void cadre_repairs_init(cadre_repairs_t *self, const cadre_repairs_links_t *links,
                        uint32_t shard_count);
void cadre_repairs_fini(cadre_repairs_t *self);

/* Asks a shard to begin: sends RESTORE and CREATEs, and drops the requests of an earlier repair. */
void cadre_repairs_begin(cadre_repairs_t *self, uint32_t shard, const cadre_repair_order_t *order);

/* Gives a repair up, because the ps is lost: late answers to it count for nothing. */
void cadre_repairs_give_up(cadre_repairs_t *self, uint32_t shard);

/* Takes a shard's answer; false when it answers no request of a repair. `refusal` says whether the
 * shard refuses to begin as it was asked to. */
bool cadre_repairs_on_answer(cadre_repairs_t *self, uint32_t shard, const cadre_message_t *answer,
                             cadre_refusal_t *refusal);

/* Asks a shard to make an assignment again, in a pass of the replay. */
void cadre_repairs_repeat(cadre_repairs_t *self, const cadre_replay_assign_t *assign);

/* Forgets which shards have refused to create variables: others are about to be created. */
void cadre_repairs_begin_creation(cadre_repairs_t *self);

/* Returns RETIRE for one shard: `checkpoint` is the last that holds the variable, 0 where that does
 * not matter. */
cadre_message_t cadre_repairs_retire_message(const cadre_repairs_t *self, uint32_t variable,
                                             uint32_t shard, uint64_t generation,
                                             uint64_t checkpoint);

#endif
