#include "coordinator/cli/train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/cli/terminal/notice.h"
#include "coordinator/cli/train/epoch_figures.h"
#include "coordinator/cli/train/evaluation.h"
#include "coordinator/cli/train/job_local.h"
#include "coordinator/cli/train/job_strategy.h"
#include "coordinator/cli/train/loss_sample.h"
#include "coordinator/cli/train/model.h"
#include "coordinator/cli/train/training_data.h"
#include "coordinator/cli/train/training_plan.h"
#include "coordinator/cli/train/training_records.h"
#include "coordinator/cli/train/training_result.h"
#include "coordinator/cli/train/training_tasks.h"

typedef struct {
    const cadre_trainer_options_t *options;
    cadre_trainer_outcome_t *outcome;
    cadre_training_data_t data;
    cadre_model_t model;
    cadre_training_plan_t plan;   /* the plan of this run, from the place where the run began */
    cadre_training_place_t place; /* how far training is */
    cadre_training_records_t *records; /* in `outcome` */
    bool planned;                      /* `plan` and `model` are set */
    char command;                      /* the most urgent one that was read; STOP: none or that */
    bool is_stopping;        /* told to stop: nothing is scheduled beyond the step being filled */
    bool is_time_up;         /* the time limit is over: no further closure is scheduled */
    int64_t scheduled;       /* training closures that this run has scheduled */
    int64_t filled;          /* closures of the synchronous step that is being filled */
    cadre_totals_t excluded; /* part of the coordinator's totals that is not training */
    uint64_t epoch_finished; /* closures finished, by the coordinator's totals, at epoch begin */
    int64_t epoch_begun;     /* closures of this epoch that trained before it was resumed */
    cadre_epoch_figures_t figures;
    cadre_loss_sample_t losses;
    cadre_progress_t progress;
    int64_t tick_ms;       /* when progress was last sent */
    uint64_t checkpoints;  /* checkpoints seen so far */
    int64_t checkpoint_ms; /* when the newest checkpoint was seen */
} trainer_t;

/* --- progress --- */

/* Updates the progress from the coordinator's totals. The totals also count closures that are not
 * training (`excluded`). */
static void
update_progress(trainer_t *self, const cadre_totals_t *totals, int64_t now_ms)
{
    cadre_progress_t *progress = &self->progress;
    int64_t in_epoch = (int64_t)(totals->finished - self->epoch_finished) + self->epoch_begun;
    int64_t batches = cadre_training_plan_epoch_closures(&self->plan);

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
    double elapsed_s = (double)(now_ms - self->records->start_ms) / 1000;
    double done = (double)(progress->step - self->plan.start.closures);
    double speed = elapsed_s > 0 ? done / elapsed_s : 0;
    progress->seconds = elapsed_s;
    progress->rows_per_second = speed * (double)self->plan.batch_size;
    progress->seconds_left = speed > 0 ? (double)(progress->steps - progress->step) / speed : -1;
}

/* Sends the present progress to the main thread, as a notice of this kind. */
static void
send_progress(trainer_t *self, cadre_notice_kind_t kind)
{
    cadre_totals_t totals = cadre_coordinator_own_totals(self->options->coordinator);
    update_progress(self, &totals, cadre_clock_now_ms());
    cadre_notice_t notice = {.kind = kind, .progress = self->progress};
    cadre_notice_send(self->options->notices, &notice);
}

/* Collects losses and sends progress, at most once every CADRE_TRAINER_TICK_MS. */
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

/* Returns how many closures one evaluation takes: one for each batch of test rows, 0 without test
 * rows. */
static int64_t
evaluation_closures(const trainer_t *self)
{
    int64_t batch_size = self->options->job->evaluation_batch_size;
    return self->data.test
               ? (cadre_dataset_info(self->data.test).rows + batch_size - 1) / batch_size
               : 0;
}

/* Returns the rows of a closure that trains: a batch for each of its steps. */
static int64_t
closure_rows(const cadre_job_t *job)
{
    return job->batch_size * job->local_steps;
}

/* Warns where the checkpoint that was resumed does not say of all closures that it holds, and of no
 * other, that they have ended. Those that train are known by their numbers. Of a job that an older
 * build began they are not: all below the cut are counted, also those of clients. */
static void
warn_of_difference(const trainer_t *self, const char *path, uint64_t said, uint64_t held)
{
    const char *what = "the others were of clients, or their rows are trained on again";
    const uint64_t trained = cadre_checkpoint_next(self->options->coordinator, 1) - 1;
    if (trained > 0) {
        said = (uint64_t)self->plan.start.closures;
        held = trained;
        what = said < held
                   ? "rows of the others are trained on again"
                   : "it is of an older build: rows of the others are left out, unless that "
                     "trained on them";
    }
    if (said != held) {
        cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                         "warning: %s holds %llu closures, and says that %llu had ended: %s", path,
                         (unsigned long long)held, (unsigned long long)said, what);
    }
}

/* Compares what the checkpoint that was resumed says of how far training was with what it holds:
 * all closures below its cut trained, evaluated, or were of clients. Fails where it says that more
 * have ended. */
static int
check_resumed(const trainer_t *self, const char *path, uint64_t cut)
{
    const cadre_training_place_t *start = &self->plan.start;
    const uint64_t said = (uint64_t)start->closures + (uint64_t)start->evaluations;
    const uint64_t held = cut - 1;
    if (said > held) {
        return cadre_fail(
            CADRE_ECORRUPT,
            "%s holds %llu closures, and says that %llu had ended: its values are "
            "of another place in the data; take an older one (--resume PATH), or none "
            "(--resume never)",
            path, (unsigned long long)held, (unsigned long long)said);
    }
    warn_of_difference(self, path, said, held);
    return 0;
}

/* Begins the plan where the checkpoint that was resumed says that training was. */
static int
resume_plan(trainer_t *self, const char *path, uint64_t cut, const char *progress)
{
    cadre_training_plan_t *plan = &self->plan;
    /* The closures below the cut are done, so the first of this run gets the cut as its id. */
    plan->first_id = cut;
    int status = cadre_training_records_resume(self->records, path, progress, &plan->start);
    if (status < 0) {
        return status;
    }

    /* The rows are fewer than when the checkpoint was taken. */
    if (plan->start.position > plan->rows) {
        return cadre_fail(CADRE_ECONFIG,
                          "%s was taken at row %lld, but there are %lld rows: give it the data "
                          "that it was taken of, or begin anew with --resume never",
                          path, (long long)plan->start.position, (long long)plan->rows);
    }

    status = check_resumed(self, path, cut);
    if (status < 0) {
        return status;
    }
    cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                     "resumed from %s: epoch %lld, row %lld, %lld closures done", path,
                     (long long)plan->start.epoch + 1, (long long)plan->start.position,
                     (long long)plan->start.closures);
    return 0;
}

/* Makes the plan of the training: from the first row or, after a resume, from the place that the
 * checkpoint's progress record gives. */
static int
make_plan(trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    self->plan = (cadre_training_plan_t){
        .first_id = 1,
        .rows = cadre_dataset_info(self->data.train).rows,
        .batch_size = closure_rows(job),
        .drop_last = job->drop_last,
        .epochs = job->epochs,
        .steps_per_epoch = job->steps_per_epoch,
        .steps_max = job->stop_steps,
        .watched = cadre_job_watches(job),
        .evaluate_every = job->evaluate_every,
        .evaluation_closures = evaluation_closures(self),
    };
    const char *path = "";
    const char *progress = NULL;
    uint64_t cut;
    int status = 0;
    if (cadre_checkpoint_resumed(self->options->coordinator, &path, &cut, &progress)) {
        status = resume_plan(self, path, cut, progress);
        if (status < 0) {
            return status;
        }
    }

    status = cadre_training_plan_deal(&self->plan, job->shuffle ? self->data.ranges : 1, path);
    if (status < 0) {
        return status;
    }
    if (job->plateau_patience == 0) {
        self->plan.start.watch.plateau =
            (cadre_training_plateau_t){0}; /* the job's own rate counts */
    }

    self->plan.start.words = self->records->words;
    /* The plan knows how many training closures ended below the cut; everything else in the totals
     * is not training. */
    cadre_totals_t totals = cadre_coordinator_own_totals(self->options->coordinator);
    self->place = self->plan.start;
    self->excluded.finished = totals.finished - (uint64_t)self->plan.start.closures;
    self->excluded.attempts = self->excluded.finished;
    self->planned = true;
    /* From now on a command may end the run with a checkpoint. */
    cadre_training_records_give(self->records, &self->plan, &self->place);
    return 0;
}

/* Registers the functions for the last closure of a pass when it has fewer rows than the others: in
 * the program of local steps all steps have equally many rows, so such a closure needs one of its
 * own. There are two numbers of rows: at the end of a whole pass, and of the first pass after a
 * resume, which may begin at another row. */
static int
open_rests(trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    const int64_t rows = self->plan.rows;
    if (!cadre_job_is_local(job) || job->drop_last) {
        return 0;
    }

    cadre_dataset_info_t info = cadre_dataset_info(self->data.train);
    const int64_t widths[] = {info.features, info.classes};
    const int64_t lefts[] = {rows, rows - self->plan.start.position};
    for (size_t i = 0; i < CADRE_COUNT_OF(lefts); i++) {
        int status = cadre_model_open_rest(job, self->options->coordinator, widths,
                                           lefts[i] % closure_rows(job), &self->model);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Waits for the ps and workers, then makes the datasets, the model, the plan of the training, and
 * (open_rests) the functions for smaller last closures. */
static int
set_up(trainer_t *self)
{
    int status = cadre_training_tasks_wait(self->options);
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

    status = open_rests(self);
    if (status < 0) {
        return status;
    }

    status = cadre_model_repeat_changes(&self->model, &self->plan.start.watch.plateau);
    if (status < 0) {
        return status;
    }

    cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                     "training %lld parameters on %lld rows of %lld features, %lld closures "
                     "an epoch",
                     (long long)self->model.parameters, (long long)info.rows,
                     (long long)info.features,
                     (long long)cadre_training_plan_epoch_closures(&self->plan));
    return 0;
}

/* --- training --- */

/* Returns whether the job's time limit is over; at least one closure is trained in any case. */
static bool
is_time_up(const trainer_t *self)
{
    double limit_s = self->options->job->stop_seconds;
    return limit_s > 0 && self->plan.start.closures + self->scheduled > 0 &&
           (double)cadre_training_records_elapsed_ms(self->records) >= limit_s * 1000;
}

/* Reads the commands that were given and returns the most urgent one: ABORT before UNSAVED before
 * STOP. The interrupt is reset before commands are read, so that a command that comes later sets it
 * again. */
static char
take_command(trainer_t *self)
{
    char command = self->command;
    char next;
    cadre_coordinator_interrupt(self->options->coordinator, false);
    while (read(self->options->commands, &next, 1) == 1) {
        command = command == CADRE_TRAINER_ABORT || next == CADRE_TRAINER_STOP ? command : next;
    }
    self->command = command;
    self->outcome->aborted = command == CADRE_TRAINER_ABORT;
    return command;
}

/* Schedules one closure that trains, waiting while the queue is full; meanwhile sends progress. Its
 * number is that of all runs of the job: checkpoints hold it, and its random numbers follow from
 * it. Returns CADRE_ETIMEOUT when the job's time limit is over before there is room. */
static int
schedule(trainer_t *self, const cadre_function_t *function, const cadre_batch_t *batch,
         cadre_future_t **future)
{
    cadre_call_t call = cadre_call_batch(batch);
    call.sequence = (uint64_t)(self->plan.start.closures + self->scheduled) + 1;
    int status;
    do {
        tick(self);
        status = cadre_coordinator_schedule(self->options->coordinator, function, &call,
                                            CADRE_TRAINER_TICK_MS, future);
    } while (status == CADRE_ETIMEOUT && !is_time_up(self));
    return status;
}

/* Waits until all closures have ended, which ends the step that is being filled; meanwhile sends
 * progress. */
static int
join(trainer_t *self)
{
    int status;
    do {
        tick(self);
        status = cadre_coordinator_join(self->options->coordinator, CADRE_TRAINER_TICK_MS);
    } while (status == CADRE_ETIMEOUT);
    self->filled = 0;
    return status == 0 && self->is_stopping ? cadre_fail(CADRE_EINTERRUPTED, "interrupted")
                                            : status;
}

/* Schedules a training closure. When the run has to stop while a step is being filled, it goes
 * on until that is full: the checkpoint would end the step short, and the steps of the run that
 * resumes from it would be others. A second command ends that, too. */
static int
schedule_training(trainer_t *self, const cadre_batch_t *batch, cadre_future_t **future)
{
    const cadre_job_t *job = self->options->job;
    const cadre_function_t *train = cadre_model_train(&self->model, batch->count);
    int status = schedule(self, train, batch, future);
    if (status == CADRE_EINTERRUPTED && self->filled > 0 && !self->is_stopping) {
        self->is_stopping = take_command(self) == CADRE_TRAINER_STOP;
        status = self->is_stopping ? schedule(self, train, batch, future) : status;
    }
    if (status < 0) {
        return status;
    }

    self->scheduled++;
    if (job->consistency == CADRE_SYNC) {
        self->filled = (self->filled + 1) % job->step_closures;
    }
    return 0;
}

/* Schedules the next `batches` batches of the pass until the time limit is over; sets `batches` to
 * how many were scheduled. Every `stride`-th has a future, which samples the loss. */
static int
schedule_batches(trainer_t *self, int64_t stride, int64_t *batches)
{
    /* Only a sample of the closures has a future, as the coordinator keeps the result of each. */
    cadre_batch_t batch;
    int64_t done = 0;
    while (done < *batches && !self->is_time_up && cadre_dataset_next(self->data.train, &batch)) {
        bool wanted = self->scheduled % stride == 0 && cadre_loss_sample_has_room(&self->losses);
        cadre_future_t *future = NULL;
        int status = schedule_training(self, &batch, wanted ? &future : NULL);
        self->is_time_up = is_time_up(self);
        if (status == CADRE_ETIMEOUT) {
            break;
        }
        if (status < 0) {
            return status;
        }
        done++;
        if (future) {
            cadre_loss_sample_add(&self->losses, &future);
        }
        if (self->is_stopping && self->filled == 0) {
            return cadre_fail(CADRE_EINTERRUPTED, "interrupted");
        }
    }

    *batches = done;
    return 0;
}

/* Schedules the remaining closures of the pass over the rows, or those of a new pass if it is at
 * its end; at most `left`. `stride`: of how many closures one has its loss asked for. */
static int
train_pass(trainer_t *self, int64_t left, int64_t stride)
{
    const cadre_job_t *job = self->options->job;
    int64_t batches = cadre_training_plan_batches(&self->plan, self->place.position);
    bool is_new = batches == 0;
    int status = cadre_dataset_begin(
        self->data.train, (uint64_t)(self->place.pass + is_new), is_new ? 0 : self->place.position,
        closure_rows(job), job->shuffle ? CADRE_ORDER_SHUFFLED : CADRE_ORDER_OF_FILE,
        job->drop_last ? CADRE_LAST_BATCH_DROPPED : CADRE_LAST_BATCH_SMALLER);
    if (status < 0) {
        return status;
    }

    batches = is_new ? cadre_training_plan_batches(&self->plan, 0) : batches;
    batches = cadre_min_i64(batches, left);
    status = schedule_batches(self, stride, &batches);
    if (status < 0) {
        return status;
    }

    cadre_training_plan_advance(&self->plan, &self->place, batches);
    return 0;
}

/* Sets the progress to the beginning of this epoch, in which a resumed run may have trained
 * already. */
static void
begin_epoch(trainer_t *self)
{
    self->progress.epoch = self->place.epoch + 1;
    self->progress.metrics = (cadre_metrics_t){0}; /* the old ones are of another epoch */
    self->epoch_finished = cadre_coordinator_own_totals(self->options->coordinator).finished;
    self->epoch_begun = self->place.begun;
    if (self->plan.steps_per_epoch == 0) {
        self->epoch_begun = cadre_training_plan_epoch_closures(&self->plan) -
                            cadre_training_plan_batches(&self->plan, self->place.position);
    }
}

/* Trains what is left of this epoch, and waits for its closures. When the job's time limit ends the
 * epoch, the plan is cut off at this place, too. */
static int
train_epoch(trainer_t *self)
{
    int64_t left = cadre_training_plan_left(&self->plan, &self->place);
    int64_t stride = 1 + left / CADRE_TRAINER_SAMPLES_PER_EPOCH;

    begin_epoch(self);
    if (left == 0) {
        return 0;
    }

    while (left > 0 && !self->is_time_up) {
        int64_t before = self->place.closures;
        int status = train_pass(self, left, stride);
        if (status < 0) {
            return status;
        }
        left -= self->place.closures - before;
    }

    int status = join(self);
    if (status < 0) {
        return status; /* polling other futures would replace this failure's error text */
    }

    cadre_loss_sample_poll(&self->losses);
    self->is_time_up = self->is_time_up || is_time_up(self);
    if (self->is_time_up) {
        self->plan.steps_max = self->place.closures; /* nothing is left to train */
        cadre_training_records_give(self->records, &self->plan, &self->place);
    }

    return 0;
}

/* Excludes what the totals grew by during an evaluation from the count of training closures. */
static void
exclude(trainer_t *self, const cadre_totals_t *before)
{
    cadre_totals_t after = cadre_coordinator_own_totals(self->options->coordinator);
    self->excluded.finished += after.finished - before->finished;
    self->excluded.attempts += after.attempts - before->attempts;
}

/* Evaluates the model on the test rows, if the job has any, and puts the metrics into the result.
 * No training closure may be in flight. */
static int
evaluate(trainer_t *self)
{
    if (!self->data.test) {
        return 0;
    }

    /* The evaluation's closures are taken out of the totals: a result counts only training. */
    cadre_totals_t before = cadre_coordinator_own_totals(self->options->coordinator);
    cadre_evaluation_t evaluation = {
        .job = self->options->job, .function = self->model.evaluate, .dataset = self->data.test};
    int status = cadre_model_take_averages(&self->model);
    if (status < 0) {
        return status;
    }
    status = cadre_evaluation_run(&evaluation);

    exclude(self, &before);
    self->place.evaluations += self->plan.evaluation_closures;
    if (status < 0) {
        return status;
    }

    cadre_result_t *result = &self->outcome->result;
    result->test_rows = evaluation.rows;
    result->metrics = evaluation.metrics;
    result->loss = cadre_metrics_value(&evaluation.metrics, CADRE_METRIC_LOSS);
    result->accuracy = cadre_metrics_value(&evaluation.metrics, CADRE_METRIC_ACCURACY);
    free(result->confusion);
    result->confusion = evaluation.confusion;
    result->classes = evaluation.classes;
    self->progress.metrics = evaluation.metrics;
    return 0;
}

/* Where the cut of a checkpoint lies that the trainer takes. */
typedef enum {
    AT_PLACE, /* at self->place: no closure is under way */
    ANYWHERE, /* closures are under way: the coordinator computes the place from the plan */
} cut_t;

/* Takes a checkpoint, unless the job takes none; gives its id in `checkpoint` (may be NULL). */
static int
save(trainer_t *self, cut_t cut, uint64_t *checkpoint)
{
    if (!cadre_job_checkpoints(self->options->job)) {
        return 0;
    }

    cadre_auto(cadre_free) char *progress = NULL;
    if (cut == AT_PLACE) {
        progress = cadre_training_records_encode(self->records, &self->place);
    }

    cadre_notice_begin_wait(self->options->notices, CADRE_TRAINER_SAVE_MS, "the checkpoint");
    int status = cadre_checkpoint_save(self->options->coordinator, progress, CADRE_TRAINER_SAVE_MS,
                                       checkpoint);
    cadre_notice_end_wait(self->options->notices);
    self->outcome->saved = status == 0;
    return status < 0 ? cadre_fail_within(status, "the checkpoint") : 0;
}

/* --- stopping, and keeping the best state --- */

/* Returns why training ends at this place, or CADRE_STOP_NOT. */
static cadre_stop_t
find_stop(const trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    cadre_stop_t stop = cadre_training_watch_stop(&self->place.watch, &job->stop);
    if (stop != CADRE_STOP_NOT) {
        return stop;
    }
    if (self->place.epoch >= self->plan.epochs) {
        return CADRE_STOP_EPOCHS;
    }
    if (job->stop_steps > 0 && self->place.closures >= job->stop_steps) {
        return CADRE_STOP_STEPS;
    }
    if (self->is_time_up) {
        return CADRE_STOP_SECONDS;
    }
    return cadre_training_plan_is_over(&self->plan, &self->place) ? CADRE_STOP_EPOCHS
                                                                  : CADRE_STOP_NOT;
}

/* Puts into the result why training ended. */
static void
note_stop(trainer_t *self, cadre_stop_t stop)
{
    cadre_training_result_note_stop(&self->outcome->result, self->options->job, &self->plan,
                                    &self->place, stop);
}

/* Takes a checkpoint of the state that was just evaluated, and marks it as the best. */
static int
keep_best(trainer_t *self, cadre_metric_t metric, double value)
{
    uint64_t checkpoint = 0;
    int status = save(self, AT_PLACE, &checkpoint);
    if (status < 0) {
        return status;
    }

    status = cadre_checkpoint_mark_best(self->options->coordinator, checkpoint);
    if (status < 0) {
        return status;
    }

    cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                     "best so far: %s %.4g after %lld steps, kept as checkpoint %llu",
                     cadre_metric_text(metric), value, (long long)self->place.closures,
                     (unsigned long long)checkpoint);
    return 0;
}

/* Notes the evaluation for training.plateau, and lowers the learning rate when it is due. A
 * checkpoint follows: a shard that is restored later has then every update of the old rate. */
static int
lower_rate(trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    const cadre_plateau_conditions_t conditions = cadre_job_plateau(job);
    cadre_training_plateau_t *plateau = &self->place.watch.plateau;
    const double initial = cadre_model_optimizer(job).parameters[CADRE_LEARNING_RATE];
    const double value = cadre_metrics_value(&self->outcome->result.metrics, conditions.metric);
    const uint64_t updates = cadre_epoch_figures_updates(&self->figures, &self->plan, &self->place);
    if (conditions.patience == 0 ||
        !cadre_training_plateau_note(plateau, &conditions, initial, value, updates)) {
        return 0;
    }

    const double rate = plateau->rates[plateau->changes - 1];
    int status = cadre_model_change_rate(&self->model, updates, rate);
    if (status < 0) {
        return status;
    }

    char why[CADRE_RESULT_STOPPED_SIZE];
    const bool has_loss = self->outcome->result.metrics.known[CADRE_METRIC_LOSS];
    cadre_training_describe_rest(conditions.metric, plateau->has_best ? &plateau->best : NULL, 0,
                                 has_loss, why, sizeof(why));
    cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                     "learning rate %.4g from update %llu on: %s", rate,
                     (unsigned long long)updates + 1, why);
    return save(self, AT_PLACE, NULL);
}

/* Notes what the evaluation at the end of an epoch found, moves to the next epoch, and keeps the
 * state if it is the best so far: nothing is under way, so the checkpoint holds exactly the values
 * that were evaluated. */
static int
take_evaluation(trainer_t *self)
{
    const cadre_job_t *job = self->options->job;
    cadre_training_watch_t *watch = &self->place.watch;
    const cadre_metrics_t *metrics = &self->outcome->result.metrics;
    if (job->stop.has_target || job->stop.patience > 0) {
        cadre_training_watch_note(watch, &job->stop,
                                  cadre_metrics_value(metrics, job->stop.metric));
    }
    cadre_training_plan_next_epoch(&self->plan, &self->place);
    int status = lower_rate(self);
    if (status < 0 || job->checkpoint_keep_best == 0) {
        return status;
    }

    cadre_metric_t metric = (cadre_metric_t)(job->checkpoint_keep_best - 1);
    double value = cadre_metrics_value(metrics, metric);
    return cadre_training_watch_keep(watch, metric, value, self->place.closures)
               ? keep_best(self, metric, value)
               : 0;
}

/* Marks the checkpoint that the job resumed when it holds the best state: the process that took it
 * may have died before marking it. */
static int
mark_resumed(trainer_t *self)
{
    const cadre_training_watch_t *watch = &self->place.watch;
    bool is_best = watch->has_kept && watch->kept_closures == self->place.closures;
    if (self->options->job->checkpoint_keep_best == 0 || !is_best) {
        return 0;
    }

    int status = cadre_checkpoint_mark_best(self->options->coordinator, 0);
    return status == CADRE_ESTATE ? 0 : status; /* resumed from another directory, which keeps it */
}

/* --- the loop --- */

/* Evaluates where that is due, and moves to the next epoch. */
static int
end_epoch(trainer_t *self)
{
    bool evaluates = cadre_training_plan_evaluates(&self->plan, &self->place);
    int status = evaluates ? evaluate(self) : 0;
    if (status < 0) {
        return status;
    }

    send_progress(self, CADRE_NOTICE_EPOCH);
    self->is_time_up = self->is_time_up || (evaluates && is_time_up(self));
    if (!evaluates || !self->data.test) {
        cadre_training_plan_next_epoch(&self->plan, &self->place);
        return 0;
    }

    return take_evaluation(self);
}

/* Returns whether the job takes a checkpoint at the end of this epoch. */
static bool
ends_with_checkpoint(const trainer_t *self)
{
    int64_t every = self->options->job->checkpoint_every_epochs;
    return every > 0 && (self->place.epoch + 1) % every == 0;
}

/* Trains and evaluates one epoch, and sets `stop` to why no other follows, or CADRE_STOP_NOT. */
static int
run_epoch(trainer_t *self, cadre_stop_t *stop)
{
    int status = train_epoch(self);
    if (status < 0) {
        return status;
    }

    cadre_epoch_figures_note(&self->figures, &self->plan, &self->place, &self->progress);
    bool is_last = cadre_training_plan_is_over(&self->plan, &self->place);
    if (is_last || ends_with_checkpoint(self)) {
        /* Saved before the evaluation, which may take long and does not change the values. */
        status = save(self, AT_PLACE, NULL);
        if (status < 0) {
            return status;
        }
    }

    status = end_epoch(self);
    if (status < 0) {
        return status;
    }

    *stop = find_stop(self);
    /* What the evaluation found, or its time, ends training: no checkpoint records that yet. */
    if (*stop != CADRE_STOP_NOT && !is_last) {
        status = save(self, AT_PLACE, NULL);
    }
    /* A watched plan ends at an evaluation: the next record begins after it. */
    if (status == 0 && self->plan.watched) {
        cadre_training_records_give(self->records, &self->plan, &self->place);
    }

    return status;
}

/* Runs epochs until the training stops. Where the checkpoint that was resumed is of a run at its
 * end, evaluates only. */
static int
train(trainer_t *self)
{
    int status = mark_resumed(self);
    if (status < 0) {
        return status;
    }

    self->is_time_up = is_time_up(self);
    cadre_stop_t stop = find_stop(self);
    if (stop != CADRE_STOP_NOT) {
        note_stop(self, stop);
        cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO,
                         "warning: the run that this checkpoint is of has ended: %s, it is only "
                         "evaluated",
                         self->outcome->result.stopped_text);
        status = evaluate(self);
        return status < 0 || !self->data.test ? status : take_evaluation(self);
    }

    while (stop == CADRE_STOP_NOT) {
        status = run_epoch(self, &stop);
        if (status < 0) {
            return status;
        }
    }

    note_stop(self, stop);
    if (stop != CADRE_STOP_EPOCHS ||
        cadre_training_watch_lacks(&self->place.watch, &self->options->job->stop)) {
        cadre_notice_say(self->options->notices, CADRE_NOTICE_INFO, "training ends: %s",
                         self->outcome->result.stopped_text);
    }

    return 0;
}

/* --- how a run ends --- */

/* Ends training after a command. Saves the checkpoint that the next run resumes from, unless the
 * command is ABORT or set-up had not ended. CADRE_TRAINER_UNSAVED may interrupt the save. */
static int
stop(trainer_t *self)
{
    bool is_unsaved = take_command(self) == CADRE_TRAINER_UNSAVED;
    self->outcome->saved = false; /* a checkpoint from before is not the last one */
    if (self->outcome->aborted || !self->planned) {
        return CADRE_EINTERRUPTED;
    }

    int status = is_unsaved ? CADRE_EINTERRUPTED : save(self, ANYWHERE, NULL);
    is_unsaved = status == CADRE_EINTERRUPTED && take_command(self) == CADRE_TRAINER_UNSAVED;
    if (is_unsaved) {
        return cadre_fail(CADRE_EUNAVAILABLE, "the last checkpoint was not taken: no worker is "
                                              "heard, and what had begun must end before it");
    }

    if (status < 0) {
        return status;
    }

    return CADRE_EINTERRUPTED;
}

/* Puts the best state and its checkpoint into the result. */
static void
fill_best(trainer_t *self)
{
    const cadre_training_watch_t *watch = &self->place.watch;
    int64_t keep_best = self->options->job->checkpoint_keep_best;
    if (keep_best == 0 || !watch->has_kept) {
        return;
    }

    cadre_result_t *result = &self->outcome->result;
    result->best_metric = cadre_metric_text((cadre_metric_t)(keep_best - 1));
    result->best = watch->kept;
    result->best_step = watch->kept_closures;
    result->best_checkpoint = cadre_checkpoint_best(self->options->coordinator);
}

/* Puts into the result what is known at the end of a run, also of a failed one. */
static void
fill_result(trainer_t *self)
{
    cadre_result_t *result = &self->outcome->result;
    cadre_coordinator_interrupt(self->options->coordinator,
                                false); /* resets the interrupt of a command that came too late */
    cadre_totals_t totals = cadre_coordinator_own_totals(self->options->coordinator);
    result->scheduled = (uint64_t)(self->plan.start.closures + self->scheduled);
    result->finished = totals.finished - self->excluded.finished;
    result->attempts = totals.attempts - self->excluded.attempts;
    result->workers_lost = totals.workers_lost;
    result->ps_lost = totals.ps_lost;
    if (self->planned) {
        result->examples = cadre_training_plan_rows(&self->plan, (int64_t)result->finished);
        result->resumed_examples = cadre_training_plan_rows(&self->plan, self->plan.start.closures);
    }

    if (self->records->start_ms) {
        result->seconds = (double)(cadre_clock_now_ms() - self->records->start_ms) / 1000;
    }
    if (isnan(result->loss)) {
        result->loss = cadre_loss_sample_mean(&self->losses);
    }

    result->checkpoint = cadre_checkpoint_last(self->options->coordinator);
    fill_best(self);
    cadre_training_result_note_staleness(result, self->options->coordinator);
    bool well = !self->outcome->aborted && self->outcome->status != CADRE_EUNAVAILABLE;
    cadre_training_result_count_updates(result, self->options->coordinator,
                                        self->planned ? (size_t)self->options->job->ps : 0, well);
    cadre_training_result_count_tables(result, &self->model, well);
}

/* Runs the job: set-up, training, and after a command the last checkpoint; then fills in the
 * result, and sends the notice DONE. */
void
cadre_trainer_run(const cadre_trainer_options_t *options, cadre_trainer_outcome_t *outcome)
{
    *outcome = (cadre_trainer_outcome_t){0};
    cadre_result_init(&outcome->result);
    outcome->result.strategy = cadre_job_strategy_word(options->job);
    trainer_t self = {.options = options,
                      .outcome = outcome,
                      .records = &outcome->records,
                      .command = CADRE_TRAINER_STOP,
                      .figures = {.job = options->job, .coordinator = options->coordinator}};
    self.progress.epochs = options->job->epochs;
    self.progress.workers_wanted =
        options->launched && cadre_job_is_in_one_process(options->job) ? 1 : options->job->workers;
    self.progress.loss = NAN;
    cadre_training_records_init(self.records, options->coordinator, options->job);
    int status = set_up(&self);
    if (status == 0) {
        cadre_training_records_start(self.records);
        status = train(&self);
    }

    if (status == CADRE_EINTERRUPTED) {
        status = stop(&self);
    }

    /* The result is filled in for a failed run too: users want to know how far it came. */
    outcome->status = status;
    snprintf(outcome->text, sizeof(outcome->text), "%s", status < 0 ? cadre_error_text() : "");
    if (status < 0) {
        note_stop(&self, status == CADRE_EINTERRUPTED ? CADRE_STOP_COMMAND : CADRE_STOP_FAILURE);
    }
    double target = options->job->target_accuracy;
    outcome->target_missed = status == 0 && target > 0 && !(outcome->result.accuracy >= target);
    fill_result(&self);
    cadre_loss_sample_fini(&self.losses);
    cadre_notice_say(options->notices, CADRE_NOTICE_DONE, "%s", "");
}

void
cadre_trainer_outcome_fini(cadre_trainer_outcome_t *self)
{
    cadre_result_fini(&self->result);
    cadre_training_records_fini(&self->records);
}
