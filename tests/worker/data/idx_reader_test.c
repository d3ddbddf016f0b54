#include "tests/worker/data/files.h"

TestSuite(idx_reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

#define IDX(more) "{'format':'idx','path':'a','labels_path':'b'" more "}"
#define IDX_GZ    "{'format':'idx','path':'c.gz','labels_path':'d.gz'}"

/* Three images of 2 x 2. */
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2,  0, 0,
                                 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 255};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 2, 0, 9};

static void
check_three_images(const char *json)
{
    cadre_source_t *dataset = files_open_well(json, 3, 4);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){1, 2, 3, 4}), 2);
    cr_expect_eq(files_check_row(dataset, 1, (float[]){5, 6, 7, 8}), 0);
    cr_expect_eq(files_check_row(dataset, 2, (float[]){9, 10, 0, 255}), 9);
    const cadre_source_info_t *info = cadre_source_info(dataset);
    cr_expect_eq(info->classes, 10);
    cr_expect_eq(info->row_rank, 2);
    cr_expect_eq(info->row_shape[0], 2);
    cr_expect_eq(info->row_shape[1], 2);
    cr_expect_eq(info->size_bytes, 3 * (4 + 4), "bytes stay bytes");
    cadre_source_close(&dataset);
}

Test(idx_reader, reads_images_and_labels)
{
    files_write("a", images, sizeof(images));
    files_write("b", labels, sizeof(labels));
    check_three_images(IDX());
}

Test(idx_reader, reads_gzip)
{
    files_write("c.gz", images, sizeof(images));
    files_write("d.gz", labels, sizeof(labels));
    check_three_images(IDX_GZ);
}

Test(idx_reader, scales_bytes)
{
    files_write("a", images, sizeof(images));
    files_write("b", labels, sizeof(labels));
    cadre_source_t *dataset = files_open_well(IDX(",'scale':-0.5,'first_row':2"), 1, 4);
    cr_expect_eq(files_check_row(dataset, 0, (float[]){-4.5F, -5, 0, -127.5F}), 9);
    cadre_source_close(&dataset);
}

Test(idx_reader, reads_every_element_type)
{
    static const struct {
        uint8_t bytes[32];
        size_t size;
        float expected[2];
    } cases[] = {
        {{0, 0, 9, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x7f}, 14, {-128, 127}},
        {{0, 0, 11, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0, 1, 2}, 16, {-32768, 258}},
        {{0, 0, 12, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 1, 0, 0},
         20,
         {-2, 65536}},
        {{0, 0, 13, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0x3f, 0xc0, 0, 0, 0xc0, 0, 0, 0}, 20, {1.5F, -2}},
        {{0, 0, 14, 2, 0, 0, 0,    1, 0, 0, 0, 2, 0x3f, 0xf8,
          0, 0, 0,  0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0,    0},
         28,
         {1.5F, -2}},
    };
    static const uint8_t one[] = {0, 0, 8, 1, 0, 0, 0, 1, 4};
    files_write("b", one, sizeof(one));
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        files_write("a", cases[i].bytes, cases[i].size);
        cadre_source_t *dataset = files_open_well(IDX(), 1, 2);
        cr_expect_eq(files_check_row(dataset, 0, cases[i].expected), 4);
        cr_expect_eq(cadre_source_info(dataset)->row_rank, 1);
        cadre_source_close(&dataset);
    }
}

Test(idx_reader, names_the_byte_that_is_not_finite)
{
    static const uint8_t nan[] = {0, 0, 13, 2,    0,    0,    0,    1,    0,    0,
                                  0, 2, 0,  0x3f, 0xc0, 0x00, 0x7f, 0xc0, 0x00, 0x00};
    static const uint8_t one[] = {0, 0, 8, 1, 0, 0, 0, 1, 4};
    files_write("a", nan, sizeof(nan));
    files_write("b", one, sizeof(one));
    files_check_refused(IDX(), CADRE_EDATA, "@/a:16: nan is not a finite f32");
}

/* `images` and `labels` with one byte changed and cut or lengthened to `size`. */
static void
check_changed(const char *name, size_t at, uint8_t byte, size_t size, const char *reason)
{
    uint8_t bytes[2][64] = {{0}};
    memcpy(bytes[0], images, sizeof(images));
    memcpy(bytes[1], labels, sizeof(labels));
    int which = *name == 'b';
    bytes[which][at] = byte;
    files_write("a", bytes[0], which == 0 ? size : sizeof(images));
    files_write("b", bytes[1], which == 1 ? size : sizeof(labels));
    files_check_refused(IDX(), CADRE_EDATA, reason);
}

Test(idx_reader, checks_magic_type_and_sizes)
{
    size_t size = sizeof(images);
    check_changed("a", 0, 0x89, size,
                  "@/a:0: not an IDX file: it begins with 89 00, not with 00 00");
    check_changed("a", 2, 7, size, "@/a:2: unknown element type 0x07");
    check_changed("a", 2, 10, size, "@/a:2: unknown element type 0x0a");
    check_changed("a", 2, 15, size, "@/a:2: unknown element type 0x0f");
    check_changed("a", 2, 255, size, "@/a:2: unknown element type 0xff");
    check_changed("a", 3, 0, size, "@/a:3: 0 dimensions, allowed are 1 to 8");
    check_changed("a", 3, 9, size, "@/a:3: 9 dimensions, allowed are 1 to 8");
    check_changed("a", 7, 0, size, "@/a:4: dimension 0 is 0");
    check_changed("a", 15, 0, size, "@/a:12: dimension 2 is 0");
    check_changed("b", 3, 2, sizeof(labels), "@/b:11: the file ends too early");
    check_changed("b", 7, 2, sizeof(labels), "@/b:4: 2 labels for 3 rows of @/a");
    check_changed("a", 0, 0, 0, "@/a:0: the file ends too early");
    check_changed("a", 0, 0, 3, "@/a:3: the file ends too early");
    check_changed("a", 0, 0, 15, "@/a:15: the file ends too early");
    check_changed("a", 0, 0, size - 1,
                  "@/a:27: the file ends too early: the header promises 28 bytes");
    check_changed("a", 0, 0, size + 1, "@/a:28: more bytes than the header promises");
    check_changed("b", 0, 0, sizeof(labels) - 1,
                  "@/b:10: the file ends too early: the header promises 11 bytes");
    check_changed("b", 0, 0, sizeof(labels) + 1, "@/b:11: more bytes than the header promises");
}

Test(idx_reader, wants_labels_of_one_dimension)
{
    files_write("a", images, sizeof(images));
    files_write("b", images, sizeof(images));
    files_check_refused(IDX(), CADRE_EDATA, "@/b:3: 3 dimensions, but labels have one");
}

Test(idx_reader, finds_a_cut_gzip_file)
{
    files_write("c.gz", images, sizeof(images) - 1);
    files_write("d.gz", labels, sizeof(labels));
    files_check_refused(IDX_GZ, CADRE_EDATA, "@/c.gz:27: the file ends too early");
    files_write("c.gz", images, sizeof(images));
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/c.gz", files_folder);
    cr_assert_eq(truncate(path, 30), 0);
    cadre_source_t *dataset = NULL;
    cr_assert_eq(files_open(IDX_GZ, &dataset), CADRE_EDATA);
    cr_assert_not_null(strstr(cadre_error_text(), "the compressed data ends too early"), "%s",
                       cadre_error_text());
}

Test(idx_reader, finds_a_damaged_gzip_file)
{
    files_write("c.gz", images, sizeof(images));
    files_write("d.gz", labels, sizeof(labels));
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/c.gz", files_folder);
    FILE *file = fopen(path, "r+b");
    cr_assert_not_null(file);
    fseek(file, -6, SEEK_END); /* in the checksum */
    fputc(0x55, file);
    fclose(file);
    cadre_source_t *dataset = NULL;
    cr_assert_eq(files_open(IDX_GZ, &dataset), CADRE_EDATA);
    cr_assert_not_null(strstr(cadre_error_text(), "incorrect data check"), "%s",
                       cadre_error_text());
}

/* A header of 16 bytes that promises 2^56 elements: refused from the size of the file. */
Test(idx_reader, allocates_nothing_for_a_promise_that_cannot_be_kept)
{
    static const uint8_t huge[] = {0, 0, 8, 2, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 1, 2, 3};
    files_write("a", huge, sizeof(huge));
    files_write("b", labels, sizeof(labels));
    files_check_refused(
        IDX(), CADRE_EDATA,
        "@/a:15: the file ends too early: the header promises 72057594021150732 bytes");
    files_write("c.gz", huge, sizeof(huge));
    files_write("d.gz", labels, sizeof(labels));
    cadre_source_t *dataset = NULL;
    cr_assert_eq(files_open(IDX_GZ, &dataset), CADRE_EDATA);
    cr_assert_not_null(strstr(cadre_error_text(), "the header promises"));
    static const uint8_t wide[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1};
    files_write("a", wide, sizeof(wide));
    files_check_refused(IDX(), CADRE_EDATA, "@/a:12: more than 16777216 elements in a row");
}

Test(idx_reader, checks_labels)
{
    files_write("a", images, sizeof(images));
    files_write("b", labels, sizeof(labels));
    files_check_refused(IDX(",'classes':9"), CADRE_EDATA,
                        "@/b:10: label 9 is no class from 0 to 8");
    files_check_refused(IDX(",'label_kind':'binary'"), CADRE_EDATA,
                        "@/b:8: label 2 is not one of 0, 1 and -1");
    cadre_source_t *dataset = files_open_well(IDX(",'classes':20"), 3, 4);
    cr_expect_eq(cadre_source_info(dataset)->classes, 20);
    cadre_source_close(&dataset);
}

Test(idx_reader, survives_random_changes)
{
    files_write("b", labels, sizeof(labels));
    int opened = files_mutate(IDX(), "a", images, sizeof(images), 3000);
    cr_assert_gt(opened, 100, "%d", opened);
    files_write("a", images, sizeof(images));
    opened = files_mutate(IDX(), "b", labels, sizeof(labels), 2000);
    cr_assert_gt(opened, 20, "%d", opened);
}
