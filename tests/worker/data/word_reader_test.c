#include "worker/data/word_reader.h"

#include "tests/worker/data/files.h"

TestSuite(word_reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

static cadre_data_file_t *
open_file(const char *name)
{
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", files_folder, name);
    cadre_data_file_t *file = NULL;
    cr_assert_eq(cadre_data_file_open(path, NULL, UINT64_MAX, &file), 0, "%s", cadre_error_text());
    return file;
}

/* The file must have these words; an empty one is a line without any. */
static void
check_words(const char *text, const char *const *wanted, size_t count)
{
    files_write_text("a", text);
    cadre_data_file_t *file = open_file("a");
    cadre_word_reader_t reader = {0};
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(cadre_word_reader_next(&reader, file), 1, "word %zu", i);
        cr_expect_str_eq(reader.word, wanted[i]);
    }
    cr_expect_eq(cadre_word_reader_next(&reader, file), 0);
    cr_expect_eq(cadre_word_reader_next(&reader, file), 0);
    cadre_data_file_close(&file);
}

#define CHECK_WORDS(text, ...)                                                                     \
    check_words((text), (const char *const[]){__VA_ARGS__},                                        \
                CADRE_COUNT_OF(((const char *const[]){__VA_ARGS__})))

Test(word_reader, gives_words_and_lines_without_any)
{
    CHECK_WORDS("  Don't--STOP,\tna\xc3\xafve 2x\n.", "don't", "stop", "na\xc3\xafve", "2x");
    CHECK_WORDS("a\nb\n\nc\n --\r\n\r\nd", "a", "b", "", "c", "", "", "d");
    CHECK_WORDS("\n", "");
    check_words("", NULL, 0);
    check_words(" .", NULL, 0);
}

Test(word_reader, cuts_a_long_word)
{
    for (size_t length = CADRE_WORD_SIZE - 2; length <= CADRE_WORD_SIZE; length++) {
        char text[CADRE_WORD_SIZE + 3] = "";
        char cut[CADRE_WORD_SIZE] = "";
        memset(text, 'x', length);
        memcpy(text + length, " y", 3);
        memset(cut, 'x', length < CADRE_WORD_SIZE - 1 ? length : CADRE_WORD_SIZE - 1);
        CHECK_WORDS(text, cut, "y");
    }
}

/* Words and ends of lines around the places where the buffer ends. */
Test(word_reader, reads_across_the_end_of_its_buffer)
{
    static char text[CADRE_WORD_BUFFER_SIZE + 16];
    for (size_t blanks = CADRE_WORD_BUFFER_SIZE - 8; blanks < CADRE_WORD_BUFFER_SIZE + 2;
         blanks++) {
        memset(text, ' ', blanks);
        memcpy(text + blanks, "one\n\ntwo", 9);
        CHECK_WORDS(text, "one", "", "two");
    }
}

/* A word is as long as several buffers; another reader goes to where each word begins. */
Test(word_reader, tells_where_a_word_begins)
{
    enum { LONG = 3 * CADRE_WORD_BUFFER_SIZE };
    static char text[LONG + 64];
    memcpy(text, "ab, cd\n\n", 8);
    memset(text + 8, 'x', LONG);
    memcpy(text + 8 + LONG, "\ne", 3);
    files_write_text("a.gz", text);
    static const uint64_t offsets[] = {0, 4, 0, 8, 8 + LONG + 1};
    cadre_data_file_t *file = open_file("a.gz");
    cadre_word_reader_t reader = {0};
    for (size_t i = 0; i < CADRE_COUNT_OF(offsets); i++) {
        cr_assert_eq(cadre_word_reader_next(&reader, file), 1);
        if (i == 2) {
            cr_expect_str_eq(reader.word, "");
            continue;
        }
        cr_expect_eq(reader.offset, offsets[i]);
        cadre_data_file_t *other = open_file("a.gz");
        cadre_word_reader_t again = {0};
        cr_assert_eq(cadre_data_file_seek(other, NULL, 0, offsets[i], 0), 0);
        cr_assert_eq(cadre_word_reader_next(&again, other), 1);
        cr_expect_str_eq(again.word, reader.word);
        cr_expect_eq(again.offset, offsets[i]);
        cadre_data_file_close(&other);
    }
    cadre_data_file_close(&file);
}

/* The file must be refused, as what is named so, at a line; when it is read on it is not looked at.
 */
static void
check_no_text(const char *name, const void *bytes, size_t size_bytes, const char *wanted)
{
    files_write(name, bytes, size_bytes);
    cadre_data_file_t *file = open_file(name);
    cadre_word_reader_t reader;
    int status = 0;
    cadre_word_reader_begin_checked(&reader);
    while ((status = cadre_word_reader_next(&reader, file)) > 0) {
    }
    cr_expect_eq(status, CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), wanted), "%s, not %s", cadre_error_text(), wanted);
    cadre_data_file_close(&file);

    file = open_file(name);
    cadre_word_reader_begin(&reader);
    while ((status = cadre_word_reader_next(&reader, file)) > 0) {
    }
    cr_expect_eq(status, 0);
    cadre_data_file_close(&file);
}

Test(word_reader, refuses_what_is_no_text_with_its_line)
{
    check_no_text("a", "one\ntwo\n\0three", 14, "/a:3: not text: byte 0x00 is a control character");
    check_no_text("a.gz", "one \xe9t\xe9", 7, "/a.gz:1: not text: byte 0xe9 begins no character");
    check_no_text("a", "one\nna\xc3", 7, "/a:2: not text: byte 0xc3 begins no character of UTF-8");
    /* Behind the buffer's end. */
    static char text[CADRE_WORD_BUFFER_SIZE + 8];
    memset(text, '\n', sizeof(text));
    text[CADRE_WORD_BUFFER_SIZE - 1] = '\xe2';
    text[CADRE_WORD_BUFFER_SIZE] = '\x82';
    check_no_text("a", text, sizeof(text), "/a:16384: not text: byte 0xe2 begins no character");
    text[CADRE_WORD_BUFFER_SIZE + 1] = '\xac';
    text[CADRE_WORD_BUFFER_SIZE + 3] = '\x1a';
    check_no_text("a", text, sizeof(text), "/a:16385: not text: byte 0x1a is a control");
}
