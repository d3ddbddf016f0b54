/*
 * hosted - a run whose ps and worker are threads of `cadre run` itself (options.local).
 *
 * It has the session of any other run, with the coordinator's socket for `cadre status` and
 * clients; what ps and worker log goes to one file there, tasks.log.
 *
 * Owner:   a supervisor.
 * Thread:  the main one, before the coordinator is opened.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_HOSTED_H
#define CADRE_COORDINATOR_CLI_LAUNCH_HOSTED_H

#include <cadre/options.h>

#include "coordinator/cli/launch/launcher.h"

/* Prepares this process for the tasks: opens their log in the session, and keeps freed memory, as
 * processes of their own do. CADRE_EIO when the log cannot be made. */
int cadre_hosted_prepare(const cadre_session_t *session);

/* Sets what the coordinator's options say of tasks in its process. `trace` is the file of the
 * worker's trace; NULL: none. Texts are borrowed. */
void cadre_hosted_set(cadre_coordinator_options_t *options, const cadre_launcher_options_t *launch,
                      const char *trace);

/* Ends the process. A closure that has not ended in time still computes: exit() would take away
 * what it uses. */
_Noreturn void cadre_hosted_exit(int code);

#endif
