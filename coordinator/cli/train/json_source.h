/*
 * json_source - a JSON file that is being read strictly: its text, its values, and errors that say
 * file, line and column.
 *
 * Owner:   the caller; ended with cadre_json_source_fini.
 * Thread:  one at a time.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JSON_SOURCE_H
#define CADRE_COORDINATOR_CLI_TRAIN_JSON_SOURCE_H

#include <jansson.h>

#include "common/base/status.h"

enum { CADRE_JSON_SOURCE_SIZE_MAX = 1 << 20 }; /* bytes of a file; a larger one is refused */

/* Whether a mistake is in the key of an object's member or in its value. */
typedef enum {
    CADRE_JSON_VALUE,
    CADRE_JSON_KEY,
} cadre_json_half_t;

typedef struct {
    char *file; /* as the user gave it, for messages */
    char *text;
    json_t *root; /* an object */
} cadre_json_source_t;

/* Reads and parses a file that holds one JSON object; doubled keys are refused. Fails with
 * CADRE_ENOTFOUND when it cannot be opened, CADRE_EIO when it cannot be read, CADRE_ETOOLARGE when
 * it is too long, and CADRE_ECONFIG with file:line:column when it is no JSON object. */
int cadre_json_source_open(cadre_json_source_t *self, const char *path);

/* Opens a text in memory; `file` is its name in messages. */
int cadre_json_source_parse(cadre_json_source_t *self, const char *file, const char *text);

/* Frees file, text and values; harmless on a zeroed struct. */
void cadre_json_source_fini(cadre_json_source_t *self);

/* Fails with CADRE_ECONFIG and "file:line:column: ..." of the key or the value that `pointer`
 * names. */
int cadre_json_source_fail(const cadre_json_source_t *self, const char *pointer,
                           cadre_json_half_t half, const char *format, ...) CADRE_PRINTF(4, 5);

/* Returns a pointer as messages have it: "model.layers[0].type" for "/model/layers/0/type"; indexes
 * count from 0. Freed by the caller. */
char *cadre_json_source_field(const char *pointer);

/* Checks the keys of the object at `pointer`: fails with CADRE_ECONFIG at the first one that is not
 * among the `count` `known` keys, with the nearest known key, or all of them when none is near.
 * NULL entries of `known` are skipped. */
int cadre_json_source_check_keys(const cadre_json_source_t *self, const char *pointer,
                                 const json_t *object, const char *const *known, size_t count);

/* Returns "a string", "an object" and so on, for messages. */
const char *cadre_json_type_text(const json_t *value);

#endif
