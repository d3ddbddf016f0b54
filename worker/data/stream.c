#include "worker/data/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/place_list.h"
#include "worker/data/restart_points.h"

/* A block that no batch has wanted for so many batches of each range is not waited for: its range
 * has gone to another worker, or the epoch is over. */
enum { BATCHES_IDLE = 8 };

#define NOT_HELD UINT32_MAX

/* A block in memory. */
typedef struct {
    int64_t block;
    cadre_row_store_t *rows;
    uint64_t used; /* number of the batch that wanted it last; 0: released */
} held_t;

struct cadre_stream {
    cadre_reader_t *reader;
    cadre_data_spec_t spec; /* the reader's; owns nothing */
    char *root;             /* the reader's */
    cadre_restart_points_t points;
    cadre_row_kind_t kind;
    int64_t rows;
    int64_t file_rows;
    uint64_t hash;
    /* The index of blocks, of which a text has many: so it has three lists, and no padding. */
    cadre_place_list_t places;  /* of the first row of each, or in front of it */
    cadre_reader_place_t begin; /* that of the next one */
    uint64_t *hashes;           /* [count] */
    size_t hashes_capacity;
    uint32_t *held_at; /* [count] where each is in `held`, or NOT_HELD */
    size_t held_at_capacity;
    size_t count;
    uint64_t block_size_max; /* bytes of the largest block */
    held_t *held;            /* [held_count], in no order */
    size_t held_count;
    size_t held_capacity;
    uint64_t held_bytes;
    uint64_t size_bytes_max;
    uint64_t batches;     /* how many were begun */
    uint64_t blocks_read; /* since the index was made */
};

/* Ends a block of the index: takes its place and hash, and drops its rows. */
static void
end_block(cadre_stream_t *self, cadre_row_hash_t *whole)
{
    cadre_row_store_t *store = self->reader->store;
    self->hashes =
        cadre_grow(self->hashes, self->count, &self->hashes_capacity, sizeof(*self->hashes));
    self->hashes[self->count] = cadre_row_store_hash(store);
    self->held_at =
        cadre_grow(self->held_at, self->count, &self->held_at_capacity, sizeof(*self->held_at));
    self->held_at[self->count] = NOT_HELD;
    cadre_place_list_add(&self->places, &self->begin);
    self->count++;
    self->rows += cadre_row_store_rows(store);
    self->block_size_max = cadre_max_u64(self->block_size_max, cadre_row_store_size_bytes(store));
    cadre_row_hash_add(whole, store);
    cadre_row_store_clear(store);
}

/* Reads on by one line or row; notes where it is when no row of the next block was read yet. */
static int
index_next(cadre_stream_t *self, cadre_row_hash_t *whole)
{
    cadre_reader_t *reader = self->reader;
    if (!reader->store || cadre_row_store_rows(reader->store) == 0) {
        self->begin = cadre_reader_place(reader);
    }
    int more = cadre_reader_next(reader);
    if (more < 0) {
        return more;
    }
    const int64_t rows = reader->store ? cadre_row_store_rows(reader->store) : 0;
    if (rows == CADRE_BLOCK_ROWS || (more == 0 && rows > 0)) {
        end_block(self, whole);
    }
    return more;
}

/* Fails when there are no rows, or too few for the asked part. */
static int
check_rows(const cadre_stream_t *self)
{
    const cadre_data_spec_t *spec = &self->spec;
    const int64_t wanted = spec->rows > 0 ? spec->rows : 1;
    if (self->file_rows == 0) {
        return cadre_fail(CADRE_EDATA, "no rows");
    }
    if (self->rows < wanted) {
        return cadre_fail(CADRE_EDATA,
                          "%" PRId64 " rows, too few for %" PRId64 " from row %" PRId64 " on",
                          self->file_rows, wanted, spec->first_row);
    }
    return 0;
}

/* Fails when the blocks that are shuffled at a time do not fit, those of the windows of all ranges,
 * which one worker may have: each batch would read them all. */
static int
check_window(const cadre_stream_t *self)
{
    const int64_t each = self->spec.shuffle_blocks / self->spec.ranges;
    const uint64_t blocks = cadre_min_u64((uint64_t)(each * self->spec.ranges), self->count);
    if (self->block_size_max * blocks <= self->size_bytes_max) {
        return 0;
    }
    return cadre_fail(CADRE_ETOOLARGE,
                      "%" PRIu64 " blocks of up to %" PRIu64 " bytes do not fit in %" PRIu64
                      ": fewer shuffle_blocks, or more memory_mib",
                      blocks, self->block_size_max, self->size_bytes_max);
}

/* Reads all files. */
static int
build_index(cadre_stream_t *self)
{
    cadre_reader_t *reader = self->reader;
    cadre_auto(cadre_row_hash_destroy) cadre_row_hash_t *whole = cadre_row_hash_new();
    int more = 0;
    while ((more = index_next(self, whole)) > 0) {
    }
    if (more < 0) {
        return more;
    }
    reader->is_indexed = true;
    self->file_rows = reader->store ? cadre_row_store_file_rows(reader->store) : 0;
    self->kind = reader->store ? cadre_row_store_kind(reader->store) : CADRE_ROWS_F32;
    cadre_row_store_destroy(&reader->store);
    self->hash = cadre_row_hash_end(whole, reader->features);
    self->size_bytes_max = reader->size_bytes_max; /* less what the format keeps */
    int status = check_rows(self);
    status = status < 0 ? status : check_window(self);
    return status < 0 ? cadre_reader_fail_whole(reader, status) : 0;
}

int
cadre_stream_open(cadre_reader_t **reader_p, uint64_t size_bytes_max, cadre_stream_t **out)
{
    cadre_stream_t *self = cadre_calloc(1, sizeof(*self));
    self->reader = *reader_p;
    *reader_p = NULL;
    self->size_bytes_max = size_bytes_max;
    cadre_restart_points_init(&self->points);
    self->reader->points = &self->points;
    self->reader->size_bytes_max = size_bytes_max;
    self->spec = *self->reader->spec;
    int status = build_index(self);
    if (status < 0) {
        cadre_stream_close(&self);
        return status;
    }

    /* From here on the reader outlives what it was made of. Names are known to it by now. */
    self->spec.paths = (cadre_data_paths_t){0};
    self->spec.labels_paths = (cadre_data_paths_t){0};
    self->spec.label_name = NULL;
    self->spec.first_row = 0; /* a block has no rows in front of it, and none behind it */
    self->spec.rows = 0;
    self->root = self->reader->root ? cadre_strdup(self->reader->root) : NULL;
    self->reader->spec = &self->spec;
    self->reader->root = self->root;
    self->reader->bad = NULL;
    *out = self;
    return 0;
}

void
cadre_stream_close(cadre_stream_t **self_p)
{
    cadre_stream_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (size_t i = 0; i < self->held_count; i++) {
        cadre_row_store_destroy(&self->held[i].rows);
    }
    cadre_row_store_destroy(&self->reader->store);
    cadre_reader_fini(self->reader);
    cadre_restart_points_fini(&self->points);
    free(self->reader);
    free(self->root);
    cadre_place_list_fini(&self->places);
    free(self->hashes);
    free(self->held_at);
    free(self->held);
    free(self);
}

const cadre_reader_t *
cadre_stream_reader(const cadre_stream_t *self)
{
    return self->reader;
}

int64_t
cadre_stream_rows(const cadre_stream_t *self)
{
    return self->rows;
}

int64_t
cadre_stream_file_rows(const cadre_stream_t *self)
{
    return self->file_rows;
}

uint64_t
cadre_stream_hash(const cadre_stream_t *self)
{
    return self->hash;
}

uint64_t
cadre_stream_size_bytes(const cadre_stream_t *self)
{
    return self->held_bytes + cadre_place_list_size_bytes(&self->places) +
           self->hashes_capacity * sizeof(*self->hashes) +
           self->held_at_capacity * sizeof(*self->held_at) +
           cadre_restart_points_size_bytes(&self->points);
}

const char *
cadre_stream_large_frame(const cadre_stream_t *self, uint64_t *size_bytes)
{
    *size_bytes = self->points.frame_size_max;
    return *size_bytes > CADRE_RESTART_FRAME ? self->reader->files.items[self->points.frame_file]
                                             : NULL;
}

uint64_t
cadre_stream_blocks_read(const cadre_stream_t *self)
{
    return self->blocks_read;
}

void
cadre_stream_begin_batch(cadre_stream_t *self)
{
    self->batches++;
}

void
cadre_stream_release(cadre_stream_t *self, int64_t block)
{
    if (self->held_at[block] != NOT_HELD) {
        self->held[self->held_at[block]].used = 0;
    }
}

bool
cadre_stream_holds(const cadre_stream_t *self, int64_t block)
{
    return self->held_at[block] != NOT_HELD;
}

bool
cadre_stream_has_room(const cadre_stream_t *self)
{
    const uint64_t idle = BATCHES_IDLE * (uint64_t)self->spec.ranges;
    uint64_t wanted = 0;
    for (size_t i = 0; i < self->held_count; i++) {
        const uint64_t used = self->held[i].used;
        wanted += used > 0 && used + idle >= self->batches;
    }
    return self->block_size_max * (wanted + 1) <= self->size_bytes_max;
}

/* Returns the name of the file that a place is in, or in front of. */
static const char *
path_at(const cadre_stream_t *self, const cadre_reader_place_t *place)
{
    const cadre_file_names_t *files = &self->reader->files;
    const size_t file = place->next_file - (place->is_open ? 1 : 0);
    return files->items[file < files->count ? file : files->count - 1];
}

/* Fails for a block that has other rows than before, with the names of the files that it was in:
 * what was read in their place may come from a later one. */
static int
changed(const cadre_stream_t *self, int64_t block)
{
    const cadre_reader_place_t end = {.next_file = (uint32_t)self->reader->files.count};
    const size_t number = (size_t)block;
    const cadre_reader_place_t place = cadre_place_list_at(&self->places, number);
    const cadre_reader_place_t next =
        number + 1 == self->count ? end : cadre_place_list_at(&self->places, number + 1);
    const char *first = path_at(self, &place);
    const char *last = path_at(self, &next);
    const bool is_one = strcmp(first, last) == 0;
    return cadre_fail(CADRE_EDATA,
                      "%s%s%s: rows %" PRId64
                      " and on%s are not those that it had when it was opened",
                      first, is_one ? "" : " to ", is_one ? "" : last, block * CADRE_BLOCK_ROWS,
                      self->reader->files.count > 1 ? " (over all files)" : "");
}

/* Reads on until the store has `rows` rows. */
static int
read_rows(cadre_reader_t *reader, int64_t rows)
{
    int more = 1;
    while (more > 0 && cadre_row_store_rows(reader->store) < rows) {
        more = cadre_reader_next(reader);
    }
    return more;
}

/* Reads the rows of a block into the reader's new store. Bad lines were counted when the index was
 * made. */
static int
read_block(cadre_stream_t *self, int64_t block)
{
    cadre_reader_t *reader = self->reader;
    const int64_t rows = cadre_min_i64(CADRE_BLOCK_ROWS, self->rows - block * CADRE_BLOCK_ROWS);
    const cadre_reader_place_t place = cadre_place_list_at(&self->places, (size_t)block);
    int status = cadre_reader_go_to(reader, &place);
    if (status < 0) {
        return status;
    }
    cadre_auto(cadre_bad_lines_fini) cadre_bad_lines_t bad;
    cadre_bad_lines_init(&bad, INT64_MAX);
    reader->bad = &bad;
    reader->store = cadre_row_store_new(self->kind, &self->spec,
                                        self->kind == CADRE_ROWS_SPARSE ? 0 : reader->features,
                                        self->size_bytes_max);
    int more = read_rows(reader, rows);
    reader->bad = NULL;
    if (more < 0) {
        return more;
    }
    if (cadre_row_store_rows(reader->store) < rows ||
        cadre_row_store_hash(reader->store) != self->hashes[block]) {
        return changed(self, block);
    }
    return cadre_row_store_finish(reader->store, reader->features);
}

/* Drops the block that no batch has wanted for longest, a released one first. */
static void
drop_one(cadre_stream_t *self)
{
    size_t oldest = 0;
    for (size_t i = 1; i < self->held_count; i++) {
        if (self->held[i].used < self->held[oldest].used) {
            oldest = i;
        }
    }
    held_t *entry = &self->held[oldest];
    self->held_bytes -= cadre_row_store_size_bytes(entry->rows);
    self->held_at[entry->block] = NOT_HELD;
    cadre_row_store_destroy(&entry->rows);
    self->held_count--;
    if (oldest < self->held_count) {
        *entry = self->held[self->held_count];
        self->held_at[entry->block] = (uint32_t)oldest;
    }
}

/* Holds the rows of a block, which the reader's store has. */
static void
hold(cadre_stream_t *self, int64_t block)
{
    cadre_assert(self->held_count < NOT_HELD);
    self->held =
        cadre_grow(self->held, self->held_count, &self->held_capacity, sizeof(*self->held));
    self->held[self->held_count] =
        (held_t){.block = block, .rows = self->reader->store, .used = self->batches};
    self->held_at[block] = (uint32_t)self->held_count++;
    self->held_bytes += cadre_row_store_size_bytes(self->reader->store);
    self->reader->store = NULL;
}

int
cadre_stream_load(cadre_stream_t *self, int64_t block)
{
    cadre_assert(block >= 0 && (size_t)block < self->count);
    if (self->held_at[block] != NOT_HELD) {
        self->held[self->held_at[block]].used = self->batches;
        return 0;
    }

    int status = read_block(self, block);
    if (status < 0) {
        /* What was decoded is not gone on with: the next block begins at one of the points. */
        cadre_data_file_close(&self->reader->file);
        cadre_row_store_destroy(&self->reader->store);
        return status;
    }

    const uint64_t size_bytes = cadre_row_store_size_bytes(self->reader->store);
    while (self->held_count > 0 && self->held_bytes + size_bytes > self->size_bytes_max) {
        drop_one(self);
    }
    hold(self, block);
    self->blocks_read++;
    return 1;
}

int
cadre_stream_read(cadre_stream_t *self, int64_t row, float *x, cadre_label_t *label)
{
    const int64_t block = row / CADRE_BLOCK_ROWS;
    int status = cadre_stream_load(self, block);
    if (status < 0) {
        return status;
    }
    const cadre_row_store_t *rows = self->held[self->held_at[block]].rows;
    cadre_row_store_read(rows, row % CADRE_BLOCK_ROWS, x, label);
    return 0;
}
