#include <math.h>

#include "tests/worker/data/files.h"

TestSuite(memory_reader, .timeout = 240);

static cadre_row_chunks_t
rows_of(const float *x, const void *y, int64_t count, cadre_dtype_t label)
{
    cadre_row_chunks_t rows = {0};
    cr_assert_eq(cadre_row_chunks_copy(x, y, count, 2, label, &rows), 0);
    return rows;
}

static void
check_refused(cadre_row_chunks_t rows, uint64_t size_bytes_max, int wanted, const char *text)
{
    cadre_source_t *source = NULL;
    cr_expect_eq(cadre_source_open_rows(&rows, size_bytes_max, &source), wanted);
    cr_expect_str_eq(cadre_error_text(), text);
    cadre_row_chunks_fini(&rows);
}

Test(memory_reader, reads_rows_with_classes_as_a_file_of_the_same_numbers)
{
    files_setup();
    files_write_text("a", "1,2,0\n3,4,2\n5.5,-6,1\n");
    cadre_source_t *file = files_open_well("{'format':'csv','path':'a'}", 3, 2);
    cadre_row_chunks_t rows =
        rows_of((float[]){1, 2, 3, 4, 5.5F, -6}, (int32_t[]){0, 2, 1}, 3, CADRE_I32);
    cadre_source_t *source = NULL;
    cr_assert_eq(cadre_source_open_rows(&rows, 0, &source), 0, "%s", cadre_error_text());
    cadre_row_chunks_fini(&rows); /* the source has a copy */

    const cadre_source_info_t *info = cadre_source_info(source);
    cr_expect(info->rows == 3 && info->features == 2 && info->classes == 3);
    cr_expect_eq(info->y_dtype, CADRE_I32);
    cr_expect_eq(info->hash, cadre_source_info(file)->hash);
    cr_expect_eq(files_check_row(source, 2, (float[]){5.5F, -6}), 1);
    cadre_source_close(&source);
    cadre_source_close(&file);
    files_teardown();
}

Test(memory_reader, reads_labels_that_are_values)
{
    cadre_row_chunks_t rows = rows_of((float[]){1, 2}, (float[]){-1.5F}, 1, CADRE_F32);
    cadre_source_t *source = NULL;
    cr_assert_eq(cadre_source_open_rows(&rows, 0, &source), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_source_info(source)->y_dtype, CADRE_F32);
    cr_expect_eq(cadre_source_info(source)->classes, 0);
    cr_expect_eq(files_check_row(source, 0, (float[]){1, 2}), -1.5);
    cadre_source_close(&source);
    cadre_row_chunks_fini(&rows);
}

Test(memory_reader, refuses_what_is_no_row)
{
    check_refused(rows_of((float[]){1, 2, 3, NAN}, (float[]){0, 0}, 2, CADRE_F32), 0, CADRE_EDATA,
                  "memory:1: feature 1 is nan");
    check_refused(rows_of((float[]){1, 2}, (int32_t[]){-1}, 1, CADRE_I32), 0, CADRE_EDATA,
                  "memory:0: label -1 is no class from 0 to 16777215; for -1 and 1 use label_kind "
                  "\"binary\"");
    check_refused(rows_of((float[]){1, 2}, (float[]){INFINITY}, 1, CADRE_F32), 0, CADRE_EDATA,
                  "memory:0: label inf does not fit f32");
    check_refused(rows_of((float[]){1, 2}, (float[]){0}, 1, CADRE_F32), 11, CADRE_ETOOLARGE,
                  "memory: the parsed rows take more than 11 bytes");
    check_refused((cadre_row_chunks_t){.features = 2, .label = CADRE_F32}, 0, CADRE_EDATA,
                  "memory: no rows");

    cadre_row_chunks_t cut = rows_of((float[]){1, 2}, (float[]){0}, 1, CADRE_F32);
    cr_assert_eq(cadre_row_chunks_add(&cut, cadre_chunk_new_copy("1234", 4)), 0);
    check_refused(cut, 0, CADRE_EDATA, "memory: 16 bytes are no rows of 2 features");
}
