/*
 * core_fixture - a coordinator core with tasks made by hand: messages in, and a record of what came
 * out.
 *
 * Tests say what tasks say (`fixture_hello`, `fixture_done`, ...), let a turn pass
 * (`fixture_turn`), and look at `sent`, `events` and `ended`.
 */
#ifndef CADRE_TESTS_COORDINATOR_CORE_FIXTURE_H
#define CADRE_TESTS_COORDINATOR_CORE_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/wire/codec.h"
#include "coordinator/core/coordinator_core.h"

enum { FIXTURE_RECORD_MAX = 8192, FIXTURE_PS_MAX = 4, FIXTURE_EPOCH = 5 };

typedef struct {
    cadre_task_t to;
    cadre_message_t message;
} fixture_sent_t;

typedef struct {
    uint64_t id;
    uint32_t number; /* the closure's `variables`: what the test numbered it */
    int status;
    char text[CADRE_CLOSURE_ERROR_SIZE];
} fixture_ended_t;

/* Whoever waits for a closure. */
struct cadre_future {
    uint32_t number;
    struct cadre_future *next;
};

typedef struct {
    cadre_core_t core;
    uint64_t now_ms;
    uint64_t due_ms; /* what the last turn returned */
    uint64_t rounds; /* HELLOs said, each as on a connection of its own */
    fixture_sent_t *sent;
    size_t sent_count;
    cadre_effect_t *events;
    size_t event_count;
    fixture_ended_t *ended;
    size_t ended_count;
    struct cadre_future *futures;
} fixture_t;

/* Has the end of the closure recorded, which tests know by its `variables`. */
static inline void
fixture_watch(fixture_t *self, cadre_closure_t *closure)
{
    struct cadre_future *future = cadre_calloc(1, sizeof(*future));
    future->number = closure->variables;
    future->next = self->futures;
    self->futures = future;
    if (!closure->results) {
        closure->results = cadre_results_new();
    }
    closure->results->future = future;
}

/* Records the closures that have ended. */
static inline void
fixture_collect_ended(fixture_t *self)
{
    cadre_results_t *end = NULL;
    while ((end = cadre_effects_take_ended(&self->core.effects))) {
        cr_assert_lt(self->ended_count, FIXTURE_RECORD_MAX);
        fixture_ended_t *ended = &self->ended[self->ended_count++];
        *ended = (fixture_ended_t){
            .id = end->closure_id, .number = end->future->number, .status = end->status};
        snprintf(ended->text, sizeof(ended->text), "%s", end->text ? end->text : "");
        cadre_results_unref(&end);
    }
}

static inline fixture_t *
fixture_new(uint32_t ps_count)
{
    fixture_t *self = cadre_calloc(1, sizeof(*self));
    self->now_ms = 100000;
    self->sent = cadre_calloc(FIXTURE_RECORD_MAX, sizeof(*self->sent));
    self->events = cadre_calloc(FIXTURE_RECORD_MAX, sizeof(*self->events));
    self->ended = cadre_calloc(FIXTURE_RECORD_MAX, sizeof(*self->ended));
    cadre_core_options_t options = {.incarnation = 77,
                                    .epoch = FIXTURE_EPOCH,
                                    .job = "test",
                                    .ps_count = ps_count,
                                    .seed = 42,
                                    .queue_capacity = 1000,
                                    .lease_ms = 10000,
                                    .heartbeat_ms = 1000,
                                    .resend_ms = 1000,
                                    .ps_timeout_ms = 60000};
    cadre_core_init(&self->core, &options, self->now_ms);
    return self;
}

/* Forgets what came out so far. */
static inline void
fixture_clear(fixture_t *self)
{
    for (size_t i = 0; i < self->sent_count; i++) {
        cadre_message_fini(&self->sent[i].message);
    }
    for (size_t i = 0; i < self->event_count; i++) {
        cadre_manifest_t *manifest = self->events[i].store.manifest;
        if (self->events[i].kind == CADRE_EFFECT_STORE && manifest) {
            cadre_manifest_fini(manifest);
            free(manifest);
        }
    }
    self->sent_count = 0;
    self->event_count = 0;
}

static inline void
fixture_destroy(fixture_t **self_p)
{
    fixture_t *self = *self_p;
    *self_p = NULL;
    fixture_clear(self);
    cadre_effect_t event;
    while (cadre_effects_take(&self->core.effects, &event)) {
        cr_assert(event.kind != CADRE_EFFECT_STORE || !event.store.manifest);
    }
    cadre_core_fini(&self->core);
    while (self->futures) {
        struct cadre_future *future = self->futures;
        self->futures = future->next;
        free(future);
    }
    free(self->sent);
    free(self->events);
    free(self->ended);
    free(self);
}

/* The VARIABLEs of a DEFINITIONS, as if they had been sent alone. */
static inline void
fixture_collect_definitions(fixture_t *self, const fixture_sent_t *definitions)
{
    const cadre_chunk_t *chunk = definitions->message.chunks[0];
    const char *bytes = cadre_chunk_data((cadre_chunk_t *)(uintptr_t)chunk);
    for (size_t at = 0; at < cadre_chunk_size_bytes(chunk);) {
        uint32_t size_bytes;
        memcpy(&size_bytes, bytes + at, sizeof(size_bytes));
        at += sizeof(size_bytes);
        cr_assert_lt(self->sent_count, FIXTURE_RECORD_MAX);
        fixture_sent_t *sent = &self->sent[self->sent_count++];
        sent->to = definitions->to;
        cr_assert_eq(cadre_message_decode(bytes + at, size_bytes, NULL, 0, &sent->message), 0);
        at += size_bytes;
    }
}

/* Every message that the core has to send, decoded as its receiver would. */
static inline void
fixture_collect(fixture_t *self)
{
    cadre_outbox_entry_t entry;
    fixture_collect_ended(self);
    while (cadre_outbox_pop(&self->core.effects.outbox, &entry)) {
        cr_assert_lt(self->sent_count, FIXTURE_RECORD_MAX);
        fixture_sent_t *sent = &self->sent[self->sent_count++];
        sent->to = entry.destination;
        cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                          cadre_chunk_size_bytes(entry.header), entry.chunks,
                                          entry.chunk_count, &sent->message),
                     0, "%s", cadre_error_text());
        entry.chunk_count = 0;
        cadre_outbox_entry_fini(&entry);
        if (sent->message.type == CADRE_MESSAGE_DEFINITIONS) {
            fixture_collect_definitions(self, sent);
        }
    }
    while (self->event_count < FIXTURE_RECORD_MAX &&
           cadre_effects_take(&self->core.effects, &self->events[self->event_count])) {
        self->event_count++;
    }
}

/* A turn of a shell that has not stalled, however much time the test has let pass. */
static inline void
fixture_turn(fixture_t *self)
{
    cadre_leases_promise(&self->core.leases, self->now_ms);
    self->due_ms = cadre_core_tick(&self->core, self->now_ms, false);
    fixture_collect(self);
}

/* --- what tasks say --- */

static inline cadre_task_t
fixture_worker(uint32_t index)
{
    return (cadre_task_t){CADRE_ROLE_WORKER, index, 1000 + index};
}

static inline cadre_task_t
fixture_ps(uint32_t index)
{
    return (cadre_task_t){CADRE_ROLE_PS, index, 2000 + index};
}

static inline cadre_message_t
fixture_message(const cadre_task_t *from, cadre_message_type_t type)
{
    return (cadre_message_t){
        .type = type, .incarnation = from->incarnation, .epoch = FIXTURE_EPOCH};
}

/* Through the wire and back, so that the core gets what it would get. A HELLO that says nothing of
 * versions gets those of this build. */
static inline void
fixture_say(fixture_t *self, const cadre_task_t *from, const cadre_message_t *said)
{
    cadre_message_t decoded;
    cadre_message_t filled = *said;
    const cadre_message_t *message = &filled;
    if (said->type == CADRE_MESSAGE_HELLO && said->hello.highest == 0) {
        filled.hello.lowest = CADRE_PROTOCOL_LOWEST;
        filled.hello.highest = CADRE_PROTOCOL_VERSION;
        filled.hello.schema = cadre_message_schema_hash();
    }
    cadre_chunk_t *header = cadre_message_encode(message);
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      message->chunks, message->chunk_count, &decoded),
                 0, "%s", cadre_error_text());
    cadre_chunk_unref(&header);
    free(message->chunks);
    cadre_core_receive(&self->core, from, &decoded, self->now_ms);
    fixture_collect_ended(self);
}

static inline void
fixture_hello_as(fixture_t *self, const cadre_task_t *from, uint64_t index, cadre_u64s_t held)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_HELLO);
    message.epoch = 0;
    message.hello = (cadre_hello_message_t){.role = from->role,
                                            .index = index,
                                            .build = "test",
                                            .host = "here",
                                            .process = 4711,
                                            .address = "tcp://127.0.0.1:5555",
                                            .devices = "",
                                            .slots = 1,
                                            .held = held,
                                            .round = ++self->rounds};
    fixture_say(self, from, &message);
}

static inline void
fixture_hello(fixture_t *self, const cadre_task_t *from)
{
    fixture_hello_as(self, from, from->index, (cadre_u64s_t){NULL, 0});
}

static inline void
fixture_heartbeat(fixture_t *self, const cadre_task_t *from, uint64_t sequence, cadre_u64s_t held)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_HEARTBEAT);
    message.heartbeat = (cadre_heartbeat_message_t){.sequence = sequence, .held = held};
    fixture_say(self, from, &message);
}

/* A closure that took so long has ended. */
static inline void
fixture_done_in(fixture_t *self, const cadre_task_t *from, uint64_t id, uint64_t attempt,
                uint64_t total_us)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_CLOSURE_DONE);
    message.closure_done =
        (cadre_closure_done_message_t){.id = id, .attempt = attempt, .total_us = total_us};
    fixture_say(self, from, &message);
}

static inline void
fixture_done(fixture_t *self, const cadre_task_t *from, uint64_t id, uint64_t attempt)
{
    fixture_done_in(self, from, id, attempt, 1000000);
}

static inline void
fixture_failed(fixture_t *self, const cadre_task_t *from, uint64_t id, uint64_t attempt,
               cadre_failure_t reason, const char *text)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_CLOSURE_FAILED);
    message.closure_failed = (cadre_closure_failed_message_t){
        .id = id,
        .attempt = attempt,
        .reason = reason,
        .status = reason == CADRE_FAILURE_RETURNED ? (uint64_t)-CADRE_ECANCELLED
                                                   : (uint64_t)-CADRE_EFUNCTION,
        .text = text};
    fixture_say(self, from, &message);
}

/* The connection to a task closes. */
static inline void
fixture_gone(fixture_t *self, const cadre_task_t *task)
{
    cadre_core_gone(&self->core, task, self->now_ms);
    fixture_collect_ended(self);
}

/* --- what the API does --- */

static inline void
fixture_cancel(fixture_t *self)
{
    cadre_core_cancel(&self->core);
    fixture_collect_ended(self);
}

static inline cadre_function_t *
fixture_function(fixture_t *self)
{
    bool is_new = false;
    cadre_function_t like = {.kind = CADRE_FUNCTION_NATIVE, .name = (char *)(uintptr_t) "work"};
    cadre_function_t *function = NULL;
    cr_assert_eq(cadre_catalogue_add_function(&self->core.catalogue, &like, &function, &is_new), 0);
    return function;
}

/* Schedules a closure that tests know by `number`. */
static inline cadre_closure_t *
fixture_schedule(fixture_t *self, uint32_t number)
{
    cadre_closure_t *closure = cadre_closure_new(fixture_function(self)->id);
    closure->variables = number;
    fixture_watch(self, closure);
    cr_assert_eq(cadre_closure_queue_put(&self->core.queue, closure), 0);
    return closure;
}

/* --- what came out --- */

/* The `nth` message of `type` that was sent to anyone, or to `to`, since the last clear; NULL when
 * there were fewer. */
static inline const cadre_message_t *
fixture_sent(const fixture_t *self, const cadre_task_t *to, cadre_message_type_t type, size_t nth)
{
    for (size_t i = 0; i < self->sent_count; i++) {
        if (self->sent[i].message.type == type &&
            (!to || cadre_task_equal(&self->sent[i].to, to)) && nth-- == 0) {
            return &self->sent[i].message;
        }
    }
    return NULL;
}

static inline size_t
fixture_count(const fixture_t *self, const cadre_task_t *to, cadre_message_type_t type)
{
    size_t count = 0;
    while (fixture_sent(self, to, type, count)) {
        count++;
    }
    return count;
}

static inline const cadre_effect_t *
fixture_event(const fixture_t *self, cadre_effect_kind_t kind, size_t nth)
{
    for (size_t i = 0; i < self->event_count; i++) {
        if (self->events[i].kind == kind && nth-- == 0) {
            return &self->events[i];
        }
    }
    return NULL;
}

static inline bool
fixture_logged(const fixture_t *self, const char *name)
{
    for (size_t i = 0; i < self->event_count; i++) {
        if (self->events[i].kind == CADRE_EFFECT_LOG && strcmp(self->events[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* --- what shards answer --- */

/* The answer to `question`, status 0. */
static inline void
fixture_reply(fixture_t *self, const cadre_task_t *from, const cadre_message_t *question)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_REPLY);
    message.request = question->request;
    fixture_say(self, from, &message);
}

/* Every ps joins and begins; nothing of it stays in the record. */
static inline void
fixture_join_ps(fixture_t *self)
{
    for (uint32_t i = 0; i < self->core.options.ps_count; i++) {
        cadre_task_t ps = fixture_ps(i);
        fixture_hello(self, &ps);
        fixture_turn(self);
        fixture_reply(self, &ps, fixture_sent(self, &ps, CADRE_MESSAGE_RESTORE, 0));
    }
    fixture_turn(self);
    fixture_clear(self);
}

/* A table of rows of `dim` numbers that exists, as if a program had created it. */
static inline cadre_variable_t *
fixture_add_table(fixture_t *self, const char *name, uint32_t dim)
{
    const cadre_table_spec_t spec = cadre_table_spec(dim);
    cadre_variable_t *table = NULL;
    cr_assert_eq(cadre_catalogue_add_table(&self->core.catalogue, name, &spec, 0, &table), 0, "%s",
                 cadre_error_text());
    table->created = true;
    cadre_announcements_add_variable(&self->core.announcements, table);
    return table;
}

/* Ps and workers that have joined. */
static inline fixture_t *
fixture_new_cluster(uint32_t ps, uint32_t workers)
{
    fixture_t *self = fixture_new(ps);
    fixture_join_ps(self);
    for (uint32_t i = 0; i < workers; i++) {
        cadre_task_t worker = fixture_worker(i);
        fixture_hello(self, &worker);
    }
    fixture_turn(self);
    fixture_clear(self);
    return self;
}

static inline fixture_t *
cluster(uint32_t workers)
{
    return fixture_new_cluster(1, workers);
}

static inline cadre_variable_t *
fixture_add_variable(fixture_t *self, const char *name, int64_t rows, int parts)
{
    cadre_variable_options_t options = {
        .size = sizeof(options), .partitioner = CADRE_PARTITION_FIXED, .count = parts};
    cadre_tensor_t like = {.dtype = CADRE_F32, .rank = 1, .shape = {rows}};
    cadre_variable_t *variable = NULL;
    cr_assert_eq(
        cadre_catalogue_add_variable(&self->core.catalogue, name, &like, &options, &variable), 0,
        "%s", cadre_error_text());
    variable->created = true;
    cadre_announcements_add_variable(&self->core.announcements, variable);
    return variable;
}

#endif
