/*
 * Every operation at awkward shapes: one element, primes, more than a few blocks, rows and columns
 * of one; and none at all, which no program has but a kernel takes.
 */
#include "common/graph/program_data.h"
#include "tests/worker/cuda_shim/compare.h"
#include "worker/device/cuda/steps.h"

TestSuite(shapes, .timeout = 240);

#define TOLERANCE 1e-4 /* what CPU and CUDA may differ by */

typedef struct {
    int64_t rows;
    int64_t columns;
} size_pair_t;

static const size_pair_t sizes[] = {
    {1, 1},    {1, 2},    {2, 1},    {1, 31},   {37, 1},   {5, 7},    {31, 37},
    {1, 1031}, {1031, 1}, {3, 1031}, {1031, 3}, {1, 4099}, {4099, 1}, {127, 131},
};

/* What an operation is tried on: x [rows, columns], row [columns], index [rows] below `columns`,
 * place [rows] below `rows`. */
typedef struct {
    size_pair_t size;
    cadre_node_t x;
    cadre_node_t other;
    cadre_node_t row;
    cadre_node_t index;
    cadre_node_t place;
} subject_t;

typedef cadre_node_t build_t(cadre_program_t *p, const subject_t *on);

static cadre_node_t
loss_gradient(cadre_program_t *p, const subject_t *on, cadre_node_t loss)
{
    cadre_node_t gradient;
    cadre_op_gradient(p, cadre_op_mean_all(p, loss), &on->x, 1, &gradient);
    return gradient;
}
static cadre_node_t
map1(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_tanh(p, on->x);
}
static cadre_node_t
map2(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_sub(p, on->x, on->row);
}
static cadre_node_t
where(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_where(p, cadre_op_step(p, on->x), on->row, on->other);
}
static cadre_node_t
chained(cadre_program_t *p, const subject_t *on)
{
    cadre_node_t y =
        cadre_op_mul(p, cadre_op_sigmoid(p, cadre_op_add(p, on->x, on->row)), on->other);
    return cadre_op_max(p, cadre_op_neg(p, y), cadre_op_square(p, on->row));
}
static cadre_node_t
cast(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_cast(p, cadre_op_cast(p, on->x, CADRE_BF16), CADRE_F32);
}
static cadre_node_t
sum_of_columns(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_mean(p, on->x, 0);
}
static cadre_node_t
sum_of_rows(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_mean(p, on->x, 1);
}
static cadre_node_t
max_of_all(cadre_program_t *p, const subject_t *on)
{
    return cadre_program_emit_reduce(p, CADRE_REDUCE_MAX, on->x, 0, 2);
}
static cadre_node_t
argmax(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_cast(p, cadre_op_argmax(p, on->x, 1), CADRE_F32);
}
static cadre_node_t
broadcast(cadre_program_t *p, const subject_t *on)
{
    cadre_dim_t dims[] = {cadre_dim(3), cadre_dim(on->size.rows), cadre_dim(on->size.columns)};
    return cadre_op_broadcast(p, on->row, dims, 3);
}
static cadre_node_t
transpose(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_transpose(p, on->x, (int[]){1, 0});
}
static cadre_node_t
concat(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_concat(p, (cadre_node_t[]){on->x, on->other, on->x}, 3, 1);
}
static cadre_node_t
pad_and_slice(cadre_program_t *p, const subject_t *on)
{
    cadre_node_t padded = cadre_op_pad(p, cadre_op_pad(p, on->x, 1, 3, 2), 0, 1, 1);
    return cadre_op_slice(p, padded, 1, 2, on->size.columns + 2);
}
static cadre_node_t
uniform(cadre_program_t *p, const subject_t *on)
{
    cadre_dim_t dims[] = {cadre_dim(on->size.rows), cadre_dim(on->size.columns)};
    return cadre_op_rand_uniform(p, dims, 2);
}
static cadre_node_t
softmax(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_softmax(p, on->x);
}
static cadre_node_t
log_softmax(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_log_softmax(p, on->x);
}
static cadre_node_t
xent(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_xent(p, on->x, on->index);
}
static cadre_node_t
xent_grad(cadre_program_t *p, const subject_t *on)
{
    return loss_gradient(p, on, xent(p, on));
}
static cadre_node_t
rownorm(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_rownorm(p, on->x, 1e-3F);
}
static cadre_node_t
rownorm_grad(cadre_program_t *p, const subject_t *on)
{
    return loss_gradient(p, on, cadre_op_mul(p, rownorm(p, on), on->other));
}
static cadre_node_t
take(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_take(p, on->x, on->place);
}
static cadre_node_t
scatter(cadre_program_t *p, const subject_t *on)
{
    return cadre_op_scatter(p, on->x, on->place, cadre_dim(on->size.rows));
}
/* Bags of one, none and all others: offsets are the sorted places' ends. */
static cadre_node_t
bag(cadre_program_t *p, const subject_t *on)
{
    int32_t starts[3] = {0, on->size.rows > 1, on->size.rows > 1};
    cadre_tensor_t tensor = {.dtype = CADRE_I32, .rank = 1, .shape = {3}, .data = starts};
    return cadre_op_bag(p, on->x, on->place, cadre_op_const(p, &tensor), (cadre_node_t){0},
                        CADRE_BAG_MEAN);
}
static cadre_node_t
bag_grad(cadre_program_t *p, const subject_t *on)
{
    return loss_gradient(p, on, cadre_op_mul(p, bag(p, on), on->row));
}
static cadre_node_t
im2col(cadre_program_t *p, const subject_t *on)
{
    cadre_dim_t dims[] = {cadre_dim(1), cadre_dim(on->size.rows), cadre_dim(on->size.columns),
                          cadre_dim(1)};
    return cadre_op_im2col(p, cadre_op_reshape(p, on->x, dims, 4), (int[]){3, 2}, 2, 1);
}
static cadre_node_t
col2im(cadre_program_t *p, const subject_t *on)
{
    return loss_gradient(p, on, cadre_op_square(p, im2col(p, on)));
}

static const struct {
    const char *name;
    build_t *build;
} ops[] = {
    {"map1", map1},
    {"map2", map2},
    {"where", where},
    {"chain", chained},
    {"cast", cast},
    {"sum of columns", sum_of_columns},
    {"sum of rows", sum_of_rows},
    {"max", max_of_all},
    {"argmax", argmax},
    {"broadcast", broadcast},
    {"transpose", transpose},
    {"concat", concat},
    {"pad, slice", pad_and_slice},
    {"rand", uniform},
    {"softmax", softmax},
    {"log softmax", log_softmax},
    {"xent", xent},
    {"xent_grad", xent_grad},
    {"rownorm", rownorm},
    {"rownorm_grad", rownorm_grad},
    {"take", take},
    {"scatter", scatter},
    {"bag", bag},
    {"bag_grad", bag_grad},
    {"im2col", im2col},
    {"col2im", col2im},
};

enum { ARGUMENTS = 5 };

static void
fill_below(cadre_tensor_t *tensor, int64_t bound, uint64_t stream)
{
    for (int64_t i = 0; i < cadre_tensor_count(tensor); i++) {
        float number = cadre_random_uniform(29, stream, (uint64_t)i);
        int64_t index = (int64_t)(number * (float)bound);
        ((int32_t *)tensor->data)[i] = (int32_t)(index < bound ? index : bound - 1);
    }
}

static void
make_arguments(size_pair_t size, cadre_tensor_t arguments[ARGUMENTS])
{
    const int64_t shape[] = {size.rows, size.columns};
    arguments[0] = random_tensor(CADRE_F32, shape, 2, 1);
    arguments[1] = random_tensor(CADRE_F32, shape, 2, 2);
    arguments[2] = random_tensor(CADRE_F32, &shape[1], 1, 3);
    arguments[3] = random_tensor(CADRE_I32, &shape[0], 1, 4);
    arguments[4] = random_tensor(CADRE_I32, &shape[0], 1, 5);
    fill_below(&arguments[3], size.columns, 4);
    fill_below(&arguments[4], size.rows, 5);
}

static subject_t
subject_of(cadre_program_t *p, size_pair_t size, const cadre_tensor_t arguments[ARGUMENTS])
{
    subject_t on = {.size = size};
    on.x = arg_like(p, "x", &arguments[0]);
    on.other = arg_like(p, "other", &arguments[1]);
    on.row = arg_like(p, "row", &arguments[2]);
    on.index = arg_like(p, "index", &arguments[3]);
    on.place = arg_like(p, "place", &arguments[4]);
    return on;
}

Test(shapes, of_all_kinds_give_what_the_cpu_gives)
{
    for (size_t k = 0; k < CADRE_COUNT_OF(sizes); k++) {
        cadre_tensor_t arguments[ARGUMENTS];
        make_arguments(sizes[k], arguments);
        for (size_t i = 0; i < CADRE_COUNT_OF(ops); i++) {
            cadre_program_t *p = cadre_program_new(ops[i].name);
            subject_t on = subject_of(p, sizes[k], arguments);
            cr_assert_eq(compare(p, ops[i].build(p, &on), arguments, TOLERANCE), 0, "%s",
                         ops[i].name);
        }
        for (int i = 0; i < ARGUMENTS; i++) {
            cadre_tensor_fini(&arguments[i]);
        }
    }
}

/* ---- nothing ---- */

static int
run_step(const cadre_plan_t *plan, const cadre_plan_step_t *step)
{
    cadre_cuda_operands_t operands = {.step = step, .out = &plan->values[step->output]};
    if (step->op == CADRE_STEP_CHAIN) {
        operands.chain = &plan->chains[step->chain];
    }
    for (int i = 0; i < step->input_count; i++) {
        operands.inputs[i] = &plan->values[step->inputs[i]];
    }
    return cadre_cuda_step(&operands, NULL);
}

/* Of plans whose values have all lost their elements, no step launches anything or touches its
 * memory, which is not there. */
Test(shapes, of_nothing_launch_nothing)
{
    cadre_tensor_t arguments[ARGUMENTS];
    make_arguments((size_pair_t){5, 7}, arguments);
    for (size_t i = 0; i < CADRE_COUNT_OF(ops); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new(ops[i].name);
        subject_t on = subject_of(p, (size_pair_t){5, 7}, arguments);
        cadre_op_result(p, "y", ops[i].build(p, &on));
        cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
        cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = NULL;
        int64_t symbol_values[CADRE_SYMBOLS_MAX] = {0};
        cr_assert_eq(cadre_plan_new(p, symbol_values, CADRE_PLAN_CHAINS, &plan), 0);
        for (int k = 0; k < plan->value_count; k++) {
            plan->values[k].count = 0;
            plan->values[k].size_bytes = 0;
        }
        uint64_t launches = cadre_shim_launches();
        for (int k = 0; k < plan->step_count; k++) {
            cr_assert_eq(run_step(plan, &plan->steps[k]), 0, "%s", ops[i].name);
        }
        cr_assert_eq(cadre_shim_launches(), launches, "%s", ops[i].name);
        const char *fault = cadre_shim_take_fault();
        cr_assert_null(fault, "%s: %s", ops[i].name, fault);
    }
    for (int i = 0; i < ARGUMENTS; i++) {
        cadre_tensor_fini(&arguments[i]);
    }
}
