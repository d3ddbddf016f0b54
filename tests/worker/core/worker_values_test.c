#include "worker/core/worker_values.h"

#include "tests/worker/recovery_fixture.h"

TestSuite(worker_values, .timeout = 240);

Test(worker_values, joins_a_pulled_variable_in_order)
{
    fixture_t self;
    uint64_t ids[2];
    begin_pull(&self, ids);
    const float first[] = {1, 2};
    const float second[] = {3, 4};
    answer_pull(&self, 1, ids[1], 9, second);
    cr_expect_not(happened(&self, CADRE_WORKER_VALUES), "shard 0 has not answered");
    answer_pull(&self, 0, ids[0], 8, first);
    cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, 0);
    cr_assert_eq(event.value_count, 1);
    cr_assert_eq(event.values[0].chunk_count, 2);
    cr_expect_eq(event.values[0].size_bytes, 4 * sizeof(float));
    cr_expect_arr_eq(cadre_chunk_data(event.values[0].chunks[0]), first, sizeof(first));
    cr_expect_arr_eq(cadre_chunk_data(event.values[0].chunks[1]), second, sizeof(second));
    cadre_values_fini(&event.values, event.value_count);
    fixture_fini(&self);
}

Test(worker_values, says_what_it_holds_and_takes_unchanged_for_an_answer)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const float values[] = {5, 6};
    pull_well(&self, run);
    pull(&self, run);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message));
    cr_expect_eq(message.pull.partitions.items[2], 9, "version 8, plus one");
    answer_pull(&self, 0, message.request, 8, NULL);
    cadre_message_fini(&message);
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 1, &message));
    answer_pull(&self, 1, message.request, 9, values);
    cadre_message_fini(&message);
    cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, 0);
    cr_assert_eq(event.value_count, 1);
    cr_expect_arr_eq(cadre_chunk_data(event.values[0].chunks[0]), values, sizeof(values));
    cadre_values_fini(&event.values, event.value_count);
    fixture_fini(&self);
}

Test(worker_values, fails_a_pull_whose_answer_does_not_fit)
{
    fixture_t self;
    uint64_t ids[2];
    begin_pull(&self, ids);
    answer_pull(&self, 0, ids[0], 8, NULL); /* "unchanged", but nothing is held */
    const float values[] = {5, 6};
    answer_pull(&self, 1, ids[1], 8, values);
    cr_expect_null(expect_ended(&self, CADRE_WORKER_VALUES, CADRE_EMALFORMED).values);
    fixture_fini(&self);
}

Test(worker_values, cuts_an_update_by_shard_and_says_what_it_was_computed_from)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    uint64_t ids[2];
    pull_versions(&self, run, 8, 11);
    push(&self, run);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message));
    cr_expect_eq(message.push.update, 1, "the closure's id");
    cr_expect_eq(message.push.generation, 1);
    cr_expect_eq(message.push.partitions.items[2], 8, "the version pulled");
    const float first[] = {1, 2};
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[0]), first, sizeof(first));
    ids[0] = message.request;
    cadre_message_fini(&message);
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 1, &message));
    cr_expect_eq(message.push.partitions.items[1], 1);
    cr_expect_eq(message.push.partitions.items[2], 11);
    const float second[] = {3, 4};
    cr_expect_arr_eq(cadre_chunk_data(message.chunks[0]), second, sizeof(second));
    ids[1] = message.request;
    cadre_message_fini(&message);
    answer_push(&self, 0, ids[0], 0);
    cr_expect_not(happened(&self, CADRE_WORKER_PUSHED));
    answer_push(&self, 1, ids[1], 0);
    cr_expect(happened(&self, CADRE_WORKER_PUSHED));
    finish(&self, run, 0);
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_DONE, -1, &message));
    cr_expect_eq(message.closure_done.updates, 2);
    cr_expect_eq(message.closure_done.staleness, 4, "the largest");
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_values, takes_duplicate_for_success_and_pushes_once_however_long_it_takes)
{
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin_push(&self, ids);
    cadre_message_t message;
    for (int i = 0; i < 40; i++) {
        fixture_pass(&self, 100);
        while (take_message(&self, CADRE_MESSAGE_PUSH, 0, &message)) {
            cr_expect_fail("nothing was lost");
            cadre_message_fini(&message);
        }
    }
    answer_push(&self, 0, ids[0], CADRE_EDUPLICATE);
    answer_push(&self, 0, ids[0], 0); /* another one */
    cr_expect_not(happened(&self, CADRE_WORKER_PUSHED));
    answer_push(&self, 1, ids[1], 0);
    expect_ended(&self, CADRE_WORKER_PUSHED, 0);
    finish(&self, run, 0);
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_DONE, -1, &message));
    cr_expect_eq(message.closure_done.updates, 1);
    cr_expect_eq(message.closure_done.duplicates, 1);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

/* Waits for a PROBE to shard 0; its number. It must ask after this request and update. */
static uint64_t
expect_probe(fixture_t *self, uint64_t request, uint64_t update)
{
    cadre_message_t message;
    fixture_pass(self, 2 * CADRE_PROBE_MS);
    cr_assert(take_message(self, CADRE_MESSAGE_PROBE, 0, &message));
    cr_assert_eq(message.probe.requests.count, 3);
    cr_expect_eq(message.probe.requests.items[0], request);
    cr_expect_eq(message.probe.requests.items[1], update);
    cr_expect_eq(message.probe.requests.items[2], 0);
    cr_expect_eq(message.probe.generation, 1);
    uint64_t number = message.request;
    cadre_message_fini(&message);
    return number;
}

static void
answer_probe(fixture_t *self, uint64_t number, uint64_t request, cadre_probed_t state)
{
    uint64_t states[] = {request, state};
    cadre_message_t message = {.type = CADRE_MESSAGE_PROBED, .request = number};
    message.probed.states = (cadre_u64s_t){states, 2};
    fixture_deliver(self, CADRE_ROLE_PS, 0, &message);
}

static void
keep_in_touch(fixture_t *self)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    cadre_message_t ack = {.type = CADRE_MESSAGE_ACK, .request = message.request};
    cadre_message_fini(&message);
    fixture_tell(self, ack);
}

Test(worker_values, pushes_again_under_the_same_id_what_a_probe_finds_lost)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    uint64_t number = expect_probe(&self, ids[0], 1);
    answer_probe(&self, number, ids[0], CADRE_PROBED_QUEUED);
    cadre_message_t message;
    cr_expect_not(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message), "it waits there");
    number = expect_probe(&self, ids[0], 1);
    answer_probe(&self, number, ids[0], CADRE_PROBED_UNKNOWN);
    cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message));
    cr_expect_eq(message.push.update, 1);
    cr_expect_eq(message.request, ids[0]);
    cr_expect_eq(message.chunk_count, 1);
    cadre_message_fini(&message);
    answer_probe(&self, number, ids[0], CADRE_PROBED_UNKNOWN);
    cr_expect_not(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message), "that was old news");
    answer_push(&self, 0, ids[0], 0);
    answer_push(&self, 1, ids[1], 0);
    expect_ended(&self, CADRE_WORKER_PUSHED, 0);
    fixture_fini(&self);
}

Test(worker_values, pushes_nothing_again_that_is_applied)
{
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin_push(&self, ids);
    uint64_t number = expect_probe(&self, ids[0], 1);
    answer_probe(&self, number, ids[0], CADRE_PROBED_APPLIED);
    answer_push(&self, 1, ids[1], 0);
    expect_ended(&self, CADRE_WORKER_PUSHED, 0);
    finish(&self, run, 0);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_CLOSURE_DONE, -1, &message));
    cr_expect_eq(message.closure_done.updates, 1);
    cr_expect_eq(message.closure_done.duplicates, 1);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_values, retransmits_nothing_while_it_is_out_of_touch)
{
    fixture_t self;
    uint64_t ids[2];
    begin_push(&self, ids);
    fixture_pass(&self, CADRE_PROBE_MS);
    keep_in_touch(&self);
    uint64_t number = 0;
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PROBE, 0, &message));
    number = message.request;
    cadre_message_fini(&message);
    self.now_ms += FIXTURE_LEASE_MS;
    answer_probe(&self, number, ids[0], CADRE_PROBED_UNKNOWN);
    cr_expect_not(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message));
    fixture_fini(&self);
}

Test(worker_values, a_refused_push_fails_the_closure_and_a_fenced_one_is_run_again)
{
    const int statuses[] = {CADRE_ENOTFINITE, CADRE_EFENCED};
    const cadre_failure_t failures[] = {CADRE_FAILURE_USER, CADRE_FAILURE_SHARD};
    for (size_t i = 0; i < 2; i++) {
        fixture_t self;
        uint64_t ids[2];
        cadre_run_t *run = begin_push(&self, ids);
        answer_push(&self, 0, ids[0], 0);
        answer_push(&self, 1, ids[1], statuses[i]);
        cr_expect_str_eq(expect_ended(&self, CADRE_WORKER_PUSHED, statuses[i]).text, "ps 1: text");
        cr_expect_eq(run->failure, failures[i]);
        fixture_fini(&self);
    }
}

Test(worker_values, a_cancelled_closure_pushes_nothing)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    fixture_cancel(&self, 1);
    push(&self, run);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_ECANCELLED);
    cadre_message_t message;
    cr_expect_not(take_message(&self, CADRE_MESSAGE_PUSH, 0, &message));
    fixture_fini(&self);
}

Test(worker_values, refuses_more_steps_than_were_reserved)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    push_well(&self, run);
    push(&self, run);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_EFULL); /* its id would be another closure's */
    fixture_fini(&self);
}

Test(worker_values, fails_what_was_asked_of_a_shard_that_is_replaced)
{
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin_push(&self, ids);
    answer_push(&self, 0, ids[0], 0);
    fixture_shard(&self, 1, NEW_PS, 2);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_EUNAVAILABLE);
    cr_expect_eq(run->failure, CADRE_FAILURE_SHARD);
    answer_push(&self, 1, ids[1], 0); /* of the shard before: nobody waits for it */
    cr_expect_not(happened(&self, CADRE_WORKER_PUSHED));
    fixture_fini(&self);
}

Test(worker_values, keeps_nothing_of_a_shard_that_was_restored)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    pull_well(&self, run);
    fixture_shard(&self, 0, FIXTURE_PS, 2);
    finish(&self, run, 0);
    fixture_closure(&self, 2, 1);
    run = started(&self);
    drop_everything(&self);
    pull(&self, run);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message));
    cr_expect_eq(message.pull.generation, 2);
    cr_expect_eq(message.pull.partitions.items[2], 0, "as if nothing were held");
    cadre_message_fini(&message);
    fixture_fini(&self);
}

Test(worker_values, keeps_at_most_its_credit_in_flight_to_a_shard)
{
    fixture_t self;
    fixture_init(&self, 2, 0);
    cadre_worker_core_connected(self.core, self.now_ms);
    fixture_welcome(&self);
    fixture_shard(&self, 0, FIXTURE_PS, 1);
    fixture_shard(&self, 1, FIXTURE_PS + 1, 1);
    /* Half of it, 40 MiB, on each shard: two pulls are over the credit of 64 MiB. */
    fixture_variable(&self, 2 * (40 << 20) / sizeof(float));
    fixture_function(&self);
    fixture_closure(&self, 1, 1);
    fixture_closure(&self, 2, 1);
    cadre_run_t *first = started(&self);
    cadre_run_t *second = started(&self);
    drop_everything(&self);
    pull(&self, first);
    pull(&self, second);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message));
    uint64_t request = message.request;
    cadre_message_fini(&message);
    cr_expect_not(take_message(&self, CADRE_MESSAGE_PULL, 0, &message), "it waits its turn");
    cadre_message_t refusal = {.type = CADRE_MESSAGE_VALUES, .request = request};
    refusal.values = (cadre_values_message_t){.status = (uint64_t)-CADRE_ENOTFOUND, .text = "no"};
    fixture_deliver(&self, CADRE_ROLE_PS, 0, &refusal);
    cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message), "now there is room");
    cadre_message_fini(&message);
    fixture_fini(&self);
}

/* A pull by `run`, answered with version and value of each shard, NULL for "unchanged"; the number
 * of the content. */
static uint64_t
content_of(fixture_t *self, cadre_run_t *run, const uint64_t versions[2],
           const float *const values[2])
{
    uint64_t ids[2];
    ask_pull(self, run, ids);
    for (uint32_t i = 0; i < 2; i++) {
        answer_pull(self, i, ids[i], versions[i], values[i]);
    }
    cadre_worker_event_t event = expect_ended(self, CADRE_WORKER_VALUES, 0);
    uint64_t content = event.values[0].content;
    cadre_values_fini(&event.values, event.value_count);
    return content;
}

Test(worker_values, unchanged_answers_count_no_bytes_and_keep_the_number_of_the_content)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const float values[] = {5, 6};
    uint64_t first = content_of(&self, run, (uint64_t[]){8, 9}, (const float *[]){values, values});
    cr_expect_neq(first, 0);
    cr_expect_eq(run->received_bytes, 2 * sizeof(values));
    cr_expect_eq(content_of(&self, run, (uint64_t[]){8, 9}, (const float *[]){NULL, NULL}), first);
    cr_expect_eq(run->received_bytes, 0);
    uint64_t moved = content_of(&self, run, (uint64_t[]){8, 10}, (const float *[]){NULL, values});
    cr_expect_gt(moved, first);
    cr_expect_eq(run->received_bytes, sizeof(values));
    finish(&self, run, 0);
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_HEARTBEAT, -1, &message));
    cr_expect_eq(message.heartbeat.counters.items[CADRE_WORKER_COUNTER_pull_bytes],
                 3 * sizeof(values));
    cadre_message_fini(&message);
    fixture_fini(&self);
}

enum { MANY = 2 * CADRE_PARTITIONS_PER_UPDATE_MAX + 2 };

/* Variable "many", one element in each of its partitions, all on shard 0. */
static const cadre_variable_entry_t *
define_many(fixture_t *self)
{
    static const uint64_t rows = MANY;
    static const uint64_t shards[MANY];
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 2,
                                                  .name = "many",
                                                  .dtype = CADRE_F32,
                                                  .shape = {&rows, 1},
                                                  .partitions = MANY,
                                                  .shards = {shards, MANY}};
    fixture_tell(self, message);
    return cadre_directory_variable_by_name(cadre_worker_core_directory(self->core), "many", 0,
                                            &(bool){false});
}

Test(worker_values, pulls_more_partitions_than_a_message_holds_in_several)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *many = define_many(&self);
    static uint64_t pairs[2 * CADRE_PARTITIONS_PER_UPDATE_MAX];
    cr_assert_not_null(many);
    cadre_worker_core_pull(self.core, run, &(cadre_wanted_t){.variable = many}, 1, self.now_ms);
    float value = 0;
    cadre_message_t message;
    for (size_t first = 0; first < MANY; first += CADRE_PARTITIONS_PER_UPDATE_MAX) {
        cr_assert(take_message(&self, CADRE_MESSAGE_PULL, 0, &message), "from %zu on", first);
        size_t count = message.pull.partitions.count / 3;
        cr_expect_eq(message.pull.partitions.items[1], first);
        cr_expect_eq(count, first + CADRE_PARTITIONS_PER_UPDATE_MAX < MANY
                                ? (size_t)CADRE_PARTITIONS_PER_UPDATE_MAX
                                : MANY - first);
        cadre_message_t answer = {.type = CADRE_MESSAGE_VALUES, .request = message.request};
        for (size_t i = 0; i < count; i++, value++) {
            pairs[2 * i] = 5;
            pairs[2 * i + 1] = 1;
            cadre_message_add_chunk(&answer, cadre_chunk_new_copy(&value, sizeof(value)));
        }
        answer.values = (cadre_values_message_t){.generation = 1, .partitions = {pairs, 2 * count}};
        cadre_message_fini(&message);
        fixture_deliver(&self, CADRE_ROLE_PS, 0, &answer);
    }
    cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, 0);
    cr_assert_eq(event.values[0].chunk_count, MANY);
    for (size_t i = 0; i < MANY; i++) {
        cr_assert_eq(*(const float *)cadre_chunk_data(event.values[0].chunks[i]), (float)i);
    }
    cadre_values_fini(&event.values, event.value_count);
    fixture_fini(&self);
}

/* Expects that shard 0 is asked for room for so much, and gives it; the request. */
static uint64_t
grant(fixture_t *self, uint64_t size_bytes)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_RESERVE, 0, &message));
    cr_expect_eq(message.reserve.update, 1);
    cr_expect_eq(message.reserve.generation, 1);
    cr_expect_eq(message.reserve.size_bytes, size_bytes);
    uint64_t request = message.request;
    cadre_message_fini(&message);
    cr_expect_not(take_message(self, CADRE_MESSAGE_PUSH, 0, &message), "there is no room yet");
    cadre_message_t answer = {.type = CADRE_MESSAGE_GRANT, .request = request};
    fixture_deliver(self, CADRE_ROLE_PS, 0, &answer);
    return request;
}

/* Takes the parts of the PUSH that go out; how many partitions and bytes they hold together. */
static size_t
take_parts(fixture_t *self, uint64_t request, size_t *partitions, size_t *size_bytes)
{
    cadre_message_t message;
    size_t parts = 0;
    *partitions = *size_bytes = 0;
    while (take_message(self, CADRE_MESSAGE_PUSH, 0, &message)) {
        cr_expect_eq(message.request, request);
        cr_expect_eq(message.push.update, 1);
        cr_expect_eq(message.push.part, parts);
        parts++;
        *partitions += message.push.partitions.count / 3;
        for (size_t i = 0; i < message.chunk_count; i++) {
            *size_bytes += cadre_chunk_size_bytes(message.chunks[i]);
        }
        bool is_last = message.push.part + 1 == message.push.parts;
        cadre_message_fini(&message);
        if (is_last) {
            return parts;
        }
    }
    return 0;
}

static void
end_push(fixture_t *self, uint64_t request)
{
    cadre_message_t applied = {.type = CADRE_MESSAGE_APPLIED, .request = request};
    applied.applied = (cadre_applied_message_t){.update = 1, .generation = 1, .text = ""};
    fixture_deliver(self, CADRE_ROLE_PS, 0, &applied);
    expect_ended(self, CADRE_WORKER_PUSHED, 0);
}

/* A push of "many", which the shard has granted; its request. */
static uint64_t
begin_push_of_many(fixture_t *self)
{
    cadre_run_t *run = begin(self);
    const cadre_variable_entry_t *many = define_many(self);
    cadre_chunk_t *chunk = cadre_chunk_new(MANY * sizeof(float));
    cadre_gradient_t gradient = {.variable = many, .gradient = chunk};
    cadre_worker_core_push(self->core, run, &gradient, 1, self->now_ms);
    cadre_chunk_unref(&chunk);
    return grant(self, MANY * sizeof(float));
}

Test(worker_values, pushes_what_no_message_holds_in_parts)
{
    fixture_t self;
    size_t partitions = 0;
    size_t size_bytes = 0;
    uint64_t request = begin_push_of_many(&self);
    cr_expect_eq(take_parts(&self, request, &partitions, &size_bytes), 3);
    cr_expect_eq(partitions, MANY);
    cr_expect_eq(size_bytes, MANY * sizeof(float));
    end_push(&self, request);
    fixture_fini(&self);
}

Test(worker_values, pushes_more_chunks_than_a_message_holds_in_parts)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    static const uint64_t shards[2];
    const uint64_t shape[] = {2 * 3000, CADRE_CHUNK_SIZE_MAX / sizeof(float)};
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 2,
                                                  .name = "big",
                                                  .dtype = CADRE_F32,
                                                  .shape = {shape, 2},
                                                  .partitions = 2,
                                                  .shards = {shards, 2}};
    fixture_tell(&self, message);
    size_t bytes = (size_t)shape[0] * CADRE_CHUNK_SIZE_MAX;
    cadre_chunk_t *chunk = cadre_chunk_new_foreign(&self, bytes, NULL, NULL); /* never read */
    cadre_gradient_t gradient = {
        .variable = cadre_directory_variable_by_name(cadre_worker_core_directory(self.core), "big",
                                                     0, &(bool){false}),
        .gradient = chunk};
    cadre_worker_core_push(self.core, run, &gradient, 1, self.now_ms);
    size_t partitions = 0;
    size_t size_bytes = 0;
    uint64_t request = grant(&self, bytes);
    cr_expect_eq(take_parts(&self, request, &partitions, &size_bytes),
                 bytes / CADRE_PUSH_PART_SIZE);
    cr_expect_eq(partitions, 2);
    cr_expect_eq(size_bytes, bytes);
    end_push(&self, request);
    cadre_chunk_unref(&chunk);
    fixture_fini(&self);
}

Test(worker_values, asks_for_room_again_when_parts_were_lost_and_gives_back_what_it_does_not_need)
{
    fixture_t self;
    size_t partitions = 0;
    size_t size_bytes = 0;
    uint64_t request = begin_push_of_many(&self);
    take_parts(&self, request, &partitions, &size_bytes);
    answer_probe(&self, expect_probe(&self, request, 1), request, CADRE_PROBED_QUEUED);
    grant(&self, MANY * sizeof(float)); /* the shard has not had the first part */
    cr_expect_eq(take_parts(&self, request, &partitions, &size_bytes), 3);
    end_push(&self, request);
    cadre_message_t late = {.type = CADRE_MESSAGE_GRANT, .request = request};
    fixture_deliver(&self, CADRE_ROLE_PS, 0, &late);
    cadre_message_t message;
    cr_assert(take_message(&self, CADRE_MESSAGE_RESERVE, 0, &message));
    cr_expect_eq(message.request, request);
    cr_expect_eq(message.reserve.size_bytes, 0);
    cadre_message_fini(&message);
    fixture_fini(&self);
}

/* Expects that shard 0 is told that the room for a PUSH is not needed. */
static void
expect_release(fixture_t *self, uint64_t request)
{
    cadre_message_t message;
    cr_assert(take_message(self, CADRE_MESSAGE_RESERVE, 0, &message));
    cr_expect_eq(message.request, request);
    cr_expect_eq(message.reserve.size_bytes, 0);
    cadre_message_fini(&message);
}

Test(worker_values, keeps_no_room_from_others_while_it_is_out_of_touch)
{
    fixture_t self;
    cadre_run_t *run = begin(&self);
    const cadre_variable_entry_t *many = define_many(&self);
    cadre_chunk_t *chunk = cadre_chunk_new(MANY * sizeof(float));
    cadre_gradient_t gradient = {.variable = many, .gradient = chunk};
    fixture_pass(&self, FIXTURE_HEARTBEAT_MS);
    keep_in_touch(&self);
    cadre_worker_core_push(self.core, run, &gradient, 1, self.now_ms);
    cadre_chunk_unref(&chunk);
    self.now_ms += FIXTURE_LEASE_MS;
    uint64_t request = grant(&self, MANY * sizeof(float));
    expect_release(&self, request);
    fixture_pass(&self, 1);
    cadre_message_t hello;
    cr_assert(take_message(&self, CADRE_MESSAGE_HELLO, -1, &hello));
    fixture_welcome_as(&self, hello.request);
    cadre_message_fini(&hello);
    answer_probe(&self, expect_probe(&self, request, 1), request, CADRE_PROBED_UNKNOWN);
    cr_expect_eq(grant(&self, MANY * sizeof(float)), request, "it asks again");
    size_t partitions = 0;
    size_t size_bytes = 0;
    cr_expect_eq(take_parts(&self, request, &partitions, &size_bytes), 3);
    end_push(&self, request);
    fixture_fini(&self);
}
