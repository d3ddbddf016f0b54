/*
 * The gradients of take, scatter and bags, of their own gradients, and of models over tables,
 * against difference quotients.
 */
#include <string.h>

#include "tests/worker/device_double/gradient_check.h"

TestSuite(sparse_gradient, .timeout = 240);

static const cadre_node_t none = {0};

static cadre_node_t
positions(cadre_program_t *p, const int32_t *values, int rank, const int64_t *shape)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t tensor = {0};
    cr_assert_eq(cadre_tensor_init(&tensor, CADRE_I32, shape, rank), 0);
    memcpy(tensor.data, values, cadre_tensor_size_bytes(&tensor));
    return cadre_op_const(p, &tensor);
}

static cadre_node_t
list(cadre_program_t *p, const int32_t *values, int64_t count)
{
    return positions(p, values, 1, &count);
}

/* ---- operations ---- */

enum { TABLE = 5, ENTRIES = 7, BAGS = 4 };

/* Some rows twice, one never, padding; one bag empty. */
static const int32_t entries[ENTRIES] = {4, 0, -1, 2, 0, 4, 4};
static const int32_t starts[BAGS] = {0, 2, 2, 4};

static cadre_node_t
build_take(cadre_program_t *p)
{
    static const int32_t at[] = {4, 0, 0, 2, 4, 3};
    return cadre_op_take(p, var(p, "x", 3, TABLE, 3, 2), list(p, at, 6));
}

static cadre_node_t
build_take_of_matrix(cadre_program_t *p)
{
    return cadre_op_take(p, matrix(p, "x", CLASSES, 3), batch(p, "index", CADRE_I32, 4));
}

static cadre_node_t
build_scatter(cadre_program_t *p)
{
    static const int32_t at[] = {4, 0, 0, 2};
    return cadre_op_scatter(p, matrix(p, "x", 4, 3), list(p, at, 4), cadre_dim(TABLE));
}

/* The loss holds a gradient, here a scatter of a square, so that its own gradient is asked for. */
static cadre_node_t
build_take_penalty(cadre_program_t *p)
{
    cadre_node_t x = matrix(p, "x", CLASSES, 3);
    cadre_node_t rows = cadre_op_take(p, x, batch(p, "index", CADRE_I32, 0));
    cadre_node_t slope = {0};
    cadre_op_gradient(p, cadre_op_sum_all(p, cadre_op_mul(p, rows, cadre_op_square(p, rows))), &x,
                      1, &slope);
    return cadre_op_square(p, slope);
}

static int form_of_test; /* 0 sum, 1 mean, 2 weighted */

static cadre_node_t
bag_of_test(cadre_program_t *p, cadre_node_t table, cadre_node_t weights)
{
    return cadre_op_bag(p, table, list(p, entries, ENTRIES), list(p, starts, BAGS),
                        form_of_test == 2 ? weights : none,
                        form_of_test == 1 ? CADRE_BAG_MEAN : CADRE_BAG_SUM);
}

static cadre_node_t
build_bag(cadre_program_t *p)
{
    cadre_node_t weights = form_of_test == 2 ? vector(p, "weights", ENTRIES) : none;
    return bag_of_test(p, matrix(p, "x", TABLE, 3), weights);
}

static bool linear_of_test;

/* As above: both forms of bag_grad in the loss, each differentiated for each of its inputs; where
 * the inner loss is linear in the bags, only for the table or the weights. */
static cadre_node_t
build_bag_penalty(cadre_program_t *p)
{
    cadre_node_t inputs[2] = {matrix(p, "x", TABLE, 3), none};
    int count = form_of_test == 2 ? 2 : 1;
    if (count == 2) {
        inputs[1] = vector(p, "weights", ENTRIES);
    }
    cadre_node_t bags = bag_of_test(p, inputs[0], inputs[1]);
    cadre_node_t slopes[2] = {none, none};
    cadre_node_t inner = linear_of_test ? bags : cadre_op_mul(p, bags, cadre_op_square(p, bags));
    cadre_op_gradient(p, to_number(p, inner), inputs, count, slopes);
    cadre_node_t loss = cadre_op_sum_all(p, cadre_op_square(p, slopes[0]));
    return count == 1 ? loss
                      : cadre_op_add(p, loss, cadre_op_sum_all(p, cadre_op_square(p, slopes[1])));
}

Test(sparse_gradient, of_take_scatter_and_bags_and_of_their_gradients)
{
    check_gradient("take", build_take);
    check_gradient("take of matrix", build_take_of_matrix);
    check_gradient("scatter", build_scatter);
    check_gradient("take penalty", build_take_penalty);
    for (form_of_test = 0; form_of_test < 3; form_of_test++) {
        check_gradient("bag", build_bag);
        check_gradient("bag penalty", build_bag_penalty);
    }
    form_of_test = 2;
    linear_of_test = true;
    check_gradient("linear bag penalty", build_bag_penalty);
}

/* ---- layers ---- */

static bool weighted_of_test;

static cadre_node_t
build_even_bag(cadre_program_t *p)
{
    cadre_node_t index = batch(p, "index", CADRE_I32, 3);
    cadre_node_t table = matrix(p, "x", CLASSES, 2);
    if (!weighted_of_test) {
        return cadre_op_embedding_bag(p, table, index, none, none, CADRE_BAG_MEAN);
    }
    cadre_node_t x = cadre_op_mul(p, batch(p, "values", CADRE_F32, 3), vector(p, "scale", 3));
    return cadre_op_embedding_bag(p, table, index, none, x, CADRE_BAG_SUM);
}

/* Ids that are numbers, as columns are. */
static cadre_node_t
build_embedding(cadre_program_t *p)
{
    cadre_node_t ids = cadre_op_cast(p, batch(p, "index", CADRE_I32, 3), CADRE_F32);
    cadre_node_t vectors = cadre_op_embedding(p, matrix(p, "x", CLASSES, 2), ids);
    return cadre_op_mul(p, vectors, cadre_op_square(p, vectors));
}

static cadre_node_t
build_interaction(cadre_program_t *p)
{
    cadre_node_t dense = cadre_op_matmul(p, batch(p, "x", CADRE_F32, 2), matrix(p, "w", 2, 3));
    cadre_node_t parts[3];
    parts[0] = cadre_op_take(p, matrix(p, "t0", CLASSES, 3), batch(p, "i0", CADRE_I32, 0));
    parts[1] = cadre_op_take(p, matrix(p, "t1", CLASSES, 3), batch(p, "i1", CADRE_I32, 2));
    parts[2] = cadre_op_square(p, parts[0]);
    return cadre_op_dlrm_interaction(p, dense, parts, 3);
}

Test(sparse_gradient, of_layers)
{
    for (int i = 0; i < 2; i++) {
        weighted_of_test = i == 1;
        check_gradient("even bag", build_even_bag);
        check_gradient("embedding", build_embedding);
    }
    check_gradient("dlrm interaction", build_interaction);
}

/* ---- models ---- */

/* Bags of words, their mean, a dense layer. */
static cadre_node_t
build_bag_classifier(cadre_program_t *p)
{
    static const int32_t labels[BAGS] = {0, 3, 1, 1};
    cadre_node_t h = cadre_op_bag(p, matrix(p, "x", TABLE, 3), list(p, entries, ENTRIES),
                                  list(p, starts, BAGS), none, CADRE_BAG_MEAN);
    h = cadre_op_dense(p, h, matrix(p, "w", 3, CLASSES), vector(p, "b", CLASSES));
    return cadre_op_softmax_cross_entropy(p, h, list(p, labels, BAGS));
}

/* Rendle 2010, with linear term and offset; over bags, and over as many entries in each example. */
static cadre_node_t
fm(cadre_program_t *p, cadre_node_t index, cadre_node_t offsets, cadre_node_t values)
{
    cadre_node_t pairs =
        cadre_op_factorization_machine(p, matrix(p, "v", TABLE, 3), index, offsets, values);
    cadre_node_t linear =
        cadre_op_embedding_bag(p, matrix(p, "w", TABLE, 1), index, offsets, values, CADRE_BAG_SUM);
    return cadre_op_add(p, cadre_op_add(p, pairs, cadre_op_sum(p, linear, -1)), vector(p, "w0", 1));
}

static cadre_node_t
build_fm(cadre_program_t *p)
{
    cadre_node_t values = weighted_of_test ? vector(p, "values", ENTRIES) : none;
    static const int32_t targets[BAGS] = {1, 0, 0, 1};
    cadre_node_t y = fm(p, list(p, entries, ENTRIES), list(p, starts, BAGS), values);
    return cadre_op_sigmoid_cross_entropy(p, y, list(p, targets, BAGS));
}

static cadre_node_t
build_even_fm(cadre_program_t *p)
{
    cadre_node_t values = weighted_of_test ? batch(p, "values", CADRE_F32, 3) : none;
    cadre_node_t y = fm(p, batch(p, "index", CADRE_I32, 3), none, values);
    return cadre_op_mse(p, y, batch(p, "y", CADRE_F32, 0));
}

/* Cheng and others 2016: weights of crossed features beside embeddings under dense layers. */
static cadre_node_t
build_wide_and_deep(cadre_program_t *p)
{
    cadre_dim_t flat[2] = {cadre_dim_symbol("B"), cadre_dim(6)};
    cadre_node_t wide =
        cadre_op_embedding_bag(p, matrix(p, "wide", CLASSES, 1), batch(p, "crossed", CADRE_I32, 4),
                               none, none, CADRE_BAG_SUM);
    cadre_node_t deep =
        cadre_op_take(p, matrix(p, "embeddings", CLASSES, 3), batch(p, "ids", CADRE_I32, 2));
    cadre_node_t parts[2] = {cadre_op_reshape(p, deep, flat, 2), batch(p, "x", CADRE_F32, 2)};
    deep = cadre_op_concat(p, parts, 2, 1);
    deep = cadre_op_tanh(p, cadre_op_dense(p, deep, matrix(p, "w1", 8, 5), vector(p, "b1", 5)));
    deep = cadre_op_dense(p, deep, matrix(p, "w2", 5, 1), vector(p, "b2", 1));
    return cadre_op_sigmoid_cross_entropy(p, cadre_op_add(p, wide, deep),
                                          batch(p, "y", CADRE_F32, 1));
}

/* Naumov and others 2019: dense layers below, a bag for each table, dense layers above. */
static cadre_node_t
build_dlrm(cadre_program_t *p)
{
    cadre_node_t x = batch(p, "x", CADRE_F32, 3);
    x = cadre_op_tanh(p, cadre_op_dense(p, x, matrix(p, "w1", 3, 4), vector(p, "b1", 4)));
    cadre_node_t embeddings[3];
    const char *tables[3] = {"t0", "t1", "t2"};
    const char *indexes[3] = {"i0", "i1", "i2"};
    for (int i = 0; i < 3; i++) {
        embeddings[i] = cadre_op_embedding_bag(p, matrix(p, tables[i], CLASSES, 4),
                                               batch(p, indexes[i], CADRE_I32, i + 1), none, none,
                                               CADRE_BAG_SUM);
    }
    x = cadre_op_dlrm_interaction(p, x, embeddings, 3);
    x = cadre_op_gelu(p, cadre_op_dense(p, x, matrix(p, "w2", 10, 4), vector(p, "b2", 4)));
    x = cadre_op_dense(p, x, matrix(p, "w3", 4, 1), vector(p, "b3", 1));
    return cadre_op_sigmoid_cross_entropy(p, x, batch(p, "y", CADRE_F32, 0));
}

static cadre_node_t
build_sgns(cadre_program_t *p)
{
    return cadre_op_sgns(p, matrix(p, "input", CLASSES, 3), matrix(p, "output", CLASSES, 3),
                         batch(p, "center", CADRE_I32, 0), batch(p, "context", CADRE_I32, 0),
                         batch(p, "negatives", CADRE_I32, 4));
}

/* Yi and others 2019; some candidates are the same. */
static cadre_node_t
build_in_batch_softmax(cadre_program_t *p)
{
    cadre_node_t ids = batch(p, "candidate", CADRE_I32, 0);
    cadre_node_t queries =
        cadre_op_embedding(p, matrix(p, "users", CLASSES, 3), batch(p, "user", CADRE_I32, 0));
    cadre_node_t rows = cadre_op_embedding(p, matrix(p, "items", CLASSES, 3), ids);
    cadre_node_t log_q = cadre_op_take(p, vector(p, "log_q", CLASSES), ids);
    return cadre_op_in_batch_softmax(p, queries, rows, ids, log_q);
}

Test(sparse_gradient, of_models_over_tables)
{
    check_gradient("in-batch softmax", build_in_batch_softmax);
    check_gradient("bag classifier", build_bag_classifier);
    check_gradient("wide and deep", build_wide_and_deep);
    check_gradient("dlrm", build_dlrm);
    check_gradient("sgns", build_sgns);
    for (int i = 0; i < 2; i++) {
        weighted_of_test = i == 1;
        check_gradient("fm", build_fm);
        check_gradient("even fm", build_even_fm);
    }
}
