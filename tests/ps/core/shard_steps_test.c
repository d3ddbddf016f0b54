/* Synchronous steps as a shard sees them: held updates, and what their end makes of them. */
#include "ps/core/shard_steps.h"
#include "tests/ps/shard_fixture.h"

#include <math.h>

#include "common/base/random.h"
#include "common/wire/record_list.h"

TestSuite(shard_steps, .timeout = 240);

/* A PUSH of both variables that is part of `step`. */
static int
push_in_step(fixture_t *self, uint64_t step, uint64_t update, uint64_t version, float value)
{
    uint64_t triples[6];
    cadre_message_t message = push_message(update, version, value, triples);
    message.push.step = step;
    return push(self, &message);
}

static int
end_step_after(fixture_t *self, uint64_t after, uint64_t step, const cadre_step_update_t *updates,
               size_t count)
{
    cadre_message_t message = question(CADRE_MESSAGE_END_STEP, &THE_COORDINATOR);
    message.end_step = (cadre_end_step_message_t){.step = step,
                                                  .updates = cadre_step_update_list(updates, count),
                                                  .generation = GENERATION,
                                                  .after = after};
    return reply_to(self, &THE_COORDINATOR, &message);
}

static int
end_step(fixture_t *self, uint64_t step, const cadre_step_update_t *updates, size_t count)
{
    return end_step_after(self, step - 1, step, updates, count);
}

static uint64_t
steps_of(const fixture_t *self, uint64_t variable)
{
    return cadre_partition_steps(cadre_shard_partition(self->shard, variable, 0));
}

Test(shard_steps, makes_one_step_with_the_mean_when_the_step_ends)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 1, 11, 0, 0.75f), 0);
    cr_assert(values_are(&self, 1, 1), "held");
    cr_expect_eq(COUNTER(&self, applied), 0);

    const cadre_step_update_t updates[] = {{10, 1}, {11, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 2), 0);
    cr_assert(values_are(&self, 1, 0.5f));
    cr_assert(values_are(&self, 2, 0.5f));
    cr_expect_eq(steps_of(&self, 1), 1);
    cr_expect_eq(COUNTER(&self, applied), 2);
    cr_expect_eq(COUNTER(&self, push_bytes), 2 * 4 * (ROWS * COLUMNS + 4));
    cr_expect_eq(COUNTER(&self, staleness_max), 0);
    close_shard(&self);
}

Test(shard_steps, weights_the_mean_by_rows)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 1), 0);
    cr_assert_eq(push_in_step(&self, 1, 11, 0, 0), 0);
    const cadre_step_update_t updates[] = {{10, 1}, {11, 3}};
    cr_assert_eq(end_step(&self, 1, updates, 2), 0);
    cr_assert(values_are(&self, 1, 0.75f));
    close_shard(&self);
}

Test(shard_steps, counts_a_closure_that_pushed_nothing_here_in_the_mean)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 1), 0);
    const cadre_step_update_t updates[] = {{10, 1}, {11, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 2), 0);
    cr_assert(values_are(&self, 1, 0.5f));
    cr_expect_eq(COUNTER(&self, applied), 1);
    close_shard(&self);
}

Test(shard_steps, answers_what_is_held_as_a_duplicate)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.5f), CADRE_EDUPLICATE);
    const cadre_step_update_t updates[] = {{10, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 1), 0);
    cr_assert(values_are(&self, 1, 0.75f), "the first one counts");
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.5f), CADRE_EDUPLICATE);
    cr_expect_eq(COUNTER(&self, applied), 1);
    cr_expect_eq(COUNTER(&self, duplicate), 2);
    close_shard(&self);
}

Test(shard_steps, ends_a_step_once)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    const cadre_step_update_t updates[] = {{10, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 1), 0);
    cr_assert_eq(end_step(&self, 1, updates, 1), 0);
    cr_assert(values_are(&self, 1, 0.75f));
    cr_expect_eq(steps_of(&self, 1), 1);
    cr_assert_eq(end_step(&self, 2, NULL, 0), 0);
    cr_assert_eq(end_step(&self, 1, updates, 1), 0, "an answer was lost");
    cr_assert_eq(push_in_step(&self, 2, 11, 1, 0.25f), CADRE_ESTATE, "the second is over, too");
    close_shard(&self);
}

Test(shard_steps, drops_what_the_end_does_not_name)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 1, 11, 0, 0.5f), 0);
    const cadre_step_update_t updates[] = {{10, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 1), 0);
    cr_assert(values_are(&self, 1, 0.75f));
    cr_expect_eq(COUNTER(&self, applied), 1);
    cr_expect_eq(COUNTER(&self, refused), 1);
    cr_assert_eq(push_in_step(&self, 1, 12, 0, 0.5f), CADRE_ESTATE, "too late for its step");
    close_shard(&self);
}

Test(shard_steps, holds_what_comes_early_for_its_own_step)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 2, 20, 0, 0.5f), 0);
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    const cadre_step_update_t first[] = {{10, 1}};
    cr_assert_eq(end_step(&self, 1, first, 1), 0);
    cr_assert(values_are(&self, 1, 0.75f));
    const cadre_step_update_t second[] = {{20, 1}};
    cr_assert_eq(end_step(&self, 2, second, 1), 0);
    cr_assert(values_are(&self, 1, 0.25f));
    close_shard(&self);
}

Test(shard_steps, checks_an_update_before_it_is_held)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, INFINITY), CADRE_ENOTFINITE);
    cr_expect_eq(COUNTER(&self, refused), 1);
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0, "another attempt may do better");
    close_shard(&self);
}

/* The bytes of an update of both variables. */
enum { UPDATE_SIZE = 4 * (ROWS * COLUMNS + 4) };

/* A shard that may hold so many bytes for synchronous steps. */
static fixture_t
open_with_step_bytes(uint64_t step_bytes)
{
    fixture_t self = {.request = 100};
    cadre_shard_options_t options = {
        .incarnation = PS, .size_bytes_max = 64 << 20, .step_bytes = step_bytes};
    self.shard = cadre_shard_new(&options);
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    fill_shard(&self);
    return self;
}

Test(shard_steps, holds_up_to_its_limit)
{
    fixture_t self = open_with_step_bytes(2 * UPDATE_SIZE);
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 1, 11, 0, 0.25f), 0, "at the limit");
    cr_expect_eq(cadre_shard_figures(self.shard).held_bytes, 2 * UPDATE_SIZE);
    cr_expect_eq(cadre_shard_figures(self.shard).held_bytes_max, 2 * UPDATE_SIZE);
    cr_assert_eq(push_in_step(&self, 1, 12, 0, 0.25f), CADRE_EFULL, "above it");
    cr_expect(strstr(cadre_error_text(), "step_closures"), "%s", cadre_error_text());
    cr_assert_eq(push_in_step(&self, 1, 11, 0, 0.25f), CADRE_EDUPLICATE);
    cr_expect_eq(COUNTER(&self, refused), 1);

    const cadre_step_update_t updates[] = {{10, 1}, {11, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 2), 0);
    cr_assert(values_are(&self, 1, 0.75f), "what was refused does not count");
    cr_expect_eq(cadre_shard_figures(self.shard).held_bytes, 0);
    cr_assert_eq(push_in_step(&self, 2, 12, 1, 0.25f), 0, "there is room again");
    close_shard(&self);
}

Test(shard_steps, holds_one_byte_less_than_two_updates_as_one)
{
    fixture_t self = open_with_step_bytes(2 * UPDATE_SIZE - 1);
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 1, 11, 0, 0.25f), CADRE_EFULL);
    close_shard(&self);
}

Test(shard_steps, holds_a_single_update_whatever_its_size)
{
    fixture_t self = open_with_step_bytes(1);
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 1, 11, 0, 0.25f), CADRE_EFULL);
    cr_assert_eq(restore(&self, "", 1, GENERATION + 1), 0);
    cr_expect_eq(cadre_shard_figures(self.shard).held_bytes, 0, "a restore frees it");
    close_shard(&self);
}

/* Each of these would count an update twice, drop more than is held, or divide by 0. */
Test(shard_steps, refuses_an_end_that_contradicts_what_it_holds)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 2, 20, 0, 0.5f), 0);
    const cadre_step_update_t twice[] = {{10, 1}, {11, 1}, {10, 1}};
    const cadre_step_update_t later[] = {{10, 1}, {20, 1}};
    const cadre_step_update_t without_rows[] = {{10, 0}};
    cr_assert_eq(end_step(&self, 1, twice, 3), CADRE_EINVALID);
    cr_assert_eq(end_step(&self, 1, later, 2), CADRE_EINVALID);
    cr_assert_eq(end_step(&self, 1, without_rows, 1), CADRE_EINVALID);
    static const uint64_t odd[] = {10, 1, 11};
    cadre_message_t message = question(CADRE_MESSAGE_END_STEP, &THE_COORDINATOR);
    message.end_step =
        (cadre_end_step_message_t){.step = 1, .updates = {odd, 3}, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), CADRE_EMALFORMED);
    cr_assert(values_are(&self, 1, 1), "and nothing changed");
    cr_expect_eq(COUNTER(&self, refused), 0);

    const cadre_step_update_t good[] = {{10, 1}};
    cr_assert_eq(end_step(&self, 1, good, 1), 0);
    cr_assert(values_are(&self, 1, 0.75f));
    close_shard(&self);
}

/* A shard that has missed a step, or has one that the coordinator does not know of, has other
 * values than the updates were computed from. */
Test(shard_steps, refuses_an_end_behind_another_step_than_the_last_one)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 3, 10, 0, 0.25f), 0);
    cr_assert_eq(push_in_step(&self, 7, 20, 0, 0.25f), 0);
    const cadre_step_update_t first[] = {{10, 1}};
    const cadre_step_update_t second[] = {{20, 1}};
    cr_assert_eq(end_step_after(&self, 1, 3, first, 1), CADRE_ESTATE, "it has missed step 1");
    cr_assert(values_are(&self, 1, 1), "and nothing changed");
    cr_assert_eq(end_step_after(&self, 0, 3, first, 1), 0);
    cr_assert_eq(end_step_after(&self, 0, 7, second, 1), CADRE_ESTATE, "step 3 is in");
    cr_expect(strstr(cadre_error_text(), "step 7 comes after step 0, and the last one here is 3"),
              "%s", cadre_error_text());
    cr_assert(values_are(&self, 1, 0.75f));
    cr_assert_eq(end_step_after(&self, 0, 3, first, 1), 0, "that one is over");
    cr_assert_eq(end_step_after(&self, 3, 7, second, 1), 0, "the numbers have gaps");
    cr_assert(values_are(&self, 1, 0.5f));
    close_shard(&self);
}

Test(shard_steps, a_restored_shard_holds_nothing)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    const cadre_step_update_t updates[] = {{10, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 1), 0);
    cr_assert_eq(push_in_step(&self, 2, 11, 1, 0.25f), 0);

    cr_assert_eq(restore(&self, "", 1, GENERATION + 1), 0);
    cadre_message_t message = question(CADRE_MESSAGE_END_STEP, &THE_COORDINATOR);
    message.end_step = (cadre_end_step_message_t){.step = 2, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), CADRE_EFENCED);
    close_shard(&self);
}

/* A step that ends while a cut is open is none of the cut's; a restored shard has ended none. */
Test(shard_steps, a_snapshot_says_which_step_had_ended_at_its_cut)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 3, 10, 0, 0.25f), 0);
    const cadre_step_update_t first[] = {{10, 1}};
    cr_assert_eq(end_step_after(&self, 0, 3, first, 1), 0);
    cr_assert_eq(open_cut(&self, 1, 11, GENERATION), 0);
    cr_assert_eq(end_step_after(&self, 3, 4, NULL, 0), 0);
    cr_assert_eq(close_cut(&self, 1, 11, "/draft", GENERATION), 0);
    cadre_shard_snapshot_t *taken = cadre_shard_effects_take_snapshot(&self.effects);
    cr_expect_eq(taken->step, 3);
    cadre_shard_snapshot_destroy(&taken);

    cr_assert_eq(restore(&self, "", 11, GENERATION + 1), 0);
    cr_assert_eq(open_cut(&self, 2, 11, GENERATION + 1), 0);
    cr_assert_eq(close_cut(&self, 2, 11, "/draft", GENERATION + 1), 0);
    taken = cadre_shard_effects_take_snapshot(&self.effects);
    cr_expect_eq(taken->step, 0);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_steps, leaves_out_a_variable_that_was_dropped_meanwhile)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_in_step(&self, 1, 10, 0, 0.25f), 0);
    cadre_message_t drop = question(CADRE_MESSAGE_DROP, &THE_COORDINATOR);
    drop.drop = (cadre_drop_message_t){.variable = 1, .generation = GENERATION};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &drop), 0);
    const cadre_step_update_t updates[] = {{10, 1}};
    cr_assert_eq(end_step(&self, 1, updates, 1), 0);
    cr_assert(values_are(&self, 2, 0.75f));
    close_shard(&self);
}

/* The bits of variable 1 after a step of `count` updates with random gradients, which came in the
 * order that `shuffle` gives. */
static void
run_shuffled(uint64_t shuffle, size_t count, uint32_t *bits)
{
    fixture_t self = open_filled_shard();
    cadre_step_update_t updates[16];
    size_t order[16];
    cadre_random_t random;
    cadre_random_init(&random, shuffle, 0);
    for (size_t i = 0; i < count; i++) {
        updates[i] = (cadre_step_update_t){100 + i, 1 + i};
        order[i] = i;
    }
    for (size_t i = count - 1; shuffle > 0 && i > 0; i--) {
        size_t other = (size_t)cadre_random_below(&random, i + 1);
        size_t swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
    for (size_t i = 0; i < count; i++) {
        float value = 0.001f * (float)(1 + order[i] * order[i]) / 7;
        cr_assert_eq(push_in_step(&self, 1, 100 + order[i], 0, value), 0);
    }
    cr_assert_eq(end_step(&self, 1, updates, count), 0);
    cadre_message_t answer;
    pull(&self, 1, 0, &answer);
    memcpy(bits, cadre_chunk_data(answer.chunks[1]), 64 * sizeof(*bits));
    cadre_message_fini(&answer);
    close_shard(&self);
}

Test(shard_steps, gives_the_same_bits_in_whatever_order_updates_came)
{
    uint32_t expected[64];
    uint32_t actual[64];
    run_shuffled(0, 16, expected);
    for (uint64_t shuffle = 1; shuffle <= 8; shuffle++) {
        run_shuffled(shuffle, 16, actual);
        cr_assert_arr_eq(actual, expected, sizeof(expected));
    }
}

Test(shard_steps, counts_what_it_holds)
{
    cadre_shard_steps_t *self = cadre_shard_steps_new(0);
    const cadre_held_part_t part = {.variable = 1};
    cadre_message_t message = {.type = CADRE_MESSAGE_PUSH, .push = {.update = 5, .step = 3}};
    cadre_message_add_chunk(&message, cadre_chunk_new(1000));
    cadre_shard_steps_hold(self, &message, &part, 1, 0);
    cr_expect_eq(cadre_shard_steps_count(self), 1);
    cr_expect_eq(cadre_shard_steps_size_bytes(self), 1000);
    cr_expect_eq(cadre_shard_steps_find(self, 5)->part_count, 1);
    cr_expect_null(cadre_shard_steps_find(self, 6));
    cr_expect_eq(cadre_shard_steps_end(self, 2), 0);
    cr_expect_eq(cadre_shard_steps_end(self, 3), 1);
    cr_expect_eq(cadre_shard_steps_size_bytes(self), 0);
    cr_expect_eq(cadre_shard_steps_last(self), 3);
    cadre_message_fini(&message);
    cadre_shard_steps_destroy(&self);
}
