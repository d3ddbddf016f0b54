/* A cluster on tcp whose tasks know each other by keys: who may take part, who may not, and what
 * ends when a key is withdrawn. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/keys/keyring.h"
#include "common/net/context.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/tensor/chunk.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(keys, .timeout = 900);

enum {
    PORT = 42200,
    EPOCHS = 20,
    CLOSURES = EPOCHS * 45,
    TASKS_MAX = 8,
    WAIT_MS = 200000,
    WITHDRAWN_MS = 5000, /* within which a connection must have ended */
};

typedef struct {
    command_t command; /* `cadre train`, and the scratch directory */
    char *address;
    char *keys;    /* of the job: keys/ */
    char *strange; /* of another job, which allows this one's: strange/ */
    pid_t tasks[TASKS_MAX];
    size_t task_count;
} cluster_t;

/* Runs a line of shell in the scratch directory. */
static void
shell(const cluster_t *self, const char *line)
{
    cadre_auto(cadre_free) char *bin = program_path("");
    cadre_auto(cadre_free) char *all =
        cadre_asprintf("cd %s && PATH=%s:$PATH && %s", self->command.scratch.path, bin, line);
    cadre_auto(cadre_free) char *log = scratch_path(&self->command.scratch, "shell.log");
    const char *arguments[] = {"/bin/bash", "-c", all, NULL};
    int end = 0;
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = log});
    cr_assert(process_wait(pid, WAIT_MS, &end) && end == 0, "%s", line);
}

/* The coordinator waits for two ps and `workers`. Strangers have pairs of their own and believe in
 * the job's coordinator and ps. */
static void
cluster_open(cluster_t *self, const char *workers)
{
    unsigned pid = (unsigned)getpid();
    *self = (cluster_t){.task_count = 0};
    command_open(&self->command);
    self->address = cadre_asprintf("tcp://127.%u.%u.%u:%d", 64 + pid / 62500 % 64, pid / 250 % 250,
                                   pid % 250 + 1, PORT);
    self->keys = scratch_path(&self->command.scratch, "keys");
    self->strange = scratch_path(&self->command.scratch, "strange");
    shell(self, "cadre keygen keys && cadre keygen strange && rm -r strange/allowed && "
                "cp -r keys/allowed strange");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *data = source_path("examples");
    const char *arguments[] = {"train",       job,           "--address",
                               self->address, "--keys",      self->keys,
                               "--data",      data,          "--checkpoint-dir",
                               "none",        "--workers",   workers,
                               "--epochs",    "20",          "--wait",
                               "250",         "--log-level", "info",
                               "-o",          "json",        NULL};
    command_start(&self->command, arguments);
}

/* Starts a task with these keys, or without any; its log is the file `log`. */
static void
start(cluster_t *self, const char *program, const char *keys, const char *log)
{
    cadre_auto(cadre_free) char *path = program_path(program);
    cadre_auto(cadre_free) char *data = source_path("examples");
    cadre_auto(cadre_free) char *output = scratch_path(&self->command.scratch, log);
    bool is_ps = strcmp(program, "cadre-ps") == 0;
    const char *arguments[] = {path,
                               "--coordinator",
                               self->address,
                               is_ps ? "--address" : "--data-dir",
                               is_ps ? "tcp://127.0.0.1:*" : data,
                               keys ? "--keys" : NULL,
                               keys,
                               NULL};
    cr_assert_lt(self->task_count, TASKS_MAX);
    self->tasks[self->task_count++] =
        process_start(&(process_t){.arguments = arguments, .output = output});
}

/* Waits until a file of the scratch directory has these words `times` times, while the job runs. */
static void
wait_said(const cluster_t *self, const char *file, const char *words, int times)
{
    cadre_auto(cadre_free) char *path = scratch_path(&self->command.scratch, file);
    int found = 0;
    for (deadline_t deadline = deadline_in(WAIT_MS); found < times;) {
        cadre_auto(cadre_free) char *text = file_text(path);
        found = 0;
        for (const char *at = text; (at = strstr(at, words)); at++) {
            found++;
        }
        bool goes_on = !command_has_ended(&self->command) && again(deadline);
        cr_assert(found >= times || goes_on, "%s: %d times \"%s\": %s", file, found, words, text);
    }
}

/* The same of what the coordinator says. */
static void
wait_coordinator(const cluster_t *self, const char *words, int times)
{
    wait_said(self, strrchr(self->command.errors, '/') + 1, words, times);
}

/* The job ends by itself, and every closure was applied once on each shard. */
static void
expect_exact(cluster_t *self)
{
    command_expect_exit(&self->command, command_end(&self->command), 0);
    json_t *result = command_result(&self->command);
    cr_expect_eq(json_number_at(result, "closures.finished"), CLOSURES);
    cr_expect_eq(json_number_at(result, "updates.0.applied"), CLOSURES);
    cr_expect_eq(json_number_at(result, "updates.1.applied"), CLOSURES);
    json_decref(result);
}

/* Ends what strangers still run. */
static void
cluster_close(cluster_t *self)
{
    for (size_t i = 0; i < self->task_count; i++) {
        int end = 0;
        kill(self->tasks[i], SIGKILL);
        process_wait(self->tasks[i], WAIT_MS, &end);
    }
    command_close(&self->command);
    free(self->address);
    free(self->keys);
    free(self->strange);
}

/* Strangers come first and stay: none of them is let in while the job runs. */
Test(keys, let_the_tasks_of_a_job_in_and_nobody_else)
{
    cluster_t cluster;
    cluster_open(&cluster, "2");
    wait_coordinator(&cluster, "coordinator address", 1);
    start(&cluster, "cadre-worker", cluster.strange, "strange.log");
    start(&cluster, "cadre-worker", NULL, "plain.log");
    wait_said(&cluster, "strange.log", "it does not allow the key of this task", 1);
    wait_said(&cluster, "plain.log", "it wants a key: give --keys DIR", 1);
    wait_coordinator(&cluster, "its key is not allowed", 1);
    wait_coordinator(&cluster, "connections_refused large=0 many=0 strange=", 1);
    cadre_auto(cadre_free) char *ask = cadre_asprintf(
        "cadre status --wait 200 --coordinator %s --keys keys | grep '^job digits: 0 of 2 ps' "
        "&& ! cadre status --wait 200 --coordinator %s --keys strange",
        cluster.address, cluster.address);
    shell(&cluster, ask);
    for (int i = 0; i < 2; i++) {
        start(&cluster, "cadre-ps", cluster.keys, "ps.log");
        start(&cluster, "cadre-worker", cluster.keys, "worker.log");
    }
    expect_exact(&cluster);
    cluster_close(&cluster);
}

/* Whoever has a worker's key can be a worker and nothing else, whatever its file says. */
Test(keys, of_a_worker_make_no_ps)
{
    cluster_t cluster;
    cluster_open(&cluster, "1");
    wait_coordinator(&cluster, "coordinator address", 1);
    shell(&cluster,
          "cp -r keys thief && sed 's/\"worker\"/\"ps\"/' keys/worker.key > thief/ps.key");
    cadre_auto(cadre_free) char *thief = scratch_path(&cluster.command.scratch, "thief");
    start(&cluster, "cadre-ps", thief, "thief.log");
    wait_coordinator(&cluster, "a key of the role worker speaks as ps", 1);
    for (int i = 0; i < 2; i++) {
        start(&cluster, "cadre-ps", cluster.keys, "ps.log");
    }
    start(&cluster, "cadre-worker", cluster.keys, "worker.log");
    expect_exact(&cluster);
    cluster_close(&cluster);
}

/* A guest has joined when its key is withdrawn: its connection ends, and it does not come back.
 * That of a ps, whose key stands, does, and the job is as if nothing had been. Until the second ps
 * is there nothing runs. */
Test(keys, that_are_withdrawn_end_their_connections)
{
    cluster_t cluster;
    cluster_open(&cluster, "2");
    shell(&cluster, "sed '/secret-key/d' strange/worker.key > keys/allowed/.new && "
                    "chmod 644 keys/allowed/.new && mv keys/allowed/.new keys/allowed/guest.pub");
    start(&cluster, "cadre-ps", cluster.keys, "ps.log");
    wait_coordinator(&cluster, "task_joined task=\"ps", 1);
    start(&cluster, "cadre-worker", cluster.strange, "guest.log");
    wait_coordinator(&cluster, "task_joined task=\"worker", 1);
    shell(&cluster, "rm keys/allowed/guest.pub");
    int64_t begin_ms = cadre_clock_now_ms();
    wait_said(&cluster, "guest.log", "coordinator_lost", 1);
    int64_t took_ms = cadre_clock_now_ms() - begin_ms;
    wait_coordinator(&cluster, "key_revoked", 1);
    wait_coordinator(&cluster, "worker_lost", 1);
    wait_said(&cluster, "guest.log", "it does not allow the key of this task", 1);
    wait_said(&cluster, "ps.log", "\"disconnected\"", 1);
    wait_said(&cluster, "ps.log", "\"connected\"", 2);
    start(&cluster, "cadre-ps", cluster.keys, "ps.log");
    for (int i = 0; i < 2; i++) {
        start(&cluster, "cadre-worker", cluster.keys, "worker.log");
    }
    expect_exact(&cluster);
    cadre_auto(cadre_free) char *words = command_words(&cluster.command);
    cr_expect_not(strstr(words, "ps_lost"), "its key stands: %s", words);
    fprintf(stderr, "keys: a connection ended %d ms after its key was withdrawn (wanted %d)\n",
            (int)took_ms, WITHDRAWN_MS);
    cluster_close(&cluster);
}

/* The address that a ps has told in its log; freed by the caller. */
static char *
ps_address(const cluster_t *self)
{
    wait_said(self, "ps.log", "\"listening\"", 1);
    cadre_auto(cadre_free) char *path = scratch_path(&self->command.scratch, "ps.log");
    cadre_auto(cadre_free) char *log = file_text(path);
    const char *begin = strstr(log, "tcp://");
    cr_assert(begin, "%s", log);
    return cadre_strndup(begin, strcspn(begin, " \"\n"));
}

/* Sends a message of 2 GiB under a worker's key, until the connection is ended. */
static void
send_large(const cluster_t *self, const char *address, cadre_plane_t plane)
{
    cadre_chunk_t *chunks[CADRE_MESSAGE_CHUNKS_MAX];
    cadre_context_t *context = NULL;
    cadre_keyring_t *keyring = NULL;
    cadre_socket_t *dealer = NULL;
    cadre_endpoint_t endpoint;
    cr_assert_eq(cadre_endpoint_parse(address, &endpoint), 0);
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_keyring_open(self->keys, CADRE_KEY_WORKER, &keyring), 0);
    cadre_context_guard(context, keyring);
    cr_assert_eq(cadre_socket_open_dealer(context, plane, "worker/7/00000000000000aa", &dealer), 0);
    cr_assert_eq(cadre_socket_connect(dealer, &endpoint), 0);
    cadre_chunk_t *header = cadre_chunk_new(1);
    cadre_chunk_t *chunk = cadre_chunk_new(CADRE_CHUNK_SIZE_MAX / 2);
    for (size_t i = 0; i < CADRE_MESSAGE_CHUNKS_MAX; i++) {
        chunks[i] = chunk;
    }
    cr_assert_eq(cadre_socket_send(dealer, NULL, header, chunks, CADRE_MESSAGE_CHUNKS_MAX), 0);
    if (plane == CADRE_PLANE_CONTROL) {
        wait_coordinator(self, "connections_refused large=1", 1);
    } else {
        wait_said(self, "ps.log", "\"large\":1", 1);
    }
    cadre_chunk_unref(&chunk);
    cadre_chunk_unref(&header);
    cadre_socket_close(&dealer, 0);
    cadre_context_close(&context);
}

/* Under CURVE nobody but the reader sees where a message ends: it is ended all the same. */
Test(keys, allow_no_message_that_is_too_large)
{
    enum { GROWTH_MAX_KIB = 1 << 20 };
    cluster_t cluster;
    cluster_open(&cluster, "1");
    start(&cluster, "cadre-ps", cluster.keys, "ps.log");
    wait_coordinator(&cluster, "task_joined task=\"ps", 1);
    cadre_auto(cadre_free) char *ps = ps_address(&cluster);
    int64_t coordinator_kib = process_memory_kib(cluster.command.pid, "VmRSS:");
    int64_t ps_kib = process_memory_kib(cluster.tasks[0], "VmRSS:");
    send_large(&cluster, cluster.address, CADRE_PLANE_CONTROL);
    send_large(&cluster, ps, CADRE_PLANE_DATA);
    coordinator_kib = process_memory_kib(cluster.command.pid, "VmHWM:") - coordinator_kib;
    ps_kib = process_memory_kib(cluster.tasks[0], "VmHWM:") - ps_kib;
    fprintf(stderr, "keys: a message of 2 GiB: coordinator +%d MiB, ps +%d MiB\n",
            (int)(coordinator_kib >> 10), (int)(ps_kib >> 10));
    cr_expect_lt(coordinator_kib, GROWTH_MAX_KIB);
    cr_expect_lt(ps_kib, GROWTH_MAX_KIB);
    start(&cluster, "cadre-ps", cluster.keys, "second.log");
    start(&cluster, "cadre-worker", cluster.keys, "worker.log");
    expect_exact(&cluster);
    cluster_close(&cluster);
}

/* Every task says what is missing, before anybody connects. */
Test(keys, are_asked_for_where_others_could_connect)
{
    cluster_t cluster = {.task_count = 0};
    command_open(&cluster.command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *const beyond[] = {"train", job, "--address", "*:42209", NULL};
    cr_expect_neq(command_run(&cluster.command, beyond), 0);
    cadre_auto(cadre_free) char *errors = command_errors(&cluster.command);
    cr_expect(strstr(errors, "cadre keygen DIR"), "%s", errors);
    const char *const both[] = {
        "train",  job, "--address", "tcp://chief.example:42209", "--insecure-transport",
        "--keys", "k", NULL};
    cr_expect_neq(command_run(&cluster.command, both), 0);
    cadre_auto(cadre_free) char *excluded = command_errors(&cluster.command);
    cr_expect(strstr(excluded, "exclude each other"), "%s", excluded);
    command_close(&cluster.command);
}

/* What is wrong with keys is said before a job begins, and is wrong configuration (78). */
Test(keys, that_are_wrong_are_told_by_who_reads_them)
{
    cluster_t cluster = {.task_count = 0};
    command_open(&cluster.command);
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *line = cadre_asprintf(
        "cadre keygen keys && at='--coordinator tcp://127.0.0.1:9' && "
        "expect() { wanted=$1; shift; said=$(\"$@\" 2>&1); code=$?; echo \"$code $said\"; "
        "[ $code = 78 ] && [[ $said == *\"$wanted\"* ]]; } && "
        "cadre-worker --check $at --keys keys && "
        "expect 'cadre keygen nope' cadre-worker --check $at --keys nope && "
        "expect 'cadre keygen DIR' cadre-worker --check --coordinator tcp://192.0.2.1:9 && "
        "chmod 644 keys/*.key && "
        "expect 'chmod 600' cadre-worker --check $at --keys keys && "
        "expect 'chmod 600' cadre-worker $at --keys keys && "
        "expect 'chmod 600' cadre-ps --check $at --keys keys && "
        "chmod 600 keys/*.key && rm keys/client.key && "
        "expect 'a client needs its pair' cadre status $at --keys keys && "
        "expect 'next: cadre keygen nope' cadre train %s --address tcp://127.0.0.1:* --keys nope",
        job);
    shell(&cluster, line);
    command_close(&cluster.command);
}
