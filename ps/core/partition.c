#include "ps/core/partition.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/wire_dtype.h"
#include "common/tensor/dtype.h"
#include "ps/core/pulled_versions.h"
#include "ps/core/row_gradient.h"
#include "ps/core/values/assignment.h"
#include "ps/core/values/initializer.h"
#include "ps/core/values/optimizer.h"
#include "ps/core/values/optimizer_kernel.h"

/* Elements of a gradient that are converted or summed at a time: so many stay in the L1 cache until
 * the optimizer applies them. */
enum { BLOCK_COUNT = 4096 };

struct cadre_partition {
    cadre_partition_spec_t spec;
    cadre_ps_initializer_t initializer;
    uint64_t first_element; /* of the variable */
    uint64_t row_elements;
    cadre_ps_optimizer_t optimizer;
    cadre_chunk_layout_t layout;
    cadre_chunk_layout_t wire_layout;
    cadre_chunk_pool_t *pool; /* borrowed */
    uint64_t version;
    uint64_t steps;
    cadre_chunk_t **values;                           /* [layout.count] */
    cadre_chunk_t **slots[CADRE_OPTIMIZER_SLOTS_MAX]; /* [layout.count] each, f32 */
    cadre_chunk_t **next; /* [1 + slots][layout.count] between begin and end of an apply: the chunks
                             that will take the place of values and slots; NULL otherwise */
    cadre_chunk_t **wire_values; /* [layout.count] values in the wire dtype; NULL where that is the
                                    variable's, and until a worker pulls */
    bool wire_is_current;        /* `wire_values` are of this version */
    cadre_pulled_versions_t pulled; /* none without delay compensation */
};

/* Returns whether values and gradients travel in another dtype than the variable's. */
static bool
is_converted(const cadre_partition_t *self)
{
    return self->spec.wire != self->spec.dtype;
}

/* Fails with CADRE_EINVALID unless the rows of the partition lie in its variable; a variable of
 * rank 0 has one row. */
static int
check_rows(const cadre_partition_spec_t *spec)
{
    int64_t all_rows = spec->rank > 0 ? spec->shape[0] : 1;
    if (spec->first_row < 0 || spec->rows < 0 || spec->first_row > all_rows ||
        spec->rows > all_rows - spec->first_row) {
        return cadre_fail(CADRE_EINVALID,
                          "rows %" PRId64 " and %" PRId64 " more are not in a variable of %" PRId64,
                          spec->first_row, spec->rows, all_rows);
    }
    return 0;
}

static cadre_chunk_t **
new_chunks(const cadre_chunk_layout_t *layout)
{
    cadre_chunk_t **chunks = cadre_calloc(layout->count, sizeof(*chunks));
    for (size_t k = 0; k < layout->count; k++) {
        chunks[k] = cadre_chunk_new(cadre_chunk_layout_size(layout, k));
    }
    return chunks;
}

/* Drops the references in an array of chunks, and frees the array; NULL is fine. */
static void
drop_chunks(cadre_chunk_t ***chunks_p, size_t count)
{
    cadre_chunk_t **chunks = *chunks_p;
    for (size_t k = 0; chunks && k < count; k++) {
        cadre_chunk_unref(&chunks[k]);
    }
    free(chunks);
    *chunks_p = NULL;
}

/* Makes a partition whose chunks are allocated and not written yet. */
int
cadre_partition_open_blank(cadre_partition_t **self_p, const cadre_partition_spec_t *spec,
                           cadre_chunk_pool_t *pool)
{
    cadre_ps_initializer_t initializer;
    cadre_ps_optimizer_t optimizer;
    cadre_chunk_layout_t layout;
    cadre_dtype_t wire_dtype = spec->dtype;
    int64_t row_elements = 0;
    size_t row_size_bytes = 0;

    /* Check everything that a spec may be refused for before memory is allocated. */
    int status = cadre_initializer_init(&initializer, &spec->initializer, spec->dtype, spec->shape,
                                        spec->rank);
    if (status < 0) {
        return status;
    }
    if (spec->wire != spec->dtype) {
        status = cadre_wire_dtype_decode(spec->wire, spec->dtype, &wire_dtype);
        if (status < 0) {
            return status;
        }
    }
    status = cadre_optimizer_init(&optimizer, &spec->optimizer, spec->dtype);
    if (status < 0) {
        return status;
    }
    status = check_rows(spec);
    if (status < 0) {
        return status;
    }
    int row_rank = spec->rank > 0 ? spec->rank - 1 : 0;
    status =
        cadre_shape_size(spec->dtype, spec->shape + 1, row_rank, &row_elements, &row_size_bytes);
    if (status < 0) {
        return status;
    }
    status = cadre_chunk_layout_init(&layout, (uint64_t)spec->rows, row_size_bytes);
    if (status < 0) {
        return status;
    }

    cadre_partition_t *self = cadre_calloc(1, sizeof(*self));
    self->spec = *spec;
    self->spec.wire = wire_dtype;
    self->wire_layout = cadre_chunk_layout_convert(&layout, cadre_dtype_size(spec->dtype),
                                                   cadre_dtype_size(wire_dtype));
    self->optimizer = optimizer;
    self->layout = layout;
    self->pool = pool;
    self->initializer = initializer;
    self->first_element = (uint64_t)spec->first_row * (uint64_t)row_elements;
    self->row_elements = (uint64_t)row_elements;
    self->values = new_chunks(&self->layout);
    for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
        self->slots[slot] = new_chunks(&self->layout);
    }
    *self_p = self;
    return 0;
}

/* Writes the initial numbers of one chunk: of the values, and of the running average, which begins
 * equal to them, by the initializer; of any other slot the number that the optimizer begins
 * with. */
void
cadre_partition_initialise(cadre_partition_t *self, int slot, size_t k)
{
    const size_t size_bytes = cadre_chunk_layout_size(&self->layout, k);
    const bool is_average = slot == (int)cadre_optimizer_average_slot(&self->optimizer.spec);
    if (slot < 0 || is_average) {
        const size_t element_size = cadre_dtype_size(self->spec.dtype);
        size_t offset = cadre_chunk_layout_offset(&self->layout, k);
        cadre_initializer_fill(&self->initializer, self->first_element + offset / element_size,
                               size_bytes / element_size, cadre_partition_blank(self, slot, k));
        return;
    }
    float initial = cadre_optimizer_slot_initial(&self->optimizer.spec, (size_t)slot);
    float *numbers = cadre_chunk_data(self->slots[slot][k]);
    for (size_t i = 0; i < size_bytes / sizeof(float); i++) {
        numbers[i] = initial;
    }
}

void *
cadre_partition_blank(cadre_partition_t *self, int slot, size_t k)
{
    return cadre_chunk_data(slot < 0 ? self->values[k] : self->slots[slot][k]);
}

void
cadre_partition_begin_average(cadre_partition_t *self, size_t k)
{
    const int slot = (int)cadre_optimizer_average_slot(&self->optimizer.spec);
    memcpy(cadre_partition_blank(self, slot, k), cadre_partition_blank(self, -1, k),
           cadre_chunk_layout_size(&self->layout, k));
}

/* Makes a partition with its initial values (slot -1) and slots. */
int
cadre_partition_open(cadre_partition_t **self_p, const cadre_partition_spec_t *spec,
                     cadre_chunk_pool_t *pool)
{
    cadre_partition_t *self = NULL;
    int status = cadre_partition_open_blank(&self, spec, pool);
    if (status < 0) {
        return status;
    }
    const int slots = (int)self->optimizer.slot_count;
    for (int slot = -1; slot < slots; slot++) {
        for (size_t k = 0; k < self->layout.count; k++) {
            cadre_partition_initialise(self, slot, k);
        }
    }
    *self_p = self;
    return 0;
}

/* Drops all references to chunks, and frees the partition. */
void
cadre_partition_close(cadre_partition_t **self_p)
{
    cadre_partition_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_pulled_versions_clear(&self->pulled, self->layout.count, self->pool);
    drop_chunks(&self->values, self->layout.count);
    drop_chunks(&self->wire_values, self->layout.count);
    for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
        drop_chunks(&self->slots[slot], self->layout.count);
    }
    free(self);
}

void
cadre_partition_reschedule(cadre_partition_t *self, const cadre_schedule_spec_t *schedule)
{
    self->spec.optimizer.schedule = *schedule;
    cadre_optimizer_reschedule(&self->optimizer, schedule);
}

const cadre_partition_spec_t *
cadre_partition_spec(const cadre_partition_t *self)
{
    return &self->spec;
}

const cadre_chunk_layout_t *
cadre_partition_layout(const cadre_partition_t *self)
{
    return &self->layout;
}

const cadre_chunk_layout_t *
cadre_partition_wire_layout(const cadre_partition_t *self)
{
    return &self->wire_layout;
}

uint64_t
cadre_partition_version(const cadre_partition_t *self)
{
    return self->version;
}

uint64_t
cadre_partition_steps(const cadre_partition_t *self)
{
    return self->steps;
}

void
cadre_partition_pull(const cadre_partition_t *self, cadre_chunk_t **chunks)
{
    for (size_t k = 0; k < self->layout.count; k++) {
        chunks[k] = cadre_chunk_ref(self->values[k]);
    }
}

/* Fails with CADRE_ESHAPE unless the chunks are as many, and as large, as the layout says. */
static int
check_sizes(const cadre_chunk_layout_t *layout, cadre_chunk_t *const *chunks, size_t count)
{
    if (count != layout->count) {
        return cadre_fail(CADRE_ESHAPE, "%zu chunks instead of %zu", count, layout->count);
    }
    for (size_t k = 0; k < count; k++) {
        size_t expected = cadre_chunk_layout_size(layout, k);
        size_t actual = cadre_chunk_size_bytes(chunks[k]);
        if (actual != expected) {
            return cadre_fail(CADRE_ESHAPE, "chunk %zu has %zu bytes instead of %zu", k, actual,
                              expected);
        }
    }
    return 0;
}

static bool
is_finite(cadre_dtype_t dtype, const cadre_chunk_t *chunk)
{
    return cadre_dtype_is_finite(dtype, cadre_chunk_data(chunk),
                                 cadre_chunk_size_bytes(chunk) / cadre_dtype_size(dtype));
}

/* Checks that the chunks fit the layout and hold neither infinity nor NaN. */
static int
check(const cadre_chunk_layout_t *layout, cadre_dtype_t dtype, cadre_chunk_t *const *chunks,
      size_t count)
{
    int status = check_sizes(layout, chunks, count);
    for (size_t k = 0; k < count && status == 0; k++) {
        if (!is_finite(dtype, chunks[k])) {
            status = cadre_fail(CADRE_ENOTFINITE, "chunk %zu holds an infinite number or NaN", k);
        }
    }
    return status;
}

int
cadre_partition_check_gradient_sizes(const cadre_partition_t *self, cadre_chunk_t *const *chunks,
                                     size_t count)
{
    return check_sizes(&self->wire_layout, chunks, count);
}

bool
cadre_partition_is_finite(const cadre_partition_t *self, const cadre_chunk_t *gradient)
{
    return is_finite(self->spec.wire, gradient);
}

int
cadre_partition_check(const cadre_partition_t *self, cadre_chunk_t *const *chunks, size_t count)
{
    return check(&self->layout, self->spec.dtype, chunks, count);
}

int
cadre_partition_check_gradient(const cadre_partition_t *self, cadre_chunk_t *const *chunks,
                               size_t count)
{
    return check(&self->wire_layout, self->spec.wire, chunks, count);
}

/* Returns how many elements chunk `k` has. */
static size_t
elements_of(const cadre_partition_t *self, size_t k)
{
    return cadre_chunk_layout_size(&self->layout, k) / cadre_dtype_size(self->spec.dtype);
}

/* Lets go what was made or kept of values that are no more: the copy in the wire dtype, and the
 * versions that were pulled. */
static void
forget_values(cadre_partition_t *self)
{
    self->wire_is_current = false;
    cadre_pulled_versions_clear(&self->pulled, self->layout.count, self->pool);
}

/* Copy on write: returns the chunk into which the next contents of `current` may be written. That
 * is `current` itself when nobody else holds it (no other thread can begin to: it has no reference
 * to copy), and else another chunk of the pool. */
static cadre_chunk_t *
target_for(cadre_partition_t *self, cadre_chunk_t *current)
{
    if (cadre_chunk_alone(current)) {
        return current;
    }
    return cadre_chunk_pool_take(self->pool, cadre_chunk_size_bytes(current));
}

/* Puts `target` in the place of the chunk that stands there, whose reference goes to the pool. */
static void
publish(cadre_partition_t *self, cadre_chunk_t **place, cadre_chunk_t *target)
{
    if (*place != target) {
        cadre_chunk_pool_put(self->pool, place);
        *place = target;
    }
}

/* Converts f32 values to the wire dtype. Infinity and NaN are converted as such; fails with
 * CADRE_ENOTFINITE for a finite number that would become infinite. */
static int
convert_values(cadre_dtype_t wire, const float *values, void *to, size_t count)
{
    if (cadre_dtype_traits(wire)->from_f32(values, to, count)) {
        return 0;
    }
    /* Not all results are finite: is one of a finite value? */
    size_t beyond = cadre_dtype_find_beyond(wire, values, count);
    if (beyond == count) {
        return 0;
    }
    return cadre_fail(CADRE_ENOTFINITE,
                      "value %g is beyond the largest %s, its wire dtype: create it with wire f32",
                      (double)values[beyond], cadre_dtype_text(wire));
}

bool
cadre_partition_has_average(const cadre_partition_t *self)
{
    return self->optimizer.spec.average_momentum > 0;
}

size_t
cadre_partition_slot_count(const cadre_partition_t *self)
{
    return self->optimizer.slot_count;
}

void
cadre_partition_pull_slot(const cadre_partition_t *self, size_t slot, cadre_chunk_t **chunks)
{
    cadre_assert(slot < self->optimizer.slot_count);
    for (size_t k = 0; k < self->layout.count; k++) {
        chunks[k] = cadre_chunk_ref(self->slots[slot][k]);
    }
}

/* Makes the copy of the values in the wire dtype, unless values travel in their own dtype or the
 * copy is of this version. */
int
cadre_partition_make_wire(cadre_partition_t *self)
{
    if (!is_converted(self) || self->wire_is_current) {
        return 0;
    }
    if (!self->wire_values) {
        self->wire_values = new_chunks(&self->wire_layout);
    }
    for (size_t k = 0; k < self->layout.count; k++) {
        cadre_chunk_t *target = target_for(self, self->wire_values[k]);
        int status = convert_values(self->spec.wire, cadre_chunk_data(self->values[k]),
                                    cadre_chunk_data(target), elements_of(self, k));
        publish(self, &self->wire_values[k], target); /* on failure too, or `target` leaks */
        if (status < 0) {
            return status;
        }
    }
    self->wire_is_current = true;
    return 0;
}

/* Keeps the values of this version, which a worker was sent or holds. */
void
cadre_partition_note_pulled(cadre_partition_t *self)
{
    if (self->optimizer.spec.delay_compensation > 0) {
        cadre_pulled_versions_keep(&self->pulled, self->version, self->values, self->layout.count,
                                   self->pool);
    }
}

cadre_chunk_t *const *
cadre_partition_pulled(const cadre_partition_t *self, uint64_t version)
{
    return cadre_pulled_versions_find(&self->pulled, version);
}

/* Gives references to the values as they travel. */
void
cadre_partition_pull_wire(const cadre_partition_t *self, cadre_chunk_t **chunks)
{
    if (!is_converted(self)) {
        cadre_partition_pull(self, chunks);
        return;
    }
    cadre_assert(self->wire_is_current);
    for (size_t k = 0; k < self->layout.count; k++) {
        chunks[k] = cadre_chunk_ref(self->wire_values[k]);
    }
}

uint64_t
cadre_partition_row_elements(const cadre_partition_t *self)
{
    return self->row_elements;
}

int
cadre_partition_average_slot(const cadre_partition_t *self)
{
    cadre_assert(cadre_partition_has_average(self));
    return (int)self->optimizer.slot_count - 1;
}

/* Returns where element `first` of the partition stands in `chunks`, and how many of the `count`
 * elements from there on stand in the same chunk. */
static const char *
piece_at(const cadre_partition_t *self, cadre_chunk_t *const *chunks, uint64_t first, size_t count,
         size_t *here)
{
    const size_t size = cadre_dtype_size(self->spec.dtype);
    const size_t stride = self->layout.stride_bytes / size;
    const size_t k = (size_t)(first / stride);
    const size_t at = (size_t)(first % stride);
    const size_t left = elements_of(self, k) - at;
    *here = count < left ? count : left;
    return (const char *)cadre_chunk_data(chunks[k]) + at * size;
}

/* Copies elements of values or of a slot, chunk by chunk. */
void
cadre_partition_copy(const cadre_partition_t *self, int slot, uint64_t first, size_t count,
                     void *to)
{
    const size_t size = cadre_dtype_size(self->spec.dtype);
    cadre_chunk_t *const *chunks = slot < 0 ? self->values : self->slots[slot];
    for (size_t done = 0, here = 0; done < count; done += here) {
        const char *from = piece_at(self, chunks, first + done, count - done, &here);
        memcpy((char *)to + done * size, from, here * size);
    }
}

/* Copies values in the wire dtype. They are converted here, element by element that is asked for:
 * the copy of a whole version (cadre_partition_make_wire) would cost more than a few rows. */
int
cadre_partition_copy_wire(const cadre_partition_t *self, uint64_t first, size_t count, void *to)
{
    if (!is_converted(self)) {
        cadre_partition_copy(self, -1, first, count, to);
        return 0;
    }
    const size_t size = cadre_dtype_size(self->spec.wire);
    for (size_t done = 0, here = 0; done < count; done += here) {
        const void *from = piece_at(self, self->values, first + done, count - done, &here);
        int status = convert_values(self->spec.wire, from, (char *)to + done * size, here);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Returns the `count` elements of a span from element `first` on, with `gradient` as their
 * gradient. */
static cadre_optimizer_span_t
block_of(const cadre_partition_t *self, const cadre_optimizer_span_t *whole, size_t first,
         size_t count, const void *gradient)
{
    const size_t size = cadre_dtype_size(self->spec.dtype);
    cadre_optimizer_span_t part = {
        .count = count,
        .gradient = gradient,
        .value_in = (const char *)whole->value_in + first * size,
        .value_out = (char *)whole->value_out + first * size,
    };
    for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
        part.slots_in[slot] = whole->slots_in[slot] + first;
        part.slots_out[slot] = whole->slots_out[slot] + first;
    }
    return part;
}

/* Writes `count` numbers of a gradient (term) of rows from element `at` of the piece on. */
static void
spread_rows(const cadre_partition_piece_t *piece, const cadre_gradient_term_t *term, size_t at,
            size_t count, void *numbers)
{
    const cadre_partition_t *self = piece->partition;
    const size_t stride = self->layout.stride_bytes / cadre_dtype_size(self->spec.dtype);
    const cadre_row_gradient_t rows = {.chunks = term->chunks, .count = term->rows};
    const cadre_row_cut_t cut = {.first_row = (uint64_t)self->spec.first_row,
                                 .elements = (size_t)self->row_elements,
                                 .stride = stride,
                                 .wire = self->spec.wire,
                                 .dtype = self->spec.dtype};
    const uint64_t first = (uint64_t)piece->chunk * stride + piece->first + at;
    cadre_row_gradient_spread(&rows, &cut, first, count, numbers);
}

/* Returns `count` numbers of a gradient (term) from element `at` of the piece on: as they came, or
 * in `numbers`, of rows with zeros between them, and as f32 where the wire dtype is not the
 * variable's. */
static const void *
term_gradient(const cadre_partition_piece_t *piece, size_t term, size_t at, size_t count,
              float *numbers)
{
    const cadre_partition_t *self = piece->partition;
    if (piece->gradient.terms[term].rows > 0) {
        spread_rows(piece, &piece->gradient.terms[term], at, count, numbers);
        return numbers;
    }
    const cadre_chunk_t *chunk = piece->gradient.terms[term].chunks[piece->chunk];
    const char *bytes = (const char *)cadre_chunk_data(chunk) +
                        (piece->first + at) * cadre_dtype_size(self->spec.wire);
    if (!is_converted(self)) {
        return bytes;
    }
    cadre_dtype_traits(self->spec.wire)->to_f32(bytes, numbers, count);
    return numbers;
}

/* Returns a gradient (term) of the piece with its delay compensated: `count` numbers at `gradient`,
 * or what has become of them in `numbers`, which may be the same place. */
static const void *
compensate(const cadre_partition_piece_t *piece, size_t term, size_t at,
           const cadre_optimizer_span_t *block, float *numbers)
{
    cadre_chunk_t *const *pulled = piece->gradient.terms[term].pulled;
    if (!pulled) {
        return block->gradient;
    }
    const float *values = cadre_chunk_data(pulled[piece->chunk]);
    const float lambda = (float)piece->partition->optimizer.spec.delay_compensation;
    cadre_kernel_compensate_f32(block->count, lambda, block->gradient, block->value_in,
                                values + piece->first + at, numbers);
    return numbers;
}

/* Returns the gradient that the optimizer sees: `count` numbers at `gradient`, or what clipping
 * leaves of them in `clipped`, which may be the same place. */
static const void *
clip(const cadre_partition_t *self, const void *gradient, size_t count, float *clipped)
{
    const float limit = (float)self->optimizer.spec.clip_value;
    if (limit == 0) {
        return gradient;
    }
    cadre_kernel_clip_f32(count, limit, gradient, clipped);
    return clipped;
}

/* Applies the gradients (terms) one after the other: for a single one, and for the optimizer `add`,
 * whose values may be integers and are not to be weighted. */
static void
apply_each(const cadre_partition_piece_t *piece, size_t at, size_t count)
{
    const cadre_partition_t *self = piece->partition;
    float numbers[BLOCK_COUNT];
    for (size_t term = 0; term < piece->gradient.count; term++) {
        const void *gradient = term_gradient(piece, term, at, count, numbers);
        cadre_optimizer_span_t block = block_of(self, &piece->span, at, count, gradient);
        /* The first changes the values as they were, each further one what those before have
         * made. */
        block.value_in = term == 0 ? block.value_in : block.value_out;
        block.gradient = compensate(piece, term, at, &block, numbers);
        block.gradient = clip(self, block.gradient, count, numbers);
        cadre_optimizer_apply(&self->optimizer, self->steps + 1, &block);
    }
}

/* Applies the weighted sum of the gradients (terms); the sum of a block stays in the L1 cache. */
static void
apply_sum(const cadre_partition_piece_t *piece, size_t at, size_t count)
{
    const cadre_partition_t *self = piece->partition;
    float numbers[BLOCK_COUNT];
    float sum[BLOCK_COUNT];
    for (size_t term = 0; term < piece->gradient.count; term++) {
        const void *gradient = term_gradient(piece, term, at, count, numbers);
        const float weight = piece->gradient.terms[term].weight;
        if (term == 0) {
            cadre_kernel_scale_f32(count, weight, gradient, sum);
        } else {
            cadre_kernel_add_scaled_f32(count, weight, gradient, sum);
        }
    }
    const void *gradient = clip(self, sum, count, sum);
    const cadre_optimizer_span_t block = block_of(self, &piece->span, at, count, gradient);
    cadre_optimizer_apply(&self->optimizer, self->steps + 1, &block);
}

/* Updates the values and the optimizer's own slots: in one go where the gradient can be used as it
 * came, else by blocks, each of which is converted, filled with zeros between its rows, summed,
 * compensated or clipped first. */
static void
apply_piece(const cadre_partition_piece_t *piece)
{
    const cadre_partition_t *self = piece->partition;
    const bool is_plain = piece->gradient.count == 1 && piece->gradient.terms[0].weight == 1;
    const bool is_as_it_came = self->optimizer.spec.clip_value == 0 &&
                               piece->gradient.terms[0].rows == 0 &&
                               !piece->gradient.terms[0].pulled;
    if (is_plain && !is_converted(self) && is_as_it_came) {
        cadre_optimizer_span_t span = piece->span;
        span.gradient = term_gradient(piece, 0, 0, span.count, NULL);
        cadre_optimizer_apply(&self->optimizer, self->steps + 1, &span);
        return;
    }
    const bool is_sum = !is_plain && self->optimizer.spec.kind != CADRE_OPTIMIZER_ADD;
    /* Numbers of eight bytes, which are added as they came, take twice the room of f32. */
    const size_t block = BLOCK_COUNT * sizeof(float) / cadre_dtype_size(self->spec.dtype);
    for (size_t at = 0; at < piece->span.count; at += block) {
        size_t left = piece->span.count - at;
        size_t count = left < block ? left : block;
        if (is_sum) {
            apply_sum(piece, at, count);
        } else {
            apply_each(piece, at, count);
        }
    }
}

/* Applies a piece, and moves the running average by it. */
void
cadre_partition_apply_piece(const cadre_partition_piece_t *piece)
{
    const cadre_partition_t *self = piece->partition;
    apply_piece(piece);
    cadre_optimizer_average(&self->optimizer, self->steps + 1, &piece->span);
}

/* Returns into how many pieces a chunk of so many elements is cut for an update. */
static size_t
pieces_of(size_t elements)
{
    return (elements + CADRE_PARTITION_PIECE_COUNT - 1) / CADRE_PARTITION_PIECE_COUNT;
}

size_t
cadre_partition_piece_count(const cadre_partition_t *self)
{
    size_t count = 0;
    for (size_t k = 0; k < self->layout.count; k++) {
        count += pieces_of(elements_of(self, k));
    }
    return count;
}

/* Makes room for the next contents of chunk `k`; returns the whole chunk as one span. */
static cadre_optimizer_span_t
begin_chunk(cadre_partition_t *self, size_t k)
{
    const size_t chunks = self->layout.count;
    self->next[k] = target_for(self, self->values[k]);
    cadre_optimizer_span_t span = {
        .count = elements_of(self, k),
        .value_in = cadre_chunk_data(self->values[k]),
        .value_out = cadre_chunk_data(self->next[k]),
    };
    for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
        cadre_chunk_t **next = &self->next[(1 + slot) * chunks + k];
        *next = target_for(self, self->slots[slot][k]);
        span.slots_in[slot] = cadre_chunk_data(self->slots[slot][k]);
        span.slots_out[slot] = cadre_chunk_data(*next);
    }
    return span;
}

/* Begins an update: finds for each chunk where its next contents go, and cuts the work into pieces,
 * which may then be applied on any threads. */
void
cadre_partition_begin_apply(cadre_partition_t *self, const cadre_gradient_sum_t *gradient,
                            cadre_partition_piece_t *pieces)
{
    cadre_assert(!self->next);
    self->next = cadre_calloc((1 + self->optimizer.slot_count) * self->layout.count,
                              sizeof(cadre_chunk_t *));
    size_t at = 0;
    for (size_t k = 0; k < self->layout.count; k++) {
        cadre_assert(gradient->terms[0].rows > 0 ||
                     cadre_chunk_size_bytes(gradient->terms[0].chunks[k]) ==
                         cadre_chunk_layout_size(&self->wire_layout, k));
        cadre_optimizer_span_t whole = begin_chunk(self, k);
        for (size_t first = 0; first < whole.count; first += CADRE_PARTITION_PIECE_COUNT) {
            size_t left = whole.count - first;
            size_t count = left < CADRE_PARTITION_PIECE_COUNT ? left : CADRE_PARTITION_PIECE_COUNT;
            pieces[at++] =
                (cadre_partition_piece_t){.partition = self,
                                          .gradient = *gradient,
                                          .chunk = k,
                                          .first = first,
                                          .span = block_of(self, &whole, first, count, NULL)};
        }
    }
}

/* Ends an update whose pieces were all applied: puts the new chunks in the place of the old ones,
 * and counts one step and one version. */
void
cadre_partition_end_apply(cadre_partition_t *self)
{
    const size_t chunks = self->layout.count;
    for (size_t k = 0; k < chunks; k++) {
        publish(self, &self->values[k], self->next[k]);
        for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
            publish(self, &self->slots[slot][k], self->next[(1 + slot) * chunks + k]);
        }
    }
    cadre_free(&self->next);
    self->steps++;
    self->version++;
    self->wire_is_current = false;
}

/* Applies one gradient on the calling thread: begins, applies every piece, ends. */
void
cadre_partition_apply(cadre_partition_t *self, cadre_chunk_t *const *chunks)
{
    size_t count = cadre_partition_piece_count(self);
    cadre_auto(cadre_free) cadre_partition_piece_t *pieces = cadre_calloc(count, sizeof(*pieces));
    const cadre_gradient_term_t term = {.chunks = chunks, .weight = 1};
    cadre_partition_begin_apply(self, &(cadre_gradient_sum_t){&term, 1}, pieces);
    for (size_t i = 0; i < count; i++) {
        cadre_partition_apply_piece(&pieces[i]);
    }
    cadre_partition_end_apply(self);
}

/* Assigns values by mode (assignment.h). The optimizer and its slots are not involved, so
 * this counts as a version and not as a step. */
void
cadre_partition_assign(cadre_partition_t *self, cadre_assign_mode_t mode,
                       cadre_chunk_t *const *chunks)
{
    for (size_t k = 0; k < self->layout.count; k++) {
        const size_t size_bytes = cadre_chunk_layout_size(&self->layout, k);
        cadre_assert(cadre_chunk_size_bytes(chunks[k]) == size_bytes);
        cadre_chunk_t *target = target_for(self, self->values[k]);
        cadre_assignment_apply(mode, self->spec.dtype, cadre_chunk_data(chunks[k]),
                               cadre_chunk_data(self->values[k]), cadre_chunk_data(target),
                               size_bytes / cadre_dtype_size(self->spec.dtype));
        publish(self, &self->values[k], target);
    }
    self->version++;
    forget_values(self);
}

/* Returns the bytes of a chunk of values or slots for some of its elements to be written. Where
 * somebody else holds it, a copy takes its place first. */
static char *
writable(cadre_partition_t *self, cadre_chunk_t **place)
{
    cadre_chunk_t *target = target_for(self, *place);
    if (target != *place) {
        memcpy(cadre_chunk_data(target), cadre_chunk_data(*place), cadre_chunk_size_bytes(target));
    }
    publish(self, place, target);
    return cadre_chunk_data(target);
}

void
cadre_partition_apply_elements(cadre_partition_t *self, uint64_t first, size_t count,
                               const void *gradient)
{
    const size_t size = cadre_dtype_size(self->spec.dtype);
    const size_t stride = self->layout.stride_bytes / size;
    float clipped[BLOCK_COUNT];
    for (size_t done = 0, here = 0; done < count; done += here) {
        const size_t k = (size_t)((first + done) / stride);
        const size_t at = (size_t)((first + done) % stride);
        here = count - done < stride - at ? count - done : stride - at;
        here = here < BLOCK_COUNT ? here : BLOCK_COUNT;
        char *values = writable(self, &self->values[k]) + at * size;
        cadre_optimizer_span_t span = {
            .count = here,
            .gradient = clip(self, (const char *)gradient + done * size, here, clipped),
            .value_in = values,
            .value_out = values};
        for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
            span.slots_out[slot] = (float *)(void *)writable(self, &self->slots[slot][k]) + at;
            span.slots_in[slot] = span.slots_out[slot];
        }
        cadre_optimizer_apply(&self->optimizer, self->steps + 1, &span);
    }
}

void
cadre_partition_end_elements(cadre_partition_t *self)
{
    self->steps++;
    self->version++;
    self->wire_is_current = false;
}

/* Assigns `count` elements at `from` to those of the partition from element `first` on. */
static void
assign_elements(cadre_partition_t *self, cadre_assign_mode_t mode, uint64_t first, size_t count,
                const char *from)
{
    const size_t size = cadre_dtype_size(self->spec.dtype);
    const size_t stride = self->layout.stride_bytes / size;
    for (size_t done = 0, here = 0; done < count; done += here) {
        const size_t at = (size_t)((first + done) % stride);
        char *to = writable(self, &self->values[(first + done) / stride]) + at * size;
        here = count - done < stride - at ? count - done : stride - at;
        cadre_assignment_apply(mode, self->spec.dtype, from + done * size, to, to, here);
    }
}

/* Assigns to rows by mode. A row larger than a chunk comes in several. */
void
cadre_partition_assign_rows(cadre_partition_t *self, cadre_assign_mode_t mode,
                            const cadre_part_rows_t *rows, cadre_chunk_t *const *chunks)
{
    const size_t size = cadre_dtype_size(self->spec.dtype);
    const size_t row_elements = (size_t)self->row_elements;
    size_t k = 0;
    size_t at = 0; /* elements of chunks[k] that are done */
    for (size_t i = 0; i < rows->count; i++) {
        const uint64_t row = cadre_part_rows_at(rows, i) - (uint64_t)self->spec.first_row;
        for (size_t done = 0, here = 0; done < row_elements; done += here) {
            const size_t left = cadre_chunk_size_bytes(chunks[k]) / size - at;
            const char *from = (const char *)cadre_chunk_data(chunks[k]) + at * size;
            here = row_elements - done < left ? row_elements - done : left;
            assign_elements(self, mode, row * row_elements + done, here, from);
            k += here == left ? 1 : 0;
            at = here == left ? 0 : at + here;
        }
    }
    self->version++;
    forget_values(self);
}

static cadre_chunk_t **
new_references(cadre_chunk_t *const *chunks, size_t count)
{
    cadre_chunk_t **references = cadre_calloc(count, sizeof(cadre_chunk_t *));
    for (size_t k = 0; k < count; k++) {
        references[k] = cadre_chunk_ref(chunks[k]);
    }
    return references;
}

/* Returns a copy of the partition that shares its chunks; whichever of both changes first writes
 * its own. */
cadre_partition_t *
cadre_partition_fork(const cadre_partition_t *self)
{
    cadre_partition_t *fork = cadre_calloc(1, sizeof(*fork));
    *fork = *self;
    /* A fork needs no values in the wire dtype, nor versions: workers do not pull from it. */
    fork->wire_values = NULL;
    fork->wire_is_current = false;
    fork->pulled = (cadre_pulled_versions_t){.count = 0};
    fork->values = new_references(self->values, self->layout.count);
    for (size_t slot = 0; slot < self->optimizer.slot_count; slot++) {
        fork->slots[slot] = new_references(self->slots[slot], self->layout.count);
    }
    return fork;
}

/* Takes references to values and slots as they are now. */
void
cadre_partition_snapshot(const cadre_partition_t *self, cadre_partition_snapshot_t *out)
{
    *out = (cadre_partition_snapshot_t){
        .version = self->version,
        .steps = self->steps,
        .chunk_count = self->layout.count,
        .slot_count = self->optimizer.slot_count,
        .values = new_references(self->values, self->layout.count),
    };
    for (size_t slot = 0; slot < out->slot_count; slot++) {
        out->slots[slot] = new_references(self->slots[slot], self->layout.count);
    }
}

void
cadre_partition_snapshot_fini(cadre_partition_snapshot_t *snapshot)
{
    drop_chunks(&snapshot->values, snapshot->chunk_count);
    for (size_t slot = 0; slot < snapshot->slot_count; slot++) {
        drop_chunks(&snapshot->slots[slot], snapshot->chunk_count);
    }
    *snapshot = (cadre_partition_snapshot_t){0};
}

void
cadre_partition_restore_counts(cadre_partition_t *self, uint64_t version, uint64_t steps)
{
    self->version = version;
    self->steps = steps;
    forget_values(self);
}
