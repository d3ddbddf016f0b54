/*
 * blas - matrix products by OpenBLAS alone: what the device is compared to.
 *
 * Thread:  main's; the number of OpenBLAS' threads is the process's.
 */
#ifndef CADRE_BENCH_BLAS_H
#define CADRE_BENCH_BLAS_H

#include <stdbool.h>

/* out [m, n] = left [m, inner], or its transpose, times right [inner, n], or its transpose. */
typedef struct {
    int m;
    int n;
    int inner;
    bool transpose_left;
    bool transpose_right;
} cadre_bench_product_t;

void cadre_bench_blas_multiply(const cadre_bench_product_t *product, const float *left,
                               const float *right, float *out);

/* Returns how many there were. */
int cadre_bench_blas_set_threads(int threads);

#endif
