#include "worker/data/reader.h"

#include "tests/worker/data/files.h"

TestSuite(reader, .timeout = 240, .init = files_setup, .fini = files_teardown);

/* Opens a dataset of one feature, whose rows must be these. */
static void
check_rows(const char *json, int64_t count, const float *wanted)
{
    cadre_source_t *dataset = files_open_well(json, count, 1);
    for (int64_t i = 0; i < count; i++) {
        files_check_row(dataset, i, &wanted[i]);
    }
    cadre_source_close(&dataset);
}

Test(reader, reads_the_files_of_a_pattern_one_behind_the_other)
{
    files_write_text("p-1", "1,0\n2,1\n");
    files_write_text("p-2.gz", "3,0");
    files_write_text("p-3", "\n");
    files_write_text("p-4", "4,1\n");
    check_rows("{'format':'csv','path':'p-*'}", 4, (const float[]){1, 2, 3, 4});
    check_rows("{'format':'csv','path':['p-4','p-[12]*','p-4']}", 5,
               (const float[]){4, 1, 2, 3, 4});
    check_rows("{'format':'csv','path':'p-*','first_row':1,'rows':2}", 2, (const float[]){2, 3});
}

Test(reader, has_the_hash_of_one_file_with_the_same_rows)
{
    files_write_text("all", "1 3:1\n0 1:2\n1 2:2 3:4\n");
    files_write_text("p-1", "1 3:1\n");
    files_write_text("p-2", "0 1:2\n1 2:2 3:4\n");
    cadre_source_t *whole = files_open_well("{'format':'libsvm','path':'all'}", 3, 3);
    cadre_source_t *parts = files_open_well("{'format':'libsvm','path':'p-*'}", 3, 3);
    cadre_source_t *others = files_open_well("{'format':'libsvm','path':['p-2','p-1']}", 3, 3);
    cr_expect_eq(cadre_source_info(whole)->hash, cadre_source_info(parts)->hash);
    cr_expect_neq(cadre_source_info(whole)->hash, cadre_source_info(others)->hash);
    cadre_source_close(&whole);
    cadre_source_close(&parts);
    cadre_source_close(&others);
}

Test(reader, finds_the_header_of_each_file)
{
    files_write_text("h-1", "a,y\n1,0\n");
    files_write_text("h-2", "a,y\n2,1\n");
    files_write_text("h-3", "3,1\n");
    check_rows("{'format':'csv','path':'h-*','label':'y'}", 3, (const float[]){1, 2, 3});
    files_check_refused("{'format':'csv','path':['h-3','h-1']}", CADRE_EDATA,
                        "@/h-1:1: a header row, but @/h-3 has none");
    files_write_text("h-2", "y,a\n2,1\n");
    files_check_refused("{'format':'csv','path':'h-*'}", CADRE_EDATA,
                        "@/h-2:1: column 0 has the name 'y', which is another one in @/h-1");
    files_write_text("h-2", "a,b,y\n2,1\n");
    files_check_refused("{'format':'csv','path':'h-*','label':'y'}", CADRE_EDATA,
                        "@/h-2:1: 3 names in the header, but 2 in @/h-1");
}

Test(reader, names_the_file_of_a_bad_line_and_counts_them_over_all)
{
    files_write_text("p-1", "1,0\nx,0\n");
    files_write_text("p-2", "2,0\n3\n");
    files_check_refused("{'format':'csv','path':'p-*','skip_bad':1}", CADRE_EDATA,
                        "more than 1 bad lines: @/p-2:2: 1 fields, expected 2");
    cadre_source_t *dataset = files_open_well("{'format':'csv','path':'p-*','skip_bad':2}", 2, 1);
    cr_expect_eq(cadre_source_info(dataset)->skipped, 2);
    cadre_source_close(&dataset);
    files_check_refused("{'format':'csv','path':'q-*'}", CADRE_ENOTFOUND, "no file fits @/q-*");
    files_check_refused("{'format':'csv','path':['p-1','q']}", CADRE_EDATA,
                        "@/p-1:2: column 0: 'x' is no finite number");
    files_write_text("p-1", "1,0\n");
    files_check_refused("{'format':'csv','path':['p-1','p-1'],'rows':3}", CADRE_EDATA,
                        "@/p-1 and 1 more files: 2 rows, too few for 3 from row 0 on");
}

/* Writes an IDX file of `rows` rows of `features` bytes, all of them `value`; 0: of labels. */
static void
write_idx(const char *name, uint8_t rows, uint8_t features, uint8_t value)
{
    uint8_t bytes[64] = {0, 0, 8, features ? 2 : 1, 0, 0, 0, rows, 0, 0, 0, features};
    size_t size = features ? 12 : 8;
    memset(bytes + size, value, (size_t)rows * (features ? features : 1));
    files_write(name, bytes, size + (size_t)rows * (features ? features : 1));
}

Test(reader, reads_arrays_of_several_files_with_their_labels)
{
    write_idx("x-1", 2, 1, 5);
    write_idx("x-2", 3, 1, 6);
    write_idx("y-1", 2, 0, 0);
    write_idx("y-2", 3, 0, 1);
    check_rows("{'format':'idx','path':'x-*','labels_path':'y-*'}", 5,
               (const float[]){5, 5, 6, 6, 6});
    files_check_refused("{'format':'idx','path':'x-*','labels_path':'y-1'}", CADRE_EDATA,
                        "1 files of labels for 2 files of rows, the first @/x-1");
    files_check_refused("{'format':'idx','path':'x-*','labels_path':['y-2','y-1']}", CADRE_EDATA,
                        "@/y-2:4: 3 labels for 2 rows of @/x-1");
    write_idx("x-2", 3, 2, 6);
    files_check_refused("{'format':'idx','path':'x-*','labels_path':'y-*'}", CADRE_EDATA,
                        "@/x-2:3: rows of another type or shape than @/x-1");
}

Test(reader, refuses_a_pattern_that_lists_another_folder)
{
    cadre_data_spec_t spec = {.format = CADRE_DATA_CSV, .delimiter = ',', .scale = 1};
    cadre_source_options_t options = {.base = files_folder, .confined = true};
    const char *const refused[] = {"x/../../*", "/tmp/*"};
    cadre_source_t *dataset = NULL;
    for (size_t i = 0; i < CADRE_COUNT_OF(refused); i++) {
        cadre_auto(cadre_free) char *path = cadre_strdup(refused[i]);
        spec.paths = (cadre_data_paths_t){.items = &path, .count = 1};
        cr_expect_eq(cadre_source_open(&spec, &options, &dataset), CADRE_EREFUSED);
        cadre_auto(cadre_free) char *text =
            cadre_asprintf("%s: a pattern may not lead out of %s", path, files_folder);
        cr_expect_str_eq(cadre_error_text(), text);
    }

    files_write_text("p-1", "1,0\n");
    cadre_auto(cadre_free) char *whole = cadre_asprintf("%s/p-*", files_folder);
    spec.paths = (cadre_data_paths_t){.items = &whole, .count = 1};
    cr_expect_eq(cadre_source_open(&spec, &options, &dataset), 0, "%s", cadre_error_text());
    cadre_source_close(&dataset);
}
