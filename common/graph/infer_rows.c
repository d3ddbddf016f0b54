/*
 * infer_rows - shapes of what works along the last axis: softmax, cross entropy, rownorm.
 */
#include "common/graph/infer_rules.h"

#include <inttypes.h>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

int
cadre_infer_softmax(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(program, node, 0);
    int64_t logarithm = node->attributes[CADRE_SOFTMAX_LOG];
    if (logarithm < 0 || logarithm > 1) {
        return cadre_fail(CADRE_EINVALID, "the log flag is 0 or 1");
    }
    if (x->shape.rank < 1) {
        return cadre_fail(CADRE_ESHAPE, "needs at least one axis");
    }
    node->dtype = CADRE_F32;
    node->shape = x->shape;
    return cadre_infer_need_dtype(x, CADRE_F32);
}

/* Logits [.., C], labels [..], and for the gradient the loss' gradient [..]. */
int
cadre_infer_xent(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *logits = cadre_infer_input(program, node, 0);
    const cadre_program_node_t *labels = cadre_infer_input(program, node, 1);
    cadre_extents_t rows = logits->shape;
    rows.rank--;
    if (logits->shape.rank < 1 || !cadre_extents_equal(&rows, &labels->shape)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "logits %s do not go with labels %s",
                          cadre_infer_shown(program, &logits->shape, &left),
                          cadre_infer_shown(program, &labels->shape, &right));
    }
    if (cadre_infer_need_dtype(logits, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    if (labels->dtype != CADRE_I32) {
        return cadre_fail(CADRE_EDTYPE, "labels must be i32, not %s",
                          cadre_dtype_text(labels->dtype));
    }
    node->dtype = CADRE_F32;
    node->shape = rows;
    if (node->op == CADRE_OP_XENT_GRAD) {
        const cadre_program_node_t *gradient = cadre_infer_input(program, node, 2);
        node->shape = logits->shape;
        if (!cadre_extents_equal(&rows, &gradient->shape)) {
            cadre_infer_text_t left;
            cadre_infer_text_t right;
            return cadre_fail(CADRE_ESHAPE, "gradient %s does not go with labels %s",
                              cadre_infer_shown(program, &gradient->shape, &left),
                              cadre_infer_shown(program, &labels->shape, &right));
        }
        return cadre_infer_need_dtype(gradient, CADRE_F32);
    }
    return 0;
}

/* x [.., C]; for the gradient: the result's gradient and x. */
int
cadre_infer_rownorm(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(program, node, node->input_count - 1);
    int64_t eps = node->attributes[CADRE_ROWNORM_EPS];
    if (!cadre_op_is_float(eps) || !(cadre_op_float(eps) >= 0)) {
        return cadre_fail(CADRE_EINVALID, "eps must be a finite number, at least 0");
    }
    if (x->shape.rank < 1) {
        return cadre_fail(CADRE_ESHAPE, "needs at least one axis");
    }
    node->dtype = CADRE_F32;
    node->shape = x->shape;
    if (node->op == CADRE_OP_ROWNORM_GRAD) {
        const cadre_program_node_t *gradient = cadre_infer_input(program, node, 0);
        if (!cadre_extents_equal(&gradient->shape, &x->shape)) {
            cadre_infer_text_t left;
            cadre_infer_text_t right;
            return cadre_fail(CADRE_ESHAPE, "gradient %s does not go with %s",
                              cadre_infer_shown(program, &gradient->shape, &left),
                              cadre_infer_shown(program, &x->shape, &right));
        }
        if (cadre_infer_need_dtype(gradient, CADRE_F32) < 0) {
            return CADRE_EDTYPE;
        }
    }
    return cadre_infer_need_dtype(x, CADRE_F32);
}
