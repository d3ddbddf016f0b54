#include "worker/device/cuda/steps.h"

#include "common/base/assert.h"
#include "common/base/status.h"

typedef int (*enqueue_t)(const cadre_cuda_operands_t *operands, void *stream);

static enqueue_t
find(cadre_op_t op)
{
    if (op == CADRE_STEP_CHAIN) {
        return cadre_cuda_chain;
    }
    switch (op) {
    case CADRE_OP_MAP1:
        return cadre_cuda_map1;
    case CADRE_OP_MAP2:
        return cadre_cuda_map2;
    case CADRE_OP_WHERE:
        return cadre_cuda_where;
    case CADRE_OP_REDUCE:
        return cadre_cuda_reduce;
    case CADRE_OP_BROADCAST:
    case CADRE_OP_TRANSPOSE:
    case CADRE_OP_SLICE:
        return cadre_cuda_gather;
    case CADRE_OP_CONCAT:
        return cadre_cuda_concat;
    case CADRE_OP_PAD:
        return cadre_cuda_pad;
    case CADRE_OP_TAKE:
        return cadre_cuda_take;
    case CADRE_OP_SCATTER:
        return cadre_cuda_scatter;
    case CADRE_OP_BAG:
        return cadre_cuda_bag;
    case CADRE_OP_BAG_GRAD:
        return cadre_cuda_bag_grad;
    case CADRE_OP_SOFTMAX:
        return cadre_cuda_softmax;
    case CADRE_OP_XENT:
        return cadre_cuda_xent;
    case CADRE_OP_XENT_GRAD:
        return cadre_cuda_xent_grad;
    case CADRE_OP_ROWNORM:
        return cadre_cuda_rownorm;
    case CADRE_OP_ROWNORM_GRAD:
        return cadre_cuda_rownorm_grad;
    case CADRE_OP_IM2COL:
        return cadre_cuda_im2col;
    case CADRE_OP_COL2IM:
        return cadre_cuda_col2im;
    case CADRE_OP_CAST:
        return cadre_cuda_cast;
    case CADRE_OP_RAND:
        return cadre_cuda_rand;
    case CADRE_OP_MATMUL: /* cublasLt's */
    case CADRE_OP_ARG:    /* leaves and aliases are no steps */
    case CADRE_OP_VAR:
    case CADRE_OP_CONST:
    case CADRE_OP_RESHAPE:
    case CADRE_OP_DETACH:
        break;
    }
    return NULL;
}

bool
cadre_cuda_step_exists(cadre_op_t op)
{
    return find(op) != NULL;
}

int
cadre_cuda_step(const cadre_cuda_operands_t *operands, void *stream)
{
    enqueue_t enqueue = find(operands->step->op);
    cadre_assert(enqueue);
    int status = enqueue(operands, stream);
    if (status < 0) {
        return cadre_fail(status, "%s: the device refused the launch",
                          cadre_op_text(operands->step->op, operands->step->attributes[0]));
    }
    return 0;
}
