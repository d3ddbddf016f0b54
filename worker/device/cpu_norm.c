/*
 * cpu_norm - rows brought to mean 0 and variance 1, and the gradient of that.
 *
 * y = (x - m) r with r = 1 / sqrt(v + eps), v the biased variance. The variance is summed from the
 * differences to the mean, in a second pass: the difference of large squares would lose it. With
 * means over the row, dL/dx = r (g - mean(g) - y mean(g y)); the statistics are made anew, so that
 * neither they nor y need to be kept for the way back.
 *
 * A row is read before it is written: the output may be an input.
 */
#include "worker/device/cpu.h"
#include "worker/device/element.h"

enum { LANES = 16 };

typedef struct {
    cadre_real_t mean;
    cadre_real_t scale; /* 1 / sqrt(variance + eps) */
} statistics_t;

/* As in cpu_reduce.c: the compiler may not reorder additions, so the order is written out. */
static cadre_real_t
fold(cadre_real_t *lanes)
{
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int k = 0; k < width; k++) {
            lanes[k] += lanes[k + width];
        }
    }
    return lanes[0];
}

static cadre_real_t
mean_of(const cadre_real_t *x, int64_t size)
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
    return fold(lanes) / (cadre_real_t)size;
}

static cadre_real_t
variance_of(const cadre_real_t *x, int64_t size, cadre_real_t mean)
{
    cadre_real_t lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lanes[k] += cadre_element_square(x[i + k] - mean);
        }
    }
    for (int k = 0; i < size; i++, k++) {
        lanes[k] += cadre_element_square(x[i] - mean);
    }
    return fold(lanes) / (cadre_real_t)size;
}

/* The mean of g times the normalised x. */
static cadre_real_t
mean_of_product(const cadre_real_t *g, const cadre_real_t *x, int64_t size, statistics_t row)
{
    cadre_real_t lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= size; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lanes[k] += g[i + k] * ((x[i + k] - row.mean) * row.scale);
        }
    }
    for (int k = 0; i < size; i++, k++) {
        lanes[k] += g[i] * ((x[i] - row.mean) * row.scale);
    }
    return fold(lanes) / (cadre_real_t)size;
}

static statistics_t
statistics(const cadre_real_t *x, int64_t size, cadre_real_t eps)
{
    cadre_real_t mean = mean_of(x, size);
    cadre_real_t variance = variance_of(x, size, mean);
    return (statistics_t){.mean = mean, .scale = cadre_element_rsqrt(variance + eps)};
}

void
cadre_cpu_rownorm(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *shape = operands->inputs[0];
    int64_t size = shape->shape[shape->rank - 1];
    cadre_real_t eps = cadre_op_float(operands->step->attributes[CADRE_ROWNORM_EPS]);
    for (int64_t at = 0; at < shape->count; at += size) {
        const cadre_real_t *x = (const cadre_real_t *)operands->data[0] + at;
        cadre_real_t *out = (cadre_real_t *)operands->out_data + at;
        statistics_t row = statistics(x, size, eps);
        CADRE_INDEPENDENT
        for (int64_t i = 0; i < size; i++) {
            out[i] = (x[i] - row.mean) * row.scale;
        }
    }
}

void
cadre_cpu_rownorm_grad(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *shape = operands->inputs[1];
    int64_t size = shape->shape[shape->rank - 1];
    cadre_real_t eps = cadre_op_float(operands->step->attributes[CADRE_ROWNORM_EPS]);
    for (int64_t at = 0; at < shape->count; at += size) {
        const cadre_real_t *g = (const cadre_real_t *)operands->data[0] + at;
        const cadre_real_t *x = (const cadre_real_t *)operands->data[1] + at;
        cadre_real_t *out = (cadre_real_t *)operands->out_data + at;
        statistics_t row = statistics(x, size, eps);
        cadre_real_t mean = mean_of(g, size);
        cadre_real_t along = mean_of_product(g, x, size, row);
        CADRE_INDEPENDENT
        for (int64_t i = 0; i < size; i++) {
            cadre_real_t y = (x[i] - row.mean) * row.scale;
            out[i] = row.scale * (g[i] - mean - y * along);
        }
    }
}
