#include "tests/worker/data/files.h"

#include <math.h>

#include "worker/data/reader.h"

TestSuite(text_reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define TEXT(more) "{'format':'text','path':'a','label_kind':'binary','vocabulary':100" more "}"
/* All words, none thinned out, those side by side, and no negatives. */
#define PAIRS TEXT(",'min_count':1,'subsample':0,'window':1,'negatives':0")

typedef struct {
    float x[2];
    float y;
} row_t;

static row_t
row_at(cadre_source_t *source, int64_t row)
{
    row_t read;
    cr_assert_eq(cadre_source_read(source, &row, 1, read.x, &read.y), 0);
    return read;
}

Test(text_reader, gives_each_word_with_those_beside_it)
{
    files_write_text("a", "To be, or\nnot to BE.\n");
    cadre_source_t *dataset = files_open_well(PAIRS, 10, 2);
    /* be 0 and to 1 are there twice, not 2 and or 3 once */
    static const float wanted[][2] = {{1, 0}, {0, 1}, {0, 3}, {3, 0}, {3, 2},
                                      {2, 3}, {2, 1}, {1, 2}, {1, 0}, {0, 1}};
    for (int64_t i = 0; i < 10; i++) {
        cr_expect_eq(files_check_row(dataset, i, wanted[i]), 1);
    }
    cr_expect_eq(cadre_source_info(dataset)->classes, 2);
    cadre_source_close(&dataset);
}

Test(text_reader, reaches_across_no_line_without_words_and_no_end_of_a_file)
{
    files_write_text("a1", "a b\n --\n\nc d");
    files_write_text("a2", "d c\n");
    cadre_source_t *dataset = files_open_well(
        "{'format':'text','path':'a*','label_kind':'binary','vocabulary':100,'min_count':1,"
        "'subsample':0,'window':1,'negatives':0}",
        6, 2);
    /* c 0 and d 1 are there twice, a 2 and b 3 once */
    static const float wanted[][2] = {{2, 3}, {3, 2}, {0, 1}, {1, 0}, {1, 0}, {0, 1}};
    for (int64_t i = 0; i < 6; i++) {
        files_check_row(dataset, i, wanted[i]);
    }
    cadre_source_close(&dataset);
}

Test(text_reader, leaves_out_rare_words_and_those_beyond_the_vocabulary)
{
    files_write_text("a", "x rare y other x y");
    cadre_source_t *dataset =
        files_open_well(TEXT(",'min_count':2,'subsample':0,'window':1,'negatives':0"), 6, 2);
    static const float wanted[][2] = {{0, 1}, {1, 0}, {1, 0}, {0, 1}, {0, 1}, {1, 0}};
    for (int64_t i = 0; i < 6; i++) {
        files_check_row(dataset, i, wanted[i]);
    }
    cadre_source_close(&dataset);
}

/* Writes `rounds` times the words w0 .. w9, of which w0 is ten times as frequent as the others. */
static void
write_words(int rounds)
{
    static const char line[] = "w0 w0 w0 w0 w0 w0 w0 w0 w0 w0 w? ";
    const size_t size = sizeof(line) - 1;
    cadre_auto(cadre_free) char *text = cadre_calloc((size_t)rounds * size + 1, 1);
    for (int i = 0; i < rounds; i++) {
        memcpy(text + (size_t)i * size, line, size);
        text[(size_t)(i + 1) * size - 2] = (char)('1' + i % 9);
    }
    files_write_text("a", text);
}

Test(text_reader, draws_negatives_by_frequency)
{
    write_words(900);
    cadre_source_t *dataset = NULL;
    cr_assert_eq(
        files_open(TEXT(",'min_count':1,'subsample':0,'window':1,'negatives':4"), &dataset), 0);
    const int64_t rows = cadre_source_info(dataset)->rows;
    double drawn[10] = {0};
    int64_t positives = 0;
    row_t pair = {{0}, 0};
    for (int64_t i = 0; i < rows; i++) {
        const row_t row = row_at(dataset, i);
        if (row.y == 1) {
            pair = row;
            positives++;
            continue;
        }
        cr_assert_eq(row.x[0], pair.x[0]);
        cr_assert_neq(row.x[1], pair.x[1], "a negative is not the context");
        if (pair.x[1] > 0) { /* negatives of other contexts: those that are w0 are left out */
            drawn[(int)row.x[1]]++;
        }
    }
    cr_expect_eq(positives, 2 * (900 * 11 - 1));
    /* Of 9000 and nine times 100: the share of w0 by frequency^0.75. */
    const double wanted = pow(9000, 0.75) / (pow(9000, 0.75) + 8 * pow(100, 0.75));
    double all = 0;
    for (int i = 0; i < 10; i++) {
        all += drawn[i];
    }
    cr_expect_gt(all, 4000);
    cr_expect_float_eq(drawn[0] / all, wanted, 0.02, "%g, not %g", drawn[0] / all, wanted);
    cadre_source_close(&dataset);
}

/* Without w0 nine words are left that are side by side in their order. */
Test(text_reader, thins_out_frequent_words)
{
    write_words(900);
    const int64_t all = 2 * (900 * 11 - 1);
    cadre_source_t *dataset = NULL;
    cr_assert_eq(
        files_open(TEXT(",'min_count':1,'subsample':0.01,'window':1,'negatives':0"), &dataset), 0);
    const int64_t rows = cadre_source_info(dataset)->rows;
    /* w0 has 10/11 of the text and stays with sqrt(0.011) + 0.011 = 0.116, the others, with a
     * share of 1/99, with certainty. */
    const double left = 9000 * 0.1159 + 900;
    cr_expect_float_eq((double)rows, 2 * left, 0.1 * left, "%" PRId64 " of %" PRId64, rows, all);
    cadre_source_close(&dataset);
}

Test(text_reader, draws_the_distance_of_each_word)
{
    write_words(900);
    cadre_source_t *dataset = NULL;
    cr_assert_eq(
        files_open(TEXT(",'min_count':1,'subsample':0,'window':4,'negatives':0"), &dataset), 0);
    /* 1, 2, 3 or 4 words on each side. */
    cr_expect_float_eq((double)cadre_source_info(dataset)->rows / (900 * 11), 5, 0.1);
    cadre_source_close(&dataset);
}

Test(text_reader, gives_the_same_rows_for_the_same_seed)
{
    write_words(90);
    uint64_t hashes[3];
    static const char *const texts[] = {TEXT(",'window':3"), TEXT(",'window':3,'sample_seed':1"),
                                        TEXT(",'window':3,'sample_seed':2")};
    for (size_t i = 0; i < 3; i++) {
        cadre_source_t *dataset = NULL;
        cr_assert_eq(files_open(texts[i], &dataset), 0);
        hashes[i] = cadre_source_info(dataset)->hash;
        cadre_source_close(&dataset);
    }
    cr_expect_eq(hashes[0], hashes[1]);
    cr_expect_neq(hashes[0], hashes[2]);
}

Test(text_reader, refuses_a_text_of_too_few_words)
{
    files_write_text("a", "a a a a a b b b b");
    files_check_refused(TEXT(""), CADRE_EDATA, "@/a: 1 words are there 5 times or more, too few");
    files_write_text("a", "");
    files_check_refused(TEXT(""), CADRE_EDATA, "@/a: 0 words are there 5 times or more, too few");
    files_write_text("a", "a\n\nb\n");
    files_check_refused(PAIRS, CADRE_EDATA, "@/a: no rows");
}

/* Whole and streamed: words are counted first in both. */
Test(text_reader, refuses_what_is_no_text)
{
    static const char *const keys[] = {PAIRS, TEXT(",'min_count':1,'streaming':true")};
    static const char picture[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0";
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        files_write("a", picture, sizeof(picture));
        files_check_refused(keys[i], CADRE_EDATA,
                            "@/a:1: not text: byte 0x89 begins no character of UTF-8; name text "
                            "files in UTF-8, or convert this one, as by iconv -t UTF-8");
        files_write("a", "a b\nc\0d\n", 8);
        files_check_refused(keys[i], CADRE_EDATA,
                            "@/a:2: not text: byte 0x00 is a control character other than tabs and "
                            "ends of lines and pages; name text files in UTF-8");
    }
}

/* Writes `count` words that are there twice, one a line. */
static void
write_different_words(int count)
{
    enum { LINE_SIZE = 16 };
    cadre_auto(cadre_free) char *text = cadre_calloc((size_t)count, LINE_SIZE);
    char *at = text;
    for (int i = 0; i < count; i++) {
        at += snprintf(at, LINE_SIZE, "w%d\n", i / 2);
    }
    files_write_text("a", text);
}

/* Different words take memory, however often they are there, and rows. */
Test(text_reader, is_bounded_by_memory)
{
    write_different_words(40000);
    cadre_source_t *dataset = NULL;
    cr_expect_eq(files_open_within(PAIRS, 1 << 19, &dataset), CADRE_ETOOLARGE, "the words");
    cr_expect(strstr(cadre_error_text(),
                     "/a: the different words take more than the 0.5 MiB of the worker's share of "
                     "memory while they are counted: more of it, or a text without words that are "
                     "there once"),
              "%s", cadre_error_text());
    cr_expect_eq(files_open_within(TEXT(",'streaming':true,'memory_mib':1"), 2 << 20, &dataset),
                 CADRE_ETOOLARGE);
    cr_expect(strstr(cadre_error_text(), "more than the 1.0 MiB of memory_mib while they are "
                                         "counted: more of it, or a text"),
              "%s", cadre_error_text());
    write_words(900);
    cr_expect_eq(files_open_within(PAIRS, 200000, &dataset), CADRE_ETOOLARGE, "the rows");
    cr_expect(strstr(cadre_error_text(), "the parsed rows take more than 19"), "less the words: %s",
              cadre_error_text());
}

/* The words are counted when the first row is read. */
Test(text_reader, finds_that_a_file_changes_between_counting_and_reading)
{
    write_words(9000);
    cadre_data_spec_t spec = {0};
    static const char json[] = "{\"format\":\"text\",\"path\":\"a\",\"label_kind\":\"binary\","
                               "\"vocabulary\":9,\"window\":1}";
    cr_assert_eq(cadre_data_spec_decode(json, sizeof(json) - 1, &spec), 0);
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/a", files_folder);
    cadre_reader_t reader = {
        .spec = &spec, .size_bytes_max = 1 << 30, .content_bytes_max = 1 << 30};
    cr_assert_eq(cadre_file_pattern_expand(NULL, path, 1, &reader.files), 0);
    cr_assert_eq(cadre_reader_next(&reader), 1);
    cr_assert_eq(truncate(path, 270000), 0);
    cr_expect_eq(cadre_reader_read_all(&reader), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "/a: 90000 words, and 99000 when they were counted: it "
                                         "has changed meanwhile"),
              "%s", cadre_error_text());
    cadre_row_store_destroy(&reader.store);
    cadre_reader_fini(&reader);
    cadre_data_spec_fini(&spec);
}

Test(text_reader, survives_random_changes)
{
    static const char text[] = "A rose is a rose.\nIs a rose?\n\nNo, it isn't: a rose is a rose.\n";
    int opened = files_mutate(TEXT(",'min_count':1,'subsample':0,'window':2"), "a", text,
                              sizeof(text) - 1, 2000);
    cr_assert_gt(opened, 700, "%d; most other bytes are no text", opened);
}
