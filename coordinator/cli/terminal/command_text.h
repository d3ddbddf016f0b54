/*
 * command_text - writes the user's command again with a flag changed, to show what to type next.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_COMMAND_TEXT_H
#define CADRE_COORDINATOR_CLI_TERMINAL_COMMAND_TEXT_H

#include <stddef.h>

typedef struct {
    const char *flag; /* "--resume" */
    const char *value;
} cadre_command_flag_t;

/* Returns the name by which the user called the command: "cadre", "build/release/bin/cadre". */
const char *cadre_command_name(void);

/* Returns `command` (NULL-terminated) with `count` flags and their values added at the end; the
 * same flags in the command are left out. Words are quoted if a shell needs it: "cadre run j.json
 * --ps 2 --resume auto". Freed by the caller. */
char *cadre_command_text(char *const *command, const cadre_command_flag_t *flags, size_t count);

#endif
