/* What cadre_op_inner_step refuses, and that its steps share what they can. That they compute what
 * a ps does is checked in tests/conformance and tests/worker/device_double. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/graph/inner_optimizer.h"
#include "common/graph/program.h"

TestSuite(inner_optimizer, .timeout = 240);

/* Adds one step of w [3] by this optimizer, along a gradient of so many numbers. */
static void
expect_mistake(cadre_optimizer_t optimizer, int64_t numbers, int status, const char *text)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t now = cadre_op_var(p, "w", (int64_t[]){3}, 1);
    cadre_node_t gradient = cadre_op_var(p, "g", &numbers, 1);
    cadre_inner_optimizer_t inner = {.optimizer = optimizer};
    cadre_inner_slots_t slots = {0};
    cadre_program_scope_begin(p, "steps");
    cadre_op_inner_step(p, &inner, &now, &gradient, &slots, 1);
    cr_expect_eq(cadre_program_finish(p), status);
    cr_expect_str_eq(cadre_error_text(), text);
    cadre_program_destroy(&p);
}

Test(inner_optimizer, refuses_what_programs_cannot_run)
{
    cadre_optimizer_t sgd = cadre_optimizer(CADRE_OPTIMIZER_SGD);
    sgd.learning_rate = -1;
    cadre_optimizer_t adam = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    adam.beta_1 = NAN;
    expect_mistake(cadre_optimizer(CADRE_OPTIMIZER_FTRL), 3, CADRE_EINVALID,
                   "steps: inner step: programs can run sgd, momentum, nesterov, adam and adamw, "
                   "not ftrl");
    expect_mistake((cadre_optimizer_t){.kind = (cadre_optimizer_kind_t)77}, 3, CADRE_EINVALID,
                   "steps: inner step: optimizer: kind 77 is none; cadre_optimizer() gives one");
    expect_mistake(sgd, 3, CADRE_EINVALID,
                   "steps: inner step: sgd: learning_rate must be in [1e-20, 1e+10], not -1");
    expect_mistake(adam, 3, CADRE_EINVALID,
                   "steps: inner step: adam: beta_1 must be in [0, 1), not nan");
    /* A gradient of one number would be broadcast. */
    expect_mistake(cadre_optimizer(CADRE_OPTIMIZER_SGD), 1, CADRE_ESHAPE,
                   "steps: inner step: gradient [1] does not go with value [3]");
}

Test(inner_optimizer, needs_a_gradient_for_each_value)
{
    cadre_program_t *p = cadre_program_new("model");
    cadre_node_t now[2] = {cadre_op_var(p, "w", (int64_t[]){3}, 1),
                           cadre_op_var(p, "b", (int64_t[]){3}, 1)};
    const cadre_node_t gradients[2] = {now[0], {0}};
    cadre_inner_optimizer_t inner = {.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD)};
    cadre_inner_slots_t slots[2] = {0};
    cadre_op_inner_step(p, &inner, now, gradients, slots, 2);
    cr_assert_eq(now[1].id, 0);
    cr_assert_eq(cadre_program_finish(p), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "inner step"), "%s", cadre_error_text());
    cadre_program_destroy(&p);
}

/* Constants of a program, of which there may be 4,096. */
static int
constants_of(cadre_optimizer_kind_t kind, int steps)
{
    cadre_program_t *p = cadre_program_new("model");
    const cadre_node_t pulled[2] = {cadre_op_var(p, "w", (int64_t[]){3}, 1),
                                    cadre_op_var(p, "b", (int64_t[]){2}, 1)};
    cadre_node_t now[2] = {pulled[0], pulled[1]};
    cadre_inner_optimizer_t inner = {.optimizer = cadre_optimizer(kind)};
    cadre_inner_slots_t slots[2] = {0};
    for (int i = 0; i < steps; i++) {
        cadre_op_inner_step(p, &inner, now, pulled, slots, 2);
    }
    cadre_op_push(p, pulled[0], now[0]);
    cadre_op_push(p, pulled[1], now[1]);
    cr_assert_eq(inner.step, steps);
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    int count = 0;
    for (int i = 0; i < cadre_program_node_count(p); i++) {
        count += cadre_program_node(p, i)->op == CADRE_OP_CONST;
    }
    cadre_program_destroy(&p);
    return count;
}

Test(inner_optimizer, adds_a_constant_for_a_step_at_most)
{
    cr_expect_eq(constants_of(CADRE_OPTIMIZER_SGD, 9), 1);
    cr_expect_eq(constants_of(CADRE_OPTIMIZER_MOMENTUM, 9), 2);
    cr_expect_eq(constants_of(CADRE_OPTIMIZER_NESTEROV, 9), 2);
    cr_expect_eq(constants_of(CADRE_OPTIMIZER_ADAM, 9), 9 + 3);
    cr_expect_eq(constants_of(CADRE_OPTIMIZER_ADAMW, 9), 9 + 4);
}
