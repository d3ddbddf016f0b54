/*
 * Layers and losses over tables against their formulas, written as sums over pairs and examples.
 */
#include <math.h>
#include <stdio.h>

#include "common/graph/program_data.h"
#include "tests/worker/device/run_program.h"

TestSuite(sparse_layer, .timeout = 240);

static const cadre_node_t none = {0};

enum { ROWS = 6, SIZE = 3, BATCH = 4, LENGTH = 5 };

static void
expect_near(double got, double wanted, const char *what, int64_t at)
{
    cr_assert(fabs(got - wanted) <= 1e-5 * fmax(1, fabs(wanted)), "%s at %d: %.9g, not %.9g", what,
              (int)at, got, wanted);
}

/* Positions 0 to 3, as random_tensor makes them. */
static cadre_tensor_t
indexes(int rank, int64_t columns, uint64_t stream)
{
    return random_tensor(CADRE_I32, (int64_t[]){BATCH, columns}, rank, stream);
}

static cadre_tensor_t
matrix(int64_t rows, int64_t columns, uint64_t stream)
{
    return random_tensor(CADRE_F32, (int64_t[]){rows, columns}, 2, stream);
}

static void
end_tensors(cadre_tensor_t *tensors, int count)
{
    for (int i = 0; i < count; i++) {
        cadre_tensor_fini(&tensors[i]);
    }
}

/* Row `row` of `left` times row `other` of `right`. */
static double
product(const cadre_tensor_t *left, int64_t row, const cadre_tensor_t *right, int64_t other)
{
    double sum = 0;
    for (int64_t k = 0; k < left->shape[1]; k++) {
        sum += (double)f32_at(left, row * left->shape[1] + k) *
               (double)f32_at(right, other * left->shape[1] + k);
    }
    return sum;
}

/* ---- embedding ---- */

/* Looks up one id, in place 1 of row 2 of [4,2], the others being 3. */
static int
look_up(float id, cadre_tensor_t *result)
{
    cadre_tensor_t tensors[2] = {matrix(ROWS, SIZE, 1), matrix(BATCH, 2, 2)};
    for (int64_t i = 0; i < cadre_tensor_count(&tensors[1]); i++) {
        ((float *)tensors[1].data)[i] = i == 5 ? id : 3;
    }
    cadre_program_t *p = cadre_program_new("embedding");
    cadre_node_t table = arg_like(p, "table", &tensors[0]);
    cadre_op_result(p, "rows", cadre_op_embedding(p, table, arg_like(p, "ids", &tensors[1])));
    int status = try_once(p, tensors, result);
    for (int64_t i = 0; status == 0 && i < cadre_tensor_count(result); i++) {
        int64_t row = i / SIZE == 5 ? (int64_t)id : 3;
        cr_assert_eq(f32_at(result, i), f32_at(&tensors[0], row * SIZE + i % SIZE));
    }
    end_tensors(tensors, 2);
    return status;
}

Test(sparse_layer, embedding_takes_the_rows_of_ids_that_are_columns)
{
    for (int id = 0; id < ROWS; id++) {
        cadre_tensor_t result = {0};
        cr_assert_eq(look_up((float)id, &result), 0, "%s", cadre_error_text());
        cr_assert(result.rank == 3 && result.shape[1] == 2 && result.shape[2] == SIZE);
        cadre_tensor_fini(&result);
    }
}

Test(sparse_layer, key_joins_the_bits_that_three_numbers_have)
{
    static const uint64_t keys[BATCH] = {0, 76561197960265729U, UINT64_MAX, 1ULL << 63};
    float parts[BATCH][CADRE_KEY_PARTS];
    for (int i = 0; i < BATCH; i++) {
        parts[i][0] = (float)(keys[i] & 0xffffff);
        parts[i][1] = (float)(keys[i] >> 24 & 0xffffff);
        parts[i][2] = (float)(keys[i] >> 48);
    }
    const cadre_tensor_t x =
        cadre_tensor_view(CADRE_F32, parts, (const int64_t[]){BATCH, CADRE_KEY_PARTS}, 2);
    cadre_program_t *p = cadre_program_new("key");
    cadre_auto(cadre_tensor_fini) cadre_tensor_t made =
        run_once(p, cadre_op_key(p, arg_like(p, "x", &x)), &x);
    cr_assert(made.dtype == CADRE_I64 && made.rank == 1 && made.shape[0] == BATCH);
    cr_assert_arr_eq(made.data, keys, sizeof(keys));
}

Test(sparse_layer, embedding_names_the_row_of_an_id_that_is_none)
{
    static const struct {
        float id;
        int32_t told;
    } cases[] = {{ROWS, ROWS},   {-1, -1},        {-2, -2},          {0.5F, -1},
                 {2.25F, -1},    {-0.25F, -1},    {NAN, -1},         {3e9F, -1},
                 {INFINITY, -1}, {-INFINITY, -1}, {1 << 24, 1 << 24}};
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_tensor_t result = {0};
        char text[128];
        cr_expect_eq(look_up(cases[i].id, &result), CADRE_EDATA, "%g", (double)cases[i].id);
        snprintf(text, sizeof(text), "embedding: take: index %d in row 2 at 1 is not in 0..5",
                 (int)cases[i].told);
        cr_expect_str_eq(cadre_error_text(), text);
    }
}

/* ---- bags of one size ---- */

typedef enum { PLAIN, MEAN, WEIGHTED, OF_NUMBERS } form_t; /* ids that are f32 */

static void
check_even_bag(form_t form)
{
    cadre_tensor_t tensors[3] = {matrix(ROWS, SIZE, 1), indexes(2, LENGTH, 2),
                                 matrix(BATCH, LENGTH, 3)};
    cadre_program_t *p = cadre_program_new("even");
    cadre_node_t table = arg_like(p, "table", &tensors[0]);
    cadre_node_t index = arg_like(p, "index", &tensors[1]);
    cadre_node_t weights = arg_like(p, "weights", &tensors[2]);
    index = form == OF_NUMBERS ? cadre_op_cast(p, index, CADRE_F32) : index;
    cadre_node_t y =
        cadre_op_embedding_bag(p, table, index, none, form == WEIGHTED ? weights : none,
                               form == MEAN ? CADRE_BAG_MEAN : CADRE_BAG_SUM);
    cadre_tensor_t result = run_once(p, y, tensors);
    cr_assert_eq(cadre_tensor_count(&result), BATCH * SIZE);
    for (int64_t i = 0; i < BATCH * SIZE; i++) {
        double wanted = 0;
        for (int64_t k = i / SIZE * LENGTH; k < (i / SIZE + 1) * LENGTH; k++) {
            double row = (double)f32_at(&tensors[0], i32_at(&tensors[1], k) * SIZE + i % SIZE);
            wanted += form == WEIGHTED ? row * (double)f32_at(&tensors[2], k) : row;
        }
        expect_near((double)f32_at(&result, i), form == MEAN ? wanted / LENGTH : wanted, "even", i);
    }
    cadre_tensor_fini(&result);
    end_tensors(tensors, 3);
}

Test(sparse_layer, embedding_bag_takes_bags_of_one_size_without_offsets)
{
    check_even_bag(PLAIN);
    check_even_bag(MEAN);
    check_even_bag(WEIGHTED);
    check_even_bag(OF_NUMBERS);
}

/* ---- factorization machine ---- */

/* The same examples as [BATCH, LENGTH], and as bags: at `even` 0 as offsets and one long index. */
static void
check_fm(bool even, bool valued)
{
    cadre_tensor_t tensors[4] = {matrix(ROWS, SIZE, 1), indexes(2, LENGTH, 2),
                                 matrix(BATCH, LENGTH, 3), indexes(1, 0, 4)};
    for (int32_t i = 0; i < BATCH; i++) {
        ((int32_t *)tensors[3].data)[i] = LENGTH * i;
    }
    cadre_program_t *p = cadre_program_new("fm");
    cadre_node_t table = arg_like(p, "table", &tensors[0]);
    cadre_node_t index = arg_like(p, "index", &tensors[1]);
    cadre_node_t values = arg_like(p, "values", &tensors[2]);
    cadre_node_t offsets = arg_like(p, "offsets", &tensors[3]);
    if (!even) {
        cadre_dim_t flat = cadre_dim(BATCH * LENGTH);
        index = cadre_op_reshape(p, index, &flat, 1);
        values = cadre_op_reshape(p, values, &flat, 1);
    }
    cadre_node_t y = cadre_op_factorization_machine(p, table, index, even ? none : offsets,
                                                    valued ? values : none);
    cadre_tensor_t result = run_once(p, y, tensors);
    cr_assert(result.rank == 1 && result.shape[0] == BATCH);
    for (int64_t b = 0; b < BATCH; b++) {
        double wanted = 0;
        for (int64_t i = b * LENGTH; i < (b + 1) * LENGTH; i++) {
            for (int64_t j = i + 1; j < (b + 1) * LENGTH; j++) {
                double x = (double)f32_at(&tensors[2], i) * (double)f32_at(&tensors[2], j);
                wanted += (valued ? x : 1) * product(&tensors[0], i32_at(&tensors[1], i),
                                                     &tensors[0], i32_at(&tensors[1], j));
            }
        }
        expect_near((double)f32_at(&result, b), wanted, "fm", b);
    }
    cadre_tensor_fini(&result);
    end_tensors(tensors, 4);
}

Test(sparse_layer, factorization_machine_sums_over_all_pairs)
{
    for (int i = 0; i < 4; i++) {
        check_fm(i & 1, i & 2);
    }
}

/* ---- dlrm ---- */

Test(sparse_layer, dlrm_interaction_multiplies_each_two_different_vectors)
{
    enum { VECTORS = 4, PAIRS = VECTORS * (VECTORS - 1) / 2 };
    /* The dense vector, then one, then two in one node. */
    cadre_tensor_t tensors[3] = {matrix(BATCH, SIZE, 1), matrix(BATCH, SIZE, 2),
                                 random_tensor(CADRE_F32, (int64_t[]){BATCH, 2, SIZE}, 3, 3)};
    cadre_program_t *p = cadre_program_new("dlrm");
    cadre_node_t dense = arg_like(p, "dense", &tensors[0]);
    cadre_node_t embeddings[2] = {arg_like(p, "one", &tensors[1]), none};
    embeddings[1] = arg_like(p, "two", &tensors[2]);
    cadre_tensor_t result =
        run_once(p, cadre_op_dlrm_interaction(p, dense, embeddings, 2), tensors);
    cr_assert_eq(result.shape[1], SIZE + PAIRS);
    for (int64_t b = 0; b < BATCH; b++) {
        const float *vectors[VECTORS] = {
            (float *)tensors[0].data + b * SIZE, (float *)tensors[1].data + b * SIZE,
            (float *)tensors[2].data + b * 2 * SIZE, (float *)tensors[2].data + (b * 2 + 1) * SIZE};
        const float *row = (float *)result.data + b * (SIZE + PAIRS);
        for (int64_t k = 0; k < SIZE; k++) {
            cr_assert_eq(*row++, vectors[0][k]);
        }
        for (int i = 0; i < VECTORS; i++) {
            for (int j = 0; j < i; j++) {
                double wanted = 0;
                for (int64_t k = 0; k < SIZE; k++) {
                    wanted += (double)vectors[i][k] * (double)vectors[j][k];
                }
                expect_near((double)*row++, wanted, "pair", i * VECTORS + j);
            }
        }
    }
    cadre_tensor_fini(&result);
    end_tensors(tensors, 3);
}

/* ---- sgns ---- */

static double
minus_log_sigmoid(double x)
{
    return log1p(exp(-x));
}

Test(sparse_layer, sgns_is_the_loss_of_the_paper)
{
    cadre_tensor_t tensors[5] = {matrix(ROWS, SIZE, 1), matrix(ROWS, SIZE, 2), indexes(1, 0, 3),
                                 indexes(1, 0, 4), indexes(2, LENGTH, 5)};
    const char *names[5] = {"input", "output", "center", "context", "negatives"};
    cadre_node_t nodes[5];
    cadre_program_t *p = cadre_program_new("sgns");
    for (int i = 0; i < 5; i++) {
        nodes[i] = arg_like(p, names[i], &tensors[i]);
    }
    cadre_node_t loss = cadre_op_sgns(p, nodes[0], nodes[1], nodes[2], nodes[3], nodes[4]);
    cadre_tensor_t result = run_once(p, loss, tensors);
    double wanted = 0;
    for (int64_t b = 0; b < BATCH; b++) {
        int64_t center = i32_at(&tensors[2], b);
        wanted +=
            minus_log_sigmoid(product(&tensors[0], center, &tensors[1], i32_at(&tensors[3], b)));
        for (int64_t k = 0; k < LENGTH; k++) {
            int64_t other = i32_at(&tensors[4], b * LENGTH + k);
            wanted += minus_log_sigmoid(-product(&tensors[0], center, &tensors[1], other));
        }
    }
    cr_assert_eq(result.rank, 0);
    expect_near((double)f32_at(&result, 0), wanted / BATCH, "sgns", 0);
    cadre_tensor_fini(&result);
    end_tensors(tensors, 5);
}

/* ---- in_batch_softmax ---- */

/* The loss of row `row`: its candidate among all different ones of the batch. */
static double
row_loss(const cadre_tensor_t *tensors, bool corrected, int64_t row)
{
    double sum = 0;
    double right = 0;
    const int32_t own = i32_at(&tensors[2], row);
    for (int64_t j = 0; j < BATCH; j++) {
        const double log_q = corrected ? (double)f32_at(&tensors[3], j) : 0;
        const double score = product(&tensors[0], row, &tensors[1], j) - log_q;
        right = j == row ? score : right;
        sum += j == row || i32_at(&tensors[2], j) != own ? exp(score) : 0;
    }
    return log(sum) - right;
}

static void
check_in_batch_softmax(bool corrected, float scale)
{
    cadre_tensor_t tensors[4] = {matrix(BATCH, SIZE, 1), matrix(BATCH, SIZE, 2), indexes(1, 0, 3),
                                 random_tensor(CADRE_F32, (int64_t[]){BATCH}, 1, 4)};
    *(int32_t *)tensors[2].data = ((int32_t *)tensors[2].data)[BATCH - 1]; /* the same twice */
    for (int64_t i = 0; i < BATCH * SIZE; i++) {
        ((float *)tensors[0].data)[i] *= scale;
    }
    const char *names[4] = {"queries", "candidates", "ids", "log_q"};
    cadre_node_t nodes[4] = {none, none, none, none};
    cadre_program_t *p = cadre_program_new("in_batch_softmax");
    for (int i = 0; i < (corrected ? 4 : 3); i++) {
        nodes[i] = arg_like(p, names[i], &tensors[i]);
    }
    cadre_node_t loss = cadre_op_in_batch_softmax(p, nodes[0], nodes[1], nodes[2], nodes[3]);
    cadre_tensor_t result = run_once(p, loss, tensors);
    double wanted = 0;
    for (int64_t i = 0; i < BATCH; i++) {
        wanted += row_loss(tensors, corrected, i);
    }
    expect_near((double)f32_at(&result, 0), wanted / BATCH, "in_batch_softmax", corrected);
    cadre_tensor_fini(&result);
    end_tensors(tensors, 4);
}

Test(sparse_layer, in_batch_softmax_is_the_cross_entropy_among_the_batch)
{
    check_in_batch_softmax(false, 1);
    check_in_batch_softmax(true, 1);
    check_in_batch_softmax(true, 200); /* exponentials that f32 cannot hold */
}
