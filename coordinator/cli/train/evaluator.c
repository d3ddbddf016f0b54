#include "coordinator/cli/train/evaluator.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cadre/table.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/table_rows.h"
#include "common/system/clock.h"
#include "coordinator/cli/terminal/notice.h"
#include "coordinator/cli/train/evaluation.h"
#include "coordinator/cli/train/model.h"
#include "coordinator/cli/train/training_data.h"
#include "coordinator/cli/train/training_plan.h"
#include "coordinator/cli/train/word_ids.h"

enum { ROWS_AT_ONCE = 1 << 16 }; /* rows of a table that one call assigns */

typedef struct {
    const cadre_evaluator_options_t *options;
    cadre_coordinator_t *coordinator;
    cadre_notices_t *notices;
    cadre_training_data_t data;
    cadre_model_t model;
    uint64_t seen;   /* id of the newest checkpoint at the last look; 0: look at the newest again */
    int64_t seen_ms; /* when checkpoints were last looked for */
    uint64_t evaluated; /* id of the checkpoint evaluated last */
    uint64_t noted;     /* id of the newest damaged checkpoint that was reported */
    bool complete;      /* the checkpoint evaluated last is the job's final one */
    bool damaged;       /* the last look found a damaged checkpoint, described in `damage` */
    char damage[CADRE_TRAINER_TEXT_SIZE];
    int64_t said_ms; /* when the user was last told that no newer checkpoint has come */
} evaluator_t;

/* One checkpoint as it is being tested. */
typedef struct {
    uint64_t id;
    char *path;
    uint64_t cut;
    double epoch;   /* epochs trained, with the fraction of the last; NaN when unknown */
    bool has_ended; /* nothing of the job is left to train */
} candidate_t;

static void
candidate_fini(candidate_t *candidate)
{
    free(candidate->path);
}

/* --- finding the newest checkpoint --- */

/* Reports a damaged checkpoint to the user, once. A callback of
 * cadre_checkpoint_directory_newest. */
static void
note_damage(void *context, uint64_t id, const char *reason)
{
    evaluator_t *self = context;
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/%s", self->options->directory, cadre_checkpoint_name(id, name));
    if (access(path, F_OK) != 0) {
        return; /* it was deleted while it was read */
    }

    self->damaged = true;
    snprintf(self->damage, sizeof(self->damage), "%s", reason);
    if (id > self->noted) {
        self->noted = id;
        cadre_notice_say(self->notices, CADRE_NOTICE_INFO, "%s is skipped: %s", name, reason);
    }
}

/* Finds the newest checkpoint's id by file names and sizes alone, 0 when there is none: cheap
 * enough to be called twice a second. */
static int
newest_id(cadre_checkpoint_directory_t *directory, uint64_t *id)
{
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    int status = cadre_checkpoint_directory_list(directory, &entries, &count);

    *id = 0;
    if (status < 0) {
        return status;
    }

    /* The list begins with the newest. */
    for (size_t i = 0; *id == 0 && i < count; i++) {
        *id = entries[i].valid ? entries[i].id : 0;
    }

    cadre_checkpoint_entries_free(&entries, count);
    return 0;
}

/* Finds the newest checkpoint whose files pass their checks. Gives id 0 when there is none that was
 * not tested. The files are checked only when there is a newer checkpoint than at the last look, or
 * after a while when that look found a damaged one. */
static int
look(evaluator_t *self, uint64_t *id)
{
    cadre_auto(cadre_checkpoint_directory_destroy) cadre_checkpoint_directory_t *directory = NULL;
    uint64_t newest = 0;

    *id = 0;
    int status = cadre_checkpoint_directory_open(self->options->directory, false, &directory);
    if (status < 0) {
        return status;
    }

    status = newest_id(directory, &newest);
    if (status < 0) {
        return status;
    }

    int64_t now_ms = cadre_clock_now_ms();
    bool again = self->damaged && now_ms >= self->seen_ms + CADRE_EVALUATOR_AGAIN_MS;
    if (newest != 0 && newest == self->seen && !again) {
        return 0;
    }

    self->damaged = false;
    status = cadre_checkpoint_directory_newest(directory, note_damage, self, id);
    /* When the newest checkpoint vanished while it was read, the next look tries again: it may come
     * back. One that looked damaged may have been written just then: it is tried again after
     * CADRE_EVALUATOR_AGAIN_MS. */
    bool found = status == 0 && *id == newest;
    self->seen = found || self->damaged ? newest : 0;
    self->seen_ms = now_ms;
    if (status < 0) {
        return status;
    }
    if (*id == self->evaluated) { /* it was tested before: no newer one is sound */
        *id = 0;
    }

    return 0;
}

/* --- loading a checkpoint's values --- */

/* Checks that the checkpoint has the variable with the dtype and shape that the job's model gives
 * it. */
static int
check_variable(const cadre_manifest_t *manifest, const char *path, const cadre_variable_t *variable)
{
    const char *name = cadre_variable_name(variable);
    const cadre_manifest_variable_t *stored = cadre_manifest_find(manifest, name);
    int64_t shape[CADRE_RANK_MAX];
    int rank = cadre_variable_shape(variable, shape);
    if (cadre_variable_is_table(variable)) {
        shape[1] = shape[0]; /* a checkpoint has tables as [0, dim] */
        shape[0] = 0;
        rank = 2;
    }
    if (!stored || stored->dtype != CADRE_F32 || stored->rank != rank ||
        memcmp(stored->shape, shape, (size_t)rank * sizeof(shape[0])) != 0) {
        return cadre_fail(CADRE_ECONFIG, "%s is not of this job's model: %s %s", path, name,
                          stored ? "has another shape there" : "is not in it");
    }

    return 0;
}

/* Rows of a table on their way from a checkpoint to the evaluator's own cluster. */
typedef struct {
    cadre_variable_t *table;
    int64_t dim;
    size_t count;
    uint64_t *keys; /* [ROWS_AT_ONCE] */
    float *values;  /* [ROWS_AT_ONCE, dim] */
} loaded_rows_t;

static void
loaded_rows_fini(loaded_rows_t *self)
{
    free(self->keys);
    free(self->values);
}

/* Assigns the rows that were collected. */
static int
assign_rows(loaded_rows_t *self)
{
    const int64_t shape[] = {(int64_t)self->count, self->dim};
    const cadre_tensor_t rows = cadre_tensor_view(CADRE_F32, self->values, shape, 2);
    const size_t count = self->count;
    self->count = 0;
    return count == 0 ? 0
                      : cadre_variable_assign_keys(self->table, CADRE_VARIABLE_SET, self->keys,
                                                   count, &rows, CADRE_EVALUATOR_ASSIGN_MS);
}

/* Collects a row. */
static int
take_row(void *context, uint64_t key, const float *values)
{
    loaded_rows_t *self = context;
    const size_t dim = (size_t)self->dim;
    self->keys[self->count] = key;
    memcpy(self->values + self->count * dim, values, dim * sizeof(*values));
    self->count++;
    return self->count == ROWS_AT_ONCE ? assign_rows(self) : 0;
}

/* Assigns the rows that the checkpoint has of a table. One that an earlier checkpoint had and this
 * one has not, since it was evicted, stays as it was there. */
static int
load_table(cadre_checkpoint_reader_t *reader, cadre_variable_t *table)
{
    int64_t shape[CADRE_RANK_MAX];
    (void)cadre_variable_shape(table, shape);
    cadre_auto(loaded_rows_fini) loaded_rows_t rows = {.table = table, .dim = shape[0]};
    rows.keys = cadre_calloc(ROWS_AT_ONCE, sizeof(*rows.keys));
    rows.values = cadre_calloc(ROWS_AT_ONCE, (size_t)rows.dim * sizeof(*rows.values));
    const int status = cadre_table_rows_each(reader, cadre_variable_name(table), take_row, &rows);
    return status < 0 ? status : assign_rows(&rows);
}

/* Reads a variable's values from the checkpoint and assigns them to the variable. With `average`
 * (not NULL) reads their running average instead, or the values where the checkpoint has no average
 * (a running average begins as the values), and assigns that to `average`. */
static int
load_variable(cadre_checkpoint_reader_t *reader, const char *path, cadre_variable_t *variable,
              cadre_variable_t *average)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {.data = NULL};
    int64_t shape[CADRE_RANK_MAX];
    int rank = cadre_variable_shape(variable, shape);
    int status = check_variable(cadre_checkpoint_reader_manifest(reader), path, variable);
    if (status < 0) {
        return status;
    }

    if (cadre_variable_is_table(variable)) {
        return load_table(reader, variable);
    }

    status = cadre_tensor_init(&value, CADRE_F32, shape, rank);
    if (status < 0) {
        return status;
    }

    cadre_checkpoint_range_t range = {
        .variable = cadre_variable_name(variable),
        .kind = average ? CADRE_CHECKPOINT_KIND_AVERAGE : CADRE_CHECKPOINT_KIND_VALUE,
        .dtype = CADRE_F32,
        .count = (int64_t)cadre_tensor_count(&value),
    };
    status = cadre_checkpoint_reader_read(reader, &range, value.data, NULL);
    if (status == CADRE_ENOTFOUND && average) {
        range.kind = CADRE_CHECKPOINT_KIND_VALUE;
        status = cadre_checkpoint_reader_read(reader, &range, value.data, NULL);
    }
    if (status < 0) {
        return status;
    }

    return cadre_variable_assign(average ? average : variable, CADRE_VARIABLE_SET, &value,
                                 CADRE_EVALUATOR_ASSIGN_MS);
}

/* Returns whether a job at this place has ended: by epochs, steps, time, target or patience. */
static bool
has_ended(const cadre_job_t *job, const cadre_training_place_t *place, double epoch)
{
    if (epoch >= (double)job->epochs ||
        (job->stop_steps > 0 && place->closures >= job->stop_steps)) {
        return true;
    }
    double elapsed_s = (double)place->watch.elapsed_ms / 1000;
    return (job->stop_seconds > 0 && elapsed_s >= job->stop_seconds) ||
           cadre_training_watch_stop(&place->watch, &job->stop) != CADRE_STOP_NOT;
}

/* Sets cut, epoch and has_ended of the candidate from the progress record of its checkpoint. epoch
 * stays NaN when another program than `cadre run` wrote the checkpoint. Fails as
 * cadre_word_ids_check. */
static int
read_progress(const cadre_manifest_t *manifest, const cadre_job_t *job, int64_t rows,
              candidate_t *candidate)
{
    const json_t *user = json_object_get(manifest->progress, "user"); /* the trainer's record */
    cadre_auto(cadre_free) char *text = user ? json_dumps(user, JSON_COMPACT) : NULL;
    cadre_training_place_t place;
    candidate->cut = manifest->cut;
    candidate->epoch = NAN;
    if (!text || cadre_training_place_decode(text, &place) < 0) {
        return 0;
    }

    double part = job->steps_per_epoch > 0 ? (double)place.begun / (double)job->steps_per_epoch
                                           : (double)place.position / (double)rows;
    candidate->epoch = (double)place.epoch + part;
    candidate->has_ended = has_ended(job, &place, candidate->epoch);
    cadre_auto(cadre_free) char *words = cadre_word_ids_text(job->train);
    return cadre_word_ids_check(candidate->path, text, words);
}

/* Assigns the checkpoint's values to the variables of the evaluator's own cluster, and reads how
 * far training was. */
static int
load(evaluator_t *self, candidate_t *candidate)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    int status = cadre_checkpoint_reader_open(candidate->path, &reader);
    if (status < 0) {
        return status;
    }

    for (size_t i = 0; i < self->model.variable_count; i++) {
        status = load_variable(reader, candidate->path, self->model.variables[i],
                               self->model.averages[i]);
        if (status < 0) {
            return status;
        }
    }

    return read_progress(cadre_checkpoint_reader_manifest(reader), self->options->trainer.job,
                         cadre_dataset_info(self->data.train).rows, candidate);
}

/* --- testing one checkpoint --- */

/* Returns a number as JSON; null when it is NaN or infinite, that is, not known. */
static json_t *
number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Prints the result of one checkpoint as one line on stdout. */
static int
print(const evaluator_t *self, const candidate_t *candidate, const cadre_evaluation_t *evaluation)
{
    double accuracy = cadre_metrics_value(&evaluation->metrics, CADRE_METRIC_ACCURACY);
    double loss = cadre_metrics_value(&evaluation->metrics, CADRE_METRIC_LOSS);
    if (self->options->json) {
        json_t *object = json_pack(
            "{s:s, s:s, s:I, s:o, s:o, s:o, s:I, s:o, s:o}", "schema", CADRE_EVALUATION_SCHEMA,
            "checkpoint", candidate->path, "cut", (json_int_t)candidate->cut, "epoch",
            number(candidate->epoch), "accuracy", number(accuracy), "loss", number(loss), "rows",
            (json_int_t)evaluation->rows, "metrics", cadre_metrics_object(&evaluation->metrics),
            "confusion_matrix", cadre_confusion_array(evaluation->confusion, evaluation->classes));
        cadre_auto(cadre_free) char *text =
            json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
        json_decref(object);
        printf("%s\n", text);
    } else {
        printf("%s  cut %" PRIu64, candidate->path, candidate->cut);
        if (isfinite(candidate->epoch)) {
            printf("  epoch %.2f", candidate->epoch);
        }
        if (isfinite(accuracy)) {
            printf("  accuracy %.2f %%", 100 * accuracy);
        }
        cadre_auto(cadre_free) char *words = cadre_metrics_words(&evaluation->metrics);
        printf("  loss %.4g%s  on %lld rows\n", loss, words, (long long)evaluation->rows);
    }

    return fflush(stdout) == 0 ? 0 : cadre_fail(CADRE_EIO, "stdout: %s", strerror(errno));
}

/* Loads and tests a checkpoint, and prints the result. When a ps was lost meanwhile, it is loaded
 * and tested again, because the ps that replaces it does not have the loaded values. */
static int
test(evaluator_t *self, candidate_t *candidate)
{
    const cadre_job_t *job = self->options->trainer.job;
    cadre_auto(cadre_evaluation_fini) cadre_evaluation_t evaluation = {
        .job = job, .function = self->model.evaluate, .dataset = self->data.test};

    uint64_t lost;
    do {
        lost = cadre_coordinator_totals(self->coordinator).ps_lost;
        int status = load(self, candidate);
        if (status < 0) {
            return status;
        }
        status = cadre_evaluation_run(&evaluation);
        if (status < 0) {
            return status;
        }
    } while (cadre_coordinator_totals(self->coordinator).ps_lost != lost);

    self->evaluated = candidate->id;
    self->complete = candidate->has_ended;
    return print(self, candidate, &evaluation);
}

/* Returns whether a checkpoint could not be read because the run deleted it meanwhile. */
static bool
vanished(const candidate_t *candidate, int status)
{
    bool unread = status == CADRE_ENOTFOUND || status == CADRE_EIO || status == CADRE_ECORRUPT ||
                  status == CADRE_EMALFORMED;
    return unread && access(candidate->path, F_OK) != 0;
}

/* Tests the newest checkpoint, unless it was tested before. CADRE_EAGAIN when each checkpoint that
 * was tried was deleted while it was read. */
static int
test_newest(evaluator_t *self)
{
    for (int i = 0; i < CADRE_EVALUATOR_TRIES; i++) {
        cadre_auto(candidate_fini) candidate_t candidate = {.id = 0};
        int status = look(self, &candidate.id);
        if (status < 0 || candidate.id == 0) {
            return status;
        }

        char name[CADRE_CHECKPOINT_NAME_SIZE];
        candidate.path = cadre_asprintf("%s/%s", self->options->directory,
                                        cadre_checkpoint_name(candidate.id, name));
        status = test(self, &candidate);
        if (!vanished(&candidate, status)) {
            return status;
        }

        self->seen = 0; /* look again, though the newest may be one that was seen */
    }

    return cadre_fail(CADRE_EAGAIN, "%d checkpoints in a row were deleted while they were read",
                      CADRE_EVALUATOR_TRIES);
}

/* --- following the run --- */

/* Waits CADRE_EVALUATOR_POLL_MS, and reports now and then that no newer checkpoint has come;
 * CADRE_EINTERRUPTED when a command arrives meanwhile. */
static int
wait_a_moment(evaluator_t *self)
{
    int64_t now_ms = cadre_clock_now_ms();
    if (now_ms - self->said_ms >= CADRE_EVALUATOR_SAY_MS) {
        self->said_ms = now_ms;
        cadre_notice_say(self->notices, CADRE_NOTICE_INFO, "waiting for a newer checkpoint in %s",
                         self->options->directory);
    }
    struct pollfd command = {.fd = self->options->trainer.commands, .events = POLLIN};
    int ready = poll(&command, 1, CADRE_EVALUATOR_POLL_MS);
    return ready > 0 ? cadre_fail(CADRE_EINTERRUPTED, "stopped") : 0;
}

/* Returns whether following goes on after this status of test_newest: there is no checkpoint yet,
 * or none that is complete and sound at the moment. */
static bool
may_pass(int status)
{
    return status == 0 || status == CADRE_ENOTFOUND || status == CADRE_EAGAIN ||
           status == CADRE_ECORRUPT || status == CADRE_EMALFORMED;
}

/* Tests each newer checkpoint until the job's last one was tested or a command arrives. */
static int
follow(evaluator_t *self)
{
    int status = 0;
    /* If there is no checkpoint at first, the wait is reported at once. */
    self->said_ms = cadre_clock_now_ms() - CADRE_EVALUATOR_SAY_MS;
    while (status == 0 && !self->complete) {
        uint64_t before = self->evaluated;
        status = test_newest(self);
        if (self->evaluated != before) {
            self->said_ms = cadre_clock_now_ms();
        }
        if (may_pass(status) && !self->complete) {
            status = wait_a_moment(self);
        }
    }

    if (self->complete) {
        cadre_notice_say(self->notices, CADRE_NOTICE_INFO, "%s",
                         "that is the end of the job: nothing newer will come");
    }

    return status;
}

/* Tests the newest sound checkpoint; CADRE_ECORRUPT when there are checkpoints, but none is
 * sound. */
static int
test_once(evaluator_t *self)
{
    int status = test_newest(self);
    if (status == CADRE_ENOTFOUND && self->damaged) {
        return cadre_fail(CADRE_ECORRUPT, "no checkpoint in %s is sound: %s",
                          self->options->directory, self->damage);
    }
    return status;
}

/* --- one evaluation, from set-up to outcome --- */

/* Waits for a ps and a worker, then opens the datasets and creates the model on them. */
static int
set_up(evaluator_t *self)
{
    const cadre_trainer_options_t *options = &self->options->trainer;
    int64_t limit_ms = (int64_t)(options->job->wait_s * 1000);

    cadre_notice_begin_wait(self->notices, limit_ms, "a ps and a worker");
    int status = cadre_coordinator_wait_ready(self->coordinator, 1, limit_ms);
    cadre_notice_end_wait(self->notices);
    if (status == CADRE_ETIMEOUT) {
        return cadre_fail(CADRE_EUNAVAILABLE, "after %.0f s no ps or no worker is there",
                          options->job->wait_s);
    }

    if (status < 0) {
        return status;
    }

    status = cadre_training_data_open(&self->data, options);
    if (status < 0) {
        return status;
    }

    if (!self->data.test) {
        return cadre_fail(CADRE_ECONFIG, "%s holds no rows out: it has no \"test\" in \"data\"",
                          options->job->file);
    }

    cadre_dataset_info_t info = cadre_dataset_info(self->data.train);
    return cadre_model_open(options->job, self->coordinator, info.features, info.classes,
                            &self->model);
}

/* Tests one checkpoint or, to follow a run, each newer one, and sends the notice DONE at the
 * end. */
void
cadre_evaluator_run(const cadre_evaluator_options_t *options, cadre_evaluator_outcome_t *outcome)
{
    evaluator_t self = {.options = options,
                        .coordinator = options->trainer.coordinator,
                        .notices = options->trainer.notices};
    int status = set_up(&self);
    if (status == 0) {
        status = options->follow ? follow(&self) : test_once(&self);
    }

    outcome->status = status;
    snprintf(outcome->text, sizeof(outcome->text), "%s", status < 0 ? cadre_error_text() : "");
    cadre_notice_say(self.notices, CADRE_NOTICE_DONE, "%s", "");
}
