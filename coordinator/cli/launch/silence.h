/*
 * silence - compares the tasks that run on this machine with those that the coordinator hears, so
 * that one which lives and serves nobody is replaced (launcher_core.h).
 *
 * Owner:   a supervisor.
 * Thread:  the main thread.
 *
 * Silence is added up from look to look, each of which counts for little: while this process itself
 * stood still nobody could be heard.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_SILENCE_H
#define CADRE_COORDINATOR_CLI_LAUNCH_SILENCE_H

#include <cadre/coordinator.h>
#include <jansson.h>

#include "coordinator/cli/launch/launcher.h"

enum {
    CADRE_SILENCE_LOOK_MS = 1000,     /* between looks */
    CADRE_SILENCE_LOOK_MS_MAX = 2000, /* that one counts for at most */
    CADRE_SILENCE_STOP_MS = 10000,    /* that a run which is to stop waits for a worker */
};

/* Zeroed: nothing was looked at. */
typedef struct {
    int64_t looked_ms;
    int64_t no_worker_ms; /* for which no worker has been heard that a checkpoint needs */
} cadre_silence_t;

/* Looks, when it is time to; kills a task of `launcher`, if there is one, that was silent for too
 * long. */
void cadre_silence_look(cadre_silence_t *self, cadre_coordinator_t *coordinator,
                        cadre_launcher_t *launcher, int64_t now_ms);

/* Whether, by `status`, a checkpoint needs a worker: all but one whose closures have ended. */
bool cadre_silence_needs_worker(const json_t *status);

#endif
