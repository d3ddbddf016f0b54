#include "common/graph/infer_rules.h"

#include "common/base/status.h"
#include "common/tensor/tensor.h"

const cadre_program_node_t *
cadre_infer_input(const cadre_infer_t *self, const cadre_program_node_t *node, int index)
{
    return &self->nodes[node->inputs[index]];
}

const char *
cadre_infer_shown(const cadre_infer_t *self, const cadre_extents_t *shape, cadre_infer_text_t *text)
{
    return cadre_extents_text(shape, self->symbols, text->text);
}

/* Fails unless the node's dtype is one that arithmetic is done in. */
int
cadre_infer_need_number(const cadre_program_node_t *of)
{
    if (of->dtype != CADRE_F32 && of->dtype != CADRE_F64 && of->dtype != CADRE_I64) {
        return cadre_fail(CADRE_EDTYPE, "needs f32, f64 or i64, not %s",
                          cadre_dtype_text(of->dtype));
    }
    return 0;
}

/* Fails unless the node has this dtype. */
int
cadre_infer_need_dtype(const cadre_program_node_t *of, cadre_dtype_t dtype)
{
    if (of->dtype != dtype) {
        return cadre_fail(CADRE_EDTYPE, "needs %s, not %s", cadre_dtype_text(dtype),
                          cadre_dtype_text(of->dtype));
    }
    return 0;
}
