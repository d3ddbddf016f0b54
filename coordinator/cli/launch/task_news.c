#include "coordinator/cli/launch/task_news.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/cli/launch/task_end.h"

static void
say_tail(const cadre_task_news_t *self, cadre_launch_role_t role, uint32_t index, int64_t from)
{
    char tail[CADRE_SESSION_TAIL_SIZE + 1];
    cadre_session_tail(cadre_launcher_session(self->launcher), role, index, from, tail);
    for (char *line = tail; *line;) {
        size_t length = strcspn(line, "\n");
        cadre_console_say(self->console, "  | %.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

void
cadre_task_news_ended(const cadre_task_news_t *self, const cadre_launcher_report_t *report,
                      int64_t restarts_max)
{
    char words[CADRE_TASK_END_TEXT_SIZE];
    bool expected = report->decision.outcome == CADRE_LAUNCH_EXPECTED;

    cadre_events_write(self->events, "task_ended",
                       json_pack("{s:s, s:i, s:i, s:s, s:b}", "role",
                                 cadre_launch_role_text(report->role), "index", (int)report->index,
                                 "pid", report->pid, "how", cadre_task_end_text(report, words),
                                 "restart", report->decision.outcome == CADRE_LAUNCH_RESTART));
    if (!expected && report->role != CADRE_LAUNCH_PROGRAM) {
        if (report->decision.outcome != CADRE_LAUNCH_DRAINED) {
            say_tail(self, report->role, report->index, report->log_from);
        }
        cadre_console_say(self->console, "%s",
                          cadre_task_end_full_text(report, restarts_max, words));
    }
}

/* Whether `text` has "ps 1" in it, and not as the beginning of "ps 12". */
static bool
names(const char *text, const char *task)
{
    const char *found = strstr(text, task);
    while (found && isdigit((unsigned char)found[strlen(task)])) {
        found = strstr(found + 1, task);
    }
    return found;
}

void
cadre_task_news_absent(const cadre_task_news_t *self, const char *text)
{
    cadre_launcher_task_t task;
    for (size_t i = 0; cadre_launcher_task(self->launcher, i, &task); i++) {
        char name[32];
        snprintf(name, sizeof(name), "ps %u", task.index);
        if (task.role != CADRE_LAUNCH_PS || !names(text, name)) {
            continue;
        }

        say_tail(self, task.role, task.index, task.log_from);
        if (task.pid) {
            cadre_console_say(self->console, "%s (pid %d) runs, but the job does not hear of it",
                              name, task.pid);
        }

        if (task.has_ended) {
            char how[128];
            cadre_console_say(self->console, "%s%s %s", task.pid ? "the process before it as " : "",
                              name, cadre_process_end_text(task.end, false, how, sizeof(how)));
        }
    }
}
