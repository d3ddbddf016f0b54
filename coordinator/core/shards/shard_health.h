/*
 * shard_health - whether a ps does its work although its lease is kept: a failure detector for what
 * the silence of a member does not show (docs/protocol.md, I6).
 *
 * Owner:   the recovery, one for each shard. Thread: under the coordinator's lock.
 *
 *   - Its data connection may be half-open: values are asked for, and nothing comes. Each request
 *     can be repeated over another connection, but that costs what was under way: so the limit
 *     grows with the bytes under way, and doubles with every connection that was given up without a
 *     word.
 *   - Its shard may stand still: HEARTBEATs go on and report the same progress.
 *   - It may serve another shard or generation than the coordinator believes.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_SHARD_HEALTH_H
#define CADRE_COORDINATOR_CORE_SHARDS_SHARD_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/message.h"

/* What a ps says of itself by a HEARTBEAT. */
typedef enum {
    CADRE_PS_GOES_ON,
    CADRE_PS_STANDS_STILL,   /* it lives, and its shard has not moved for a lease */
    CADRE_PS_SERVES_ANOTHER, /* something else than is believed, for as long */
} cadre_ps_condition_t;

typedef struct {
    uint64_t connected_ms;  /* when the shell was last told to connect to it */
    uint32_t mutes;         /* connections given up in a row with nothing heard on them */
    uint64_t progress;      /* what the ps's last HEARTBEAT said, */
    uint64_t progress_ms;   /* since when that has not changed, */
    uint32_t progress_same; /* and how many HEARTBEATs have said so */
    uint64_t differs_ms;    /* since when it has said that it serves another; 0: it does not, */
    uint32_t differs_same;  /* and how many HEARTBEATs have said so */
} cadre_shard_health_t;

/* What the coordinator believes that a ps serves. */
typedef struct {
    bool is_served; /* the shard is READY: what the ps says must agree with the next two */
    uint32_t shard;
    uint64_t generation;
} cadre_shard_belief_t;

/* Forgets what HEARTBEATs have said: a process that is new here, or a shard that is READY again,
 * has a whole lease for its first progress. */
void cadre_shard_health_begin_anew(cadre_shard_health_t *self, uint64_t now_ms);

/* Notes that the data connection is a new one. */
void cadre_shard_health_on_connected(cadre_shard_health_t *self, uint64_t now_ms);

/* Returns when the data connection counts as half-open, with `size_bytes` of values under way and
 * nothing heard over it since `silent_since_ms`. */
uint64_t cadre_shard_health_mute_at_ms(cadre_shard_health_t *self, uint64_t silent_since_ms,
                                       size_t size_bytes);

/* Notes that the data connection is given up as half-open: the next one may be silent for twice as
 * long. */
void cadre_shard_health_on_mute(cadre_shard_health_t *self);

/* Takes what the ps says of itself and returns how it goes. One that does not go on has said the
 * same more than three times and for a lease: time alone also passes while the coordinator stands
 * still, or hears nothing. */
cadre_ps_condition_t cadre_shard_health_on_heartbeat(cadre_shard_health_t *self,
                                                     const cadre_heartbeat_message_t *heartbeat,
                                                     const cadre_shard_belief_t *belief,
                                                     uint64_t now_ms, uint64_t lease_ms);

#endif
