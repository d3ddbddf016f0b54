/*
 * cpu_norm - row normalization (layer norm without scale and shift), forward and backward.
 *
 * y = (x - m) r with r = 1 / sqrt(v + eps), m the mean, v the biased variance. The variance is
 * summed from the squared differences to the mean, in a second pass: mean(x^2) - m^2 would lose its
 * digits. With means over the row and g = dL/dy, dL/dx = r (g - mean(g) - y mean(g y)). Backward
 * computes m and r again, so that neither these nor y need to be kept.
 *
 * A row is read before it is written: the output may be the memory of an input.
 */
#include "worker/device/cpu.h"
#include "worker/device/cpu_sum.h"
#include "worker/device/cpu_vector.h"
#include "worker/device/element.h"

enum {
    BLOCK = CADRE_CPU_BLOCK,
    COST = 4 /* what an element costs, in additions */
};

typedef struct {
    cadre_real_t mean;
    cadre_real_t scale; /* 1 / sqrt(variance + eps) */
} statistics_t;

typedef struct {
    const cadre_operands_t *operands;
    int64_t size; /* of a row */
    cadre_real_t eps;
} rows_t;

/* Returns the mean of a row. */
CADRE_INLINED cadre_real_t
mean_of(const cadre_real_t *x, int64_t size)
{
    return (cadre_real_t)(cadre_sum_row(x, size) / (double)size);
}

/* Returns the mean of a row and the factor that gives it variance 1. The variance is a second pass
 * over the squared differences to the mean: mean(x^2) - mean^2 would lose its digits. */
CADRE_INLINED statistics_t
statistics(const cadre_real_t *x, int64_t size, cadre_real_t eps)
{
    CADRE_UNINITIALIZED _Alignas(64) cadre_real_t squares[BLOCK];
    cadre_real_t mean = mean_of(x, size);
    double sum = 0;
    for (int64_t first = 0; first < size; first += BLOCK) {
        int64_t count = size - first < BLOCK ? size - first : BLOCK;
        for (int64_t i = 0; i < count; i++) {
            squares[i] = cadre_element_square(x[first + i] - mean);
        }
        sum += cadre_sum_block(squares, count);
    }
    cadre_real_t variance = (cadre_real_t)(sum / (double)size);
    return (statistics_t){.mean = mean, .scale = cadre_element_rsqrt(variance + eps)};
}

/* Returns the mean of g times the normalised x, over a row. */
CADRE_INLINED cadre_real_t
mean_of_product(const cadre_real_t *g, const cadre_real_t *x, int64_t size, statistics_t row)
{
    CADRE_UNINITIALIZED _Alignas(64) cadre_real_t products[BLOCK];
    double sum = 0;
    for (int64_t first = 0; first < size; first += BLOCK) {
        int64_t count = size - first < BLOCK ? size - first : BLOCK;
        for (int64_t i = 0; i < count; i++) {
            products[i] = g[first + i] * ((x[first + i] - row.mean) * row.scale);
        }
        sum += cadre_sum_block(products, count);
    }
    return (cadre_real_t)(sum / (double)size);
}

/* Normalises rows begin..end to mean 0 and variance 1. */
CADRE_VECTOR static void
rownorm_part(const void *context, int64_t begin, int64_t end)
{
    const rows_t *self = context;
    for (int64_t at = begin; at < end; at++) {
        const cadre_real_t *x = (const cadre_real_t *)self->operands->data[0] + at * self->size;
        cadre_real_t *out = (cadre_real_t *)self->operands->out_data + at * self->size;
        statistics_t row = statistics(x, self->size, self->eps);
        CADRE_INDEPENDENT
        for (int64_t i = 0; i < self->size; i++) {
            out[i] = (x[i] - row.mean) * row.scale;
        }
    }
}

/* Computes dL/dx of the normalisation for rows begin..end: r (g - mean(g) - y mean(g y)), with g =
 * dL/dy, y the normalised x and r the row's scale; the statistics are computed again from x. */
CADRE_VECTOR static void
rownorm_grad_part(const void *context, int64_t begin, int64_t end)
{
    const rows_t *self = context;
    for (int64_t at = begin; at < end; at++) {
        const cadre_real_t *g = (const cadre_real_t *)self->operands->data[0] + at * self->size;
        const cadre_real_t *x = (const cadre_real_t *)self->operands->data[1] + at * self->size;
        cadre_real_t *out = (cadre_real_t *)self->operands->out_data + at * self->size;
        statistics_t row = statistics(x, self->size, self->eps);
        cadre_real_t mean = mean_of(g, self->size);
        cadre_real_t along = mean_of_product(g, x, self->size, row);
        CADRE_INDEPENDENT
        for (int64_t i = 0; i < self->size; i++) {
            cadre_real_t y = (x[i] - row.mean) * row.scale;
            out[i] = row.scale * (g[i] - mean - y * along);
        }
    }
}

/* Runs `part` over the rows of the input that is normalised, whose shape is `shape`. */
static void
run_rows(const cadre_operands_t *operands, const cadre_plan_value_t *shape, cadre_cpu_part_t *part)
{
    rows_t self = {.operands = operands,
                   .size = shape->shape[shape->rank - 1],
                   .eps = cadre_op_float(operands->step->attributes[CADRE_ROWNORM_EPS])};
    if (shape->count > 0) {
        cadre_cpu_pool_run(operands->pool, shape->count / self.size,
                           CADRE_CPU_PART_COST / COST / self.size + 1, part, &self);
    }
}

/* Normalises each row of the input. */
int
cadre_cpu_rownorm(const cadre_operands_t *operands)
{
    run_rows(operands, operands->inputs[0], rownorm_part);
    return 0;
}

/* Computes the gradient of rownorm from dL/dy (input 0) and x (input 1). */
int
cadre_cpu_rownorm_grad(const cadre_operands_t *operands)
{
    run_rows(operands, operands->inputs[1], rownorm_grad_part);
    return 0;
}
