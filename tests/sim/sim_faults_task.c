/* What may happen to one task. */
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_resize.h"

#include "common/base/bounds.h"
#include "common/base/memory.h"

/* --- any --- */

static bool
kill(sim_cluster_t *self, cadre_role_t role)
{
    sim_place_t *place = sim_faults_pick(self, role);
    if (!place || !sim_cluster_has_room(self)) {
        return false;
    }
    sim_faults_say(self, "kill", sim_cluster_node_at(self, place), 0);
    sim_cluster_kill(self, place);
    sim_faults_restart_later(self, place, 0);
    return true;
}

/* Lets something that stands still until `paused_ms`, or does not, do so until `until_ms`: a second
 * pause ends no first one. */
static void
stand_still(uint64_t *paused_ms, uint64_t until_ms)
{
    *paused_ms = cadre_max_u64(*paused_ms, until_ms);
}

/* Freezes the task at a place, for longer than its lease perhaps. */
static void
freeze(sim_cluster_t *self, const sim_place_t *place, const char *what, uint64_t most_ms)
{
    uint64_t until_ms = self->network.now_ms + sim_faults_draw(self, 10, most_ms);
    if (place->role == CADRE_ROLE_PS) {
        stand_still(&sim_cluster_shard_at(self, place)->paused_ms, until_ms);
    } else {
        stand_still(&sim_cluster_worker_at(self, place)->paused_ms, until_ms);
    }
    sim_network_disturb(&self->network, sim_cluster_node_at(self, place), until_ms);
    sim_faults_say(self, what, sim_cluster_node_at(self, place), until_ms - self->network.now_ms);
}

static bool
pause_one(sim_cluster_t *self, cadre_role_t role)
{
    const sim_place_t *place = sim_faults_pick(self, role);
    if (!place) {
        return false;
    }
    freeze(self, place, "pause", sim_faults_draw(self, 0, 2) ? 2000 : 2 * self->lease_ms);
    return true;
}

/* One whose process is frozen is replaced meanwhile: both have the same index for a while. */
static bool
replace(sim_cluster_t *self, cadre_role_t role)
{
    sim_place_t *place = sim_faults_pick(self, role);
    if (!place || !sim_cluster_has_room(self)) {
        return false;
    }
    freeze(self, place, "replace", 2 * self->lease_ms);
    place->task = SIM_NEVER;
    sim_faults_restart_later(self, place, 0);
    return true;
}

/* The connection breaks and is there again at once. */
static bool
reconnect(sim_cluster_t *self, cadre_role_t role)
{
    const sim_place_t *place = sim_faults_pick(self, role);
    if (!place) {
        return false;
    }
    uint32_t node = sim_cluster_node_at(self, place);
    sim_faults_say(self, "reconnect", node, 0);
    sim_cluster_maybe_seen(self, node);
    sim_network_at(&self->network, sim_faults_draw(self, 0, 200), SIM_CONNECTED, node, 0);
    return true;
}

/* --- workers --- */

bool
sim_fault_kill_worker(sim_cluster_t *self)
{
    return kill(self, CADRE_ROLE_WORKER);
}

bool
sim_fault_pause_worker(sim_cluster_t *self)
{
    return pause_one(self, CADRE_ROLE_WORKER);
}

bool
sim_fault_replace_worker(sim_cluster_t *self)
{
    return replace(self, CADRE_ROLE_WORKER);
}

bool
sim_fault_reconnect_worker(sim_cluster_t *self)
{
    return reconnect(self, CADRE_ROLE_WORKER);
}

bool
sim_fault_drain_worker(sim_cluster_t *self)
{
    const sim_place_t *place = sim_faults_pick(self, CADRE_ROLE_WORKER);
    if (!place || !sim_cluster_has_room(self)) {
        return false;
    }
    sim_worker_t *worker = sim_cluster_worker_at(self, place);
    sim_faults_say(self, "drain", worker->node, 0);
    worker->leaving = true;
    cadre_worker_core_drain(worker->core, "told to leave", self->network.now_ms);
    sim_network_at(&self->network, 0, SIM_TICK, worker->node, 0);
    return true;
}

/* --- ps --- */

bool
sim_fault_kill_ps(sim_cluster_t *self)
{
    return kill(self, CADRE_ROLE_PS);
}

bool
sim_fault_pause_ps(sim_cluster_t *self)
{
    return pause_one(self, CADRE_ROLE_PS);
}

bool
sim_fault_replace_ps(sim_cluster_t *self)
{
    return replace(self, CADRE_ROLE_PS);
}

bool
sim_fault_reconnect_ps(sim_cluster_t *self)
{
    return reconnect(self, CADRE_ROLE_PS);
}

/* SIGTERM: it says GOODBYE and is gone. */
bool
sim_fault_ps_leaves(sim_cluster_t *self)
{
    const sim_place_t *place = sim_faults_pick(self, CADRE_ROLE_PS);
    if (!place || !sim_cluster_has_room(self)) {
        return false;
    }
    sim_shard_t *shard = sim_cluster_shard_at(self, place);
    sim_faults_say(self, "goodbye", shard->node, 0);
    shard->stopping = true;
    cadre_ps_core_leave(shard->core, "told to leave", self->network.now_ms);
    sim_network_at(&self->network, 0, SIM_TICK, shard->node, 0);
    return true;
}

/* Its core lives, and its shard does nothing: for a while, or until somebody kills it. */
bool
sim_fault_stick_ps(sim_cluster_t *self)
{
    const sim_place_t *place = sim_faults_pick(self, CADRE_ROLE_PS);
    if (!place || !sim_cluster_has_room(self)) {
        return false;
    }
    sim_shard_t *shard = sim_cluster_shard_at(self, place);
    bool for_ever = sim_faults_draw(self, 0, 2) == 0;
    uint64_t ms = for_ever ? SIM_FOR_EVER : sim_faults_draw(self, 10, 2 * self->lease_ms);
    if (shard->stuck_ms == SIM_FOR_EVER) {
        return false;
    }
    sim_faults_say(self, for_ever ? "stick for ever" : "stick", shard->node, for_ever ? 0 : ms);
    sim_shard_stick(shard, ms);
    sim_network_disturb(&self->network, shard->node,
                        for_ever ? SIM_FOR_EVER : self->network.now_ms + ms);
    if (for_ever) {
        sim_faults_watch(self, place);
    }
    return true;
}

/* --- the coordinator --- */

/* It gets no turn for longer than the lease, and what it is sent piles up. */
bool
sim_fault_stall_coordinator(sim_cluster_t *self)
{
    if (!self->coordinator->alive) {
        return false;
    }
    uint64_t ms = sim_faults_draw(self, self->lease_ms, 3 * self->lease_ms);
    sim_faults_say(self, "stall", SIM_COORDINATOR_NODE, ms);
    stand_still(&self->coordinator->paused_ms, self->network.now_ms + ms);
    sim_network_disturb(&self->network, SIM_COORDINATOR_NODE, self->coordinator->paused_ms);
    sim_network_at(&self->network, ms, SIM_TICK, SIM_COORDINATOR_NODE, 0);
    return true;
}

bool
sim_fault_resize(sim_cluster_t *self)
{
    const uint32_t count = (uint32_t)sim_faults_draw(self, 1, self->ps_places);
    if (!self->coordinator->alive || self->deposed || !sim_cluster_has_room(self) ||
        count == self->shard_count) {
        return false;
    }
    sim_faults_say(self, "the job is resumed with other ps:", count, 0);
    sim_resize(self, count);
    self->resized++;
    return true;
}

bool
sim_fault_kill_coordinator(sim_cluster_t *self)
{
    if (!self->coordinator->alive || !sim_cluster_has_room(self)) {
        return false;
    }
    sim_faults_say(self, "kill", SIM_COORDINATOR_NODE, 0);
    sim_cluster_kill_coordinator(self);
    sim_faults_restart_coordinator_later(self);
    return true;
}

bool
sim_fault_pause_coordinator(sim_cluster_t *self)
{
    if (!self->coordinator->alive) {
        return false;
    }
    uint64_t ms =
        sim_faults_draw(self, 10, sim_faults_draw(self, 0, 2) ? 2000 : 2 * self->lease_ms);
    sim_faults_say(self, "pause", SIM_COORDINATOR_NODE, ms);
    stand_still(&self->coordinator->paused_ms, self->network.now_ms + ms);
    sim_network_disturb(&self->network, SIM_COORDINATOR_NODE, self->coordinator->paused_ms);
    sim_network_at(&self->network, ms, SIM_TICK, SIM_COORDINATOR_NODE, 0);
    return true;
}

/* It stands still, its supervisor starts another one, and it comes back: for as long as there is
 * another fault to come. */
bool
sim_fault_second_coordinator(sim_cluster_t *self)
{
    bool may = self->loses_ps && sim_cluster_has_room(self); /* some may stay with the first one */
    if (!may || !self->coordinator->alive || self->stopping) {
        return false;
    }
    sim_cluster_kill_deposed(self);
    uint64_t ms = sim_faults_draw(self, 10, 3 * self->lease_ms);
    sim_faults_say(self, "second coordinator, the first one is back", SIM_COORDINATOR_NODE, ms);
    sim_cluster_depose_coordinator(self, ms);
    sim_faults_restart_coordinator_later(self);
    return true;
}

/* --- at the worst moment --- */

bool
sim_fault_lay_trap(sim_cluster_t *self)
{
    static const uint32_t moments[] = {
        CADRE_CHECKPOINT_OPENING, CADRE_CHECKPOINT_CUT,        CADRE_CHECKPOINT_CUT,
        CADRE_CHECKPOINT_WRITING, CADRE_CHECKPOINT_COMMITTING, SIM_TRAP_RESTORE,
        SIM_TRAP_RESTORE,
    };
    self->trap = (sim_trap_t){
        .when = moments[sim_faults_draw(self, 0, CADRE_COUNT_OF(moments) - 1)],
        .whom = (uint32_t)sim_faults_draw(self, 0, 2),
        .count = self->check.restores,
    };
    return false; /* it counts when it snaps */
}
