/*
 * builder_sparse - take, scatter and bag, and the layers and losses over tables.
 */
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"
#include "common/tensor/tensor.h"

static const cadre_node_t none = {0};

/* Returns what names rows of a value of this shape, as ops read it: positions (i32), or keys of
 * i64 as they are where it has as many rows as a table. */
static cadre_node_t
index_for(cadre_program_t *self, const cadre_extents_t *shape, cadre_node_t index, const char *what)
{
    return cadre_infer_has_keys(shape) ? index : cadre_program_positions(self, index, what);
}

cadre_node_t
cadre_op_take(cadre_program_t *self, cadre_node_t table, cadre_node_t index)
{
    if (!cadre_program_has(self, table, "take")) {
        return none;
    }
    index = index_for(self, &cadre_program_at(self, table)->shape, index, "take");
    return cadre_program_emit2(self, CADRE_OP_TAKE, 0, table, index);
}

/* Adds values [I.., D..] to the rows of a table of zeros, at the positions in index [I..]. The
 * table is [rows, D..]: the axes of the values behind those of the index. */
cadre_node_t
cadre_op_scatter(cadre_program_t *self, cadre_node_t values, cadre_node_t index, cadre_dim_t rows)
{
    cadre_extents_t shape = {0};
    if (!cadre_program_has(self, values, "scatter") || !cadre_program_has(self, index, "scatter") ||
        !cadre_program_shape(self, "scatter", &rows, 1, &shape)) {
        return none;
    }
    index = index_for(self, &shape, index, "scatter");
    if (index.id == 0) {
        return none;
    }
    const cadre_extents_t *from = &cadre_program_at(self, values)->shape;
    for (int i = cadre_program_at(self, index)->shape.rank; i < from->rank; i++) {
        if (shape.rank < CADRE_PROGRAM_RANK_MAX) {
            shape.extents[shape.rank++] = from->extents[i];
        }
    }
    cadre_program_node_t node = {.op = CADRE_OP_SCATTER,
                                 .input_count = 2,
                                 .inputs = {values.id - 1, index.id - 1},
                                 .shape = shape};
    return cadre_program_emit(self, &node);
}

/* Returns the sum, or mean, of each bag of rows of a table. The weights, one for each row, may be
 * the empty node. */
cadre_node_t
cadre_op_bag(cadre_program_t *self, cadre_node_t table, cadre_node_t index, cadre_node_t offsets,
             cadre_node_t weights, cadre_bag_mode_t mode)
{
    if (!cadre_program_has(self, table, "bag")) {
        return none;
    }
    index = index_for(self, &cadre_program_at(self, table)->shape, index, "bag");
    offsets = cadre_program_positions(self, offsets, "bag");
    const cadre_node_t inputs[4] = {table, index, offsets, weights};
    cadre_program_node_t node = {
        .op = CADRE_OP_BAG, .input_count = weights.id == 0 ? 3 : 4, .attributes = {(int64_t)mode}};
    for (int i = 0; i < node.input_count; i++) {
        if (!cadre_program_has(self, inputs[i], "bag")) {
            return none;
        }
        node.inputs[i] = inputs[i].id - 1;
    }
    return cadre_program_emit(self, &node);
}

/* Returns ids given as f32 as positions (i32). A number that is not whole, or NaN, becomes -1,
 * which is no row of any table. */
static cadre_node_t
whole_numbers(cadre_program_t *self, cadre_node_t x)
{
    cadre_node_t cut = cadre_op_cast(self, cadre_op_cast(self, x, CADRE_I32), CADRE_F32);
    cadre_node_t whole = cadre_op_eq(self, x, cut);
    cadre_node_t known = cadre_op_where(self, whole, x, cadre_op_const_f32(self, -1));
    return cadre_op_cast(self, known, CADRE_I32);
}

/* Returns keys of the numbers that a row has of each: the sum of part i times 2^(24 i), which wraps
 * around to all 64 bits. */
cadre_node_t
cadre_op_key(cadre_program_t *self, cadre_node_t x)
{
    static const int64_t units[CADRE_KEY_PARTS] = {1, INT64_C(1) << CADRE_KEY_BITS,
                                                   INT64_C(1) << (2 * CADRE_KEY_BITS)};
    if (!cadre_program_has(self, x, "key")) {
        return none;
    }
    const cadre_program_node_t *of = cadre_program_at(self, x);
    const cadre_extents_t *shape = &of->shape;
    if (of->dtype != CADRE_F32 || shape->rank < 1 ||
        !cadre_extent_equal(shape->extents[shape->rank - 1],
                            cadre_extent_number(CADRE_KEY_PARTS))) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE, "key: %s of %s is not [..,%d] of f32",
                             cadre_extents_text(shape, cadre_program_symbols(self), text),
                             cadre_dtype_text(of->dtype), (int)CADRE_KEY_PARTS));
        return none;
    }
    const cadre_tensor_t tensor =
        cadre_tensor_view(CADRE_I64, units, (const int64_t[]){CADRE_KEY_PARTS}, 1);
    cadre_node_t parts = cadre_op_cast(self, x, CADRE_I64);
    return cadre_op_sum(self, cadre_op_mul(self, parts, cadre_op_const(self, &tensor)), -1);
}

/* Returns the row of the table for each id. */
cadre_node_t
cadre_op_embedding(cadre_program_t *self, cadre_node_t table, cadre_node_t ids)
{
    if (!cadre_program_has(self, table, "embedding") ||
        !cadre_program_has(self, ids, "embedding")) {
        return none;
    }
    const cadre_extents_t *shape = &cadre_program_at(self, table)->shape;
    if (shape->rank != 2) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE, "embedding: a table is [ids,width], not %s",
                             cadre_extents_text(shape, cadre_program_symbols(self), text)));
        return none;
    }
    bool are_floats = cadre_program_at(self, ids)->dtype == CADRE_F32;
    return cadre_op_take(self, table, are_floats ? whole_numbers(self, ids) : ids);
}

/* Returns `x` with one more last axis, of size 1. */
static cadre_node_t
with_last(cadre_program_t *self, cadre_node_t x, const char *what)
{
    if (!cadre_program_has(self, x, what)) {
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, x)->shape;
    if (shape.rank == CADRE_PROGRAM_RANK_MAX) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE, "%s: %s has too many axes", what,
                             cadre_extents_text(&shape, cadre_program_symbols(self), text)));
        return none;
    }
    shape.extents[shape.rank++] = cadre_extent_number(1);
    return cadre_program_emit_reshape(self, x, &shape);
}

/* Returns the rows [B, L, D] of bags that all have L of them, each times its weight, if there are
 * weights: index and weights [B, L]. */
static cadre_node_t
weighted_rows(cadre_program_t *self, cadre_node_t table, cadre_node_t index, cadre_node_t weights)
{
    cadre_node_t rows = cadre_op_embedding(self, table, index);
    return weights.id == 0 ? rows
                           : cadre_op_mul(self, rows, with_last(self, weights, "embedding bag"));
}

/* Returns the sums, or means, of bags that all have L rows: index [B, L]. */
static cadre_node_t
even_bags(cadre_program_t *self, cadre_node_t table, cadre_node_t index, cadre_node_t weights,
          cadre_bag_mode_t mode)
{
    if (mode == CADRE_BAG_MEAN && weights.id == 0) {
        return cadre_op_mean(self, weighted_rows(self, table, index, weights), 1);
    }
    if (mode != CADRE_BAG_SUM) {
        cadre_program_mistake(
            self, cadre_fail(CADRE_EINVALID, "embedding bag: %s",
                             mode == CADRE_BAG_MEAN ? "a mean takes no weights" : "no such mode"));
        return none;
    }
    return cadre_op_sum(self, weighted_rows(self, table, index, weights), 1);
}

/* Checks the other inputs of bags of one size: there are no offsets, and weights, if any, have the
 * shape [B, L] of the index, because other weights would be broadcast without a complaint. */
static bool
check_even_bags(cadre_program_t *self, cadre_node_t index, cadre_node_t offsets,
                cadre_node_t weights)
{
    const cadre_extents_t *shape = &cadre_program_at(self, index)->shape;
    if (offsets.id != 0) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_EINVALID, "embedding bag: an index %s takes no offsets",
                             cadre_extents_text(shape, cadre_program_symbols(self), text)));
        return false;
    }
    if (weights.id == 0) {
        return true;
    }
    if (!cadre_program_has(self, weights, "embedding bag")) {
        return false;
    }
    if (!cadre_extents_equal(shape, &cadre_program_at(self, weights)->shape)) {
        cadre_program_misfit(self, "embedding bag", (cadre_named_node_t){"weights", weights},
                             (cadre_named_node_t){"index", index});
        return false;
    }
    return true;
}

/* Returns the sum, or mean, of each bag of rows of a table. An index [B, L] has bags of one size,
 * which need no offsets and are computed as a take and a reduction. */
cadre_node_t
cadre_op_embedding_bag(cadre_program_t *self, cadre_node_t table, cadre_node_t index,
                       cadre_node_t offsets, cadre_node_t weights, cadre_bag_mode_t mode)
{
    if (!cadre_program_has(self, index, "embedding bag")) {
        return none;
    }
    if (cadre_program_at(self, index)->shape.rank != 2) {
        return cadre_op_bag(self, table, index, offsets, weights, mode);
    }
    return check_even_bags(self, index, offsets, weights)
               ? even_bags(self, table, index, weights, mode)
               : none;
}

/* Gives the sums over the features of v x and of its square, each [B, K]. Bags of one size need no
 * square of the whole table. */
static void
sum_vectors(cadre_program_t *self, cadre_node_t table, cadre_node_t index, cadre_node_t offsets,
            cadre_node_t values, cadre_node_t sums[2])
{
    if (cadre_program_has(self, index, "factorization machine") &&
        cadre_program_at(self, index)->shape.rank == 2) {
        bool fits = check_even_bags(self, index, offsets, values);
        cadre_node_t rows = fits ? weighted_rows(self, table, index, values) : none;
        sums[0] = fits ? cadre_op_sum(self, rows, 1) : none;
        sums[1] = fits ? cadre_op_sum(self, cadre_op_square(self, rows), 1) : none;
        return;
    }
    cadre_node_t squares = values.id == 0 ? none : cadre_op_square(self, values);
    sums[0] = cadre_op_embedding_bag(self, table, index, offsets, values, CADRE_BAG_SUM);
    sums[1] = cadre_op_embedding_bag(self, cadre_op_square(self, table), index, offsets, squares,
                                     CADRE_BAG_SUM);
}

/* Returns the sum over all pairs of features of <v_i, v_j> x_i x_j: half of (the square of the sum
 * of v x, less the sum of the squares). */
cadre_node_t
cadre_op_factorization_machine(cadre_program_t *self, cadre_node_t table, cadre_node_t index,
                               cadre_node_t offsets, cadre_node_t values)
{
    cadre_node_t sums[2];
    sum_vectors(self, table, index, offsets, values, sums);
    /* (all ordered pairs - pairs of a feature with itself) / 2, summed over the K numbers of a
     * vector. */
    cadre_node_t both =
        cadre_op_sum(self, cadre_op_sub(self, cadre_op_square(self, sums[0]), sums[1]), -1);
    return cadre_op_mul(self, both, cadre_op_const_f32(self, 0.5F));
}

/* ---- DLRM ---- */

/* Returns the vectors of all nodes side by side, [B, F * D], and in `*count_out` their number F; F
 * and D must not depend on symbols. */
static cadre_node_t
side_by_side(cadre_program_t *self, const cadre_node_t *nodes, int count, int64_t *count_out)
{
    cadre_node_t flat[CADRE_OP_INPUTS_MAX] = {{0}};
    cadre_extent_t size = {0};
    *count_out = 0;
    for (int i = 0; i < count; i++) {
        if (!cadre_program_has(self, nodes[i], "dlrm interaction")) {
            return none;
        }
        cadre_extents_t shape = cadre_program_at(self, nodes[i])->shape;
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_extents_text(&shape, cadre_program_symbols(self), text);
        /* The first node is the dense vector, which sets D; a node [B, n, D] counts as n
         * vectors. */
        bool usable = shape.rank == 2 || (shape.rank == 3 && i > 0 && shape.extents[1].symbol < 0);
        if (usable) {
            cadre_extent_t last = shape.extents[shape.rank - 1];
            size = i == 0 ? last : size;
            usable = last.symbol < 0 && cadre_extent_equal(last, size);
        }
        if (!usable) {
            cadre_program_mistake(self, cadre_fail(CADRE_ESHAPE,
                                                   "dlrm interaction: %s is no vector of %s", text,
                                                   i == 0 ? "numbers" : "the dense one's size"));
            return none;
        }
        *count_out += shape.rank == 3 ? shape.extents[1].factor : 1;
        if (shape.rank == 3) {
            shape.rank = 2;
            shape.extents[1].factor *= size.factor;
        }
        flat[i] = cadre_program_emit_reshape(self, nodes[i], &shape);
    }
    return cadre_op_concat(self, flat, count, 1);
}

/* Returns the positions of the pairs (i, j), j < i, in a flat matrix of `count` rows and columns,
 * as i32 [pairs]. */
static cadre_node_t
lower_triangle(cadre_program_t *self, int64_t count)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t index = {0};
    int64_t pairs = count * (count - 1) / 2;
    int status = cadre_tensor_init(&index, CADRE_I32, &pairs, 1);
    if (status < 0) {
        cadre_program_mistake(self, status);
        return none;
    }
    int32_t *places = index.data;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < i; k++) {
            *places++ = (int32_t)(i * count + k);
        }
    }
    return cadre_op_const(self, &index);
}

/* Returns `dense`, followed by the dot products of all pairs of vectors: the products of all
 * vectors with all as a matrix, of which the part below the diagonal is taken. */
cadre_node_t
cadre_op_dlrm_interaction(cadre_program_t *self, cadre_node_t dense, const cadre_node_t *embeddings,
                          int count)
{
    enum { EMBEDDINGS_MAX = CADRE_OP_INPUTS_MAX - 1, VECTORS_MAX = 512 };
    cadre_node_t nodes[CADRE_OP_INPUTS_MAX] = {dense};
    if (count < 1 || count > EMBEDDINGS_MAX) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID,
                                               "dlrm interaction: %d embeddings are not 1 to %d",
                                               count, EMBEDDINGS_MAX));
        return none;
    }
    for (int i = 0; i < count; i++) {
        nodes[i + 1] = embeddings[i];
    }
    int64_t vectors = 0;
    cadre_node_t flat = side_by_side(self, nodes, count + 1, &vectors);
    if (flat.id == 0) {
        return none;
    }
    if (vectors > VECTORS_MAX) {
        cadre_program_mistake(self,
                              cadre_fail(CADRE_ETOOLARGE, "dlrm interaction: more than %d vectors",
                                         (int)VECTORS_MAX));
        return none;
    }
    cadre_extents_t shape = cadre_program_at(self, dense)->shape;
    cadre_extents_t each = {
        .rank = 3, .extents = {shape.extents[0], cadre_extent_number(vectors), shape.extents[1]}};
    cadre_extents_t square = {
        .rank = 2, .extents = {shape.extents[0], cadre_extent_number(vectors * vectors)}};
    cadre_node_t all = cadre_program_emit_reshape(self, flat, &each);
    cadre_node_t products = cadre_op_matmul_transposed(self, all, 0, all, 1);
    /* Transposed, because take is along the first axis. */
    const int swapped[2] = {1, 0};
    products =
        cadre_op_transpose(self, cadre_program_emit_reshape(self, products, &square), swapped);
    cadre_node_t pairs = cadre_op_take(self, products, lower_triangle(self, vectors));
    const cadre_node_t joined[2] = {dense, cadre_op_transpose(self, pairs, swapped)};
    return cadre_op_concat(self, joined, 2, 1);
}

/* ---- skip-gram ---- */

/* Returns the factors [count + 1] of the dot products in the loss: -1 for the context word, then 1
 * for each negative. */
static cadre_node_t
signs(cadre_program_t *self, int64_t count)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t tensor = {0};
    int64_t size = count + 1;
    int status = cadre_tensor_init(&tensor, CADRE_F32, &size, 1);
    if (status < 0) {
        cadre_program_mistake(self, status);
        return none;
    }
    float *values = tensor.data;
    for (int64_t i = 0; i < size; i++) {
        values[i] = i == 0 ? -1 : 1;
    }
    return cadre_op_const(self, &tensor);
}

/* Returns the loss of skip-gram with negative sampling, given the positions of center word, context
 * word and negatives. */
cadre_node_t
cadre_op_sgns(cadre_program_t *self, cadre_node_t input, cadre_node_t output, cadre_node_t center,
              cadre_node_t context, cadre_node_t negatives)
{
    enum { NEGATIVES_MAX = 4096 };
    const cadre_node_t words[2] = {with_last(self, context, "sgns"), negatives};
    if (!cadre_program_has(self, negatives, "sgns")) {
        return none;
    }
    const cadre_extents_t *shape = &cadre_program_at(self, negatives)->shape;
    if (shape->rank != 2 || shape->extents[1].symbol >= 0 ||
        shape->extents[1].factor > NEGATIVES_MAX) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cadre_program_mistake(
            self, cadre_fail(CADRE_ESHAPE, "sgns: negatives %s are not [batch,1 to %d]",
                             cadre_extents_text(shape, cadre_program_symbols(self), text),
                             (int)NEGATIVES_MAX));
        return none;
    }
    int64_t count = shape->extents[1].factor;
    /* [B,1+K,D] times [B,D,1]: the context's product first, then those of the negatives. */
    cadre_node_t rows = cadre_op_take(self, output, cadre_op_concat(self, words, 2, 1));
    cadre_node_t middle = with_last(self, cadre_op_take(self, input, center), "sgns");
    cadre_node_t products = cadre_op_sum(self, cadre_op_matmul(self, rows, middle), -1);
    /* -log s(x) = softplus(-x), which never overflows. */
    cadre_node_t each = cadre_op_softplus(self, cadre_op_mul(self, products, signs(self, count)));
    return cadre_op_mean_all(self, cadre_op_sum(self, each, -1));
}
