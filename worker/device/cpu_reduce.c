/*
 * cpu_reduce - sum, mean, max and argmax over neighbouring axes, seen as [outer, size, inner].
 *
 * With inner = 1 the elements of a sum are contiguous in memory, and are summed as in cpu_sum.h.
 * Else rows of `inner` elements are added to each other, a block of rows at a time, and the blocks'
 * sums in double. A single sum (outer = inner = 1) is cut into stretches for several threads; how
 * many depends on its length alone, so that every run adds in the same order.
 */
#include "common/base/assert.h"
#include "worker/device/cpu.h"
#include "worker/device/cpu_sum.h"
#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

enum {
    ROWS = 64,       /* rows that are added to each other before they are added to the total */
    COLUMNS = 256,   /* columns that are summed together (a tile) */
    STRETCHES = 64,  /* of a single sum, at most */
    STRETCH = 32768, /* least elements of a stretch of a long row: a multiple of CADRE_SUM_BLOCK */
};

typedef struct {
    int64_t outer;
    int64_t size;
    int64_t inner;
    int64_t tiles; /* how many times COLUMNS columns `inner` has */
    const cadre_real_t *x;
    cadre_real_t *out;
    double divisor; /* of sums: 1, or for the mean the size */
} reduction_t;

/* ---- sums ---- */

/* Sums contiguous rows begin..end, one number each. */
CADRE_VECTOR static void
sum_rows(const void *context, int64_t begin, int64_t end)
{
    const reduction_t *self = context;
    for (int64_t o = begin; o < end; o++) {
        self->out[o] =
            (cadre_real_t)(cadre_sum_row(self->x + o * self->size, self->size) / self->divisor);
    }
}

typedef struct {
    const reduction_t *reduction;
    int64_t stretch; /* elements of each stretch but the last */
    double *totals;
} single_t;

/* Sums stretches begin..end of a single long row. */
CADRE_VECTOR static void
sum_stretches(const void *context, int64_t begin, int64_t end)
{
    const single_t *self = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * self->stretch;
        int64_t left = self->reduction->size - first;
        self->totals[i] =
            cadre_sum_row(self->reduction->x + first, left < self->stretch ? left : self->stretch);
    }
}

/* Sums a single long row in stretches on several threads, and adds the stretches' totals in
 * order. */
static void
sum_single(const reduction_t *self, cadre_cpu_pool_t *pool)
{
    double totals[STRETCHES] = {0};
    int64_t least = (self->size + STRETCHES - 1) / STRETCHES;
    int64_t stretch = (least + STRETCH - 1) / STRETCH * STRETCH;
    single_t single = {.reduction = self, .stretch = stretch, .totals = totals};
    int64_t count = (self->size + stretch - 1) / stretch;
    cadre_cpu_pool_run(pool, count, CADRE_CPU_PART_COST / STRETCH, sum_stretches, &single);
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        total += totals[i];
    }
    self->out[0] = (cadre_real_t)(total / self->divisor);
}

/* Sums `count` columns of one [size, inner] matrix, the first at `x`, into `out`. */
CADRE_INLINED void
sum_tile(const reduction_t *self, const cadre_real_t *x, cadre_real_t *out, int64_t count)
{
    double totals[COLUMNS] = {0};
    for (int64_t s = 0; s < self->size; s += ROWS) {
        cadre_real_t block[COLUMNS] = {0};
        int64_t rows = self->size - s < ROWS ? self->size - s : ROWS;
        for (int64_t r = 0; r < rows; r++) {
            const cadre_real_t *row = x + (s + r) * self->inner;
            for (int64_t i = 0; i < count; i++) {
                block[i] += row[i];
            }
        }
        for (int64_t i = 0; i < count; i++) {
            totals[i] += block[i];
        }
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = (cadre_real_t)(totals[i] / self->divisor);
    }
}

/* Sums tiles begin..end: a tile is COLUMNS neighbouring columns of one [size, inner] matrix. */
CADRE_VECTOR static void
sum_tiles(const void *context, int64_t begin, int64_t end)
{
    const reduction_t *self = context;
    for (int64_t at = begin; at < end; at++) {
        int64_t outer = at / self->tiles;
        int64_t first = at % self->tiles * COLUMNS;
        int64_t left = self->inner - first;
        sum_tile(self, self->x + outer * self->size * self->inner + first,
                 self->out + outer * self->inner + first, left < COLUMNS ? left : COLUMNS);
    }
}

/* Sums [outer, size, inner] over `size`, in the way that keeps the inner loop long. */
static void
sum(const reduction_t *self, cadre_cpu_pool_t *pool)
{
    if (self->outer * self->inner == 0) {
        return;
    }
    if (self->inner == 1 && self->outer == 1) {
        sum_single(self, pool);
    } else if (self->inner == 1) {
        cadre_cpu_pool_run(pool, self->outer, CADRE_CPU_PART_COST / (self->size + 1), sum_rows,
                           self);
    } else {
        cadre_cpu_pool_run(pool, self->outer * self->tiles,
                           CADRE_CPU_PART_COST / COLUMNS / (self->size + 1), sum_tiles, self);
    }
}

/* ---- max and argmax ---- */

/* Finds the largest element of contiguous rows begin..end. */
CADRE_VECTOR static void
largest_of_rows(const void *context, int64_t begin, int64_t end)
{
    const reduction_t *self = context;
    for (int64_t o = begin; o < end; o++) {
        self->out[o] = cadre_largest(self->x + o * self->size, self->size);
    }
}

/* Finds the largest element of each column of matrices begin..end, one row after the other, so that
 * neighbouring columns are compared together. */
CADRE_VECTOR static void
largest_of_columns(const void *context, int64_t begin, int64_t end)
{
    const reduction_t *self = context;
    for (int64_t o = begin; o < end; o++) {
        cadre_real_t *row = self->out + o * self->inner;
        const cadre_real_t *rows = self->x + o * self->size * self->inner;
        for (int64_t i = 0; i < self->inner; i++) {
            row[i] = rows[i];
        }
        for (int64_t s = 1; s < self->size; s++) {
            const cadre_real_t *next = rows + s * self->inner;
            CADRE_INDEPENDENT
            for (int64_t i = 0; i < self->inner; i++) {
                row[i] = cadre_element_max(row[i], next[i]);
            }
        }
    }
}

/* Finds the largest of [outer, size, inner] over `size`; NaN where one is NaN. */
static void
largest(const reduction_t *self, cadre_cpu_pool_t *pool)
{
    cadre_cpu_pool_run(pool, self->outer, CADRE_CPU_PART_COST / (self->size * self->inner + 1),
                       self->inner == 1 ? largest_of_rows : largest_of_columns, self);
}

/* Finds the position of the largest element of each contiguous row: first the largest, by lanes
 * that the compiler vectorises, then its first position. */
CADRE_VECTOR static void
place_in_rows(const reduction_t *self, int32_t *out)
{
    for (int64_t o = 0; o < self->outer; o++) {
        const cadre_real_t *x = self->x + o * self->size;
        cadre_real_t lanes[CADRE_SUM_LANES];
        for (int k = 0; k < CADRE_SUM_LANES; k++) {
            lanes[k] = x[0];
        }
        int64_t i = 0;
        for (; i + CADRE_SUM_LANES <= self->size; i += CADRE_SUM_LANES) {
            for (int k = 0; k < CADRE_SUM_LANES; k++) {
                lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
            }
        }
        for (int k = 0; i < self->size; i++, k++) {
            lanes[k] = x[i] > lanes[k] ? x[i] : lanes[k];
        }
        cadre_real_t max = lanes[0];
        for (int k = 1; k < CADRE_SUM_LANES; k++) {
            max = lanes[k] > max ? lanes[k] : max;
        }
        int64_t best = 0;
        while (x[0] == x[0] && x[best] != max) {
            best++;
        }
        out[o] = (int32_t)best;
    }
}

/* Finds the position of the largest element, the first of equal ones. No number is larger than NaN,
 * and NaN is larger than none: a leading NaN wins, others are skipped. */
static void
place_of_largest(const reduction_t *self, int32_t *out)
{
    if (self->inner == 1) {
        place_in_rows(self, out);
        return;
    }
    for (int64_t at = 0; at < self->outer * self->inner; at++) {
        const cadre_real_t *column =
            self->x + at / self->inner * self->size * self->inner + at % self->inner;
        int64_t best = 0;
        for (int64_t s = 1; s < self->size; s++) {
            if (column[s * self->inner] > column[best * self->inner]) {
                best = s;
            }
        }
        out[at] = (int32_t)best;
    }
}

/* Reduces neighbouring axes of the input: sum, mean, max, or position of the largest. */
int
cadre_cpu_reduce(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *x = operands->inputs[0];
    const int64_t *attributes = operands->step->attributes;
    reduction_t self = {.outer = 1,
                        .size = 1,
                        .inner = 1,
                        .x = operands->data[0],
                        .out = operands->out_data,
                        .divisor = 1};
    /* The input as [outer, size, inner], of which `size` is reduced. */
    for (int i = 0; i < x->rank; i++) {
        if (i < attributes[CADRE_REDUCE_BEGIN]) {
            self.outer *= x->shape[i];
        } else if (i < attributes[CADRE_REDUCE_END]) {
            self.size *= x->shape[i];
        } else {
            self.inner *= x->shape[i];
        }
    }
    if (x->dtype != CADRE_F32) {
        cadre_cpu_wide_reduce(operands, self.outer, self.size, self.inner);
        return 0;
    }
    self.tiles = (self.inner + COLUMNS - 1) / COLUMNS;
    switch ((cadre_reduce_t)attributes[CADRE_FUNCTION]) {
    case CADRE_REDUCE_SUM:
        sum(&self, operands->pool);
        return 0;
    case CADRE_REDUCE_MEAN:
        self.divisor = (double)self.size;
        sum(&self, operands->pool);
        return 0;
    case CADRE_REDUCE_MAX:
        largest(&self, operands->pool);
        return 0;
    case CADRE_REDUCE_ARGMAX:
        place_of_largest(&self, operands->out_data);
        return 0;
    }
    cadre_assert(false);
    return 0;
}
