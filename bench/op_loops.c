#include "bench/op_loops.h"

#include <math.h>
#include <string.h>

#include "common/base/random.h"

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
ELEMENTS(sub, x - y)
ELEMENTS(mul, x *y)
ELEMENTS(div, x / y)
ELEMENTS(max, x > y ? x : y)
ELEMENTS(min, x < y ? x : y)
ELEMENTS(gt, x > y ? 1.0F : 0.0F)
ELEMENTS(eq, x == y ? 1.0F : 0.0F)
ELEMENTS(where, x != 0 ? y : z)
ELEMENTS(where_number, x != 0 ? y : 0)
ELEMENTS(where_chain, x > y ? y * z : z)
ELEMENTS(leaky_relu, x > 0 ? x : 0.01F * x)
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

/* In two passes, as the two operations that it is. */
void
cadre_bench_loop_cast(const cadre_bench_arrays_t *arrays)
{
    int64_t count = arrays->rows * arrays->columns;
    int32_t *restrict whole = arrays->whole;
    float *restrict out = arrays->out;
    for (int64_t i = 0; i < count; i++) {
        whole[i] = (int32_t)arrays->x[i];
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = (float)whole[i];
    }
}

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
cadre_bench_loop_mean_rows(const cadre_bench_arrays_t *arrays)
{
    cadre_bench_loop_sum_rows(arrays);
    for (int64_t r = 0; r < arrays->rows; r++) {
        arrays->out[r] /= (float)arrays->columns;
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

void
cadre_bench_loop_argmax(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *x = arrays->x + r * arrays->columns;
        int64_t best = 0;
        for (int64_t c = 1; c < arrays->columns; c++) {
            best = x[c] > x[best] ? c : best;
        }
        arrays->out[r] = (float)best;
    }
}

void
cadre_bench_loop_xent_grad(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *x = arrays->x + r * arrays->columns;
        float *restrict out = arrays->out + r * arrays->columns;
        float shift = log_sum(x, arrays->columns);
        for (int64_t c = 0; c < arrays->columns; c++) {
            out[c] = expf(x[c] - shift) * arrays->column[r];
        }
        out[arrays->labels[r]] -= arrays->column[r];
    }
}

/* The mean of a row, and one over its deviation. */
static void
moments(const float *x, int64_t count, float *mean, float *scale)
{
    float sum = 0;
    float squares = 0;

    for (int64_t i = 0; i < count; i++) {
        sum += x[i];
    }

    *mean = sum / (float)count;
    for (int64_t i = 0; i < count; i++) {
        squares += (x[i] - *mean) * (x[i] - *mean);
    }

    *scale = 1 / sqrtf(squares / (float)count + 1e-5F);
}

void
cadre_bench_loop_rownorm(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *x = arrays->x + r * arrays->columns;
        float *restrict out = arrays->out + r * arrays->columns;
        float mean = 0;
        float scale = 0;
        moments(x, arrays->columns, &mean, &scale);
        for (int64_t c = 0; c < arrays->columns; c++) {
            out[c] = (x[c] - mean) * scale;
        }
    }
}

void
cadre_bench_loop_rownorm_grad(const cadre_bench_arrays_t *arrays)
{
    float size = (float)arrays->columns;
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *g = arrays->y + r * arrays->columns;
        const float *x = arrays->x + r * arrays->columns;

        float *restrict out = arrays->out + r * arrays->columns;
        float mean = 0;
        float scale = 0;
        float sum = 0;
        float along = 0;

        moments(x, arrays->columns, &mean, &scale);
        for (int64_t c = 0; c < arrays->columns; c++) {
            sum += g[c];
            along += g[c] * (x[c] - mean) * scale;
        }

        for (int64_t c = 0; c < arrays->columns; c++) {
            out[c] = scale * (g[c] - sum / size - (x[c] - mean) * scale * along / size);
        }
    }
}

void
cadre_bench_loop_broadcast(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        memcpy(arrays->out + r * arrays->columns, arrays->row,
               (size_t)arrays->columns * sizeof(float));
    }
}

void
cadre_bench_loop_pad(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        float *out = arrays->out + r * (arrays->columns + 2);
        out[0] = 0;
        memcpy(out + 1, arrays->x + r * arrays->columns, (size_t)arrays->columns * sizeof(float));
        out[arrays->columns + 1] = 0;
    }
}

void
cadre_bench_loop_take(const cadre_bench_arrays_t *arrays)
{
    for (int64_t r = 0; r < arrays->rows; r++) {
        memcpy(arrays->out + r * arrays->columns, arrays->x + arrays->labels[r] * arrays->columns,
               (size_t)arrays->columns * sizeof(float));
    }
}

/* Adds row `from` of x to row `to` of the output. */
static void
add_row(const cadre_bench_arrays_t *arrays, int64_t to, int64_t from)
{
    float *restrict out = arrays->out + to * arrays->columns;
    const float *restrict x = arrays->x + from * arrays->columns;
    for (int64_t c = 0; c < arrays->columns; c++) {
        out[c] += x[c];
    }
}

void
cadre_bench_loop_scatter(const cadre_bench_arrays_t *arrays)
{
    memset(arrays->out, 0, (size_t)(arrays->rows * arrays->columns) * sizeof(float));
    for (int64_t r = 0; r < arrays->rows; r++) {
        add_row(arrays, arrays->labels[r], r);
    }
}

void
cadre_bench_loop_bag(const cadre_bench_arrays_t *arrays)
{
    size_t size = (size_t)(arrays->rows / CADRE_BENCH_BAG * arrays->columns);
    memset(arrays->out, 0, size * sizeof(float));
    for (int64_t r = 0; r < arrays->rows; r++) {
        add_row(arrays, r / CADRE_BENCH_BAG, arrays->labels[r]);
    }
}

void
cadre_bench_loop_bag_grad(const cadre_bench_arrays_t *arrays)
{
    memset(arrays->out, 0, (size_t)(arrays->rows * arrays->columns) * sizeof(float));
    for (int64_t r = 0; r < arrays->rows; r++) {
        add_row(arrays, arrays->labels[r], r / CADRE_BENCH_BAG);
    }
}

void
cadre_bench_loop_rand(const cadre_bench_arrays_t *arrays)
{
    cadre_random_fill_uniform(1, 1, 0, (size_t)(arrays->rows * arrays->columns), arrays->out);
}

/* Which element of an image is at (y, x) of it; -1 in the border. */
static int64_t
pixel(int64_t y, int64_t x)
{
    enum { SIDE = CADRE_BENCH_IMAGE_SIDE };
    return y < 0 || y >= SIDE || x < 0 || x >= SIDE ? -1
                                                    : (y * SIDE + x) * CADRE_BENCH_IMAGE_CHANNELS;
}

/* Visits what the windows over image `r` cover, in their order. */
#define WINDOWS(visit)                                                                             \
    for (int64_t y = 0; y < CADRE_BENCH_IMAGE_SIDE; y++) {                                         \
        for (int64_t x = 0; x < CADRE_BENCH_IMAGE_SIDE; x++) {                                     \
            for (int64_t k = 0; k < CADRE_BENCH_KERNEL * CADRE_BENCH_KERNEL; k++) {                \
                int64_t at =                                                                       \
                    pixel(y + k / CADRE_BENCH_KERNEL - 1, x + k % CADRE_BENCH_KERNEL - 1);         \
                for (int64_t c = 0; c < CADRE_BENCH_IMAGE_CHANNELS; c++) {                         \
                    visit;                                                                         \
                }                                                                                  \
                window += CADRE_BENCH_IMAGE_CHANNELS;                                              \
            }                                                                                      \
        }                                                                                          \
    }

void
cadre_bench_loop_im2col(const cadre_bench_arrays_t *arrays)
{
    float *restrict window = arrays->out;
    for (int64_t r = 0; r < arrays->rows; r++) {
        const float *restrict image = arrays->x + r * arrays->columns;
        WINDOWS(window[c] = at < 0 ? 0 : image[at + c])
    }
}

void
cadre_bench_loop_col2im(const cadre_bench_arrays_t *arrays)
{
    const float *restrict window = arrays->windows;
    memset(arrays->out, 0, (size_t)(arrays->rows * arrays->columns) * sizeof(float));
    for (int64_t r = 0; r < arrays->rows; r++) {
        float *restrict image = arrays->out + r * arrays->columns;
        WINDOWS(if (at >= 0) { image[at + c] += window[c]; })
    }
}
#undef WINDOWS
