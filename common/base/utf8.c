#include "common/base/utf8.h"

#include <string.h>

/* Returns how many bytes must follow a leading byte (0: it begins no character), and the range of
 * the first of them, which excludes overlong forms, surrogates and numbers above U+10FFFF. */
size_t
cadre_utf8_tail(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        return 1;
    }

    if (lead >= 0xe0 && lead <= 0xef) {
        *low = lead == 0xe0 ? 0xa0 : 0x80;
        *high = lead == 0xed ? 0x9f : 0xbf;
        return 2;
    }

    if (lead >= 0xf0 && lead <= 0xf4) {
        *low = lead == 0xf0 ? 0x90 : 0x80;
        *high = lead == 0xf4 ? 0x8f : 0xbf;
        return 3;
    }

    return 0;
}

/* Returns the length in bytes of the character that `bytes` begins with; 0 when it is cut off, not
 * UTF-8, or a control character. */
size_t
cadre_utf8_character(const char *bytes, size_t size_bytes)
{
    const uint8_t *at = (const uint8_t *)bytes;
    if (size_bytes == 0) {
        return 0;
    }
    if (at[0] < 0x80) {
        return at[0] >= 0x20 && at[0] != 0x7f;
    }

    uint8_t low = 0;
    uint8_t high = 0;
    size_t tail = cadre_utf8_tail(at[0], &low, &high);
    low = at[0] == 0xc2 ? 0xa0 : low; /* U+0080 to U+009F are control characters */
    if (tail == 0 || tail >= size_bytes || at[1] < low || at[1] > high) {
        return 0;
    }

    for (size_t i = 2; i <= tail; i++) {
        if (at[i] < 0x80 || at[i] > 0xbf) {
            return 0;
        }
    }

    return tail + 1;
}

/* Returns whether all of `bytes` is UTF-8 without control characters. */
bool
cadre_utf8_valid(const char *bytes, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        size_t length = cadre_utf8_character(bytes + at, size_bytes - at);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

/* Copies a text to `out`, with "?" for bytes that are not UTF-8 and a space for control characters,
 * cut at a whole character to `size_bytes_max` bytes, and ended with a 0. Returns its length. */
size_t
cadre_utf8_clean(const char *text, size_t size_bytes_max, char *out)
{
    size_t size_bytes = text ? strlen(text) : 0;
    size_t at = 0;
    while (at < size_bytes) {
        size_t length = cadre_utf8_character(text + at, size_bytes - at);
        if (at + (length ? length : 1) > size_bytes_max) {
            break;
        }
        if (length == 0) {
            uint8_t byte = (uint8_t)text[at];
            out[at++] = byte < 0x80 ? ' ' : '?';
            continue;
        }
        memcpy(out + at, text + at, length);
        at += length;
    }

    out[at] = '\0';
    return at;
}
