#include "coordinator/cli/terminal/display.h"

#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"

/* Returns the rank of a log level, 0 (debug) to 3 (error); 0 for an unknown letter. */
static int
level_rank(char level)
{
    const char *found = strchr("DIWE", level);
    return found && *found ? (int)(found - "DIWE") : 0;
}

static const char *
level_text(char level)
{
    static const char *const texts[] = {"debug", "info", "warning", "error"};
    return texts[level_rank(level)];
}

/* Returns whether the terminal shows an event of the coordinator: its level is high enough, or it
 * says that a problem that was shown is over. */
static bool
is_shown(const cadre_display_t *self, const cadre_notice_t *notice)
{
    static const char *const always[] = {"ps_reconnected", "ps_restored", "replay_done"};
    for (size_t i = 0; i < CADRE_COUNT_OF(always); i++) {
        if (strcmp(notice->event, always[i]) == 0) {
            return true;
        }
    }
    return level_rank(notice->level) >= level_rank(self->log_level);
}

/* Shows progress: on a terminal as a bar, at once; elsewhere as a line, which like the event for
 * the events file comes every CADRE_DISPLAY_LINE_MS and at the end of each epoch. The history gets
 * a row at the end of each epoch. */
static void
show_progress(cadre_display_t *self, const cadre_notice_t *notice, int64_t now_ms)
{
    char text[CADRE_CONSOLE_LINE_SIZE];
    bool epoch_end = notice->kind == CADRE_NOTICE_EPOCH;
    bool due = now_ms - self->line_ms >= CADRE_DISPLAY_LINE_MS;
    if (self->console->terminal) {
        int columns = cadre_console_columns();
        cadre_console_bar(self->console, cadre_progress_bar(&notice->progress, columns, text));
    } else if (epoch_end || due) {
        cadre_console_say(self->console, "%s",
                          cadre_progress_line(&notice->progress, epoch_end, text));
    }

    if (epoch_end || due) {
        self->line_ms = now_ms;
        cadre_events_write(self->events, epoch_end ? "epoch" : "progress",
                           cadre_events_progress(&notice->progress));
    }
    if (epoch_end) {
        cadre_history_write(self->history, &notice->progress);
    }
}

/* Shows a notice of the trainer or the coordinator on the terminal, and writes it to the events
 * file. */
void
cadre_display_notice(cadre_display_t *self, const cadre_notice_t *notice, int64_t now_ms)
{
    switch (notice->kind) {
    case CADRE_NOTICE_LOG:
        if (is_shown(self, notice)) {
            cadre_console_say(self->console, "%s: %s %s", level_text(notice->level), notice->event,
                              notice->text);
        }
        cadre_events_write(self->events, "coordinator",
                           json_pack("{s:s, s:s, s:s}", "level", level_text(notice->level), "what",
                                     notice->event, "pairs", notice->text));
        break;
    case CADRE_NOTICE_INFO:
        cadre_console_say(self->console, "%s", notice->text);
        cadre_events_write(self->events, "info", json_pack("{s:s}", "text", notice->text));
        break;
    case CADRE_NOTICE_WAIT: /* shown only if it lasts, by cadre_display_wait */
        snprintf(self->waiting, sizeof(self->waiting), "%.200s", notice->text);
        self->waiting_since_ms = now_ms;
        self->waiting_limit_ms = notice->limit_ms;
        self->said_ms = now_ms;
        break;
    case CADRE_NOTICE_WAITED:
        self->waiting[0] = '\0';
        break;
    case CADRE_NOTICE_PROGRESS:
    case CADRE_NOTICE_EPOCH:
        show_progress(self, notice, now_ms);
        break;
    case CADRE_NOTICE_DONE:
        break;
    }
}

/* Prints every CADRE_DISPLAY_SAY_MS what the trainer waits for, since when and for how long at
 * most. */
void
cadre_display_wait(cadre_display_t *self, int64_t now_ms)
{
    if (self->waiting[0] && now_ms - self->said_ms >= CADRE_DISPLAY_SAY_MS) {
        self->said_ms = now_ms;
        cadre_console_say(self->console, "waiting for %s: %lld s of at most %lld s", self->waiting,
                          (long long)(now_ms - self->waiting_since_ms) / 1000,
                          (long long)self->waiting_limit_ms / 1000);
    }
}
