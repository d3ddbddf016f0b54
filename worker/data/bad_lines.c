#include "worker/data/bad_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_bad_lines_init(cadre_bad_lines_t *self, int64_t allowed)
{
    *self = (cadre_bad_lines_t){.allowed = allowed};
}

void
cadre_bad_lines_fini(cadre_bad_lines_t *self)
{
    for (int i = 0; i < CADRE_BAD_LINES_REPORTS_MAX; i++) {
        free(self->reports[i]);
    }
    *self = (cadre_bad_lines_t){0};
}

/* Counts a bad line, whose reason is this thread's error text; keeps the texts of the first few.
 * Returns 0 when the line may be skipped, CADRE_EDATA when it is one more than allowed. */
int
cadre_bad_lines_add(cadre_bad_lines_t *self, const char *path, int64_t line)
{
    cadre_fail_within(CADRE_EDATA, "%s:%" PRId64, path, line);
    if (self->count == self->allowed) {
        self->is_exceeded = true;
        return self->allowed == 0
                   ? CADRE_EDATA
                   : cadre_fail_within(CADRE_EDATA, "more than %" PRId64 " bad lines",
                                       self->allowed);
    }

    if (self->count < CADRE_BAD_LINES_REPORTS_MAX) {
        self->reports[self->count] = cadre_strdup(cadre_error_text());
    }

    self->count++;
    return 0;
}

/* Copies a piece of an untrusted file to `token`, for an error text: cut, and only printable ASCII.
 * Returns `token`. */
const char *
cadre_bad_lines_token(const char *text, const char *end, char token[CADRE_BAD_LINES_TOKEN_SIZE])
{
    size_t length = (size_t)(end - text);
    size_t shown =
        length < CADRE_BAD_LINES_TOKEN_SIZE - 4 ? length : CADRE_BAD_LINES_TOKEN_SIZE - 4;
    for (size_t i = 0; i < shown; i++) {
        token[i] = '?';
        if (text[i] >= ' ' && text[i] <= '~') {
            token[i] = text[i];
        }
    }

    snprintf(token + shown, CADRE_BAD_LINES_TOKEN_SIZE - shown, "%s", shown < length ? "..." : "");
    return token;
}
