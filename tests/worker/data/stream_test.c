#include "worker/data/stream.h"

#include <sys/resource.h>

#include "common/spec/data_ranges.h"
#include "tests/sanitizer.h"
#include "tests/worker/data/files.h"
#include "worker/data/batch.h"

TestSuite(stream, .timeout = 240, .init = files_setup, .fini = files_teardown);

enum { ROWS = 3 * CADRE_BLOCK_ROWS + 1000, LINE_SIZE = 64 };

static const char *
path_in_folder(const char *name)
{
    static char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", files_folder, name);
    return path;
}

/* Writes `rows` lines by `line`, which gets the number of the row. Returns the text. */
static char *
write_lines(const char *name, int64_t rows, int (*line)(char *text, int64_t row))
{
    char *text = cadre_calloc((size_t)rows, LINE_SIZE);
    size_t size = 0;
    for (int64_t i = 0; i < rows; i++) {
        size += (size_t)line(text + size, i);
    }
    files_write(name, text, size);
    return text;
}

static int
csv_line(char *text, int64_t row)
{
    return snprintf(text, LINE_SIZE, "%" PRId64 ",%" PRId64 ",%d\n", row, -row, (int)(row % 10));
}

static int
libsvm_line(char *text, int64_t row)
{
    return row % 7 == 0 ? snprintf(text, LINE_SIZE, "0\n")
                        : snprintf(text, LINE_SIZE, "%d %d:%" PRId64 " 50:0.5\n", (int)(row % 3),
                                   (int)(1 + row % 40), row);
}

/* Both must have the same rows. Reads those of `streamed` in an order that goes back and forth. */
static void
check_equal(cadre_source_t *memory, cadre_source_t *streamed)
{
    const cadre_source_info_t *info = cadre_source_info(memory);
    const cadre_source_info_t *other = cadre_source_info(streamed);
    cr_assert(other->is_streamed && !info->is_streamed);
    cr_assert_eq(other->rows, info->rows);
    cr_assert_eq(other->file_rows, info->file_rows);
    cr_assert_eq(other->features, info->features);
    cr_assert_eq(other->classes, info->classes);
    cr_assert_eq(other->skipped, info->skipped);
    cr_assert_eq(other->hash, info->hash);
    cr_assert_eq(other->row_rank, info->row_rank);
    const size_t size = (size_t)info->features * sizeof(float);
    cadre_auto(cadre_free) float *x = cadre_calloc(2, size);
    float *other_x = x + info->features;
    for (int64_t i = 0; i < info->rows; i++) {
        const int64_t row = i % 5 == 0 ? (i * 7919) % info->rows : i;
        int32_t y[2] = {0};
        cr_assert_eq(cadre_source_read(memory, &row, 1, x, &y[0]), 0);
        cr_assert_eq(cadre_source_read(streamed, &row, 1, other_x, &y[1]), 0, "%s",
                     cadre_error_text());
        cr_assert(memcmp(x, other_x, size) == 0 && y[0] == y[1], "row %" PRId64, row);
    }
}

static void
check_streams(const char *keys)
{
    cadre_source_t *memory = files_open_as(keys, "");
    cadre_source_t *streamed = files_open_as(keys, ",'streaming':true");
    check_equal(memory, streamed);
    cadre_source_close(&memory);
    cadre_source_close(&streamed);
}

Test(stream, has_the_rows_and_the_hash_of_memory)
{
    free(write_lines("a", ROWS, csv_line));
    check_streams("'format':'csv','path':'a'");
    check_streams("'format':'csv','path':'a','first_row':100,'rows':9000");
    check_streams("'format':'csv','path':'a','first_row':5000");
    check_streams("'format':'csv','path':'a','held_out':0.1,'part':'rest'");
    check_streams("'format':'csv','path':'a','held_out':0.1,'part':'held_out'");
}

Test(stream, goes_through_many_files_with_headers)
{
    files_write_text("p-0", "x,y,class\n");
    files_write_text("p-2", "x,y,class\n\n1,2,3\n");
    cadre_auto(cadre_free) char *text = write_lines("p-1", ROWS, csv_line);
    files_write("p-3", text, strlen(text));
    check_streams("'format':'csv','path':'p-*'");
    check_streams("'format':'csv','path':['p-2','p-3','p-1'],'label':2");
}

static int
bag_line(char *text, int64_t row)
{
    static const char *const bags[] = {"a|b:2", "", "c", "\"d\"\"e|f\"", "g|h|i:-1"};
    return snprintf(text, LINE_SIZE, "w%" PRId64 ",%s,%d\n", row, bags[row % 5], (int)(row % 10));
}

/* The blocks are read when the description is gone. */
Test(stream, has_words_and_bags)
{
    free(write_lines("a", ROWS, bag_line));
    check_streams("'format':'csv','path':'a','header':false,'columns':[{'column':0,'hash':1000},"
                  "{'column':1,'items':3,'hash':99,'weights':true}]");
}

Test(stream, has_sparse_rows_and_items)
{
    free(write_lines("a", ROWS, libsvm_line));
    check_streams("'format':'libsvm','path':'a'");
    check_streams("'format':'libsvm','path':'a','features':64,'items':3");
    check_streams("'format':'libsvm','path':'a','keys':true,'items':3");
}

Test(stream, skips_the_lines_that_were_skipped)
{
    cadre_auto(cadre_free) char *text = write_lines("a", ROWS, csv_line);
    char *at = text;
    for (int i = 0; i < 5; i++) {
        at = strchr(at + strlen(text) / 7, '\n');
        at[1] = '?';
    }
    files_write("a", text, strlen(text));
    check_streams("'format':'csv','path':'a','skip_bad':5");
    files_check_refused("{'format':'csv','path':'a','skip_bad':4,'streaming':true}", CADRE_EDATA,
                        "more than 4 bad lines: @/a:9906: column 0: '?905' is no finite number");
}

/* Images and labels, in two files of each. */
Test(stream, has_rows_of_arrays_with_their_labels)
{
    enum { EACH = 6000 };
    static uint8_t images[16 + 4 * EACH] = {0, 0, 8, 3, 0, 0, EACH >> 8, EACH & 255,
                                            0, 0, 0, 2, 0, 0, 0,         2};
    static uint8_t labels[8 + EACH] = {0, 0, 8, 1, 0, 0, EACH >> 8, EACH & 255};
    for (int file = 0; file < 2; file++) {
        for (int i = 0; i < 4 * EACH; i++) {
            images[16 + i] = (uint8_t)(i * 31 + file);
            labels[8 + i / 4] = (uint8_t)(i / 4 % (10 + file));
        }
        files_write(file ? "x-1.gz" : "x-0", images, sizeof(images));
        files_write(file ? "y-1" : "y-0.gz", labels, sizeof(labels));
    }
    check_streams("'format':'idx','path':'x-*','labels_path':'y-*','scale':0.5");
}

/* Content that does not compress much, so that there are places to restart from. */
static int
noisy_line(char *text, int64_t row)
{
    uint64_t state = (uint64_t)(row + 1) * UINT64_C(0x9e3779b97f4a7c15);
    state ^= state >> 29;
    return snprintf(text, LINE_SIZE, "%" PRIu64 ",%u,%d\n", state * state >> 13,
                    (unsigned)(state >> 40), (int)(row % 2));
}

static cadre_source_t *
open_compressed(const char *name)
{
    cadre_auto(cadre_free) char *keys =
        cadre_asprintf("'format':'csv','path':'%s','streaming':true", name);
    return files_open_as(keys, "");
}

Test(stream, reads_on_in_the_middle_of_compressed_files)
{
    enum { MANY = 900000, PIECE = 1 << 20 };
    cadre_auto(cadre_free) char *text = write_lines("plain", MANY, noisy_line);
    const size_t size = strlen(text);
    cr_assert_gt(size, 2 * CADRE_RESTART_DISTANCE);
    files_write("whole.gz", text, size);
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/frames.zst", files_folder);
    for (size_t at = 0; at < size; at += PIECE) {
        files_append_zstd(path, text + at, size - at < PIECE ? size - at : PIECE);
    }
    cadre_source_t *plain = open_compressed("plain");
    files_write("whole.zst", text, size);
    static const char *const names[] = {"whole.gz", "frames.zst", "whole.zst"};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        cadre_source_t *source = open_compressed(names[i]);
        cr_expect_eq(cadre_source_info(source)->hash, cadre_source_info(plain)->hash);
        const char *large = cadre_source_info(source)->large_frame_path;
        if (strcmp(names[i], "whole.zst") == 0) {
            cr_expect_str_eq(large, path_in_folder("whole.zst"));
            cr_expect_eq(cadre_source_info(source)->large_frame_bytes, size);
        } else {
            cr_expect_null(large);
        }
        for (int64_t row = MANY - 1; row > 0; row -= 40001) {
            float x[4];
            int32_t y[2];
            cr_assert_eq(cadre_source_read(source, &row, 1, x, y), 0, "%s", cadre_error_text());
            cr_assert_eq(cadre_source_read(plain, &row, 1, x + 2, y + 1), 0);
            cr_expect(x[0] == x[2] && x[1] == x[3] && y[0] == y[1], "row %" PRId64, row);
        }
        cadre_source_close(&source);
    }
    cadre_source_close(&plain);
}

/* Reads the first row of a block, which must be that of the number. */
static void
read_block(cadre_source_t *source, int64_t block)
{
    const int64_t row = block * CADRE_BLOCK_ROWS;
    float x[2];
    int32_t y = 0;
    cr_assert_eq(cadre_source_read(source, &row, 1, x, &y), 0, "%s", cadre_error_text());
    cr_expect_eq(x[0], (float)row);
}

/* A file that is not there any more cannot be opened again. */
Test(stream, goes_on_within_a_frame_to_a_later_block)
{
    free(write_lines("a.zst", 6 * CADRE_BLOCK_ROWS, csv_line));
    cadre_source_t *source = files_open_as("'format':'csv','path':'a.zst','streaming':true", "");
    read_block(source, 1);
    cr_assert_eq(unlink(path_in_folder("a.zst")), 0);
    read_block(source, 3);
    read_block(source, 5);
    const int64_t row = 4 * CADRE_BLOCK_ROWS;
    float x[2];
    int32_t y = 0;
    cr_expect_eq(cadre_source_read(source, &row, 1, x, &y), CADRE_ENOTFOUND);
    cadre_source_close(&source);
}

Test(stream, goes_on_within_a_frame_to_later_rows_and_their_labels)
{
    enum { MANY = 6 * CADRE_BLOCK_ROWS };
    uint8_t images[12 + MANY] = {0, 0, 8, 2, 0, 0, MANY >> 8, 0, 0, 0, 0, 1};
    uint8_t labels[8 + MANY] = {0, 0, 8, 1, 0, 0, MANY >> 8, 0};
    for (int64_t i = 0; i < MANY; i++) {
        images[12 + i] = (uint8_t)(i * 31 >> 4);
        labels[8 + i] = (uint8_t)(i * 17 % 251);
    }
    files_write("x.zst", images, sizeof(images));
    files_write("y.zst", labels, sizeof(labels));
    cadre_source_t *source =
        files_open_as("'format':'idx','path':'x.zst','labels_path':'y.zst','streaming':true", "");
    for (int64_t block = 1; block < 6; block += 2) {
        const int64_t row = block * CADRE_BLOCK_ROWS + 3;
        float x = 0;
        int32_t y = 0;
        cr_assert_eq(cadre_source_read(source, &row, 1, &x, &y), 0, "%s", cadre_error_text());
        cr_expect(x == images[12 + row] && y == labels[8 + row], "%" PRId64, row);
        unlink(path_in_folder("x.zst"));
        unlink(path_in_folder("y.zst"));
    }
    cadre_source_close(&source);
}

/* All blocks of a window are one pass over the file. */
Test(stream, reads_the_blocks_of_a_window_in_the_order_of_the_file)
{
    enum { BLOCKS = 16, COUNT = 64 };
    free(write_lines("a.zst", BLOCKS * CADRE_BLOCK_ROWS, csv_line));
    cadre_source_t *source =
        files_open_as("'format':'csv','path':'a.zst','streaming':true,'ranges':1", "");
    read_block(source, 0);
    cr_assert_eq(unlink(path_in_folder("a.zst")), 0);
    cadre_source_choose(source, 1, 1);
    cadre_auto(cadre_free) float *x = cadre_calloc(COUNT, 2 * sizeof(*x));
    int32_t y[COUNT];
    cr_expect_eq(cadre_source_read_shuffled(source, 0, COUNT, x, y), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_source_blocks_read(source), BLOCKS);
    cadre_source_close(&source);
}

/* The place to restart from is behind the end that the file has now. */
Test(stream, names_the_byte_at_which_a_compressed_file_ends)
{
    enum { MANY = 900000, END = 1 << 20 };
    free(write_lines("a.gz", MANY, noisy_line));
    cadre_source_t *source = open_compressed("a.gz");
    cr_assert_eq(truncate(path_in_folder("a.gz"), END), 0);
    const int64_t row = MANY - 1;
    float x[2];
    int32_t y = 0;
    cr_expect_eq(cadre_source_read(source, &row, 1, x, &y), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "ends too early, at byte 1048576 of the file"), "%s",
              cadre_error_text());
    cadre_source_close(&source);
}

/* Changes a byte of the file, and gives what it was. */
static uint8_t
change_byte(FILE *file, long at, uint8_t byte)
{
    cr_assert_eq(fseek(file, at, SEEK_SET), 0);
    const int before = fgetc(file);
    cr_assert_eq(fseek(file, at, SEEK_SET), 0);
    cr_assert_eq(fputc(byte, file), byte);
    cr_assert_eq(fflush(file), 0);
    return (uint8_t)before;
}

/* Rows that are read while a byte is another one are right, or refused. */
Test(stream, finds_that_a_compressed_file_has_changed)
{
    enum { MANY = 700000, CHANGES = 40, APART = 3 * CADRE_BLOCK_ROWS };
    cadre_auto(cadre_free) char *text = write_lines("plain", MANY, noisy_line);
    files_write("a.gz", text, strlen(text));
    cadre_source_t *plain = open_compressed("plain");
    cadre_source_t *source = files_open_as(
        "'format':'csv','path':'a.gz','streaming':true,'shuffle_blocks':1,'memory_mib':1", "");
    FILE *file = fopen(path_in_folder("a.gz"), "r+b");
    cr_assert_not_null(file);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    int refused = 0;
    for (int i = 0; i < CHANGES; i++) {
        const long at = 1 + (size - 2) / CHANGES * i;
        const uint8_t before = change_byte(file, at, (uint8_t)(i * 37));
        const int64_t row = (int64_t)i * MANY / CHANGES / APART * APART;
        float x[4];
        int32_t y[2];
        int status = cadre_source_read(source, &row, 1, x, y);
        cr_assert(status == 0 || status == CADRE_EDATA, "%s", cadre_error_text());
        refused += status < 0;
        cr_assert_eq(cadre_source_read(plain, &row, 1, x + 2, y + 1), 0);
        cr_expect(status < 0 || (x[0] == x[2] && x[1] == x[3] && y[0] == y[1]), "byte %ld", at);
        (void)change_byte(file, at, before);
    }
    fclose(file);
    cr_expect_gt(refused, 0);
    cadre_source_close(&source);
    cadre_source_close(&plain);
}

/* Reads an epoch by batches of `count` rows; gives the rows in their order. */
static void
read_epoch(cadre_source_t *source, uint64_t seed, int64_t count, int *order)
{
    const cadre_batch_order_t epoch = {.shuffle = true, .seed = seed};
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    for (int64_t at = 0; at < ROWS; at += count) {
        const int64_t part = ROWS - at < count ? ROWS - at : count;
        cr_assert_eq(cadre_batch_read(source, &epoch, at, part, &x, &y), 0);
        for (int64_t i = 0; i < part; i++) {
            order[at + i] = (int)((float *)x.data)[2 * i];
        }
        while (cadre_batch_read_ahead(source, &epoch, at, part) > 0) {
        }
    }
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
}

Test(stream, visits_each_row_of_an_epoch_once_whatever_the_cut)
{
    static int orders[3][ROWS];
    static int seen[ROWS];
    free(write_lines("a", ROWS, csv_line));
    cadre_source_t *source =
        files_open_as("'format':'csv','path':'a','streaming':true,'shuffle_blocks':2", "");
    read_epoch(source, 7, 512, orders[0]);
    read_epoch(source, 8, 512, orders[1]);
    read_epoch(source, 7, 3000, orders[2]);
    cr_expect_arr_eq(orders[0], orders[2], sizeof(orders[0]));
    cr_expect_arr_neq(orders[0], orders[1], sizeof(orders[0]));
    int moved = 0;
    for (int i = 0; i < ROWS; i++) {
        seen[orders[0][i]]++;
        moved += i > 0 && orders[0][i] != orders[0][i - 1] + 1;
    }
    for (int i = 0; i < ROWS; i++) {
        cr_assert_eq(seen[i], 1, "row %d was read %d times", i, seen[i]);
    }
    cr_expect_gt(moved, ROWS * 9 / 10);
    cadre_source_close(&source);
}

/* Of four blocks, of which one at a time is a window, with memory for two, and for a byte less. In
 * the shuffled epoch no block follows the one before it in the file, so that the file is opened
 * again: what was read ahead is there without it, what was not is not. */
Test(stream, reads_the_next_window_ahead_if_there_is_room)
{
    static const char json[] = "{'format':'csv','path':'a','streaming':true,'shuffle_blocks':1}";
    const uint64_t two_blocks = 2 * CADRE_BLOCK_ROWS * 12;
    const cadre_batch_order_t orders[] = {{.shuffle = true, .seed = 9}, {.shuffle = false}};
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(orders); i++) {
        const bool has_room = i % 2 == 0;
        const cadre_batch_order_t *order = &orders[i / 2];
        free(write_lines("a", 4 * CADRE_BLOCK_ROWS, csv_line));
        cadre_source_t *source = NULL;
        cr_assert_eq(files_open_within(json, two_blocks - !has_room, &source), 0);
        cadre_tensor_t x = {0};
        cadre_tensor_t y = {0};
        cr_assert_eq(cadre_batch_read(source, order, 0, 10, &x, &y), 0);
        cr_expect_eq(cadre_batch_read_ahead(source, order, 0, 10), has_room);
        cr_expect_eq(cadre_batch_read_ahead(source, order, 0, 10), 0);
        cr_assert_eq(unlink(path_in_folder("a")), 0);
        int status = cadre_batch_read(source, order, CADRE_BLOCK_ROWS, 10, &x, &y);
        cr_expect(!order->shuffle || status == (has_room ? 0 : CADRE_ENOTFOUND), "%d", status);
        status = cadre_batch_read(source, order, 2 * CADRE_BLOCK_ROWS, 10, &x, &y);
        cr_expect(!order->shuffle || status == CADRE_ENOTFOUND, "%d", status);
        cadre_tensor_fini(&x);
        cadre_tensor_fini(&y);
        cadre_source_close(&source);
    }
}

/* Reads the batches of an epoch in their turn, by one worker or several, each of which has every
 * `workers`-th range. Returns how many blocks this worker (number `self`) has read. */
static uint64_t
read_ranges(cadre_source_t *source, int64_t ranges, int64_t workers, int64_t self)
{
    enum { BATCH = 100 };
    const cadre_batch_order_t epoch = {.shuffle = true, .seed = 7};
    const int64_t rows = cadre_source_info(source)->rows;
    const uint64_t before = cadre_source_blocks_read(source);
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    for (int64_t batch = 0; batch * BATCH < rows; batch++) {
        const int64_t first = cadre_data_range_position(rows, BATCH, ranges, batch);
        const int64_t count = rows - first < BATCH ? rows - first : BATCH;
        if (cadre_data_range_of(rows, ranges, true, first, count) % workers == self) {
            cr_assert_eq(cadre_batch_read(source, &epoch, first, count, &x, &y), 0);
            while (cadre_batch_read_ahead(source, &epoch, first, count) > 0) {
            }
        }
    }
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
    return cadre_source_blocks_read(source) - before;
}

/* 60 blocks of 12 bytes a row. A window has two of them, so each of the four ranges reads its own
 * 15, and at most three more where its ends lie within a window. One worker has all ranges, and
 * just the memory for a window of each; two have two ranges each, and room to read ahead. */
Test(stream, reads_the_blocks_of_its_ranges_once_in_no_more_memory_than_windows)
{
    enum { BLOCKS = 60, RANGES = 4, MORE = 3 };
    static const char json[] = "{'format':'csv','path':'a','streaming':true,'shuffle_blocks':8,"
                               "'ranges':4}";
    free(write_lines("a", BLOCKS * CADRE_BLOCK_ROWS, csv_line));
    for (int64_t workers = 1; workers <= RANGES; workers *= 2) {
        const uint64_t limit = (uint64_t)(BLOCKS + RANGES * MORE) / (uint64_t)workers;
        for (int64_t self = 0; self < workers; self++) {
            cadre_source_t *source = NULL;
            cr_assert_eq(files_open_within(json, 8 * CADRE_BLOCK_ROWS * 12, &source), 0, "%s",
                         cadre_error_text());
            const uint64_t blocks = read_ranges(source, RANGES, workers, self);
            cr_expect_leq(blocks, limit, "%" PRIu64 " blocks by worker %d of %d", blocks, (int)self,
                          (int)workers);
            cadre_source_close(&source);
        }
    }
}

Test(stream, finds_that_a_file_has_changed)
{
    cadre_auto(cadre_free) char *text = write_lines("a", ROWS, csv_line);
    const size_t size = strlen(text);
    const int64_t row = 2 * CADRE_BLOCK_ROWS;
    float x[2];
    int32_t y = 0;
    uint64_t state = 88172645463325252u; /* xorshift64 */
    for (int i = 0; i < 60; i++) {
        files_write("a", text, size);
        cadre_source_t *source = files_open_as("'format':'csv','path':'a','streaming':true", "");
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const char *begin = strstr(text, "\n8192,");
        const char *end = strstr(text, "\n12288,");
        const size_t at =
            (size_t)(begin + 1 - text) + (size_t)(state >> 20) % (size_t)(end - begin);
        const char before = text[at];
        text[at] = before == '3' ? '4' : '3';
        files_write("a", text, size);
        text[at] = before;
        int status = cadre_source_read(source, &row, 1, x, &y);
        cr_expect_eq(status, CADRE_EDATA, "byte %zu", at);
        files_write("a", text, size);
        status = cadre_source_read(source, &row, 1, x, &y);
        cr_expect(status == 0 && x[0] == (float)row, "%s", cadre_error_text());
        cadre_source_close(&source);
    }
}

Test(stream, says_that_a_file_is_shorter_or_gone)
{
    cadre_auto(cadre_free) char *text = write_lines("a", ROWS, csv_line);
    cadre_source_t *source = files_open_as("'format':'csv','path':'a','streaming':true", "");
    const int64_t row = CADRE_BLOCK_ROWS;
    float x[2];
    int32_t y = 0;
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/a", files_folder);
    cr_assert_eq(truncate(path, (off_t)strlen(text) / 3), 0);
    cr_expect_eq(cadre_source_read(source, &row, 1, x, &y), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "/a: rows 4096 and on are not those that it had"), "%s",
              cadre_error_text());
    cr_assert_eq(unlink(path), 0);
    cr_expect_eq(cadre_source_read(source, &row, 1, x, &y), CADRE_ENOTFOUND);
    cadre_source_close(&source);
}

/* The rows that a file has lost are not looked for in the next one, which is sound. */
Test(stream, names_the_file_that_is_shorter_and_not_the_next)
{
    cadre_auto(cadre_free) char *text = write_lines("p-1", ROWS, csv_line);
    free(write_lines("p-2", ROWS, csv_line));
    cadre_source_t *source = files_open_as("'format':'csv','path':'p-*','streaming':true", "");
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/p-1", files_folder);
    cr_assert_eq(truncate(path, (off_t)strlen(text) / 3), 0);
    int64_t row = CADRE_BLOCK_ROWS;
    float x[2];
    int32_t y = 0;
    cr_expect_eq(cadre_source_read(source, &row, 1, x, &y), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "/p-1: rows 4096 and on (over all files) are not those"),
              "%s", cadre_error_text());
    row = ROWS; /* its block has the last rows of the one and the first of the other */
    cr_expect_eq(cadre_source_read(source, &row, 1, x, &y), CADRE_EDATA);
    cr_expect(strstr(cadre_error_text(), "/p-1 to ") && strstr(cadre_error_text(), "/p-2: rows"),
              "%s", cadre_error_text());
    cadre_source_close(&source);
}

/* A window of four blocks of 12 bytes a row, at its limit and one byte below. */
Test(stream, refuses_a_window_that_does_not_fit)
{
    static const char json[] =
        "{'format':'csv','path':'a','streaming':true,'shuffle_blocks':4,'memory_mib':1}";
    free(write_lines("a", 4 * CADRE_BLOCK_ROWS, csv_line));
    const uint64_t size_bytes = 4 * CADRE_BLOCK_ROWS * 12;
    cadre_source_t *source = NULL;
    cr_expect_eq(files_open_within(json, size_bytes, &source), 0, "%s", cadre_error_text());
    cadre_source_close(&source);
    cr_expect_eq(files_open_within(json, size_bytes - 1, &source), CADRE_ETOOLARGE);
    cr_expect(strstr(cadre_error_text(), "4 blocks of up to 49152 bytes do not fit in 196607: "
                                         "fewer shuffle_blocks, or more memory_mib"),
              "%s", cadre_error_text());
}

/* Writes a file row by row, so that its text is never in memory. */
static void
write_large(const char *name, int64_t rows)
{
    char path[2 * FILES_PATH_SIZE];
    char line[LINE_SIZE];
    snprintf(path, sizeof(path), "%s/%s", files_folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (int64_t i = 0; i < rows; i++) {
        const size_t size = (size_t)csv_line(line, i);
        if (fwrite(line, 1, size, file) != size) {
            cr_assert_fail("%s", path);
        }
    }
    cr_assert_eq(fclose(file), 0);
}

static int64_t
peak_kib(void)
{
    struct rusage usage;
    cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* 24 MiB of rows, of which 1 MiB may be held. In memory they would take all of it. */
Test(stream, takes_no_more_memory_for_a_larger_file)
{
    enum { MANY = 2 << 20, AT_ONCE = 1024, MORE_KIB = 8 << 10 };
    write_large("a", MANY);
    const int64_t before = peak_kib();
    cadre_source_t *source = files_open_as(
        "'format':'csv','path':'a','streaming':true,'shuffle_blocks':8,'memory_mib':1", "");
    const cadre_batch_order_t order = {.shuffle = true, .seed = 1};
    cadre_tensor_t x = {0};
    cadre_tensor_t y = {0};
    double sum = 0;
    for (int64_t at = 0; at < MANY; at += AT_ONCE) {
        cr_assert_eq(cadre_batch_read(source, &order, at, AT_ONCE, &x, &y), 0);
        for (int i = 0; i < AT_ONCE; i++) {
            sum += (double)((float *)x.data)[2 * i];
        }
        (void)cadre_batch_read_ahead(source, &order, at, AT_ONCE);
    }
    cr_expect_eq(sum, (double)MANY * (MANY - 1) / 2);
    cr_expect_lt(cadre_source_info(source)->size_bytes, 2 << 20);
    cadre_source_close(&source);
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&y);
    if (!SANITIZER) { /* which keeps what was freed for a while */
        cr_expect_lt(peak_kib() - before, MORE_KIB, "%" PRId64 " KiB more", peak_kib() - before);
    }
}
