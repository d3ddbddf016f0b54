#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/graph/program.h"

TestSuite(builder, .timeout = 240);

static cadre_node_t
arg(cadre_program_t *p, const char *name, int64_t width)
{
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(width)};
    return cadre_op_arg(p, name, CADRE_F32, dims, 2);
}

static cadre_node_t
labels(cadre_program_t *p, const char *name)
{
    cadre_dim_t dims[1] = {cadre_dim_symbol("B")};
    return cadre_op_arg(p, name, CADRE_I32, dims, 1);
}

static cadre_node_t
matrix(cadre_program_t *p, const char *name, int64_t rows, int64_t columns)
{
    return cadre_op_var(p, name, (int64_t[]){rows, columns}, 2);
}

/* Ends `p`, which must have the mistake `text`. */
static void
expect_mistake(cadre_program_t *p, int status, const char *text)
{
    cr_assert_eq(cadre_program_finish(p), status, "%s", cadre_error_text());
    cr_assert_str_eq(cadre_error_text(), text);
    cadre_program_destroy(&p);
}

Test(builder, destroys_what_is_none)
{
    cadre_program_t *none = NULL;
    cadre_program_destroy(NULL);
    cadre_program_destroy(&none);
}

Test(builder, tells_scope_operation_and_both_shapes)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t x = arg(p, "x", 512);
    cadre_program_scope_begin(p, "top");
    cadre_program_scope_begin(p, "fc1");
    cadre_node_t y = cadre_op_matmul(p, x, matrix(p, "w", 256, 10));
    cr_assert_eq(y.id, 0);
    cadre_program_scope_end(p);
    cadre_program_scope_end(p);
    expect_mistake(p, CADRE_ESHAPE,
                   "top/fc1: matmul: inner dimensions differ: [B,512] times [256,10]");
}

Test(builder, keeps_the_first_mistake_and_does_nothing_after_it)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t x = arg(p, "x", 3);
    cadre_node_t bad = cadre_op_add(p, x, arg(p, "y", 4));
    int count = cadre_program_node_count(p);
    cr_assert_eq(bad.id, 0);
    cr_assert_eq(cadre_op_relu(p, bad).id, 0);
    cr_assert_eq(cadre_op_relu(p, x).id, 0);
    cr_assert_eq(arg(p, "z", 3).id, 0);
    cadre_program_scope_end(p);
    cadre_op_result(p, "x", x);
    cr_assert_eq(cadre_program_node_count(p), count);
    cr_assert_eq(cadre_program_finish(p), CADRE_ESHAPE);
    expect_mistake(p, CADRE_ESHAPE, "add: shapes do not broadcast: [B,3] and [B,4]");
}

typedef struct {
    cadre_node_t (*build)(cadre_program_t *p);
    int status;
    const char *text;
} mistake_t;

static cadre_node_t
empty_input(cadre_program_t *p)
{
    return cadre_op_relu(p, (cadre_node_t){0});
}
static cadre_node_t
foreign_input(cadre_program_t *p)
{
    return cadre_op_relu(p, (cadre_node_t){99});
}
static cadre_node_t
integer_relu(cadre_program_t *p)
{
    return cadre_op_relu(p, labels(p, "y"));
}
static cadre_node_t
mixed_types(cadre_program_t *p)
{
    return cadre_op_eq(p, labels(p, "y"), cadre_op_const_f32(p, 1));
}
static cadre_node_t
transposed_matmul(cadre_program_t *p)
{
    return cadre_op_matmul_transposed(p, arg(p, "x", 5), 1, matrix(p, "w", 5, 2), 0);
}
static cadre_node_t
missing_axis(cadre_program_t *p)
{
    return cadre_op_sum(p, arg(p, "x", 5), 2);
}
static cadre_node_t
missing_axis_from_end(cadre_program_t *p)
{
    return cadre_op_sum(p, arg(p, "x", 5), -3);
}
static cadre_node_t
wrong_reshape(cadre_program_t *p)
{
    cadre_dim_t dims[2] = {cadre_dim_symbol_times("B", 2), cadre_dim(3)};
    return cadre_op_reshape(p, arg(p, "x", 5), dims, 2);
}
static cadre_node_t
other_symbol(cadre_program_t *p)
{
    cadre_dim_t dims[1] = {cadre_dim_symbol("N")};
    return cadre_op_xent(p, arg(p, "x", 5), cadre_op_arg(p, "label", CADRE_I32, dims, 1));
}
static cadre_node_t
float_labels(cadre_program_t *p)
{
    cadre_dim_t dims[1] = {cadre_dim_symbol("B")};
    return cadre_op_xent(p, arg(p, "x", 5), cadre_op_arg(p, "label", CADRE_F32, dims, 1));
}
static cadre_node_t
column_against_row(cadre_program_t *p)
{
    return cadre_op_mse(p, arg(p, "x", 2), labels(p, "y"));
}
static cadre_node_t
certain_dropout(cadre_program_t *p)
{
    return cadre_op_dropout(p, arg(p, "x", 2), 1, 1);
}
static cadre_node_t
slice_past_end(cadre_program_t *p)
{
    return cadre_op_slice(p, arg(p, "x", 5), 1, 3, 3);
}
static cadre_node_t
slice_of_symbol(cadre_program_t *p)
{
    return cadre_op_slice(p, arg(p, "x", 5), 0, 0, 2);
}
static cadre_node_t
concat_misfit(cadre_program_t *p)
{
    cadre_node_t parts[2] = {arg(p, "x", 5), matrix(p, "w", 3, 5)};
    return cadre_op_concat(p, parts, 2, 0);
}
static cadre_node_t
concat_of_nothing(cadre_program_t *p)
{
    return cadre_op_concat(p, NULL, 0, 0);
}
static cadre_node_t
concat_of_too_many(cadre_program_t *p)
{
    cadre_node_t parts[CADRE_OP_INPUTS_MAX + 1];
    for (int i = 0; i <= CADRE_OP_INPUTS_MAX; i++) {
        parts[i] = matrix(p, "w", 1, 1);
    }
    cr_assert_neq(cadre_op_concat(p, parts, CADRE_OP_INPUTS_MAX, 0).id, 0);
    return cadre_op_concat(p, parts, CADRE_OP_INPUTS_MAX + 1, 0);
}
static cadre_node_t
no_permutation(cadre_program_t *p)
{
    return cadre_op_transpose(p, arg(p, "x", 5), (int[]){1, 1});
}
static cadre_node_t
zero_dimension(cadre_program_t *p)
{
    return arg(p, "x", 0);
}
static cadre_node_t
deep_argument(cadre_program_t *p)
{
    cadre_dim_t dims[5] = {{1, NULL}, {1, NULL}, {1, NULL}, {1, NULL}, {1, NULL}};
    return cadre_op_arg(p, "x", CADRE_F32, dims, 5);
}
static cadre_node_t
wide_argument(cadre_program_t *p)
{
    cadre_dim_t dims[1] = {cadre_dim(1)};
    return cadre_op_arg(p, "x", CADRE_U64, dims, 1);
}
static cadre_node_t
same_argument_twice(cadre_program_t *p)
{
    arg(p, "x", 3);
    return arg(p, "x", 3);
}
static cadre_node_t
variable_reshaped(cadre_program_t *p)
{
    matrix(p, "w", 3, 4);
    return matrix(p, "w", 4, 3);
}
static cadre_node_t
odd_symbol(cadre_program_t *p)
{
    cadre_dim_t dims[1] = {cadre_dim_symbol("2B")};
    return cadre_op_arg(p, "x", CADRE_F32, dims, 1);
}
static cadre_node_t
line_in_name(cadre_program_t *p)
{
    return cadre_op_var(p, "a\nb", NULL, 0);
}

static cadre_node_t
image(cadre_program_t *p, int64_t height, int64_t width, int64_t channels)
{
    cadre_dim_t dims[4] = {cadre_dim_symbol("B"), cadre_dim(height), cadre_dim(width),
                           cadre_dim(channels)};
    return cadre_op_arg(p, "image", CADRE_F32, dims, 4);
}
static cadre_node_t
flat_image(cadre_program_t *p)
{
    return cadre_op_im2col(p, arg(p, "x", 9), (int[]){3, 3}, 1, 0);
}
static cadre_node_t
image_of_symbols(cadre_program_t *p)
{
    cadre_dim_t dims[4] = {cadre_dim_symbol("B"), cadre_dim_symbol("N"), cadre_dim(8),
                           cadre_dim(1)};
    return cadre_op_im2col(p, cadre_op_arg(p, "x", CADRE_F32, dims, 4), (int[]){3, 3}, 1, 0);
}
static cadre_node_t
large_kernel(cadre_program_t *p)
{
    return cadre_op_im2col(p, image(p, 4, 8, 1), (int[]){7, 3}, 1, 1);
}
static cadre_node_t
no_stride(cadre_program_t *p)
{
    return cadre_op_im2col(p, image(p, 4, 8, 1), (int[]){3, 3}, 0, 1);
}
static cadre_node_t
integer_image(cadre_program_t *p)
{
    return cadre_op_im2col(p, labels(p, "y"), (int[]){3, 3}, 1, 1);
}
static cadre_node_t
large_window(cadre_program_t *p)
{
    return cadre_op_im2col(p, image(p, 1, 1, 1 << 20), (int[]){65536, 65536}, 1, 65536);
}
static cadre_node_t
norm_of_number(cadre_program_t *p)
{
    return cadre_op_rownorm(p, cadre_op_const_f32(p, 1), 0);
}
static cadre_node_t
norm_of_labels(cadre_program_t *p)
{
    return cadre_op_rownorm(p, labels(p, "y"), 0);
}
static cadre_node_t
negative_eps(cadre_program_t *p)
{
    return cadre_op_rownorm(p, arg(p, "x", 3), -1e-5F);
}

static const mistake_t mistakes[] = {
    {flat_image, CADRE_ESHAPE,
     "im2col: needs [batch,height,width,channels], the last three numbers, not [B,9]"},
    {image_of_symbols, CADRE_ESHAPE,
     "im2col: needs [batch,height,width,channels], the last three numbers, not [B,N,8,1]"},
    {large_kernel, CADRE_ESHAPE, "im2col: a window of 7x3 does not fit [B,4,8,1] with padding 1"},
    {no_stride, CADRE_EINVALID, "im2col: stride of 0 is not in 1..65536"},
    {integer_image, CADRE_EDTYPE, "im2col: needs f32, not i32"},
    {large_window, CADRE_ETOOLARGE, "im2col: a window has more than 2^44 elements"},
    {norm_of_number, CADRE_ESHAPE, "rownorm: needs at least one axis"},
    {norm_of_labels, CADRE_EDTYPE, "rownorm: needs f32, not i32"},
    {negative_eps, CADRE_EINVALID, "rownorm: eps must be a finite number, at least 0"},
    {empty_input, CADRE_EINVALID, "relu: an input is empty"},
    {foreign_input, CADRE_EINVALID, "relu: an input is of another program"},
    {integer_relu, CADRE_EDTYPE, "relu: needs f32, not i32"},
    {mixed_types, CADRE_EDTYPE, "eq: types differ: i32 and f32"},
    {transposed_matmul, CADRE_ESHAPE,
     "matmul: inner dimensions differ: transposed [B,5] times [5,2]"},
    {missing_axis, CADRE_ESHAPE, "sum: no axis 2 in [B,5]"},
    {missing_axis_from_end, CADRE_ESHAPE, "sum: no axis -3 in [B,5]"},
    {wrong_reshape, CADRE_ESHAPE, "reshape: [B,5] and [2*B,3] have different numbers of elements"},
    {other_symbol, CADRE_ESHAPE, "xent: logits [B,5] do not go with labels [N]"},
    {float_labels, CADRE_EDTYPE, "xent: labels must be i32, not f32"},
    {column_against_row, CADRE_ESHAPE, "mse: predictions [B,2] do not go with targets [B]"},
    {certain_dropout, CADRE_EINVALID, "dropout: rate 1 is not in 0 to below 1"},
    {slice_past_end, CADRE_ESHAPE, "slice: 3 from 3 on is outside of axis 1 of [B,5]"},
    {slice_of_symbol, CADRE_ESHAPE, "slice: 2 from 0 on is outside of axis 0 of [B,5]"},
    {concat_misfit, CADRE_ESHAPE, "concat: [B,5] and [3,5] do not join at axis 0"},
    {concat_of_nothing, CADRE_EINVALID, "concat: 0 inputs"},
    {concat_of_too_many, CADRE_EINVALID, "concat: 33 inputs"},
    {no_permutation, CADRE_EINVALID, "transpose: order is no permutation of 2 axes"},
    {zero_dimension, CADRE_EINVALID, "arg: dimension 1 is 0"},
    {deep_argument, CADRE_EINVALID, "arg: rank 5 is not in 0..4"},
    {wide_argument, CADRE_EDTYPE, "argument x must be f32, f64, i32, i64 or bf16, not u64"},
    {same_argument_twice, CADRE_EEXISTS, "argument x is there already"},
    {variable_reshaped, CADRE_ESHAPE, "variable w is there with another shape"},
    {odd_symbol, CADRE_EINVALID, "arg: a symbol is a word of at most 31 characters"},
    {line_in_name, CADRE_EINVALID, "the name of a variable has a control character"},
};

Test(builder, says_what_is_wrong_with_each_operation)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(mistakes); i++) {
        cadre_program_t *p = cadre_program_new("model");
        cr_assert_eq(mistakes[i].build(p).id, 0, "%s", mistakes[i].text);
        expect_mistake(p, mistakes[i].status, mistakes[i].text);
    }
}

Test(builder, infers_symbolic_shapes)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("shapes");
    cadre_dim_t dims[3] = {cadre_dim_symbol("B"), cadre_dim(3), cadre_dim_symbol_times("N", 2)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 3);
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){3, 7}, 2);
    cadre_node_t halves[3] = {x, x, x};
    struct {
        cadre_node_t node;
        const char *shape;
    } cases[] = {
        {x, "[B,3,2*N]"},
        {cadre_op_mul(p, x, cadre_op_const_f32(p, 1)), "[B,3,2*N]"},
        {cadre_op_matmul(p, cadre_op_transpose(p, x, (int[]){0, 2, 1}), w), ""},
        {cadre_op_sum(p, x, 1), "[B,2*N]"},
        {cadre_op_argmax(p, x, -1), "[B,3]"},
        {cadre_op_mean_all(p, x), "[]"},
        {cadre_op_concat(p, halves, 3, 2), "[B,3,6*N]"},
        {cadre_op_slice(p, cadre_op_concat(p, halves, 3, 2), 2, 1, 4), "[B,3,4*N]"},
        {cadre_op_pad(p, x, 2, 1, 0), "[B,3,3*N]"},
        {cadre_op_reshape(
             p, x, (cadre_dim_t[]){cadre_dim_symbol_times("N", 6), cadre_dim_symbol("B")}, 2),
         "[6*N,B]"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        if (cases[i].shape[0] == '\0') { /* [B,2*N] rows are no number times one symbol */
            cr_assert_eq(cases[i].node.id, 0);
            return;
        }
        const cadre_extents_t *shape = &cadre_program_node(p, cases[i].node.id - 1)->shape;
        cr_assert_str_eq(cadre_extents_text(shape, cadre_program_symbols(p), text), cases[i].shape);
    }
}

Test(builder, counts_the_places_of_a_window)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("windows");
    cadre_node_t x = image(p, 5, 7, 2);
    struct {
        cadre_node_t node;
        const char *shape;
    } cases[] = {
        {cadre_op_im2col(p, x, (int[]){1, 1}, 1, 0), "[B,5,7,2]"},
        {cadre_op_im2col(p, x, (int[]){3, 2}, 1, 0), "[B,3,6,12]"},
        {cadre_op_im2col(p, x, (int[]){3, 3}, 1, 1), "[B,5,7,18]"},
        {cadre_op_im2col(p, x, (int[]){2, 2}, 2, 0), "[B,2,3,8]"},
        {cadre_op_im2col(p, x, (int[]){5, 7}, 9, 0), "[B,1,1,70]"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cr_assert_neq(cases[i].node.id, 0);
        const cadre_extents_t *shape = &cadre_program_node(p, cases[i].node.id - 1)->shape;
        cr_assert_str_eq(cadre_extents_text(shape, cadre_program_symbols(p), text), cases[i].shape);
    }
}

Test(builder, gives_the_same_node_for_the_same_variable)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("same");
    cr_assert_eq(matrix(p, "w", 3, 4).id, matrix(p, "w", 3, 4).id);
    cr_assert_eq(cadre_program_variable_count(p), 1);
}

Test(builder, lists_what_a_worker_needs_to_know)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("lists");
    cadre_node_t x = arg(p, "x", 4);
    cadre_node_t label = labels(p, "label");
    cadre_node_t w = matrix(p, "w", 4, 3);
    matrix(p, "unused", 2, 2);
    cadre_node_t logits = cadre_op_matmul(p, x, w);
    cadre_op_minimize(p, cadre_op_softmax_cross_entropy(p, logits, label));
    cadre_op_result(p, "correct", cadre_op_correct(p, logits, label));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cr_assert_str_eq(cadre_program_name(p), "lists");
    cr_assert_neq(cadre_program_hash(p), 0);
    cr_assert_eq(cadre_program_argument_count(p), 2);
    cr_assert_str_eq(cadre_program_argument(p, 1)->name, "label");
    cr_assert_eq(cadre_program_argument(p, 1)->dtype, CADRE_I32);
    cr_assert_eq(cadre_program_variable_count(p), 2);
    cr_assert_eq(cadre_program_variable(p, 0)->shape[1], 3);
    cr_assert_eq(cadre_program_push_count(p), 1);
    cr_assert_eq(cadre_program_push(p, 0)->variable, 0);
    cr_assert_eq(cadre_program_result_count(p), 1);
    cr_assert_str_eq(cadre_program_result(p, 0)->name, "correct");
    cr_assert_eq(cadre_program_symbol_count(p), 1);
    cr_assert_str_eq(cadre_program_symbols(p)[0], "B");
}

Test(builder, asks_for_outputs_bound_symbols_and_ended_scopes)
{
    cadre_program_t *p = cadre_program_new("model");
    arg(p, "x", 3);
    expect_mistake(p, CADRE_EINVALID, "the program has no push and no result");
    p = cadre_program_new("model");
    cadre_dim_t dims[1] = {cadre_dim_symbol("N")};
    cadre_op_result(p, "r", cadre_op_rand_uniform(p, dims, 1));
    expect_mistake(p, CADRE_EINVALID, "symbol N is in the shape of no argument");
    p = cadre_program_new("model");
    cadre_program_scope_begin(p, "open");
    cadre_op_result(p, "x", arg(p, "x", 3));
    expect_mistake(p, CADRE_EINVALID, "open: the scope is not ended");
    expect_mistake(cadre_program_new(""), CADRE_EINVALID,
                   "the name of a program has 0 characters, not 1 to 128");
}

Test(builder, does_not_change_what_is_finished)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_node_t x = arg(p, "x", 3);
    cadre_op_result(p, "x", x);
    cr_assert_eq(cadre_program_finish(p), 0);
    uint64_t hash = cadre_program_hash(p);
    cr_assert_eq(cadre_op_relu(p, x).id, 0);
    cr_assert_str_eq(cadre_error_text(), "program model is finished");
    cadre_op_result(p, "again", x);
    cr_assert_eq(cadre_program_finish(p), 0);
    cr_assert_eq(cadre_program_node_count(p), 1);
    cr_assert_eq(cadre_program_hash(p), hash);
}

Test(builder, limits_arguments_results_symbols_and_names)
{
    for (int over = 0; over <= 1; over++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("limits");
        for (int i = 0; i < CADRE_ARGUMENTS_MAX + over; i++) {
            char symbol[16];
            char name[16];
            snprintf(symbol, sizeof(symbol), "s%d", i % CADRE_SYMBOLS_MAX);
            cadre_dim_t dims[1] = {cadre_dim_symbol(symbol)};
            snprintf(name, sizeof(name), "x%d", i);
            cadre_op_result(p, name, cadre_op_arg(p, name, CADRE_F32, dims, 1));
        }
        cr_assert_eq(cadre_program_finish(p), over ? CADRE_ETOOLARGE : 0);
    }
    char name[CADRE_NAME_SIZE_MAX + 2] = {0};
    memset(name, 'n', CADRE_NAME_SIZE_MAX);
    for (int over = 0; over <= 1; over++) {
        name[CADRE_NAME_SIZE_MAX] = over ? 'n' : '\0';
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("names");
        cadre_op_result(p, name, cadre_op_const_f32(p, 1));
        cr_assert_eq(cadre_program_finish(p), over ? CADRE_EINVALID : 0);
    }
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("symbols");
    for (int i = 0; i <= CADRE_SYMBOLS_MAX; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        cadre_dim_t dims[1] = {cadre_dim_symbol(name)};
        cr_assert_eq(cadre_op_arg(p, name, CADRE_F32, dims, 1).id > 0, i < CADRE_SYMBOLS_MAX);
    }
}

Test(builder, takes_targets_with_or_without_a_last_axis_of_one)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("targets");
    cadre_node_t column = arg(p, "x", 1);
    cadre_node_t row = labels(p, "y");
    cadre_op_result(p, "a", cadre_op_sigmoid_cross_entropy(p, column, row));
    cadre_op_result(p, "b", cadre_op_mse(p, cadre_op_sum(p, column, 1), column));
    cadre_op_result(p, "c", cadre_op_mae(p, column, column));
    cadre_op_result(p, "d", cadre_op_binary_correct(p, column, row));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
}
