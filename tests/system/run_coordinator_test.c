/* `cadre train`, the coordinator of a cluster that exists: killed and started again while ps and
 * workers stay, and refused where there is one already. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "tests/sanitizer.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run_coordinator, .timeout = 900);

enum {
    PS = 2,
    TASKS = 4,                      /* the ps, then the workers */
    EPOCHS = SANITIZER ? 150 : 300, /* one with a sanitizer is half as fast */
    CLOSURES = EPOCHS * 45,         /* 1,438 rows in batches of 32 */
    LEAVE_MS = 120000,              /* for a task that was told to stop, on a busy machine */
};

/* Ps and workers of a cluster, and the job that is trained on it. */
typedef struct {
    command_t command;
    char *job;
    char *data; /* the folder that the job's paths are in */
    char *address;
    pid_t tasks[TASKS];
    const char *arguments[24];
} cluster_t;

static void
start_task(cluster_t *self, int number, const char *on_session_end, const char *timeout)
{
    bool is_ps = number < PS;
    char index[16];
    snprintf(index, sizeof(index), "%d", is_ps ? number : number - PS);
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *name = cadre_asprintf("task-%d.log", number);
    cadre_auto(cadre_free) char *log = scratch_path(&self->command.scratch, name);
    const char *arguments[] = {program,
                               is_ps ? "ps" : "worker",
                               "--index",
                               index,
                               "--coordinator",
                               self->address,
                               "--on-session-end",
                               on_session_end,
                               "--coordinator-timeout",
                               timeout,
                               NULL};
    self->tasks[number] = process_start(&(process_t){.arguments = arguments, .output = log});
}

static void
cluster_open(cluster_t *self, const char *on_session_end, const char *timeout)
{
    *self =
        (cluster_t){.job = source_path("examples/digits.json"), .data = source_path("examples")};
    command_open(&self->command);
    self->address = cadre_asprintf("ipc://%s/coordinator", self->command.scratch.path);
    for (int i = 0; i < TASKS; i++) {
        start_task(self, i, on_session_end, timeout);
    }
    const char *arguments[] = {"train",
                               self->job,
                               "--data",
                               self->data,
                               "--address",
                               self->address,
                               "--checkpoint-dir",
                               self->command.checkpoints,
                               "--checkpoint-every",
                               "0.1",
                               "--epochs",
                               SANITIZER ? "150" : "300",
                               "--resume",
                               "auto",
                               "-o",
                               "json",
                               NULL};
    memcpy(self->arguments, arguments, sizeof(arguments));
}

static void
cluster_close(cluster_t *self)
{
    for (int i = 0; i < TASKS; i++) {
        if (self->tasks[i]) {
            kill(self->tasks[i], SIGKILL);
            process_wait(self->tasks[i], LEAVE_MS, &(int){0});
        }
    }
    command_close(&self->command);
    free(self->job);
    free(self->data);
    free(self->address);
}

static void
expect_exact(const command_t *command)
{
    static const char *const paths[] = {"closures.scheduled", "closures.finished",
                                        "updates.0.applied", "updates.1.applied"};
    json_t *result = command_result(command);
    cr_assert(result);
    for (size_t i = 0; i < CADRE_COUNT_OF(paths); i++) {
        cr_expect_eq((int)json_number_at(result, paths[i]), CLOSURES, "%s is %.0f, not %d",
                     paths[i], json_number_at(result, paths[i]), CLOSURES);
    }
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    json_decref(result);
}

/* Starts the coordinator and kills it when it has committed a checkpoint, `kills` times or until it
 * ends before it is killed; then lets it end. How many times it was killed. */
static int
train_with_kills(cluster_t *self, int kills)
{
    long checkpoint = 0;
    command_start(&self->command, self->arguments);
    for (int i = 0; i < kills; i++) {
        checkpoint = command_wait_checkpoint_after(&self->command, checkpoint);
        if (command_has_ended(&self->command)) {
            kills = i;
            break;
        }
        command_signal(&self->command, SIGKILL);
        cr_assert_eq(command_end(&self->command), -SIGKILL);
        const char *verify[] = {"checkpoint", "verify", self->command.checkpoints, NULL};
        command_expect_exit(&self->command, command_run(&self->command, verify), 0);
        command_start(&self->command, self->arguments);
    }
    command_expect_exit(&self->command, command_end(&self->command), 0);
    return kills;
}

Test(run_coordinator, F24_is_killed_and_started_again_while_tasks_stay_and_totals_are_exact)
{
    cluster_t cluster;
    cluster_open(&cluster, "wait", "1");
    cr_expect_geq(train_with_kills(&cluster, 10), 3, "otherwise this shows nothing");
    expect_exact(&cluster.command);
    for (int i = 0; i < TASKS; i++) {
        int end = 0;
        cr_expect_eq(waitpid(cluster.tasks[i], &end, WNOHANG), 0, "task %d has stayed: %x", i, end);
    }
    cluster_close(&cluster);
}

/* The run that has ended did not warn that its checkpoint and the record of how far it was differ.
 * (Of what else it warns a slow machine decides.) */
static void
expect_no_difference(const command_t *command)
{
    cadre_auto(cadre_free) char *said = command_errors(command);
    cr_expect(strstr(said, " closures, and says that ") == NULL, "%s", said);
}

/* Whoever stops a sound job and goes on is not warned that values, steps and the place in the data
 * do not fit. */
static void
expect_quiet_resume(const char *consistency, const char *number)
{
    cluster_t cluster;
    cluster_open(&cluster, "wait", "1");
    size_t count = 0;
    while (cluster.arguments[count]) {
        count++;
    }
    cluster.arguments[count++] = "--consistency";
    cluster.arguments[count++] = consistency;
    cluster.arguments[count] = number;
    for (int i = 0; i < 3; i++) {
        const long newest = i == 0 ? 0 : command_wait_checkpoint_after(&cluster.command, 0);
        command_start(&cluster.command, cluster.arguments);
        command_wait_checkpoint_after(&cluster.command, newest);
        if (i < 2) {
            command_signal(&cluster.command, SIGTERM);
        }
        command_expect_exit(&cluster.command, command_end(&cluster.command), i < 2 ? 143 : 0);
        expect_no_difference(&cluster.command);
        cadre_auto(cadre_free) char *said = command_errors(&cluster.command);
        cr_expect_eq(strstr(said, "resumed from ") != NULL, i > 0, "%s", said);
    }
    json_t *result = command_result(&cluster.command);
    cr_expect_eq((int)json_number_at(result, "closures.finished"), CLOSURES);
    json_decref(result);
    cluster_close(&cluster);
}

Test(run_coordinator, is_stopped_and_goes_on_without_a_warning)
{
    expect_quiet_resume("async", NULL);
    expect_quiet_resume("sync", "--step-closures=2");
}

/* Every task leaves by itself, and says that nothing went wrong. */
static void
expect_dismissed(cluster_t *self)
{
    for (int i = 0; i < TASKS; i++) {
        int end = 0;
        cr_assert(process_wait(self->tasks[i], LEAVE_MS, &end), "task %d", i);
        self->tasks[i] = 0;
        cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0, "task %d: %x", i, end);
    }
}

Test(run_coordinator, F26_tasks_that_exit_with_their_session_outlive_a_killed_coordinator_only)
{
    cluster_t cluster;
    cluster_open(&cluster, "exit", "600");
    cr_expect_geq(train_with_kills(&cluster, 3), 3);
    expect_exact(&cluster.command);
    expect_dismissed(&cluster); /* the job is over, and they were told */
    cluster_close(&cluster);
}

Test(run_coordinator, tasks_that_exit_leave_when_no_coordinator_comes_back_in_time)
{
    cluster_t cluster;
    cluster_open(&cluster, "exit", "1");
    command_start(&cluster.command, cluster.arguments);
    command_wait_checkpoint(&cluster.command);
    command_signal(&cluster.command, SIGKILL);
    cr_assert_eq(command_end(&cluster.command), -SIGKILL);
    expect_dismissed(&cluster);
    cadre_auto(cadre_free) char *log = scratch_path(&cluster.command.scratch, "task-0.log");
    cadre_auto(cadre_free) char *text = file_text(log);
    cr_expect(strstr(text, "the coordinator stays away"), "%s", text);
    cluster_close(&cluster);
}

Test(run_coordinator, that_waits_for_tasks_in_vain_says_how_to_start_them)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {"train",  job, "--address",        "tcp://127.0.0.1:*",
                               "--wait", "1", "--checkpoint-dir", command.checkpoints,
                               NULL};
    command_expect_exit(&command, command_run(&command, arguments), 69);
    cadre_auto(cadre_free) char *errors = command_errors(&command);
    cr_expect(strstr(errors, "0 of 2 ps and 0 workers are there: start those that are missing by "
                             "`cadre ps --coordinator tcp://127.0.0.1:"),
              "%s", errors);
    const char *status[] = {"status", "--coordinator", "tcp://127.0.0.1:1", "--wait", "1", NULL};
    command_expect_exit(&command, command_run(&command, status), 124);
    cadre_auto(cadre_free) char *silent = command_errors(&command);
    cr_expect(strstr(silent, "no answer within 1 s: does a coordinator run there? --wait"), "%s",
              silent);
    command_close(&command);
}

/* --- two of them --- */

/* A second coordinator is refused with a text that names the first, and harms nobody. */
static void
expect_refused(const cluster_t *cluster, bool same_address)
{
    command_t second;
    char first[32];
    snprintf(first, sizeof(first), "process %d on ", (int)cluster->command.pid);
    command_open(&second);
    cadre_auto(cadre_free) char *address =
        cadre_asprintf("ipc://%s/coordinator", second.scratch.path);
    const char *arguments[] = {"train",
                               cluster->job,
                               "--address",
                               same_address ? cluster->address : address,
                               "--checkpoint-dir",
                               same_address ? second.checkpoints : cluster->command.checkpoints,
                               NULL};
    command_expect_exit(&second, command_run(&second, arguments), 77);
    cadre_auto(cadre_free) char *errors = command_errors(&second);
    cr_expect(strstr(errors, "is in use by the coordinator of job digits"), "%s", errors);
    cr_expect(strstr(errors, first), "%s: %s", first, errors);
    command_close(&second);
}

Test(run_coordinator, a_second_one_is_refused_on_the_address_and_in_the_checkpoint_directory)
{
    cluster_t cluster;
    cluster_open(&cluster, "exit", "600");
    command_start(&cluster.command, cluster.arguments);
    command_wait_checkpoint(&cluster.command);
    cr_assert_not(command_has_ended(&cluster.command));
    expect_refused(&cluster, true);
    expect_refused(&cluster, false);
    command_t reader; /* needs no lock */
    command_open(&reader);
    const char *list[] = {"checkpoint", "list", cluster.command.checkpoints, NULL};
    command_expect_exit(&reader, command_run(&reader, list), 0);
    command_close(&reader);
    command_expect_exit(&cluster.command, command_end(&cluster.command), 0);
    expect_exact(&cluster.command);
    cluster_close(&cluster);
}
