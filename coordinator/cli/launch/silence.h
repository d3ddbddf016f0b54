/*
 * silence - compares the tasks that run on this machine with those that the coordinator hears, so
 * that a task which lives but is not heard is replaced (launcher_core.h).
 *
 * Owner:   a supervisor.
 * Thread:  the main thread.
 *
 * Silence is added up from look to look, and one look counts for CADRE_SILENCE_LOOK_MS_MAX at most:
 * the time in which this process itself stood still must not count.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_SILENCE_H
#define CADRE_COORDINATOR_CLI_LAUNCH_SILENCE_H

#include <cadre/coordinator.h>
#include <jansson.h>

#include "coordinator/cli/launch/launcher.h"

enum {
    CADRE_SILENCE_LOOK_MS = 1000,     /* time between looks */
    CADRE_SILENCE_LOOK_MS_MAX = 2000, /* most silence that one look may add */
    CADRE_SILENCE_STOP_MS = 10000,    /* how long a run that is to stop waits for a worker */
};

/* Zeroed: no look was made yet. */
typedef struct {
    int64_t looked_ms;
    int64_t no_worker_ms; /* for how long a checkpoint has needed a worker and none was heard */
} cadre_silence_t;

/* Compares who runs with who is heard, if the last look was CADRE_SILENCE_LOOK_MS ago; kills tasks
 * of `launcher` that were silent for too long. `launcher` NULL: the tasks were started
 * elsewhere. */
void cadre_silence_look(cadre_silence_t *self, cadre_coordinator_t *coordinator,
                        cadre_launcher_t *launcher, int64_t now_ms);

/* Returns whether, by the coordinator's status, a checkpoint needs a worker: not if one is being
 * taken and all closures below its cut have ended. */
bool cadre_silence_needs_worker(const json_t *status);

#endif
