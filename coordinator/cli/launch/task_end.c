#include "coordinator/cli/launch/task_end.h"

#include <stdio.h>

/* How the task ended. With a worker that number is the loss of its device (worker/worker_flags.h).
 */
static const char *
end_words(const cadre_launcher_report_t *report, char *text, size_t size_bytes)
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
             report->index, end_words(report, how, sizeof(how)));
    return text;
}

static void
restart_words(const cadre_launch_decision_t *decision, int64_t restarts_max, char *text,
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

/* What the end of the task costs. */
static const char *
cost(const cadre_launcher_report_t *report)
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
        restart_words(&report->decision, restarts_max, next, sizeof(next));
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
             end_words(report, how, sizeof(how)), cost(report), next);
    return text;
}
