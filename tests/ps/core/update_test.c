/* update_test - the lanes decide nothing: values, slots and refusals are those of one thread. */
#include "ps/core/update.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"
#include "ps/lane_pool.h"

TestSuite(update, .timeout = 240);

enum { PARTS = 3, ROWS = 300, COLUMNS = 1000 };

/* The partitions of one shard, and a gradient for each. */
typedef struct {
    cadre_chunk_pool_t *pool;
    cadre_partition_t *partitions[PARTS];
    cadre_chunk_t **gradients[PARTS];
    cadre_update_t update;
} side_t;

static void
side_open(side_t *self, const char *optimizer, cadre_dtype_t dtype, cadre_dtype_t wire)
{
    *self = (side_t){.pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX)};
    for (int i = 0; i < PARTS; i++) {
        cadre_partition_spec_t spec = {.variable = (uint64_t)i + 1,
                                       .dtype = dtype,
                                       .wire = wire,
                                       .rank = 2,
                                       .shape = {i == 1 ? 1 : ROWS, COLUMNS},
                                       .rows = i == 1 ? 1 : ROWS};
        cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "zeros"), 0);
        cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizer), 0);
        cr_assert_eq(cadre_partition_open(&self->partitions[i], &spec, self->pool), 0, "%s",
                     cadre_error_text());
        const cadre_chunk_layout_t *layout = cadre_partition_wire_layout(self->partitions[i]);
        self->gradients[i] = cadre_calloc(layout->count, sizeof(cadre_chunk_t *));
        for (size_t k = 0; k < layout->count; k++) {
            self->gradients[i][k] = cadre_chunk_new(cadre_chunk_layout_size(layout, k));
        }
    }
}

static void
side_close(side_t *self)
{
    for (int i = 0; i < PARTS; i++) {
        const cadre_chunk_layout_t *layout = cadre_partition_wire_layout(self->partitions[i]);
        for (size_t k = 0; k < layout->count; k++) {
            cadre_chunk_unref(&self->gradients[i][k]);
        }
        free(self->gradients[i]);
        cadre_partition_close(&self->partitions[i]);
    }
    cadre_update_fini(&self->update);
    cadre_chunk_pool_destroy(&self->pool);
}

/* Numbers that differ from element to element and from step to step, in the wire dtype. */
static void
side_fill(side_t *self, int step)
{
    uint64_t number = (uint64_t)step;
    for (int i = 0; i < PARTS; i++) {
        const cadre_chunk_layout_t *layout = cadre_partition_wire_layout(self->partitions[i]);
        cadre_dtype_t wire = cadre_partition_spec(self->partitions[i])->wire;
        for (size_t k = 0; k < layout->count; k++) {
            void *bytes = cadre_chunk_data(self->gradients[i][k]);
            size_t count = cadre_chunk_layout_size(layout, k) / cadre_dtype_size(wire);
            for (size_t e = 0; e < count; e++) {
                number = number * UINT64_C(6364136223846793005) + 1442695040888963407U;
                float value = (float)(int32_t)(number >> 32) * 0x1p-31F;
                if (wire == CADRE_F64) {
                    ((double *)bytes)[e] = (double)value;
                } else if (wire == CADRE_BF16) {
                    cadre_bf16_from_f32(&value, (uint16_t *)bytes + e, 1);
                } else {
                    ((float *)bytes)[e] = value;
                }
            }
        }
    }
}

static int
side_push(side_t *self, const cadre_lanes_t *lanes, size_t *bad)
{
    cadre_update_clear(&self->update);
    for (int i = 0; i < PARTS; i++) {
        cadre_update_add(&self->update, self->partitions[i], self->gradients[i]);
    }
    int status = cadre_update_check(&self->update, lanes, bad);
    if (status == 0) {
        cadre_update_apply(&self->update, lanes);
    }
    return status;
}

static void
expect_same(const side_t *left, const side_t *right)
{
    for (int i = 0; i < PARTS; i++) {
        cadre_partition_snapshot_t a;
        cadre_partition_snapshot_t b;
        cadre_partition_snapshot(left->partitions[i], &a);
        cadre_partition_snapshot(right->partitions[i], &b);
        cr_assert(a.version == b.version && a.steps == b.steps);
        for (size_t k = 0; k < a.chunk_count; k++) {
            size_t size_bytes = cadre_chunk_size_bytes(a.values[k]);
            cr_assert(memcmp(cadre_chunk_data(a.values[k]), cadre_chunk_data(b.values[k]),
                             size_bytes) == 0,
                      "part %d, chunk %zu", i, k);
            for (size_t slot = 0; slot < a.slot_count; slot++) {
                cr_assert(memcmp(cadre_chunk_data(a.slots[slot][k]),
                                 cadre_chunk_data(b.slots[slot][k]), size_bytes) == 0,
                          "part %d, slot %zu, chunk %zu", i, slot, k);
            }
        }
        cadre_partition_snapshot_fini(&a);
        cadre_partition_snapshot_fini(&b);
    }
}

static void
compare(const char *optimizer, cadre_dtype_t dtype, cadre_dtype_t wire)
{
    enum { STEPS = 5 };
    static const cadre_lanes_t alone = {.run = NULL};
    cadre_lane_pool_t *pool = NULL;
    side_t one;
    side_t many;
    size_t bad = 0;
    cr_assert_eq(cadre_lane_pool_open(4, &pool), 0);
    cadre_lanes_t lanes = cadre_lane_pool_lanes(pool);
    side_open(&one, optimizer, dtype, wire);
    side_open(&many, optimizer, dtype, wire);
    for (int step = 1; step <= STEPS; step++) {
        cadre_partition_snapshot_t held; /* so that every second step copies */
        cadre_partition_snapshot(many.partitions[0], &held);
        if (step % 2 == 0) {
            cadre_partition_snapshot_fini(&held);
        }
        side_fill(&one, step);
        side_fill(&many, step);
        cr_assert_eq(side_push(&one, &alone, &bad), 0, "%s", cadre_error_text());
        cr_assert_eq(side_push(&many, &lanes, &bad), 0, "%s", cadre_error_text());
        if (step % 2 == 1) {
            cadre_partition_snapshot_fini(&held);
        }
    }
    expect_same(&one, &many);
    side_close(&one);
    side_close(&many);
    cadre_lane_pool_destroy(&pool);
}

Test(update, is_the_same_bit_by_bit_on_one_lane_and_on_four)
{
    compare("adam", CADRE_F32, CADRE_F32);
    compare("rmsprop", CADRE_F32, CADRE_BF16);
    compare("ftrl", CADRE_F32, CADRE_F32);
    compare("add", CADRE_F64, CADRE_F64);
}

Test(update, names_the_first_number_that_is_not_finite_and_changes_nothing)
{
    cadre_lane_pool_t *pool = NULL;
    side_t side;
    side_t untouched;
    size_t bad = 99;
    cr_assert_eq(cadre_lane_pool_open(4, &pool), 0);
    cadre_lanes_t lanes = cadre_lane_pool_lanes(pool);
    side_open(&side, "adam", CADRE_F32, CADRE_F32);
    side_open(&untouched, "adam", CADRE_F32, CADRE_F32);
    side_fill(&side, 1);
    ((float *)cadre_chunk_data(side.gradients[2][1]))[7] = NAN;
    ((float *)cadre_chunk_data(side.gradients[2][0]))[9] = INFINITY;
    cr_assert_eq(side_push(&side, &lanes, &bad), CADRE_ENOTFINITE);
    cr_assert_eq(bad, 2);
    cr_assert_str_eq(cadre_error_text(), "chunk 0 holds an infinite number or NaN");
    expect_same(&side, &untouched);
    side_close(&side);
    side_close(&untouched);
    cadre_lane_pool_destroy(&pool);
}
