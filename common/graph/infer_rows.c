/*
 * infer_rows - shapes of operations along the last axis: softmax, cross entropy, rownorm.
 */
#include "common/graph/infer_rules.h"

#include <inttypes.h>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

/* Infers softmax, or log softmax with the log flag, of each row: the shape stays. */
int
cadre_infer_softmax(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
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

/* Checks logits [.., C] and labels [..]; `rows` becomes the shape [..]. */
static int
check_labels(const cadre_infer_t *self, const cadre_program_node_t *node, cadre_extents_t *rows)
{
    const cadre_program_node_t *logits = cadre_infer_input(self, node, 0);
    const cadre_program_node_t *labels = cadre_infer_input(self, node, 1);
    *rows = logits->shape;
    rows->rank--;
    if (logits->shape.rank < 1 || !cadre_extents_equal(rows, &labels->shape)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "logits %s do not go with labels %s",
                          cadre_infer_shown(self, &logits->shape, &left),
                          cadre_infer_shown(self, &labels->shape, &right));
    }
    if (cadre_infer_need_dtype(logits, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    if (labels->dtype != CADRE_I32) {
        return cadre_fail(CADRE_EDTYPE, "labels must be i32, not %s",
                          cadre_dtype_text(labels->dtype));
    }
    return 0;
}

/* Infers xent, the cross entropy of each row of logits [.., C] against labels [..]: one number for
 * each row, [..]. */
int
cadre_infer_xent(const cadre_infer_t *self, cadre_program_node_t *node)
{
    cadre_extents_t rows = {0};
    int status = check_labels(self, node, &rows);
    if (status < 0) {
        return status;
    }
    node->dtype = CADRE_F32;
    node->shape = rows;
    return 0;
}

/* Infers xent_grad, which has the inputs of xent and the gradient of each row's loss, [..]. */
int
cadre_infer_xent_grad(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *gradient = cadre_infer_input(self, node, 2);
    cadre_extents_t rows = {0};
    int status = check_labels(self, node, &rows);
    if (status < 0) {
        return status;
    }
    if (!cadre_extents_equal(&rows, &gradient->shape)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "gradient %s does not go with labels %s",
                          cadre_infer_shown(self, &gradient->shape, &left),
                          cadre_infer_shown(self, &rows, &right));
    }
    node->dtype = CADRE_F32;
    node->shape = cadre_infer_input(self, node, 0)->shape;
    return cadre_infer_need_dtype(gradient, CADRE_F32);
}

/* Checks the attribute eps and the input x [.., C], for rownorm and rownorm_grad. */
static int
check_rownorm(const cadre_program_node_t *node, const cadre_program_node_t *x)
{
    int64_t eps = node->attributes[CADRE_ROWNORM_EPS];
    if (!cadre_op_is_float(eps) || !(cadre_op_float(eps) >= 0)) {
        return cadre_fail(CADRE_EINVALID, "eps must be a finite number, at least 0");
    }
    if (x->shape.rank < 1) {
        return cadre_fail(CADRE_ESHAPE, "needs at least one axis");
    }
    return 0;
}

/* Infers rownorm, which normalises each row: the shape stays. */
int
cadre_infer_rownorm(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    int status = check_rownorm(node, x);
    if (status < 0) {
        return status;
    }
    node->dtype = CADRE_F32;
    node->shape = x->shape;
    return cadre_infer_need_dtype(x, CADRE_F32);
}

/* Infers rownorm_grad: the gradient of the x of a rownorm, of x's shape. Inputs: the gradient of
 * rownorm's result, and x. */
int
cadre_infer_rownorm_grad(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *gradient = cadre_infer_input(self, node, 0);
    const cadre_program_node_t *x = cadre_infer_input(self, node, 1);
    int status = check_rownorm(node, x);
    if (status < 0) {
        return status;
    }
    if (!cadre_extents_equal(&gradient->shape, &x->shape)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "gradient %s does not go with %s",
                          cadre_infer_shown(self, &gradient->shape, &left),
                          cadre_infer_shown(self, &x->shape, &right));
    }
    if (cadre_infer_need_dtype(gradient, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    node->dtype = CADRE_F32;
    node->shape = x->shape;
    return cadre_infer_need_dtype(x, CADRE_F32);
}
