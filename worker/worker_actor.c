#include "worker/worker_actor.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/uninitialized.h"
#include "common/net/actor.h"
#include "common/net/control_link.h"
#include "common/net/security.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/system/poll.h"
#include "worker/drain.h"
#include "worker/open_works.h"
#include "worker/reader_link.h"
#include "worker/shard_peers.h"
#include "worker/slot/slot_link.h"
#include "worker/worker_page.h"

enum {
    /* Messages that are taken from one socket in one turn, before the other sockets are read. */
    TURN_CONTROL_MAX = 256,
    TURN_DATA_MAX = 64, /* from each shard */
    TURN_PIPE_MAX = 256,

    /* How long this thread leaves unread what comes, while slots in this process have works to
     * take: the smallest closures take about 20. */
    REST_US = 1000,
    REST_WORKS = 8, /* with fewer it does not rest: slots have these until more have come */

    /* Positions in the list of sockets that is polled; the slots' follow, then the shards'. */
    ITEM_MAIN = 0,
    ITEM_CONTROL,
    ITEM_MONITOR,
    ITEM_READER,
    ITEM_WOKEN,
    ITEM_SLOTS,
};

struct cadre_worker_actor {
    cadre_actor_t *actor;
    cadre_context_t *context;
    cadre_worker_actor_options_t options;
    void *main; /* pipe */
    cadre_worker_core_t *core;
    cadre_control_link_t *link;
    cadre_shard_peers_t shards;
    cadre_reader_link_t reader;
    cadre_frames_t frames;
    zmq_pollitem_t *items; /* what is polled */

    uint64_t now_ms;
    uint64_t ticked_ms;
    uint64_t due_ms;      /* when the core is to be ticked; earlier if `stirred` */
    uint64_t link_due_ms; /* when the control link is to be ticked */
    bool stirred;         /* a message has come since the last tick of the core */
    uint64_t keys_due_ms; /* when to look at the allowed keys again */
    bool untouched;       /* contact with the coordinator is lost, and the log says so */
    cadre_drain_t drain;
    bool left;        /* the session is over, and main was told */
    bool device_lost; /* the device computes no more, and main was told */
    cadre_worker_page_t page;

    cadre_open_works_t works; /* in slots + ahead places */

    /* Where a ps is in this process (options.shortcut): slots use the core too, one at a time. */
    bool is_called;          /* a slot has called, and uses no socket */
    void *wake;              /* pipe to this thread, for slots that have called */
    void *woken;             /* the other end */
    bool is_woken;           /* something is in that pipe */
    bool had_input;          /* the last wait ended because something had come */
    cadre_look_t look;       /* before this thread sleeps */
    cadre_queue_t events;    /* cadre_worker_event_t that a slot has left to this thread */
    cadre_outbox_t messages; /* messages that a slot has left to this thread */
    cadre_outbox_t answers;  /* of that ps; empty between calls */
};

/* --- slots in this process --- */

/* Wakes the network thread, for what a slot that has called must leave to it. */
static void
wake(cadre_worker_actor_t *self)
{
    if (!self->is_woken) {
        self->is_woken = true;
        cadre_pipe_send(self->wake, CADRE_PIPE_STOP, NULL);
        cadre_work_queue_disturb(self->options.queue);
    }
}

/* Returns whether a slot that has called leaves this event to the network thread: whatever is no
 * answer to a slot needs a socket. */
static bool
is_left(const cadre_worker_actor_t *self, const cadre_worker_event_t *event)
{
    return self->is_called && event->kind != CADRE_WORKER_VALUES &&
           event->kind != CADRE_WORKER_PUSHED;
}

/* Takes the next event: of those that slots have left to the network thread first. */
static bool
next_event(cadre_worker_actor_t *self, cadre_worker_event_t *event)
{
    if (!self->is_called && cadre_queue_pop(&self->events, event)) {
        return true;
    }
    return cadre_worker_core_event(self->core, event);
}

/* --- slots --- */

static void ask(void *asker, cadre_slot_request_t *request);

/* Makes the work (what a slot does for a run) of the event START, with the closure's batches; it
 * goes into the queue at the end of the turn. */
static void
start(cadre_worker_actor_t *self, const cadre_worker_event_t *event)
{
    cadre_work_t *work = cadre_open_works_start(&self->works, event->run);
    work->load = cadre_reader_link_find(&self->reader, cadre_run_id(event->run));
    work->worker_index = cadre_worker_core_task(self->core)->index;
    work->ask = self->options.shortcut ? ask : NULL;
    work->asker = self;
}

/* Begins to drain: the core finishes or hands back its closures, then leaves. The reason is a
 * literal; if the worker drains already the first reason stays. */
static void
begin_drain(cadre_worker_actor_t *self, const char *reason)
{
    if (cadre_drain_begin(&self->drain, reason, self->now_ms + self->options.drain_ms)) {
        cadre_worker_core_drain(self->core, reason, self->now_ms);
    }
}

/* Drains because the device is lost: nothing computes in this process any more. Closures that still
 * run fail, and go to other workers; whatever started this process starts another. */
static void
lose_device(cadre_worker_actor_t *self, const char *text)
{
    if (!self->device_lost) {
        self->device_lost = true;
        cadre_pipe_send(self->main, CADRE_WORKER_ACTOR_DEVICE_LOST, cadre_strdup(text));
        begin_drain(self, "its device is lost");
    }
}

/* Ends a work that its slot has finished: the core gets the outcome, and the resource's holding if
 * it was a build. A failure of the device itself means that it is lost. */
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
    cadre_open_works_end(&self->works, work);
    cadre_worker_core_finish(self->core, work->run, &outcome, self->now_ms);
    if (work->status == CADRE_EDEVICE && work->failure == CADRE_FAILURE_DEVICE) {
        lose_device(self, outcome.text);
    }

    cadre_work_destroy(&work);
}

/* Gives a slot the answer to its request: over its pipe, or by a flag where it has called. */
static void
give(cadre_worker_actor_t *self, uint32_t slot, cadre_slot_request_t *request)
{
    if (self->options.shortcut) {
        request->is_answered = true;
        cadre_shortcut_answered(self->options.shortcut);
    } else {
        cadre_pipe_send(self->options.slots[slot], CADRE_SLOT_ANSWERED, request);
    }
}

/* Answers a slot's question for a variable by its name, as the closure means it: `drops` says which
 * variables had been dropped when it was scheduled. */
static void
resolve(cadre_worker_actor_t *self, uint32_t slot, cadre_slot_request_t *request)
{
    bool was_dropped = false;
    const cadre_closure_message_t *closure = &request->work->call->message.closure;

    request->variable = cadre_directory_variable_by_name(
        cadre_worker_core_directory(self->core), request->name, closure->drops, &was_dropped);
    if (!request->variable) {
        request->status = CADRE_ENOTFOUND;
        request->failure = CADRE_FAILURE_USER;
        snprintf(request->text, sizeof(request->text), "there is no variable %s%s", request->name,
                 was_dropped ? " any more: it was dropped before this was scheduled" : "");
    }

    give(self, slot, request);
}

/* Acts on a question of a slot. A pull or push stays in its work until an event of the core answers
 * it. */
static void
on_request(cadre_worker_actor_t *self, uint32_t slot, cadre_slot_request_t *request)
{
    cadre_run_t *run = request->work->run;

    request->work->slot = slot;
    request->work->request = request;
    switch (request->question) {
    case CADRE_SLOT_RESOLVE:
        resolve(self, slot, request);
        break;
    case CADRE_SLOT_PULL:
        cadre_worker_core_pull(self->core, run, request->wanted, request->count, self->now_ms);
        break;
    case CADRE_SLOT_PUSH:
        cadre_worker_core_push(self->core, run, request->gradients, request->count, self->now_ms);
        break;
    }
}

/* Acts on a message of a slot: a work that has ended, or a question. */
static void
from_slot(cadre_worker_actor_t *self, uint32_t slot, const cadre_pipe_message_t *message)
{
    if (message->kind == CADRE_SLOT_ENDED) {
        end_work(self, message->pointer);
    } else {
        on_request(self, slot, message->pointer);
    }
}

/* Answers a slot's pull or push, when the core has ended it. */
static void
answer(cadre_worker_actor_t *self, cadre_worker_event_t *event)
{
    const cadre_work_t *work = cadre_open_works_at(&self->works, event->index);
    cadre_slot_request_t *request = work->request;
    request->status = event->status;
    request->failure = event->run->failure;
    memcpy(request->text, event->text, sizeof(request->text));
    request->values = event->values;
    request->value_count = event->value_count;
    request->received_bytes = request->question == CADRE_SLOT_PULL ? event->run->received_bytes : 0;
    give(self, work->slot, request);
}

/* --- the core's events --- */

/* Drops the connections to shards and the datasets, because another session has begun. */
static void
reset(cadre_worker_actor_t *self)
{
    uint32_t index = cadre_worker_core_task(self->core)->index;
    cadre_shard_peers_resize(&self->shards, cadre_worker_core_directory(self->core)->shard_count);
    cadre_reader_link_reset(&self->reader);
    if (!self->options.hosted) {
        cadre_log_set_index(index);
    }
    cadre_log(CADRE_LOG_INFO, "joined", "worker=%u shards=%u", index, self->shards.count);
}

/* Tells main that the session is over, and why. */
static void
leave(cadre_worker_actor_t *self, uint32_t kind, const char *reason)
{
    self->left = true;
    cadre_pipe_send(self->main, kind, cadre_strdup(reason));
}

/* Logs that a shard cannot be reached from here, or is heard again. */
static void
on_unreachable(const cadre_worker_event_t *event)
{
    bool is_lost = event->status < 0;
    cadre_log(is_lost ? CADRE_LOG_WARN : CADRE_LOG_INFO,
              is_lost ? "shard_unreachable" : "shard_reachable", "shard=%u why=\"%s\" next=\"%s\"",
              event->index, event->text,
              is_lost ? "closures that need it go to other workers" : "goes on");
}

/* Has the batches of a run's closure read; the run goes on where they are there at once. */
static void
load(cadre_worker_actor_t *self, const cadre_run_t *run)
{
    const cadre_load_t *load = cadre_reader_link_load(&self->reader, run);
    if (load) {
        cadre_worker_core_loaded(self->core, load->closure, 0, "", self->now_ms);
    }
}

/* Carries out one event of the core. */
static void
obey_one(cadre_worker_actor_t *self, cadre_worker_event_t *event)
{
    const cadre_directory_t *directory = cadre_worker_core_directory(self->core);
    switch (event->kind) {
    case CADRE_WORKER_SHARD_MOVED:
        cadre_shard_peers_connect(&self->shards, cadre_worker_core_task(self->core), event->index,
                                  &directory->shards[event->index],
                                  event->status == CADRE_ETIMEOUT);
        break;
    case CADRE_WORKER_REACHABILITY:
        on_unreachable(event);
        break;
    case CADRE_WORKER_OPEN_DATASET:
        cadre_reader_link_open(&self->reader, cadre_directory_dataset(directory, event->index));
        break;
    case CADRE_WORKER_LOAD:
        load(self, event->run);
        break;
    case CADRE_WORKER_START:
        start(self, event);
        break;
    case CADRE_WORKER_VALUES:
    case CADRE_WORKER_PUSHED:
        answer(self, event);
        break;
    case CADRE_WORKER_FORGET:
        cadre_reader_link_forget(&self->reader, event->closure);
        break;
    case CADRE_WORKER_LACKS:
        cadre_log(CADRE_LOG_WARN, "function_missing",
                  "function=%s reason=\"no native function of that name is here (--native FILE)\" "
                  "next=\"closures of it run on other workers\"",
                  event->text);
        break;
    case CADRE_WORKER_RELEASE:
        cadre_reader_link_release(&self->reader, &event->holding);
        break;
    case CADRE_WORKER_RESET:
        reset(self);
        break;
    case CADRE_WORKER_REDIAL:
        if (cadre_control_link_redial(self->link, self->now_ms)) {
            cadre_worker_core_disconnected(self->core, self->now_ms);
        }
        break;
    case CADRE_WORKER_REFUSED:
        leave(self,
              event->status == CADRE_EPROTOCOL ? CADRE_WORKER_ACTOR_MISMATCH
                                               : CADRE_WORKER_ACTOR_UNWANTED,
              event->text);
        break;
    case CADRE_WORKER_LEFT:
        leave(self,
              cadre_worker_core_is_dismissed(self->core) ? CADRE_WORKER_ACTOR_DISMISSED
                                                         : CADRE_WORKER_ACTOR_HAS_LEFT,
              event->text);
        break;
    }
}

/* Carries out all events of the core. Called after every message that may end runs, because an
 * event may hold a pointer to a run. */
static void
obey(cadre_worker_actor_t *self)
{
    CADRE_UNINITIALIZED cadre_worker_event_t event;
    while (next_event(self, &event)) {
        if (is_left(self, &event)) {
            cadre_queue_push(&self->events, &event);
            wake(self);
        } else {
            obey_one(self, &event);
        }
    }
}

/* Gives a message to a ps in this process, and its answers to the core. Returns false, and the
 * message is still there, where it has to go through a socket. */
static bool
carry(cadre_worker_actor_t *self, cadre_outbox_entry_t *entry)
{
    const cadre_task_t shard = entry->destination;
    const cadre_task_t *name = cadre_shard_peers_name(&self->shards, &shard);
    if (!name || !cadre_shortcut_carry(self->options.shortcut, name, entry, &self->answers)) {
        return false;
    }

    cadre_outbox_entry_t answer;
    while (cadre_outbox_pop(&self->answers, &answer)) {
        CADRE_UNINITIALIZED cadre_message_t message;
        if (cadre_shard_peers_decode(&shard, answer.header, answer.chunks, answer.chunk_count,
                                     &message) < 0) {
            cadre_worker_core_malformed(self->core);
        } else {
            cadre_worker_core_receive(self->core, &shard, &message, self->now_ms);
            obey(self);
        }
        cadre_outbox_entry_fini(&answer);
    }
    return true;
}

/* Sends a message: to a ps in this process by a call, else through its socket. A slot that has
 * called leaves the latter to the network thread. */
static void
send_entry(cadre_worker_actor_t *self, cadre_outbox_entry_t *entry)
{
    bool is_to_ps = entry->destination.role == CADRE_ROLE_PS;
    if (is_to_ps && carry(self, entry)) {
        return;
    }

    if (self->is_called) {
        cadre_outbox_push(&self->messages, entry);
        wake(self);
    } else if (is_to_ps) {
        cadre_shard_peers_send(&self->shards, entry);
    } else {
        cadre_control_link_send(self->link, entry);
    }
}

/* Ends a turn: carries out all events of the core, hands started works to the slots, and messages
 * to where they go. */
static void
settle(cadre_worker_actor_t *self)
{
    obey(self);
    cadre_open_works_put(&self->works, self->options.queue);

    cadre_outbox_entry_t entry;
    while (!self->is_called && cadre_outbox_pop(&self->messages, &entry)) {
        send_entry(self, &entry);
    }
    while (cadre_outbox_pop(cadre_worker_core_outbox(self->core), &entry)) {
        send_entry(self, &entry);
    }
    /* An answer that came by a call may have started more. */
    cadre_open_works_put(&self->works, self->options.queue);
}

/* Answers a request on the thread of the slot that has it: the core acts on it, and what that sends
 * to a ps in this process is answered at once. What needs a socket or time is left to the network
 * thread, which this then waits for. */
static void
ask(void *asker, cadre_slot_request_t *request)
{
    cadre_worker_actor_t *self = asker;
    cadre_shortcut_lock(self->options.shortcut);
    self->is_called = true;
    self->now_ms = (uint64_t)cadre_clock_now_ms();
    on_request(self, 0, request);
    settle(self);
    self->is_called = false;

    if (!request->is_answered) {
        wake(self); /* the core has a deadline that the network thread does not know of */
    }
    while (!request->is_answered) {
        cadre_shortcut_wait(self->options.shortcut);
    }
    cadre_shortcut_unlock(self->options.shortcut);
}

/* Takes the works that no slot has begun out of the queue, and has the core hand their closures
 * back. */
static void
clear_queue(cadre_worker_actor_t *self)
{
    settle(self); /* puts works that were started in this turn into the queue */
    cadre_work_t *work = cadre_work_queue_clear(self->options.queue);
    while (work) {
        cadre_work_t *next = work->next;
        cadre_work_end(work, CADRE_ECANCELLED, CADRE_FAILURE_RETURNED, "handed back");
        end_work(self, work);
        work = next;
    }
}

/* --- messages of the coordinator, shards, slots, reader and main --- */

/* Takes messages of the coordinator, so many in one turn, and acts on each. The events of one are
 * carried out before the next, which may end a run that they point to. */
static void
from_coordinator(cadre_worker_actor_t *self)
{
    for (int i = 0; i < TURN_CONTROL_MAX; i++) {
        CADRE_UNINITIALIZED cadre_message_t message;
        int status = cadre_control_link_receive(self->link, &message);
        if (status == CADRE_EAGAIN) {
            return;
        }

        if (status < 0) {
            cadre_worker_core_malformed(self->core);
            continue;
        }

        cadre_worker_core_receive(self->core, &(cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 0},
                                  &message, self->now_ms);

        obey(self);
    }
}

/* Tells the core when the connection to the coordinator came up or broke. */
static void
watch_connection(cadre_worker_actor_t *self)
{
    cadre_control_link_event_t event;
    while ((event = cadre_control_link_watch(self->link, self->now_ms)) != CADRE_LINK_SAME) {
        if (event == CADRE_LINK_UP) {
            cadre_worker_core_connected(self->core, self->now_ms);
        } else {
            cadre_worker_core_disconnected(self->core, self->now_ms);
            cadre_log(self->left ? CADRE_LOG_DEBUG : CADRE_LOG_WARN, "coordinator_lost",
                      "coordinator=%s next=\"keeps connecting\"",
                      cadre_control_link_address(self->link));
        }
    }
}

/* Acts on the control connection: whether it is up, whether what waited for room can be sent,
 * messages. While the connection is down its state is looked at in every turn. */
static void
from_control(cadre_worker_actor_t *self)
{
    if (self->items[ITEM_MONITOR].revents & ZMQ_POLLIN || !cadre_control_link_is_up(self->link)) {
        watch_connection(self);
    }
    if (self->items[ITEM_CONTROL].revents & ZMQ_POLLOUT) {
        cadre_control_link_flush(self->link);
    }
    if (self->items[ITEM_CONTROL].revents & ZMQ_POLLIN) {
        from_coordinator(self);
    }
}

/* Takes messages of one shard, so many in one turn, and acts on each. */
static void
from_shard(cadre_worker_actor_t *self, cadre_peer_t *peer)
{
    for (int i = 0; i < TURN_DATA_MAX; i++) {
        cadre_message_t message;
        int status = cadre_socket_receive(peer->socket, &self->frames);
        if (status == CADRE_EAGAIN || status == CADRE_ECLOSED) {
            return;
        }
        if (status < 0 ||
            cadre_shard_peers_decode(&peer->task, self->frames.header, self->frames.chunks,
                                     self->frames.count, &message) < 0) {
            cadre_worker_core_malformed(self->core);
            continue;
        }
        cadre_worker_core_receive(self->core, &peer->task, &message, self->now_ms);
        obey(self);
    }
}

/* Takes messages of the first `polled` shards. Messages of the coordinator in this turn may have
 * closed or replaced connections since they were polled; reading from such a one finds nothing, or
 * what the next turn would have found. */
static void
from_shards(cadre_worker_actor_t *self, uint32_t polled)
{
    const zmq_pollitem_t *items = self->items + ITEM_SLOTS + self->options.core.slots;
    for (uint32_t i = 0; i < polled && i < self->shards.count; i++) {
        cadre_peer_t *peer = &self->shards.peers[i];
        if (peer->socket && items[i].revents & ZMQ_POLLOUT) {
            cadre_peer_flush(peer);
        }
        if (peer->socket && items[i].revents & ZMQ_POLLIN) {
            from_shard(self, peer);
        }
    }
}

/* Acts on messages of main; returns false for STOP, which ends the thread. */
static bool
from_main(cadre_worker_actor_t *self)
{
    cadre_pipe_message_t message;
    while (cadre_pipe_receive(self->main, &message) == 0) {
        if (message.kind == CADRE_PIPE_STOP) {
            return false;
        }
        if (message.kind == CADRE_WORKER_ACTOR_DRAIN) {
            begin_drain(self, "stopped by a signal");
        }
    }

    return true;
}

/* Takes messages of the slots that have some. */
static void
from_slots(cadre_worker_actor_t *self)
{
    for (uint32_t i = 0; i < self->options.core.slots; i++) {
        cadre_pipe_message_t message;
        for (int k = 0; k < TURN_PIPE_MAX && (self->items[ITEM_SLOTS + i].revents & ZMQ_POLLIN) &&
                        cadre_pipe_receive(self->options.slots[i], &message) == 0;
             k++) {
            from_slot(self, i, &message);
        }
    }
}

/* Acts on an answer of the reader, NULL from the link where nobody wants that any more. */
static void
on_read(cadre_worker_actor_t *self, const cadre_pipe_message_t *message)
{
    if (message->kind == CADRE_READER_OPEN) {
        cadre_auto(cadre_open_request_destroy) cadre_open_request_t *request =
            cadre_reader_link_opened(&self->reader, message->pointer);
        if (request) {
            cadre_worker_core_dataset_opened(self->core, request->dataset, &request->ready,
                                             self->now_ms);
        }
        return;
    }

    const cadre_load_t *load = cadre_reader_link_loaded(&self->reader, message->pointer);
    cadre_worker_core_note_blocks_read(self->core, self->reader.blocks_read);
    if (load) {
        cadre_worker_core_loaded(self->core, load->closure, load->status, load->text, self->now_ms);
    }
}

/* Takes the reader's answers, so many in one turn. */
static void
from_reader(cadre_worker_actor_t *self)
{
    cadre_pipe_message_t message;
    for (int k = 0; k < TURN_PIPE_MAX && (self->items[ITEM_READER].revents & ZMQ_POLLIN) &&
                    cadre_pipe_receive(self->options.reader, &message) == 0;
         k++) {
        on_read(self, &message);
    }
}

/* --- the loop --- */

/* Returns an item to poll for input, and if `blocked` (messages wait for room) for output. */
static zmq_pollitem_t
item_of(void *socket, bool blocked)
{
    return (zmq_pollitem_t){.socket = socket,
                            .events = (short)(ZMQ_POLLIN | (blocked ? ZMQ_POLLOUT : 0))};
}

/* Fills in the list of sockets to be polled. In the place of a shard without a connection, and of
 * the pipe that slots wake this thread by where they do not, stands the pipe to main, whose events
 * there are ignored. */
static int
fill_items(cadre_worker_actor_t *self)
{
    uint32_t slots = self->options.core.slots;
    size_t count = (size_t)ITEM_SLOTS + slots + self->shards.count;

    self->items = cadre_realloc(self->items, count, sizeof(*self->items));
    self->items[ITEM_MAIN] = item_of(self->main, false);
    self->items[ITEM_CONTROL] =
        item_of(cadre_control_link_handle(self->link), cadre_control_link_is_full(self->link));
    self->items[ITEM_MONITOR] = item_of(cadre_control_link_monitor_handle(self->link), false);
    self->items[ITEM_READER] = item_of(self->options.reader, false);
    self->items[ITEM_WOKEN] = item_of(self->woken ? self->woken : self->main, false);
    for (uint32_t i = 0; i < slots; i++) {
        self->items[ITEM_SLOTS + i] = item_of(self->options.slots[i], false);
    }

    for (uint32_t i = 0; i < self->shards.count; i++) {
        const cadre_peer_t *peer = &self->shards.peers[i];
        void *socket = peer->socket ? cadre_socket_handle(peer->socket) : self->main;
        self->items[ITEM_SLOTS + slots + i] = item_of(socket, cadre_peer_is_full(peer));
    }

    return (int)count;
}

/* While slots in this process have works in plenty, waits before it looks what has come, to take it
 * all at once: to wake this thread, and the coordinator's by its reports, for each closure takes as
 * long as a small one computes. Slots end the rest when few are left, or they leave something to
 * this thread. */
static void
rest(cadre_worker_actor_t *self)
{
    if (self->options.shortcut && self->had_input) {
        cadre_work_queue_rest(self->options.queue, REST_WORKS, REST_US);
    }
}

/* Waits for input, while slots may use the core. What they have left to this thread is done first:
 * it comes before whatever the input does to runs. */
static bool
poll_items(cadre_worker_actor_t *self, int count, long timeout_ms)
{
    cadre_shortcut_unlock(self->options.shortcut);
    rest(self);
    bool stirred = cadre_poll_looking(self->options.shortcut ? &self->look : NULL, self->items,
                                      count, timeout_ms) > 0;
    cadre_shortcut_lock(self->options.shortcut);
    self->had_input = stirred;
    self->now_ms = (uint64_t)cadre_clock_now_ms();

    cadre_pipe_message_t message;
    if (self->is_woken && cadre_pipe_receive(self->woken, &message) == 0) {
        self->is_woken = false;
    }
    obey(self);
    return stirred;
}

/* Waits for input until something is due. After input the core gets its next tick within a
 * millisecond: the input may have given it something to do, but a tick for each message is too
 * much. */
static void
wait(cadre_worker_actor_t *self)
{
    uint64_t due_ms = cadre_min_u64(self->due_ms, self->link_due_ms);
    if (cadre_context_keyring(self->context)) {
        due_ms = cadre_min_u64(due_ms, self->keys_due_ms);
    }
    if (self->stirred) {
        due_ms = cadre_min_u64(due_ms, self->ticked_ms + 1);
    }
    if (self->drain.reason && !self->left) {
        due_ms = cadre_min_u64(due_ms, self->drain.due_ms);
    }
    if (self->options.http) {
        due_ms = cadre_min_u64(due_ms, self->now_ms + CADRE_HTTP_PUBLISH_MS);
    }

    uint64_t rest_ms = due_ms > self->now_ms ? due_ms - self->now_ms : 0;
    int count = fill_items(self);
    self->stirred = poll_items(self, count, rest_ms < INT_MAX ? (long)rest_ms : INT_MAX);
}

/* Logs once that contact with the coordinator is lost, so that updates are held back, and once that
 * it is back. */
static void
watch_contact(cadre_worker_actor_t *self)
{
    bool untouched = !cadre_worker_core_in_touch(self->core, self->now_ms);
    if (untouched != self->untouched && !self->left) {
        self->untouched = untouched;
        cadre_log(untouched ? CADRE_LOG_WARN : CADRE_LOG_INFO,
                  untouched ? "coordinator_silent" : "coordinator_heard",
                  "coordinator=%s next=\"%s\"", cadre_control_link_address(self->link),
                  untouched ? "sends no updates before it is welcomed" : "goes on");
    }
}

/* Does what draining needs in each turn: hands back once what no slot has begun; and leaves when
 * nobody takes reports any more, or closures have run beyond the time for draining. */
static void
keep_draining(cadre_worker_actor_t *self)
{
    if (cadre_drain_clears(&self->drain, cadre_worker_core_is_draining(self->core))) {
        clear_queue(self);
    }
    if (self->left) {
        return;
    }

    const char *why = NULL;
    switch (cadre_drain_state(&self->drain, cadre_control_link_is_up(self->link), self->works.count,
                              self->now_ms)) {
    case CADRE_DRAIN_GOES_ON:
        return;
    case CADRE_DRAIN_ALONE:
        why = "nobody is there to take reports";
        break;
    case CADRE_DRAIN_TIMED_OUT:
        cadre_log(CADRE_LOG_WARN, "drain_timed_out", "closures=%zu next=\"other workers run them\"",
                  self->works.count);
        why = "what ran did not end in time";
        break;
    }
    cadre_auto(cadre_free) char *reason = cadre_asprintf("%s; %s", self->drain.reason, why);
    cadre_worker_core_abandon(self->core, reason, self->now_ms);
}

/* Logs an event of the keyring. */
static void
tell_audit(void *context, char level, const char *event, const char *pairs)
{
    (void)context;
    cadre_log_pairs(cadre_log_level_of(level), event, pairs);
}

/* Tells main that this worker is unwanted, by which cadre-worker ends, when the key of the
 * coordinator or of a connected ps is not allowed any more: messages under that key may be
 * anybody's. Looks only now and then. */
static void
watch_keys(cadre_worker_actor_t *self)
{
    cadre_keyring_t *keyring = cadre_context_keyring(self->context);
    if (!keyring || self->now_ms < self->keys_due_ms) {
        return;
    }

    self->keys_due_ms = self->now_ms + CADRE_KEYS_LOOK_MS;
    if (cadre_keyring_look(keyring, (int64_t)self->now_ms, tell_audit, NULL) == 0) {
        return;
    }

    if (!cadre_control_link_is_trusted(self->link) ||
        !cadre_shard_peers_are_trusted(&self->shards)) {
        cadre_pipe_send(self->main, CADRE_WORKER_ACTOR_UNWANTED,
                        cadre_strdup("the key of the coordinator or the ps is withdrawn"));
    }
}

/* Runs what is due by time. The core is ticked at most once a millisecond. */
static void
keep_time(cadre_worker_actor_t *self)
{
    self->now_ms = (uint64_t)cadre_clock_now_ms();
    watch_keys(self);
    self->link_due_ms = self->left ? UINT64_MAX : cadre_control_link_tick(self->link, self->now_ms);
    if (self->now_ms != self->ticked_ms) {
        self->ticked_ms = self->now_ms;
        self->stirred = false;
        self->due_ms = cadre_worker_core_tick(self->core, self->now_ms);
    }

    watch_contact(self);
    keep_draining(self);
}

/* Returns whether the thread may end: the session is over, slots and reader have given everything
 * back, and the last message to the coordinator (GOODBYE) is out. */
static bool
finished(const cadre_worker_actor_t *self)
{
    return self->left && self->works.count == 0 && cadre_reader_link_is_idle(&self->reader) &&
           !cadre_control_link_is_full(self->link);
}

/* Closes connections and frees what the thread has used. */
static void
close_all(cadre_worker_actor_t *self)
{
    cadre_control_link_close(&self->link);
    cadre_shard_peers_fini(&self->shards);
    cadre_reader_link_fini(&self->reader);
    free(self->items);
    cadre_open_works_fini(&self->works);
    cadre_frames_fini(&self->frames);
    cadre_worker_core_destroy(&self->core);
    cadre_outbox_fini(&self->messages);
    cadre_outbox_fini(&self->answers);
    cadre_queue_fini(&self->events);
    cadre_pipe_close(&self->wake);
    cadre_pipe_close(&self->woken);
}

/* Runs the network thread, turn by turn: timers, the core's effects, waiting, input. */
static void
run(void *pipe, void *argument)
{
    cadre_worker_actor_t *self = argument;
    self->main = pipe;
    cadre_shortcut_lock(self->options.shortcut);
    bool go_on = true;
    while (go_on) {
        keep_time(self);
        settle(self);
        const bool drains = self->drain.reason || cadre_worker_core_is_draining(self->core);
        cadre_worker_page_publish(&self->page, self->core, drains, self->now_ms);
        if (finished(self)) {
            break;
        }

        wait(self);
        /* Control before data: heartbeats and news of shards do not wait behind values. */
        uint32_t polled = self->shards.count;
        from_control(self);
        from_slots(self);
        from_reader(self);
        from_shards(self, polled);
        go_on = !(self->items[ITEM_MAIN].revents & ZMQ_POLLIN) || from_main(self);
    }

    cadre_shortcut_unlock(self->options.shortcut);
    close_all(self);
    cadre_pipe_send(pipe, CADRE_WORKER_ACTOR_GONE, NULL);
}

/* --- opening and closing --- */

/* Opens the control connection and starts the thread. */
static int
start_thread(cadre_worker_actor_t *self)
{
    const cadre_endpoint_t *coordinator = &self->options.coordinator;
    const cadre_control_link_options_t options = {.coordinator = *coordinator,
                                                  .task = self->options.core.session.task,
                                                  .away_ms = self->options.core.session.away_ms};
    int status = cadre_control_link_open(self->context, &options, &self->link);
    if (status < 0) {
        return status;
    }

    if (cadre_security_is_insecure(self->context, coordinator)) {
        cadre_log(CADRE_LOG_WARN, "insecure_transport",
                  "why=\"whoever reaches its connections reads along\"");
    }

    return cadre_actor_open(self->context, "network", run, self, &self->actor);
}

/* Starts the network thread with a core of its own. On failure nothing is left behind. */
int
cadre_worker_actor_open(cadre_context_t *context, const cadre_worker_actor_options_t *options,
                        cadre_worker_actor_t **out)
{
    cadre_worker_actor_t *self = cadre_calloc(1, sizeof(*self));
    self->context = context;
    self->options = *options;
    self->page = (cadre_worker_page_t){
        .http = options->http, .context = context, .coordinator = &self->options.coordinator};
    self->core = cadre_worker_core_new(&options->core, (uint64_t)cadre_clock_now_ms());
    cadre_open_works_init(&self->works, (size_t)options->core.slots + options->core.ahead);
    cadre_shard_peers_init(&self->shards, context);
    cadre_reader_link_init(&self->reader, options->reader);
    cadre_queue_init(&self->events, sizeof(cadre_worker_event_t));
    int status = options->shortcut ? cadre_pipe_open(context, &self->wake, &self->woken) : 0;
    if (status == 0) {
        status = start_thread(self);
    }
    if (status < 0) {
        close_all(self);
        free(self);
        return status;
    }

    *out = self;
    return 0;
}

void *
cadre_worker_actor_socket(cadre_worker_actor_t *self)
{
    return cadre_actor_socket(self->actor);
}

/* Waits for the thread to end, after its GONE has come, and frees the actor; on a timeout frees
 * nothing, as the thread still uses it. */
int
cadre_worker_actor_close(cadre_worker_actor_t **self_p, int timeout_ms)
{
    cadre_worker_actor_t *self = *self_p;
    if (!self) {
        return 0;
    }

    int status = cadre_actor_stop(&self->actor, timeout_ms);
    if (status < 0) {
        return status;
    }

    *self_p = NULL;
    free(self);
    return 0;
}
