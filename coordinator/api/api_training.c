/* The public call that trains with evaluations, conditions to stop, checkpoints and hooks. */
#include <cadre/training.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/options.h"

enum { BATCH_SIZE = 32, EVALUATION_BATCH_SIZE = 256, NOT_STOPPED = -1 };

/* A run of cadre_training_run under way. */
typedef struct {
    cadre_training_options_t options;
    cadre_coordinator_t *coordinator;
    cadre_dataset_t *rows;
    const cadre_function_t *step;
    cadre_training_report_t report;
    int stop; /* a cadre_training_reason_t, or NOT_STOPPED */
    int64_t begin_ms;
    int64_t deadline_ms;
    bool in_pass;       /* whether a pass over the rows is under way */
    uint64_t passes;    /* how many passes through the rows were begun */
    uint64_t scheduled; /* batches that were scheduled; report.steps counts those that ended */
    double patient;     /* the value that patience compares with: of the last improvement; or NaN */
    uint64_t without;   /* evaluations since `patient` that were no improvement */
    uint64_t saved;     /* batches that the last checkpoint of the loop holds */
    bool has_saved;     /* whether the loop has taken a checkpoint */

    /* Ring of the batches under way, the oldest at `first`; empty unless watches_ends(). */
    cadre_future_t *futures[CADRE_TRAINING_AHEAD];
    size_t first;
    size_t under_way;
} run_t;

/* Frees a run; batches that are still under way go on. */
static void
run_destroy(run_t **self_p)
{
    for (size_t i = 0; i < CADRE_TRAINING_AHEAD; i++) {
        cadre_future_destroy(&(*self_p)->futures[i]);
    }
    cadre_free(self_p);
}

/* Returns what is left of the deadline, as the timeout of another call. */
static int64_t
time_left(const run_t *self)
{
    if (self->deadline_ms == INT64_MAX) {
        return -1;
    }
    return cadre_max_i64(self->deadline_ms - cadre_clock_now_ms(), 0);
}

static double
seconds_so_far(const run_t *self)
{
    return (double)(cadre_clock_now_ms() - self->begin_ms) / 1000;
}

/* Ends the run for this reason; the first reason counts. */
static void
stop(run_t *self, cadre_training_reason_t reason)
{
    if (self->stop == NOT_STOPPED) {
        self->stop = (int)reason;
    }
}

/* --- hooks --- */

/* Returns an event of this kind with how far the run is. */
static cadre_training_event_t
make_event(const run_t *self, cadre_training_event_kind_t kind)
{
    return (cadre_training_event_t){.kind = kind,
                                    .epoch = self->report.epochs,
                                    .step = self->report.steps,
                                    .seconds = seconds_so_far(self),
                                    .value = NAN};
}

/* Calls the hook of the program, where there is one; it may end the run. */
static void
call_hook(run_t *self, const cadre_training_event_t *event)
{
    if (self->options.hook && self->options.hook(self->options.hook_context, event)) {
        stop(self, CADRE_TRAINING_BY_HOOK);
    }
}

/* Calls the hook for an event that has no fields of its own. */
static void
tell(run_t *self, cadre_training_event_kind_t kind)
{
    cadre_training_event_t event = make_event(self, kind);
    call_hook(self, &event);
}

/* Calls the hook for a batch that has ended well, where the hook is due; the first result of the
 * batch is taken from its future. */
static void
tell_step(run_t *self, cadre_future_t *future)
{
    uint64_t every = self->options.hook_every_steps;
    if (every == 0 || self->report.steps % every != 0) {
        return;
    }
    cadre_training_event_t event = make_event(self, CADRE_TRAINING_STEP);
    double value = 0;
    if (cadre_future_fetch_number(future, NULL, &value, 0) == 0) {
        event.value = value;
    }
    call_hook(self, &event);
}

/* --- batches --- */

/* Returns whether each batch needs a future, which tells when the batch has ended: for a hook, to
 * call it then, and for a time limit, which a long queue of batches would overrun. */
static bool
watches_ends(const run_t *self)
{
    return self->options.hook || self->options.stop_ms > 0;
}

/* Waits up to `timeout_ms` for the oldest batch under way, and takes it out of the ring unless the
 * time was too short (CADRE_ETIMEOUT). */
static int
take_oldest(run_t *self, int64_t timeout_ms)
{
    cadre_auto(cadre_future_destroy) cadre_future_t *future = NULL;
    int status = cadre_future_wait(self->futures[self->first], timeout_ms);
    if (status == CADRE_ETIMEOUT) {
        return status;
    }

    future = self->futures[self->first];
    self->futures[self->first] = NULL;
    self->first = (self->first + 1) % CADRE_TRAINING_AHEAD;
    self->under_way--;
    if (status < 0) {
        return status;
    }

    self->report.steps++;
    tell_step(self, future);
    return 0;
}

/* Takes batches that have ended out of the ring, the oldest first, up to one that has not; does not
 * wait. */
static int
take_ended(run_t *self)
{
    while (self->under_way > 0) {
        int status = take_oldest(self, 0);
        if (status < 0) {
            return status == CADRE_ETIMEOUT ? 0 : status;
        }
    }
    return 0;
}

/* Begins the next pass over the rows. */
static int
begin_pass(run_t *self)
{
    self->in_pass = true;
    return cadre_dataset_begin(self->rows, self->options.first_epoch + self->passes++, 0,
                               self->options.batch_size, CADRE_ORDER_SHUFFLED,
                               CADRE_LAST_BATCH_SMALLER);
}

/* Gives the next batch of the epoch before which `begun` batches had been scheduled; `has_batch`
 * becomes false at the end of the epoch. With `steps_per_epoch` a pass over the rows that ends
 * within the epoch is followed by another. */
static int
next_batch(run_t *self, uint64_t begun, cadre_batch_t *batch, bool *has_batch)
{
    uint64_t limit = self->options.steps_per_epoch;
    *has_batch = false;
    if (limit > 0 && self->scheduled - begun >= limit) {
        return 0;
    }

    *has_batch = self->in_pass && cadre_dataset_next(self->rows, batch);
    bool is_over = limit == 0 && self->scheduled > begun;
    if (*has_batch || is_over) {
        return 0;
    }

    int status = begin_pass(self);
    if (status < 0) {
        return status;
    }
    *has_batch = cadre_dataset_next(self->rows, batch);
    return 0;
}

/* Schedules a batch. Where ends are watched and the ring is full, first waits for the oldest batch;
 * that wait may call the hook, which may stop the run: nothing is scheduled then. */
static int
schedule_batch(run_t *self, const cadre_batch_t *batch)
{
    cadre_call_t call = cadre_call_batch(batch);
    bool is_watched = watches_ends(self);
    int status = is_watched && self->under_way == CADRE_TRAINING_AHEAD
                     ? take_oldest(self, time_left(self))
                     : 0;
    if (status < 0 || self->stop != NOT_STOPPED) {
        return status;
    }

    size_t slot = (self->first + self->under_way) % CADRE_TRAINING_AHEAD;
    status = cadre_coordinator_schedule(self->coordinator, self->step, &call, time_left(self),
                                        is_watched ? &self->futures[slot] : NULL);
    if (status < 0) {
        return status;
    }

    self->scheduled++;
    self->under_way += is_watched;
    return is_watched ? take_ended(self) : 0;
}

/* Stops the run when it has scheduled `stop_steps` batches or `stop_ms` have passed. */
static void
look_at_limits(run_t *self)
{
    if (self->options.stop_steps > 0 && self->scheduled >= self->options.stop_steps) {
        stop(self, CADRE_TRAINING_BY_STEPS);
    }
    if (self->options.stop_ms > 0 &&
        cadre_clock_now_ms() - self->begin_ms >= self->options.stop_ms) {
        stop(self, CADRE_TRAINING_BY_TIME);
    }
}

/* Waits until all batches that were scheduled have ended. */
static int
await_batches(run_t *self)
{
    while (self->under_way > 0) {
        int status = take_oldest(self, time_left(self));
        if (status < 0) {
            return status;
        }
    }

    int status = cadre_coordinator_join(self->coordinator, time_left(self));
    /* Where ends are not watched the join tells that all have ended. */
    self->report.steps = status < 0 ? self->report.steps : self->scheduled;
    return status;
}

/* Trains one epoch; `is_whole` becomes false when the run was stopped before its end. A pass begun
 * before goes on only with `steps_per_epoch`: else an epoch is a pass of its own. */
static int
train_epoch(run_t *self, bool *is_whole)
{
    uint64_t begun = self->scheduled;
    bool has_batch = true;
    self->in_pass = self->in_pass && self->options.steps_per_epoch > 0;
    while (self->stop == NOT_STOPPED) {
        cadre_batch_t batch;
        int status = next_batch(self, begun, &batch, &has_batch);
        if (status < 0) {
            return status;
        }
        if (!has_batch) {
            break;
        }

        status = schedule_batch(self, &batch);
        if (status < 0) {
            return status;
        }
        look_at_limits(self);
    }

    *is_whole = !has_batch;
    return await_batches(self);
}

/* --- the ends of epochs --- */

/* Takes a checkpoint and gives its id. Without `checkpoint` (NULL) none is taken when the last one
 * of the loop holds the same batches. */
static int
save(run_t *self, uint64_t *checkpoint)
{
    if (self->has_saved && self->saved == self->report.steps && !checkpoint) {
        return 0;
    }

    cadre_training_event_t event = make_event(self, CADRE_TRAINING_CHECKPOINT);
    int status = cadre_checkpoint_save(self->coordinator, NULL, time_left(self), &event.checkpoint);
    if (status < 0) {
        return status;
    }

    self->has_saved = true;
    self->saved = self->report.steps;
    if (checkpoint) {
        *checkpoint = event.checkpoint;
    }
    call_hook(self, &event);
    return 0;
}

/* Returns whether `value` is better than `best` by more than `min_delta`. A value that is not
 * finite is never better; any other is better than a `best` that is NaN. */
static bool
is_better(const run_t *self, double value, double best, double min_delta)
{
    if (!isfinite(value) || isnan(best)) {
        return isfinite(value);
    }
    return self->options.is_higher_better ? value > best + min_delta : value < best - min_delta;
}

/* Counts evaluations that are no improvement, and ends the run by what was found. */
static void
judge(run_t *self, double value)
{
    const cadre_training_options_t *options = &self->options;
    bool improves = is_better(self, value, self->patient, options->min_delta);
    self->patient = improves ? value : self->patient;
    self->without = improves ? 0 : self->without + 1;
    bool has_reached =
        options->is_higher_better ? value >= options->target : value <= options->target;
    if (options->has_target && has_reached) {
        stop(self, CADRE_TRAINING_BY_TARGET);
    }
    if (options->patience > 0 && self->without >= options->patience) {
        stop(self, CADRE_TRAINING_BY_PATIENCE);
    }
}

/* Evaluates and judges the value; a best state is saved where the options say so. No batch may be
 * under way. */
static int
evaluate(run_t *self)
{
    const cadre_training_options_t *options = &self->options;
    bool is_sum = options->evaluation_kind == CADRE_REDUCTION_SUM;
    cadre_training_event_t event = make_event(self, CADRE_TRAINING_EVALUATION);
    int status = (is_sum ? cadre_dataset_sum : cadre_dataset_mean)(
        options->evaluation_rows, options->evaluation, options->evaluation_result,
        options->evaluation_batch_size, time_left(self), &event.value);
    if (status < 0) {
        return status;
    }

    double rows = (double)cadre_dataset_info(options->evaluation_rows).rows;
    event.value /= is_sum ? rows : 1;
    event.is_best = is_better(self, event.value, self->report.best, 0);
    self->report.evaluations++;
    self->report.value = event.value;
    if (event.is_best) {
        self->report.best = event.value;
        self->report.best_step = self->report.steps;
    }

    judge(self, event.value);
    call_hook(self, &event);
    if (!event.is_best || !options->keep_best) {
        return 0;
    }

    status = save(self, &self->report.best_saved);
    return status < 0 ? status
                      : cadre_checkpoint_mark_best(self->coordinator, self->report.best_saved);
}

/* Returns whether to evaluate now: after every `evaluate_every` epochs, and at the end of the run
 * unless the hook has ended it. */
static bool
is_evaluation_due(const run_t *self, bool is_whole)
{
    if (!self->options.evaluation || self->stop == CADRE_TRAINING_BY_HOOK) {
        return false;
    }
    bool is_last = self->stop != NOT_STOPPED || self->report.epochs == self->options.epochs;
    return is_last || (is_whole && self->report.epochs % self->options.evaluate_every == 0);
}

/* Does what is due at the end of an epoch, or of the run in the middle of one: evaluation, stop,
 * checkpoint. */
static int
end_epoch(run_t *self, bool is_whole)
{
    if (is_whole) {
        self->report.epochs++;
        tell(self, CADRE_TRAINING_EPOCH);
    }

    int status = is_evaluation_due(self, is_whole) ? evaluate(self) : 0;
    if (status < 0) {
        return status;
    }
    if (self->report.epochs == self->options.epochs) {
        stop(self, CADRE_TRAINING_BY_EPOCHS);
    }

    uint64_t every = self->options.checkpoint_every_epochs;
    bool is_due =
        every > 0 && ((is_whole && self->report.epochs % every == 0) || self->stop != NOT_STOPPED);
    return is_due ? save(self, NULL) : 0;
}

/* --- one run, from options to report --- */

/* Checks the options of a run: sizes, and that what depends on evaluations or checkpoints has
 * them. */
static int
check(const run_t *self)
{
    const cadre_training_options_t *options = &self->options;
    if (options->batch_size < 0 || options->evaluation_batch_size < 0 || options->stop_ms < 0) {
        return cadre_fail(CADRE_EINVALID, "options: no size or time may be negative");
    }
    if (!options->evaluation != !options->evaluation_rows) {
        return cadre_fail(CADRE_EINVALID,
                          "options: evaluation and evaluation_rows go with one another");
    }
    if ((unsigned)options->evaluation_kind > CADRE_REDUCTION_MEAN) {
        return cadre_fail(CADRE_EINVALID,
                          "options: evaluation_kind %d is not one of cadre_reduction_kind_t",
                          (int)options->evaluation_kind);
    }

    bool judges = options->has_target || options->patience > 0 || options->keep_best;
    if (judges && !options->evaluation) {
        return cadre_fail(CADRE_EINVALID,
                          "options: target, patience and keep_best need evaluations: evaluation "
                          "and evaluation_rows");
    }

    if ((options->keep_best || options->checkpoint_every_epochs > 0) &&
        !self->coordinator->checkpoint_dir) {
        return cadre_fail(CADRE_ESTATE, "options: checkpoints need a directory: checkpoint_dir of "
                                        "the coordinator's options");
    }

    return 0;
}

/* Puts the defaults in place of fields that are 0. */
static void
set_defaults(cadre_training_options_t *options)
{
    options->epochs = options->epochs ? options->epochs : 1;
    options->batch_size = options->batch_size ? options->batch_size : BATCH_SIZE;
    options->evaluate_every = options->evaluate_every ? options->evaluate_every : 1;
    options->evaluation_batch_size =
        options->evaluation_batch_size ? options->evaluation_batch_size : EVALUATION_BATCH_SIZE;
}

/* Trains epoch after epoch until the run is stopped, by its limits, its evaluations or the hook. */
static int
train(run_t *self)
{
    tell(self, CADRE_TRAINING_START);
    while (self->stop == NOT_STOPPED) {
        bool is_whole = false;
        int status = train_epoch(self, &is_whole);
        if (status < 0) {
            return status;
        }
        status = end_epoch(self, is_whole);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Calls the hook for a failure, and returns `status` with its text: a copy, as calls that the hook
 * makes may replace the text of the thread. */
static int
fail(run_t *self, int status)
{
    char text[CADRE_ERROR_TEXT_SIZE];
    snprintf(text, sizeof(text), "%s", cadre_error_text());
    cadre_training_event_t event = make_event(self, CADRE_TRAINING_FAILURE);
    event.status = status;
    event.text = text;
    call_hook(self, &event);
    return cadre_fail(status, "%s", text);
}

/* Returns the error of the run. An error of a batch came from its future, and the coordinator would
 * raise it a second time at its next join: it is taken there, so that the caller gets it from
 * cadre_training_run alone. Errors of waiting are not raised by the coordinator. */
static int
take_raised(run_t *self, int status)
{
    if (status == CADRE_ETIMEOUT || status == CADRE_EINTERRUPTED || status == CADRE_ECLOSED ||
        status == CADRE_EUNAVAILABLE) {
        return status;
    }
    char text[CADRE_ERROR_TEXT_SIZE];
    snprintf(text, sizeof(text), "%s", cadre_error_text());
    int raised = cadre_coordinator_join(self->coordinator, time_left(self));
    bool is_cause = status == CADRE_ECANCELLED && raised < 0; /* what failed cancelled the others */
    return is_cause ? raised : cadre_fail(status, "%s", text);
}

/* Runs a training loop by its options, from the first batch to the report. */
int
cadre_training_run(cadre_dataset_t *rows, const cadre_function_t *step,
                   const cadre_training_options_t *options, int64_t timeout_ms,
                   cadre_training_report_t *report)
{
    cadre_auto(run_destroy) run_t *self = cadre_calloc(1, sizeof(*self));
    int status = cadre_options_take(options, &self->options, sizeof(self->options),
                                    "cadre_training_options_t");
    if (status < 0) {
        return status;
    }

    self->coordinator = rows->coordinator;
    self->rows = rows;
    self->step = step;
    self->stop = NOT_STOPPED;
    /* No evaluation yet: any number is better than NaN. */
    self->patient = NAN;
    self->report.value = NAN;
    self->report.best = NAN;
    self->begin_ms = cadre_clock_now_ms();
    self->deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    status = check(self);
    if (status < 0) {
        return status;
    }

    set_defaults(&self->options);
    status = train(self);
    if (status < 0) {
        return fail(self, take_raised(self, status));
    }

    self->report.reason = (cadre_training_reason_t)self->stop;
    self->report.seconds = seconds_so_far(self);
    cadre_training_event_t event = make_event(self, CADRE_TRAINING_STOP);
    event.reason = self->report.reason;
    call_hook(self, &event);
    if (report) {
        *report = self->report;
    }

    return 0;
}
