/*
 * rownorm and its gradient by the CUDA kernels: rows of a warp (up to 1024 elements), of a block.
 */
#include "common/graph/op.h"
#include "tests/worker/cuda_shim/compare.h"

TestSuite(norm, .timeout = 240);

static const int64_t shapes[][2] = {{1, 1},    {1, 2},    {3, 5},    {9, 32},  {4, 33},
                                    {2, 1024}, {2, 1025}, {3, 3000}, {17, 100}};

static cadre_node_t
gradient_of(cadre_program_t *p, cadre_node_t gradient, cadre_node_t x)
{
    cadre_program_node_t node = {.op = CADRE_OP_ROWNORM_GRAD,
                                 .input_count = 2,
                                 .inputs = {gradient.id - 1, x.id - 1},
                                 .attributes = {cadre_op_float_bits(1e-5F)}};
    return cadre_program_emit(p, &node);
}

Test(norm, rows_and_their_gradient)
{
    for (size_t i = 0; i < 2 * CADRE_COUNT_OF(shapes); i++) {
        cadre_tensor_t x[2] = {random_tensor(CADRE_F32, shapes[i / 2], 2, 3),
                               random_tensor(CADRE_F32, shapes[i / 2], 2, 4)};
        for (int64_t k = 0; k < cadre_tensor_count(&x[0]); k++) {
            ((float *)x[0].data)[k] += i % 2 ? 50 : 0;
        }
        double tolerance = i % 2 ? 2e-4 : 1e-5; /* what is left of numbers near 50 */
        cadre_program_t *p = cadre_program_new("rownorm");
        cadre_node_t y = cadre_op_rownorm(p, cadre_op_neg(p, arg_like(p, "x", &x[0])), 1e-5F);
        cr_assert_eq(compare(p, y, x, tolerance), 0);
        /* In place of the gradient, then of x. */
        for (int dying = 0; dying < 2; dying++) {
            p = cadre_program_new("rownorm_grad");
            cadre_node_t node = arg_like(p, "x", &x[0]);
            cadre_node_t gradient = arg_like(p, "gradient", &x[1]);
            y = dying ? gradient_of(p, gradient, cadre_op_neg(p, node))
                      : gradient_of(p, cadre_op_neg(p, gradient), node);
            cr_assert_eq(compare(p, y, x, 4 * tolerance), 0);
        }
        cadre_tensor_fini(&x[0]);
        cadre_tensor_fini(&x[1]);
    }
}
