#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/graph/program_data.h"
#include "common/graph/row_program.h"

TestSuite(row_program, .timeout = 240);

static const cadre_node_t none = {0};

static cadre_node_t
table(cadre_program_t *p, const char *name, int64_t rows)
{
    return cadre_op_var(p, name, (int64_t[]){rows, 4}, 2);
}

/* Ids [B], as they come with a closure. */
static cadre_node_t
ids(cadre_program_t *p, const char *name)
{
    return cadre_op_arg(p, name, CADRE_I32, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
}

static cadre_node_t
loss_of(cadre_program_t *p, cadre_node_t rows)
{
    return cadre_op_mean_all(p, cadre_op_square(p, rows));
}

/* Makes the row program of `p` (which it ends), where all variables may be pulled by rows. */
static cadre_row_program_t *
rows_of(cadre_program_t **p)
{
    bool may[CADRE_PROGRAM_VARIABLES_MAX];
    memset(may, true, sizeof(may));
    cadre_row_program_t *rows = NULL;
    cr_assert_eq(cadre_program_finish(*p), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_row_program_new(*p, may, &rows), 0, "%s", cadre_error_text());
    cadre_program_destroy(p);
    return rows;
}

/* A program of which the first variable is looked up or stays whole. */
typedef struct {
    const char *name;
    bool is_whole;
    void (*build)(cadre_program_t *p);
} case_t;

static void
minimized(cadre_program_t *p)
{
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, table(p, "t", 9), ids(p, "i"))));
}

static void
only_read(cadre_program_t *p)
{
    cadre_op_result(p, "rows", cadre_op_take(p, table(p, "t", 9), ids(p, "i")));
}

static void
bags(cadre_program_t *p)
{
    cadre_node_t weights =
        cadre_op_arg(p, "w", CADRE_F32, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
    cadre_node_t sums =
        cadre_op_bag(p, table(p, "t", 9), ids(p, "i"), ids(p, "o"), weights, CADRE_BAG_SUM);
    cadre_op_minimize(p, loss_of(p, sums));
}

static void
twice(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t first = cadre_op_take(p, t, ids(p, "i"));
    cadre_op_minimize(p, loss_of(p, cadre_op_mul(p, first, cadre_op_take(p, t, ids(p, "k")))));
}

static void
by_f32_ids(cadre_program_t *p)
{
    cadre_node_t x =
        cadre_op_arg(p, "x", CADRE_F32, (cadre_dim_t[]){cadre_dim_symbol("B"), cadre_dim(3)}, 2);
    cadre_node_t rows = cadre_op_embedding(p, table(p, "t", 9), cadre_op_slice(p, x, 1, 1, 2));
    cadre_op_minimize(p, loss_of(p, rows));
}

static void
squared_and_scaled(cadre_program_t *p)
{
    cadre_node_t scaled =
        cadre_op_mul(p, cadre_op_square(p, table(p, "t", 9)), cadre_op_const_f32(p, 3));
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, scaled, ids(p, "i"))));
}

static void
joined(cadre_program_t *p)
{
    cadre_node_t both = cadre_op_add(p, table(p, "t", 9), table(p, "s", 9));
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, both, ids(p, "i"))));
}

static void
factorized(cadre_program_t *p)
{
    cadre_node_t pairs =
        cadre_op_factorization_machine(p, table(p, "t", 9), ids(p, "i"), ids(p, "o"), none);
    cadre_op_minimize(p, cadre_op_mean_all(p, pairs));
}

static void
vector(cadre_program_t *p)
{
    cadre_node_t t = cadre_op_var(p, "t", (int64_t[]){9}, 1);
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, t, ids(p, "i"))));
}

static void
by_random_ids(cadre_program_t *p)
{
    const cadre_extents_t shape = {.rank = 2,
                                   .extents = {cadre_extent_number(5), cadre_extent_number(2)}};
    cadre_node_t drawn = cadre_program_emit_rand(p, &shape);
    cadre_node_t index =
        cadre_op_cast(p, cadre_op_mul(p, drawn, cadre_op_const_f32(p, 9)), CADRE_I32);
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, table(p, "t", 9), index)));
}

/* Pushes how far two steps lead the table, as closures of local steps do. */
static void
in_two_steps(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t now = t;
    static const char *const names[] = {"i", "k"};
    for (int i = 0; i < 2; i++) {
        cadre_node_t gradient = none;
        cadre_op_gradient(p, loss_of(p, cadre_op_take(p, now, ids(p, names[i]))), &now, 1,
                          &gradient);
        now = cadre_op_sub(p, now, cadre_op_mul(p, gradient, cadre_op_const_f32(p, 0.1F)));
    }
    cadre_op_push(p, t, cadre_op_sub(p, now, t));
}

/* Pushes a difference that is not zero elsewhere: of two variables. */
static void
on_the_way_to_another(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t s = table(p, "s", 9);
    cadre_op_result(p, "rows", cadre_op_take(p, t, ids(p, "i")));
    cadre_op_push(p, t, cadre_op_sub(p, s, t));
}

static void
with_a_penalty(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t loss = loss_of(p, cadre_op_take(p, t, ids(p, "i")));
    cadre_op_minimize(p, cadre_op_add(p, loss, loss_of(p, t)));
}

static void
with_decay(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t gradient = none;
    cadre_op_gradient(p, loss_of(p, cadre_op_take(p, t, ids(p, "i"))), &t, 1, &gradient);
    cadre_op_push(p, t, cadre_op_add(p, gradient, t));
}

static void
clipped_by_norm(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t gradient = none;
    cadre_op_gradient(p, loss_of(p, cadre_op_take(p, t, ids(p, "i"))), &t, 1, &gradient);
    cadre_op_push(p, t, cadre_op_clip_by_norm(p, gradient, 1.0F));
}

/* Clips the gradients of two tables together, of which one is looked up by several ids. */
static void
clipped_together(cadre_program_t *p)
{
    const cadre_node_t tables[] = {table(p, "t", 9), table(p, "s", 5)};
    cadre_node_t gradients[2] = {none, none};
    cadre_node_t rows = cadre_op_mul(p, cadre_op_take(p, tables[0], ids(p, "i")),
                                     cadre_op_take(p, tables[0], ids(p, "k")));
    rows = cadre_op_mul(p, rows, cadre_op_take(p, tables[1], ids(p, "l")));
    cadre_op_gradient(p, loss_of(p, rows), tables, 2, gradients);
    cadre_op_result(p, "norm", cadre_op_clip_by_global_norm(p, gradients, 2, 1.0F));
    cadre_op_push(p, tables[0], gradients[0]);
    cadre_op_push(p, tables[1], gradients[1]);
}

/* Pushes the table's gradient, and gives the result of `reduce` over its rows. */
static void
with_a_reduction(cadre_program_t *p,
                 cadre_node_t (*reduce)(cadre_program_t *, cadre_node_t, int axis), int axis)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t gradient = none;
    cadre_op_gradient(p, loss_of(p, cadre_op_take(p, t, ids(p, "i"))), &t, 1, &gradient);
    cadre_op_push(p, t, gradient);
    cadre_op_result(p, "reduced", reduce(p, gradient, axis));
}

static void
with_a_sum_of_rows(cadre_program_t *p)
{
    with_a_reduction(p, cadre_op_sum, 0);
}

/* Gives numbers that follow from how many rows there are, or from all of them. */
static void
with_a_mean_of_rows(cadre_program_t *p)
{
    with_a_reduction(p, cadre_op_mean, 0);
}

static void
with_the_largest_row(cadre_program_t *p)
{
    with_a_reduction(p, cadre_op_reduce_max, 0);
}

static void
with_a_sum_for_each_row(cadre_program_t *p)
{
    with_a_reduction(p, cadre_op_sum, 1);
}

/* The norm of what is not zero where no id points. */
static void
clipped_after_decay(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t gradient = none;
    cadre_op_gradient(p, loss_of(p, cadre_op_take(p, t, ids(p, "i"))), &t, 1, &gradient);
    cadre_node_t decay = cadre_op_clip_by_norm(p, cadre_op_add(p, gradient, t), 1.0F);
    cadre_op_push(p, t, cadre_op_mul(p, gradient, decay));
}

static void
multiplied(cadre_program_t *p)
{
    cadre_node_t x =
        cadre_op_arg(p, "x", CADRE_F32, (cadre_dim_t[]){cadre_dim_symbol("B"), cadre_dim(9)}, 2);
    cadre_op_minimize(p, loss_of(p, cadre_op_matmul(p, x, table(p, "t", 9))));
}

static void
shown(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_op_result(p, "rows", cadre_op_take(p, t, ids(p, "i")));
    cadre_op_result(p, "all", t);
}

static void
pushed_whole(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_op_result(p, "rows", cadre_op_take(p, t, ids(p, "i")));
    cadre_op_push(p, t, table(p, "s", 9));
}

static void
by_ids_of_a_variable(cadre_program_t *p)
{
    cadre_node_t t = table(p, "t", 9);
    cadre_node_t s = cadre_op_take(p, table(p, "s", 9), ids(p, "i"));
    cadre_op_result(p, "rows", cadre_op_take(p, t, cadre_op_argmax(p, s, 1)));
}

static void
added_to_other_rows(cadre_program_t *p)
{
    cadre_node_t other =
        cadre_op_arg(p, "x", CADRE_F32, (cadre_dim_t[]){cadre_dim(9), cadre_dim(4)}, 2);
    cadre_node_t sum = cadre_op_add(p, table(p, "t", 9), other);
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, sum, ids(p, "i"))));
}

static void
of_one_row(cadre_program_t *p)
{
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, table(p, "t", 1), ids(p, "i"))));
}

static void
as_weights_of_bags(cadre_program_t *p)
{
    cadre_node_t w = cadre_op_var(p, "t", (int64_t[]){9}, 1);
    cadre_node_t index = cadre_op_arg(p, "i", CADRE_I32, (cadre_dim_t[]){cadre_dim(9)}, 1);
    cadre_node_t sums = cadre_op_bag(p, table(p, "s", 7), index, ids(p, "o"), w, CADRE_BAG_SUM);
    cadre_op_result(p, "w", cadre_op_take(p, w, ids(p, "k")));
    cadre_op_minimize(p, loss_of(p, sums));
}

Test(row_program, finds_variables_that_are_only_looked_up)
{
    static const case_t cases[] = {
        {"minimized", false, minimized},
        {"only read", false, only_read},
        {"bags", false, bags},
        {"twice", false, twice},
        {"by f32 ids", false, by_f32_ids},
        {"squared and scaled", false, squared_and_scaled},
        {"joined", false, joined},
        {"factorized", false, factorized},
        {"vector", false, vector},
        {"by random ids", false, by_random_ids},
        {"in two steps", false, in_two_steps},
        {"on the way to another", true, on_the_way_to_another},
        {"with a penalty", true, with_a_penalty},
        {"with decay", true, with_decay},
        {"clipped by norm", false, clipped_by_norm},
        {"clipped together", false, clipped_together},
        {"with a sum of rows", false, with_a_sum_of_rows},
        {"with a mean of rows", true, with_a_mean_of_rows},
        {"with the largest row", true, with_the_largest_row},
        {"with a sum for each row", true, with_a_sum_for_each_row},
        {"clipped after decay", true, clipped_after_decay},
        {"multiplied", true, multiplied},
        {"shown", true, shown},
        {"pushed whole", true, pushed_whole},
        {"by ids of a variable", true, by_ids_of_a_variable},
        {"added to other rows", true, added_to_other_rows},
        {"of one row", true, of_one_row},
        {"as weights of bags", true, as_weights_of_bags},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_program_t *p = cadre_program_new("model");
        cases[i].build(p);
        int first = -1;
        for (int k = 0; k < p->variable_count; k++) {
            first = strcmp(p->variables[k].name, "t") == 0 ? k : first;
        }
        cadre_row_program_t *rows = rows_of(&p);
        bool is_whole = !rows || rows->variables[first] < 0;
        cr_expect_eq(is_whole, cases[i].is_whole, "%s", cases[i].name);
        cadre_row_program_destroy(&rows);
    }
}

Test(row_program, gives_a_variable_rows_and_names_them_by_positions)
{
    cadre_program_t *p = cadre_program_new("model");
    minimized(p);
    cadre_row_program_t *rows = rows_of(&p);
    const cadre_program_t *made = rows->program;
    cr_assert_null(rows->ids);
    cr_assert_eq(rows->sets.count, 1);
    cr_assert_eq(rows->sets.rows[0], 9);
    cr_assert_eq(rows->sets.lookup_count, 1);
    cr_assert_eq(rows->sources[0].argument, 0);
    cr_assert_eq(rows->argument_count, 1);
    cr_assert_eq(made->argument_count, 2);
    cr_assert_eq(made->arguments[1].dtype, CADRE_I32);
    int symbol = cadre_program_rows_symbol(made);
    cr_assert_str_eq(made->symbols[symbol], "U");
    const cadre_program_node_t *variable = &made->nodes[made->variables[0].node];
    cr_assert_eq(variable->shape.extents[0].symbol, symbol);
    cr_assert_eq(made->nodes[made->pushes[0].node].op, CADRE_OP_SCATTER);
    cr_assert_eq(made->nodes[made->pushes[0].node].shape.extents[0].symbol, symbol);
    cr_assert_eq(made->nodes[made->pushes[0].node].inputs[1], made->arguments[1].node);
    cadre_row_program_destroy(&rows);
}

Test(row_program, of_a_table_has_rows_for_the_keys_that_are_looked_up)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t t = cadre_op_table(p, "t", 8192);
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, t, ids(p, "i"))));
    cadre_row_program_t *rows = rows_of(&p);
    cr_assert_eq(rows->variables[0], 0);
    cr_assert_eq(rows->sets.rows[0], INT64_C(1) << 31);
    cr_assert_eq(rows->program->nodes[rows->program->variables[0].node].shape.extents[1].factor,
                 8192);
    cadre_row_program_destroy(&rows);

    p = cadre_program_new("model");
    cr_assert_eq(cadre_op_table(p, "t", 8193).id, 0);
    cr_assert_eq(cadre_program_finish(p), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "table: rows of 8193 numbers, not 1 to 8192");
    cadre_program_destroy(&p);
}

/* Ids [B] of i64. */
static cadre_node_t
keys(cadre_program_t *p, const char *name)
{
    return cadre_op_arg(p, name, CADRE_I64, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
}

Test(row_program, has_positions_of_i32_for_keys_of_i64)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t t = cadre_op_table(p, "t", 4);
    cadre_node_t index = keys(p, "i");
    cadre_node_t shifted = cadre_op_add(p, keys(p, "k"), cadre_op_const_i64(p, INT64_MIN));
    cadre_node_t bag =
        cadre_op_bag(p, cadre_op_square(p, t), index, ids(p, "o"), none, CADRE_BAG_SUM);
    cadre_node_t rows_read = cadre_op_embedding(p, t, shifted);
    cadre_op_minimize(p, cadre_op_add(p, loss_of(p, bag), loss_of(p, rows_read)));

    size_t size_bytes = 0;
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    const uint8_t *bytes = cadre_program_bytes(p, &size_bytes);
    cadre_program_t *decoded = NULL;
    cr_assert_eq(cadre_program_decode(bytes, size_bytes, &decoded), 0, "%s", cadre_error_text());
    cadre_program_destroy(&p);

    cadre_row_program_t *rows = rows_of(&decoded);
    cr_assert_eq(rows->variables[0], 0);
    cr_assert_eq(rows->sets.lookup_count, 2);
    cr_assert_eq(rows->ids->nodes[rows->ids->results[0].node].dtype, CADRE_I64);
    for (int i = 0; i < rows->sets.lookup_count; i++) {
        cr_assert_eq(rows->program->arguments[rows->argument_count + i].dtype, CADRE_I32);
    }
    cadre_row_program_destroy(&rows);
}

Test(row_program, has_a_hash_of_its_own_and_is_no_program_of_the_wire)
{
    cadre_program_t *p = cadre_program_new("model");
    minimized(p);
    cr_assert_eq(cadre_program_finish(p), 0);
    uint64_t hash = cadre_program_hash(p);
    cr_assert_eq(cadre_program_rows_symbol(p), -1);
    cadre_row_program_t *rows = rows_of(&p);
    cr_assert_neq(cadre_program_hash(rows->program), hash);
    size_t size_bytes = 0;
    const uint8_t *bytes = cadre_program_bytes(rows->program, &size_bytes);
    cadre_program_t *decoded = NULL;
    cr_assert_eq(cadre_program_decode(bytes, size_bytes, &decoded), CADRE_EMALFORMED);
    cadre_row_program_destroy(&rows);
}

Test(row_program, computes_ids_by_a_program_without_variables)
{
    cadre_program_t *p = cadre_program_new("model");
    by_f32_ids(p);
    cadre_row_program_t *rows = rows_of(&p);
    cr_assert_eq(rows->ids->variable_count, 0);
    cr_assert_eq(rows->ids->push_count, 0);
    cr_assert_eq(rows->ids->result_count, 1);
    cr_assert_eq(rows->ids->nodes[rows->ids->results[0].node].dtype, CADRE_I32);
    cr_assert_eq(rows->sources[0].argument, -1);
    cr_assert_eq(rows->sources[0].result, 0);
    cadre_row_program_destroy(&rows);
}

Test(row_program, shares_a_set_among_variables_that_are_looked_up_alike)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t index = ids(p, "i");
    cadre_node_t first = cadre_op_take(p, table(p, "a", 9), index);
    cadre_node_t second = cadre_op_take(p, table(p, "b", 9), index);
    cadre_node_t other = cadre_op_take(p, table(p, "c", 8), index);
    cadre_node_t bag = cadre_op_bag(p, table(p, "d", 9), index, ids(p, "o"), none, CADRE_BAG_SUM);
    cadre_op_result(p, "a", first);
    cadre_op_result(p, "b", second);
    cadre_op_result(p, "c", other);
    cadre_op_result(p, "d", bag);
    cadre_row_program_t *rows = rows_of(&p);
    cr_assert_eq(rows->sets.count, 3);
    cr_assert_eq(rows->variables[0], rows->variables[1]);
    cr_assert_neq(rows->variables[0], rows->variables[2]); /* of another number of rows */
    cr_assert_neq(rows->variables[0], rows->variables[3]); /* -1 is padding in a bag only */
    cr_assert(rows->sets.lookups[rows->variables[3]].pads);
    cr_assert_not(rows->sets.lookups[rows->variables[0]].pads);
    cadre_row_program_destroy(&rows);
}

Test(row_program, leaves_variables_whole_that_may_not_be_pulled_by_rows)
{
    cadre_program_t *p = cadre_program_new("model");
    joined(p);
    cr_assert_eq(cadre_program_finish(p), 0);
    cadre_row_program_t *rows = NULL;
    cr_assert_eq(cadre_row_program_new(p, (bool[]){false, false}, &rows), 0);
    cr_assert_null(rows);
    /* They meet in a sum, so that both need all rows. */
    cr_assert_eq(cadre_row_program_new(p, (bool[]){true, false}, &rows), 0);
    cr_assert_null(rows);
    cadre_program_destroy(&p);
}

/* Makes the row program of `count` tables, each looked up by ids of its own, whose names are those
 * that positions would have. */
static cadre_row_program_t *
rows_of_tables(int count)
{
    cadre_program_t *p = cadre_program_new("model");
    for (int i = 0; i < count; i++) {
        char name[2][32];
        snprintf(name[0], sizeof(name[0]), "t%d", i);
        snprintf(name[1], sizeof(name[1]), "positions %d", i);
        cadre_node_t t = table(p, name[0], 9);
        cadre_node_t index = ids(p, name[1]);
        cadre_op_push(p, t, cadre_op_scatter(p, cadre_op_take(p, t, index), index, cadre_dim(9)));
    }
    return rows_of(&p);
}

Test(row_program, leaves_whole_what_would_need_too_many_arguments)
{
    cadre_row_program_t *rows = rows_of_tables(CADRE_ARGUMENTS_MAX / 2);
    cr_assert_eq(rows->sets.lookup_count, CADRE_ARGUMENTS_MAX / 2);
    cr_assert_eq(rows->program->argument_count, CADRE_ARGUMENTS_MAX);
    cadre_row_program_destroy(&rows);

    rows = rows_of_tables(CADRE_ARGUMENTS_MAX / 2 + 1);
    cr_assert_eq(rows->sets.lookup_count, CADRE_ARGUMENTS_MAX / 2 - 1);
    cr_assert_eq(rows->program->argument_count, CADRE_ARGUMENTS_MAX);
    cr_assert_eq(rows->variables[CADRE_ARGUMENTS_MAX / 2 - 2], CADRE_ARGUMENTS_MAX / 2 - 2);
    cr_assert_eq(rows->variables[CADRE_ARGUMENTS_MAX / 2 - 1], -1);
    cadre_row_program_destroy(&rows);

    rows = rows_of_tables(CADRE_ARGUMENTS_MAX);
    cr_assert_null(rows);
}

/* A program with the symbols "U" and so on, `count` in all. */
static cadre_row_program_t *
rows_of_symbols(int count)
{
    cadre_program_t *p = cadre_program_new("model");
    for (int i = 0; i < count; i++) {
        char name[2][16];
        snprintf(name[0], sizeof(name[0]), "x%d", i);
        snprintf(name[1], sizeof(name[1]), i == 0 ? "U" : "U%d", i);
        cadre_op_arg(p, name[0], CADRE_F32, (cadre_dim_t[]){cadre_dim_symbol(name[1])}, 1);
    }
    cadre_node_t index = cadre_op_arg(p, "i", CADRE_I32, (cadre_dim_t[]){cadre_dim(3)}, 1);
    cadre_op_minimize(p, loss_of(p, cadre_op_take(p, table(p, "t", 9), index)));
    return rows_of(&p);
}

Test(row_program, needs_a_symbol_of_its_own)
{
    cadre_row_program_t *rows = rows_of_symbols(CADRE_SYMBOLS_MAX - 1);
    cr_assert_eq(rows->program->symbol_count, CADRE_SYMBOLS_MAX);
    cadre_row_program_destroy(&rows);
    cr_assert_null(rows_of_symbols(CADRE_SYMBOLS_MAX));
}
