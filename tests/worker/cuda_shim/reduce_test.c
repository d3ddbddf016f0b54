/*
 * Reductions by the CUDA kernels, in each way that they are cut.
 */
#include "tests/worker/cuda_shim/compare.h"

TestSuite(reduce, .timeout = 240);

/* The CPU adds a thousand numbers of a column one after the other, and is the less exact one. A
 * number left out would show in the first digit. */
static void
check(const cadre_tensor_t *x, int begin, int end)
{
    for (int64_t function = CADRE_REDUCE_SUM; function <= CADRE_REDUCE_ARGMAX; function++) {
        cadre_program_t *p = cadre_program_new("reduce");
        cadre_node_t y =
            cadre_program_emit_reduce(p, (cadre_reduce_t)function, arg_like(p, "x", x), begin, end);
        double tolerance = function == CADRE_REDUCE_ARGMAX ? 0 : 2e-5;
        cr_assert_eq(compare(p, y, x, tolerance), 0);
    }
}

Test(reduce, neighbouring_axes)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){2, 3, 37, 5}, 4, 5);
    for (int begin = 0; begin < 4; begin++) {
        for (int end = begin + 1; end <= 4; end++) {
            check(&x, begin, end);
        }
    }
    cadre_tensor_fini(&x);
}

/* Rows of a warp and of a block, cut or not; columns cut or not, in full and partial tiles. The
 * numbers are those of reduce.cu: 1024 and 16384 elements of a row, 256 of a column, 32 columns,
 * 512 blocks. */
Test(reduce, every_way_of_cutting)
{
    static const int64_t shapes[][3] = {{1, 1, 1},      {9, 1024, 1},  {3, 1025, 1}, {2, 16384, 1},
                                        {2, 16385, 1},  {1, 50000, 1}, {1, 256, 33}, {1, 257, 33},
                                        {1, 1000, 64},  {600, 3, 2},   {2, 300, 5},  {1, 7, 16400},
                                        {520, 1030, 1}, {3, 2, 1}};
    for (size_t i = 0; i < CADRE_COUNT_OF(shapes); i++) {
        cadre_tensor_t x = random_tensor(CADRE_F32, shapes[i], 3, 5);
        int64_t count = cadre_tensor_count(&x);
        for (int64_t k = 0; k < count; k += 3) {
            ((float *)x.data)[k] = 0.5F; /* some are equal */
        }
        ((float *)x.data)[count / 2] = 1.5F;
        check(&x, 1, 2);
        cadre_tensor_fini(&x);
    }
}

Test(reduce, sums_a_million_numbers_to_six_digits)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){1000003}, 1, 5);
    for (int64_t i = 0; i < cadre_tensor_count(&x); i++) {
        ((float *)x.data)[i] += 1;
    }
    cadre_program_t *p = cadre_program_new("sum");
    cr_assert_eq(compare(p, cadre_op_sum_all(p, arg_like(p, "x", &x)), &x, 2e-6), 0);
    cadre_tensor_fini(&x);
}

Test(reduce, keeps_nan_and_names_the_first_of_equals)
{
    static const float rows[][6] = {
        {1, NAN, 3, 2, 2, 2},
        {NAN, 1, 2, 3, 4, 5},
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
        {-INFINITY, NAN, NAN, NAN, NAN, NAN},
        {1, INFINITY, INFINITY, NAN, 1, 2},
        {0, -0.0F, 0, -1, 0, 0},
        {NAN, NAN, NAN, NAN, NAN, INFINITY},
    };
    float values[sizeof(rows) / sizeof(float)];
    memcpy(values, rows, sizeof(rows));
    cadre_tensor_t x = {.dtype = CADRE_F32, .rank = 2, .shape = {7, 6}, .data = values};
    check(&x, 1, 2);
    check(&x, 0, 1);
    check(&x, 0, 2);
    /* Along a row that a block cuts into pieces. */
    cadre_tensor_t row = random_tensor(CADRE_F32, (int64_t[]){40000}, 1, 5);
    static const int64_t places[] = {0, 1, 100, 16383, 16384, 39999};
    for (size_t i = 0; i < CADRE_COUNT_OF(places); i++) {
        float *at = (float *)row.data + places[i];
        float before = *at;
        *at = NAN;
        check(&row, 0, 1);
        *at = before;
    }
    cadre_tensor_fini(&row);
}
