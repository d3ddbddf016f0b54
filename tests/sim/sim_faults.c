#include "tests/sim/sim_faults.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/memory.h"

static uint64_t
draw(sim_cluster_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

static void
say(const sim_cluster_t *self, const char *what, uint32_t node, uint64_t ms)
{
    if (self->verbose) {
        printf("%8" PRIu64 " fault %s node %u for %" PRIu64 " ms\n", self->network.now_ms, what,
               node, ms);
    }
}

/* --- what may happen to a worker --- */

static void
kill_worker(sim_cluster_t *self, sim_place_t *place)
{
    say(self, "kill", sim_cluster_worker_at(self, place)->node, 0);
    sim_cluster_kill_worker(self, place);
    sim_faults_restart_later(self, place);
}

static void
pause_worker(sim_cluster_t *self, sim_place_t *place)
{
    sim_worker_t *worker = sim_cluster_worker_at(self, place);
    uint64_t most_ms = draw(self, 0, 2) ? 2000 : 2 * self->lease_ms;
    worker->paused_ms = self->network.now_ms + draw(self, 10, most_ms);
    say(self, "pause", worker->node, worker->paused_ms - self->network.now_ms);
}

/* A worker whose process is frozen is replaced meanwhile: both have the same index for a while. */
static void
replace_paused(sim_cluster_t *self, sim_place_t *place)
{
    sim_worker_t *worker = sim_cluster_worker_at(self, place);
    worker->paused_ms = self->network.now_ms + draw(self, 10, 2 * self->lease_ms);
    say(self, "replace", worker->node, worker->paused_ms - self->network.now_ms);
    place->worker = SIM_NEVER;
    sim_faults_restart_later(self, place);
}

static void
cut_control(sim_cluster_t *self, sim_place_t *place)
{
    const sim_worker_t *worker = sim_cluster_worker_at(self, place);
    uint64_t ms = draw(self, 10, draw(self, 0, 2) ? 2000 : 2 * self->lease_ms);
    say(self, "cut from coordinator", worker->node, ms);
    sim_network_cut(&self->network, SIM_COORDINATOR_NODE, worker->node, self->network.now_ms + ms);
    sim_cluster_maybe_seen(self, worker);
    sim_network_at(&self->network, ms + draw(self, 0, 100), SIM_CONNECTED, worker->node, 0);
}

static void
cut_data(sim_cluster_t *self, sim_place_t *place)
{
    const sim_worker_t *worker = sim_cluster_worker_at(self, place);
    uint32_t shard = (uint32_t)draw(self, 0, self->shard_count - 1);
    uint64_t ms = draw(self, 10, 4000);
    say(self, "cut from a ps", worker->node, ms);
    sim_network_cut(&self->network, self->shards[shard].node, worker->node,
                    self->network.now_ms + ms);
}

/* The connection breaks and is there again at once. */
static void
reconnect(sim_cluster_t *self, sim_place_t *place)
{
    const sim_worker_t *worker = sim_cluster_worker_at(self, place);
    say(self, "reconnect", worker->node, 0);
    sim_cluster_maybe_seen(self, worker);
    sim_network_at(&self->network, draw(self, 0, 200), SIM_CONNECTED, worker->node, 0);
}

static void
drain_worker(sim_cluster_t *self, sim_place_t *place)
{
    sim_worker_t *worker = sim_cluster_worker_at(self, place);
    say(self, "drain", worker->node, 0);
    worker->leaving = true;
    cadre_worker_core_drain(worker->core, "told to leave", self->network.now_ms);
    sim_network_at(&self->network, 0, SIM_TICK, worker->node, 0);
}

bool
sim_faults_are_harsh(const sim_cluster_t *self)
{
    const sim_weather_t *weather = &self->network.weather;
    return weather->drop > 50 || (weather->late > 0 && weather->late_ms_max > 50);
}

/* --- what may happen to a ps, while its loss ends the job --- */

static void
cut_ps(sim_cluster_t *self, sim_place_t *place)
{
    (void)place;
    if (sim_faults_are_harsh(self)) {
        return;
    }
    const sim_shard_t *shard = &self->shards[draw(self, 0, self->shard_count - 1)];
    uint64_t ms = draw(self, 10, self->lease_ms / 4);
    if (draw(self, 0, 1)) {
        cadre_ps_core_disconnected(shard->core);
    }
    say(self, "cut from coordinator", shard->node, ms);
    sim_network_cut(&self->network, SIM_COORDINATOR_NODE, shard->node, self->network.now_ms + ms);
    sim_network_at(&self->network, ms + draw(self, 0, 100), SIM_CONNECTED, shard->node, 0);
}

/* Every fault. Those on workers need a place with a living one. */
static const struct {
    cadre_role_t role;
    uint32_t weight;
    void (*happen)(sim_cluster_t *self, sim_place_t *place);
} table[] = {
    {CADRE_ROLE_WORKER, 30, kill_worker},   {CADRE_ROLE_WORKER, 15, pause_worker},
    {CADRE_ROLE_WORKER, 3, replace_paused}, {CADRE_ROLE_WORKER, 15, cut_control},
    {CADRE_ROLE_WORKER, 15, cut_data},      {CADRE_ROLE_WORKER, 8, reconnect},
    {CADRE_ROLE_WORKER, 8, drain_worker},   {CADRE_ROLE_PS, 6, cut_ps},
};

/* --- when --- */

static void
one_fault(sim_cluster_t *self)
{
    uint64_t total = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(table); i++) {
        total += table[i].weight;
    }
    uint64_t drawn = draw(self, 0, total - 1);
    size_t at = 0;
    while (drawn >= table[at].weight) {
        drawn -= table[at++].weight;
    }
    sim_place_t *place = &self->places[draw(self, 0, self->place_count - 1)];
    if (table[at].role == CADRE_ROLE_WORKER && !sim_cluster_worker_at(self, place)) {
        return;
    }
    self->faults++;
    table[at].happen(self, place);
}

void
sim_faults_restart_later(sim_cluster_t *self, const sim_place_t *place)
{
    uint64_t delay_ms = self->calm ? 0 : draw(self, 0, draw(self, 0, 3) ? 1500 : 8000);
    sim_network_at(&self->network, delay_ms, SIM_FAULT, SIM_COORDINATOR_NODE,
                   1 + (uint64_t)(place - self->places));
}

void
sim_faults_event(sim_cluster_t *self, const sim_event_t *event)
{
    if (event->value > 0) {
        sim_place_t *place = &self->places[event->value - 1];
        if (place->worker == SIM_NEVER && !self->stopping) {
            sim_cluster_start_worker(self, place);
        }
        return;
    }
    if (!self->calm) {
        one_fault(self);
        sim_network_at(&self->network, draw(self, 1, 2 * self->fault_every_ms), SIM_FAULT,
                       SIM_COORDINATOR_NODE, 0);
    }
}

void
sim_faults_init(sim_cluster_t *self)
{
    static const uint32_t drops[] = {0, 0, 50, 300, 1000};
    static const uint32_t others[] = {0, 100, 1000};
    static const uint64_t every_ms[] = {0, 200, 1000, 5000};
    self->network.weather = (sim_weather_t){.drop = drops[draw(self, 0, 4)],
                                            .twice = others[draw(self, 0, 2)],
                                            .late = others[draw(self, 0, 2)],
                                            .delay_ms_max = draw(self, 0, 1) ? 2 : 30,
                                            .late_ms_max = draw(self, 0, 1) ? 50 : 3000};
    self->fault_every_ms = every_ms[draw(self, 0, 3)];
    self->faults_end_ms = draw(self, 5000, 60000);
    self->seen = draw(self, 0, 2) ? 8000 : 0;
    self->calm = false;
    if (self->fault_every_ms > 0) {
        sim_network_at(&self->network, self->fault_every_ms, SIM_FAULT, SIM_COORDINATOR_NODE, 0);
    }
}

void
sim_faults_end(sim_cluster_t *self)
{
    self->calm = true;
    self->calm_ms = self->network.now_ms;
    sim_network_calm(&self->network);
    for (uint32_t i = 0; i < self->worker_count; i++) {
        self->workers[i].paused_ms = 0;
    }
    for (uint32_t i = 0; i < self->place_count; i++) {
        if (self->places[i].worker == SIM_NEVER) {
            sim_faults_restart_later(self, &self->places[i]);
        }
    }
}
