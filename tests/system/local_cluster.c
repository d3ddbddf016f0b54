#include "tests/system/local_cluster.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/process.h"

enum {
    ARGUMENTS_MAX = 16,
    LOOK_MS = 200, /* between looks at the tasks that are joining */
};

const char *const local_checkpoints = "(in the scratch directory)";

static const char *const programs[] = {"cadre-ps", "cadre-worker"};
static const char *const names[] = {"ps", "worker"};

static void
write_log(void *context, char level, const char *event, const char *pairs)
{
    local_cluster_t *self = context;
    fprintf(self->log, "%c %s %s\n", level, event, pairs);
    fflush(self->log);
}

static void
open_coordinator(local_cluster_t *self)
{
    cadre_auto(cadre_free) char *checkpoints = scratch_path(&self->scratch, "checkpoints");
    cadre_coordinator_options_t options = self->options.coordinator;
    options.size = sizeof(options);
    options.address = self->address;
    options.ps_count = self->options.ps;
    options.lease_ms = options.lease_ms ? options.lease_ms : LOCAL_LEASE_MS;
    options.log = write_log;
    options.log_context = self;
    if (options.checkpoint_dir == local_checkpoints) {
        options.checkpoint_dir = checkpoints;
    }
    int status = cadre_coordinator_open(&options, &self->coordinator);
    require(status == 0, cadre_error_text());
}

/* Ends the test at once when a task cannot even start. */
static void
require_running(const local_cluster_t *self)
{
    for (int role = 0; role < LOCAL_ROLE_COUNT; role++) {
        for (int i = 0; i < LOCAL_TASKS_MAX; i++) {
            siginfo_t info = {.si_pid = 0};
            pid_t pid = self->tasks[role][i];
            if (pid) {
                waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
            }
            require(info.si_pid == 0, "a task ended before it had joined");
        }
    }
}

void
local_cluster_begin_job(local_cluster_t *self, const local_cluster_options_t *options)
{
    self->options = *options;
    open_coordinator(self);
    for (int i = 0; i < options->ps; i++) {
        local_cluster_start(self, LOCAL_PS, i);
    }
    for (int i = 0; i < options->workers; i++) {
        local_cluster_start(self, LOCAL_WORKER, i);
    }
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    int status;
    do {
        status = cadre_coordinator_wait_ready(self->coordinator, options->workers, LOOK_MS);
        require_running(self);
    } while (status == CADRE_ETIMEOUT && again(deadline));
    require(status == 0, cadre_error_text());
}

void
local_cluster_open(local_cluster_t *self, const local_cluster_options_t *options)
{
    *self = (local_cluster_t){.coordinator = NULL};
    scratch_open(&self->scratch);
    cadre_auto(cadre_free) char *log = scratch_path(&self->scratch, "coordinator.log");
    self->log = fopen(log, "ae");
    require(self->log != NULL, log);
    self->address = cadre_asprintf("ipc://%s/coordinator", self->scratch.path);
    self->native = program_path("../tests/conformance_functions.so");
    local_cluster_begin_job(self, options);
}

char *
local_cluster_trace(const local_cluster_t *self, int index)
{
    return cadre_asprintf("%s/worker-%d.json", self->scratch.path, index);
}

void
local_cluster_start(local_cluster_t *self, local_role_t role, int index)
{
    require(self->tasks[role][index] == 0, "a task to start does not run");
    char number[16];
    char slots[16];
    snprintf(number, sizeof(number), "%d", index);
    snprintf(slots, sizeof(slots), "%d", self->options.slots);
    cadre_auto(cadre_free) char *program = program_path(programs[role]);
    cadre_auto(cadre_free) char *own = cadre_asprintf("ipc://%s/ps-%d", self->scratch.path, index);
    cadre_auto(cadre_free) char *log =
        cadre_asprintf("%s/%s-%d.log", self->scratch.path, names[role], index);
    cadre_auto(cadre_free) char *trace = local_cluster_trace(self, index);
    const char *arguments[ARGUMENTS_MAX] = {program, "--coordinator", self->address, NULL};
    size_t count = 3;
    if (!self->options.open_indexes) {
        arguments[count++] = "--index";
        arguments[count++] = number;
    }
    if (role == LOCAL_PS) {
        arguments[count++] = "--address";
        arguments[count++] = own;
    } else {
        arguments[count++] = "--native";
        arguments[count++] = self->native;
        if (self->options.slots) {
            arguments[count++] = "--slots";
            arguments[count++] = slots;
        }
        if (self->options.trace) {
            arguments[count++] = "--trace";
            arguments[count++] = trace;
        }
    }
    self->tasks[role][index] = process_start(&(process_t){.arguments = arguments, .output = log});
}

void
local_cluster_signal(local_cluster_t *self, local_role_t role, int index, int number)
{
    require(self->tasks[role][index] > 0, "a task to signal runs");
    require(kill(self->tasks[role][index], number) == 0, "a signal");
    if (number == SIGKILL) {
        local_cluster_reap(self, role, index);
    } else if (number == SIGSTOP) {
        require(process_wait_stopped(self->tasks[role][index], LOCAL_WAIT_MS),
                "a task to stand still");
    }
}

int
local_cluster_reap(local_cluster_t *self, local_role_t role, int index)
{
    int end = 0;
    bool ended = process_wait(self->tasks[role][index], LOCAL_WAIT_MS, &end);
    if (!ended) {
        fprintf(stderr, "%s %d does not end\n", names[role], index);
    }
    require(ended, "the end of a task");
    self->tasks[role][index] = 0;
    return end;
}

void
local_cluster_restart(local_cluster_t *self, local_role_t role, int index)
{
    local_cluster_signal(self, role, index, SIGKILL);
    local_cluster_start(self, role, index);
}

void
local_cluster_wait_workers(local_cluster_t *self, int workers)
{
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    while (cadre_coordinator_totals(self->coordinator).workers != workers) {
        require(again(deadline), "the number of workers");
    }
}

/* Whether a worker was presumed dead because nothing was heard of it. */
static bool
has_lapsed(const local_cluster_t *self)
{
    cadre_auto(cadre_free) char *path = scratch_path(&self->scratch, "coordinator.log");
    cadre_auto(cadre_free) char *log = file_text(path);
    for (char *rest = log, *line; (line = strsep(&rest, "\n"));) {
        if (strstr(line, "worker_lost") && strstr(line, "its lease ran out")) {
            return true;
        }
    }
    return false;
}

void
local_cluster_wait_lost(local_cluster_t *self, uint64_t lost)
{
    deadline_t deadline = deadline_in(LOCAL_WAIT_MS);
    while (cadre_coordinator_totals(self->coordinator).workers_lost < lost) {
        require(again(deadline), "the loss of a worker");
    }
    require(!has_lapsed(self) || local_cluster_logged(self, "local_pause"),
            "a loss that the closed connection told");
}

/* Whether `tasks` of the job's state has the process. */
static bool
is_member(const json_t *tasks, pid_t pid)
{
    for (size_t i = 0; i < json_array_size(tasks); i++) {
        if (json_integer_value(json_object_get(json_array_get(tasks, i), "process")) == pid) {
            return true;
        }
    }
    return false;
}

static bool
all_workers_are_members(const local_cluster_t *self)
{
    char *text = NULL;
    require(cadre_coordinator_status_json(self->coordinator, &text) == 0, cadre_error_text());
    json_t *status = json_loads(text, 0, NULL);
    const json_t *tasks = json_object_get(status, "tasks");
    bool all = true;
    for (int i = 0; i < LOCAL_TASKS_MAX; i++) {
        pid_t pid = self->tasks[LOCAL_WORKER][i];
        all = all && (pid == 0 || is_member(tasks, pid));
    }
    json_decref(status);
    free(text);
    return all;
}

/* Waits until every worker that runs is in the job: one that is still on its way when the job ends
 * would wait for the next. Their number does not tell: one that was killed may still be counted. */
static void
await_newcomers(local_cluster_t *self)
{
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); !all_workers_are_members(self);) {
        require(again(deadline), "every worker that runs is in the job");
    }
}

void
local_cluster_end_job(local_cluster_t *self)
{
    await_newcomers(self);
    cadre_coordinator_close(&self->coordinator);
    for (int role = 0; role < LOCAL_ROLE_COUNT; role++) {
        for (int i = 0; i < LOCAL_TASKS_MAX; i++) {
            if (self->tasks[role][i]) {
                int end = local_cluster_reap(self, (local_role_t)role, i);
                require(WIFEXITED(end) && WEXITSTATUS(end) == 0, "a task ends with the job");
            }
        }
    }
}

void
local_cluster_close(local_cluster_t *self)
{
    local_cluster_end_job(self);
    fclose(self->log);
    free(self->address);
    free(self->native);
    scratch_close(&self->scratch);
}

bool
local_cluster_logged(const local_cluster_t *self, const char *text)
{
    cadre_auto(cadre_free) char *path = scratch_path(&self->scratch, "coordinator.log");
    cadre_auto(cadre_free) char *log = file_text(path);
    return strstr(log, text) != NULL;
}
