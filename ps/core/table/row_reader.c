#include "ps/core/table/row_reader.h"

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"
#include "ps/core/table/table_update.h"

void
cadre_row_reader_first(const cadre_row_reader_t *self, uint64_t key, float *values)
{
    const cadre_table_spec_t *spec = self->spec;
    const uint64_t seed = cadre_table_mix(spec->initializer.seed);
    /* No other key of the table has this one. */
    const cadre_ps_initializer_t initializer =
        cadre_initializer_reseed(self->initializer, cadre_table_mix(key ^ seed));
    cadre_initializer_fill(&initializer, 0, spec->dim, values);
    if (spec->storage == CADRE_BF16) {
        for (uint32_t i = 0; i < spec->dim; i++) {
            uint16_t word = 0;
            cadre_bf16_from_f32(values + i, &word, 1);
            cadre_bf16_to_f32(&word, values + i, 1);
        }
    }
}

/* One thread's part of a pull. */
typedef struct {
    const cadre_row_reader_t *reader;
    const cadre_row_pull_t *pull;
    cadre_row_workspace_t *workspace;
} part_t;

/* Returns where the rows from number `first` on go, and how many stand there in one piece. */
static unsigned char *
place_of(const part_t *self, size_t first, size_t *count)
{
    const cadre_row_pull_t *pull = self->pull;
    const size_t row_size = self->reader->spec->dim * cadre_dtype_size(pull->dtype);
    if (pull->values) {
        *count = pull->count - first;
        return (unsigned char *)pull->values + first * row_size;
    }
    const size_t before = first % pull->chunk_rows;
    *count = cadre_min_u64(pull->count - first, pull->chunk_rows - before);
    unsigned char *chunk = cadre_chunk_data(pull->chunks[first / pull->chunk_rows]);
    return chunk + before * row_size;
}

/* Writes the block's values of `count` keys as bf16. Fails with CADRE_ENOTFINITE when a finite
 * value is infinite then. */
static int
write_bf16(const part_t *self, const uint64_t *keys, size_t count, void *to)
{
    const size_t dim = self->reader->spec->dim;
    const float *values = self->workspace->block.values;
    if (cadre_dtype_traits(CADRE_BF16)->from_f32(values, to, count * dim)) {
        return 0;
    }
    const size_t beyond = cadre_dtype_find_beyond(CADRE_BF16, values, count * dim);
    if (beyond == count * dim) {
        return 0;
    }
    return cadre_fail(CADRE_ENOTFINITE, "a value of key %llu is too large for bf16",
                      (unsigned long long)keys[beyond / dim]);
}

/* Copies the values of rows that were found, and of their keys, at most a block. */
static int
write_rows(const part_t *self, const cadre_row_numbers_t *rows, const uint64_t *keys, void *to)
{
    const cadre_dtype_t dtype = self->pull->dtype;
    if (dtype == self->reader->spec->storage) {
        cadre_row_pages_gather(self->reader->pages, -1, rows, to);
        return 0;
    }
    cadre_row_workspace_gather(self->workspace, self->reader->pages, rows,
                               dtype == CADRE_F32 ? to : self->workspace->block.values);
    return dtype == CADRE_F32 ? 0 : write_bf16(self, keys, rows->count, to);
}

/* Copies the first values of a key that has no row. */
static int
write_first(const part_t *self, const uint64_t *key, void *to)
{
    const cadre_dtype_t dtype = self->pull->dtype;
    cadre_row_reader_first(self->reader, *key,
                           dtype == CADRE_F32 ? to : self->workspace->block.values);
    return dtype == CADRE_F32 ? 0 : write_bf16(self, key, 1, to);
}

/* Returns the rows of the first keys of `found`, as many as have one, at most a block. */
static cadre_row_numbers_t
rows_from(const part_t *self, const uint32_t *found, size_t count)
{
    const size_t rows_max = self->workspace->rows_max;
    cadre_row_numbers_t rows = {.items = found};
    while (rows.count < count && rows.count < rows_max && found[rows.count] != CADRE_ROW_NONE) {
        rows.count++;
    }
    rows.next = cadre_min_u64(count - rows.count, rows_max);
    return rows;
}

/* Writes the rows of `count` keys, found or CADRE_ROW_NONE, to a piece of memory. */
static int
write_piece(const part_t *self, const uint64_t *keys, const uint32_t *found, size_t count,
            unsigned char *to)
{
    const size_t row_size = self->reader->spec->dim * cadre_dtype_size(self->pull->dtype);
    for (size_t i = 0, here = 0; i < count; i += here) {
        const cadre_row_numbers_t rows = rows_from(self, found + i, count - i);
        int status = rows.count > 0 ? write_rows(self, &rows, keys + i, to + i * row_size)
                                    : write_first(self, keys + i, to + i * row_size);
        if (status < 0) {
            return status;
        }
        here = cadre_max_u64(rows.count, 1);
    }
    return 0;
}

/* Finds and writes the rows of `count` keys from number `first` on, at most
 * CADRE_TABLE_PIECE_KEYS. */
static int
write_run(const part_t *self, size_t first, size_t count)
{
    const uint64_t *keys = self->pull->keys + first;
    uint32_t found[CADRE_TABLE_PIECE_KEYS];
    cadre_row_index_find_all(self->reader->index, count, keys, found);
    for (size_t done = 0, here = 0; done < count; done += here) {
        unsigned char *to = place_of(self, first + done, &here);
        here = cadre_min_u64(here, count - done);
        int status = write_piece(self, keys + done, found + done, here, to);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

static int
pull_alone(const part_t *self)
{
    const size_t count = self->pull->count;
    for (size_t first = 0, here = 0; first < count; first += here) {
        here = cadre_min_u64(count - first, CADRE_TABLE_PIECE_KEYS);
        int status = write_run(self, first, here);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* --- on several lanes --- */

typedef struct {
    const part_t *whole;
    size_t keys; /* of a piece */
    int *status; /* [pieces] */
} lane_pull_t;

static void
pull_piece(void *argument, size_t index)
{
    const lane_pull_t *lanes = argument;
    part_t part = *lanes->whole;
    const size_t first = index * lanes->keys;
    const size_t count = cadre_min_u64(part.pull->count - first, lanes->keys);
    cadre_auto(cadre_row_workspace_fini) cadre_row_workspace_t workspace;
    cadre_row_workspace_init(&workspace, part.reader->spec, part.workspace->optimizer);
    part.workspace = &workspace;
    lanes->status[index] = write_run(&part, first, count);
}

int
cadre_row_reader_pull(const cadre_row_reader_t *self, cadre_row_workspace_t *workspace,
                      const cadre_row_pull_t *pull)
{
    const part_t whole = {self, pull, workspace};
    const size_t dim = self->spec->dim;
    const bool helps = pull->lanes && pull->lanes->run;
    if (!helps || pull->count * dim < CADRE_LANES_ALONE_COUNT) {
        return pull_alone(&whole);
    }

    const size_t keys = cadre_table_update_piece_keys(dim);
    const size_t pieces = (pull->count - 1) / keys + 1;
    cadre_auto(cadre_free) int *status = cadre_calloc(pieces, sizeof(*status));
    lane_pull_t lanes = {&whole, keys, status};
    cadre_lanes_run(pull->lanes, pieces, pull_piece, &lanes);
    for (size_t i = 0; i < pieces; i++) {
        if (status[i] < 0) {
            return pull_alone(&whole); /* fails on this thread, which has the text then */
        }
    }
    return 0;
}
