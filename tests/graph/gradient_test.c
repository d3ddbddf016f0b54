/*
 * What gradients are refused, and that nothing superfluous is added. That they are right is checked
 * in tests/worker/device_double.
 */
#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/graph/program.h"

TestSuite(gradient_builder, .timeout = 240);

static cadre_node_t
vector(cadre_program_t *p, const char *name)
{
    return cadre_op_var(p, name, (int64_t[]){3}, 1);
}

static void
expect_mistake(cadre_program_t *p, const char *text)
{
    cr_assert_lt(cadre_program_finish(p), 0);
    cr_assert_str_eq(cadre_error_text(), text);
    cadre_program_destroy(&p);
}

Test(gradient_builder, needs_one_number)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_op_minimize(p, vector(p, "w"));
    expect_mistake(p, "gradient: the loss must be one f32 number, not f32 [3]");
}

Test(gradient_builder, names_a_variable_that_the_loss_does_not_depend_on)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t nodes[2] = {vector(p, "w"), vector(p, "v")};
    cadre_node_t gradients[2] = {{7}, {7}};
    cadre_node_t sharp = cadre_op_step(p, nodes[1]); /* no gradient passes a step */
    cadre_op_gradient(p, cadre_op_sum_all(p, cadre_op_mul(p, nodes[0], sharp)), nodes, 2,
                      gradients);
    expect_mistake(p, "gradient: the loss depends on v only through what has none: integers, "
                      "comparisons, detach and the like");
    p = cadre_program_new("model");
    nodes[1] = vector(p, "v");
    cadre_op_gradient(p, cadre_op_sum_all(p, vector(p, "w")), &nodes[1], 1, gradients);
    expect_mistake(p, "gradient: the loss does not depend on v");
    p = cadre_program_new("model");
    cadre_op_minimize(p, cadre_op_sum_all(p, cadre_op_detach(p, vector(p, "w"))));
    expect_mistake(p, "minimize: the loss depends on no variable");
}

Test(gradient_builder, has_no_second_derivative_of_gelu)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t w = vector(p, "w");
    cadre_node_t slope = {0};
    cadre_op_gradient(p, cadre_op_sum_all(p, cadre_op_gelu(p, w)), &w, 1, &slope);
    cadre_op_minimize(p, cadre_op_sum_all(p, cadre_op_square(p, slope)));
    expect_mistake(p, "gradient: dgelu has no second derivative");
}

Test(gradient_builder, has_no_second_derivative_of_rownorm)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t w = vector(p, "w");
    cadre_node_t slope = {0};
    cadre_op_gradient(p, cadre_op_sum_all(p, cadre_op_square(p, cadre_op_rownorm(p, w, 0.1F))), &w,
                      1, &slope);
    cadre_op_minimize(p, cadre_op_sum_all(p, cadre_op_square(p, slope)));
    expect_mistake(p, "gradient: rownorm_grad has no second derivative");
}

Test(gradient_builder, refuses_pushes_that_do_not_fit)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_op_push(p, vector(p, "w"), cadre_op_const_f32(p, 1));
    expect_mistake(p, "push: variable w is [3], the gradient []");
    p = cadre_program_new("model");
    cadre_op_push(p, cadre_op_neg(p, vector(p, "w")), vector(p, "w"));
    expect_mistake(p, "push: the target is no variable");
    p = cadre_program_new("model");
    cadre_op_push(p, vector(p, "w"), vector(p, "w"));
    cadre_op_push(p, vector(p, "w"), vector(p, "w"));
    expect_mistake(p, "push: variable w has one already");
}

Test(gradient_builder, adds_nothing_for_inputs_that_need_no_gradient)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("model");
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(4)};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    cadre_node_t y = cadre_op_matmul(p, x, cadre_op_var(p, "w", (int64_t[]){4, 2}, 2));
    cadre_node_t loss = cadre_op_sum_all(p, y);
    int before = cadre_program_node_count(p);
    cadre_op_minimize(p, loss);
    cr_assert_eq(cadre_program_finish(p), 0);
    int products = 0;
    for (int i = before; i < cadre_program_node_count(p); i++) {
        products += cadre_program_node(p, i)->op == CADRE_OP_MATMUL;
    }
    cr_assert_eq(products, 1); /* for w, none for x */
}
