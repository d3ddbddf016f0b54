/*
 * Texts that are streamed: their rows are those of the same text in memory, wherever reading
 * begins.
 */
#include <math.h>
#include <sys/resource.h>

#include "tests/worker/data/files.h"
#include "worker/data/data_file.h"

TestSuite(text_stream, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define TEXT(more) "'format':'text','label_kind':'binary','vocabulary':300" more

enum { WORD_SIZE = 24 }; /* bytes of a word and what is behind it */

/* A linear congruential generator, as the tests need one that is theirs. */
static uint64_t
next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Makes a text of `count` words, of which the first are frequent, with ends of lines after some
 * `line` words, and of each ninth of these an empty line behind. The caller frees it. */
static char *
make_text(uint64_t seed, size_t count, uint64_t line)
{
    enum { DIFFERENT = 500 };
    char *text = cadre_calloc(count + 1, WORD_SIZE);
    char *at = text;
    uint64_t state = seed;
    for (size_t i = 0; i < count; i++) {
        const double unit = (double)next_random(&state) / (double)(UINT64_C(1) << 31);
        at += snprintf(at, WORD_SIZE, "w%d ", (int)(pow(unit, 3) * DIFFERENT));
        const bool is_end = line > 0 && next_random(&state) % line == 0;
        for (int ends = is_end ? 1 + (next_random(&state) % 9 == 0) : 0; ends > 0; ends--) {
            *at++ = '\n';
        }
    }
    return text;
}

static void
write_text(const char *name, uint64_t seed, size_t count, uint64_t line)
{
    cadre_auto(cadre_free) char *text = make_text(seed, count, line);
    files_write_text(name, text);
}

/* Row `row` must be the same in both. */
static void
check_row(cadre_source_t *memory, cadre_source_t *streamed, int64_t row)
{
    float x[4];
    float y[2];
    cr_assert_eq(cadre_source_read(memory, &row, 1, x, &y[0]), 0);
    cr_assert_eq(cadre_source_read(streamed, &row, 1, x + 2, &y[1]), 0, "%s", cadre_error_text());
    cr_assert(x[0] == x[2] && x[1] == x[3] && y[0] == y[1], "row %" PRId64, row);
}

/* Reads all rows in their order, then blocks in a random one, of which few are held. */
static void
check_streams(const char *keys)
{
    cadre_source_t *memory = files_open_as(keys, "");
    cadre_source_t *streamed =
        files_open_as(keys, ",'streaming':true,'memory_mib':1,'shuffle_blocks':2");
    const cadre_source_info_t *info = cadre_source_info(memory);
    const cadre_source_info_t *other = cadre_source_info(streamed);
    cr_assert(other->is_streamed && !info->is_streamed);
    cr_assert_eq(other->rows, info->rows);
    cr_assert_eq(other->file_rows, info->file_rows);
    cr_assert_eq(other->features, info->features);
    cr_assert_eq(other->classes, info->classes);
    cr_assert_eq(other->hash, info->hash);
    for (int64_t row = 0; row < info->rows; row++) {
        check_row(memory, streamed, row);
    }
    uint64_t state = 1;
    for (int i = 0; i < 200; i++) {
        check_row(memory, streamed, (int64_t)(next_random(&state) % (uint64_t)info->rows));
    }
    cadre_source_close(&memory);
    cadre_source_close(&streamed);
}

Test(text_stream, has_the_rows_and_the_hash_of_memory)
{
    write_text("a", 1, 30000, 8);
    check_streams(TEXT(",'path':'a'"));
    check_streams(TEXT(",'path':'a','window':1,'negatives':0,'subsample':0,'min_count':1"));
    check_streams(TEXT(",'path':'a','window':2,'negatives':1,'min_count':60"));
    check_streams(TEXT(",'path':'a','negatives':5,'subsample':0.00001,'sample_seed':7"));
}

/* Rows of a center may be more than a block, and a window all of a passage. */
Test(text_stream, has_windows_and_negatives_as_large_as_they_may_be)
{
    write_text("a", 2, 1500, 0);
    check_streams(TEXT(",'path':'a','window':1024,'negatives':0,'min_count':1"));
    write_text("a", 2, 30, 0);
    check_streams(TEXT(",'path':'a','window':1024,'negatives':1024,'min_count':1,'subsample':0"));
}

Test(text_stream, has_parts_of_its_rows)
{
    write_text("a", 3, 20000, 8);
    check_streams(TEXT(",'path':'a','first_row':100,'rows':9000"));
    check_streams(TEXT(",'path':'a','first_row':50001"));
    check_streams(TEXT(",'path':'a','held_out':0.1,'part':'rest'"));
    check_streams(TEXT(",'path':'a','held_out':0.1,'part':'held_out','split_seed':4"));
}

/* Passages end with files and lines without words, which may be the first and last ones, or all. */
Test(text_stream, goes_through_many_files)
{
    write_text("p-0", 4, 9000, 8);
    files_write_text("p-1", "");
    files_write_text("p-2", "\n\n -- \n");
    write_text("p-3.gz", 5, 12000, 3);
    write_text("p-4", 6, 1, 0);
    write_text("p-5.zst", 7, 5000, 0);
    files_write_text("p-6", "\n\nw1 w2 w3");
    files_write_text("p-7", "w1 w2\n\n\n");
    check_streams(TEXT(",'path':'p-*'"));
    check_streams(TEXT(",'path':['p-7','p-3.gz','p-0','p-5.zst']"));
}

/* Words that are kept are far apart, so a window is of many lines, and many passages have none. */
Test(text_stream, has_windows_of_words_that_are_far_apart)
{
    write_text("a", 8, 200000, 8);
    check_streams(
        "'format':'text','label_kind':'binary','vocabulary':2,'path':'a','subsample':0.01,"
        "'negatives':3,'window':9");
}

/* Makes one line of `count` words, most of them long ones without an id. The caller frees it. */
static char *
make_line(size_t count)
{
    enum { DIFFERENT = 20000 };
    char *text = cadre_calloc(count + 1, WORD_SIZE);
    char *at = text;
    uint64_t state = 9;
    for (size_t i = 0; i < count; i++) {
        const uint64_t noise = next_random(&state);
        const uint64_t number =
            i % 30 == 0 ? noise % 99 : (1 + noise % DIFFERENT) * UINT64_C(0x9e3779b97f4a7);
        at += snprintf(at, WORD_SIZE, "w%" PRIx64 " ", number);
    }
    return text;
}

/* One line, longer than a line of other formats may be, with places to restart from. */
Test(text_stream, reads_on_in_the_middle_of_long_lines_and_compressed_files)
{
    enum { PIECE = 1 << 20 };
    cadre_auto(cadre_free) char *text = make_line(1500000);
    const size_t size = strlen(text);
    cr_assert_gt(size, 2 * CADRE_RESTART_DISTANCE);
    cr_assert_gt(size, CADRE_DATA_LINE_SIZE_MAX);
    files_write("plain", text, size);
    files_write("whole.gz", text, size);
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/frames.zst", files_folder);
    for (size_t from = 0; from < size; from += PIECE) {
        files_append_zstd(path, text + from, size - from < PIECE ? size - from : PIECE);
    }

    cadre_source_t *memory = files_open_as(TEXT(",'path':'plain'"), "");
    const int64_t rows = cadre_source_info(memory)->rows;
    static const char *const names[] = {"plain", "whole.gz", "frames.zst"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_auto(cadre_free) char *keys = cadre_asprintf(TEXT(",'path':'%s'"), names[i]);
        cadre_source_t *streamed = files_open_as(keys, ",'streaming':true");
        cr_expect_eq(cadre_source_info(streamed)->hash, cadre_source_info(memory)->hash);
        for (int64_t row = rows - 1; row > 0; row -= rows / 40 + 1) {
            check_row(memory, streamed, row);
        }
        cadre_source_close(&streamed);
    }
    cadre_source_close(&memory);
}

/* --- changes --- */

/* Rows that are read while a byte is another one are right, or refused; those that are read behind
 * that are right. */
Test(text_stream, finds_that_a_text_has_changed)
{
    enum { WORDS = 20000, CHANGES = 200 };
    cadre_auto(cadre_free) char *text = make_text(10, WORDS, 8);
    const size_t size = strlen(text);
    files_write("a", text, size);
    cadre_source_t *memory = files_open_as(TEXT(",'path':'a'"), "");
    cadre_source_t *streamed =
        files_open_as(TEXT(",'path':'a','streaming':true,'shuffle_blocks':1,'memory_mib':1"), "");
    const int64_t rows = cadre_source_info(memory)->rows;
    uint64_t state = 11;
    int refused = 0;
    for (int i = 0; i < CHANGES; i++) {
        const size_t at = (size_t)(next_random(&state) % size);
        const char before = text[at];
        text[at] = "w1 \n7"[next_random(&state) % 5];
        files_write("a", text, size);
        text[at] = before;
        /* Some 25 blocks, evenly long, of which 21 are held at most. */
        int64_t row = (int64_t)((double)at / (double)size * (double)rows);
        float x[2];
        float y = 0;
        int status = cadre_source_read(streamed, &row, 1, x, &y);
        cr_assert(status == 0 || status == CADRE_EDATA, "%s", cadre_error_text());
        refused += status < 0;
        if (status == 0) {
            check_row(memory, streamed, row);
        } else {
            cr_expect(strstr(cadre_error_text(), " and on are not those that it had when it was"),
                      "%s", cadre_error_text());
        }
        files_write("a", text, size);
        check_row(memory, streamed, row);
        check_row(memory, streamed, (row + rows / 2) % rows);
    }
    cr_expect_gt(refused, 5, "%d", refused);
    cadre_source_close(&streamed);
    cadre_source_close(&memory);
}

Test(text_stream, says_that_a_text_is_shorter_or_gone)
{
    write_text("a", 12, 20000, 8);
    cadre_source_t *streamed = files_open_as(TEXT(",'path':'a','streaming':true"), "");
    const int64_t row = cadre_source_info(streamed)->rows / 2;
    char path[2 * FILES_PATH_SIZE];
    float x[2];
    float y = 0;
    snprintf(path, sizeof(path), "%s/a", files_folder);
    cr_assert_eq(truncate(path, 5000), 0);
    cr_expect_eq(cadre_source_read(streamed, &row, 1, x, &y), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), " and on are not those that it had"), "%s",
              cadre_error_text());
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(cadre_source_read(streamed, &row, 1, x, &y), CADRE_ENOTFOUND);
    cadre_source_close(&streamed);
}

/* Damage is found when the words are counted. */
Test(text_stream, refuses_a_damaged_text)
{
    enum { WORDS = 20000, CUT = 20000 };
    write_text("a.gz", 13, WORDS, 8);
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/a.gz", files_folder);
    cr_assert_eq(truncate(path, CUT), 0);
    cadre_source_t *source = NULL;
    static const char json[] = "{" TEXT(",'path':'a.gz','streaming':true") "}";
    cr_expect_eq(files_open(json, &source), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "/a.gz: "), "%s", cadre_error_text());
}

/* --- memory --- */

static int64_t
peak_kib(void)
{
    struct rusage usage;
    cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* Writes a text `times`, so that it is never in memory as a whole. */
static void
write_times(const char *name, const char *text, int times)
{
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", files_folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (int i = 0; i < times; i++) {
        cr_assert_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    }
    cr_assert_eq(fclose(file), 0);
}

/* A text of 4 MB, of one line, and one that is sixteen times as long: 60 MB, and 400 MB of rows. */
Test(text_stream, takes_no_more_memory_for_a_longer_text)
{
    enum { WORDS = 1000000, TIMES = 16, MORE_KIB = 8 << 10 };
    static const char keys[] = TEXT(",'path':'a','window':1,'negatives':1,'streaming':true,"
                                    "'memory_mib':1");
    int64_t peaks[2] = {0};
    cadre_auto(cadre_free) char *text = make_text(14, WORDS, 0);
    for (int i = 0; i < 2; i++) {
        write_times("a", text, i == 0 ? 1 : TIMES);
        cadre_source_t *source = files_open_as(keys, "");
        const int64_t rows = cadre_source_info(source)->rows;
        for (int64_t row = 0; row < rows; row += rows / 50) {
            float x[2];
            float y = 0;
            cr_assert_eq(cadre_source_read(source, &row, 1, x, &y), 0);
        }
        cadre_source_close(&source);
        peaks[i] = peak_kib();
    }
    if (!SANITIZER) { /* which keeps what was freed for a while */
        cr_expect_lt(peaks[1] - peaks[0], MORE_KIB, "%" PRId64 " KiB more", peaks[1] - peaks[0]);
    }
}
