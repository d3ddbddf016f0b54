/* What workers are told of variables, functions and datasets, and when. */
#include "coordinator/core/provisioning/announcements.h"

#include "tests/coordinator/core_fixture.h"

TestSuite(announcements, .timeout = 240);

static cadre_dataset_t *
add_dataset(fixture_t *self, const char *name)
{
    cadre_dataset_t *dataset = NULL;
    cr_assert_eq(
        cadre_catalogue_add_dataset(&self->core.catalogue, name, "{\"format\": \"csv\"}", &dataset),
        0);
    return dataset;
}

static void
say_dataset_ready(fixture_t *self, const cadre_task_t *from, uint64_t id, int status, uint64_t rows)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_DATASET_READY);
    message.dataset_ready = (cadre_dataset_ready_message_t){.id = id,
                                                            .status = (uint64_t)-status,
                                                            .text = "no such file",
                                                            .rows = rows,
                                                            .features = 4,
                                                            .label_dtype = CADRE_I32,
                                                            .classes = 10,
                                                            .skipped = 2};
    fixture_say(self, from, &message);
}

static void
say_want(fixture_t *self, const cadre_task_t *from, cadre_want_t kind, uint64_t id)
{
    cadre_message_t message = fixture_message(from, CADRE_MESSAGE_WANT);
    message.want = (cadre_want_message_t){.kind = kind, .id = id};
    fixture_say(self, from, &message);
}

Test(announcements, a_worker_that_joins_is_told_everything_that_exists)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_add_variable(self, "w", 5, 2);
    fixture_function(self);
    add_dataset(self, "train");
    fixture_hello(self, &worker);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 2);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 1);
    const cadre_message_t *variable = fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 0);
    cr_assert_eq(variable->variable.id, 1);
    cr_assert_str_eq(variable->variable.name, "w");
    cr_assert_eq(variable->variable.partitions, 2);
    cr_assert_eq(variable->variable.shards.count, 2);
    cr_assert_eq(variable->variable.shards.items[0], 0);
    cr_assert_eq(variable->variable.shards.items[1], 1);
    cr_assert_str_eq(fixture_sent(self, &worker, CADRE_MESSAGE_FUNCTION, 0)->function.name, "work");
    const cadre_message_t *dataset = fixture_sent(self, &worker, CADRE_MESSAGE_DATASET, 0);
    cr_assert_str_eq(dataset->dataset.name, "train");
    cr_assert_eq(dataset->chunk_count, 1);
    cr_assert_eq(cadre_chunk_size_bytes(dataset->chunks[0]), strlen("{\"format\": \"csv\"}"));
    fixture_destroy(&self);
}

Test(announcements, say_how_gradients_of_a_variable_may_come)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_add_variable(self, "dense", 5, 2);
    fixture_add_table(self, "users", 16);
    fixture_hello(self, &worker);
    fixture_turn(self);
    const cadre_variable_message_t *dense =
        &fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 0)->variable;
    const cadre_variable_message_t *table =
        &fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 1)->variable;
    cr_assert_eq(dense->kind, CADRE_VARIABLE_ROWS, "plain sgd");
    cr_assert_eq(table->kind, CADRE_VARIABLE_TABLE);
    cr_assert_eq(table->shape.count, 1);
    cr_assert_eq(table->shape.items[0], 16);
    cr_assert_eq(table->partitions, 2);
    cr_assert_eq(table->shards.items[1], 1);
    fixture_destroy(&self);
}

Test(announcements, rows_from_memory_are_sent_piece_by_piece_to_whoever_asks)
{
    enum { CHUNKS = CADRE_MEMORY_PIECE_CHUNKS + 1 };
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    cadre_dataset_t *dataset = NULL;
    cadre_row_chunks_t rows = {.features = 1, .label = CADRE_F32};
    for (int i = 0; i < CHUNKS; i++) {
        cr_assert_eq(cadre_row_chunks_add(&rows, cadre_chunk_new_copy("12345678", 8)), 0);
    }
    cadre_chunk_t *last = rows.chunks[CHUNKS - 1];
    cr_assert_eq(
        cadre_catalogue_add_memory_dataset(&self->core.catalogue, "train", &rows, &dataset), 0);
    cr_expect_eq(rows.count, 0, "taken");
    fixture_hello(self, &worker);
    fixture_turn(self);
    const cadre_message_t *told = fixture_sent(self, &worker, CADRE_MESSAGE_DATASET, 0);
    cr_expect(told->dataset.pieces == 2 && told->dataset.piece == 0 && told->chunk_count == 0);
    cr_expect(told->dataset.features == 1 && told->dataset.label == CADRE_F32);

    const uint64_t pieces[] = {0, 2, 3, 1};
    fixture_clear(self);
    for (size_t i = 0; i < CADRE_COUNT_OF(pieces); i++) {
        cadre_message_t message = fixture_message(&worker, CADRE_MESSAGE_WANT);
        message.want =
            (cadre_want_message_t){.kind = CADRE_WANT_ROWS, .id = dataset->id, .piece = pieces[i]};
        fixture_say(self, &worker, &message);
    }
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DATASET), 2, "there are two pieces");
    told = fixture_sent(self, &worker, CADRE_MESSAGE_DATASET, 0);
    cr_expect(told->dataset.piece == 2 && told->chunk_count == 1);
    cr_expect_eq(told->chunks[0], last, "the chunk itself is sent, no copy");
    told = fixture_sent(self, &worker, CADRE_MESSAGE_DATASET, 1);
    cr_expect(told->dataset.piece == 1 && told->chunk_count == CADRE_MEMORY_PIECE_CHUNKS);
    fixture_destroy(&self);
}

Test(announcements, a_variable_of_many_partitions_is_told_in_several_records)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t worker = fixture_worker(0);
    fixture_add_variable(self, "w", 10000, CADRE_VARIABLE_SHARDS_MAX + 1);
    fixture_hello(self, &worker);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 2);
    const cadre_message_t *second = fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 1);
    cr_assert_eq(second->variable.first, CADRE_VARIABLE_SHARDS_MAX);
    cr_assert_eq(second->variable.shards.count, 1);
    fixture_destroy(&self);
}

Test(announcements, a_worker_gets_what_it_wants_and_nothing_that_is_not)
{
    fixture_t *self = fixture_new(2);
    cadre_task_t worker = fixture_worker(0);
    fixture_join_ps(self);
    fixture_add_variable(self, "a", 3, 1);
    fixture_add_variable(self, "b", 3, 1);
    fixture_add_variable(self, "c", 3, 1);
    fixture_function(self);
    add_dataset(self, "train")->opened = true;
    fixture_hello(self, &worker);
    fixture_turn(self);
    fixture_clear(self);
    say_want(self, &worker, CADRE_WANT_SHARD, 1);
    say_want(self, &worker, CADRE_WANT_SHARD, 2);
    say_want(self, &worker, CADRE_WANT_DEFINITIONS, 1);
    say_want(self, &worker, CADRE_WANT_DEFINITIONS, 3);
    say_want(self, &worker, CADRE_WANT_DEFINITIONS, 4);
    say_want(self, &worker, CADRE_WANT_FUNCTION, 1);
    say_want(self, &worker, CADRE_WANT_FUNCTION, 0);
    say_want(self, &worker, CADRE_WANT_FUNCTION, 2);
    say_want(self, &worker, CADRE_WANT_DATASET, 1);
    say_want(self, &worker, CADRE_WANT_DATASET, 0);
    say_want(self, &worker, CADRE_WANT_DATASET, UINT32_MAX);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_SHARD), 1);
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_SHARD, 0)->shard.index, 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 2, "those after the first");
    cr_assert_eq(fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 0)->variable.id, 2);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_FUNCTION), 1);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DATASET), 1);
    fixture_destroy(&self);
}

Test(announcements, a_dataset_is_announced_until_a_worker_has_answered)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    fixture_hello(self, &worker);
    fixture_turn(self);
    cadre_dataset_t *dataset = add_dataset(self, "train");
    self->core.announcements.datasets_ms = self->now_ms;
    cadre_announcements_tell_dataset(&self->core.announcements, dataset);
    fixture_turn(self);
    cr_assert_leq(self->due_ms, self->now_ms + 1000);
    fixture_clear(self);
    self->now_ms += 999;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DATASET), 0);
    self->now_ms += 1;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DATASET), 1);
    say_dataset_ready(self, &worker, 1, 0, 150);
    cr_assert(dataset->opened);
    cr_assert_eq(dataset->status, 0);
    cr_assert_eq(dataset->info.rows, 150);
    cr_assert_eq(dataset->info.features, 4);
    cr_assert_eq(dataset->info.label, CADRE_I32);
    cr_assert_eq(dataset->info.classes, 10);
    cr_assert_eq(dataset->info.skipped, 2);
    fixture_clear(self);
    self->now_ms += 2000;
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_DATASET), 0);
    fixture_destroy(&self);
}

Test(announcements, a_worker_that_joins_is_told_of_ids_that_are_of_no_variable_any_more)
{
    fixture_t *self = fixture_new(1);
    cadre_task_t worker = fixture_worker(0);
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    fixture_join_ps(self);
    for (size_t i = 0; i < 5; i++) {
        fixture_add_variable(self, names[i], 4, 1);
    }
    for (uint32_t i = 1; i < 4; i++) {
        cadre_core_forget_variable(&self->core, self->core.catalogue.variables[i]);
    }
    fixture_hello(self, &worker);
    fixture_turn(self);
    cr_assert_eq(fixture_count(self, &worker, CADRE_MESSAGE_VARIABLE), 8, "as it came to be");
    for (uint32_t i = 0; i < 3; i++) {
        const cadre_message_t *vacancy = fixture_sent(self, &worker, CADRE_MESSAGE_VARIABLE, 5 + i);
        cr_assert_eq(vacancy->variable.id, 2 + i);
        cr_assert_eq(vacancy->variable.last, 2 + i);
        cr_assert_eq(vacancy->variable.partitions, 0);
    }
    fixture_destroy(&self);
}
