/*
 * json_position - where in a JSON text a value stands.
 *
 * Thread:  any; the functions keep no state.
 *
 * jansson tells the line of a syntax error but forgets where values were. Errors that are found
 * later, such as an unknown key, are located by walking the text again: only when there is an
 * error, so that being slow costs nothing.
 */
#ifndef CADRE_COORDINATOR_CLI_TRAIN_JSON_POSITION_H
#define CADRE_COORDINATOR_CLI_TRAIN_JSON_POSITION_H

#include <stdbool.h>
#include <stddef.h>

enum { CADRE_JSON_KEY_SIZE_MAX = 256 }; /* bytes of one step of a pointer, unescaped */

typedef struct {
    int line;   /* from 1 */
    int column; /* from 1, in characters (UTF-8), as editors count */
} cadre_json_position_t;

/* Finds the value that the JSON pointer `pointer` (RFC 6901: "/model/hidden/0", "" for the whole
 * text) names in `text`, which jansson has accepted. The position is that of the value or, if `key`
 * and the value is a member of an object, of its key. Names are compared after unescaping \uXXXX
 * and the like. Returns false, with `position` untouched, when nothing is there. */
bool cadre_json_position(const char *text, const char *pointer, bool key,
                         cadre_json_position_t *position);

#endif
