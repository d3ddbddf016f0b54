#include "coordinator/cli/launch/launcher_core.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"

/* Makes the list of tasks: ps, workers, then the user's program if there is one. All are due at
 * once. */
void
cadre_launcher_core_init(cadre_launcher_core_t *self, uint32_t ps, uint32_t workers, bool program,
                         int64_t restarts_max)
{
    size_t count = (size_t)ps + workers + program;
    *self = (cadre_launcher_core_t){
        .tasks = cadre_calloc(count, sizeof(*self->tasks)),
        .task_count = count,
        .restarts_max = restarts_max,
        .ps_silent_max_ms = CADRE_LAUNCHER_SILENT_MS,
    };
    for (size_t i = 0; i < count; i++) {
        cadre_launch_task_t *task = &self->tasks[i];
        if (i < ps) {
            *task = (cadre_launch_task_t){.role = CADRE_LAUNCH_PS, .index = (uint32_t)i};
        } else if (i < (size_t)ps + workers) {
            *task = (cadre_launch_task_t){.role = CADRE_LAUNCH_WORKER, .index = (uint32_t)i - ps};
        } else {
            *task = (cadre_launch_task_t){.role = CADRE_LAUNCH_PROGRAM};
        }
    }
}

void
cadre_launcher_core_fini(cadre_launcher_core_t *self)
{
    free(self->tasks);
    *self = (cadre_launcher_core_t){0};
}

/* Takes the next task that is due: it counts as running from now on, and nothing of its last
 * process counts any more. Returns false when no task is due. */
bool
cadre_launcher_core_next(cadre_launcher_core_t *self, int64_t now_ms, size_t *task)
{
    for (size_t i = 0; i < self->task_count; i++) {
        cadre_launch_task_t *candidate = &self->tasks[i];
        if (candidate->state == CADRE_LAUNCH_WAITING && candidate->due_ms <= now_ms) {
            candidate->state = CADRE_LAUNCH_RUNNING;
            candidate->started_ms = now_ms;
            candidate->starts++;
            candidate->was_heard = false;
            candidate->silent_ms = 0;
            candidate->given_up = false;
            *task = i;
            return true;
        }
    }

    return false;
}

/* Returns the milliseconds until a task is due; -1 when no task waits to be started. */
int64_t
cadre_launcher_core_wait_ms(const cadre_launcher_core_t *self, int64_t now_ms)
{
    int64_t wait_ms = -1;
    for (size_t i = 0; i < self->task_count; i++) {
        const cadre_launch_task_t *task = &self->tasks[i];
        if (task->state == CADRE_LAUNCH_WAITING) {
            int64_t left_ms = cadre_max_i64(task->due_ms - now_ms, 0);
            wait_ms = wait_ms < 0 ? left_ms : cadre_min_i64(wait_ms, left_ms);
        }
    }
    return wait_ms;
}

/* Returns whether another worker than `ended` is left, which runs or will be started. */
static bool
worker_left(const cadre_launcher_core_t *self, const cadre_launch_task_t *ended)
{
    for (size_t i = 0; i < self->task_count; i++) {
        const cadre_launch_task_t *task = &self->tasks[i];
        if (task != ended && task->role == CADRE_LAUNCH_WORKER &&
            task->state != CADRE_LAUNCH_ENDED) {
            return true;
        }
    }
    return false;
}

/* Returns whether the process ended with an exit code that the next start would give again. */
static bool
is_permanent(cadre_process_end_t end)
{
    return !end.signalled &&
           (end.number == CADRE_EXIT_USAGE || end.number == CADRE_EXIT_CONFIG ||
            end.number == CADRE_EXIT_PROTOCOL || end.number == CADRE_EXIT_REFUSED);
}

/* Returns the delay before a task is started again: none if its process ran for
 * CADRE_LAUNCHER_STEADY_MS, else doubling with each quick end, so that a task that cannot start
 * does not spin. */
static int64_t
restart_delay_ms(cadre_launch_task_t *task, int64_t now_ms)
{
    if (now_ms - task->started_ms >= CADRE_LAUNCHER_STEADY_MS) {
        task->quick_ends = 0;
        return 0;
    }

    int64_t delay_ms = CADRE_LAUNCHER_DELAY_MIN_MS;
    for (uint32_t i = 0; i < task->quick_ends && delay_ms < CADRE_LAUNCHER_DELAY_MAX_MS; i++) {
        delay_ms *= 2;
    }

    task->quick_ends++;
    return cadre_min_i64(delay_ms, CADRE_LAUNCHER_DELAY_MAX_MS);
}

/* Decides about a ps or worker that ended although its coordinator did not tell it to. A ps is
 * started again even if somebody asked it to leave, because no other ps has its shard; the last
 * worker too, because without a worker the job stalls. If such a task may not be started again, the
 * job ends. */
static cadre_launch_decision_t
task_ended(cadre_launcher_core_t *self, cadre_launch_task_t *task, cadre_process_end_t end,
           int64_t now_ms)
{
    bool is_ps = task->role == CADRE_LAUNCH_PS;
    bool last = !is_ps && !worker_left(self, task);
    bool asked = !is_ps && !end.signalled && end.number == CADRE_EXIT_TERMINATED;
    bool drained = asked && !last;
    bool used_up = self->restarts_max >= 0 && self->restarts >= self->restarts_max;
    if (drained || used_up || is_permanent(end)) {
        bool failed = !drained && !is_permanent(end);
        task->state = CADRE_LAUNCH_ENDED;
        if (is_ps || last) {
            return (cadre_launch_decision_t){
                .outcome = CADRE_LAUNCH_END_JOB,
                .exit_code = is_permanent(end) ? end.number : CADRE_EXIT_UNAVAILABLE,
                .used_up = failed,
            };
        }

        return (cadre_launch_decision_t){
            .outcome = drained ? CADRE_LAUNCH_DRAINED : CADRE_LAUNCH_GIVE_UP,
            .used_up = failed,
        };
    }

    int64_t delay_ms = restart_delay_ms(task, now_ms);
    task->state = CADRE_LAUNCH_WAITING;
    task->due_ms = now_ms + delay_ms;
    self->restarts++;
    return (cadre_launch_decision_t){
        .outcome = CADRE_LAUNCH_RESTART,
        .delay_ms = delay_ms,
        .restarts = self->restarts,
        .last = asked && last,
    };
}

/* Decides what follows from the end of a running task. The end of the user's program ends the job.
 * A ps or worker is expected to end when the job stops or its coordinator told it to leave. Other
 * ends are left to task_ended. */
cadre_launch_decision_t
cadre_launcher_core_ended(cadre_launcher_core_t *self, size_t number, cadre_process_end_t end,
                          int64_t now_ms)
{
    cadre_assert(number < self->task_count);
    cadre_launch_task_t *task = &self->tasks[number];
    cadre_assert(task->state == CADRE_LAUNCH_RUNNING);
    if (task->role == CADRE_LAUNCH_PROGRAM) {
        task->state = CADRE_LAUNCH_ENDED;
        return (cadre_launch_decision_t){
            .outcome = CADRE_LAUNCH_END_JOB,
            .exit_code = end.signalled ? 128 + end.number : end.number,
        };
    }

    /* A ps or worker exits with 0 when its coordinator told it to leave. */
    bool dismissed = !end.signalled && end.number == CADRE_EXIT_OK;
    if (self->stopping || dismissed) {
        /* A ps that exits with 0 while the job goes on is started again, as no other ps has its
         * shard. */
        bool comes_back = !self->stopping && task->role == CADRE_LAUNCH_PS;
        task->state = comes_back ? CADRE_LAUNCH_WAITING : CADRE_LAUNCH_ENDED;
        task->due_ms = now_ms + CADRE_LAUNCHER_DISMISSED_MS;
        return (cadre_launch_decision_t){.outcome = CADRE_LAUNCH_EXPECTED};
    }

    return task_ended(self, task, end, now_ms);
}

/* Adds up for how long a running task has been silent, and returns true, once for each process,
 * when that is too long: the caller then kills it. A process that was never heard may still be
 * starting, and is not counted as silent. */
bool
cadre_launcher_core_look(cadre_launcher_core_t *self, size_t number, bool heard, int64_t elapsed_ms)
{
    cadre_assert(number < self->task_count);
    cadre_launch_task_t *task = &self->tasks[number];
    cadre_assert(task->state == CADRE_LAUNCH_RUNNING);
    if (heard || !task->was_heard) {
        task->was_heard = heard;
        task->silent_ms = -1; /* silence counts from the next look on */
        return false;
    }

    if (task->given_up || self->stopping) {
        return false;
    }

    task->silent_ms = task->silent_ms < 0 ? 0 : task->silent_ms + elapsed_ms;
    task->given_up = task->silent_ms >= (task->role == CADRE_LAUNCH_PS ? self->ps_silent_max_ms
                                                                       : CADRE_LAUNCHER_SILENT_MS);
    return task->given_up;
}

/* Ends the job: tasks that wait are not started any more. */
void
cadre_launcher_core_stop(cadre_launcher_core_t *self)
{
    self->stopping = true;
    for (size_t i = 0; i < self->task_count; i++) {
        if (self->tasks[i].state == CADRE_LAUNCH_WAITING) {
            self->tasks[i].state = CADRE_LAUNCH_ENDED;
        }
    }
}

size_t
cadre_launcher_core_running(const cadre_launcher_core_t *self)
{
    size_t count = 0;
    for (size_t i = 0; i < self->task_count; i++) {
        count += self->tasks[i].state == CADRE_LAUNCH_RUNNING;
    }
    return count;
}

const char *
cadre_launch_role_text(cadre_launch_role_t role)
{
    switch (role) {
    case CADRE_LAUNCH_PS:
        return "ps";
    case CADRE_LAUNCH_WORKER:
        return "worker";
    case CADRE_LAUNCH_PROGRAM:
        return "program";
    }
    return "?";
}
