#include "worker/data/source.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/permutation.h"
#include "common/base/status.h"
#include "common/system/beneath.h"
#include "common/system/memory_limit.h"
#include "worker/data/reader.h"

/* How many bytes of text a file may have for each byte that its parsed rows may take. Text is
 * larger than its numbers, but needs a bound: a file of blank lines compresses a thousandfold. */
enum { CONTENT_PER_PARSED_BYTE = 32 };

struct cadre_source {
    cadre_row_store_t *store;
    cadre_bad_lines_t bad;
    cadre_source_info_t info;
    bool split;                /* only some rows of the store belong to this source */
    cadre_permutation_t order; /* random order of the store's rows: held-out rows first */
    int64_t first;             /* position in `order` at which this source's rows begin */
};

/* Fills in what is known of the dataset after reading. */
static void
describe(cadre_source_t *self, const cadre_reader_t *reader)
{
    cadre_source_info_t *info = &self->info;
    info->rows = cadre_row_store_rows(self->store);
    info->file_rows = cadre_row_store_file_rows(self->store);
    info->features = reader->features;
    info->classes = cadre_label_rule_classes(&reader->label, reader->spec);
    info->skipped = self->bad.count;
    info->size_bytes = cadre_row_store_size_bytes(self->store);
    info->hash = cadre_row_store_hash(self->store);
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
 * evaluation. The sources of both parts use the same random order of all rows, so each row is in
 * exactly one of them. */
static int
split(cadre_source_t *self, const cadre_reader_t *reader)
{
    const cadre_data_spec_t *spec = reader->spec;
    int64_t rows = self->info.rows;
    int64_t held = (int64_t)((double)rows * spec->held_out);

    if (spec->held_out == 0) {
        return 0;
    }

    if (held < 1 || held >= rows) {
        return cadre_fail(CADRE_EDATA, "%s: %.3g of %" PRId64 " rows leaves one part empty",
                          cadre_reader_path(reader), spec->held_out, rows);
    }

    cadre_permutation_init(&self->order, (uint64_t)rows, (uint64_t)spec->split_seed, 0);
    self->split = true;
    self->first = spec->use_held_out ? 0 : held;
    self->info.rows = spec->use_held_out ? held : rows - held;
    return 0;
}

/* Reads the file into the store, and decides which of its rows belong to this source. */
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

    describe(self, reader);
    return split(self, reader);
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

/* Reads the files that `spec` describes into memory; `options` may be NULL. */
int
cadre_source_open(const cadre_data_spec_t *spec, const cadre_source_options_t *options,
                  cadre_source_t **out)
{
    cadre_source_options_t chosen = options ? *options : (cadre_source_options_t){0};
    if (chosen.size_bytes_max == 0) {
        chosen.size_bytes_max = cadre_memory_size() / CADRE_SOURCE_MEMORY_SHARE;
    }

    const char *root = chosen.base && *chosen.base ? chosen.base : ".";
    cadre_auto(cadre_reader_fini) cadre_reader_t reader = {
        .spec = spec,
        .root = chosen.confined ? root : NULL,
        .size_bytes_max = chosen.size_bytes_max,
        .content_bytes_max = chosen.size_bytes_max * CONTENT_PER_PARSED_BYTE,
    };
    int status = find_all_files(&reader, chosen.base);
    if (status < 0) {
        return status;
    }

    cadre_source_t *self = cadre_calloc(1, sizeof(*self));
    status = fill(self, &reader);
    if (status < 0) {
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

/* Copies `count` rows, numbered from 0 within this source, in the order given, and their labels.
 * Writes nothing when a number is out of range. */
int
cadre_source_read(const cadre_source_t *self, const int64_t *rows, int64_t count, float *x, void *y)
{
    for (int64_t i = 0; i < count; i++) {
        if (rows[i] < 0 || rows[i] >= self->info.rows) {
            return cadre_fail(CADRE_EINVALID, "no row %" PRId64 ", the dataset has %" PRId64,
                              rows[i], self->info.rows);
        }
    }

    for (int64_t i = 0; i < count; i++) {
        cadre_label_t label;
        int64_t row = rows[i];
        if (self->split) {
            row = (int64_t)cadre_permutation_at(&self->order, (uint64_t)(self->first + row));
        }
        cadre_row_store_read(self->store, row, x + i * self->info.features, &label);
        /* A label has 4 bytes, be it an i32 or an f32. */
        memcpy((char *)y + (size_t)i * sizeof(label), &label, sizeof(label));
    }

    return 0;
}
