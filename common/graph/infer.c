#include "common/graph/infer.h"

#include <inttypes.h>

#include "common/base/status.h"
#include "common/graph/infer_rules.h"
#include "common/tensor/tensor.h"

const cadre_program_node_t *
cadre_infer_input(const cadre_program_t *program, const cadre_program_node_t *node, int index)
{
    return cadre_program_node(program, node->inputs[index]);
}

const char *
cadre_infer_shown(const cadre_program_t *program, const cadre_extents_t *shape,
                  cadre_infer_text_t *text)
{
    return cadre_extents_text(shape, cadre_program_symbols(program), text->text);
}

int
cadre_infer_need_dtype(const cadre_program_node_t *of, cadre_dtype_t dtype)
{
    if (of->dtype != dtype) {
        return cadre_fail(CADRE_EDTYPE, "needs %s, not %s", cadre_dtype_text(dtype),
                          cadre_dtype_text(of->dtype));
    }
    return 0;
}

static int
infer_leaf(const cadre_program_t *program, cadre_program_node_t *node)
{
    int64_t index = node->attributes[CADRE_LEAF_INDEX];
    int64_t count = node->op == CADRE_OP_ARG   ? cadre_program_argument_count(program)
                    : node->op == CADRE_OP_VAR ? cadre_program_variable_count(program)
                                               : cadre_program_constant_count(program);
    if (index < 0 || index >= count) {
        return cadre_fail(CADRE_EINVALID, "index %" PRId64 " of %" PRId64, index, count);
    }
    int at = (int)index;
    if (node->op == CADRE_OP_ARG) {
        node->dtype = cadre_program_argument(program, at)->dtype;
        node->shape = cadre_program_argument(program, at)->shape;
        return 0;
    }
    const int64_t *shape = NULL;
    if (node->op == CADRE_OP_VAR) {
        node->dtype = CADRE_F32;
        node->shape.rank = cadre_program_variable(program, at)->rank;
        shape = cadre_program_variable(program, at)->shape;
    } else {
        node->dtype = cadre_program_constant(program, at)->dtype;
        node->shape.rank = cadre_program_constant(program, at)->rank;
        shape = cadre_program_constant(program, at)->shape;
    }
    for (int i = 0; i < node->shape.rank; i++) {
        node->shape.extents[i] = cadre_extent_number(shape[i]);
    }
    return 0;
}

static int
check_shape(const cadre_program_t *program, const cadre_extents_t *shape)
{
    if (shape->rank < 0 || shape->rank > CADRE_PROGRAM_RANK_MAX) {
        return cadre_fail(CADRE_EINVALID, "rank %d is not in 0..%d", shape->rank,
                          CADRE_PROGRAM_RANK_MAX);
    }
    for (int i = 0; i < shape->rank; i++) {
        if (shape->extents[i].factor < 1 || shape->extents[i].symbol < CADRE_EXTENT_NO_SYMBOL ||
            shape->extents[i].symbol >= cadre_program_symbol_count(program)) {
            return cadre_fail(CADRE_EINVALID, "dimension %d is not at least 1", i);
        }
    }
    int64_t factor = 0;
    return cadre_extents_factor(shape, &factor);
}

static int
infer_cast(const cadre_program_t *program, cadre_program_node_t *node)
{
    int64_t dtype = node->attributes[CADRE_CAST_DTYPE];
    if (dtype != CADRE_F32 && dtype != CADRE_I32 && dtype != CADRE_BF16) {
        return cadre_fail(CADRE_EDTYPE, "cannot cast to %s",
                          dtype >= 0 && cadre_dtype_valid((uint64_t)dtype)
                              ? cadre_dtype_text((cadre_dtype_t)dtype)
                              : "?");
    }
    node->dtype = (cadre_dtype_t)dtype;
    node->shape = cadre_infer_input(program, node, 0)->shape;
    return 0;
}

static int
infer_rand(cadre_program_node_t *node)
{
    int64_t stream = node->attributes[CADRE_RAND_STREAM];
    if (stream < 0 || stream > UINT32_MAX) {
        return cadre_fail(CADRE_EINVALID, "no stream %" PRId64, stream);
    }
    node->dtype = CADRE_F32;
    return 0;
}

static int
infer_same(const cadre_program_t *program, cadre_program_node_t *node)
{
    node->dtype = cadre_infer_input(program, node, 0)->dtype;
    node->shape = cadre_infer_input(program, node, 0)->shape;
    return 0;
}

static int
infer_op(const cadre_program_t *program, cadre_program_node_t *node)
{
    switch (node->op) {
    case CADRE_OP_ARG:
    case CADRE_OP_VAR:
    case CADRE_OP_CONST:
        return infer_leaf(program, node);
    case CADRE_OP_MATMUL:
        return cadre_infer_matmul(program, node);
    case CADRE_OP_MAP1:
        return cadre_infer_map1(program, node);
    case CADRE_OP_MAP2:
        return cadre_infer_map2(program, node);
    case CADRE_OP_WHERE:
        return cadre_infer_where(program, node);
    case CADRE_OP_REDUCE:
        return cadre_infer_reduce(program, node);
    case CADRE_OP_BROADCAST:
        return cadre_infer_broadcast(program, node);
    case CADRE_OP_RESHAPE:
        return cadre_infer_reshape(program, node);
    case CADRE_OP_TRANSPOSE:
        return cadre_infer_transpose(program, node);
    case CADRE_OP_CONCAT:
        return cadre_infer_concat(program, node);
    case CADRE_OP_SLICE:
        return cadre_infer_slice(program, node);
    case CADRE_OP_PAD:
        return cadre_infer_pad(program, node);
    case CADRE_OP_TAKE:
        return cadre_infer_take(program, node);
    case CADRE_OP_SCATTER:
        return cadre_infer_scatter(program, node);
    case CADRE_OP_BAG:
        return cadre_infer_bag(program, node);
    case CADRE_OP_BAG_GRAD:
        return cadre_infer_bag_grad(program, node);
    case CADRE_OP_SOFTMAX:
        return cadre_infer_softmax(program, node);
    case CADRE_OP_XENT:
    case CADRE_OP_XENT_GRAD:
        return cadre_infer_xent(program, node);
    case CADRE_OP_ROWNORM:
    case CADRE_OP_ROWNORM_GRAD:
        return cadre_infer_rownorm(program, node);
    case CADRE_OP_IM2COL:
        return cadre_infer_im2col(program, node);
    case CADRE_OP_COL2IM:
        return cadre_infer_col2im(program, node);
    case CADRE_OP_CAST:
        return infer_cast(program, node);
    case CADRE_OP_RAND:
        return infer_rand(node);
    case CADRE_OP_DETACH:
        return infer_same(program, node);
    }
    return cadre_fail(CADRE_EINVALID, "no operation %d", (int)node->op);
}

int
cadre_infer(const cadre_program_t *program, cadre_program_node_t *node)
{
    const cadre_op_info_t *info = cadre_op_info((uint64_t)node->op);
    if (!info) {
        return cadre_fail(CADRE_EINVALID, "no operation %d", (int)node->op);
    }
    int status = 0;
    if (node->input_count < info->inputs_min || node->input_count > info->inputs_max) {
        status = cadre_fail(CADRE_EINVALID, "%d inputs", node->input_count);
    }
    if (status == 0 && info->carries_shape) {
        status = check_shape(program, &node->shape);
    }
    if (status == 0) {
        status = infer_op(program, node);
    }
    if (status == 0) {
        status = check_shape(program, &node->shape);
    }
    if (status < 0) {
        return cadre_fail_within(status, "%s",
                                 cadre_op_text(node->op, node->attributes[CADRE_FUNCTION]));
    }
    return 0;
}
