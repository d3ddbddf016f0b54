#include "coordinator/cli/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/cli/terminal/notice.h"
#include "coordinator/cli/train/evaluation.h"
#include "coordinator/cli/train/loss_sample.h"
#include "coordinator/cli/train/model.h"
#include "coordinator/cli/train/training_data.h"
#include "coordinator/cli/train/training_plan.h"

typedef struct {
    const cadre_trainer_options_t *options;
    cadre_trainer_outcome_t *outcome;
    cadre_training_data_t data;
    cadre_model_t model;
    cadre_training_plan_t plan;
    bool planned;            /* `plan` and the model are there */
    int64_t scheduled;       /* training closures by this run */
    int64_t evaluations;     /* closures that evaluated, in the whole job */
    cadre_totals_t excluded; /* what is not training in the coordinator's totals */
    uint64_t epoch_finished; /* the coordinator's count when the epoch began */
    cadre_loss_sample_t losses;
    cadre_progress_t progress;
    int64_t start_ms;
    int64_t tick_ms;
    uint64_t checkpoints; /* seen so far, and when the newest came */
    int64_t checkpoint_ms;
} trainer_t;

/* --- how it goes --- */

/* Brings the figures of the progress line up to date. */
static void
update_progress(trainer_t *self, const cadre_totals_t *totals, int64_t now_ms)
{
    cadre_progress_t *progress = &self->progress;
    int64_t in_epoch = (int64_t)(totals->finished - self->epoch_finished);
    int64_t batches = cadre_training_plan_batches(&self->plan, 0);
    int64_t begun = batches - cadre_training_plan_batches(&self->plan, self->plan.start.position);
    if (progress->epoch - 1 == self->plan.start.epoch) {
        in_epoch += begun;
    }

    progress->steps = cadre_training_plan_total(&self->plan);
    progress->step = (int64_t)(totals->finished - self->excluded.finished);
    progress->epoch_fraction = in_epoch < batches ? (double)in_epoch / (double)batches : 1;
    progress->loss = cadre_loss_sample_mean(&self->losses);
    progress->workers = totals->workers;
    if (totals->checkpoints != self->checkpoints) {
        self->checkpoints = totals->checkpoints;
        self->checkpoint_ms = now_ms;
    }

    progress->checkpoint_age_s =
        self->checkpoints ? (double)(now_ms - self->checkpoint_ms) / 1000 : -1;
    double elapsed_s = (double)(now_ms - self->start_ms) / 1000;
    double done = (double)(progress->step - self->plan.start.closures);
    double speed = elapsed_s > 0 ? done / elapsed_s : 0;
    progress->rows_per_second = speed * (double)self->plan.batch_size;
    progress->seconds_left = speed > 0 ? (double)(progress->steps - progress->step) / speed : -1;
}

static void
send_progress(trainer_t *self, cadre_notice_kind_t kind)
{
    cadre_totals_t totals = cadre_coordinator_totals(self->options->coordinator);
    update_progress(self, &totals, cadre_clock_now_ms());
    cadre_notice_t notice = {.kind = kind, .progress = self->progress};
    cadre_notice_send(self->options->notices, &notice);
}

static void
tick(trainer_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    if (now_ms - self->tick_ms >= CADRE_TRAINER_TICK_MS) {
        self->tick_ms = now_ms;
        cadre_loss_sample_poll(&self->losses);
        send_progress(self, CADRE_NOTICE_PROGRESS);
    }
}

/* --- set-up --- */

static int
fail_absent(const trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    const char *address = cadre_coordinator_address(self->options->coordinator);
    cadre_totals_t totals = cadre_coordinator_totals(self->options->coordinator);
    cadre_auto(cadre_free) char *next = NULL;
    if (!self->options->launched) {
        next = cadre_asprintf(": start those that are missing by `cadre ps --coordinator %s` and "
                              "`cadre worker --coordinator %s`; --wait says how long to wait",
                              address, address);
    }

    return cadre_fail(CADRE_EUNAVAILABLE, "after %.0f s %d of %lld ps and %d workers are there%s",
                      job->wait_s, totals.ps, (long long)job->ps, totals.workers, next ? next : "");
}

static int
wait_for_tasks(trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    int64_t limit_ms = (int64_t)(job->wait_s * 1000);
    char what[96];

    snprintf(what, sizeof(what), "%lld ps and a worker", (long long)job->ps);
    cadre_notice_begin_wait(self->options->notices, limit_ms, what);
    int status = cadre_coordinator_wait_ready(self->options->coordinator, 1, limit_ms);
    cadre_notice_end_wait(self->options->notices);
    if (status == CADRE_ETIMEOUT) {
        return fail_absent(self);
    }

    return status;
}

static char *
progress_at_cut(void *plan, uint64_t cut)
{
    cadre_training_place_t place = cadre_training_plan_at(plan, cut);
    return cadre_training_place_encode(&place);
}

static int64_t
evaluation_closures(const trainer_t *self)
{
    int64_t batch_size = self->options->job->evaluation_batch_size;
    return self->data.test
               ? (cadre_dataset_info(self->data.test).rows + batch_size - 1) / batch_size
               : 0;
}

/* Where to begin: at the start, or where the checkpoint was cut. */
static int
make_plan(trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    self->plan = (cadre_training_plan_t){
        .first_id = 1,
        .rows = cadre_dataset_info(self->data.train).rows,
        .batch_size = job->batch_size,
        .drop_last = job->drop_last,
        .epochs = job->epochs,
        .evaluate_every = job->evaluate_every,
        .evaluation_closures = evaluation_closures(self),
    };
    const char *path;
    const char *progress;
    uint64_t cut;
    if (cadre_checkpoint_resumed(self->options->coordinator, &path, &cut, &progress)) {
        self->plan.first_id = cut;
        int status = progress ? cadre_training_place_decode(progress, &self->plan.start) : 0;
        if (status < 0) {
            return status;
        }

        if (self->plan.start.position > self->plan.rows) {
            return cadre_fail(CADRE_ECONFIG, "%s was taken at row %lld, but there are %lld rows",
                              path, (long long)self->plan.start.position,
                              (long long)self->plan.rows);
        }

        cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                         "resumed from %s: epoch %lld, row %lld, %lld closures done", path,
                         (long long)self->plan.start.epoch + 1,
                         (long long)self->plan.start.position,
                         (long long)self->plan.start.closures);
    }

    /* Training below the cut is counted by the plan; what else the totals hold is not training. */
    cadre_totals_t totals = cadre_coordinator_totals(self->options->coordinator);
    self->evaluations = self->plan.start.evaluations;
    self->excluded.finished = totals.finished - (uint64_t)self->plan.start.closures;
    self->excluded.attempts = self->excluded.finished;
    self->planned = true;
    cadre_checkpoint_on_progress(self->options->coordinator, progress_at_cut, &self->plan);
    return 0;
}

/* Waits for the ps and workers, then makes the datasets, the model and the plan of the training. */
static int
set_up(trainer_t *self)
{
    int status = wait_for_tasks(self);
    if (status < 0) {
        return status;
    }

    status = cadre_training_data_open(&self->data, self->options);
    if (status < 0) {
        return status;
    }

    cadre_dataset_info_t info = cadre_dataset_info(self->data.train);
    status = cadre_model_open(self->options->job, self->options->coordinator, info.features,
                              info.classes, &self->model);
    if (status < 0) {
        return status;
    }

    status = make_plan(self);
    if (status < 0) {
        return status;
    }

    cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                     "training %lld parameters on %lld rows of %lld features, %lld closures "
                     "an epoch",
                     (long long)self->model.parameters, (long long)info.rows,
                     (long long)info.features,
                     (long long)cadre_training_plan_batches(&self->plan, 0));
    return 0;
}

/* --- training --- */

/* Schedules one closure, looking at how it goes while the queue is full. */
static int
schedule(trainer_t *self, const cadre_function_t *function, const cadre_batch_t *batch,
         cadre_future_t **future)
{
    cadre_call_t call = cadre_call_batch(batch);
    int status;
    do {
        tick(self);
        status = cadre_coordinator_schedule(self->options->coordinator, function, &call,
                                            CADRE_TRAINER_TICK_MS, future);
    } while (status == CADRE_ETIMEOUT);
    return status;
}

static int
join(trainer_t *self)
{
    int status;
    do {
        tick(self);
        status = cadre_coordinator_join(self->options->coordinator, CADRE_TRAINER_TICK_MS);
    } while (status == CADRE_ETIMEOUT);
    return status;
}

static int
train_epoch(trainer_t *self, int64_t epoch, int64_t position)
{
    const cadre_job_t *job = self->options->job;
    int64_t batches = cadre_training_plan_batches(&self->plan, position);
    int64_t stride = 1 + batches / CADRE_TRAINER_SAMPLES_PER_EPOCH;

    self->progress.epoch = epoch + 1;
    self->progress.accuracy = NAN; /* of another epoch */
    self->progress.evaluation_loss = NAN;
    self->epoch_finished = cadre_coordinator_totals(self->options->coordinator).finished;
    if (batches == 0) {
        return 0;
    }

    int status =
        cadre_dataset_begin(self->data.train, (uint64_t)epoch, position, job->batch_size,
                            job->shuffle ? CADRE_ORDER_SHUFFLED : CADRE_ORDER_OF_FILE,
                            job->drop_last ? CADRE_LAST_BATCH_DROPPED : CADRE_LAST_BATCH_SMALLER);
    if (status < 0) {
        return status;
    }

    /* Only a sample of the closures has a future: each costs the coordinator a kept result. */
    cadre_batch_t batch;
    for (int64_t i = 0; cadre_dataset_next(self->data.train, &batch); i++) {
        bool wanted = i % stride == 0 && cadre_loss_sample_has_room(&self->losses);
        cadre_future_t *future = NULL;
        status = schedule(self, self->model.train, &batch, wanted ? &future : NULL);
        if (status < 0) {
            return status;
        }
        self->scheduled++;
        if (future) {
            cadre_loss_sample_add(&self->losses, &future);
        }
    }

    status = join(self);
    if (status < 0) {
        return status; /* a look at other futures would replace the failure's text */
    }

    cadre_loss_sample_poll(&self->losses);
    return 0;
}

/* What one more evaluation of the coordinator's totals is not training. */
static void
exclude(trainer_t *self, const cadre_totals_t *before)
{
    cadre_totals_t after = cadre_coordinator_totals(self->options->coordinator);
    self->excluded.finished += after.finished - before->finished;
    self->excluded.attempts += after.attempts - before->attempts;
}

static int
evaluate(trainer_t *self)
{
    if (!self->data.test) {
        return 0;
    }

    /* Its closures are taken out of the totals: a result counts those that train. */
    cadre_totals_t before = cadre_coordinator_totals(self->options->coordinator);
    cadre_evaluation_t evaluation = {
        .function = self->model.evaluate,
        .dataset = self->data.test,
        .rows = cadre_dataset_info(self->data.test).rows,
        .batch_size = self->options->job->evaluation_batch_size,
        .counts_correct = self->options->job->label != CADRE_JOB_VALUE,
    };
    int status = cadre_evaluation_run(&evaluation, self->options->coordinator);

    exclude(self, &before);
    self->evaluations += self->plan.evaluation_closures;
    if (status < 0) {
        return status;
    }

    cadre_result_t *result = &self->outcome->result;
    result->test_rows = evaluation.rows;
    result->loss = evaluation.loss;
    result->accuracy = evaluation.counts_correct ? evaluation.accuracy : NAN;
    self->progress.accuracy = result->accuracy;
    self->progress.evaluation_loss = result->loss;
    return 0;
}

static int
save(trainer_t *self, const cadre_training_place_t *place)
{
    if (!cadre_job_checkpoints(self->options->job)) {
        return 0;
    }

    cadre_auto(cadre_free) char *progress = place ? cadre_training_place_encode(place) : NULL;
    cadre_notice_begin_wait(self->options->notices, CADRE_TRAINER_SAVE_MS, "the checkpoint");
    int status =
        cadre_checkpoint_save(self->options->coordinator, progress, CADRE_TRAINER_SAVE_MS, NULL);
    cadre_notice_end_wait(self->options->notices);
    self->outcome->saved = status == 0;
    return status < 0 ? cadre_fail_within(status, "the checkpoint") : 0;
}

static void
note_staleness(trainer_t *self)
{
    for (int shard = 0; shard < (int)self->options->job->ps; shard++) {
        cadre_shard_totals_t totals;
        if (cadre_shard_totals(self->options->coordinator, shard, &totals, CADRE_TRAINER_TICK_MS) ==
                0 &&
            totals.staleness_max > self->progress.staleness_max) {
            self->progress.staleness_max = totals.staleness_max;
        }
    }
}

static int
train(trainer_t *self)
{
    cadre_training_place_t place = self->plan.start;
    if (cadre_training_plan_total(&self->plan) == place.closures) {
        cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                         "warning: the run that this checkpoint is of has ended: all %lld epochs "
                         "are done, it is only evaluated",
                         (long long)self->plan.epochs);
        return evaluate(self);
    }

    for (; place.epoch < self->plan.epochs; place.epoch++, place.position = 0) {
        int status = train_epoch(self, place.epoch, place.position);
        if (status < 0) {
            return status;
        }

        note_staleness(self);
        bool last = place.epoch + 1 == self->plan.epochs;
        if (last) {
            /* Before the last evaluation, which takes its time and changes nothing. */
            cadre_training_place_t end = {.epoch = place.epoch,
                                          .position = self->plan.rows,
                                          .closures = cadre_training_plan_total(&self->plan),
                                          .evaluations = self->evaluations};
            status = save(self, &end);
            if (status < 0) {
                return status;
            }
        }

        if (cadre_training_plan_evaluates(&self->plan, place.epoch)) {
            status = evaluate(self);
            if (status < 0) {
                return status;
            }
        }

        send_progress(self, CADRE_NOTICE_EPOCH);
    }

    return 0;
}

/* --- the end --- */

/* The most urgent command that was given. The interrupt goes first: one that comes later has its
 * own. */
static char
take_command(trainer_t *self)
{
    char command = CADRE_TRAINER_STOP;
    char next;
    cadre_coordinator_interrupt(self->options->coordinator, false);
    while (read(self->options->commands, &next, 1) == 1) {
        command = command == CADRE_TRAINER_ABORT || next == CADRE_TRAINER_STOP ? command : next;
    }
    self->outcome->aborted = command == CADRE_TRAINER_ABORT;
    return command;
}

/* After a command: the checkpoint that the next run resumes from. */
static int
stop(trainer_t *self)
{
    take_command(self);
    if (self->outcome->aborted || !self->planned) {
        return CADRE_EINTERRUPTED;
    }

    int status = save(self, NULL);
    if (status == CADRE_EINTERRUPTED && take_command(self) == CADRE_TRAINER_UNSAVED) {
        return cadre_fail(CADRE_EUNAVAILABLE, "the last checkpoint was not taken: no worker is "
                                              "heard, and what had begun must end before it");
    }

    if (status < 0) {
        return status;
    }

    return CADRE_EINTERRUPTED;
}

/* Asks the ps how many updates they have applied. A run that a lost task has ended does not wait
 * for long: counts that are missing by then stay unknown. */
static void
count_updates(trainer_t *self)
{
    cadre_result_t *result = &self->outcome->result;
    bool well = !self->outcome->aborted && self->outcome->status != CADRE_EUNAVAILABLE;
    int64_t end_ms =
        cadre_clock_now_ms() + (well ? CADRE_TRAINER_COUNTERS_MS : CADRE_TRAINER_REST_MS);

    result->shard_count = self->planned ? (size_t)self->options->job->ps : 0;
    result->shards = cadre_calloc(result->shard_count, sizeof(*result->shards));
    for (size_t i = 0; i < result->shard_count; i++) {
        int64_t left_ms = cadre_max_i64(end_ms - cadre_clock_now_ms(), 0);
        if (!well) {
            left_ms = cadre_min_i64(left_ms, CADRE_TRAINER_COUNTER_MS);
        }
        cadre_result_shard_t *shard = &result->shards[i];
        shard->is_known =
            cadre_shard_totals(self->options->coordinator, (int)i, &shard->totals, left_ms) == 0;
    }
}

static void
fill_result(trainer_t *self)
{
    cadre_result_t *result = &self->outcome->result;
    cadre_coordinator_interrupt(self->options->coordinator,
                                false); /* a command that came too late */
    cadre_totals_t totals = cadre_coordinator_totals(self->options->coordinator);
    result->scheduled = (uint64_t)(self->plan.start.closures + self->scheduled);
    result->finished = totals.finished - self->excluded.finished;
    result->attempts = totals.attempts - self->excluded.attempts;
    result->workers_lost = totals.workers_lost;
    result->ps_lost = totals.ps_lost;
    if (self->planned) {
        result->examples = cadre_training_plan_rows(&self->plan, (int64_t)result->finished);
        result->resumed_examples = cadre_training_plan_rows(&self->plan, self->plan.start.closures);
    }

    if (self->start_ms) {
        result->seconds = (double)(cadre_clock_now_ms() - self->start_ms) / 1000;
    }
    if (isnan(result->loss)) {
        result->loss = cadre_loss_sample_mean(&self->losses);
    }

    result->checkpoint = cadre_checkpoint_last(self->options->coordinator);
    count_updates(self);
}

void
cadre_trainer_run(const cadre_trainer_options_t *options, cadre_trainer_outcome_t *outcome)
{
    *outcome = (cadre_trainer_outcome_t){0};
    cadre_result_init(&outcome->result);
    trainer_t self = {.options = options, .outcome = outcome};
    self.progress.epochs = options->job->epochs;
    self.progress.workers_wanted = options->job->workers;
    self.progress.loss = NAN;
    self.progress.accuracy = NAN;
    self.progress.evaluation_loss = NAN;
    int status = set_up(&self);
    if (status == 0) {
        self.start_ms = cadre_clock_now_ms();
        status = train(&self);
    }

    if (status == CADRE_EINTERRUPTED) {
        status = stop(&self);
    }

    /* Filled in for a failed run too: people want to know how far it came. */
    outcome->status = status;
    snprintf(outcome->text, sizeof(outcome->text), "%s", status < 0 ? cadre_error_text() : "");
    double target = options->job->target_accuracy;
    outcome->target_missed = status == 0 && target > 0 && !(outcome->result.accuracy >= target);
    fill_result(&self);
    cadre_loss_sample_fini(&self.losses);
    cadre_checkpoint_on_progress(options->coordinator, NULL, NULL);
    cadre_notice_say(options->notices, CADRE_NOTICE_DONE, "%s", "");
}
