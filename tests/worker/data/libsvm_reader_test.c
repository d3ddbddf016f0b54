#include "tests/worker/data/files.h"

TestSuite(libsvm_reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define LIBSVM(more) "{'format':'libsvm','path':'a','label_kind':'binary'" more "}"

Test(libsvm_reader, reads_sparse_rows)
{
    files_write_text("a", "+1 1:0.5 3:-2\n-1 2:1e1\n-1\n+1 1:1 2:2 3:3 4:4 # all of them\r\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(), 4, 4);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){0.5F, 0, -2, 0}), 1);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){0, 10, 0, 0}), 0);
    cr_expect_eq(files_check_row(dataset, 2, (float[]){0, 0, 0, 0}), 0);
    cr_expect_eq(files_check_row(dataset, 3, (float[]){1, 2, 3, 4}), 1);
    cr_expect_eq(cadre_source_info(dataset)->classes, 2);
    cr_expect_eq(cadre_source_info(dataset)->y_dtype, CADRE_F32);
    cadre_source_close(&dataset);
}

Test(libsvm_reader, takes_comments_blank_lines_and_tabs)
{
    files_write_text("a", "# a comment\n\n \t\n1\t2:5  3:6 \n# 7\n0 1:1#1:2\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(), 2, 3);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){0, 5, 6}), 1);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){1, 0, 0}), 0);
    cadre_source_close(&dataset);
}

Test(libsvm_reader, passes_over_query_ids)
{
    files_write_text("a", "1 qid:3 1:5\n0 qid:4\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(), 2, 1);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){5}), 1);
    cadre_source_close(&dataset);
    files_write_text("a", "1 qid:x 1:5\n");
    files_check_refused(LIBSVM(), CADRE_EDATA, "@/a:1: 'qid:x' is no qid:number");
    files_write_text("a", "1 1:5 qid:3\n");
    files_check_refused(
        LIBSVM(), CADRE_EDATA,
        "@/a:1: 'qid:3' is no index:value with an index below 2^31 and a finite number");
}

Test(libsvm_reader, checks_indices_against_the_features_given)
{
    files_write_text("a", "1 3:1\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(",'features':3"), 1, 3);
    cadre_source_close(&dataset);
    dataset = files_open_well(LIBSVM(",'features':5"), 1, 5);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){0, 0, 1, 0, 0}), 1);
    cadre_source_close(&dataset);
    files_check_refused(LIBSVM(",'features':2"), CADRE_EDATA, "@/a:1: index 3 is above 2 features");
}

Test(libsvm_reader, has_a_largest_index)
{
    files_write_text("a", "1 16777216:1\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(), 1, CADRE_DATA_FEATURES_MAX);
    cr_expect_lt(cadre_source_info(dataset)->size_bytes, 100);
    cadre_source_close(&dataset);
    files_write_text("a", "1 16777217:1\n");
    files_check_refused(LIBSVM(), CADRE_EDATA, "@/a:1: index 16777217 is above 16777216 features");
}

Test(libsvm_reader, reads_items_as_indices_and_values)
{
    files_write_text("a", "+1 1:0.5 16777216:-2\n-1\n+1 2:1 3:2 9:3\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(",'features':16777216,'items':3"), 3, 6);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){1, 16777216, 0, 0.5F, -2, 0}), 1);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){0, 0, 0, 0, 0, 0}), 0);
    cr_expect_eq(files_check_row(dataset, 2, (float[]){2, 3, 9, 1, 2, 3}), 1);
    cadre_source_close(&dataset);
    files_check_refused(LIBSVM(",'features':16777216,'items':2"), CADRE_EDATA,
                        "@/a:3: 3 items, but \"items\" is 2");
    dataset = files_open_well(LIBSVM(",'features':16777216,'items':2,'skip_bad':1"), 2, 4);
    cadre_source_close(&dataset);
    files_write_text("a", "+1\n-1\n"); /* nothing is there to be read */
    dataset = files_open_well(LIBSVM(",'features':1,'items':1"), 2, 2);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){0, 0}), 0);
    cadre_source_close(&dataset);
}

#define KEYS ",'items':2,'keys':true"

/* Checks that the row has this key, as the parts that are given, and value at a place. */
static void
check_key(const float *row, int place, const float parts[3], float value)
{
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(row[3 * place + i], parts[i], "part %d of key %d is %g", i, place,
                     (double)row[3 * place + i]);
    }
    cr_expect_eq(row[6 + place], value);
}

Test(libsvm_reader, reads_keys_of_64_bits)
{
    float row[8];
    float label = 0;
    files_write_text("a", "+1 16777217:0.5 9223372036854775807:-2\n-1\n"
                          "+1 18446744073709551615:3 # the last\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(KEYS), 3, 8);
    cr_assert_eq(cadre_source_read(dataset, (int64_t[]){0}, 1, row, &label), 0);
    check_key(row, 0, (float[]){1, 1, 0}, 0.5F);
    check_key(row, 1, (float[]){0xffffff, 0xffffff, 0x7fff}, -2);
    cr_assert_eq(cadre_source_read(dataset, (int64_t[]){1}, 1, row, &label), 0);
    check_key(row, 0, (float[]){0, 0, 0}, 0);
    cr_assert_eq(cadre_source_read(dataset, (int64_t[]){2}, 1, row, &label), 0);
    check_key(row, 0, (float[]){0xffffff, 0xffffff, 0xffff}, 3);
    check_key(row, 1, (float[]){0, 0, 0}, 0); /* nothing of the row before */
    cadre_source_close(&dataset);

    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        {"1 18446744073709551616:1", "@/a:2: '18446744073709551616:1' is no key:value with a key "
                                     "below 2^64 and a finite number"},
        {"1 0:1", "@/a:2: index 0, but indices start at 1"},
        {"1 9223372036854775807:1 9223372036854775806:1",
         "@/a:2: index 9223372036854775806 after 9223372036854775807, but indices ascend"},
        {"1 1:1 2:1 3:1 4:1", "@/a:2: 4 items, but \"items\" is 2"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        char text[200];
        snprintf(text, sizeof(text), "1 1:1\n%s\n", cases[i].line);
        files_write_text("a", text);
        files_check_refused(LIBSVM(KEYS), CADRE_EDATA, cases[i].reason);
    }
    dataset = files_open_well(LIBSVM(KEYS ",'skip_bad':1"), 1, 8);
    cadre_source_close(&dataset);
}

Test(libsvm_reader, names_file_and_line_of_a_bad_line)
{
    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        {"x 1:1", "@/a:2: 'x' is no label (a finite number)"},
        {"1,2 1:1", "@/a:2: '1,2' is no label (a finite number)"},
        {"nan 1:1", "@/a:2: 'nan' is no label (a finite number)"},
        {"1:1 2:1", "@/a:2: '1:1' is no label (a finite number)"},
        {"2 1:1", "@/a:2: label 2 is not one of 0, 1 and -1"},
        {"1 0:1", "@/a:2: index 0, but indices start at 1"},
        {"1 2:1 1:1", "@/a:2: index 1 after 2, but indices ascend"},
        {"1 2:1 2:1", "@/a:2: index 2 after 2, but indices ascend"},
        {"1 2:", "@/a:2: '2:' is no index:value with an index below 2^31 and a finite number"},
        {"1 2", "@/a:2: '2' is no index:value with an index below 2^31 and a finite number"},
        {"1 :2", "@/a:2: ':2' is no index:value with an index below 2^31 and a finite number"},
        {"1 -2:2", "@/a:2: '-2:2' is no index:value with an index below 2^31 and a finite number"},
        {"1 2:2x 3:1",
         "@/a:2: '2:2x' is no index:value with an index below 2^31 and a finite number"},
        {"1 2:nan",
         "@/a:2: '2:nan' is no index:value with an index below 2^31 and a finite number"},
        {"1 2: 3", "@/a:2: '2:' is no index:value with an index below 2^31 and a finite number"},
        {"1 2:-inf",
         "@/a:2: '2:-inf' is no index:value with an index below 2^31 and a finite number"},
        {"1 2:1e39", "@/a:2: index 2: 1e+39 does not fit f32"},
        {"1 99999999999999999999:1", "@/a:2: '99999999999999999999:1' is no index:value with an "
                                     "index below 2^31 and a finite number"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        char text[200];
        snprintf(text, sizeof(text), "1 1:1\n%s\n", cases[i].line);
        files_write_text("a", text);
        files_check_refused(LIBSVM(), CADRE_EDATA, cases[i].reason);
    }
    files_write_text("a", "# nothing\n");
    files_check_refused(LIBSVM(), CADRE_EDATA, "@/a: no rows");
}

Test(libsvm_reader, does_not_mix_the_two_ways_to_write_a_binary_label)
{
    files_write_text("a", "1 1:1\n0 1:1\n-1 1:1\n");
    files_check_refused(LIBSVM(), CADRE_EDATA, "@/a:3: label -1, where earlier lines have 0 and 1");
    files_write_text("a", "1 1:1\n-1 1:1\n0 1:1\n");
    files_check_refused(LIBSVM(), CADRE_EDATA, "@/a:3: label 0, where earlier lines have -1 and 1");
}

Test(libsvm_reader, skips_bad_lines_without_trace)
{
    files_write_text("a", "1 1:1\n0 9:x\n-1 2:1\n");
    cadre_source_t *dataset = files_open_well(LIBSVM(",'skip_bad':1"), 2, 2);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){0, 1}), 0);
    cr_expect_eq(cadre_source_info(dataset)->skipped, 1);
    cadre_source_close(&dataset);
}

Test(libsvm_reader, survives_random_changes)
{
    static const char text[] = "+1 1:0.5 3:-2\n-1 qid:3 2:1e1 # x\n\n-1\n+1 1:1 2:2 3:3 4:4\r\n";
    int opened = files_mutate(LIBSVM(",'skip_bad':1"), "a", text, sizeof(text) - 1, 3000);
    cr_assert_gt(opened, 400, "%d", opened);
    opened = files_mutate(LIBSVM(",'skip_bad':1,'features':9,'items':3"), "a", text,
                          sizeof(text) - 1, 3000);
    cr_assert_gt(opened, 400, "%d", opened);
    opened = files_mutate(LIBSVM(",'skip_bad':1,'keys':true,'items':3"), "a", text,
                          sizeof(text) - 1, 3000);
    cr_assert_gt(opened, 400, "%d", opened);
}
