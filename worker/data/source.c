#include "worker/data/source.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/data_ranges.h"
#include "common/system/beneath.h"
#include "common/system/memory_limit.h"
#include "worker/data/reader.h"
#include "worker/data/row_split.h"
#include "worker/data/stream.h"
#include "worker/data/window_order.h"

/* How many bytes of text a file may have for each byte that its parsed rows may take. Text is
 * larger than its numbers, but needs a bound: a file of blank lines compresses a thousandfold. */
enum { CONTENT_PER_PARSED_BYTE = 32 };

/* Most content of a file that is streamed: 64 TiB. */
#define STREAM_CONTENT_MAX ((uint64_t)1 << 46)

struct cadre_source {
    cadre_row_store_t *store;    /* NULL: the rows are streamed */
    cadre_stream_t *stream;      /* NULL: they are in memory */
    cadre_window_order_t *order; /* of a shuffled epoch of the stream */
    int64_t batches;             /* that were read of it since it was chosen */
    cadre_bad_lines_t bad;
    cadre_source_info_t info;
    cadre_row_split_t split; /* which of those rows belong to this source */
};

/* Fills in what is known of the dataset after reading. */
static void
describe(cadre_source_t *self, const cadre_reader_t *reader)
{
    cadre_source_info_t *info = &self->info;
    info->features = reader->features;
    info->classes = cadre_label_rule_classes(&reader->label, reader->spec);
    info->skipped = self->bad.count;
    info->y_dtype = reader->spec->label_kind == CADRE_LABEL_CLASS ? CADRE_I32 : CADRE_F32;
    memcpy(info->doubtful_header, reader->doubtful_header, sizeof(info->doubtful_header));
    info->row_rank = 1;
    info->row_shape[0] = reader->features;
    /* The shape that the file itself gives a row, as IDX does. */
    if (reader->row_rank > 0) {
        info->row_rank = reader->row_rank;
        memcpy(info->row_shape, reader->row_shape, sizeof(info->row_shape));
    }
}

/* Decides which rows belong to this source when the description holds out a fraction of them for
 * evaluation. */
static int
split(cadre_source_t *self, const cadre_reader_t *reader)
{
    const cadre_data_spec_t *spec = reader->spec;
    const int64_t rows = self->info.rows;
    cadre_row_split_init(&self->split, spec, rows);
    self->info.rows = cadre_row_split_before(&self->split, cadre_row_split_blocks(&self->split));
    if (spec->held_out > 0 && (self->info.rows == 0 || self->info.rows == rows)) {
        return cadre_fail(CADRE_EDATA, "%s: %.3g of %" PRId64 " rows leaves one part empty",
                          cadre_reader_path(reader), spec->held_out, rows);
    }
    return 0;
}

/* Reads the files into the store, and decides which of its rows belong to this source. */
static int
fill(cadre_source_t *self, cadre_reader_t *reader)
{
    cadre_label_rule_init(&reader->label, reader->spec);
    cadre_bad_lines_init(&self->bad, reader->spec->skip_bad);
    reader->bad = &self->bad;
    int status = cadre_reader_read_all(reader);
    self->store = reader->store;
    if (status < 0) {
        return status;
    }

    status = cadre_row_store_finish(self->store, reader->features);
    if (status < 0) {
        return cadre_reader_fail_whole(reader, status);
    }

    self->info.rows = cadre_row_store_rows(self->store);
    self->info.file_rows = cadre_row_store_file_rows(self->store);
    self->info.size_bytes = cadre_row_store_size_bytes(self->store);
    self->info.hash = cadre_row_store_hash(self->store);
    describe(self, reader);
    return split(self, reader);
}

/* Reads the files into an index, from which their rows are read later by the reader, which is
 * taken. */
static int
open_stream(cadre_source_t *self, cadre_reader_t **reader_p)
{
    cadre_reader_t *reader = *reader_p;
    const cadre_data_spec_t *spec = reader->spec;
    const uint64_t memory = cadre_min_u64((uint64_t)spec->memory_mib << 20, reader->size_bytes_max);
    reader->content_bytes_max = STREAM_CONTENT_MAX;
    cadre_label_rule_init(&reader->label, spec);
    cadre_bad_lines_init(&self->bad, spec->skip_bad);
    reader->bad = &self->bad;
    int status = cadre_stream_open(reader_p, memory, &self->stream);
    if (status < 0) {
        return status;
    }

    self->info.is_streamed = true;
    self->info.large_frame_path =
        cadre_stream_large_frame(self->stream, &self->info.large_frame_bytes);
    self->info.rows = cadre_stream_rows(self->stream);
    self->info.file_rows = cadre_stream_file_rows(self->stream);
    self->info.size_bytes = cadre_stream_size_bytes(self->stream) + memory;
    self->info.hash = cadre_stream_hash(self->stream);
    describe(self, cadre_stream_reader(self->stream));
    status = split(self, cadre_stream_reader(self->stream));
    if (status == 0) {
        self->order = cadre_window_order_new(&self->split, spec->shuffle_blocks / spec->ranges);
    }
    return status;
}

/* Fails for a pattern that would list the names of a folder which is not below `root`. */
static int
check_pattern(const char *path, const char *root)
{
    const char *inside = cadre_data_file_below(root, path);
    return *inside != '/' && !cadre_beneath_goes_up(inside)
               ? 0
               : cadre_fail(CADRE_EREFUSED, "%s: a pattern may not lead out of %s", path, root);
}

/* Appends the files that the paths of a description stand for. */
static int
find_files(const cadre_data_paths_t *paths, const char *base, const char *root,
           cadre_file_names_t *files)
{
    for (size_t i = 0; i < paths->count; i++) {
        const char *path = paths->items[i];
        int status = root && cadre_file_pattern_is(path) ? check_pattern(path, root) : 0;
        if (status < 0) {
            return status;
        }
        status = cadre_file_pattern_expand(base, path, CADRE_SOURCE_FILES_MAX, files);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Finds the files of rows, and those of labels, of which there must be as many. */
static int
find_all_files(cadre_reader_t *reader, const char *base)
{
    const cadre_data_spec_t *spec = reader->spec;
    int status = find_files(&spec->paths, base, reader->root, &reader->files);
    if (status == 0) {
        status = find_files(&spec->labels_paths, base, reader->root, &reader->labels_files);
    }
    if (status < 0) {
        return status;
    }
    if (cadre_data_format_has(spec->format, CADRE_DATA_LABELS_FILE) &&
        reader->labels_files.count != reader->files.count) {
        return cadre_fail(CADRE_EDATA, "%zu files of labels for %zu files of rows, the first %s",
                          reader->labels_files.count, reader->files.count, reader->files.items[0]);
    }
    return 0;
}

/* Frees a reader that nobody has taken. */
static void
free_reader(cadre_reader_t **reader_p)
{
    if (*reader_p) {
        cadre_reader_fini(*reader_p);
        cadre_free(reader_p);
    }
}

/* Reads the files that `spec` describes into memory, or into an index; `options` may be NULL. */
int
cadre_source_open(const cadre_data_spec_t *spec, const cadre_source_options_t *options,
                  cadre_source_t **out)
{
    cadre_source_options_t chosen = options ? *options : (cadre_source_options_t){0};
    if (chosen.size_bytes_max == 0) {
        chosen.size_bytes_max = cadre_memory_size() / CADRE_SOURCE_MEMORY_SHARE;
    }

    const char *root = chosen.base && *chosen.base ? chosen.base : ".";
    cadre_auto(free_reader) cadre_reader_t *reader = cadre_calloc(1, sizeof(*reader));
    *reader = (cadre_reader_t){
        .spec = spec,
        .root = chosen.confined ? root : NULL,
        .size_bytes_max = chosen.size_bytes_max,
        .content_bytes_max = chosen.size_bytes_max * CONTENT_PER_PARSED_BYTE,
    };
    int status = find_all_files(reader, chosen.base);
    if (status < 0) {
        return status;
    }

    cadre_source_t *self = cadre_calloc(1, sizeof(*self));
    status = spec->is_streamed ? open_stream(self, &reader) : fill(self, reader);
    if (status < 0) {
        if (chosen.is_bad_line) {
            *chosen.is_bad_line = self->bad.is_exceeded;
        }
        cadre_source_close(&self);
        return status;
    }

    *out = self;
    return 0;
}

/* Copies rows of the program's memory: labels that are i32 are numbers of classes, f32 any
 * value. */
int
cadre_source_open_rows(const cadre_row_chunks_t *rows, uint64_t size_bytes_max,
                       cadre_source_t **out)
{
    const bool has_classes = rows->label == CADRE_I32;
    cadre_data_spec_t spec = {.label_kind = has_classes ? CADRE_LABEL_CLASS : CADRE_LABEL_VALUE,
                              .scale = 1,
                              .split_seed = CADRE_SPLIT_SEED};
    cadre_reader_t reader = {
        .spec = &spec,
        .rows = rows,
        .size_bytes_max =
            size_bytes_max > 0 ? size_bytes_max : cadre_memory_size() / CADRE_SOURCE_MEMORY_SHARE,
    };
    cadre_source_t *self = cadre_calloc(1, sizeof(*self));
    int status = fill(self, &reader);
    if (status < 0) {
        cadre_source_close(&self);
        return status;
    }

    *out = self;
    return 0;
}

/* Frees the rows of the dataset; *self_p may be NULL. */
void
cadre_source_close(cadre_source_t **self_p)
{
    cadre_source_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_row_store_destroy(&self->store);
    cadre_stream_close(&self->stream);
    cadre_window_order_destroy(&self->order);
    cadre_bad_lines_fini(&self->bad);
    free(self);
}

const cadre_source_info_t *
cadre_source_info(const cadre_source_t *self)
{
    return &self->info;
}

const char *
cadre_source_skipped(const cadre_source_t *self, int index)
{
    return index >= 0 && index < CADRE_BAD_LINES_REPORTS_MAX ? self->bad.reports[index] : NULL;
}

/* Copies row `row` of this source and its label to place `place` of x and y. */
static int
read_row(cadre_source_t *self, int64_t row, int64_t place, float *x, void *y)
{
    cadre_label_t label;
    float *numbers = x + place * self->info.features;
    row = cadre_row_split_at(&self->split, row);
    if (self->stream) {
        int status = cadre_stream_read(self->stream, row, numbers, &label);
        if (status < 0) {
            return status;
        }
    } else {
        cadre_row_store_read(self->store, row, numbers, &label);
    }
    /* A label has 4 bytes, be it an i32 or an f32. */
    memcpy((char *)y + (size_t)place * sizeof(label), &label, sizeof(label));
    return 0;
}

/* Copies `count` rows, numbered from 0 within this source, in the order given, and their labels.
 * Writes nothing when a number is out of range. */
int
cadre_source_read(cadre_source_t *self, const int64_t *rows, int64_t count, float *x, void *y)
{
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= self->info.rows) {
            return cadre_fail(CADRE_EINVALID, "no row %" PRId64 ", the dataset has %" PRId64,
                              rows[i], self->info.rows);
        }
    }

    if (self->stream) {
        cadre_stream_begin_batch(self->stream);
    }
    int status = 0;
    for (int64_t i = 0; i < count && status == 0; i++) {
        status = read_row(self, rows[i], i, x, y);
    }
    return status;
}

/* --- shuffled epochs of a stream --- */

void
cadre_source_choose(cadre_source_t *self, uint64_t seed, uint64_t epoch)
{
    cadre_assert(self->order);
    if (cadre_window_order_choose(self->order, seed, epoch)) {
        self->batches = 0;
    }
}

static int
compare_blocks(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Returns the blocks of a window, which the caller frees, in the order of the files: where a
 * decoder can only go on, all of them are one pass. */
static int64_t *
window_blocks(const cadre_source_t *self, int64_t window, int64_t *count)
{
    int64_t *blocks = NULL;
    size_t capacity = 0;
    size_t number = 0;
    int64_t block = 0;
    while (cadre_window_order_block(self->order, window, (int64_t)number, &block)) {
        blocks = cadre_grow(blocks, number, &capacity, sizeof(*blocks));
        blocks[number++] = block;
    }
    if (number > 0) {
        qsort(blocks, number, sizeof(*blocks), compare_blocks);
    }
    *count = (int64_t)number;
    return blocks;
}

/* Reads the blocks of a window that are not held, if the one of row `row` is none that is. */
static int
read_window(cadre_source_t *self, int64_t window, int64_t row)
{
    if (cadre_stream_holds(self->stream,
                           cadre_row_split_at(&self->split, row) / CADRE_BLOCK_ROWS)) {
        return 0;
    }
    int64_t count = 0;
    cadre_auto(cadre_free) int64_t *blocks = window_blocks(self, window, &count);
    int status = 0;
    for (int64_t i = 0; status >= 0 && i < count; i++) {
        status = cadre_stream_load(self->stream, blocks[i]);
    }
    return status < 0 ? status : 0;
}

/* Releases the blocks of a window whose rows the range has had. */
static void
leave_window(cadre_source_t *self, int64_t window)
{
    int64_t block = 0;
    for (int64_t i = 0; cadre_window_order_block(self->order, window, i, &block); i++) {
        cadre_stream_release(self->stream, block);
    }
}

int
cadre_source_read_shuffled(cadre_source_t *self, int64_t first, int64_t count, float *x, void *y)
{
    int64_t window = cadre_window_order_window(self->order, first);
    int status = 0;
    self->batches++;
    cadre_stream_begin_batch(self->stream);
    for (int64_t i = 0; i < count && status == 0; i++) {
        while (first + i >= cadre_window_order_begin(self->order, window + 1)) {
            window++;
        }
        /* Before the first row of the next window is read, so that its blocks take the place of
         * these and not of another range's. */
        if (window > 0 && first + i == cadre_window_order_begin(self->order, window)) {
            leave_window(self, window - 1);
        }
        const int64_t row = cadre_window_order_at(self->order, first + i);
        status = read_window(self, window, row);
        status = status < 0 ? status : read_row(self, row, i, x, y);
    }
    return status;
}

/* --- reading ahead --- */

/* Reads a block ahead if it is not held and there is room. */
static int
read_block_ahead(cadre_source_t *self, int64_t block)
{
    const bool is_held = cadre_stream_holds(self->stream, block);
    return is_held || cadre_stream_has_room(self->stream) ? cadre_stream_load(self->stream, block)
                                                          : 0;
}

/* Reads a block of a window, of which one is missing. */
static int
read_window_ahead(cadre_source_t *self, int64_t window)
{
    int64_t count = 0;
    cadre_auto(cadre_free) int64_t *blocks = window_blocks(self, window, &count);
    int status = 0;
    for (int64_t i = 0; status == 0 && i < count; i++) {
        status = read_block_ahead(self, blocks[i]);
    }
    return status;
}

/* Returns whether all blocks of a window are held. */
static bool
holds_window(const cadre_source_t *self, int64_t window)
{
    int64_t block = 0;
    bool holds = true;
    for (int64_t i = 0; holds && cadre_window_order_block(self->order, window, i, &block); i++) {
        holds = cadre_stream_holds(self->stream, block);
    }
    return holds;
}

int
cadre_source_read_ahead(cadre_source_t *self, bool is_shuffled, int64_t first, int64_t count)
{
    const int64_t position = first + count - 1;
    if (!self->stream || first < 0 || count < 1 || position >= self->info.rows) {
        return 0;
    }

    const int64_t ranges = cadre_stream_reader(self->stream)->spec->ranges;
    const int64_t range = cadre_data_range_of(self->info.rows, ranges, is_shuffled, first, count);
    const int64_t block = cadre_row_split_at(&self->split, position) / CADRE_BLOCK_ROWS + 1;
    const int64_t window = is_shuffled ? cadre_window_order_window(self->order, position) + 1 : 0;
    const int64_t next = is_shuffled ? cadre_window_order_begin(self->order, window)
                                     : cadre_row_split_before(&self->split, block);
    /* Other ranges of the epoch may not have begun yet: their windows come first. */
    if (is_shuffled && self->batches < ranges) {
        return 0;
    }
    /* So does what is missing of the window that was entered. */
    if (is_shuffled && !holds_window(self, window - 1)) {
        return read_window_ahead(self, window - 1);
    }
    /* What comes next in the order may be the beginning of a range that another worker has. */
    if (next >= self->info.rows ||
        cadre_data_range_of(self->info.rows, ranges, is_shuffled, next, count) != range) {
        return 0;
    }
    return is_shuffled ? read_window_ahead(self, window) : read_block_ahead(self, block);
}

uint64_t
cadre_source_blocks_read(const cadre_source_t *self)
{
    return self->stream ? cadre_stream_blocks_read(self->stream) : 0;
}
