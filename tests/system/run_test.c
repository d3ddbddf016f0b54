/* `cadre run` on the shipped examples: what it reaches, what it prints. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/sanitizer.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run, .timeout = 900);

enum { DIGITS_CLOSURES = 45 }; /* of one epoch: 1,438 rows in batches of 32 */

/* Every closure was applied exactly once on each of two shards. */
static void
expect_exact(const json_t *result, double closures)
{
    static const char *const paths[] = {"closures.scheduled", "closures.finished",
                                        "updates.0.applied", "updates.1.applied"};
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        double number = json_number_at(result, paths[i]);
        cr_expect(number >= closures && number <= closures, "%s is %.0f, not %.0f", paths[i],
                  number, closures);
    }
    cr_expect_geq(json_number_at(result, "closures.attempts"), closures);

    double pushed = 0;
    size_t bucket = 0;
    const json_t *counts = NULL;
    json_array_foreach(json_object_get(result, "staleness"), bucket, counts)
    {
        pushed += json_number_value(json_object_get(counts, "closures"));
    }
    cr_expect_float_eq(pushed, closures, 0, "each closure in the histogram of staleness");
}

Test(run, digits_reaches_its_accuracy_and_the_result_has_every_field)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {"run",  job, "--checkpoint-dir", command.checkpoints, "-o",
                               "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    cr_expect_eq(strchr(output, '\n'), output + strlen(output) - 1, "stdout is one line: %s",
                 output);
    json_t *result = command_result(&command);
    cr_assert(result);
    cr_expect_str_eq(json_string_value(json_object_get(result, "schema")), "cadre.result/v1");
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    cr_expect_gt(json_number_at(result, "loss"), 0);
    cr_expect_eq(json_number_at(result, "examples"), 40 * 1438);
    cr_expect_gt(json_number_at(result, "seconds"), 0);
    expect_exact(result, 40 * DIGITS_CLOSURES);
    cr_expect_eq(json_number_at(result, "updates.1.shard"), 1);
    cr_expect_eq(json_number_at(result, "updates.0.duplicate"), 0);
    cr_expect_eq(json_number_at(result, "updates.0.refused"), 0);
    cr_expect_eq(json_number_at(result, "updates.2.shard"), -1);
    cr_expect_eq(json_number_at(result, "failures.worker"), 0);
    cr_expect_eq(json_number_at(result, "failures.ps"), 0);
    const char *checkpoint = json_string_value(json_object_get(result, "checkpoint"));
    cr_assert(checkpoint);
    cr_expect_eq(strncmp(checkpoint, command.checkpoints, strlen(command.checkpoints)), 0);
    json_decref(result);
    command_close(&command);
}

/* Each job has a target, below which it ends with 1. One worker: how accurate two are depends on
 * how evenly a busy machine runs them. */
Test(run, named_models_and_lists_of_layers_reach_their_accuracy)
{
    static const char *const jobs[] = {"digits_logistic", "digits_cnn", "digits_transformer"};
    for (size_t i = 0; i < CADRE_COUNT_OF(jobs); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *name = cadre_asprintf("examples/%s.json", jobs[i]);
        cadre_auto(cadre_free) char *job = source_path(name);
        const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "--workers", "1", NULL};
        command_expect_exit(&command, command_run(&command, arguments), 0);
        command_close(&command);
    }
}

Test(run, evaluate_finds_the_running_averages_of_batch_norm_in_a_checkpoint)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits_layers.json");
    /* One worker: a late update of another may shift the averages just before the end. */
    const char *run[] = {"run", job, "--workers", "1", "--checkpoint-dir", command.checkpoints,
                         NULL};
    command_expect_exit(&command, command_run(&command, run), 0);
    const char *evaluate[] = {"evaluate", job, "--checkpoint-dir", command.checkpoints, "-o",
                              "json",     NULL};
    command_expect_exit(&command, command_run(&command, evaluate), 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.9);
    json_decref(result);
    command_close(&command);
}

/* The loss of the digits after synchronous steps, on so many tasks. */
static double
synchronous_loss(const char *ps, const char *workers)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {"run",       job,     "--consistency",
                               "sync",      "--ps",  ps,
                               "--workers", workers, "--checkpoint-dir",
                               "none",      "-o",    "json",
                               "--seed",    "7",     NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    double loss = json_number_at(result, "loss");
    json_decref(result);
    command_close(&command);
    return loss;
}

Test(run, synchronous_steps_give_the_same_loss_on_any_tasks)
{
    double loss = synchronous_loss("1", "1");
    cr_expect_lt(loss, 0.3);
    cr_expect_eq(synchronous_loss("2", "3"), loss);
}

Test(run, a_linear_model_learns_values)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits_linear.json");
    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "-o", "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    cr_expect_lt(json_number_at(result, "loss"), 15); /* the variance of the labels is 35 */
    json_decref(result);
    command_close(&command);
}

Test(run, count_prints_exactly_ten_thousand)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *native = program_path("examples/count_native.so");
    cadre_auto(cadre_free) char *program = program_path("examples/count");
    const char *arguments[] = {"run", "--native", native, "--", program, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    cr_expect_str_eq(output, "10000\n");
    command_close(&command);
}

/* Runs the example program `name` on the digits: the accuracy that it prints. It has one worker, so
 * that no update is late on a busy machine. */
static double
accuracy_of(const char *name)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *data = source_path("examples/data/digits.csv.gz");
    cadre_auto(cadre_free) char *program = program_path(name);
    const char *arguments[] = {"run", "--ps", "2", "--workers", "1", "--", program, data, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    double accuracy = 0;
    cr_assert_eq(sscanf(output, "accuracy %lf", &accuracy), 1, "%s", output);
    command_close(&command);
    return accuracy;
}

Test(run, mlp_learns_the_digits)
{
    cr_expect_gt(accuracy_of("examples/mlp"), 0.94);
}

Test(run, fm_learns_which_digits_are_odd)
{
    cr_expect_gt(accuracy_of("examples/fm"), 0.9);
}

/* The loss that the example recommenders prints behind a name. */
static double
loss_of(const char *output, const char *name)
{
    const char *at = strstr(output, name);
    double loss = 0;
    cr_assert(at && sscanf(at + strlen(name), ": %lf", &loss) == 1, "no %s in %s", name, output);
    return loss;
}

/* Where the guess is 0.652 and the model that drew the visits 0.425. Two towers know nothing at
 * 4.84 or so. */
Test(run, recommenders_find_what_visits_were_drawn_from)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *program = program_path("examples/recommenders");
    const char *arguments[] = {"run", "--ps", "2", "--workers", "2", "--", program, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    const double guess = loss_of(output, "a guess");
    const double least = loss_of(output, "the model that drew them");
    cr_expect_lt(loss_of(output, "logistic regression"), guess - 0.02, "%s", output);
    cr_expect_lt(loss_of(output, "matrix factorization"), guess - 0.1, "%s", output);
    cr_expect_lt(loss_of(output, "wide & deep"), least + 0.06, "%s", output);
    cr_expect_gt(loss_of(output, "wide & deep"), least, "%s", output);
    cr_expect_lt(loss_of(output, "two towers"), 4.75, "%s", output);
    command_close(&command);
}

/* Sums over batches, added up by closures that take each other's results: exact in f32. */
Test(run, moments_are_those_of_all_rows)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *data = source_path("examples/data/digits.csv.gz");
    cadre_auto(cadre_free) char *program = program_path("examples/moments");
    const char *arguments[] = {"run", "--workers", "2", "--", program, data, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    cr_expect_str_eq(output, "rows 1797 mean 4.884 variance 36.202\n");
    command_close(&command);
}

/* Each round drops its variables, and the next takes their names. */
Test(run, sweep_trains_each_round_from_the_beginning)
{
    command_t command;
    command_open(&command);
    double accuracies[3] = {0};
    cadre_auto(cadre_free) char *data = source_path("examples/data/digits.csv.gz");
    cadre_auto(cadre_free) char *program = program_path("examples/sweep");
    const char *arguments[] = {"run", "--ps", "2", "--workers", "2", "--", program, data, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    int found = sscanf(output,
                       "learning rate 0.001: accuracy %lf\nlearning rate 0.1: accuracy %lf\n"
                       "learning rate 1: accuracy %lf\n",
                       &accuracies[0], &accuracies[1], &accuracies[2]);
    cr_assert_eq(found, 3, "%s", output);
    cr_expect_lt(accuracies[0], 0.8, "it has learned little");
    cr_expect_gt(accuracies[1], 0.9);
    cr_expect_gt(accuracies[2], 0.9);
    command_close(&command);
}

/* The loop of the library: the hook's words, and the end by patience. */
Test(run, hooks_are_told_how_training_goes_until_it_gets_no_better)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *data = source_path("examples/data/digits.csv.gz");
    cadre_auto(cadre_free) char *program = program_path("examples/hooks");
    const char *arguments[] = {"run", "--ps", "2", "--workers", "2", "--", program, data, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    cr_expect_eq(strstr(output, "training begins\nepoch 1: loss "), output, "%s", output);
    const char *last = strstr(output, "\nbest accuracy ");
    double best = 0;
    unsigned long long steps = 0;
    unsigned long long evaluations = 0;
    cr_assert(last && strstr(output, "training ends after "), "%s", output);
    cr_assert_eq(sscanf(last, "\nbest accuracy %lf after %llu batches, %llu evaluations", &best,
                        &steps, &evaluations),
                 3);
    cr_expect_gt(best, 0.9);
    cr_expect_eq(steps, (evaluations - 3) * DIGITS_CLOSURES, "three were no better: %s", last);
    command_close(&command);
}

Test(run, an_example_names_the_rows_that_are_missing)
{
    static const char *const names[] = {"moments", "fm", "mlp", "sweep", "hooks"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *name = cadre_asprintf("examples/%s", names[i]);
        cadre_auto(cadre_free) char *program = program_path(name);
        const char *arguments[] = {"run", "--", program, "/nowhere/digits.csv.gz", NULL};
        command_expect_exit(&command, command_run(&command, arguments), 66);
        cadre_auto(cadre_free) char *errors = command_errors(&command);
        cadre_auto(cadre_free) char *text = cadre_asprintf(
            "%s: /nowhere/digits.csv.gz: No such file or directory; give the path", names[i]);
        cr_expect(strstr(errors, text), "%s", errors);
        command_close(&command);
    }
}

Test(run, a_program_gives_its_exit_code)
{
    command_t command;
    command_open(&command);
    const char *seven[] = {"run", "--", "/bin/sh", "-c", "exit 7", NULL};
    const char *killed[] = {"run", "--", "/bin/sh", "-c", "kill -9 $$", NULL};
    const char *missing[] = {"run", "--", "/nowhere/at/all", NULL};
    command_expect_exit(&command, command_run(&command, seven), 7);
    command_expect_exit(&command, command_run(&command, killed), 128 + 9);
    cr_expect_neq(command_run(&command, missing), 0);
    command_close(&command);
}

/* --- what is refused --- */

Test(run, a_bad_job_file_is_told_with_its_line_and_column)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    FILE *file = fopen(job, "we");
    cr_assert(file);
    fputs("{\n"
          "  \"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\"}},\n"
          "  \"model\": {\"type\": \"logistic\"},\n"
          "  \"optimizer\": {\"type\": \"sgd\", \"learning_rat\": 0.1}\n"
          "}\n",
          file);
    fclose(file);
    const char *arguments[] = {"run", job, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 78);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cadre_auto(cadre_free) char *place = cadre_asprintf("%s:4:", job);
    cr_expect(strstr(errors, place), "%s", errors);
    cr_expect(strstr(errors, "\"learning_rate\""), "it says what was meant: %s", errors);
    command_close(&command);
}

Test(run, missing_data_is_missing_input)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {
        "run", job, "--data", command.scratch.path, "--checkpoint-dir", command.checkpoints, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 66);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect(strstr(errors, "digits.csv.gz"), "%s", errors);
    const char *no_job[] = {"run", "/nowhere/job.json", NULL};
    command_expect_exit(&command, command_run(&command, no_job), 66);
    command_close(&command);
}

/* A run of a small model over these rows; what it said, freed by the caller. */
static char *
say_of_rows(const char *rows, int code)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *data = scratch_path(&command.scratch, "rows.csv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    FILE *file = fopen(data, "we");
    cr_assert(file);
    fputs(rows, file);
    fclose(file);
    file = fopen(job, "we");
    cr_assert(file);
    fputs("{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"rows.csv\"}},"
          " \"model\": {\"type\": \"logistic\"}, \"cluster\": {\"ps\": 1, \"workers\": 1}}",
          file);
    fclose(file);
    const char *arguments[] = {"run", job, "--checkpoint-dir", command.checkpoints, NULL};
    command_expect_exit(&command, command_run(&command, arguments), code);
    char *errors = command_errors(&command);
    command_close(&command);
    return errors;
}

Test(run, bad_data_is_told_with_file_and_line)
{
    cadre_auto(cadre_free) char *errors = say_of_rows("1,2,0\n3,4,1\n5,six,0\n", 65);
    cr_expect(strstr(errors, "rows.csv:3"), "%s", errors);
    cr_expect(strstr(errors, "\"skip_bad\" in data.train"), "%s", errors);
}

Test(run, no_line_is_to_be_skipped_where_the_whole_file_is_bad)
{
    cadre_auto(cadre_free) char *errors = say_of_rows("1\n3\n", 65);
    cr_expect(strstr(errors, "dataset train: ") && strstr(errors, "rows.csv:1: one column"), "%s",
              errors);
    cr_expect(!strstr(errors, "skip_bad"), "%s", errors);
}

Test(run, a_first_row_that_was_perhaps_no_header_is_told)
{
    cadre_auto(cadre_free) char *errors = say_of_rows("1,2x,0\n3,4,1\n5,6,0\n", 0);
    cr_expect(strstr(errors, "dataset_doubtful dataset=train reason=\"1,2x,0 is not read as data"),
              "%s", errors);
}

/* --- real data, where it is --- */

static void
run_on_data(const char *example, const char *folder, double accuracy)
{
    const char *data = getenv("CADRE_TEST_DATA");
    if (!data) {
        cr_skip_test("CADRE_TEST_DATA names no folder");
    }
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path(example);
    cadre_auto(cadre_free) char *place = cadre_asprintf("%s/%s", data, folder);
    const char *arguments[] = {
        "run", job, "--data", place, "--checkpoint-dir", command.checkpoints, "-o", "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *result = command_result(&command);
    cr_expect_geq(json_number_at(result, "accuracy"), accuracy);
    cr_expect_eq(json_number_at(result, "updates.0.applied"),
                 json_number_at(result, "closures.scheduled"));
    json_decref(result);
    command_close(&command);
}

Test(run, mnist_reaches_its_accuracy)
{
    run_on_data("examples/mnist.json", "mnist", 0.94);
}

Test(run, mnist_reaches_more_with_convolutions, .timeout = 900)
{
    if (SANITIZER) {
        cr_skip_test("with a sanitizer it takes a minute, on a busy machine several");
    }
    run_on_data("examples/mnist_cnn.json", "mnist", 0.97);
}

Test(run, adult_reaches_its_accuracy)
{
    run_on_data("examples/adult.json", "adult", 0.848);
}

Test(run, sparse_models_of_adult_reach_its_accuracy)
{
    run_on_data("examples/adult_sparse.json", "adult", 0.849);
    run_on_data("examples/adult_fm.json", "adult", 0.849);
    run_on_data("examples/wide_deep.json", "adult", 0.847);
}

/* --- arrays of NumPy --- */

enum { POINTS = 400, NPY_BEGIN = 128 };

/* Writes an array of POINTS rows as numpy.save does; `shape` is that of a row. Returns its
 * path. */
static char *
write_npy(const command_t *command, const char *name, const char *type, const char *shape,
          const void *elements, size_t size)
{
    char *path = scratch_path(&command->scratch, name);
    FILE *file = fopen(path, "we");
    cr_assert(file);
    const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, NPY_BEGIN - 10, 0};
    cr_assert_eq(fwrite(magic, 1, sizeof(magic), file), sizeof(magic));
    int length = fprintf(file, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,%s), }", type,
                         POINTS, shape);
    fprintf(file, "%*s\n", NPY_BEGIN - (int)sizeof(magic) - length - 1, "");
    cr_assert_eq(fwrite(elements, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
    return path;
}

Test(run, trains_on_arrays_of_numpy)
{
    double x[POINTS][2];
    int64_t y[POINTS];
    for (int i = 0; i < POINTS; i++) { /* points of a grid, on either side of its diagonal */
        x[i][0] = i % 20;
        x[i][1] = (double)(i / 20) + 0.5;
        y[i] = x[i][0] > x[i][1];
    }
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *xs = write_npy(&command, "x.npy", "<f8", " 2", x, sizeof(x));
    cadre_auto(cadre_free) char *ys = write_npy(&command, "y.npy", "<i8", "", y, sizeof(y));
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    FILE *file = fopen(job, "we");
    cr_assert(file);
    fprintf(file, "{\"seed\": 3, \"data\": {\"train\": {\"format\": \"npy\", \"path\": \"x.npy\", "
                  "\"labels_path\": \"y.npy\", \"scale\": 0.1}, \"test\": {\"fraction\": 0.2}}, "
                  "\"model\": {\"type\": \"logistic\"}, \"optimizer\": {\"type\": \"adam\", "
                  "\"learning_rate\": 0.05}, \"training\": {\"epochs\": 40}}");
    cr_assert_eq(fclose(file), 0);
    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "-o", "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *result = command_result(&command);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.9);
    cr_expect_eq(json_number_at(result, "examples"), 40 * POINTS * 0.8);
    json_decref(result);
    command_close(&command);
}

/* --- a click log --- */

/* The click follows from whether the first two words are alike, and from nothing else. */
static void
write_clicks(FILE *file)
{
    for (unsigned i = 0; i < 3000; i++) {
        const unsigned left = i % 4;
        const unsigned right = i / 4 % 4;
        fprintf(file, "%d", left == right);
        for (unsigned column = 0; column < 13; column++) {
            fprintf(file, "\t%u", i * (column + 1) % 50);
        }
        fprintf(file, "\tw%u\tw%u", left, right);
        for (int column = 2; column < 26; column++) {
            fprintf(file, "\t%s", column % 2 ? "" : "05db9164");
        }
        fprintf(file, "\n");
    }
}

Test(run, trains_on_a_click_log)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *rows = scratch_path(&command.scratch, "clicks.tsv");
    cadre_auto(cadre_free) char *job = scratch_path(&command.scratch, "job.json");
    FILE *file = fopen(rows, "we");
    cr_assert(file);
    write_clicks(file);
    cr_assert_eq(fclose(file), 0);
    file = fopen(job, "we");
    cr_assert(file);
    fprintf(
        file,
        "{\"seed\": 3, \"data\": {\"train\": {\"format\": \"criteo\", \"path\": \"clicks.tsv\", "
        "\"label_kind\": \"binary\", \"buckets\": 100}, \"test\": {\"fraction\": 0.2}}, "
        "\"model\": {\"type\": \"layers\", \"layers\": ["
        "{\"type\": \"dense\", \"units\": 4, \"columns\": [0, 13], \"name\": \"numbers\"}, "
        "{\"type\": \"embedding\", \"units\": 4, \"columns\": [13, 3], \"name\": \"words\", "
        "\"fields\": [100, 100, 100]}, "
        "{\"type\": \"interaction\", \"from\": [\"numbers\", \"words\"]}, "
        "{\"type\": \"dense\", \"units\": 16, \"activation\": \"relu\"}]}, "
        "\"optimizer\": {\"type\": \"adam\", \"learning_rate\": 0.01}, "
        "\"training\": {\"epochs\": 20, \"metrics\": [\"auc\"]}}");
    cr_assert_eq(fclose(file), 0);
    const char *arguments[] = {"run", job, "--checkpoint-dir", "none", "-o", "json", NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *result = command_result(&command);
    cr_expect_geq(json_number_at(result, "metrics.auc"), 0.97);
    json_decref(result);
    command_close(&command);
}

Test(run, trace_is_a_file_of_each_worker_in_a_folder_that_is_made)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *parent = scratch_path(&command.scratch, "some");
    cadre_auto(cadre_free) char *folder = cadre_asprintf("%s/traces", parent);
    cadre_auto(cadre_free) char *old = cadre_asprintf("%s/worker-9.3.json", folder);
    cr_assert(mkdir(parent, 0777) == 0 && mkdir(folder, 0777) == 0);
    cr_assert_eq(fclose(fopen(old, "w")), 0);
    const char *arguments[] = {"run",  job, "--checkpoint-dir", "none", "--epochs", "20", "--trace",
                               folder, NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    enum { PARAMETERS = 64 * 128 + 128 + 128 * 10 + 10 };
    size_t pushes = 0;
    for (int i = 0; i < 2; i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/worker-%d.json", folder, i);
        json_error_t error;
        json_t *events = json_load_file(path, 0, &error);
        cr_assert(json_is_array(events), "%s: %s", path, error.text);
        for (size_t k = 0; k < json_array_size(events); k++) {
            const json_t *event = json_array_get(events, k);
            cr_expect_eq(json_integer_value(json_object_get(event, "pid")), i);
            if (strcmp(json_string_value(json_object_get(event, "name")), "push") == 0) {
                pushes++;
                cr_expect_eq(json_number_at(event, "args.bytes"), PARAMETERS * sizeof(float));
            }
        }
        json_decref(events);
    }
    cr_expect_eq(pushes, 20 * DIGITS_CLOSURES);
    cr_expect_neq(access(old, F_OK), 0, "a trace of an earlier run is left");
    command_close(&command);
}

static void
expect_refused(const char *const *arguments, int code, const char *text)
{
    command_t command;
    command_open(&command);
    command_expect_exit(&command, command_run(&command, arguments), code);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect(strstr(errors, text), "%s", errors);
    cr_expect_not(strstr(errors, "session="), "%s", errors);
    command_close(&command);
}

Test(run, a_folder_of_traces_that_cannot_be_made_is_named_before_anything_starts)
{
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {
        "run", job, "--checkpoint-dir", "none", "--trace", "/proc/nowhere/traces", NULL};
    expect_refused(arguments, 73, "--trace: the folder /proc/nowhere cannot be made: No such file");
    const char *check[] = {"config", "check", job, NULL};
    setenv("CADRE_TRACE", "/proc/nowhere/traces", 1);
    expect_refused(check, 73, "CADRE_TRACE: the folder /proc cannot be written to: No such file");
    unsetenv("CADRE_TRACE");
}

Test(run, a_device_or_math_that_cannot_be_is_refused_before_anything_starts)
{
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *device[] = {"run", job, "--device", "cuda:99999", NULL};
    expect_refused(device, 2, "--device: no device \"cuda:99999\": it is auto, cpu, cuda, or");
    const char *math[] = {"run", job, "--device", "cpu", "--math", "f64", NULL};
    expect_refused(math, 2, "--math: \"f64\" is none of f32|tf32|bf16");
    const char *list[] = {"run", job, "--device", "cpu,cpu,cpu", "--workers", "2", NULL};
    expect_refused(list, 78,
                   "--device lists 3 devices, but --workers is 2: say --workers 3, or list fewer");
    const char *check[] = {"config", "check", job, NULL};
    setenv("CADRE_DEVICE", "gpu", 1);
    expect_refused(check, 78, "the environment: CADRE_DEVICE: no device \"gpu\"");
    unsetenv("CADRE_DEVICE");
}

/* --- what a job file says of the cluster --- */

/* The example with this section "cluster", in the scratch directory; freed by the caller. */
static char *
write_digits(const command_t *command, const char *cluster)
{
    cadre_auto(cadre_free) char *example = source_path("examples/digits.json");
    char *path = scratch_path(&command->scratch, "digits.json");
    json_t *job = json_load_file(example, 0, NULL);
    json_t *section = json_loads(cluster, 0, NULL);
    cr_assert(job && section, "%s", cluster);
    json_object_set_new(job, "cluster", section);
    cr_assert_eq(json_dump_file(job, path, 0), 0);
    json_decref(job);
    return path;
}

/* Runs the example with this section and this flag, which must end well. */
static void
run_digits(command_t *command, const char *cluster, const char *flag, const char *value)
{
    cadre_auto(cadre_free) char *job = write_digits(command, cluster);
    cadre_auto(cadre_free) char *data = source_path("examples");
    const char *arguments[] = {
        "run", job, "--data", data, "--checkpoint-dir", command->checkpoints, flag, value, NULL};
    command_expect_exit(command, command_run(command, arguments), 0);
}

/* One device more than a list of two begins the list again. */
Test(run, workers_take_the_devices_of_a_list_in_turn)
{
    static const struct {
        const char *cluster;
        const char *flag;
        const char *value;
    } cases[] = {
        {"{\"ps\": 1, \"workers\": 2}", "--device", "cpu,cpu"},
        {"{\"ps\": 1, \"workers\": 3, \"device\": [\"cpu\", \"cpu\"]}", NULL, NULL},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        command_t command;
        command_open(&command);
        run_digits(&command, cases[i].cluster, cases[i].flag, cases[i].value);
        command_close(&command);
    }
}

/* Where the parts of the variables are after a run with this section: for each variable the shards
 * of its parts, as "w1:01 b1:1 ". Freed by the caller. */
static char *
places(const char *cluster)
{
    command_t command;
    command_open(&command);
    run_digits(&command, cluster, NULL, NULL);
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%s/ckpt-00000001/manifest.json", command.checkpoints);
    json_t *manifest = json_load_file(path, 0, NULL);
    cr_assert(manifest);
    char *text = cadre_strdup("");
    size_t i = 0;
    const json_t *variable = NULL;
    json_array_foreach(json_object_get(manifest, "variables"), i, variable)
    {
        cadre_auto(cadre_free) char *shards = cadre_strdup("");
        size_t k = 0;
        const json_t *part = NULL;
        json_array_foreach(json_object_get(variable, "partitions"), k, part)
        {
            cadre_auto(cadre_free) char *before = shards;
            shards = cadre_asprintf("%s%.0f", before, json_number_at(part, "shard"));
        }
        cadre_auto(cadre_free) char *before = text;
        text = cadre_asprintf("%s%s:%s ", before,
                              json_string_value(json_object_get(variable, "name")), shards);
    }
    json_decref(manifest);
    command_close(&command);
    return text;
}

/* w1 has 32 KiB, w2 5, the others less than one. */
Test(run, variables_are_cut_and_placed_as_the_job_file_says)
{
    static const char *const cases[][2] = {
        {"{\"ps\": 2}", "w1:0 b1:1 w2:1 b2:1 "},
        {"{\"ps\": 2, \"placement\": \"round_robin\"}", "w1:0 b1:1 w2:0 b2:1 "},
        {"{\"ps\": 2, \"placement\": \"round_robin\", \"partitioner\": \"max_bytes\", "
         "\"partition_bytes\": 12288, \"partitions\": 8}",
         "w1:010 b1:1 w2:0 b2:1 "},
        {"{\"ps\": 2, \"placement\": \"round_robin\", \"partitioner\": \"min_bytes\", "
         "\"partition_bytes\": 12288, \"partitions\": 8}",
         "w1:01 b1:0 w2:1 b2:0 "},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *found = places(cases[i][0]);
        cr_expect_str_eq(found, cases[i][1], "%s: %s, not %s", cases[i][0], found, cases[i][1]);
    }
}

/* Threads of the ps of a run with so many lanes, once it has taken a checkpoint. */
static int
ps_threads(const char *lanes)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {"run",
                               job,
                               "--ps",
                               "1",
                               "--ps-lanes",
                               lanes,
                               "--epochs",
                               "100000",
                               "--checkpoint-every",
                               "0.2",
                               "--checkpoint-dir",
                               command.checkpoints,
                               NULL};
    command_start(&command, arguments);
    command_wait_checkpoint(&command);
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("/proc/%d/task", (int)command_task(&command, "ps", 0));
    DIR *folder = opendir(path);
    cr_assert(folder, "%s", path);
    int count = 0;
    while (readdir(folder)) {
        count++;
    }
    closedir(folder);
    command_close(&command);
    return count;
}

/* A few threads come and go with checkpoints: less than lanes are apart. */
Test(run, a_ps_has_the_lanes_that_the_flag_says)
{
    cr_expect_geq(ps_threads("64"), ps_threads("1") + 64 / 2);
}
