/*
 * task_end - reports the end of a task on the terminal and in the events file: how it ended, the
 * consequences for the job, and what happens next.
 *
 * Owner:   a supervisor.
 * Thread:  the main thread. The functions that only write a text keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_TASK_END_H
#define CADRE_COORDINATOR_CLI_LAUNCH_TASK_END_H

#include <stddef.h>

#include "coordinator/cli/launch/launcher.h"
#include "coordinator/cli/terminal/console.h"
#include "coordinator/cli/terminal/events.h"

enum { CADRE_TASK_END_TEXT_SIZE = 512 };

/* Writes how the task ended, "worker 1 was killed by SIGKILL, often because memory ran out", into
 * `text` of CADRE_TASK_END_TEXT_SIZE bytes. Returns `text`. */
const char *cadre_task_end_text(const cadre_launcher_report_t *report, char *text);

/* Writes how the process ended and what happens next: "worker 1 (pid 7) was killed ...: its
 * closures run again on other workers; it starts again in 0.1 s (restart 1 of 10)". Returns
 * `text`, of CADRE_TASK_END_TEXT_SIZE bytes. */
const char *cadre_task_end_full_text(const cadre_launcher_report_t *report, int64_t restarts_max,
                                     char *text);

/* Where ends are shown, and the launcher that knows the logs. */
typedef struct {
    cadre_console_t *console;
    cadre_events_t *events;
    const cadre_launcher_t *launcher;
} cadre_task_end_view_t;

/* Writes the event "task_ended". Shows on the terminal the last log lines of the task and what
 * happens next, unless its end was expected or it is the user's program, which writes to the
 * terminal itself. */
void cadre_task_end_show(const cadre_task_end_view_t *self, const cadre_launcher_report_t *report,
                         int64_t restarts_max);

/* Shows what is known of each absent ps, and its last log lines, when the job ends with `text`,
 * which names them. Call it before the launcher is closed. */
void cadre_task_end_show_absent(const cadre_task_end_view_t *self, const char *text);

#endif
