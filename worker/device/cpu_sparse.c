/*
 * cpu_sparse - rows at positions: take, scatter, and bags of rows with their gradients.
 *
 * Positions are data: all of them are checked before one is used. Sums run in the order of the
 * index, so that they are the same in every run. In a bag a position of -1 is padding.
 */
#include <inttypes.h>
#include <string.h>

#include "common/status.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"

enum { PADDING = -1 };

/* `low` is 0, or PADDING where that is allowed. */
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

static void
add_row(cadre_real_t *restrict out, const cadre_real_t *restrict row, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        out[i] += row[i];
    }
}

static void
add_scaled_row(cadre_real_t *restrict out, const cadre_real_t *restrict row, cadre_real_t scale,
               int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        out[i] += scale * row[i];
    }
}

int
cadre_cpu_take(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *table = operands->inputs[0];
    int64_t rows = table->shape[0];
    size_t row_bytes = table->size_bytes / (size_t)rows;
    int64_t count = operands->inputs[1]->count;
    const int32_t *index = operands->data[1];
    int status = check_index("take", index, count, 0, rows);
    if (status < 0) {
        return status;
    }
    if (table->count == rows && table->dtype == CADRE_F32) {
        const cadre_real_t *from = operands->data[0];
        cadre_real_t *out = operands->out_data;
        for (int64_t i = 0; i < count; i++) {
            out[i] = from[index[i]];
        }
        return 0;
    }
    char *out = operands->out_data;
    const char *from = operands->data[0];
    for (int64_t i = 0; i < count; i++) {
        memcpy(out + (size_t)i * row_bytes, from + (size_t)index[i] * row_bytes, row_bytes);
    }
    return 0;
}

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
    const cadre_real_t *last; /* the fourth input, or NULL */
    int64_t entries;          /* of the index, padding included */
    int64_t bags;
    int64_t rows; /* of the table */
    int64_t size; /* of one */
    bool mean;
} bags_t;

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
                    .mean = step->attributes[CADRE_BAG_MODE] == CADRE_BAG_MEAN};
}

/* Bags follow each other without a gap from the first entry on. */
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

static int64_t
end_of(const bags_t *bags, int64_t bag)
{
    return bag + 1 < bags->bags ? bags->offsets[bag + 1] : bags->entries;
}

/* By what a mean divides: the entries that are no padding, or 1 where there are none. */
static cadre_real_t
divisor_of(const bags_t *bags, int64_t bag)
{
    int64_t count = 0;
    for (int64_t i = bags->offsets[bag]; i < end_of(bags, bag); i++) {
        count += bags->index[i] != PADDING;
    }
    return count > 0 ? (cadre_real_t)count : 1;
}

int
cadre_cpu_bag(const cadre_operands_t *operands)
{
    bags_t bags = bags_of(operands, operands->inputs[0]);
    const cadre_real_t *table = operands->data[0];
    cadre_real_t *out = operands->out_data;
    int status = check_bags("bag", &bags);
    if (status < 0) {
        return status;
    }
    memset(out, 0, operands->out->size_bytes);
    for (int64_t bag = 0; bag < bags.bags; bag++, out += bags.size) {
        for (int64_t i = bags.offsets[bag]; i < end_of(&bags, bag); i++) {
            if (bags.index[i] == PADDING) {
                continue;
            }
            const cadre_real_t *row = table + bags.index[i] * bags.size;
            if (bags.last) {
                add_scaled_row(out, row, bags.last[i], bags.size);
            } else {
                add_row(out, row, bags.size);
            }
        }
        cadre_real_t divisor = bags.mean ? divisor_of(&bags, bag) : 1;
        for (int64_t k = 0; k < bags.size && bags.mean; k++) {
            out[k] /= divisor;
        }
    }
    return 0;
}

/* Each row of the table gets the gradients of the bags that it is in, in the order of the index. */
static void
gradient_of_table(const bags_t *bags, const cadre_real_t *gradient, cadre_real_t *out)
{
    for (int64_t bag = 0; bag < bags->bags; bag++, gradient += bags->size) {
        cadre_real_t share = bags->mean ? 1 / divisor_of(bags, bag) : 1;
        for (int64_t i = bags->offsets[bag]; i < end_of(bags, bag); i++) {
            cadre_real_t scale = bags->last ? bags->last[i] : share;
            if (bags->index[i] != PADDING) {
                add_scaled_row(out + bags->index[i] * bags->size, gradient, scale, bags->size);
            }
        }
    }
}

static cadre_real_t
product(const cadre_real_t *left, const cadre_real_t *right, int64_t size)
{
    cadre_real_t sum = 0;
    for (int64_t i = 0; i < size; i++) {
        sum += left[i] * right[i];
    }
    return sum;
}

/* Of each entry the product of its row with the gradient of its bag; of padding 0. */
static void
gradient_of_weights(const bags_t *bags, const cadre_real_t *gradient, cadre_real_t *out)
{
    for (int64_t bag = 0; bag < bags->bags; bag++, gradient += bags->size) {
        for (int64_t i = bags->offsets[bag]; i < end_of(bags, bag); i++) {
            cadre_real_t sum = 0;
            if (bags->index[i] != PADDING) {
                sum = product(bags->last + bags->index[i] * bags->size, gradient, bags->size);
            }
            out[i] = sum;
        }
    }
}

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
        gradient_of_weights(&bags, operands->data[0], operands->out_data);
        return 0;
    }
    memset(operands->out_data, 0, operands->out->size_bytes);
    gradient_of_table(&bags, operands->data[0], operands->out_data);
    return 0;
}
