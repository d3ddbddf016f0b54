#include "coordinator/cli/verb.h"

#include <stdio.h>
#include <string.h>

#include "common/base/status.h"
#include "coordinator/cli/terminal/exit_code.h"

bool
cadre_verb_is_json(const char *argument, const struct argp_state *state)
{
    bool is_json = strcmp(argument, "json") == 0;
    if (!is_json && strcmp(argument, "text") != 0) {
        argp_error(state, "-o: \"%s\" is neither json nor text", argument);
    }
    return is_json;
}

int
cadre_verb_fail(int status)
{
    fprintf(stderr, "cadre: %s\n", cadre_error_text());
    return cadre_exit_code(status);
}
