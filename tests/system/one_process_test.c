/* Strategies whose ps and workers are threads of `cadre run`: what they compute beside processes,
 * and what becomes of them when that is stopped or killed. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(one_process, .timeout = 900);

enum {
    EPOCHS = 40,
    MANY_EPOCHS = 200, /* long enough to be stopped or killed after a checkpoint */
    WEIGHTS_SIZE = 1 << 20,
};

static const char *const strategies[] = {"mirrored", "central", "local"};

/* The values of all variables in the newest checkpoint of the run, one behind the other; returns
 * how many bytes. */
static size_t
export_weights(command_t *command, char *weights)
{
    static const char *const names[] = {"w1.npy", "b1.npy", "w2.npy", "b2.npy"};
    cadre_auto(cadre_free) char *folder = scratch_path(&command->scratch, "exported");
    const char *arguments[] = {"checkpoint", "export", command->checkpoints, "--to", folder, NULL};
    command_expect_exit(command, command_run(command, arguments), 0);
    size_t size = 0;
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, names[i]);
        FILE *file = fopen(path, "rb");
        require(file != NULL, path);
        size += fread(weights + size, 1, WEIGHTS_SIZE - size, file);
        fclose(file);
    }
    return size;
}

static void
open_run(digits_t *digits, const char *strategy, const char *tasks, int epochs)
{
    digits_open(digits, epochs);
    digits_add(digits, "--strategy", strategy);
    digits_add(digits, "--tasks", tasks);
    digits_add(digits, "--device", "cpu");
    digits_add(digits, "--threads", "1"); /* with more, two workers are processes by default */
}

/* Trains with tasks of this kind; returns the size of the weights. */
static size_t
train(const char *strategy, const char *tasks, char *weights)
{
    digits_t digits;
    open_run(&digits, strategy, tasks, EPOCHS);
    digits_start(&digits);
    digits_expect_end(&digits, 0);
    size_t size = export_weights(&digits.command, weights);
    digits_close(&digits);
    return size;
}

Test(one_process, S8_gives_the_bits_of_processes)
{
    cadre_auto(cadre_free) char *ours = cadre_calloc(WEIGHTS_SIZE, 1);
    cadre_auto(cadre_free) char *theirs = cadre_calloc(WEIGHTS_SIZE, 1);
    for (size_t i = 0; i < CADRE_COUNT_OF(strategies); i++) {
        size_t size = train(strategies[i], "threads", ours);
        cr_assert_geq(size, 9610 * sizeof(float), "%s", strategies[i]);
        cr_expect_eq(train(strategies[i], "processes", theirs), size, "%s", strategies[i]);
        cr_expect_eq(memcmp(ours, theirs, size), 0, "%s", strategies[i]);
    }
}

/* The children of the run's main thread. */
static char *
children(const command_t *command)
{
    enum { LIST_SIZE = 4096 };
    char *list = cadre_calloc(LIST_SIZE, 1);
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("/proc/%d/task/%d/children", (int)command->pid, (int)command->pid);
    FILE *file = fopen(path, "re");
    require(file != NULL, path);
    size_t size = fread(list, 1, LIST_SIZE - 1, file);
    fclose(file);
    list[size] = '\0';
    return list;
}

/* Its loss at the end. `stop` (SIGKILL, SIGINT), unless it is 0, ends it with `code` after a
 * checkpoint, from which it goes on. */
static double
loss_of(const char *strategy, int stop, int code)
{
    digits_t digits;
    open_run(&digits, strategy, "auto", MANY_EPOCHS);
    digits_add(&digits, "--checkpoint-every", "0.2");
    digits_start(&digits);
    if (stop) {
        command_wait_checkpoint(&digits.command);
        digits_wait_said(&digits, "epoch=1/");
        cadre_auto(cadre_free) char *processes = children(&digits.command);
        cr_expect_str_eq(processes, "");
        command_signal(&digits.command, stop);
        digits_expect_end(&digits, code);
        digits_add(&digits, "--resume", "auto");
        digits_start(&digits);
    }
    digits_expect_end(&digits, 0);
    json_t *result = command_result(&digits.command);
    digits_expect_number(result, "closures.finished", (double)digits.epochs * DIGITS_CLOSURES);
    digits_expect_number(result, "updates.0.applied", (double)digits.epochs * DIGITS_CLOSURES);
    double loss = json_number_at(result, "loss");
    json_decref(result);
    const int slots = strcmp(strategy, "local") == 0 ? 1 : 2;
    cadre_auto(cadre_free) char *said = cadre_asprintf(
        "strategy %s: in this process, slots=%d step_closures=%d", strategy, slots, slots);
    digits_expect_said(&digits, said);
    digits_close(&digits);
    return loss;
}

/* Goes on after both with the bits of a run that nobody disturbs. */
static void
expect_same_after_stops(const char *strategy)
{
    double loss = loss_of(strategy, 0, 0);
    cr_expect_eq(loss_of(strategy, SIGKILL, -SIGKILL), loss, "%s", strategy);
    cr_expect_eq(loss_of(strategy, SIGINT, 130), loss, "%s", strategy);
}

Test(one_process, S8_mirrored_goes_on_after_kill_9_and_ctrl_c_with_the_same_bits)
{
    expect_same_after_stops("mirrored");
}

Test(one_process, S8_local_goes_on_after_kill_9_and_ctrl_c_with_the_same_bits)
{
    expect_same_after_stops("local");
}

/* The second half of the epochs by tasks of another kind. */
static void
expect_goes_on(const char *first, const char *second)
{
    digits_t digits;
    open_run(&digits, "mirrored", first, EPOCHS);
    digits_start(&digits);
    digits_expect_end(&digits, 0);
    digits.epochs = 2 * EPOCHS;
    digits_add(&digits, "--tasks", second);
    digits_add(&digits, "--resume", "auto");
    digits_start(&digits);
    digits_expect_end(&digits, 0);
    json_t *result = command_result(&digits.command);
    digits_expect_number(result, "closures.finished", 2.0 * EPOCHS * DIGITS_CLOSURES);
    json_decref(result);
    digits_close(&digits);
}

Test(one_process, S8_goes_on_from_a_checkpoint_of_processes_and_they_from_its)
{
    expect_goes_on("processes", "threads");
    expect_goes_on("threads", "processes");
}

Test(one_process, writes_one_trace_and_removes_those_of_earlier_runs)
{
    digits_t digits;
    open_run(&digits, "central", "threads", EPOCHS);
    cadre_auto(cadre_free) char *folder = scratch_path(&digits.command.scratch, "traces");
    cadre_auto(cadre_free) char *trace = cadre_asprintf("%s/worker-0.json", folder);
    cadre_auto(cadre_free) char *earlier = cadre_asprintf("%s/worker-1.json", folder);
    cr_assert_eq(mkdir(folder, 0700), 0);
    cr_assert_eq(symlink("/dev/null", earlier), 0);
    digits_add(&digits, "--trace", folder);
    digits_start(&digits);
    digits_expect_end(&digits, 0);
    json_t *events = json_load_file(trace, 0, NULL);
    cr_expect_geq(json_array_size(events), EPOCHS * DIGITS_CLOSURES);
    json_decref(events);
    cr_expect_lt(access(earlier, F_OK), 0);
    digits_close(&digits);
}

/* Runs with these flags, which must end with 78 and say `text`. */
static void
expect_refused(const char *const flags[5], const char *text)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {"run",    job,      "--tasks", "threads", flags[0],
                               flags[1], flags[2], flags[3],  NULL};
    command_expect_exit(&command, command_run(&command, arguments), 78);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect_not_null(strstr(errors, text), "%s is not in: %s", text, errors);
    command_close(&command);
}

Test(one_process, S4_is_refused_where_it_cannot_be)
{
    expect_refused((const char *const[5]){NULL},
                   "--tasks is threads, but strategy parameter_server has processes");
    expect_refused((const char *const[5]){"--strategy", "mirrored", "--device", "cpu,cpu"},
                   "--tasks is threads, but a GPU, or a list of devices, takes a process");
    expect_refused((const char *const[5]){"--strategy", "mirrored", "--ps", "2"},
                   "--tasks is threads, but cluster.ps is 2, and one process has one");
    expect_refused((const char *const[5]){"--strategy", "central", "--slots", "1024"},
                   "2048 slots are more than the 1024 of one process");
    expect_refused((const char *const[5]){"--strategy", "mirrored", "--closure-deadline", "5"},
                   "--tasks is threads, but closure_deadline_s and backup_attempts have another");
    expect_refused((const char *const[5]){"--strategy", "local", "--native", "/dev/null"},
                   "--tasks is threads, but --native takes processes");
}

Test(one_process, is_not_chosen_where_processes_are_asked_for_or_faster)
{
    static const char *const flags[][2] = {
        {"--ps", "2"}, {"--threads", "2"}, {"--backup-attempts", "1"}, {"--device", "cpu,cpu"}};
    for (size_t i = 0; i < CADRE_COUNT_OF(flags); i++) {
        digits_t digits;
        open_run(&digits, "mirrored", "auto", 1);
        digits_add(&digits, flags[i][0], flags[i][1]);
        digits_start(&digits);
        command_end(&digits.command); /* below the target of the file after one epoch */
        digits_expect_said(&digits, "strategy mirrored: ps=2 workers=2 step_closures=2");
        digits_close(&digits);
    }
}
