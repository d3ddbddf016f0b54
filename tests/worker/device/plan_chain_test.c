/*
 * Chains of element operations: which operations become one, checked by an independent look at
 * finished plans, and that a chain gives the bits of its operations one by one.
 */
#include "worker/device/plan_chain.h"

#include <stdio.h>
#include <string.h>

#include "tests/graph/random_program.h"
#include "tests/worker/device/run_program.h"

TestSuite(plan_chain, .timeout = 240);

static const unsigned all_flags = CADRE_PLAN_REUSE | CADRE_PLAN_CHAINS;

static cadre_plan_t *
planned(cadre_program_t *p)
{
    cadre_plan_t *plan = NULL;
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cr_assert_eq(cadre_plan_new(p, (int64_t[CADRE_SYMBOLS_MAX]){5}, all_flags, &plan), 0, "%s",
                 cadre_error_text());
    return plan;
}

static cadre_node_t
batch_arg(cadre_program_t *p, const char *name)
{
    return cadre_op_arg(p, name, CADRE_F32, (cadre_dim_t[]){cadre_dim_symbol("B"), cadre_dim(6)},
                        2);
}

/* ---- any plan ---- */

/* Links come in order, read what is there, and all but the last are read by a later one. */
static void
check_chain(const cadre_plan_t *plan, const cadre_plan_step_t *step)
{
    const cadre_chain_t *chain = &plan->chains[step->chain];
    bool input_read[CADRE_CHAIN_INPUTS_MAX] = {false};
    bool link_read[CADRE_CHAIN_LINKS_MAX] = {false};
    cr_assert(chain->link_count >= 2 && chain->link_count <= CADRE_CHAIN_LINKS_MAX);
    cr_assert_leq(step->input_count, CADRE_CHAIN_INPUTS_MAX);
    for (int k = 0; k < chain->link_count; k++) {
        const cadre_chain_link_t *link = &chain->links[k];
        int sources = link->op == CADRE_OP_WHERE ? 3 : link->op == CADRE_OP_MAP2 ? 2 : 1;
        cr_assert(sources > 1 || link->op == CADRE_OP_MAP1);
        for (int i = 0; i < sources; i++) {
            int source = link->sources[i];
            cr_assert(source >= 0 && source < step->input_count + k);
            bool *read = source < step->input_count ? &input_read[source]
                                                    : &link_read[source - step->input_count];
            *read = true;
        }
    }
    for (int i = 0; i < step->input_count; i++) {
        cr_assert(input_read[i]);
        cr_assert_eq(plan->values[step->inputs[i]].dtype, CADRE_F32);
    }
    for (int k = 0; k < chain->link_count - 1; k++) {
        cr_assert(link_read[k]);
    }
}

/* What a step or an output reads exists. */
static void
check_places(const cadre_plan_t *plan)
{
    for (int at = 0; at < plan->step_count; at++) {
        const cadre_plan_step_t *step = &plan->steps[at];
        cr_assert_neq(plan->values[step->output].place.kind, CADRE_PLACE_NONE);
        for (int i = 0; i < step->input_count; i++) {
            const cadre_plan_value_t *input = &plan->values[step->inputs[i]];
            cr_assert_neq(plan->values[input->root].place.kind, CADRE_PLACE_NONE);
        }
    }
    for (int i = 0; i < plan->result_count; i++) {
        const cadre_plan_value_t *result = &plan->values[plan->results[i]];
        cr_assert_neq(plan->values[result->root].place.kind, CADRE_PLACE_NONE);
    }
}

Test(plan_chain, of_any_program_is_well_formed)
{
    int links = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p =
            random_program(seed, RANDOM_POOL_MAX);
        cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = planned(p);
        check_places(plan);
        for (int at = 0; at < plan->step_count; at++) {
            if (plan->steps[at].op == CADRE_STEP_CHAIN) {
                check_chain(plan, &plan->steps[at]);
                links += plan->chains[plan->steps[at].chain].link_count;
            }
        }
    }
    cr_assert_gt(links, 1000);
}

/* ---- what joins ---- */

Test(plan_chain, takes_in_what_leads_to_its_last_operation)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("gradient of tanh");
    cadre_node_t x = batch_arg(p, "x");
    cadre_node_t y = batch_arg(p, "y");
    cadre_node_t slope =
        cadre_op_sub(p, cadre_op_const_f32(p, 1), cadre_op_square(p, cadre_op_detach(p, y)));
    cadre_op_result(p, "z", cadre_op_mul(p, x, slope));
    cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = planned(p);
    cr_assert_eq(plan->step_count, 1);
    cr_assert_eq(plan->chain_count, 1);
    cr_assert_eq(plan->steps[0].input_count, 3);
    const cadre_chain_t *chain = &plan->chains[0];
    cr_assert_eq(chain->link_count, 3);
    cr_assert_eq(chain->links[0].function, CADRE_MAP1_SQUARE);
    cr_assert_eq(chain->links[1].function, CADRE_MAP2_SUB);
    cr_assert_eq(chain->links[1].sources[1], 3); /* the square */
    cr_assert_eq(chain->links[2].function, CADRE_MAP2_MUL);
    cr_assert_eq(chain->links[2].sources[1], 4);
    cr_assert_eq(plan->arena_size_bytes, 0);
}

Test(plan_chain, leaves_out_what_others_read)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("others");
    cadre_node_t x = batch_arg(p, "x");
    cadre_node_t shown = cadre_op_exp(p, x);         /* a result */
    cadre_node_t summed = cadre_op_square(p, shown); /* read by a reduction too */
    cadre_node_t twice = cadre_op_relu(p, summed);   /* by two links of one chain: joins */
    cadre_node_t narrow = cadre_op_neg(p, cadre_op_sum(p, summed, 0)); /* of another shape */
    cadre_node_t y = cadre_op_mul(p, cadre_op_add(p, twice, narrow), twice);
    cadre_op_result(p, "shown", shown);
    cadre_op_result(p, "y", y);
    cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = planned(p);
    cr_assert_eq(plan->step_count, 5, "%d", plan->step_count);
    cr_assert_eq(plan->chain_count, 1);
    cr_assert_eq(plan->chains[0].link_count, 3);
    cr_assert_eq(plan->steps[4].op, CADRE_STEP_CHAIN);
    cr_assert_eq(plan->steps[4].input_count, 2);
}

Test(plan_chain, leaves_out_comparisons_of_integers_and_other_shapes)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("types");
    cadre_node_t x = batch_arg(p, "x");
    cadre_node_t label =
        cadre_op_arg(p, "label", CADRE_I32, (cadre_dim_t[]){cadre_dim_symbol("B")}, 1);
    cadre_node_t right = cadre_op_eq(p, cadre_op_argmax(p, x, 1), label);
    cadre_op_result(p, "wrong", cadre_op_neg(p, right));
    cadre_extents_t flat = {.rank = 1, .extents = {cadre_program_at(p, x)->shape.extents[0]}};
    flat.extents[0].factor *= 6;
    cadre_node_t turned = cadre_program_emit_reshape(p, cadre_op_exp(p, x), &flat);
    cadre_op_result(p, "turned", cadre_op_add(p, turned, turned));
    cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = planned(p);
    cr_assert_eq(plan->chain_count, 0);
    cr_assert_eq(plan->step_count, 5);
}

Test(plan_chain, ends_at_its_limits)
{
    for (int more = 0; more < 2; more++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("long");
        cadre_node_t x = batch_arg(p, "x");
        for (int i = 0; i < CADRE_CHAIN_LINKS_MAX + more; i++) {
            x = cadre_op_tanh(p, x);
        }
        cadre_op_result(p, "y", x);
        cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = planned(p);
        cr_assert_eq(plan->step_count, 1 + more);
        cr_assert_eq(plan->chains[0].link_count, CADRE_CHAIN_LINKS_MAX);
    }
    for (int more = 0; more < 2; more++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("wide");
        cadre_node_t sum = batch_arg(p, "0");
        for (int i = 1; i < CADRE_CHAIN_INPUTS_MAX + more; i++) {
            char name[16];
            snprintf(name, sizeof(name), "%d", i);
            sum = cadre_op_add(p, sum, batch_arg(p, name));
        }
        cadre_op_result(p, "y", sum);
        cadre_auto(cadre_plan_destroy) cadre_plan_t *plan = planned(p);
        cr_assert_eq(plan->step_count, 1 + more);
        cr_assert_eq(plan->steps[more].input_count, CADRE_CHAIN_INPUTS_MAX);
    }
}

/* ---- what it computes ---- */

/* Rows, columns and numbers broadcast into matrices that are no multiple of a block. */
static void
compare_shape(int64_t rows, int64_t columns)
{
    cadre_tensor_t tensors[] = {random_tensor(CADRE_F32, (int64_t[]){rows, columns}, 2, 1),
                                random_tensor(CADRE_F32, (int64_t[]){columns}, 1, 2),
                                random_tensor(CADRE_F32, (int64_t[]){rows, 1}, 2, 3),
                                random_tensor(CADRE_F32, (int64_t[]){2, rows, columns}, 3, 4)};
    cadre_program_t *p = cadre_program_new("broadcast");
    cadre_node_t x = arg_like(p, "x", &tensors[0]);
    cadre_node_t row = arg_like(p, "row", &tensors[1]);
    cadre_node_t column = arg_like(p, "column", &tensors[2]);
    cadre_node_t deep = arg_like(p, "deep", &tensors[3]);
    cadre_node_t y = cadre_op_tanh(p, cadre_op_add(p, cadre_op_mul(p, x, column), row));
    cadre_op_result(p, "y", y);
    cadre_node_t z =
        cadre_op_where(p, cadre_op_gt(p, deep, row), cadre_op_sub(p, deep, x),
                       cadre_op_mul(p, cadre_op_exp(p, deep), cadre_op_const_f32(p, 0.5F)));
    cadre_op_result(p, "z", cadre_op_max(p, cadre_op_add(p, z, column), deep));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cadre_tensor_t results[2][2] = {0};
    for (int chained = 0; chained < 2; chained++) {
        cadre_slot_options_t options = {.checks.poison = true, .checks.no_chains = !chained};
        runner_t runner = runner_open(&options);
        cadre_slot_run_t run = {
            .program = p, .arguments = tensors, .argument_count = 4, .results = results[chained]};
        cr_assert_eq(cadre_slot_run(runner.slot, &run), 0, "%s", cadre_error_text());
        runner_close(&runner);
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(
            memcmp(results[0][i].data, results[1][i].data, cadre_tensor_size_bytes(&results[0][i])),
            0, "%d x %d: result %d differs", (int)rows, (int)columns, i);
        cadre_tensor_fini(&results[0][i]);
        cadre_tensor_fini(&results[1][i]);
    }
    for (int i = 0; i < 4; i++) {
        cadre_tensor_fini(&tensors[i]);
    }
    cadre_program_destroy(&p);
}

Test(plan_chain, gives_the_bits_of_its_operations_for_any_shape)
{
    const int64_t sizes[] = {1, 2, 7, 10, 64, 511, 512, 513, 1500};
    for (size_t i = 0; i < CADRE_COUNT_OF(sizes); i++) {
        compare_shape(1, sizes[i]);
        compare_shape(3, sizes[i]);
        compare_shape(sizes[i], 1);
        compare_shape(131, sizes[i]);
    }
}
