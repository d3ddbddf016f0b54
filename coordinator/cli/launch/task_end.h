/*
 * task_end - what the end of a task means, for people.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_TASK_END_H
#define CADRE_COORDINATOR_CLI_LAUNCH_TASK_END_H

#include <stddef.h>

#include "coordinator/cli/launch/launcher.h"

enum { CADRE_TASK_END_TEXT_SIZE = 512 };

/* "worker 1 was killed by SIGKILL, often because memory ran out", into `text` of
 * CADRE_TASK_END_TEXT_SIZE bytes, which is returned. */
const char *cadre_task_end_text(const cadre_launcher_report_t *report, char *text);

/* The same with the process id and what happens next: "worker 1 (pid 7) was killed ...: its
 * closures run again on other workers; it starts again in 0.1 s (restart 1 of 10)". */
const char *cadre_task_end_full_text(const cadre_launcher_report_t *report, int64_t restarts_max,
                                     char *text);

#endif
