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
#include <stdbool.h>

#include "common/base/status.h"

enum { CADRE_JSON_SOURCE_SIZE_MAX = 1 << 20 }; /* bytes of a file; a larger one is refused */

typedef struct {
    char *file; /* as the user gave it, for messages */
    char *text;
    json_t *root; /* an object */
} cadre_json_source_t;

/* Reads and parses a file that holds one JSON object; doubled keys are refused. CADRE_ENOTFOUND
 * when it cannot be opened, CADRE_EIO when it cannot be read, CADRE_ETOOLARGE, CADRE_ECONFIG with
 * file:line:column when it is no JSON. */
int cadre_json_source_open(cadre_json_source_t *self, const char *path);

/* Opens a text in memory; `file` is its name in messages. */
int cadre_json_source_parse(cadre_json_source_t *self, const char *file, const char *text);

/* Harmless on a zeroed struct. */
void cadre_json_source_fini(cadre_json_source_t *self);

/* CADRE_ECONFIG with "file:line:column: ..." of what `pointer` names: its key when `key`, else its
 * value. */
int cadre_json_source_fail(const cadre_json_source_t *self, const char *pointer, bool key,
                           const char *format, ...) CADRE_PRINTF(4, 5);

/* "/model/layers/0/type" as messages have it: "model.layers[0].type"; indexes count from 0. Freed
 * by the caller. */
char *cadre_json_source_field(const char *pointer);

/* CADRE_ECONFIG at the first member of the object at `pointer` that is not one of `count` `known`
 * keys, with the nearest known one, or all when none is near; 0 when there is none. NULL entries of
 * `known` are skipped. */
int cadre_json_source_check_keys(const cadre_json_source_t *self, const char *pointer,
                                 const json_t *object, const char *const *known, size_t count);

/* "a string", "an object" and so on, for messages. */
const char *cadre_json_type_text(const json_t *value);

#endif
