#include "worker/device/cuda/scratch.cuh"

size_t
cadre_cuda_scratch_size_bytes(const cadre_cuda_operands_t *operands)
{
    if (operands->step->op == CADRE_OP_REDUCE) {
        return cadre_cuda_reduce_scratch(operands);
    }
    return 0;
}
