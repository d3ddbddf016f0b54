/*
 * infer_movement - shapes of broadcast, reshape, transpose, concat, slice, pad.
 */
#include "common/graph/infer_rules.h"

#include <inttypes.h>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

/* Infers broadcast: the node carries the shape to which its input must broadcast. With `share` each
 * copy of a value is divided by the number of copies. */
int
cadre_infer_broadcast(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    int64_t share = node->attributes[CADRE_BROADCAST_SHARE];
    cadre_extents_t shape = {0};
    cadre_infer_text_t from;
    cadre_infer_text_t to;
    if (share < 0 || share > 1 || (share == 1 && x->dtype != CADRE_F32)) {
        return cadre_fail(CADRE_EINVALID, "share is 0, or 1 for f32");
    }
    if (!cadre_extents_broadcast(&x->shape, &node->shape, &shape) ||
        !cadre_extents_equal(&shape, &node->shape)) {
        return cadre_fail(CADRE_ESHAPE, "%s does not broadcast to %s",
                          cadre_infer_shown(self, &x->shape, &from),
                          cadre_infer_shown(self, &node->shape, &to));
    }
    node->dtype = x->dtype;
    return 0;
}

/* Infers reshape: the node carries a shape, which must have as many elements as the input's. */
int
cadre_infer_reshape(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    cadre_infer_text_t from;
    cadre_infer_text_t to;
    if (!cadre_extents_same_count(&x->shape, &node->shape)) {
        return cadre_fail(CADRE_ESHAPE, "%s and %s have different numbers of elements",
                          cadre_infer_shown(self, &x->shape, &from),
                          cadre_infer_shown(self, &node->shape, &to));
    }
    node->dtype = x->dtype;
    return 0;
}

/* Infers transpose: attribute i is the input's axis that becomes axis i. Unused attributes must be
 * 0, so that a program has only one encoding. */
int
cadre_infer_transpose(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    unsigned seen = 0;
    node->dtype = x->dtype;
    node->shape.rank = x->shape.rank;
    for (int i = 0; i < CADRE_PROGRAM_RANK_MAX; i++) {
        int64_t axis = node->attributes[i];
        if (i >= x->shape.rank) {
            if (axis != 0) {
                return cadre_fail(CADRE_EINVALID, "order names more axes than there are");
            }
            continue;
        }
        if (axis < 0 || axis >= x->shape.rank || (seen & (1U << axis))) {
            return cadre_fail(CADRE_EINVALID, "order is no permutation of %d axes", x->shape.rank);
        }
        seen |= 1U << axis;
        node->shape.extents[i] = x->shape.extents[axis];
    }
    return 0;
}

/* Fails unless x has this axis, counted from 0. */
static int
need_axis(const cadre_infer_t *self, const cadre_program_node_t *x, int64_t axis)
{
    cadre_infer_text_t text;
    if (axis < 0 || axis >= x->shape.rank) {
        return cadre_fail(CADRE_ESHAPE, "no axis %" PRId64 " in %s", axis,
                          cadre_infer_shown(self, &x->shape, &text));
    }
    return 0;
}

/* Gives a concat the shape of its first input, with the extents of all inputs along the axis added.
 */
int
cadre_infer_concat(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *first = cadre_infer_input(self, node, 0);
    int64_t axis = node->attributes[CADRE_AXIS];
    int status = need_axis(self, first, axis);
    if (status < 0) {
        return status;
    }
    node->dtype = first->dtype;
    node->shape = first->shape; /* `total` changes its extent at the axis */
    cadre_extent_t *total = &node->shape.extents[axis];

    /* All extents but that of the axis must be equal. The extents of the axis are added; each is a
     * factor times a symbol, so their symbols must be the same. */
    for (int i = 1; i < node->input_count; i++) {
        const cadre_program_node_t *next = cadre_infer_input(self, node, i);
        if (cadre_infer_need_dtype(next, first->dtype) < 0) {
            return CADRE_EDTYPE;
        }
        cadre_extents_t aligned = next->shape; /* next's shape, but first's extent at the axis */
        int64_t more = 0;
        if (axis < aligned.rank && aligned.extents[axis].symbol == total->symbol) {
            more = aligned.extents[axis].factor;
            aligned.extents[axis] = first->shape.extents[axis];
        }
        if (!cadre_extents_equal(&aligned, &first->shape)) {
            cadre_infer_text_t left;
            cadre_infer_text_t right;
            return cadre_fail(CADRE_ESHAPE, "%s and %s do not join at axis %" PRId64,
                              cadre_infer_shown(self, &first->shape, &left),
                              cadre_infer_shown(self, &next->shape, &right), axis);
        }
        total->factor += more; /* no overflow: at most 32 numbers of at most 2^44 */
    }
    return 0;
}

/* Gives a SLICE or PAD the shape of its input, with `factor` as the factor of its axis. */
static int
change_axis(cadre_program_node_t *node, const cadre_program_node_t *x, int64_t factor)
{
    node->dtype = x->dtype;
    node->shape = x->shape;
    node->shape.extents[node->attributes[CADRE_AXIS]].factor = factor;
    return 0;
}

/* Infers slice: `length` entries from `begin` on along an axis; if the axis has a symbol, both
 * count in units of it, so only its factor changes. */
int
cadre_infer_slice(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    int64_t axis = node->attributes[CADRE_AXIS];
    int64_t begin = node->attributes[CADRE_SLICE_BEGIN];
    int64_t length = node->attributes[CADRE_SLICE_LENGTH];
    int status = need_axis(self, x, axis);
    if (status < 0) {
        return status;
    }
    int64_t size = x->shape.extents[axis].factor;
    if (begin < 0 || begin > size || length < 1 || length > size - begin) {
        cadre_infer_text_t text;
        return cadre_fail(CADRE_ESHAPE,
                          "%" PRId64 " from %" PRId64 " on is outside of axis %" PRId64 " of %s",
                          length, begin, axis, cadre_infer_shown(self, &x->shape, &text));
    }
    return change_axis(node, x, length);
}

/* Infers pad: zeros before and after the input along an axis, counted in units of the axis' symbol,
 * if it has one. The limits keep the sum from overflowing. */
int
cadre_infer_pad(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *x = cadre_infer_input(self, node, 0);
    int64_t before = node->attributes[CADRE_PAD_BEFORE];
    int64_t after = node->attributes[CADRE_PAD_AFTER];
    int status = need_axis(self, x, node->attributes[CADRE_AXIS]);
    if (status < 0) {
        return status;
    }
    if (before < 0 || after < 0 || before > CADRE_EXTENTS_FACTOR_MAX ||
        after > CADRE_EXTENTS_FACTOR_MAX) {
        return cadre_fail(CADRE_EINVALID, "cannot pad by %" PRId64 " and %" PRId64, before, after);
    }
    return change_axis(node, x,
                       x->shape.extents[node->attributes[CADRE_AXIS]].factor + before + after);
}
