/*
 * command_text - the user's command once more, with a flag changed: for telling what to type next.
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

/* The command as the user called it: "cadre", "build/release/bin/cadre". */
const char *cadre_command_name(void);

/* `command` (NULL-terminated) with `count` flags and their values at the end, in place of the same
 * flags where they are there already, each word quoted where a shell needs it: "cadre run j.json
 * --ps 2 --resume auto". Freed by the caller. */
char *cadre_command_text(char *const *command, const cadre_command_flag_t *flags, size_t count);

#endif
