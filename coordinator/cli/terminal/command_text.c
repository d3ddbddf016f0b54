#include "coordinator/cli/terminal/command_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

const char *
cadre_command_name(void)
{
    const char *slash = strrchr(program_invocation_name, '/');
    bool known = strcmp(slash ? slash + 1 : program_invocation_name, "cadre") == 0;
    return known ? program_invocation_name : "cadre";
}

/* Appends `more` to *text, a string on the heap, or NULL for an empty one. */
static void
add(char **text, const char *more)
{
    char *longer = cadre_asprintf("%s%s", *text ? *text : "", more);
    free(*text);
    *text = longer;
}

/* Appends a word, in single quotes when a shell would read it otherwise. */
static void
append(char **text, const char *word)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";
    bool quoted = !*word || word[strspn(word, plain)];

    if (*text) {
        add(text, " ");
    }

    if (!quoted) {
        add(text, word);
        return;
    }

    add(text, "'");
    for (const char *c = word; *c; c++) {
        const char letter[] = {*c, '\0'};
        add(text, *c == '\'' ? "'\\''" : letter);
    }

    add(text, "'");
}

/* Returns how many words of the command from `word` on give one of the flags: 0 for none, 1 for
 * "--a=b", 2 for "--a b". */
static size_t
flag_words(char *const *word, const cadre_command_flag_t *flags, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(flags[i].flag);
        if (strncmp(word[0], flags[i].flag, length) == 0) {
            if (word[0][length] == '=') {
                return 1;
            }
            if (word[0][length] == '\0') {
                return word[1] ? 2 : 1;
            }
        }
    }

    return 0;
}

/* Returns the command as text, with the flags and their values at the end instead of where the user
 * gave them. */
char *
cadre_command_text(char *const *command, const cadre_command_flag_t *flags, size_t count)
{
    char *text = NULL;
    while (*command) {
        size_t words = flag_words(command, flags, count);
        if (words == 0) {
            append(&text, *command);
        }
        command += words ? words : 1;
    }

    for (size_t i = 0; i < count; i++) {
        append(&text, flags[i].flag);
        append(&text, flags[i].value);
    }

    return text;
}
