#include "tests/scale/scale.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

enum { LEAVE_MS = 5000 };

scale_arguments_t
scale_arguments(int count, char **words)
{
    scale_arguments_t self = {.count = 0};
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--short") == 0) {
            self.is_short = true;
        } else {
            require(self.count < SCALE_NUMBERS_MAX, "at most 8 numbers");
            self.numbers[self.count++] = strtol(words[i], NULL, 10);
        }
    }
    return self;
}

long
scale_number(const scale_arguments_t *self, int i, long full, long small)
{
    if (i < self->count) {
        return self->numbers[i];
    }
    return self->is_short ? small : full;
}

void
scale_check(int status, const char *what)
{
    if (status < 0) {
        cadre_auto(cadre_free) char *text = cadre_asprintf("%s: %s", what, cadre_error_text());
        require(false, text);
    }
}

double
scale_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double
scale_cpu(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

long
scale_memory_mib(pid_t pid)
{
    return (long)(process_memory_kib(pid, "VmRSS:") / 1024);
}

long
scale_memory_peak_mib(pid_t pid)
{
    return (long)(process_memory_kib(pid, "VmHWM:") / 1024);
}

int
scale_verdict(bool passed, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s ", passed ? "PASS" : "FAIL");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    return passed ? 0 : 1;
}

static void
write_log(void *context, char level, const char *event, const char *pairs)
{
    scale_cluster_t *self = context;
    fprintf(self->log, "%.3f %c %s %s\n", scale_now(), level, event, pairs);
    fflush(self->log);
}

static void
start_ps(scale_cluster_t *self, int index)
{
    cadre_auto(cadre_free) char *program = program_path("cadre-ps");
    cadre_auto(cadre_free) char *number = cadre_asprintf("%d", index);
    cadre_auto(cadre_free) char *own = cadre_asprintf("ipc://%s/ps-%d", self->scratch.path, index);
    cadre_auto(cadre_free) char *log = cadre_asprintf("%s/ps-%d.log", self->scratch.path, index);
    const char *arguments[] = {program,       "--index",   number, "--coordinator",
                               self->address, "--address", own,    NULL};
    self->ps[index] = process_start(&(process_t){.arguments = arguments, .output = log});
}

void
scale_cluster_open(scale_cluster_t *self, int ps, const cadre_coordinator_options_t *options)
{
    require(ps <= SCALE_PS_MAX, "at most 16 ps");
    *self = (scale_cluster_t){.ps_count = ps};
    setvbuf(stdout, NULL, _IOLBF, 0);
    scratch_open(&self->scratch);
    cadre_auto(cadre_free) char *log = scratch_path(&self->scratch, "coordinator.log");
    self->log = fopen(log, "ae");
    require(self->log != NULL, log);
    self->address = cadre_asprintf("ipc://%s/coordinator", self->scratch.path);
    cadre_coordinator_options_t own = options ? *options : cadre_coordinator_options();
    own.address = self->address;
    own.ps_count = ps;
    own.lease_ms = own.lease_ms ? own.lease_ms : SCALE_LEASE_MS;
    own.log = write_log;
    own.log_context = self;
    scale_check(cadre_coordinator_open(&own, &self->coordinator), "a coordinator");
    for (int i = 0; i < ps; i++) {
        start_ps(self, i);
    }
    scale_check(cadre_coordinator_wait_ready(self->coordinator, 0, SCALE_WAIT_MS), "the ps");
}

void
scale_cluster_add_workers(scale_cluster_t *self, int count, int slots)
{
    require(self->group_count < SCALE_GROUPS_MAX, "at most 16 processes with workers");
    int group = self->group_count++;
    cadre_auto(cadre_free) char *program = program_path("../tests/scale_workers");
    cadre_auto(cadre_free) char *first = cadre_asprintf("%d", self->worker_count);
    cadre_auto(cadre_free) char *number = cadre_asprintf("%d", count);
    cadre_auto(cadre_free) char *places = cadre_asprintf("%d", slots);
    cadre_auto(cadre_free) char *log =
        cadre_asprintf("%s/workers-%d.log", self->scratch.path, group);
    const char *arguments[] = {program, self->address, first, number, places, NULL};
    self->groups[group] = process_start(&(process_t){.arguments = arguments, .output = log});
    self->worker_count += count;
}

void
scale_cluster_add_processes(scale_cluster_t *self, int count, int slots)
{
    cadre_auto(cadre_free) char *program = program_path("cadre-worker");
    cadre_auto(cadre_free) char *places = cadre_asprintf("%d", slots);
    cadre_auto(cadre_free) char *library = self->native ? program_path(self->native) : NULL;
    self->tasks =
        cadre_realloc(self->tasks, (size_t)(self->task_count + count), sizeof(*self->tasks));
    for (int i = 0; i < count; i++) {
        cadre_auto(cadre_free) char *number = cadre_asprintf("%d", self->worker_count);
        cadre_auto(cadre_free) char *log =
            cadre_asprintf("%s/worker-%d.log", self->scratch.path, self->worker_count);
        const char *arguments[] = {program,       "--index",     number, "--coordinator",
                                   self->address, "--slots",     places, "--threads",
                                   "1",           "--log-level", "warn", NULL,
                                   NULL,          NULL};
        if (library) {
            arguments[11] = "--native";
            arguments[12] = library;
        }
        self->tasks[self->task_count++] =
            process_start(&(process_t){.arguments = arguments, .output = log});
        self->worker_count++;
    }
}

/* A worker that the job has lost may not know that it is over: it is ended then. */
static void
end(pid_t pid)
{
    int status = 0;
    if (!process_wait(pid, LEAVE_MS, &status)) {
        kill(pid, SIGKILL);
        process_wait(pid, SCALE_WAIT_MS, &status);
    }
}

void
scale_cluster_close(scale_cluster_t *self)
{
    cadre_coordinator_close(&self->coordinator);
    for (int i = 0; i < self->group_count; i++) {
        end(self->groups[i]);
    }
    for (int i = 0; i < self->task_count; i++) {
        end(self->tasks[i]);
    }
    for (int i = 0; i < self->ps_count; i++) {
        end(self->ps[i]);
    }
    free(self->tasks);
    fclose(self->log);
    free(self->address);
    scratch_close(&self->scratch);
}

static uint64_t
count_of(scale_cluster_t *self, const char *name)
{
    char *json = NULL;
    scale_check(cadre_coordinator_status_json(self->coordinator, &json), "a status");
    cadre_auto(cadre_free) char *key = cadre_asprintf("\"%s\":", name);
    const char *ps = strstr(json, "\"role\":\"ps\"");
    const char *found = ps ? strstr(ps, key) : NULL;
    uint64_t count = found ? strtoull(found + strlen(key), NULL, 10) : 0;
    free(json);
    return count;
}

uint64_t
scale_await_count(scale_cluster_t *self, const char *name, uint64_t least)
{
    for (deadline_t deadline = deadline_in(SCALE_WAIT_MS); count_of(self, name) < least;) {
        require(again(deadline), name);
    }
    for (deadline_t later = deadline_in(2 * CADRE_HEARTBEAT_MS); again(later);) {
    }
    return count_of(self, name);
}

void
scale_cluster_run(scale_cluster_t *self, int count)
{
    cadre_function_t *function = NULL;
    scale_check(cadre_function_native(self->coordinator, "noop", &function), "a function");
    for (int i = 0; i < count; i++) {
        scale_check(
            cadre_coordinator_schedule(self->coordinator, function, NULL, SCALE_WAIT_MS, NULL),
            "a closure");
    }
    scale_check(cadre_coordinator_join(self->coordinator, SCALE_WAIT_MS),
                "the end of the closures");
}

double
scale_await_finished(scale_cluster_t *self, uint64_t count)
{
    for (deadline_t deadline = deadline_in(SCALE_WAIT_MS);
         cadre_coordinator_totals(self->coordinator).finished < count;) {
        require(again(deadline), "closures that end");
    }
    return scale_now();
}
