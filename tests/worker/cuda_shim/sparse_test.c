/*
 * take, scatter, bag and bag_grad by the CUDA kernels.
 */
#include <stdio.h>

#include "tests/worker/cuda_shim/compare.h"

TestSuite(sparse, .timeout = 240);

/* Sums of some hundred numbers, which the CPU adds one after the other. */
static const double tolerance = 1e-4;

/* Positions in 0..rows-1; every `hot`th names row 1 % rows, so that segments have all lengths. */
static void
fill_index(cadre_tensor_t *index, int64_t rows, int hot)
{
    for (int64_t i = 0; i < cadre_tensor_count(index); i++) {
        uint64_t any = (uint64_t)(cadre_random_uniform(11, 12, (uint64_t)i) * 1e6F);
        ((int32_t *)index->data)[i] = (int32_t)(i % hot == 0 ? 1 % rows : (int64_t)any % rows);
    }
}

/* ---- take and scatter ---- */

typedef struct {
    int table_rank;
    int64_t table[4];
    int index_rank;
    int64_t index[4];
    int hot;
} rows_t;

/* The numbers are those of sort.cu and segments.cu: digits of 8 bits, tiles of 1024 keys, chunks of
 * 32 entries. */
static const rows_t rows_cases[] = {
    {2, {5, 3}, 1, {7}, 3},        {2, {5, 8}, 2, {3, 4}, 3},
    {1, {6}, 2, {3, 4}, 2},        {1, {1}, 0, {0}, 1},
    {3, {4, 2, 3}, 1, {33}, 4},    {2, {1, 4}, 3, {2, 1, 3}, 1},
    {2, {300, 4}, 1, {1024}, 5},   {2, {300, 3}, 1, {1025}, 900},
    {2, {70000, 1}, 1, {3000}, 2}, {2, {255, 5}, 1, {4000}, 4000},
    {2, {256, 12}, 1, {2500}, 1},  {2, {20, 8}, 1, {640}, 64},
    {3, {9, 2, 4}, 1, {100}, 7},   {2, {65536, 2}, 1, {2049}, 3},
};

static void
check_rows(const rows_t *one, double allowed)
{
    int64_t shape[4] = {0};
    int rank = one->index_rank;
    memcpy(shape, one->index, sizeof(shape));
    for (int i = 1; i < one->table_rank; i++) {
        shape[rank++] = one->table[i];
    }
    cadre_tensor_t x[2] = {random_tensor(CADRE_F32, one->table, one->table_rank, 1),
                           random_tensor(CADRE_I32, one->index, one->index_rank, 2)};
    fill_index(&x[1], one->table[0], one->hot);
    cadre_program_t *p = cadre_program_new("take");
    cadre_node_t table = arg_like(p, "table", &x[0]);
    cadre_node_t index = arg_like(p, "index", &x[1]);
    cr_assert_eq(compare(p, cadre_op_take(p, table, index), x, 0), 0);
    cadre_tensor_fini(&x[0]);
    x[0] = random_tensor(CADRE_F32, shape, rank, 3);
    p = cadre_program_new("scatter");
    cadre_node_t values = arg_like(p, "values", &x[0]);
    index = arg_like(p, "index", &x[1]);
    cr_assert_eq(
        compare(p, cadre_op_scatter(p, values, index, cadre_dim(one->table[0])), x, allowed), 0);
    cadre_tensor_fini(&x[0]);
    cadre_tensor_fini(&x[1]);
}

Test(sparse, takes_rows_and_sums_them_where_they_came_from)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(rows_cases); i++) {
        int64_t entries = 1;
        for (int axis = 0; axis < rows_cases[i].index_rank; axis++) {
            entries *= rows_cases[i].index[axis];
        }
        /* Within one chunk all is added in the order of the index. */
        check_rows(&rows_cases[i], entries <= 32 ? 0 : tolerance);
    }
}

/* More tiles than a block of the sort has threads. */
Test(sparse, sorts_a_long_index)
{
    rows_t one = {2, {700, 1}, 1, {270000}, 3};
    check_rows(&one, 1e-3);
}

Test(sparse, refuses_a_position_that_is_none)
{
    static const int32_t wrong[] = {-1, 300, INT32_MIN, INT32_MAX};
    static const int64_t places[] = {0, 700, 1299};
    cadre_tensor_t x[3] = {random_tensor(CADRE_F32, (int64_t[]){300, 8}, 2, 1),
                           random_tensor(CADRE_I32, (int64_t[]){1300}, 1, 2),
                           random_tensor(CADRE_F32, (int64_t[]){1300, 8}, 2, 3)};
    fill_index(&x[1], 300, 5);
    for (size_t i = 0; i < CADRE_COUNT_OF(wrong) * CADRE_COUNT_OF(places); i++) {
        int32_t *at = (int32_t *)x[1].data + places[i / CADRE_COUNT_OF(wrong)];
        int32_t before = *at;
        *at = wrong[i % CADRE_COUNT_OF(wrong)];
        cadre_program_t *p = cadre_program_new("take");
        cadre_node_t table = arg_like(p, "table", &x[0]);
        cadre_node_t y = cadre_op_take(p, table, arg_like(p, "index", &x[1]));
        cr_assert_eq(compare(p, y, x, 0), CADRE_EDATA);
        p = cadre_program_new("scatter");
        (void)arg_like(p, "unused", &x[0]);
        cadre_node_t index = arg_like(p, "index", &x[1]);
        y = cadre_op_scatter(p, arg_like(p, "values", &x[2]), index, cadre_dim(300));
        cr_assert_eq(compare(p, y, x, 0), CADRE_EDATA);
        *at = before;
    }
    for (int i = 0; i < 3; i++) {
        cadre_tensor_fini(&x[i]);
    }
}

/* One id of [40,7] is none, in row `row`. */
static void
check_id_that_is_none(int64_t row, float id)
{
    cadre_tensor_t x[2] = {random_tensor(CADRE_F32, (int64_t[]){9, 6}, 2, 1),
                           random_tensor(CADRE_F32, (int64_t[]){40, 7}, 2, 2)};
    for (int64_t i = 0; i < cadre_tensor_count(&x[1]); i++) {
        ((float *)x[1].data)[i] = i == row * 7 + 4 ? id : (float)(i % 9);
    }
    cadre_program_t *p = cadre_program_new("ids");
    cadre_node_t table = arg_like(p, "table", &x[0]);
    int status = compare(p, cadre_op_embedding(p, table, arg_like(p, "ids", &x[1])), x, 0);
    bool known = id >= 0 && id < 9 && id == floorf(id);
    cr_assert_eq(status, known ? 0 : CADRE_EDATA);
    if (!known) {
        char text[96];
        snprintf(text, sizeof(text),
                 "take: an index that the program computes is out of range, in row %d", (int)row);
        cr_expect_str_eq(cadre_error_text(), text);
    }
    cadre_tensor_fini(&x[0]);
    cadre_tensor_fini(&x[1]);
}

Test(sparse, names_the_row_of_an_id_that_is_none)
{
    check_id_that_is_none(0, 9);
    check_id_that_is_none(17, -1);
    check_id_that_is_none(39, 2.5F);
    check_id_that_is_none(39, 8);
}

/* ---- bags ---- */

enum { TABLE, INDEX, OFFSETS, WEIGHTS, GRADIENT, TENSORS };

typedef struct {
    int64_t rows;
    int64_t size;
    int64_t entries;
    int64_t bags;
    int hot;
} bag_case_t;

static const bag_case_t bag_cases[] = {
    {5, 3, 7, 3, 2}, {5, 8, 12, 4, 3},       {1, 1, 1, 1, 1},         {40, 33, 100, 60, 5},
    {6, 4, 3, 9, 2}, {300, 12, 1500, 64, 2}, {300, 5, 1030, 1, 1000}, {70, 64, 640, 640, 1},
};

/* Bags of uneven lengths, some empty; about every fifth entry is padding. */
static void
make_bags(const bag_case_t *one, cadre_tensor_t x[TENSORS])
{
    x[TABLE] = random_tensor(CADRE_F32, (int64_t[]){one->rows, one->size}, 2, 1);
    x[INDEX] = random_tensor(CADRE_I32, &one->entries, 1, 2);
    x[OFFSETS] = random_tensor(CADRE_I32, &one->bags, 1, 3);
    x[WEIGHTS] = random_tensor(CADRE_F32, &one->entries, 1, 4);
    x[GRADIENT] = random_tensor(CADRE_F32, (int64_t[]){one->bags, one->size}, 2, 5);
    fill_index(&x[INDEX], one->rows, one->hot);
    for (int64_t i = 0; i < one->entries; i++) {
        if (i * 7 % 5 == 3) {
            ((int32_t *)x[INDEX].data)[i] = -1;
        }
    }
    for (int64_t i = 0; i < one->bags; i++) {
        int64_t even = i / 3 * 3; /* two empty bags after each */
        ((int32_t *)x[OFFSETS].data)[i] = (int32_t)(even * one->entries / one->bags);
    }
}

typedef struct {
    cadre_node_t table;
    cadre_node_t index;
    cadre_node_t offsets;
    cadre_node_t weights;
    cadre_node_t gradient;
} bag_nodes_t;

static bag_nodes_t
bag_nodes(cadre_program_t *p, const cadre_tensor_t x[TENSORS])
{
    return (bag_nodes_t){arg_like(p, "table", &x[TABLE]), arg_like(p, "index", &x[INDEX]),
                         arg_like(p, "offsets", &x[OFFSETS]), arg_like(p, "weights", &x[WEIGHTS]),
                         arg_like(p, "gradient", &x[GRADIENT])};
}

static int
run_bag(const cadre_tensor_t x[TENSORS], bool weighted, cadre_bag_mode_t mode)
{
    cadre_program_t *p = cadre_program_new("bag");
    bag_nodes_t nodes = bag_nodes(p, x);
    cadre_node_t weights = weighted ? nodes.weights : (cadre_node_t){0};
    cadre_node_t y = cadre_op_bag(p, nodes.table, nodes.index, nodes.offsets, weights, mode);
    return compare(p, y, x, 0);
}

static int
run_bag_grad(const cadre_tensor_t x[TENSORS], bool weighted, cadre_bag_mode_t mode, bool of_weights)
{
    cadre_program_t *p = cadre_program_new("bag_grad");
    bag_nodes_t nodes = bag_nodes(p, x);
    const cadre_node_t last = of_weights ? nodes.table : nodes.weights;
    const cadre_node_t like = of_weights ? nodes.weights : nodes.table;
    cadre_program_node_t node = {
        .op = CADRE_OP_BAG_GRAD,
        .shape = cadre_program_at(p, like)->shape,
        .input_count = weighted || of_weights ? 4 : 3,
        .inputs = {nodes.gradient.id - 1, nodes.index.id - 1, nodes.offsets.id - 1, last.id - 1},
        .attributes = {mode, of_weights}};
    return compare(p, cadre_program_emit(p, &node), x, tolerance);
}

/* All that may be asked of bags; each gives `status`. */
static void
run_all(const cadre_tensor_t x[TENSORS], int status)
{
    cr_assert_eq(run_bag(x, false, CADRE_BAG_SUM), status);
    cr_assert_eq(run_bag(x, true, CADRE_BAG_SUM), status);
    cr_assert_eq(run_bag(x, false, CADRE_BAG_MEAN), status);
    cr_assert_eq(run_bag_grad(x, false, CADRE_BAG_SUM, false), status);
    cr_assert_eq(run_bag_grad(x, true, CADRE_BAG_SUM, false), status);
    cr_assert_eq(run_bag_grad(x, false, CADRE_BAG_MEAN, false), status);
    cr_assert_eq(run_bag_grad(x, true, CADRE_BAG_SUM, true), status);
}

static void
free_all(cadre_tensor_t x[TENSORS])
{
    for (int i = 0; i < TENSORS; i++) {
        cadre_tensor_fini(&x[i]);
    }
}

Test(sparse, sums_bags_and_gives_back_their_gradients)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(bag_cases); i++) {
        cadre_tensor_t x[TENSORS];
        make_bags(&bag_cases[i], x);
        run_all(x, 0);
        free_all(x);
    }
}

Test(sparse, refuses_bags_that_are_none)
{
    static const struct {
        int tensor;
        int64_t at;
        int32_t value;
    } wrong[] = {
        {INDEX, 0, 40},   {INDEX, 99, -2},     {INDEX, 50, INT32_MIN},   {OFFSETS, 0, 1},
        {OFFSETS, 0, -1}, {OFFSETS, 30, 1000}, {OFFSETS, 30, INT32_MIN}, {OFFSETS, 59, 101},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(wrong); i++) {
        cadre_tensor_t x[TENSORS];
        make_bags(&bag_cases[3], x);
        ((int32_t *)x[wrong[i].tensor].data)[wrong[i].at] = wrong[i].value;
        run_all(x, CADRE_EDATA);
        free_all(x);
    }
}
