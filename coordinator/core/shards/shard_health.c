#include "coordinator/core/shards/shard_health.h"

#include "common/base/bounds.h"
#include "common/base/limits.h"

enum {
    BEATS_MIN = 3, /* so many HEARTBEATs may say the same before the condition counts as bad */
};

void
cadre_shard_health_begin_anew(cadre_shard_health_t *self, uint64_t now_ms)
{
    self->progress_ms = now_ms;
    self->progress_same = 0;
    self->differs_ms = 0;
}

void
cadre_shard_health_on_connected(cadre_shard_health_t *self, uint64_t now_ms)
{
    self->connected_ms = now_ms;
}

/* Returns when the data connection counts as half-open: the limit allows for the bytes under way,
 * and doubles for each connection in a row on which nothing came. */
uint64_t
cadre_shard_health_mute_at_ms(cadre_shard_health_t *self, uint64_t silent_since_ms,
                              size_t size_bytes)
{
    if (silent_since_ms > self->connected_ms) {
        self->mutes = 0; /* the connection has carried something: it does not count as given up */
    }

    uint64_t limit_ms = CADRE_MUTE_MS + 1000 * size_bytes / CADRE_LINK_RATE_MIN;
    for (uint32_t i = 0; i < self->mutes && limit_ms < CADRE_MUTE_MAX_MS; i++) {
        limit_ms *= 2;
    }
    return cadre_max_u64(silent_since_ms, self->connected_ms) + limit_ms;
}

void
cadre_shard_health_on_mute(cadre_shard_health_t *self)
{
    self->mutes++;
}

/* Takes a heartbeat and returns the condition of the ps. It is bad only if it lasts for a lease and
 * for several heartbeats. */
cadre_ps_condition_t
cadre_shard_health_on_heartbeat(cadre_shard_health_t *self,
                                const cadre_heartbeat_message_t *heartbeat,
                                const cadre_shard_belief_t *belief, uint64_t now_ms,
                                uint64_t lease_ms)
{
    if (heartbeat->progress != self->progress) {
        self->progress = heartbeat->progress;
        self->progress_ms = now_ms;
        self->progress_same = 0;
    }

    bool differs = belief->is_served && (heartbeat->shard != belief->shard ||
                                         heartbeat->generation != belief->generation);
    if (!differs || self->differs_ms == 0) {
        self->differs_ms = differs ? now_ms : 0;
        self->differs_same = 0;
    }

    /* Both counters must go up, whichever condition is returned. */
    bool is_stuck = ++self->progress_same > BEATS_MIN && now_ms >= self->progress_ms + lease_ms;
    bool is_another =
        differs && ++self->differs_same > BEATS_MIN && now_ms >= self->differs_ms + lease_ms;

    if (is_stuck) {
        return CADRE_PS_STANDS_STILL;
    }

    return is_another ? CADRE_PS_SERVES_ANOTHER : CADRE_PS_GOES_ON;
}
