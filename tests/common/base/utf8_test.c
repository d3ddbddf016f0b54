#include "common/base/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(utf8, .timeout = 240);

static bool
valid(const char *text)
{
    return cadre_utf8_valid(text, strlen(text));
}

Test(utf8, takes_the_first_and_last_character_of_each_length)
{
    static const char *const good[] = {
        "",
        " ",
        "~",
        "\xc2\xa0",
        "\xdf\xbf",
        "\xe0\xa0\x80",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xef\xbf\xbf",
        "\xf0\x90\x80\x80",
        "\xf4\x8f\xbf\xbf",
        "Größe ½ 漢字 \xf0\x9f\x98\x80",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
        cr_assert(valid(good[i]), "case %zu", i);
    }
}

Test(utf8, refuses_what_is_no_clean_character)
{
    static const char *const bad[] = {
        "\x01",             /* control characters */
        "\x1f",             /* */
        "\x7f",             /* */
        "a\nb",             /* */
        "\xc2\x80",         /* */
        "\xc2\x9f",         /* */
        "\x80",             /* no leading byte */
        "\xbf",             /* */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* */
        "\xf0\x8f\xbf\xbf", /* */
        "\xed\xa0\x80",     /* surrogates */
        "\xed\xbf\xbf",     /* */
        "\xf4\x90\x80\x80", /* over U+10FFFF */
        "\xf5\x80\x80\x80", /* */
        "\xff",             /* */
        "\xdf",             /* cut short */
        "\xe1\x80",         /* */
        "\xf1\x80\x80",     /* */
        "\xe1\x80z",        /* */
        "\xf1\x80\x80z",    /* */
        "\xdfz",            /* */
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cr_assert_not(valid(bad[i]), "case %zu", i);
    }
    cr_assert_not(cadre_utf8_valid("a\0b", 3), "NUL");
}

Test(utf8, cleans_and_cuts_between_characters)
{
    char out[16];
    cr_assert_eq(cadre_utf8_clean(NULL, 8, out), 0);
    cr_assert_str_eq(out, "");
    cr_assert_eq(cadre_utf8_clean("a\tb\xff\xc3", 8, out), 5);
    cr_assert_str_eq(out, "a b??");
    cr_assert_eq(cadre_utf8_clean("\xc2\x9fz", 8, out), 3);
    cr_assert_str_eq(out, "??z");
    cr_assert_eq(cadre_utf8_clean("12345678", 8, out), 8);
    cr_assert_eq(cadre_utf8_clean("123456789", 8, out), 8);
    cr_assert_str_eq(out, "12345678");
    cr_assert_eq(cadre_utf8_clean("123456ö", 8, out), 8);
    cr_assert_str_eq(out, "123456ö");
    cr_assert_eq(cadre_utf8_clean("1234567ö", 8, out), 7);
    cr_assert_str_eq(out, "1234567");
    cr_assert_eq(cadre_utf8_clean("a", 0, out), 0);
}
