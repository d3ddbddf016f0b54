#include "worker/device/cuda/steps.h"

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

typedef int enqueue_t(const cadre_cuda_operands_t *operands, void *stream);

/* Enqueues a step, any but MATMUL, by the function of its op. */
int
cadre_cuda_step(const cadre_cuda_operands_t *operands, void *stream)
{
    static enqueue_t *const kernels[] = {
#define ROW(NAME, number, word, ...) [CADRE_OP_##NAME] = cadre_cuda_##word,
        CADRE_OP_ELEMENT_LIST(ROW) CADRE_OP_KERNEL_LIST(ROW)
#undef ROW
            [CADRE_STEP_CHAIN] = cadre_cuda_chain,
    };
    cadre_op_t op = operands->step->op;
    cadre_assert(op < CADRE_COUNT_OF(kernels) && kernels[op]);
    int status = kernels[op](operands, stream);
    if (status < 0) {
        return cadre_fail(status, "%s: the device refused the launch",
                          cadre_op_text(op, operands->step->attributes[0]));
    }
    return 0;
}
