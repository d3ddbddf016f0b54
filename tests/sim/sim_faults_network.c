/* Connections that are cut for a while, in one direction or both; or for good. */
#include "tests/sim/sim_faults.h"

enum { SWIZZLED_MAX = SIM_PLACES_MAX * SIM_PLACES_MAX };

typedef enum {
    BOTH,
    THERE,
    BACK,
} direction_t;

static direction_t
draw_direction(sim_cluster_t *self)
{
    return sim_faults_draw(self, 0, 2) ? BOTH : (direction_t)sim_faults_draw(self, THERE, BACK);
}

/* Cuts what lies between two nodes. */
static void
cut(sim_cluster_t *self, const sim_cut_t *between)
{
    direction_t direction = draw_direction(self);
    sim_cut_t back = {between->to, between->from, between->since_ms, between->until_ms};
    if (direction != BACK) {
        sim_network_cut(&self->network, between);
    }
    if (direction != THERE) {
        sim_network_cut(&self->network, &back);
    }
}

static void
cut_now(sim_cluster_t *self, uint32_t left, uint32_t right, uint64_t ms)
{
    uint64_t now_ms = self->network.now_ms;
    cut(self, &(sim_cut_t){left, right, now_ms, now_ms + ms});
}

/* Once its connection to the coordinator is whole, the node at its other end makes it anew. */
static void
connect_after(sim_cluster_t *self, uint32_t node, uint64_t ms)
{
    sim_network_at(&self->network, ms + sim_faults_draw(self, 0, 100), SIM_CONNECTED, node, 0);
}

static bool
cut_control(sim_cluster_t *self, cadre_role_t role)
{
    const sim_place_t *place = sim_faults_pick(self, role);
    if (!place) {
        return false;
    }
    uint32_t node = sim_cluster_node_at(self, place);
    uint64_t ms =
        sim_faults_draw(self, 10, sim_faults_draw(self, 0, 2) ? 2000 : 2 * self->lease_ms);
    sim_faults_say(self, "cut from coordinator", node, ms);
    cut_now(self, SIM_COORDINATOR_NODE, node, ms);
    sim_cluster_maybe_seen(self, node);
    if (sim_faults_draw(self, 0, 1)) {
        sim_cluster_disconnected(self, node);
    }
    connect_after(self, node, ms);
    return true;
}

bool
sim_fault_cut_worker(sim_cluster_t *self)
{
    return cut_control(self, CADRE_ROLE_WORKER);
}

bool
sim_fault_cut_ps(sim_cluster_t *self)
{
    return cut_control(self, CADRE_ROLE_PS);
}

/* A worker and a ps, or every worker and a ps. */
bool
sim_fault_cut_data(sim_cluster_t *self)
{
    const sim_place_t *ps = sim_faults_pick(self, CADRE_ROLE_PS);
    const sim_place_t *worker = sim_faults_pick(self, CADRE_ROLE_WORKER);
    if (!ps || !worker) {
        return false;
    }
    bool all = sim_faults_draw(self, 0, 3) == 0;
    uint64_t ms = sim_faults_draw(self, 10, 4000);
    uint32_t node = sim_cluster_node_at(self, ps);
    sim_faults_say(self, all ? "cut from all workers" : "cut from a worker", node, ms);
    for (uint32_t i = 0; i < self->place_count; i++) {
        const sim_place_t *place = &self->places[i];
        if (place->role == CADRE_ROLE_WORKER && place->task != SIM_NEVER &&
            (all || place == worker)) {
            cut_now(self, node, sim_cluster_node_at(self, place), ms);
        }
    }
    return true;
}

/* --- swizzle: cut connections one by one, heal them in another order --- */

/* The pairs of nodes that talk to each other. */
static uint32_t
list_pairs(sim_cluster_t *self, sim_cut_t pairs[SWIZZLED_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->place_count; i++) {
        const sim_place_t *left = &self->places[i];
        if (left->task == SIM_NEVER) {
            continue;
        }
        uint32_t node = sim_cluster_node_at(self, left);
        pairs[count++] = (sim_cut_t){.from = SIM_COORDINATOR_NODE, .to = node};
        for (uint32_t k = i + 1; k < self->place_count; k++) {
            const sim_place_t *right = &self->places[k];
            if (right->task != SIM_NEVER && right->role != left->role) {
                pairs[count++] = (sim_cut_t){.from = node, .to = sim_cluster_node_at(self, right)};
            }
        }
    }
    return count;
}

static void
shuffle(sim_cluster_t *self, sim_cut_t *pairs, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t at = (uint32_t)sim_faults_draw(self, 0, i - 1);
        sim_cut_t kept = pairs[i - 1];
        pairs[i - 1] = pairs[at];
        pairs[at] = kept;
    }
}

bool
sim_fault_swizzle(sim_cluster_t *self)
{
    sim_cut_t pairs[SWIZZLED_MAX];
    uint32_t count = list_pairs(self, pairs);
    uint64_t now_ms = self->network.now_ms;
    uint64_t step_ms = sim_faults_draw(self, 1, 2 * self->lease_ms / (count + 1) + 1);
    shuffle(self, pairs, count);
    for (uint32_t i = 0; i < count; i++) {
        pairs[i].since_ms = now_ms + i * step_ms;
    }
    shuffle(self, pairs, count);
    for (uint32_t i = 0; i < count; i++) {
        pairs[i].until_ms = now_ms + (count + i) * step_ms;
        cut(self, &pairs[i]);
        if (pairs[i].from == SIM_COORDINATOR_NODE) {
            connect_after(self, pairs[i].to, pairs[i].until_ms - now_ms);
        }
    }
    sim_faults_say(self, "swizzle", SIM_COORDINATOR_NODE, 2 * count * step_ms);
    return count > 0;
}

/* --- for good --- */

/* TCP has no connection that works one way: for good both directions are cut. */
static void
cut_for_good(sim_cluster_t *self, uint32_t left, uint32_t right)
{
    uint64_t now_ms = self->network.now_ms;
    sim_network_cut(&self->network, &(sim_cut_t){left, right, now_ms, SIM_FOR_EVER});
    sim_network_cut(&self->network, &(sim_cut_t){right, left, now_ms, SIM_FOR_EVER});
}

/* Returns a worker that the job can do without as long as it lives: no closure is for it alone, and
 * another that can be reached lives; NULL when there is none. Where workers lack something the
 * others may not be able to do what it does. */
static sim_place_t *
pick_dispensable(sim_cluster_t *self)
{
    sim_place_t *found = NULL;
    uint32_t count = 0;
    uint32_t others = 0;
    for (uint32_t i = 0; i < self->place_count; i++) {
        sim_place_t *place = &self->places[i];
        const sim_worker_t *worker = sim_cluster_worker_at(self, place);
        bool is_whole = worker && !worker->impaired;
        others += is_whole;
        bool may =
            is_whole && place->index == CADRE_INDEX_ANY && !sim_faults_in_the_way(self, worker);
        if (may && sim_faults_draw(self, 0, count++) == 0) {
            found = place;
        }
    }
    return others > 1 && !sim_lacks_anywhere(self->seed) ? found : NULL;
}

/* A worker and a ps never reach each other again; both go on with everybody else. */
bool
sim_fault_part_for_good(sim_cluster_t *self)
{
    const sim_place_t *place = pick_dispensable(self);
    const sim_place_t *ps = sim_faults_pick(self, CADRE_ROLE_PS);
    if (!place || !ps) {
        return false;
    }
    sim_worker_t *worker = sim_cluster_worker_at(self, place);
    sim_faults_say(self, "cut for good from a ps", worker->node, 0);
    worker->impaired = true;
    sim_faults_watch_worker(self, worker);
    cut_for_good(self, worker->node, sim_cluster_node_at(self, ps));
    return true;
}

/* A worker and the coordinator never reach each other again. */
bool
sim_fault_isolate_worker(sim_cluster_t *self)
{
    const sim_place_t *place = pick_dispensable(self);
    if (!place) {
        return false;
    }
    sim_worker_t *worker = sim_cluster_worker_at(self, place);
    sim_faults_say(self, "cut for good from the coordinator", worker->node, 0);
    worker->impaired = true;
    worker->isolated = true;
    cut_for_good(self, SIM_COORDINATOR_NODE, worker->node);
    sim_cluster_maybe_seen(self, worker->node);
    return true;
}

/* A ps and the coordinator never reach each other again: the workers still reach it, and another ps
 * is started in its place. */
bool
sim_fault_isolate_ps(sim_cluster_t *self)
{
    sim_place_t *place = sim_faults_pick(self, CADRE_ROLE_PS);
    if (!place || !sim_cluster_has_room(self)) {
        return false;
    }
    sim_shard_t *shard = sim_cluster_shard_at(self, place);
    sim_faults_say(self, "cut for good from the coordinator", shard->node, 0);
    shard->isolated = true;
    cut_for_good(self, SIM_COORDINATOR_NODE, shard->node);
    sim_cluster_maybe_seen(self, shard->node);
    place->task = SIM_NEVER;
    sim_faults_restart_later(self, place, 0);
    return true;
}
