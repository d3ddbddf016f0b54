/*
 * codec_scan - the few msgpack values that headers hold, read from bytes of unknown origin.
 *
 * Owner:   the decoder, for one header; it borrows the bytes.
 * Thread:  any one; nothing is allocated.
 *
 * Only unsigned integers, strings, bins and arrays occur, each in its shortest form: so a message
 * has one encoding, and decoding and encoding are inverse to each other. That is little enough to
 * be read by hand; msgpack-c's unpacker allocates a tree, reserves whatever a count declares, takes
 * long forms, and would still need this scan before it.
 */
#ifndef CADRE_COMMON_WIRE_CODEC_SCAN_H
#define CADRE_COMMON_WIRE_CODEC_SCAN_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    CADRE_TOKEN_U64,
    CADRE_TOKEN_STR,
    CADRE_TOKEN_BIN,
    CADRE_TOKEN_ARRAY,
} cadre_token_kind_t;

typedef struct {
    cadre_token_kind_t kind;
    uint64_t value;       /* the integer; bytes of a str or bin; elements of an array */
    const uint8_t *bytes; /* of a str or bin */
} cadre_token_t;

typedef struct {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
} cadre_scan_t;

void cadre_scan_init(cadre_scan_t *self, const void *bytes, size_t size_bytes);

/* Reads one value; an array's elements follow as values of their own. CADRE_EMALFORMED at the end,
 * for any other type, a longer form than needed, a str or bin that does not fit the rest, and an
 * array of more elements than the rest has bytes. */
int cadre_scan_next_any(cadre_scan_t *self, cadre_token_t *out);

enum { CADRE_SCAN_SMALL_LAST = 0x7f }; /* the largest integer that is its own first byte */

/* As cadre_scan_next_any, without a call for a small integer, which most values are. */
static inline int
cadre_scan_next(cadre_scan_t *self, cadre_token_t *out)
{
    if (self->at == self->end || *self->at > CADRE_SCAN_SMALL_LAST) {
        return cadre_scan_next_any(self, out);
    }
    out->kind = CADRE_TOKEN_U64;
    out->value = *self->at++;
    return 0;
}

/* Reads one whole value and checks what can be said without knowing the message: at most
 * CADRE_HEADER_TOKENS_MAX values, CADRE_HEADER_DEPTH_MAX arrays within each other, strings of at
 * most CADRE_HEADER_STRING_MAX bytes of clean UTF-8 (common/base/utf8.h), nothing after the end.
 * Afterwards cadre_scan_next from the start cannot fail. `storage_bytes` is what a decoder needs to
 * copy everything but the outermost array: strings with a NUL (nothing for an empty one), bins, 8
 * bytes per element of an inner array. */
int cadre_scan_all(cadre_scan_t *self, size_t *storage_bytes);

#endif
