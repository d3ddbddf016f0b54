/*
 * verb - what the verbs of the `cadre` command share.
 *
 * Thread:  the main thread.
 */
#ifndef CADRE_COORDINATOR_CLI_VERB_H
#define CADRE_COORDINATOR_CLI_VERB_H

#include <argp.h>
#include <stdbool.h>

/* What -o says: whether it is json. Anything but json and text is a usage error, which ends the
 * process. */
bool cadre_verb_is_json(const char *argument, const struct argp_state *state);

/* Says this thread's error text on stderr and gives the exit code of `status`. */
int cadre_verb_fail(int status);

#endif
