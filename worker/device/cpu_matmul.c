/*
 * cpu_matmul - matmul through OpenBLAS. The only file that includes cblas.h, which brings the macro
 * `I` with it.
 */
#include <cblas.h>

#include "worker/device/cpu.h"
#include "worker/device/element.h"

void
cadre_cpu_set_threads(int threads)
{
    openblas_set_num_threads(threads);
}

/* A product of bf16 matrices needs room for both as f32: most builds of OpenBLAS have no bf16. */
size_t
cadre_cpu_scratch_size_bytes(const cadre_plan_t *plan, const cadre_plan_step_t *step)
{
    if (step->op != CADRE_OP_MATMUL || plan->values[step->inputs[0]].dtype != CADRE_BF16) {
        return 0;
    }
    int64_t count = plan->values[step->inputs[0]].count + plan->values[step->inputs[1]].count;
    return (size_t)count * sizeof(cadre_real_t);
}

int
cadre_cpu_matmul(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *left = operands->inputs[0];
    const cadre_plan_value_t *out = operands->out;
    const int64_t *attributes = operands->step->attributes;
    int rank = out->rank;
    CBLAS_TRANSPOSE flip_left = attributes[CADRE_MATMUL_TRANSPOSE_LEFT] ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE flip_right =
        attributes[CADRE_MATMUL_TRANSPOSE_RIGHT] ? CblasTrans : CblasNoTrans;
    blasint rows = (blasint)out->shape[rank - 2];
    blasint columns = (blasint)out->shape[rank - 1];
    blasint inner = (blasint)left->shape[flip_left == CblasTrans ? rank - 2 : rank - 1];
    blasint left_columns = (blasint)left->shape[rank - 1];
    blasint right_columns = (blasint)operands->inputs[1]->shape[rank - 1];
    int64_t out_count = (int64_t)rows * columns;
    const cadre_real_t *a = operands->data[0];
    const cadre_real_t *b = operands->data[1];
    cadre_real_t *c = operands->out_data;
    /* bf16 is widened to f32 first, the only of the two that every OpenBLAS multiplies. */
    if (left->dtype == CADRE_BF16) {
        cadre_real_t *wide = operands->scratch;
        cadre_cpu_from_bf16(wide, a, left->count);
        cadre_cpu_from_bf16(wide + left->count, b, operands->inputs[1]->count);
        a = wide;
        b = wide + left->count;
    }
    /* Leading axes are a batch of matrices, one behind the other. */
    for (int64_t batch = 0; batch < out->count / out_count; batch++) {
#ifdef CADRE_REAL_DOUBLE
        cblas_dgemm(
#else
        cblas_sgemm(
#endif
            CblasRowMajor, flip_left, flip_right, rows, columns, inner, 1, a, left_columns, b,
            right_columns, 0, c, columns);
        a += (int64_t)rows * inner;
        b += (int64_t)inner * columns;
        c += out_count;
    }
    return 0;
}

void
cadre_cpu_multiply(const cadre_real_t *left, const cadre_real_t *right, cadre_real_t *out,
                   int width)
{
#ifdef CADRE_REAL_DOUBLE
    cblas_dgemm(
#else
    cblas_sgemm(
#endif
        CblasRowMajor, CblasNoTrans, CblasNoTrans, width, width, width, 1, left, width, right,
        width, 0, out, width);
}
