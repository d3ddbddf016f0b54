/*
 * shard_health - whether a ps does its work although its lease is kept: a failure detector for what
 * the silence of a member does not show (docs/protocol.md, I6).
 *
 * Owner:   the recovery, one for each shard. Thread: under the coordinator's lock.
 *
 *   - Its data connection may be half-open: values are asked for, and nothing comes. Each request
 *     can be repeated over another connection, but then bytes that were under way are sent twice:
 *     so the time limit grows with the bytes under way, and doubles with every connection on which
 *     nothing came.
 *   - Its shard may stand still: HEARTBEATs go on and report the same progress.
 *   - It may serve another shard or generation than the coordinator believes.
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_SHARD_HEALTH_H
#define CADRE_COORDINATOR_CORE_SHARDS_SHARD_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/message.h"

/* The condition of a ps, by its HEARTBEATs. */
typedef enum {
    CADRE_PS_GOES_ON,
    /* The process of the ps lives, but its shard has made no progress for the time of a lease. */
    CADRE_PS_STANDS_STILL,
    /* For the time of a lease the ps has served another shard or generation than the coordinator
     * believes. */
    CADRE_PS_SERVES_ANOTHER,
} cadre_ps_condition_t;

typedef struct {
    uint64_t connected_ms; /* when the shell was last told to connect to the ps */
    /* How many connections in a row were given up with nothing heard on them. */
    uint32_t mutes;
    uint64_t progress;      /* the progress number in the ps's last HEARTBEAT */
    uint64_t progress_ms;   /* since when `progress` has not changed */
    uint32_t progress_same; /* how many HEARTBEATs in a row have carried this `progress` */
    /* Since when the ps has said that it serves another shard or generation than it should; 0: it
     * does not. */
    uint64_t differs_ms;
    uint32_t differs_same; /* how many HEARTBEATs in a row have said that */
} cadre_shard_health_t;

/* What a ps serves, as the coordinator believes. */
typedef struct {
    bool is_served; /* the shard is READY: its ps must report the following shard and generation */
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

/* Takes a HEARTBEAT and returns the condition of the ps. The condition is bad only if more than
 * three HEARTBEATs, over the time of a lease, say the same: time alone also passes while the
 * coordinator stands still, or hears nothing. */
cadre_ps_condition_t cadre_shard_health_on_heartbeat(cadre_shard_health_t *self,
                                                     const cadre_heartbeat_message_t *heartbeat,
                                                     const cadre_shard_belief_t *belief,
                                                     uint64_t now_ms, uint64_t lease_ms);

#endif
