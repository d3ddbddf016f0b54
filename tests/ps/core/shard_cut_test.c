/* The cut of a checkpoint on one shard: what its image holds, whatever comes in which order. */
#include "ps/core/shard_cut.h"

#include "tests/ps/shard_fixture.h"

TestSuite(shard_cut, .timeout = 240);

/* A PUSH that says that it comes after the cut of a checkpoint. */
static int
push_after(fixture_t *self, uint64_t update, uint64_t checkpoint, uint64_t cut)
{
    uint64_t triples[6];
    cadre_message_t message = push_message(update, 0, 0.5f, triples);
    message.push.checkpoint = checkpoint;
    message.push.cut = cut;
    return push(self, &message);
}

static int
end_checkpoint(fixture_t *self, uint64_t checkpoint)
{
    cadre_message_t message = question(CADRE_MESSAGE_CHECKPOINT_END, &THE_COORDINATOR);
    message.checkpoint_end = (cadre_checkpoint_end_message_t){.checkpoint = checkpoint};
    return reply_to(self, &THE_COORDINATOR, &message);
}

/* Sets variable 2, after the cut of `checkpoint` (0: of none). */
static int
assign_after(fixture_t *self, uint64_t sequence, float value, uint64_t checkpoint, uint64_t cut)
{
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){.sequence = sequence,
                                              .generation = GENERATION,
                                              .mode = CADRE_ASSIGN_SET,
                                              .variable = 2,
                                              .checkpoint = checkpoint,
                                              .cut = cut};
    cadre_message_add_chunk(&message, new_floats(4, value));
    return reply_to(self, &THE_COORDINATOR, &message);
}

static const cadre_partition_snapshot_t *
part_of(const cadre_shard_snapshot_t *snapshot, uint64_t variable)
{
    for (size_t i = 0; i < snapshot->part_count; i++) {
        if (snapshot->parts[i].spec.variable == variable) {
            return &snapshot->parts[i].references;
        }
    }
    return NULL;
}

/* Closes the cut; what it holds, which the caller destroys. */
static cadre_shard_snapshot_t *
closed(fixture_t *self, uint64_t checkpoint, uint64_t cut)
{
    cr_assert_eq(close_cut(self, checkpoint, cut, "/draft", GENERATION), 0);
    cadre_shard_snapshot_t *taken = cadre_shard_effects_take_snapshot(&self->effects);
    cr_assert_not_null(taken);
    cr_assert_eq(taken->checkpoint, checkpoint);
    cr_assert_eq(taken->state.window_base, cut);
    return taken;
}

static void
expect_part(const cadre_shard_snapshot_t *taken, uint64_t variable, float value, uint64_t version)
{
    const cadre_partition_snapshot_t *part = part_of(taken, variable);
    cr_assert(all_are(part->values, part->chunk_count, value));
    cr_assert_eq(part->version, version);
}

/* --- what an image holds --- */

Test(shard_cut, holds_what_comes_from_below_it_and_nothing_else)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, 1, 0, 0.5f), 0);
    cr_assert_eq(open_cut(&self, 4, 3, GENERATION), 0);
    cr_assert_null(cadre_shard_effects_take_snapshot(&self.effects), "it is open");
    cr_assert_eq(push_after(&self, 5, 4, 3), 0);
    cr_assert_eq(push_both(&self, 2, 0, 0.5f), 0, "a straggler");
    cr_assert_eq(push_both(&self, 2, 0, 0.5f), CADRE_EDUPLICATE);
    cr_assert_eq(push_after(&self, 3, 4, 3), 0);
    cr_assert(values_are(&self, 1, -1));
    cadre_shard_snapshot_t *taken = closed(&self, 4, 3);
    cr_assert_null(cadre_shard_effects_take_snapshot(&self.effects), "once");
    cr_assert_eq(push_both(&self, 6, 0, 0.5f), 0);
    cr_assert_str_eq(taken->directory, "/draft");
    cr_assert_eq(taken->state.generation, GENERATION);
    cr_assert_eq(taken->state.applied, 2);
    cr_assert_eq(taken->counters[CADRE_PS_COUNTER_applied], 2);
    cr_assert_eq(COUNTER(&self, applied), 5);
    cr_assert_eq(taken->part_count, 2);
    expect_part(taken, 1, 0, 2);
    expect_part(taken, 2, 0, 2);
    cr_assert(values_are(&self, 1, -1.5f));
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_cut, is_opened_by_the_first_push_that_comes_after_it)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, 1, 0, 0.5f), 0);
    cr_assert_eq(push_after(&self, 7, 4, 6), 0);
    cr_assert_eq(push_both(&self, 5, 0, 0.5f), 0, "a straggler");
    cr_assert_eq(open_cut(&self, 4, 6, GENERATION), 0, "it is open by now");
    cr_assert_eq(push_after(&self, 6, 4, 6), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 4, 6);
    expect_part(taken, 1, 0, 2);
    cr_assert_eq(taken->state.applied, 2);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

/* Adam divides by 1 - beta^t: its image counts its own steps. */
Test(shard_cut, has_slots_and_steps_of_its_own)
{
    static const double parameters[] = {0.001, 0.9, 0.999, 1e-7};
    uint64_t shape[2];
    fixture_t self = open_filled_shard();
    fixture_t alone = open_filled_shard();
    fixture_t *both[] = {&self, &alone};
    for (size_t i = 0; i < 2; i++) {
        cadre_create_message_t adam = create_message(3, 2, 2, shape);
        adam.optimizer = CADRE_OPTIMIZER_ADAM;
        adam.optimizer_parameters = (cadre_f64s_t){parameters, 4};
        cr_assert_eq(create(both[i], &adam), 0);
    }
    for (uint64_t update = 1; update <= 4; update++) {
        uint64_t triples[] = {3, 0, 0};
        for (size_t i = 0; i < 2; i++) {
            if (i == 1 && update == 3) {
                continue; /* above the cut */
            }
            cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
            message.push = (cadre_push_message_t){.update = update == 3 ? 9 : update,
                                                  .attempt = 1,
                                                  .generation = GENERATION,
                                                  .partitions = {triples, 3}};
            cadre_message_add_chunk(&message, new_floats(4, (float)update));
            cr_assert_eq(push(both[i], &message), 0);
        }
        if (update == 2) {
            cr_assert_eq(open_cut(&self, 1, 5, GENERATION), 0);
        }
    }
    cadre_shard_snapshot_t *taken = closed(&self, 1, 5);
    const cadre_partition_snapshot_t *image = part_of(taken, 3);
    cadre_partition_snapshot_t expected;
    cadre_partition_snapshot(cadre_shard_partition(alone.shard, 3, 0), &expected);
    cr_assert_eq(image->steps, 3);
    cr_assert_eq(image->version, 3);
    cr_assert_eq(image->slot_count, 2);
    size_t size_bytes = 4 * sizeof(float);
    cr_assert_arr_eq(cadre_chunk_data(image->values[0]), cadre_chunk_data(expected.values[0]),
                     size_bytes);
    for (size_t slot = 0; slot < 2; slot++) {
        cr_assert_arr_eq(cadre_chunk_data(image->slots[slot][0]),
                         cadre_chunk_data(expected.slots[slot][0]), size_bytes);
    }
    cr_assert_eq(cadre_partition_steps(cadre_shard_partition(self.shard, 3, 0)), 4);
    cadre_partition_snapshot_fini(&expected);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&alone);
    close_shard(&self);
}

Test(shard_cut, holds_the_assignments_that_were_made_before_it)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_after(&self, 7, 4, 6), 0, "faster than the assignment");
    cr_assert_eq(assign_after(&self, 1, 8, 0, 0), 0);
    cr_assert_eq(assign_after(&self, 2, 9, 4, 6), 0);
    cr_assert_eq(assign_after(&self, 1, 8, 0, 0), 0, "said again");
    cr_assert(values_are(&self, 2, 9));
    cadre_shard_snapshot_t *taken = closed(&self, 4, 6);
    expect_part(taken, 2, 8, 1);
    cr_assert_eq(taken->counters[CADRE_PS_COUNTER_assigned], 1);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_cut, an_assignment_that_comes_after_it_opens_it)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(assign_after(&self, 1, 8, 4, 6), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 4, 6);
    expect_part(taken, 2, 1, 0);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_cut, does_not_hold_what_is_created_while_it_is_open)
{
    uint64_t shape[2];
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 1, 5, GENERATION), 0);
    cadre_create_message_t later = create_message(3, 2, 2, shape);
    cr_assert_eq(create(&self, &later), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 1, 5);
    cr_assert_eq(taken->part_count, 2);
    cr_assert_null(part_of(taken, 3));
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

/* --- its end --- */

Test(shard_cut, settles_everything_below_it_when_it_is_closed)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 1, 10, GENERATION), 0);
    cr_assert_eq(push_both(&self, 9, 0, 0.5f), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 1, 10);
    cr_assert_eq(push_both(&self, 8, 0, 0.5f), CADRE_EDUPLICATE);
    cr_assert_eq(push_both(&self, 10, 0, 0.5f), 0);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_cut, is_opened_once_and_closed_once_however_often_that_is_said)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 5, 2, GENERATION), 0);
    cr_assert_eq(push_after(&self, 3, 5, 2), 0);
    cr_assert_eq(open_cut(&self, 5, 2, GENERATION), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 5, 2);
    expect_part(taken, 1, 1, 0);
    cadre_shard_snapshot_destroy(&taken);
    cr_assert_eq(close_cut(&self, 5, 2, "/draft", GENERATION), 0);
    cr_assert_eq(open_cut(&self, 5, 2, GENERATION), 0);
    cr_assert_eq(push_after(&self, 4, 5, 2), 0);
    cr_assert_null(cadre_shard_effects_take_snapshot(&self.effects));
    cr_assert_eq(open_cut(&self, 4, 2, GENERATION), CADRE_EFENCED, "an earlier one, late");
    cr_assert_eq(close_cut(&self, 4, 2, "/draft", GENERATION), CADRE_ESTATE);
    cr_assert_eq(open_cut(&self, 6, 5, GENERATION), 0);
    cr_assert_eq(close_cut(&self, 6, 4, "/draft", GENERATION), CADRE_ESTATE, "of another cut");
    taken = closed(&self, 6, 5);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_cut, of_a_checkpoint_that_was_given_up_is_dropped_and_not_opened_again)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 5, 2, GENERATION), 0);
    cr_assert_eq(end_checkpoint(&self, 5), 0);
    cr_assert_eq(push_after(&self, 3, 5, 2), 0);
    cr_assert_eq(open_cut(&self, 5, 2, GENERATION), 0);
    cr_assert_eq(close_cut(&self, 5, 2, "/draft", GENERATION), CADRE_ESTATE);
    cr_assert_eq(end_checkpoint(&self, 6), 0, "one that it never heard of");
    cr_assert_eq(push_after(&self, 4, 6, 2), 0);
    cr_assert_eq(close_cut(&self, 6, 2, "/draft", GENERATION), CADRE_ESTATE);
    cr_assert_eq(open_cut(&self, 7, 5, GENERATION), 0);
    cr_assert_eq(push_both(&self, 1, 0, 0.5f), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 7, 5);
    expect_part(taken, 1, -0.5f, 3);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_cut, of_a_later_checkpoint_takes_the_place_of_one_whose_end_was_lost)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 5, 2, GENERATION), 0);
    cr_assert_eq(push_after(&self, 3, 5, 2), 0);
    cr_assert_eq(open_cut(&self, 6, 4, GENERATION), 0);
    cr_assert_eq(push_both(&self, 2, 0, 0.5f), 0);
    cr_assert_eq(end_checkpoint(&self, 5), 0, "late");
    cadre_shard_snapshot_t *taken = closed(&self, 6, 4);
    expect_part(taken, 1, 0, 2);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_cut, goes_with_everything_else_at_a_restore)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 1, 10, GENERATION), 0);
    cr_assert_eq(restore(&self, "", 1, GENERATION + 1), 0);
    cr_assert_eq(open_cut(&self, 2, 10, GENERATION), CADRE_EFENCED);
    cr_assert_eq(close_cut(&self, 1, 10, "/draft", GENERATION), CADRE_EFENCED);
    cr_assert_eq(close_cut(&self, 1, 10, "/draft", GENERATION + 1), CADRE_ESTATE);
    cr_assert_null(cadre_shard_effects_take_snapshot(&self.effects));
    close_shard(&self);
}

Test(shard_cut, that_was_over_before_a_restore_is_not_opened_after_it)
{
    fixture_t self = open_filled_shard();
    cadre_message_t message = question(CADRE_MESSAGE_RESTORE, &THE_COORDINATOR);
    message.restore =
        (cadre_restore_message_t){.path = "", .cut = 1, .generation = GENERATION + 1, .ended = 5};
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    cr_assert_eq(open_cut(&self, 5, 3, GENERATION + 1), 0, "nothing");
    cr_assert_eq(close_cut(&self, 5, 3, "/draft", GENERATION + 1), CADRE_ESTATE);
    cr_assert_eq(open_cut(&self, 6, 3, GENERATION + 1), 0);
    cr_assert_eq(close_cut(&self, 6, 3, "/draft", GENERATION + 1), 0);
    close_shard(&self);
}

/* --- what is wrong --- */

Test(shard_cut, an_update_from_below_the_cut_that_it_names_is_refused)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_after(&self, 5, 4, 6), CADRE_EINVALID);
    cr_assert_eq(COUNTER(&self, refused), 1);
    cr_assert_eq(close_cut(&self, 4, 6, "/draft", GENERATION), CADRE_ESTATE, "nothing was opened");
    cr_assert(values_are(&self, 1, 1));
    close_shard(&self);
}

Test(shard_cut, an_update_that_is_refused_or_was_seen_opens_nothing)
{
    fixture_t self = open_filled_shard();
    uint64_t triples[6];
    cr_assert_eq(push_both(&self, 7, 0, 0.5f), 0);
    cr_assert_eq(push_after(&self, 7, 4, 6), CADRE_EDUPLICATE);
    cadre_message_t message = push_message(8, 0, 0.5f, triples);
    message.push.checkpoint = 4;
    message.push.cut = 6;
    message.push.generation = GENERATION + 1;
    cr_assert_eq(push(&self, &message), CADRE_EFENCED);
    cr_assert_eq(close_cut(&self, 4, 6, "/draft", GENERATION), CADRE_ESTATE);
    close_shard(&self);
}

Test(shard_cut, at_another_place_than_a_worker_opened_it_is_refused)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_after(&self, 7, 4, 6), 0);
    cr_assert_eq(open_cut(&self, 4, 5, GENERATION), CADRE_EINVALID);
    close_shard(&self);
}

/* A worker that names a checkpoint which no coordinator began costs one checkpoint, not all. */
Test(shard_cut, that_only_a_worker_knows_costs_one_checkpoint)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_after(&self, 7, UINT64_MAX, 6), 0);
    cr_assert_eq(open_cut(&self, 4, 8, GENERATION), CADRE_EFENCED);
    cr_assert_eq(end_checkpoint(&self, 4), 0);
    cr_assert_eq(open_cut(&self, 5, 8, GENERATION), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 5, 8);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

/* --- dropped variables --- */

static int
retire(fixture_t *self, uint64_t variable, uint64_t checkpoint, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_RETIRE, &THE_COORDINATOR);
    message.retire = (cadre_retire_message_t){
        .variable = variable, .checkpoint = checkpoint, .generation = generation};
    return reply_to(self, &THE_COORDINATOR, &message);
}

Test(shard_cut, holds_what_was_retired_after_it_and_later_ones_do_not)
{
    uint64_t triples[6];
    fixture_t self = open_filled_shard();
    cr_assert_eq(open_cut(&self, 5, 10, GENERATION), 0);
    cr_assert_eq(retire(&self, 2, 5, GENERATION), 0);
    cr_assert_eq(retire(&self, 2, 5, GENERATION), 0, "said again");
    cr_expect_eq(retire(&self, 2, 5, GENERATION + 1), CADRE_EFENCED);
    cr_expect_eq(retire(&self, 77, 5, GENERATION), 0, "it has no part here");
    cadre_shard_snapshot_t *taken = closed(&self, 5, 10);
    cr_expect_not_null(part_of(taken, 2));
    cadre_shard_snapshot_destroy(&taken);
    cr_assert_eq(end_checkpoint(&self, 5), 0);
    cadre_message_t message = push_message(11, 0, 0.5f, triples);
    cr_assert_eq(push(&self, &message), 0, "closures that run again push to it");
    cr_assert_eq(open_cut(&self, 6, 20, GENERATION), 0);
    taken = closed(&self, 6, 20);
    cr_expect_null(part_of(taken, 2));
    cr_expect_not_null(part_of(taken, 1));
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

/* A PUSH goes another way than RETIRE, and may come first. */
Test(shard_cut, that_was_opened_before_RETIRE_came_is_without_it_too)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_after(&self, 20, 6, 20), 0);
    cr_assert_eq(retire(&self, 2, 0, GENERATION), 0);
    cr_assert_eq(open_cut(&self, 6, 20, GENERATION), 0);
    cadre_shard_snapshot_t *taken = closed(&self, 6, 20);
    cr_expect_eq(taken->part_count, 1);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}
