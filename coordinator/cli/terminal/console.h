/*
 * console - prints for people: lines of text, and on a terminal a progress bar below them. All of
 * it goes to stderr; stdout is for data.
 *
 * Owner:   a supervisor.
 * Thread:  the main thread only.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_CONSOLE_H
#define CADRE_COORDINATOR_CLI_TERMINAL_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/cli/terminal/notice.h"

enum { CADRE_CONSOLE_LINE_SIZE = 512 }; /* bytes of a bar or a progress line */

typedef struct {
    bool terminal;
    bool bar_shown;
    char bar[CADRE_CONSOLE_LINE_SIZE];
} cadre_console_t;

void cadre_console_init(cadre_console_t *self);

/* Prints a line; the bar moves below it. */
void cadre_console_say(cadre_console_t *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Shows or replaces the bar; does nothing unless stderr is a terminal. */
void cadre_console_bar(cadre_console_t *self, const char *text);

/* Returns the width of the terminal, 100 when it is not known. */
int cadre_console_columns(void);

/* Removes the bar. */
void cadre_console_clear(cadre_console_t *self);

/* Writes "epoch 3/10 41% step 18204 loss 0.4127 812k ex/s ...", at most `columns` wide, into `text`
 * of CADRE_CONSOLE_LINE_SIZE bytes; returns `text`. */
const char *cadre_progress_bar(const cadre_progress_t *progress, int columns, char *text);

/* Writes the progress as a line of a log, "epoch=3/10 progress=41% ...", with the results of the
 * evaluation when `epoch_end`. */
const char *cadre_progress_line(const cadre_progress_t *progress, bool epoch_end, char *text);

/* Writes a duration, "3m10s", into `text` of 24 bytes; returns `text`. */
const char *cadre_duration_text(double seconds, char *text);

#endif
