/* A variable that travels as bf16, by the core: what messages carry, and what is refused. */
#include "common/tensor/bf16.h"
#include "tests/worker/recovery_fixture.h"

TestSuite(worker_wire, .timeout = 240);

static void
enter(fixture_t *self, uint32_t slots)
{
    fixture_init(self, slots, 0);
    cadre_worker_core_connected(self->core, self->now_ms);
    fixture_welcome(self);
}

/* "w", half of it on each shard, bf16 on the wire. */
static void
tell_variable(fixture_t *self, cadre_dtype_t dtype, const uint64_t *shape, size_t rank)
{
    static const uint64_t shards[] = {0, 1};
    cadre_message_t message = {.type = CADRE_MESSAGE_VARIABLE};
    message.variable = (cadre_variable_message_t){.id = 1,
                                                  .name = "w",
                                                  .dtype = dtype,
                                                  .wire = CADRE_BF16,
                                                  .shape = {shape, rank},
                                                  .partitions = 2,
                                                  .shards = {shards, 2}};
    fixture_tell(self, message);
}

static void
join(fixture_t *self, uint32_t slots, uint64_t rows)
{
    enter(self, slots);
    fixture_shard(self, 0, FIXTURE_PS, 1);
    fixture_shard(self, 1, FIXTURE_PS + 1, 1);
    tell_variable(self, CADRE_F32, &rows, 1);
    fixture_function(self);
}

static cadre_run_t *
begin_bf16(fixture_t *self)
{
    join(self, 1, 4);
    fixture_closure(self, 1, 1);
    cadre_run_t *run = started(self);
    cr_assert_not_null(run);
    drop_everything(self);
    return run;
}

/* Answers a PULL with `count` numbers as bf16. */
static void
answer_bf16(fixture_t *self, uint32_t shard, uint64_t request, const float *values, size_t count)
{
    uint64_t items[] = {8, 1};
    cadre_message_t message = {.type = CADRE_MESSAGE_VALUES, .request = request};
    message.values = (cadre_values_message_t){.generation = 1, .partitions = {items, 2}};
    cadre_chunk_t *chunk = cadre_chunk_new(2 * count);
    cadre_bf16_from_f32(values, cadre_chunk_data(chunk), count);
    cadre_message_add_chunk(&message, chunk);
    fixture_deliver(self, CADRE_ROLE_PS, shard, &message);
}

Test(worker_wire, joins_a_pulled_variable_as_it_came)
{
    static const float numbers[] = {1, 2, 3, 4};
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin_bf16(&self);
    ask_pull(&self, run, ids);
    answer_bf16(&self, 1, ids[1], numbers + 2, 2);
    answer_bf16(&self, 0, ids[0], numbers, 2);
    cadre_worker_event_t event = expect_ended(&self, CADRE_WORKER_VALUES, 0);
    cr_assert_eq(event.value_count, 1);
    cr_assert_eq(event.values[0].chunk_count, 2);
    cr_expect_eq(event.values[0].size_bytes, 8);
    float wide[4];
    cadre_bf16_to_f32(cadre_chunk_data(event.values[0].chunks[0]), wide, 2);
    cadre_bf16_to_f32(cadre_chunk_data(event.values[0].chunks[1]), wide + 2, 2);
    cr_expect_arr_eq(wide, numbers, sizeof(numbers));
    cadre_values_fini(&event.values, event.value_count);
    fixture_fini(&self);
}

Test(worker_wire, takes_no_f32_for_an_answer)
{
    static const float numbers[] = {5, 6};
    fixture_t self;
    uint64_t ids[2];
    cadre_run_t *run = begin_bf16(&self);
    ask_pull(&self, run, ids);
    answer_pull(&self, 0, ids[0], 8, numbers);
    answer_bf16(&self, 1, ids[1], numbers, 2);
    expect_ended(&self, CADRE_WORKER_VALUES, CADRE_EMALFORMED);
    fixture_fini(&self);
}

Test(worker_wire, cuts_an_update_into_chunks_of_half_the_bytes)
{
    static const float numbers[] = {1, 2, 3, 4};
    fixture_t self;
    cadre_run_t *run = begin_bf16(&self);
    cadre_chunk_t *chunk = cadre_chunk_new(sizeof(numbers) / 2);
    cr_assert(cadre_bf16_from_f32(numbers, cadre_chunk_data(chunk), 4));
    cadre_gradient_t gradient = {.variable = variable(&self), .gradient = chunk};
    cadre_worker_core_push(self.core, run, &gradient, 1, self.now_ms);
    for (int shard = 0; shard < 2; shard++) {
        cadre_message_t message;
        cr_assert(take_message(&self, CADRE_MESSAGE_PUSH, shard, &message));
        cr_assert_eq(message.chunk_count, 1);
        cr_assert_eq(cadre_chunk_size_bytes(message.chunks[0]), 4);
        cr_expect_arr_eq(cadre_chunk_data(message.chunks[0]),
                         (char *)cadre_chunk_data(chunk) + 4 * (size_t)shard, 4);
        cadre_message_fini(&message);
    }
    cadre_chunk_unref(&chunk);
    fixture_fini(&self);
}

Test(worker_wire, refuses_a_gradient_of_f32)
{
    fixture_t self;
    cadre_run_t *run = begin_bf16(&self);
    push(&self, run);
    expect_ended(&self, CADRE_WORKER_PUSHED, CADRE_ESHAPE);
    fixture_fini(&self);
}

/* Rows that are larger than a chunk, and a partition of several chunks. */
Test(worker_wire, cuts_where_f32_would_be_cut)
{
    enum { ROW = 300000, ROWS = 5 };
    fixture_t self;
    enter(&self, 1);
    tell_variable(&self, CADRE_F32, (uint64_t[]){ROWS, ROW}, 2);
    const cadre_variable_entry_t *w = variable(&self);
    for (uint32_t part = 0; part < 2; part++) {
        cadre_chunk_layout_t wide;
        cadre_chunk_layout_t on_wire = cadre_variable_entry_layout(w, part);
        cr_assert_eq(cadre_chunk_layout_init(&wide, part == 0 ? 3 : 2, sizeof(float) * ROW), 0);
        cr_assert_eq(on_wire.count, wide.count);
        for (size_t k = 0; k < wide.count; k++) {
            cr_assert_eq(2 * cadre_chunk_layout_size(&on_wire, k),
                         cadre_chunk_layout_size(&wide, k));
        }
    }
    fixture_fini(&self);
}

/* 40 MiB of f32 on each shard are 20 on the wire: three of them fit the credit of 64 MiB. */
Test(worker_wire, counts_its_credit_in_bytes_of_the_wire)
{
    fixture_t self;
    join(&self, 4, 2 * (40 << 20) / sizeof(float));
    cadre_run_t *runs[4];
    for (uint64_t i = 0; i < 4; i++) {
        fixture_closure(&self, i + 1, 1);
        runs[i] = started(&self);
        cr_assert_not_null(runs[i]);
    }
    drop_everything(&self);
    for (int i = 0; i < 4; i++) {
        cadre_message_t message;
        pull(&self, runs[i]);
        bool asked = take_message(&self, CADRE_MESSAGE_PULL, 0, &message);
        cr_expect_eq(asked, i < 3, "pull %d", i);
        if (asked) {
            cadre_message_fini(&message);
        }
    }
    fixture_fini(&self);
}

Test(worker_wire, takes_no_variable_whose_types_do_not_go_together)
{
    fixture_t self;
    enter(&self, 1);
    tell_variable(&self, CADRE_I32, (uint64_t[]){4}, 1);
    cr_expect_null(variable(&self));
    fixture_fini(&self);
}
