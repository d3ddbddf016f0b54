#include "bench/op_loops.h"

#include <math.h>
#include <string.h>

/* One loop over all elements; `x`, `y`, `z` are this place's. */
#define ELEMENTS(name, expression)                                                                 \
    void cadre_bench_loop_##name(const cadre_bench_arrays_t *arrays)                               \
    {                                                                                              \
        int64_t count = arrays->rows * arrays->columns;                                            \
        float *restrict out = arrays->out;                                                         \
        for (int64_t i = 0; i < count; i++) {                                                      \
            const float x = arrays->x[i];                                                          \
            const float y = arrays->y[i];                                                          \
            const float z = arrays->z[i];                                                          \
            (void)x;                                                                               \
            (void)y;                                                                               \
            (void)z;                                                                               \
            out[i] = expression;                                                                   \
        }                                                                                          \
    }

static float
normal_below(float x)
{
    return 0.5F * (1 + erff(x * 0.70710678F));
}

ELEMENTS(neg, -x)
ELEMENTS(exp, expf(x))
ELEMENTS(log, logf(y))
ELEMENTS(sqrt, sqrtf(y))
ELEMENTS(rsqrt, 1 / sqrtf(y))
ELEMENTS(recip, 1 / x)
ELEMENTS(square, x *x)
ELEMENTS(abs, fabsf(x))
ELEMENTS(sign, x > 0 ? 1.0F : x < 0 ? -1.0F : x)
ELEMENTS(step, x > 0 ? 1.0F : 0.0F)
ELEMENTS(relu, x > 0 ? x : 0.0F)
ELEMENTS(sigmoid, 1 / (1 + expf(-x)))
ELEMENTS(tanh, tanhf(x))
ELEMENTS(gelu, x *normal_below(x))
ELEMENTS(dgelu, normal_below(x) + x * 0.39894228F * expf(-0.5F * x * x))
ELEMENTS(softplus, fmaxf(x, 0) + log1pf(expf(-fabsf(x))))
ELEMENTS(add, x + y)
ELEMENTS(div, x / y)
ELEMENTS(max, x > y ? x : y)
ELEMENTS(gt, x > y ? 1.0F : 0.0F)
ELEMENTS(where, x > 0 ? y : z)
ELEMENTS(cast, (float)(int32_t)x)
ELEMENTS(tanh_gradient, y *(1 - x * x))

#define ROWS(name, expression)                                                                     \
    void cadre_bench_loop_##name(const cadre_bench_arrays_t *arrays)                               \
    {                                                                                              \
        for (int64_t r = 0; r < arrays->rows; r++) {                                               \
            const float *x = arrays->x + r * arrays->columns;                                      \
            float *restrict out = arrays->out + r * arrays->columns;                               \
            for (int64_t c = 0; c < arrays->columns; c++) {                                        \
                out[c] = expression;                                                               \
            }                                                                                      \
        }                                                                                          \
    }
ROWS(add_row, x[c] + arrays->row[c])
ROWS(add_column, x[c] + arrays->column[r])
ROWS(bias_relu, fmaxf(x[c] + arrays->row[c], 0))
#undef ROWS

void
cadre_bench_loop_sum_rows(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        float sum = 0;
        for (int64_t c = 0; c < arrays->columns; c++) {
            sum += arrays->x[r * arrays->columns + c];
        }
        arrays->out[r] = sum;
    }
}

void
cadre_bench_loop_sum_columns(const cadre_bench_arrays_t *arrays)
{
    float *restrict out = arrays->out;
    memset(out, 0, (size_t)arrays->columns * sizeof(*out));
    for (int64_t r = 0; r < arrays->rows; r++) {
        for (int64_t c = 0; c < arrays->columns; c++) {
            out[c] += arrays->x[r * arrays->columns + c];
        }
    }
}

void
cadre_bench_loop_sum_all(const cadre_bench_arrays_t *arrays)
{
    float sum = 0;
    for (int64_t i = 0; i < arrays->rows * arrays->columns; i++) {
        sum += arrays->x[i];
    }
    *arrays->out = sum;
}

static float
largest_of(const float *x, int64_t count)
{
    float largest = x[0];
    for (int64_t i = 1; i < count; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    return largest;
}

void
cadre_bench_loop_largest(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        arrays->out[r] = largest_of(arrays->x + r * arrays->columns, arrays->columns);
    }
}

void
cadre_bench_loop_softmax(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *x = arrays->x + r * arrays->columns;
        float *restrict out = arrays->out + r * arrays->columns;
        float largest = largest_of(x, arrays->columns);
        float sum = 0;
        for (int64_t c = 0; c < arrays->columns; c++) {
            out[c] = expf(x[c] - largest);
            sum += out[c];
        }
        for (int64_t c = 0; c < arrays->columns; c++) {
            out[c] /= sum;
        }
    }
}

/* log(sum(exp(x))) */
static float
log_sum(const float *x, int64_t count)
{
    float largest = largest_of(x, count);
    float sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += expf(x[i] - largest);
    }
    return largest + logf(sum);
}

void
cadre_bench_loop_log_softmax(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *x = arrays->x + r * arrays->columns;
        float shift = log_sum(x, arrays->columns);
        for (int64_t c = 0; c < arrays->columns; c++) {
            arrays->out[r * arrays->columns + c] = x[c] - shift;
        }
    }
}

void
cadre_bench_loop_xent(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *x = arrays->x + r * arrays->columns;
        arrays->out[r] = log_sum(x, arrays->columns) - x[arrays->labels[r]];
    }
}

void
cadre_bench_loop_transpose(const cadre_bench_arrays_t *arrays)
{
    for (int64_t c = 0; c < arrays->columns; c++) {
        for (int64_t r = 0; r < arrays->rows; r++) {
            arrays->out[c * arrays->rows + r] = arrays->x[r * arrays->columns + c];
        }
    }
}

void
cadre_bench_loop_slice(const cadre_bench_arrays_t *arrays)
{
    int64_t half = arrays->columns / 2;
    for (int64_t r = 0; r < arrays->rows; r++) {
        memcpy(arrays->out + r * half, arrays->x + r * arrays->columns,
               (size_t)half * sizeof(float));
    }
}

void
cadre_bench_loop_concat(const cadre_bench_arrays_t *arrays)
{
    size_t size_bytes = (size_t)arrays->columns * sizeof(float);
    for (int64_t r = 0; r < arrays->rows; r++) {
        float *out = arrays->out + 2 * r * arrays->columns;
        memcpy(out, arrays->x + r * arrays->columns, size_bytes);
        memcpy(out + arrays->columns, arrays->y + r * arrays->columns, size_bytes);
    }
}
