#include "coordinator/cli/train/json_position.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The text is known to be valid JSON, so the scanner only looks for where values end and reports no
 * errors; it still stops at the terminating NUL wherever that comes. */

static const char *
skip_space(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') {
        at++;
    }
    return at;
}

/* Skips a string: `at` is behind the opening quote, the result behind the closing one. */
static const char *
skip_string(const char *at)
{
    while (*at && *at != '"') {
        if (*at == '\\' && at[1]) {
            at++;
        }
        at++;
    }
    return *at ? at + 1 : at;
}

/* Skips a value, which begins at `at`; returns where it ends. Brackets are only counted, as the
 * text is known to be valid. */
static const char *
skip_value(const char *at)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at + 1);
        } else if (*at == '{' || *at == '[') {
            depth++;
            at++;
        } else if (*at == '}' || *at == ']') {
            depth--;
            at++;
        } else if (depth == 0) {
            at += strcspn(at, ",]} \t\r\n");
        } else {
            at++;
        }
    } while (depth > 0 && *at);

    return at;
}

/* Writes a character (below 0x10000) as UTF-8; returns how many bytes it took. */
static size_t
put_utf8(char *out, unsigned long code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }

    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }

    out[0] = (char)(0xe0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

/* Decodes one escape sequence; *at_p is behind its backslash, and is moved behind it. Returns the
 * bytes written to `out`. A character outside Unicode's basic plane may come out as two wrong ones:
 * no key of a job file has any. */
static size_t
unescape(const char **at_p, char *out)
{
    static const char from[] = "bfnrt";
    static const char to[] = "\b\f\n\r\t";
    const char *at = *at_p;
    if (*at == 'u' && strspn(at + 1, "0123456789abcdefABCDEF") >= 4) {
        char digits[5] = {at[1], at[2], at[3], at[4], 0};
        *at_p = at + 5;
        return put_utf8(out, strtoul(digits, NULL, 16));
    }

    const char *found = *at ? strchr(from, *at) : NULL;
    out[0] = found ? to[found - from] : *at;
    *at_p = *at ? at + 1 : at;
    return 1;
}

/* Returns whether the string that begins behind the quote at `at` is `name`, after unescaping. */
static bool
string_is(const char *at, const char *name)
{
    char text[CADRE_JSON_KEY_SIZE_MAX + 4]; /* the last character may take 3 bytes */
    size_t length = 0;
    while (*at && *at != '"' && length < CADRE_JSON_KEY_SIZE_MAX) {
        if (*at == '\\') {
            at++;
            length += unescape(&at, text + length);
        } else {
            text[length++] = *at++;
        }
    }

    return *at == '"' && strlen(name) == length && memcmp(text, name, length) == 0;
}

/* Copies the next step of the JSON pointer, with its ~0 and ~1 turned back into '~' and '/', and
 * moves the pointer behind it. Returns false when the step is too long for `step`. */
static bool
next_step(const char **pointer_p, char *step)
{
    const char *at = *pointer_p + 1;
    size_t length = 0;
    while (*at && *at != '/') {
        if (length == CADRE_JSON_KEY_SIZE_MAX) {
            return false;
        }
        if (*at == '~' && (at[1] == '0' || at[1] == '1')) {
            step[length++] = at[1] == '0' ? '~' : '/';
            at += 2;
        } else {
            step[length++] = *at++;
        }
    }

    step[length] = '\0';
    *pointer_p = at;
    return true;
}

/* Finds the value of member `name` of the object at `at`, and its key in `key`; NULL when there is
 * none. */
static const char *
find_member(const char *at, const char *name, const char **key)
{
    at = skip_space(at + 1);
    while (*at == '"') {
        const char *found = at;
        at = skip_space(skip_string(at + 1));
        if (*at != ':') {
            return NULL;
        }

        at = skip_space(at + 1);
        if (string_is(found + 1, name)) {
            *key = found;
            return at;
        }

        at = skip_space(skip_value(at));
        if (*at == ',') {
            at = skip_space(at + 1);
        }
    }

    return NULL;
}

/* Finds the item of the array at `at` whose index is the number in `step`; NULL when there is
 * none. */
static const char *
find_item(const char *at, const char *step)
{
    char *end;
    unsigned long index = strtoul(step, &end, 10);

    if (!isdigit((unsigned char)*step) || *end) {
        return NULL;
    }

    at = skip_space(at + 1);
    while (*at && *at != ']') {
        if (index-- == 0) {
            return at;
        }
        at = skip_space(skip_value(at));
        if (*at == ',') {
            at = skip_space(at + 1);
        }
    }

    return NULL;
}

/* Walks the text step by step of the pointer, then counts the lines and columns before what it
 * found; returns false when nothing is there. */
bool
cadre_json_position(const char *text, const char *pointer, bool key,
                    cadre_json_position_t *position)
{
    char step[CADRE_JSON_KEY_SIZE_MAX + 1];
    const char *at = skip_space(text);
    const char *name = NULL;

    while (*pointer == '/') {
        if (!next_step(&pointer, step)) {
            return false;
        }

        name = NULL;
        if (*at == '{') {
            at = find_member(at, step, &name);
        } else {
            at = *at == '[' ? find_item(at, step) : NULL;
        }

        if (!at) {
            return false;
        }
    }

    /* A column is a character, as editors count: bytes that continue a UTF-8 sequence are none. */
    const char *end = key && name ? name : at;
    cadre_json_position_t found = {.line = 1, .column = 1};
    for (const char *c = text; c < end; c++) {
        if (*c == '\n') {
            found.line++;
            found.column = 1;
        } else if (((unsigned char)*c & 0xc0) != 0x80) {
            found.column++;
        }
    }

    *position = found;
    return true;
}
