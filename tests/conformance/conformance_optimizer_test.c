/* What the options of a variable say of its updates, with real processes: schedules of the learning
 * rate, which follow from the number of updates whatever was killed, assigned, saved and restored
 * meanwhile, clipping, and running averages. The optimizer is sgd, which has no slots: the count of
 * its updates is all that it keeps. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include <cadre/rows.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_optimizer, .timeout = 900);

enum { UPDATES = 30 };

static const double INITIAL = 0.25;

static cadre_schedule_t
warm_cosine(void)
{
    cadre_schedule_t schedule = cadre_schedule(CADRE_SCHEDULE_COSINE);
    schedule.warmup_steps = 7;
    schedule.decay_steps = 20;
    schedule.alpha = 0.125;
    return schedule;
}

/* What `count` updates of 1 make of 0: minus the sum of Keras' CosineDecay(0, 20, alpha=0.125,
 * warmup_target=0.25, warmup_steps=7), from update `first` on. */
static double
expected(int first, int count)
{
    double sum = 0;
    for (int step = first; step < first + count; step++) {
        double done = fmin((step - 7) / 20.0, 1);
        double cosine = 0.5 * (1 + cos(3.14159265358979323846 * done));
        sum -= step < 7 ? INITIAL * step / 7 : INITIAL * ((1 - 0.125) * cosine + 0.125);
    }
    return sum;
}

/* Of the variables that are created; 0: without. */
static double average_momentum;
/* Their optimizer. */
static cadre_optimizer_kind_t kind = CADRE_OPTIMIZER_SGD;

static void
create(stage_t *stage, int parts, const cadre_schedule_t *schedule)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(kind);
    options.optimizer.learning_rate = INITIAL;
    options.schedule = *schedule;
    options.average_momentum = average_momentum;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    OK(cadre_variable_create(stage->coordinator, "wide", CADRE_F32, (int64_t[]){WIDE_ROWS}, 1,
                             &options, &stage->wide));
}

static local_cluster_options_t
options_for(int ps, bool resumes)
{
    local_cluster_options_t options = {.ps = ps, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.resume = resumes ? CADRE_RESUME_AUTO : CADRE_RESUME_NEVER;
    return options;
}

static void
begin(stage_t *stage, int ps, int parts)
{
    const cadre_schedule_t schedule = warm_cosine();
    const local_cluster_options_t options = options_for(ps, false);
    *stage = (stage_t){.coordinator = NULL};
    local_cluster_open(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
    create(stage, parts, &schedule);
}

static void
resume(stage_t *stage, int ps, int parts, const cadre_schedule_t *schedule)
{
    const local_cluster_options_t options = options_for(ps, true);
    OK(cadre_checkpoint_save(stage->coordinator, NULL, LOCAL_WAIT_MS, NULL));
    local_cluster_end_job(&stage->cluster);
    local_cluster_begin_job(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
    create(stage, parts, schedule);
}

static void
train(stage_t *stage, int updates)
{
    stage_schedule(stage, "add_one", updates);
    stage_join(stage);
}

/* An assignment is a version and no step. */
static void
add(stage_t *stage, float number)
{
    float values[WIDE_ROWS];
    cadre_tensor_t numbers = stage_row(values, number);
    OK(cadre_variable_assign(stage->wide, CADRE_VARIABLE_ADD, &numbers, LOCAL_WAIT_MS));
}

/* The number that every row is, which is ended. */
static float
number_of(cadre_tensor_t *value)
{
    const float *rows = value->data;
    const float first = rows[0];
    for (int i = 1; i < WIDE_ROWS; i++) {
        cr_assert_eq(rows[i], first, "row %d", i);
    }
    cadre_tensor_fini(value);
    return first;
}

/* The value of every row. */
static float
value_of(stage_t *stage)
{
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read(stage->wide, &value, LOCAL_WAIT_MS));
    return number_of(&value);
}

/* The running average of every row. */
static float
average_of(stage_t *stage)
{
    cadre_tensor_t average = {.data = NULL};
    OK(cadre_variable_read_average(stage->wide, &average, LOCAL_WAIT_MS));
    return number_of(&average);
}

static float
train_undisturbed(void)
{
    stage_t stage;
    begin(&stage, 1, 1);
    train(&stage, 10);
    add(&stage, 1);
    train(&stage, UPDATES - 10);
    const float value = value_of(&stage);
    stage_close(&stage);
    return value;
}

Test(conformance_optimizer, V13_a_rate_follows_from_the_updates_whatever_is_killed_or_restored)
{
    const cadre_schedule_t schedule = warm_cosine();
    const float undisturbed = train_undisturbed();
    cr_assert_float_eq(undisturbed, 1 + expected(0, UPDATES), 1e-5, "%g", (double)undisturbed);

    stage_t stage;
    begin(&stage, 2, 2);
    train(&stage, 5);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 0); /* begins again with initial values */
    train(&stage, 5);
    add(&stage, 1);
    resume(&stage, 3, 3, &schedule);
    train(&stage, 4);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 1); /* from the checkpoint, and a replay */
    train(&stage, 6);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    train(&stage, 3);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 2);
    resume(&stage, 1, 1, &schedule);
    train(&stage, UPDATES - 23);
    const float disturbed = value_of(&stage);
    cr_assert_arr_eq(&disturbed, &undisturbed, sizeof(float), "%.9g, not %.9g", (double)disturbed,
                     (double)undisturbed);
    stage_close(&stage);
}

Test(conformance_optimizer, V13_a_resumed_job_uses_the_schedule_it_has_at_the_step_it_had)
{
    const cadre_schedule_t schedule = warm_cosine();
    const cadre_schedule_t none = {.kind = (cadre_schedule_kind_t)0};
    stage_t stage;
    begin(&stage, 2, 2);
    train(&stage, 12);
    resume(&stage, 2, 2, &none);
    train(&stage, 4);
    resume(&stage, 2, 2, &schedule);
    train(&stage, 3);
    const double value = expected(0, 12) - 4 * INITIAL + expected(16, 3);
    cr_assert_float_eq(value_of(&stage), value, 1e-5);
    stage_close(&stage);
}

Test(conformance_optimizer, V13_a_synchronous_step_is_one_update)
{
    stage_t stage = {.coordinator = NULL};
    const cadre_schedule_t schedule = warm_cosine();
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.consistency = CADRE_SYNC;
    options.coordinator.step_closures = 3;
    local_cluster_open(&stage.cluster, &options);
    stage.coordinator = stage.cluster.coordinator;
    cr_expect_eq(cadre_coordinator_replicas(stage.coordinator), 3);
    create(&stage, 2, &schedule);
    train(&stage, 3 * 11);
    cr_assert_float_eq(value_of(&stage), expected(0, 11), 1e-5);
    stage_close(&stage);
}

Test(conformance_optimizer, V13_a_rate_that_a_program_changes_counts_from_its_update_on)
{
    const cadre_schedule_t none = {.kind = (cadre_schedule_kind_t)0};
    stage_t stage;
    begin(&stage, 2, 2);
    resume(&stage, 2, 2, &none);
    cr_expect_eq(cadre_coordinator_replicas(stage.coordinator), 1);
    train(&stage, 4);
    OK(cadre_variable_change_rate(stage.wide, 4, 0.5, LOCAL_WAIT_MS));
    OK(cadre_variable_change_rate(stage.wide, 4, 0.5, LOCAL_WAIT_MS));
    train(&stage, 3);
    OK(cadre_variable_change_rate(stage.wide, 7, 0.25, LOCAL_WAIT_MS));
    local_cluster_restart(&stage.cluster, LOCAL_PS, 0); /* runs all seven again, at their rates */
    train(&stage, 2);
    cr_assert_float_eq(value_of(&stage), -4 * INITIAL - 3 * 0.5 - 2 * 0.25, 1e-5);
    cr_expect_eq(cadre_variable_change_rate(stage.wide, 7, 0.5, LOCAL_WAIT_MS), CADRE_EINVALID);
    cr_expect_eq(cadre_variable_change_rate(stage.wide, 9, -1, LOCAL_WAIT_MS), CADRE_EINVALID);
    stage_close(&stage);
}

Test(conformance_optimizer, V13_a_bad_schedule_is_refused_by_name)
{
    stage_t stage = {.coordinator = NULL};
    const local_cluster_options_t none = {.ps = 1, .workers = 1};
    local_cluster_open(&stage.cluster, &none);
    cadre_variable_options_t options = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    options.schedule = cadre_schedule(CADRE_SCHEDULE_POLYNOMIAL);
    FAILS(cadre_variable_create(stage.cluster.coordinator, "w", CADRE_F32, NULL, 0, &options,
                                &variable),
          CADRE_EINVALID, "variable w: polynomial: decay_steps must be in [1, ");
    options.schedule.decay_steps = 5;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    FAILS(cadre_variable_create(stage.cluster.coordinator, "w", CADRE_F32, NULL, 0, &options,
                                &variable),
          CADRE_EINVALID, "add has no learning rate");
    stage_close(&stage);
}

/* Gradients of 1 and 3, whose mean is 2, under sgd with a rate of 1 and a limit of 0.75. */
Test(conformance_optimizer, V14_a_gradient_is_clipped_by_value_and_that_of_a_step_as_their_mean)
{
    stage_t stage = {.coordinator = NULL};
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.consistency = CADRE_SYNC;
    options.coordinator.step_closures = 2;
    local_cluster_open(&stage.cluster, &options);
    stage.coordinator = stage.cluster.coordinator;
    cadre_variable_options_t clipped = cadre_variable_options();
    clipped.optimizer.learning_rate = 1;
    clipped.clip_value = 0.75;
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, (int64_t[]){WIDE_ROWS}, 1,
                             &clipped, &stage.wide));
    static const float gradients[] = {1, 3, 1, -1.5F};
    for (size_t i = 0; i < CADRE_COUNT_OF(gradients); i++) {
        float values[WIDE_ROWS];
        cadre_tensor_t gradient = stage_row(values, gradients[i]);
        cadre_future_t *future = stage_call(&stage, "push", "gradient", &gradient);
        cadre_future_destroy(&future);
    }
    stage_join(&stage);
    stage_expect(&stage, -0.75 + 0.25);

    cadre_variable_t *variable = NULL;
    clipped.clip_value = -1;
    FAILS(cadre_variable_create(stage.coordinator, "w", CADRE_F32, NULL, 0, &clipped, &variable),
          CADRE_EINVALID, "variable w: clip_value must be in [0, ");
    clipped.clip_value = 0;
    clipped.delay_compensation = 0.5;
    FAILS(cadre_variable_create(stage.coordinator, "w", CADRE_F32, NULL, 0, &clipped, &variable),
          CADRE_EINVALID, "variable w: delay_compensation is for async and bounded");
    stage_close(&stage);
}

/* A gradient of 1 three times at a rate of 1, each pulled and pushed by the one slot there is: none
 * is late, so the values are those without compensation. */
Test(conformance_optimizer, V17_a_gradient_that_is_not_late_is_not_compensated)
{
    stage_t stage = {.coordinator = NULL};
    const local_cluster_options_t cluster = {.ps = 2, .workers = 1, .slots = 1};
    local_cluster_open(&stage.cluster, &cluster);
    stage.coordinator = stage.cluster.coordinator;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer.learning_rate = 1;
    options.delay_compensation = 0.5;
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, (int64_t[]){WIDE_ROWS}, 1,
                             &options, &stage.wide));
    for (int i = 1; i <= 3; i++) {
        train(&stage, 1);
        cr_expect_eq(value_of(&stage), (float)-i, "update %d", i);
    }

    cadre_variable_t *variable = NULL;
    options.delay_compensation = -1;
    FAILS(cadre_variable_create(stage.coordinator, "w", CADRE_F32, NULL, 0, &options, &variable),
          CADRE_EINVALID, "variable w: delay_compensation must be in [0, 1e+06], not -1");
    options.delay_compensation = 0.5;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    FAILS(cadre_variable_create(stage.coordinator, "w", CADRE_I64, NULL, 0, &options, &variable),
          CADRE_EINVALID, "delay_compensation is for gradients");
    stage_close(&stage);
}

/* --- running averages --- */

/* Keras: average = m average + (1 - m) value after each update, m being 0 in the first; the values
 * after `count` updates are expected(0, count). */
static double
expected_average(int count, double momentum)
{
    double average = 0;
    for (int step = 1; step <= count; step++) {
        const double m = step == 1 ? 0 : momentum;
        average = m * average + (1 - m) * expected(0, step);
    }
    return average;
}

Test(conformance_optimizer, V15_an_average_is_kept_whatever_is_killed_or_restored)
{
    const cadre_schedule_t schedule = warm_cosine();
    stage_t stage;
    average_momentum = 0.75;
    begin(&stage, 1, 1);
    cr_assert_eq(average_of(&stage), 0, "what the values began with");
    train(&stage, UPDATES);
    const float undisturbed = average_of(&stage);
    cr_assert_float_eq(undisturbed, expected_average(UPDATES, 0.75), 1e-5);
    cr_assert_float_eq(value_of(&stage), expected(0, UPDATES), 1e-5, "values are as without");
    stage_close(&stage);

    begin(&stage, 2, 2);
    train(&stage, 5);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 0);
    train(&stage, 5);
    resume(&stage, 3, 3, &schedule);
    train(&stage, 4);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 1);
    resume(&stage, 1, 1, &schedule);
    train(&stage, UPDATES - 14);
    const float disturbed = average_of(&stage);
    cr_assert_arr_eq(&disturbed, &undisturbed, sizeof(float), "%.9g, not %.9g", (double)disturbed,
                     (double)undisturbed);
    stage_close(&stage);
}

/* With a checkpoint that lacks it, it begins with the values there, and steps go on. */
Test(conformance_optimizer, V15_an_average_may_be_begun_when_a_job_is_resumed)
{
    const cadre_schedule_t schedule = warm_cosine();
    stage_t stage;
    cadre_tensor_t value = {.data = NULL};
    begin(&stage, 2, 2);
    train(&stage, 10);
    FAILS(cadre_variable_read_average(stage.wide, &value, LOCAL_WAIT_MS), CADRE_EINVALID,
          "variable wide keeps no average: create it with average_momentum");
    average_momentum = 0.5;
    resume(&stage, 2, 2, &schedule);
    cr_assert_float_eq(average_of(&stage), expected(0, 10), 1e-5);
    train(&stage, 2);
    const double once = 0.5 * expected(0, 10) + 0.5 * expected(0, 11);
    cr_assert_float_eq(average_of(&stage), 0.5 * once + 0.5 * expected(0, 12), 1e-5);
    stage_close(&stage);
}

/* Gradients of 1 at a rate of 1 and a momentum of 0.5, overwritten each third time:
 * values -1 -2 -3 and averages -1 -1.5 -2.25, which the values become; then -3.25 -4.25 -5.25 and
 * -2.75 -3.5 -4.375, which they become again. */
Test(conformance_optimizer, V15_values_are_overwritten_with_their_average_as_often_as_is_said)
{
    stage_t stage = {.coordinator = NULL};
    const local_cluster_options_t cluster = {.ps = 2, .workers = 1, .slots = 1};
    local_cluster_open(&stage.cluster, &cluster);
    stage.coordinator = stage.cluster.coordinator;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer.learning_rate = 1;
    options.average_momentum = 0.5;
    options.average_overwrite = 3;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, (int64_t[]){WIDE_ROWS}, 1,
                             &options, &stage.wide));
    static const float values[] = {-1, -2, -2.25F, -3.25F, -4.25F, -4.375F};
    static const float averages[] = {-1, -1.5F, -2.25F, -2.75F, -3.5F, -4.375F};
    for (size_t i = 0; i < CADRE_COUNT_OF(values); i++) {
        train(&stage, 1);
        cr_expect_eq(value_of(&stage), values[i], "update %zu", i + 1);
        cr_expect_eq(average_of(&stage), averages[i], "update %zu", i + 1);
    }

    cadre_variable_t *variable = NULL;
    options.average_momentum = 1;
    FAILS(cadre_variable_create(stage.coordinator, "w", CADRE_F32, NULL, 0, &options, &variable),
          CADRE_EINVALID, "variable w: average_momentum must be in [0, 1), not 1");
    options.average_momentum = 0;
    FAILS(cadre_variable_create(stage.coordinator, "w", CADRE_F32, NULL, 0, &options, &variable),
          CADRE_EINVALID, "average_momentum is 0");
    options.average_momentum = 0.5;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    FAILS(cadre_variable_create(stage.coordinator, "w", CADRE_I64, NULL, 0, &options, &variable),
          CADRE_EDTYPE, "an average is of f32, not of i64");
    stage_close(&stage);
}

Test(conformance_optimizer, V15_an_average_is_of_the_values_after_a_whole_synchronous_step)
{
    stage_t stage = {.coordinator = NULL};
    local_cluster_options_t cluster = {.ps = 2, .workers = 2};
    cluster.coordinator.consistency = CADRE_SYNC;
    cluster.coordinator.step_closures = 3;
    local_cluster_open(&stage.cluster, &cluster);
    stage.coordinator = stage.cluster.coordinator;
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD); /* whose step is a sum */
    options.average_momentum = 0.5;
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, (int64_t[]){WIDE_ROWS}, 1,
                             &options, &stage.wide));
    train(&stage, 6);
    cr_assert_eq(value_of(&stage), 6);
    cr_assert_eq(average_of(&stage), 0.5F * 3 + 0.5F * 6);
    stage_close(&stage);
}

/* Passes when every number of the slot is about `wanted`, after so many updates of each part. */
static void
expect_slot(stage_t *stage, const char *slot, double wanted, uint64_t updates)
{
    uint64_t steps[3] = {0};
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read_slot(stage->wide, slot, &value, steps, LOCAL_WAIT_MS));
    cr_assert_eq(cadre_tensor_count(&value), WIDE_ROWS);
    for (int i = 0; i < WIDE_ROWS; i++) {
        const double got = (double)((const float *)value.data)[i];
        cr_assert_float_eq(got, wanted, 1e-5, "%s of element %d is %g, not %g", slot, i, got,
                           wanted);
    }
    const int64_t some[] = {WIDE_ROWS - 1, 0, WIDE_ROWS - 1};
    OK(cadre_variable_read_slot_rows(stage->wide, slot, some, 3, &value, LOCAL_WAIT_MS));
    cr_assert_eq(cadre_tensor_count(&value), 3);
    for (int i = 0; i < 3; i++) {
        const double got = (double)((const float *)value.data)[i];
        cr_assert_float_eq(got, wanted, 1e-5, "%s of row %d is %g, not %g", slot, (int)some[i], got,
                           wanted);
    }
    for (int part = 0; part < 3; part++) {
        cr_assert_eq(steps[part], updates, "part %d: %d steps", part, (int)steps[part]);
    }
    cadre_tensor_fini(&value);
}

/* Adam's moments after t gradients of 1 are 1 - beta_1^t and 1 - beta_2^t (Kingma and Ba, 2015). */
static void
expect_moments(stage_t *stage, int t)
{
    expect_slot(stage, "momentum", 1 - pow(0.9, t), (uint64_t)t);
    expect_slot(stage, "velocity", 1 - pow(0.999, t), (uint64_t)t);
}

/* Trains with one optimizer, and goes on with momentum or nesterov, whose first two steps, by
 * gradients of 1, must be those of a variable that begins: with the momentum of the one before they
 * would be others, and after adam they would lead uphill. */
static void
expect_begins_steps_after(cadre_optimizer_kind_t before, cadre_optimizer_kind_t after)
{
    const cadre_schedule_t none = {.kind = (cadre_schedule_kind_t)0};
    const bool looks_ahead = after == CADRE_OPTIMIZER_NESTEROV;
    stage_t stage;
    kind = before;
    begin(&stage, 2, 2);
    train(&stage, 8);
    const double value = (double)value_of(&stage);
    kind = after;
    resume(&stage, 2, 2, &none);
    kind = CADRE_OPTIMIZER_SGD;
    cr_expect_float_eq(value_of(&stage), value, 1e-7, "as it was");
    train(&stage, 1);
    const double first = looks_ahead ? 1.9 : 1; /* in rates; the momentum is 0.9 */
    cr_expect_float_eq(value_of(&stage), value - INITIAL * first, 1e-5, "%d to %d: %g from %g",
                       (int)before, (int)after, (double)value_of(&stage), value);
    train(&stage, 1);
    const double second = looks_ahead ? 0.9 * 1.9 + 1 : 1.9;
    cr_expect_float_eq(value_of(&stage), value - INITIAL * (first + second), 1e-5);
    stage_close(&stage);
}

Test(conformance_optimizer, V21_a_momentum_of_gradients_is_not_taken_for_one_of_steps)
{
    expect_begins_steps_after(CADRE_OPTIMIZER_ADAM, CADRE_OPTIMIZER_MOMENTUM);
    expect_begins_steps_after(CADRE_OPTIMIZER_DELAYED_NESTEROV, CADRE_OPTIMIZER_NESTEROV);
}

static void
read_slots_of(int ps)
{
    const local_cluster_options_t cluster = options_for(ps, false);
    cadre_variable_options_t options = cadre_variable_options();
    stage_t stage = {.coordinator = NULL};
    local_cluster_open(&stage.cluster, &cluster);
    stage.coordinator = stage.cluster.coordinator;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 3;
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, (int64_t[]){WIDE_ROWS}, 1,
                             &options, &stage.wide));
    cr_assert_eq(cadre_variable_slot_count(stage.wide), 2);
    cr_assert_str_eq(cadre_variable_slot_name(stage.wide, 1), "velocity");
    cr_assert_null(cadre_variable_slot_name(stage.wide, 2));
    expect_moments(&stage, 0);
    train(&stage, UPDATES);
    add(&stage, 100); /* no step */
    expect_moments(&stage, UPDATES);
    local_cluster_restart(&stage.cluster, LOCAL_PS, ps - 1);
    expect_moments(&stage, UPDATES);
    FAILS(cadre_variable_read_slot(stage.wide, "m", NULL, NULL, LOCAL_WAIT_MS), CADRE_ENOTFOUND,
          "no slot m, it has momentum, velocity");
    FAILS(cadre_variable_read_slot_rows(stage.wide, "m", (const int64_t[]){0}, 1, NULL,
                                        LOCAL_WAIT_MS),
          CADRE_ENOTFOUND, "no slot m, it has momentum, velocity");
    stage_close(&stage);
}

Test(conformance_optimizer, V16_slots_are_read_with_their_steps_from_one_ps)
{
    read_slots_of(1);
}

Test(conformance_optimizer, V16_slots_are_read_with_their_steps_from_three_ps)
{
    read_slots_of(3);
}
