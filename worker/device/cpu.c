#include "worker/device/cpu.h"

#include "common/base/assert.h"
#include "common/base/memory.h"

typedef int run_t(const cadre_operands_t *operands);

/* Runs one step of a plan by the function of its op. */
int
cadre_cpu_step(const cadre_operands_t *operands)
{
    static run_t *const runs[] = {
#define ELEMENT(NAME, ...)             [CADRE_OP_##NAME] = cadre_cpu_element,
#define OTHER(NAME, number, word, ...) [CADRE_OP_##NAME] = cadre_cpu_##word,
        CADRE_OP_ELEMENT_LIST(ELEMENT) CADRE_OP_PRODUCT_LIST(OTHER) CADRE_OP_KERNEL_LIST(OTHER)
#undef ELEMENT
#undef OTHER
            [CADRE_STEP_CHAIN] = cadre_cpu_chain,
    };
    cadre_op_t op = operands->step->op;
    cadre_assert(op < CADRE_COUNT_OF(runs) && runs[op]);
    return runs[op](operands);
}
