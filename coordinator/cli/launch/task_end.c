#include "coordinator/cli/launch/task_end.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Writes how the task ended into `text`, and returns it. A worker exits with CADRE_EXIT_BUG when it
 * has lost its device. */
static const char *
how_text(const cadre_launcher_report_t *report, char *text, size_t size_bytes)
{
    if (report->silent_ms > 0) {
        snprintf(text, size_bytes, "was not heard for %lld s after its lease, so it was killed",
                 (long long)report->silent_ms / 1000);
        return text;
    }

    if (report->role == CADRE_LAUNCH_WORKER && !report->end.signalled &&
        report->end.number == CADRE_EXIT_BUG) {
        snprintf(text, size_bytes, "exited with %d, its device is lost", report->end.number);
        return text;
    }

    return cadre_process_end_text(report->end, report->role == CADRE_LAUNCH_PROGRAM, text,
                                  size_bytes);
}

const char *
cadre_task_end_text(const cadre_launcher_report_t *report, char *text)
{
    char how[128];
    snprintf(text, CADRE_TASK_END_TEXT_SIZE, "%s %u %s", cadre_launch_role_text(report->role),
             report->index, how_text(report, how, sizeof(how)));
    return text;
}

/* Writes when the task is started again, and how many restarts of the job are used: "; it starts
 * again at once (restart 1 of 10)". */
static void
restart_text(const cadre_launch_decision_t *decision, int64_t restarts_max, char *text,
             size_t size_bytes)
{
    char when[32] = "at once";
    char limit[24] = "no limit";

    if (decision->delay_ms > 0) {
        snprintf(when, sizeof(when), "in %.1f s", (double)decision->delay_ms / 1000);
    }
    if (restarts_max >= 0) {
        snprintf(limit, sizeof(limit), "%lld", (long long)restarts_max);
    }

    snprintf(text, size_bytes, "; it starts again %s (restart %lld of %s)", when,
             (long long)decision->restarts, limit);
}

/* Returns the consequences of the end for the job. */
static const char *
consequence(const cadre_launcher_report_t *report)
{
    bool is_ps = report->role == CADRE_LAUNCH_PS;
    if (report->decision.outcome == CADRE_LAUNCH_END_JOB) {
        return is_ps ? "its shard is gone, so the job ends" : "no worker is left, so the job ends";
    }
    if (report->decision.outcome == CADRE_LAUNCH_DRAINED) {
        return "what it has not run goes to other workers; it is not started again";
    }
    if (report->decision.last) {
        return "no other worker is left";
    }

    return is_ps ? "its shard waits for it" : "its closures run again on other workers";
}

/* Writes how the process ended, what that means for the job, and what happens next; returns
 * `text`. */
const char *
cadre_task_end_full_text(const cadre_launcher_report_t *report, int64_t restarts_max, char *text)
{
    char how[128];
    char next[96] = "";

    switch (report->decision.outcome) {
    case CADRE_LAUNCH_EXPECTED:
    case CADRE_LAUNCH_DRAINED:
        break;
    case CADRE_LAUNCH_RESTART:
        restart_text(&report->decision, restarts_max, next, sizeof(next));
        break;
    case CADRE_LAUNCH_GIVE_UP:
        snprintf(next, sizeof(next), "; it is not started again%s",
                 report->decision.used_up ? ": --max-restarts are used up" : "");
        break;
    case CADRE_LAUNCH_END_JOB:
        snprintf(next, sizeof(next), "%s",
                 report->decision.used_up ? "; --max-restarts are used up" : "");
        break;
    }

    snprintf(text, CADRE_TASK_END_TEXT_SIZE, "%s %u (pid %d) %s: %s%s",
             cadre_launch_role_text(report->role), report->index, report->pid,
             how_text(report, how, sizeof(how)), consequence(report), next);
    return text;
}

/* --- terminal and events file --- */

/* Prints the last lines of a task's log, which its process began to write at offset `from`. */
static void
say_tail(const cadre_task_end_view_t *self, cadre_launch_role_t role, uint32_t index, int64_t from)
{
    char tail[CADRE_SESSION_TAIL_SIZE + 1];
    cadre_session_tail(cadre_launcher_session(self->launcher), role, index, from, tail);
    for (char *line = tail; *line;) {
        size_t length = strcspn(line, "\n");
        cadre_console_say(self->console, "  | %.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* Writes the event "task_ended". Prints the end with the last log lines, unless it was expected or
 * is that of the user's program, which writes to the terminal itself. A drained worker has no
 * fault, so its log is not shown. */
void
cadre_task_end_show(const cadre_task_end_view_t *self, const cadre_launcher_report_t *report,
                    int64_t restarts_max)
{
    char ended[CADRE_TASK_END_TEXT_SIZE];
    bool expected = report->decision.outcome == CADRE_LAUNCH_EXPECTED;

    cadre_events_write(self->events, "task_ended",
                       json_pack("{s:s, s:i, s:i, s:s, s:b}", "role",
                                 cadre_launch_role_text(report->role), "index", (int)report->index,
                                 "pid", report->pid, "how", cadre_task_end_text(report, ended),
                                 "restart", report->decision.outcome == CADRE_LAUNCH_RESTART));
    if (!expected && report->role != CADRE_LAUNCH_PROGRAM) {
        if (report->decision.outcome != CADRE_LAUNCH_DRAINED) {
            say_tail(self, report->role, report->index, report->log_from);
        }
        cadre_console_say(self->console, "%s",
                          cadre_task_end_full_text(report, restarts_max, ended));
    }
}

/* Returns whether `text` contains the name of a task: "ps 1", but not as the beginning of "ps
 * 12". */
static bool
names(const char *text, const char *task)
{
    const char *found = strstr(text, task);
    while (found && isdigit((unsigned char)found[strlen(task)])) {
        found = strstr(found + 1, task);
    }
    return found;
}

/* Prints for each ps that the error text `text` names its last log lines, whether it runs, and how
 * the process before ended. */
void
cadre_task_end_show_absent(const cadre_task_end_view_t *self, const char *text)
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
            cadre_console_say(self->console, "%s (pid %d) runs, but is not a member of the job",
                              name, task.pid);
        }

        if (task.has_ended) {
            char how[128];
            cadre_console_say(self->console, "%s%s %s", task.pid ? "the process before it as " : "",
                              name, cadre_process_end_text(task.end, false, how, sizeof(how)));
        }
    }
}
