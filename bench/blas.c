#include "bench/blas.h"

#include <cblas.h>

void
cadre_bench_blas_multiply(const cadre_bench_product_t *product, const float *left,
                          const float *right, float *out)
{
    CBLAS_TRANSPOSE flip_left = product->transpose_left ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE flip_right = product->transpose_right ? CblasTrans : CblasNoTrans;
    cblas_sgemm(CblasRowMajor, flip_left, flip_right, product->m, product->n, product->inner, 1,
                left, product->transpose_left ? product->m : product->inner, right,
                product->transpose_right ? product->inner : product->n, 0, out, product->n);
}

int
cadre_bench_blas_set_threads(int threads)
{
    int before = openblas_get_num_threads();
    openblas_set_num_threads(threads);
    return before;
}
