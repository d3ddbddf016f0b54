#include "common/system/log_line.h"

#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/utf8.h"
#include "common/system/clock.h"

enum { END_SIZE = 16 }; /* bytes kept free for cadre_log_line_end */

static const char *const level_names[] = {"debug", "info", "warn", "error"};

/* Appends the bytes if they fit before the end of the line; else appends nothing and returns false.
 */
static bool
put(cadre_log_line_t *self, const char *bytes, size_t size)
{
    if (size > CADRE_LOG_LINE_SIZE - END_SIZE - self->size) {
        return false;
    }
    memcpy(self->bytes + self->size, bytes, size);
    self->size += size;
    return true;
}

static bool
put_text(cadre_log_line_t *self, const char *text)
{
    return put(self, text, strlen(text));
}

/* Returns the letter behind the backslash of a line break, a tab or a carriage return. */
static char
letter_of(unsigned char byte)
{
    switch (byte) {
    case '\n':
        return 'n';
    case '\t':
        return 't';
    default:
        return 'r';
    }
}

/* Writes an escape for a byte that is a control character or part of no UTF-8 character; false when
 * it does not fit. */
static bool
put_bad_byte(cadre_log_line_t *self, unsigned char byte)
{
    char escaped[8];
    if (byte == '\n' || byte == '\t' || byte == '\r') {
        snprintf(escaped, sizeof(escaped), "\\%c", letter_of(byte));
    } else if (self->style == CADRE_LOG_TEXT) {
        snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
    } else if (byte < 0x80) {
        snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
    } else {
        snprintf(escaped, sizeof(escaped), "\\ufffd");
    }

    return put_text(self, escaped);
}

/* Writes a text in double quotes, with quotes, backslashes and bad bytes escaped; false when it
 * does not fit. */
static bool
put_quoted(cadre_log_line_t *self, const char *text)
{
    bool fits = put(self, "\"", 1);
    size_t left = strlen(text);
    while (fits && left > 0) {
        size_t size = cadre_utf8_character(text, left);
        if (size == 0) {
            fits = put_bad_byte(self, (unsigned char)*text);
            size = 1;
        } else {
            fits = (*text != '"' && *text != '\\') || put(self, "\\", 1);
            fits = fits && put(self, text, size);
        }
        text += size;
        left -= size;
    }

    return fits && put(self, "\"", 1);
}

/* Returns whether a value can stand without quotes in a text line. */
static bool
is_plain(const char *text)
{
    if (!*text || !cadre_utf8_valid(text, strlen(text))) {
        return false;
    }
    return text[strcspn(text, " \"\\=")] == '\0';
}

static const char *
skip_digits(const char *text)
{
    return text + strspn(text, "0123456789");
}

/* Returns whether a text is a number as JSON writes it. */
static bool
is_json_number(const char *text)
{
    text += *text == '-';
    const char *digits = text;
    text = skip_digits(text);
    /* In JSON only 0 itself begins with 0. */
    if (text == digits || (digits[0] == '0' && text > digits + 1)) {
        return false;
    }

    if (*text == '.') {
        digits = ++text;
        text = skip_digits(text);
        if (text == digits) {
            return false;
        }
    }

    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        digits = text;
        text = skip_digits(text);
        if (text == digits) {
            return false;
        }
    }

    return *text == '\0';
}

/* Writes a value, in quotes unless it can stand without: in JSON a valid number, in text a plain
 * word. */
static bool
put_value(cadre_log_line_t *self, const char *value, bool number)
{
    bool bare = self->style == CADRE_LOG_JSON ? number && is_json_number(value) : is_plain(value);
    return bare ? put_text(self, value) : put_quoted(self, value);
}

/* Begins a line with the present time, level, task and event, as JSON or as text. */
void
cadre_log_line_begin(cadre_log_line_t *self, cadre_log_style_t style, cadre_log_level_t level,
                     const char *task, const char *event)
{
    cadre_assert(level >= CADRE_LOG_DEBUG && level <= CADRE_LOG_ERROR);
    self->style = style;
    self->cut = false;
    self->size = 0;
    char when[CADRE_CLOCK_TEXT_SIZE];
    if (style == CADRE_LOG_JSON) {
        put_text(self, "{\"ts\":\"");
        put_text(self, cadre_clock_utc_text(when));
        put_text(self, "\"");
        cadre_log_line_add(self, "level", 5, level_names[level], false);
        cadre_log_line_add(self, "task", 4, task, false);
        cadre_log_line_add(self, "event", 5, event, false);
        return;
    }

    put_text(self, cadre_clock_local_text(when));
    put(self, (char[]){' ', "DIWE"[level], ' '}, 3);

    put_value(self, task, false);
    put(self, " ", 1);
    put_value(self, event, false);
}

/* Adds a pair, or leaves it out as a whole when it does not fit: the line then says cut=true. */
void
cadre_log_line_add(cadre_log_line_t *self, const char *key, size_t key_size, const char *value,
                   bool number)
{
    size_t before = self->size;
    bool json = self->style == CADRE_LOG_JSON;
    bool fits = put_text(self, json ? ",\"" : " ") && put(self, key, key_size) &&
                put_text(self, json ? "\":" : "=") && put_value(self, value, number);
    if (!fits) {
        self->size = before;
        self->cut = true;
    }
}

/* Ends the line, in the bytes that were kept free for that. */
void
cadre_log_line_end(cadre_log_line_t *self)
{
    bool json = self->style == CADRE_LOG_JSON;
    const char *cut = json ? ",\"cut\":true" : " cut=true";
    int length = snprintf(self->bytes + self->size, sizeof(self->bytes) - self->size, "%s%s\n",
                          self->cut ? cut : "", json ? "}" : "");
    cadre_assert(length > 0 && length <= END_SIZE);
    self->size += (size_t)length;
}
