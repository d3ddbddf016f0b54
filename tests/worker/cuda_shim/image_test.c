/*
 * im2col and col2im by the CUDA kernels, bit for bit: both add in the order of the windows.
 */
#include "tests/worker/cuda_shim/compare.h"

TestSuite(image, .timeout = 240);

typedef struct {
    int64_t shape[4];
    int kernel[2];
    int stride;
    int padding;
} case_t;

static const case_t cases[] = {
    {{1, 1, 1, 1}, {1, 1}, 1, 0}, {{2, 5, 6, 3}, {3, 3}, 1, 1}, {{2, 5, 6, 4}, {3, 3}, 1, 1},
    {{1, 7, 5, 8}, {2, 3}, 2, 0}, {{3, 6, 6, 2}, {3, 2}, 3, 2}, {{1, 8, 9, 4}, {5, 5}, 2, 2},
    {{2, 4, 4, 1}, {4, 4}, 1, 3}, {{1, 6, 7, 4}, {1, 1}, 4, 0}, {{1, 3, 3, 5}, {5, 5}, 1, 1},
    {{2, 9, 4, 3}, {1, 4}, 5, 0},
};

Test(image, windows_and_their_sum)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const case_t *one = &cases[i];
        cadre_tensor_t x = random_tensor(CADRE_F32, one->shape, 4, 3);
        cadre_program_t *p = cadre_program_new("im2col");
        cadre_node_t image = arg_like(p, "x", &x);
        cadre_node_t windows = cadre_op_im2col(p, image, one->kernel, one->stride, one->padding);
        cr_assert_eq(compare(p, windows, &x, 0), 0);
        p = cadre_program_new("col2im");
        image = arg_like(p, "x", &x);
        /* The windows times numbers of their own, so that places are told apart. */
        windows = cadre_op_im2col(p, image, one->kernel, one->stride, one->padding);
        cadre_extents_t extents = cadre_program_at(p, windows)->shape;
        windows = cadre_op_add(p, windows, cadre_program_emit_rand(p, &extents));
        cadre_program_node_t node = {
            .op = CADRE_OP_COL2IM,
            .shape = cadre_program_at(p, image)->shape,
            .input_count = 1,
            .inputs = {windows.id - 1},
            .attributes = {one->kernel[0], one->kernel[1], one->stride, one->padding}};
        cr_assert_eq(compare(p, cadre_program_emit(p, &node), &x, 0), 0);
        cadre_tensor_fini(&x);
    }
}
