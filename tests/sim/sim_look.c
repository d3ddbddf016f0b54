#include "tests/sim/sim_look.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tests/sim/sim_cluster.h"

enum {
    EVERY_MS = 5000,
    WASTE_MIN = 10000,     /* bytes that a link may waste */
    REPEATED_MAX = 2,      /* requests of the coordinator to a ps, for nothing */
    STAYS_MS_MAX = 100000, /* a closure with one worker, in calm */
    LEASES_MAX = 3,        /* of a disagreement */
    NOTICED_MS = 10000,    /* and on top of them */
};

/* --- I8 --- */

static void
look_at_closure(sim_cluster_t *self, const cadre_closure_t *closure)
{
    sim_call_t *call = self->check.calls[strtoul(closure->names[0], NULL, 10)];
    uint64_t now_ms = self->network.now_ms;
    bool is_held = closure->state == CADRE_CLOSURE_IN_FLIGHT;
    if (!is_held || call->with != closure->handed_to || call->with_attempt != closure->attempt) {
        call->with = is_held ? closure->handed_to : 0;
        call->with_attempt = closure->attempt;
        call->with_ms = now_ms;
        return;
    }
    uint64_t since_ms = call->with_ms > self->calm_ms ? call->with_ms : self->calm_ms;
    if (self->calm && now_ms > since_ms + STAYS_MS_MAX) {
        sim_check_fail(&self->check,
                       "I8: closure %" PRIu64 " is on one worker since %" PRIu64 " ms", closure->id,
                       call->with_ms);
    }
}

/* --- I9 --- */

static void
look_at_links(sim_cluster_t *self)
{
    size_t cursor = 0;
    const sim_link_t *link = NULL;
    while ((link = cadre_u64_map_next(&self->network.links.by_ends, &cursor))) {
        if (link->wasted_bytes > WASTE_MIN && link->wasted_bytes > link->needed_bytes / 4) {
            sim_check_fail(&self->check,
                           "I9: node %u has sent node %u %" PRIu64 " bytes and %" PRIu64
                           " again for nothing",
                           link->from, link->to, link->needed_bytes, link->wasted_bytes);
        }
        if (link->repeated > REPEATED_MAX) {
            sim_check_fail(&self->check,
                           "I9: node %u has said %" PRIu64 " requests to node %u again for nothing",
                           link->from, link->repeated, link->to);
        }
    }
}

/* --- I10 --- */

/* Whether the coordinator believes of a shard what its ps does; one who is dead, stands still or
 * cannot be reached is none to ask. */
static bool
agrees(sim_cluster_t *self, uint32_t index)
{
    const cadre_core_t *core = &self->coordinator->core;
    const cadre_member_t *member = core->membership.ps[index];
    if (!member || core->recovery.places[index].state != CADRE_PLACE_READY) {
        return true;
    }
    const sim_shard_t *shard = sim_cluster_shard_of(self, sim_cluster_node_of(self, &member->task));
    if (!shard->core || shard->isolated || shard->paused_ms > self->network.now_ms) {
        return true;
    }
    return shard->index == index && shard->state && shard->state->epoch == core->options.epoch &&
           shard->state->generation == core->recovery.places[index].generation;
}

uint32_t
sim_look_disagreement(sim_cluster_t *self)
{
    for (uint32_t i = 0; i < self->shard_count; i++) {
        if (!agrees(self, i)) {
            return i;
        }
    }
    return SIM_NEVER;
}

static void
look_at_shard(sim_cluster_t *self, uint32_t index)
{
    uint64_t now_ms = self->network.now_ms;
    uint64_t *agreed_ms = &self->agreed_ms[index];
    if (*agreed_ms == 0 || agrees(self, index)) {
        *agreed_ms = now_ms;
    }
    if (now_ms > *agreed_ms + LEASES_MAX * self->lease_ms + NOTICED_MS) {
        sim_check_fail(&self->check,
                       "I10: the coordinator takes shard %u for ready with generation %" PRIu64
                       ", its ps does not since %" PRIu64 " ms",
                       index, self->coordinator->core.recovery.places[index].generation,
                       *agreed_ms);
    }
}

void
sim_look(sim_cluster_t *self)
{
    const cadre_core_t *core = &self->coordinator->core;
    bool is_awake =
        self->coordinator->alive && self->coordinator->paused_ms <= self->network.now_ms;
    if (self->network.now_ms < self->look_ms) {
        return;
    }
    self->look_ms = self->network.now_ms + EVERY_MS;
    for (uint32_t i = 0; i < self->shard_count; i++) {
        if (is_awake) {
            look_at_shard(self, i);
        } else {
            self->agreed_ms[i] = self->network.now_ms;
        }
    }
    look_at_links(self);
    size_t cursor = 0;
    const cadre_closure_t *closure = NULL;
    while (is_awake && (closure = cadre_u64_map_next(&core->begun.closures, &cursor))) {
        look_at_closure(self, closure);
    }
}
