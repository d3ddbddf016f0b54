/*
 * command_text - the user's command once more, with a flag changed: for telling what to type next.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_COMMAND_TEXT_H
#define CADRE_COORDINATOR_CLI_COMMAND_TEXT_H

/* `command` (NULL-terminated) with `flag value` at the end, in place of that flag where it is there
 * already, each word quoted where a shell needs it: "cadre run j.json --ps 2 --resume auto". Freed
 * by the caller. */
char *cadre_command_text(char *const *command, const char *flag, const char *value);

#endif
