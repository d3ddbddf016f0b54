#include "tests/sim/sim_cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/assert.h"
#include "common/codec.h"
#include "common/memory.h"
#include "common/status.h"
#include "tests/sim/sim_faults.h"
#include "worker/worker_state.h"

enum { RANDOM_STREAM = 0x636c75 };

static uint64_t
draw(sim_cluster_t *self, uint64_t low, uint64_t high)
{
    return sim_between(&self->random, low, high);
}

/* --- nodes --- */

static sim_worker_t *
worker_of_node(sim_cluster_t *self, uint32_t node)
{
    uint32_t first = 1 + self->shard_count;
    return node >= first && node < first + self->worker_count ? &self->workers[node - first] : NULL;
}

static sim_shard_t *
shard_of_node(sim_cluster_t *self, uint32_t node)
{
    return node >= 1 && node <= self->shard_count ? &self->shards[node - 1] : NULL;
}

static cadre_task_t
task_of_node(sim_cluster_t *self, uint32_t node)
{
    const sim_worker_t *worker = worker_of_node(self, node);
    const sim_shard_t *shard = shard_of_node(self, node);
    return worker ? worker->task : shard ? shard->task : self->coordinator.task;
}

/* The node that serves a destination now; SIM_NEVER when it is dead. */
static uint32_t
node_of_task(sim_cluster_t *self, const cadre_task_t *task)
{
    if (task->role == CADRE_ROLE_COORDINATOR) {
        return SIM_COORDINATOR_NODE;
    }
    for (uint32_t i = 0; i < self->shard_count; i++) {
        if (self->shards[i].task.incarnation == task->incarnation) {
            return self->shards[i].node;
        }
    }
    for (uint32_t i = 0; i < self->worker_count; i++) {
        if (self->workers[i].task.incarnation == task->incarnation) {
            return self->workers[i].core ? self->workers[i].node : SIM_NEVER;
        }
    }
    sim_check_fail(&self->check, "a message to nobody: role %d index %u", task->role, task->index);
}

/* --- messages --- */

static void
route(sim_cluster_t *self, uint32_t from, cadre_outbox_t *outbox)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(outbox, &entry)) {
        uint32_t to = node_of_task(self, &entry.destination);
        if (to == SIM_NEVER) {
            cadre_outbox_entry_fini(&entry);
        } else {
            sim_network_send(&self->network, from, to, &entry);
        }
    }
}

/* The message of an event, which it leaves empty. */
static void
decode(sim_cluster_t *self, sim_event_t *event, cadre_message_t *message)
{
    cadre_outbox_entry_t *entry = &event->entry;
    cadre_role_t sender = task_of_node(self, event->from).role;
    if (!sim_network_intact(event)) {
        sim_check_fail(&self->check, "I4: the payload of %s changed on its way",
                       cadre_message_type_text(entry->type));
    }
    if (cadre_message_decode(cadre_chunk_data(entry->header), cadre_chunk_size_bytes(entry->header),
                             entry->chunks, entry->chunk_count, message) < 0 ||
        cadre_message_authorize(message->type, sender) < 0) {
        sim_check_fail(&self->check, "%s from node %u: %s", cadre_message_type_text(entry->type),
                       event->from, cadre_error_text());
    }
    if (self->verbose) {
        char text[200];
        printf("%8" PRIu64 " %2u > %2u %s\n", self->network.now_ms, event->from, event->node,
               cadre_message_text(message, text, sizeof(text)));
    }
}

/* A worker's copy of what it was sent: the sender may write its own again. */
static void
copy_chunks(cadre_message_t *message)
{
    for (size_t i = 0; i < message->chunk_count; i++) {
        cadre_chunk_t *copy = cadre_chunk_new_copy(cadre_chunk_data(message->chunks[i]),
                                                   cadre_chunk_size_bytes(message->chunks[i]));
        cadre_chunk_unref(&message->chunks[i]);
        message->chunks[i] = copy;
    }
}

/* A closure for one worker must not come to another. */
static void
check_tag(sim_cluster_t *self, const sim_worker_t *worker, const cadre_message_t *message)
{
    const cadre_core_t *core = &self->coordinator.core;
    const cadre_member_t *member =
        cadre_membership_find(&core->membership, worker->task.incarnation);
    const cadre_closure_t *closure = cadre_u64_map_get(&core->closures, message->closure.id);
    if (closure && member && closure->worker == member && closure->tag != CADRE_TAG_NONE &&
        closure->tag != member->index) {
        sim_check_fail(&self->check, "closure %" PRIu64 " for worker %u is on worker %u",
                       closure->id, closure->tag, member->index);
    }
}

static void
on_message(sim_cluster_t *self, sim_event_t *event)
{
    cadre_plane_t plane = event->entry.plane;
    cadre_task_t from = task_of_node(self, event->from);
    cadre_message_t message = {0};
    decode(self, event, &message);
    cadre_outbox_entry_fini(&event->entry);
    copy_chunks(&message);
    sim_worker_t *worker = worker_of_node(self, event->node);
    sim_shard_t *shard = shard_of_node(self, event->node);
    if (worker) {
        if (message.type == CADRE_MESSAGE_CLOSURE) {
            check_tag(self, worker, &message);
        }
        sim_worker_receive(worker, &from, &message);
    } else if (shard) {
        sim_shard_receive(shard, plane, &from, &message);
    } else {
        cadre_core_receive(&self->coordinator.core, &from, &message, self->network.now_ms);
    }
}

/* --- workers that come and go --- */

sim_worker_t *
sim_cluster_worker_at(sim_cluster_t *self, const sim_place_t *place)
{
    return place->worker == SIM_NEVER ? NULL : &self->workers[place->worker];
}

void
sim_cluster_start_worker(sim_cluster_t *self, sim_place_t *place)
{
    cadre_assert(place->worker == SIM_NEVER && self->worker_count < SIM_WORKER_NODES);
    place->worker = self->worker_count++;
    sim_worker_t *worker = &self->workers[place->worker];
    *worker = (sim_worker_t){
        .node = 1 + self->shard_count + place->worker,
        .task = {CADRE_ROLE_WORKER, place->index, cadre_random_next_u64(&self->random)},
        .slot_count = place->slots + place->ahead,
        .ahead = place->ahead,
        .network = &self->network,
        .check = &self->check,
        .random = &self->random};
    sim_worker_start(worker);
    sim_network_at(&self->network, 0, SIM_TICK, worker->node, 0);
    if (self->verbose) {
        printf("%8" PRIu64 " worker node %u starts\n", self->network.now_ms, worker->node);
    }
}

void
sim_cluster_maybe_seen(sim_cluster_t *self, const sim_worker_t *worker)
{
    if (sim_chance(&self->random, self->seen)) {
        sim_network_at_from(&self->network, draw(self, 0, 500), SIM_GONE, SIM_COORDINATOR_NODE,
                            worker->node);
    }
}

void
sim_cluster_kill_worker(sim_cluster_t *self, sim_place_t *place)
{
    sim_worker_t *worker = sim_cluster_worker_at(self, place);
    sim_cluster_maybe_seen(self, worker);
    sim_worker_stop(worker);
    place->worker = SIM_NEVER;
}

/* The session of a worker is over: its process ends, and its supervisor starts another. */
static void
on_left(sim_cluster_t *self, sim_worker_t *worker)
{
    sim_worker_stop(worker);
    for (uint32_t i = 0; i < self->place_count; i++) {
        if (sim_cluster_worker_at(self, &self->places[i]) == worker) {
            self->places[i].worker = SIM_NEVER;
            sim_faults_restart_later(self, &self->places[i]);
        }
    }
}

/* --- events --- */

static void
turn_worker(sim_cluster_t *self, sim_worker_t *worker)
{
    sim_worker_turn(worker);
    route(self, worker->node, cadre_worker_core_outbox(worker->core));
    if (worker->left) {
        on_left(self, worker);
    }
}

static void
turn_coordinator(sim_cluster_t *self)
{
    if (!self->stopping) {
        sim_script_go(&self->script);
    }
    sim_coordinator_turn(&self->coordinator);
    route(self, SIM_COORDINATOR_NODE, &self->coordinator.core.outbox);
}

static void
on_worker_event(sim_cluster_t *self, sim_worker_t *worker, sim_event_t *event)
{
    if (!worker->core) {
        cadre_outbox_entry_fini(&event->entry);
        return;
    }
    if (worker->paused_ms > self->network.now_ms) {
        sim_network_postpone(&self->network, event, worker->paused_ms);
        return;
    }
    if (event->kind == SIM_MESSAGE) {
        on_message(self, event);
    } else {
        sim_worker_event(worker, event);
    }
    turn_worker(self, worker);
}

static void
on_coordinator_event(sim_cluster_t *self, sim_event_t *event)
{
    if (event->kind == SIM_MESSAGE) {
        on_message(self, event);
    } else if (event->kind == SIM_GONE) {
        cadre_task_t task = task_of_node(self, event->from);
        cadre_core_gone(&self->coordinator.core, &task, self->network.now_ms);
    } else if (event->kind == SIM_STORED) {
        sim_coordinator_stored(&self->coordinator, event->value);
    } else if (event->kind == SIM_FAULT) {
        sim_faults_event(self, event);
    }
    turn_coordinator(self);
}

static void
on_event(sim_cluster_t *self, sim_event_t *event)
{
    sim_worker_t *worker = worker_of_node(self, event->node);
    sim_shard_t *shard = shard_of_node(self, event->node);
    if (worker) {
        on_worker_event(self, worker, event);
    } else if (shard) {
        if (shard->left) {
            cadre_outbox_entry_fini(&event->entry);
            return;
        }
        if (event->kind == SIM_MESSAGE) {
            on_message(self, event);
        } else {
            sim_shard_event(shard, event);
        }
        sim_shard_turn(shard);
        route(self, shard->node, cadre_ps_core_outbox(shard->core));
        route(self, shard->node, &shard->answers);
    } else {
        on_coordinator_event(self, event);
    }
}

/* --- a run --- */

static void
make_tasks(sim_cluster_t *self)
{
    static const uint64_t leases[] = {3000, 10000};
    uint32_t store_fails = draw(self, 0, 2) ? 0 : 1000;
    self->lease_ms = leases[draw(self, 0, 1)];
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

static void
check_progress(sim_cluster_t *self)
{
    uint64_t now_ms = self->network.now_ms;
    const sim_script_t *script = &self->script;
    uint64_t since_ms = script->done_ms > self->calm_ms ? script->done_ms : self->calm_ms;
    if (self->calm && now_ms > since_ms + SIM_SETTLE_MS) {
        const cadre_closure_queue_t *queue = &self->coordinator.core.queue;
        sim_check_fail(&self->check,
                       "I6: stuck since %" PRIu64 " ms, waiting for %s; %zu queued, %zu in flight, "
                       "%zu + %zu tagged, checkpoint state %d",
                       script->done_ms, sim_operation_text(script->operation), queue->common.count,
                       queue->in_flight, queue->tagged.count, queue->tagged_in_flight,
                       self->coordinator.core.checkpoint.state);
    }
    if (self->network.events > SIM_EVENTS_MAX) {
        sim_check_fail(&self->check, "I6: no end after %d events, waiting for %s", SIM_EVENTS_MAX,
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
        self->rest_ms = self->network.now_ms + SIM_SETTLE_MS;
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
    on_event(self, &event);
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
    uint64_t deadline_ms = self->network.now_ms + SIM_STOP_MS;
    cadre_core_stop(&self->coordinator.core, "the script is over");
    turn_coordinator(self);
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
sim_cluster_run(uint64_t seed, bool verbose)
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
    make_tasks(self);
    make_places(self);
    make_script(self);
    sim_faults_init(self);
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
