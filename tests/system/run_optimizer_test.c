/* What the section "optimizer" of a job file does to a run: schedules of the learning rate,
 * clipping, running averages; and
 * penalties and frozen layers of a model, by the weights in the checkpoint it ends with. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run_optimizer, .timeout = 900);

/* The example digits_linear, quick and without a target, with this section "optimizer"; `average`:
 * evaluations use the running averages. Freed by the caller. */
static char *
write_job(const command_t *command, const char *optimizer, bool average)
{
    cadre_auto(cadre_free) char *data = source_path("examples/data/digits.csv.gz");
    char *path = cadre_asprintf("%s/job.json", command->scratch.path);
    json_t *job = json_pack("{s:i, s:{s:{s:s, s:s, s:f}, s:{s:f}}, s:{s:s}, s:{s:b}, s:{s:i}}",
                            "seed", 3, "data", "train", "format", "csv", "path", data, "scale",
                            0.0625, "test", "fraction", 0.2, "model", "type", "logistic",
                            "training", "evaluate_average", average, "cluster", "ps", 2);
    json_t *section = json_loads(optimizer, 0, NULL);
    cr_assert(job && section);
    json_object_set_new(job, "optimizer", section);
    cr_assert_eq(json_dump_file(job, path, 0), 0);
    json_decref(job);
    return path;
}

/* The accuracy that a run with these words and this job file ends with. */
static double
accuracy(command_t *command, const char *job, const char *resume, const char *epochs)
{
    const char *arguments[] = {"run",
                               job,
                               "--checkpoint-dir",
                               command->checkpoints,
                               "--resume",
                               resume,
                               "--epochs",
                               epochs,
                               "-o",
                               "json",
                               NULL};
    command_expect_exit(command, command_run(command, arguments), 0);
    json_t *result = command_result(command);
    cr_assert(result);
    const double found = json_number_at(result, "accuracy");
    json_decref(result);
    return found;
}

/* A rate of 0 from the second update on leaves the model nearly as it began; what resumes it with
 * another schedule trains it. */
Test(run_optimizer, the_learning_rate_follows_the_schedule_of_the_job_file)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *stands =
        write_job(&command,
                  "{\"type\": \"adam\", \"learning_rate\": {\"schedule\": \"piecewise_constant\", "
                  "\"boundaries\": [0], \"values\": [1e-9, 0]}}",
                  false);
    const double untrained = accuracy(&command, stands, "never", "4");
    cr_assert_lt(untrained, 0.5);
    cadre_auto(cadre_free) char *manifest =
        cadre_asprintf("%s/ckpt-00000001/manifest.json", command.checkpoints);
    cadre_auto(cadre_free) char *text = file_text(manifest);
    cr_assert(strstr(text, "\"schedule\""), "%s", text);
    cr_assert(strstr(text, "piecewise_constant"), "%s", text);

    cadre_auto(cadre_free) char *moves =
        write_job(&command,
                  "{\"type\": \"adam\", \"learning_rate\": {\"schedule\": \"cosine\", "
                  "\"initial\": 0.01, \"decay_steps\": 720, \"warmup_steps\": 20}}",
                  false);
    const double trained = accuracy(&command, moves, "auto", "16");
    cr_assert_gt(trained, 0.9, "%g after %g", trained, untrained);
    command_close(&command);
}

/* A limit near 0 leaves the model nearly as it began, whichever it is; a wide one does not show. */
Test(run_optimizer, gradients_are_clipped_as_the_job_file_says)
{
    static const char *const ways[] = {"clip_value", "clip_norm", "global_clip_norm"};
    command_t command;
    command_open(&command);
    for (size_t i = 0; i < CADRE_COUNT_OF(ways); i++) {
        cadre_auto(cadre_free) char *narrow =
            cadre_asprintf("{\"type\": \"sgd\", \"learning_rate\": 0.1, \"%s\": 1e-7}", ways[i]);
        cadre_auto(cadre_free) char *wide =
            cadre_asprintf("{\"type\": \"sgd\", \"learning_rate\": 0.1, \"%s\": 1000}", ways[i]);
        cadre_auto(cadre_free) char *first = write_job(&command, narrow, false);
        cr_expect_lt(accuracy(&command, first, "never", "3"), 0.5, "%s", ways[i]);
        cadre_auto(cadre_free) char *second = write_job(&command, wide, false);
        cr_expect_gt(accuracy(&command, second, "never", "3"), 0.7, "%s", ways[i]);
    }
    command_close(&command);
}

/* A rate that is meant for a billion rows is next to nothing for 32. */
Test(run_optimizer, the_learning_rate_is_scaled_with_the_batch)
{
    static const struct {
        const char *base;
        bool trains;
    } cases[] = {{"32", true}, {"1000000000", false}};
    command_t command;
    command_open(&command);
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *optimizer =
            cadre_asprintf("{\"type\": \"sgd\", \"learning_rate\": 0.1, \"scale_with\": "
                           "\"linear\", \"base_batch_size\": %s}",
                           cases[i].base);
        cadre_auto(cadre_free) char *job = write_job(&command, optimizer, false);
        const double found = accuracy(&command, job, "never", "3");
        cr_expect(cases[i].trains ? found > 0.7 : found < 0.5, "%s: %g", cases[i].base, found);
    }
    command_close(&command);
}

/* Two workers at the same variables, by the flag; the manifest says what the ps were told. */
Test(run_optimizer, late_gradients_are_compensated_where_the_job_says_so)
{
    static const char plain[] = "{\"type\": \"sgd\", \"learning_rate\": 0.1}";
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = write_job(&command, plain, false);
    const char *arguments[] = {"run",
                               job,
                               "--workers",
                               "2",
                               "--epochs",
                               "3",
                               "--threads",
                               "1",
                               "--resume",
                               "never",
                               "--delay-compensation",
                               "0.5",
                               "--checkpoint-dir",
                               command.checkpoints,
                               NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *manifest =
        cadre_asprintf("%s/ckpt-00000001/manifest.json", command.checkpoints);
    cadre_auto(cadre_free) char *text = file_text(manifest);
    cr_expect(strstr(text, "\"delay_compensation\":0.5") ||
                  strstr(text, "\"delay_compensation\": 0.5"),
              "%s", text);
    command_close(&command);
}

/* An average that hardly moves from the first update stays far behind what is trained: so what is
 * evaluated is seen, by a run, and by `cadre evaluate` of its last checkpoint. */
Test(run_optimizer, evaluations_use_the_running_averages_where_the_job_file_says_so)
{
    static const char slow[] = "{\"type\": \"sgd\", \"learning_rate\": 0.1, \"use_ema\": true, "
                               "\"ema_momentum\": 0.99999}";
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *values = write_job(&command, slow, false);
    cr_expect_gt(accuracy(&command, values, "never", "3"), 0.7);

    /* What is trained becomes the average after each update: the model is like that, too. */
    static const char overwritten[] =
        "{\"type\": \"sgd\", \"learning_rate\": 0.1, \"use_ema\": true, \"ema_momentum\": "
        "0.99999, \"ema_overwrite_frequency\": 1}";
    cadre_auto(cadre_free) char *overwrites = write_job(&command, overwritten, false);
    cr_expect_lt(accuracy(&command, overwrites, "never", "3"), 0.6);

    cadre_auto(cadre_free) char *averages = write_job(&command, slow, true);
    const double found = accuracy(&command, averages, "never", "3");
    cr_expect_lt(found, 0.6);
    cadre_auto(cadre_free) char *manifest =
        cadre_asprintf("%s/ckpt-00000003/manifest.json", command.checkpoints);
    cadre_auto(cadre_free) char *text = file_text(manifest);
    cr_expect(strstr(text, "\"average_momentum\"") && strstr(text, "\"average_overwrite\""), "%s",
              text);
    const char *arguments[] = {"evaluate", averages, "--checkpoint-dir", command.checkpoints, "-o",
                               "json",     NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *evaluated = command_result(&command);
    cr_expect_float_eq(json_number_at(evaluated, "accuracy"), found, 1e-9);
    json_decref(evaluated);

    cadre_auto(cadre_free) char *without =
        write_job(&command, "{\"type\": \"sgd\", \"learning_rate\": 0.1}", true);
    const char *check[] = {"config", "check", without, NULL};
    command_expect_exit(&command, command_run(&command, check), 78);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect(strstr(errors, "training.evaluate_average needs averages: optimizer.use_ema"), "%s",
              errors);
    command_close(&command);
}

/* Exports the newest checkpoint with slots to the folder `to`; returns the exit code. */
static int
export_slots(command_t *command, const char *to)
{
    const char *arguments[] = {
        "checkpoint", "export", command->checkpoints, "--to", to, "--slots", "-o", "json", NULL};
    return command_run(command, arguments);
}

static bool
is_in(const char *folder, const char *name)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* The average that a ps keeps of w1 and the variable that evaluations read, w1.average, are in two
 * files; where one of all is there already none is written. */
Test(run_optimizer, averages_are_exported_beside_the_variables_that_evaluations_read)
{
    static const char *const names[] = {
        "b1.average.npy", "b1.npy",         "b1@average.npy",     "w1.average.npy",
        "w1.npy",         "w1@average.npy", "b1@accumulator.npy", "w1@accumulator.npy"};
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job =
        write_job(&command, "{\"type\": \"adagrad\", \"use_ema\": true}", true);
    accuracy(&command, job, "never", "1");
    cadre_auto(cadre_free) char *to = scratch_path(&command.scratch, "exported");
    command_expect_exit(&command, export_slots(&command, to), 0);
    json_t *exported = command_result(&command);
    cr_expect_eq(json_array_size(json_object_get(exported, "files")), CADRE_COUNT_OF(names));
    json_decref(exported);
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cr_expect(is_in(to, names[i]), "%s", names[i]);
    }

    for (size_t i = 0; i + 1 < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", to, names[i]);
        cr_assert_eq(unlink(path), 0);
    }
    command_expect_exit(&command, export_slots(&command, to), 77);
    cr_expect(is_in(to, "w1@accumulator.npy"));
    for (size_t i = 0; i + 1 < CADRE_COUNT_OF(names); i++) {
        cr_expect(!is_in(to, names[i]), "%s", names[i]);
    }
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect(strstr(errors, "w1@accumulator.npy exists"), "%s", errors);
    command_close(&command);
}

/* --- penalties and frozen layers --- */

enum { INPUTS = 3, HIDDEN = 4, ROWS = 8, EPOCHS = 5 };

/* Writes a job whose rows are all 0, so that data move no weight: one closure, of all rows, an
 * epoch. The path is freed by the caller. */
static char *
write_zeros_job(const command_t *command, const char *layer_keys)
{
    cadre_auto(cadre_free) char *rows = cadre_asprintf("%s/rows.csv", command->scratch.path);
    char *path = cadre_asprintf("%s/zeros.json", command->scratch.path);
    FILE *file = fopen(rows, "w");
    for (int i = 0; i < ROWS; i++) {
        fprintf(file, "0,0,0,%d\n", i % 2);
    }
    cr_assert_eq(fclose(file), 0);
    file = fopen(path, "w");
    fprintf(
        file,
        "{\"seed\": 5, \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"%s\"}}, "
        "\"model\": {\"type\": \"layers\", \"layers\": [{\"type\": \"dense\", \"units\": %d%s}]}, "
        "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.125}, "
        "\"training\": {\"epochs\": %d, \"batch_size\": %d}, \"cluster\": {\"ps\": 2}}",
        rows, HIDDEN, layer_keys, EPOCHS, ROWS);
    cr_assert_eq(fclose(file), 0);
    return path;
}

/* Runs the job and reads the weights of its first layer from its last checkpoint. */
static void
train_zeros(const char *layer_keys, float weights[INPUTS * HIDDEN])
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = write_zeros_job(&command, layer_keys);
    const char *arguments[] = {"run", job, "--checkpoint-dir", command.checkpoints, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);

    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *reader = NULL;
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/ckpt-00000001", command.checkpoints);
    cr_assert_eq(cadre_checkpoint_reader_open(path, &reader), 0, "%s", cadre_error_text());
    const cadre_checkpoint_range_t range = {"w1", "value", CADRE_F32, 0, (int64_t)INPUTS * HIDDEN};
    cr_assert_eq(cadre_checkpoint_reader_read(reader, &range, weights, NULL), 0, "%s",
                 cadre_error_text());
    command_close(&command);
}

/* With inputs of 0 the gradient of w1 is that of its penalties alone, under sgd
 * w -= 0.125 (l1 sign(w) + l2 w), five times. */
Test(run_optimizer, penalties_of_a_layer_act_on_its_weights)
{
    static const struct {
        const char *keys;
        double l1;
        double l2;
    } cases[] = {
        {", \"l1\": 0.01", 0.01, 0},
        {", \"l2\": 0.5", 0, 0.5},
        {", \"l1\": 0.02, \"l2\": 1", 0.02, 1},
        {", \"trainable\": false", 0, 0},
    };
    float before[INPUTS * HIDDEN];
    train_zeros("", before);
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        float after[INPUTS * HIDDEN];
        train_zeros(cases[i].keys, after);
        for (size_t k = 0; k < CADRE_COUNT_OF(after); k++) {
            double wanted = (double)before[k];
            for (int step = 0; step < EPOCHS; step++) {
                const double sign = (wanted > 0) - (wanted < 0);
                wanted -= 0.125 * (cases[i].l1 * sign + cases[i].l2 * wanted);
            }
            cr_expect_float_eq(after[k], wanted, 1e-6, "%s, weight %zu: %g, not %g", cases[i].keys,
                               k, (double)after[k], wanted);
        }
    }
}
