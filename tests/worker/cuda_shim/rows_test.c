/*
 * Softmax and cross entropy by the CUDA kernels: rows of a warp (up to 1024 elements), of a block.
 */
#include "tests/worker/cuda_shim/compare.h"

TestSuite(rows, .timeout = 240);

static const int64_t shapes[][2] = {{1, 1},    {5, 2},    {9, 10},   {3, 33},
                                    {2, 1024}, {2, 1025}, {3, 3000}, {17, 100}};

static cadre_tensor_t
logits_of(const int64_t *shape, float scale)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, shape, 2, 3);
    for (int64_t i = 0; i < cadre_tensor_count(&x); i++) {
        ((float *)x.data)[i] *= scale;
    }
    return x;
}

Test(rows, softmax_and_its_logarithm)
{
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(shapes); i++) {
        cadre_tensor_t x = logits_of(shapes[i / 2], i % 2 ? 200 : 3);
        cadre_program_t *p = cadre_program_new("softmax");
        cr_assert_eq(compare(p, cadre_op_softmax(p, arg_like(p, "x", &x)), &x, 2e-6), 0);
        p = cadre_program_new("log_softmax");
        cadre_node_t y =
            cadre_op_log_softmax(p, cadre_op_neg(p, arg_like(p, "x", &x))); /* in place */
        cr_assert_eq(compare(p, y, &x, 2e-6), 0);
        p = cadre_program_new("softmax_in_place");
        y = cadre_op_softmax(p, cadre_op_neg(p, arg_like(p, "x", &x)));
        cr_assert_eq(compare(p, y, &x, 2e-6), 0);
        cadre_tensor_fini(&x);
    }
}

/* logits, labels, gradient */
static void
tensors_of(const int64_t *shape, cadre_tensor_t x[3])
{
    x[0] = logits_of(shape, 5);
    x[1] = random_tensor(CADRE_I32, shape, 1, 4);
    x[2] = random_tensor(CADRE_F32, shape, 1, 5);
    for (int64_t i = 0; i < shape[0]; i++) {
        ((int32_t *)x[1].data)[i] = (int32_t)(i * 7 % shape[1]);
    }
    ((int32_t *)x[1].data)[0] = (int32_t)(shape[1] - 1);
}

static int
try_xent(const cadre_tensor_t x[3], bool gradient)
{
    cadre_program_t *p = cadre_program_new("xent");
    cadre_node_t logits = cadre_op_neg(p, arg_like(p, "x", &x[0]));
    cadre_node_t labels = arg_like(p, "labels", &x[1]);
    cadre_node_t y = cadre_op_xent(p, logits, labels);
    if (gradient) {
        cadre_node_t scale = arg_like(p, "gradient", &x[2]);
        cadre_program_node_t node = {.op = CADRE_OP_XENT_GRAD,
                                     .input_count = 3,
                                     .inputs = {logits.id - 1, labels.id - 1, scale.id - 1}};
        y = cadre_program_emit(p, &node);
    }
    return compare(p, y, x, 2e-6);
}

Test(rows, cross_entropy_and_its_gradient)
{
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(shapes); i++) {
        cadre_tensor_t x[3];
        tensors_of(shapes[i / 2], x);
        cr_assert_eq(try_xent(x, i % 2), 0);
        for (int k = 0; k < 3; k++) {
            cadre_tensor_fini(&x[k]);
        }
    }
}

Test(rows, refuses_a_label_that_is_no_class)
{
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(shapes); i++) {
        cadre_tensor_t x[3];
        tensors_of(shapes[i / 2], x);
        int32_t *label = (int32_t *)x[1].data + shapes[i / 2][0] - 1;
        *label = (int32_t)shapes[i / 2][1];
        cr_assert_eq(try_xent(x, i % 2), CADRE_EDATA);
        *label = -1;
        cr_assert_eq(try_xent(x, i % 2), CADRE_EDATA);
        for (int k = 0; k < 3; k++) {
            cadre_tensor_fini(&x[k]);
        }
    }
}
