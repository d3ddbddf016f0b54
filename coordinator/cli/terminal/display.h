/*
 * display - shows notices on the terminal, and writes them to the events file and the history.
 *
 * Owner:   a supervisor; an open struct.
 * Thread:  the main thread.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_DISPLAY_H
#define CADRE_COORDINATOR_CLI_TERMINAL_DISPLAY_H

#include "coordinator/cli/terminal/console.h"
#include "coordinator/cli/terminal/events.h"
#include "coordinator/cli/terminal/history.h"

enum {
    CADRE_DISPLAY_SAY_MS = 5000,   /* how often the terminal says that a wait still lasts */
    CADRE_DISPLAY_LINE_MS = 10000, /* time between progress lines where stderr is no terminal */
};

typedef struct {
    cadre_console_t *console;
    cadre_events_t *events;
    cadre_history_t *history;
    char log_level;    /* 'D', 'I', 'W', 'E': the coordinator's events below it are not shown */
    int64_t line_ms;   /* time of the last progress line */
    char waiting[256]; /* what the trainer waits for; "" when for nothing */
    int64_t waiting_since_ms;
    int64_t waiting_limit_ms;
    int64_t said_ms;
} cadre_display_t;

/* Shows a notice, and writes it as an event; the end of an epoch also as a row of the history. */
void cadre_display_notice(cadre_display_t *self, const cadre_notice_t *notice, int64_t now_ms);

/* Prints, when that is due, what the trainer waits for and how long it may take. */
void cadre_display_wait(cadre_display_t *self, int64_t now_ms);

#endif
