/* Gradients of rows of partitions of many blocks, pieces and chunks, applied as ones of the whole
 * partition that are zero elsewhere: the bits are those of the whole. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "ps/core/row_update.h"
#include "ps/core/update.h"
#include "ps/lane_pool.h"

TestSuite(row_spread, .timeout = 240);

enum { FIRST = 1000, STEPS = 3 };

/* A partition, and a gradient of some of its rows: as these, and as the whole. */
typedef struct {
    int64_t rows;
    int64_t columns;
    cadre_dtype_t dtype;
    cadre_dtype_t wire;
    const char *optimizer;
    uint64_t one_in; /* rows have a gradient */
} kind_t;

typedef struct {
    cadre_chunk_t **chunks; /* of ids, then of rows */
    size_t chunk_count;
    size_t count;
    cadre_chunk_t **whole;
    size_t whole_count;
} gradient_t;

static cadre_partition_t *
open_partition(const kind_t *kind, cadre_chunk_pool_t *pool)
{
    cadre_partition_t *partition = NULL;
    cadre_partition_spec_t spec = {.variable = 1,
                                   .dtype = kind->dtype,
                                   .wire = kind->wire,
                                   .rank = 2,
                                   .shape = {FIRST + kind->rows, kind->columns},
                                   .first_row = FIRST,
                                   .rows = kind->rows};
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "zeros"), 0);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, kind->optimizer), 0);
    cr_assert_eq(cadre_partition_open(&partition, &spec, pool), 0, "%s", cadre_error_text());
    return partition;
}

/* Cuts `size_bytes` bytes into chunks, which it puts behind the `*count` that are there. */
static void
add_chunks(cadre_chunk_t **chunks, size_t *count, const char *bytes, size_t size_bytes,
           size_t stride)
{
    for (size_t at = 0; at < size_bytes; at += stride) {
        const size_t left = size_bytes - at;
        chunks[(*count)++] = cadre_chunk_new_copy(bytes + at, left < stride ? left : stride);
    }
}

static gradient_t
make_gradient(const kind_t *kind, const cadre_partition_t *partition, cadre_random_t *random)
{
    enum { CHUNKS_MAX = 64 };
    const size_t size = cadre_dtype_size(kind->wire);
    const size_t row_size = (size_t)kind->columns * size;
    const size_t stride = cadre_partition_wire_layout(partition)->stride_bytes;
    gradient_t self = {.chunks = cadre_calloc(CHUNKS_MAX, sizeof(cadre_chunk_t *)),
                       .whole = cadre_calloc(CHUNKS_MAX, sizeof(cadre_chunk_t *))};
    cadre_auto(cadre_free) uint64_t *ids = cadre_calloc((size_t)kind->rows, sizeof(*ids));
    cadre_auto(cadre_free) char *rows = cadre_calloc((size_t)kind->rows, row_size);
    cadre_auto(cadre_free) char *whole = cadre_calloc((size_t)kind->rows, row_size);
    for (uint64_t row = 0; row < (uint64_t)kind->rows; row++) {
        if (cadre_random_below(random, kind->one_in) != 0 && row + 1 < (uint64_t)kind->rows) {
            continue;
        }
        char *bytes = rows + self.count * row_size;
        for (size_t i = 0; i < (size_t)kind->columns; i++) {
            const double number = (double)cadre_random_below(random, 2000) / 512 - 2;
            const float rounded = (float)number;
            if (kind->wire == CADRE_F64) {
                memcpy(bytes + i * size, &number, size);
            } else if (kind->wire == CADRE_F32) {
                memcpy(bytes + i * size, &rounded, size);
            } else {
                cr_assert(cadre_dtype_traits(kind->wire)->from_f32(&rounded, bytes + i * size, 1));
            }
        }
        memcpy(whole + row * row_size, bytes, row_size);
        ids[self.count++] = FIRST + row;
    }
    add_chunks(self.chunks, &self.chunk_count, (const char *)ids, self.count * sizeof(*ids),
               CADRE_CHUNK_SIZE_MAX);
    add_chunks(self.chunks, &self.chunk_count, rows, self.count * row_size, stride);
    add_chunks(self.whole, &self.whole_count, whole, (size_t)kind->rows * row_size, stride);
    cr_assert_leq(self.chunk_count, CHUNKS_MAX);
    cr_assert_leq(self.whole_count, CHUNKS_MAX);
    return self;
}

static void
drop_gradient(gradient_t *self)
{
    for (size_t i = 0; i < self->chunk_count; i++) {
        cadre_chunk_unref(&self->chunks[i]);
    }
    for (size_t i = 0; i < self->whole_count; i++) {
        cadre_chunk_unref(&self->whole[i]);
    }
    free(self->chunks);
    free(self->whole);
}

static void
expect_same(const cadre_partition_t *left, const cadre_partition_t *right)
{
    cadre_partition_snapshot_t a;
    cadre_partition_snapshot_t b;
    cadre_partition_snapshot(left, &a);
    cadre_partition_snapshot(right, &b);
    cr_assert(a.version == b.version && a.steps == b.steps);
    for (size_t k = 0; k < a.chunk_count; k++) {
        const size_t size_bytes = cadre_chunk_size_bytes(a.values[k]);
        cr_assert(
            memcmp(cadre_chunk_data(a.values[k]), cadre_chunk_data(b.values[k]), size_bytes) == 0,
            "chunk %zu", k);
        for (size_t slot = 0; slot < a.slot_count; slot++) {
            cr_assert(memcmp(cadre_chunk_data(a.slots[slot][k]), cadre_chunk_data(b.slots[slot][k]),
                             size_bytes) == 0,
                      "slot %zu, chunk %zu", slot, k);
        }
    }
    cadre_partition_snapshot_fini(&a);
    cadre_partition_snapshot_fini(&b);
}

/* Every second step the old values are held, so that the update goes into other chunks. */
static void
compare(const kind_t *kind)
{
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    cadre_lane_pool_t *lane_pool = NULL;
    cr_assert_eq(cadre_lane_pool_open(3, &lane_pool), 0);
    const cadre_lanes_t lanes = cadre_lane_pool_lanes(lane_pool);
    cadre_partition_t *left = open_partition(kind, pool);
    cadre_partition_t *right = open_partition(kind, pool);
    cadre_update_t update = {.count = 0};
    cadre_random_t random;
    cadre_random_init(&random, 7, (uint64_t)kind->columns);
    for (int step = 0; step < STEPS; step++) {
        gradient_t gradient = make_gradient(kind, left, &random);
        const cadre_row_gradient_t rows = {gradient.chunks, gradient.count};
        cadre_partition_snapshot_t held = {.chunk_count = 0};
        if (step % 2 == 1) {
            cadre_partition_snapshot(left, &held);
        }
        cr_assert_eq(cadre_row_update_check(left, &rows), 0, "%s", cadre_error_text());
        cadre_update_clear(&update);
        cadre_update_add_rows(&update, left, &rows);
        cadre_update_apply(&update, &lanes);
        cadre_partition_apply(right, gradient.whole);
        expect_same(left, right);
        cadre_partition_snapshot_fini(&held);
        drop_gradient(&gradient);
    }
    cadre_update_fini(&update);
    cadre_partition_close(&left);
    cadre_partition_close(&right);
    cadre_lane_pool_destroy(&lane_pool);
    cadre_chunk_pool_destroy(&pool);
}

Test(row_spread, has_the_bits_of_the_whole_over_pieces_and_chunks)
{
    compare(&(kind_t){3000, 301, CADRE_F32, CADRE_F32, "adam", 15});
    compare(&(kind_t){3000, 301, CADRE_F32, CADRE_BF16, "momentum", 15});
    compare(&(kind_t){3000, 301, CADRE_F64, CADRE_F64, "add", 3});
}

Test(row_spread, takes_rows_larger_than_a_chunk)
{
    compare(&(kind_t){5, 300000, CADRE_F32, CADRE_F32, "adam", 2});
    compare(&(kind_t){5, 300000, CADRE_F32, CADRE_BF16, "adam", 2});
}

Test(row_spread, takes_ids_of_several_chunks)
{
    compare(&(kind_t){400000, 1, CADRE_F32, CADRE_F32, "adam", 2});
}
