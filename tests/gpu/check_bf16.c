/*
 * bf16 inside programs: casts, movement and products of it, with gradients.
 *
 * Only what both devices were given or compute alike to the last bit is rounded to bf16: two sums
 * in another order may lie on both sides of a tie.
 */
#include <stdio.h>

#include "common/base/memory.h"
#include "tests/gpu/gpu_check.h"

enum { RUNS = 3 }; /* the first one enqueues steps, the second records a graph, the third replays */

static cadre_node_t
argument(gpu_case_t *one, cadre_program_t *p, cadre_dtype_t dtype, const int64_t *shape, int rank)
{
    return gpu_argument(one, p, gpu_random(dtype, shape, rank, -2, 2));
}

/* The case, named after its first argument's shape. */
static void
check(gpu_check_t *self, gpu_case_t *one, const char *what, cadre_program_t *p)
{
    const cadre_tensor_t *x = &one->arguments[0];
    snprintf(one->name, sizeof(one->name), "%s of bf16 with %lld elements", what,
             (long long)cadre_tensor_count(x));
    gpu_case_init(one, p);
    gpu_check_case(self, one, RUNS);
}

static void
check_casts(gpu_check_t *self, int64_t count)
{
    static const cadre_dtype_t dtypes[] = {CADRE_F32, CADRE_I32, CADRE_BF16};
    for (size_t i = 0; i < CADRE_COUNT_OF(dtypes); i++) {
        gpu_case_t one = {0};
        cadre_program_t *p = cadre_program_new("cast");
        cadre_node_t x = argument(&one, p, dtypes[i], &count, 1);
        cadre_op_result(p, "f32", cadre_op_cast(p, x, CADRE_F32));
        cadre_op_result(p, "i32", cadre_op_cast(p, x, CADRE_I32));
        cadre_op_result(p, "bf16", cadre_op_cast(p, x, CADRE_BF16));
        check(self, &one, "cast", p);
    }
}

static void
check_movement(gpu_check_t *self, const int64_t shape[3])
{
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("movement");
    cadre_node_t x = argument(&one, p, CADRE_BF16, shape, 3);
    cadre_tensor_t places = gpu_random(CADRE_I32, (int64_t[]){9}, 1, 0, (float)shape[0] - 0.01F);
    cadre_node_t index = gpu_argument(&one, p, places);
    cadre_node_t turned = cadre_op_transpose(p, x, (int[]){2, 0, 1});
    cadre_dim_t large[] = {cadre_dim(3), cadre_dim(shape[2]), cadre_dim(shape[0]),
                           cadre_dim(shape[1])};
    cadre_node_t joined = cadre_op_concat(p, (cadre_node_t[]){x, x, x}, 3, 1);
    cadre_node_t padded = cadre_op_pad(p, joined, 1, 2, 1);
    cadre_op_result(p, "turned", turned);
    cadre_op_result(p, "broadcast", cadre_op_broadcast(p, turned, large, 4));
    cadre_op_result(p, "joined", cadre_op_slice(p, padded, 1, 1, 2 * shape[1] + 1));
    cadre_op_result(p, "taken", cadre_op_take(p, x, index));
    check(self, &one, "movement", p);
}

/* y = left right of bf16, and the gradients of its weighted mean, which are rounded to bf16 alike
 * on each device. */
static void
check_matmul(gpu_check_t *self, const int64_t sizes[3], int64_t batches, int flips)
{
    const int64_t left[] = {batches, sizes[flips & 1 ? 1 : 0], sizes[flips & 1 ? 0 : 1]};
    const int64_t right[] = {batches, sizes[flips & 2 ? 2 : 1], sizes[flips & 2 ? 1 : 2]};
    const int64_t out[] = {batches, sizes[0], sizes[2]};
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("matmul");
    cadre_node_t nodes[2] = {argument(&one, p, CADRE_BF16, left, 3),
                             argument(&one, p, CADRE_BF16, right, 3)};
    cadre_node_t weights = argument(&one, p, CADRE_F32, out, 3);
    cadre_node_t y = cadre_op_matmul_transposed(p, nodes[0], flips & 1, nodes[1], flips >> 1);
    cadre_node_t gradients[2];
    cadre_op_gradient(p, cadre_op_mean_all(p, cadre_op_mul(p, y, weights)), nodes, 2, gradients);
    cadre_op_result(p, "y", y);
    cadre_op_result(p, "left", gradients[0]);
    cadre_op_result(p, "right", gradients[1]);
    check(self, &one, "matmul", p);
}

/* What a device rounds f32 operands to has nothing to do with those of bf16. */
static void
check_other_math(gpu_check_t *self)
{
    cadre_device_t *device = self->device;
    for (int i = 0; i < 2 && self->open_math; i++) {
        const char *math = i == 0 ? "tf32" : "bf16";
        int status = self->open_math(math, &self->device);
        gpu_check_that(self, status == 0, "math %s: %s", math, cadre_error_text());
        if (status == 0) {
            check_matmul(self, (int64_t[]){33, 65, 17}, 3, 2);
            cadre_device_close(&self->device);
        }
        self->device = device;
    }
}

void
gpu_check_bf16(gpu_check_t *self)
{
    static const int64_t counts[] = {1, 3, 1000, 4099, 1 << 20};
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {5, 3, 7}, {33, 2, 65}, {16, 8, 64}, {300, 33, 129}};
    static const int64_t sizes[][3] = {{1, 1, 1},    {2, 3, 5},    {64, 64, 64},
                                       {33, 65, 17}, {1, 256, 10}, {512, 784, 300}};
    int left_out = self->scale ? 0 : 1; /* the last ones are for a device */
    for (size_t i = 0; i + (size_t)left_out < CADRE_COUNT_OF(counts); i++) {
        check_casts(self, counts[i]);
    }
    for (size_t i = 0; i + (size_t)left_out < CADRE_COUNT_OF(shapes); i++) {
        check_movement(self, shapes[i]);
    }
    for (size_t i = 0; i + (size_t)left_out < CADRE_COUNT_OF(sizes); i++) {
        for (int flips = 0; flips < 4; flips++) {
            check_matmul(self, sizes[i], 1, flips);
            check_matmul(self, sizes[i], 3, flips);
        }
    }
    check_other_math(self);
}
