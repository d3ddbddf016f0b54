/*
 * session - the directory of one local cluster: its sockets, the logs of its tasks, and tasks.json,
 * which says the process id of each.
 *
 * Owner:   a launcher.
 * Thread:  the launcher's.
 *
 * tasks.json: {"schema": "cadre.session/v1", "launcher": pid, "tasks": [{"role": "ps", "index": 0,
 * "pid": 123, "starts": 1}, ...]}; a task that does not run has pid null. It is replaced by rename
 * whenever a task starts or ends, so that a reader never sees half of it.
 *
 * The launcher holds a lock on the directory as long as it lives. A directory with a tasks.json
 * that nobody holds is what a killed launcher left: the next one removes it, unless it was to be
 * kept.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_SESSION_H
#define CADRE_COORDINATOR_CLI_LAUNCH_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "coordinator/cli/launch/launcher_core.h"

enum {
    CADRE_SESSION_TAIL_LINES = 8,   /* of a dead task's log, shown */
    CADRE_SESSION_TAIL_SIZE = 2000, /* bytes of them at most */
    CADRE_SESSION_SWEEP_MAX = 64,   /* directories of killed launchers, removed at one start */
};

typedef struct {
    char *path;
    int directory; /* the same, open and locked; negative when it could not be opened */
} cadre_session_t;

/* Makes the directory, mode 0700, under XDG_RUNTIME_DIR or /tmp, and removes those that killed
 * launchers of this user left beside it. With `keep` it will stay, however this one ends.
 * CADRE_EIO.
 */
int cadre_session_open(cadre_session_t *self, bool keep);

/* Ends it; the directory goes with everything of ours in it unless `keep`. */
void cadre_session_close(cadre_session_t *self, bool keep);

/* "ipc:///.../ps-0", freed by the caller; "coordinator" for the program's role. */
char *cadre_session_endpoint(const cadre_session_t *self, cadre_launch_role_t role, uint32_t index);

/* The file that a task's output goes to, freed by the caller. */
char *cadre_session_log_path(const cadre_session_t *self, cadre_launch_role_t role, uint32_t index);

/* The last lines of a task's log behind its first `from` bytes into `text` of
 * CADRE_SESSION_TAIL_SIZE + 1 bytes; "" when there are none. Returns `text`. */
const char *cadre_session_tail(const cadre_session_t *self, cadre_launch_role_t role,
                               uint32_t index, int64_t from, char *text);

/* Replaces tasks.json; `pids` has one entry per task, 0 for one that does not run. CADRE_EIO. */
int cadre_session_write_tasks(const cadre_session_t *self, const cadre_launcher_core_t *core,
                              const int *pids);

/* CADRE_CLUSTER for a program that is the coordinator of this session, freed by the caller. */
char *cadre_session_cluster(const cadre_session_t *self, const cadre_launcher_core_t *core);

#endif
