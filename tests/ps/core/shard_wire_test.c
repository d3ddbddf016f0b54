/* Variables that travel as bf16: what workers get and give, and that nothing else changes. */
#include <math.h>

#include "common/base/random.h"
#include "common/tensor/bf16.h"
#include "tests/ps/shard_fixture.h"

TestSuite(shard_wire, .timeout = 240);

/* The shard of open_filled_shard, with variable 1 as bf16 on the wire. */
static fixture_t
open_bf16_shard(void)
{
    uint64_t shape[2];
    fixture_t self = open_shard(NULL);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, ROWS, COLUMNS, shape);
    message.wire = CADRE_BF16;
    cr_assert_eq(create(&self, &message), 0);
    cr_assert_eq(create(&self, &message), 0, "said again");
    message.wire = 0;
    cr_assert_eq(create(&self, &message), CADRE_EEXISTS, "is another one");
    message = create_message(2, 2, 2, shape);
    cr_assert_eq(create(&self, &message), 0);
    return self;
}

static cadre_chunk_t *
new_bf16(size_t count, float value)
{
    cadre_chunk_t *wide = new_floats(count, value);
    cadre_chunk_t *chunk = cadre_chunk_new(2 * count);
    cadre_bf16_from_f32(cadre_chunk_data(wide), cadre_chunk_data(chunk), count);
    cadre_chunk_unref(&wide);
    return chunk;
}

/* A PUSH of variable 1, all `value`; `triples` has room for 3. */
static cadre_message_t
bf16_push(uint64_t update, uint64_t version, float value, uint64_t *triples)
{
    uint64_t items[] = {1, 0, version};
    memcpy(triples, items, sizeof(items));
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push = (cadre_push_message_t){
        .update = update, .attempt = 1, .generation = GENERATION, .partitions = {triples, 3}};
    cadre_message_add_chunk(&message, new_bf16(CHUNK_ROWS * COLUMNS, value));
    cadre_message_add_chunk(&message, new_bf16((ROWS - CHUNK_ROWS) * COLUMNS, value));
    return message;
}

static int
push_bf16(fixture_t *self, uint64_t update, uint64_t version, float value)
{
    uint64_t triples[3];
    cadre_message_t message = bf16_push(update, version, value, triples);
    return push(self, &message);
}

/* True when every bf16 of the two chunks is the nearest to `value`. */
static bool
all_nearest(const cadre_message_t *answer, float value)
{
    uint16_t wanted = 0;
    cadre_bf16_from_f32(&value, &wanted, 1);
    cr_assert_eq(answer->chunk_count, 2);
    cr_assert_eq(cadre_chunk_size_bytes(answer->chunks[0]), 2 * CHUNK_ROWS * COLUMNS);
    cr_assert_eq(cadre_chunk_size_bytes(answer->chunks[1]), 2 * (ROWS - CHUNK_ROWS) * COLUMNS);
    for (size_t k = 0; k < 2; k++) {
        const uint16_t *words = cadre_chunk_data(answer->chunks[k]);
        for (size_t i = 0; i < cadre_chunk_size_bytes(answer->chunks[k]) / 2; i++) {
            if (words[i] != wanted) {
                return false;
            }
        }
    }
    return true;
}

static bool
worker_sees(fixture_t *self, float value)
{
    cadre_message_t answer;
    pull(self, 1, 0, &answer);
    bool same = all_nearest(&answer, value);
    cadre_message_fini(&answer);
    return same;
}

/* What the coordinator reads: f32. */
static bool
values_are_exactly(fixture_t *self, float value)
{
    uint64_t triples[] = {1, 0, 0};
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_COORDINATOR);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .partitions = {triples, 3}};
    cadre_message_t answer;
    ask(self, &THE_COORDINATOR, &message, &answer);
    cr_assert_eq(answer.chunk_count, 2);
    cr_assert_eq(cadre_chunk_size_bytes(answer.chunks[0]), 4 * CHUNK_ROWS * COLUMNS);
    bool same = all_are(answer.chunks, answer.chunk_count, value);
    cadre_message_fini(&answer);
    return same;
}

Test(shard_wire, gives_workers_half_the_bytes_and_the_coordinator_all)
{
    fixture_t self = open_bf16_shard();
    cr_assert(worker_sees(&self, 1));
    cr_assert_eq(COUNTER(&self, pull_bytes), 2 * ROWS * COLUMNS);
    cr_assert(values_are_exactly(&self, 1));
    cr_assert_eq(COUNTER(&self, pull_bytes), (2 + 4) * ROWS * COLUMNS);
    cr_assert_eq(push_bf16(&self, 1, 0, 0.5f), 0);
    cr_assert_eq(COUNTER(&self, push_bytes), 2 * ROWS * COLUMNS);
    cr_assert(values_are_exactly(&self, 0.5f));
    close_shard(&self);
}

/* 1 - 2^-10 and so on have no place in 8 bits: a shard that kept bf16 would stay at 1. */
Test(shard_wire, keeps_and_updates_f32)
{
    fixture_t self = open_bf16_shard();
    for (uint64_t update = 1; update <= 8; update++) {
        cr_assert_eq(push_bf16(&self, update, update - 1, 0x1p-10f), 0);
        cr_assert(worker_sees(&self, 1 - (float)update * 0x1p-10f));
    }
    cr_assert(values_are_exactly(&self, 1 - 0x1p-7f));
    close_shard(&self);
}

Test(shard_wire, what_was_pulled_stays_while_updates_go_on)
{
    fixture_t self = open_bf16_shard();
    cadre_message_t answers[4];
    for (uint64_t i = 0; i < 4; i++) {
        pull(&self, 1, 0, &answers[i]);
        cr_assert_eq(answers[i].values.partitions.items[0], i);
        cr_assert_eq(push_bf16(&self, i + 1, i, 0.25f), 0);
    }
    for (uint64_t i = 0; i < 4; i++) {
        cr_assert(all_nearest(&answers[i], 1 - 0.25f * (float)i), "version %d", (int)i);
        cadre_message_fini(&answers[i]);
    }
    cr_assert(worker_sees(&self, 0));
    close_shard(&self);
}

Test(shard_wire, two_workers_share_the_copy_of_one_version)
{
    fixture_t self = open_bf16_shard();
    cadre_message_t first;
    cadre_message_t second;
    pull(&self, 1, 0, &first);
    pull(&self, 1, 0, &second);
    cr_assert_eq(cadre_chunk_data(first.chunks[0]), cadre_chunk_data(second.chunks[0]));
    cadre_message_fini(&first);
    cadre_message_fini(&second);
    close_shard(&self);
}

Test(shard_wire, answers_unchanged_and_sees_a_repeated_update)
{
    fixture_t self = open_bf16_shard();
    cadre_message_t answer;
    cr_assert_eq(push_bf16(&self, 1, 0, 0.5f), 0);
    cr_assert_eq(push_bf16(&self, 1, 0, 0.5f), CADRE_EDUPLICATE);
    pull(&self, 1, 2, &answer);
    cr_assert_eq(answer.chunk_count, 0);
    cr_assert_eq(answer.values.partitions.items[0], 1);
    cadre_message_fini(&answer);
    cr_assert(values_are_exactly(&self, 0.5f));
    close_shard(&self);
}

static void
expect_refusal(fixture_t *self, cadre_message_t *message, int status)
{
    cr_assert_eq(push(self, message), status);
    cr_assert(values_are_exactly(self, 1), "and nothing changed");
}

Test(shard_wire, refuses_what_is_not_finite_or_has_the_size_of_f32)
{
    static const uint16_t bad[] = {0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff};
    fixture_t self = open_bf16_shard();
    uint64_t triples[3];
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_message_t message = bf16_push(1, 0, 1, triples);
        ((uint16_t *)cadre_chunk_data(message.chunks[i % 2]))[(i * 7919) % 38000] = bad[i];
        expect_refusal(&self, &message, CADRE_ENOTFINITE);
    }
    cadre_message_t message = bf16_push(1, 0, 1, triples);
    for (size_t k = 0; k < 2; k++) {
        cadre_chunk_unref(&message.chunks[k]);
    }
    message.chunk_count = 0;
    add_big_gradient(&message, 1);
    expect_refusal(&self, &message, CADRE_ESHAPE);
    cr_assert_eq(COUNTER(&self, refused), CADRE_COUNT_OF(bad) + 1);
    close_shard(&self);
}

static void
assign(fixture_t *self, uint64_t sequence, float value)
{
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){
        .sequence = sequence, .generation = GENERATION, .mode = CADRE_ASSIGN_SET, .variable = 1};
    add_big_gradient(&message, value);
    cr_assert_eq(reply_to(self, &THE_COORDINATOR, &message), 0);
}

Test(shard_wire, assignments_are_f32_and_are_seen_by_the_next_pull)
{
    fixture_t self = open_bf16_shard();
    cr_assert(worker_sees(&self, 1));
    assign(&self, 1, 0.3f);
    cr_assert(values_are_exactly(&self, 0.3f));
    cr_assert(worker_sees(&self, 0.3f));
    close_shard(&self);
}

/* What a worker's pull of variable 1 is answered with. */
static int
refusal_of_pull(fixture_t *self, const char *text)
{
    cadre_message_t answer;
    pull(self, 1, 0, &answer);
    int status = -(int)answer.values.status;
    cr_assert(strstr(answer.values.text, text), "%s", answer.values.text);
    cr_assert_eq(answer.chunk_count, 0);
    cadre_message_fini(&answer);
    return status;
}

/* 0x1.FEp127 is the largest bf16; from half a step above it on stands infinity. */
Test(shard_wire, refuses_to_round_a_value_to_infinity)
{
    static const float beyond[] = {0x1.FFp127f, -3.4e38f};
    fixture_t self = open_bf16_shard();
    uint64_t sequence = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(beyond); i++) {
        assign(&self, ++sequence, beyond[i]);
        for (int again = 0; again < 2; again++) {
            cr_assert_eq(refusal_of_pull(&self, "partition 0: value"), CADRE_ENOTFINITE);
            cr_assert_eq(refusal_of_pull(&self, "wire f32"), CADRE_ENOTFINITE);
        }
        cr_assert(values_are_exactly(&self, beyond[i]), "the coordinator sees it");
        assign(&self, ++sequence, 0x1.FEFFFEp127f);
        cr_assert(worker_sees(&self, 0x1.FEp127f));
    }
    close_shard(&self);
}

/* Two pushes of what bf16 holds make infinity: with f32 on the wire the worker would see it too. */
Test(shard_wire, gives_infinity_as_infinity)
{
    fixture_t self = open_bf16_shard();
    cr_assert_eq(push_bf16(&self, 1, 0, 0x1p127f), 0);
    cr_assert(worker_sees(&self, 1 - 0x1p127f));
    cr_assert_eq(push_bf16(&self, 2, 1, 0x1p127f), 0);
    cr_assert(values_are_exactly(&self, -INFINITY));
    cr_assert(worker_sees(&self, -INFINITY));
    close_shard(&self);
}

Test(shard_wire, refuses_a_type_that_does_not_go_with_the_variable)
{
    uint64_t shape[2];
    fixture_t self = open_shard(NULL);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, 2, 2, shape);
    message.wire = CADRE_I32;
    cr_assert_eq(create(&self, &message), CADRE_EDTYPE);
    message.dtype = CADRE_I32;
    message.optimizer = CADRE_OPTIMIZER_ADD;
    message.optimizer_parameters.count = 0;
    message.wire = CADRE_BF16;
    cr_assert_eq(create(&self, &message), CADRE_EDTYPE);
    message.wire = 200;
    cr_assert_eq(create(&self, &message), CADRE_EDTYPE);
    message.wire = 0;
    cr_assert_eq(create(&self, &message), 0, "%s", cadre_error_text());
    close_shard(&self);
}

/* --- the optimizers, over several spans of one chunk --- */

enum { LONG = 10007 };

static cadre_partition_t *
open_partition(const char *optimizer, cadre_dtype_t wire, cadre_chunk_pool_t *pool)
{
    cadre_partition_spec_t spec = {
        .variable = 1, .dtype = CADRE_F32, .wire = wire, .rank = 1, .shape = {LONG}, .rows = LONG};
    cadre_partition_t *partition = NULL;
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "normal"), 0);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizer), 0);
    cr_assert_eq(cadre_partition_open(&partition, &spec, pool), 0, "%s", cadre_error_text());
    return partition;
}

static void
expect_same(cadre_partition_t *left, cadre_partition_t *right, const char *optimizer)
{
    cadre_partition_snapshot_t a;
    cadre_partition_snapshot_t b;
    cadre_partition_snapshot(left, &a);
    cadre_partition_snapshot(right, &b);
    cr_assert(a.version == b.version && a.steps == b.steps && a.slot_count == b.slot_count);
    cr_assert_arr_eq(cadre_chunk_data(a.values[0]), cadre_chunk_data(b.values[0]), 4 * LONG, "%s",
                     optimizer);
    for (size_t slot = 0; slot < a.slot_count; slot++) {
        cr_assert_arr_eq(cadre_chunk_data(a.slots[slot][0]), cadre_chunk_data(b.slots[slot][0]),
                         4 * LONG, "%s, slot %zu", optimizer, slot);
    }
    cadre_partition_snapshot_fini(&a);
    cadre_partition_snapshot_fini(&b);
}

Test(shard_wire, every_optimizer_sees_the_gradient_in_f32)
{
    static const char *const optimizers[] = {
        "sgd",  "momentum", "nesterov", "adagrad", "rmsprop",
        "adam", "adamw",    "ftrl",     "add",     "delayed_nesterov"};
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    for (size_t o = 0; o < CADRE_COUNT_OF(optimizers); o++) {
        cadre_partition_t *in_bf16 = open_partition(optimizers[o], CADRE_BF16, pool);
        cadre_partition_t *wide = open_partition(optimizers[o], 0, pool);
        for (uint64_t step = 0; step < 3; step++) {
            cadre_chunk_t *gradient = cadre_chunk_new(4 * LONG);
            cadre_chunk_t *words = cadre_chunk_new(2 * LONG);
            float *numbers = cadre_chunk_data(gradient);
            for (size_t i = 0; i < LONG; i++) {
                uint32_t block[4];
                cadre_random_block(11, step, i, block);
                numbers[i] = (float)(int32_t)block[0] * 0x1p-31f;
            }
            cr_assert(cadre_bf16_from_f32(numbers, cadre_chunk_data(words), LONG));
            cadre_bf16_to_f32(cadre_chunk_data(words), numbers, LONG);
            cr_assert_eq(cadre_partition_check_gradient(in_bf16, &words, 1), 0);
            cr_assert_eq(cadre_partition_check_gradient(wide, &gradient, 1), 0);
            cadre_partition_apply(in_bf16, &words);
            cadre_partition_apply(wide, &gradient);
            cadre_chunk_unref(&gradient);
            cadre_chunk_unref(&words);
            expect_same(in_bf16, wide, optimizers[o]);
        }
        cadre_partition_close(&in_bf16);
        cadre_partition_close(&wide);
    }
    cadre_chunk_pool_destroy(&pool);
}

/* The copy for the wire counts: 4 bytes of value, 2 of copy. */
Test(shard_wire, the_copy_is_part_of_what_a_shard_may_hold)
{
    uint64_t shape[2];
    cadre_shard_options_t options = {.incarnation = PS, .size_bytes_max = 6 << 10};
    fixture_t self = {.request = 100};
    self.shard = cadre_shard_new(&options);
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, 1, 1025, shape);
    message.wire = CADRE_BF16;
    cr_assert_eq(create(&self, &message), CADRE_EFULL);
    message = create_message(1, 1, 1024, shape);
    message.wire = CADRE_BF16;
    cr_assert_eq(create(&self, &message), 0);
    close_shard(&self);
}
