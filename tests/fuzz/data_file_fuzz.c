/*
 * Files of rows as untrusted bytes: CSV, LIBSVM, IDX, .npy, click logs and texts, plain, gzip and
 * zstd. Three bytes choose the description, two say where a second file (the labels of IDX and
 * .npy) begins. Of what opens, every row that is there can be read and none beyond.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "worker/data/source.h"

enum {
    HEAD_SIZE = 5,
    PATH_SIZE = 64,
    SIZE_BYTES_MAX = 1 << 20,
    FEATURES_MAX = 100000,
    ROWS_MAX = 50
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static int
put(const uint8_t *bytes, size_t size_bytes, char *path)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    cadre_assert(fd >= 0 && write(fd, bytes, size_bytes) == (ssize_t)size_bytes);
    snprintf(path, PATH_SIZE, "/proc/self/fd/%d", fd);
    return fd;
}

static cadre_data_spec_t
describe(const uint8_t *head)
{
    cadre_data_spec_t spec = {
        .format = (cadre_data_format_t)(head[0] % 4),
        .label_kind = (cadre_label_kind_t)((head[0] >> 2) % CADRE_LABEL_KIND_COUNT),
        .label_at = (cadre_label_at_t)((head[0] >> 4) % 4),
        .header = (cadre_csv_header_t)((head[0] >> 6) % 3),
        .delimiter = ",;|:\t "[head[1] % 6],
        .scale = head[1] & 64 ? 0.0625 : 1,
        .split_seed = CADRE_SPLIT_SEED,
        .label_index = head[2] % 8,
        .label_name = (char *)"y",
        .skip_bad = head[2] & 8 ? 3 : 0,
        .first_row = head[2] & 16 ? 1 : 0,
        .rows = head[2] & 32 ? 2 : 0,
        .held_out = head[2] & 64 ? 0.4 : 0,
        .use_held_out = head[2] & 128,
    };
    spec.has_part = spec.held_out > 0;
    spec.features = spec.format == CADRE_DATA_LIBSVM && head[1] & 128 ? 5 : 0;
    /* The formats that came later stand for others with a bit set. */
    if (spec.format == CADRE_DATA_CSV && head[2] & 4) {
        spec.format = CADRE_DATA_CRITEO;
        spec.buckets = 2 + head[1];
    }
    if (spec.format == CADRE_DATA_LIBSVM && head[2] & 4) {
        spec.format = CADRE_DATA_TEXT;
        spec.label_kind = CADRE_LABEL_BINARY;
        spec.features = 0;
        spec.vocabulary = 2 + head[1];
        spec.min_count = 1 + head[0] % 3;
        spec.subsample = head[2] & 1 ? 0.01 : 0;
        spec.window = 1 + head[2] % 4;
        spec.negatives = head[1] % 3;
        spec.sample_seed = CADRE_SAMPLE_SEED;
        spec.scale = 1;
    }
    if (head[1] & 32 && head[2] & 1) {
        spec.is_streamed = true;
        spec.shuffle_blocks = 1;
        spec.ranges = 1;
        spec.memory_mib = 1;
    }
    spec.items = spec.features > 0 && head[1] & 16 ? 3 : 0;
    spec.classes = spec.label_kind == CADRE_LABEL_CLASS && head[1] & 32 ? 3 : 0;
    return spec;
}

/* Bags and words in the first three columns, which a bit of the third byte asks for. */
static void
describe_columns(const uint8_t *head, cadre_data_spec_t *spec, cadre_data_column_t columns[3])
{
    if (spec->format != CADRE_DATA_CSV || !(head[2] & 2) || !(head[1] & 128)) {
        return;
    }
    columns[0] = (cadre_data_column_t){.buckets = 2 + head[0], .hash_seed = head[1] & 1};
    columns[1] = (cadre_data_column_t){.index = 1, .items = 1 + head[0] % 4, .separator = '|'};
    columns[1].is_weighted = head[1] & 16;
    columns[2] = columns[1];
    columns[2].index = 2;
    columns[2].buckets = 1000;
    spec->columns = columns;
    spec->column_count = 2 + (head[0] >> 7);
}

static void
read_rows(cadre_source_t *source)
{
    const cadre_source_info_t *info = cadre_source_info(source);
    if (info->features <= 0 || info->features >= FEATURES_MAX) {
        return;
    }
    cadre_auto(cadre_free) float *x = cadre_calloc((size_t)info->features, sizeof(*x));
    int32_t y = 0;
    for (int64_t row = -1; row <= info->rows && row < ROWS_MAX; row++) {
        int status = cadre_source_read(source, &row, 1, x, &y);
        cadre_assert((status == 0) == (row >= 0 && row < info->rows));
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes < HEAD_SIZE) {
        return 0;
    }
    char path[PATH_SIZE];
    char labels_path[PATH_SIZE];
    cadre_data_spec_t spec = describe(bytes);
    cadre_data_column_t columns[3];
    describe_columns(bytes, &spec, columns);
    const uint8_t *content = bytes + HEAD_SIZE;
    size_t size = size_bytes - HEAD_SIZE;
    size_t cut = bytes[3] | (size_t)bytes[4] << 8;
    const bool has_labels_file = cadre_data_format_has(spec.format, CADRE_DATA_LABELS_FILE);
    cut = !has_labels_file || cut > size ? size : cut;
    int fd = put(content, cut, path);
    int labels_fd = put(content + cut, size - cut, labels_path);
    spec.paths = (cadre_data_paths_t){.items = (char *[]){path}, .count = 1};
    spec.labels_paths =
        (cadre_data_paths_t){.items = (char *[]){labels_path}, .count = has_labels_file ? 1 : 0};
    cadre_source_options_t options = {.size_bytes_max = SIZE_BYTES_MAX};
    cadre_source_t *source = NULL;
    if (cadre_source_open(&spec, &options, &source) == 0) {
        read_rows(source);
        cadre_source_close(&source);
    }
    close(fd);
    close(labels_fd);
    return 0;
}
