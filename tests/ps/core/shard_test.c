#include "ps/core/shard.h"

#include <stdio.h>

#include "tests/ps/shard_fixture.h"

TestSuite(shard, .timeout = 240);

/* --- create --- */

Test(shard, creates_a_partition_once)
{
    fixture_t self = open_filled_shard();
    uint64_t shape[2];
    cadre_create_message_t same = create_message(1, ROWS, COLUMNS, shape);
    cr_assert_eq(push_both(&self, 1, 0, 0.5f), 0);
    cr_assert_eq(create(&self, &same), 0);
    cr_assert(values_are(&self, 1, 0.5f), "it is not made again");
    cr_assert_eq(cadre_shard_partition_count(self.shard), 2);
    close_shard(&self);
}

Test(shard, refuses_another_partition_in_the_same_place)
{
    static const double two[] = {2};
    fixture_t self = open_filled_shard();
    uint64_t shape[2];
    cadre_create_message_t same = create_message(1, ROWS, COLUMNS, shape);
    cadre_create_message_t others[6] = {same, same, same, same, same, same};
    others[0].name = "weight";
    others[1].seed = 1;
    others[2].optimizer_parameters.items = two;
    others[3].initializer_parameters.items = two;
    others[4].rows = ROWS - 1;
    others[5].optimizer = CADRE_OPTIMIZER_ADD;
    others[5].optimizer_parameters.count = 0;
    for (size_t i = 0; i < 6; i++) {
        cr_assert_eq(create(&self, &others[i]), CADRE_EEXISTS, "%zu", i);
    }
    shape[1] = COLUMNS + 1;
    cr_assert_eq(create(&self, &same), CADRE_EEXISTS);
    cr_assert(values_are(&self, 1, 1));
    close_shard(&self);
}

Test(shard, changes_a_learning_rate_at_an_update_whatever_create_comes_again)
{
    static const double numbers[] = {0, 0, 0, 2}; /* no warm-up; after one update a rate of 2 */
    fixture_t self = open_filled_shard();
    uint64_t shape[2];
    const cadre_create_message_t before = create_message(1, ROWS, COLUMNS, shape);
    cadre_create_message_t changed = before;
    changed.schedule = CADRE_SCHEDULE_PIECEWISE_CONSTANT;
    changed.schedule_numbers = (cadre_f64s_t){numbers, 4};
    cr_assert_eq(create(&self, &changed), 0, "%s", cadre_error_text());
    cr_assert_eq(create(&self, &before), 0, "one from before is late");
    cr_assert_eq(push_both(&self, 1, 0, 0.5f), 0);
    cr_assert(values_are(&self, 1, 0.5f), "the first update is as it was");
    cr_assert_eq(push_both(&self, 2, 0, 0.5f), 0);
    cr_assert(values_are(&self, 1, -0.5f), "the second is twice as far");
    changed.seed++;
    cr_expect_eq(create(&self, &changed), CADRE_EEXISTS);
    close_shard(&self);
}

Test(shard, refuses_a_bad_description_and_keeps_nothing_of_it)
{
    fixture_t self = open_shard(NULL);
    uint64_t shape[2];
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t good = create_message(1, 2, 2, shape);
    cadre_create_message_t bad[8] = {good, good, good, good, good, good, good, good};
    const int status[8] = {CADRE_EFENCED,  CADRE_EINVALID,   CADRE_EDTYPE,   CADRE_EMALFORMED,
                           CADRE_EINVALID, CADRE_EMALFORMED, CADRE_EINVALID, CADRE_ETOOLARGE};
    bad[0].generation++;
    bad[1].name = "../x";
    bad[2].dtype = 200;
    bad[3].initializer = 77;
    bad[4].partition = 1;
    bad[5].optimizer_parameters.count = 0;
    bad[6].first_row = 1; /* and two rows of two */
    bad[7].rows = INT64_MAX;
    for (size_t i = 0; i < 8; i++) {
        cr_assert_eq(create(&self, &bad[i]), status[i], "%zu: %s", i, cadre_error_text());
        cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    }
    cr_assert_eq(create(&self, &good), 0);
    close_shard(&self);
}

Test(shard, takes_no_more_than_its_memory)
{
    fixture_t self = open_shard(NULL); /* 64 MiB */
    uint64_t shape[2];
    static const double momentum[] = {1, 0.5};
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, 32, 262144, shape);
    message.optimizer = CADRE_OPTIMIZER_MOMENTUM;
    message.optimizer_parameters = (cadre_f64s_t){momentum, 2};
    message.rows = shape[0] = 33;
    cr_assert_eq(create(&self, &message), CADRE_EFULL, "33 MiB and as much of slots");
    message.rows = shape[0] = 32;
    cr_assert_eq(create(&self, &message), 0, "exactly 64 MiB");
    message = create_message(2, 1, 1, shape);
    cr_assert_eq(create(&self, &message), CADRE_EFULL);
    cr_assert_eq(restore(&self, "", 1, GENERATION + 1), 0);
    message.generation++;
    cr_assert_eq(create(&self, &message), 0, "a restore gives all of it back");
    close_shard(&self);
}

static int
drop(fixture_t *self, uint64_t variable, uint64_t generation)
{
    cadre_message_t message = question(CADRE_MESSAGE_DROP, &THE_COORDINATOR);
    message.drop = (cadre_drop_message_t){.variable = variable, .generation = generation};
    return reply_to(self, &THE_COORDINATOR, &message);
}

Test(shard, forgets_a_dropped_variable_and_gives_its_memory_back)
{
    uint64_t shape[2];
    fixture_t self = open_filled_shard();
    cadre_create_message_t big = create_message(3, 3900, 1000, shape); /* of 16 MB, of 64 MB */
    for (uint64_t id = 3; id < 40; id++) {
        big.variable = id;
        cr_assert_eq(create(&self, &big), 0, "%s", cadre_error_text());
        cr_assert_eq(drop(&self, id, GENERATION), 0);
        cr_assert_null(cadre_shard_partition(self.shard, id, 0));
        cr_assert_eq(cadre_shard_partition_count(self.shard), 2, "the others stay");
    }
    cr_expect_eq(drop(&self, 39, GENERATION), 0, "said again");
    cr_expect_eq(drop(&self, 1, GENERATION + 1), CADRE_EFENCED);
    cr_expect_not_null(cadre_shard_partition(self.shard, 1, 0));
    close_shard(&self);
}

Test(shard, drops_every_partition_of_the_variable)
{
    uint64_t shape[2];
    fixture_t self = open_filled_shard();
    cadre_create_message_t part = create_message(3, 10, 4, shape);
    part.partitions = 5;
    part.rows = 2;
    for (uint64_t i = 0; i < 5; i++) {
        part.partition = i;
        part.first_row = 2 * i;
        cr_assert_eq(create(&self, &part), 0, "%s", cadre_error_text());
    }
    cr_assert_eq(cadre_shard_partition_count(self.shard), 7);
    cr_assert_eq(drop(&self, 3, GENERATION), 0);
    cr_assert_eq(cadre_shard_partition_count(self.shard), 2);
    close_shard(&self);
}

/* It may have been sent twice, and the later copy comes after the DROP. */
Test(shard, a_CREATE_that_comes_after_the_DROP_changes_nothing)
{
    uint64_t shape[2];
    fixture_t self = open_filled_shard();
    cadre_create_message_t late = create_message(3, 2, 2, shape);
    cadre_create_message_t known = create_message(2, 2, 2, shape);
    cr_assert_eq(drop(&self, 3, GENERATION), 0);
    cr_expect_eq(create(&self, &late), CADRE_EFENCED);
    cr_expect_eq(create(&self, &known), 0, "what is there is said again");
    late.variable = 4;
    cr_expect_eq(create(&self, &late), 0);
    cr_expect_eq(cadre_shard_partition_count(self.shard), 3);
    cr_assert_eq(restore(&self, "", 1, GENERATION + 1), 0);
    late.variable = 3;
    late.generation = GENERATION + 1;
    cr_expect_eq(create(&self, &late), 0, "a generation begins anew");
    close_shard(&self);
}

Test(shard, refuses_a_partition_that_no_message_could_carry)
{
    cadre_shard_options_t options = {.incarnation = PS, .size_bytes_max = UINT64_MAX};
    fixture_t self = {.shard = cadre_shard_new(&options)};
    uint64_t shape[2];
    cadre_shard_begin_session(self.shard, 0, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(restore(&self, "", 1, GENERATION), 0);
    cadre_create_message_t message = create_message(1, CADRE_MESSAGE_CHUNKS_MAX + 1, 262144, shape);
    cr_assert_eq(create(&self, &message), CADRE_ETOOLARGE);
    close_shard(&self);
}

/* --- restore --- */

Test(shard, forgets_everything_at_a_restore_of_a_new_generation)
{
    fixture_t self = open_filled_shard();
    cr_assert_eq(push_both(&self, 7, 0, 0.5f), 0);
    cr_assert_eq(restore(&self, "", 5, GENERATION), 0, "said again");
    cr_assert_eq(cadre_shard_partition_count(self.shard), 2);
    cr_assert_eq(restore(&self, "", 1, GENERATION - 1), CADRE_EFENCED);
    cr_assert_eq(cadre_shard_partition_count(self.shard), 2);
    cr_assert(values_are(&self, 1, 0.5f));
    cr_assert_eq(restore(&self, "", 6, GENERATION + 1), 0);
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(cadre_shard_generation(self.shard), GENERATION + 1);
    cr_assert_eq(COUNTER(&self, applied), 0);
    uint64_t shape[2];
    cadre_create_message_t message = create_message(2, 2, 2, shape);
    message.generation++;
    cr_assert_eq(create(&self, &message), 0);
    uint64_t triple[] = {2, 0, 0};
    const int expected[] = {CADRE_EDUPLICATE, 0, 0}; /* of ids 5, 6 and 7; the cut is 6 */
    for (uint64_t i = 0; i < 3; i++) {
        cadre_message_t push_one = question(CADRE_MESSAGE_PUSH, &THE_WORKER);
        push_one.push = (cadre_push_message_t){
            .update = 5 + i, .generation = GENERATION + 1, .partitions = {triple, 3}};
        cadre_message_add_chunk(&push_one, new_floats(4, 0));
        cr_assert_eq(push(&self, &push_one), expected[i]);
    }
    close_shard(&self);
}

Test(shard, begins_anew_for_another_session)
{
    fixture_t self = open_filled_shard();
    cadre_shard_malformed(self.shard);
    cr_assert_eq(push_both(&self, 7, 0, 0.5f), 0);
    cadre_shard_begin_session(self.shard, 3, EPOCH, COORDINATOR, &self.effects);
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(cadre_shard_generation(self.shard), 0);
    cr_assert_eq(COUNTER(&self, applied), 0);
    cr_assert_eq(COUNTER(&self, malformed), 1, "that is the process's");
    cr_assert_eq(push_both(&self, 8, 0, 0.5f), CADRE_EFENCED);
    close_shard(&self);
}

/* --- a checkpoint of the test's own --- */

typedef struct {
    int opened;
    int closed;
    int status;      /* of open */
    int read_status; /* of reads of values */
    bool has_slots;
    uint64_t steps; /* of the slots */
    bool knows;     /* variable 1 */
    cadre_stored_variable_t stored;
    int64_t elements_read;
} fake_t;

static int
fake_open(void *context, const char *path, uint32_t index, cadre_shard_state_t *state)
{
    fake_t *self = context;
    cr_assert_str_eq(path, "/checkpoints/ckpt-00000001");
    cr_assert_eq(index, 0);
    self->opened++;
    *state = (cadre_shard_state_t){
        .window_base = 9, .generation = 1, .applied = 40, .duplicate = 3, .refused = 2};
    return self->status < 0 ? cadre_fail(self->status, "cannot be opened") : 0;
}

static int
fake_find(void *context, const char *variable, cadre_stored_variable_t *out)
{
    fake_t *self = context;
    if (!self->knows || strcmp(variable, "weights") != 0) {
        return cadre_fail(CADRE_ENOTFOUND, "not there");
    }
    *out = self->stored;
    return 0;
}

/* Element i of the values is i, of slots -i. */
static int
fake_read(void *context, const cadre_checkpoint_range_t *range, void *out,
          cadre_change_counts_t *counts)
{
    fake_t *self = context;
    bool is_value = strcmp(range->kind, "value") == 0;
    cr_assert_str_eq(range->variable, "weights");
    cr_assert_eq(range->dtype, CADRE_F32);
    if (!is_value && !self->has_slots) {
        return cadre_fail(CADRE_ENOTFOUND, "no such slot");
    }
    if (is_value && self->read_status < 0) {
        return cadre_fail(self->read_status, "damaged");
    }
    for (int64_t i = 0; i < range->count; i++) {
        float number = (float)(range->first_element + i);
        ((float *)out)[i] = is_value ? number : -number;
    }
    self->elements_read += range->count;
    /* As an older writer has it, which counted each change of values as a step. */
    const uint64_t changes = is_value ? 21 : self->steps;
    *counts = (cadre_change_counts_t){.version = changes, .steps = changes};
    return 0;
}

static int
fake_prepare(void *context, const cadre_checkpoint_range_t *range, const cadre_give_up_t *give_up)
{
    (void)context, (void)range, (void)give_up;
    return 0;
}

static void
fake_close(void *context)
{
    ((fake_t *)context)->closed++;
}

static cadre_loader_t
as_loader(fake_t *self)
{
    return (cadre_loader_t){.context = self,
                            .open = fake_open,
                            .find = fake_find,
                            .prepare = fake_prepare,
                            .read = fake_read,
                            .close = fake_close};
}

static const char PATH[] = "/checkpoints/ckpt-00000001";

/* CREATE of rows 100 to 399 of 500, under momentum. */
static int
create_middle(fixture_t *self)
{
    uint64_t shape[2];
    static const double momentum[] = {1, 0.5};
    cadre_create_message_t message = create_message(1, 500, COLUMNS, shape);
    message.partition = 1;
    message.partitions = 3;
    message.first_row = 100;
    message.rows = ROWS;
    message.optimizer = CADRE_OPTIMIZER_MOMENTUM;
    message.optimizer_parameters = (cadre_f64s_t){momentum, 2};
    return create(self, &message);
}

static fake_t
new_fake(void)
{
    return (fake_t){.knows = true,
                    .has_slots = true,
                    .steps = 20,
                    .stored = {.dtype = CADRE_F32, .rank = 2, .shape = {500, COLUMNS}}};
}

/* Whether the partition is elements 100,000 and on of the checkpoint, its slot `slot` times that.
 */
static void
expect_loaded(fixture_t *self, float slot, uint64_t steps)
{
    cadre_partition_snapshot_t snapshot;
    const cadre_partition_t *partition = cadre_shard_partition(self->shard, 1, 1);
    cr_assert_eq(cadre_partition_version(partition), 21);
    cr_assert_eq(cadre_partition_steps(partition), steps);
    cadre_partition_snapshot(partition, &snapshot);
    float first = 100.0f * COLUMNS;
    for (size_t k = 0; k < snapshot.chunk_count; k++) {
        const float *values = cadre_chunk_data(snapshot.values[k]);
        const float *slots = cadre_chunk_data(snapshot.slots[0][k]);
        size_t count = cadre_chunk_size_bytes(snapshot.values[k]) / sizeof(float);
        for (size_t i = 0; i < count; i++) {
            cr_assert(values[i] == first + (float)i, "chunk %zu, element %zu", k, i);
            cr_assert(slots[i] == slot * (first + (float)i), "chunk %zu, slot %zu", k, i);
        }
        first += (float)count;
    }
    cadre_partition_snapshot_fini(&snapshot);
}

Test(shard, loads_values_slots_and_counts_from_the_checkpoint)
{
    fake_t fake = new_fake();
    cadre_loader_t loader = as_loader(&fake);
    fixture_t self = open_shard(&loader);
    cr_assert_eq(restore(&self, PATH, 9, GENERATION), 0);
    cr_assert_eq(restore(&self, PATH, 9, GENERATION), 0);
    cr_assert_eq(fake.opened, 1, "once");
    cr_assert_eq(COUNTER(&self, applied), 40);
    cr_assert_eq(COUNTER(&self, duplicate), 3);
    cr_assert_eq(COUNTER(&self, refused), 2);
    cr_assert_eq(create_middle(&self), 0);
    expect_loaded(&self, -1, 20);
    uint64_t shape[2];
    cadre_create_message_t other = create_message(2, 2, 2, shape);
    cr_assert_eq(create(&self, &other), 0);
    cr_assert(values_are(&self, 2, 1), "what the checkpoint lacks begins at its initial values");
    cr_assert_eq(cadre_partition_version(cadre_shard_partition(self.shard, 2, 0)), 0);
    close_shard(&self);
    cr_assert_eq(fake.closed, 1);
}

/* Another variable had its name, and was dropped since. */
Test(shard, begins_anew_what_is_fresh_whatever_the_checkpoint_has_under_its_name)
{
    uint64_t shape[2];
    fake_t fake = new_fake();
    cadre_loader_t loader = as_loader(&fake);
    fixture_t self = open_shard(&loader);
    cr_assert_eq(restore(&self, PATH, 9, GENERATION), 0);
    cadre_create_message_t fresh = create_message(1, 3, 5, shape); /* of another shape, too */
    fresh.fresh = 1;
    cr_assert_eq(create(&self, &fresh), 0, "%s", cadre_error_text());
    cr_assert(values_are(&self, 1, 1));
    close_shard(&self);
}

Test(shard, leaves_slots_alone_when_the_checkpoint_has_another_optimizers)
{
    fake_t fake = new_fake();
    fake.has_slots = false;
    cadre_loader_t loader = as_loader(&fake);
    fixture_t self = open_shard(&loader);
    cr_assert_eq(restore(&self, PATH, 9, GENERATION), 0);
    cr_assert_eq(create_middle(&self), 0);
    expect_loaded(&self, 0, 0);
    close_shard(&self);
}

Test(shard, refuses_a_variable_that_the_checkpoint_holds_otherwise)
{
    fake_t fake = new_fake();
    cadre_loader_t loader = as_loader(&fake);
    fixture_t self = open_shard(&loader);
    cr_assert_eq(restore(&self, PATH, 9, GENERATION), 0);
    fake.stored.shape[1]--;
    cr_assert_eq(create_middle(&self), CADRE_ESHAPE);
    cr_assert_not_null(strstr(cadre_error_text(), "weights"));
    fake.stored.shape[1]++;
    fake.stored.rank = 1;
    cr_assert_eq(create_middle(&self), CADRE_ESHAPE);
    fake.stored.rank = 2;
    fake.stored.dtype = CADRE_F64;
    cr_assert_eq(create_middle(&self), CADRE_EDTYPE);
    cr_assert_not_null(strstr(cadre_error_text(), "weights"));
    fake.stored.dtype = CADRE_F32;
    fake.read_status = CADRE_ECORRUPT;
    cr_assert_eq(create_middle(&self), CADRE_ECORRUPT);
    fake.read_status = CADRE_ENOTFOUND;
    cr_assert_eq(create_middle(&self), CADRE_ECORRUPT, "named and not there");
    fake.read_status = 0;
    fake.steps = 22;
    cr_assert_eq(create_middle(&self), CADRE_ECORRUPT, "slots of a later step than the values");
    cr_expect(strstr(cadre_error_text(), "weights, partition 1: the checkpoint has its values of "
                                         "step 21 and slot momentum_step of step 22"),
              "%s", cadre_error_text());
    fake.steps = 20;
    cr_assert_eq(cadre_shard_partition_count(self.shard), 0);
    cr_assert_eq(create_middle(&self), 0, "and a later try may succeed");
    close_shard(&self);
}

Test(shard, serves_nobody_after_a_restore_that_failed)
{
    fake_t fake = new_fake();
    fake.status = CADRE_ECORRUPT;
    cadre_loader_t loader = as_loader(&fake);
    fixture_t self = open_shard(&loader);
    cr_assert_eq(restore(&self, PATH, 9, GENERATION), CADRE_ECORRUPT);
    cr_assert_eq(create_middle(&self), CADRE_EFENCED);
    cr_assert_eq(COUNTER(&self, applied), 0);
    fake.status = 0;
    cr_assert_eq(restore(&self, PATH, 9, GENERATION), 0, "said again, it may succeed");
    cr_assert_eq(create_middle(&self), 0);
    close_shard(&self);
}

/* --- the rest --- */

Test(shard, answers_the_end_of_a_checkpoint_only_when_asked_to)
{
    fixture_t self = open_filled_shard();
    cadre_message_t message = question(CADRE_MESSAGE_CHECKPOINT_END, &THE_COORDINATOR);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    message = question(CADRE_MESSAGE_CHECKPOINT_END, &THE_COORDINATOR);
    cadre_shard_receive(self.shard, CADRE_PLANE_CONTROL, &THE_COORDINATOR, &message, &self.effects);
    message = question(CADRE_MESSAGE_COUNT, &THE_COORDINATOR);
    cr_assert_eq(reply_to(&self, &THE_COORDINATOR, &message), 0);
    close_shard(&self);
}
