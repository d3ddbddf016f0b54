/*
 * task_news - what people and the events file get to see of tasks that end or stay away.
 *
 * Owner:   a supervisor.
 * Thread:  the main thread.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_TASK_NEWS_H
#define CADRE_COORDINATOR_CLI_LAUNCH_TASK_NEWS_H

#include "coordinator/cli/launch/launcher.h"
#include "coordinator/cli/terminal/console.h"
#include "coordinator/cli/terminal/events.h"

/* Where news goes, and where the logs are. */
typedef struct {
    cadre_console_t *console;
    cadre_events_t *events;
    const cadre_launcher_t *launcher;
} cadre_task_news_t;

/* A task ended: an event; and unless it was expected to, or is the user's program, which has the
 * terminal itself, its last log lines and what happens next. */
void cadre_task_news_ended(const cadre_task_news_t *self, const cadre_launcher_report_t *report,
                           int64_t restarts_max);

/* The job ends with `text`, which names the ps that stayed away: what is known of each of them, and
 * its last log lines. Before the launcher is closed. */
void cadre_task_news_absent(const cadre_task_news_t *self, const char *text);

#endif
