/* The five strategies: the shipped example with one word changed, quiet and with processes killed
 * while it runs. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/system/cpu_quota.h"
#include "tests/sanitizer.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(strategies, .timeout = 900);

typedef struct {
    const char *name;
    int ps; /* with two workers, as examples/digits.json has */
} example_t;

static const example_t examples[] = {
    {"parameter_server", 2}, {"multi_worker", 2}, {"mirrored", 1}, {"central", 1}, {"local", 1},
};

/* As processes: only mirrored has other ps then. */
static const example_t apart[] = {
    {"parameter_server", 2}, {"multi_worker", 2}, {"mirrored", 2}, {"central", 1}, {"local", 1},
};

/* What a run with this name came to: its accuracy is above the target of the file, its result says
 * the strategy, and every shard has applied every step. The caller ends it. */
static json_t *
expect_trained(const command_t *command, int code, const example_t *example)
{
    command_expect_exit(command, code, 0);
    json_t *result = command_result(command);
    cr_assert(result);
    cr_expect_str_eq(json_string_value(json_object_get(result, "strategy")), example->name);
    cr_expect_eq((int)json_array_size(json_object_get(result, "updates")), example->ps, "%s",
                 example->name);
    cr_expect_eq(json_number_at(result, "closures.finished"),
                 json_number_at(result, "closures.scheduled"));
    return result;
}

/* --- one word --- */

/* Workers of one thread are threads of the run on any machine, where the strategy allows it. */
static void
compute_with_one_thread(void)
{
    cr_assert_eq(setenv("CADRE_THREADS", "1", 1), 0);
}

Test(strategies, S1_train_the_example_with_one_word_of_the_command_changed)
{
    compute_with_one_thread();
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
        const char *arguments[] = {"run", job,    "--strategy",       examples[i].name,
                                   "-o",  "json", "--checkpoint-dir", "none",
                                   NULL};
        json_t *result = expect_trained(&command, command_run(&command, arguments), &examples[i]);
        cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
        json_decref(result);
        command_close(&command);
    }
}

/* The example, its counts of tasks included, with a strategy. */
static char *
write_job(const command_t *command, const char *name)
{
    cadre_auto(cadre_free) char *example = source_path("examples/digits.json");
    char *path = scratch_path(&command->scratch, "digits.json");
    json_t *job = json_load_file(example, 0, NULL);
    json_object_set_new(job, "strategy", json_pack("{s:s}", "type", name));
    cr_assert_eq(json_dump_file(job, path, 0), 0);
    json_decref(job);
    return path;
}

Test(strategies, S1_train_the_example_with_one_word_of_the_file_changed)
{
    /* What it says of the counts of the file, which has two ps and two workers. */
    static const char *const says[] = {NULL, NULL, NULL, "has no use for cluster.ps 2 of ",
                                       "has no use for cluster.workers 2, cluster.ps 2 of "};
    for (size_t i = 0; i < CADRE_COUNT_OF(apart); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *job = write_job(&command, apart[i].name);
        cadre_auto(cadre_free) char *data = source_path("examples");
        const char *arguments[] = {"run", job,    "--data",           data,   "--device", "cpu",
                                   "-o",  "json", "--checkpoint-dir", "none", NULL};
        json_t *result = expect_trained(&command, command_run(&command, arguments), &apart[i]);
        cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
        json_decref(result);
        cadre_auto(cadre_free) char *errors = command_errors(&command);
        cr_expect_not_null(strstr(errors, says[i] ? says[i] : ""), "%s", errors);
        cr_expect_eq(strstr(errors, "has no use for") != NULL, says[i] != NULL, "%s", errors);
        command_close(&command);
    }
}

/* Workers of one process have their slots like those of others: a file that counts both serves each
 * word, and a step has as many closures as there are workers. */
Test(strategies, S1_train_the_example_of_two_slots_with_one_word_changed)
{
    compute_with_one_thread();
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
        const char *arguments[] = {"run",
                                   job,
                                   "--strategy",
                                   examples[i].name,
                                   "-o",
                                   "json",
                                   "--checkpoint-dir",
                                   "none",
                                   "--slots",
                                   "2",
                                   NULL};
        json_decref(expect_trained(&command, command_run(&command, arguments), &examples[i]));
        command_close(&command);
    }
}

Test(strategies, S1_train_mnist_with_one_word_changed)
{
    compute_with_one_thread();
    const char *data = getenv("CADRE_TEST_DATA");
    if (!data) {
        cr_skip_test("CADRE_TEST_DATA names no folder");
    }
    if (SANITIZER) {
        cr_skip_test("how accurate a model is does not depend on it");
    }
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *job = source_path("examples/mnist.json");
        cadre_auto(cadre_free) char *place = cadre_asprintf("%s/mnist", data);
        const char *arguments[] = {
            "run", job,    "--data",           place,  "--strategy", examples[i].name,
            "-o",  "json", "--checkpoint-dir", "none", NULL};
        json_t *result = expect_trained(&command, command_run(&command, arguments), &examples[i]);
        cr_expect_geq(json_number_at(result, "accuracy"), 0.94);
        json_decref(result);
        command_close(&command);
    }
}

/* --- what a word means --- */

/* What a run of `cadre` has printed to stdout, which must hold `text`. */
static void
expect_printed(const command_t *command, const char *text)
{
    cadre_auto(cadre_free) char *output = command_output(command);
    cr_expect_not_null(strstr(output, text), "%s is not in: %s", text, output);
}

Test(strategies, are_shown_as_what_they_mean_for_a_job)
{
    compute_with_one_thread();
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *show[] = {"config", "show", "--origin", "--strategy", "central", job, NULL};
    command_expect_exit(&command, command_run(&command, show), 0);
    expect_printed(&command, "strategy.type                    central                          "
                             "# flag\n"
                             "cluster.tasks                    threads                          "
                             "# from strategy central\n"
                             "cluster.ps                       1                                "
                             "# from strategy central\n"
                             "cluster.workers                  2                                "
                             "# file\n");
    expect_printed(&command, "training.consistency             sync                             "
                             "# from strategy central\n"
                             "training.step_closures           2                                "
                             "# from strategy central\n");
    command_close(&command);
}

/* Asks a run how it stands until it says `wanted`. */
static void
expect_status(const char *tasks, const char *wanted)
{
    digits_t digits;
    digits_open(&digits, 100000);
    digits_add(&digits, "--strategy", "mirrored");
    digits_add(&digits, "--tasks", tasks);
    digits_start(&digits);
    digits_wait_said(&digits, "epoch=1/");
    cadre_auto(cadre_free) char *errors = command_errors(&digits.command);
    const char *said = strstr(errors, "coordinator=") + strlen("coordinator=");
    cadre_auto(cadre_free) char *address = cadre_strndup(said, strcspn(said, "\n"));
    command_t asking;
    command_open(&asking);
    const char *text[] = {"status", "--coordinator", address, NULL};
    cadre_auto(cadre_free) char *output = NULL;
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    do { /* the first pass may end before the second worker has joined */
        require(again(deadline), wanted);
        cadre_free(&output);
        command_expect_exit(&asking, command_run(&asking, text), 0);
        output = command_output(&asking);
    } while (!strstr(output, wanted));
    const char *json[] = {"status", "--coordinator", address, "-o", "json", NULL};
    command_expect_exit(&asking, command_run(&asking, json), 0);
    expect_printed(&asking, "\"strategy\":\"mirrored\"");
    command_close(&asking);
    digits_close(&digits);
}

Test(strategies, are_named_by_the_status_of_a_run)
{
    expect_status("threads", "1 of 1 ps, 1 workers, strategy mirrored, ");
    expect_status("processes", "2 of 2 ps, 2 workers, strategy mirrored, ");
}

Test(strategies, S4_that_settings_contradict_are_refused)
{
    static const char *const flags[][2] = {
        {"--ps", "2"}, {"--workers", "3"}, {"--consistency", "bounded"}, {"--device", "tpu"}};
    for (size_t i = 0; i < CADRE_COUNT_OF(flags); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
        const char *run[] = {"run", job, "--strategy", "local", flags[i][0], flags[i][1], NULL};
        bool is_device = strcmp(flags[i][0], "--device") == 0; /* wrong with any strategy */
        command_expect_exit(&command, command_run(&command, run), is_device ? 2 : 78);
        cadre_auto(cadre_free) char *errors = command_errors(&command);
        cr_expect_not_null(strstr(errors, flags[i][0]), "%s", errors);
        cr_expect_not_null(strstr(errors, is_device ? "TPUs" : "--strategy is local"), "%s",
                           errors);
        command_close(&command);
    }
}

Test(strategies, consistencies_take_their_numbers_from_flags_and_are_slow_without)
{
    static const struct {
        const char *consistency;
        const char *flag;
    } cases[] = {{"sync", "--step-closures"}, {"bounded", "--staleness-bound"}};
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(cases); i++) {
        const bool says_number = i % 2 > 0;
        digits_t digits;
        digits_open(&digits, 1);
        digits_add(&digits, "--consistency", cases[i / 2].consistency);
        if (says_number) {
            digits_add(&digits, cases[i / 2].flag, "4");
        }
        digits_start(&digits);
        command_end(&digits.command); /* below the target of the file after one epoch */
        cadre_auto(cadre_free) char *errors = command_errors(&digits.command);
        cr_expect(strstr(errors, "epoch=1/1"), "%s", errors);
        cr_expect_eq(!strstr(errors, "closures run one after the other"), says_number, "%s",
                     errors);
        json_t *result = command_result(&digits.command);
        digits_expect_number(result, "updates.0.applied", DIGITS_CLOSURES);
        json_decref(result);
        digits_close(&digits);
    }
}

Test(strategies, tell_a_program_the_cluster_and_the_word)
{
    command_t command;
    command_open(&command);
    const char *run[] = {"run",       "--strategy", "multi_worker",
                         "--workers", "3",          "--",
                         "sh",        "-c",         "echo $CADRE_STRATEGY $CADRE_CLUSTER",
                         NULL};
    command_expect_exit(&command, command_run(&command, run), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    cr_expect_eq(strncmp(output, "multi_worker {", 14), 0, "%s", output);
    json_t *cluster = json_loads(strchr(output, '{'), 0, NULL);
    const json_t *tasks = json_object_get(cluster, "cluster");
    cr_expect_eq(json_array_size(json_object_get(tasks, "ps")), 3, "%s", output);
    cr_expect_eq(json_array_size(json_object_get(tasks, "worker")), 3, "%s", output);
    json_decref(cluster);
    command_close(&command);
}

Test(strategies, S1_train_a_program_that_names_none)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(examples); i++) {
        command_t command;
        command_open(&command);
        cadre_auto(cadre_free) char *program = program_path("examples/mlp");
        cadre_auto(cadre_free) char *data = source_path("examples");
        cadre_auto(cadre_free) char *rows = source_path("examples/data/digits.csv.gz");
        const char *run[] = {"run", "--strategy", examples[i].name, "--data", data, "--", program,
                             rows,  NULL};
        command_expect_exit(&command, command_run(&command, run), 0);
        double accuracy = 0;
        cadre_auto(cadre_free) char *output = command_output(&command);
        const char *said = strstr(output, "accuracy ");
        cr_expect(said && sscanf(said, "accuracy %lf", &accuracy) == 1 && accuracy >= 0.95,
                  "%s: %s", examples[i].name, output);
        command_close(&command);
    }
}

/* --- local steps --- */

/* Trains a shipped example to the target that its file states, in so many closures. */
static void
expect_local(const char *name, double closures, double accuracy)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *file = cadre_asprintf("examples/%s.json", name);
    cadre_auto(cadre_free) char *job = source_path(file);
    const char *run[] = {"run", job, "-o", "json", "--checkpoint-dir", "none", NULL};
    command_expect_exit(&command, command_run(&command, run), 0);
    json_t *result = command_result(&command);
    cr_assert(result);
    cr_expect_geq(json_number_at(result, "accuracy"), accuracy);
    cr_expect_eq(json_number_at(result, "closures.finished"), closures);
    cr_expect_eq(json_number_at(result, "examples"), 60.0 * DIGITS_ROWS);
    json_decref(result);
    command_close(&command);
}

Test(strategies, S6_diloco_trains_a_transformer_by_the_mean_of_local_steps)
{
    expect_local("diloco", 60 * 8, 0.94);
}

Test(strategies, S6_asynchronous_local_sgd_trains_with_delayed_nesterov)
{
    expect_local("local_sgd", 60 * 6, 0.96);
}

/* Half of the first pass by closures of 4 batches, the other half and the second one by closures
 * of 3: both passes end with closures of fewer rows, of another number each. */
Test(strategies, S6_a_job_that_is_resumed_with_other_local_steps_trains_on_the_rest_of_the_rows)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *checkpoints = scratch_path(&command.scratch, "checkpoints");
    const char *first[] = {
        "run",       job, "--local-steps", "4",    "--epochs",         "2",         "-o", "json",
        "--workers", "1", "--consistency", "sync", "--checkpoint-dir", checkpoints, NULL};
    cr_assert_eq(setenv("CADRE_STOP_STEPS", "5", 1), 0);
    command_run(&command, first); /* it ends below the target of the file */
    cr_assert_eq(unsetenv("CADRE_STOP_STEPS"), 0);
    json_t *result = command_result(&command);
    cr_expect_eq(json_number_at(result, "examples"), 5 * 4 * 32);
    json_decref(result);

    const char *second[] = {
        "run",       job, "--local-steps", "3",    "--epochs",         "2",         "-o", "json",
        "--workers", "1", "--resume",      "auto", "--checkpoint-dir", checkpoints, NULL};
    command_run(&command, second);
    result = command_result(&command);
    cr_expect_eq(json_number_at(result, "examples"), 2.0 * DIGITS_ROWS);
    cr_expect_eq(json_number_at(result, "closures.finished"), 5 + 9 + 15);
    json_decref(result);
    command_close(&command);
}

/* --- the CPUs of a host --- */

/* The words with which a worker was started, with a space around each. */
static char *
worker_words(const command_t *command, int index)
{
    enum { WORDS_SIZE = 8192 };
    char *words = cadre_calloc(WORDS_SIZE, 1);
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("/proc/%d/cmdline", (int)command_task(command, "worker", index));
    FILE *file = fopen(path, "rb");
    require(file != NULL, path);
    size_t size = fread(words, 1, WORDS_SIZE - 1, file);
    fclose(file);
    for (size_t i = 0; i < size; i++) {
        words[i] = words[i] ? words[i] : ' ';
    }
    return words;
}

/* Runs `workers` of `slots`, and looks for `wanted` in the words of the last one; NULL: --threads
 * is not among them. */
static void
expect_threads(const char *workers, const char *slots, const char *threads, const char *wanted)
{
    digits_t digits;
    digits_open(&digits, 100000);
    digits_add(&digits, "--workers", workers);
    digits_add(&digits, "--slots", slots);
    if (threads) {
        digits_add(&digits, "--threads", threads);
    }
    digits_start(&digits);
    digits_wait_said(&digits, "epoch=1/");
    cadre_auto(cadre_free) char *words = worker_words(&digits.command, workers[0] - '0' - 1);
    cr_expect_eq(strstr(words, wanted ? wanted : " --threads ") != NULL, wanted != NULL, "%s",
                 words);
    digits_close(&digits);
}

Test(strategies, of_more_workers_than_slots_share_the_cpus_out)
{
    int share = cadre_cpu_count() / 4;
    cadre_auto(cadre_free) char *wanted =
        cadre_asprintf(" --threads %d --device auto:3 ", share > 1 ? share : 1);
    expect_threads("4", "1", NULL, wanted);
    expect_threads("2", "2", NULL, NULL);
    expect_threads("2", "2", "3", " --threads 3 --device auto:1 ");
}

/* --- killed --- */

enum { EPOCHS = 120 };

static void
open_run(digits_t *digits, const char *name)
{
    digits_open(digits, EPOCHS);
    digits_add(digits, "--strategy", name);
    digits_add(digits, "--tasks", "processes");
    digits_add(digits, "--checkpoint-every", "0.3");
}

static json_t *
end_run(digits_t *digits, const example_t *example)
{
    json_t *result = expect_trained(&digits->command, command_end(&digits->command), example);
    digits_expect_number(result, "closures.finished", (double)digits->epochs * DIGITS_CLOSURES);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    return result;
}

/* What a run says that nobody disturbs. */
static json_t *
quiet_run(const example_t *example)
{
    digits_t digits;
    open_run(&digits, example->name);
    digits_start(&digits);
    json_t *result = end_run(&digits, example);
    digits_close(&digits);
    return result;
}

/* Kills these tasks, all at once, when an epoch has ended and a checkpoint was taken. */
static json_t *
killed_run(const example_t *example, const char *const *roles, size_t count, int index)
{
    digits_t digits;
    open_run(&digits, example->name);
    digits_start(&digits);
    command_wait_checkpoint(&digits.command);
    digits_wait_said(&digits, "epoch=1/");
    for (size_t i = 0; i < count; i++) {
        command_signal_task(&digits.command, roles[i], index, SIGKILL);
    }
    json_t *result = end_run(&digits, example);
    digits_close(&digits);
    return result;
}

static void
expect_same(const json_t *killed, const json_t *quiet)
{
    cr_expect_eq(json_number_at(killed, "failures.worker"), 1);
    /* synchronous: the same numbers, to the last digit of the result */
    cr_expect_eq(json_number_at(killed, "loss"), json_number_at(quiet, "loss"));
}

static const char *const worker[] = {"worker"};

static void
expect_survives(size_t number)
{
    json_t *quiet = quiet_run(&apart[number]);
    json_t *killed = killed_run(&apart[number], worker, 1, 0);
    expect_same(killed, quiet);
    json_decref(quiet);
    json_decref(killed);
}

Test(strategies, S2_parameter_server_goes_on_when_a_worker_is_killed)
{
    json_t *killed = killed_run(&apart[0], worker, 1, 0);
    cr_expect_eq(json_number_at(killed, "failures.worker"), 1);
    json_decref(killed);
}

Test(strategies, S2_mirrored_gives_the_same_when_a_worker_is_killed)
{
    expect_survives(2);
}

Test(strategies, S2_central_gives_the_same_when_a_worker_is_killed)
{
    expect_survives(3);
}

Test(strategies, S2_local_gives_the_same_when_its_worker_is_killed)
{
    expect_survives(4);
}

Test(strategies, S3_multi_worker_gives_the_same_when_a_worker_or_a_whole_host_is_killed)
{
    static const char *const host[] = {"worker", "ps"};
    json_t *quiet = quiet_run(&apart[1]);
    json_t *killed = killed_run(&apart[1], worker, 1, 0);
    expect_same(killed, quiet);
    json_decref(killed);
    killed = killed_run(&apart[1], host, 2, 1);
    expect_same(killed, quiet);
    cr_expect_eq(json_number_at(killed, "failures.ps"), 1);
    json_decref(quiet);
    json_decref(killed);
}
