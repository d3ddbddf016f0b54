#include "worker/device/cpu.h"

#include "common/base/assert.h"

static int
run_op(const cadre_operands_t *operands)
{
    switch (operands->step->op) {
    case CADRE_OP_MATMUL:
        cadre_cpu_matmul(operands);
        return 0;
    case CADRE_OP_MAP1:
    case CADRE_OP_MAP2:
    case CADRE_OP_WHERE:
        cadre_cpu_element(operands);
        return 0;
    case CADRE_OP_REDUCE:
        cadre_cpu_reduce(operands);
        return 0;
    case CADRE_OP_BROADCAST:
    case CADRE_OP_TRANSPOSE:
    case CADRE_OP_SLICE:
        cadre_cpu_gather(operands);
        return 0;
    case CADRE_OP_CONCAT:
        cadre_cpu_concat(operands);
        return 0;
    case CADRE_OP_PAD:
        cadre_cpu_pad(operands);
        return 0;
    case CADRE_OP_TAKE:
        return cadre_cpu_take(operands);
    case CADRE_OP_SCATTER:
        return cadre_cpu_scatter(operands);
    case CADRE_OP_BAG:
        return cadre_cpu_bag(operands);
    case CADRE_OP_BAG_GRAD:
        return cadre_cpu_bag_grad(operands);
    case CADRE_OP_SOFTMAX:
        cadre_cpu_softmax(operands);
        return 0;
    case CADRE_OP_XENT:
        return cadre_cpu_xent(operands);
    case CADRE_OP_XENT_GRAD:
        return cadre_cpu_xent_grad(operands);
    case CADRE_OP_ROWNORM:
        cadre_cpu_rownorm(operands);
        return 0;
    case CADRE_OP_ROWNORM_GRAD:
        cadre_cpu_rownorm_grad(operands);
        return 0;
    case CADRE_OP_IM2COL:
        cadre_cpu_im2col(operands);
        return 0;
    case CADRE_OP_COL2IM:
        cadre_cpu_col2im(operands);
        return 0;
    case CADRE_OP_CAST:
        cadre_cpu_cast(operands);
        return 0;
    case CADRE_OP_RAND:
        cadre_cpu_rand(operands);
        return 0;
    case CADRE_OP_ARG: /* leaves and aliases are no steps */
    case CADRE_OP_VAR:
    case CADRE_OP_CONST:
    case CADRE_OP_RESHAPE:
    case CADRE_OP_DETACH:
        break;
    }
    cadre_assert(false);
    return 0;
}

int
cadre_cpu_step(const cadre_operands_t *operands)
{
    if (operands->step->op == CADRE_STEP_CHAIN) {
        cadre_cpu_chain(operands);
        return 0;
    }
    return run_op(operands);
}
