#include "worker/data/text_check.h"

#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(text_check, .timeout = 240);

/* Checks a text in pieces of `piece` bytes. */
static int
check(cadre_text_check_t *self, const char *text, size_t size_bytes, size_t piece)
{
    *self = (cadre_text_check_t){0};
    for (size_t at = 0; at < size_bytes; at += piece) {
        const size_t size = size_bytes - at < piece ? size_bytes - at : piece;
        int status = cadre_text_check_add(self, text + at, size);
        if (status < 0) {
            return status;
        }
    }
    return cadre_text_check_end(self);
}

/* Wherever it is among other lines, and in whatever pieces it comes, what `text` says must be found
 * of it. `line`: the one that is wrong, counted from that with the text; -1: none. */
static void
check_anywhere(const char *text, int line)
{
    enum { MOST = 130 };
    const size_t size = strlen(text);
    char whole[2 * MOST + 16];
    for (size_t front = 0; front < MOST; front++) {
        memset(whole, 'a', sizeof(whole));
        for (size_t i = 0; i < front; i += 10) {
            whole[i] = '\n';
        }
        memcpy(whole + front, text, size);
        for (size_t piece = 1; piece < sizeof(whole); piece += 1 + piece / 4) {
            cadre_text_check_t self;
            int status = check(&self, whole, front + size + MOST / 2, piece);
            cr_assert_eq(status, line < 0 ? 0 : CADRE_EDATA, "\"%s\" behind %zu, by %zu: %s", text,
                         front, piece, cadre_error_text());
            if (line >= 0) {
                cr_assert_eq(self.line_ends, (front + 9) / 10 + (size_t)line);
            }
        }
    }
}

Test(text_check, takes_every_character_and_the_control_characters_of_texts)
{
    static const char *const good[] = {
        "",
        " ~",
        "\t\n\v\f\r\r\n",
        "\xc2\x80\xc2\x85\xc2\xa0\xdf\xbf",
        "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
        "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
        "\xef\xbb\xbfGröße ½ 漢字 \xf0\x9f\x98\x80",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(good); i++) {
        check_anywhere(good[i], -1);
    }
}

Test(text_check, refuses_control_characters_and_what_is_no_utf8_with_the_line)
{
    static const struct {
        const char *text;
        int line;
    } bad[] = {
        {"\x01", 0},
        {"\n\x08", 1},
        {"a\n\n\x0e", 2},
        {"\x1b[1m", 0},
        {"\x1f", 0},
        {"\x7f", 0},
        {"\x80", 0},
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\n\xed\xa0\x80", 1},
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"caf\xe9 \n", 0},
        {"\xe1\x80\n", 0},
        {"\xff\xfe", 0},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        check_anywhere(bad[i].text, bad[i].line);
    }
    cadre_text_check_t self;
    cr_expect_eq(check(&self, "a\0", 2, 2), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "not text: byte 0x00 is a control character"), "%s",
              cadre_error_text());
}

Test(text_check, refuses_a_text_that_ends_within_a_character)
{
    static const char euro[] = "\n\xe2\x82\xac";
    cadre_text_check_t self;
    for (size_t size = 2; size < 4; size++) {
        cr_expect_eq(check(&self, euro, size, 1), CADRE_EDATA);
        cr_expect(strstr(cadre_error_text(), "byte 0xe2 begins no character of UTF-8"), "%s",
                  cadre_error_text());
        cr_expect_eq(self.line_ends, 1);
    }
    cr_expect_eq(check(&self, euro, 4, 1), 0);
}
