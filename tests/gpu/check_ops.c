/* Every operation on several shapes, with its gradient where it has one. */
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/gpu/gpu_check.h"

enum { RUNS = 3 }; /* the first one enqueues steps, the second records a graph, the third replays */

typedef struct {
    int rank;
    int64_t size[CADRE_PROGRAM_RANK_MAX];
} shape_t;

static const shape_t shapes[] = {
    {0, {0}},       {1, {1}},         {1, {1000}},      {2, {3, 5}},        {2, {64, 256}},
    {2, {1, 4097}}, {2, {1025, 1}},   {3, {7, 31, 33}}, {4, {3, 5, 7, 11}}, {4, {2, 32, 4, 64}},
    {1, {1 << 20}}, {2, {777, 1333}},
};

enum { SMALL_SHAPES = 10 }; /* those before are enough for a fake */

static size_t
shape_count(const gpu_check_t *self)
{
    return self->scale ? CADRE_COUNT_OF(shapes) : SMALL_SHAPES;
}

static cadre_node_t
random_argument(gpu_case_t *one, cadre_program_t *p, const shape_t *shape, float low, float high)
{
    return gpu_argument(one, p, gpu_random(CADRE_F32, shape->size, shape->rank, low, high));
}

/* The case, named after what it is about. */
static gpu_case_t *
named(gpu_case_t *one, const char *what, const shape_t *shape)
{
    const size_t size = sizeof(one->name);
    size_t length = (size_t)snprintf(one->name, size, "%s of [", what);
    for (int i = 0; i < shape->rank; i++) {
        length += (size_t)snprintf(one->name + length, size - length, "%s%lld", i ? "," : "",
                                   (long long)shape->size[i]);
    }
    snprintf(one->name + length, size - length, "]");
    return one;
}

/* `y` and what its squares' mean gives for the given nodes. */
static void
finish_with_gradients(gpu_check_t *self, gpu_case_t *one, cadre_program_t *p, cadre_node_t y,
                      const cadre_node_t *nodes, int count)
{
    cadre_node_t gradients[4];
    cadre_op_result(p, "y", y);
    if (count > 0) {
        cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, y));
        cadre_op_gradient(p, loss, nodes, count, gradients);
    }
    for (int i = 0; i < count; i++) {
        char text[8];
        snprintf(text, sizeof(text), "g%d", i);
        cadre_op_result(p, text, gradients[i]);
    }
    gpu_case_init(one, p);
    gpu_check_case(self, one, RUNS);
}

/* ---- element by element ---- */

typedef cadre_node_t (*map1_t)(cadre_program_t *p, cadre_node_t x);
typedef cadre_node_t (*map2_t)(cadre_program_t *p, cadre_node_t left, cadre_node_t right);

static const struct {
    const char *name;
    map1_t build;
    float low;
    bool smooth;
} maps1[] = {{"neg", cadre_op_neg, -3, true},       {"exp", cadre_op_exp, -3, true},
             {"log", cadre_op_log, 0.1F, true},     {"sqrt", cadre_op_sqrt, 0.1F, true},
             {"rsqrt", cadre_op_rsqrt, 0.1F, true}, {"recip", cadre_op_recip, 0.2F, true},
             {"square", cadre_op_square, -3, true}, {"abs", cadre_op_abs, -3, true},
             {"sign", cadre_op_sign, -3, false},    {"step", cadre_op_step, -3, false},
             {"relu", cadre_op_relu, -3, true},     {"sigmoid", cadre_op_sigmoid, -9, true},
             {"tanh", cadre_op_tanh, -3, true},     {"gelu", cadre_op_gelu, -3, true},
             {"dgelu", cadre_op_dgelu, -3, false},  {"softplus", cadre_op_softplus, -9, true}};

static const struct {
    const char *name;
    map2_t build;
    bool smooth;
} maps2[] = {{"add", cadre_op_add, true}, {"sub", cadre_op_sub, true}, {"mul", cadre_op_mul, true},
             {"div", cadre_op_div, true}, {"max", cadre_op_max, true}, {"min", cadre_op_min, true},
             {"gt", cadre_op_gt, false},  {"eq", cadre_op_eq, false}};

static void
check_map1(gpu_check_t *self)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(maps1); i++) {
        for (size_t k = 0; k < shape_count(self); k++) {
            gpu_case_t one = {0};
            cadre_program_t *p = cadre_program_new(maps1[i].name);
            cadre_node_t x = random_argument(&one, p, &shapes[k], maps1[i].low, 3);
            finish_with_gradients(self, named(&one, maps1[i].name, &shapes[k]), p,
                                  maps1[i].build(p, x), &x, maps1[i].smooth ? 1 : 0);
        }
    }
}

/* The right operand as it is, and broadcast along its first or all its axes. */
static void
check_map2_on(gpu_check_t *self, size_t map, const shape_t *shape, int broadcast)
{
    shape_t right = *shape;
    if (broadcast == 1 && shape->rank > 0) {
        right.size[0] = 1;
    } else if (broadcast == 2) {
        right.rank = 0;
    } else if (broadcast == 3 && shape->rank > 0) {
        right.size[right.rank - 1] = 1;
    }
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new(maps2[map].name);
    cadre_node_t nodes[2];
    nodes[0] = random_argument(&one, p, shape, -3, 3);
    nodes[1] = random_argument(&one, p, &right, 0.5F, 3);
    finish_with_gradients(self, named(&one, maps2[map].name, shape), p,
                          maps2[map].build(p, nodes[0], nodes[1]), nodes,
                          maps2[map].smooth ? 2 : 0);
}

static void
check_map2(gpu_check_t *self)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(maps2); i++) {
        for (size_t k = 0; k < shape_count(self); k++) {
            for (int broadcast = 0; broadcast < 4; broadcast++) {
                check_map2_on(self, i, &shapes[k], broadcast);
            }
        }
    }
}

static void
check_where(gpu_check_t *self)
{
    for (size_t k = 0; k < shape_count(self); k++) {
        gpu_case_t one = {0};
        cadre_program_t *p = cadre_program_new("where");
        shape_t scalar = {0};
        cadre_node_t x = random_argument(&one, p, &shapes[k], -1, 1);
        cadre_node_t nodes[2];
        nodes[0] = random_argument(&one, p, &shapes[k], -1, 1);
        nodes[1] = random_argument(&one, p, &scalar, -1, 1);
        finish_with_gradients(self, named(&one, "where", &shapes[k]), p,
                              cadre_op_where(p, cadre_op_step(p, x), nodes[0], nodes[1]), nodes, 2);
    }
}

static void
check_cast_and_rand(gpu_check_t *self)
{
    for (size_t k = 0; k < shape_count(self); k++) {
        gpu_case_t one = {0};
        cadre_program_t *p = cadre_program_new("cast");
        cadre_node_t x = random_argument(&one, p, &shapes[k], -1e10F, 1e10F);
        cadre_node_t whole = cadre_op_cast(p, x, CADRE_I32);
        cadre_dim_t dims[CADRE_PROGRAM_RANK_MAX];
        for (int i = 0; i < shapes[k].rank; i++) {
            dims[i] = cadre_dim(shapes[k].size[i]);
        }
        cadre_op_result(p, "whole", whole);
        cadre_op_result(p, "random", cadre_op_rand_uniform(p, dims, shapes[k].rank));
        finish_with_gradients(self, named(&one, "cast, rand", &shapes[k]), p,
                              cadre_op_cast(p, whole, CADRE_F32), NULL, 0);
    }
}

/* ---- reductions and movement ---- */

typedef cadre_node_t (*reduce_t)(cadre_program_t *p, cadre_node_t x, int axis);

static void
check_reduce(gpu_check_t *self)
{
    static const struct {
        const char *name;
        reduce_t build;
        bool smooth;
    } functions[] = {{"sum", cadre_op_sum, true},
                     {"mean", cadre_op_mean, true},
                     {"reduce_max", cadre_op_reduce_max, true},
                     {"argmax", cadre_op_argmax, false}};
    for (size_t i = 0; i < CADRE_COUNT_OF(functions); i++) {
        for (size_t k = 0; k < shape_count(self); k++) {
            for (int axis = 0; axis < shapes[k].rank; axis++) {
                gpu_case_t one = {0};
                cadre_program_t *p = cadre_program_new(functions[i].name);
                cadre_node_t x = random_argument(&one, p, &shapes[k], -1, 1);
                finish_with_gradients(self, named(&one, functions[i].name, &shapes[k]), p,
                                      functions[i].build(p, x, axis), &x,
                                      functions[i].smooth ? 1 : 0);
            }
        }
    }
}

static void
check_transpose(gpu_check_t *self)
{
    static const int orders[][4] = {{3, 1, 0, 2}, {0, 2, 1, 3}, {1, 2, 3, 0}};
    for (size_t k = 0; k < shape_count(self); k++) {
        int rank = shapes[k].rank;
        for (size_t i = 0; i < CADRE_COUNT_OF(orders); i++) {
            gpu_case_t one = {0};
            cadre_program_t *p = cadre_program_new("transpose");
            cadre_node_t x = random_argument(&one, p, &shapes[k], -1, 1);
            int order[4] = {0};
            for (int axis = 0; axis < rank; axis++) {
                order[axis] = rank == 4 ? orders[i][axis] : (axis + (int)i + 1) % rank;
            }
            if (rank > 0) {
                finish_with_gradients(self, named(&one, "transpose", &shapes[k]), p,
                                      cadre_op_transpose(p, x, order), &x, 1);
            } else {
                cadre_program_destroy(&p);
                cadre_tensor_fini(&one.arguments[0]);
            }
        }
    }
}

static void
check_axis(gpu_check_t *self, const shape_t *shape, int axis)
{
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("movement");
    cadre_node_t nodes[3];
    nodes[0] = random_argument(&one, p, shape, -1, 1);
    nodes[1] = random_argument(&one, p, shape, -1, 1);
    nodes[2] = nodes[0];
    cadre_node_t joined = cadre_op_concat(p, nodes, 3, axis);
    cadre_node_t padded = cadre_op_pad(p, joined, axis, 2, 1);
    cadre_node_t y = cadre_op_slice(p, padded, axis, 1, 2 * shape->size[axis] + 1);
    finish_with_gradients(self, named(&one, "concat, pad, slice", shape), p, y, nodes, 2);
}

static void
check_movement(gpu_check_t *self)
{
    for (size_t k = 0; k < shape_count(self); k++) {
        for (int axis = 0; axis < shapes[k].rank; axis++) {
            check_axis(self, &shapes[k], axis);
        }
    }
}

/* ---- matrices ---- */

static void
check_matmul_of(gpu_check_t *self, const int64_t *sizes, int64_t batch, int flips)
{
    const int64_t m = sizes[0];
    const int64_t k = sizes[1];
    const int64_t n = sizes[2];
    int rank = batch ? 3 : 2;
    shape_t left = {rank, {batch, flips & 1 ? k : m, flips & 1 ? m : k}};
    shape_t right = {rank, {batch, flips & 2 ? n : k, flips & 2 ? k : n}};
    if (!batch) {
        memmove(left.size, left.size + 1, 2 * sizeof(left.size[0]));
        memmove(right.size, right.size + 1, 2 * sizeof(right.size[0]));
    }
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("matmul");
    cadre_node_t nodes[2];
    nodes[0] = random_argument(&one, p, &left, -1, 1);
    nodes[1] = random_argument(&one, p, &right, -1, 1);
    finish_with_gradients(self, named(&one, "matmul", &left), p,
                          cadre_op_matmul_transposed(p, nodes[0], flips & 1, nodes[1], flips >> 1),
                          nodes, 2);
}

static void
check_matmul(gpu_check_t *self)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {2, 3, 5},    {64, 64, 64},   {33, 65, 17},
                                       {1, 256, 10}, {128, 1, 64}, {512, 784, 300}};
    size_t count = CADRE_COUNT_OF(sizes) - (self->scale ? 0 : 1);
    for (size_t i = 0; i < count; i++) {
        for (int flips = 0; flips < 4; flips++) {
            check_matmul_of(self, sizes[i], 0, flips);
            check_matmul_of(self, sizes[i], 3, flips);
        }
    }
}

/* ---- rows ---- */

static void
check_rows_of(gpu_check_t *self, int64_t rows, int64_t size, float range)
{
    shape_t shape = {2, {rows, size}};
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("rows");
    cadre_node_t x = random_argument(&one, p, &shape, -range, range);
    /* One row is ordinary: where each softmax is 0 or 1, gradients are but rounding. */
    for (int64_t i = 0; i < size; i++) {
        ((float *)one.arguments[0].data)[i] *= 3 / range;
    }
    cadre_node_t labels =
        gpu_argument(&one, p, gpu_random(CADRE_I32, &rows, 1, 0, (float)size - 0.01F));
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_xent(p, x, labels));
    cadre_node_t gradient[3];
    cadre_op_gradient(p, loss, &x, 1, &gradient[0]);
    cadre_op_gradient(p, cadre_op_mean_all(p, cadre_op_square(p, cadre_op_softmax(p, x))), &x, 1,
                      &gradient[1]);
    cadre_op_gradient(p, cadre_op_mean_all(p, cadre_op_mul(p, cadre_op_rownorm(p, x, 1e-3F), x)),
                      &x, 1, &gradient[2]);
    cadre_op_result(p, "loss", loss);
    cadre_op_result(p, "xent", gradient[0]);
    cadre_op_result(p, "softmax", gradient[1]);
    cadre_op_result(p, "rownorm", gradient[2]);
    cadre_op_result(p, "log", cadre_op_log_softmax(p, x));
    finish_with_gradients(self, named(&one, "rows", &shape), p, cadre_op_softmax(p, x), NULL, 0);
}

static void
check_rows(gpu_check_t *self)
{
    static const int64_t sizes[][2] = {{1, 1},    {5, 3},    {33, 10},   {100, 1000},
                                       {3, 4097}, {257, 32}, {4096, 10}, {64, 50000}};
    size_t count = CADRE_COUNT_OF(sizes) - (self->scale ? 0 : 2);
    for (size_t i = 0; i < count; i++) {
        check_rows_of(self, sizes[i][0], sizes[i][1], 3);
        check_rows_of(self, sizes[i][0], sizes[i][1], 80); /* exponentials would overflow */
    }
}

/* ---- rows at positions ---- */

static void
check_take_of(gpu_check_t *self, int64_t rows, int64_t size, int64_t count)
{
    shape_t shape = {2, {rows, size}};
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("take");
    cadre_node_t table = random_argument(&one, p, &shape, -1, 1);
    cadre_node_t index =
        gpu_argument(&one, p, gpu_random(CADRE_I32, &count, 1, 0, (float)rows - 0.01F));
    finish_with_gradients(self, named(&one, "take, scatter", &shape), p,
                          cadre_op_take(p, table, index), &table, 1);
}

/* Bags of 0 to 5 entries, one in ten of which is padding. */
static void
check_bag_of(gpu_check_t *self, int64_t rows, int64_t size, int64_t bags, int kind)
{
    shape_t shape = {2, {rows, size}};
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("bag");
    int64_t entries = bags * 5 / 2;
    cadre_tensor_t index = gpu_random(CADRE_I32, &entries, 1, 0, (float)rows - 0.01F);
    cadre_tensor_t offsets = gpu_random(CADRE_I32, &bags, 1, 0, 1);
    for (int64_t i = 0, at = 0; i < bags; i++) {
        ((int32_t *)offsets.data)[i] = (int32_t)(at < entries ? at : entries);
        at += i * 7 % 6;
    }
    for (int64_t i = 0; i < entries; i += 10) {
        ((int32_t *)index.data)[i] = -1;
    }
    cadre_node_t nodes[2];
    nodes[0] = random_argument(&one, p, &shape, -1, 1);
    cadre_node_t places = gpu_argument(&one, p, index);
    cadre_node_t begins = gpu_argument(&one, p, offsets);
    nodes[1] = kind == 2 ? gpu_argument(&one, p, gpu_random(CADRE_F32, &entries, 1, -1, 1))
                         : (cadre_node_t){0};
    cadre_node_t y = cadre_op_bag(p, nodes[0], places, begins, nodes[1],
                                  kind == 1 ? CADRE_BAG_MEAN : CADRE_BAG_SUM);
    finish_with_gradients(self, named(&one, "bag", &shape), p, y, nodes, kind == 2 ? 2 : 1);
}

static void
check_sparse(gpu_check_t *self)
{
    static const int64_t sizes[][3] = {{1, 1, 1},       {7, 3, 40},    {100, 64, 33},
                                       {1000, 16, 500}, {50, 1, 2000}, {100000, 64, 20000}};
    size_t count = CADRE_COUNT_OF(sizes) - (self->scale ? 0 : 1);
    for (size_t i = 0; i < count; i++) {
        check_take_of(self, sizes[i][0], sizes[i][1], sizes[i][2]);
        for (int kind = 0; kind < 3; kind++) {
            check_bag_of(self, sizes[i][0], sizes[i][1], sizes[i][2], kind);
        }
    }
}

/* ---- images ---- */

static void
check_images(gpu_check_t *self)
{
    static const int64_t images[][4] = {
        {1, 1, 1, 1}, {2, 7, 5, 3}, {3, 12, 12, 8}, {8, 28, 28, 16}};
    static const int kernels[][4] = {{1, 1, 1, 0}, {3, 3, 1, 1}, {2, 2, 2, 0}, {5, 3, 2, 2}};
    size_t count = CADRE_COUNT_OF(images) - (self->scale ? 0 : 1);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < CADRE_COUNT_OF(kernels); k++) {
            const int *kernel = kernels[k];
            if (images[i][1] + 2 * kernel[3] < kernel[0] ||
                images[i][2] + 2 * kernel[3] < kernel[1]) {
                continue;
            }
            shape_t shape = {4, {images[i][0], images[i][1], images[i][2], images[i][3]}};
            gpu_case_t one = {0};
            cadre_program_t *p = cadre_program_new("im2col");
            cadre_node_t x = random_argument(&one, p, &shape, -1, 1);
            finish_with_gradients(self, named(&one, "im2col", &shape), p,
                                  cadre_op_im2col(p, x, kernel, kernel[2], kernel[3]), &x, 1);
        }
    }
}

void
gpu_check_ops(gpu_check_t *self)
{
    check_map1(self);
    check_map2(self);
    check_where(self);
    check_cast_and_rand(self);
    check_reduce(self);
    check_transpose(self);
    check_movement(self);
    check_matmul(self);
    check_rows(self);
    check_sparse(self);
    check_images(self);
}
