#include "worker/data/text_check.h"

#include <stdbool.h>

#include "common/base/bounds.h"
#include "common/base/status.h"
#include "common/base/utf8.h"

enum { BLOCK_SIZE = 64 }; /* bytes that are looked at together */

/* Returns whether a byte is a character by itself. */
static bool
is_single(uint8_t byte)
{
    return (byte >= ' ' && byte < 0x7f) || (byte >= '\t' && byte <= '\r');
}

/* Returns whether all bytes are characters by themselves, as almost all are of most texts, and
 * counts those that are ends of lines. No byte ends the loop early, so it computes many at once. */
static bool
is_plain(const uint8_t block[BLOCK_SIZE], uint64_t *line_ends)
{
    uint8_t others = 0;
    uint8_t ends = 0;
    for (size_t i = 0; i < BLOCK_SIZE; i++) {
        others |= (uint8_t)!is_single(block[i]);
        ends = (uint8_t)(ends + (block[i] == '\n'));
    }
    *line_ends += others ? 0 : ends;
    return !others;
}

/* Fails because a byte begins no character of a text. */
static int
refuse(uint8_t byte)
{
    return byte < 0x80 ? cadre_fail(CADRE_EDATA,
                                    "not text: byte 0x%02x is a control character other than tabs "
                                    "and ends of lines and pages; name text files in UTF-8",
                                    byte)
                       : cadre_fail(CADRE_EDATA,
                                    "not text: byte 0x%02x begins no character of UTF-8; name text "
                                    "files in UTF-8, or convert this one, as by iconv -t UTF-8",
                                    byte);
}

/* Checks the next byte. */
static int
add_byte(cadre_text_check_t *self, uint8_t byte)
{
    if (self->tail > 0) {
        if (byte < self->low || byte > self->high) {
            return refuse(self->lead);
        }
        self->tail--;
        self->low = 0x80;
        self->high = 0xbf;
        return 0;
    }
    if (is_single(byte)) {
        self->line_ends += byte == '\n';
        return 0;
    }
    self->lead = byte;
    self->tail = cadre_utf8_tail(byte, &self->low, &self->high);
    return self->tail > 0 ? 0 : refuse(byte);
}

int
cadre_text_check_add(cadre_text_check_t *self, const void *bytes, size_t size_bytes)
{
    const uint8_t *at = bytes;
    const uint8_t *stop = at + size_bytes;
    while (at < stop) {
        const bool is_block = stop - at >= BLOCK_SIZE && self->tail == 0;
        if (is_block && is_plain(at, &self->line_ends)) {
            at += BLOCK_SIZE;
            continue;
        }
        for (const uint8_t *end = at + cadre_min_u64((uint64_t)(stop - at), BLOCK_SIZE); at < end;
             at++) {
            int status = add_byte(self, *at);
            if (status < 0) {
                return status;
            }
        }
    }
    return 0;
}

int
cadre_text_check_end(const cadre_text_check_t *self)
{
    return self->tail > 0 ? refuse(self->lead) : 0;
}
