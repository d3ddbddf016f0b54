/*
 * core_fixture - a worker core with a hand for its coordinator, its shards and its slots.
 *
 * Messages go through the codec, as on a wire. What the core sends is collected by take_message,
 * what it wants done by take_event; both look for the first of a kind and drop what stood before.
 * Variable "w" is f32 [4], two partitions of two elements, on shards 0 and 1.
 */
#ifndef CADRE_TESTS_WORKER_CORE_FIXTURE_H
#define CADRE_TESTS_WORKER_CORE_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "worker/core/worker_core.h"

enum {
    FIXTURE_SESSION = 4711,
    FIXTURE_PS = 100, /* incarnation of shard 0's process */
    FIXTURE_HEARTBEAT_MS = 1000,
    FIXTURE_LEASE_MS = 10000,
    FIXTURE_SHARD_TIMEOUT_MS = 60000,
    FIXTURE_SHARDS_MAX = 20,
    FIXTURE_ROW_CACHE_BYTES = 1 << 20,
};

typedef struct {
    cadre_worker_core_t *core;
    uint64_t now_ms;
    uint64_t session;
    uint64_t shard_count;
    uint64_t generations[2]; /* as the worker was told last, */
    uint64_t serving[2];     /* and the incarnations that serve them */
} fixture_t;

static inline void
fixture_init_with(fixture_t *self, uint32_t slots, uint32_t ahead, const cadre_registry_t *registry)
{
    *self = (fixture_t){.now_ms = 10000, .session = FIXTURE_SESSION, .shard_count = 2};
    cadre_worker_options_t options = {
        .session = {.task = {CADRE_ROLE_WORKER, CADRE_INDEX_ANY, 77}, .build = "1", .host = "here"},
        .devices = "cpu",
        .slots = slots,
        .ahead = ahead,
        .shards_max = FIXTURE_SHARDS_MAX,
        .shards_why = "RLIMIT_NOFILE is 80",
        .shard_timeout_ms = FIXTURE_SHARD_TIMEOUT_MS,
        .row_cache_bytes = FIXTURE_ROW_CACHE_BYTES,
        .observes = true,
        .registry = registry};
    self->core = cadre_worker_core_new(&options, self->now_ms);
}

/* One that has every native function. */
static inline void
fixture_init(fixture_t *self, uint32_t slots, uint32_t ahead)
{
    fixture_init_with(self, slots, ahead, NULL);
}

static inline void
fixture_fini(fixture_t *self)
{
    cadre_worker_core_destroy(&self->core);
}

/* --- towards the core --- */

static inline void
fixture_deliver(fixture_t *self, cadre_role_t role, uint32_t index, cadre_message_t *message)
{
    cadre_task_t from = {role, index, 0};
    if (message->incarnation == 0) {
        message->incarnation =
            role == CADRE_ROLE_COORDINATOR ? self->session : self->serving[index];
    }
    message->epoch = 1;
    cadre_chunk_t *header = cadre_message_encode(message);
    cadre_message_t decoded;
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      message->chunks, message->chunk_count, &decoded),
                 0, "%s", cadre_error_text());
    cadre_chunk_unref(&header);
    cadre_message_fini(message);
    cadre_worker_core_receive(self->core, &from, &decoded, self->now_ms);
}

static inline void
fixture_tell(fixture_t *self, cadre_message_t message)
{
    fixture_deliver(self, CADRE_ROLE_COORDINATOR, 0, &message);
}

/* `request`: the number of the HELLO that it answers; 0 as from a coordinator that does not repeat
 * it. */
static inline void
fixture_welcome_as(fixture_t *self, uint64_t request)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_WELCOME, .request = request};
    message.welcome = (cadre_welcome_message_t){.index = 3,
                                                .job = "job",
                                                .heartbeat_ms = FIXTURE_HEARTBEAT_MS,
                                                .lease_ms = FIXTURE_LEASE_MS,
                                                .shards = self->shard_count};
    fixture_tell(self, message);
}

static inline void
fixture_welcome(fixture_t *self)
{
    fixture_welcome_as(self, 0);
}

static inline void
fixture_shard(fixture_t *self, uint32_t index, uint64_t incarnation, uint64_t generation)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SHARD};
    message.shard = (cadre_shard_message_t){.index = index,
                                            .address = "tcp://127.0.0.1:1",
                                            .incarnation = incarnation,
                                            .generation = generation};
    self->generations[index] = generation;
    self->serving[index] = incarnation;
    fixture_tell(self, message);
}

static inline void
fixture_shard_away(fixture_t *self, uint32_t index, uint64_t generation)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SHARD};
    message.shard =
        (cadre_shard_message_t){.index = index, .address = "", .generation = generation};
    fixture_tell(self, message);
}

/* Variable "w" of `rows` elements, half of them on each shard. */
static inline void
fixture_variable(fixture_t *self, uint64_t rows)
{
    static const uint64_t shards[] = {0, 1};
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 1,
                                                  .name = "w",
                                                  .dtype = CADRE_F32,
                                                  .shape = {&rows, 1},
                                                  .partitions = 2,
                                                  .shards = {shards, 2}};
    fixture_tell(self, message);
}

static inline void
fixture_function(fixture_t *self)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_FUNCTION};
    message.function =
        (cadre_function_message_t){.id = 1, .kind = CADRE_FUNCTION_NATIVE, .name = "f"};
    fixture_tell(self, message);
}

/* It becomes a member that knows both shards, "w" with 4 elements, and the function. */
static inline void
fixture_brief(fixture_t *self)
{
    cadre_worker_core_connected(self->core, self->now_ms);
    fixture_welcome(self);
    fixture_shard(self, 0, FIXTURE_PS, 1);
    fixture_shard(self, 1, FIXTURE_PS + 1, 1);
    fixture_variable(self, 4);
    fixture_function(self);
}

/* Such a member. */
static inline void
fixture_join(fixture_t *self, uint32_t slots, uint32_t ahead)
{
    fixture_init(self, slots, ahead);
    fixture_brief(self);
}

static inline void
fixture_closure(fixture_t *self, uint64_t id, uint64_t attempt)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    message.closure =
        (cadre_closure_message_t){.id = id,
                                  .attempt = attempt,
                                  .function = 1,
                                  .steps = 1,
                                  .variables = 1,
                                  .generations = self->generations[0] + self->generations[1]};
    fixture_tell(self, message);
}

static inline void
fixture_batch_closure(fixture_t *self, uint64_t id, uint64_t dataset)
{
    uint64_t batch[] = {dataset, 0, 0, 8};
    cadre_message_t message = {.type = CADRE_MESSAGE_CLOSURE};
    message.closure = (cadre_closure_message_t){
        .id = id, .attempt = 1, .function = 1, .steps = 1, .variables = 1, .batches = {batch, 4}};
    fixture_tell(self, message);
}

static inline void
fixture_acknowledge(fixture_t *self, uint64_t id, uint64_t attempt)
{
    uint64_t items[] = {id, attempt};
    cadre_message_t message = {.type = CADRE_MESSAGE_ACK};
    message.ack.reports = (cadre_u64s_t){items, 2};
    fixture_tell(self, message);
}

static inline void
fixture_cancel(fixture_t *self, uint64_t id)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_CANCEL};
    message.cancel.ids = (cadre_u64s_t){&id, 1};
    fixture_tell(self, message);
}

/* A turn of a shell that has not stalled, however much time the test has let pass. */
static inline void
fixture_pass(fixture_t *self, uint64_t ms)
{
    self->now_ms += ms;
    cadre_worker_core_set_due(self->core, self->now_ms);
    cadre_worker_core_tick(self->core, self->now_ms);
}

/* The process stands still for so long, then gets a turn. */
static inline void
fixture_stall(fixture_t *self, uint64_t ms)
{
    cadre_worker_core_set_due(self->core, self->now_ms);
    self->now_ms += ms;
    cadre_worker_core_tick(self->core, self->now_ms);
}

/* --- from the core --- */

/* The first message of that type to that shard (or the coordinator, -1), which the caller ends;
 * false when there is none. */
static inline bool
take_message(fixture_t *self, cadre_message_type_t type, int shard, cadre_message_t *message)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(cadre_worker_core_outbox(self->core), &entry)) {
        bool right =
            entry.type == type && (shard < 0 ? entry.destination.role == CADRE_ROLE_COORDINATOR
                                             : entry.destination.role == CADRE_ROLE_PS &&
                                                   entry.destination.index == (uint32_t)shard);
        if (right) {
            cr_assert_eq(cadre_message_decode(cadre_chunk_data(entry.header),
                                              cadre_chunk_size_bytes(entry.header), entry.chunks,
                                              entry.chunk_count, message),
                         0, "%s", cadre_error_text());
        }
        cadre_outbox_entry_fini(&entry);
        if (right) {
            return true;
        }
    }
    return false;
}

/* The same, without a look at it. */
static inline bool
sent(fixture_t *self, cadre_message_type_t type)
{
    cadre_message_t message = {0};
    bool there = take_message(self, type, -1, &message);
    cadre_message_fini(&message);
    return there;
}

static inline void
end_event(cadre_worker_event_t *event)
{
    cadre_values_fini(&event->values, event->value_count);
    cadre_holding_destroy(&event->holding);
}

/* The first event of that kind; the caller ends its values and what it releases. */
static inline bool
take_event(fixture_t *self, cadre_worker_event_kind_t kind, cadre_worker_event_t *event)
{
    while (cadre_worker_core_event(self->core, event)) {
        if (event->kind == kind) {
            return true;
        }
        end_event(event);
    }
    return false;
}

static inline bool
happened(fixture_t *self, cadre_worker_event_kind_t kind)
{
    cadre_worker_event_t event;
    const bool it_did = take_event(self, kind, &event);
    if (it_did) {
        end_event(&event);
    }
    return it_did;
}

/* The run that was started. */
static inline cadre_run_t *
started(fixture_t *self)
{
    cadre_worker_event_t event;
    return take_event(self, CADRE_WORKER_START, &event) ? event.run : NULL;
}

static inline void
drop_everything(fixture_t *self)
{
    cadre_message_t message;
    cadre_worker_event_t event;
    while (take_message(self, CADRE_MESSAGE_HELLO, -1, &message)) {
        cadre_message_fini(&message);
    }
    while (take_event(self, CADRE_WORKER_RESET, &event)) {
    }
}

static inline void
finish(fixture_t *self, cadre_run_t *run, int status)
{
    cadre_run_outcome_t outcome = {.status = status,
                                   .text = status < 0 ? "why" : "",
                                   .failure = status < 0 ? CADRE_FAILURE_USER : (cadre_failure_t)0};
    cadre_worker_core_finish(self->core, run, &outcome, self->now_ms);
}

/* --- values --- */

static inline const cadre_variable_entry_t *
variable(const fixture_t *self)
{
    return cadre_directory_variable_by_name(cadre_worker_core_directory(self->core), "w", 0,
                                            &(bool){false});
}

/* Joins, starts closure 1 and drops all messages so far. */
static inline cadre_run_t *
begin(fixture_t *self)
{
    fixture_join(self, 1, 0);
    fixture_closure(self, 1, 1);
    cadre_run_t *run = started(self);
    cr_assert_not_null(run);
    drop_everything(self);
    return run;
}

static inline void
pull(fixture_t *self, cadre_run_t *run)
{
    const cadre_wanted_t whole = {.variable = variable(self)};
    cadre_worker_core_pull(self->core, run, &whole, 1, self->now_ms);
}

static inline void
push(fixture_t *self, cadre_run_t *run)
{
    float ones[] = {1, 2, 3, 4};
    cadre_chunk_t *chunk = cadre_chunk_new_copy(ones, sizeof(ones));
    cadre_gradient_t gradient = {.variable = variable(self), .gradient = chunk};
    cadre_worker_core_push(self->core, run, &gradient, 1, self->now_ms);
    cadre_chunk_unref(&chunk);
}

/* Answers a PULL of `shard` with two elements; `values` NULL for "unchanged". */
static inline void
answer_pull(fixture_t *self, uint32_t shard, uint64_t request, uint64_t version,
            const float *values)
{
    uint64_t items[] = {version, values ? 1 : 0};
    cadre_message_t message = {.type = CADRE_MESSAGE_VALUES, .request = request};
    message.values = (cadre_values_message_t){.generation = 1, .partitions = {items, 2}};
    if (values) {
        cadre_message_add_chunk(&message, cadre_chunk_new_copy(values, 2 * sizeof(float)));
    }
    fixture_deliver(self, CADRE_ROLE_PS, shard, &message);
}

static inline void
answer_push(fixture_t *self, uint32_t shard, uint64_t request, int status)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_APPLIED, .request = request};
    message.applied = (cadre_applied_message_t){
        .generation = 1, .status = (uint64_t)-status, .text = "text", .staleness = 3 + shard};
    fixture_deliver(self, CADRE_ROLE_PS, shard, &message);
}

/* The request ids of the questions to shards 0 and 1 that are out now. */
static inline void
requests(fixture_t *self, cadre_message_type_t type, uint64_t ids[2])
{
    for (int shard = 0; shard < 2; shard++) {
        cadre_message_t message;
        cr_assert(take_message(self, type, shard, &message), "shard %d", shard);
        ids[shard] = message.request;
        cadre_message_fini(&message);
    }
}

#endif
