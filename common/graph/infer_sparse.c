/*
 * infer_sparse - shapes of operations that read or write rows at positions: take, scatter, bag,
 * bag_grad.
 *
 * Whether a position is a row of the table depends on the values, so a device checks it at run
 * time. Rows of what has as many as a table may be named by keys of i64 too; a device never sees
 * them, because a worker makes positions of them (row_program.h).
 */
#include "common/graph/infer_rules.h"

#include <inttypes.h>

#include "common/base/status.h"
#include "common/tensor/tensor.h"

bool
cadre_infer_has_keys(const cadre_extents_t *shape)
{
    return shape->rank >= 1 &&
           cadre_extent_equal(shape->extents[0], cadre_extent_number(CADRE_PROGRAM_TABLE_ROWS));
}

/* Fails unless the node is i32, as positions of rows are; `what` names it in the error text. */
static int
need_positions(const cadre_program_node_t *index, const char *what)
{
    if (index->dtype != CADRE_I32) {
        return cadre_fail(CADRE_EDTYPE, "%s must be i32, not %s", what,
                          cadre_dtype_text(index->dtype));
    }
    return 0;
}

/* Fails unless the node names rows of `table`: by positions, or keys of i64 where it has any. */
static int
need_index(const cadre_program_node_t *index, const cadre_extents_t *table)
{
    if (index->dtype == CADRE_I64 && cadre_infer_has_keys(table)) {
        return 0;
    }
    return need_positions(index, "the index");
}

/* Computes the shape [I.., D..] of the rows of a table [N, D..] at an index [I..]. */
static int
rows_at(const cadre_infer_t *self, const cadre_extents_t *table, const cadre_extents_t *index,
        cadre_extents_t *out)
{
    cadre_infer_text_t left;
    cadre_infer_text_t right;
    if (table->rank < 1) {
        return cadre_fail(CADRE_ESHAPE, "the table needs at least one axis");
    }
    if (index->rank + table->rank - 1 > CADRE_PROGRAM_RANK_MAX) {
        return cadre_fail(CADRE_ESHAPE, "rows of %s at %s have more than %d axes",
                          cadre_infer_shown(self, table, &left),
                          cadre_infer_shown(self, index, &right), CADRE_PROGRAM_RANK_MAX);
    }
    *out = *index;
    for (int i = 1; i < table->rank; i++) {
        out->extents[out->rank++] = table->extents[i];
    }
    return 0;
}

/* Infers take: the rows of table [N, D..] at index [I..], as [I.., D..] of the table's dtype. */
int
cadre_infer_take(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *table = cadre_infer_input(self, node, 0);
    const cadre_program_node_t *index = cadre_infer_input(self, node, 1);
    node->dtype = table->dtype;
    if (table->dtype == CADRE_I32) {
        return cadre_fail(CADRE_EDTYPE, "needs f32, f64, i64 or bf16, not i32");
    }
    if (need_index(index, &table->shape) < 0) {
        return CADRE_EDTYPE;
    }
    return rows_at(self, &table->shape, &index->shape, &node->shape);
}

/* Infers scatter, which adds values to rows of a table of zeros. The node carries the table's
 * shape; the values must have the shape of that table's rows at the index. */
int
cadre_infer_scatter(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *values = cadre_infer_input(self, node, 0);
    const cadre_program_node_t *index = cadre_infer_input(self, node, 1);
    cadre_extents_t wanted = {0};
    node->dtype = CADRE_F32;
    if (cadre_infer_need_dtype(values, CADRE_F32) < 0 || need_index(index, &node->shape) < 0) {
        return CADRE_EDTYPE;
    }
    int status = rows_at(self, &node->shape, &index->shape, &wanted);
    if (status < 0) {
        return status;
    }
    if (!cadre_extents_equal(&values->shape, &wanted)) {
        cadre_infer_text_t left;
        cadre_infer_text_t middle;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "values %s at %s are no rows of %s",
                          cadre_infer_shown(self, &values->shape, &left),
                          cadre_infer_shown(self, &index->shape, &middle),
                          cadre_infer_shown(self, &node->shape, &right));
    }
    return 0;
}

/* Checks what says which rows of `table` are in which bag: index [nnz] (input 1) and offsets [B]
 * (input 2), and whether a bag is a sum or a mean. */
static int
check_bags(const cadre_infer_t *self, const cadre_program_node_t *node,
           const cadre_extents_t *table)
{
    const cadre_program_node_t *index = cadre_infer_input(self, node, 1);
    const cadre_program_node_t *offsets = cadre_infer_input(self, node, 2);
    int64_t mode = node->attributes[CADRE_BAG_MODE];
    cadre_infer_text_t left;
    cadre_infer_text_t right;
    if (mode != CADRE_BAG_SUM && mode != CADRE_BAG_MEAN) {
        return cadre_fail(CADRE_EINVALID, "no mode %" PRId64, mode);
    }
    if (need_index(index, table) < 0 || need_positions(offsets, "offsets") < 0) {
        return CADRE_EDTYPE;
    }
    if (index->shape.rank != 1 || offsets->shape.rank != 1) {
        return cadre_fail(CADRE_ESHAPE, "index and offsets need one axis each, not %s and %s",
                          cadre_infer_shown(self, &index->shape, &left),
                          cadre_infer_shown(self, &offsets->shape, &right));
    }
    return 0;
}

/* Checks the weights, input 3, which must have the shape of the index. Refuses a weighted mean, for
 * which there is no common definition. */
static int
check_weights(const cadre_infer_t *self, const cadre_program_node_t *node)
{
    const cadre_program_node_t *index = cadre_infer_input(self, node, 1);
    const cadre_program_node_t *weights = cadre_infer_input(self, node, 3);
    if (node->attributes[CADRE_BAG_MODE] == CADRE_BAG_MEAN) {
        return cadre_fail(CADRE_EINVALID, "a mean takes no weights");
    }
    if (!cadre_extents_equal(&weights->shape, &index->shape)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "weights %s do not go with the index %s",
                          cadre_infer_shown(self, &weights->shape, &left),
                          cadre_infer_shown(self, &index->shape, &right));
    }
    return cadre_infer_need_dtype(weights, CADRE_F32);
}

/* Checks that a table has two axes: rows, and the numbers of a row. */
static int
check_table(const cadre_infer_t *self, const cadre_extents_t *table)
{
    if (table->rank != 2) {
        cadre_infer_text_t text;
        return cadre_fail(CADRE_ESHAPE, "the table needs two axes, not %s",
                          cadre_infer_shown(self, table, &text));
    }
    return 0;
}

/* Infers bag: for each of the offsets [B] the sum, or mean, of some rows of table [N, D], as [B,
 * D]. A fourth input is a weight for each row. */
int
cadre_infer_bag(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *table = cadre_infer_input(self, node, 0);
    node->dtype = CADRE_F32;
    if (cadre_infer_need_dtype(table, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    int status = check_bags(self, node, &table->shape);
    status = status < 0 ? status : check_table(self, &table->shape);
    if (status == 0 && node->input_count == 4) {
        status = check_weights(self, node);
    }
    if (status == 0) {
        node->shape.rank = 2;
        node->shape.extents[0] = cadre_infer_input(self, node, 2)->shape.extents[0];
        node->shape.extents[1] = table->shape.extents[1];
    }
    return status;
}

/* Checks whose gradient a bag_grad is, by its attribute: that of bag's table (0) or of its weights
 * (1). The fourth input is the other of the two; for a table's gradient it may be missing. The
 * gradient of weights has the shape of the index. */
static int
check_gradient_of(const cadre_infer_t *self, const cadre_program_node_t *node)
{
    const cadre_extents_t *index = &cadre_infer_input(self, node, 1)->shape;
    int64_t of_weights = node->attributes[CADRE_BAG_GRAD_OF_WEIGHTS];
    if (of_weights == 0) { /* the shape is checked as that of a table, by the caller */
        return node->input_count == 4 ? check_weights(self, node) : 0;
    }
    if (of_weights != 1) {
        return cadre_fail(CADRE_EINVALID, "no gradient %" PRId64, of_weights);
    }
    if (node->input_count != 4) {
        return cadre_fail(CADRE_EINVALID, "the gradient of weights needs the table");
    }
    if (node->attributes[CADRE_BAG_MODE] == CADRE_BAG_MEAN) {
        return cadre_fail(CADRE_EINVALID, "a mean takes no weights");
    }
    if (!cadre_extents_equal(&node->shape, index)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "the gradient of weights %s, not %s",
                          cadre_infer_shown(self, index, &left),
                          cadre_infer_shown(self, &node->shape, &right));
    }
    return cadre_infer_need_dtype(cadre_infer_input(self, node, 3), CADRE_F32);
}

/* Infers bag_grad, the gradient of a bag's table or weights, whose shape the node carries. Inputs:
 * the gradient of the bag's result, index, offsets and, for the gradient of weights, the table; for
 * the gradient of a table the weights, if the bag had any. */
int
cadre_infer_bag_grad(const cadre_infer_t *self, cadre_program_node_t *node)
{
    const cadre_program_node_t *gradient = cadre_infer_input(self, node, 0);
    const cadre_extents_t *offsets = &cadre_infer_input(self, node, 2)->shape;
    node->dtype = CADRE_F32;
    if (cadre_infer_need_dtype(gradient, CADRE_F32) < 0) {
        return CADRE_EDTYPE;
    }
    const bool has_table =
        node->attributes[CADRE_BAG_GRAD_OF_WEIGHTS] != 0 && node->input_count == 4;
    const cadre_extents_t *table =
        has_table ? &cadre_infer_input(self, node, 3)->shape : &node->shape;
    int status = check_bags(self, node, table);
    status = status < 0 ? status : check_gradient_of(self, node);
    status = status < 0 ? status : check_table(self, table);
    if (status < 0) {
        return status;
    }
    cadre_extents_t wanted = {.rank = 2, .extents = {offsets->extents[0], table->extents[1]}};
    if (!cadre_extents_equal(&gradient->shape, &wanted)) {
        cadre_infer_text_t left;
        cadre_infer_text_t right;
        return cadre_fail(CADRE_ESHAPE, "gradient %s where bags are %s",
                          cadre_infer_shown(self, &gradient->shape, &left),
                          cadre_infer_shown(self, &wanted, &right));
    }
    return 0;
}
