/*
 * cpu_rows - softmax and cross entropy over the last axis.
 *
 * Each row is shifted by its largest element, so that no exponential overflows. Exponentials are
 * computed a block at a time: of one long row, or of several short ones together. A row is read
 * before it is written: the output may be the input.
 */
#include <inttypes.h>

#include "common/base/assert.h"
#include "common/base/status.h"
#include "worker/device/cpu.h"
#include "worker/device/cpu_sum.h"
#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

enum {
    BLOCK = CADRE_CPU_BLOCK,
    SHORT = 32, /* rows of up to so many elements are worked on several at a time */
    COST = 7    /* what an element costs, in additions */
};

/* For each row of a group its largest element, and the sum of its shifted exponentials. */
typedef struct {
    cadre_real_t max[BLOCK];
    cadre_real_t sum[BLOCK]; /* of exp(x - max) */
} summaries_t;

/* The rows of a step, and how they are grouped. */
typedef struct {
    const cadre_operands_t *operands;
    int64_t size;  /* of a row */
    int64_t rows;  /* in all */
    int64_t group; /* rows that are worked on together */
} rows_t;

/* A group: the rows [begin, begin + count). */
typedef struct {
    const cadre_real_t *x; /* of the first */
    int64_t begin;
    int64_t count;
} group_t;

/* Computes exp(x - max) for a row or part of it; with its largest element as `max` nothing
 * overflows. */
CADRE_INLINED void
shifted_exp(cadre_real_t *out, const cadre_real_t *x, cadre_real_t max, int64_t size)
{
    CADRE_INDEPENDENT
    for (int64_t i = 0; i < size; i++) {
        out[i] = cadre_element_exp(x[i] - max);
    }
}

/* Computes max and sum of one row, which may be longer than a block; leaves exp(x - max) in `out`
 * unless that is NULL. */
CADRE_VECTOR static void
summarise_long(const cadre_real_t *x, int64_t size, cadre_real_t *out, summaries_t *summaries)
{
    CADRE_UNINITIALIZED _Alignas(64) cadre_real_t block[BLOCK];
    cadre_real_t max = cadre_largest(x, size);
    double sum = 0;
    for (int64_t i = 0; i < size; i += BLOCK) {
        int64_t count = size - i < BLOCK ? size - i : BLOCK;
        cadre_real_t *to = out ? out + i : block;
        shifted_exp(to, x + i, max, count);
        sum += cadre_sum_block(to, count);
    }
    summaries->max[0] = max;
    summaries->sum[0] = (cadre_real_t)sum;
}

/* Computes max and sum of several short rows, which fit into a block together. There they are
 * transposed, so that neighbours are of different rows and loops over rows are vectorised. */
CADRE_VECTOR static void
summarise_short(const cadre_real_t *x, int64_t size, int64_t rows, cadre_real_t *out,
                summaries_t *summaries)
{
    CADRE_UNINITIALIZED _Alignas(64) cadre_real_t block[BLOCK];
    cadre_real_t *restrict max = summaries->max;
    cadre_real_t *restrict sum = summaries->sum;
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t i = 0; i < size; i++) {
            block[i * rows + row] = x[row * size + i];
        }
        max[row] = x[row * size];
        sum[row] = 0;
    }
    for (int64_t i = 1; i < size; i++) {
        for (int64_t row = 0; row < rows; row++) {
            max[row] = cadre_element_max(max[row], block[i * rows + row]);
        }
    }
    for (int64_t i = 0; i < size; i++) {
        for (int64_t row = 0; row < rows; row++) {
            cadre_real_t y = cadre_element_exp(block[i * rows + row] - max[row]);
            block[i * rows + row] = y;
            sum[row] += y;
        }
    }
    for (int64_t row = 0; out && row < rows; row++) {
        for (int64_t i = 0; i < size; i++) {
            out[row * size + i] = block[i * rows + row];
        }
    }
}

/* Computes max and sum of each row of a group; leaves exp(x - max) in `out` unless that is NULL. */
static void
summarise(const rows_t *self, const group_t *group, cadre_real_t *out, summaries_t *summaries)
{
    if (self->size > SHORT) {
        cadre_assert(group->count == 1);
        summarise_long(group->x, self->size, out, summaries);
    } else {
        summarise_short(group->x, self->size, group->count, out, summaries);
    }
}

/* Returns group number `at`: rows that are worked on together. */
static group_t
group_at(const rows_t *self, int64_t at)
{
    int64_t begin = at * self->group;
    int64_t left = self->rows - begin;
    return (group_t){.x = (const cadre_real_t *)self->operands->data[0] + begin * self->size,
                     .begin = begin,
                     .count = left < self->group ? left : self->group};
}

/* Runs `part` over groups of rows on the pool's threads: a long row is a group, several short rows
 * fill a block. */
static void
run_groups(const cadre_operands_t *operands, cadre_cpu_part_t *part)
{
    const cadre_plan_value_t *shape = operands->inputs[0];
    rows_t self = {.operands = operands, .size = shape->shape[shape->rank - 1]};
    if (shape->count == 0) {
        return;
    }
    self.rows = shape->count / self.size;
    self.group = self.size > SHORT ? 1 : BLOCK / self.size;
    int64_t grain = CADRE_CPU_PART_COST / COST / (self.group * self.size) + 1;
    cadre_cpu_pool_run(operands->pool, (self.rows + self.group - 1) / self.group, grain, part,
                       &self);
}

/* ---- softmax ---- */

/* Multiplies a row by a number. */
CADRE_VECTOR static void
scale_row(cadre_real_t *y, int64_t size, cadre_real_t scale)
{
    for (int64_t i = 0; i < size; i++) {
        y[i] *= scale;
    }
}

/* Computes y = x - max - log_sum. The two are subtracted one after the other: max + log_sum would
 * lose the digits of a small loss under a large logit. */
CADRE_VECTOR static void
shift_row(cadre_real_t *y, const cadre_real_t *x, int64_t size, cadre_real_t max,
          cadre_real_t log_sum)
{
    CADRE_INDEPENDENT
    for (int64_t i = 0; i < size; i++) {
        y[i] = x[i] - max - log_sum;
    }
}

/* Computes softmax, or its logarithm, of the rows in groups begin..end. For the logarithm the
 * exponentials are only summed, not kept. */
static void
softmax_part(const void *context, int64_t begin, int64_t end)
{
    const rows_t *self = context;
    bool logarithm = self->operands->step->attributes[CADRE_SOFTMAX_LOG] != 0;
    for (int64_t at = begin; at < end; at++) {
        group_t group = group_at(self, at);
        CADRE_UNINITIALIZED summaries_t summaries;
        cadre_real_t *out = (cadre_real_t *)self->operands->out_data + group.begin * self->size;
        summarise(self, &group, logarithm ? NULL : out, &summaries);
        for (int64_t row = 0; row < group.count; row++) {
            cadre_real_t *y = out + row * self->size;
            if (logarithm) {
                shift_row(y, group.x + row * self->size, self->size, summaries.max[row],
                          cadre_element_log(summaries.sum[row]));
            } else {
                scale_row(y, self->size, 1 / summaries.sum[row]);
            }
        }
    }
}

int
cadre_cpu_softmax(const cadre_operands_t *operands)
{
    run_groups(operands, softmax_part);
    return 0;
}

/* ---- cross entropy ---- */

/* Fails with CADRE_EDATA when a label is no index of a class; the text names the row. */
static int
check_labels(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *logits = operands->inputs[0];
    int64_t size = logits->shape[logits->rank - 1];
    const int32_t *labels = operands->data[1];
    for (int64_t row = 0; row < operands->inputs[1]->count; row++) {
        if (labels[row] < 0 || labels[row] >= size) {
            return cadre_fail(CADRE_EDATA,
                              "cross entropy: label %" PRId32 " in row %" PRId64
                              " is not in 0..%" PRId64,
                              labels[row], row, size - 1);
        }
    }
    return 0;
}

/* Computes the cross entropy of the rows in groups begin..end: log(sum of exp(x - max)) minus (x of
 * the label - max). */
static void
xent_part(const void *context, int64_t begin, int64_t end)
{
    const rows_t *self = context;
    for (int64_t at = begin; at < end; at++) {
        group_t group = group_at(self, at);
        CADRE_UNINITIALIZED summaries_t summaries;
        summarise(self, &group, NULL, &summaries);
        const int32_t *labels = (const int32_t *)self->operands->data[1] + group.begin;
        cadre_real_t *out = (cadre_real_t *)self->operands->out_data + group.begin;
        for (int64_t row = 0; row < group.count; row++) {
            cadre_real_t mine = group.x[row * self->size + labels[row]];
            out[row] = cadre_element_log(summaries.sum[row]) - (mine - summaries.max[row]);
        }
    }
}

/* Computes the cross entropy of each row of logits and its label. */
int
cadre_cpu_xent(const cadre_operands_t *operands)
{
    int status = check_labels(operands);
    if (status == 0) {
        run_groups(operands, xent_part);
    }
    return status;
}

/* Computes dL/dx of cross entropy for rows begin..end: (softmax(x) - [i is the label]) times the
 * gradient of the row's loss. */
static void
xent_grad_part(const void *context, int64_t begin, int64_t end)
{
    const rows_t *self = context;
    for (int64_t at = begin; at < end; at++) {
        group_t group = group_at(self, at);
        CADRE_UNINITIALIZED summaries_t summaries;
        cadre_real_t *out = (cadre_real_t *)self->operands->out_data + group.begin * self->size;
        const int32_t *labels = (const int32_t *)self->operands->data[1] + group.begin;
        const cadre_real_t *gradient = (const cadre_real_t *)self->operands->data[2] + group.begin;
        summarise(self, &group, out, &summaries);
        for (int64_t row = 0; row < group.count; row++) {
            cadre_real_t *y = out + row * self->size;
            scale_row(y, self->size, gradient[row] / summaries.sum[row]);
            y[labels[row]] -= gradient[row];
        }
    }
}

/* Computes dL/dx of cross entropy from logits, labels and the gradient of each row's loss. */
int
cadre_cpu_xent_grad(const cadre_operands_t *operands)
{
    int status = check_labels(operands);
    if (status == 0) {
        run_groups(operands, xent_grad_part);
    }
    return status;
}
