/*
 * cpu_sparse - rows at positions: take, scatter, and bags of rows with their gradients.
 *
 * Positions are data: all of them are checked before one is used. Sums run in the order of the
 * index, so that they are the same in every run. In a bag a position of -1 is padding.
 */
#include <inttypes.h>
#include <string.h>

#include "common/base/status.h"
#include "worker/device/cpu.h"
#include "worker/device/cpu_sum.h"
#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

enum { PADDING = -1 };

/* Fails with CADRE_EDATA when a position is not in low .. rows - 1. `low` is 0, or PADDING (-1)
 * where padding is allowed. */
static int
check_index(const char *what, const int32_t *index, int64_t count, int64_t low, int64_t rows)
{
    for (int64_t i = 0; i < count; i++) {
        if (index[i] < low || index[i] >= rows) {
            return cadre_fail(
                CADRE_EDATA, "%s: index %" PRId32 " at %" PRId64 " is not in %" PRId64 "..%" PRId64,
                what, index[i], i, low, rows - 1);
        }
    }
    return 0;
}

/* Fails with CADRE_EDATA when a position of take is no row of the table, which has `rows`. For
 * positions [B, ..] the text names the row of the batch in which the bad one is. */
static int
check_positions(const cadre_plan_value_t *positions, const int32_t *index, int64_t rows)
{
    if (positions->rank < 2 || positions->count == 0) {
        return check_index("take", index, positions->count, 0, rows);
    }

    int64_t width = positions->count / positions->shape[0];
    for (int64_t i = 0; i < positions->count; i++) {
        if (index[i] < 0 || index[i] >= rows) {
            return cadre_fail(CADRE_EDATA,
                              "take: index %" PRId32 " in row %" PRId64 " at %" PRId64
                              " is not in 0..%" PRId64,
                              index[i], i / width, i % width, rows - 1);
        }
    }
    return 0;
}

/* Adds a row to another. */
CADRE_VECTOR static void
add_row(cadre_real_t *restrict out, const cadre_real_t *restrict row, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        out[i] += row[i];
    }
}

/* Adds `scale` times a row to another. */
CADRE_VECTOR static void
add_scaled_row(cadre_real_t *restrict out, const cadre_real_t *restrict row, cadre_real_t scale,
               int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        out[i] += scale * row[i];
    }
}

/* Copies rows begin..end of the output: each from the row of the table that its index names. */
static void
gather_range(const void *context, int64_t begin, int64_t end)
{
    const cadre_operands_t *operands = context;
    const cadre_plan_value_t *table = operands->inputs[0];
    const int32_t *index = operands->data[1];
    size_t row_size_bytes = table->size_bytes / (size_t)table->shape[0];
    /* Rows of one number are copied in a loop: a call of memcpy would cost more. */
    if (table->dtype == CADRE_F32 && row_size_bytes == sizeof(cadre_real_t)) {
        const cadre_real_t *from = operands->data[0];
        cadre_real_t *out = operands->out_data;
        for (int64_t i = begin; i < end; i++) {
            out[i] = from[index[i]];
        }
        return;
    }
    const char *from = operands->data[0];
    char *out = operands->out_data;
    for (int64_t i = begin; i < end; i++) {
        memcpy(out + (size_t)i * row_size_bytes, from + (size_t)index[i] * row_size_bytes,
               row_size_bytes);
    }
}

/* Copies rows of the table to the output, each chosen by its index. */
int
cadre_cpu_take(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *table = operands->inputs[0];
    int64_t rows = table->shape[0];
    int64_t count = operands->inputs[1]->count;
    int status = check_positions(operands->inputs[1], operands->data[1], rows);
    if (status == 0 && count > 0) {
        int64_t grain = CADRE_CPU_PART_COST / (table->count / rows + 1);
        cadre_cpu_pool_run(operands->pool, count, grain, gather_range, operands);
    }
    return status;
}

/* Adds each row of the input to the row of the output that its index names: the gradient of take.
 * On one thread, in the order of the index, so that sums are the same in every run. */
int
cadre_cpu_scatter(const cadre_operands_t *operands)
{
    int64_t rows = operands->out->shape[0];
    int64_t size = operands->out->count / rows;
    int64_t count = operands->inputs[1]->count;
    const cadre_real_t *from = operands->data[0];
    const int32_t *index = operands->data[1];
    cadre_real_t *out = operands->out_data;
    int status = check_index("scatter", index, count, 0, rows);
    if (status < 0) {
        return status;
    }
    memset(out, 0, operands->out->size_bytes);
    for (int64_t i = 0; i < count; i++) {
        add_row(out + index[i] * size, from + i * size, size);
    }
    return 0;
}

/* The inputs that bag and bag_grad share, and the table's size. */
typedef struct {
    const int32_t *index;
    const int32_t *offsets;
    const cadre_real_t *last; /* the fourth input: a weight per entry; for the gradient of weights
                                 the table; NULL where there is none */
    int64_t entries;          /* of the index, padding included */
    int64_t bags;
    int64_t rows; /* of the table */
    int64_t size; /* elements of a row */
    bool mean;
    const cadre_real_t *from; /* the first input: the table, or for bag_grad the bags' gradients */
    cadre_real_t *out;
} bags_t;

/* Returns the inputs and sizes of a bag or bag_grad step; `table` is its table, or the table's
 * gradient. */
static bags_t
bags_of(const cadre_operands_t *operands, const cadre_plan_value_t *table)
{
    const cadre_plan_step_t *step = operands->step;
    return (bags_t){.index = operands->data[1],
                    .offsets = operands->data[2],
                    .last = step->input_count == 4 ? operands->data[3] : NULL,
                    .entries = operands->inputs[1]->count,
                    .bags = operands->inputs[2]->count,
                    .rows = table->shape[0],
                    .size = table->shape[1],
                    .mean = step->attributes[CADRE_BAG_MODE] == CADRE_BAG_MEAN,
                    .from = operands->data[0],
                    .out = operands->out_data};
}

/* Checks the offsets of bags: the first begins at 0, and each where the one before ends. */
static int
check_bags(const char *what, const bags_t *bags)
{
    int64_t low = 0;
    for (int64_t i = 0; i < bags->bags; i++) {
        int64_t high = i == 0 ? 0 : bags->entries;
        if (bags->offsets[i] < low || bags->offsets[i] > high) {
            return cadre_fail(CADRE_EDATA,
                              "%s: offset %" PRId32 " of bag %" PRId64 " is not in %" PRId64
                              "..%" PRId64,
                              what, bags->offsets[i], i, low, high);
        }
        low = bags->offsets[i];
    }
    return check_index(what, bags->index, bags->entries, PADDING, bags->rows);
}

/* Returns the entry behind the last of a bag: where the next bag begins. */
static int64_t
end_of(const bags_t *bags, int64_t bag)
{
    return bag + 1 < bags->bags ? bags->offsets[bag + 1] : bags->entries;
}

/* Returns by what the mean of a bag divides: the number of its entries that are not padding; 1
 * where there are none. */
static cadre_real_t
divisor_of(const bags_t *bags, int64_t bag)
{
    int64_t count = 0;
    for (int64_t i = bags->offsets[bag]; i < end_of(bags, bag); i++) {
        count += bags->index[i] != PADDING;
    }
    return count > 0 ? (cadre_real_t)count : 1;
}

/* Runs `part` (whose context is a bags_t) over the bags, on the pool's threads. */
static void
run_bags(const cadre_operands_t *operands, const bags_t *bags, cadre_cpu_part_t *part)
{
    int64_t elements = (bags->entries + bags->bags) * bags->size; /* some 2^46 at most */
    int64_t share = bags->bags > 0 ? elements / bags->bags : 0;
    cadre_cpu_pool_run(operands->pool, bags->bags, CADRE_CPU_PART_COST / (share + 1), part, bags);
}

/* Writes one bag: the sum of the table's rows that its entries name, each times its weight where
 * there are weights (`last`); or their mean. */
static void
add_bag(const bags_t *bags, int64_t bag, cadre_real_t *out)
{
    memset(out, 0, (size_t)bags->size * sizeof(*out));
    for (int64_t i = bags->offsets[bag]; i < end_of(bags, bag); i++) {
        if (bags->index[i] == PADDING) {
            continue;
        }
        const cadre_real_t *row = bags->from + bags->index[i] * bags->size;
        if (bags->last) {
            add_scaled_row(out, row, bags->last[i], bags->size);
        } else {
            add_row(out, row, bags->size);
        }
    }
    cadre_real_t divisor = bags->mean ? divisor_of(bags, bag) : 1;
    for (int64_t k = 0; k < bags->size && bags->mean; k++) {
        out[k] /= divisor;
    }
}

/* Writes bags begin..end. */
static void
bag_part(const void *context, int64_t begin, int64_t end)
{
    const bags_t *bags = context;
    for (int64_t bag = begin; bag < end; bag++) {
        add_bag(bags, bag, bags->out + bag * bags->size);
    }
}

/* Computes the sum or mean of table rows for each bag (a list of row numbers). */
int
cadre_cpu_bag(const cadre_operands_t *operands)
{
    bags_t bags = bags_of(operands, operands->inputs[0]);
    int status = check_bags("bag", &bags);
    if (status == 0) {
        run_bags(operands, &bags, bag_part);
    }
    return status;
}

/* Adds to each row of the table's gradient the gradients of the bags that the row is in, in the
 * order of the index. */
static void
gradient_of_table(const bags_t *bags)
{
    for (int64_t bag = 0; bag < bags->bags; bag++) {
        const cadre_real_t *gradient = bags->from + bag * bags->size;
        cadre_real_t share = bags->mean ? 1 / divisor_of(bags, bag) : 1;
        for (int64_t i = bags->offsets[bag]; i < end_of(bags, bag); i++) {
            cadre_real_t scale = bags->last ? bags->last[i] : share;
            if (bags->index[i] != PADDING) {
                add_scaled_row(bags->out + bags->index[i] * bags->size, gradient, scale,
                               bags->size);
            }
        }
    }
}

/* Returns the dot product of two rows: products are summed by blocks in f32, blocks in double. */
CADRE_VECTOR static cadre_real_t
product(const cadre_real_t *left, const cadre_real_t *right, int64_t size)
{
    CADRE_UNINITIALIZED _Alignas(64) cadre_real_t products[CADRE_CPU_BLOCK];
    double sum = 0;
    for (int64_t first = 0; first < size; first += CADRE_CPU_BLOCK) {
        int64_t count = size - first < CADRE_CPU_BLOCK ? size - first : CADRE_CPU_BLOCK;
        for (int64_t i = 0; i < count; i++) {
            products[i] = left[first + i] * right[first + i];
        }
        sum += cadre_sum_block(products, count);
    }
    return (cadre_real_t)sum;
}

/* Computes the gradient of each entry's weight: the dot product of its row and the gradient of its
 * bag; 0 for padding. */
static void
gradient_of_weights(const void *context, int64_t begin, int64_t end)
{
    const bags_t *bags = context;
    for (int64_t bag = begin; bag < end; bag++) {
        const cadre_real_t *gradient = bags->from + bag * bags->size;
        for (int64_t i = bags->offsets[bag]; i < end_of(bags, bag); i++) {
            cadre_real_t sum = 0;
            if (bags->index[i] != PADDING) {
                sum = product(bags->last + bags->index[i] * bags->size, gradient, bags->size);
            }
            bags->out[i] = sum;
        }
    }
}

/* Computes the gradient of bag by its table, or by the weights of its entries. That of the table is
 * on one thread, in the order of the index: several entries may add to one row. */
int
cadre_cpu_bag_grad(const cadre_operands_t *operands)
{
    bool of_weights = operands->step->attributes[CADRE_BAG_GRAD_OF_WEIGHTS] != 0;
    bags_t bags = bags_of(operands, of_weights ? operands->inputs[3] : operands->out);
    int status = check_bags("bag_grad", &bags);
    if (status < 0) {
        return status;
    }
    if (of_weights) {
        run_bags(operands, &bags, gradient_of_weights);
        return 0;
    }
    memset(operands->out_data, 0, operands->out->size_bytes);
    gradient_of_table(&bags);
    return 0;
}
