#include "tests/sim/sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/memory.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_faults.h"
#include "worker/worker_state.h"

enum {
    RANDOM_STREAM = 0x636c75,
    SETTLE_MS = 120000, /* one operation must end within this once there are no faults */
    STOP_MS = 30000,    /* and every task must have left within this after STOP */
    EVENTS_MAX = 3000000,
};

static uint64_t
draw(sim_cluster_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

/* --- a job from a seed --- */

static void
make_tasks(sim_cluster_t *self)
{
    uint32_t store_fails = draw(self, 0, 2) ? 0 : 1000;
    self->lease_ms = sim_faults_are_harsh(self) || draw(self, 0, 1) ? 10000 : 3000;
    self->coordinator = (sim_coordinator_t){
        .task = {CADRE_ROLE_COORDINATOR, 0, cadre_random_next_u64(&self->random)},
        .network = &self->network,
        .check = &self->check,
        .random = &self->random,
        .store_fails = store_fails,
        .verbose = self->verbose};
    cadre_core_options_t options = {.epoch = 1,
                                    .job = "sim",
                                    .ps_count = self->shard_count,
                                    .seed = self->seed,
                                    .queue_capacity = draw(self, 0, 2) ? 1000 : draw(self, 1, 8),
                                    .lease_ms = self->lease_ms,
                                    .heartbeat_ms = self->lease_ms / 10,
                                    .resend_ms = draw(self, 0, 1) ? 1000 : 200,
                                    .ps_timeout_ms = 60000,
                                    .round_robin = draw(self, 0, 1)};
    sim_coordinator_start(&self->coordinator, &options);
    for (uint32_t i = 0; i < self->shard_count; i++) {
        self->shards[i] =
            (sim_shard_t){.node = 1 + i,
                          .index = i,
                          .task = {CADRE_ROLE_PS, i, cadre_random_next_u64(&self->random)},
                          .network = &self->network,
                          .check = &self->check,
                          .random = &self->random,
                          .store_fails = store_fails};
        sim_shard_start(&self->shards[i]);
        sim_network_at(&self->network, draw(self, 0, 500), SIM_TICK, self->shards[i].node, 0);
    }
}

static void
make_places(sim_cluster_t *self)
{
    self->place_count = (uint32_t)draw(self, 1, 5);
    uint32_t fixed = (uint32_t)draw(self, 0, self->place_count);
    for (uint32_t i = 0; i < self->place_count; i++) {
        self->places[i] = (sim_place_t){.index = i < fixed ? i : CADRE_INDEX_ANY,
                                        .slots = (uint32_t)draw(self, 1, 4),
                                        .ahead = (uint32_t)draw(self, 0, 2),
                                        .worker = SIM_NEVER};
        bool is_late = draw(self, 0, 3) == 0;
        sim_network_at(&self->network, draw(self, 0, is_late ? 20000 : 500), SIM_FAULT,
                       SIM_COORDINATOR_NODE, 1 + i);
    }
    self->script.plan.tagged_workers = fixed;
}

static void
make_script(sim_cluster_t *self)
{
    sim_plan_t *plan = &self->script.plan;
    static const uint32_t fails[] = {0, 0, 20, 200};
    plan->big = draw(self, 0, 39) == 0;
    plan->operations = (uint32_t)draw(self, 5, plan->big ? 15 : 50);
    plan->variables = (uint32_t)draw(self, 1, 5);
    plan->burst_max = plan->big ? 10 : (uint32_t)draw(self, 1, 60);
    plan->compute_ms_max = draw(self, 0, 1) ? 5 : 200;
    plan->long_compute_ms = (uint32_t)draw(self, 1, 8000);
    plan->fails = fails[draw(self, 0, 3)];
    plan->tags = draw(self, 0, 3) ? 0 : 500;
    plan->checkpoints = draw(self, 0, 1);
    plan->dataset = draw(self, 0, 2) == 0;
    self->script.coordinator = &self->coordinator;
    self->script.shards = self->shards;
    self->script.check = &self->check;
    self->script.network = &self->network;
    sim_script_start(&self->script, self->seed);
    if (plan->checkpoints && draw(self, 0, 1)) {
        self->coordinator.core.checkpoint.every_ms = draw(self, 200, 5000);
    }
}

/* --- how it goes on and ends --- */

static void
check_progress(sim_cluster_t *self)
{
    uint64_t now_ms = self->network.now_ms;
    const sim_script_t *script = &self->script;
    uint64_t since_ms = script->done_ms > self->calm_ms ? script->done_ms : self->calm_ms;
    if (self->calm && now_ms > since_ms + SETTLE_MS) {
        const cadre_closure_queue_t *queue = &self->coordinator.core.queue;
        sim_check_fail(&self->check,
                       "I6: stuck since %" PRIu64 " ms, waiting for %s; %zu queued, %zu in flight, "
                       "%zu + %zu tagged, checkpoint state %d",
                       script->done_ms, sim_operation_text(script->operation), queue->common.count,
                       queue->in_flight, queue->tagged.count, queue->tagged_in_flight,
                       self->coordinator.core.checkpoint.state);
    }
    if (self->network.events > EVENTS_MAX) {
        sim_check_fail(&self->check, "I6: no end after %d events, waiting for %s", EVENTS_MAX,
                       sim_operation_text(script->operation));
    }
}

/* Why the cluster is not at rest: something is held, unanswered or on its way, other than
 * heartbeats; "" when it is. */
static const char *
unrest(sim_cluster_t *self, char text[128])
{
    const cadre_core_t *core = &self->coordinator.core;
    text[0] = '\0';
    if (core->closures.count > 0 || core->requests.count > 0 ||
        core->checkpoint.state != CADRE_CHECKPOINT_IDLE) {
        snprintf(text, 128, "the coordinator has %zu closures, %zu requests, checkpoint state %d",
                 core->closures.count, core->requests.count, core->checkpoint.state);
    }
    for (uint32_t i = 0; text[0] == '\0' && i < self->worker_count; i++) {
        const sim_worker_t *worker = &self->workers[i];
        if (worker->core && (worker->leaving || worker->core->runs.count > 0)) {
            snprintf(text, 128, "worker node %u holds %zu closures%s", worker->node,
                     worker->core->runs.count, worker->leaving ? " and was told to leave" : "");
        }
    }
    return text;
}

/* The script has ended: the rest must come to rest soon. */
static bool
is_at_rest(sim_cluster_t *self)
{
    char text[128];
    if (self->rest_ms == 0) {
        self->rest_ms = self->network.now_ms + SETTLE_MS;
        self->coordinator.core.checkpoint.every_ms = 0;
    }
    if (unrest(self, text)[0] == '\0') {
        return true;
    }
    if (self->network.now_ms > self->rest_ms) {
        sim_check_fail(&self->check, "I6: the cluster does not come to rest: %s", text);
    }
    return false;
}

static void
next_event(sim_cluster_t *self)
{
    sim_event_t event;
    if (!sim_network_next(&self->network, &event)) {
        sim_check_fail(&self->check, "I6: nothing will ever happen, waiting for %s",
                       sim_operation_text(self->script.operation));
    }
    sim_cluster_event(self, &event);
}

/* To the end of the script, or until it quits: true when it ended. */
static bool
run(sim_cluster_t *self)
{
    bool ended = false;
    do {
        next_event(self);
        if (self->quit_ms && self->network.now_ms >= self->quit_ms) {
            return false;
        }
        ended = sim_script_ended(&self->script);
        if (!self->calm && (ended || self->network.now_ms >= self->faults_end_ms ||
                            self->worker_count + SIM_PLACES_MAX >= SIM_WORKER_NODES)) {
            sim_faults_end(self);
        }
        if (!ended) {
            check_progress(self);
        }
    } while (!ended || !is_at_rest(self));
    return true;
}

static bool
has_anyone(const sim_cluster_t *self)
{
    bool found = false;
    for (uint32_t i = 0; i < self->worker_count; i++) {
        found = found || self->workers[i].core;
    }
    for (uint32_t i = 0; i < self->shard_count; i++) {
        found = found || !self->shards[i].left;
    }
    return found;
}

/* The coordinator closes: every task is told, and leaves. */
static void
stop(sim_cluster_t *self)
{
    if (!self->calm) {
        sim_faults_end(self);
    }
    self->stopping = true;
    for (uint32_t i = 0; i < self->shard_count; i++) {
        self->shards[i].stopping = true;
    }
    uint64_t deadline_ms = self->network.now_ms + STOP_MS;
    cadre_core_stop(&self->coordinator.core, "the script is over");
    sim_cluster_turn_coordinator(self);
    while (has_anyone(self)) {
        next_event(self);
        if (self->network.now_ms > deadline_ms) {
            sim_check_fail(&self->check, "I6: not every task has left");
        }
    }
}

static void
final_checks(sim_cluster_t *self)
{
    sim_check_join(&self->check);
    for (uint32_t i = 0; i < self->shard_count; i++) {
        sim_shard_check_all(&self->shards[i]);
        sim_check_counters(&self->check, i, cadre_shard_counters(self->shards[i].shard));
    }
    for (uint32_t i = 0; i < self->worker_count; i++) {
        if (self->workers[i].core) {
            sim_worker_reconcile(&self->workers[i]);
        }
    }
    const cadre_totals_t *totals = &self->coordinator.core.totals;
    if (self->check.ended_count != self->check.call_count ||
        totals->scheduled != self->check.call_count) {
        sim_check_fail(&self->check, "%u calls, %u ended, %" PRIu64 " scheduled",
                       self->check.call_count, self->check.ended_count, totals->scheduled);
    }
}

sim_summary_t
sim_run(uint64_t seed, bool verbose)
{
    sim_cluster_t *self = cadre_calloc(1, sizeof(*self));
    self->seed = seed;
    self->verbose = verbose;
    cadre_random_init(&self->random, seed, RANDOM_STREAM);
    sim_network_init(&self->network, seed);
    self->shard_count = (uint32_t)draw(self, 1, SIM_SHARDS_MAX);
    sim_check_init(&self->check, seed, self->shard_count);
    self->check.now_ms = &self->network.now_ms;
    self->check.events = &self->network.events;
    sim_faults_init(self);
    make_tasks(self);
    make_places(self);
    make_script(self);
    self->quit_ms = draw(self, 0, 9) ? 0 : draw(self, 1, 20000);
    if (run(self)) {
        final_checks(self);
    }
    stop(self);
    sim_summary_t summary = {.trace = self->network.trace,
                             .events = self->network.events,
                             .closures = self->check.call_count,
                             .faults = self->faults,
                             .time_ms = self->network.now_ms,
                             .messages = self->network.sent,
                             .checkpoints = self->coordinator.core.totals.checkpoints,
                             .errors = self->script.errors};
    for (uint32_t i = 0; i < self->worker_count; i++) {
        sim_worker_stop(&self->workers[i]);
    }
    for (uint32_t i = 0; i < self->shard_count; i++) {
        sim_shard_stop(&self->shards[i]);
    }
    sim_coordinator_stop(&self->coordinator);
    sim_script_fini(&self->script);
    sim_network_fini(&self->network);
    sim_check_fini(&self->check);
    free(self);
    return summary;
}
