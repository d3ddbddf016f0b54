#include "common/wire/codec_scan.h"

#include <endian.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/base/utf8.h"

/* First bytes of values, from the msgpack specification. */
enum {
    FIXINT_LAST = CADRE_SCAN_SMALL_LAST,
    FIXARRAY = 0x90,
    FIXARRAY_LAST = 0x9f,
    FIXSTR = 0xa0,
    FIXSTR_LAST = 0xbf,
    BIN8 = 0xc4,
    BIN16 = 0xc5,
    BIN32 = 0xc6,
    UINT8 = 0xcc,
    UINT16 = 0xcd,
    UINT32 = 0xce,
    UINT64 = 0xcf,
    STR8 = 0xd9,
    ARRAY16 = 0xdc,
};

void
cadre_scan_init(cadre_scan_t *self, const void *bytes, size_t size_bytes)
{
    *self = (cadre_scan_t){.start = bytes, .at = bytes, .end = (const uint8_t *)bytes + size_bytes};
}

static size_t
rest(const cadre_scan_t *self)
{
    return (size_t)(self->end - self->at);
}

static size_t
place(const cadre_scan_t *self)
{
    return (size_t)(self->at - self->start);
}

/* Reads a big-endian integer of `size_bytes` bytes, which follows the first byte of a value.
 * Refuses a number below `least`: it has a shorter form, and only the shortest form is valid. */
static int
read_number(cadre_scan_t *self, size_t size_bytes, uint64_t least, uint64_t *out)
{
    if (rest(self) < size_bytes) {
        return cadre_fail(CADRE_EMALFORMED, "header: ends within the value at byte %zu",
                          place(self) - 1);
    }
    uint64_t number = 0;
    if (size_bytes == sizeof(number)) {
        memcpy(&number, self->at, sizeof(number));
        number = be64toh(number);
    }
    for (size_t i = 0; i < size_bytes && size_bytes < sizeof(number); i++) {
        number = number << 8 | self->at[i];
    }
    if (number < least) {
        return cadre_fail(CADRE_EMALFORMED,
                          "header: the value at byte %zu is not in its shortest form",
                          place(self) - 1);
    }
    self->at += size_bytes;
    *out = number;
    return 0;
}

/* Reads the kind of a value, and its number or length, from its first byte and, for longer forms,
 * the bytes that follow. */
static int
read_head(cadre_scan_t *self, uint8_t first, cadre_token_t *out)
{
    if (first <= FIXINT_LAST) {
        out->kind = CADRE_TOKEN_U64;
        out->value = first;
        return 0;
    }
    if (first >= FIXARRAY && first <= FIXARRAY_LAST) {
        out->kind = CADRE_TOKEN_ARRAY;
        out->value = first - FIXARRAY;
        return 0;
    }
    if (first >= FIXSTR && first <= FIXSTR_LAST) {
        out->kind = CADRE_TOKEN_STR;
        out->value = first - FIXSTR;
        return 0;
    }
    out->kind = first >= UINT8 && first <= UINT64 ? CADRE_TOKEN_U64 : CADRE_TOKEN_BIN;
    /* The third argument is the least number that needs this form: a shorter number in it is
     * refused, so that one value has one encoding. */
    switch (first) {
    case UINT8:
        return read_number(self, 1, FIXINT_LAST + 1, &out->value);
    case UINT16:
        return read_number(self, 2, UINT8_MAX + 1, &out->value);
    case UINT32:
        return read_number(self, 4, UINT16_MAX + 1, &out->value);
    case UINT64:
        return read_number(self, 8, (uint64_t)UINT32_MAX + 1, &out->value);
    case BIN8:
        return read_number(self, 1, 0, &out->value);
    case BIN16:
        return read_number(self, 2, UINT8_MAX + 1, &out->value);
    case BIN32:
        return read_number(self, 4, UINT16_MAX + 1, &out->value);
    case STR8:
        out->kind = CADRE_TOKEN_STR;
        return read_number(self, 1, FIXSTR_LAST - FIXSTR + 1, &out->value);
    case ARRAY16:
        out->kind = CADRE_TOKEN_ARRAY;
        return read_number(self, 2, FIXARRAY_LAST - FIXARRAY + 1, &out->value);
    default:
        return cadre_fail(CADRE_EMALFORMED,
                          "header: byte %zu: no header holds a value of type 0x%02x",
                          place(self) - 1, first);
    }
}

/* Reads one value of a header; the elements of an array follow as values of their own. */
int
cadre_scan_next_any(cadre_scan_t *self, cadre_token_t *out)
{
    if (rest(self) == 0) {
        return cadre_fail(CADRE_EMALFORMED, "header: ends at byte %zu, where a value is missing",
                          place(self));
    }
    size_t begin = place(self);
    uint8_t first = *self->at++;
    int status = read_head(self, first, out);
    if (status < 0 || out->kind == CADRE_TOKEN_U64) {
        return status;
    }
    if (out->value > rest(self)) {
        return cadre_fail(CADRE_EMALFORMED,
                          "header: the value at byte %zu declares %" PRIu64
                          " bytes or elements, and %zu bytes are left",
                          begin, out->value, rest(self));
    }
    if (out->kind != CADRE_TOKEN_ARRAY) {
        out->bytes = self->at;
        self->at += out->value;
    }
    return 0;
}

/* Checks the length and the characters of a string. */
static int
check_string(const cadre_scan_t *self, const cadre_token_t *token)
{
    size_t begin = (size_t)(token->bytes - self->start);
    if (token->value > CADRE_HEADER_STRING_MAX) {
        return cadre_fail(CADRE_EMALFORMED,
                          "header: the string at byte %zu has %" PRIu64 " bytes, over its limit %d",
                          begin, token->value, CADRE_HEADER_STRING_MAX);
    }
    if (!cadre_utf8_valid((const char *)token->bytes, token->value)) {
        return cadre_fail(CADRE_EMALFORMED,
                          "header: the string at byte %zu is not UTF-8 without control characters",
                          begin);
    }
    return 0;
}

/* The arrays around the next value: how many elements of each are still to come. */
typedef struct {
    uint64_t open[CADRE_HEADER_DEPTH_MAX];
    int depth;
} nesting_t;

/* Enters an array, if `token` is one, then leaves the arrays that it completes. */
static int
nest(nesting_t *self, const cadre_token_t *token)
{
    if (token->kind == CADRE_TOKEN_ARRAY) {
        if (self->depth == CADRE_HEADER_DEPTH_MAX) {
            return cadre_fail(CADRE_EMALFORMED, "header: arrays are nested deeper than %d",
                              CADRE_HEADER_DEPTH_MAX);
        }
        self->open[self->depth++] = token->value;
    } else if (self->depth > 0) {
        self->open[self->depth - 1]--;
    }
    while (self->depth > 0 && self->open[self->depth - 1] == 0) {
        self->depth--;
        if (self->depth > 0) {
            self->open[self->depth - 1]--;
        }
    }
    return 0;
}

/* Returns how many bytes a decoder needs to copy a value. The outermost array is the header itself,
 * and needs none. */
static size_t
storage_of(const cadre_token_t *token, bool outermost)
{
    switch (token->kind) {
    case CADRE_TOKEN_U64:
        return 0;
    case CADRE_TOKEN_STR:
        return token->value > 0 ? token->value + 1 : 0;
    case CADRE_TOKEN_BIN:
        return token->value;
    case CADRE_TOKEN_ARRAY:
        return outermost ? 0 : token->value * sizeof(uint64_t);
    }
    return 0;
}

/* Checks the form of a whole header, from bytes of unknown origin, and sums up the memory that its
 * values will take. After that, reading value by value cannot fail. */
int
cadre_scan_all(cadre_scan_t *self, size_t *storage_bytes)
{
    nesting_t nesting = {.depth = 0};
    size_t bytes = 0;
    size_t tokens = 0;
    do {
        if (tokens++ == CADRE_HEADER_TOKENS_MAX) {
            return cadre_fail(CADRE_EMALFORMED, "header: more than %d values",
                              CADRE_HEADER_TOKENS_MAX);
        }
        cadre_token_t token = {.bytes = NULL};
        int status = cadre_scan_next(self, &token);
        if (status == 0 && token.kind == CADRE_TOKEN_STR) {
            status = check_string(self, &token);
        }
        if (status == 0) {
            bytes += storage_of(&token, tokens == 1);
            status = nest(&nesting, &token);
        }
        if (status < 0) {
            return status;
        }
    } while (nesting.depth > 0);
    if (rest(self) > 0) {
        return cadre_fail(CADRE_EMALFORMED, "header: %zu bytes follow its end", rest(self));
    }
    *storage_bytes = bytes;
    return 0;
}
