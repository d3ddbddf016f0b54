/*
 * bad_lines - how many bad lines a file may have, and which there were.
 *
 * Owner:   the source.
 * Thread:  one at a time while reading; immutable afterwards.
 */
#ifndef CADRE_WORKER_DATA_BAD_LINES_H
#define CADRE_WORKER_DATA_BAD_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_BAD_LINES_REPORTS_MAX = 8, /* bad lines whose text is kept; further ones are counted */
    CADRE_BAD_LINES_TOKEN_SIZE = 36  /* bytes of a piece of the file that an error text repeats */
};

typedef struct {
    int64_t allowed;
    int64_t count;
    bool is_exceeded; /* there was one more than allowed */
    char *reports[CADRE_BAD_LINES_REPORTS_MAX];
} cadre_bad_lines_t;

void cadre_bad_lines_init(cadre_bad_lines_t *self, int64_t allowed);
void cadre_bad_lines_fini(cadre_bad_lines_t *self);

/* Counts a line whose reason is this thread's error text, which becomes `path:line: reason`.
 * Returns 0 when the line may be skipped, else CADRE_EDATA. */
int cadre_bad_lines_add(cadre_bad_lines_t *self, const char *path, int64_t line);

/* Copies a piece of an untrusted file to `token`, for an error text: cut, and with everything that
 * is not printable ASCII replaced by '?', so that a terminal may show it. Returns `token`. */
const char *cadre_bad_lines_token(const char *text, const char *end,
                                  char token[CADRE_BAD_LINES_TOKEN_SIZE]);

#endif
