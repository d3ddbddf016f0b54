/*
 * Broadcast, transpose, slice, concat, pad and random numbers by the CUDA kernels, bit for bit.
 */
#include "tests/worker/cuda_shim/compare.h"

TestSuite(movement, .timeout = 240);

static const cadre_dtype_t dtypes[] = {CADRE_F32, CADRE_I32};

static void
check_transposes(const int64_t *shape, cadre_dtype_t dtype)
{
    cadre_tensor_t x = random_tensor(dtype, shape, 4, 6);
    for (int code = 0; code < 256; code++) {
        int order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        unsigned seen = 1U << order[0] | 1U << order[1] | 1U << order[2] | 1U << order[3];
        if (seen == 15) {
            cadre_program_t *p = cadre_program_new("transpose");
            cadre_node_t y = cadre_op_transpose(p, arg_like(p, "x", &x), order);
            cr_assert_eq(compare(p, y, &x, 0), 0);
        }
    }
    cadre_tensor_fini(&x);
}

Test(movement, transposes_in_any_order)
{
    check_transposes((int64_t[]){2, 3, 4, 5}, CADRE_F32);
    check_transposes((int64_t[]){2, 3, 4, 5}, CADRE_I32);
    check_transposes((int64_t[]){9, 8, 2, 10}, CADRE_I32);
    check_transposes((int64_t[]){1, 40, 3, 33}, CADRE_F32);
    check_transposes((int64_t[]){1, 1, 64, 96}, CADRE_F32);
}

Test(movement, broadcasts_and_shares)
{
    static const int64_t from[][4] = {{1, 1, 1, 1}, {1, 3, 1, 5}, {2, 1, 4, 1},
                                      {2, 3, 4, 8}, {2, 3, 1, 8}, {1, 1, 1, 8}};
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(from); i++) {
        const int64_t *shape = from[i / 2];
        int64_t to[4] = {2, 3, 4, shape[3] == 1 ? 5 : shape[3]};
        cadre_tensor_t x = random_tensor(CADRE_F32, shape, 4, 6);
        cadre_tensor_t like = random_tensor(CADRE_F32, to, 4, 6);
        cadre_program_t *p = cadre_program_new("broadcast");
        cadre_node_t node = arg_like(p, "x", &x);
        cadre_extents_t extents = cadre_program_at(p, arg_like(p, "like", &like))->shape;
        cadre_node_t y = cadre_program_emit_broadcast(p, node, &extents, i % 2);
        cr_assert_eq(compare(p, y, (cadre_tensor_t[]){x, like}, 0), 0);
        cadre_tensor_fini(&x);
        cadre_tensor_fini(&like);
    }
}

/* Sizes that vectors fit and sizes that they do not. */
Test(movement, slices_pads_and_joins_along_each_axis)
{
    static const int64_t shapes[][4] = {{3, 4, 5, 6}, {3, 8, 4, 12}};
    for (int i = 0; i < 16; i++) {
        int axis = i / 4;
        cadre_tensor_t x = random_tensor(dtypes[i % 2], shapes[i / 2 % 2], 4, 6);
        cadre_program_t *p = cadre_program_new("parts");
        cadre_node_t node = arg_like(p, "x", &x);
        cadre_node_t parts[3] = {cadre_op_slice(p, node, axis, 0, 1),
                                 cadre_op_slice(p, node, axis, 1, 1),
                                 cadre_op_slice(p, node, axis, 2, x.shape[axis] - 2)};
        cr_assert_eq(compare(p, cadre_op_concat(p, parts, 3, axis), &x, 0), 0);
        static const int64_t paddings[][2] = {{2, 1}, {0, 3}, {4, 0}, {4, 8}};
        for (size_t k = 0; k < CADRE_COUNT_OF(paddings); k++) {
            p = cadre_program_new("padding");
            cadre_node_t y =
                cadre_op_pad(p, arg_like(p, "x", &x), axis, paddings[k][0], paddings[k][1]);
            cr_assert_eq(compare(p, y, &x, 0), 0);
        }
        cadre_tensor_fini(&x);
    }
}

Test(movement, joins_as_many_as_there_may_be)
{
    for (int count = 1; count <= CADRE_OP_INPUTS_MAX; count++) {
        cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){3, count + 60}, 2, 6);
        cadre_program_t *p = cadre_program_new("join");
        cadre_node_t node = arg_like(p, "x", &x);
        cadre_node_t parts[CADRE_OP_INPUTS_MAX];
        for (int i = 0; i < count; i++) {
            parts[i] = cadre_op_slice(p, node, 1, i, 1 + i % 5);
        }
        cr_assert_eq(compare(p, cadre_op_concat(p, parts, count, 1), &x, 0), 0);
        cadre_tensor_fini(&x);
    }
}

Test(movement, random_numbers_are_those_of_the_cpu)
{
    static const int64_t counts[] = {1, 4, 7, 1023, 1024, 1029};
    for (size_t i = 0; i < CADRE_COUNT_OF(counts); i++) {
        cadre_program_t *p = cadre_program_new("numbers");
        cadre_dim_t dims[] = {cadre_dim(counts[i])};
        cadre_node_t other = cadre_op_rand_uniform(p, dims, 1);
        cadre_node_t y =
            cadre_op_concat(p, (cadre_node_t[]){other, cadre_op_rand_uniform(p, dims, 1)}, 2, 0);
        cr_assert_eq(compare(p, y, NULL, 0), 0);
    }
}
