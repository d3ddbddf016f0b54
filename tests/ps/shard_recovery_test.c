/*
 * What a shard makes of messages around a RESTORE: those of before it that arrive after it, the
 * RESTORE itself said again, and one that failed.
 */
#include "tests/ps/shard_fixture.h"

TestSuite(shard_recovery, .timeout = 240);

enum { NEXT = GENERATION + 1, CUT = 50, UPDATE = 60 };

static int
settle(fixture_t *self, uint64_t base, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_SETTLE, &THE_COORDINATOR);
    message.settle = (cadre_settle_message_t){.base = base, .generation = generation};
    return reply_to(self, &THE_COORDINATOR, &message);
}

static int
create_of(fixture_t *self, uint64_t variable, uint64_t generation)
{
    uint64_t shape[2];
    cadre_create_message_t message = variable == 1 ? create_message(1, ROWS, COLUMNS, shape)
                                                   : create_message(variable, 2, 2, shape);
    message.generation = generation;
    return create(self, &message);
}

static int
assign(fixture_t *self, uint64_t sequence, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){
        .sequence = sequence, .generation = generation, .mode = CADRE_ASSIGN_SET, .variable = 2};
    cadre_message_add_chunk(&message, new_floats(4, 9));
    return reply_to(self, &THE_COORDINATOR, &message);
}

static int
snapshot(fixture_t *self, uint64_t checkpoint, uint64_t generation)
{
    int status = open_cut(self, checkpoint, 1000, generation);
    return status == 0 ? close_cut(self, checkpoint, 1000, "/draft", generation) : status;
}

static int
push_at(fixture_t *self, uint64_t update, uint64_t generation)
{
    uint64_t triples[6];
    cadre_message_t message = push_message(update, 0, 0.5f, triples);
    message.push.generation = generation;
    return push(self, &message);
}

static float
first_of(const fixture_t *self, uint64_t variable)
{
    cadre_partition_snapshot_t taken;
    cadre_partition_snapshot(cadre_shard_partition(self->shard, variable, 0), &taken);
    float value = *(const float *)cadre_chunk_data(taken.values[0]);
    cadre_partition_snapshot_fini(&taken);
    return value;
}

/* A shard with a past: updates, an assignment, a settled window, a snapshot; then restored. */
static fixture_t
restored_shard(void)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_at(&self, UPDATE, GENERATION), 0);
    cr_assert_eq(assign(&self, 1, GENERATION), 0);
    cr_assert_eq(snapshot(&self, 1, GENERATION), 0);
    cr_assert_eq(restore(&self, "", CUT, NEXT), 0);
    return self;
}

Test(shard_recovery, messages_of_before_a_restore_change_nothing_after_it)
{
    fixture_t self = restored_shard();
    cr_assert_null(cadre_shard_take_snapshot(self.shard), "nor is a snapshot of before written");
    cr_assert_eq(create_of(&self, 1, GENERATION), CADRE_EFENCED);
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(create_of(&self, 1, NEXT), 0);
    cr_assert_eq(create_of(&self, 2, NEXT), 0);
    cr_assert_eq(settle(&self, 1000, GENERATION), CADRE_EFENCED);
    cr_assert_eq(assign(&self, 2, GENERATION), CADRE_EFENCED);
    cr_assert_eq(snapshot(&self, 2, GENERATION), CADRE_EFENCED);
    cr_assert_null(cadre_shard_take_snapshot(self.shard));
    cr_assert_eq(push_at(&self, UPDATE, GENERATION), CADRE_EFENCED);
    cr_assert_eq(restore(&self, "", 7, GENERATION), CADRE_EFENCED);
    cr_assert_eq(first_of(&self, 1), 1);
    cr_assert_eq(first_of(&self, 2), 1);
    cr_assert_eq(push_at(&self, CUT - 1, NEXT), CADRE_EDUPLICATE, "the restore's cut stands");
    cr_assert_eq(push_at(&self, UPDATE, NEXT), 0, "its update of before went with its values");
    cr_assert_eq(assign(&self, 1, NEXT), 0, "assignments are counted anew");
    close_shard(&self);
}

Test(shard_recovery, a_shard_without_a_generation_settles_nothing)
{
    fixture_t self = open_shard(NULL);
    cr_assert_eq(settle(&self, 1000, 0), CADRE_EFENCED);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(settle(&self, 1000, 0), CADRE_EFENCED);
    cr_assert_eq(settle(&self, 1000, NEXT), CADRE_EFENCED);
    cr_assert_eq(create_of(&self, 1, GENERATION), 0);
    cr_assert_eq(create_of(&self, 2, GENERATION), 0);
    cr_assert_eq(push_at(&self, 999, GENERATION), 0);
    cr_assert_eq(settle(&self, 1000, GENERATION), 0);
    cr_assert_eq(push_at(&self, 998, GENERATION), CADRE_EDUPLICATE);
    close_shard(&self);
}

Test(shard_recovery, a_restore_said_again_after_updates_changes_nothing)
{
    fixture_t self = restored_shard();
    cr_assert_eq(create_of(&self, 1, NEXT), 0);
    cr_assert_eq(create_of(&self, 2, NEXT), 0);
    cr_assert_eq(push_at(&self, UPDATE, NEXT), 0);
    cr_assert_eq(assign(&self, 1, NEXT), 0);
    cr_assert_eq(snapshot(&self, 3, NEXT), 0);
    cr_assert_eq(restore(&self, "", CUT, NEXT), 0);
    cr_assert_eq(restore(&self, "", CUT - 20, NEXT), 0);
    cr_assert_eq(restore(&self, "/nowhere", CUT, NEXT), 0, "its generation says what it is");
    cr_assert_eq(cadre_shard_partition_count(self.shard), 2);
    cr_assert_eq(first_of(&self, 1), 0.5f);
    cr_assert_eq(first_of(&self, 2), 9);
    cr_assert_eq(push_at(&self, UPDATE, NEXT), CADRE_EDUPLICATE);
    cr_assert_eq(COUNTER(&self, applied), 1);
    cadre_shard_snapshot_t *taken = cadre_shard_take_snapshot(self.shard);
    cr_assert_not_null(taken);
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

/* --- a restore that fails --- */

static int
fail_to_open(void *context, const char *path, uint32_t index, cadre_shard_state_t *state)
{
    (void)context, (void)index, (void)state;
    return cadre_fail(CADRE_ECORRUPT, "%s is damaged", path);
}

static void
close_nothing(void *context)
{
    (void)context;
}

Test(shard_recovery, a_failed_restore_serves_nobody_and_a_later_one_does)
{
    cadre_loader_t loader = {.open = fail_to_open, .close = close_nothing};
    uint64_t shape[2];
    fixture_t self = open_shard(&loader);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t weights = create_message(1, ROWS, COLUMNS, shape);
    cr_assert_eq(create(&self, &weights), 0);
    cr_assert_eq(create_of(&self, 2, GENERATION), 0);
    cr_assert_eq(restore(&self, "/damaged", CUT, NEXT), CADRE_ECORRUPT);
    for (uint64_t generation = GENERATION; generation <= NEXT; generation++) {
        cr_assert_eq(create_of(&self, 1, generation), CADRE_EFENCED);
        cr_assert_eq(settle(&self, 1000, generation), CADRE_EFENCED);
        cr_assert_eq(assign(&self, 1, generation), CADRE_EFENCED);
        cr_assert_eq(snapshot(&self, 1, generation), CADRE_EFENCED);
        cr_assert_eq(push_at(&self, UPDATE, generation), CADRE_EFENCED);
    }
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(cadre_shard_generation(self.shard), 0);
    cr_assert_eq(restore(&self, "", CUT, GENERATION), CADRE_EFENCED,
                 "one of before it, that comes only now");
    cr_assert_eq(restore(&self, "/damaged", CUT, NEXT), CADRE_ECORRUPT);
    cr_assert_eq(restore(&self, "", CUT, NEXT + 1), 0);
    cr_assert_eq(create_of(&self, 1, NEXT + 1), 0);
    cr_assert_eq(create_of(&self, 2, NEXT + 1), 0);
    cr_assert_eq(push_at(&self, UPDATE, NEXT + 1), 0);
    close_shard(&self);
}

Test(shard_recovery, another_session_counts_generations_anew)
{
    fixture_t self = restored_shard();
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR);
    cr_assert_eq(restore(&self, "", 1, 1), 0);
    cr_assert_eq(create_of(&self, 1, 1), 0);
    close_shard(&self);
}
