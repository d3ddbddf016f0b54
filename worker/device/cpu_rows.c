/*
 * cpu_rows - softmax and cross entropy over the last axis.
 *
 * Each row is shifted by its largest element, so that no exponential overflows. A row is read
 * before it is written: the output may be the input.
 */
#include <inttypes.h>

#include "common/status.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"

static cadre_real_t
row_max(const cadre_real_t *x, int64_t size)
{
    cadre_real_t max = x[0];
    for (int64_t i = 1; i < size; i++) {
        max = cadre_element_max(max, x[i]);
    }
    return max;
}

/* out = exp(x - max); returns their sum. */
static cadre_real_t
row_exp(cadre_real_t *out, const cadre_real_t *x, int64_t size)
{
    cadre_real_t max = row_max(x, size);
    cadre_real_t sum = 0;
    for (int64_t i = 0; i < size; i++) {
        out[i] = cadre_element_exp(x[i] - max);
        sum += out[i];
    }
    return sum;
}

/* log(sum(exp(x - max))). The caller subtracts max and this one after the other: their sum would
 * lose the digits of a small loss under a large logit. */
static cadre_real_t
row_log_sum(const cadre_real_t *x, int64_t size, cadre_real_t max)
{
    cadre_real_t sum = 0;
    for (int64_t i = 0; i < size; i++) {
        sum += cadre_element_exp(x[i] - max);
    }
    return cadre_element_log(sum);
}

void
cadre_cpu_softmax(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *shape = operands->inputs[0];
    int64_t size = shape->shape[shape->rank - 1];
    const cadre_real_t *x = operands->data[0];
    cadre_real_t *out = operands->out_data;
    bool logarithm = operands->step->attributes[CADRE_SOFTMAX_LOG] != 0;
    for (int64_t at = 0; at < shape->count; at += size) {
        if (logarithm) {
            cadre_real_t max = row_max(x + at, size);
            cadre_real_t log_sum = row_log_sum(x + at, size, max);
            for (int64_t i = 0; i < size; i++) {
                out[at + i] = x[at + i] - max - log_sum;
            }
        } else {
            cadre_real_t scale = 1 / row_exp(out + at, x + at, size);
            for (int64_t i = 0; i < size; i++) {
                out[at + i] *= scale;
            }
        }
    }
}

static int
check_labels(const cadre_operands_t *operands, int64_t rows, int64_t size)
{
    const int32_t *labels = operands->data[1];
    for (int64_t row = 0; row < rows; row++) {
        if (labels[row] < 0 || labels[row] >= size) {
            return cadre_fail(CADRE_EDATA,
                              "cross entropy: label %" PRId32 " in row %" PRId64
                              " is not in 0..%" PRId64,
                              labels[row], row, size - 1);
        }
    }
    return 0;
}

int
cadre_cpu_xent(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *logits = operands->inputs[0];
    int64_t size = logits->shape[logits->rank - 1];
    int64_t rows = operands->out->count;
    int status = check_labels(operands, rows, size);
    if (status < 0) {
        return status;
    }
    const cadre_real_t *x = operands->data[0];
    const int32_t *labels = operands->data[1];
    cadre_real_t *out = operands->out_data;
    for (int64_t row = 0; row < rows; row++) {
        cadre_real_t max = row_max(x + row * size, size);
        out[row] = row_log_sum(x + row * size, size, max) - (x[row * size + labels[row]] - max);
    }
    return 0;
}

/* (softmax(x) - [i is the label]) times the row's gradient. */
int
cadre_cpu_xent_grad(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *logits = operands->inputs[0];
    int64_t size = logits->shape[logits->rank - 1];
    int64_t rows = operands->inputs[1]->count;
    int status = check_labels(operands, rows, size);
    if (status < 0) {
        return status;
    }
    const cadre_real_t *x = operands->data[0];
    const int32_t *labels = operands->data[1];
    const cadre_real_t *gradient = operands->data[2];
    cadre_real_t *out = operands->out_data;
    for (int64_t row = 0; row < rows; row++) {
        cadre_real_t scale = gradient[row];
        cadre_real_t *y = out + row * size;
        cadre_real_t share = scale / row_exp(y, x + row * size, size);
        for (int64_t i = 0; i < size; i++) {
            y[i] *= share;
        }
        y[labels[row]] -= scale;
    }
    return 0;
}
