/*
 * op_loops - operations as anybody would write them, on plain arrays with the math library's
 * functions: what the device is compared to.
 *
 * Thread:  any.
 */
#ifndef CADRE_BENCH_OP_LOOPS_H
#define CADRE_BENCH_OP_LOOPS_H

#include <stdint.h>

/* Matrices are [rows, columns]; `row` is [columns], `column` is [rows]. */
typedef struct {
    int64_t rows;
    int64_t columns;
    const float *x;
    const float *y;
    const float *z;
    const float *row;
    const float *column;
    const int32_t *labels; /* [rows], below 10 */
    const float *windows;  /* of images, as im2col makes them */
    float *out;            /* as large as any of them */
    int32_t *whole;        /* [rows, columns], to keep something in */
} cadre_bench_arrays_t;

/* A row seen as an image, and the windows over it: 3 x 3 in steps of 1, with a border of zeros. */
enum {
    CADRE_BENCH_IMAGE_SIDE = 8,
    CADRE_BENCH_IMAGE_CHANNELS = 8,
    CADRE_BENCH_KERNEL = 3,
    CADRE_BENCH_BAG = 4, /* rows in a bag */
};

typedef void cadre_bench_loop_t(const cadre_bench_arrays_t *arrays);

#define CADRE_BENCH_LOOPS(X)                                                                       \
    X(neg)                                                                                         \
    X(exp)                                                                                         \
    X(log)                                                                                         \
    X(sqrt)                                                                                        \
    X(rsqrt)                                                                                       \
    X(recip)                                                                                       \
    X(square)                                                                                      \
    X(abs)                                                                                         \
    X(sign)                                                                                        \
    X(step)                                                                                        \
    X(relu)                                                                                        \
    X(sigmoid)                                                                                     \
    X(tanh)                                                                                        \
    X(gelu)                                                                                        \
    X(dgelu)                                                                                       \
    X(softplus)                                                                                    \
    X(add)                                                                                         \
    X(add_row)                                                                                     \
    X(add_column)                                                                                  \
    X(sub)                                                                                         \
    X(mul)                                                                                         \
    X(div)                                                                                         \
    X(max)                                                                                         \
    X(min)                                                                                         \
    X(gt)                                                                                          \
    X(eq)                                                                                          \
    X(where)                                                                                       \
    X(where_number)                                                                                \
    X(where_chain)                                                                                 \
    X(leaky_relu)                                                                                  \
    X(cast)                                                                                        \
    X(bias_relu)                                                                                   \
    X(tanh_gradient)                                                                               \
    X(sum_rows)                                                                                    \
    X(mean_rows)                                                                                   \
    X(sum_columns)                                                                                 \
    X(sum_all)                                                                                     \
    X(largest)                                                                                     \
    X(softmax)                                                                                     \
    X(log_softmax)                                                                                 \
    X(xent)                                                                                        \
    X(transpose)                                                                                   \
    X(slice)                                                                                       \
    X(concat)                                                                                      \
    X(argmax)                                                                                      \
    X(xent_grad)                                                                                   \
    X(rownorm)                                                                                     \
    X(rownorm_grad)                                                                                \
    X(broadcast)                                                                                   \
    X(pad)                                                                                         \
    X(take)                                                                                        \
    X(scatter)                                                                                     \
    X(bag)                                                                                         \
    X(bag_grad)                                                                                    \
    X(rand)                                                                                        \
    X(im2col)                                                                                      \
    X(col2im)

#define CADRE_BENCH_LOOP(name) cadre_bench_loop_t cadre_bench_loop_##name;
CADRE_BENCH_LOOPS(CADRE_BENCH_LOOP)
#undef CADRE_BENCH_LOOP

#endif
