/* The trainer with a coordinator of this process, which goes on when training has ended. */
#include <cadre/client.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "coordinator/cli/train/job_file.h"
#include "coordinator/cli/train/trainer.h"
#include "tests/system/scratch.h"

TestSuite(trainer, .timeout = 900);

enum { ROWS = 40, TRAINED = 32, BATCHES = 8, EPOCHS = 2, EVALUATIONS = 1 };

/* A job over a file of rows, whose ps and worker are threads of this process. */
typedef struct {
    scratch_t scratch;
    char *checkpoints;
    cadre_job_t job;
    json_t *rows;
    const char *address; /* where clients find the coordinator; NULL: there are none */
    cadre_coordinator_t *coordinator;
    cadre_notices_t *notices;
    int commands[2];
    cadre_trainer_outcome_t outcome;
} run_t;

/* Describes a file of rows of two numbers and a label, which it writes. */
static json_t *
write_rows(const run_t *self)
{
    cadre_auto(cadre_free) char *path = scratch_path(&self->scratch, "rows.csv");
    FILE *file = fopen(path, "we");
    cr_assert(file);
    for (int i = 0; i < ROWS; i++) {
        fprintf(file, "%d,%d,%d\n", i % 2, i % 5, i % 3);
    }
    cr_assert_eq(fclose(file), 0);
    return json_pack("{s:s, s:s, s:s}", "format", "csv", "path", path, "label", "first");
}

static void
read_job(cadre_job_t *job)
{
    cadre_job_init(job);
    int status = cadre_job_file_parse(
        job, "job.json",
        "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\"}, "
        "\"test\": {\"fraction\": 0.2}},\n"
        "\"model\": {\"type\": \"mlp\", \"hidden\": [4]}, \"seed\": 3,\n"
        "\"training\": {\"consistency\": \"sync\", \"epochs\": 2, \"batch_size\": 4, "
        "\"step_closures\": 2}, \"cluster\": {\"ps\": 1, \"workers\": 1}}");
    status = status < 0 ? status : cadre_job_finish(job);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
}

/* Opens the coordinator, which resumes the newest checkpoint if there is one. */
static void
open_coordinator(run_t *self)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.local = true;
    options.local_device = "cpu";
    options.local_data_dir = self->scratch.path;
    options.seed = 3;
    options.consistency = CADRE_SYNC;
    options.step_closures = 2;
    options.checkpoint_dir = self->checkpoints;
    options.resume = CADRE_RESUME_AUTO;
    options.address = self->address;
    options.client_closures = self->address != NULL;
    int status = cadre_coordinator_open(&options, &self->coordinator);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
}

static void
run_open(run_t *self)
{
    *self = (run_t){.coordinator = NULL};
    scratch_open(&self->scratch);
    self->checkpoints = scratch_path(&self->scratch, "checkpoints");
    self->rows = write_rows(self);
    read_job(&self->job);
    cr_assert_eq(cadre_notices_open(&self->notices), 0);
    cr_assert_eq(pipe2(self->commands, O_CLOEXEC | O_NONBLOCK), 0);
    open_coordinator(self);
}

static void
run_trainer(run_t *self)
{
    const cadre_trainer_options_t options = {.job = &self->job,
                                             .coordinator = self->coordinator,
                                             .launched = true,
                                             .train = self->rows,
                                             .notices = self->notices,
                                             .commands = self->commands[0]};
    cadre_trainer_run(&options, &self->outcome);
}

static void
train(run_t *self)
{
    run_trainer(self);
    cr_assert_eq(self->outcome.status, 0, "%s", self->outcome.text);
}

static void
run_close(run_t *self)
{
    cadre_coordinator_close(&self->coordinator);
    cadre_trainer_outcome_fini(&self->outcome);
    cadre_notices_close(&self->notices);
    close(self->commands[0]);
    close(self->commands[1]);
    json_decref(self->rows);
    cadre_job_fini(&self->job);
    free(self->checkpoints);
    scratch_close(&self->scratch);
}

/* Takes a checkpoint whose record the coordinator asks for, as that of an automatic one; returns
 * the place that it tells. */
static cadre_training_place_t
place_at_checkpoint(run_t *self)
{
    int status = cadre_checkpoint_save(self->coordinator, NULL, -1, NULL);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cadre_auto(cadre_free) char *path = cadre_checkpoint_last(self->coordinator);
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    cr_assert_eq(cadre_checkpoint_reader_open(path, &reader), 0, "%s", cadre_error_text());
    const json_t *user =
        json_object_get(cadre_checkpoint_reader_manifest(reader)->progress, "user");
    cadre_auto(cadre_free) char *record = json_dumps(user, JSON_ENCODE_ANY);
    cadre_training_place_t place = {.epoch = -1};
    cr_assert_eq(cadre_training_place_decode(record, &place), 0, "%s", record);
    return place;
}

/* Until the coordinator is closed it may take a checkpoint at any time. One that did not say how
 * far training is would have the run that resumes from it train again from the first row on. */
Test(trainer, leaves_records_for_checkpoints_that_are_taken_after_its_end)
{
    run_t run;
    run_open(&run);
    train(&run);
    const cadre_training_place_t place = place_at_checkpoint(&run);
    cr_expect_eq(place.epoch, EPOCHS);
    cr_expect_eq(place.closures, EPOCHS * BATCHES);
    cr_expect_eq(place.evaluations, EVALUATIONS);
    run_close(&run);
}

/* What failed, or was cancelled with it, has an id and was not applied: a checkpoint whose record
 * counted it would have the run that resumes from it leave out its rows. */
Test(trainer, leaves_no_records_that_count_closures_that_failed)
{
    run_t run;
    run_open(&run);
    run.job.label = CADRE_JOB_VALUE; /* the rows have classes: the closures fail */
    run_trainer(&run);
    cr_expect_lt(run.outcome.status, 0);
    cr_expect(strstr(run.outcome.text, "closure 1"), "%s", run.outcome.text);
    cr_expect_eq(cadre_checkpoint_save(run.coordinator, NULL, -1, NULL), CADRE_ESTATE);
    cr_expect(strstr(cadre_error_text(), "a closure below its cut has failed"), "%s",
              cadre_error_text());
    run_close(&run);
}

/* Returns whether one of the notices so far has this text in it. */
static bool
has_said(const run_t *self, const char *text)
{
    bool has = false;
    cadre_notice_t notice;
    while (cadre_notice_receive(self->notices, &notice)) {
        has |= notice.kind == CADRE_NOTICE_INFO && strstr(notice.text, text) != NULL;
    }
    return has;
}

/* Closes the coordinator, and opens another one, which resumes the newest checkpoint. */
static void
resume(run_t *self)
{
    cadre_coordinator_close(&self->coordinator);
    cadre_trainer_outcome_fini(&self->outcome);
    open_coordinator(self);
}

static void
save(run_t *self, const char *progress)
{
    int status = cadre_checkpoint_save(self->coordinator, progress, -1, NULL);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
}

Test(trainer, warns_where_a_checkpoint_says_less_than_it_holds)
{
    run_t run;
    run_open(&run);
    train(&run);
    save(&run, NULL);
    resume(&run);
    train(&run);
    cr_expect_not(has_said(&run, "and says that"), "it says what it holds");

    cadre_checkpoint_on_progress(run.coordinator, NULL, NULL); /* as a program without records */
    save(&run, NULL);
    resume(&run);
    train(&run);
    cr_expect(has_said(&run, "holds 16 closures, and says that 0 had ended: rows of the others are "
                             "trained on again"));
    run_close(&run);
}

/* Has a client evaluate on the test rows, in two closures. */
static void
evaluate_beside(const char *address)
{
    static const cadre_client_evaluation_t what = {"evaluate_step", "test", "loss", 4};
    double loss = 0;
    cadre_client_t *client = NULL;
    cadre_client_options_t options = cadre_client_options();
    options.address = address;
    cr_assert_eq(cadre_client_open(&options, &client), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_client_evaluate(client, &what, -1, &loss), 0, "%s", cadre_error_text());
    cadre_client_close(&client);
}

Test(trainer, leaves_closures_of_clients_out_of_what_it_records_and_counts)
{
    run_t run;
    run_open(&run);
    cadre_coordinator_close(&run.coordinator);
    cadre_auto(cadre_free) char *socket = scratch_path(&run.scratch, "job");
    cadre_auto(cadre_free) char *address = cadre_asprintf("ipc://%s", socket);
    run.address = address;
    open_coordinator(&run);
    train(&run);
    evaluate_beside(address);
    const cadre_training_place_t place = place_at_checkpoint(&run);
    cr_expect_eq(place.closures, EPOCHS * BATCHES);
    cr_expect_eq(place.evaluations, EVALUATIONS);

    resume(&run);
    train(&run);
    cr_expect_not(has_said(&run, "and says that"), "others are no closures that trained");
    cr_expect_eq(run.outcome.result.finished, EPOCHS * BATCHES);
    cr_expect_eq(run.outcome.result.attempts, EPOCHS * BATCHES);
    evaluate_beside(address);
    run_close(&run);
}

Test(trainer, refuses_a_checkpoint_that_says_more_than_it_holds)
{
    run_t run;
    run_open(&run);
    train(&run);
    save(&run, "{\"epoch\": 1, \"position\": 8, \"closures\": 17, \"evaluations\": 1}");
    resume(&run);
    run_trainer(&run);
    cr_expect_eq(run.outcome.status, CADRE_ECORRUPT);
    cr_expect(strstr(run.outcome.text, "holds 17 closures, and says that 18 had ended"), "%s",
              run.outcome.text);
    run_close(&run);
}
