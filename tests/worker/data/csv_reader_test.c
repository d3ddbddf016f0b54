#include <locale.h>
#include <xxhash.h>

#include "tests/worker/data/files.h"
#include "worker/data/data_file.h"

TestSuite(csv_reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define CSV(more) "{'format':'csv','path':'a'" more "}"

static const float row_0[] = {1, 2.5F};
static const float row_1[] = {-3, 4e2F};

static void
check_two_rows(const char *text, const char *json)
{
    files_write_text("a", text);
    cadre_source_t *dataset = files_open_well(json, 2, 2);
    cr_expect_eq(files_check_row(dataset, 0, row_0), 7, "%s", text);
    cr_expect_eq(files_check_row(dataset, 1, row_1), 0, "%s", text);
    cr_expect_eq(cadre_source_info(dataset)->classes, 8);
    cadre_source_close(&dataset);
}

Test(csv_reader, reads_rows_with_the_label_last)
{
    check_two_rows("1,2.5,7\n-3,4e2,0\n", CSV());
}

Test(csv_reader, takes_any_line_end_and_blank_lines)
{
    check_two_rows("1,2.5,7\r\n-3,4e2,0\r\n", CSV());
    check_two_rows("\n\n1,2.5,7\n\r\n  \t\n-3,4e2,0\n\n", CSV());
    check_two_rows("1,2.5,7\n-3,4e2,0", CSV());
    check_two_rows("1,2.5,7\n-3,4e2,0\r", CSV());
}

Test(csv_reader, passes_over_a_byte_order_mark)
{
    check_two_rows("\xef\xbb\xbf"
                   "1,2.5,7\n-3,4e2,0\n",
                   CSV());
    check_two_rows("\xef\xbb\xbf"
                   "y,a,b\n7,1,2.5\n0,-3,4e2\n",
                   CSV(",'label':'y'"));
}

Test(csv_reader, takes_quoted_fields_and_blanks_around_numbers)
{
    check_two_rows("\"1\",2.5 ,\"7\"\n -3,\t\"4e2\" , 0\n", CSV());
}

Test(csv_reader, takes_other_delimiters)
{
    check_two_rows("1;2.5;7\n-3;4e2;0\n", CSV(",'delimiter':';'"));
    check_two_rows("1\t2.5\t7\n-3 \t4e2\t 0\n", CSV(",'delimiter':'\\t'"));
    check_two_rows("1 2.5 7\n-3 4e2 0\n", CSV(",'delimiter':' '"));
    check_two_rows("1\t2.5\t7\n-3 \t4e2\t 0\n", CSV(",'delimiter':'tab'"));
    check_two_rows("1 2.5 7\n-3 4e2 0\n", CSV(",'delimiter':'space'"));
}

Test(csv_reader, finds_the_label_in_any_column)
{
    check_two_rows("7,1,2.5\n0,-3,4e2\n", CSV(",'label':'first'"));
    check_two_rows("7,1,2.5\n0,-3,4e2\n", CSV(",'label':0"));
    check_two_rows("1,7,2.5\n-3,0,4e2\n", CSV(",'label':1"));
    check_two_rows("1,2.5,7\n-3,4e2,0\n", CSV(",'label':2"));
    check_two_rows("a,the label,b\n1,7,2.5\n-3,0,4e2\n", CSV(",'label':'the label'"));
    check_two_rows("\"a,x\",\"the \"\"label\",b\n1,7,2.5\n-3,0,4e2\n",
                   CSV(",'label':'the \\'label'"));
}

Test(csv_reader, tells_a_header_from_a_first_row)
{
    check_two_rows("a,b,y\n1,2.5,7\n-3,4e2,0\n", CSV());
    check_two_rows("0,1,y\n1,2.5,7\n-3,4e2,0\n", CSV());
    check_two_rows("0,1,2\n1,2.5,7\n-3,4e2,0\n", CSV(",'header':true"));
    check_two_rows("1,2.5,7\n-3,4e2,0\n", CSV(",'header':false"));
    /* A bad first row is no header. */
    files_write_text("a", "nan,1,2\n1,2.5,7\n");
    files_check_refused(CSV(), CADRE_EDATA, "@/a:1: column 0: 'nan' is no finite number");
    files_write_text("a", ",NA,2\n1,2.5,7\n");
    files_check_refused(CSV(), CADRE_EDATA, "@/a:1: column 0 is empty");
    files_write_text("a", "a,b,c\n1,2,3\n");
    files_check_refused(CSV(",'header':false"), CADRE_EDATA,
                        "@/a:1: column 0: 'a' is no finite number");
}

Test(csv_reader, reads_gzip_whatever_the_name)
{
    files_write_text("c.gz", "1,2.5,7\n-3,4e2,0\n");
    char compressed[2 * FILES_PATH_SIZE];
    char plain[2 * FILES_PATH_SIZE];
    snprintf(compressed, sizeof(compressed), "%s/c.gz", files_folder);
    snprintf(plain, sizeof(plain), "%s/a", files_folder);
    cr_assert_eq(rename(compressed, plain), 0);
    cadre_source_t *dataset = files_open_well(CSV(), 2, 2);
    cr_expect_eq(files_check_row(dataset, 0, row_0), 7);
    cadre_source_close(&dataset);
}

Test(csv_reader, names_file_line_and_column_of_a_bad_field)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"1,2,3\n1,2\n", "@/a:2: 2 fields, expected 3"},
        {"1,2,3\n1,2,3,4\n", "@/a:2: 4 fields, expected 3"},
        {"1,2,3\n1,x\n", "@/a:2: 2 fields, expected 3"},
        {"1,2,3\n\n1,,3\n", "@/a:3: column 1 is empty"},
        {"1,2,3\n1,2,\n", "@/a:2: column 2 is empty"},
        {"1,2,3\n1,\"\",3\n", "@/a:2: column 1 is empty"},
        {"1,2,3\n1,2x,3\n", "@/a:2: column 1: '2x' is no finite number"},
        {"1,2,3\n1,2 2,3\n", "@/a:2: column 1: '2 2' is no finite number"},
        {"1,2,3\n1,inf,3\n", "@/a:2: column 1: 'inf' is no finite number"},
        {"1,2,3\n1,1e999,3\n", "@/a:2: column 1: '1e999' is no finite number"},
        {"1,1e999,3\n1,2,3\n", "@/a:1: column 1: '1e999' is no finite number"},
        {"1,2,3\n1,0x10,3\n", "@/a:2: column 1: '0x10' is no finite number"},
        {"1,2,3\n1,1e39,3\n", "@/a:2: column 1: 1e+39 does not fit f32"},
        {"1,2,3\n1,\"2,3\n", "@/a:2: column 1: quotes do not match"},
        {"1,2,3\n1,\"2\"2,3\n", "@/a:2: column 1: quotes do not match"},
        {"1,2,3\n1,\"2,3\"\n", "@/a:2: 2 fields, expected 3"},
        {"1,2,3\n1,\x1b[31m,3\n", "@/a:2: column 1: '?[31m' is no finite number"},
        {"1,2,3\n1,2,3.5\n", "@/a:2: label 3.5 is no class from 0 to 16777215"},
        {"1,2,3\n1,2,16777216\n", "@/a:2: label 1.67772e+07 is no class from 0 to 16777215"},
        {"1,2,1\n1,2,-1\n", "@/a:2: label -1 is no class from 0 to 16777215; for -1 and 1 use "
                            "label_kind \"binary\""},
        {"a,b,y\n1,-,3\n", "@/a:2: column 1 b: '-' is no finite number"},
        {"a,b,y\n1,2,3,4\n", "@/a:2: 4 fields, expected 3"},
        {"1\n2\n", "@/a:1: one column; features and a label need two (delimiter ',')"},
        {"", "@/a: no rows"},
        {"\n \n", "@/a: no rows"},
        {"a,b,c\n", "@/a: no rows"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        files_write_text("a", cases[i].text);
        files_check_refused(CSV(), CADRE_EDATA, cases[i].reason);
    }
}

Test(csv_reader, says_when_there_is_no_such_label_column)
{
    files_write_text("a", "a,b,c\n1,2,3\n");
    files_check_refused(CSV(",'label':'y'"), CADRE_EDATA, "@/a:1: the header has no column 'y'");
    files_check_refused(CSV(",'label':3"), CADRE_EDATA,
                        "@/a:1: no label column 3 (from 0) in 3 columns");
    files_write_text("a", "y,b,y\n1,2,3\n");
    files_check_refused(CSV(",'label':'y'"), CADRE_EDATA, "@/a:1: two columns 'y'");
    files_write_text("a", "1,2,3\n");
    files_check_refused(CSV(",'label':'y'"), CADRE_EDATA, "@/a:1: no header row, so no column 'y'");
}

Test(csv_reader, skips_bad_lines_up_to_the_number_allowed)
{
    files_write_text("a", "1,2.5,7\n1,x,2\n-3,4e2,0\n1\n");
    cadre_source_t *dataset = files_open_well(CSV(",'skip_bad':2"), 2, 2);
    cr_expect_eq(files_check_row(dataset, 1, row_1), 0, "rows are numbered without bad lines");
    cr_expect_eq(cadre_source_info(dataset)->skipped, 2);
    cr_expect_not_null(strstr(cadre_source_skipped(dataset, 0), "/a:2: column 1: 'x'"));
    cr_expect_not_null(strstr(cadre_source_skipped(dataset, 1), "/a:4: 1 fields, expected 3"));
    cr_expect_null(cadre_source_skipped(dataset, 2));
    cr_expect_null(cadre_source_skipped(dataset, -1));
    cr_expect_null(cadre_source_skipped(dataset, CADRE_BAD_LINES_REPORTS_MAX));
    cadre_source_close(&dataset);
    files_check_refused(CSV(",'skip_bad':1"), CADRE_EDATA,
                        "more than 1 bad lines: @/a:4: 1 fields, expected 3");
}

Test(csv_reader, counts_skipped_lines_beyond_those_it_reports)
{
    char text[1000] = "1,2,3\n";
    for (int i = 0; i < 50; i++) {
        size_t size = strlen(text);
        snprintf(text + size, sizeof(text) - size, "bad\n");
    }
    files_write_text("a", text);
    cadre_source_t *dataset = files_open_well(CSV(",'skip_bad':50"), 1, 2);
    cr_expect_eq(cadre_source_info(dataset)->skipped, 50);
    cr_expect_not_null(cadre_source_skipped(dataset, CADRE_BAD_LINES_REPORTS_MAX - 1));
    cadre_source_close(&dataset);
}

Test(csv_reader, a_skipped_line_leaves_no_trace_in_the_classes)
{
    files_write_text("a", "1,2,3\nx,2,900\n1,2,1\n");
    cadre_source_t *dataset = files_open_well(CSV(",'skip_bad':1"), 2, 2);
    cr_expect_eq(cadre_source_info(dataset)->classes, 4);
    cadre_source_close(&dataset);
}

Test(csv_reader, reads_points_in_every_locale)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) {
        setlocale(LC_ALL, "C.UTF-8");
    }
    check_two_rows("1,2.500000000000000000000000,7\n-3,4e2,0\n", CSV());
}

/* A row of `length` characters, most of them blanks, and then `line_end`. */
static int
open_long_line(size_t length, const char *line_end)
{
    cadre_auto(cadre_free) char *text = cadre_calloc(length + 3, 1);
    memset(text, ' ', length);
    memcpy(text, "1,2,3", 5);
    snprintf(text + length, 3, "%s", line_end);
    files_write_text("a", text);
    cadre_source_t *dataset = NULL;
    int status = files_open(CSV(), &dataset);
    cadre_source_close(&dataset);
    return status;
}

Test(csv_reader, reads_a_line_at_its_limit_and_refuses_a_longer_one)
{
    static const char *const line_ends[] = {"\n", "\r\n", ""};
    for (size_t i = 0; i < CADRE_COUNT_OF(line_ends); i++) {
        cr_expect_eq(open_long_line(CADRE_DATA_LINE_SIZE_MAX, line_ends[i]), 0, "%s",
                     cadre_error_text());
        cr_expect_eq(open_long_line(CADRE_DATA_LINE_SIZE_MAX + 1, line_ends[i]), CADRE_EDATA);
        cr_expect_not_null(strstr(cadre_error_text(), "/a:1: a line of more than 16777216 bytes"));
    }
}

Test(csv_reader, reads_lines_across_the_borders_of_its_buffer)
{
    enum { ROWS = 40000 };
    cadre_auto(cadre_free) char *text = cadre_calloc(ROWS, 40);
    size_t size = 0;
    for (int i = 0; i < ROWS; i++) {
        size += (size_t)snprintf(text + size, 40, "%d,%d.5,%d\n", i, -i, i % 10);
    }
    files_write("c.gz", text, size);
    cadre_source_t *dataset =
        files_open_well("{'format':'csv','path':'c.gz','scale':0.5}", ROWS, 2);
    for (int i = 0; i < ROWS; i += 7) {
        float expected[] = {(float)i / 2, ((float)-i - 0.5F * (i > 0 ? 1 : -1)) / 2};
        cr_assert_eq(files_check_row(dataset, i, expected), i % 10);
    }
    cadre_source_close(&dataset);
}

Test(csv_reader, survives_random_changes)
{
    static const char text[] = "\xef\xbb\xbf"
                               "a,\"b \"\"c\"\"\",y\r\n1,2.5,7\n-3,\"4e2\", 0\n\n5,6,1\n";
    int opened = files_mutate(CSV(",'skip_bad':1"), "a", text, sizeof(text) - 1, 3000);
    cr_assert_gt(opened, 400, "%d", opened);
    static const char bare[] = "1 2 3\n4 5 6\n7 \"8\" 9\n";
    opened = files_mutate(CSV(",'label':1,'header':false,'delimiter':' '"), "a", bare,
                          sizeof(bare) - 1, 1000);
    cr_assert_gt(opened, 20, "%d", opened);
}

/* A row of data with one typo in it is taken for names, and lost: that is said, with the row. */
Test(csv_reader, notes_a_header_that_has_numbers_in_it)
{
    static const struct {
        const char *text;
        const char *row;
    } cases[] = {
        {"1,2x,0\n1,2,1\n", "1,2x,0"},
        {"a,b,y\n1,2,1\n", ""},
        {"label,0,1\n1,2,1\n", "label,0,1"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        files_write_text("a", cases[i].text);
        cadre_source_t *dataset = files_open_well(CSV(), 1, 2);
        cr_expect_str_eq(cadre_source_info(dataset)->doubtful_header, cases[i].row, "%s",
                         cases[i].text);
        cadre_source_close(&dataset);
    }
}

/* --- columns --- */

#define RATINGS(more) CSV(",'label':'rating','label_kind':'value'" more)

Test(csv_reader, takes_the_columns_that_are_named_in_their_order)
{
    static const char head[] = "userId,movieId,title,rating,timestamp\n";
    cadre_auto(cadre_free) char *text =
        cadre_asprintf("%s7,30,\"A, B\",4.5,964982703\n8,31,,3,\n9,32,x y,1e1,0x3\n", head);
    static const float wanted[][2] = {{30, 7}, {31, 8}, {32, 9}};
    static const double labels[] = {4.5, 3, 10};
    files_write_text("a", text);
    static const char *const specs[] = {RATINGS(",'columns':['movieId','userId']"),
                                        RATINGS(",'columns':[1,'userId']"),
                                        CSV(",'label':3,'label_kind':'value','columns':[1,0]")};
    for (size_t k = 0; k < CADRE_COUNT_OF(specs); k++) {
        cadre_source_t *dataset = files_open_well(specs[k], 3, 2);
        for (int64_t i = 0; i < 3; i++) {
            cr_expect_eq(files_check_row(dataset, i, wanted[i]), labels[i]);
        }
        cadre_source_close(&dataset);
    }
    cadre_source_t *dataset = files_open_well(RATINGS(",'columns':['movieId']"), 3, 1);
    cr_expect_eq(files_check_row(dataset, 2, &wanted[2][0]), 10);
    cadre_source_close(&dataset);
}

Test(csv_reader, still_checks_what_it_reads_of_a_line)
{
    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        {"x,1,y,2", "@/a:2: column 0 u: 'x' is no finite number"},
        {"1,1,y,z", "@/a:2: column 3 r: 'z' is no finite number"},
        {"1,1,y", "@/a:2: 3 fields, expected 4"},
        {"1,1,y,2,3", "@/a:2: 5 fields, expected 4"},
        {"1,\"1,y,2", "@/a:2: column 1 m: quotes do not match"},
        {"1,\"1\" 2,y,2", "@/a:2: column 1 m: quotes do not match"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *text = cadre_asprintf("u,m,t,r\n%s\n", cases[i].line);
        files_write_text("a", text);
        files_check_refused(CSV(",'label_kind':'value','columns':['u']"), CADRE_EDATA,
                            cases[i].reason);
    }
}

Test(csv_reader, refuses_columns_that_are_not_there)
{
    files_write_text("a", "u,m,m,r\n1,2,3,4\n");
    files_check_refused(CSV(",'columns':['x']"), CADRE_EDATA,
                        "@/a:1: the header has no column 'x'");
    files_check_refused(CSV(",'columns':['m']"), CADRE_EDATA, "@/a:1: two columns 'm'");
    files_check_refused(CSV(",'columns':[4]"), CADRE_EDATA,
                        "@/a:1: no column 4 (from 0) in 4 columns");
    files_check_refused(CSV(",'columns':['u','r']"), CADRE_EDATA,
                        "@/a:1: column 3 in \"columns\" is the label");
    files_check_refused(CSV(",'columns':[1,'u',1]"), CADRE_EDATA,
                        "@/a:1: column 1 in \"columns\" is there twice");
    files_write_text("a", "1,2,3\n");
    files_check_refused(CSV(",'columns':['u']"), CADRE_EDATA,
                        "@/a:1: no header row, so no column 'u'");
}

Test(csv_reader, survives_random_changes_with_columns)
{
    static const char text[] = "u,m,t,r\n1,2,\"a\",1\n3,4,,0\n5,6,b c,1\n";
    int opened =
        files_mutate(CSV(",'columns':['m','u'],'skip_bad':2"), "a", text, sizeof(text) - 1, 2000);
    cr_assert_gt(opened, 400, "%d", opened);
}

/* --- words and bags --- */

#define WORDS(columns, more) CSV(",'label_kind':'value','header':true,'columns':[" columns "]" more)

/* Returns the id that docs/data.md promises: 1 + XXH3-64 of the word modulo buckets - 1. */
static float
id_of(const char *word, uint64_t seed, uint64_t buckets)
{
    return (float)(1 + XXH3_64bits_withSeed(word, strlen(word), seed) % (buckets - 1));
}

Test(csv_reader, hashes_the_words_of_a_column)
{
    files_write_text("a", "who,age,where,y\nanna,31,\"Linz, \"\"A\"\"\",1\n bob ,7,,2\n");
    cadre_source_t *dataset = files_open_well(
        WORDS("{'column':'where','hash':1000,'hash_seed':5},'age',{'column':'who','hash':50}", ""),
        2, 3);
    const float first[] = {id_of("Linz, \"A\"", 5, 1000), 31, id_of("anna", 0, 50)};
    const float second[] = {0, 7, id_of("bob", 0, 50)};
    cr_expect_eq(files_check_row(dataset, 0, first), 1);
    cr_expect_eq(files_check_row(dataset, 1, second), 2);
    cadre_source_close(&dataset);
}

/* A change of the hash would make all tables that were trained before useless. */
Test(csv_reader, hashes_words_to_the_same_ids_for_ever)
{
    cr_expect_eq(id_of("anna", 0, 16777216), 1949500, "%.0f", (double)id_of("anna", 0, 16777216));
    cr_expect_eq(id_of("anna", 7, 16777216), 12761999, "%.0f", (double)id_of("anna", 7, 16777216));
}

Test(csv_reader, reads_bags_of_ids_and_words_with_and_without_weights)
{
    files_write_text("a", "ids,words,both,y\n"
                          "3|16777215, x | y z,5:0.5|6|7:-2,1\n"
                          "0,,,2\n"
                          "\"1|2|3\",x,a:b:2,3\n");
    cadre_source_t *dataset =
        files_open_well(WORDS("{'column':'ids','items':3},{'column':'words','items':2,'hash':9},"
                              "{'column':'both','items':3,'hash':99,'weights':true}",
                              ",'scale':10"),
                        3, 16);
    const float x = id_of("x", 0, 9);
    const float rows[][16] = {
        {3, 16777215, 0, 1, 1, 0, x, id_of("y z", 0, 9), 1, 1, id_of("5", 0, 99), id_of("6", 0, 99),
         id_of("7", 0, 99), 0.5F, 1, -2},
        {0, 0, 0, 1},
        {1, 2, 3, 1, 1, 1, x, 0, 1, 0, id_of("a:b", 0, 99), 0, 0, 2, 0, 0},
    };
    for (int64_t i = 0; i < 3; i++) {
        cr_expect_eq(files_check_row(dataset, i, rows[i]), (double)(i + 1));
    }
    cadre_source_close(&dataset);
}

/* --- keys --- */

/* Expects three numbers of a row to be a key, its lowest 24 bits first. */
static void
expect_key(const float *x, uint64_t key)
{
    cr_expect_eq(x[0], (float)(key & 0xffffff));
    cr_expect_eq(x[1], (float)(key >> 24 & 0xffffff));
    cr_expect_eq(x[2], (float)(key >> 48));
}

/* Reads row `row` of a file of one feature column `column`, of `width` numbers. */
static void
read_keys(const char *text, const char *column, int64_t row, int64_t width, float *x)
{
    float y = 0;
    files_write_text("a", text);
    cadre_auto(cadre_free) char *spec =
        cadre_asprintf("{'format':'csv','path':'a','label_kind':'value','header':true,'scale':10,"
                       "'columns':[%s]}",
                       column);
    cadre_source_t *dataset = files_open_well(spec, row + 1, width);
    cr_assert_eq(cadre_source_read(dataset, &row, 1, x, &y), 0);
    cadre_source_close(&dataset);
}

Test(csv_reader, keeps_all_bits_of_keys)
{
    static const struct {
        const char *text;
        uint64_t key;
    } cases[] = {
        {"0", 0},
        {"16777216", 1 << 24},
        {"76561197960265729", 76561197960265729U}, /* no double has this one */
        {"9223372036854775808", 1ULL << 63},
        {"18446744073709551615", UINT64_MAX},
        {"-1", UINT64_MAX},
        {"-9223372036854775808", 1ULL << 63},
        {" 7 ", 7},
    };
    float x[12];
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *text = cadre_asprintf("u,y\n%s,1\n", cases[i].text);
        read_keys(text, "{'column':'u','key':'id'}", 0, 3, x);
        expect_key(x, cases[i].key);
    }
    read_keys("u,y\nanna,1\n", "{'column':'u','key':'word','hash_seed':7}", 0, 3, x);
    expect_key(x, XXH3_64bits_withSeed("anna", 4, 7));
    expect_key(x, UINT64_C(13210285251804631603)); /* for ever, as tables are trained by it */
    read_keys("u,y\n,1\n", "{'column':'u','key':'word'}", 0, 3, x);
    expect_key(x, 0);
    read_keys("u,y\n-2:0.5|9,1\n", "{'column':'u','key':'id','items':3,'weights':true}", 0, 12, x);
    expect_key(x, UINT64_MAX - 1);
    expect_key(x + 3, 9);
    expect_key(x + 6, 0);
    cr_expect(x[9] == 0.5F && x[10] == 1 && x[11] == 0);
}

Test(csv_reader, names_what_is_no_key)
{
    static const char *const bad[] = {
        "", "x", "1.5", "-", "+1", "18446744073709551616", "-9223372036854775809"};
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_auto(cadre_free) char *text = cadre_asprintf("u,y\n%s,1\n", bad[i]);
        cadre_auto(cadre_free) char *reason = cadre_asprintf(
            "@/a:2: column 0 u: '%s' is no key, a whole number from -2^63 to 2^64 - 1", bad[i]);
        files_write_text("a", text);
        files_check_refused(WORDS("{'column':'u','key':'id'}", ""), CADRE_EDATA, reason);
    }
}

Test(csv_reader, names_column_and_item_of_a_bad_bag)
{
    static const struct {
        const char *line;
        const char *reason;
    } cases[] = {
        {"1|2|3,0", "@/a:2: column 0 g: 3 items, but \"items\" is 2"},
        {"1|,0", "@/a:2: column 0 g: item 1: it is empty"},
        {"|1,0", "@/a:2: column 0 g: item 0: it is empty"},
        {":2,0", "@/a:2: column 0 g: item 0: it is empty"},
        {"1|x,0",
         "@/a:2: column 0 g: item 1: 'x' is no id from 0 to 16777215: words need \"hash\""},
        {"16777216,0", "@/a:2: column 0 g: item 0: '16777216' is no id from 0 to 16777215: words "
                       "need \"hash\""},
        {"1.5,0", "@/a:2: column 0 g: item 0: '1.5' is no id from 0 to 16777215: words need "
                  "\"hash\""},
        {"1|2:x,0", "@/a:2: column 0 g: item 1: 'x' is no weight (a finite number)"},
        {"1|2:1e39,0", "@/a:2: column 0 g: item 1: '1e39' is no weight (a finite number)"},
        {"1|2", "@/a:2: 1 fields, expected 2"},
        {"1|2|3,0,0", "@/a:2: 3 fields, expected 2"},
        {"\"1,0", "@/a:2: column 0 g: quotes do not match"},
        {"1,x", "@/a:2: column 1 y: 'x' is no finite number"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_auto(cadre_free) char *text = cadre_asprintf("g,y\n%s\n", cases[i].line);
        files_write_text("a", text);
        files_check_refused(WORDS("{'column':'g','items':2,'weights':true}", ""), CADRE_EDATA,
                            cases[i].reason);
    }
    files_write_text("a", "g,y\n1|2|3,0\n4,5\n");
    cadre_source_t *dataset =
        files_open_well(WORDS("{'column':'g','items':2}", ",'skip_bad':1"), 1, 4);
    cr_expect_eq(files_check_row(dataset, 0, (const float[]){4, 0, 1, 0}), 5);
    cadre_source_close(&dataset);
}

/* Of a further file, a first row of words is a header only when it has the names. */
Test(csv_reader, tells_a_header_from_words_in_a_further_file)
{
    files_write_text("a1", "g,y\nred,0\n");
    files_write_text("a2", "blue,1\n");
    files_write_text("a3", "g,y\ngreen,2\n");
    cadre_source_t *dataset = files_open_well(
        "{'format':'csv','path':'a*','label_kind':'value','columns':[{'column':'g','hash':99}]}", 3,
        1);
    cr_expect_eq(files_check_row(dataset, 1, (const float[]){id_of("blue", 0, 99)}), 1);
    cr_expect_eq(files_check_row(dataset, 2, (const float[]){id_of("green", 0, 99)}), 2);
    cadre_source_close(&dataset);
}

Test(csv_reader, survives_random_changes_with_bags)
{
    static const char text[] = "u,g,r\nx,1|2:3,1\n\"a\",,0\ny \"\"z,5,1\n";
    int opened = files_mutate(CSV(",'header':true,'columns':[{'column':0,'hash':9},"
                                  "{'column':1,'items':2,'weights':true}],'skip_bad':2"),
                              "a", text, sizeof(text) - 1, 2000);
    cr_assert_gt(opened, 400, "%d", opened);
}
