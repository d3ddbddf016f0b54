/*
 * What lives and does nothing: a worker that cannot reach one ps, a ps whose shard stands still, a
 * coordinator that is frozen while another one has its place, a worker on which closures run past
 * their deadline. Nobody's process ends by itself, and all work must be done nevertheless.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/net.h"
#include "tests/system/process.h"

enum {
    PS = 2,
    WORKERS = 2,
    LEASE_MS = 1500,
    LONG_LEASE_MS = 600000, /* is of no help */
    DEADLINE_MS = 1000,
    EXIT_STUCK = 70, /* of a ps whose thread does not end */
};

/* --- a worker that cannot reach a ps --- */

static void
hurry_worker(void *context, field_role_t role, int index, field_start_t *start)
{
    (void)context;
    (void)index;
    if (role == FIELD_WORKER) {
        start->after[0] = "--shard-timeout";
        start->after[1] = "2";
    }
}

typedef struct {
    pid_t worker;
    int ps; /* -1: none */
} named_t;

/* Whether the job's state says of the worker that it does not reach that ps, or reaches all. */
static bool
is_named(field_t *field, void *context)
{
    const named_t *named = context;
    char process[32];
    char list[32] = "\"unreachable\":[]";
    if (named->ps >= 0) {
        snprintf(list, sizeof(list), "\"unreachable\":[%d]", named->ps);
    }
    snprintf(process, sizeof(process), "\"process\":%d,", (int)named->worker);
    cadre_auto(cadre_free) char *status = file_text(field->board->status);
    const char *task = strstr(status, process);
    task = task ? strstr(task, "\"unreachable\":") : NULL;
    return task && strncmp(task, list, strlen(list)) == 0;
}

static uint64_t
count_returned(field_t *field)
{
    cadre_auto(cadre_free) char *status = file_text(field->board->status);
    const char *returned = strstr(status, "\"returned\":");
    return returned ? strtoull(returned + strlen("\"returned\":"), NULL, 10) : 0;
}

/* How long everything took that was scheduled when they were parted. */
static int64_t
part(chaos_run_t *run, net_t *net)
{
    field_t *field = &net->field;
    named_t named = {.worker = field->pids[FIELD_WORKER][chaos_draw(run, WORKERS)],
                     .ps = chaos_draw(run, PS)};
    int link = net->to_ps[named.ps];
    int64_t parted_ms = cadre_clock_now_ms();
    proxy_rule(net->proxy, link, named.worker, PROXY_BOTH, (stream_rule_t){.stalled = true});
    field_await(field, "the worker to name the ps", is_named, &named);
    field_await_fence(field);
    int64_t took_ms = cadre_clock_now_ms() - parted_ms;
    if (chaos_draw(run, 2)) { /* as after a partition that TCP gave up on */
        proxy_reset(net->proxy, link, named.worker);
    }
    proxy_heal(net->proxy);
    named.ps = -1;
    field_await(field, "the worker to reach all again", is_named, &named);
    field_await_fence(field);
    return took_ms;
}

void
chaos_unreachable(chaos_run_t *run)
{
    net_t net;
    board_t last;
    double *took_ms = cadre_calloc((size_t)run->count, sizeof(*took_ms));
    const field_options_t options = {.ps = PS,
                                     .workers = WORKERS,
                                     .checkpoints = true,
                                     .settings = {.seed = run->seed, .checkpoint_every_ms = 500},
                                     .prepare = hurry_worker};
    net_open(&net, &options);
    for (int i = 0; i < run->count; i++) {
        took_ms[i] = (double)part(run, &net);
    }
    uint64_t returned = count_returned(&net.field);
    net_close(&net, &last);
    require(returned > 0 && last.workers_lost == 0 && last.ps_lost == 0,
            "closures given back, and nobody taken for lost");
    double most = chaos_percentile(took_ms, run->count, 100);
    chaos_say(run,
              "a worker cut off from one ps %d times, timeout 2 s: %" PRIu64
              " updates exact, %" PRIu64 " closures given back, all done after %.0f ms at most",
              run->count, last.updates, returned, most);
    chaos_number(run, "returned", (double)returned);
    chaos_number(run, "done_max_ms", most);
    free(took_ms);
}

/* --- a ps that stands still --- */

/* The thread of the process that has this name; ends the test when there is none. */
static pid_t
find_thread(pid_t pid, const char *name)
{
    pid_t found = 0;
    cadre_auto(cadre_free) char *folder = cadre_asprintf("/proc/%d/task", (int)pid);
    DIR *threads = opendir(folder);
    require(threads != NULL, folder);
    for (struct dirent *entry = readdir(threads); entry; entry = readdir(threads)) {
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s/comm", folder, entry->d_name);
        cadre_auto(cadre_free) char *text = file_text(path);
        if (strncmp(text, name, strlen(name)) == 0) {
            found = (pid_t)strtol(entry->d_name, NULL, 10);
        }
    }
    closedir(threads);
    require(found > 0, name);
    return found;
}

/* Stops one thread of a child, as a lock that nobody gives back would; 0 when that is not allowed
 * here. */
static pid_t
stop_thread(pid_t pid, const char *name)
{
    int status = 0;
    pid_t thread = find_thread(pid, name);
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) < 0) {
        return 0;
    }
    require(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0, "a thread to stop");
    require(waitpid(thread, &status, __WALL) == thread, "a stopped thread");
    return thread;
}

static bool
has_lost_ps(field_t *field, void *context)
{
    const uint64_t *lost = context;
    return field->board->ps_lost >= *lost;
}

/* Its process must end by itself, so that whoever started it starts another one. */
static void
await_end_of_stuck(pid_t pid, pid_t thread)
{
    int end = 0;
    deadline_t deadline = deadline_in(FIELD_WAIT_MS);
    while (waitpid(thread, &end, __WALL | WNOHANG) == 0) {
        require(again(deadline), "a stuck ps to end");
    }
    require(process_wait(pid, FIELD_WAIT_MS, &end), "a stuck ps to end");
    require(WIFEXITED(end) && WEXITSTATUS(end) == EXIT_STUCK, "its exit status to be 70");
}

/* One ps whose shard's thread stands still, or that is stopped for good; false when threads cannot
 * be stopped here. */
static bool
stand_still(chaos_run_t *run, field_t *field, bool whole)
{
    int index = chaos_draw(run, PS);
    pid_t pid = field->pids[FIELD_PS][index];
    uint64_t lost = field->board->ps_lost + 1;
    pid_t thread = whole ? 0 : stop_thread(pid, "cadre-shard");
    if (!whole && thread == 0) {
        return false;
    }
    require(!whole || kill(pid, SIGSTOP) == 0, "a ps to stop");
    field->pids[FIELD_PS][index] = 0; /* its end is no failure, and it is not waited for */
    field_await(field, "a ps that stands still to be lost", has_lost_ps, &lost);
    if (!whole) {
        await_end_of_stuck(pid, thread);
    }
    field_start(field, FIELD_PS, index);
    field_await_fence(field);
    field_await_whole(field);
    if (whole) {
        int end = 0;
        require(kill(pid, SIGKILL) == 0 && process_wait(pid, FIELD_WAIT_MS, &end), "its end");
    }
    return true;
}

void
chaos_stuck_ps(chaos_run_t *run)
{
    field_t field;
    board_t last;
    const field_options_t options = {
        .ps = PS,
        .workers = WORKERS,
        .checkpoints = true,
        .settings = {.seed = run->seed, .lease_ms = LEASE_MS, .checkpoint_every_ms = 500}};
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        if (!stand_still(run, &field, i % 2 == 1)) {
            chaos_skip(run, "threads of a child cannot be stopped here");
        }
    }
    field_close(&field, &last);
    chaos_say(
        run,
        "%d ps that stand still and live (every other one its shard's thread alone), lease %d "
        "ms: %" PRIu64 " updates exact, %" PRIu64 " ps lost",
        run->count, LEASE_MS, last.updates, last.ps_lost);
    chaos_number(run, "updates", (double)last.updates);
    chaos_number(run, "ps_lost", (double)last.ps_lost);
}

/* --- a coordinator that is frozen while another one has its place --- */

typedef struct {
    char service[CADRE_ENDPOINT_TEXT_SIZE]; /* what tasks dial */
    char *place;                            /* a link to the socket of who serves */
} service_t;

static void
dial_service(void *context, field_role_t role, int index, field_start_t *start)
{
    const service_t *service = context;
    (void)index;
    if (role != FIELD_JOB) {
        start->coordinator = service->service;
    }
}

/* From now on the service is at another socket. */
static void
point_to(const service_t *self, const char *socket)
{
    cadre_auto(cadre_free) char *next = cadre_asprintf("%s.next", self->place);
    require(symlink(socket, next) == 0 && rename(next, self->place) == 0, "a link");
}

/* A job like the field's, with a board and a socket of its own. */
static board_t *
begin_second(field_t *field, const char *socket, pid_t *pid)
{
    cadre_auto(cadre_free) char *path = scratch_path(&field->scratch, "board-2");
    cadre_auto(cadre_free) char *log = scratch_path(&field->scratch, "job-2.log");
    cadre_auto(cadre_free) char *program = program_path("../tests/chaos_job");
    board_t *board = board_map(path, true);
    require(board != NULL, "a board");
    *board = field->options.settings;
    board->ps = PS;
    board->lease_ms = LEASE_MS;
    board->ps_timeout_ms = field->board->ps_timeout_ms;
    board->alpha_rows = field->board->alpha_rows;
    snprintf(board->address, sizeof(board->address), "ipc://%s", socket);
    snprintf(board->status, sizeof(board->status), "%s.status", path);
    *pid = process_start(
        &(process_t){.arguments = (const char *const[]){program, path, NULL}, .output = log});
    return board;
}

/* Waits until the job trains and has every worker: one that has not joined would wait for the next
 * job when this one ends. */
static void
await_running(field_t *field, const board_t *board)
{
    deadline_t deadline = deadline_in(FIELD_WAIT_MS);
    while (board->state != BOARD_RUNNING || board->finished == 0 || board->workers < WORKERS) {
        if (board->state == BOARD_FAILED || !again(deadline)) {
            field_fail(field,
                       "the second job has not its tasks: state %u, %" PRIu64 " ps, %" PRIu64
                       " workers, %s",
                       board->state, board->ps_there, board->workers, board->text);
        }
    }
}

/* The field's tasks must go over to a second coordinator, though the first one's connections live;
 * how long that took. */
static int64_t
take_over(field_t *field, const service_t *service, board_t *last)
{
    int end = 0;
    pid_t pid = 0;
    pid_t first = field->pids[FIELD_JOB][0];
    cadre_auto(cadre_free) char *socket = scratch_path(&field->scratch, "second");
    require(kill(first, SIGSTOP) == 0, "a job to stop");
    field->pids[FIELD_JOB][0] = 0;
    int64_t frozen_ms = cadre_clock_now_ms();
    board_t *board = begin_second(field, socket, &pid);
    point_to(service, socket);
    await_running(field, board);
    int64_t took_ms = cadre_clock_now_ms() - frozen_ms;
    board->finish = 1;
    require(process_wait(pid, FIELD_WAIT_MS, &end), "the end of the second job");
    require(WIFEXITED(end) && WEXITSTATUS(end) == 0 && board->state == BOARD_DONE, board->text);
    *last = *board;
    for (int i = 0; i < PS + WORKERS; i++) {
        pid_t task = i < PS ? field->pids[FIELD_PS][i] : field->pids[FIELD_WORKER][i - PS];
        require(process_wait(task, FIELD_WAIT_MS, &end), "a task to leave with the second job");
    }
    require(kill(first, SIGKILL) == 0 && process_wait(first, FIELD_WAIT_MS, &end), "its end");
    return took_ms;
}

void
chaos_captive(chaos_run_t *run)
{
    double *took_ms = cadre_calloc((size_t)run->count, sizeof(*took_ms));
    uint64_t updates = 0;
    for (int i = 0; i < run->count; i++) {
        field_t field;
        board_t last;
        service_t service = {.place = NULL};
        const field_options_t options = {
            .ps = PS,
            .workers = WORKERS,
            .settings = {.seed = run->seed + (uint64_t)i, .lease_ms = LEASE_MS},
            .prepare = dial_service,
            .context = &service};
        field_prepare(&field, &options);
        service.place = scratch_path(&field.scratch, "service");
        snprintf(service.service, sizeof(service.service), "ipc://%s", service.place);
        point_to(&service, field.board->address + strlen("ipc://"));
        field_begin(&field);
        took_ms[i] = (double)take_over(&field, &service, &last);
        updates += last.updates;
        free(service.place);
        field_fini(&field);
    }
    double most = chaos_percentile(took_ms, run->count, 100);
    chaos_say(
        run,
        "%d coordinators frozen with live connections, lease %d ms: their tasks serve another "
        "one after %.0f ms at most, %" PRIu64 " updates exact",
        run->count, LEASE_MS, most, updates);
    chaos_number(run, "taken_over_max_ms", most);
    free(took_ms);
}

/* --- closures past their deadline --- */

void
chaos_deadline(chaos_run_t *run)
{
    field_t field;
    board_t last;
    double *took_ms = cadre_calloc((size_t)run->count, sizeof(*took_ms));
    const field_options_t options = {
        .ps = PS,
        .workers = WORKERS,
        .settings = {.seed = run->seed, .lease_ms = LONG_LEASE_MS, .deadline_ms = DEADLINE_MS}};
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        int index = chaos_draw(run, WORKERS);
        field_signal(&field, FIELD_WORKER, index, SIGSTOP);
        int64_t stopped_ms = cadre_clock_now_ms();
        field_await_fence(&field);
        took_ms[i] = (double)(cadre_clock_now_ms() - stopped_ms);
        field_signal(&field, FIELD_WORKER, index, SIGCONT);
        field_await_fence(&field);
    }
    field_close(&field, &last);
    require(last.deadlines_missed > 0 && last.workers_lost == 0,
            "second attempts for a deadline, and nobody taken for lost");
    double most = chaos_percentile(took_ms, run->count, 100);
    chaos_say(run,
              "%d workers stopped, deadline %d ms, no lease: %" PRIu64 " updates exact, %" PRIu64
              " second attempts elsewhere, all done after %.0f ms at most",
              run->count, DEADLINE_MS, last.updates, last.deadlines_missed, most);
    chaos_number(run, "deadlines_missed", (double)last.deadlines_missed);
    chaos_number(run, "done_max_ms", most);
    free(took_ms);
}
