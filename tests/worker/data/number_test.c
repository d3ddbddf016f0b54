#include "worker/data/number.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"

TestSuite(number, .timeout = 240);

static void
check(const char *text, double expected)
{
    double number = -12345;
    const char *end = text + strlen(text);
    const char *after = cadre_number_scan(text, end, &number);
    cr_expect_eq(after, end, "%s", text);
    cr_expect_eq(number, expected, "%s: %.17g, expected %.17g", text, number, expected);
    cr_expect_eq(signbit(number), signbit(expected), "%s", text);
}

Test(number, reads_plain_numbers)
{
    check("0", 0);
    check("-0", -0.0);
    check("7", 7);
    check("+7", 7);
    check("-12.5", -12.5);
    check(".5", 0.5);
    check("5.", 5);
    check("1e3", 1000);
    check("1E-2", 0.01);
    check("2.5e+1", 25);
    check("000000000000000000000000000012", 12);
    check("0.1", 0.1);
    check("123456789012345678901234567890", 123456789012345678901234567890.0);
    check("9007199254740993", 9007199254740993.0);
    check("1e-400", 0);
    check("4.9406564584124654e-324", 4.9406564584124654e-324);
    check("1.7976931348623157e308", 1.7976931348623157e308);
    check("0e999999999999", 0);
    check("0.00000000000000000000000000000000000012345678901234567890", 1.234567890123456789e-37);
}

Test(number, refuses_what_is_none)
{
    static const char *const texts[] = {"",    "-",    "+",   ".",     "-.",
                                        "e5",  "x",    "nan", " 1",    "inf",
                                        "NaN", "-inf", "--1", "1e309", "-1e99999"};
    for (size_t i = 0; i < CADRE_COUNT_OF(texts); i++) {
        double number = 0;
        cr_expect_null(cadre_number_scan(texts[i], texts[i] + strlen(texts[i]), &number), "%s",
                       texts[i]);
    }
}

Test(number, stops_where_the_number_stops)
{
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {{"1,2", 1},  {"1.2.3", 3}, {"1e", 1}, {"1e+", 1},
                 {"0x10", 1}, {"3:4", 1},   {"1 ", 1}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        double number = 0;
        const char *text = cases[i].text;
        cr_expect_eq(cadre_number_scan(text, text + strlen(text), &number), text + cases[i].length,
                     "%s", text);
    }
    double number = 0;
    const char *digits = "12345";
    cr_expect_eq(cadre_number_scan(digits, digits + 2, &number), digits + 2);
    cr_expect_eq(number, 12);
}

Test(number, has_a_longest_number)
{
    char text[CADRE_NUMBER_SIZE_MAX + 2];
    memset(text, '0', sizeof(text));
    text[0] = '1';
    text[1] = '.';
    double number = 0;
    cr_assert_eq(cadre_number_scan(text, text + CADRE_NUMBER_SIZE_MAX, &number),
                 text + CADRE_NUMBER_SIZE_MAX);
    cr_assert_eq(number, 1);
    cr_assert_null(cadre_number_scan(text, text + CADRE_NUMBER_SIZE_MAX + 1, &number));
}

/* Against the C library, which rounds correctly. */
Test(number, rounds_as_strtod_does)
{
    cadre_random_t random;
    cadre_random_init(&random, 11, 0);
    for (int i = 0; i < 100000; i++) {
        char text[64];
        uint64_t bits = cadre_random_next_u64(&random);
        double value = 0;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value) || i % 2 == 0) {
            value = (double)(int64_t)bits / 1e15;
        }
        snprintf(text, sizeof(text), "%.*g", (int)(bits % 20 + 1), value);
        double number = 0;
        const char *after = cadre_number_scan(text, text + strlen(text), &number);
        double expected = strtod(text, NULL);
        cr_assert_eq(after != NULL, isfinite(expected), "%s", text);
        cr_assert(!after || number == expected, "%s: %.17g", text, number);
    }
}

Test(number, reads_an_index_up_to_its_limit)
{
    uint64_t index = 0;
    const char *text = "255:";
    cr_assert_eq(cadre_number_scan_index(text, text + 4, 255, &index), text + 3);
    cr_assert_eq(index, 255);
    cr_assert_null(cadre_number_scan_index(text, text + 4, 254, &index));
    cr_assert_null(cadre_number_scan_index(text, text + 4, 1, &index));
    cr_assert_null(cadre_number_scan_index(text, text, 9, &index));
    cr_assert_null(cadre_number_scan_index(text + 3, text + 4, 9, &index));
    const char *large = "18446744073709551616";
    cr_assert_null(cadre_number_scan_index(large, large + 20, UINT64_MAX, &index));
    large = "18446744073709551615";
    cr_assert_eq(cadre_number_scan_index(large, large + 20, UINT64_MAX, &index), large + 20);
    cr_assert_eq(index, UINT64_MAX);
}
