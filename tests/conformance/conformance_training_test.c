/* The loop of cadre_training_run: what it trains, when it ends, what it tells its hook. */
#include <cadre/training.h>
#include <math.h>
#include <pthread.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_training, .timeout = 900);

enum { BATCH = 64, PASS = (VISIT_ROWS + BATCH - 1) / BATCH, EVENTS_MAX = 4096 };

/* A job whose evaluations find how often each row was trained on: after e epochs exactly e. */
typedef struct {
    stage_t stage;
    cadre_variable_t *visits;
    cadre_dataset_t *rows;
    cadre_function_t *visit;
    cadre_function_t *level;
    cadre_training_event_t events[EVENTS_MAX];
    size_t count;
    size_t counts[CADRE_TRAINING_STOP + 1]; /* by kind */
    int end_at;                             /* a kind at whose event the hook ends the run; or -1 */
    pthread_t thread;
    bool was_elsewhere; /* a hook was called on another thread */
} job_t;

/* A program whose result is the mean of all visits, whatever the batch. */
static cadre_function_t *
register_level(stage_t *stage)
{
    cadre_program_t *p = cadre_program_new("level");
    cadre_function_t *function = NULL;
    const cadre_dim_t shape[] = {cadre_dim_symbol("B"), cadre_dim(2)};
    const int64_t rows = VISIT_ROWS;
    cadre_op_arg(p, "x", CADRE_F32, shape, 2);
    cadre_op_result(p, "level", cadre_op_mean_all(p, cadre_op_var(p, "visits", &rows, 1)));
    OK(cadre_function_register(stage->coordinator, &p, &function));
    return function;
}

static void
job_open(job_t *self)
{
    *self = (job_t){.end_at = -1, .thread = pthread_self()};
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.checkpoint_keep = 2;
    stage_open_with(&self->stage, &options);
    self->visits = stage_visits(&self->stage);
    cadre_auto(cadre_free) char *path = stage_write_rows(&self->stage, VISIT_ROWS);
    self->rows = stage_open_rows(&self->stage, path, "rows");
    self->visit = stage_function(&self->stage, "visit");
    self->level = register_level(&self->stage);
}

static bool
note(void *context, const cadre_training_event_t *event)
{
    job_t *self = context;
    cr_assert_lt(self->count, EVENTS_MAX);
    self->events[self->count++] = *event;
    self->counts[event->kind]++;
    self->was_elsewhere = self->was_elsewhere || !pthread_equal(pthread_self(), self->thread);
    if (event->kind == CADRE_TRAINING_EPOCH) { /* a hook may call Cadre */
        stage_expect_visits(self->visits, VISIT_ROWS, (int)event->epoch);
    }
    return (int)event->kind == self->end_at;
}

/* Options with a hook, and evaluations of the level, which only goes up. */
static cadre_training_options_t
noted(job_t *self)
{
    cadre_training_options_t options = cadre_training_options();
    options.batch_size = BATCH;
    options.epochs = 50;
    options.hook = note;
    options.hook_context = self;
    options.evaluation = self->level;
    options.evaluation_rows = self->rows;
    options.evaluation_kind = CADRE_REDUCTION_MEAN;
    options.is_higher_better = true;
    return options;
}

static cadre_training_report_t
run(job_t *self, const cadre_training_options_t *options)
{
    cadre_training_report_t report;
    OK(cadre_training_run(self->rows, self->visit, options, LOCAL_WAIT_MS, &report));
    cr_expect_not(self->was_elsewhere);
    cr_expect_eq(self->counts[CADRE_TRAINING_START], 1);
    cr_expect_eq(self->counts[CADRE_TRAINING_FAILURE], 0);
    if (options->hook) {
        const cadre_training_event_t *last = &self->events[self->count - 1];
        cr_expect(last->kind == CADRE_TRAINING_STOP && last->reason == report.reason);
        cr_expect_eq(self->counts[CADRE_TRAINING_STOP], 1);
    }
    return report;
}

Test(conformance_training, tells_of_each_epoch_and_step_in_order)
{
    enum { EPOCHS = 3, EVERY = 5 };
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    options.epochs = EPOCHS;
    options.hook_every_steps = EVERY;
    options.evaluate_every = 2;
    cadre_training_report_t report = run(&job, &options);
    cr_expect_eq(report.reason, CADRE_TRAINING_BY_EPOCHS);
    cr_expect_eq(report.epochs, EPOCHS);
    cr_expect_eq(report.steps, EPOCHS * PASS);
    stage_expect_visits(job.visits, VISIT_ROWS, EPOCHS);
    cr_expect_eq(job.counts[CADRE_TRAINING_EPOCH], EPOCHS);
    cr_expect_eq(job.counts[CADRE_TRAINING_STEP], EPOCHS * PASS / EVERY);
    cr_expect_eq(job.counts[CADRE_TRAINING_EVALUATION], 2, "after 2, and at the end");
    cr_expect_eq(report.evaluations, 2);
    uint64_t step = 0;
    uint64_t epoch = 0;
    for (size_t i = 0; i < job.count; i++) {
        const cadre_training_event_t *event = &job.events[i];
        cr_expect(event->step >= step && event->epoch >= epoch, "event %zu", i);
        step = event->step;
        epoch = event->epoch;
        cr_expect(event->kind != CADRE_TRAINING_STEP || event->step % EVERY == 0);
        cr_expect(event->kind != CADRE_TRAINING_EPOCH || event->step == event->epoch * PASS);
        cr_expect(event->kind != CADRE_TRAINING_EVALUATION ||
                  fabs(event->value - (double)event->epoch) < 1e-5);
    }
    stage_close(&job.stage);
}

Test(conformance_training, trains_without_a_hook_as_well)
{
    job_t job;
    job_open(&job);
    cadre_training_options_t options = cadre_training_options();
    options.epochs = 2;
    cadre_training_report_t report;
    OK(cadre_training_run(job.rows, job.visit, &options, LOCAL_WAIT_MS, &report));
    cr_expect(report.reason == CADRE_TRAINING_BY_EPOCHS && isnan(report.value));
    cr_expect_eq(report.steps, 2 * ((VISIT_ROWS + 31) / 32), "batches of 32");
    OK(cadre_training_run(job.rows, job.visit, &options, LOCAL_WAIT_MS, NULL));
    stage_expect_visits(job.visits, VISIT_ROWS, 4);
    stage_close(&job.stage);
}

Test(conformance_training, ends_at_its_target_and_keeps_the_best_state)
{
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    options.has_target = true;
    options.target = 2.99;
    options.keep_best = true;
    cadre_training_report_t report = run(&job, &options);
    cr_expect_eq(report.reason, CADRE_TRAINING_BY_TARGET);
    cr_expect_eq(report.epochs, 3);
    cr_expect(report.best_step == 3 * PASS && report.best_saved == 3);
    cr_expect_eq(job.counts[CADRE_TRAINING_CHECKPOINT], 3, "each was the best so far");
    cadre_auto(cadre_free) char *best = cadre_checkpoint_best(job.stage.coordinator);
    cr_assert(best && strstr(best, "ckpt-00000003"), "%s", best);
    stage_close(&job.stage);
}

Test(conformance_training, ends_by_patience_and_remembers_when_it_was_best)
{
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    options.is_higher_better = false; /* so that the first one is the best */
    options.patience = 2;
    options.keep_best = true;
    options.checkpoint_every_epochs = 1;
    cadre_training_report_t report = run(&job, &options);
    cr_expect_eq(report.reason, CADRE_TRAINING_BY_PATIENCE);
    cr_expect_eq(report.epochs, 3);
    cr_expect_eq(report.best_step, PASS);
    cr_expect_float_eq(report.best, 1, 1e-5);
    cr_expect_eq(report.best_saved, 1);
    cr_expect_eq(job.counts[CADRE_TRAINING_CHECKPOINT], 3, "of the best no second one");
    cadre_auto(cadre_free) char *best = cadre_checkpoint_best(job.stage.coordinator);
    cr_assert(best && strstr(best, "ckpt-00000001"), "%s", best);
    stage_close(&job.stage);
}

Test(conformance_training, ends_after_its_steps_in_the_middle_of_an_epoch)
{
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    options.steps_per_epoch = 10;
    options.stop_steps = 2 * PASS; /* 32: three epochs and a part, two passes */
    options.hook = NULL;
    cadre_training_report_t report;
    OK(cadre_training_run(job.rows, job.visit, &options, LOCAL_WAIT_MS, &report));
    cr_expect_eq(report.reason, CADRE_TRAINING_BY_STEPS);
    cr_expect_eq(report.steps, 2 * PASS);
    cr_expect_eq(report.epochs, 2 * PASS / 10);
    cr_expect_float_eq(report.value, 2, 1e-5, "it is evaluated at its end");
    stage_expect_visits(job.visits, VISIT_ROWS, 2);
    stage_close(&job.stage);
}

Test(conformance_training, ends_when_its_time_is_over)
{
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    options.hook = NULL;
    options.epochs = 1000000;
    options.evaluate_every = 1000000;
    options.stop_ms = 200;
    cadre_training_report_t report;
    OK(cadre_training_run(job.rows, job.visit, &options, LOCAL_WAIT_MS, &report));
    cr_expect_eq(report.reason, CADRE_TRAINING_BY_TIME);
    cr_expect(report.seconds >= 0.2 && report.steps > 0 && report.evaluations == 1);
    stage_close(&job.stage);
}

Test(conformance_training, a_hook_ends_the_run_and_what_is_under_way_ends_first)
{
    static const cadre_training_event_kind_t kinds[] = {
        CADRE_TRAINING_START, CADRE_TRAINING_STEP, CADRE_TRAINING_EPOCH, CADRE_TRAINING_EVALUATION};
    for (size_t i = 0; i < CADRE_COUNT_OF(kinds); i++) {
        job_t job;
        job_open(&job);
        job.end_at = (int)kinds[i];
        cadre_training_options_t options = noted(&job);
        options.hook_every_steps = 7;
        cadre_training_report_t report = run(&job, &options);
        cr_expect_eq(report.reason, CADRE_TRAINING_BY_HOOK, "%zu", i);
        cr_expect_leq(report.epochs, 1);
        cr_expect_leq(report.steps, 7 + CADRE_TRAINING_AHEAD);
        cadre_totals_t totals = cadre_coordinator_totals(job.stage.coordinator);
        cr_expect(totals.queued == 0 && totals.in_flight == 0);
        cr_expect(kinds[i] != CADRE_TRAINING_START || report.steps == 0);
        cr_expect(kinds[i] != CADRE_TRAINING_EVALUATION || report.evaluations == 1);
        stage_close(&job.stage);
    }
}

Test(conformance_training, tells_of_a_failure_and_the_coordinator_is_usable_again)
{
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    FAILS(cadre_training_run(job.rows, stage_function(&job.stage, "fail"), &options, LOCAL_WAIT_MS,
                             NULL),
          CADRE_EINVALID, "function fail");
    cr_expect_eq(job.counts[CADRE_TRAINING_FAILURE], 1);
    cr_expect_eq(job.counts[CADRE_TRAINING_STOP], 0);
    const cadre_training_event_t *last = &job.events[job.count - 1];
    cr_expect(last->kind == CADRE_TRAINING_FAILURE && last->status == CADRE_EINVALID);
    stage_join(&job.stage); /* the error was raised by that call, and by no other */
    options.epochs = 1;
    OK(cadre_training_run(job.rows, job.visit, &options, LOCAL_WAIT_MS, NULL));
    stage_close(&job.stage);
}

/* Kills a worker, in the middle of what it has, and starts it again. */
static bool
kill_a_worker(void *context, const cadre_training_event_t *event)
{
    job_t *job = context;
    if (event->kind == CADRE_TRAINING_STEP) {
        uint64_t lost = cadre_coordinator_totals(job->stage.coordinator).workers_lost;
        local_cluster_restart(&job->stage.cluster, LOCAL_WORKER, (int)(event->step / 20) % 2);
        local_cluster_wait_lost(&job->stage.cluster, lost + 1);
        /* One that has not joined again could not be lost. */
        local_cluster_wait_workers(&job->stage.cluster, job->stage.cluster.options.workers);
    }
    return false;
}

Test(conformance_training, counts_each_row_once_although_workers_die)
{
    enum { EPOCHS = 8 };
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    options.epochs = EPOCHS;
    options.hook = kill_a_worker;
    options.hook_every_steps = 20;
    cadre_training_report_t report;
    OK(cadre_training_run(job.rows, job.visit, &options, LOCAL_WAIT_MS, &report));
    cr_expect_geq(cadre_coordinator_totals(job.stage.coordinator).workers_lost, 5);
    cr_expect_eq(report.steps, EPOCHS * PASS);
    cr_expect_float_eq(report.value, EPOCHS, 1e-4);
    stage_expect_visits(job.visits, VISIT_ROWS, EPOCHS);
    stage_close(&job.stage);
}

Test(conformance_training, refuses_options_that_do_not_go_together)
{
    job_t job;
    job_open(&job);
    cadre_training_options_t options = noted(&job);
    options.evaluation_rows = NULL;
    FAILS(cadre_training_run(job.rows, job.visit, &options, -1, NULL), CADRE_EINVALID,
          "evaluation_rows");
    options.evaluation = NULL;
    options.patience = 1;
    FAILS(cadre_training_run(job.rows, job.visit, &options, -1, NULL), CADRE_EINVALID,
          "need evaluations");
    options = noted(&job);
    options.batch_size = -1;
    FAILS(cadre_training_run(job.rows, job.visit, &options, -1, NULL), CADRE_EINVALID, "negative");
    options = noted(&job);
    options.evaluation_kind = (cadre_reduction_kind_t)7;
    FAILS(cadre_training_run(job.rows, job.visit, &options, -1, NULL), CADRE_EINVALID,
          "cadre_reduction_kind_t");
    options.size = sizeof(options) + 8;
    FAILS(cadre_training_run(job.rows, job.visit, &options, -1, NULL), CADRE_EINVALID,
          "cadre_training_options_t");
    cr_expect_eq(job.count, 0, "no hook was called");
    stage_close(&job.stage);
}

Test(conformance_training, refuses_checkpoints_without_a_directory)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, VISIT_ROWS);
    cadre_dataset_t *rows = stage_open_rows(&stage, path, "rows");
    cadre_training_options_t options = cadre_training_options();
    options.checkpoint_every_epochs = 1;
    FAILS(cadre_training_run(rows, stage_function(&stage, "add_one"), &options, -1, NULL),
          CADRE_ESTATE, "checkpoint_dir");
    stage_close(&stage);
}
