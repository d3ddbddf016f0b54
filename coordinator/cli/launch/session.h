/*
 * session - the directory of one local cluster: its sockets, the logs of its tasks, and tasks.json
 * with their process ids.
 *
 * Owner:   a launcher.
 * Thread:  the launcher's.
 *
 * tasks.json: {"schema": "cadre.session/v1", "launcher": pid, "tasks": [{"role": "ps", "index": 0,
 * "pid": 123, "starts": 1}, ...]}; a task that does not run has pid null. It is replaced by rename
 * whenever a task starts or ends, so that a reader never sees half of it.
 *
 * The launcher holds a lock on the directory as long as it lives. A directory with a tasks.json and
 * without a lock was left by a killed launcher: the next launcher removes it, unless it was to be
 * kept.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_SESSION_H
#define CADRE_COORDINATOR_CLI_LAUNCH_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "coordinator/cli/launch/launcher_core.h"

enum {
    CADRE_SESSION_TAIL_LINES = 8,   /* last lines of a dead task's log that are shown */
    CADRE_SESSION_TAIL_SIZE = 2000, /* most bytes of these lines */
    /* Most directories of killed launchers that one start removes. */
    CADRE_SESSION_SWEEP_MAX = 64,
};

typedef struct {
    char *path;
    int directory; /* descriptor of the directory, locked; negative when it could not be opened */
} cadre_session_t;

/* Makes the session's directory, mode 0700, under XDG_RUNTIME_DIR or /tmp, and removes session
 * directories beside it that killed launchers of this user have left. With `keep` no launcher
 * removes it, however this one ends. CADRE_EIO when it cannot be made. */
int cadre_session_open(cadre_session_t *self, bool keep);

/* Ends the session; removes the directory with its files unless `keep`. */
void cadre_session_close(cadre_session_t *self, bool keep);

/* Returns the address of a ps or worker, "ipc:///.../ps-0"; for CADRE_LAUNCH_PROGRAM that of the
 * coordinator. Freed by the caller. */
char *cadre_session_endpoint(const cadre_session_t *self, cadre_launch_role_t role, uint32_t index);

/* Returns the path of the file that a task's output goes to, freed by the caller. */
char *cadre_session_log_path(const cadre_session_t *self, cadre_launch_role_t role, uint32_t index);

/* Writes the last lines of a task's log after its first `from` bytes into `text` of
 * CADRE_SESSION_TAIL_SIZE + 1 bytes; "" when there are none. Returns `text`. */
const char *cadre_session_tail(const cadre_session_t *self, cadre_launch_role_t role,
                               uint32_t index, int64_t from, char *text);

/* Replaces tasks.json; `pids` has a process id for each task, 0 if it does not run. CADRE_EIO when
 * the file cannot be written. */
int cadre_session_write_tasks(const cadre_session_t *self, const cadre_launcher_core_t *core,
                              const int *pids);

/* Returns the value of the environment variable CADRE_CLUSTER for the user's program, which is the
 * coordinator of this session: the addresses of all tasks as JSON. Freed by the caller. */
char *cadre_session_cluster(const cadre_session_t *self, const cadre_launcher_core_t *core);

#endif
