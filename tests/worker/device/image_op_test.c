/*
 * im2col and col2im against index arithmetic, over awkward kernels, strides and paddings.
 */
#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(image_op, .timeout = 240);

typedef struct {
    int64_t image[4]; /* batch, height, width, channels */
    int kernel[2];
    int stride;
    int padding;
} windows_t;

static const windows_t cases[] = {
    {{1, 1, 1, 1}, {1, 1}, 1, 0}, {{2, 5, 4, 3}, {1, 1}, 1, 0}, {{2, 5, 4, 3}, {3, 3}, 1, 0},
    {{2, 5, 4, 3}, {3, 3}, 1, 1}, {{2, 5, 4, 3}, {2, 3}, 2, 1}, {{1, 7, 9, 1}, {3, 2}, 3, 2},
    {{3, 4, 4, 2}, {4, 4}, 1, 0}, {{1, 2, 2, 1}, {5, 5}, 1, 2}, {{1, 2, 3, 2}, {1, 1}, 1, 3},
    {{2, 6, 6, 1}, {2, 2}, 2, 0}, {{1, 7, 7, 1}, {2, 2}, 5, 0}, {{1, 1, 6, 4}, {1, 3}, 1, 0},
    {{1, 3, 3, 1}, {2, 2}, 1, 4}, {{1, 2, 5, 1}, {3, 6}, 2, 2}, {{2, 4, 5, 7}, {3, 3}, 1, 1},
    {{1, 5, 6, 8}, {2, 2}, 2, 1}, {{1, 4, 4, 6}, {3, 3}, 1, 3},
};

static int64_t
places(const windows_t *one, int axis)
{
    return (one->image[axis + 1] + 2 * one->padding - one->kernel[axis]) / one->stride + 1;
}

/* The element of the image behind element `index` of the columns, or -1 in the padding. */
static int64_t
source_of(const windows_t *one, int64_t index)
{
    int64_t channel = index % one->image[3];
    index /= one->image[3];
    int64_t kernel_column = index % one->kernel[1];
    index /= one->kernel[1];
    int64_t kernel_row = index % one->kernel[0];
    index /= one->kernel[0];
    int64_t column = index % places(one, 1);
    index /= places(one, 1);
    int64_t row = index % places(one, 0);
    int64_t image = index / places(one, 0);
    int64_t y = row * one->stride + kernel_row - one->padding;
    int64_t x = column * one->stride + kernel_column - one->padding;
    if (y < 0 || y >= one->image[1] || x < 0 || x >= one->image[2]) {
        return -1;
    }
    return ((image * one->image[1] + y) * one->image[2] + x) * one->image[3] + channel;
}

Test(image_op, gathers_every_window)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const windows_t *one = &cases[i];
        cadre_tensor_t x = random_tensor(CADRE_F32, one->image, 4, 3);
        cadre_program_t *p = cadre_program_new("im2col");
        cadre_node_t columns =
            cadre_op_im2col(p, arg_like(p, "x", &x), one->kernel, one->stride, one->padding);
        /* In the arena, which is poisoned: each element must be written. */
        cadre_tensor_t y = run_once(p, cadre_op_neg(p, columns), &x);
        cr_assert_eq(y.shape[1], places(one, 0));
        cr_assert_eq(y.shape[2], places(one, 1));
        cr_assert_eq(y.shape[3], one->kernel[0] * one->kernel[1] * one->image[3]);
        for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
            int64_t from = source_of(one, k);
            cr_assert_eq(-f32_at(&y, k), from < 0 ? 0 : f32_at(&x, from), "case %zu, element %d", i,
                         (int)k);
        }
        cadre_tensor_fini(&y);
        cadre_tensor_fini(&x);
    }
}

Test(image_op, sums_windows_back_into_the_image)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        const windows_t *one = &cases[i];
        int64_t size[4] = {one->image[0], places(one, 0), places(one, 1),
                           one->kernel[0] * one->kernel[1] * one->image[3]};
        cadre_tensor_t x = random_tensor(CADRE_F32, size, 4, 3);
        cadre_program_t *p = cadre_program_new("col2im");
        cadre_program_node_t node = {
            .op = CADRE_OP_COL2IM,
            .input_count = 1,
            .attributes = {one->kernel[0], one->kernel[1], one->stride, one->padding},
            .shape = {.rank = 4}};
        node.inputs[0] = arg_like(p, "x", &x).id - 1;
        for (int axis = 0; axis < 4; axis++) {
            node.shape.extents[axis] = cadre_extent_number(one->image[axis]);
        }
        cadre_tensor_t y = run_once(p, cadre_op_neg(p, cadre_program_emit(p, &node)), &x);
        float *wanted = cadre_calloc((size_t)cadre_tensor_count(&y), sizeof(*wanted));
        for (int64_t k = 0; k < cadre_tensor_count(&x); k++) {
            int64_t to = source_of(one, k);
            if (to >= 0) {
                wanted[to] += f32_at(&x, k);
            }
        }
        for (int64_t k = 0; k < cadre_tensor_count(&y); k++) {
            cr_assert_eq(-f32_at(&y, k), wanted[k], "case %zu, element %d", i, (int)k);
        }
        free(wanted);
        cadre_tensor_fini(&y);
        cadre_tensor_fini(&x);
    }
}
