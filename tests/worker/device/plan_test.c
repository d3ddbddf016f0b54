/*
 * The memory plan: no value is overwritten while somebody still reads it. Checked by an independent
 * look at finished plans, and by comparing runs bit for bit with plans in which nothing is reused.
 */
#include "worker/device/plan.h"

#include <stdio.h>
#include <string.h>

#include "tests/graph/random_program.h"
#include "tests/worker/device/run_program.h"

TestSuite(plan, .timeout = 240);

static bool
overlap(const cadre_plan_value_t *left, const cadre_plan_value_t *right)
{
    return left->place.kind == CADRE_PLACE_ARENA && right->place.kind == CADRE_PLACE_ARENA &&
           left->place.offset < right->place.offset + right->size_bytes &&
           right->place.offset < left->place.offset + left->size_bytes;
}

static int
last_read(const cadre_plan_t *plan, int32_t root)
{
    int last = -1;
    for (int at = 0; at < plan->step_count; at++) {
        for (int i = 0; i < plan->steps[at].input_count; i++) {
            last = plan->values[plan->steps[at].inputs[i]].root == root ? at : last;
        }
    }
    for (int i = 0; i < plan->copy_count; i++) {
        last = plan->values[plan->copies[i].value].root == root ? plan->step_count : last;
    }
    return last;
}

/* Sharing memory with an input that dies is for element and row operations, from the same place. */
static bool
in_place(const cadre_plan_t *plan, const cadre_plan_step_t *step, const cadre_plan_value_t *root)
{
    const cadre_plan_value_t *out = &plan->values[step->output];
    bool fits = step->op == CADRE_OP_MAP1 || step->op == CADRE_OP_MAP2 ||
                step->op == CADRE_OP_WHERE || step->op == CADRE_OP_SOFTMAX ||
                step->op == CADRE_OP_XENT_GRAD || step->op == CADRE_OP_ROWNORM ||
                step->op == CADRE_OP_ROWNORM_GRAD || step->op == CADRE_STEP_CHAIN;
    return fits && root->place.offset == out->place.offset && root->count == out->count &&
           root->dtype == out->dtype;
}

/* Returns how many outputs took over an input. */
static int
check_plan(const cadre_plan_t *plan)
{
    int taken_over = 0;
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        const cadre_plan_value_t *out = &plan->values[step->output];
        if (out->place.kind == CADRE_PLACE_ARENA) {
            cr_assert_eq(out->place.offset % 256, 0);
            cr_assert_leq(out->place.offset + out->size_bytes, plan->arena_size_bytes);
        }
        for (int before = 0; before < at; before++) {
            int32_t root = plan->steps[before].output;
            int last = last_read(plan, root);
            if (last < at || !overlap(out, &plan->values[root])) {
                continue;
            }
            cr_assert(last == at && in_place(plan, step, &plan->values[root]),
                      "step %d (%s) writes over step %d, read until %d", at,
                      cadre_op_text(step->op, step->attributes[0]), before, last);
            taken_over++;
        }
    }
    return taken_over;
}

static cadre_node_t
batch_arg(cadre_program_t *p, const char *name, cadre_dtype_t dtype, int64_t width)
{
    cadre_dim_t dims[2] = {cadre_dim_symbol("B"), cadre_dim(width)};
    return cadre_op_arg(p, name, dtype, dims, width > 0 ? 2 : 1);
}

static cadre_program_t *
mlp(void)
{
    cadre_program_t *p = cadre_program_new("mlp");
    cadre_node_t h = batch_arg(p, "x", CADRE_F32, 20);
    int64_t size[] = {20, 30, 30, 30, 4};
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof(name), "w%d", i);
        cadre_node_t w = cadre_op_var(p, name, (int64_t[]){size[i], size[i + 1]}, 2);
        snprintf(name, sizeof(name), "b%d", i);
        h = cadre_op_dense(p, h, w, cadre_op_var(p, name, &size[i + 1], 1));
        h = i < 3 ? cadre_op_dropout(p, i ? cadre_op_tanh(p, h) : cadre_op_relu(p, h), 0.2F, 1) : h;
    }
    cadre_node_t label = batch_arg(p, "label", CADRE_I32, 0);
    cadre_node_t loss = cadre_op_softmax_cross_entropy(p, h, label);
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    cadre_op_result(p, "accuracy", cadre_op_mean_all(p, cadre_op_correct(p, h, label)));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    return p;
}

static size_t
planned_size(const cadre_program_t *p, int64_t rows, unsigned flags, int *taken_over)
{
    int64_t symbol_values[CADRE_SYMBOLS_MAX] = {rows};
    cadre_plan_t *plan = NULL;
    cr_assert_eq(cadre_plan_new(p, symbol_values, flags, &plan), 0, "%s", cadre_error_text());
    *taken_over = check_plan(plan);
    size_t size_bytes = plan->arena_size_bytes;
    cadre_plan_destroy(&plan);
    return size_bytes;
}

Test(plan, of_a_deep_model_reuses_memory_and_works_in_place)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = mlp();
    int taken_over = 0;
    size_t all = planned_size(p, 64, 0, &taken_over);
    cr_assert_eq(taken_over, 0);
    size_t planned = planned_size(p, 64, CADRE_PLAN_REUSE, &taken_over);
    cr_assert_gt(taken_over, 10);
    cr_assert_lt(planned * 5 / 2, all, "%zu of %zu bytes", planned, all);
}

Test(plan, leaves_out_what_no_output_needs)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("dead");
    cadre_node_t x = batch_arg(p, "x", CADRE_F32, 3);
    cadre_op_exp(p, cadre_op_square(p, x));
    cadre_op_result(p, "y", cadre_op_neg(p, x));
    cr_assert_eq(cadre_program_finish(p), 0);
    int64_t symbol_values[CADRE_SYMBOLS_MAX] = {4};
    cadre_plan_t *plan = NULL;
    cr_assert_eq(cadre_plan_new(p, symbol_values, CADRE_PLAN_REUSE, &plan), 0);
    cr_assert_eq(plan->step_count, 1);
    cr_assert_eq(plan->arena_size_bytes, 0); /* the result is written where it is wanted */
    cadre_plan_destroy(&plan);
}

/* A run over all rows has positions; keys are for a worker to replace (row_program.h). */
Test(plan, refuses_keys_of_i64)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("keys");
    cadre_node_t keys = batch_arg(p, "keys", CADRE_I64, 3);
    cadre_op_result(p, "rows", cadre_op_take(p, cadre_op_table(p, "table", 4), keys));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    int64_t symbol_values[CADRE_SYMBOLS_MAX] = {4};
    cadre_plan_t *plan = NULL;
    cr_assert_eq(cadre_plan_new(p, symbol_values, CADRE_PLAN_REUSE, &plan), CADRE_EINVALID);
    cr_assert_str_eq(cadre_error_text(), "take: ids of i64 are keys, and only tables have any");
}

Test(plan, refuses_sizes_beyond_any_memory)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("large");
    cadre_op_result(p, "sum",
                    cadre_op_sum_all(p, cadre_op_neg(p, batch_arg(p, "x", CADRE_F32, 1 << 20))));
    cr_assert_eq(cadre_program_finish(p), 0);
    int64_t rows[] = {(int64_t)1 << 24, ((int64_t)1 << 24) + 1, (int64_t)1 << 43, INT64_MAX};
    for (int i = 0; i < 4; i++) {
        int64_t symbol_values[CADRE_SYMBOLS_MAX] = {rows[i]};
        cadre_plan_t *plan = NULL;
        int status = cadre_plan_new(p, symbol_values, CADRE_PLAN_REUSE, &plan);
        cr_assert_eq(status, i == 0 ? 0 : CADRE_ETOOLARGE, "%d: %s", i, cadre_error_text());
        cadre_plan_destroy(&plan);
    }
}

/* ---- random programs ---- */

static cadre_program_t *
finished_program(uint64_t seed)
{
    cadre_program_t *p = random_program(seed, RANDOM_POOL_MAX);
    cr_assert_eq(cadre_program_finish(p), 0, "seed %d: %s", (int)seed, cadre_error_text());
    return p;
}

enum { SEEDS = 60, RESULTS = RANDOM_RESULTS, SIDE = RANDOM_SIDE, WEIGHTS = SIDE * SIDE };

typedef struct {
    cadre_tensor_t results[RESULTS];
    float gradients[2][WEIGHTS];
} outcome_t;

static void
run_random(const cadre_program_t *p, cadre_slot_t *slot, int64_t rows, outcome_t *outcome)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){rows, SIDE}, 2, 1);
    cadre_tensor_t v = random_tensor(CADRE_F32, (int64_t[]){SIDE, SIDE}, 2, 2);
    cadre_tensor_t w = random_tensor(CADRE_F32, (int64_t[]){SIDE, SIDE}, 2, 3);
    const void *variables[2] = {v.data, w.data};
    void *gradients[2] = {outcome->gradients[0], outcome->gradients[1]};
    cadre_slot_run_t run = {.program = p,
                            .arguments = &x,
                            .argument_count = 1,
                            .variables = variables,
                            .seed = 11,
                            .gradients = gradients,
                            .results = outcome->results};
    cr_assert_eq(cadre_slot_run(slot, &run), 0, "%s", cadre_error_text());
    cadre_tensor_fini(&x);
    cadre_tensor_fini(&v);
    cadre_tensor_fini(&w);
}

static void
compare(outcome_t *left, outcome_t *right, uint64_t seed)
{
    cr_assert_eq(memcmp(left->gradients, right->gradients, sizeof(left->gradients)), 0,
                 "seed %d: gradients differ", (int)seed);
    for (int i = 0; i < RESULTS; i++) {
        size_t size_bytes = cadre_tensor_size_bytes(&left->results[i]);
        cr_assert_eq(memcmp(left->results[i].data, right->results[i].data, size_bytes), 0,
                     "seed %d: result %d differs", (int)seed, i);
        cadre_tensor_fini(&left->results[i]);
        cadre_tensor_fini(&right->results[i]);
    }
}

/* How many outputs of all programs' plans take over an input. */
static int
taken_over_of_all(unsigned flags)
{
    int taken_over = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = finished_program(seed);
        int here = 0;
        planned_size(p, 5, flags, &here);
        taken_over += here;
    }
    return taken_over;
}

Test(plan, of_any_program_writes_over_nothing_that_is_still_read)
{
    cr_assert_eq(taken_over_of_all(0), 0);
    cr_assert_eq(taken_over_of_all(CADRE_PLAN_CHAINS), 0);
    cr_assert_gt(taken_over_of_all(CADRE_PLAN_REUSE), 200);
    cr_assert_gt(taken_over_of_all(CADRE_PLAN_REUSE | CADRE_PLAN_CHAINS), 150);
}

static void
compare_with_plain_plans(const cadre_slot_options_t *options)
{
    cadre_slot_options_t plain = {
        .checks.no_reuse = true, .checks.no_chains = true, .checks.poison = true};
    runner_t reference = runner_open(&plain);
    runner_t runner = runner_open(options);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cadre_program_t *p = finished_program(seed);
        outcome_t left = {0};
        outcome_t right = {0};
        run_random(p, reference.slot, 5, &left);
        run_random(p, runner.slot, 5, &right);
        compare(&left, &right, seed);
        cadre_program_destroy(&p);
    }
    runner_close(&reference);
    runner_close(&runner);
}

Test(plan, of_any_program_gives_the_bits_of_a_plan_without_reuse)
{
    cadre_slot_options_t options = {
        .checks.no_chains = true, .checks.poison = true, .plans_max = 1};
    compare_with_plain_plans(&options);
}

Test(plan, of_any_program_gives_the_bits_of_a_plan_without_chains)
{
    cadre_slot_options_t separate = {
        .checks.no_reuse = true, .checks.poison = true, .plans_max = 1};
    cadre_slot_options_t shared = {.checks.poison = true, .plans_max = 1};
    compare_with_plain_plans(&separate);
    compare_with_plain_plans(&shared);
}

Test(plan, of_random_programs_has_each_operation)
{
    bool seen[UINT8_MAX + 1] = {false};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = finished_program(seed);
        cadre_plan_t *plan = NULL;
        cr_assert_eq(cadre_plan_new(p, (int64_t[CADRE_SYMBOLS_MAX]){5}, 0, &plan), 0);
        for (int32_t i = 0; i < plan->value_count; i++) {
            seen[cadre_program_node(p, i)->op] |= plan->values[i].live;
        }
        cadre_plan_destroy(&plan);
    }
#define EXPECT(NAME, number, word, ...) cr_assert(seen[number], "no %s in any plan", #word);
    CADRE_OP_LIST(EXPECT)
#undef EXPECT
}
