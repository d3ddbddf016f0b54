#include "worker/slot/id_origin.h"

#include <criterion/criterion.h>

TestSuite(id_origin, .timeout = 240);

enum { ROWS = 5, COLUMNS = 3 };

typedef struct {
    cadre_program_t *program;
    cadre_node_t x; /* f32 [B, COLUMNS] */
} origin_t;

static origin_t
begin(void)
{
    origin_t self = {.program = cadre_program_new("origin")};
    const cadre_dim_t shape[] = {cadre_dim_symbol("B"), cadre_dim(COLUMNS)};
    self.x = cadre_op_arg(self.program, "x", CADRE_F32, shape, 2);
    return self;
}

/* Finishes the program and expects element `index` of `node` to come from element `at` of x, with
 * this limit; at -1: from none. */
static void
expect_limit(origin_t *self, cadre_node_t node, int64_t index, int64_t at, int64_t limit)
{
    const int64_t sizes[] = {ROWS};
    cadre_id_origin_t found = {-1, -1, -1};
    cr_assert_eq(cadre_program_finish(self->program), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_id_origin_find(self->program, sizes, node.id - 1, index, &found), at >= 0);
    cr_expect_eq(found.at, at);
    cr_expect_eq(found.argument, at >= 0 ? 0 : -1);
    cr_expect_eq(found.limit, at >= 0 ? limit : -1);
}

static void
expect_origin(origin_t *self, cadre_node_t node, int64_t index, int64_t at)
{
    expect_limit(self, node, index, at, 0);
}

static cadre_node_t
result(origin_t *self, cadre_node_t node)
{
    cadre_op_result(self->program, "result", node);
    return node;
}

Test(id_origin, goes_through_functions_of_elements)
{
    origin_t self = begin();
    cadre_program_t *p = self.program;
    cadre_node_t whole = cadre_op_cast(p, cadre_op_cast(p, self.x, CADRE_I32), CADRE_F32);
    cadre_node_t known =
        cadre_op_where(p, cadre_op_eq(p, self.x, whole), self.x, cadre_op_const_f32(p, -1));
    cadre_node_t below = cadre_op_gt(p, cadre_op_const_f32(p, 100), known);
    cadre_node_t node = result(&self, cadre_op_cast(p, cadre_op_mul(p, below, known), CADRE_I32));
    expect_origin(&self, node, 7, 7);
    cadre_program_destroy(&self.program);
}

Test(id_origin, finds_what_was_moved)
{
    origin_t self = begin();
    cadre_program_t *p = self.program;
    cadre_node_t last = cadre_op_slice(p, self.x, 1, 2, 1);
    cadre_node_t first = cadre_op_slice(p, self.x, 1, 0, 2);
    cadre_node_t joined = cadre_op_concat(p, (cadre_node_t[]){last, first}, 2, 1);
    cadre_node_t turned = cadre_op_transpose(p, joined, (const int[]){1, 0});
    result(&self, turned); /* [COLUMNS, B]: columns 2, 0 and 1 of x */
    expect_origin(&self, turned, 0 * ROWS + 4, 4 * COLUMNS + 2);
    expect_origin(&self, turned, 1 * ROWS + 3, 3 * COLUMNS + 0);
    expect_origin(&self, turned, 2 * ROWS + 1, 1 * COLUMNS + 1);
    cadre_program_destroy(&self.program);
}

Test(id_origin, finds_what_was_broadcast_and_no_sum)
{
    origin_t self = begin();
    cadre_program_t *p = self.program;
    cadre_node_t column = cadre_op_slice(p, self.x, 1, 1, 1);
    const cadre_dim_t wide[] = {cadre_dim_symbol("B"), cadre_dim(4)};
    cadre_node_t spread = cadre_op_broadcast(p, column, wide, 2);
    cadre_node_t sum = cadre_op_sum(p, self.x, 1);
    cadre_op_result(p, "spread", spread);
    cadre_op_result(p, "sum", sum);
    expect_origin(&self, spread, 2 * 4 + 3, 2 * COLUMNS + 1);
    expect_origin(&self, sum, 2, -1);
    expect_origin(&self, spread, 4 * ROWS, -1);
    cadre_program_destroy(&self.program);
}

/* Numbers from 100 on become -1; where they became others, any of them could be an id. */
Test(id_origin, knows_the_limit_from_which_numbers_are_no_ids)
{
    static const struct {
        float other;
        int64_t limit;
    } cases[] = {{-1, 100}, {7, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        origin_t self = begin();
        cadre_program_t *p = self.program;
        cadre_node_t other = cadre_op_const_f32(p, cases[i].other);
        cadre_node_t below = cadre_op_gt(p, cadre_op_const_f32(p, 100), self.x);
        cadre_node_t ids = cadre_op_where(p, below, self.x, other);
        ids = cadre_op_add(p, ids, cadre_op_const_f32(p, 0));
        expect_limit(&self, result(&self, cadre_op_cast(p, ids, CADRE_I32)), 7, 7, cases[i].limit);
        cadre_program_destroy(&self.program);
    }
}
