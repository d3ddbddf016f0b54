/*
 * Layers and losses against their formulas, written as index arithmetic.
 */
#include <math.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(layer, .timeout = 240);

static const cadre_node_t none = {0};

static void
expect_near(const char *what, int64_t index, double got, double wanted)
{
    cr_assert(fabs(got - wanted) <= 2e-5 * fmax(1, fabs(wanted)), "%s at %d: %.9g, not %.9g", what,
              (int)index, got, wanted);
}

static void
expect_all_near(const char *what, const cadre_tensor_t *got, const double *wanted)
{
    for (int64_t i = 0; i < cadre_tensor_count(got); i++) {
        expect_near(what, i, (double)f32_at(got, i), wanted[i]);
    }
}

static double
at4(const cadre_tensor_t *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (double)f32_at(x, ((a * x->shape[1] + b) * x->shape[2] + c) * x->shape[3] + d);
}

/* ---- images ---- */

typedef struct {
    int64_t image[4];
    int64_t kernel[3]; /* height, width, channels out */
    int stride;
    int padding;
} convolution_t;

static const convolution_t convolutions[] = {
    {{2, 5, 6, 3}, {3, 3, 4}, 1, 1}, {{1, 7, 5, 2}, {2, 4, 1}, 2, 0},
    {{3, 4, 4, 2}, {1, 1, 5}, 1, 0}, {{3, 4, 4, 2}, {1, 1, 5}, 2, 0},
    {{1, 1, 9, 1}, {1, 5, 2}, 1, 2},
};

static double
convolved(const convolution_t *one, const cadre_tensor_t *x, const cadre_tensor_t *weight,
          const int64_t at[4])
{
    double sum = 0;
    for (int64_t i = 0; i < one->kernel[0] * one->kernel[1] * one->image[3]; i++) {
        int64_t channel = i % one->image[3];
        int64_t kernel_x = i / one->image[3] % one->kernel[1];
        int64_t kernel_y = i / one->image[3] / one->kernel[1];
        int64_t row = at[1] * one->stride + kernel_y - one->padding;
        int64_t column = at[2] * one->stride + kernel_x - one->padding;
        if (row >= 0 && row < one->image[1] && column >= 0 && column < one->image[2]) {
            sum += at4(x, at[0], row, column, channel) *
                   at4(weight, kernel_y, kernel_x, channel, at[3]);
        }
    }
    return sum;
}

Test(layer, convolves_images)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(convolutions); i++) {
        const convolution_t *one = &convolutions[i];
        int64_t weight[4] = {one->kernel[0], one->kernel[1], one->image[3], one->kernel[2]};
        cadre_tensor_t x[3] = {random_tensor(CADRE_F32, one->image, 4, 1),
                               random_tensor(CADRE_F32, weight, 4, 2),
                               random_tensor(CADRE_F32, &weight[3], 1, 3)};
        cadre_program_t *p = cadre_program_new("conv2d");
        cadre_node_t image = arg_like(p, "x", &x[0]);
        cadre_node_t kernel = arg_like(p, "weight", &x[1]);
        cadre_node_t bias = arg_like(p, "bias", &x[2]);
        cadre_tensor_t y =
            run_once(p, cadre_op_conv2d(p, image, kernel, bias, one->stride, one->padding), x);
        for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
            int64_t channel = k % y.shape[3];
            int64_t row = k / y.shape[3] / y.shape[2];
            int64_t at[4] = {row / y.shape[1], row % y.shape[1], k / y.shape[3] % y.shape[2],
                             channel};
            double wanted = convolved(one, &x[0], &x[1], at) + (double)f32_at(&x[2], channel);
            expect_near("conv2d", k, (double)f32_at(&y, k), wanted);
        }
        cadre_tensor_fini(&y);
        for (int k = 0; k < 3; k++) {
            cadre_tensor_fini(&x[k]);
        }
    }
}

/* Sequences, against images of height 1 for what a padding is, in place of it. */
Test(layer, convolves_sequences)
{
    static const struct {
        int64_t sequence[3];
        int64_t kernel[2]; /* positions, channels out */
        int stride;
        int padding;
    } cases[] = {
        {{2, 7, 3}, {3, 4}, 1, 1}, {{1, 8, 2}, {4, 1}, 2, 0}, {{3, 4, 2}, {1, 5}, 1, 0},
        {{3, 5, 1}, {5, 2}, 3, 4}, {{2, 6, 2}, {6, 3}, 1, 0},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        int64_t channels = cases[i].sequence[2];
        int64_t weight[3] = {cases[i].kernel[0], channels, cases[i].kernel[1]};
        cadre_tensor_t x[3] = {random_tensor(CADRE_F32, cases[i].sequence, 3, 1),
                               random_tensor(CADRE_F32, weight, 3, 2),
                               random_tensor(CADRE_F32, &weight[2], 1, 3)};
        cadre_program_t *p = cadre_program_new("conv1d");
        cadre_node_t sequence = arg_like(p, "x", &x[0]);
        cadre_node_t kernel = arg_like(p, "weight", &x[1]);
        cadre_node_t bias = arg_like(p, "bias", &x[2]);
        cadre_tensor_t y = run_once(
            p, cadre_op_conv1d(p, sequence, kernel, bias, cases[i].stride, cases[i].padding), x);
        cr_assert_eq(y.rank, 3);
        cr_assert_eq(y.shape[1],
                     (cases[i].sequence[1] + 2 * cases[i].padding - weight[0]) / cases[i].stride +
                         1);
        for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
            int64_t out = k % weight[2];
            int64_t position = k / weight[2] % y.shape[1];
            int64_t row = k / weight[2] / y.shape[1];
            double wanted = (double)f32_at(&x[2], out);
            for (int64_t j = 0; j < weight[0] * channels; j++) {
                int64_t from = position * cases[i].stride + j / channels - cases[i].padding;
                if (from >= 0 && from < cases[i].sequence[1]) {
                    int64_t at = (row * cases[i].sequence[1] + from) * channels + j % channels;
                    wanted +=
                        (double)f32_at(&x[0], at) * (double)f32_at(&x[1], j * weight[2] + out);
                }
            }
            expect_near("conv1d", k, (double)f32_at(&y, k), wanted);
        }
        cadre_tensor_fini(&y);
        for (int k = 0; k < 3; k++) {
            cadre_tensor_fini(&x[k]);
        }
    }
}

/* Of windows that fill the sequence, that leave a rest, that overlap and that leave gaps. */
Test(layer, pools_sequences)
{
    static const int cases[][2] = {{2, 2}, {4, 4}, {3, 1}, {1, 3}, {8, 8}, {1, 1}};
    const int64_t shape[3] = {2, 8, 3};
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(cases); i++) {
        bool largest = i % 2 == 0;
        int window = cases[i / 2][0];
        int stride = cases[i / 2][1];
        cadre_tensor_t x = random_tensor(CADRE_F32, shape, 3, 1);
        cadre_program_t *p = cadre_program_new("pool");
        cadre_node_t node = arg_like(p, "x", &x);
        cadre_tensor_t y = run_once(p,
                                    largest ? cadre_op_max_pool1d(p, node, window, stride)
                                            : cadre_op_mean_pool1d(p, node, window, stride),
                                    &x);
        cr_assert_eq(y.shape[1], (8 - window) / stride + 1);
        for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
            double most = -INFINITY;
            double sum = 0;
            int64_t first = k / 3 / y.shape[1] * 8 + k / 3 % y.shape[1] * stride;
            for (int64_t j = first; j < first + window; j++) {
                double value = (double)f32_at(&x, j * 3 + k % 3);
                most = fmax(most, value);
                sum += value;
            }
            expect_near("pool", k, (double)f32_at(&y, k), largest ? most : sum / window);
        }
        cadre_tensor_fini(&y);
        cadre_tensor_fini(&x);
    }
}

static void
check_pool(const int64_t image[4], const int window[2], int stride, bool largest)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, image, 4, 1);
    cadre_program_t *p = cadre_program_new("pool");
    cadre_node_t node = arg_like(p, "x", &x);
    cadre_tensor_t y = run_once(p,
                                largest ? cadre_op_max_pool2d(p, node, window, stride)
                                        : cadre_op_mean_pool2d(p, node, window, stride),
                                &x);
    cr_assert_eq(y.shape[1], (image[1] - window[0]) / stride + 1);
    cr_assert_eq(y.shape[2], (image[2] - window[1]) / stride + 1);
    for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
        int64_t column = k / y.shape[3] % y.shape[2];
        int64_t row = k / y.shape[3] / y.shape[2] % y.shape[1];
        int64_t batch = k / y.shape[3] / y.shape[2] / y.shape[1];
        double most = -INFINITY;
        double sum = 0;
        for (int i = 0; i < window[0] * window[1]; i++) {
            double value = at4(&x, batch, row * stride + i / window[1],
                               column * stride + i % window[1], k % y.shape[3]);
            most = fmax(most, value);
            sum += value;
        }
        expect_near(largest ? "max pool" : "mean pool", k, (double)f32_at(&y, k),
                    largest ? most : sum / (window[0] * window[1]));
    }
    cadre_tensor_fini(&y);
    cadre_tensor_fini(&x);
}

Test(layer, pools_windows_that_fill_the_image_or_do_not)
{
    const struct {
        int64_t image[4];
        int window[2];
        int stride;
    } cases[] = {
        {{2, 6, 4, 3}, {2, 2}, 2}, {{1, 6, 9, 1}, {3, 3}, 3}, {{2, 5, 7, 2}, {2, 2}, 2},
        {{1, 6, 6, 2}, {3, 2}, 1}, {{2, 4, 4, 3}, {4, 4}, 4}, {{1, 7, 7, 1}, {2, 3}, 4},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        check_pool(cases[i].image, cases[i].window, cases[i].stride, true);
        check_pool(cases[i].image, cases[i].window, cases[i].stride, false);
    }
}

/* ---- normalisation ---- */

enum { CHANNELS = 3 };

typedef struct {
    double mean[CHANNELS];
    double variance[CHANNELS];
} moments_t;

static moments_t
moments_of(const cadre_tensor_t *x)
{
    moments_t moments = {0};
    int64_t rows = cadre_tensor_count(x) / CHANNELS;
    for (int64_t i = 0; i < rows * CHANNELS; i++) {
        moments.mean[i % CHANNELS] += (double)f32_at(x, i) / (double)rows;
    }
    for (int64_t i = 0; i < rows * CHANNELS; i++) {
        double difference = (double)f32_at(x, i) - moments.mean[i % CHANNELS];
        moments.variance[i % CHANNELS] += difference * difference / (double)rows;
    }
    return moments;
}

Test(layer, norms_each_channel_over_the_batch)
{
    cadre_tensor_t x[3] = {random_tensor(CADRE_F32, (int64_t[]){4, 3, 5, CHANNELS}, 4, 1),
                           random_tensor(CADRE_F32, (int64_t[]){CHANNELS}, 1, 2),
                           random_tensor(CADRE_F32, (int64_t[]){CHANNELS}, 1, 3)};
    cadre_program_t *p = cadre_program_new("batch_norm");
    cadre_node_t node = arg_like(p, "x", &x[0]);
    cadre_node_t scale = arg_like(p, "scale", &x[1]);
    cadre_node_t shift = arg_like(p, "shift", &x[2]);
    cadre_moments_t batch = {none, none};
    cadre_op_result(p, "y", cadre_op_batch_norm(p, node, scale, shift, 0.1F, &batch));
    cadre_op_result(p, "fixed", cadre_op_batch_norm_fixed(p, node, batch, scale, shift, 0.1F));
    cadre_op_result(p, "mean", batch.mean);
    cadre_op_result(p, "variance", batch.variance);
    cadre_tensor_t results[4] = {0};
    cr_assert_eq(try_once(p, x, results), 0, "%s", cadre_error_text());
    moments_t moments = moments_of(&x[0]);
    expect_all_near("mean", &results[2], moments.mean);
    expect_all_near("variance", &results[3], moments.variance);
    for (int64_t i = 0; i < cadre_tensor_count(&x[0]); i++) {
        int64_t c = i % CHANNELS;
        double y =
            ((double)f32_at(&x[0], i) - moments.mean[c]) / sqrt(moments.variance[c] + (double)0.1F);
        double wanted = y * (double)f32_at(&x[1], c) + (double)f32_at(&x[2], c);
        expect_near("batch norm", i, (double)f32_at(&results[0], i), wanted);
        expect_near("fixed", i, (double)f32_at(&results[1], i), wanted);
    }
    for (int i = 0; i < 4; i++) {
        cadre_tensor_fini(&results[i]);
    }
    for (int i = 0; i < 3; i++) {
        cadre_tensor_fini(&x[i]);
    }
}

Test(layer, norms_rows_and_scales_channels)
{
    float values[] = {1, 2, 3, -5, 0, 5};
    float factors[] = {1, 2, -1};
    float summands[] = {0, 10, 20};
    cadre_tensor_t x[3] = {{.dtype = CADRE_F32, .rank = 2, .shape = {2, 3}, .data = values},
                           {.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = factors},
                           {.dtype = CADRE_F32, .rank = 1, .shape = {3}, .data = summands}};
    cadre_program_t *p = cadre_program_new("layer_norm");
    cadre_node_t node = arg_like(p, "x", &x[0]);
    cadre_node_t scale = arg_like(p, "scale", &x[1]);
    cadre_node_t shift = arg_like(p, "shift", &x[2]);
    cadre_tensor_t y = run_once(p, cadre_op_layer_norm(p, node, scale, shift, 0), x);
    double unit = sqrt(1.5);
    expect_all_near("layer norm", &y, (double[]){-unit, 10, 20 - unit, -unit, 10, 20 - unit});
    cadre_tensor_fini(&y);
}

/* ---- attention ---- */

enum { BATCH = 2, QUERIES = 4, HEADS = 2, WIDTH = 3, VALUE_WIDTH = 2 };

/* Output `e` of head `head` for one query. */
static double
attended(const cadre_tensor_t *x, const int64_t at[3], int64_t e, bool causal)
{
    int64_t batch = at[0];
    int64_t query = at[1];
    int64_t head = at[2];
    int64_t keys = x[1].shape[1];
    double sum = 0;
    double total = 0;
    for (int64_t key = 0; key < (causal ? query + 1 : keys); key++) {
        double score = 0;
        for (int64_t d = head * WIDTH; d < (head + 1) * WIDTH; d++) {
            score += (double)f32_at(&x[0], (batch * QUERIES + query) * HEADS * WIDTH + d) *
                     (double)f32_at(&x[1], (batch * keys + key) * HEADS * WIDTH + d);
        }
        double weight = exp(score / sqrt((double)WIDTH));
        int64_t value = (batch * keys + key) * HEADS * VALUE_WIDTH + head * VALUE_WIDTH + e;
        total += weight;
        sum += weight * (double)f32_at(&x[2], value);
    }
    return sum / total;
}

static void
check_attention(int64_t keys, bool causal)
{
    cadre_tensor_t x[3] = {
        random_tensor(CADRE_F32, (int64_t[]){BATCH, QUERIES, HEADS * WIDTH}, 3, 1),
        random_tensor(CADRE_F32, (int64_t[]){BATCH, keys, HEADS * WIDTH}, 3, 2),
        random_tensor(CADRE_F32, (int64_t[]){BATCH, keys, HEADS * VALUE_WIDTH}, 3, 3)};
    cadre_program_t *p = cadre_program_new("attention");
    cadre_node_t q = arg_like(p, "q", &x[0]);
    cadre_node_t k = arg_like(p, "k", &x[1]);
    cadre_node_t v = arg_like(p, "v", &x[2]);
    cadre_tensor_t y = run_once(p, cadre_op_attention(p, q, k, v, HEADS, causal), x);
    for (int64_t i = 0; i < cadre_tensor_count(&y); i++) {
        int64_t place = i / VALUE_WIDTH;
        int64_t at[3] = {place / HEADS / QUERIES, place / HEADS % QUERIES, place % HEADS};
        expect_near(causal ? "causal attention" : "attention", i, (double)f32_at(&y, i),
                    attended(x, at, i % VALUE_WIDTH, causal));
    }
    cadre_tensor_fini(&y);
    for (int i = 0; i < 3; i++) {
        cadre_tensor_fini(&x[i]);
    }
}

Test(layer, attends_to_all_keys_or_to_earlier_ones)
{
    check_attention(QUERIES, false);
    check_attention(QUERIES, true);
    check_attention(7, false);
}

/* ---- losses ---- */

static double
run_loss(cadre_program_t *p, cadre_node_t loss, const cadre_tensor_t *x)
{
    cadre_tensor_t y = run_once(p, loss, x);
    cr_assert_eq(y.rank, 0);
    double value = (double)f32_at(&y, 0);
    cadre_tensor_fini(&y);
    return value;
}

Test(layer, has_losses_of_values)
{
    float values[] = {0.5F, -3, 2, 0};
    int32_t targets[] = {0, 1, 1, 0};
    cadre_tensor_t x[2] = {{.dtype = CADRE_F32, .rank = 2, .shape = {4, 1}, .data = values},
                           {.dtype = CADRE_I32, .rank = 1, .shape = {4}, .data = targets}};
    cadre_program_t *p = cadre_program_new("huber");
    cadre_node_t scores = arg_like(p, "x", &x[0]);
    double wanted = (0.125 + 2 * (4 - 1) + 0.5 + 0) / 4;
    expect_near("huber", 0, run_loss(p, cadre_op_huber(p, scores, arg_like(p, "y", &x[1]), 2), x),
                wanted);
    p = cadre_program_new("hinge");
    scores = arg_like(p, "x", &x[0]);
    expect_near("hinge", 0, run_loss(p, cadre_op_hinge(p, scores, arg_like(p, "y", &x[1])), x),
                (1.5 + 4 + 0 + 1) / 4);
    p = cadre_program_new("smoothed");
    scores = arg_like(p, "x", &x[0]);
    cadre_node_t loss =
        cadre_op_sigmoid_cross_entropy_smoothed(p, scores, arg_like(p, "y", &x[1]), 0.2F);
    wanted = 0;
    for (int i = 0; i < 4; i++) {
        double target = 0.1 + 0.8 * targets[i];
        double probability = 1 / (1 + exp(-(double)values[i]));
        wanted -= (target * log(probability) + (1 - target) * log(1 - probability)) / 4;
    }
    expect_near("smoothed sigmoid cross entropy", 0, run_loss(p, loss, x), wanted);
}

Test(layer, has_losses_of_classes)
{
    float logits[] = {1, 2, 0.5F, -1, 0, 3};
    float likely[] = {0.2F, 0, 0.8F, 0.5F, 0.25F, 0.25F};
    int32_t labels[] = {2, 0};
    cadre_tensor_t x[2] = {{.dtype = CADRE_F32, .rank = 2, .shape = {2, 3}, .data = logits},
                           {.dtype = CADRE_I32, .rank = 1, .shape = {2}, .data = labels}};
    double logarithm[6];
    double hard = 0;
    double even = 0;
    double divergence = 0;
    for (int i = 0; i < 6; i++) {
        const float *row = &logits[i / 3 * 3];
        double total = exp((double)row[0]) + exp((double)row[1]) + exp((double)row[2]);
        logarithm[i] = (double)logits[i] - log(total);
        hard -= i % 3 == labels[i / 3] ? logarithm[i] / 2 : 0;
        even -= logarithm[i] / 6;
        double target = (double)likely[i];
        divergence += target > 0 ? target * (log(target) - logarithm[i]) / 2 : 0;
    }
    cadre_program_t *p = cadre_program_new("smoothed");
    cadre_node_t node = arg_like(p, "x", &x[0]);
    cadre_node_t loss =
        cadre_op_softmax_cross_entropy_smoothed(p, node, arg_like(p, "y", &x[1]), 0.1F);
    expect_near("smoothed cross entropy", 0, run_loss(p, loss, x), 0.9 * hard + 0.1 * even);
    p = cadre_program_new("nll");
    node = cadre_op_log_softmax(p, arg_like(p, "x", &x[0]));
    expect_near("nll", 0, run_loss(p, cadre_op_nll(p, node, arg_like(p, "y", &x[1])), x), hard);
    x[1] = (cadre_tensor_t){.dtype = CADRE_F32, .rank = 2, .shape = {2, 3}, .data = likely};
    p = cadre_program_new("kl");
    node = arg_like(p, "x", &x[0]);
    expect_near("kl divergence", 0,
                run_loss(p, cadre_op_kl_divergence(p, node, arg_like(p, "y", &x[1])), x),
                divergence);
}
