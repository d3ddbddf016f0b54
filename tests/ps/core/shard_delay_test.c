/* Delay compensation on one shard: g + lambda g^2 (w - u) in numbers that f32 holds, computed by
 * hand. Variable 2, of four elements that begin at 1, has a lambda of 0.5 and a rate of 1. */
#include "ps/core/shard_updates.h"

#include "tests/ps/shard_fixture.h"

TestSuite(shard_delay, .timeout = 240);

static const double LAMBDA[] = {0.5};

static cadre_create_message_t
compensated(uint64_t *shape)
{
    cadre_create_message_t message = create_message(2, 2, 2, shape);
    message.delay_compensation = (cadre_f64s_t){LAMBDA, 1};
    return message;
}

static fixture_t
open_compensated(void)
{
    uint64_t shape[2];
    fixture_t self = open_shard(NULL);
    const cadre_create_message_t message = compensated(shape);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cr_assert_eq(create(&self, &message), 0, "%s", cadre_error_text());
    return self;
}

/* Pulls variable 2, of which the worker holds `held` - 1 (0: nothing). */
static void
pull_again(fixture_t *self, uint64_t held)
{
    cadre_message_t answer;
    pull(self, 2, held, &answer);
    cr_assert_eq(answer.values.status, 0, "%s", answer.values.text);
    cadre_message_fini(&answer);
}

/* Pushes a gradient that was computed from `version`, after the cut of a checkpoint (0: none). */
static int
push_after(fixture_t *self, uint64_t update, uint64_t version, float value, uint64_t cut)
{
    const uint64_t triple[] = {2, 0, version};
    cadre_message_t message = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
    message.push = (cadre_push_message_t){.update = update,
                                          .attempt = 1,
                                          .generation = GENERATION,
                                          .partitions = {triple, 3},
                                          .checkpoint = cut > 0 ? 1 : 0,
                                          .cut = cut};
    cadre_message_add_chunk(&message, new_floats(4, value));
    return push(self, &message);
}

static void
push_one(fixture_t *self, uint64_t update, uint64_t version, float value)
{
    cr_assert_eq(push_after(self, update, version, value, 0), 0, "%s", cadre_error_text());
}

/* Expects the values to be `value`, without a pull that the shard would note. */
static void
expect_value(const fixture_t *self, float value)
{
    float found[4] = {0};
    cadre_partition_copy(cadre_shard_partition(self->shard, 2, 0), -1, 0, 4, found);
    for (size_t i = 0; i < 4; i++) {
        cr_expect_eq(found[i], value, "element %zu: %.9g, not %.9g", i, (double)found[i],
                     (double)value);
    }
}

static void
expect_counts(const fixture_t *self, uint64_t compensated, uint64_t as_it_came)
{
    cr_expect_eq(COUNTER(self, compensated), compensated, "%llu compensated",
                 (unsigned long long)COUNTER(self, compensated));
    cr_expect_eq(COUNTER(self, uncompensated), as_it_came, "%llu as they came",
                 (unsigned long long)COUNTER(self, uncompensated));
}

Test(shard_delay, compensates_a_gradient_for_what_others_have_changed_since)
{
    fixture_t self = open_compensated();
    pull_again(&self, 0);
    push_one(&self, 1, 0, 0.5F);
    expect_value(&self, 0.5F);
    expect_counts(&self, 0, 0);

    /* 0.25 + 0.5 * 0.0625 * (0.5 - 1) = 0.234375 */
    push_one(&self, 2, 0, 0.25F);
    expect_value(&self, 0.265625F);
    expect_counts(&self, 1, 0);

    cr_expect_eq(push_after(&self, 2, 0, 0.25F, 0), CADRE_EDUPLICATE, "said again");
    expect_value(&self, 0.265625F);
    expect_counts(&self, 1, 0);
    close_shard(&self);
}

Test(shard_delay, applies_a_gradient_of_values_that_it_does_not_keep_as_it_came)
{
    fixture_t self = open_compensated();
    push_one(&self, 1, 0, 0.5F);
    push_one(&self, 2, 0, 0.25F);
    expect_value(&self, 0.25F);
    expect_counts(&self, 0, 1);
    close_shard(&self);
}

Test(shard_delay, notes_a_pull_of_a_worker_that_holds_the_version_already)
{
    fixture_t self = open_compensated();
    pull_again(&self, 1);
    cr_assert_eq(COUNTER(&self, unchanged), 1);
    push_one(&self, 1, 0, 0.5F);
    push_one(&self, 2, 0, 0.25F);
    expect_value(&self, 0.265625F);
    close_shard(&self);
}

Test(shard_delay, keeps_as_many_versions_as_its_limit)
{
    fixture_t self = open_compensated();
    for (uint64_t version = 0; version < CADRE_PULLED_VERSIONS_MAX; version++) {
        pull_again(&self, 0);
        pull_again(&self, 0); /* a second worker */
        push_one(&self, version + 1, version, 0);
    }
    push_one(&self, 100, 0, 0);
    expect_counts(&self, 1, 0);
    pull_again(&self, 0);
    push_one(&self, 101, 0, 0);
    expect_counts(&self, 1, 1);
    push_one(&self, 102, 1, 0);
    expect_counts(&self, 2, 1);
    close_shard(&self);
}

Test(shard_delay, does_not_take_an_assignment_for_a_delay)
{
    fixture_t self = open_compensated();
    pull_again(&self, 0);
    cadre_message_t message = question(CADRE_MESSAGE_ASSIGN, &THE_COORDINATOR);
    message.assign = (cadre_assign_message_t){
        .sequence = 1, .generation = GENERATION, .mode = CADRE_ASSIGN_SET, .variable = 2};
    cadre_message_add_chunk(&message, new_floats(4, 9));
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    push_one(&self, 1, 0, 0.25F);
    expect_value(&self, 8.75F);
    expect_counts(&self, 0, 1);
    close_shard(&self);
}

Test(shard_delay, leaves_a_gradient_alone_whose_square_is_beyond_f32)
{
    fixture_t self = open_compensated();
    pull_again(&self, 0);
    push_one(&self, 1, 0, 1);
    push_one(&self, 2, 0, 1e30F);
    expect_value(&self, -1e30F);
    expect_counts(&self, 1, 0);
    close_shard(&self);
}

Test(shard_delay, compensates_a_straggler_in_the_image_by_the_values_there)
{
    fixture_t self = open_compensated();
    pull_again(&self, 0);
    cr_assert_eq(open_cut(&self, 1, 10, GENERATION), 0);
    cr_assert_eq(push_after(&self, 12, 0, 0.5F, 10), 0);
    pull_again(&self, 0); /* of 0.5 */

    /* Here 0.25 + 0.5 * 0.0625 * (0.5 - 1) = 0.234375 are taken from 0.5. In the image, which is
     * still what was pulled, 0.25 from 1. */
    push_one(&self, 3, 0, 0.25F);
    expect_value(&self, 0.265625F);

    /* Here 0.25 + 0.5 * 0.0625 * (0.265625 - 0.5) = 0.24267578125 are taken from 0.265625. In the
     * image 0.25 + 0.5 * 0.0625 * (0.75 - 0.5) = 0.2578125 from 0.75. */
    push_one(&self, 4, 1, 0.25F);
    expect_value(&self, 0.265625F - 0.24267578125F);

    cr_assert_eq(close_cut(&self, 1, 10, "/draft", GENERATION), 0);
    cadre_shard_snapshot_t *taken = cadre_shard_effects_take_snapshot(&self.effects);
    const cadre_partition_snapshot_t *image = &taken->parts[0].references;
    cr_assert_eq(image->version, 2);
    cr_expect_eq(taken->counters[CADRE_PS_COUNTER_compensated], 2);
    cr_expect(all_are(image->values, image->chunk_count, 0.4921875F));
    cadre_shard_snapshot_destroy(&taken);
    close_shard(&self);
}

Test(shard_delay, of_another_lambda_is_another_partition)
{
    static const double other[] = {0.25};
    static const double bad[] = {-1};
    uint64_t shape[2];
    fixture_t self = open_compensated();
    cadre_create_message_t message = compensated(shape);
    cr_expect_eq(create(&self, &message), 0);
    message.delay_compensation.items = other;
    cr_expect_eq(create(&self, &message), CADRE_EEXISTS);
    message = create_message(3, 2, 2, shape);
    message.delay_compensation = (cadre_f64s_t){bad, 1};
    cr_expect_eq(create(&self, &message), CADRE_EINVALID);
    close_shard(&self);
}

Test(shard_delay, counts_the_versions_that_it_may_keep_in_its_memory)
{
    uint64_t shape[2];
    fixture_t self = open_shard(NULL); /* 64 MiB */
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, 15, 262144, shape);
    message.delay_compensation = (cadre_f64s_t){LAMBDA, 1};
    cr_expect_eq(create(&self, &message), CADRE_EFULL, "15 MiB, 17 times");
    message.rows = shape[0] = 3;
    cr_expect_eq(create(&self, &message), 0, "%s", cadre_error_text());
    close_shard(&self);
}
