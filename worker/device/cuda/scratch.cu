#include "worker/device/cuda/scratch.cuh"

size_t
cadre_cuda_scratch_size_bytes(const cadre_cuda_operands_t *operands)
{
    const cadre_plan_step_t *step = operands->step;
    if (step->op == CADRE_OP_REDUCE) {
        return cadre_cuda_reduce_scratch(operands);
    }
    bool of_table = step->op == CADRE_OP_BAG_GRAD && !step->attributes[CADRE_BAG_GRAD_OF_WEIGHTS];
    if (step->op == CADRE_OP_SCATTER || of_table) {
        return cadre_cuda_segments_scratch(operands);
    }
    return 0;
}
