#include "tests/sim/sim_cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "tests/sim/sim_faults.h"

/* --- nodes --- */

sim_worker_t *
sim_cluster_worker_of(sim_cluster_t *self, uint32_t node)
{
    bool is_worker = node != SIM_COORDINATOR_NODE && self->nodes[node].role == CADRE_ROLE_WORKER;
    return is_worker ? &self->workers[self->nodes[node].task] : NULL;
}

sim_shard_t *
sim_cluster_shard_of(sim_cluster_t *self, uint32_t node)
{
    bool is_shard = node != SIM_COORDINATOR_NODE && self->nodes[node].role == CADRE_ROLE_PS;
    return is_shard ? &self->shards[self->nodes[node].task] : NULL;
}

sim_client_t *
sim_cluster_client_of(sim_cluster_t *self, uint32_t node)
{
    bool is_client = node != SIM_COORDINATOR_NODE && self->nodes[node].role == CADRE_ROLE_CLIENT;
    return is_client ? &self->clients[self->nodes[node].task] : NULL;
}

static cadre_task_t
task_of_node(sim_cluster_t *self, uint32_t node)
{
    const sim_worker_t *worker = sim_cluster_worker_of(self, node);
    const sim_shard_t *shard = sim_cluster_shard_of(self, node);
    bool is_deposed = self->deposed && node == self->deposed_node;
    const sim_client_t *client = sim_cluster_client_of(self, node);
    if (client) {
        return client->task;
    }
    const sim_coordinator_t *coordinator = is_deposed ? self->deposed : self->coordinator;
    return worker ? worker->task : shard ? shard->task : coordinator->task;
}

uint32_t
sim_cluster_node_of(sim_cluster_t *self, const cadre_task_t *task)
{
    if (task->role == CADRE_ROLE_COORDINATOR) {
        bool is_deposed = self->deposed && task->incarnation == self->deposed->task.incarnation;
        return is_deposed ? self->deposed_node : SIM_COORDINATOR_NODE;
    }
    uintptr_t found = (uintptr_t)cadre_u64_map_get(&self->by_incarnation, task->incarnation);
    if (!found) {
        sim_check_fail(&self->check, "a message to nobody: role %d index %u", task->role,
                       task->index);
    }
    return (uint32_t)(found - 1);
}

/* --- messages --- */

/* The ids of closures that are handed out become known. */
static void
note_closure(sim_cluster_t *self, const cadre_outbox_entry_t *entry)
{
    cadre_message_t message = {0};
    cadre_chunk_t **chunks = cadre_calloc(entry->chunk_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < entry->chunk_count; i++) {
        chunks[i] = cadre_chunk_ref(entry->chunks[i]);
    }
    if (cadre_message_decode(cadre_chunk_data(entry->header), cadre_chunk_size_bytes(entry->header),
                             chunks, entry->chunk_count, &message) < 0) {
        sim_check_fail(&self->check, "a closure as it is sent: %s", cadre_error_text());
    }
    sim_check_begun(&self->check, message.epoch, &message.closure);
    cadre_message_fini(&message);
    free(chunks);
}

/* The coordinator's shell finds its connection to a ps by the index of the shard. */
static void
check_link(sim_cluster_t *self, uint32_t from, const cadre_outbox_entry_t *entry)
{
    const cadre_membership_t *membership = &self->coordinator->core.membership;
    const cadre_task_t *to = &entry->destination;
    if (from != SIM_COORDINATOR_NODE || entry->plane != CADRE_PLANE_DATA) {
        return;
    }
    const cadre_member_t *ps = to->index < membership->ps_count ? membership->ps[to->index] : NULL;
    if (!ps || ps->task.incarnation != to->incarnation) {
        sim_check_fail(&self->check, "%s goes out for shard %u, which its receiver does not serve",
                       cadre_message_type_text(entry->type), to->index);
    }
}

/* The node that a message goes to. A task has one control connection, and whoever begins it anew
 * with HELLO finds the newest coordinator. */
static uint32_t
destination_of(sim_cluster_t *self, uint32_t from, const cadre_outbox_entry_t *entry)
{
    uint32_t to = sim_cluster_node_of(self, &entry->destination);
    bool is_control = entry->plane == CADRE_PLANE_CONTROL;
    if (is_control && entry->destination.role == CADRE_ROLE_COORDINATOR) {
        self->with_deposed[from] = self->with_deposed[from] && entry->type != CADRE_MESSAGE_HELLO;
        to = self->deposed && self->with_deposed[from] ? self->deposed_node : SIM_COORDINATOR_NODE;
    }
    return to;
}

/* Whether a control message has no connection to go on: that one leads to another coordinator. */
static bool
is_stray(const sim_cluster_t *self, uint32_t from, uint32_t to, const cadre_outbox_entry_t *entry)
{
    bool from_deposed = self->deposed && from == self->deposed_node;
    return entry->plane == CADRE_PLANE_CONTROL && (from_deposed || from == SIM_COORDINATOR_NODE) &&
           from_deposed != (self->deposed && self->with_deposed[to]);
}

static void
route(sim_cluster_t *self, uint32_t from, cadre_outbox_t *outbox)
{
    cadre_outbox_entry_t entry;
    cadre_task_t sender = task_of_node(self, from);
    const sim_shard_t *shard = sim_cluster_shard_of(self, from);
    while (cadre_outbox_pop(outbox, &entry)) {
        if (shard && entry.plane == CADRE_PLANE_DATA) {
            sender.index = shard->index; /* known by the connection that was made to it */
        } else if (shard) {
            sender.index = shard->task.index;
        }
        if (entry.type == CADRE_MESSAGE_CLOSURE) {
            note_closure(self, &entry);
        }
        check_link(self, from, &entry);
        uint32_t to = destination_of(self, from, &entry);
        if (is_stray(self, from, to, &entry)) {
            cadre_outbox_entry_fini(&entry);
        } else {
            sim_network_send(&self->network, &sender, from, to, &entry);
        }
    }
}

/* The message of an event, which it leaves empty. */
static void
decode(sim_cluster_t *self, sim_event_t *event, cadre_message_t *message)
{
    cadre_outbox_entry_t *entry = &event->entry;
    cadre_role_t sender = event->sender.role;
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
    const cadre_core_t *core = &self->coordinator->core;
    if (!self->coordinator->alive || message->epoch != core->options.epoch) {
        return;
    }
    const cadre_member_t *member =
        cadre_membership_find(&core->membership, worker->task.incarnation);
    const cadre_closure_t *closure = cadre_u64_map_get(&core->begun.closures, message->closure.id);
    if (closure && member && closure->worker == member && closure->tag != CADRE_TAG_NONE &&
        closure->tag != member->index) {
        sim_check_fail(&self->check, "closure %" PRIu64 " for worker %u is on worker %u",
                       closure->id, closure->tag, member->index);
    }
}

/* The node a message has come to: with the same addresses, what was on its way to a ps that died
 * finds the one in its place. */
static uint32_t
receiver_of(sim_cluster_t *self, const sim_event_t *event)
{
    const sim_shard_t *shard = sim_cluster_shard_of(self, event->node);
    if (!shard || shard->core || event->entry.plane != CADRE_PLANE_DATA || !self->same_addresses) {
        return event->node;
    }
    const sim_shard_t *next = sim_cluster_shard_at(self, &self->places[shard->place]);
    return next ? next->node : event->node;
}

/* A message for the coordinator; takes it. */
static void
receive(sim_cluster_t *self, const cadre_task_t *sender, cadre_message_t *message)
{
    const uint64_t request = message->request;
    const sim_call_t *call =
        message->type == CADRE_MESSAGE_SCHEDULE ? sim_client_call_of(self, message) : NULL;
    if (message->type == CADRE_MESSAGE_READ &&
        message->read.variable == self->check.read.variable + 1U) {
        self->check.read.is_beside = true;
    }
    cadre_core_receive(&self->coordinator->core, sender, message, self->network.now_ms);
    if (call) {
        sim_client_scheduled(self, sender, request, call);
    }
    sim_coordinator_take_ended(self->coordinator);
}

static void
on_message(sim_cluster_t *self, sim_event_t *event)
{
    cadre_plane_t plane = event->entry.plane;
    cadre_message_t message = {0};
    decode(self, event, &message);
    cadre_outbox_entry_fini(&event->entry);
    copy_chunks(&message);
    sim_worker_t *worker = sim_cluster_worker_of(self, event->node);
    sim_shard_t *shard = sim_cluster_shard_of(self, event->node);
    if (worker) {
        if (message.type == CADRE_MESSAGE_CLOSURE) {
            check_tag(self, worker, &message);
        }
        sim_worker_receive(worker, &event->sender, &message);
    } else if (shard) {
        sim_shard_receive(shard, plane, &event->sender, &message);
    } else {
        receive(self, &event->sender, &message);
    }
}

/* --- events --- */

static void
turn_worker(sim_cluster_t *self, sim_worker_t *worker)
{
    sim_worker_turn(worker);
    route(self, worker->node, cadre_worker_core_outbox(worker->core));
    if (worker->left) {
        sim_cluster_left(self, worker->node);
    }
}

static void
turn_shard(sim_cluster_t *self, sim_shard_t *shard)
{
    sim_shard_turn(shard);
    route(self, shard->node, cadre_ps_core_outbox(shard->core));
    route(self, shard->node, &shard->answers);
    if (shard->left) {
        sim_cluster_left(self, shard->node);
    }
}

void
sim_cluster_turn_coordinator(sim_cluster_t *self)
{
    if (!self->coordinator->alive || self->coordinator->paused_ms > self->network.now_ms) {
        return;
    }
    sim_coordinator_take_events(self->coordinator);
    if (!self->stopping) {
        sim_script_go(&self->script);
    }
    if (self->script.gives_up) {
        sim_faults_say(self, "the program failed", SIM_COORDINATOR_NODE, 0);
        sim_cluster_kill_coordinator(self);
        sim_faults_restart_coordinator_later(self);
        return;
    }
    sim_coordinator_turn(self->coordinator);
    if (self->coordinator->is_at_end) {
        sim_faults_say(self, "no checkpoint can be read", SIM_COORDINATOR_NODE, 0);
        self->check.hopeless++;
        sim_cluster_kill_coordinator(self);
        sim_faults_restart_coordinator_later(self);
        return;
    }
    route(self, SIM_COORDINATOR_NODE, &self->coordinator->core.effects.outbox);
    sim_faults_look(self);
}

static void
on_worker_event(sim_cluster_t *self, sim_worker_t *worker, sim_event_t *event)
{
    if (event->kind == SIM_MESSAGE) {
        on_message(self, event);
    } else {
        sim_worker_event(worker, event);
    }
    turn_worker(self, worker);
}

static void
on_shard_event(sim_cluster_t *self, sim_shard_t *shard, sim_event_t *event)
{
    if (event->kind == SIM_MESSAGE) {
        on_message(self, event);
    } else {
        sim_shard_event(shard, event);
    }
    turn_shard(self, shard);
}

static void
on_coordinator_event(sim_cluster_t *self, sim_event_t *event)
{
    if (event->kind == SIM_MESSAGE) {
        on_message(self, event);
    } else if (event->kind == SIM_GONE) {
        cadre_task_t task = task_of_node(self, event->from);
        cadre_core_gone(&self->coordinator->core, &task, self->network.now_ms);
        sim_coordinator_take_ended(self->coordinator);
    } else if (event->kind == SIM_STORED) {
        sim_coordinator_stored(self->coordinator, event);
    } else if (event->kind == SIM_ANSWERED) {
        sim_coordinator_answered(self->coordinator, event);
    }
    sim_cluster_turn_coordinator(self);
}

/* A heartbeat of this session has come to the coordinator, which may read it later. */
static void
note_heard(sim_cluster_t *self, const sim_event_t *event)
{
    bool is_heartbeat = event->node == SIM_COORDINATOR_NODE &&
                        event->entry.type == CADRE_MESSAGE_HEARTBEAT && !event->has_come;
    if (is_heartbeat && sim_header_of(&event->entry).epoch == self->coordinator->options.epoch) {
        self->coordinator->heard_ms[event->from] = self->network.now_ms;
    }
}

/* The one that another has taken the place of. */
static void
on_deposed_event(sim_cluster_t *self, sim_event_t *event)
{
    sim_coordinator_t *deposed = self->deposed;
    if (!deposed) {
        cadre_outbox_entry_fini(&event->entry);
        return;
    }
    if (deposed->paused_ms > self->network.now_ms) {
        sim_network_postpone(&self->network, event, deposed->paused_ms);
        return;
    }
    if (event->kind == SIM_MESSAGE) {
        cadre_message_t message = {0};
        decode(self, event, &message);
        cadre_outbox_entry_fini(&event->entry);
        cadre_core_receive(&deposed->core, &event->sender, &message, self->network.now_ms);
        sim_coordinator_take_ended(deposed);
    }
    sim_coordinator_take_events(deposed);
    sim_coordinator_turn(deposed);
    route(self, self->deposed_node, &deposed->core.effects.outbox);
}

static void
on_client_event(sim_cluster_t *self, sim_client_t *client, sim_event_t *event)
{
    if (!client->alive) {
        cadre_outbox_entry_fini(&event->entry);
        return;
    }
    if (client->paused_ms > self->network.now_ms) {
        sim_network_postpone(&self->network, event, client->paused_ms);
        return;
    }
    if (event->kind == SIM_MESSAGE) {
        cadre_message_t message = {0};
        decode(self, event, &message);
        cadre_outbox_entry_fini(&event->entry);
        sim_client_receive(client, &message);
    }
    sim_client_turn(client);
    route(self, client->node, &client->outbox);
    if (!client->alive) {
        sim_client_stop(client);
    }
}

/* A ROUTER that sends to a peer whose connection is closed says so. */
static void
tell_unreachable(sim_cluster_t *self, const sim_event_t *event)
{
    const sim_shard_t *shard = sim_cluster_shard_of(self, event->from);
    if (event->kind == SIM_MESSAGE && event->entry.type == CADRE_MESSAGE_GRANT && shard &&
        shard->core) {
        cadre_shard_unreachable(shard->shard, &event->entry.destination);
    }
}

void
sim_cluster_event(sim_cluster_t *self, sim_event_t *event)
{
    if (event->node != SIM_COORDINATOR_NODE &&
        self->nodes[event->node].role == CADRE_ROLE_COORDINATOR) {
        on_deposed_event(self, event);
        return;
    }
    if (event->kind == SIM_CLIENT) {
        sim_cluster_start_client(self);
        return;
    }
    if (sim_cluster_client_of(self, event->node)) {
        on_client_event(self, sim_cluster_client_of(self, event->node), event);
        return;
    }
    if (event->kind == SIM_FAULT) {
        sim_faults_event(self, event);
        sim_cluster_turn_coordinator(self);
        return;
    }
    if (event->kind == SIM_MESSAGE) {
        event->node = receiver_of(self, event);
        note_heard(self, event);
    }
    sim_worker_t *worker = sim_cluster_worker_of(self, event->node);
    sim_shard_t *shard = sim_cluster_shard_of(self, event->node);
    bool alive = worker  ? worker->core != NULL
                 : shard ? shard->core != NULL
                         : self->coordinator->alive;
    uint64_t paused_ms = worker  ? worker->paused_ms
                         : shard ? shard->paused_ms
                                 : self->coordinator->paused_ms;
    if (!alive) {
        tell_unreachable(self, event);
        cadre_outbox_entry_fini(&event->entry);
    } else if (paused_ms > self->network.now_ms) {
        sim_network_postpone(&self->network, event, paused_ms);
    } else if (worker) {
        on_worker_event(self, worker, event);
    } else if (shard) {
        on_shard_event(self, shard, event);
    } else {
        on_coordinator_event(self, event);
    }
}
