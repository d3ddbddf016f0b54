/*
 * events - the file of --events: one JSON object per line, for programs that follow a run.
 *
 * Owner:   a supervisor.
 * Thread:  the main thread only.
 *
 * Each object has "ts" (UTC) and "event"; the rest depends on the event (docs/job-file.md). A line
 * is written as one piece and at once.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_EVENTS_H
#define CADRE_COORDINATOR_CLI_TERMINAL_EVENTS_H

#include <jansson.h>
#include <stdio.h>

#include "coordinator/cli/terminal/notice.h"

/* Zeroed: closed, and events that are written are dropped. */
typedef struct {
    FILE *file;
    const char *path; /* borrowed */
    /* errno of the write that failed, after which nothing more is written; 0: none failed */
    int error;
} cadre_events_t;

/* Creates the file, or empties it. CADRE_EIO when that fails. */
int cadre_events_open(cadre_events_t *self, const char *path);

void cadre_events_close(cadre_events_t *self);

/* Writes one event; takes `fields`, an object or NULL. */
void cadre_events_write(cadre_events_t *self, const char *event, json_t *fields);

/* Returns the fields of an event "progress" or "epoch": a JSON object, which the caller owns. */
json_t *cadre_events_progress(const cadre_progress_t *progress);

#endif
