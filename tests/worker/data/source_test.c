#include "worker/data/source.h"

#include <math.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/worker/data/files.h"

TestSuite(dataset, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define CSV(more) "{'format':'csv','path':'a'" more "}"

static const char six_rows[] = "0,10,0\n1,11,0\n2,12,0\n3,13,0\n4,14,5\n5,15,0\n";

Test(dataset, describes_its_rows)
{
    files_write_text("a", "1,2,3\n");
    cadre_source_t *dataset = files_open_well(CSV(), 1, 2);
    const cadre_source_info_t *info = cadre_source_info(dataset);
    cr_expect(info->features == 2 && info->row_rank == 1 && info->row_shape[0] == 2);
    cr_expect_eq(info->y_dtype, CADRE_I32);
    cadre_source_close(&dataset);
    cr_expect_null(dataset);
    cadre_source_close(&dataset);
}

Test(dataset, turns_labels_into_their_kind)
{
    files_write_text("a", "1,2,-1\n1,2,+1\n1,2,1.0\n");
    cadre_source_t *dataset = files_open_well(CSV(",'label_kind':'binary'"), 3, 2);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){1, 2}), 0);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){1, 2}), 1);
    cr_expect_eq(files_check_row(dataset, 2, (float[]){1, 2}), 1);
    cadre_source_close(&dataset);
    files_write_text("a", "1,2,-1.5\n1,2,3e9\n");
    dataset = files_open_well(CSV(",'label_kind':'value'"), 2, 2);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){1, 2}), -1.5);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){1, 2}), 3e9);
    cr_expect_eq(cadre_source_info(dataset)->classes, 0);
    cadre_source_close(&dataset);
    files_write_text("a", "1,2,1e39\n");
    files_check_refused(CSV(",'label_kind':'value'"), CADRE_EDATA,
                        "@/a:1: label 1e+39 does not fit f32");
}

Test(dataset, scales_x_and_not_y)
{
    files_write_text("a", "4,-8,3\n");
    cadre_source_t *dataset = files_open_well(CSV(",'scale':0.25,'classes':4"), 1, 2);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){1, -2}), 3);
    cadre_source_close(&dataset);
    files_write_text("a", "1e9,-8,3\n");
    files_check_refused(CSV(",'scale':1e30"), CADRE_EDATA,
                        "@/a:1: column 0: 1e+09 does not fit f32");
}

Test(dataset, cuts_a_file_into_parts_that_agree)
{
    files_write_text("a", six_rows);
    cadre_source_t *train = files_open_well(CSV(",'rows':4"), 4, 2);
    cadre_source_t *held_out = files_open_well(CSV(",'first_row':4"), 2, 2);
    cr_expect_eq(files_check_row(train, 3, (float[]){3, 13}), 0);
    cr_expect_eq(files_check_row(held_out, 0, (float[]){4, 14}), 5);
    cr_expect_eq(files_check_row(held_out, 1, (float[]){5, 15}), 0);
    cr_expect_eq(cadre_source_info(train)->classes, 6);
    cr_expect_eq(cadre_source_info(held_out)->classes, 6);
    cr_expect_eq(cadre_source_info(train)->file_rows, 6);
    cadre_source_close(&train);
    cadre_source_close(&held_out);
}

Test(dataset, refuses_a_part_that_the_file_does_not_have)
{
    files_write_text("a", six_rows);
    cadre_source_t *dataset = files_open_well(CSV(",'first_row':4,'rows':2"), 2, 2);
    cadre_source_close(&dataset);
    files_check_refused(CSV(",'first_row':4,'rows':3"), CADRE_EDATA,
                        "@/a: 6 rows, too few for 3 from row 4 on");
    files_check_refused(CSV(",'first_row':6"), CADRE_EDATA,
                        "@/a: 6 rows, too few for 1 from row 6 on");
}

Test(dataset, reads_rows_in_the_order_given)
{
    files_write_text("a", six_rows);
    cadre_source_t *dataset = files_open_well(CSV(), 6, 2);
    int64_t rows[] = {5, 0, 4, 4};
    float x[8];
    int32_t y[4];
    cr_assert_eq(cadre_source_read(dataset, rows, 4, x, y), 0);
    static const float expected[] = {5, 15, 0, 10, 4, 14, 4, 14};
    for (size_t i = 0; i < CADRE_COUNT_OF(expected); i++) {
        cr_expect_eq(x[i], expected[i]);
    }
    cr_expect(y[0] == 0 && y[1] == 0 && y[2] == 5 && y[3] == 5);
    cr_expect_eq(cadre_source_read(dataset, rows, 0, x, y), 0);
    cadre_source_close(&dataset);
}

Test(dataset, refuses_row_numbers_out_of_range_and_writes_nothing)
{
    files_write_text("a", six_rows);
    cadre_source_t *dataset = files_open_well(CSV(), 6, 2);
    float x[4] = {77, 77, 77, 77};
    int32_t y[2] = {77, 77};
    cr_expect_eq(cadre_source_read(dataset, (int64_t[]){0, 6}, 2, x, y), CADRE_EINVALID);
    cr_expect_str_eq(cadre_error_text(), "no row 6, the dataset has 6");
    cr_expect_eq(cadre_source_read(dataset, (int64_t[]){0, -1}, 2, x, y), CADRE_EINVALID);
    cr_expect(x[0] == 77 && y[0] == 77);
    cadre_source_close(&dataset);
}

Test(dataset, says_why_a_file_cannot_be_opened)
{
    files_check_refused(CSV(), CADRE_ENOTFOUND, "@/a: No such file or directory");
    files_check_refused("{'format':'csv','path':'.'}", CADRE_ENOTFOUND, "@/.: not a regular file");
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/a", files_folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    files_check_refused(CSV(), CADRE_ENOTFOUND, "@/a: not a regular file");
    files_check_refused("{'format':'csv','path':'/dev/zero'}", CADRE_ENOTFOUND,
                        "/dev/zero: not a regular file");
}

Test(dataset, takes_absolute_paths_as_they_are)
{
    files_write_text("a", six_rows);
    cadre_auto(cadre_free) char *json =
        cadre_asprintf("{\"format\":\"csv\",\"path\":\"%s/a\"}", files_folder);
    cadre_data_spec_t spec = {0};
    cr_assert_eq(cadre_data_spec_decode(json, strlen(json), &spec), 0);
    cadre_source_t *dataset = NULL;
    cr_expect_eq(cadre_source_open(&spec, NULL, &dataset), 0);
    cadre_source_close(&dataset);
    cadre_source_options_t options = {.base = "/nowhere"};
    cr_expect_eq(cadre_source_open(&spec, &options, &dataset), 0);
    cadre_source_close(&dataset);
    cadre_data_spec_fini(&spec);
}

/* Opens a dataset whose file is `path`, "@" standing for the folder of the test, below that folder
 * alone. */
static int
open_confined(const char *path)
{
    char json[3 * FILES_PATH_SIZE];
    const char *rest = path + (path[0] == '@');
    snprintf(json, sizeof(json), "{\"format\":\"csv\",\"path\":\"%s%s\"}",
             path[0] == '@' ? files_folder : "", rest);
    cadre_data_spec_t spec = {0};
    cadre_source_t *dataset = NULL;
    cr_assert_eq(cadre_data_spec_decode(json, strlen(json), &spec), 0, "%s", cadre_error_text());
    cadre_source_options_t options = {.base = files_folder, .confined = true};
    int status = cadre_source_open(&spec, &options, &dataset);
    cadre_source_close(&dataset);
    cadre_data_spec_fini(&spec);
    return status;
}

Test(dataset, is_read_below_its_folder_and_nowhere_else)
{
    char link[2 * FILES_PATH_SIZE];
    files_write_text("a", six_rows);
    snprintf(link, sizeof(link), "%s/b", files_folder);
    cr_expect_eq(open_confined("a"), 0, "%s", cadre_error_text());
    cr_expect_eq(open_confined("@/a"), 0, "%s", cadre_error_text());
    cr_expect_eq(open_confined("@//a"), 0, "%s", cadre_error_text());
    cr_expect_eq(open_confined("/etc/passwd"), CADRE_EREFUSED);
    cr_expect(strstr(cadre_error_text(), "--data-dir"), "%s", cadre_error_text());
    cr_expect_eq(open_confined("../../etc/passwd"), CADRE_EREFUSED);
    cr_expect_eq(open_confined("@/../../etc/passwd"), CADRE_EREFUSED);
    cr_assert_eq(symlink("/etc/passwd", link), 0);
    cr_expect_eq(open_confined("b"), CADRE_EREFUSED);
    cr_assert_eq(unlink(link), 0);
    cr_assert_eq(symlink("a", link), 0);
    cr_expect_eq(open_confined("b"), 0, "%s", cadre_error_text());
}

/* Each format at its limit and one byte below. */
Test(dataset, holds_no_more_than_its_limit)
{
    static const struct {
        const char *json;
        const char *text;
        uint64_t size_bytes;
    } cases[] = {
        {CSV(), six_rows, 6 * (2 * 4 + 4)},
        {CSV(",'first_row':1,'rows':3"), six_rows, 3 * (2 * 4 + 4)},
        {"{'format':'libsvm','path':'a'}", "1 1:1 2:1\n0\n2 1:1\n", 3 * 8 + 4 * 8 + 3 * 4},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        files_write_text("a", cases[i].text);
        cadre_source_t *dataset = NULL;
        int status = files_open_within(cases[i].json, cases[i].size_bytes, &dataset);
        cr_assert_eq(status, 0, "%s", cadre_error_text());
        cr_expect_eq(cadre_source_info(dataset)->size_bytes, cases[i].size_bytes);
        cadre_source_close(&dataset);
        status = files_open_within(cases[i].json, cases[i].size_bytes - 1, &dataset);
        cr_expect_eq(status, CADRE_ETOOLARGE);
        cr_expect_not_null(strstr(cadre_error_text(), "/a: the parsed rows take more than"));
    }
}

Test(dataset, holds_no_more_than_its_limit_of_an_image_file)
{
    static const uint8_t images[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};
    static const char json[] = "{'format':'idx','path':'a','labels_path':'b'}";
    files_write("a", images, sizeof(images));
    files_write("b", labels, sizeof(labels));
    cadre_source_t *dataset = NULL;
    cr_assert_eq(files_open_within(json, 12, &dataset), 0);
    cadre_source_close(&dataset);
    cr_expect_eq(files_open_within(json, 11, &dataset), CADRE_ETOOLARGE);
}

/* A file of blank lines never becomes rows, so only the bound on content ends it. */
Test(dataset, stops_at_content_without_end)
{
    cadre_auto(cadre_free) char *text = cadre_calloc(1 << 20, 1);
    memset(text, '\n', 1 << 20);
    files_write("c.gz", text, 1 << 20);
    cadre_source_t *dataset = NULL;
    cr_assert_eq(files_open_within("{'format':'csv','path':'c.gz'}", 1 << 14, &dataset),
                 CADRE_ETOOLARGE);
    cr_expect_not_null(strstr(cadre_error_text(), "more than 524288 bytes of content"));
}

Test(dataset, survives_random_changes_of_compressed_bytes)
{
    files_write_text("c.gz", six_rows);
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/c.gz", files_folder);
    uint8_t bytes[256];
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    cr_assert(size > 20 && size < sizeof(bytes));
    int opened = files_mutate(CSV(), "a", bytes, size, 1500);
    cr_assert_gt(opened, 10, "%d", opened);
}

static const char *
real_data(const char *folder, char *path)
{
    const char *root = getenv("CADRE_TEST_DATA");
    snprintf(path, FILES_PATH_SIZE, "%s/%s", root ? root : "", folder);
    if (!root || access(path, R_OK) != 0) {
        cr_skip_test("CADRE_TEST_DATA names no folder with %s/", folder);
    }
    return path;
}

static cadre_source_t *
open_real(const char *base, const char *json)
{
    snprintf(files_folder, sizeof(files_folder), "%s", base);
    cadre_source_t *dataset = NULL;
    int status = files_open(json, &dataset);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    return dataset;
}

/* How many rows have each label from 0 on. */
static void
count_labels(cadre_source_t *dataset, int64_t *counts)
{
    const cadre_source_info_t *info = cadre_source_info(dataset);
    float *x = cadre_calloc((size_t)info->features, sizeof(*x));
    for (int64_t row = 0; row < info->rows; row++) {
        union {
            int32_t number;
            float value;
        } y;
        cr_assert_eq(cadre_source_read(dataset, &row, 1, x, &y), 0);
        counts[info->y_dtype == CADRE_I32 ? y.number : (int)y.value]++;
    }
    free(x);
}

TestSuite(real_dataset, .timeout = 240);

Test(real_dataset, mnist_has_its_ten_thousand_digits)
{
    char path[FILES_PATH_SIZE];
    cadre_source_t *dataset =
        open_real(real_data("mnist", path), "{'format':'idx','path':'t10k-images-idx3-ubyte.gz',"
                                            "'labels_path':'t10k-labels-idx1-ubyte.gz',"
                                            "'scale':0.00392156862745098}");
    const cadre_source_info_t *info = cadre_source_info(dataset);
    cr_expect_eq(info->rows, 10000);
    cr_expect_eq(info->features, 784);
    cr_expect(info->row_rank == 2 && info->row_shape[0] == 28 && info->row_shape[1] == 28);
    int64_t counts[10] = {0};
    count_labels(dataset, counts);
    static const int64_t expected[] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
    cr_expect_arr_eq(counts, expected, sizeof(counts));
    float x[784];
    int32_t y = 0;
    cr_assert_eq(cadre_source_read(dataset, (int64_t[]){0}, 1, x, &y), 0);
    float largest = 0;
    for (int i = 0; i < 784; i++) {
        largest = fmaxf(largest, x[i]);
    }
    cr_expect_eq(y, 7);
    cr_expect(largest > 0.99F && largest <= 1);
    cadre_source_close(&dataset);
}

Test(real_dataset, adult_has_its_rows_and_labels)
{
    char path[FILES_PATH_SIZE];
    real_data("adult", path);
    cadre_source_t *train =
        open_real(path, "{'format':'libsvm','path':'a9a','label_kind':'binary','features':123}");
    cadre_source_t *test = open_real(path, "{'format':'libsvm','path':'a9a.t','label_kind':"
                                           "'binary','features':123}");
    cr_expect_eq(cadre_source_info(train)->rows, 32560);
    cr_expect_eq(cadre_source_info(train)->features, 123);
    cr_expect_eq(cadre_source_info(test)->rows, 16281);
    int64_t counts[2] = {0};
    count_labels(train, counts);
    cr_expect(counts[0] == 24719 && counts[1] == 7841, "%" PRId64 " %" PRId64, counts[0],
              counts[1]);
    memset(counts, 0, sizeof(counts));
    count_labels(test, counts);
    cr_expect(counts[0] == 12435 && counts[1] == 3846, "%" PRId64 " %" PRId64, counts[0],
              counts[1]);
    cadre_source_close(&train);
    cadre_source_close(&test);
}
