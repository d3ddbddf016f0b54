#include "worker/core/worker_core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/shard_set.h"
#include "worker/core/worker_state.h"

static void
fill_in(cadre_worker_options_t *options)
{
    options->window = options->window ? options->window : CADRE_WINDOW_SIZE_MIN;
    options->push_part_size =
        options->push_part_size ? options->push_part_size : CADRE_PUSH_PART_SIZE;
    options->partitions_max =
        options->partitions_max ? options->partitions_max : CADRE_PARTITIONS_PER_UPDATE_MAX;
}

cadre_worker_core_t *
cadre_worker_core_new(const cadre_worker_options_t *options, uint64_t now_ms)
{
    cadre_assert(options->slots >= 1 && options->slots <= CADRE_SLOTS_MAX);
    cadre_worker_core_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    fill_in(&self->options);
    self->coordinator = (cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 0};
    self->heartbeat_ms = CADRE_HEARTBEAT_MS;
    self->kept.size_max =
        options->kept_values_max ? options->kept_values_max : CADRE_KEPT_VALUES_SIZE_MAX;
    self->hello_due_ms = now_ms;
    self->mute_due_ms = UINT64_MAX;
    self->tick_due_ms = UINT64_MAX;
    self->queue_last_p = &self->queue_first;
    /* Above all that a core before this one can have given in this process. */
    self->cache.content_last = (now_ms + 1) << 20;
    self->slot_in_use = cadre_calloc((size_t)options->slots + options->ahead, sizeof(bool));
    return self;
}

static void
close_links(cadre_worker_core_t *self)
{
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        self->pushes.repeated += self->links[i].repeated;
        cadre_shard_link_fini(&self->links[i]);
    }
    free(self->links);
    self->links = NULL;
}

void
cadre_worker_core_destroy(cadre_worker_core_t **self_p)
{
    cadre_worker_core_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_run_t *run = NULL;
    for (size_t cursor = 0; (run = cadre_u64_map_next(&self->runs, &cursor));) {
        cadre_run_destroy(&run);
    }
    cadre_u64_map_fini(&self->runs);
    close_links(self);
    cadre_directory_fini(&self->directory);
    cadre_value_cache_fini(&self->cache);
    cadre_kept_values_clear(&self->kept);
    cadre_outbox_fini(&self->outbox);
    for (size_t i = 0; i < self->event_count; i++) {
        cadre_worker_event_t *event = &self->events[self->event_first + i];
        cadre_values_fini(&event->values, event->value_count);
        cadre_holding_destroy(&event->holding);
    }
    free(self->events);
    cadre_staleness_fini(&self->staleness);
    free(self->slot_in_use);
    free(self);
}

cadre_outbox_t *
cadre_worker_core_outbox(cadre_worker_core_t *self)
{
    return &self->outbox;
}

const cadre_directory_t *
cadre_worker_core_directory(const cadre_worker_core_t *self)
{
    return &self->directory;
}

const cadre_task_t *
cadre_worker_core_task(const cadre_worker_core_t *self)
{
    return &self->options.task;
}

void
cadre_worker_emit(cadre_worker_core_t *self, const cadre_worker_event_t *event)
{
    if (self->event_count == 0) {
        self->event_first = 0;
    }
    if (self->event_first + self->event_count == self->event_capacity) {
        self->event_capacity = self->event_capacity ? 2 * self->event_capacity : 64;
        self->events = cadre_realloc(self->events, self->event_capacity, sizeof(*self->events));
    }
    self->events[self->event_first + self->event_count++] = *event;
}

bool
cadre_worker_core_event(cadre_worker_core_t *self, cadre_worker_event_t *event)
{
    if (self->event_count == 0) {
        return false;
    }
    *event = self->events[self->event_first++];
    self->event_count--;
    return true;
}

cadre_message_t
cadre_worker_message(cadre_worker_core_t *self, cadre_message_type_t type)
{
    return (cadre_message_t){
        .type = type, .incarnation = self->options.task.incarnation, .epoch = self->epoch};
}

/* --- session --- */

static void
say_hello(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->superseded && self->running == 0) {
        self->round++; /* what the other coordinator told so far was not taken */
    }
    cadre_u64s_t held = cadre_worker_held(self);
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_HELLO);
    message.hello = (cadre_hello_message_t){.lowest = CADRE_PROTOCOL_LOWEST,
                                            .highest = CADRE_PROTOCOL_VERSION,
                                            .schema = cadre_message_schema_hash(),
                                            .role = CADRE_ROLE_WORKER,
                                            .index = self->options.task.index,
                                            .build = self->options.build,
                                            .host = self->options.host,
                                            .process = self->options.process,
                                            .devices = self->options.devices,
                                            .slots = self->options.slots,
                                            .session = self->session,
                                            .held = held,
                                            .round = self->round,
                                            .definitions = self->directory.definitions,
                                            .functions = self->directory.functions_complete};
    message.request = cadre_contact_ask(&self->contact, now_ms);
    cadre_outbox_send(&self->outbox, &self->coordinator, &message);
    free((void *)held.items);
    self->hello_due_ms = now_ms + CADRE_HELLO_RETRY_MS;
}

/* The shards that cannot be reached. */
static cadre_shard_set_t
unreachable(const cadre_worker_core_t *self)
{
    cadre_shard_set_t set = {.words = {0}};
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        if (self->links[i].unreachable) {
            cadre_shard_set_put(&set, i);
        }
    }
    return set;
}

/* What waits for which shard, as HEARTBEAT says it. */
static cadre_u64s_t
list_waits(const cadre_worker_core_t *self, uint64_t now_ms, uint64_t items[3 * CADRE_WAITS_MAX])
{
    size_t count = 0;
    for (uint32_t shard = 0; shard < self->directory.shard_count; shard++) {
        uint64_t last = 0; /* a closure's requests follow each other */
        const cadre_link_request_t *request = self->links[shard].first;
        for (; request && request->asked_ms + CADRE_WAIT_NAMED_MS <= now_ms &&
               count < 3 * CADRE_WAITS_MAX;
             request = request->next) {
            if (request->closure != last && request->closure < CADRE_BUILD_IDS) {
                items[count++] = request->closure;
                items[count++] = shard;
                items[count++] = now_ms - request->asked_ms;
            }
            last = request->closure;
        }
    }
    return (cadre_u64s_t){items, count};
}

static void
say_heartbeat(cadre_worker_core_t *self, uint64_t now_ms)
{
    const cadre_directory_t *directory = &self->directory;
    cadre_u64s_t held = cadre_worker_held(self);
    cadre_shard_set_t unheard = unreachable(self);
    uint64_t waits[3 * CADRE_WAITS_MAX];
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat =
        (cadre_heartbeat_message_t){.sequence = ++self->heartbeat_sequence,
                                    .held = held,
                                    .counters = {self->counters, CADRE_WORKER_COUNTER_COUNT},
                                    .known = cadre_resource_set_list(&directory->resources_known),
                                    .built = cadre_resource_set_list(&directory->resources_built),
                                    .unreachable = cadre_shard_set_list(&unheard),
                                    .waits = list_waits(self, now_ms, waits),
                                    .lacks = {directory->lacks, directory->lack_count}};
    message.request = cadre_contact_ask(&self->contact, now_ms);
    cadre_outbox_send(&self->outbox, &self->coordinator, &message);
    free((void *)held.items);
    self->heartbeat_due_ms = now_ms + self->heartbeat_ms;
}

void
cadre_worker_hurry_heartbeat(cadre_worker_core_t *self, uint64_t now_ms)
{
    self->heartbeat_due_ms = now_ms;
}

static void
leave(cadre_worker_core_t *self, const char *reason)
{
    if (self->session_state == CADRE_WORKER_STATE_LEFT) {
        return;
    }
    cadre_message_t message = cadre_worker_message(self, CADRE_MESSAGE_GOODBYE);
    message.goodbye.reason = reason;
    cadre_outbox_send(&self->outbox, &self->coordinator, &message);
    self->session_state = CADRE_WORKER_STATE_LEFT;
    cadre_worker_event_t event = {.kind = CADRE_WORKER_LEFT};
    snprintf(event.text, sizeof(event.text), "%s", reason);
    cadre_worker_emit(self, &event);
}

void
cadre_worker_be_refused(cadre_worker_core_t *self, const cadre_refused_message_t *refused)
{
    cadre_worker_drop_runs(self);
    self->session_state = CADRE_WORKER_STATE_LEFT;
    cadre_worker_event_t event = {.kind = CADRE_WORKER_REFUSED,
                                  .status =
                                      refused->status ? -(int)refused->status : CADRE_EREFUSED};
    snprintf(event.text, sizeof(event.text), "%s", refused->text);
    cadre_worker_emit(self, &event);
}

/* A job with more ps than there are descriptors for is not ours: their connections are not even
 * tried without one, and nobody says so. */
static bool
has_room(cadre_worker_core_t *self, const cadre_welcome_message_t *welcome)
{
    if (self->options.shards_max == 0 || welcome->shards <= self->options.shards_max) {
        return true;
    }
    cadre_fail(CADRE_ECONFIG,
               "the job has %" PRIu64 " ps, and this worker descriptors for %" PRIu32 ": %s",
               welcome->shards, self->options.shards_max, self->options.shards_why);
    cadre_worker_be_refused(self, &(cadre_refused_message_t){.status = (uint64_t)-CADRE_ECONFIG,
                                                             .text = cadre_error_text()});
    return false;
}

/* Everything of the session before is void: another coordinator knows nothing of it. */
static void
begin_session(cadre_worker_core_t *self, const cadre_message_t *welcome)
{
    cadre_value_cache_fini(&self->cache);
    cadre_kept_values_clear(&self->kept);
    close_links(self);
    cadre_worker_release_all(self);
    cadre_directory_init(&self->directory, (uint32_t)welcome->welcome.shards);
    self->links = cadre_calloc(self->directory.shard_count, sizeof(*self->links));
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        cadre_shard_link_init(&self->links[i], self->options.window);
    }
    self->session = welcome->incarnation;
    memset(self->recent, 0, sizeof(self->recent)); /* its closures count from 1 again */
    cadre_worker_emit(self, &(cadre_worker_event_t){.kind = CADRE_WORKER_RESET});
}

void
cadre_worker_on_welcome(cadre_worker_core_t *self, const cadre_message_t *message, uint64_t now_ms)
{
    bool late = self->contact.answers && message->request < self->hello_first;
    if (self->session_state != CADRE_WORKER_STATE_HELLO || late ||
        !has_room(self, &message->welcome)) {
        return;
    }
    if (message->incarnation != self->session) {
        cadre_worker_drop_runs(self);
        self->superseded = self->running > 0;
        if (self->superseded) {
            return; /* HELLO is repeated until the slots' runs have ended */
        }
        begin_session(self, message);
    }
    self->superseded = false;
    self->session_state = CADRE_WORKER_STATE_MEMBER;
    self->epoch = message->epoch;
    self->options.task.index = (uint32_t)message->welcome.index;
    self->heartbeat_ms = message->welcome.heartbeat_ms ? message->welcome.heartbeat_ms : 1;
    self->lease_ms = message->welcome.lease_ms;
    cadre_contact_answered(&self->contact, message->request);
    cadre_worker_resend_reports(self, message->request);
    say_heartbeat(self, now_ms);
}

void
cadre_worker_rejoin(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->session_state == CADRE_WORKER_STATE_MEMBER) {
        self->session_state = CADRE_WORKER_STATE_HELLO;
        self->hello_first = self->contact.asked + 1;
        self->round++;
    }
    if (self->session_state == CADRE_WORKER_STATE_HELLO) {
        say_hello(self, now_ms);
    }
}

void
cadre_worker_core_connected(cadre_worker_core_t *self, uint64_t now_ms)
{
    self->mute_due_ms = now_ms + CADRE_MUTE_MS;
    self->round++;
    cadre_worker_rejoin(self, now_ms);
}

void
cadre_worker_core_drain(cadre_worker_core_t *self, const char *reason, uint64_t now_ms)
{
    if (self->session_state == CADRE_WORKER_STATE_LEFT) {
        return;
    }
    snprintf(self->leave_reason, sizeof(self->leave_reason), "%s", reason);
    self->dismissed = true;
    if (self->session_state == CADRE_WORKER_STATE_HELLO) {
        cadre_worker_core_abandon(self, reason); /* nobody would take reports */
        return;
    }
    self->session_state = CADRE_WORKER_STATE_DRAINING;
    cadre_worker_hand_back(self, now_ms);
}

bool
cadre_worker_core_is_draining(const cadre_worker_core_t *self)
{
    return self->session_state == CADRE_WORKER_STATE_DRAINING;
}

bool
cadre_worker_core_is_dismissed(const cadre_worker_core_t *self)
{
    return self->dismissed;
}

void
cadre_worker_core_abandon(cadre_worker_core_t *self, const char *reason)
{
    if (self->session_state != CADRE_WORKER_STATE_LEFT) {
        cadre_worker_drop_runs(self);
        leave(self, reason);
    }
}

/* --- contact --- */

bool
cadre_worker_core_in_touch(const cadre_worker_core_t *self, uint64_t now_ms)
{
    return now_ms < cadre_contact_lost_ms(&self->contact, self->lease_ms);
}

/* The coordinator will give this worker's closures to others, or has. One that drains lets it. */
static void
lose_touch(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->session_state == CADRE_WORKER_STATE_DRAINING) {
        cadre_worker_drop_runs(self);
        self->disowned = true;
    } else {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        cadre_worker_rejoin(self, now_ms);
    }
}

/* --- time --- */

static uint64_t
earlier(uint64_t left_ms, uint64_t right_ms)
{
    return left_ms < right_ms ? left_ms : right_ms;
}

/* Says HELLO, or that nobody hears it; when to be called again. */
static uint64_t
tick_hello(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (now_ms >= self->mute_due_ms) {
        self->mute_due_ms = now_ms + CADRE_MUTE_MS;
        cadre_worker_emit(self, &(cadre_worker_event_t){.kind = CADRE_WORKER_MUTE});
    } else if (now_ms >= self->hello_due_ms) {
        say_hello(self, now_ms);
    }
    return earlier(self->hello_due_ms, self->mute_due_ms);
}

/* The shell comes when it has promised to, so what it is late by was this process's own stall: it
 * was stopped, or the machine swapped. Nobody could be heard meanwhile, so nobody was mute. Contact
 * with the coordinator is not excused: that one may have counted the silence. */
static void
excuse_stall(cadre_worker_core_t *self, uint64_t now_ms)
{
    uint64_t late_ms = now_ms > self->tick_due_ms ? now_ms - self->tick_due_ms : 0;
    if (late_ms < CADRE_OWN_STALL_MS) {
        return;
    }
    self->mute_due_ms += self->mute_due_ms != UINT64_MAX ? late_ms : 0;
    for (uint32_t i = 0; i < self->directory.shard_count; i++) {
        cadre_shard_link_excuse(&self->links[i], late_ms, now_ms);
    }
}

static uint64_t
tick(cadre_worker_core_t *self, uint64_t now_ms)
{
    if (self->session_state == CADRE_WORKER_STATE_LEFT) {
        return UINT64_MAX;
    }
    if (self->session_state != CADRE_WORKER_STATE_HELLO &&
        !cadre_worker_core_in_touch(self, now_ms)) {
        lose_touch(self, now_ms);
    }
    if (self->session_state == CADRE_WORKER_STATE_HELLO) {
        return tick_hello(self, now_ms);
    }
    bool done = self->runs.count == 0 || (self->disowned && self->running == 0);
    if (self->session_state == CADRE_WORKER_STATE_DRAINING && done) {
        leave(self, self->leave_reason);
        return UINT64_MAX;
    }
    if (now_ms >= self->heartbeat_due_ms) {
        say_heartbeat(self, now_ms);
    }
    uint64_t due_ms = cadre_worker_tick_links(self, now_ms);
    cadre_worker_want(self, now_ms);
    due_ms = earlier(due_ms, cadre_worker_build(self, now_ms));
    if (!self->disowned) {
        due_ms = earlier(due_ms, cadre_contact_lost_ms(&self->contact, self->lease_ms));
    }
    return earlier(earlier(due_ms, self->heartbeat_due_ms), now_ms + CADRE_WANT_RETRY_MS);
}

uint64_t
cadre_worker_core_tick(cadre_worker_core_t *self, uint64_t now_ms)
{
    excuse_stall(self, now_ms);
    self->tick_due_ms = tick(self, now_ms);
    return self->tick_due_ms;
}
