/* Whole numbers in text. */
#include "common/base/whole_number.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

Test(whole_number, is_read_within_its_range)
{
    int64_t value = 0;
    cr_expect_eq(cadre_whole_number_parse("1", 1, 20, &value), 0);
    cr_expect_eq(value, 1, "the least");
    cr_expect_eq(cadre_whole_number_parse("20", 1, 20, &value), 0);
    cr_expect_eq(value, 20, "the most");
    cr_expect_eq(cadre_whole_number_parse("-9223372036854775808", INT64_MIN, INT64_MAX, &value), 0);
    cr_expect_eq(value, INT64_MIN);
}

Test(whole_number, refuses_anything_else_with_the_range)
{
    static const char *const texts[] = {"0", "21", "", "x", "3x", "3.5", "9223372036854775808"};
    for (size_t i = 0; i < CADRE_COUNT_OF(texts); i++) {
        int64_t value = 7;
        cr_expect_eq(cadre_whole_number_parse(texts[i], 1, 20, &value), CADRE_EINVALID, "%s",
                     texts[i]);
        cr_expect_eq(value, 7, "%s: nothing is written", texts[i]);
    }

    cadre_whole_number_parse("many", 1, 20, &(int64_t){0});
    cr_expect_str_eq(cadre_error_text(), "\"many\" is not a whole number from 1 to 20");
}

Test(whole_number, of_a_key_is_its_64_bits)
{
    static const struct {
        const char *text;
        uint64_t key;
    } keys[] = {{"0", 0},
                {"-1", UINT64_MAX},
                {"18446744073709551615", UINT64_MAX},
                {"-9223372036854775808", UINT64_C(1) << 63}};
    const char *end = NULL;
    uint64_t key = 7;
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        cr_expect(cadre_whole_number_scan_key(keys[i].text, &key, &end), "%s", keys[i].text);
        cr_expect(key == keys[i].key && *end == '\0', "%s", keys[i].text);
    }
    cr_expect(cadre_whole_number_scan_key("42,7", &key, &end) && key == 42 && *end == ',');

    static const char *const none[] = {
        "18446744073709551616", "-9223372036854775809", "", "-", "--1", "+1", " 1", "x"};
    for (size_t i = 0; i < CADRE_COUNT_OF(none); i++) {
        key = 7;
        cr_expect(!cadre_whole_number_scan_key(none[i], &key, &end), "\"%s\"", none[i]);
        cr_expect_eq(key, 7, "\"%s\": nothing is written", none[i]);
    }
}
