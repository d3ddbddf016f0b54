#include "tests/sim/sim_faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/sim/sim_resize.h"
#include "tests/sim/sim_run.h"
#include "tests/sim/sim_swarm.h"

enum {
    STORM = 1000, /* in 10,000 messages */
    RESTART_AGAIN_MS = 1000,
    WATCH_MS = 1000,
    TRAP_SNAPS = 1000,
    COORDINATOR_BEGINS = 1001,
    WATCHES = 2000,          /* and the number of a place */
    WATCHED_WORKERS = 10000, /* and a node */
    LOSES_PS = 1,            /* whether the core can do without */
    LOSES_COORDINATOR = 1,
    ROTTEN_KILLS = 4, /* times as many ps die where files may be damaged */
};

typedef enum {
    ON_ANYTHING,
    ON_PS,
    ON_COORDINATOR,
} victim_t;

/* Every fault. */
static const struct {
    victim_t victim;
    const char *name;
    uint32_t weight; /* usually; the seed makes more or less of it */
    bool (*happen)(sim_cluster_t *self);
} table[] = {
    {ON_ANYTHING, "kill_worker", 20, sim_fault_kill_worker},
    {ON_ANYTHING, "pause_worker", 10, sim_fault_pause_worker},
    {ON_ANYTHING, "replace_worker", 3, sim_fault_replace_worker},
    {ON_ANYTHING, "reconnect_worker", 6, sim_fault_reconnect_worker},
    {ON_ANYTHING, "drain_worker", 6, sim_fault_drain_worker},
    {ON_ANYTHING, "cut_worker", 12, sim_fault_cut_worker},
    {ON_ANYTHING, "cut_data", 12, sim_fault_cut_data},
    {ON_PS, "kill_ps", 16, sim_fault_kill_ps},
    {ON_PS, "pause_ps", 10, sim_fault_pause_ps},
    {ON_PS, "replace_ps", 5, sim_fault_replace_ps},
    {ON_PS, "reconnect_ps", 5, sim_fault_reconnect_ps},
    {ON_PS, "ps_leaves", 4, sim_fault_ps_leaves},
    {ON_PS, "cut_ps", 10, sim_fault_cut_ps},
    {ON_PS, "swizzle", 4, sim_fault_swizzle},
    {ON_PS, "lay_trap", 10, sim_fault_lay_trap},
    {ON_COORDINATOR, "kill_coordinator", 4, sim_fault_kill_coordinator},
    {ON_PS, "pause_coordinator", 2, sim_fault_pause_coordinator},
    {ON_ANYTHING, "part_for_good", 6, sim_fault_part_for_good},
    {ON_ANYTHING, "isolate_worker", 3, sim_fault_isolate_worker},
    {ON_PS, "isolate_ps", 3, sim_fault_isolate_ps},
    {ON_PS, "stick_ps", 8, sim_fault_stick_ps},
    {ON_COORDINATOR, "second_coordinator", 2, sim_fault_second_coordinator},
    {ON_PS, "stall_coordinator", 3, sim_fault_stall_coordinator},
    {ON_ANYTHING, "resize", 10, sim_fault_resize},
};

uint64_t
sim_faults_draw(sim_cluster_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

void
sim_faults_say(const sim_cluster_t *self, const char *what, uint32_t node, uint64_t ms)
{
    if (self->verbose) {
        printf("%8" PRIu64 " fault %s node %u for %" PRIu64 " ms\n", self->network.now_ms, what,
               node, ms);
    }
}

sim_place_t *
sim_faults_pick(sim_cluster_t *self, cadre_role_t role)
{
    sim_place_t *found = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->place_count; i++) {
        sim_place_t *place = &self->places[i];
        if (place->role == role && place->task != SIM_NEVER &&
            sim_faults_draw(self, 0, count++) == 0) {
            found = place;
        }
    }
    return found;
}

/* --- when --- */

static bool
may_happen(const sim_cluster_t *self, size_t fault)
{
    victim_t victim = table[fault].victim;
    return victim == ON_ANYTHING || (victim == ON_PS && self->loses_ps) ||
           (victim == ON_COORDINATOR && self->loses_coordinator);
}

/* How often a fault happens in this world: once there should have been enough and were not, as
 * often as usual. */
static uint32_t
weight_of(const sim_cluster_t *self, size_t fault)
{
    uint32_t usual = table[fault].weight;
    if (!may_happen(self, fault) ||
        (table[fault].happen == sim_fault_resize && !sim_is_resized(self->seed))) {
        return 0;
    }
    if (sim_is_rotten(self->seed) && strcmp(table[fault].name, "kill_ps") == 0) {
        return usual * ROTTEN_KILLS;
    }
    return self->network.now_ms > self->faults_end_ms
               ? usual
               : sim_swarm_weight(self->seed, table[fault].name, usual);
}

static void
one_fault(sim_cluster_t *self)
{
    uint64_t total = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(table); i++) {
        total += weight_of(self, i);
    }
    uint64_t drawn = total > 0 ? sim_faults_draw(self, 0, total - 1) : 0;
    for (size_t i = 0; total > 0 && i < CADRE_COUNT_OF(table); i++) {
        uint32_t weight = weight_of(self, i);
        if (drawn < weight) {
            self->faults += table[i].happen(self);
            return;
        }
        drawn -= weight;
    }
}

static uint64_t
restart_ms(sim_cluster_t *self)
{
    return self->calm ? 0 : sim_faults_draw(self, 0, sim_faults_draw(self, 0, 3) ? 1500 : 8000);
}

void
sim_faults_restart_later(sim_cluster_t *self, const sim_place_t *place, uint64_t least_ms)
{
    sim_network_at(&self->network, least_ms + restart_ms(self), SIM_FAULT, SIM_COORDINATOR_NODE,
                   1 + (uint64_t)(place - self->places));
}

void
sim_faults_restart_coordinator_later(sim_cluster_t *self)
{
    sim_network_at(&self->network, restart_ms(self), SIM_FAULT, SIM_COORDINATOR_NODE,
                   COORDINATOR_BEGINS);
}

/* A job that leaves it to the coordinator who serves which shard starts no more ps than it has
 * shards: one that was frozen, and taken for dead, may be back. */
static bool
has_its_ps(const sim_cluster_t *self, const sim_place_t *place)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < self->ps_count; i++) {
        const sim_shard_t *shard = &self->shards[i];
        count += shard->core && !shard->isolated && shard->paused_ms <= self->network.now_ms;
    }
    return place->role == CADRE_ROLE_PS && place->index == CADRE_INDEX_ANY &&
           count >= self->shard_count;
}

static void
restart(sim_cluster_t *self, uint64_t number)
{
    sim_place_t *place = &self->places[number];
    if (place->task != SIM_NEVER || self->stopping ||
        (number >= self->shard_count && number < self->ps_places)) {
        return;
    }
    if (has_its_ps(self, place)) {
        sim_network_at(&self->network, RESTART_AGAIN_MS, SIM_FAULT, SIM_COORDINATOR_NODE,
                       1 + number);
        return;
    }
    sim_cluster_start(self, place);
}

void
sim_faults_watch(sim_cluster_t *self, const sim_place_t *place)
{
    sim_network_at(&self->network, WATCH_MS, SIM_FAULT, SIM_COORDINATOR_NODE,
                   WATCHES + (uint64_t)(place - self->places));
}

bool
sim_faults_in_the_way(const sim_cluster_t *self, const sim_worker_t *worker)
{
    return cadre_worker_core_task(worker->core)->index < self->script.plan.tagged_workers;
}

void
sim_faults_watch_worker(sim_cluster_t *self, const sim_worker_t *worker)
{
    sim_network_at(&self->network, WATCH_MS, SIM_FAULT, SIM_COORDINATOR_NODE,
                   WATCHED_WORKERS + worker->node);
}

/* It may come to be in the way after it was cut off: each session chooses anew. */
static void
watch_worker(sim_cluster_t *self, uint32_t node)
{
    const sim_worker_t *worker = sim_cluster_worker_of(self, node);
    if (!worker->core || self->stopping) {
        return;
    }
    if (!sim_faults_in_the_way(self, worker)) {
        sim_faults_watch_worker(self, worker);
        return;
    }
    sim_faults_say(self, "is killed for being in the way:", node, 0);
    sim_cluster_left(self, node);
}

/* Kills the stuck ps at a place when the coordinator has given it up. */
static void
watch(sim_cluster_t *self, sim_place_t *place)
{
    const sim_shard_t *shard = sim_cluster_shard_at(self, place);
    if (!shard || shard->stuck_ms != SIM_FOR_EVER) {
        return;
    }
    if (!self->coordinator->lost[shard->node]) {
        sim_faults_watch(self, place);
        return;
    }
    sim_faults_say(self, "is killed for being stuck:", shard->node, 0);
    sim_cluster_kill(self, place);
    sim_faults_restart_later(self, place, 0);
}

/* --- traps --- */

void
sim_faults_look(sim_cluster_t *self)
{
    const sim_trap_t *trap = &self->trap;
    bool snaps = trap->when == SIM_TRAP_RESTORE
                     ? self->check.restores > trap->count
                     : trap->when > 0 && self->coordinator->core.checkpoint.state == trap->when;
    if (snaps) {
        self->trap.when = 0;
        sim_network_at(&self->network,
                       sim_faults_draw(self, 0, sim_faults_draw(self, 0, 1) ? 10 : 300), SIM_FAULT,
                       SIM_COORDINATOR_NODE, TRAP_SNAPS);
    }
}

static void
snap(sim_cluster_t *self)
{
    static bool (*const faults[])(sim_cluster_t *) = {sim_fault_kill_ps, sim_fault_kill_coordinator,
                                                      sim_fault_kill_worker};
    uint32_t whom = self->trap.whom == 1 && !self->loses_coordinator ? 0 : self->trap.whom;
    if (!self->calm) {
        self->faults += faults[whom](self);
    }
}

void
sim_faults_event(sim_cluster_t *self, const sim_event_t *event)
{
    if (event->value == TRAP_SNAPS) {
        snap(self);
    } else if (event->value == COORDINATOR_BEGINS) {
        if (!self->coordinator->alive && !self->stopping) {
            sim_cluster_start_coordinator(self);
        }
    } else if (event->value >= WATCHED_WORKERS) {
        watch_worker(self, (uint32_t)(event->value - WATCHED_WORKERS));
    } else if (event->value >= WATCHES) {
        watch(self, &self->places[event->value - WATCHES]);
    } else if (event->value > 0) {
        restart(self, event->value - 1);
    } else if (!self->calm) {
        one_fault(self);
        sim_network_at(&self->network, sim_faults_draw(self, 1, 2 * self->fault_every_ms),
                       SIM_FAULT, SIM_COORDINATOR_NODE, 0);
    }
}

/* --- beginning and end --- */

/* From a network that loses nothing to one that loses a third, each kind by itself. */
static sim_weather_t
draw_weather(sim_cluster_t *self)
{
    static const uint32_t chances[] = {0, 0, 50, 300, 1000, 3000};
    bool is_clean = sim_swarm_has(self->seed, "clean", 4);
    size_t last = is_clean ? 0 : CADRE_COUNT_OF(chances) - 1;
    return (sim_weather_t){.drop = chances[sim_swarm_draw(self->seed, "drop", 0, last)],
                           .twice = chances[sim_swarm_draw(self->seed, "twice", 0, last)],
                           .late = chances[sim_swarm_draw(self->seed, "late", 0, last)],
                           .ghost = chances[sim_swarm_draw(self->seed, "ghost", 0, last)],
                           .delay_ms_max = sim_faults_draw(self, 0, 1) ? 2 : 30,
                           .late_ms_max = sim_faults_draw(self, 0, 1) ? 50 : 3000,
                           .ghost_ms_max = sim_faults_draw(self, 0, 1) ? 3000 : 20000};
}

/* What links can take: enough for the variables of this simulation within a few seconds. */
static sim_bandwidth_t
draw_bandwidth(const sim_cluster_t *self)
{
    static const uint64_t rates[] = {500000, 1000000, 2000000};
    bool has = sim_swarm_has(self->seed, "bandwidth", 3);
    sim_bandwidth_t bandwidth = {.bytes_per_s = {0}};
    if (has) {
        bandwidth.bytes_per_s[CADRE_PLANE_DATA] =
            rates[sim_swarm_draw(self->seed, "data bandwidth", 0, 2)];
        bandwidth.bytes_per_s[CADRE_PLANE_CONTROL] =
            rates[sim_swarm_draw(self->seed, "control bandwidth", 0, 2)];
    }
    return bandwidth;
}

void
sim_faults_init(sim_cluster_t *self)
{
    static const uint64_t every_ms[] = {200, 500, 1000, 3000};
    self->network.weather = draw_weather(self);
    if (self->in_series) {
        sim_network_calm(&self->network);
    }
    self->is_stormy = self->network.weather.drop >= STORM || self->network.weather.late >= STORM;
    self->network.bandwidth = draw_bandwidth(self);
    self->fault_every_ms = self->quiet ? 0 : every_ms[sim_faults_draw(self, 0, 3)];
    self->faults_end_ms = sim_faults_draw(self, 10000, 90000);
    self->faults_min = self->quiet ? 0 : sim_faults_draw(self, SIM_FAULTS_MIN, 20);
    self->seen = sim_faults_draw(self, 0, 2) ? 8000 : 0;
    self->same_addresses = sim_faults_draw(self, 0, 1);
    self->loses_ps = LOSES_PS && sim_faults_draw(self, 0, 9) > 0;
    self->loses_coordinator = LOSES_COORDINATOR && sim_faults_draw(self, 0, 2) == 0;
    if (sim_is_rotten(self->seed) && !self->quiet) { /* checkpoints that are made and read */
        self->loses_ps = true;
        self->loses_coordinator = false;
        self->fault_every_ms = 2000;
    }
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
    if (self->coordinator->store_ms > self->calm_ms) {
        self->calm_ms = self->coordinator->store_ms; /* what a slow store was told before */
    }
    self->trap.when = 0;
    sim_cluster_kill_deposed(self);
    sim_network_calm(&self->network);
    self->shard_plan.rots = 0;
    self->shard_plan.write_fails = 0; /* where nothing new begins before a checkpoint */
    self->coordinator->store_fails = 0;
    self->coordinator->slow_store = false;
    for (uint32_t i = 0; i < self->place_count; i++) {
        if (self->places[i].task == SIM_NEVER) {
            sim_faults_restart_later(self, &self->places[i], 0);
        }
    }
    if (!self->coordinator->alive) {
        sim_faults_restart_coordinator_later(self);
    }
}
