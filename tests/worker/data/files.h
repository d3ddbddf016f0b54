/*
 * files - small data files for the dataset tests, in a folder of their own.
 */
#ifndef CADRE_TESTS_WORKER_DATA_FILES_H
#define CADRE_TESTS_WORKER_DATA_FILES_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/sanitizer.h"
#include "worker/data/source.h"

enum { FILES_PATH_SIZE = 256 };

static char files_folder[FILES_PATH_SIZE];

static inline void
files_setup(void)
{
    snprintf(files_folder, sizeof(files_folder), "/tmp/cadre-data-XXXXXX");
    cr_assert_not_null(mkdtemp(files_folder));
}

static inline void
files_teardown(void)
{
    DIR *folder = opendir(files_folder);
    for (struct dirent *entry = NULL; folder && (entry = readdir(folder));) {
        unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
    rmdir(files_folder);
}

/* Writes a file of one frame, appended to what is there. */
static inline void
files_append_zstd(const char *path, const void *bytes, size_t size_bytes)
{
    const size_t bound = ZSTD_compressBound(size_bytes);
    cadre_auto(cadre_free) void *frame = cadre_calloc(bound, 1);
    const size_t size = ZSTD_compress(frame, bound, bytes, size_bytes, 1);
    cr_assert(!ZSTD_isError(size));
    FILE *file = fopen(path, "ab");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(frame, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
}

/* Writes a file; one whose name has ".gz" or ".zst" is compressed. */
static inline void
files_write(const char *name, const void *bytes, size_t size_bytes)
{
    char path[2 * FILES_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", files_folder, name);
    if (strstr(name, ".zst")) {
        unlink(path);
        files_append_zstd(path, bytes, size_bytes);
        return;
    }
    gzFile file = gzopen(path, strstr(name, ".gz") ? "wb" : "wbT");
    cr_assert_not_null(file);
    cr_assert_eq(gzwrite(file, bytes, (unsigned)size_bytes), (int)size_bytes);
    cr_assert_eq(gzclose(file), Z_OK);
}

static inline void
files_write_text(const char *name, const char *text)
{
    files_write(name, text, strlen(text));
}

/* Opens the dataset that `json` describes (with ' for "), paths within the folder. */
static inline int
files_open_within(const char *json, uint64_t size_bytes_max, cadre_source_t **out)
{
    cadre_auto(cadre_free) char *text = cadre_strdup(json);
    for (char *at = text; *at; at++) {
        *at = *at == '\'' ? '"' : *at;
    }
    cadre_data_spec_t spec = {0};
    int status = cadre_data_spec_decode(text, strlen(text), &spec);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cadre_source_options_t options = {.base = files_folder, .size_bytes_max = size_bytes_max};
    status = cadre_source_open(&spec, &options, out);
    cadre_data_spec_fini(&spec);
    return status;
}

static inline int
files_open(const char *json, cadre_source_t **out)
{
    return files_open_within(json, 0, out);
}

/* The file must be refused with `status` and this text, in which @ stands for the folder. */
static inline void
files_check_refused(const char *json, int wanted, const char *text)
{
    cadre_source_t *dataset = NULL;
    int status = files_open(json, &dataset);
    cadre_source_close(&dataset);
    char expected[CADRE_ERROR_TEXT_SIZE] = "";
    size_t at = 0;
    for (const char *c = text; *c; c++) {
        char one[2] = {*c, '\0'};
        at += (size_t)snprintf(expected + at, sizeof(expected) - at, "%s",
                               *c == '@' ? files_folder : one);
    }
    cr_expect_eq(status, wanted, "%s", cadre_status_name(status));
    cr_expect_str_eq(cadre_error_text(), expected);
}

/* Opens, and checks the number of rows and features. */
static inline cadre_source_t *
files_open_well(const char *json, int64_t rows, int64_t features)
{
    cadre_source_t *dataset = NULL;
    int status = files_open(json, &dataset);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    const cadre_source_info_t *info = cadre_source_info(dataset);
    cr_assert_eq(info->rows, rows, "%" PRId64 " rows", info->rows);
    cr_assert_eq(info->features, features, "%" PRId64 " features", info->features);
    return dataset;
}

/* Row `row` must have these features; returns its label as a number. */
static inline double
files_check_row(cadre_source_t *dataset, int64_t row, const float *expected)
{
    float x[64];
    for (size_t i = 0; i < CADRE_COUNT_OF(x); i++) {
        x[i] = -99; /* what is not written must not look right */
    }
    union {
        int32_t number;
        float value;
    } y = {0};
    const cadre_source_info_t *info = cadre_source_info(dataset);
    cr_assert_leq(info->features, 64);
    cr_assert_eq(cadre_source_read(dataset, &row, 1, x, &y), 0);
    for (int64_t i = 0; i < info->features; i++) {
        cr_expect_eq(x[i], expected[i], "row %" PRId64 ", x[%" PRId64 "] is %g, not %g", row, i,
                     (double)x[i], (double)expected[i]);
    }
    return info->y_dtype == CADRE_I32 ? (double)y.number : (double)y.value;
}

/* One change in so many is tried: half of them where a sanitizer looks, a quarter elsewhere. The
 * fuzz target data_file looks for more (`make fuzz`). */
enum { FILES_CHANGES_OF = SANITIZER ? 2 : 4 };

/* Opens the file, each time with a few bytes of it changed, moved or cut, and reads what opens:
 * nothing may crash (the asan preset makes that strict). `bytes` is the content of file `name`.
 * Returns how many would open of `count` changes. */
static inline int
files_mutate(const char *json, const char *name, const void *bytes, size_t size_bytes, int count)
{
    uint64_t state = 88172645463325252u; /* xorshift64 */
    int opened = 0;
    cadre_auto(cadre_free) uint8_t *copy = cadre_calloc(size_bytes + 64, 1);
    for (int i = 0; i < count / FILES_CHANGES_OF; i++) {
        size_t size = size_bytes;
        memcpy(copy, bytes, size_bytes);
        for (int changes = 0; changes < 1 + i % 3; changes++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            size_t at = (size_t)(state >> 40) % (size + 1);
            uint8_t byte = (uint8_t)(state >> 8);
            if (state % 4 == 0) {
                byte = (uint8_t) "0123456789.,:-+eE\"\r\n #\t"[byte % 23];
            }
            switch (state >> 16 & 3) {
            case 0:
                size = at;
                break;
            case 1:
                memmove(copy + at + 1, copy + at, size - at);
                size++;
                copy[at] = byte;
                break;
            default:
                copy[at < size ? at : 0] = byte;
                break;
            }
        }
        files_write(name, copy, size);
        cadre_source_t *dataset = NULL;
        int status = files_open_within(json, 1 << 20, &dataset);
        cr_assert(status == 0 || status == CADRE_EDATA || status == CADRE_ETOOLARGE, "%s: %s",
                  cadre_status_name(status), cadre_error_text());
        if (status < 0) {
            cr_assert_neq(*cadre_error_text(), '\0');
            continue;
        }
        opened++;
        const cadre_source_info_t *info = cadre_source_info(dataset);
        float *x = cadre_calloc((size_t)info->features, sizeof(*x));
        int32_t y = 0;
        for (int64_t row = 0; row < info->rows; row++) {
            cr_assert_eq(cadre_source_read(dataset, &row, 1, x, &y), 0);
        }
        free(x);
        cadre_source_close(&dataset);
    }
    return opened * FILES_CHANGES_OF;
}

/* Opens the data that `keys` and `more` describe, which must be sound. */
static inline cadre_source_t *
files_open_as(const char *keys, const char *more)
{
    cadre_auto(cadre_free) char *json = cadre_asprintf("{%s%s}", keys, more);
    cadre_source_t *source = NULL;
    int status = files_open(json, &source);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    return source;
}

#endif
