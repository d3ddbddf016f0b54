/* Clusters described by TF_CONFIG alone, as TensorFlow and its operators write it: every role is
 * started by it, with a chief and without one; and a TF_CONFIG that is none of a run's business. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(tf_config, .timeout = 900);

enum {
    TASKS = 4, /* two ps, two workers */
    END_MS = 200000,
    FIRST_PORT = 42100, /* of a cluster; tests run side by side, */
    OTHER_PORT = 42110, /* and one coordinator at a time has a port */
    WORKERS_PORT = 42120,
    STRATEGY_PORT = 42130,
};

typedef struct {
    command_t command;    /* its scratch directory */
    char *cluster;        /* the JSON of "cluster" */
    bool folderless;      /* no task is told of a folder for checkpoints */
    bool is_of_workers;   /* every task is a worker in TF_CONFIG */
    const char *strategy; /* CADRE_STRATEGY of every task; NULL: none */
    pid_t tasks[TASKS];
} cluster_t;

/* An address of the loopback network that no other test has. */
static char *
address(int port)
{
    unsigned pid = (unsigned)getpid();
    return cadre_asprintf("\"127.%u.%u.%u:%d\"", 64 + pid / 62500 % 64, pid / 250 % 250,
                          pid % 250 + 1, port);
}

static void
cluster_open(cluster_t *self, int first_port, bool has_chief)
{
    *self = (cluster_t){0};
    command_open(&self->command);
    char *items[6];
    for (int i = 0; i < 6; i++) {
        items[i] = address(first_port + i);
    }
    cadre_auto(cadre_free) char *chief =
        has_chief ? cadre_asprintf("\"chief\": [%s], ", items[0]) : cadre_strdup("");
    self->cluster = cadre_asprintf("{%s\"ps\": [%s, %s], \"worker\": [%s, %s], "
                                   "\"evaluator\": [%s]}",
                                   chief, items[1], items[2], items[3], items[4], items[5]);
    for (int i = 0; i < 6; i++) {
        free(items[i]);
    }
}

static pid_t
start(const cluster_t *self, const char *type, int index, const char *const *arguments,
      const char *output)
{
    cadre_auto(cadre_free) char *config =
        cadre_asprintf("TF_CONFIG={\"cluster\": %s, \"task\": {\"type\": \"%s\", \"index\": %d}}",
                       self->cluster, type, index);
    cadre_auto(cadre_free) char *folder =
        cadre_asprintf("CADRE_CHECKPOINT_DIR=%s", self->command.checkpoints);
    cadre_auto(cadre_free) char *examples = source_path("examples");
    cadre_auto(cadre_free) char *data = cadre_asprintf("CADRE_DATA_DIR=%s", examples);
    cadre_auto(cadre_free) char *strategy =
        cadre_asprintf("CADRE_STRATEGY=%s", self->strategy ? self->strategy : "");
    const char *environment[] = {config, data, strategy, self->folderless ? NULL : folder, NULL};
    cadre_auto(cadre_free) char *log = scratch_path(&self->command.scratch, "programs.log");
    return process_start(&(process_t){.arguments = arguments,
                                      .environment = environment,
                                      .output = output ? output : log,
                                      .errors = log});
}

/* Ps and workers, which nothing but TF_CONFIG tells who they are and where the coordinator is. */
static void
start_tasks(cluster_t *self)
{
    cadre_auto(cadre_free) char *ps = program_path("cadre-ps");
    cadre_auto(cadre_free) char *worker = program_path("cadre-worker");
    const char *ps_arguments[] = {ps, NULL};
    const char *worker_arguments[] = {worker, NULL};
    for (int i = 0; i < TASKS; i++) {
        bool is_ps = i < 2;
        self->tasks[i] = start(self, is_ps && !self->is_of_workers ? "ps" : "worker", i % 2,
                               is_ps ? ps_arguments : worker_arguments, NULL);
    }
}

static int
end_of(pid_t pid)
{
    int status = 0;
    cr_assert(process_wait(pid, END_MS, &status), "process %d does not end", (int)pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The last line of stdout of `cadre` with these arguments, started as this task; it must end well.
 */
static json_t *
result_of(const cluster_t *self, const char *type, const char *const *arguments)
{
    cadre_auto(cadre_free) char *output = scratch_path(&self->command.scratch, type);
    int code = end_of(start(self, type, 0, arguments, output));
    cadre_auto(cadre_free) char *log = scratch_path(&self->command.scratch, "programs.log");
    cadre_auto(cadre_free) char *words = file_text(log);
    cr_assert_eq(code, 0, "%s: exit %d: %s", type, code, words);
    cadre_auto(cadre_free) char *text = file_text(output);
    json_t *result = json_loads(text, 0, NULL);
    cr_assert(result, "%s", text);
    return result;
}

/* Whether the logs from `offset` on say that the worker of this index waits for a coordinator. */
static bool
waits_in_vain(const cluster_t *self, int index, size_t offset)
{
    cadre_auto(cadre_free) char *log = scratch_path(&self->command.scratch, "programs.log");
    cadre_auto(cadre_free) char *words = file_text(log);
    cadre_auto(cadre_free) char *waits =
        cadre_asprintf("\"task\":\"worker/%d\",\"event\":\"waiting_for_coordinator\"", index);
    return strlen(words) > offset && strstr(words + offset, waits);
}

/* Waits for a worker's end, after the job's; `offset`: where the logs ended then. On a busy machine
 * a worker may open its device only when the job is over. It waits for the next one then, as a
 * worker on a cluster does, and is told to go. Returns its exit status. */
static int
end_of_worker(const cluster_t *self, int index, size_t offset)
{
    const pid_t pid = self->tasks[2 + index];
    deadline_t deadline = deadline_in(END_MS);
    int status = 0;
    while (!process_wait(pid, 0, &status)) {
        if (waits_in_vain(self, index, offset)) {
            kill(pid, SIGTERM);
            return end_of(pid);
        }
        cr_assert(again(deadline), "worker %d neither ends nor waits", index);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Everybody leaves after the job: both ps and all workers that were in it, at least one. */
static void
expect_ends(const cluster_t *self, size_t offset)
{
    int in_job = 0;
    for (int i = 0; i < TASKS; i++) {
        const bool is_worker = i >= 2;
        const int code = is_worker ? end_of_worker(self, i - 2, offset) : end_of(self->tasks[i]);
        cr_expect(code == 0 || (is_worker && code == 128 + SIGTERM), "task %d: %d", i, code);
        in_job += is_worker && code == 0;
    }
    cr_expect_gt(in_job, 0, "no worker was in the job");
}

/* Trains the example as a task of `type`, then lets everybody leave. */
static void
train(cluster_t *self, const char *type)
{
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *data = source_path("examples");
    const char *arguments[] = {
        program, "train", job, "--data", data, "--checkpoint-dir", self->command.checkpoints,
        "-o",    "json",  NULL};
    start_tasks(self);
    json_t *result = result_of(self, type, arguments);
    cadre_auto(cadre_free) char *log = scratch_path(&self->command.scratch, "programs.log");
    cadre_auto(cadre_free) char *words = file_text(log);
    /* synchronous steps of so small a model ask one ps only */
    const bool is_sync = self->is_of_workers || self->strategy;
    cr_expect_eq(json_number_at(result, "updates.0.applied"), 1800);
    cr_expect_eq(json_number_at(result, "updates.1.applied"), is_sync ? 0 : 1800);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    json_decref(result);
    expect_ends(self, strlen(words));
}

static void
cluster_close(cluster_t *self)
{
    command_close(&self->command);
    free(self->cluster);
}

Test(tf_config, F27_starts_every_role_and_the_evaluator_is_not_waited_for)
{
    cluster_t cluster;
    cluster_open(&cluster, FIRST_PORT, true);
    train(&cluster, "chief"); /* without the evaluator that the cluster lists */
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {
        program, "evaluate", job, "--checkpoint-dir", cluster.command.checkpoints,
        "-o",    "json",     NULL};
    json_t *result = result_of(&cluster, "evaluator", arguments);
    cr_expect_str_eq(json_string_value(json_object_get(result, "schema")), "cadre.evaluation/v1");
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    json_decref(result);
    cluster_close(&cluster);
}

Test(tf_config, without_a_chief_worker_0_is_the_coordinator)
{
    cluster_t cluster;
    cluster_open(&cluster, FIRST_PORT, false);
    train(&cluster, "worker");
    cluster_close(&cluster);
}

/* As MultiWorkerMirroredStrategy describes its tasks: each is a worker. A ps and a worker stand on
 * each host, both with what TF_CONFIG says of that worker, and the chief is worker 0. */
Test(tf_config, S5_of_workers_alone_trains_as_multi_worker_with_a_shard_beside_each)
{
    cluster_t cluster = {0};
    command_open(&cluster.command);
    cadre_auto(cadre_free) char *first = address(WORKERS_PORT);
    cadre_auto(cadre_free) char *second = address(WORKERS_PORT + 1);
    cluster.cluster = cadre_asprintf("{\"worker\": [%s, %s]}", first, second);
    cluster.is_of_workers = true;
    train(&cluster, "worker");
    cadre_auto(cadre_free) char *output = scratch_path(&cluster.command.scratch, "worker");
    cadre_auto(cadre_free) char *text = file_text(output);
    cr_expect_not_null(strstr(text, "\"strategy\":\"multi_worker\""), "%s", text);
    cluster_close(&cluster);
}

/* Whoever has started ps and workers apart says by the word how they train. */
Test(tf_config, of_ps_and_workers_trains_as_the_strategy_that_is_named)
{
    cluster_t cluster;
    cluster_open(&cluster, STRATEGY_PORT, true);
    cluster.strategy = "central";
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {program, "train", job, "--checkpoint-dir", "none", NULL};
    cr_expect_eq(end_of(start(&cluster, "chief", 0, arguments, NULL)), 78);
    cadre_auto(cadre_free) char *log = scratch_path(&cluster.command.scratch, "programs.log");
    cadre_auto(cadre_free) char *words = file_text(log);
    cr_expect(strstr(words, "strategy central has one ps, but the cluster has 2"), "%s", words);

    cluster.strategy = "multi_worker";
    train(&cluster, "chief");
    cadre_auto(cadre_free) char *output = scratch_path(&cluster.command.scratch, "chief");
    cadre_auto(cadre_free) char *text = file_text(output);
    cr_expect_not_null(strstr(text, "\"strategy\":\"multi_worker\""), "%s", text);
    cluster_close(&cluster);
}

/* Its ps would fail the first checkpoint: the operator hears at the start what is missing. */
Test(tf_config, alone_names_no_folder_for_checkpoints_which_is_told_at_the_start)
{
    cluster_t cluster;
    cluster_open(&cluster, OTHER_PORT, true);
    cluster.folderless = true;
    start_tasks(&cluster);
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {
        program,  "train", job, "--checkpoint-dir", cluster.command.checkpoints,
        "--wait", "3",     NULL};
    cr_expect_eq(end_of(start(&cluster, "chief", 0, arguments, NULL)), 69);
    cr_expect_eq(end_of(cluster.tasks[0]), 69);
    cr_expect_eq(end_of(cluster.tasks[1]), 69);
    cadre_auto(cadre_free) char *log = scratch_path(&cluster.command.scratch, "programs.log");
    cadre_auto(cadre_free) char *words = file_text(log);
    cr_expect(strstr(words, "hello_refused"), "%s", words);
    cr_expect(strstr(words, "0 of 2 ps"), "%s", words);
    cr_expect(strstr(words, "start cadre-ps with --checkpoint-dir DIR"), "%s", words);
    cluster_close(&cluster);
}

/* `cadre run` brings its own cluster: what the environment says of another one does not matter. */
Test(tf_config, of_another_cluster_does_not_concern_a_run)
{
    static const char *const tasks[] = {"worker", "evaluator", "ps", "chief"};
    cluster_t cluster;
    cluster_open(&cluster, FIRST_PORT, true);
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *arguments[] = {program, "run",  job, "--checkpoint-dir", "none", "--epochs", "20",
                               "-o",    "json", NULL};
    for (size_t i = 0; i < CADRE_COUNT_OF(tasks); i++) {
        json_t *result = result_of(&cluster, tasks[i], arguments);
        cr_expect_eq(json_number_at(result, "closures.finished"), 900);
        json_decref(result);
    }
    free(cluster.cluster);
    cluster.cluster = cadre_strdup("{\"ps\": not even JSON");
    json_decref(result_of(&cluster, "broken", arguments));
    cluster_close(&cluster);
}
