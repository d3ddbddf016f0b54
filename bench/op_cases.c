#include "bench/op_cases.h"

#include "common/base/memory.h"
#include "common/graph/program_data.h"

enum {
    ROWS = CADRE_BENCH_ROWS,
    COLUMNS = CADRE_BENCH_COLUMNS,
    CLASSES = CADRE_BENCH_CLASSES,
    SIDE = CADRE_BENCH_IMAGE_SIDE,
    WINDOW = CADRE_BENCH_KERNEL * CADRE_BENCH_KERNEL * CADRE_BENCH_IMAGE_CHANNELS,
    BAGS = CADRE_BENCH_ROWS / CADRE_BENCH_BAG,
};

#define MAP1(name, function)                                                                       \
    static cadre_node_t build_##name(const cadre_bench_place_t *at)                                \
    {                                                                                              \
        return function;                                                                           \
    }
MAP1(neg, cadre_op_neg(at->p, at->x))
MAP1(exp, cadre_op_exp(at->p, at->x))
MAP1(log, cadre_op_log(at->p, at->y))
MAP1(sqrt, cadre_op_sqrt(at->p, at->y))
MAP1(rsqrt, cadre_op_rsqrt(at->p, at->y))
MAP1(recip, cadre_op_recip(at->p, at->x))
MAP1(square, cadre_op_square(at->p, at->x))
MAP1(abs, cadre_op_abs(at->p, at->x))
MAP1(sign, cadre_op_sign(at->p, at->x))
MAP1(step, cadre_op_step(at->p, at->x))
MAP1(relu, cadre_op_relu(at->p, at->x))
MAP1(sigmoid, cadre_op_sigmoid(at->p, at->x))
MAP1(tanh, cadre_op_tanh(at->p, at->x))
MAP1(gelu, cadre_op_gelu(at->p, at->x))
MAP1(dgelu, cadre_op_dgelu(at->p, at->x))
MAP1(softplus, cadre_op_softplus(at->p, at->x))
MAP1(add, cadre_op_add(at->p, at->x, at->y))
MAP1(add_row, cadre_op_add(at->p, at->x, at->row))
MAP1(add_column, cadre_op_add(at->p, at->x, at->column))
MAP1(sub, cadre_op_sub(at->p, at->x, at->y))
MAP1(mul, cadre_op_mul(at->p, at->x, at->y))
MAP1(div, cadre_op_div(at->p, at->x, at->y))
MAP1(max, cadre_op_max(at->p, at->x, at->y))
MAP1(min, cadre_op_min(at->p, at->x, at->y))
MAP1(gt, cadre_op_gt(at->p, at->x, at->y))
MAP1(eq, cadre_op_eq(at->p, at->x, at->y))
MAP1(where, cadre_op_where(at->p, at->x, at->y, at->z))
MAP1(where_number, cadre_op_where(at->p, at->x, at->y, cadre_op_const_f32(at->p, 0)))
MAP1(where_chain, cadre_op_where(at->p, cadre_op_gt(at->p, at->x, at->y),
                                 cadre_op_mul(at->p, at->y, at->z), at->z))
MAP1(leaky_relu, cadre_op_where(at->p, cadre_op_step(at->p, at->x), at->x,
                                cadre_op_mul(at->p, at->x, cadre_op_const_f32(at->p, 0.01F))))
MAP1(cast, cadre_op_cast(at->p, cadre_op_cast(at->p, at->x, CADRE_I32), CADRE_F32))
MAP1(bias_relu, cadre_op_relu(at->p, cadre_op_add(at->p, at->x, at->row)))
MAP1(tanh_gradient,
     cadre_op_mul(at->p, at->y,
                  cadre_op_sub(at->p, cadre_op_const_f32(at->p, 1), cadre_op_square(at->p, at->x))))
MAP1(sum_rows, cadre_op_sum(at->p, at->x, 1))
MAP1(sum_columns, cadre_op_sum(at->p, at->x, 0))
MAP1(sum_all, cadre_op_sum_all(at->p, at->x))
MAP1(mean_rows, cadre_op_mean(at->p, at->x, 1))
MAP1(largest, cadre_op_reduce_max(at->p, at->x, 1))
MAP1(softmax, cadre_op_softmax(at->p, at->x))
MAP1(log_softmax, cadre_op_log_softmax(at->p, at->x))
MAP1(transpose, cadre_op_transpose(at->p, at->x, (const int[]){1, 0}))
MAP1(slice, cadre_op_slice(at->p, at->x, 1, 0, COLUMNS / 2))
MAP1(concat, cadre_op_concat(at->p, (const cadre_node_t[]){at->x, at->y}, 2, 1))
MAP1(argmax, cadre_op_cast(at->p, cadre_op_argmax(at->p, at->x, 1), CADRE_F32))
MAP1(rownorm, cadre_op_rownorm(at->p, at->x, 1e-5F))
MAP1(pad, cadre_op_pad(at->p, at->x, 1, 1, 1))
#undef MAP1

/* Below CLASSES: of each row one. */
static cadre_node_t
labels_of(const cadre_bench_place_t *at)
{
    return cadre_op_arg(at->p, "labels", CADRE_I32, (const cadre_dim_t[]){cadre_dim(ROWS)}, 1);
}

static cadre_node_t
build_xent(const cadre_bench_place_t *at)
{
    return cadre_op_xent(at->p, at->x, labels_of(at));
}

static cadre_node_t
build_xent_grad(const cadre_bench_place_t *at)
{
    cadre_node_t labels = labels_of(at);
    cadre_node_t gradient =
        cadre_op_reshape(at->p, at->column, (const cadre_dim_t[]){cadre_dim(ROWS)}, 1);
    const cadre_program_node_t node = {.op = CADRE_OP_XENT_GRAD,
                                       .input_count = 3,
                                       .inputs = {at->x.id - 1, labels.id - 1, gradient.id - 1}};
    return cadre_program_emit(at->p, &node);
}

static cadre_node_t
build_rownorm_grad(const cadre_bench_place_t *at)
{
    return cadre_program_emit2(at->p, CADRE_OP_ROWNORM_GRAD, cadre_op_float_bits(1e-5F), at->y,
                               at->x);
}

static cadre_node_t
build_take(const cadre_bench_place_t *at)
{
    return cadre_op_take(at->p, at->x, labels_of(at));
}

static cadre_node_t
build_scatter(const cadre_bench_place_t *at)
{
    return cadre_op_scatter(at->p, at->x, labels_of(at), cadre_dim(ROWS));
}

/* Bags of as many rows each. */
static cadre_node_t
offsets_of(const cadre_bench_place_t *at)
{
    int32_t offsets[BAGS];
    for (int i = 0; i < BAGS; i++) {
        offsets[i] = i * CADRE_BENCH_BAG;
    }
    const cadre_tensor_t tensor = {.dtype = CADRE_I32, .rank = 1, .shape = {BAGS}, .data = offsets};
    return cadre_op_const(at->p, &tensor);
}

static cadre_node_t
build_bag(const cadre_bench_place_t *at)
{
    return cadre_op_bag(at->p, at->x, labels_of(at), offsets_of(at), (cadre_node_t){0},
                        CADRE_BAG_SUM);
}

static cadre_node_t
build_bag_grad(const cadre_bench_place_t *at)
{
    cadre_node_t gradient = cadre_op_var(at->p, "x of bags", (const int64_t[]){BAGS, COLUMNS}, 2);
    cadre_node_t labels = labels_of(at);
    cadre_node_t offsets = offsets_of(at);
    const cadre_program_node_t node = {.op = CADRE_OP_BAG_GRAD,
                                       .input_count = 3,
                                       .inputs = {gradient.id - 1, labels.id - 1, offsets.id - 1},
                                       .attributes = {CADRE_BAG_SUM, 0},
                                       .shape = cadre_program_at(at->p, at->x)->shape};
    return cadre_program_emit(at->p, &node);
}

static cadre_node_t
build_broadcast(const cadre_bench_place_t *at)
{
    return cadre_program_emit_broadcast(at->p, at->row, &cadre_program_at(at->p, at->x)->shape,
                                        false);
}

static cadre_node_t
build_rand(const cadre_bench_place_t *at)
{
    return cadre_program_emit_rand(at->p, &cadre_program_at(at->p, at->x)->shape);
}

static cadre_node_t
build_im2col(const cadre_bench_place_t *at)
{
    const cadre_dim_t dims[] = {cadre_dim(ROWS), cadre_dim(SIDE), cadre_dim(SIDE),
                                cadre_dim(CADRE_BENCH_IMAGE_CHANNELS)};
    return cadre_op_im2col(at->p, cadre_op_reshape(at->p, at->x, dims, 4),
                           (const int[]){CADRE_BENCH_KERNEL, CADRE_BENCH_KERNEL}, 1, 1);
}

static cadre_node_t
build_col2im(const cadre_bench_place_t *at)
{
    cadre_node_t windows =
        cadre_op_var(at->p, "windows", (const int64_t[]){ROWS, SIDE, SIDE, WINDOW}, 4);
    const cadre_program_node_t node = {
        .op = CADRE_OP_COL2IM,
        .input_count = 1,
        .inputs = {windows.id - 1},
        .attributes = {CADRE_BENCH_KERNEL, CADRE_BENCH_KERNEL, 1, 1},
        .shape = {.rank = 4,
                  .extents = {cadre_extent_number(ROWS), cadre_extent_number(SIDE),
                              cadre_extent_number(SIDE),
                              cadre_extent_number(CADRE_BENCH_IMAGE_CHANNELS)}}};
    return cadre_program_emit(at->p, &node);
}

#define MATRIX(name)                                                                               \
    {                                                                                              \
#name, build_##name, cadre_bench_loop_##name, COLUMNS, 2,                                  \
        {                                                                                          \
            ROWS, COLUMNS                                                                          \
        }                                                                                          \
    }
#define NARROW(text, name)                                                                         \
    {                                                                                              \
        text, build_##name, cadre_bench_loop_##name, CLASSES, 2,                                   \
        {                                                                                          \
            ROWS, CLASSES                                                                          \
        }                                                                                          \
    }
const cadre_bench_op_t cadre_bench_ops_list[] = {
    MATRIX(neg),
    MATRIX(exp),
    MATRIX(log),
    MATRIX(sqrt),
    MATRIX(rsqrt),
    MATRIX(recip),
    MATRIX(square),
    MATRIX(abs),
    MATRIX(sign),
    MATRIX(step),
    MATRIX(relu),
    MATRIX(sigmoid),
    MATRIX(tanh),
    MATRIX(gelu),
    MATRIX(dgelu),
    MATRIX(softplus),
    MATRIX(add),
    MATRIX(add_row),
    MATRIX(add_column),
    NARROW("add_row, 10 columns", add_row),
    NARROW("add_column, 10 columns", add_column),
    MATRIX(sub),
    MATRIX(mul),
    MATRIX(div),
    MATRIX(max),
    MATRIX(min),
    MATRIX(gt),
    MATRIX(eq),
    MATRIX(where),
    MATRIX(where_number),
    MATRIX(where_chain),
    MATRIX(leaky_relu),
    {"cast to i32 and back", build_cast, cadre_bench_loop_cast, COLUMNS, 2, {ROWS, COLUMNS}},
    MATRIX(bias_relu),
    MATRIX(tanh_gradient),
    {"sum over columns", build_sum_rows, cadre_bench_loop_sum_rows, COLUMNS, 1, {ROWS}},
    {"sum over rows", build_sum_columns, cadre_bench_loop_sum_columns, COLUMNS, 1, {COLUMNS}},
    {"sum of all", build_sum_all, cadre_bench_loop_sum_all, COLUMNS, 0, {0}},
    {"mean over columns", build_mean_rows, cadre_bench_loop_mean_rows, COLUMNS, 1, {ROWS}},
    {"max over columns", build_largest, cadre_bench_loop_largest, COLUMNS, 1, {ROWS}},
    MATRIX(softmax),
    NARROW("softmax, 10 columns", softmax),
    MATRIX(log_softmax),
    {"xent", build_xent, cadre_bench_loop_xent, COLUMNS, 1, {ROWS}},
    {"xent, 10 columns", build_xent, cadre_bench_loop_xent, CLASSES, 1, {ROWS}},
    {"transpose", build_transpose, cadre_bench_loop_transpose, COLUMNS, 2, {COLUMNS, ROWS}},
    {"slice", build_slice, cadre_bench_loop_slice, COLUMNS, 2, {ROWS, COLUMNS / 2}},
    {"argmax over columns", build_argmax, cadre_bench_loop_argmax, COLUMNS, 1, {ROWS}},
    MATRIX(xent_grad),
    MATRIX(rownorm),
    MATRIX(rownorm_grad),
    MATRIX(broadcast),
    MATRIX(take),
    MATRIX(scatter),
    {"bag", build_bag, cadre_bench_loop_bag, COLUMNS, 2, {BAGS, COLUMNS}},
    MATRIX(bag_grad),
    MATRIX(rand),
    {"im2col, 3 x 3",
     build_im2col,
     cadre_bench_loop_im2col,
     COLUMNS,
     4,
     {ROWS, SIDE, SIDE, WINDOW}},
    {"col2im, 3 x 3",
     build_col2im,
     cadre_bench_loop_col2im,
     COLUMNS,
     4,
     {ROWS, SIDE, SIDE, CADRE_BENCH_IMAGE_CHANNELS}},
    {"pad", build_pad, cadre_bench_loop_pad, COLUMNS, 2, {ROWS, COLUMNS + 2}},
    {"concat", build_concat, cadre_bench_loop_concat, COLUMNS, 2, {ROWS, 2 * COLUMNS}},
};
#undef MATRIX
#undef NARROW

const size_t cadre_bench_op_count = CADRE_COUNT_OF(cadre_bench_ops_list);
