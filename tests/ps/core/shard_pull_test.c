#include "ps/core/shard_pull.h"

#include "tests/ps/shard_fixture.h"

TestSuite(shard_pull, .timeout = 240);

Test(shard_pull, gives_references_and_no_copies)
{
    fixture_t self = open_filled_shard();
    uint64_t triples[] = {2, 0, 0, 1, 0, 0};
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_COORDINATOR);
    message.pull = (cadre_pull_message_t){.generation = GENERATION, .partitions = {triples, 6}};
    cadre_message_t answer;
    ask(&self, &THE_COORDINATOR, &message, &answer);
    cr_assert_eq(answer.values.partitions.count, 4);
    cr_assert_eq(answer.values.partitions.items[1], 1);
    cr_assert_eq(answer.values.partitions.items[3], 2);
    cr_assert_eq(answer.chunk_count, 3);
    cadre_chunk_t *held[2];
    cadre_partition_pull(cadre_shard_partition(self.shard, 1, 0), held);
    cr_assert_eq(answer.chunks[1], held[0], "the very chunk");
    cadre_chunk_unref(&held[0]);
    cadre_chunk_unref(&held[1]);
    cadre_message_fini(&answer);
    cr_assert_eq(COUNTER(&self, pulls), 1);
    cr_assert_eq(COUNTER(&self, pull_bytes), 4 * (ROWS * COLUMNS + 4));
    close_shard(&self);
}

Test(shard_pull, keeps_what_was_pulled_while_updates_go_on)
{
    fixture_t self = open_filled_shard();
    cadre_message_t first;
    pull(&self, 1, 0, &first);
    cr_assert_eq(first.values.partitions.items[0], 0);
    cr_assert_eq(push_both(&self, 1, 0, 0.5f), 0);
    cadre_message_t second;
    pull(&self, 1, 1, &second);
    cr_assert_eq(second.values.partitions.items[0], 1);
    cr_assert_eq(push_both(&self, 2, 1, 0.5f), 0);
    cr_assert_eq(push_both(&self, 3, 2, 0.5f), 0);
    cr_assert(all_are(first.chunks, first.chunk_count, 1));
    cr_assert(all_are(second.chunks, second.chunk_count, 0.5f));
    cadre_message_fini(&first);
    cadre_message_fini(&second);
    cr_assert(values_are(&self, 1, -0.5f));
    close_shard(&self);
}

Test(shard_pull, answers_unchanged_for_the_version_that_is_held)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, 1, 0, 0.5f), 0);
    cadre_message_t answer;
    pull(&self, 1, 2, &answer); /* holds version 1 */
    cr_assert_eq(answer.values.status, 0);
    cr_assert_eq(answer.values.partitions.count, 2);
    cr_assert_eq(answer.values.partitions.items[0], 1);
    cr_assert_eq(answer.values.partitions.items[1], 0);
    cr_assert_eq(answer.chunk_count, 0);
    cadre_message_fini(&answer);
    cr_assert_eq(COUNTER(&self, unchanged), 1);
    cr_assert_eq(COUNTER(&self, pull_bytes), 0);
    pull(&self, 1, 1, &answer); /* holds version 0 */
    cr_assert_eq(answer.chunk_count, 2);
    cadre_message_fini(&answer);
    pull(&self, 1, 3, &answer); /* claims a version that is not yet */
    cr_assert_eq(answer.chunk_count, 2);
    cadre_message_fini(&answer);
    cr_assert_eq(COUNTER(&self, unchanged), 1);
    close_shard(&self);
}

static int
status_of_pull(fixture_t *self, uint64_t *triples, size_t count, uint64_t generation,
               uint64_t epoch)
{
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.epoch = epoch;
    message.pull = (cadre_pull_message_t){.generation = generation, .partitions = {triples, count}};
    cadre_message_t answer;
    ask(self, &THE_WORKER, &message, &answer);
    int status = -(int)answer.values.status;
    cr_assert_eq(answer.chunk_count, 0, "all partitions or one status");
    cr_assert_eq(answer.values.partitions.count, 0);
    cr_assert_eq(answer.values.generation, GENERATION);
    cadre_message_fini(&answer);
    return status;
}

Test(shard_pull, refuses_with_one_status)
{
    fixture_t self = open_filled_shard();
    uint64_t good_then_unknown[] = {1, 0, 0, 4, 0, 0};
    cr_assert_eq(status_of_pull(&self, good_then_unknown, 6, GENERATION, EPOCH), CADRE_ENOTFOUND);
    cr_assert_eq(status_of_pull(&self, good_then_unknown, 3, GENERATION + 1, EPOCH), CADRE_EFENCED);
    cr_assert_eq(status_of_pull(&self, good_then_unknown, 3, GENERATION, EPOCH - 1), CADRE_EFENCED);
    cr_assert_eq(status_of_pull(&self, good_then_unknown, 4, GENERATION, EPOCH), CADRE_EMALFORMED);
    cr_assert_eq(status_of_pull(&self, good_then_unknown, 0, GENERATION, EPOCH), CADRE_EMALFORMED);
    cr_assert_eq(COUNTER(&self, pull_bytes), 0);
    cr_assert_eq(COUNTER(&self, refused), 0, "counts pushes");
    close_shard(&self);
}

Test(shard_pull, refuses_more_chunks_than_a_message_carries)
{
    fixture_t self = open_shard(NULL);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    uint64_t shape[2];
    cadre_create_message_t big = create_message(1, 20, CADRE_CHUNK_SIZE_MAX / 4, shape);
    cr_assert_eq(create(&self, &big), 0); /* 20 chunks */
    static uint64_t triples[3 * 205];
    for (size_t i = 0; i < 205; i++) {
        triples[3 * i] = 1;
    }
    cr_assert_eq(status_of_pull(&self, triples, 3 * 205, GENERATION, EPOCH), CADRE_ETOOLARGE);
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_WORKER);
    message.pull =
        (cadre_pull_message_t){.generation = GENERATION, .partitions = {triples, 3 * 204}};
    cadre_message_t answer;
    ask(&self, &THE_WORKER, &message, &answer);
    cr_assert_eq(answer.chunk_count, 4080);
    cadre_message_fini(&answer);
    close_shard(&self);
}

/* PULL of slot number `slot` - 1 of variable 1, of adam; the caller ends `answer`. */
static int
pull_slot(fixture_t *self, uint64_t slot, cadre_u64s_t rows, cadre_message_t *answer)
{
    uint64_t triples[] = {1, 0, 0};
    cadre_message_t message = question(CADRE_MESSAGE_PULL, &THE_COORDINATOR);
    message.pull = (cadre_pull_message_t){
        .generation = GENERATION, .partitions = {triples, 3}, .rows = rows, .slot = slot};
    ask(self, &THE_COORDINATOR, &message, answer);
    return -(int)answer->values.status;
}

Test(shard_pull, gives_slots_with_the_steps_of_the_optimizer)
{
    static const double parameters[] = {0.001, 0.5, 0.75, 1e-7};
    const uint64_t row[] = {1, 0, 1, 1};
    fixture_t self = open_shard(NULL);
    uint64_t shape[2];
    uint64_t triples[] = {1, 0, 0};
    cadre_message_t answer;
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t adam = create_message(1, 2, 2, shape);
    adam.optimizer = CADRE_OPTIMIZER_ADAM;
    adam.optimizer_parameters = (cadre_f64s_t){parameters, 4};
    cr_assert_eq(create(&self, &adam), 0);
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push =
        (cadre_push_message_t){.update = 1, .generation = GENERATION, .partitions = {triples, 3}};
    cadre_message_add_chunk(&message, new_floats(4, 1));
    cr_assert_eq(push(&self, &message), 0);
    for (uint64_t slot = 1; slot <= 2; slot++) {
        cr_assert_eq(pull_slot(&self, slot, (cadre_u64s_t){NULL, 0}, &answer), 0);
        cr_assert(all_are(answer.chunks, answer.chunk_count, slot == 1 ? 0.5f : 0.25f));
        cr_assert_eq(answer.values.steps.count, 1);
        cr_assert_eq(answer.values.steps.items[0], 1);
        cadre_message_fini(&answer);
    }
    cr_assert_eq(pull_slot(&self, 2, (cadre_u64s_t){row, 4}, &answer), 0, "rows of it");
    cr_assert_eq(cadre_chunk_size_bytes(answer.chunks[0]), 8);
    cr_assert(all_are(answer.chunks, answer.chunk_count, 0.25f));
    cadre_message_fini(&answer);
    cr_assert_eq(pull_slot(&self, 3, (cadre_u64s_t){NULL, 0}, &answer), CADRE_EINVALID);
    cr_assert(strstr(answer.values.text, "slot 2 of its 2"), "%s", answer.values.text);
    cadre_message_fini(&answer);
    close_shard(&self);
}
