#include "worker/device/cuda/scratch.cuh"

/* Returns the scratch bytes that a step needs. Every op is named, so that the compiler finds one
 * that was forgotten. */
size_t
cadre_cuda_scratch_size_bytes(const cadre_cuda_operands_t *operands)
{
    const cadre_plan_step_t *step = operands->step;
    switch (step->op) {
    case CADRE_OP_REDUCE:
        return cadre_cuda_reduce_scratch(operands);
    case CADRE_OP_SCATTER:
        return cadre_cuda_segments_scratch(operands);
    case CADRE_OP_BAG_GRAD:
        return step->attributes[CADRE_BAG_GRAD_OF_WEIGHTS] ? 0
                                                           : cadre_cuda_segments_scratch(operands);
#define ROW(NAME, ...) case CADRE_OP_##NAME:
        CADRE_OP_LEAF_LIST(ROW)
        CADRE_OP_VIEW_LIST(ROW)
        CADRE_OP_PRODUCT_LIST(ROW)
        CADRE_OP_ELEMENT_LIST(ROW)
#undef ROW
    case CADRE_OP_BROADCAST:
    case CADRE_OP_TRANSPOSE:
    case CADRE_OP_CONCAT:
    case CADRE_OP_SLICE:
    case CADRE_OP_PAD:
    case CADRE_OP_TAKE:
    case CADRE_OP_BAG:
    case CADRE_OP_SOFTMAX:
    case CADRE_OP_XENT:
    case CADRE_OP_XENT_GRAD:
    case CADRE_OP_ROWNORM:
    case CADRE_OP_ROWNORM_GRAD:
    case CADRE_OP_CAST:
    case CADRE_OP_RAND:
    case CADRE_OP_IM2COL:
    case CADRE_OP_COL2IM:
        return 0;
    }
    return 0; /* of a chain */
}
