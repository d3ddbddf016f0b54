/*
 * builder_retrieval - the loss of models that find candidates.
 */
#include "common/base/status.h"
#include "common/graph/program_data.h"

/* The score of what is left out: its exponential is 0. */
#define NO_SCORE (-1e30F)

static const cadre_node_t none = {0};

/* Returns a vector [B] as a column [B,1]. */
static cadre_node_t
column(cadre_program_t *self, cadre_node_t vector)
{
    if (!cadre_program_has(self, vector, "in_batch_softmax")) {
        return none;
    }
    const cadre_extents_t *shape = &cadre_program_at(self, vector)->shape;
    if (shape->rank != 1) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE, "in_batch_softmax: %s is not [batch]",
                             cadre_extents_text(shape, cadre_program_symbols(self), text)));
        return none;
    }
    cadre_extents_t wider = *shape;
    wider.extents[wider.rank++] = cadre_extent_number(1);
    return cadre_program_emit_reshape(self, vector, &wider);
}

/* Returns a vector [B] as a row [1,B]. */
static cadre_node_t
row(cadre_program_t *self, cadre_node_t vector)
{
    return cadre_op_transpose(self, column(self, vector), (const int[]){1, 0});
}

/* Returns how far the score of each candidate of the batch [column] is above that of the right one
 * of each query [row]; NO_SCORE for what is the right one itself. */
static cadre_node_t
differences(cadre_program_t *self, cadre_node_t queries, cadre_node_t candidates, cadre_node_t ids,
            cadre_node_t log_q)
{
    cadre_node_t scores = cadre_op_matmul_transposed(self, queries, 0, candidates, 1);
    cadre_node_t right = cadre_op_sum(self, cadre_op_mul(self, queries, candidates), -1);
    if (log_q.id != 0) {
        scores = cadre_op_sub(self, scores, row(self, log_q));
        right = cadre_op_sub(self, right, log_q);
    }
    cadre_node_t same = cadre_op_eq(self, column(self, ids), row(self, ids));
    return cadre_op_where(self, same, cadre_op_const_f32(self, NO_SCORE),
                          cadre_op_sub(self, scores, column(self, right)));
}

/* Checks that there is a candidate of the same size for each query: others would be broadcast
 * without a complaint. */
static bool
check_pairs(cadre_program_t *self, cadre_node_t queries, cadre_node_t candidates)
{
    if (!cadre_program_has(self, queries, "in_batch_softmax") ||
        !cadre_program_has(self, candidates, "in_batch_softmax")) {
        return false;
    }
    const cadre_extents_t *left = &cadre_program_at(self, queries)->shape;
    const cadre_extents_t *right = &cadre_program_at(self, candidates)->shape;
    if (left->rank == 2 && cadre_extents_equal(left, right)) {
        return true;
    }
    char texts[2][CADRE_EXTENTS_TEXT_SIZE];
    cadre_program_mistake(
        self, cadre_fail(CADRE_ESHAPE,
                         "in_batch_softmax: queries %s and candidates %s are not both "
                         "[batch,width]",
                         cadre_extents_text(left, cadre_program_symbols(self), texts[0]),
                         cadre_extents_text(right, cadre_program_symbols(self), texts[1])));
    return false;
}

/* Returns the softmax cross entropy of each query's candidate among all of the batch. */
cadre_node_t
cadre_op_in_batch_softmax(cadre_program_t *self, cadre_node_t queries, cadre_node_t candidates,
                          cadre_node_t ids, cadre_node_t log_q)
{
    if (!check_pairs(self, queries, candidates)) {
        return none;
    }
    cadre_node_t above = differences(self, queries, candidates, ids, log_q);
    /* log(1 + sum exp(d)), with the largest exponent 0. */
    cadre_node_t zero = cadre_op_const_f32(self, 0);
    cadre_node_t largest = cadre_op_max(self, cadre_op_reduce_max(self, above, -1), zero);
    largest = cadre_op_detach(self, largest);
    cadre_node_t others = cadre_op_sub(self, above, column(self, largest));
    others = cadre_op_sum(self, cadre_op_exp(self, others), -1);
    cadre_node_t all = cadre_op_add(self, cadre_op_exp(self, cadre_op_neg(self, largest)), others);
    return cadre_op_mean_all(self, cadre_op_add(self, largest, cadre_op_log(self, all)));
}
