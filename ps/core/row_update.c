#include "ps/core/row_update.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "ps/core/values/optimizer_kernel.h"

enum { BLOCK_COUNT = 4096 };

static size_t
elements_per_row(const cadre_partition_t *partition)
{
    return (size_t)cadre_partition_row_elements(partition);
}

static size_t
wire_size(const cadre_partition_t *partition)
{
    return cadre_dtype_size(cadre_partition_spec(partition)->wire);
}

/* Gives how `count` rows are cut on the wire: by the variable's own dtype, with the sizes that the
 * chunks have in its wire dtype. */
static int
layout_of(const cadre_partition_t *partition, uint64_t count, cadre_chunk_layout_t *out)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(partition);
    const size_t size = cadre_dtype_size(spec->dtype);
    cadre_chunk_layout_t layout;
    int status = cadre_chunk_layout_init(&layout, count, elements_per_row(partition) * size);
    if (status < 0) {
        return status;
    }
    *out = cadre_chunk_layout_convert(&layout, size, wire_size(partition));
    return 0;
}

int
cadre_row_update_chunk_count(const cadre_partition_t *partition, uint64_t count, size_t *out)
{
    const uint64_t rows = (uint64_t)cadre_partition_spec(partition)->rows;
    cadre_chunk_layout_t layout;
    if (count == 0 || count > rows) {
        return cadre_fail(CADRE_EINVALID, "gradients of %" PRIu64 " rows, it has %" PRIu64, count,
                          rows);
    }
    int status = layout_of(partition, count, &layout);
    if (status < 0) {
        return status;
    }
    *out = cadre_row_gradient_id_chunks(count) + layout.count;
    return 0;
}

/* --- checks --- */

/* Checks that the ids are rows of the partition, each after the one before. */
static int
check_ids(const cadre_partition_t *partition, const cadre_row_gradient_t *self)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(partition);
    const uint64_t first = (uint64_t)spec->first_row;
    const uint64_t end = first + (uint64_t)spec->rows;
    uint64_t least = first;
    for (size_t k = 0; k < self->count; k++) {
        const uint64_t id = cadre_row_gradient_id(self, k);
        if (id < least || id >= end) {
            return cadre_fail(CADRE_EINVALID,
                              "row %" PRIu64 " stands where one of %" PRIu64 "..%" PRIu64
                              " may, ascending",
                              id, least, end - 1);
        }
        least = id + 1;
    }
    return 0;
}

int
cadre_row_update_check(const cadre_partition_t *partition, const cadre_row_gradient_t *gradient)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(partition);
    if (!cadre_optimizer_spec_takes_rows(&spec->optimizer)) {
        return cadre_fail(CADRE_EINVALID, "its gradients come whole: it compensates delays");
    }
    cadre_chunk_layout_t layout;
    int status = layout_of(partition, gradient->count, &layout);
    if (status < 0) {
        return status;
    }
    status = cadre_row_gradient_check_sizes(gradient, &layout);
    if (status < 0) {
        return status;
    }
    status = check_ids(partition, gradient);
    for (size_t k = 0; status == 0 && k < layout.count; k++) {
        const cadre_chunk_t *chunk =
            gradient->chunks[cadre_row_gradient_id_chunks(gradient->count) + k];
        if (!cadre_partition_is_finite(partition, chunk)) {
            status = cadre_fail(CADRE_ENOTFINITE, "a row holds an infinite number or NaN");
        }
    }
    return status;
}

/* --- applying --- */

/* Where the next elements of a gradient stand. */
typedef struct {
    cadre_chunk_t *const *chunks; /* of rows */
    size_t at;                    /* element of chunks[0] that is next */
} reader_t;

static reader_t
begin(const cadre_row_gradient_t *self)
{
    return (reader_t){.chunks = self->chunks + cadre_row_gradient_id_chunks(self->count)};
}

/* Returns the next elements, at most `count` and all in one chunk, in the wire dtype; `*here`: how
 * many they are. Moves behind them. */
static const char *
next(reader_t *self, size_t size, size_t count, size_t *here)
{
    const size_t left = cadre_chunk_size_bytes(self->chunks[0]) / size - self->at;
    const char *bytes = (const char *)cadre_chunk_data(self->chunks[0]) + self->at * size;
    *here = count < left ? count : left;
    self->at += *here;
    if (*here == left) {
        self->chunks++;
        self->at = 0;
    }
    return bytes;
}

/* Applies the gradient of `count` elements from number `first` of the partition on, in the wire
 * dtype. */
static void
apply_elements(cadre_partition_t *partition, uint64_t first, const char *bytes, size_t count)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(partition);
    if (spec->wire == spec->dtype) {
        cadre_partition_apply_elements(partition, first, count, bytes);
        return;
    }
    float numbers[BLOCK_COUNT];
    for (size_t done = 0, here = 0; done < count; done += here) {
        here = count - done < BLOCK_COUNT ? count - done : BLOCK_COUNT;
        cadre_dtype_traits(spec->wire)->to_f32(bytes + done * wire_size(partition), numbers, here);
        cadre_partition_apply_elements(partition, first + done, here, numbers);
    }
}

/* Returns the number of a row's first element in the partition. */
static uint64_t
first_of(const cadre_partition_t *partition, uint64_t id)
{
    const uint64_t row = id - (uint64_t)cadre_partition_spec(partition)->first_row;
    return row * cadre_partition_row_elements(partition);
}

/* Applies all rows, without counting a step. */
static void
apply_rows(cadre_partition_t *partition, const cadre_row_gradient_t *gradient)
{
    const size_t elements = elements_per_row(partition);
    reader_t reader = begin(gradient);
    for (size_t k = 0; k < gradient->count; k++) {
        const uint64_t first = first_of(partition, cadre_row_gradient_id(gradient, k));
        for (size_t done = 0, here = 0; done < elements; done += here) {
            const char *bytes = next(&reader, wire_size(partition), elements - done, &here);
            apply_elements(partition, first + done, bytes, here);
        }
    }
}

void
cadre_row_update_apply(cadre_partition_t *partition, const cadre_row_gradient_t *gradient)
{
    apply_rows(partition, gradient);
    cadre_partition_end_elements(partition);
}

/* --- sums --- */

/* A row of one of the gradients that are summed. */
typedef struct {
    uint64_t id;
    size_t term;
    reader_t reader; /* at the row */
} row_t;

/* Orders rows by number, and those of one number by term. */
static int
compare_rows(const void *left, const void *right)
{
    const row_t *a = left;
    const row_t *b = right;
    if (a->id != b->id) {
        return a->id > b->id ? 1 : -1;
    }
    return (a->term > b->term) - (a->term < b->term);
}

/* Lists the rows of all terms in the order in which they are summed; returns how many there are. */
static size_t
list_rows(const cadre_partition_t *partition, const cadre_row_term_t *terms, size_t count,
          row_t *rows)
{
    const size_t elements = elements_per_row(partition);
    size_t row_count = 0;
    for (size_t i = 0; i < count; i++) {
        reader_t reader = begin(&terms[i].gradient);
        for (size_t k = 0; k < terms[i].gradient.count; k++) {
            rows[row_count++] = (row_t){
                .id = cadre_row_gradient_id(&terms[i].gradient, k), .term = i, .reader = reader};
            for (size_t done = 0, here = 0; done < elements; done += here) {
                next(&reader, wire_size(partition), elements - done, &here);
            }
        }
    }
    qsort(rows, row_count, sizeof(*rows), compare_rows);
    return row_count;
}

/* Adds `weight` times a row to `sum`; the first takes the place of what is there. */
static void
add_row(const cadre_partition_t *partition, row_t *row, float weight, bool is_first, float *sum)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(partition);
    const size_t elements = elements_per_row(partition);
    float numbers[BLOCK_COUNT];
    for (size_t done = 0, here = 0; done < elements; done += here) {
        const size_t left = elements - done < BLOCK_COUNT ? elements - done : BLOCK_COUNT;
        const void *gradient = next(&row->reader, wire_size(partition), left, &here);
        if (spec->wire != spec->dtype) {
            cadre_dtype_traits(spec->wire)->to_f32(gradient, numbers, here);
            gradient = numbers;
        }
        if (is_first) {
            cadre_kernel_scale_f32(here, weight, gradient, sum + done);
        } else {
            cadre_kernel_add_scaled_f32(here, weight, gradient, sum + done);
        }
    }
}

/* Sums the rows of each number, and applies the sum. */
static void
apply_sums(cadre_partition_t *partition, const cadre_row_term_t *terms, row_t *rows, size_t count)
{
    const size_t elements = elements_per_row(partition);
    cadre_auto(cadre_free) float *sum = cadre_calloc(elements, sizeof(*sum));
    for (size_t i = 0; i < count; i++) {
        const bool is_first = i == 0 || rows[i - 1].id != rows[i].id;
        const bool is_last = i + 1 == count || rows[i + 1].id != rows[i].id;
        add_row(partition, &rows[i], terms[rows[i].term].weight, is_first, sum);
        if (is_last) {
            cadre_partition_apply_elements(partition, first_of(partition, rows[i].id), elements,
                                           sum);
        }
    }
}

void
cadre_row_update_apply_sum(cadre_partition_t *partition, const cadre_row_term_t *terms,
                           size_t count)
{
    const bool is_plain = count == 1 && terms[0].weight == 1;
    if (is_plain || cadre_partition_spec(partition)->optimizer.kind == CADRE_OPTIMIZER_ADD) {
        for (size_t i = 0; i < count; i++) {
            apply_rows(partition, &terms[i].gradient);
        }
        cadre_partition_end_elements(partition);
        return;
    }

    size_t row_count = 0;
    for (size_t i = 0; i < count; i++) {
        row_count += terms[i].gradient.count;
    }
    cadre_auto(cadre_free) row_t *rows = cadre_calloc(row_count, sizeof(*rows));
    apply_sums(partition, terms, rows, list_rows(partition, terms, count, rows));
    cadre_partition_end_elements(partition);
}
