/*
 * What is said of layers and losses that are put together wrongly, and the shapes of right ones.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "common/base/memory.h"
#include "common/graph/program.h"

TestSuite(layers, .timeout = 240);

static cadre_node_t
arg(cadre_program_t *p, const char *name, int rank, int64_t a, int64_t b, int64_t c)
{
    cadre_dim_t dims[4] = {cadre_dim_symbol("B"), cadre_dim(a), cadre_dim(b), cadre_dim(c)};
    return cadre_op_arg(p, name, CADRE_F32, dims, rank);
}

static cadre_node_t
image(cadre_program_t *p, int64_t channels)
{
    return arg(p, "x", 4, 6, 8, channels);
}

static cadre_node_t
kernel(cadre_program_t *p, int64_t size, int64_t in, int64_t out)
{
    return cadre_op_var(p, "kernel", (int64_t[]){size, size, in, out}, 4);
}

static cadre_node_t
row(cadre_program_t *p, const char *name, int64_t size)
{
    return cadre_op_var(p, name, &size, 1);
}

static cadre_node_t
rows(cadre_program_t *p, const char *name, int64_t width)
{
    return arg(p, name, 2, width, 0, 0);
}

static cadre_node_t
labels(cadre_program_t *p)
{
    cadre_dim_t dims[1] = {cadre_dim_symbol("B")};
    return cadre_op_arg(p, "label", CADRE_I32, dims, 1);
}

static const cadre_node_t none = {0};

static cadre_node_t
conv_of_other_channels(cadre_program_t *p)
{
    return cadre_op_conv2d(p, image(p, 3), kernel(p, 3, 1, 4), none, 1, 1);
}
static cadre_node_t
conv_of_rows(cadre_program_t *p)
{
    return cadre_op_conv2d(p, rows(p, "x", 3), kernel(p, 3, 3, 4), none, 1, 1);
}
static cadre_node_t
sequence(cadre_program_t *p)
{
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(6), cadre_dim(3)};
    return cadre_op_arg(p, "s", CADRE_F32, dims, 3);
}
static cadre_node_t
weight3(cadre_program_t *p, int64_t positions, int64_t channels)
{
    return cadre_op_var(p, "w", (int64_t[]){positions, channels, 4}, 3);
}
static cadre_node_t
conv1d_misfit(cadre_program_t *p)
{
    return cadre_op_conv1d(p, sequence(p), weight3(p, 3, 2), none, 1, 1);
}
static cadre_node_t
conv1d_of_rows(cadre_program_t *p)
{
    return cadre_op_conv1d(p, rows(p, "x", 3), weight3(p, 3, 3), none, 1, 1);
}
static cadre_node_t
conv1d_too_large(cadre_program_t *p)
{
    return cadre_op_conv1d(p, sequence(p), weight3(p, 9, 3), none, 1, 1);
}
static cadre_node_t
conv1d_bias_of_other_size(cadre_program_t *p)
{
    return cadre_op_conv1d(p, sequence(p), weight3(p, 3, 3), row(p, "b", 3), 1, 1);
}
static cadre_node_t
conv1d_without_stride(cadre_program_t *p)
{
    return cadre_op_conv1d(p, sequence(p), weight3(p, 3, 3), none, 0, 1);
}
static cadre_node_t
pool1d_of_endless(cadre_program_t *p)
{
    const cadre_dim_t dims[] = {cadre_dim(2), cadre_dim_symbol("T"), cadre_dim(3)};
    return cadre_op_max_pool1d(p, cadre_op_arg(p, "s", CADRE_F32, dims, 3), 2, 2);
}
static cadre_node_t
pool1d_too_large(cadre_program_t *p)
{
    return cadre_op_mean_pool1d(p, sequence(p), 7, 1);
}
/* A gru of `units` over sequences of `positions`, its weights for others. */
static cadre_node_t
recurrent(cadre_program_t *p, int64_t positions, const int64_t shapes[3][2])
{
    const cadre_dim_t dims[] = {cadre_dim_symbol("B"), cadre_dim(positions), cadre_dim(3)};
    return cadre_op_gru(
        p, cadre_op_arg(p, "s", CADRE_F32, dims, 3), cadre_op_var(p, "kernel", shapes[0], 2),
        cadre_op_var(p, "recurrent", shapes[1], 2), cadre_op_var(p, "bias", shapes[2], 2), 0);
}
static cadre_node_t
gru_of_rows(cadre_program_t *p)
{
    cadre_node_t weight = cadre_op_var(p, "w", (int64_t[]){2, 6}, 2);
    return cadre_op_gru(p, rows(p, "x", 3), weight, weight, weight, 0);
}
static cadre_node_t
gru_of_endless(cadre_program_t *p)
{
    const cadre_dim_t dims[] = {cadre_dim(2), cadre_dim_symbol("T"), cadre_dim(3)};
    cadre_node_t weight = cadre_op_var(p, "w", (int64_t[]){2, 6}, 2);
    return cadre_op_gru(p, cadre_op_arg(p, "s", CADRE_F32, dims, 3), weight, weight, weight, 0);
}
static cadre_node_t
gru_too_long(cadre_program_t *p)
{
    return recurrent(p, 257, (const int64_t[3][2]){{3, 6}, {2, 6}, {2, 6}});
}
static cadre_node_t
gru_recurrent_of_other_gates(cadre_program_t *p)
{
    return recurrent(p, 4, (const int64_t[3][2]){{3, 6}, {2, 8}, {2, 6}});
}
static cadre_node_t
gru_kernel_of_other_numbers(cadre_program_t *p)
{
    return recurrent(p, 4, (const int64_t[3][2]){{2, 6}, {2, 6}, {2, 6}});
}
static cadre_node_t
gru_with_one_bias(cadre_program_t *p)
{
    return recurrent(p, 4, (const int64_t[3][2]){{3, 6}, {2, 6}, {1, 6}});
}
static cadre_node_t
lstm_with_two_biases(cadre_program_t *p)
{
    return cadre_op_lstm(p, sequence(p), cadre_op_var(p, "kernel", (int64_t[]){3, 8}, 2),
                         cadre_op_var(p, "recurrent", (int64_t[]){2, 8}, 2),
                         cadre_op_var(p, "bias", (int64_t[]){2, 8}, 2), 0);
}
static cadre_node_t
conv_with_matrix(cadre_program_t *p)
{
    return cadre_op_conv2d(p, image(p, 3), cadre_op_var(p, "w", (int64_t[]){9, 3}, 2), none, 1, 1);
}
static cadre_node_t
conv_bias_of_other_size(cadre_program_t *p)
{
    return cadre_op_conv2d(p, image(p, 3), kernel(p, 3, 3, 4), row(p, "b", 3), 1, 1);
}
static cadre_node_t
conv_too_large(cadre_program_t *p)
{
    return cadre_op_conv2d(p, image(p, 3), kernel(p, 7, 3, 4), none, 1, 0);
}
static cadre_node_t
pool_too_large(cadre_program_t *p)
{
    return cadre_op_max_pool2d(p, image(p, 3), (int[]){7, 7}, 1);
}
static cadre_node_t
pool_without_stride(cadre_program_t *p)
{
    return cadre_op_mean_pool2d(p, image(p, 3), (int[]){2, 2}, 0);
}
static cadre_node_t
pool_of_rows(cadre_program_t *p)
{
    return cadre_op_max_pool2d(p, rows(p, "x", 4), (int[]){2, 2}, 2);
}
static cadre_node_t
layer_norm_scale(cadre_program_t *p)
{
    return cadre_op_layer_norm(p, rows(p, "x", 4), row(p, "scale", 1), none, 0);
}
static cadre_node_t
layer_norm_shift(cadre_program_t *p)
{
    return cadre_op_layer_norm(p, rows(p, "x", 4), none, rows(p, "shift", 4), 0);
}
static cadre_node_t
batch_norm_of_row(cadre_program_t *p)
{
    cadre_moments_t moments = {{7}, {7}};
    cadre_node_t y = cadre_op_batch_norm(p, row(p, "x", 4), none, none, 0, &moments);
    cr_assert(moments.mean.id == 0 && moments.variance.id == 0);
    return y;
}
static cadre_node_t
batch_norm_eps(cadre_program_t *p)
{
    return cadre_op_batch_norm(p, rows(p, "x", 4), none, none, -1, NULL);
}
static cadre_node_t
batch_norm_mean(cadre_program_t *p)
{
    cadre_moments_t moments = {row(p, "mean", 3), row(p, "variance", 4)};
    return cadre_op_batch_norm_fixed(p, rows(p, "x", 4), moments, none, none, 0);
}
static cadre_node_t
batch_norm_without_moments(cadre_program_t *p)
{
    return cadre_op_batch_norm_fixed(p, rows(p, "x", 4), (cadre_moments_t){none, none}, none, none,
                                     0);
}
static cadre_node_t
attention_keys(cadre_program_t *p)
{
    return cadre_op_attention(p, arg(p, "q", 3, 5, 8, 0), arg(p, "k", 3, 6, 4, 0),
                              arg(p, "v", 3, 6, 8, 0), 2, 0);
}
static cadre_node_t
attention_values(cadre_program_t *p)
{
    return cadre_op_attention(p, arg(p, "q", 3, 5, 8, 0), arg(p, "k", 3, 6, 8, 0),
                              arg(p, "v", 3, 5, 8, 0), 2, 0);
}
static cadre_node_t
attention_heads(cadre_program_t *p)
{
    cadre_node_t x = arg(p, "x", 3, 5, 8, 0);
    return cadre_op_attention(p, x, x, x, 3, 0);
}
static cadre_node_t
attention_no_heads(cadre_program_t *p)
{
    cadre_node_t x = arg(p, "x", 3, 5, 8, 0);
    return cadre_op_attention(p, x, x, x, 0, 0);
}
static cadre_node_t
attention_to_more_keys(cadre_program_t *p)
{
    cadre_node_t keys = arg(p, "k", 3, 6, 8, 0);
    return cadre_op_attention(p, arg(p, "q", 3, 5, 8, 0), keys, keys, 2, 1);
}
static cadre_node_t
attention_of_symbols(cadre_program_t *p)
{
    cadre_dim_t dims[3] = {cadre_dim_symbol("B"), cadre_dim_symbol("T"), cadre_dim(8)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 3);
    cr_assert_neq(cadre_op_attention(p, x, x, x, 2, 0).id, 0);
    return cadre_op_attention(p, x, x, x, 2, 1);
}
static cadre_node_t
certain_smoothing(cadre_program_t *p)
{
    return cadre_op_softmax_cross_entropy_smoothed(p, rows(p, "x", 4), labels(p), 1);
}
static cadre_node_t
negative_smoothing(cadre_program_t *p)
{
    return cadre_op_sigmoid_cross_entropy_smoothed(p, rows(p, "x", 1), labels(p), -0.1F);
}
static cadre_node_t
kl_of_labels(cadre_program_t *p)
{
    return cadre_op_kl_divergence(p, rows(p, "x", 4), rows(p, "t", 3));
}
static cadre_node_t
huber_without_delta(cadre_program_t *p)
{
    return cadre_op_huber(p, rows(p, "x", 1), labels(p), 0);
}
static cadre_node_t
huber_with_nan(cadre_program_t *p)
{
    return cadre_op_huber(p, rows(p, "x", 1), labels(p), NAN);
}
static cadre_node_t
hinge_of_columns(cadre_program_t *p)
{
    return cadre_op_hinge(p, rows(p, "x", 2), labels(p));
}

static const struct {
    cadre_node_t (*build)(cadre_program_t *p);
    int status;
    const char *text;
} mistakes[] = {
    {conv_of_other_channels, CADRE_ESHAPE,
     "conv2d: image [B,6,8,3] does not go with weight [3,3,1,4]"},
    {conv_of_rows, CADRE_ESHAPE, "conv2d: image [B,3] does not go with weight [3,3,3,4]"},
    {conv_with_matrix, CADRE_ESHAPE, "conv2d: image [B,6,8,3] does not go with weight [9,3]"},
    {conv_bias_of_other_size, CADRE_ESHAPE, "conv2d: bias [3] does not go with weight [3,3,3,4]"},
    {conv1d_misfit, CADRE_ESHAPE, "conv1d: sequence [B,6,3] does not go with weight [3,2,4]"},
    {conv1d_of_rows, CADRE_ESHAPE, "conv1d: sequence [B,3] does not go with weight [3,3,4]"},
    {conv1d_too_large, CADRE_ESHAPE, "conv1d: a window of 9 does not fit [B,6,3] with padding 1"},
    {conv1d_bias_of_other_size, CADRE_ESHAPE, "conv2d: bias [3] does not go with weight [1,3,3,4]"},
    {conv1d_without_stride, CADRE_EINVALID,
     "conv1d: window and stride are 1 to 65536, a padding 0 to 65536, not 3, 0 and 1"},
    {pool1d_of_endless, CADRE_ESHAPE,
     "max_pool1d: needs sequences [batch,positions,channels], of which the last two are numbers, "
     "not [2,T,3]"},
    {pool1d_too_large, CADRE_ESHAPE,
     "mean_pool1d: a window of 7 does not fit [B,6,3] with padding 0"},
    {gru_of_rows, CADRE_ESHAPE,
     "gru: needs sequences [batch,positions,numbers], of which the second is a number, not [B,3]"},
    {gru_of_endless, CADRE_ESHAPE,
     "gru: needs sequences [batch,positions,numbers], of which the second is a number, not "
     "[2,T,3]"},
    {gru_too_long, CADRE_ETOOLARGE, "gru: [B,257,3] has more than 256 positions"},
    {gru_recurrent_of_other_gates, CADRE_ESHAPE, "gru: the recurrent kernel is [2,8], not [2,6]"},
    {gru_kernel_of_other_numbers, CADRE_ESHAPE, "gru: the kernel is [2,6], not [3,6]"},
    {gru_with_one_bias, CADRE_ESHAPE, "gru: the bias is [1,6], not [2,6]"},
    {lstm_with_two_biases, CADRE_ESHAPE, "lstm: the bias is [2,8], not [8]"},
    {conv_too_large, CADRE_ESHAPE, "conv2d: a window of 7x7 does not fit [B,6,8,3] with padding 0"},
    {pool_too_large, CADRE_ESHAPE,
     "max_pool2d: a window of 7x7 does not fit [B,6,8,3] with padding 0"},
    {pool_without_stride, CADRE_EINVALID, "mean_pool2d: stride of 0 is not in 1..65536"},
    {pool_of_rows, CADRE_ESHAPE,
     "max_pool2d: needs [batch,height,width,channels], the last three numbers, not [B,4]"},
    {layer_norm_scale, CADRE_ESHAPE, "layer norm: scale [1] does not go with x [B,4]"},
    {layer_norm_shift, CADRE_ESHAPE, "layer norm: shift [B,4] does not go with x [B,4]"},
    {batch_norm_of_row, CADRE_ESHAPE, "batch norm: needs a batch and channels, not [4]"},
    {batch_norm_eps, CADRE_EINVALID, "batch norm: eps must be a finite number, at least 0"},
    {batch_norm_mean, CADRE_ESHAPE, "batch norm: mean [3] does not go with x [B,4]"},
    {batch_norm_without_moments, CADRE_EINVALID, "batch norm: an input is empty"},
    {attention_keys, CADRE_ESHAPE, "attention: queries [B,5,8] does not go with keys [B,6,4]"},
    {attention_values, CADRE_ESHAPE, "attention: keys [B,6,8] does not go with values [B,5,8]"},
    {attention_heads, CADRE_ESHAPE, "attention: 3 heads do not divide the last axis of [B,5,8]"},
    {attention_no_heads, CADRE_ESHAPE, "attention: 0 heads do not divide the last axis of [B,5,8]"},
    {attention_to_more_keys, CADRE_ESHAPE,
     "attention: causal: queries [B,5,8] does not go with keys [B,6,8]"},
    {attention_of_symbols, CADRE_ESHAPE,
     "attention: causal needs a number of positions, the second in [B,T,8]"},
    {certain_smoothing, CADRE_EINVALID,
     "softmax cross entropy: smoothing: 1 is not in 0 to below 1"},
    {negative_smoothing, CADRE_EINVALID,
     "sigmoid cross entropy: smoothing: -0.1 is not in 0 to below 1"},
    {kl_of_labels, CADRE_ESHAPE, "kl divergence: logits [B,4] does not go with targets [B,3]"},
    {huber_without_delta, CADRE_EINVALID, "huber: delta 0 is not above 0"},
    {huber_with_nan, CADRE_EINVALID, "huber: delta nan is not above 0"},
    {hinge_of_columns, CADRE_ESHAPE, "hinge: predictions [B,2] do not go with targets [B]"},
};

Test(layers, say_what_does_not_go_together)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(mistakes); i++) {
        cadre_program_t *p = cadre_program_new("model");
        cadre_program_scope_begin(p, "top");
        cr_assert_eq(mistakes[i].build(p).id, 0, "%s", mistakes[i].text);
        cadre_program_scope_end(p);
        cr_assert_eq(cadre_program_finish(p), mistakes[i].status, "%s", cadre_error_text());
        cadre_auto(cadre_free) char *text = cadre_asprintf("top: %s", mistakes[i].text);
        cr_assert_str_eq(cadre_error_text(), text);
        cadre_program_destroy(&p);
    }
}

Test(layers, have_shapes_that_follow_from_their_inputs)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("shapes");
    cadre_node_t x = image(p, 3);
    cadre_node_t q = arg(p, "q", 3, 5, 8, 0);
    cadre_node_t k = arg(p, "k", 3, 7, 8, 0);
    cadre_node_t v = arg(p, "v", 3, 7, 6, 0);
    cadre_node_t pointwise = cadre_op_var(p, "pointwise", (int64_t[]){1, 1, 3, 9}, 4);
    struct {
        cadre_node_t node;
        const char *shape;
    } cases[] = {
        {cadre_op_conv2d(p, x, kernel(p, 3, 3, 4), none, 1, 1), "[B,6,8,4]"},
        {cadre_op_conv2d(p, x, kernel(p, 3, 3, 4), row(p, "b", 4), 2, 0), "[B,2,3,4]"},
        {cadre_op_conv2d(p, x, pointwise, none, 1, 0), "[B,6,8,9]"},
        {cadre_op_max_pool2d(p, x, (int[]){2, 2}, 2), "[B,3,4,3]"},
        {cadre_op_max_pool2d(p, x, (int[]){3, 3}, 3), "[B,2,2,3]"},
        {cadre_op_mean_pool2d(p, x, (int[]){6, 8}, 1), "[B,1,1,3]"},
        {cadre_op_layer_norm(p, x, row(p, "scale", 3), none, 0), "[B,6,8,3]"},
        {cadre_op_batch_norm(p, x, none, row(p, "shift", 3), 0, NULL), "[B,6,8,3]"},
        {cadre_op_attention(p, q, k, v, 2, 0), "[B,5,6]"},
        {cadre_op_kl_divergence(p, v, v), "[]"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cr_assert_neq(cases[i].node.id, 0, "%s", cases[i].shape);
        const cadre_extents_t *shape = &cadre_program_node(p, cases[i].node.id - 1)->shape;
        cr_assert_str_eq(cadre_extents_text(shape, cadre_program_symbols(p), text), cases[i].shape);
    }
}

static int
count_of(const cadre_program_t *p, cadre_op_t op)
{
    int count = 0;
    for (int i = 0; i < cadre_program_node_count(p); i++) {
        count += cadre_program_node(p, i)->op == op;
    }
    return count;
}

Test(layers, copy_no_image_where_windows_are_the_image_or_fill_it)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("copies");
    cadre_node_t x = image(p, 3);
    cadre_op_conv2d(p, x, cadre_op_var(p, "w", (int64_t[]){1, 1, 3, 9}, 4), none, 1, 0);
    cadre_op_max_pool2d(p, x, (int[]){2, 2}, 2);
    cr_assert_eq(count_of(p, CADRE_OP_IM2COL), 0);
    cadre_op_conv2d(p, x, cadre_op_var(p, "w", (int64_t[]){1, 1, 3, 9}, 4), none, 2, 0);
    cadre_op_max_pool2d(p, x, (int[]){2, 2}, 1);
    cr_assert_eq(count_of(p, CADRE_OP_IM2COL), 2);
}
