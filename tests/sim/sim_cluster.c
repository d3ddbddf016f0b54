#include "tests/sim/sim_cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/assert.h"
#include "common/codec.h"
#include "common/memory.h"
#include "common/status.h"
#include "tests/sim/sim_faults.h"

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

void
sim_cluster_turn_coordinator(sim_cluster_t *self)
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
    sim_cluster_turn_coordinator(self);
}

void
sim_cluster_event(sim_cluster_t *self, sim_event_t *event)
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
