/* A running job that goes back to a checkpoint: group L, whose L3 is in conformance_catalogue. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/catalogue.h>

#include "common/base/memory.h"
#include "common/tensor/tensor.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_back, .timeout = 900);

enum { SAVED_AT = 4, END = 7, BATCH = 10, ROWS = 40 };

/* Everything that the shards hold of "wide". */
typedef struct {
    cadre_tensor_t values;
    cadre_tensor_t average;
    cadre_tensor_t momentum;
    cadre_tensor_t velocity;
    uint64_t steps[2];
} state_t;

/* A job of two ps with the checkpoint `saved` in the middle of its training, whose state there and
 * at the end is known. */
typedef struct {
    stage_t stage;
    cadre_variable_t *count;
    uint64_t saved;
    state_t then;
    state_t end;
} job_t;

static void
read_state(job_t *self, state_t *state)
{
    cadre_variable_t *wide = self->stage.wide;
    uint64_t steps[2];
    OK(cadre_variable_read(wide, &state->values, LOCAL_WAIT_MS));
    OK(cadre_variable_read_average(wide, &state->average, LOCAL_WAIT_MS));
    OK(cadre_variable_read_slot(wide, "momentum", &state->momentum, state->steps, LOCAL_WAIT_MS));
    OK(cadre_variable_read_slot(wide, "velocity", &state->velocity, steps, LOCAL_WAIT_MS));
}

static void
state_fini(state_t *self)
{
    cadre_tensor_fini(&self->values);
    cadre_tensor_fini(&self->average);
    cadre_tensor_fini(&self->momentum);
    cadre_tensor_fini(&self->velocity);
}

static void
expect_same(const cadre_tensor_t *found, const cadre_tensor_t *expected, const char *what)
{
    cr_assert_eq(cadre_tensor_size_bytes(found), cadre_tensor_size_bytes(expected));
    cr_assert_arr_eq(found->data, expected->data, cadre_tensor_size_bytes(expected), "%s", what);
}

/* Bit by bit. */
static void
expect_state(job_t *self, const state_t *expected)
{
    state_t found = {.steps = {0, 0}};
    read_state(self, &found);
    expect_same(&found.values, &expected->values, "values");
    expect_same(&found.average, &expected->average, "running average");
    expect_same(&found.momentum, &expected->momentum, "momentum");
    expect_same(&found.velocity, &expected->velocity, "velocity");
    cr_assert_arr_eq(found.steps, expected->steps, sizeof(found.steps));
    state_fini(&found);
}

static void
add_to_count(job_t *self, int64_t number)
{
    const cadre_tensor_t value = cadre_tensor_view(CADRE_I64, &number, NULL, 0);
    OK(cadre_variable_assign(self->count, CADRE_VARIABLE_ADD, &value, LOCAL_WAIT_MS));
}

static void
expect_count(job_t *self, double expected)
{
    double number = 0;
    OK(cadre_variable_read_number(self->count, &number, LOCAL_WAIT_MS));
    cr_assert_eq(number, expected, "count is %g, not %g", number, expected);
}

static void
create_variables(job_t *self)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {WIDE_ROWS};
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.average_momentum = 0.75;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    OK(cadre_variable_create(self->stage.coordinator, "wide", CADRE_F32, shape, 1, &options,
                             &self->stage.wide));
    cadre_variable_options_t count = cadre_variable_options();
    count.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(self->stage.coordinator, "count", CADRE_I64, NULL, 0, &count,
                             &self->count));
}

static cadre_coordinator_options_t
options_for(cadre_recovery_t recovery)
{
    cadre_coordinator_options_t options = {.recovery = recovery, .checkpoint_keep = 2};
    options.checkpoint_dir = local_checkpoints;
    return options;
}

static void
open_job(job_t *self, const cadre_coordinator_options_t *coordinator)
{
    local_cluster_options_t options = {.ps = 2, .workers = 1, .slots = 1};
    options.coordinator = *coordinator;
    *self = (job_t){.saved = 0};
    local_cluster_open(&self->stage.cluster, &options);
    self->stage.coordinator = self->stage.cluster.coordinator;
    create_variables(self);
}

/* Trains over a checkpoint, which holds half of it. */
static void
train_over(job_t *self)
{
    stage_train(&self->stage, 1, SAVED_AT);
    add_to_count(self, 5);
    OK(cadre_checkpoint_save(self->stage.coordinator, "{\"epoch\": 2}", LOCAL_WAIT_MS,
                             &self->saved));
    read_state(self, &self->then);
    stage_train(&self->stage, SAVED_AT + 1, END);
    add_to_count(self, 4);
    read_state(self, &self->end);
}

static void
close_job(job_t *self)
{
    state_fini(&self->then);
    state_fini(&self->end);
    stage_close(&self->stage);
}

static int
go_back(job_t *self)
{
    return cadre_checkpoint_restore(self->stage.coordinator, self->saved, LOCAL_WAIT_MS, NULL);
}

/* What came after the checkpoint is done once more, and must lead to the same bits. */
static void
train_again(job_t *self)
{
    stage_train(&self->stage, SAVED_AT + 1, END);
    add_to_count(self, 4);
}

static void
expect_end(job_t *self)
{
    expect_state(self, &self->end);
    expect_count(self, 9);
    stage_expect_applied(&self->stage, END);
}

static void
expect_then(job_t *self)
{
    expect_state(self, &self->then);
    expect_count(self, 5);
    stage_expect_applied(&self->stage, SAVED_AT);
}

/* --- the state --- */

static void
check_back(const cadre_coordinator_options_t *options)
{
    job_t job;
    char *progress = NULL;
    open_job(&job, options);
    train_over(&job);
    for (int i = 0; i < 2; i++) {
        OK(cadre_checkpoint_restore(job.stage.coordinator, job.saved, LOCAL_WAIT_MS, &progress));
        cr_assert_str_eq(progress, "{\"epoch\":2}");
        cadre_free(&progress);
        expect_then(&job);
        train_again(&job);
        expect_end(&job);
    }
    close_job(&job);
}

Test(conformance_back, L4_a_job_goes_back_with_slots_steps_averages_and_progress)
{
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    check_back(&options);
}

Test(conformance_back, L4_a_job_goes_back_whatever_its_recovery)
{
    cadre_coordinator_options_t rollback = options_for(CADRE_RECOVERY_ROLLBACK);
    cadre_coordinator_options_t relaxed = options_for(CADRE_RECOVERY_RELAXED);
    check_back(&rollback);
    check_back(&relaxed);
}

Test(conformance_back, L4_a_job_goes_back_in_synchronous_steps)
{
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    options.consistency = CADRE_SYNC;
    options.step_closures = 1;
    check_back(&options);
}

/* The earlier of two checkpoints, then the later one, of a job that keeps two. */
Test(conformance_back, L4_a_job_goes_back_and_forth)
{
    job_t job;
    uint64_t last = 0;
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    open_job(&job, &options);
    train_over(&job);
    OK(cadre_checkpoint_save(job.stage.coordinator, NULL, LOCAL_WAIT_MS, &last));
    OK(go_back(&job));
    expect_then(&job);
    char *progress = "not written";
    OK(cadre_checkpoint_restore(job.stage.coordinator, last, LOCAL_WAIT_MS, &progress));
    cr_assert_null(progress);
    expect_end(&job);
    OK(go_back(&job));
    expect_then(&job);
    close_job(&job);
}

/* --- tasks that die --- */

static void
restart_ps(job_t *self, int index)
{
    cadre_coordinator_t *coordinator = self->stage.coordinator;
    uint64_t lost = cadre_coordinator_totals(coordinator).ps_lost;
    local_cluster_restart(&self->stage.cluster, LOCAL_PS, index);
    EVENTUALLY(cadre_coordinator_totals(coordinator).ps_lost > lost);
}

/* The ps that is stopped has its RESTORE unanswered when it is killed. */
static void
go_back_over_a_killed_ps(job_t *self)
{
    local_cluster_signal(&self->stage.cluster, LOCAL_PS, 1, SIGSTOP);
    FAILS(cadre_checkpoint_restore(self->stage.coordinator, self->saved, 300, NULL), CADRE_ETIMEOUT,
          "ps 1");
    restart_ps(self, 1);
}

Test(conformance_back, L4_a_ps_that_is_killed_in_the_middle_goes_back_too)
{
    job_t job;
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    open_job(&job, &options);
    train_over(&job);
    go_back_over_a_killed_ps(&job);
    train_again(&job);
    expect_end(&job);
    go_back_over_a_killed_ps(&job);
    OK(go_back(&job)); /* repeated */
    expect_then(&job);
    close_job(&job);
}

/* What is done after the job went back runs again for a ps that is lost, and nothing of before. */
static void
check_kills_after(cadre_recovery_t recovery)
{
    job_t job;
    cadre_coordinator_options_t options = options_for(recovery);
    open_job(&job, &options);
    train_over(&job);
    OK(go_back(&job));
    for (int i = 0; i < 2; i++) {
        restart_ps(&job, i);
        expect_then(&job);
    }
    train_again(&job);
    for (int i = 0; i < 2; i++) {
        restart_ps(&job, i);
        expect_count(&job, 9);
        stage_join(&job.stage);
        expect_end(&job);
    }
    local_cluster_restart(&job.stage.cluster, LOCAL_WORKER, 0);
    OK(go_back(&job));
    train_again(&job);
    expect_end(&job);
    close_job(&job);
}

Test(conformance_back, L4_what_came_after_runs_again_for_a_lost_ps)
{
    check_kills_after(CADRE_RECOVERY_REPLAY);
}

Test(conformance_back, L4_what_came_after_runs_again_in_a_rollback)
{
    check_kills_after(CADRE_RECOVERY_ROLLBACK);
}

/* A shard may have to begin with the checkpoint that the job went back to, until two more are
 * committed; the job keeps two. */
Test(conformance_back, L4_the_checkpoint_stays_as_long_as_it_is_needed)
{
    job_t job;
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    open_job(&job, &options);
    train_over(&job);
    OK(cadre_checkpoint_save(job.stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    OK(go_back(&job));
    train_again(&job);
    OK(cadre_checkpoint_save(job.stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    OK(go_back(&job)); /* it is the fourth newest by now, and the one before the newest */
    restart_ps(&job, 0);
    expect_then(&job);
    close_job(&job);
}

/* --- closures, data, resumes --- */

static void
train_numbered(job_t *self, uint64_t sequence)
{
    float row[WIDE_ROWS];
    const cadre_tensor_t gradient = stage_row(row, 1);
    const cadre_argument_t argument = {"gradient", &gradient};
    cadre_call_t call = cadre_call_tensors(&argument, 1);
    call.sequence = sequence;
    OK(cadre_coordinator_schedule(self->stage.coordinator, stage_function(&self->stage, "push"),
                                  &call, LOCAL_WAIT_MS, NULL));
    stage_join(&self->stage);
}

Test(conformance_back, L4_numbers_of_closures_go_back_also_into_the_next_checkpoint)
{
    job_t job;
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    open_job(&job, &options);
    cadre_coordinator_t *coordinator = job.stage.coordinator;
    train_numbered(&job, 1);
    train_numbered(&job, 3);
    OK(cadre_checkpoint_save(coordinator, NULL, LOCAL_WAIT_MS, &job.saved));
    train_numbered(&job, 2);
    OK(go_back(&job));
    cr_assert_eq(cadre_checkpoint_next(coordinator, 1), 2);
    cr_assert_eq(cadre_checkpoint_next(coordinator, 3), 4);
    train_numbered(&job, 4);
    OK(cadre_checkpoint_save(coordinator, NULL, LOCAL_WAIT_MS, NULL));

    local_cluster_options_t again = {.ps = 2, .workers = 1, .slots = 1};
    again.coordinator = options;
    again.coordinator.resume = CADRE_RESUME_AUTO;
    local_cluster_end_job(&job.stage.cluster);
    local_cluster_begin_job(&job.stage.cluster, &again);
    job.stage.coordinator = job.stage.cluster.coordinator;
    create_variables(&job);
    cr_assert_eq(cadre_checkpoint_next(job.stage.coordinator, 1), 2);
    cr_assert_eq(cadre_checkpoint_next(job.stage.coordinator, 3), 5);
    stage_expect_applied(&job.stage, 3); /* 1, 3 and 4 */
    close_job(&job);
}

static void
visit_batches(job_t *self, cadre_dataset_t *rows, int count)
{
    for (int i = 0; i < count; i++) {
        cadre_batch_t batch;
        cr_assert(cadre_dataset_next(rows, &batch));
        cadre_call_t call = cadre_call_batch(&batch);
        OK(cadre_coordinator_schedule(self->stage.coordinator,
                                      stage_function(&self->stage, "visit"), &call, LOCAL_WAIT_MS,
                                      NULL));
    }
    stage_join(&self->stage);
}

Test(conformance_back, L5_an_open_epoch_stays_and_the_program_begins_it_again_where_it_was)
{
    job_t job;
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    open_job(&job, &options);
    cadre_variable_t *visits = stage_visits(&job.stage);
    char *path = stage_write_rows(&job.stage, ROWS);
    cadre_dataset_t *rows = stage_open_rows(&job.stage, path, "rows");
    OK(cadre_dataset_begin(rows, 1, 0, BATCH, CADRE_ORDER_SHUFFLED, CADRE_LAST_BATCH_SMALLER));
    visit_batches(&job, rows, 2);
    OK(cadre_checkpoint_save(job.stage.coordinator, "{\"position\": 20}", LOCAL_WAIT_MS,
                             &job.saved));
    visit_batches(&job, rows, 1);

    OK(go_back(&job));
    cadre_batch_t batch;
    cr_assert(cadre_dataset_next(rows, &batch));
    cr_assert_eq(batch.first, 3 * BATCH, "the epoch went on at %lld", (long long)batch.first);
    OK(cadre_dataset_begin(rows, 1, 2 * (int64_t)BATCH, BATCH, CADRE_ORDER_SHUFFLED,
                           CADRE_LAST_BATCH_SMALLER));
    visit_batches(&job, rows, 2);
    cr_assert_not(cadre_dataset_next(rows, &batch));
    stage_expect_visits(visits, ROWS, 1);
    free(path);
    close_job(&job);
}

/* --- what does not fit --- */

static void
create_like_count(job_t *self, const char *name, int rank, cadre_variable_t **variable)
{
    const int64_t shape[] = {3};
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(self->stage.coordinator, name, CADRE_I64, shape, rank, &options,
                             variable));
}

Test(conformance_back, L4_variables_that_do_not_fit_are_refused_before_anything_changes)
{
    job_t job;
    cadre_variable_t *late = NULL;
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    open_job(&job, &options);
    train_over(&job);
    FAILS(cadre_checkpoint_restore(job.stage.coordinator, 999, LOCAL_WAIT_MS, NULL),
          CADRE_ENOTFOUND, "");

    create_like_count(&job, "late", 0, &late);
    FAILS(go_back(&job), CADRE_ENOTFOUND, "has no variable called late");
    expect_end(&job);
    OK(cadre_variable_drop(&late, LOCAL_WAIT_MS));

    OK(cadre_variable_drop(&job.count, LOCAL_WAIT_MS));
    create_like_count(&job, "count", 1, &job.count);
    FAILS(go_back(&job), CADRE_ESHAPE, "variable count is [3], and [] in checkpoint");
    expect_state(&job, &job.end);

    /* one that was created again fits by its name; one that was dropped is not missed */
    OK(cadre_variable_drop(&job.count, LOCAL_WAIT_MS));
    create_like_count(&job, "count", 0, &job.count);
    OK(go_back(&job));
    expect_then(&job);
    OK(cadre_variable_drop(&job.count, LOCAL_WAIT_MS));
    OK(go_back(&job));
    restart_ps(&job, 0);
    expect_state(&job, &job.then);

    /* a variable that is created later begins with its initial values, also on a lost shard */
    create_like_count(&job, "count", 0, &job.count);
    restart_ps(&job, 0);
    restart_ps(&job, 1);
    expect_count(&job, 0);
    expect_state(&job, &job.then); /* of both shards: each ps is back before the job ends */
    close_job(&job);
}

Test(conformance_back, L4_closures_must_have_ended_pinned_ones_too)
{
    job_t job;
    cadre_coordinator_options_t options = options_for(CADRE_RECOVERY_REPLAY);
    open_job(&job, &options);
    train_over(&job);
    hold_t hold = stage_hold(&job.stage, "hold");
    FAILS(go_back(&job), CADRE_ESTATE, "closures are queued or in flight");
    hold_release(&hold);
    stage_join(&job.stage);
    hold_fini(&hold);

    local_cluster_signal(&job.stage.cluster, LOCAL_WORKER, 0, SIGSTOP);
    cadre_call_t call = cadre_call();
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule_on(job.stage.coordinator, 0,
                                     stage_function(&job.stage, "tell_seed"), &call, LOCAL_WAIT_MS,
                                     &future));
    stage_join(&job.stage);
    FAILS(go_back(&job), CADRE_ESTATE, "closures are queued or in flight");
    local_cluster_signal(&job.stage.cluster, LOCAL_WORKER, 0, SIGCONT);
    OK(cadre_future_wait(future, LOCAL_WAIT_MS));
    cadre_future_destroy(&future);
    OK(go_back(&job));
    expect_then(&job);
    close_job(&job);
}

Test(conformance_back, L4_a_job_without_checkpoints_has_nothing_to_go_back_to)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    FAILS(cadre_checkpoint_restore(stage.coordinator, 1, LOCAL_WAIT_MS, NULL), CADRE_ESTATE,
          "no checkpoint directory");
    stage_close(&stage);
}
