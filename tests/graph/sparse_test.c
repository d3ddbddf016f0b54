/*
 * What is said of tables, positions and bags that do not go together, in the coordinator and, by
 * the same rules, of decoded nodes; and the shapes of those that do.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/graph/program_data.h"

TestSuite(sparse, .timeout = 240);

static const cadre_node_t none = {0};

/* The argument `name`, its third and fourth axis 2; the same node when asked for again. */
static cadre_node_t
arg(cadre_program_t *p, const char *name, cadre_dtype_t dtype, int rank, cadre_dim_t a,
    cadre_dim_t b)
{
    cadre_dim_t dims[4] = {a, b, cadre_dim(2), cadre_dim(2)};
    for (int i = 0; i < cadre_program_argument_count(p); i++) {
        if (strcmp(cadre_program_argument(p, i)->name, name) == 0) {
            return (cadre_node_t){cadre_program_argument(p, i)->node + 1};
        }
    }
    return cadre_op_arg(p, name, dtype, dims, rank);
}

static cadre_node_t
table(cadre_program_t *p)
{
    return cadre_op_var(p, "table", (int64_t[]){9, 4}, 2);
}

static cadre_node_t
index_of(cadre_program_t *p)
{
    return arg(p, "index", CADRE_I32, 1, cadre_dim_symbol("nnz"), cadre_dim(1));
}

static cadre_node_t
offsets(cadre_program_t *p)
{
    return arg(p, "offsets", CADRE_I32, 1, cadre_dim_symbol("B"), cadre_dim(1));
}

static cadre_node_t
rows_index(cadre_program_t *p, const char *name)
{
    return arg(p, name, CADRE_I32, 2, cadre_dim_symbol("B"), cadre_dim(3));
}

static cadre_node_t
float_rows(cadre_program_t *p, const char *name, int64_t width)
{
    return arg(p, name, CADRE_F32, 2, cadre_dim_symbol("B"), cadre_dim(width));
}

/* ---- mistakes of builder calls ---- */

static cadre_node_t
take_by_float(cadre_program_t *p)
{
    return cadre_op_take(p, table(p), float_rows(p, "x", 3));
}
static cadre_node_t
take_of_integers(cadre_program_t *p)
{
    return cadre_op_take(p, rows_index(p, "x"), index_of(p));
}
static cadre_node_t
take_of_number(cadre_program_t *p)
{
    return cadre_op_take(p, cadre_op_const_f32(p, 1), index_of(p));
}
static cadre_node_t
take_too_deep(cadre_program_t *p)
{
    cadre_node_t deep = arg(p, "x", CADRE_F32, 4, cadre_dim(3), cadre_dim(2));
    return cadre_op_take(p, deep, rows_index(p, "index"));
}
static cadre_node_t
scatter_misfit(cadre_program_t *p)
{
    return cadre_op_scatter(p, float_rows(p, "x", 4), index_of(p), cadre_dim(9));
}
static cadre_node_t
scatter_to_nothing(cadre_program_t *p)
{
    return cadre_op_scatter(p, float_rows(p, "x", 4), offsets(p), cadre_dim(0));
}
static cadre_node_t
bag_of_deep_table(cadre_program_t *p)
{
    cadre_node_t deep = arg(p, "x", CADRE_F32, 3, cadre_dim(3), cadre_dim(2));
    return cadre_op_bag(p, deep, index_of(p), offsets(p), none, CADRE_BAG_SUM);
}
static cadre_node_t
bag_with_deep_index(cadre_program_t *p)
{
    return cadre_op_bag(p, table(p), rows_index(p, "i"), offsets(p), none, CADRE_BAG_SUM);
}
static cadre_node_t
bag_with_float_offsets(cadre_program_t *p)
{
    cadre_node_t x = arg(p, "x", CADRE_F32, 1, cadre_dim_symbol("B"), cadre_dim(1));
    return cadre_op_bag(p, table(p), index_of(p), x, none, CADRE_BAG_SUM);
}
static cadre_node_t
bag_without_offsets(cadre_program_t *p)
{
    return cadre_op_embedding_bag(p, table(p), index_of(p), none, none, CADRE_BAG_SUM);
}
static cadre_node_t
weighted_mean(cadre_program_t *p)
{
    cadre_node_t x = arg(p, "x", CADRE_F32, 1, cadre_dim_symbol("nnz"), cadre_dim(1));
    return cadre_op_bag(p, table(p), index_of(p), offsets(p), x, CADRE_BAG_MEAN);
}
static cadre_node_t
short_weights(cadre_program_t *p)
{
    cadre_node_t x = arg(p, "x", CADRE_F32, 1, cadre_dim_symbol("B"), cadre_dim(1));
    return cadre_op_bag(p, table(p), index_of(p), offsets(p), x, CADRE_BAG_SUM);
}
static cadre_node_t
integer_weights(cadre_program_t *p)
{
    return cadre_op_bag(p, table(p), index_of(p), offsets(p), index_of(p), CADRE_BAG_SUM);
}
static cadre_node_t
other_mode(cadre_program_t *p)
{
    return cadre_op_bag(p, table(p), index_of(p), offsets(p), none, (cadre_bag_mode_t)2);
}
static cadre_node_t
offsets_of_even_bags(cadre_program_t *p)
{
    return cadre_op_embedding_bag(p, table(p), rows_index(p, "i"), offsets(p), none, CADRE_BAG_SUM);
}
static cadre_node_t
weights_of_even_bags(cadre_program_t *p)
{
    return cadre_op_embedding_bag(p, table(p), rows_index(p, "i"), none, float_rows(p, "x", 1),
                                  CADRE_BAG_SUM);
}
static cadre_node_t
mean_of_weighted_even_bags(cadre_program_t *p)
{
    return cadre_op_embedding_bag(p, table(p), rows_index(p, "i"), none, float_rows(p, "x", 3),
                                  CADRE_BAG_MEAN);
}
static cadre_node_t
embedding_of_deep_table(cadre_program_t *p)
{
    cadre_node_t deep = arg(p, "x", CADRE_F32, 3, cadre_dim(3), cadre_dim(2));
    return cadre_op_embedding(p, deep, rows_index(p, "i"));
}
static cadre_node_t
embedding_without_ids(cadre_program_t *p)
{
    return cadre_op_embedding(p, table(p), none);
}
static cadre_node_t
no_embeddings(cadre_program_t *p)
{
    return cadre_op_dlrm_interaction(p, float_rows(p, "x", 4), NULL, 0);
}
static cadre_node_t
embeddings_of_other_size(cadre_program_t *p)
{
    cadre_node_t other = float_rows(p, "y", 3);
    return cadre_op_dlrm_interaction(p, float_rows(p, "x", 4), &other, 1);
}
static cadre_node_t
many_embeddings(cadre_program_t *p)
{
    cadre_node_t other = arg(p, "y", CADRE_F32, 3, cadre_dim_symbol("B"), cadre_dim(512));
    return cadre_op_dlrm_interaction(p, float_rows(p, "x", 2), &other, 1);
}
static cadre_node_t
flat_negatives(cadre_program_t *p)
{
    return cadre_op_sgns(p, table(p), table(p), offsets(p), offsets(p), offsets(p));
}
static cadre_node_t
other_batch_of_context(cadre_program_t *p)
{
    return cadre_op_sgns(p, table(p), table(p), offsets(p), index_of(p), rows_index(p, "n"));
}
static cadre_node_t
candidates_of_other_size(cadre_program_t *p)
{
    return cadre_op_in_batch_softmax(p, float_rows(p, "x", 4), float_rows(p, "y", 1), offsets(p),
                                     none);
}
static cadre_node_t
wide_ids_of_candidates(cadre_program_t *p)
{
    cadre_node_t x = float_rows(p, "x", 4);
    return cadre_op_in_batch_softmax(p, x, x, rows_index(p, "i"), none);
}

static cadre_node_t
key_of_two_numbers(cadre_program_t *p)
{
    return cadre_op_key(p, float_rows(p, "x", 2));
}
static cadre_node_t
key_of_integers(cadre_program_t *p)
{
    return cadre_op_key(p, rows_index(p, "x"));
}

static const struct {
    cadre_node_t (*build)(cadre_program_t *p);
    int status;
    const char *text;
} mistakes[] = {
    {key_of_two_numbers, CADRE_ESHAPE, "model: key: [B,2] of f32 is not [..,3] of f32"},
    {key_of_integers, CADRE_ESHAPE, "model: key: [B,3] of i32 is not [..,3] of f32"},
    {take_by_float, CADRE_EDTYPE, "model: take: the index must be i32, not f32"},
    {take_of_integers, CADRE_EDTYPE, "model: take: needs f32, f64, i64 or bf16, not i32"},
    {take_of_number, CADRE_ESHAPE, "model: take: the table needs at least one axis"},
    {take_too_deep, CADRE_ESHAPE, "model: take: rows of [3,2,2,2] at [B,3] have more than 4 axes"},
    {scatter_misfit, CADRE_ESHAPE, "model: scatter: values [B,4] at [nnz] are no rows of [9,4]"},
    {scatter_to_nothing, CADRE_EINVALID, "model: scatter: dimension 0 is 0"},
    {bag_of_deep_table, CADRE_ESHAPE, "model: bag: the table needs two axes, not [3,2,2]"},
    {bag_with_deep_index, CADRE_ESHAPE,
     "model: bag: index and offsets need one axis each, not [B,3] and [B]"},
    {bag_with_float_offsets, CADRE_EDTYPE, "model: bag: offsets must be i32, not f32"},
    {bag_without_offsets, CADRE_EINVALID, "model: bag: an input is empty"},
    {weighted_mean, CADRE_EINVALID, "model: bag: a mean takes no weights"},
    {short_weights, CADRE_ESHAPE, "model: bag: weights [B] do not go with the index [nnz]"},
    {integer_weights, CADRE_EDTYPE, "model: bag: needs f32, not i32"},
    {other_mode, CADRE_EINVALID, "model: bag: no mode 2"},
    {offsets_of_even_bags, CADRE_EINVALID, "model: embedding bag: an index [B,3] takes no offsets"},
    {weights_of_even_bags, CADRE_ESHAPE,
     "model: embedding bag: weights [B,1] does not go with index [B,3]"},
    {mean_of_weighted_even_bags, CADRE_EINVALID, "model: embedding bag: a mean takes no weights"},
    {embedding_of_deep_table, CADRE_ESHAPE,
     "model: embedding: a table is [ids,width], not [3,2,2]"},
    {embedding_without_ids, CADRE_EINVALID, "model: embedding: an input is empty"},
    {no_embeddings, CADRE_EINVALID, "model: dlrm interaction: 0 embeddings are not 1 to 31"},
    {embeddings_of_other_size, CADRE_ESHAPE,
     "model: dlrm interaction: [B,3] is no vector of the dense one's size"},
    {many_embeddings, CADRE_ETOOLARGE, "model: dlrm interaction: more than 512 vectors"},
    {flat_negatives, CADRE_ESHAPE, "model: sgns: negatives [B] are not [batch,1 to 4096]"},
    {other_batch_of_context, CADRE_ESHAPE,
     "model: concat: [nnz,1] and [B,3] do not join at axis 1"},
    {candidates_of_other_size, CADRE_ESHAPE,
     "model: in_batch_softmax: queries [B,4] and candidates [B,1] are not both [batch,width]"},
    {wide_ids_of_candidates, CADRE_ESHAPE, "model: in_batch_softmax: [B,3] is not [batch]"},
};

Test(sparse, says_what_does_not_go_together)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(mistakes); i++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("test");
        cadre_program_scope_begin(p, "model");
        cr_assert_eq(mistakes[i].build(p).id, 0, "%s", mistakes[i].text);
        cr_assert_eq(cadre_program_finish(p), mistakes[i].status, "%s", cadre_error_text());
        cr_assert_str_eq(cadre_error_text(), mistakes[i].text);
    }
}

/* ---- keys ---- */

/* Returns the dtype of the index that the program's take reads. */
static cadre_dtype_t
dtype_read(int64_t rows, cadre_dtype_t dtype)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("test");
    cadre_node_t of = cadre_op_var(p, "table", (int64_t[]){rows, 4}, 2);
    cadre_node_t index = arg(p, "ids", dtype, 1, cadre_dim_symbol("B"), cadre_dim(1));
    cadre_node_t taken = cadre_op_take(p, of, index);
    cr_assert_neq(taken.id, 0, "%s", cadre_error_text());
    return cadre_program_node(p, cadre_program_at(p, taken)->inputs[1])->dtype;
}

Test(sparse, keys_of_i64_stay_as_they_are_where_there_are_as_many_rows_as_in_a_table)
{
    cr_assert_eq(dtype_read(CADRE_PROGRAM_TABLE_ROWS, CADRE_I64), CADRE_I64);
    cr_assert_eq(dtype_read(CADRE_PROGRAM_TABLE_ROWS, CADRE_I32), CADRE_I32);
    cr_assert_eq(dtype_read(CADRE_PROGRAM_TABLE_ROWS - 1, CADRE_I64), CADRE_I32);
    cr_assert_eq(dtype_read(CADRE_PROGRAM_TABLE_ROWS + 1, CADRE_I64), CADRE_I32);
}

/* ---- nodes that no builder makes ---- */

typedef enum { TABLE, INDEX, OFFSETS, WEIGHTS, GRADIENT, NARROW, DEEP, INPUTS } input_t;

typedef struct {
    int64_t mode;
    int64_t of_weights;
    int input_count;
    input_t inputs[4];
    input_t like; /* whose shape is carried */
    int status;
    const char *text; /* after "bag_grad: " */
} bag_grad_t;

static const bag_grad_t bag_grads[] = {
    {0, 0, 3, {GRADIENT, INDEX, OFFSETS, 0}, TABLE, 0, ""},
    {1, 0, 3, {GRADIENT, INDEX, OFFSETS, 0}, TABLE, 0, ""},
    {0, 0, 4, {GRADIENT, INDEX, OFFSETS, WEIGHTS}, TABLE, 0, ""},
    {0, 1, 4, {GRADIENT, INDEX, OFFSETS, TABLE}, WEIGHTS, 0, ""},
    {-1, 0, 3, {GRADIENT, INDEX, OFFSETS, 0}, TABLE, CADRE_EINVALID, "no mode -1"},
    {2, 0, 3, {GRADIENT, INDEX, OFFSETS, 0}, TABLE, CADRE_EINVALID, "no mode 2"},
    {0, 2, 4, {GRADIENT, INDEX, OFFSETS, TABLE}, WEIGHTS, CADRE_EINVALID, "no gradient 2"},
    {0, -1, 3, {GRADIENT, INDEX, OFFSETS, 0}, TABLE, CADRE_EINVALID, "no gradient -1"},
    {0,
     1,
     3,
     {GRADIENT, INDEX, OFFSETS, 0},
     WEIGHTS,
     CADRE_EINVALID,
     "the gradient of weights needs the table"},
    {1,
     1,
     4,
     {GRADIENT, INDEX, OFFSETS, TABLE},
     WEIGHTS,
     CADRE_EINVALID,
     "a mean takes no weights"},
    {1,
     0,
     4,
     {GRADIENT, INDEX, OFFSETS, WEIGHTS},
     TABLE,
     CADRE_EINVALID,
     "a mean takes no weights"},
    {0,
     0,
     4,
     {GRADIENT, INDEX, OFFSETS, TABLE},
     TABLE,
     CADRE_ESHAPE,
     "weights [9,4] do not go with the index [nnz]"},
    {0,
     1,
     4,
     {GRADIENT, INDEX, OFFSETS, TABLE},
     OFFSETS,
     CADRE_ESHAPE,
     "the gradient of weights [nnz], not [B]"},
    {0,
     1,
     4,
     {GRADIENT, INDEX, OFFSETS, DEEP},
     WEIGHTS,
     CADRE_ESHAPE,
     "the table needs two axes, not [9,4,2]"},
    {0,
     0,
     3,
     {GRADIENT, INDEX, OFFSETS, 0},
     DEEP,
     CADRE_ESHAPE,
     "the table needs two axes, not [9,4,2]"},
    {0,
     0,
     3,
     {NARROW, INDEX, OFFSETS, 0},
     TABLE,
     CADRE_ESHAPE,
     "gradient [B,3] where bags are [B,4]"},
    {0, 1, 4, {GRADIENT, INDEX, OFFSETS, INDEX}, WEIGHTS, CADRE_EDTYPE, "needs f32, not i32"},
    {0, 0, 3, {INDEX, INDEX, OFFSETS, 0}, TABLE, CADRE_EDTYPE, "needs f32, not i32"},
    {0,
     0,
     3,
     {GRADIENT, WEIGHTS, OFFSETS, 0},
     TABLE,
     CADRE_EDTYPE,
     "the index must be i32, not f32"},
};

Test(sparse, refuses_gradients_of_bags_that_no_builder_makes)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(bag_grads); i++) {
        const bag_grad_t *one = &bag_grads[i];
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("test");
        cadre_node_t inputs[INPUTS] = {
            table(p),
            index_of(p),
            offsets(p),
            arg(p, "weights", CADRE_F32, 1, cadre_dim_symbol("nnz"), cadre_dim(1)),
            float_rows(p, "gradient", 4),
            float_rows(p, "narrow", 3),
            arg(p, "deep", CADRE_F32, 3, cadre_dim(9), cadre_dim(4)),
        };
        cadre_program_node_t node = {.op = CADRE_OP_BAG_GRAD,
                                     .input_count = one->input_count,
                                     .attributes = {one->mode, one->of_weights},
                                     .shape = cadre_program_at(p, inputs[one->like])->shape};
        for (int k = 0; k < one->input_count; k++) {
            node.inputs[k] = inputs[one->inputs[k]].id - 1;
        }
        cadre_node_t made = cadre_program_emit(p, &node);
        cr_assert_eq(made.id != 0, one->status == 0, "%s", cadre_error_text());
        cr_assert_eq(p->status, one->status, "case %zu", i);
        cr_assert(one->status == 0 || strcmp(p->text + strlen("bag_grad: "), one->text) == 0,
                  "%s, not %s", p->text, one->text);
    }
}

/* ---- shapes ---- */

Test(sparse, infers_the_shapes_of_rows_and_bags)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("test");
    cadre_node_t rows = cadre_op_take(p, table(p), rows_index(p, "even"));
    cadre_node_t vector = cadre_op_var(p, "vector", (int64_t[]){9}, 1);
    cadre_node_t pulled = arg(p, "pulled", CADRE_F32, 2, cadre_dim_symbol("U"), cadre_dim(4));
    cadre_node_t dense = float_rows(p, "dense", 4);
    struct {
        cadre_node_t node;
        const char *shape;
    } cases[] = {
        {rows, "[B,3,4]"},
        {cadre_op_take(p, vector, index_of(p)), "[nnz]"},
        {cadre_op_take(p, pulled, offsets(p)), "[B,4]"},
        {cadre_op_scatter(p, rows, rows_index(p, "at"), cadre_dim_symbol_times("U", 2)), "[2*U,4]"},
        {cadre_op_bag(p, pulled, index_of(p),
                      cadre_op_arg(p, "starts", CADRE_I32, (cadre_dim_t[]){cadre_dim(7)}, 1), none,
                      CADRE_BAG_MEAN),
         "[7,4]"},
        {cadre_op_dlrm_interaction(p, dense, &rows, 1), "[B,10]"},
        {cadre_op_factorization_machine(p, pulled, index_of(p), offsets(p), none), "[B]"},
        {cadre_op_sgns(p, table(p), pulled, offsets(p), offsets(p), rows_index(p, "negatives")),
         "[]"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        char text[CADRE_EXTENTS_TEXT_SIZE];
        cr_assert_neq(cases[i].node.id, 0, "%s: %s", cases[i].shape, cadre_error_text());
        const cadre_extents_t *shape = &cadre_program_at(p, cases[i].node)->shape;
        cr_assert_str_eq(cadre_extents_text(shape, cadre_program_symbols(p), text), cases[i].shape);
    }
}
