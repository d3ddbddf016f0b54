/*
 * builder_attention - scaled dot-product attention of several heads (Vaswani and others 2017,
 * "Attention is all you need", 3.2).
 */
#include <math.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"
#include "common/tensor/tensor.h"

static const cadre_node_t none = {0};

/* Returns whether queries [B, T, D], keys [B, S, D] and values [B, S, E] fit together; else notes
 * the mistake. */
static bool
goes_together(cadre_program_t *self, cadre_node_t queries, cadre_node_t keys, cadre_node_t values)
{
    const cadre_extents_t *q = &cadre_program_at(self, queries)->shape;
    const cadre_extents_t *k = &cadre_program_at(self, keys)->shape;
    const cadre_extents_t *v = &cadre_program_at(self, values)->shape;
    if (q->rank != 3 || k->rank != 3 || !cadre_extent_equal(q->extents[0], k->extents[0]) ||
        !cadre_extent_equal(q->extents[2], k->extents[2])) {
        cadre_program_misfit(self, "attention", (cadre_named_node_t){"queries", queries},
                             (cadre_named_node_t){"keys", keys});
        return false;
    }
    if (v->rank != 3 || !cadre_extent_equal(k->extents[0], v->extents[0]) ||
        !cadre_extent_equal(k->extents[1], v->extents[1])) {
        cadre_program_misfit(self, "attention", (cadre_named_node_t){"keys", keys},
                             (cadre_named_node_t){"values", values});
        return false;
    }
    return true;
}

/* Returns whether the last axis falls into `heads` equal parts; else notes the mistake. */
static bool
has_heads(cadre_program_t *self, cadre_node_t x, int heads)
{
    const cadre_extents_t *shape = &cadre_program_at(self, x)->shape;
    if (heads < 1 || shape->extents[2].symbol >= 0 || shape->extents[2].factor % heads != 0) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE, "attention: %d heads do not divide the last axis of %s",
                             heads, cadre_extents_text(shape, cadre_program_symbols(self), text)));
        return false;
    }
    return true;
}

/* Returns whether attention can be causal: there are as many keys as queries, and their number is
 * no symbol, since the mask is a constant. If not, notes the mistake. */
static bool
can_be_causal(cadre_program_t *self, cadre_node_t queries, cadre_node_t keys)
{
    const cadre_extents_t *shape = &cadre_program_at(self, queries)->shape;
    cadre_extent_t to = cadre_program_at(self, keys)->shape.extents[1];
    if (!cadre_extent_equal(shape->extents[1], to)) {
        cadre_program_misfit(self, "attention: causal", (cadre_named_node_t){"queries", queries},
                             (cadre_named_node_t){"keys", keys});
        return false;
    }
    if (to.symbol >= 0) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE,
                             "attention: causal needs a number of positions, the second in %s",
                             cadre_extents_text(shape, cadre_program_symbols(self), text)));
        return false;
    }
    return true;
}

/* Splits the last axis into heads: [B, T, H * D] becomes [B, H, T, D]. */
static cadre_node_t
split(cadre_program_t *self, cadre_node_t x, int heads)
{
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    shape.rank = 4;
    shape.extents[3] = cadre_extent_number(shape.extents[2].factor / heads);
    shape.extents[2] = cadre_extent_number(heads);
    return cadre_op_transpose(self, cadre_program_emit_reshape(self, x, &shape),
                              (int[]){0, 2, 1, 3});
}

/* Returns the scores [B, H, T, T] with minus infinity where the key comes after the query. */
static cadre_node_t
hide_later(cadre_program_t *self, cadre_node_t scores, int64_t positions)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t numbers = {0};
    int status = cadre_tensor_init(&numbers, CADRE_I32, &positions, 1);
    if (status < 0) {
        cadre_program_mistake(self, status);
        return none;
    }
    for (int64_t i = 0; i < positions; i++) {
        ((int32_t *)numbers.data)[i] = (int32_t)i;
    }
    /* The positions of keys as a row, against those of queries as a column. */
    cadre_node_t keys = cadre_op_const(self, &numbers);
    cadre_extents_t column = {.rank = 2,
                              .extents = {cadre_extent_number(positions), cadre_extent_number(1)}};
    cadre_node_t later = cadre_op_gt(self, keys, cadre_program_emit_reshape(self, keys, &column));
    return cadre_op_where(self, later, cadre_op_const_f32(self, -INFINITY), scores);
}

/* Returns softmax(Q K' / sqrt(width of a head)) V for each head, with the heads side by side again
 * at the end. */
cadre_node_t
cadre_op_attention(cadre_program_t *self, cadre_node_t queries, cadre_node_t keys,
                   cadre_node_t values, int heads, int causal)
{
    if (!cadre_program_has(self, queries, "attention") ||
        !cadre_program_has(self, keys, "attention") ||
        !cadre_program_has(self, values, "attention") ||
        !goes_together(self, queries, keys, values) || !has_heads(self, queries, heads) ||
        !has_heads(self, values, heads) || (causal && !can_be_causal(self, queries, keys))) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, queries)->shape;
    double width = (double)(shape.extents[2].factor / heads);
    cadre_node_t scale = cadre_op_const_f32(self, (float)(1 / sqrt(width)));
    cadre_node_t q = cadre_op_mul(self, split(self, queries, heads), scale);
    cadre_node_t scores = cadre_op_matmul_transposed(self, q, 0, split(self, keys, heads), 1);
    if (causal) {
        scores = hide_later(self, scores, shape.extents[1].factor);
    }
    cadre_node_t y =
        cadre_op_matmul(self, cadre_op_softmax(self, scores), split(self, values, heads));
    y = cadre_op_transpose(self, y, (int[]){0, 2, 1, 3});
    if (y.id == 0) {
        return none;
    }
    shape.extents[2] = cadre_program_at(self, values)->shape.extents[2];
    return cadre_program_emit_reshape(self, y, &shape);
}
