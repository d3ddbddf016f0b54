#include "worker/data/content.h"

#include <sys/stat.h>

#include "tests/worker/data/files.h"

#define ZSTD "{'format':'csv','path':'a.zst'}"

TestSuite(content, .timeout = 240, .init = files_setup, .fini = files_teardown);

static const char rows[] = "1,2.5,7\n-3,4e2,0\n";

static const char *
path_of(const char *name)
{
    static char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", files_folder, name);
    return path;
}

static void
append(const char *name, const void *bytes, size_t size_bytes)
{
    FILE *file = fopen(path_of(name), "ab");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size_bytes, file), size_bytes);
    cr_assert_eq(fclose(file), 0);
}

static void
check_rows(const char *json, int64_t count)
{
    cadre_source_t *dataset = files_open_well(json, count, 2);
    for (int64_t row = 0; row < count; row += 2) {
        cr_expect_eq(files_check_row(dataset, row, (float[]){1, 2.5f}), 7);
        cr_expect_eq(files_check_row(dataset, row + 1, (float[]){-3, 400}), 0);
    }
    cadre_source_close(&dataset);
}

Test(content, of_zstd_is_read_whatever_the_name)
{
    files_write_text("a.zst", rows);
    check_rows(ZSTD, 2);
    cadre_auto(cadre_free) char *from = cadre_strdup(path_of("a.zst"));
    cr_assert_eq(rename(from, path_of("a")), 0);
    check_rows("{'format':'csv','path':'a'}", 2);
}

Test(content, goes_on_in_the_next_frame_and_skips_those_to_be_skipped)
{
    static const uint8_t skipped[] = {0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'x', 'y', 'z'};
    append("a.zst", skipped, sizeof(skipped)); /* as pzstd begins a file */
    for (int i = 0; i < 3; i++) {
        files_append_zstd(path_of("a.zst"), rows, strlen(rows));
        append("a.zst", skipped, sizeof(skipped));
    }
    check_rows(ZSTD, 6);
}

Test(content, goes_on_in_the_next_member)
{
    for (int i = 0; i < 3; i++) {
        files_write_text("b.gz", rows);
        uint8_t bytes[128];
        FILE *file = fopen(path_of("b.gz"), "rb");
        cr_assert_not_null(file);
        append("a.gz", bytes, fread(bytes, 1, sizeof(bytes), file));
        fclose(file);
    }
    check_rows("{'format':'csv','path':'a.gz'}", 6);
    append("a.gz", "\0\0\0", 3);
    check_rows("{'format':'csv','path':'a.gz'}", 6);
}

/* Rows of a member whose first bytes are damaged are not left out in silence. */
Test(content, that_has_something_else_behind_a_member_is_refused)
{
    files_write_text("a.gz", rows);
    append("a.gz", "\0\0", 2);
    append("a.gz", "no member", 9);
    char text[128];
    FILE *file = fopen(path_of("a.gz"), "rb");
    cr_assert(file && fseek(file, 0, SEEK_END) == 0);
    snprintf(text, sizeof(text),
             "@/a.gz: behind the compressed data, at byte %d of the file, there is something else",
             (int)ftell(file) - 9);
    fclose(file);
    files_check_refused("{'format':'csv','path':'a.gz'}", CADRE_EDATA, text);
}

Test(content, larger_than_all_buffers_is_the_same_of_each_kind)
{
    enum { ROWS = 400000 };
    static const char row[] = "123.5,-17,1\n";
    const size_t size = strlen(row);
    cadre_auto(cadre_free) char *text = cadre_calloc(ROWS, size);
    for (size_t i = 0; i < ROWS; i++) {
        memcpy(text + i * size, row, size);
        text[i * size] = (char)('1' + i * i % 9); /* so that it compresses less */
    }
    static const char *const names[] = {"a", "a.gz", "a.zst"};
    uint64_t hashes[CADRE_COUNT_OF(names)] = {0};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        files_write(names[i], text, ROWS * size);
        cadre_auto(cadre_free) char *json =
            cadre_asprintf("{'format':'csv','path':'%s'}", names[i]);
        cadre_source_t *dataset = files_open_well(json, ROWS, 2);
        hashes[i] = cadre_source_info(dataset)->hash;
        cadre_source_close(&dataset);
    }
    cr_expect(hashes[0] == hashes[1] && hashes[0] == hashes[2]);
}

Test(content, that_is_cut_or_damaged_or_no_frame_is_found)
{
    files_write_text("a.zst", rows);
    cr_assert_eq(truncate(path_of("a.zst"), 20), 0);
    files_check_refused(ZSTD, CADRE_EDATA,
                        "@/a.zst: the compressed data ends too early, at byte 20 of the file");
    files_write_text("a.zst", rows);
    append("a.zst", "no frame", 8);
    files_check_refused(ZSTD, CADRE_EDATA,
                        "@/a.zst: behind the compressed data, at byte 26 of the file, there is "
                        "something else");
}

/* A frame that says that it needs 256 MiB of memory: window descriptor 18 << 3, 2^(10 + 18). */
Test(content, that_needs_much_memory_is_refused)
{
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 18 << 3, 1, 0, 0};
    append("a.zst", frame, sizeof(frame));
    files_check_refused(ZSTD, CADRE_EDATA,
                        "@/a.zst: in the compressed data, found out behind byte 0 of the file: "
                        "Frame requires too much memory for decoding");
}

Test(content, survives_random_changes_of_compressed_bytes)
{
    files_write_text("a.zst", rows);
    uint8_t bytes[256];
    FILE *file = fopen(path_of("a.zst"), "rb");
    cr_assert_not_null(file);
    const size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    files_mutate("{'format':'csv','path':'a'}", "a", bytes, size, 1500);
}

/* Changes the check of a gzip file: its last 8 bytes are the check and the size. */
static void
damage_check(const char *name)
{
    FILE *file = fopen(path_of(name), "r+b");
    cr_assert(file && fseek(file, -5, SEEK_END) == 0);
    const int byte = fgetc(file);
    cr_assert(fseek(file, -5, SEEK_END) == 0 && fputc(byte ^ 1, file) != EOF);
    cr_assert_eq(fclose(file), 0);
}

/* The dataset must be refused for the check of a.gz, with a byte that is in the last 256 KiB. */
static void
check_damaged(const char *json, const char *behind)
{
    cadre_source_t *dataset = NULL;
    cr_assert_eq(files_open(json, &dataset), CADRE_EDATA);
    const char *at = strstr(cadre_error_text(), "in the compressed data, found out behind byte ");
    uint64_t byte = 0;
    cr_assert(at &&
                  sscanf(at, "in the compressed data, found out behind byte %" SCNu64, &byte) == 1,
              "%s", cadre_error_text());
    struct stat file;
    cr_assert_eq(stat(path_of("a.gz"), &file), 0);
    cr_expect(byte < (uint64_t)file.st_size && byte + (256 << 10) >= (uint64_t)file.st_size, "%s",
              cadre_error_text());
    cadre_auto(cadre_free) char *end =
        cadre_asprintf(" of the file: incorrect data check%s", behind);
    cr_expect(strstr(at, end), "%s", cadre_error_text());
}

/* A gzip file that is larger than all buffers, with a bad line at its begin, whose check fails at
 * its end. */
Test(content, that_is_damaged_behind_a_bad_line_is_said_to_be_damaged)
{
    enum { LINES = 200000 };
    static const char json[] = "{'format':'csv','path':'a.gz'}";
    static const char bad[] = "@/a.gz:3: column 1: 'x' is no finite number";
    cadre_auto(cadre_free) char *text = cadre_calloc(LINES, 16);
    int size = snprintf(text, 32, "%s1,x,7\n", rows);
    for (int i = 0; i < LINES; i++) {
        size += snprintf(text + size, 16, "%d,2,1\n", i);
    }
    files_write("a.gz", text, (size_t)size);
    files_check_refused(json, CADRE_EDATA, bad);

    damage_check("a.gz");
    check_damaged(json, "; so are lines before that: ");
}

Test(content, that_is_damaged_behind_what_is_no_text_is_said_to_be_damaged)
{
    enum { SIZE = 1 << 20 };
    static const char json[] = "{'format':'text','path':'a.gz','label_kind':'binary',"
                               "'vocabulary':100}";
    cadre_auto(cadre_free) char *text = cadre_calloc(SIZE, 1);
    memset(text, 'a', SIZE);
    text[0] = '\x01';
    files_write("a.gz", text, SIZE);
    files_check_refused(json, CADRE_EDATA,
                        "@/a.gz:1: not text: byte 0x01 is a control character other than tabs and "
                        "ends of lines and pages; name text files in UTF-8");
    damage_check("a.gz");
    check_damaged(json, "");
}
