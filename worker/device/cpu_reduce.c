/*
 * cpu_reduce - sum, mean, max and argmax over neighbouring axes, seen as [outer, size, inner].
 *
 * A row is summed in blocks of LANES parallel sums: the compiler may not reorder additions, so the
 * order is written out, and many short sums round less than one long one.
 */
#include "common/assert.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"

enum { LANES = 16, BLOCK = 1024 };

typedef struct {
    int64_t outer;
    int64_t size;
    int64_t inner;
} layout_t;

static cadre_real_t
sum_block(const cadre_real_t *x, int64_t size)
{
    cadre_real_t lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lanes[k] += x[i + k];
        }
    }
    for (int k = 0; i < size; i++, k++) {
        lanes[k] += x[i];
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int k = 0; k < width; k++) {
            lanes[k] += lanes[k + width];
        }
    }
    return lanes[0];
}

static cadre_real_t
sum_row(const cadre_real_t *x, int64_t size)
{
    double total = 0;
    for (int64_t i = 0; i < size; i += BLOCK) {
        total += sum_block(x + i, size - i < BLOCK ? size - i : BLOCK);
    }
    return (cadre_real_t)total;
}

static void
sum(cadre_real_t *restrict out, const cadre_real_t *restrict x, layout_t layout)
{
    if (layout.inner == 1) {
        for (int64_t o = 0; o < layout.outer; o++) {
            out[o] = sum_row(x + o * layout.size, layout.size);
        }
        return;
    }
    for (int64_t o = 0; o < layout.outer; o++) {
        cadre_real_t *restrict row = out + o * layout.inner;
        const cadre_real_t *restrict rows = x + o * layout.size * layout.inner;
        for (int64_t i = 0; i < layout.inner; i++) {
            row[i] = rows[i];
        }
        for (int64_t s = 1; s < layout.size; s++) {
            const cadre_real_t *restrict next = rows + s * layout.inner;
            for (int64_t i = 0; i < layout.inner; i++) {
                row[i] += next[i];
            }
        }
    }
}

static void
largest(cadre_real_t *restrict out, const cadre_real_t *restrict x, layout_t layout)
{
    for (int64_t o = 0; o < layout.outer; o++) {
        cadre_real_t *restrict row = out + o * layout.inner;
        const cadre_real_t *restrict rows = x + o * layout.size * layout.inner;
        for (int64_t i = 0; i < layout.inner; i++) {
            row[i] = rows[i];
        }
        for (int64_t s = 1; s < layout.size; s++) {
            for (int64_t i = 0; i < layout.inner; i++) {
                row[i] = cadre_element_max(row[i], rows[s * layout.inner + i]);
            }
        }
    }
}

static void
place_of_largest(int32_t *restrict out, const cadre_real_t *restrict x, layout_t layout)
{
    for (int64_t o = 0; o < layout.outer; o++) {
        for (int64_t i = 0; i < layout.inner; i++) {
            const cadre_real_t *column = x + o * layout.size * layout.inner + i;
            int64_t best = 0;
            for (int64_t s = 1; s < layout.size; s++) {
                if (column[s * layout.inner] > column[best * layout.inner]) {
                    best = s;
                }
            }
            out[o * layout.inner + i] = (int32_t)best;
        }
    }
}

void
cadre_cpu_reduce(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *x = operands->inputs[0];
    const int64_t *attributes = operands->step->attributes;
    layout_t layout = {1, 1, 1};
    for (int i = 0; i < x->rank; i++) {
        int64_t *part = i < attributes[CADRE_REDUCE_BEGIN] ? &layout.outer
                        : i < attributes[CADRE_REDUCE_END] ? &layout.size
                                                           : &layout.inner;
        *part *= x->shape[i];
    }
    cadre_real_t *out = operands->out_data;
    switch ((cadre_reduce_t)attributes[CADRE_FUNCTION]) {
    case CADRE_REDUCE_SUM:
        sum(out, operands->data[0], layout);
        return;
    case CADRE_REDUCE_MEAN:
        sum(out, operands->data[0], layout);
        for (int64_t i = 0; i < operands->out->count; i++) {
            out[i] /= (cadre_real_t)layout.size;
        }
        return;
    case CADRE_REDUCE_MAX:
        largest(out, operands->data[0], layout);
        return;
    case CADRE_REDUCE_ARGMAX:
        place_of_largest(operands->out_data, operands->data[0], layout);
        return;
    }
    cadre_assert(false);
}
