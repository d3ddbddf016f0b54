#include "common/wire/codec_scan.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(codec_scan, .timeout = 240);

typedef struct {
    uint8_t bytes[12];
    size_t size_bytes;
} value_t;

/* Scans from an exact allocation. */
static int
scan(const void *bytes, size_t size_bytes, size_t *storage_bytes)
{
    uint8_t *copy = cadre_calloc(size_bytes, 1);
    memcpy(copy, bytes, size_bytes);
    cadre_scan_t self;
    cadre_scan_init(&self, copy, size_bytes);
    int status = cadre_scan_all(&self, storage_bytes);
    free(copy);
    return status;
}

static int
scan_value(const value_t *value)
{
    size_t storage_bytes = 0;
    return scan(value->bytes, value->size_bytes, &storage_bytes);
}

static uint64_t
number(const value_t *value)
{
    cadre_scan_t self;
    cadre_token_t token;
    cadre_scan_init(&self, value->bytes, value->size_bytes);
    cr_assert_eq(cadre_scan_next(&self, &token), 0);
    cr_assert_eq(token.kind, CADRE_TOKEN_U64);
    cr_assert_eq(self.at, self.end);
    return token.value;
}

Test(codec_scan, reads_integers_at_the_ends_of_each_form)
{
    cr_assert_eq(number(&(value_t){{0}, 1}), 0);
    cr_assert_eq(number(&(value_t){{0x7f}, 1}), 127);
    cr_assert_eq(number(&(value_t){{0xcc, 0x80}, 2}), 128);
    cr_assert_eq(number(&(value_t){{0xcc, 0xff}, 2}), 255);
    cr_assert_eq(number(&(value_t){{0xcd, 1, 0}, 3}), 256);
    cr_assert_eq(number(&(value_t){{0xcd, 0xff, 0xff}, 3}), 65535);
    cr_assert_eq(number(&(value_t){{0xce, 0, 1, 0, 0}, 5}), 65536);
    cr_assert_eq(number(&(value_t){{0xce, 0xff, 0xff, 0xff, 0xff}, 5}), UINT32_MAX);
    cr_assert_eq(number(&(value_t){{0xcf, 0, 0, 0, 1, 0, 0, 0, 0}, 9}), UINT64_C(1) << 32);
    cr_assert_eq(number(&(value_t){{0xcf, 1, 2, 3, 4, 5, 6, 7, 8}, 9}),
                 UINT64_C(0x0102030405060708));
}

Test(codec_scan, refuses_longer_forms_than_needed)
{
    static const value_t bad[] = {
        {{0xcc, 0x7f}, 2},                               /* integers */
        {{0xcd, 0, 0xff}, 3},                            /* */
        {{0xce, 0, 0, 0xff, 0xff}, 5},                   /* */
        {{0xcf, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 9}, /* */
        {{0xd9, 1, 'a'}, 3},                             /* strings */
        {{0xda, 0, 1, 'a'}, 4},                          /* */
        {{0xdb, 0, 0, 0, 1, 'a'}, 6},                    /* */
        {{0xc5, 0, 1, 'a'}, 4},                          /* bins */
        {{0xc6, 0, 0, 0, 1, 'a'}, 6},                    /* */
        {{0xdc, 0, 1, 1}, 4},                            /* arrays */
        {{0xdd, 0, 0, 0, 1, 1}, 6},                      /* */
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_assert_eq(scan_value(&bad[i]), CADRE_EMALFORMED, "case %zu", i);
    }
    cr_assert_eq(scan_value(&(value_t){{0xc4, 1, 'a'}, 3}), 0, "a bin has no shorter form");
    cr_assert_eq(scan_value(&(value_t){{0xc4, 0}, 2}), 0);
}

Test(codec_scan, refuses_every_type_that_no_header_holds)
{
    for (unsigned first = 0; first < 256; first++) {
        bool taken = first <= 0x7f || (first >= 0x90 && first <= 0xbf) ||
                     (first >= 0xc4 && first <= 0xc6) || (first >= 0xcc && first <= 0xcf) ||
                     first == 0xd9 || first == 0xdc;
        value_t value = {{(uint8_t)first, 0, 0, 0, 0, 0, 0, 0, 0}, 9};
        int status = scan_value(&value);
        bool unknown = status < 0 && strstr(cadre_error_text(), "no header holds") != NULL;
        cr_assert_eq(unknown, !taken, "0x%02x", first);
    }
}

Test(codec_scan, believes_no_count)
{
    static const value_t bad[] = {
        {{0xa1}, 1},                            /* a string of 1 */
        {{0xd9, 0x20, 'a'}, 3},                 /* of 32 */
        {{0xc4, 2, 'a'}, 3},                    /* a bin of 2 */
        {{0xc6, 0xff, 0xff, 0xff, 0xff, 1}, 6}, /* of 4 GiB */
        {{0x91}, 1},                            /* an array of 1 */
        {{0x93, 1, 1}, 3},                      /* of 3 */
        {{0xdc, 0xff, 0xff, 1, 1}, 5},          /* of 65535 */
        {{0x92, 0xa1, 'a'}, 3},                 /* enough bytes, too few values */
        {{0xcf, 1, 2, 3}, 4},                   /* half an integer */
        {{0xd9}, 1},                            /* half a count */
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_assert_eq(scan_value(&bad[i]), CADRE_EMALFORMED, "case %zu", i);
    }
    scan_value(&bad[1]);
    cr_assert_str_eq(cadre_error_text(), "header: the value at byte 0 declares 32 bytes or "
                                         "elements, and 1 bytes are left");
    cr_assert_eq(scan_value(&(value_t){{0xa2, 'a'}, 2}), CADRE_EMALFORMED);
    cr_assert_str_eq(cadre_error_text(), "header: the value at byte 0 declares 2 bytes or "
                                         "elements, and 1 bytes are left");
    cr_assert_eq(scan_value(&(value_t){{0}, 0}), CADRE_EMALFORMED, "nothing at all");
    cr_assert_eq(scan_value(&(value_t){{0x91, 1, 1}, 3}), CADRE_EMALFORMED, "and then some");
    cr_assert_str_eq(cadre_error_text(), "header: 1 bytes follow its end");
}

static int
scan_array(size_t values)
{
    uint8_t bytes[3 + 300] = {0xdc, (uint8_t)(values >> 8), (uint8_t)values};
    size_t storage_bytes = 0;
    return scan(bytes, 3 + values, &storage_bytes);
}

Test(codec_scan, counts_values)
{
    cr_assert_eq(scan_array(CADRE_HEADER_TOKENS_MAX - 2), 0);
    cr_assert_eq(scan_array(CADRE_HEADER_TOKENS_MAX - 1), 0, "and the array itself");
    cr_assert_eq(scan_array(CADRE_HEADER_TOKENS_MAX), CADRE_EMALFORMED);
}

Test(codec_scan, counts_depth)
{
    cr_assert_eq(scan_value(&(value_t){{0x91, 0x91, 0x91, 1}, 4}), 0);
    cr_assert_eq(scan_value(&(value_t){{0x91, 0x91, 0x91, 0x91, 1}, 5}), 0);
    cr_assert_eq(scan_value(&(value_t){{0x91, 0x91, 0x91, 0x90}, 4}), 0);
    cr_assert_eq(scan_value(&(value_t){{0x91, 0x91, 0x91, 0x91, 0x91, 1}, 6}), CADRE_EMALFORMED);
    cr_assert_eq(scan_value(&(value_t){{0x91, 0x91, 0x91, 0x91, 0x90}, 5}), CADRE_EMALFORMED);
    cr_assert_eq(scan_value(&(value_t){{0x93, 0x90, 0x91, 0x90, 0x91, 1}, 6}), 0, "in a row");
    cr_assert_eq(scan_value(&(value_t){{0x93, 0x90, 0x91, 0x90, 0x91}, 5}), CADRE_EMALFORMED);
}

static int
scan_string(size_t length)
{
    uint8_t bytes[4 + 300];
    memset(bytes, 'a', sizeof(bytes));
    size_t head = length > 255 ? 3 : 2;
    bytes[0] = length > 255 ? 0xda : 0xd9;
    bytes[1] = (uint8_t)(length > 255 ? length >> 8 : length);
    if (length > 255) {
        bytes[2] = (uint8_t)length;
    }
    size_t storage_bytes = 0;
    return scan(bytes, head + length, &storage_bytes);
}

Test(codec_scan, takes_clean_strings_of_limited_length)
{
    cr_assert_eq(scan_string(CADRE_HEADER_STRING_MAX - 1), 0);
    cr_assert_eq(scan_string(CADRE_HEADER_STRING_MAX), 0);
    cr_assert_eq(scan_string(CADRE_HEADER_STRING_MAX + 1), CADRE_EMALFORMED);
    cr_assert_eq(scan_value(&(value_t){{0xa2, 0xc3, 0xb6}, 3}), 0);
    cr_assert_eq(scan_value(&(value_t){{0xa1, 0}, 2}), CADRE_EMALFORMED);
    cr_assert_eq(scan_value(&(value_t){{0xa1, '\n'}, 2}), CADRE_EMALFORMED);
    cr_assert_eq(scan_value(&(value_t){{0xa1, 0xc3}, 2}), CADRE_EMALFORMED);
    cr_assert_eq(scan_value(&(value_t){{0xc4, 2, 0, 0xff}, 4}), 0, "a bin is no string");
}

Test(codec_scan, sums_up_what_copies_take)
{
    static const uint8_t bytes[] = {0x97, 1, 0xa0, 0xa2, 'a', 'b',  0xc4, 3,    1,
                                    2,    3, 0x92, 0xa1, 'x', 0xa0, 0x90, 0xcc, 200};
    size_t storage_bytes = 0;
    cr_assert_eq(scan(bytes, sizeof(bytes), &storage_bytes), 0);
    cr_assert_eq(storage_bytes, (2 + 1) + 3 + (2 * 8 + 1 + 1));
}
