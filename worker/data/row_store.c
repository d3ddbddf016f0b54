#include "worker/data/row_store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* has the size of XXH3_state_t */
#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* A growing array of elements of one size. */
typedef struct {
    char *bytes;
    size_t element_size;
    size_t count;
    size_t capacity;
} array_t;

struct cadre_row_store {
    cadre_row_kind_t kind;
    int64_t features;
    int64_t items; /* sparse: pairs of index and value in a row as it is read; 0: dense rows */
    int64_t first_row;
    int64_t rows_max; /* rows of the asked part; INT64_MAX: all from first_row on */
    int64_t seen;     /* rows that were added, kept or not */
    uint64_t size_bytes_max;
    array_t x;      /* one element per row; sparse: one cadre_sparse_item_t per item */
    array_t starts; /* sparse: [rows + 1], where in `x` each row begins, and where the last ends */
    array_t labels;
    float scaled[256]; /* u8: what each byte becomes */
};

static uint64_t
size_of(const array_t *array, size_t more)
{
    return (uint64_t)(array->count + more) * array->element_size;
}

/* Makes room for `more` elements. The array grows by half, so adding takes linear time in all. */
static void
reserve(array_t *array, size_t more)
{
    if (array->capacity - array->count >= more) {
        return;
    }
    size_t capacity = array->capacity + array->capacity / 2;
    if (capacity < array->count + more) {
        capacity = array->count + more;
    }
    array->bytes = cadre_realloc(array->bytes, capacity, array->element_size);
    array->capacity = capacity;
}

/* Appends elements to the array. */
static void
append(array_t *array, const void *elements, size_t count)
{
    reserve(array, count);
    if (count > 0) {
        memcpy(array->bytes + array->count * array->element_size, elements,
               count * array->element_size);
    }
    array->count += count;
}

/* Gives back the memory that the array does not use. */
static void
shrink(array_t *array)
{
    if (array->capacity > array->count) {
        array->bytes = cadre_realloc(array->bytes, array->count, array->element_size);
        array->capacity = array->count;
    }
}

/* Returns an empty store for rows of one kind: floats, bytes, or pairs of column and value. */
cadre_row_store_t *
cadre_row_store_new(cadre_row_kind_t kind, const cadre_data_spec_t *spec, int64_t features,
                    uint64_t size_bytes_max)
{
    cadre_row_store_t *self = cadre_calloc(1, sizeof(*self));
    self->kind = kind;
    self->features = features;
    self->items = spec->items;
    self->first_row = spec->first_row;
    self->rows_max = spec->rows > 0 ? spec->rows : INT64_MAX;
    self->size_bytes_max = size_bytes_max;
    self->labels.element_size = sizeof(cadre_label_t);
    switch (kind) {
    case CADRE_ROWS_F32:
        self->x.element_size = (size_t)features * sizeof(float);
        break;
    case CADRE_ROWS_U8:
        self->x.element_size = (size_t)features;
        for (int i = 0; i < 256; i++) {
            self->scaled[i] = (float)(i * spec->scale);
        }
        break;
    case CADRE_ROWS_SPARSE:
        self->x.element_size = sizeof(cadre_sparse_item_t);
        self->starts.element_size = sizeof(uint64_t);
        append(&self->starts, &(uint64_t){0}, 1); /* where the first row begins */
        break;
    }

    return self;
}

/* Frees the store with its rows; *self_p may be NULL. */
void
cadre_row_store_destroy(cadre_row_store_t **self_p)
{
    cadre_row_store_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    free(self->x.bytes);
    free(self->starts.bytes);
    free(self->labels.bytes);
    free(self);
}

uint64_t
cadre_row_store_size_bytes(const cadre_row_store_t *self)
{
    return size_of(&self->x, 0) + size_of(&self->starts, 0) + size_of(&self->labels, 0);
}

static int
too_large(const cadre_row_store_t *self)
{
    return cadre_fail(CADRE_ETOOLARGE, "the parsed rows take more than %" PRIu64 " bytes",
                      self->size_bytes_max);
}

/* Counts a row. Returns 1 when it is to be kept, 0 when it is outside the asked part; fails with
 * CADRE_ETOOLARGE when its `x_count` elements do not fit. */
static int
admit(cadre_row_store_t *self, size_t x_count)
{
    int64_t row = self->seen;
    if (row < self->first_row || row - self->first_row >= self->rows_max) {
        self->seen++;
        return 0;
    }

    size_t starts = self->kind == CADRE_ROWS_SPARSE ? 1 : 0;
    if (size_of(&self->x, x_count) + size_of(&self->starts, starts) + size_of(&self->labels, 1) >
        self->size_bytes_max) {
        return too_large(self);
    }

    self->seen++;
    return 1;
}

/* Adds a row of floats or bytes, or only counts it when it is outside the part that the job asks
 * for. */
int
cadre_row_store_add(cadre_row_store_t *self, const void *x, cadre_label_t label)
{
    cadre_assert(self->kind != CADRE_ROWS_SPARSE);
    int keep = admit(self, 1);
    if (keep == 1) {
        append(&self->x, x, 1);
        append(&self->labels, &label, 1);
    }
    return keep < 0 ? keep : 0;
}

/* Adds a row of pairs of column and value, or only counts it when it is outside the part that the
 * job asks for. */
int
cadre_row_store_add_sparse(cadre_row_store_t *self, const cadre_sparse_item_t *items, size_t count,
                           cadre_label_t label)
{
    cadre_assert(self->kind == CADRE_ROWS_SPARSE);
    int keep = admit(self, count);
    if (keep == 1) {
        append(&self->x, items, count);
        append(&self->starts, &(uint64_t){self->x.count}, 1);
        append(&self->labels, &label, 1);
    }
    return keep < 0 ? keep : 0;
}

/* Fails with CADRE_ETOOLARGE when the rows of a file with `file_rows` rows would not fit, before
 * they are read. */
int
cadre_row_store_check_size(const cadre_row_store_t *self, int64_t file_rows)
{
    int64_t kept = file_rows > self->first_row ? file_rows - self->first_row : 0;
    kept = cadre_min_i64(kept, self->rows_max);
    uint64_t size_bytes = 0;
    if (__builtin_mul_overflow((uint64_t)kept, self->x.element_size + sizeof(cadre_label_t),
                               &size_bytes) ||
        size_bytes > self->size_bytes_max) {
        return too_large(self);
    }
    return 0;
}

/* Ends the adding of rows. Fails when there are none, or too few for the part that the job asks
 * for. */
int
cadre_row_store_finish(cadre_row_store_t *self, int64_t features)
{
    self->features = features;
    if (self->seen == 0) {
        return cadre_fail(CADRE_EDATA, "no rows");
    }

    int64_t wanted = self->rows_max == INT64_MAX ? 1 : self->rows_max;
    if (cadre_row_store_rows(self) < wanted) {
        return cadre_fail(CADRE_EDATA,
                          "%" PRId64 " rows, too few for %" PRId64 " from row %" PRId64 " on",
                          self->seen, wanted, self->first_row);
    }

    shrink(&self->x);
    shrink(&self->starts);
    shrink(&self->labels);
    return 0;
}

cadre_row_kind_t
cadre_row_store_kind(const cadre_row_store_t *self)
{
    return self->kind;
}

int64_t
cadre_row_store_rows(const cadre_row_store_t *self)
{
    return (int64_t)self->labels.count;
}

int64_t
cadre_row_store_file_rows(const cadre_row_store_t *self)
{
    return self->seen;
}

void
cadre_row_store_clear(cadre_row_store_t *self)
{
    self->x.count = 0;
    self->labels.count = 0;
    self->starts.count = self->kind == CADRE_ROWS_SPARSE ? 1 : 0; /* where the first row begins */
}

/* Elements, starts of rows and labels have a hash each, as they come from each store in turn. */
struct cadre_row_hash {
    XXH3_state_t *x;
    XXH3_state_t *starts;
    XXH3_state_t *labels;
    uint64_t items; /* sparse: how many were added */
};

static XXH3_state_t *
new_state(void)
{
    XXH3_state_t *state = cadre_aligned_alloc(sizeof(XXH3_state_t));
    XXH3_INITSTATE(state);
    XXH3_64bits_reset(state);
    return state;
}

cadre_row_hash_t *
cadre_row_hash_new(void)
{
    cadre_row_hash_t *self = cadre_calloc(1, sizeof(*self));
    self->x = new_state();
    self->starts = new_state();
    self->labels = new_state();
    return self;
}

void
cadre_row_hash_destroy(cadre_row_hash_t **self_p)
{
    cadre_row_hash_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    free(self->x);
    free(self->starts);
    free(self->labels);
    free(self);
}

static void
add_array(XXH3_state_t *state, const array_t *array)
{
    if (array->count > 0) {
        XXH3_64bits_update(state, array->bytes, array->count * array->element_size);
    }
}

/* Adds where the rows end, counted over all stores. */
static void
add_ends(cadre_row_hash_t *self, const array_t *starts)
{
    uint64_t ends[256];
    for (size_t at = 1, count = 0; at < starts->count; at += count) {
        count = (size_t)cadre_min_u64(CADRE_COUNT_OF(ends), starts->count - at);
        memcpy(ends, starts->bytes + at * sizeof(ends[0]), count * sizeof(ends[0]));
        for (size_t i = 0; i < count; i++) {
            ends[i] += self->items;
        }
        XXH3_64bits_update(self->starts, ends, count * sizeof(ends[0]));
    }
}

void
cadre_row_hash_add(cadre_row_hash_t *self, const cadre_row_store_t *store)
{
    add_array(self->x, &store->x);
    add_array(self->labels, &store->labels);
    if (store->kind == CADRE_ROWS_SPARSE) {
        add_ends(self, &store->starts);
        self->items += store->x.count;
    }
}

uint64_t
cadre_row_hash_end(const cadre_row_hash_t *self, int64_t features)
{
    const uint64_t all[] = {(uint64_t)features, XXH3_64bits_digest(self->x),
                            XXH3_64bits_digest(self->starts), XXH3_64bits_digest(self->labels)};
    return XXH3_64bits(all, sizeof(all));
}

/* Returns a hash of all kept rows and labels, by which workers can be seen to have the same data.
 */
uint64_t
cadre_row_store_hash(const cadre_row_store_t *self)
{
    cadre_auto(cadre_row_hash_destroy) cadre_row_hash_t *hash = cadre_row_hash_new();
    cadre_row_hash_add(hash, self);
    return cadre_row_hash_end(hash, self->features);
}

/* Writes the items of a sparse row to `x`: their indices, then their values. */
static void
write_items(const cadre_row_store_t *self, const cadre_sparse_item_t *items, size_t count, float *x)
{
    cadre_assert(count <= (uint64_t)self->items);
    for (size_t i = 0; i < count; i++) {
        x[i] = (float)(items[i].column + 1); /* exact: at most CADRE_DATA_FEATURES_MAX */
        x[(size_t)self->items + i] = items[i].value;
    }
}

/* Writes a sparse row to `x`: its items, or a number for each column with 0 where the row does not
 * name it. */
static void
read_sparse(const cadre_row_store_t *self, int64_t row, float *x)
{
    uint64_t range[2];
    memcpy(range, self->starts.bytes + (size_t)row * sizeof(range[0]), sizeof(range));
    memset(x, 0, (size_t)self->features * sizeof(float));
    if (range[0] == range[1]) {
        return; /* where no row has items there is no memory */
    }
    const cadre_sparse_item_t *items = (const void *)self->x.bytes;
    if (self->items > 0) {
        write_items(self, items + range[0], (size_t)(range[1] - range[0]), x);
        return;
    }
    for (uint64_t i = range[0]; i < range[1]; i++) {
        x[items[i].column] = items[i].value;
    }
}

/* Copies a row, as floats, and its label. */
void
cadre_row_store_read(const cadre_row_store_t *self, int64_t row, float *x, cadre_label_t *label)
{
    cadre_assert(row >= 0 && (uint64_t)row < self->labels.count);
    memcpy(label, self->labels.bytes + (size_t)row * sizeof(*label), sizeof(*label));
    const char *bytes = NULL;
    if (self->kind != CADRE_ROWS_SPARSE) { /* a sparse store may have no items, and so no memory */
        bytes = self->x.bytes + (size_t)row * self->x.element_size;
    }

    switch (self->kind) {
    case CADRE_ROWS_F32:
        memcpy(x, bytes, self->x.element_size);
        return;
    case CADRE_ROWS_U8:
        for (int64_t i = 0; i < self->features; i++) {
            x[i] = self->scaled[(uint8_t)bytes[i]];
        }
        return;
    case CADRE_ROWS_SPARSE:
        read_sparse(self, row, x);
        return;
    }
}
