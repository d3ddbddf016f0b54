#include "tests/worker/data/files.h"

#include <math.h>
#include <xxhash.h>

TestSuite(criteo_reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define CRITEO(more) "{'format':'criteo','path':'a','label_kind':'binary','buckets':1000" more "}"

enum { NUMBERS = 13, COLUMNS = 39 };

#define TABS_12 "\t\t\t\t\t\t\t\t\t\t\t\t"
#define TABS_25 TABS_12 TABS_12 "\t"
#define LINE                                                                                       \
    "1\t1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t-2\t68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t"     \
    "25c83c98\t7e0ccccf\tde7995b8\t1f89b562\ta73ee510\ta8cd5504\tb2cb9c98\t37c9c164\t2824a5f6\t"   \
    "1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9d\t07b5194c\t\t3a171ecb\t" \
    "c5c50484\te8b83407\t9727dd16\n"

static void
read_row(cadre_source_t *source, int64_t row, float *x, float *y)
{
    cr_assert_eq(cadre_source_read(source, &row, 1, x, y), 0);
}

Test(criteo_reader, reads_numbers_as_logarithms_and_words_as_ids)
{
    files_write_text("a", LINE "0\t" TABS_12 "\t" TABS_25 "\n" LINE);
    cadre_source_t *dataset = files_open_well(CRITEO(), 3, COLUMNS);
    float x[3][COLUMNS];
    float y[3];
    for (int i = 0; i < 3; i++) {
        read_row(dataset, i, x[i], &y[i]);
    }
    cr_expect(y[0] == 1 && y[1] == 0);
    cr_expect_float_eq(x[0][4], logf(1383), 1e-6F);
    cr_expect_float_eq(x[0][0], logf(2), 1e-6F);
    cr_expect_eq(x[0][11], 0, "there is none");
    cr_expect_eq(x[0][12], 0, "it is below 0");
    cr_expect_eq(x[0][NUMBERS + 21], 0, "there is none");
    for (int i = 0; i < 26; i++) {
        const float id = x[0][NUMBERS + i];
        cr_expect(i == 21 || (id >= 1 && id < 1000 && id == floorf(id)), "%d: %g", i, (double)id);
    }
    cr_expect_arr_eq(x[0], x[2], sizeof(x[0]));
    for (int i = 0; i < COLUMNS; i++) {
        cr_expect_eq(x[1][i], 0);
    }
    cadre_source_close(&dataset);

    dataset = files_open_well(CRITEO(",'scale':0.5,'rows':1"), 1, COLUMNS);
    read_row(dataset, 0, x[1], y);
    cr_expect_float_eq(x[1][4], logf(1383) / 2, 1e-6F);
    cr_expect_eq(x[1][NUMBERS], x[0][NUMBERS], "ids are not scaled");
    cadre_source_close(&dataset);
}

/* The ids are part of what a trained model is: they must not change. */
Test(criteo_reader, gives_the_same_ids_in_every_release)
{
    files_write_text("a", LINE);
    cadre_source_t *dataset = files_open_well(CRITEO(), 1, COLUMNS);
    float x[COLUMNS];
    float y = 0;
    read_row(dataset, 0, x, &y);
    cr_expect_eq(x[NUMBERS], 79, "%g", (double)x[NUMBERS]);
    cr_expect_eq(x[NUMBERS + 1], 419, "%g", (double)x[NUMBERS + 1]);
    cadre_source_close(&dataset);
}

/* A word in two columns is two ids, in most cases. */
Test(criteo_reader, hashes_each_column_by_itself)
{
    files_write_text("a", "0\t" TABS_12 "\ta\ta\ta\ta" TABS_12 "\t\t\t\t\t\t\t\t\t\t\n");
    cadre_source_t *dataset = files_open_well(CRITEO(), 1, COLUMNS);
    float x[COLUMNS];
    float y = 0;
    read_row(dataset, 0, x, &y);
    cr_expect(x[NUMBERS] != x[NUMBERS + 1] || x[NUMBERS + 1] != x[NUMBERS + 2] ||
              x[NUMBERS + 2] != x[NUMBERS + 3]);
    cadre_source_close(&dataset);
}

/* With keys all bits of the hash are there, three numbers for each word. */
Test(criteo_reader, gives_words_as_keys)
{
    files_write_text("a", LINE);
    cadre_source_t *dataset = files_open_well(
        "{'format':'criteo','path':'a','label_kind':'binary','keys':true}", 1, NUMBERS + 3 * 26);
    float x[NUMBERS + 3 * 26];
    float y = 0;
    read_row(dataset, 0, x, &y);
    for (int i = 0; i < 2; i++) {
        const uint64_t key = XXH3_64bits_withSeed(i == 0 ? "68fd1e64" : "80e26c9b", 8, (uint64_t)i);
        cr_expect_eq(x[NUMBERS + 3 * i], (float)(key & 0xffffff));
        cr_expect_eq(x[NUMBERS + 3 * i + 1], (float)(key >> 24 & 0xffffff));
        cr_expect_eq(x[NUMBERS + 3 * i + 2], (float)(key >> 48));
    }
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(x[NUMBERS + 3 * 21 + i], 0, "there is none");
    }
    cadre_source_close(&dataset);
}

Test(criteo_reader, names_file_and_line_of_a_bad_line)
{
    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        {"1\t2\n", "@/a:2: 2 columns between tabs, not 40"},
        {"0\t" TABS_12 "\t" TABS_25 "\t\n", "@/a:2: 41 columns between tabs, not 40"},
        {"x\t" TABS_12 "\t" TABS_25 "\n", "@/a:2: column 0: 'x' is no finite number"},
        {"\t" TABS_12 "\t" TABS_25 "\n", "@/a:2: column 0: '' is no finite number"},
        {"2\t" TABS_12 "\t" TABS_25 "\n", "@/a:2: label 2 is not one of 0, 1 and -1"},
        {"1\t\t1.5x" TABS_12 TABS_25 "\n", "@/a:2: column 2: '1.5x' is no finite number"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *text = cadre_asprintf("%s%s", LINE, cases[i].line);
        files_write_text("a", text);
        files_check_refused(CRITEO(), CADRE_EDATA, cases[i].reason);
        cadre_source_t *dataset = files_open_well(CRITEO(",'skip_bad':1"), 1, COLUMNS);
        cr_expect_eq(cadre_source_info(dataset)->skipped, 1);
        cadre_source_close(&dataset);
    }
}

Test(criteo_reader, survives_random_changes)
{
    static const char text[] = LINE "\n0\t" TABS_12 "\t" TABS_25 "\r\n" LINE;
    int opened = files_mutate(CRITEO(",'skip_bad':1"), "a", text, sizeof(text) - 1, 2000);
    cr_assert_gt(opened, 400, "%d", opened);
}
