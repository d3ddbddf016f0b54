#include "coordinator/cli/train/json_source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "coordinator/cli/train/json_position.h"
#include "coordinator/cli/train/suggest.h"

/* Parses a text that holds one JSON object; `file` is its name in messages. */
int
cadre_json_source_parse(cadre_json_source_t *self, const char *file, const char *text)
{
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        return cadre_fail(CADRE_ECONFIG, "%s:%d:%d: %s", file, error.line,
                          error.column > 0 ? error.column : 1, error.text);
    }

    if (!json_is_object(root)) {
        json_decref(root);
        return cadre_fail(CADRE_ECONFIG, "%s:1:1: the file must hold one JSON object", file);
    }

    *self =
        (cadre_json_source_t){.file = cadre_strdup(file), .text = cadre_strdup(text), .root = root};
    return 0;
}

static void
close_file(FILE **file)
{
    if (*file) {
        fclose(*file);
    }
}

/* Reads a file that holds one JSON object, and parses it. */
int
cadre_json_source_open(cadre_json_source_t *self, const char *path)
{
    cadre_auto(close_file) FILE *file = fopen(path, "re");
    if (!file) {
        return cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(errno));
    }

    /* One byte more than allowed is read, which tells a larger file; a zero byte ends the text. */
    cadre_auto(cadre_free) char *text = cadre_calloc(CADRE_JSON_SOURCE_SIZE_MAX + 2, 1);
    size_t size_bytes = fread(text, 1, CADRE_JSON_SOURCE_SIZE_MAX + 1, file);

    if (ferror(file)) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    if (size_bytes > CADRE_JSON_SOURCE_SIZE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%s: larger than %d bytes", path,
                          CADRE_JSON_SOURCE_SIZE_MAX);
    }

    if (memchr(text, 0, size_bytes)) {
        return cadre_fail(CADRE_ECONFIG, "%s:1:1: the file holds a zero byte", path);
    }

    return cadre_json_source_parse(self, path, text);
}

void
cadre_json_source_fini(cadre_json_source_t *self)
{
    free(self->file);
    free(self->text);
    json_decref(self->root);
    *self = (cadre_json_source_t){0};
}

/* Fails with CADRE_ECONFIG and "file:line:column: ...", the position of what `pointer` names. */
int
cadre_json_source_fail(const cadre_json_source_t *self, const char *pointer, cadre_json_half_t half,
                       const char *format, ...)
{
    cadre_json_position_t position = {.line = 1, .column = 1};
    cadre_json_position(self->text, pointer, half == CADRE_JSON_KEY, &position);
    char text[CADRE_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return cadre_fail(CADRE_ECONFIG, "%s:%d:%d: %s", self->file, position.line, position.column,
                      text);
}

/* Returns a JSON pointer as messages have it: "model.layers[0].type" for "/model/layers/0/type". */
char *
cadre_json_source_field(const char *pointer)
{
    /* Room for twice the length, as "/0" becomes "[0]". */
    char *field = cadre_calloc(2 * strlen(pointer) + 1, 1);
    char *to = field;

    while (*pointer == '/') {
        size_t length = strcspn(pointer + 1, "/");
        bool index = length > 0 && strspn(pointer + 1, "0123456789") == length;
        if (index) {
            *to++ = '[';
        } else if (to > field) {
            *to++ = '.';
        }

        memcpy(to, pointer + 1, length);
        to += length;
        if (index) {
            *to++ = ']';
        }

        pointer += length + 1;
    }

    return field;
}

/* Returns the end of a message about an unknown key: "; did you mean "x"?", or all known keys if
 * none is near: ", which has x, y". Freed by the caller. */
static char *
suggest_key(const char *key, const char *const *known, size_t count)
{
    char *text = cadre_suggest_text(key, known, count);
    if (*text) {
        return text;
    }

    for (size_t i = 0; i < count; i++) {
        if (known[i]) {
            char *longer = cadre_asprintf("%s%s%s", text, *text ? ", " : ", which has ", known[i]);
            free(text);
            text = longer;
        }
    }

    return text;
}

/* Fails because the object at `pointer` has the unknown key `key`. In a JSON pointer '~' and '/' of
 * a key are written as ~0 and ~1. */
static int
fail_unknown(const cadre_json_source_t *self, const char *pointer, const char *key,
             const char *suggestion)
{
    char place[2 * CADRE_JSON_KEY_SIZE_MAX];
    size_t length = (size_t)snprintf(place, sizeof(place), "%s/", pointer);
    for (const char *c = key; *c && length + 3 < sizeof(place); c++) {
        if (*c == '~' || *c == '/') {
            place[length++] = '~';
            place[length++] = *c == '~' ? '0' : '1';
        } else {
            place[length++] = *c;
        }
    }

    place[length] = '\0';
    cadre_auto(cadre_free) char *field = cadre_json_source_field(pointer);
    return cadre_json_source_fail(self, place, CADRE_JSON_KEY, "unknown key \"%.64s\" in %s%s", key,
                                  *field ? field : "the job", suggestion);
}

/* Checks that each key of the object is one of the `count` `known` keys; NULL entries are
 * skipped. */
int
cadre_json_source_check_keys(const cadre_json_source_t *self, const char *pointer,
                             const json_t *object, const char *const *known, size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < count && !found; i++) {
            found = known[i] && strcmp(known[i], key) == 0;
        }
        if (!found) {
            cadre_auto(cadre_free) char *suggestion = suggest_key(key, known, count);
            return fail_unknown(self, pointer, key, suggestion);
        }
    }

    return 0;
}

/* Returns the type of a value as messages have it: "a string". */
const char *
cadre_json_type_text(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }

    return "a value";
}
