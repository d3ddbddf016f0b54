#include "coordinator/cli/launch/silence.h"

#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"

/* Returns whether `status` (cadre_coordinator_status_json) lists this task, with the process id
 * that runs now. */
static bool
hears(const json_t *status, const cadre_launcher_task_t *task)
{
    size_t i;
    const json_t *heard;
    json_array_foreach(json_object_get(status, "tasks"), i, heard)
    {
        const char *role = json_string_value(json_object_get(heard, "role"));
        if (json_integer_value(json_object_get(heard, "process")) == task->pid &&
            json_integer_value(json_object_get(heard, "index")) == task->index && role &&
            strcmp(role, cadre_launch_role_text(task->role)) == 0) {
            return true;
        }
    }

    return false;
}

/* Returns whether a checkpoint needs a worker: one that has not begun, as closures may be in
 * flight, or one whose closures below the cut have not all ended. */
bool
cadre_silence_needs_worker(const json_t *status)
{
    const json_t *checkpoint = json_object_get(json_object_get(status, "checkpoints"), "under_way");
    return !checkpoint || json_integer_value(json_object_get(checkpoint, "closures")) > 0;
}

/* Tells the launcher of each ps and worker that runs whether the coordinator hears it. Without a
 * status nothing is known, and nobody counts as silent. */
static void
compare(const json_t *status, cadre_launcher_t *launcher, int64_t elapsed_ms)
{
    cadre_launcher_task_t task;
    for (size_t i = 0; status && cadre_launcher_task(launcher, i, &task); i++) {
        if (task.pid && task.role != CADRE_LAUNCH_PROGRAM) {
            cadre_launcher_look(launcher, i, hears(status, &task), elapsed_ms);
        }
    }
}

/* Compares the tasks that run with those that the coordinator hears, every CADRE_SILENCE_LOOK_MS;
 * and adds up for how long no worker was heard that a checkpoint needs. */
void
cadre_silence_look(cadre_silence_t *self, cadre_coordinator_t *coordinator,
                   cadre_launcher_t *launcher, int64_t now_ms)
{
    int64_t elapsed_ms = now_ms - self->looked_ms;
    if (elapsed_ms < CADRE_SILENCE_LOOK_MS) {
        return;
    }

    self->looked_ms = now_ms;
    /* A longer time since the last look is one in which this process itself stood still. */
    elapsed_ms = cadre_min_i64(elapsed_ms, CADRE_SILENCE_LOOK_MS_MAX);
    cadre_auto(cadre_free) char *text = NULL;
    json_t *status =
        cadre_coordinator_status_json(coordinator, &text) == 0 ? json_loads(text, 0, NULL) : NULL;
    bool waits =
        cadre_coordinator_totals(coordinator).workers == 0 && cadre_silence_needs_worker(status);
    self->no_worker_ms = waits ? self->no_worker_ms + elapsed_ms : 0;
    if (launcher) {
        compare(status, launcher, elapsed_ms);
    }

    json_decref(status);
}
