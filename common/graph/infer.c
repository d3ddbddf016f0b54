#include "common/graph/infer.h"

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/infer_rules.h"

typedef int rule_t(const cadre_infer_t *self, cadre_program_node_t *node);

static rule_t *const rules[] = {
#define ROW(NAME, number, word, ...) [CADRE_OP_##NAME] = cadre_infer_##word,
    CADRE_OP_RULE_LIST(ROW)
#undef ROW
};

/* Checks the shape of a node: its rank, factors of at least 1, symbols that the program has, and
 * the product of the factors. */
static int
check_shape(const cadre_infer_t *self, const cadre_extents_t *shape)
{
    if (shape->rank < 0 || shape->rank > CADRE_PROGRAM_RANK_MAX) {
        return cadre_fail(CADRE_EINVALID, "rank %d is not in 0..%d", shape->rank,
                          CADRE_PROGRAM_RANK_MAX);
    }
    for (int i = 0; i < shape->rank; i++) {
        if (shape->extents[i].factor < 1 || shape->extents[i].symbol < CADRE_EXTENT_NO_SYMBOL ||
            shape->extents[i].symbol >= self->symbol_count) {
            return cadre_fail(CADRE_EINVALID, "dimension %d is not at least 1", i);
        }
    }
    int64_t factor = 0;
    return cadre_extents_factor(shape, &factor);
}

/* Checks how many inputs the node has, runs the rule of its op, and checks the shape that comes
 * out. A leaf has no rule: its shape comes with it. */
static int
infer(const cadre_infer_t *self, const cadre_op_info_t *info, cadre_program_node_t *node)
{
    if (node->input_count < info->inputs_min || node->input_count > info->inputs_max) {
        return cadre_fail(CADRE_EINVALID, "%d inputs", node->input_count);
    }
    if (info->kind == CADRE_OP_LEAF) {
        return check_shape(self, &node->shape);
    }
    int status = info->carries_shape ? check_shape(self, &node->shape) : 0;
    if (status < 0) {
        return status;
    }
    status = rules[node->op](self, node);
    return status < 0 ? status : check_shape(self, &node->shape);
}

/* Sets dtype and shape of a node by the rule of its op. Error texts begin with the op's name. */
int
cadre_infer(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_op_info_t *info = cadre_op_info((uint64_t)node->op);
    if (!info) {
        return cadre_fail(CADRE_EINVALID, "no operation %d", (int)node->op);
    }
    int status = infer(self, info, node);
    if (status < 0) {
        return cadre_fail_within(status, "%s",
                                 cadre_op_text(node->op, node->attributes[CADRE_FUNCTION]));
    }
    return 0;
}
