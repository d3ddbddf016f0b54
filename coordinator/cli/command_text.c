#include "coordinator/cli/command_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

/* Appends a word, in single quotes when a shell would read it otherwise. */
static void
append(char **text, const char *word)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@%";
    bool quoted = !*word || word[strspn(word, plain)];
    char *longer;
    if (!quoted) {
        longer = cadre_asprintf("%s%s%s", *text ? *text : "", *text ? " " : "", word);
    } else {
        longer = cadre_asprintf("%s%s'", *text ? *text : "", *text ? " " : "");
        for (const char *c = word; *c; c++) {
            char *more =
                *c == '\'' ? cadre_asprintf("%s'\\''", longer) : cadre_asprintf("%s%c", longer, *c);
            free(longer);
            longer = more;
        }
        char *more = cadre_asprintf("%s'", longer);
        free(longer);
        longer = more;
    }
    free(*text);
    *text = longer;
}

char *
cadre_command_text(char *const *command, const char *flag, const char *value)
{
    char *text = NULL;
    size_t length = strlen(flag);
    for (size_t i = 0; command[i]; i++) {
        if (strcmp(command[i], flag) == 0 && command[i + 1]) {
            i++;
        } else if (strncmp(command[i], flag, length) != 0 || command[i][length] != '=') {
            append(&text, command[i]);
        }
    }
    append(&text, flag);
    append(&text, value);
    return text;
}
