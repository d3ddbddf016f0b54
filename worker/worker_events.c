#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/log.h"
#include "worker/slot/slot_link.h"
#include "worker/worker_shell.h"

enum { SPARE_LOADS_MAX = 64 };

/* --- batches and datasets --- */

static void
spare_load(cadre_worker_actor_t *self, cadre_load_t *load)
{
    if (self->spare_load_count == SPARE_LOADS_MAX) {
        cadre_load_destroy(&load);
        return;
    }
    load->next = self->spare_loads;
    self->spare_loads = load;
    self->spare_load_count++;
}

static void
forget_load(cadre_worker_actor_t *self, cadre_load_t *load)
{
    if (load && load->back) {
        spare_load(self, load);
    } else if (load) {
        load->forgotten = true;
    }
}

static void
forget_loads(cadre_worker_actor_t *self)
{
    cadre_load_t *load = NULL;
    for (size_t cursor = 0; (load = cadre_u64_map_next(&self->loads, &cursor));) {
        forget_load(self, load);
    }
    cadre_u64_map_fini(&self->loads);
}

void
cadre_worker_free_loads(cadre_worker_actor_t *self)
{
    forget_loads(self);
    while (self->spare_loads) {
        cadre_load_t *load = self->spare_loads;
        self->spare_loads = load->next;
        cadre_load_destroy(&load);
    }
}

static void
begin_load(cadre_worker_actor_t *self, const cadre_run_t *run)
{
    cadre_load_t *load = self->spare_loads;
    if (load) {
        self->spare_loads = load->next;
        self->spare_load_count--;
    } else {
        load = cadre_load_new();
    }
    cadre_load_begin(load, &run->message.closure);
    forget_load(self, cadre_u64_map_put(&self->loads, load->closure, load));
    self->reads_out++;
    cadre_pipe_send(self->options.reader, CADRE_READER_LOAD, load);
}

static void
open_dataset(cadre_worker_actor_t *self, uint32_t dataset)
{
    const cadre_dataset_entry_t *entry =
        cadre_directory_dataset(cadre_worker_core_directory(self->core), dataset);
    cadre_open_request_t *request = cadre_calloc(1, sizeof(*request));
    request->dataset = dataset;
    request->session = self->session;
    request->description = cadre_strdup(entry->description);
    self->reads_out++;
    cadre_pipe_send(self->options.reader, CADRE_READER_OPEN, request);
}

void
cadre_worker_from_reader(cadre_worker_actor_t *self, const cadre_pipe_message_t *message)
{
    self->reads_out--;
    if (message->kind == CADRE_READER_OPEN) {
        cadre_open_request_t *request = message->pointer;
        if (request->session == self->session) {
            cadre_worker_core_dataset_opened(self->core, request->dataset, &request->ready,
                                             self->now_ms);
        }
        cadre_open_request_destroy(&request);
        return;
    }
    cadre_load_t *load = message->pointer;
    if (load->forgotten) {
        spare_load(self, load);
    } else {
        load->back = true;
        cadre_worker_core_loaded(self->core, load->closure, load->status, load->text, self->now_ms);
    }
}

/* --- slots --- */

static void
start(cadre_worker_actor_t *self, cadre_run_t *run)
{
    cadre_work_t *work = cadre_work_new(run);
    run->work = work;
    work->load = cadre_u64_map_get(&self->loads, cadre_run_id(run));
    work->worker_index = cadre_worker_core_task(self->core)->index;
    *self->started_last_p = work;
    self->started_last_p = &work->next;
    self->works_out++;
}

void
cadre_worker_begin_drain(cadre_worker_actor_t *self, const char *reason)
{
    if (!self->draining) {
        self->draining = reason;
        self->drain_due_ms = self->now_ms + self->options.drain_ms;
        cadre_worker_core_drain(self->core, reason, self->now_ms);
    }
}

/* Nothing computes in this process any more. What runs fails like the closure before it and goes to
 * other workers; whoever started this one starts a new one. */
static void
lose_device(cadre_worker_actor_t *self, const char *text)
{
    if (!self->device_lost) {
        self->device_lost = true;
        cadre_pipe_send(self->main, CADRE_WORKER_DEVICE_LOST, cadre_strdup(text));
        cadre_worker_begin_drain(self, "its device is lost");
    }
}

static void
end_work(cadre_worker_actor_t *self, cadre_work_t *work)
{
    cadre_run_outcome_t outcome = {.status = work->status,
                                   .text = work->text ? work->text : "",
                                   .failure = work->failure,
                                   .names = (const char *const *)work->names,
                                   .results = work->names ? &work->results : NULL,
                                   .compute_us = work->compute_us,
                                   .examples = work->examples,
                                   .holding = work->holding};
    work->holding = NULL;
    self->works_out--;
    cadre_worker_core_finish(self->core, work->run, &outcome, self->now_ms);
    if (work->status == CADRE_EDEVICE && work->failure == CADRE_FAILURE_DEVICE) {
        lose_device(self, outcome.text);
    }
    cadre_work_destroy(&work);
}

void
cadre_worker_clear_queue(cadre_worker_actor_t *self)
{
    cadre_worker_settle(self); /* what was started in this turn is in the queue, too */
    cadre_work_t *work = cadre_work_queue_clear(self->options.queue);
    while (work) {
        cadre_work_t *next = work->next;
        cadre_work_end(work, CADRE_ECANCELLED, CADRE_FAILURE_RETURNED, "handed back");
        end_work(self, work);
        work = next;
    }
}

static void
resolve(cadre_worker_actor_t *self, cadre_slot_request_t *request, void *pipe)
{
    bool was_dropped = false;
    const cadre_closure_message_t *closure = &request->work->run->message.closure;
    request->variable = cadre_directory_variable_by_name(
        cadre_worker_core_directory(self->core), request->name, closure->drops, &was_dropped);
    if (!request->variable) {
        request->status = CADRE_ENOTFOUND;
        request->failure = CADRE_FAILURE_USER;
        snprintf(request->text, sizeof(request->text), "there is no variable %s%s", request->name,
                 was_dropped ? " any more: it was dropped before this was scheduled" : "");
    }
    cadre_pipe_send(pipe, CADRE_SLOT_ANSWERED, request);
}

/* A question waits in its work until the core's event answers it. */
void
cadre_worker_from_slot(cadre_worker_actor_t *self, uint32_t slot,
                       const cadre_pipe_message_t *message)
{
    if (message->kind == CADRE_SLOT_ENDED) {
        end_work(self, message->pointer);
        return;
    }
    cadre_slot_request_t *request = message->pointer;
    cadre_run_t *run = request->work->run;
    request->work->slot = slot;
    request->work->request = request;
    switch (request->question) {
    case CADRE_SLOT_RESOLVE:
        resolve(self, request, self->options.slots[slot]);
        break;
    case CADRE_SLOT_PULL:
        cadre_worker_core_pull(self->core, run, request->variables, request->count, self->now_ms);
        break;
    case CADRE_SLOT_PUSH:
        cadre_worker_core_push(self->core, run, request->gradients, request->count, self->now_ms);
        break;
    }
}

static void
answer(cadre_worker_actor_t *self, cadre_worker_event_t *event)
{
    const cadre_work_t *work = event->run->work;
    cadre_slot_request_t *request = work->request;
    request->status = event->status;
    request->failure = event->run->failure;
    memcpy(request->text, event->text, sizeof(request->text));
    request->values = event->values;
    request->value_count = event->value_count;
    request->received_bytes = request->question == CADRE_SLOT_PULL ? event->run->received_bytes : 0;
    cadre_pipe_send(self->options.slots[work->slot], CADRE_SLOT_ANSWERED, request);
}

/* --- shards and sessions --- */

/* A ROUTER that still holds a connection of the same name ignores a new one for good. So each
 * connection to a shard has a name of its own: in the place of the index, which means nothing to a
 * shard, stands its number. */
static int
open_shard(cadre_worker_actor_t *self, const cadre_shard_entry_t *entry, cadre_socket_t **socket)
{
    char routing_id[CADRE_TASK_TEXT_SIZE];
    cadre_task_t name = *cadre_worker_core_task(self->core);
    name.index = ++self->connections;
    cadre_task_text(&name, routing_id);
    cadre_endpoint_t endpoint;
    int status = cadre_endpoint_parse(entry->address, &endpoint);
    if (status == 0) {
        status = cadre_socket_open_dealer(self->context, CADRE_PLANE_DATA, routing_id, socket);
    }
    return status < 0 ? status : cadre_socket_connect(*socket, &endpoint);
}

static void
connect_shard(cadre_worker_actor_t *self, uint32_t index, bool mute)
{
    const cadre_shard_entry_t *entry = &cadre_worker_core_directory(self->core)->shards[index];
    cadre_peer_t *peer = &self->shards[index];
    if (entry->away) {
        /* Else libzmq would dial whatever comes to the same address, again and again. */
        cadre_peer_close(peer, 0);
        cadre_log(CADRE_LOG_WARN, "shard_away", "shard=%u next=\"its closures wait for it\"",
                  index);
        return;
    }
    if (mute) {
        cadre_log(CADRE_LOG_WARN, "shard_mute", "shard=%u silent_ms=%d next=\"another connection\"",
                  index, CADRE_MUTE_MS);
    } else if (peer->socket && cadre_task_equal(&peer->task, &entry->task) &&
               strcmp(peer->address, entry->address) == 0) {
        return; /* another generation of the same process */
    }
    cadre_peer_close(peer, 0);
    cadre_socket_t *socket = NULL;
    if (open_shard(self, entry, &socket) < 0) {
        cadre_socket_close(&socket, 0);
        cadre_log(CADRE_LOG_ERROR, "shard_not_dialled", "shard=%u address=%s reason=\"%s\"", index,
                  entry->address, cadre_error_text());
        return;
    }
    cadre_peer_init(peer, socket, &entry->task, entry->address);
    cadre_log(CADRE_LOG_DEBUG, "shard", "shard=%u address=%s generation=%" PRIu64, index,
              entry->address, entry->generation);
}

/* Another session: other shards, other datasets. */
static void
reset(cadre_worker_actor_t *self)
{
    uint32_t count = cadre_worker_core_directory(self->core)->shard_count;
    for (uint32_t i = count; i < self->shard_count; i++) {
        cadre_peer_close(&self->shards[i], 0);
    }
    self->shards = cadre_realloc(self->shards, count, sizeof(*self->shards));
    for (uint32_t i = self->shard_count; i < count; i++) {
        self->shards[i] = (cadre_peer_t){0};
    }
    self->shard_count = count;
    forget_loads(self);
    self->session++;
    cadre_pipe_send(self->options.reader, CADRE_READER_RESET, NULL);
    uint32_t index = cadre_worker_core_task(self->core)->index;
    cadre_log_set_index(index);
    cadre_log(CADRE_LOG_INFO, "joined", "worker=%u shards=%u", index, count);
}

void
cadre_worker_leave(cadre_worker_actor_t *self, const char *reason)
{
    self->left = true;
    bool dismissed = cadre_worker_core_is_dismissed(self->core);
    cadre_pipe_send(self->main, dismissed ? CADRE_WORKER_DISMISSED : CADRE_WORKER_HAS_LEFT,
                    cadre_strdup(reason));
}

/* --- what the core wants done --- */

static void
obey_one(cadre_worker_actor_t *self, cadre_worker_event_t *event)
{
    switch (event->kind) {
    case CADRE_WORKER_SHARD_MOVED:
        connect_shard(self, event->index, event->status == CADRE_ETIMEOUT);
        break;
    case CADRE_WORKER_UNREACHABLE:
        cadre_log(event->status < 0 ? CADRE_LOG_WARN : CADRE_LOG_INFO,
                  event->status < 0 ? "shard_unreachable" : "shard_reachable",
                  "shard=%u why=\"%s\" next=\"%s\"", event->index, event->text,
                  event->status < 0 ? "closures that need it go to other workers" : "goes on");
        break;
    case CADRE_WORKER_OPEN_DATASET:
        open_dataset(self, event->index);
        break;
    case CADRE_WORKER_LOAD:
        begin_load(self, event->run);
        break;
    case CADRE_WORKER_START:
        start(self, event->run);
        break;
    case CADRE_WORKER_VALUES:
    case CADRE_WORKER_PUSHED:
        answer(self, event);
        break;
    case CADRE_WORKER_FORGET:
        forget_load(self, cadre_u64_map_take(&self->loads, event->closure));
        break;
    case CADRE_WORKER_LACKS:
        cadre_log(CADRE_LOG_WARN, "function_lacking",
                  "function=%s reason=\"no native function of that name is here (--native FILE)\" "
                  "next=\"closures of it run on other workers\"",
                  event->text);
        break;
    case CADRE_WORKER_RELEASE:
        if (cadre_pipe_send(self->options.reader, CADRE_READER_RELEASE, event->holding) < 0) {
            cadre_holding_destroy(&event->holding);
        }
        break;
    case CADRE_WORKER_RESET:
        reset(self);
        break;
    case CADRE_WORKER_MUTE:
        cadre_worker_dial_again(self);
        break;
    case CADRE_WORKER_REFUSED:
        self->left = true;
        cadre_pipe_send(self->main,
                        event->status == CADRE_EPROTOCOL ? CADRE_WORKER_MISMATCH
                                                         : CADRE_WORKER_UNWANTED,
                        cadre_strdup(event->text));
        break;
    case CADRE_WORKER_LEFT:
        cadre_worker_leave(self, event->text);
        break;
    }
}

void
cadre_worker_obey(cadre_worker_actor_t *self)
{
    cadre_worker_event_t event;
    while (cadre_worker_core_event(self->core, &event)) {
        obey_one(self, &event);
    }
}

/* The connection an entry goes out on; NULL when that is not there: what matters is said again. */
static cadre_peer_t *
peer_for(cadre_worker_actor_t *self, const cadre_task_t *destination)
{
    if (destination->role != CADRE_ROLE_PS) {
        return self->connected ? &self->control : NULL; /* HELLO comes first on a new connection */
    }
    if (destination->index >= self->shard_count) {
        return NULL;
    }
    cadre_peer_t *peer = &self->shards[destination->index];
    return cadre_task_equal(&peer->task, destination) ? peer : NULL;
}

void
cadre_worker_settle(cadre_worker_actor_t *self)
{
    cadre_worker_obey(self);
    cadre_work_queue_put(self->options.queue, self->started);
    self->started = NULL;
    self->started_last_p = &self->started;
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(cadre_worker_core_outbox(self->core), &entry)) {
        cadre_peer_t *peer = peer_for(self, &entry.destination);
        if (peer) {
            cadre_peer_send(peer, &entry);
        } else {
            cadre_outbox_entry_fini(&entry);
        }
    }
}
