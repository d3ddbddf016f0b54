#include "coordinator/cli/launch/hosted.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/log.h"

/* Writes a line to the log, whose descriptor is `owner`: by one write(2), as other threads write
 * too. A full disk costs lines, as it does a process of its own. */
static void
write_line(void *owner, cadre_log_level_t level, const char *line, size_t size_bytes)
{
    (void)level;
    ssize_t written = write((int)(intptr_t)owner, line, size_bytes);
    (void)written;
}

/* Opens the log of the tasks. It is not closed: a thread that does not end goes on logging. */
int
cadre_hosted_prepare(const cadre_session_t *session)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/tasks.log", session->path);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    cadre_log_setup(&(cadre_log_options_t){.level = CADRE_LOG_INFO,
                                           .style = CADRE_LOG_JSON,
                                           .task = "tasks",
                                           .write = write_line,
                                           .owner = (void *)(intptr_t)log});
    cadre_memory_keep_freed();
    return 0;
}

/* Each worker of the strategy is as many slots of the one that there is. */
void
cadre_hosted_set(cadre_coordinator_options_t *options, const cadre_launcher_options_t *launch,
                 const char *trace)
{
    options->local = true;
    options->local_slots = (int)(launch->workers * launch->slots);
    options->local_threads = (int)cadre_launcher_threads(launch);
    options->local_ps_lanes = (int)launch->ps_lanes;
    options->local_device = "cpu";
    options->local_data_dir = launch->data_dir;
    options->local_trace = trace;
}

_Noreturn void
cadre_hosted_exit(int code)
{
    fflush(NULL);
    _exit(code);
}
