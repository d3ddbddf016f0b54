/*
 * Updates of some rows of a partition are those of all of it with zeros elsewhere: shards that get
 * the one and the other have the same bits.
 */
#include "ps/core/row_gradient.h"

#include <math.h>
#include <stdio.h>

#include "common/base/random.h"
#include "common/tensor/dtype.h"
#include "common/wire/record_list.h"
#include "tests/ps/shard_fixture.h"

TestSuite(row_gradient, .timeout = 240);

/* Variable 1 has 600 rows in three partitions, of which this shard has the middle one. */
enum { FIRST = 200, COUNT = 200, ALL = 600, WIDTH = 3, ROWS_MAX = 40 };

typedef struct {
    cadre_optimizer_kind_t optimizer;
    cadre_dtype_t wire; /* CADRE_F32: the variable's own */
    double clip;
    double average;
    bool is_full; /* parameters that are 0 by default have a number, too */
    bool is_lazy;
} kind_t;

/* Fills in parameters of an optimizer; returns how many it has. */
static size_t
parameters_of(const kind_t *kind, double *out)
{
    const cadre_parameter_t *table = NULL;
    cadre_optimizer_spec_t spec;
    cr_assert_eq(cadre_optimizer_spec_parse(&spec, cadre_optimizer_kind_text(kind->optimizer)), 0);
    const size_t count = cadre_optimizer_parameters(kind->optimizer, &table);
    for (size_t i = 0; i < count; i++) {
        out[i] = kind->is_full && spec.parameters[i] == 0 ? 0.25 : spec.parameters[i];
    }
    if (count > 0) {
        out[CADRE_LEARNING_RATE] = 0.1;
    }
    if (kind->optimizer == CADRE_OPTIMIZER_RMSPROP && kind->is_full) {
        out[CADRE_RMSPROP_CENTERED] = 1;
    }
    return count;
}

static fixture_t
open_with(const kind_t *kind)
{
    static const double constant[] = {0.5};
    double parameters[CADRE_OPTIMIZER_PARAMETERS_MAX];
    const size_t parameter_count = parameters_of(kind, parameters);
    const uint64_t shape[] = {ALL, WIDTH};
    fixture_t self = open_shard(NULL);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    const cadre_create_message_t message = {.variable = 1,
                                            .name = "rows",
                                            .partition = 1,
                                            .partitions = 3,
                                            .dtype = CADRE_F32,
                                            .wire = kind->wire == CADRE_F32 ? 0 : kind->wire,
                                            .shape = {shape, 2},
                                            .first_row = FIRST,
                                            .rows = COUNT,
                                            .initializer = CADRE_INITIALIZER_CONSTANT,
                                            .initializer_parameters = {constant, 1},
                                            .optimizer = kind->optimizer,
                                            .optimizer_parameters = {parameters, parameter_count},
                                            .clip_value = {&kind->clip, kind->clip > 0 ? 1 : 0},
                                            .average_momentum = {&kind->average, kind->average > 0},
                                            .average_overwrite = kind->average > 0 ? 3 : 0,
                                            .lazy = kind->is_lazy,
                                            .generation = GENERATION};
    cr_assert_eq(create(&self, &message), 0);
    return self;
}

/* Some rows with their gradients, in f32 and as they travel. */
typedef struct {
    uint64_t ids[ROWS_MAX];
    float numbers[ROWS_MAX * WIDTH];
    size_t count;
} rows_t;

static rows_t
random_rows(cadre_random_t *random)
{
    rows_t rows = {.count = 0};
    for (uint64_t id = FIRST; id < FIRST + COUNT && rows.count < ROWS_MAX; id++) {
        if (cadre_random_below(random, 8) == 0) {
            rows.ids[rows.count++] = id;
        }
    }
    if (rows.count == 0) {
        rows.ids[rows.count++] = FIRST;
    }
    for (size_t i = 0; i < rows.count * WIDTH; i++) {
        rows.numbers[i] = (float)cadre_random_below(random, 2000) / 500 - 2;
    }
    return rows;
}

/* Returns numbers as a chunk in the wire dtype. */
static cadre_chunk_t *
on_wire(const kind_t *kind, const float *numbers, size_t count)
{
    cadre_chunk_t *chunk = cadre_chunk_new(count * cadre_dtype_size(kind->wire));
    if (kind->wire == CADRE_F32) {
        memcpy(cadre_chunk_data(chunk), numbers, count * sizeof(*numbers));
    } else {
        cr_assert(
            cadre_dtype_traits(kind->wire)->from_f32(numbers, cadre_chunk_data(chunk), count));
    }
    return chunk;
}

static cadre_message_t
rows_message(const kind_t *kind, uint64_t update, uint64_t step, const rows_t *rows,
             uint64_t record[4])
{
    const uint64_t numbers[] = {1, 1, 0, rows->count};
    memcpy(record, numbers, sizeof(numbers));
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push = (cadre_push_message_t){.update = update,
                                          .attempt = 1,
                                          .generation = GENERATION,
                                          .step = step,
                                          .rows = {record, 4}};
    cadre_message_add_chunk(&message,
                            cadre_chunk_new_copy(rows->ids, rows->count * sizeof(uint64_t)));
    cadre_message_add_chunk(&message, on_wire(kind, rows->numbers, rows->count * WIDTH));
    return message;
}

static int
push_rows(fixture_t *self, const kind_t *kind, uint64_t update, uint64_t step, const rows_t *rows)
{
    uint64_t record[4];
    cadre_message_t message = rows_message(kind, update, step, rows, record);
    return push(self, &message);
}

/* Pushes the gradient of the whole partition, zero where `rows` has none. */
static int
push_whole(fixture_t *self, const kind_t *kind, uint64_t update, uint64_t step, const rows_t *rows)
{
    static float all[COUNT * WIDTH];
    uint64_t triple[] = {1, 1, 0};
    memset(all, 0, sizeof(all));
    for (size_t i = 0; i < rows->count; i++) {
        memcpy(&all[(rows->ids[i] - FIRST) * WIDTH], &rows->numbers[i * WIDTH],
               WIDTH * sizeof(float));
    }
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push = (cadre_push_message_t){.update = update,
                                          .attempt = 1,
                                          .generation = GENERATION,
                                          .step = step,
                                          .partitions = {triple, 3}};
    cadre_message_add_chunk(&message, on_wire(kind, all, sizeof(all) / sizeof(all[0])));
    return push(self, &message);
}

/* Expects two partitions to have the same values, slots, version and steps. */
static void
expect_same(const cadre_partition_snapshot_t *left, const cadre_partition_snapshot_t *right)
{
    cr_assert_eq(left->version, right->version);
    cr_assert_eq(left->steps, right->steps);
    cr_assert_eq(left->chunk_count, 1);
    cr_assert_arr_eq(cadre_chunk_data(left->values[0]), cadre_chunk_data(right->values[0]),
                     COUNT * WIDTH * sizeof(float));
    for (size_t slot = 0; slot < left->slot_count; slot++) {
        cr_assert_arr_eq(cadre_chunk_data(left->slots[slot][0]),
                         cadre_chunk_data(right->slots[slot][0]), COUNT * WIDTH * sizeof(float));
    }
}

static void
expect_same_shards(const fixture_t *left, const fixture_t *right)
{
    cadre_partition_snapshot_t a;
    cadre_partition_snapshot_t b;
    cadre_partition_snapshot(cadre_shard_partition(left->shard, 1, 1), &a);
    cadre_partition_snapshot(cadre_shard_partition(right->shard, 1, 1), &b);
    expect_same(&a, &b);
    cadre_partition_snapshot_fini(&a);
    cadre_partition_snapshot_fini(&b);
}

static const kind_t kinds[] = {
    {.optimizer = CADRE_OPTIMIZER_SGD, .wire = CADRE_F32},
    {.optimizer = CADRE_OPTIMIZER_SGD, .wire = CADRE_BF16},
    {.optimizer = CADRE_OPTIMIZER_ADAGRAD, .wire = CADRE_F32},
    {.optimizer = CADRE_OPTIMIZER_ADAGRAD, .wire = CADRE_BF16, .clip = 0.75},
    {.optimizer = CADRE_OPTIMIZER_SGD, .wire = CADRE_F32, .clip = 0.5},
    {.optimizer = CADRE_OPTIMIZER_ADD, .wire = CADRE_F32},
    /* From here on rows move that are not named. */
    {.optimizer = CADRE_OPTIMIZER_MOMENTUM, .wire = CADRE_F32, .is_full = true},
    {.optimizer = CADRE_OPTIMIZER_NESTEROV, .wire = CADRE_BF16, .is_full = true},
    {.optimizer = CADRE_OPTIMIZER_RMSPROP, .wire = CADRE_F32},
    {.optimizer = CADRE_OPTIMIZER_RMSPROP, .wire = CADRE_F32, .is_full = true},
    {.optimizer = CADRE_OPTIMIZER_ADAM, .wire = CADRE_F32},
    {.optimizer = CADRE_OPTIMIZER_ADAM, .wire = CADRE_BF16, .clip = 0.5},
    {.optimizer = CADRE_OPTIMIZER_ADAMW, .wire = CADRE_F32},
    {.optimizer = CADRE_OPTIMIZER_FTRL, .wire = CADRE_F32},
    {.optimizer = CADRE_OPTIMIZER_FTRL, .wire = CADRE_F32, .is_full = true},
    {.optimizer = CADRE_OPTIMIZER_DELAYED_NESTEROV, .wire = CADRE_F32, .is_full = true},
    {.optimizer = CADRE_OPTIMIZER_SGD, .wire = CADRE_F32, .average = 0.5},
    {.optimizer = CADRE_OPTIMIZER_ADAM, .wire = CADRE_BF16, .average = 0.5, .clip = 0.75},
};

Test(row_gradient, updates_as_a_whole_gradient_with_zeros_elsewhere)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        cadre_random_t random;
        cadre_random_init(&random, 3, i);
        fixture_t left = open_with(&kinds[i]);
        fixture_t right = open_with(&kinds[i]);
        for (uint64_t update = 1; update <= 10; update++) {
            const rows_t rows = random_rows(&random);
            cr_assert_eq(push_rows(&left, &kinds[i], update, 0, &rows), 0);
            cr_assert_eq(push_whole(&right, &kinds[i], update, 0, &rows), 0);
            expect_same_shards(&left, &right);
        }
        const rows_t rows = random_rows(&random);
        cr_assert_eq(push_rows(&left, &kinds[i], 10, 0, &rows), CADRE_EDUPLICATE);
        expect_same_shards(&left, &right);
        close_shard(&left);
        close_shard(&right);
    }
}

static int
end_step(fixture_t *self, uint64_t step, const cadre_step_update_t *updates, size_t count)
{
    cadre_message_t message = question(CADRE_MESSAGE_END_STEP, &THE_COORDINATOR);
    message.end_step = (cadre_end_step_message_t){.step = step,
                                                  .updates = cadre_step_update_list(updates, count),
                                                  .generation = GENERATION,
                                                  .after = step - 1};
    return reply_to(self, &THE_COORDINATOR, &message);
}

/* A row that is not named stays as it is, slots included; one that is named moves as ever. */
Test(row_gradient, lets_the_rows_of_a_lazy_partition_rest)
{
    const kind_t eager = {.optimizer = CADRE_OPTIMIZER_ADAM, .wire = CADRE_F32};
    const kind_t lazy = {.optimizer = CADRE_OPTIMIZER_ADAM, .wire = CADRE_F32, .is_lazy = true};
    const rows_t first = {.ids = {FIRST + 1}, .numbers = {1, 2, 3}, .count = 1};
    const rows_t second = {.ids = {FIRST + 7}, .numbers = {1, 2, 3}, .count = 1};
    fixture_t moving = open_with(&eager);
    fixture_t resting = open_with(&lazy);
    float values[2][3];
    for (int step = 0; step < 3; step++) {
        const rows_t *rows = step == 0 ? &first : &second;
        cr_assert_eq(push_rows(&moving, &eager, 1 + (uint64_t)step, 0, rows), 0);
        cr_assert_eq(push_rows(&resting, &lazy, 1 + (uint64_t)step, 0, rows), 0);
        cadre_partition_copy(cadre_shard_partition(moving.shard, 1, 1), -1, WIDTH, 1,
                             &values[0][step]);
        cadre_partition_copy(cadre_shard_partition(resting.shard, 1, 1), -1, WIDTH, 1,
                             &values[1][step]);
    }
    cr_expect_eq(values[0][0], values[1][0]);
    cr_expect_lt(values[0][1], values[0][0], "Adam's momentum goes on");
    cr_expect_lt(values[0][2], values[0][1]);
    cr_expect_eq(values[1][1], values[1][0], "lazy");
    cr_expect_eq(values[1][2], values[1][0]);
    close_shard(&moving);
    close_shard(&resting);
}

/* Three updates of each step, of which `whole` bit k says that the left shard gets number k
 * whole. */
static void
expect_same_steps(const kind_t *kind, unsigned whole)
{
    cadre_random_t random;
    cadre_random_init(&random, 4, whole);
    fixture_t left = open_with(kind);
    fixture_t right = open_with(kind);
    for (uint64_t step = 1; step <= 4; step++) {
        cadre_step_update_t updates[3];
        for (uint64_t k = 0; k < 3; k++) {
            const rows_t rows = random_rows(&random);
            updates[k] = (cadre_step_update_t){.update = 10 * step + k, .rows = 1 + k};
            cr_assert_eq(whole >> k & 1 ? push_whole(&left, kind, updates[k].update, step, &rows)
                                        : push_rows(&left, kind, updates[k].update, step, &rows),
                         0);
            cr_assert_eq(push_whole(&right, kind, updates[k].update, step, &rows), 0);
        }
        cr_assert_eq(end_step(&left, step, updates, 3), 0);
        cr_assert_eq(end_step(&right, step, updates, 3), 0);
        expect_same_shards(&left, &right);
    }
    close_shard(&left);
    close_shard(&right);
}

Test(row_gradient, of_a_synchronous_step_is_summed_as_whole_ones_are)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        expect_same_steps(&kinds[i], 0);
        expect_same_steps(&kinds[i], 2); /* a worker pushed the whole: by rows was more */
    }
}

/* The image of a cut has the straggler, and not what came before it. */
static void
expect_in_image(const kind_t *kind)
{
    fixture_t self = open_with(kind);
    fixture_t other = open_with(kind);
    cadre_random_t random;
    cadre_random_init(&random, 5, 1);
    const rows_t first = random_rows(&random);
    const rows_t second = random_rows(&random);
    cr_assert_eq(open_cut(&self, 4, 5, GENERATION), 0);
    cr_assert_eq(push_rows(&self, kind, 5, 0, &second), 0);
    cr_assert_eq(push_rows(&self, kind, 1, 0, &first), 0, "a straggler");
    cr_assert_eq(push_rows(&other, kind, 1, 0, &first), 0);
    cr_assert_eq(close_cut(&self, 4, 5, "/draft", GENERATION), 0);
    cadre_shard_snapshot_t *taken = cadre_shard_effects_take_snapshot(&self.effects);
    cr_assert_eq(taken->part_count, 1);
    cadre_partition_snapshot_t expected;
    cadre_partition_snapshot(cadre_shard_partition(other.shard, 1, 1), &expected);
    expect_same(&taken->parts[0].references, &expected);
    cadre_partition_snapshot_fini(&expected);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
    close_shard(&other);
}

Test(row_gradient, from_below_a_cut_goes_into_its_image)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        expect_in_image(&kinds[i]);
    }
}

/* --- refusals --- */

static uint64_t *
record_of(cadre_message_t *message)
{
    return (uint64_t *)message->push.rows.items; /* of the caller */
}

static uint64_t *
ids_of(cadre_message_t *message)
{
    return cadre_chunk_data(message->chunks[0]);
}

static void
no_rows(cadre_message_t *message)
{
    record_of(message)[3] = 0;
}

static void
half_a_record(cadre_message_t *message)
{
    message->push.rows.count = 3;
}

static void
other_partition(cadre_message_t *message)
{
    record_of(message)[1] = 0;
}

static void
later_version(cadre_message_t *message)
{
    record_of(message)[2] = 1;
}

static void
more_rows_than_there_are(cadre_message_t *message)
{
    record_of(message)[3] = COUNT + 1;
}

static void
fewer_rows_than_said(cadre_message_t *message)
{
    record_of(message)[3]++;
}

static void
no_gradients(cadre_message_t *message)
{
    cadre_chunk_unref(&message->chunks[--message->chunk_count]);
}

static void
one_chunk_more(cadre_message_t *message)
{
    cadre_message_add_chunk(message, new_floats(1, 1));
}

static void
id_below_the_partition(cadre_message_t *message)
{
    ids_of(message)[0] = FIRST - 1;
}

static void
id_behind_the_partition(cadre_message_t *message)
{
    ids_of(message)[1] = FIRST + COUNT;
}

static void
id_twice(cadre_message_t *message)
{
    ids_of(message)[1] = ids_of(message)[0];
}

static void
ids_descending(cadre_message_t *message)
{
    ids_of(message)[0] = ids_of(message)[1] + 1;
}

static void
nan_in_a_row(cadre_message_t *message)
{
    ((float *)cadre_chunk_data(message->chunks[1]))[3] = NAN;
}

/* Expects an update of rows, spoilt by `spoil`, to be refused and to change nothing. */
static void
expect_refusal(void (*spoil)(cadre_message_t *message), int status)
{
    const rows_t rows = {.ids = {FIRST + 4, FIRST + 9}, .numbers = {1, 2, 3, 4, 5, 6}, .count = 2};
    fixture_t self = open_with(&kinds[0]);
    fixture_t fresh = open_with(&kinds[0]);
    uint64_t record[4];
    cadre_message_t message = rows_message(&kinds[0], 10, 0, &rows, record);
    spoil(&message);
    cr_expect_eq(push(&self, &message), status);
    expect_same_shards(&self, &fresh);
    cr_expect_eq(push_rows(&self, &kinds[0], 10, 0, &rows), 0, "the id is not used up");
    close_shard(&self);
    close_shard(&fresh);
}

#define REFUSES(what, status)                                                                      \
    Test(row_gradient, refuses_##what)                                                             \
    {                                                                                              \
        expect_refusal(what, status);                                                              \
    }

REFUSES(no_rows, CADRE_EMALFORMED)
REFUSES(half_a_record, CADRE_EMALFORMED)
REFUSES(other_partition, CADRE_ENOTFOUND)
REFUSES(later_version, CADRE_EINVALID)
REFUSES(more_rows_than_there_are, CADRE_EINVALID)
REFUSES(fewer_rows_than_said, CADRE_ESHAPE)
REFUSES(no_gradients, CADRE_ESHAPE)
REFUSES(one_chunk_more, CADRE_ESHAPE)
REFUSES(id_below_the_partition, CADRE_EINVALID)
REFUSES(id_behind_the_partition, CADRE_EINVALID)
REFUSES(id_twice, CADRE_EINVALID)
REFUSES(ids_descending, CADRE_EINVALID)
REFUSES(nan_in_a_row, CADRE_ENOTFINITE)

Test(row_gradient, refuses_a_partition_that_comes_whole_and_by_rows)
{
    const rows_t rows = {.ids = {FIRST + 4}, .numbers = {1, 2, 3}, .count = 1};
    fixture_t self = open_with(&kinds[0]);
    uint64_t record[4];
    uint64_t triple[] = {1, 1, 0};
    cadre_message_t message = rows_message(&kinds[0], 10, 0, &rows, record);
    cadre_chunk_t *whole = new_floats(COUNT * WIDTH, 1);
    message.push.partitions = (cadre_u64s_t){triple, 3};
    cadre_message_add_chunk(&message, cadre_chunk_ref(message.chunks[1]));
    cadre_chunk_unref(&message.chunks[1]);
    message.chunks[1] = message.chunks[0];
    message.chunks[0] = whole;
    cr_expect_eq(push(&self, &message), CADRE_EINVALID);
    close_shard(&self);
}

Test(row_gradient, is_of_no_partition_that_compensates_delays)
{
    const rows_t rows = {.ids = {1}, .numbers = {1, 2}, .count = 1};
    static const double lambda[] = {0.5};
    uint64_t shape[2];
    fixture_t self = open_shard(NULL);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t compensated = create_message(1, 2, WIDTH, shape);
    compensated.delay_compensation = (cadre_f64s_t){lambda, 1};
    cr_assert_eq(create(&self, &compensated), 0);
    uint64_t record[4];
    cadre_message_t message = rows_message(&kinds[0], 10, 0, &rows, record);
    record[1] = 0;
    cr_expect_eq(push(&self, &message), CADRE_EINVALID);
    close_shard(&self);
}

/* Gives the shard a message that has no answer, or one of type `type`. */
static void
give(fixture_t *self, cadre_message_t *message, bool is_answered, cadre_message_type_t type)
{
    cadre_outbox_entry_t entry;
    message->request = 7;
    cadre_shard_receive(self->shard, CADRE_PLANE_DATA, &THE_WORKER, message, &self->effects);
    cr_assert_eq(cadre_outbox_count(&self->effects.outbox), is_answered);
    if (is_answered) {
        cr_assert(cadre_outbox_pop(&self->effects.outbox, &entry));
        cr_assert_eq(entry.type, type);
        cadre_outbox_entry_fini(&entry);
    }
}

Test(row_gradient, may_come_in_parts)
{
    const rows_t rows = {.ids = {FIRST + 4, FIRST + 9}, .numbers = {1, 2, 3, 4, 5, 6}, .count = 2};
    fixture_t self = open_with(&kinds[0]);
    fixture_t other = open_with(&kinds[0]);
    cadre_message_t reserve = question(CADRE_MESSAGE_RESERVE, &THE_WORKER);
    reserve.reserve = (cadre_reserve_message_t){
        .update = 10, .generation = GENERATION, .size_bytes = 2 * (8 + WIDTH * sizeof(float))};
    give(&self, &reserve, true, CADRE_MESSAGE_GRANT);

    uint64_t record[4];
    cadre_message_t first = rows_message(&kinds[0], 10, 0, &rows, record);
    cadre_message_t second = first;
    second.chunks = NULL;
    second.chunk_count = 0;
    cadre_message_add_chunk(&second, first.chunks[--first.chunk_count]);
    first.push.parts = second.push.parts = 2;
    second.push.part = 1;
    second.push.rows.count = 0; /* the gradients of the record that the first part has */
    give(&self, &first, false, CADRE_MESSAGE_APPLIED);
    give(&self, &second, true, CADRE_MESSAGE_APPLIED);
    cr_assert_eq(push_rows(&other, &kinds[0], 10, 0, &rows), 0);
    expect_same_shards(&self, &other);
    close_shard(&self);
    close_shard(&other);
}
