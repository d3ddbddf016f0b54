/* Products of matrices by OpenBLAS (blas.h). */
#include "worker/device/blas.h"
#include "worker/device/cpu.h"
#include "worker/device/element.h"

/* Returns the bytes of scratch memory that a step needs: a product of bf16 matrices widens both to
 * f32, as most builds of OpenBLAS have no bf16; other steps need none. */
size_t
cadre_cpu_scratch_size_bytes(const cadre_plan_t *plan, const cadre_plan_step_t *step)
{
    if (step->op != CADRE_OP_MATMUL || plan->values[step->inputs[0]].dtype != CADRE_BF16) {
        return 0;
    }
    int64_t count = plan->values[step->inputs[0]].count + plan->values[step->inputs[1]].count;
    return (size_t)count * sizeof(cadre_real_t);
}

/* Multiplies matrices, or batches of them, each factor transposed if its attribute says so. */
int
cadre_cpu_matmul(const cadre_operands_t *operands)
{
    const cadre_plan_value_t *left = operands->inputs[0];
    const cadre_plan_value_t *out = operands->out;
    const int64_t *attributes = operands->step->attributes;
    const int rank = out->rank;
    const bool flips_left = attributes[CADRE_MATMUL_TRANSPOSE_LEFT] != 0;
    const cadre_blas_product_t product = {
        .m = (int)out->shape[rank - 2],
        .n = (int)out->shape[rank - 1],
        .inner = (int)left->shape[flips_left ? rank - 2 : rank - 1],
        .transpose_left = flips_left,
        .transpose_right = attributes[CADRE_MATMUL_TRANSPOSE_RIGHT] != 0,
    };
    const int64_t out_count = (int64_t)product.m * product.n;
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
        cadre_blas_multiply(&product, a, b, c);
        a += (int64_t)product.m * product.inner;
        b += (int64_t)product.inner * product.n;
        c += out_count;
    }
    return 0;
}
