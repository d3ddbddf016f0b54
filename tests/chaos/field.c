#include "tests/chaos/field.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/train/job_keys.h"
#include "tests/system/process.h"

enum {
    ARGUMENTS_MAX = 24,
    FIRST_CLOSURES = 20, /* that must end before a test begins */
    FINISH_MS = 120000,  /* for the end of the job */
    LEASE_DEFAULT_MS = 3000,
    PS_TIMEOUT_MS = 120000,
    ALPHA_ROWS = 1000,
};

static const char *const names[] = {"job", "ps", "worker"};

/* --- failing --- */

void
field_fail(field_t *self, const char *format, ...)
{
    va_list arguments;
    const board_t *board = self->board;
    va_start(arguments, format);
    fprintf(stderr, "chaos: ");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr,
            "\n---- board: state=%u starts=%" PRIu64 " scheduled=%" PRIu64 " finished=%" PRIu64
            " workers=%" PRIu64 " ps=%" PRIu64 " beats=%" PRIu64 " %s\n",
            board->state, board->starts, board->scheduled, board->finished, board->workers,
            board->ps_there, board->beats, board->text);
    cadre_auto(cadre_free) char *status = file_text(board->status);
    fprintf(stderr, "---- status\n%s", status);
    abort();
}

/* A job that has gone is not what it shows any more. */
static void
forget_state(field_t *self, field_role_t role)
{
    if (role == FIELD_JOB) {
        self->board->state = BOARD_STARTING;
    }
}

static void
require_alive(field_t *self, field_role_t role, int index)
{
    int end = 0;
    pid_t pid = self->pids[role][index];
    if (pid == 0 || waitpid(pid, &end, WNOHANG) != pid) {
        return;
    }
    self->pids[role][index] = 0;
    bool killed = WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL;
    if (killed && self->may_be_killed[role][index]) {
        forget_state(self, role);
    } else {
        field_fail(self, "%s %d ended by itself: %s %d", names[role], index,
                   WIFSIGNALED(end) ? "signal" : "exit",
                   WIFSIGNALED(end) ? WTERMSIG(end) : WEXITSTATUS(end));
    }
}

void
field_tend(field_t *self)
{
    if (self->board->state == BOARD_FAILED) {
        field_fail(self, "the job failed: %s", self->board->text);
    }
    for (int role = 0; role < FIELD_ROLE_COUNT; role++) {
        for (int i = 0; i < field_count(self, (field_role_t)role); i++) {
            require_alive(self, (field_role_t)role, i);
        }
    }
}

/* --- waiting --- */

void
field_await(field_t *self, const char *what, field_condition_t condition, void *context)
{
    deadline_t deadline = deadline_in(FIELD_WAIT_MS);
    while (!condition(self, context)) {
        field_tend(self);
        if (!again(deadline)) {
            field_fail(self, "waited %d ms for %s", FIELD_WAIT_MS, what);
        }
    }
}

void
field_spend(field_t *self, int64_t ms)
{
    deadline_t deadline = deadline_in(ms);
    do {
        field_tend(self);
    } while (ms > 0 && again(deadline));
}

static bool
has_finished(field_t *self, void *context)
{
    const uint64_t *closures = context;
    return self->board->state == BOARD_RUNNING && self->board->finished >= *closures;
}

void
field_await_progress(field_t *self, uint64_t closures)
{
    closures += self->board->finished;
    field_await(self, "closures to finish", has_finished, &closures);
}

/* Whether the job's state names every process that runs: counts alone would take one that is not
 * yet known to be gone for the one that is not yet known to be there. */
static bool
is_whole(field_t *self, void *context)
{
    (void)context;
    if (self->board->state != BOARD_RUNNING) {
        return false;
    }
    cadre_auto(cadre_free) char *status = file_text(self->board->status);
    bool whole = true;
    for (int role = FIELD_PS; role < FIELD_ROLE_COUNT; role++) {
        for (int i = 0; i < FIELD_TASKS_MAX; i++) {
            char process[32];
            snprintf(process, sizeof(process), "\"process\":%d,", (int)self->pids[role][i]);
            whole = whole && (self->pids[role][i] == 0 || strstr(status, process));
        }
    }
    return whole;
}

void
field_await_whole(field_t *self)
{
    field_await(self, "all tasks to be members", is_whole, NULL);
}

static bool
is_fenced(field_t *self, void *context)
{
    (void)context;
    return self->board->fenced == self->board->fence;
}

void
field_await_fence(field_t *self)
{
    self->board->fence++;
    field_await(self, "everything scheduled to end", is_fenced, NULL);
}

/* --- processes --- */

int
field_count(const field_t *self, field_role_t role)
{
    return role == FIELD_JOB ? 1 : role == FIELD_PS ? self->options.ps : self->options.workers;
}

static size_t
append(const char **words, size_t count, const char *word)
{
    require(count + 1 < ARGUMENTS_MAX, "room for the arguments");
    words[count] = word;
    words[count + 1] = NULL;
    return count + 1;
}

/* The words after the program of a task. */
static size_t
append_task(const char **words, size_t count, const field_start_t *start, const char *index)
{
    count = append(words, count, "--coordinator");
    count = append(words, count, start->coordinator);
    count = append(words, count, "--index");
    return append(words, count, index);
}

void
field_start(field_t *self, field_role_t role, int index)
{
    const char *job = self->options.job ? self->options.job : "../tests/chaos_job";
    const char *const programs[] = {job, "cadre-ps", "cadre-worker"};
    require(self->pids[role][index] == 0, "a process to start does not run");
    const char *folder = self->scratch.path;
    cadre_auto(cadre_free) char *program = program_path(programs[role]);
    cadre_auto(cadre_free) char *native = program_path("../tests/chaos_functions.so");
    cadre_auto(cadre_free) char *own = cadre_asprintf("ipc://%s/ps-%d", folder, index);
    cadre_auto(cadre_free) char *log = cadre_asprintf("%s/%s-%d.log", folder, names[role], index);
    char number[16];
    snprintf(number, sizeof(number), "%d", index);
    field_start_t start = {.coordinator = self->board->address, .address = own};
    if (self->options.prepare) {
        self->options.prepare(self->options.context, role, index, &start);
    }
    const char *words[ARGUMENTS_MAX] = {NULL};
    size_t count = 0;
    while (start.before[count]) {
        append(words, count, start.before[count]);
        count++;
    }
    count = append(words, count, program);
    if (role == FIELD_JOB) {
        self->board->resume = self->board->starts > 0 && self->options.checkpoints;
        append(words, count, self->board_path);
    } else {
        count = append_task(words, count, &start, number);
        count = append(words, count, role == FIELD_PS ? "--address" : "--native");
        count = append(words, count, role == FIELD_PS ? start.address : native);
    }
    if (role == FIELD_PS) {
        count = append(words, count, "--checkpoint-dir");
        count = append(words, count, folder);
    }
    for (int i = 0; start.after[i]; i++) {
        count = append(words, count, start.after[i]);
    }
    self->pids[role][index] = process_start(
        &(process_t){.arguments = words, .environment = start.environment, .output = log});
}

void
field_signal(field_t *self, field_role_t role, int index, int number)
{
    int end = 0;
    field_tend(self);
    require(self->pids[role][index] > 0, "a process to signal runs");
    require(kill(self->pids[role][index], number) == 0, "a signal");
    if (number == SIGKILL) {
        require(process_wait(self->pids[role][index], FIELD_WAIT_MS, &end), "the end of a process");
        self->pids[role][index] = 0;
        if (!WIFSIGNALED(end) || WTERMSIG(end) != SIGKILL) {
            field_fail(self, "%s %d had ended by itself (%x)", names[role], index, (unsigned)end);
        }
        forget_state(self, role);
    } else if (number == SIGSTOP) {
        require(process_wait_stopped(self->pids[role][index], FIELD_WAIT_MS),
                "a process to stand still");
    }
}

char *
field_make_keys(const scratch_t *scratch)
{
    cadre_auto(cadre_free) char *directory = scratch_path(scratch, "keys");
    cadre_auto(cadre_job_keys_fini) cadre_job_keys_t keys = {0};
    require(cadre_job_keys_make(&keys) == 0 && cadre_job_keys_write(&keys, directory) == 0,
            cadre_error_text());
    return cadre_asprintf("CADRE_KEYS=%s", directory);
}

/* --- the whole --- */

static void
fill_board(field_t *self)
{
    board_t *board = self->board;
    const char *folder = self->scratch.path;
    *board = self->options.settings;
    snprintf(board->status, sizeof(board->status), "%s/status.json", folder);
    if (self->options.address) {
        snprintf(board->address, sizeof(board->address), "%s", self->options.address);
    } else {
        snprintf(board->address, sizeof(board->address), "ipc://%s/coordinator", folder);
    }
    if (self->options.checkpoints) {
        snprintf(board->checkpoints, sizeof(board->checkpoints), "%s/checkpoints", folder);
    }
    board->ps = self->options.ps;
    board->lease_ms = board->lease_ms ? board->lease_ms : LEASE_DEFAULT_MS;
    board->ps_timeout_ms = board->ps_timeout_ms ? board->ps_timeout_ms : PS_TIMEOUT_MS;
    board->alpha_rows = board->alpha_rows ? board->alpha_rows : ALPHA_ROWS;
}

void
field_prepare(field_t *self, const field_options_t *options)
{
    *self = (field_t){.options = *options};
    scratch_open(&self->scratch);
    self->board_path = scratch_path(&self->scratch, "board");
    self->board = board_map(self->board_path, true);
    require(self->board != NULL, "a board");
    fill_board(self);
}

void
field_begin(field_t *self)
{
    for (int role = 0; role < FIELD_ROLE_COUNT; role++) {
        for (int i = 0; i < field_count(self, (field_role_t)role); i++) {
            field_start(self, (field_role_t)role, i);
        }
    }
    if (!self->board->nothing) {
        field_await_progress(self, FIRST_CLOSURES);
    }
    field_await_whole(self);
}

void
field_open(field_t *self, const field_options_t *options)
{
    field_prepare(self, options);
    field_begin(self);
}

static void
await_end(field_t *self, field_role_t role, int index, int64_t timeout_ms)
{
    int end = 0;
    if (self->pids[role][index] == 0) {
        return;
    }
    if (!process_wait(self->pids[role][index], timeout_ms, &end)) {
        field_fail(self, "%s %d does not end with the job", names[role], index);
    }
    self->pids[role][index] = 0;
    if (self->board->state == BOARD_FAILED) {
        field_fail(self, "the job failed: %s", self->board->text);
    }
    if (!WIFEXITED(end) || WEXITSTATUS(end) != 0) {
        field_fail(self, "%s %d ended with %x", names[role], index, (unsigned)end);
    }
}

void
field_close(field_t *self, board_t *last)
{
    field_await_whole(self); /* who is still on the way when the job ends would wait for the next */
    self->board->finish = 1;
    await_end(self, FIELD_JOB, 0, FINISH_MS);
    if (self->board->state != BOARD_DONE) {
        field_fail(self, "the job ended without a verdict");
    }
    for (int role = FIELD_PS; role < FIELD_ROLE_COUNT; role++) {
        for (int i = 0; i < FIELD_TASKS_MAX; i++) {
            await_end(self, (field_role_t)role, i, FIELD_WAIT_MS);
        }
    }
    if (last) {
        *last = *self->board;
    }
    field_fini(self);
}

void
field_fini(field_t *self)
{
    munmap(self->board, sizeof(board_t));
    free(self->board_path);
    scratch_close(&self->scratch);
}
