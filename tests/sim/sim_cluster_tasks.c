/* Tasks that come and go, the coordinator among them, and what the user sees of it. */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/assert.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_faults.h"
#include "tests/sim/sim_swarm.h"

enum {
    REFUSED_REST_MS = 500, /* after the first refusal, then twice as long each time, up to */
    REFUSED_REST_MS_MAX = 10000,
    CLIENT_REST_MS = 8000, /* between the beginnings of two clients, at most */
};

static uint64_t
draw(sim_cluster_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

void
sim_cluster_fini(sim_cluster_t *self)
{
    for (uint32_t i = 0; i < self->worker_count; i++) {
        sim_worker_stop(&self->workers[i]);
    }
    for (uint32_t i = 0; i < self->ps_count; i++) {
        sim_shard_stop(&self->shards[i]);
    }
    for (uint32_t i = 0; i < self->client_count; i++) {
        sim_client_stop(&self->clients[i]);
    }
    sim_cluster_kill_deposed(self);
    sim_coordinator_stop(self->coordinator);
    sim_script_fini(&self->script);
    sim_network_fini(&self->network);
    sim_disk_fini(&self->disk);
    sim_check_fini(&self->check);
    cadre_u64_map_fini(&self->by_incarnation);
}

/* --- tasks --- */

static uint32_t
new_node(sim_cluster_t *self, cadre_role_t role, uint32_t task, uint64_t incarnation)
{
    cadre_assert(self->node_count < SIM_NODES_MAX);
    uint32_t node = self->node_count++;
    self->nodes[node].role = role;
    self->nodes[node].task = task;
    cadre_u64_map_put(&self->by_incarnation, incarnation, (void *)(uintptr_t)(node + 1));
    return node;
}

sim_worker_t *
sim_cluster_worker_at(sim_cluster_t *self, const sim_place_t *place)
{
    bool is_there = place->role == CADRE_ROLE_WORKER && place->task != SIM_NEVER;
    return is_there ? &self->workers[place->task] : NULL;
}

sim_shard_t *
sim_cluster_shard_at(sim_cluster_t *self, const sim_place_t *place)
{
    bool is_there = place->role == CADRE_ROLE_PS && place->task != SIM_NEVER;
    return is_there ? &self->shards[place->task] : NULL;
}

uint32_t
sim_cluster_node_at(sim_cluster_t *self, const sim_place_t *place)
{
    const sim_shard_t *shard = sim_cluster_shard_at(self, place);
    return shard ? shard->node : sim_cluster_worker_at(self, place)->node;
}

bool
sim_cluster_has_room(const sim_cluster_t *self)
{
    uint32_t workers = self->place_count - self->ps_places;
    return self->ps_count < SIM_PS_ENOUGH + 2 * self->shard_count &&
           self->worker_count < SIM_WORKERS_ENOUGH + 2 * workers &&
           self->check.life_count + 2 < SIM_LIVES_MAX;
}

static void
start_worker(sim_cluster_t *self, sim_place_t *place, const cadre_task_t *task)
{
    if (self->worker_count == SIM_WORKER_TASKS_MAX) {
        sim_check_fail(&self->check, "I6: %u workers were started", self->worker_count);
    }
    place->task = self->worker_count++;
    sim_worker_t *worker = &self->workers[place->task];
    *worker = (sim_worker_t){.node = new_node(self, task->role, place->task, task->incarnation),
                             .task = *task,
                             .slot_count = place->slots + place->ahead,
                             .ahead = place->ahead,
                             .shard_timeout_ms = self->script.plan.shard_timeout_ms,
                             .kept_values_max = self->script.plan.kept_values_max,
                             .row_cache_bytes = self->script.plan.row_cache_bytes,
                             .window = self->script.plan.window,
                             .push_part_size = self->script.plan.push_part_size,
                             .partitions_max = self->script.plan.partitions_max,
                             .network = &self->network,
                             .check = &self->check,
                             .random = &self->random};
    sim_worker_start(worker);
}

static void
start_ps(sim_cluster_t *self, sim_place_t *place, const cadre_task_t *task)
{
    if (self->ps_count == SIM_PS_TASKS_MAX) {
        sim_check_fail(&self->check, "I6: %u ps were started", self->ps_count);
    }
    place->task = self->ps_count++;
    sim_shard_t *shard = &self->shards[place->task];
    *shard = (sim_shard_t){.node = new_node(self, task->role, place->task, task->incarnation),
                           .place = (uint32_t)(place - self->places),
                           .index = task->index,
                           .task = *task,
                           .network = &self->network,
                           .check = &self->check,
                           .random = &self->random,
                           .disk = &self->disk,
                           .plan = &self->shard_plan};
    sim_shard_start(shard);
}

void
sim_cluster_start(sim_cluster_t *self, sim_place_t *place)
{
    cadre_assert(place->task == SIM_NEVER);
    cadre_task_t task = {place->role, place->index, cadre_random_next_u64(&self->random)};
    if (place->role == CADRE_ROLE_PS) {
        start_ps(self, place, &task);
    } else {
        start_worker(self, place, &task);
    }
    uint32_t node = sim_cluster_node_at(self, place);
    sim_network_at(&self->network, 0, SIM_TICK, node, 0);
    if (self->verbose) {
        printf("%8" PRIu64 " %s node %u starts\n", self->network.now_ms,
               cadre_role_text(place->role), node);
    }
}

void
sim_cluster_maybe_seen(sim_cluster_t *self, uint32_t node)
{
    if (sim_chance(&self->random, self->seen)) {
        sim_network_at_from(&self->network, draw(self, 0, 500), SIM_GONE, SIM_COORDINATOR_NODE,
                            node);
    }
}

void
sim_cluster_kill(sim_cluster_t *self, sim_place_t *place)
{
    sim_cluster_maybe_seen(self, sim_cluster_node_at(self, place));
    sim_network_disturb(&self->network, sim_cluster_node_at(self, place), SIM_FOR_EVER);
    if (place->role == CADRE_ROLE_PS) {
        sim_shard_stop(sim_cluster_shard_at(self, place));
    } else {
        sim_worker_stop(sim_cluster_worker_at(self, place));
    }
    place->task = SIM_NEVER;
}

/* How long a supervisor waits before it starts another one: ever longer where the last ones were
 * refused. A ps that was refused would be so again before its lease has run out. */
static uint64_t
rest_ms(const sim_cluster_t *self, sim_place_t *place, const sim_worker_t *worker)
{
    if (!worker) {
        return self->lease_ms;
    }
    place->refusals = worker->refused ? place->refusals + 1 : 0;
    uint64_t ms = 0;
    for (uint32_t i = 0; i < place->refusals && ms < REFUSED_REST_MS_MAX; i++) {
        ms = ms ? 2 * ms : REFUSED_REST_MS;
    }
    return ms < REFUSED_REST_MS_MAX ? ms : REFUSED_REST_MS_MAX;
}

void
sim_cluster_left(sim_cluster_t *self, uint32_t node)
{
    sim_worker_t *worker = sim_cluster_worker_of(self, node);
    sim_network_disturb(&self->network, node, SIM_FOR_EVER);
    if (worker) {
        sim_worker_stop(worker);
    } else {
        sim_shard_stop(sim_cluster_shard_of(self, node));
    }
    for (uint32_t i = 0; i < self->place_count; i++) {
        sim_place_t *place = &self->places[i];
        if (place->task != SIM_NEVER && place->task == self->nodes[node].task &&
            place->role == self->nodes[node].role) {
            place->task = SIM_NEVER;
            sim_faults_restart_later(self, place, rest_ms(self, place, worker));
        }
    }
}

void
sim_cluster_start_client(sim_cluster_t *self)
{
    char what[32];
    snprintf(what, sizeof(what), "client %u", self->client_count);
    if (self->calm || self->client_count == SIM_CLIENTS_MAX) {
        return;
    }
    const uint64_t drawn = sim_swarm_draw(self->seed, what, 1, UINT64_MAX - 1);
    const cadre_task_t task = {.role = CADRE_ROLE_CLIENT, .incarnation = drawn};
    sim_client_t *client = &self->clients[self->client_count];
    *client = (sim_client_t){
        .node = new_node(self, CADRE_ROLE_CLIENT, self->client_count, task.incarnation),
        .task = task,
        .cluster = self};
    sim_client_start(client, self->client_count++);
    sim_network_at(&self->network, 0, SIM_TICK, client->node, 0);
    sim_network_at(&self->network, drawn % CLIENT_REST_MS, SIM_CLIENT, SIM_COORDINATOR_NODE, 0);
}

/* --- the coordinator comes and goes --- */

void
sim_cluster_disconnected(sim_cluster_t *self, uint32_t node)
{
    const sim_worker_t *worker = sim_cluster_worker_of(self, node);
    const sim_shard_t *shard = sim_cluster_shard_of(self, node);
    if (worker && worker->core) {
        cadre_worker_core_disconnected(worker->core, self->network.now_ms);
    }
    if (shard && shard->core) {
        cadre_ps_core_disconnected(shard->core, self->network.now_ms);
    }
}

/* Whether a worker noticed that its connection broke: it says nothing before it has another one. */
static bool
has_noticed(sim_cluster_t *self, uint32_t node)
{
    const sim_worker_t *worker = sim_cluster_worker_of(self, node);
    return worker && worker->core && !cadre_worker_core_figures(worker->core).contact.is_connected;
}

void
sim_cluster_kill_coordinator(sim_cluster_t *self)
{
    sim_script_fini(&self->script);
    sim_coordinator_stop(self->coordinator);
    sim_network_lose_unread(&self->network, SIM_COORDINATOR_NODE);
    for (uint32_t node = 1; node < self->node_count; node++) {
        if (sim_chance(&self->random, self->seen)) {
            sim_cluster_disconnected(self, node);
        }
    }
}

void
sim_cluster_start_coordinator(sim_cluster_t *self)
{
    sim_coordinator_start(self->coordinator);
    sim_network_disturb(&self->network, SIM_COORDINATOR_NODE, self->network.now_ms);
    if (self->verbose) {
        printf("%8" PRIu64 " the coordinator begins life %u at cut %" PRIu64 "\n",
               self->network.now_ms, self->coordinator->life, sim_check_life(&self->check)->cut);
    }
    if (self->coordinator->life > 1) {
        sim_script_start_again(&self->script);
    }
    for (uint32_t node = 1; node < self->node_count; node++) {
        if (sim_cluster_shard_of(self, node) || has_noticed(self, node) || draw(self, 0, 1)) {
            sim_network_at(&self->network, draw(self, 0, 500), SIM_CONNECTED, node, 0);
        }
    }
}

void
sim_cluster_depose_coordinator(sim_cluster_t *self, uint64_t ms)
{
    sim_coordinator_t *first = self->coordinator;
    sim_coordinator_t *next =
        first == &self->coordinators[0] ? &self->coordinators[1] : &self->coordinators[0];
    self->deposed_node =
        new_node(self, CADRE_ROLE_COORDINATOR, 0, cadre_random_next_u64(&self->random));
    for (uint32_t i = 0; i < self->client_count; i++) {
        sim_client_stop(&self->clients[i]); /* clients of the one that is back are none here */
    }
    /* Its program has no thread here. */
    cadre_operations_give_up(&first->core.operations, &self->script.pending);
    sim_script_fini(&self->script);
    sim_coordinator_depose(first, self->deposed_node, next);
    first->paused_ms = self->network.now_ms + ms;
    self->deposed = first;
    self->check.is_deposed = true;
    self->coordinator = next;
    self->script.coordinator = next;
    for (uint32_t node = 1; node < self->node_count; node++) {
        self->with_deposed[node] = true;
    }
    sim_network_at(&self->network, ms, SIM_TICK, self->deposed_node, 0);
}

void
sim_cluster_kill_deposed(sim_cluster_t *self)
{
    if (!self->deposed) {
        return;
    }
    sim_coordinator_t *deposed = self->deposed;
    self->deposed = NULL;
    sim_coordinator_stop(deposed);
    for (uint32_t node = 1; node < self->node_count; node++) {
        if (self->with_deposed[node] && self->nodes[node].role != CADRE_ROLE_COORDINATOR) {
            self->with_deposed[node] = false;
            sim_network_at(&self->network, draw(self, 0, 500), SIM_CONNECTED, node, 0);
        }
    }
}

/* --- what the user sees --- */

bool
sim_cluster_may_lose_ps(const sim_cluster_t *self)
{
    return self->loses_ps || self->is_stormy;
}

bool
sim_cluster_had_enough(const sim_cluster_t *self)
{
    return self->calm || self->faults >= self->faults_min;
}

/* Whom the coordinator takes for shard `index`, dead or alive; NULL for nobody. */
static sim_shard_t *
believed(sim_cluster_t *self, uint32_t index)
{
    const cadre_core_t *core = &self->coordinator->core;
    const cadre_member_t *member = core->membership.ps[index];
    bool is_ready = member && core->recovery.places[index].state == CADRE_PLACE_READY;
    sim_shard_t *shard =
        is_ready ? sim_cluster_shard_of(self, sim_cluster_node_of(self, &member->task)) : NULL;
    bool has_begun = shard && shard->state && shard->state->epoch == core->options.epoch &&
                     shard->state->generation == core->recovery.places[index].generation;
    if (is_ready && !has_begun) {
        sim_check_fail(&self->check, "I2: shard %u is taken for ready and has not begun", index);
    }
    return shard;
}

/* What shard `index` is sure to hold: what it holds, or what it will be restored from. */
static sim_state_t *
state_of(sim_cluster_t *self, uint32_t index)
{
    const sim_shard_t *shard = believed(self, index);
    const sim_checkpoint_t *checkpoint =
        sim_disk_find(&self->disk, self->coordinator->core.recovery.points.at[0].path);
    return shard ? shard->state : checkpoint ? checkpoint->files[index].state : NULL;
}

/* The variables that are gone: bits id - 1. */
static uint32_t
gone(const sim_cluster_t *self)
{
    const cadre_catalogue_t *catalogue = &self->coordinator->core.catalogue;
    uint32_t bits = 0;
    for (uint32_t i = 0; i < catalogue->variable_count; i++) {
        bits |= cadre_catalogue_is_vacant(catalogue, i + 1) ? 1U << i : 0;
    }
    return bits;
}

void
sim_cluster_check_drops(sim_cluster_t *self)
{
    const cadre_core_t *core = &self->coordinator->core;
    uint64_t fewest = UINT64_MAX;
    const cadre_closure_t *closure = NULL;
    for (size_t cursor = 0; (closure = cadre_u64_map_next(&core->replay.kept, &cursor));) {
        fewest = closure->drops < fewest ? closure->drops : fewest;
    }
    uint64_t done = fewest < core->drops.called ? fewest : core->drops.called;
    if (core->drops.done < done || core->drops.retired != core->drops.called) {
        sim_check_fail(&self->check,
                       "%" PRIu64 " variables were dropped, %" PRIu64
                       " of them are retired, %" PRIu64 " are gone and %" PRIu64 " could be",
                       core->drops.called, core->drops.retired, core->drops.done, done);
    }
}

/* Gives the state of each shard, NULL for one that is away. */
static void
states_of(sim_cluster_t *self, sim_state_t *states[SIM_SHARDS_MAX])
{
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        states[i] = i < self->shard_count ? state_of(self, i) : NULL;
    }
}

void
sim_cluster_check_still(sim_cluster_t *self)
{
    sim_state_t *states[SIM_SHARDS_MAX];
    states_of(self, states);
    sim_check_still(&self->check, states);
}

void
sim_cluster_check_joined(sim_cluster_t *self)
{
    sim_state_t *states[SIM_SHARDS_MAX];
    states_of(self, states);
    sim_check_join(&self->check, states);
    const cadre_core_t *core = &self->coordinator->core;
    if (self->check.relaxed && cadre_recovery_is_calm(&core->recovery)) {
        sim_check_risk(&self->check, states, core->totals.closures_at_risk);
    }
    for (uint32_t i = 0; i < self->shard_count; i++) {
        sim_shard_t *shard = believed(self, i);
        if (shard && shard->core) {
            sim_shard_check_all(shard);
            if (core->requests.count == 0 && core->recovery.repairs.requests.count == 0) {
                sim_shard_check_left(shard, gone(self));
            }
            sim_check_counters(&self->check, shard->state, cadre_shard_counters(shard->shard));
        }
    }
}
