/*
 * Groups that may run as one matrix product: what is found, that memory serves both ways of running
 * them, and that a device that runs them step by step computes the same bits.
 */
#include "worker/device/plan_fuse.h"

#include <stdio.h>
#include <string.h>

#include "tests/worker/device/random_layers.h"
#include "tests/worker/device/run_program.h"
#include "worker/device/device_module.h"

TestSuite(plan_fuse, .timeout = 240);

enum { SEEDS = 400, WIDTH = 6, OUTPUTS_MAX = 16, ALL = 7 };

static cadre_plan_t *
planned(const cadre_program_t *p, unsigned flags)
{
    cadre_plan_t *plan = NULL;
    cr_assert_eq(cadre_plan_new(p, (int64_t[CADRE_SYMBOLS_MAX]){0}, flags, &plan), 0);
    return plan;
}

static int64_t
rows_of(uint64_t seed)
{
    static const int64_t rows[] = {1, 2, 5, 9, 140};
    return rows[seed % 5];
}

static cadre_program_t *
random_program_of(uint64_t seed)
{
    cadre_program_t *p = cadre_program_new("layers");
    cadre_dim_t dims[] = {cadre_dim(rows_of(seed)), cadre_dim(WIDTH)};
    random_layers(p, cadre_op_arg(p, "x", CADRE_F32, dims, 2), rows_of(seed), WIDTH, seed);
    cr_assert_eq(cadre_program_finish(p), 0, "seed %d: %s", (int)seed, cadre_error_text());
    return p;
}

/* ---- what a plan must keep to ---- */

static int32_t
input_root(const cadre_plan_t *plan, int at, int input)
{
    return plan->values[plan->steps[at].inputs[input]].root;
}

static int
maker_of(const cadre_plan_t *plan, int32_t root)
{
    for (int at = 0; at < plan->step_count; at++) {
        if (plan->steps[at].output == root) {
            return at;
        }
    }
    return -1;
}

static int
last_read(const cadre_plan_t *plan, int32_t root)
{
    int last = -1;
    for (int at = 0; at < plan->step_count; at++) {
        for (int i = 0; i < plan->steps[at].input_count; i++) {
            last = input_root(plan, at, i) == root ? at : last;
        }
    }
    return last;
}

typedef struct {
    size_t offset;
    size_t size_bytes;
} range_t;

static bool
overlap(range_t left, range_t right)
{
    return left.offset < right.offset + right.size_bytes &&
           right.offset < left.offset + left.size_bytes;
}

static bool
arena_range(const cadre_plan_t *plan, int32_t root, range_t *range)
{
    const cadre_plan_value_t *value = &plan->values[root];
    *range = (range_t){value->place.offset, value->size_bytes};
    return value->place.kind == CADRE_PLACE_ARENA;
}

/* Nothing that is read once the group has begun is where `written` is, but for what it makes. */
static void
check_written(const cadre_plan_t *plan, const cadre_plan_fusion_t *fusion, int32_t written,
              uint64_t seed)
{
    range_t range;
    if (!arena_range(plan, written, &range)) {
        return;
    }
    for (int at = 0; at < fusion->first; at++) {
        int32_t other = plan->steps[at].output;
        range_t place;
        cr_assert(last_read(plan, other) < fusion->first || !arena_range(plan, other, &place) ||
                      !overlap(range, place),
                  "seed %d: value %d is written over %d", (int)seed, written, other);
    }
}

static void
check_mask(const cadre_plan_t *plan, int index, uint64_t seed)
{
    const cadre_plan_mask_t *mask = &plan->masks[index];
    range_t range = {mask->offset, mask->size_bytes};
    cr_assert(mask->row_bits % 128 == 0 && mask->first < mask->last);
    cr_assert_leq(mask->offset + mask->size_bytes, plan->arena_size_bytes);
    for (int at = 0; at <= mask->last; at++) {
        int32_t value = plan->steps[at].output;
        range_t place;
        bool lives = at >= mask->first || last_read(plan, value) >= mask->first;
        cr_assert(!lives || !arena_range(plan, value, &place) || !overlap(range, place),
                  "seed %d: mask %d is where value %d is", (int)seed, index, value);
    }
    for (int i = 0; i < index; i++) {
        const cadre_plan_mask_t *other = &plan->masks[i];
        bool together = other->first <= mask->last && mask->first <= other->last;
        cr_assert(!together || !overlap(range, (range_t){other->offset, other->size_bytes}));
    }
}

static void
check_order(const cadre_plan_t *plan, uint64_t seed)
{
    for (int at = 0; at < plan->step_count; at++) {
        for (int i = 0; i < plan->steps[at].input_count; i++) {
            cr_assert_lt(maker_of(plan, input_root(plan, at, i)), at,
                         "seed %d: step %d runs too early", (int)seed, at);
        }
    }
}

static void
check_plan(const cadre_plan_t *plan, uint64_t seed)
{
    check_order(plan, seed);
    for (int i = 0; i < plan->fusion_count; i++) {
        const cadre_plan_fusion_t *fusion = &plan->fusions[i];
        cr_assert(fusion->count > 1 && plan->steps[fusion->product].op == CADRE_OP_MATMUL);
        for (int at = 0; at < plan->step_count; at++) {
            bool inside = at >= fusion->first && at < fusion->first + fusion->count;
            cr_assert_eq(plan->steps[at].fusion == i + 1, inside);
            if (inside) {
                check_written(plan, fusion, plan->steps[at].output, seed);
            }
        }
    }
    for (int i = 0; i < plan->mask_count; i++) {
        check_mask(plan, i, seed);
    }
}

Test(plan_fuse, memory_serves_both_ways_of_running_a_group)
{
    int kinds[4] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = random_program_of(seed);
        for (unsigned flags = CADRE_PLAN_FUSE; flags <= ALL; flags++) {
            cadre_plan_t *plan = planned(p, flags);
            check_plan(plan, seed);
            for (int i = 0; i < plan->fusion_count; i++) {
                const cadre_plan_fusion_t *fusion = &plan->fusions[i];
                kinds[fusion->relu ? 0 : fusion->bias >= 0 ? 1 : fusion->mask >= 0 ? 2 : 3]++;
            }
            cadre_plan_destroy(&plan);
        }
    }
    for (int i = 0; i < 4; i++) {
        cr_assert_gt(kinds[i], 200, "kind %d is found %d times", i, kinds[i]);
    }
}

/* ---- what is found ---- */

static cadre_node_t
variable(cadre_program_t *p, const char *name, int64_t rows, int64_t columns)
{
    return cadre_op_var(p, name, (int64_t[]){rows, columns}, columns > 0 ? 2 : 1);
}

/* x [7,6] - dense 5, relu - dense 5, relu - dense 3 */
static cadre_program_t *
mlp(bool biased)
{
    cadre_program_t *p = cadre_program_new("mlp");
    cadre_node_t none = {0};
    cadre_node_t h =
        cadre_op_arg(p, "x", CADRE_F32, (cadre_dim_t[]){cadre_dim(7), cadre_dim(6)}, 2);
    h = cadre_op_relu(
        p, cadre_op_dense(p, h, variable(p, "w0", 6, 5), biased ? variable(p, "b0", 5, 0) : none));
    h = cadre_op_relu(
        p, cadre_op_dense(p, h, variable(p, "w1", 5, 5), biased ? variable(p, "b1", 5, 0) : none));
    h = cadre_op_dense(p, h, variable(p, "w2", 5, 3), biased ? variable(p, "b2", 3, 0) : none);
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, h));
    cadre_op_minimize(p, loss);
    cadre_op_result(p, "loss", loss);
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    return p;
}

typedef struct {
    int relus;
    int biases;
    int masked;
    int output_sums;
    int factor_sums;
} found_t;

static found_t
count(const cadre_plan_t *plan)
{
    found_t found = {0};
    for (int i = 0; i < plan->fusion_count; i++) {
        const cadre_plan_fusion_t *fusion = &plan->fusions[i];
        found.relus += fusion->relu;
        found.biases += fusion->bias >= 0;
        found.masked += fusion->mask >= 0 && !fusion->relu;
        found.output_sums += fusion->sum == CADRE_FUSION_SUM_OUTPUT;
        found.factor_sums += fusion->sum > CADRE_FUSION_SUM_OUTPUT;
    }
    return found;
}

Test(plan_fuse, finds_all_of_a_network)
{
    for (int biased = 0; biased < 2; biased++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = mlp(biased);
        cadre_plan_t *plan = planned(p, ALL);
        found_t found = count(plan);
        cr_assert_eq(found.relus, 2);
        cr_assert_eq(found.biases, biased ? 3 : 0);
        cr_assert_eq(found.masked, 2);
        cr_assert_eq(plan->mask_count, 2);
        cr_assert_eq(found.output_sums, biased ? 2 : 0);
        cr_assert_eq(found.factor_sums, biased ? 1 : 0);
        cadre_plan_destroy(&plan);
        plan = planned(p, CADRE_PLAN_REUSE | CADRE_PLAN_CHAINS);
        cr_assert_eq(plan->fusion_count, 0);
        cadre_plan_destroy(&plan);
    }
}

/* What comes into a group ends with it: of layers in a row two activations exist at a time. */
Test(plan_fuse, groups_give_their_inputs_memory_back)
{
    enum { LAYERS = 6, SIDE = 64 };
    cadre_auto(cadre_program_destroy) cadre_program_t *p = cadre_program_new("forward");
    cadre_dim_t dims[] = {cadre_dim(SIDE), cadre_dim(SIDE)};
    cadre_node_t h = cadre_op_arg(p, "x", CADRE_F32, dims, 2);
    for (int i = 0; i < LAYERS; i++) {
        char name[8];
        snprintf(name, sizeof(name), "w%d", i);
        cadre_node_t weight = variable(p, name, SIDE, SIDE);
        snprintf(name, sizeof(name), "b%d", i);
        h = cadre_op_relu(p, cadre_op_dense(p, h, weight, variable(p, name, SIDE, 0)));
    }
    cadre_op_result(p, "sum", cadre_op_sum_all(p, h));
    cr_assert_eq(cadre_program_finish(p), 0, "%s", cadre_error_text());
    cadre_plan_t *plan = planned(p, ALL);
    cr_assert_eq(plan->fusion_count, LAYERS);
    cr_assert_leq(plan->arena_size_bytes, 2 * SIDE * SIDE * sizeof(float));
    cadre_plan_destroy(&plan);
}

/* ---- step by step ---- */

typedef struct {
    float *gradients[OUTPUTS_MAX];
    cadre_tensor_t results[OUTPUTS_MAX];
} outcome_t;

static size_t
size_of(const cadre_program_t *p, int variable_index)
{
    const cadre_program_variable_t *entry = cadre_program_variable(p, variable_index);
    size_t size_bytes = sizeof(float);
    for (int i = 0; i < entry->rank; i++) {
        size_bytes *= (size_t)entry->shape[i];
    }
    return size_bytes;
}

static void
run_on(cadre_slot_t *slot, const cadre_program_t *p, uint64_t seed, outcome_t *outcome)
{
    cadre_tensor_t x = random_tensor(CADRE_F32, (int64_t[]){rows_of(seed), WIDTH}, 2, seed);
    void *variables[OUTPUTS_MAX] = {0};
    for (int i = 0; i < cadre_program_variable_count(p); i++) {
        size_t size_bytes = size_of(p, i);
        float *numbers = variables[i] = cadre_calloc(1, size_bytes);
        for (size_t k = 0; k < size_bytes / sizeof(float); k++) {
            numbers[k] = 2 * cadre_random_uniform(seed, (uint64_t)i, k) - 1;
        }
    }
    for (int i = 0; i < cadre_program_push_count(p); i++) {
        outcome->gradients[i] = cadre_calloc(1, size_of(p, cadre_program_push(p, i)->variable));
    }
    cadre_slot_run_t run = {.program = p,
                            .arguments = &x,
                            .argument_count = 1,
                            .variables = (const void *const *)variables,
                            .seed = seed,
                            .gradients = (void *const *)outcome->gradients,
                            .results = outcome->results};
    cr_assert_eq(cadre_slot_run(slot, &run), 0, "%s", cadre_error_text());
    for (int i = 0; i < cadre_program_variable_count(p); i++) {
        free(variables[i]);
    }
    cadre_tensor_fini(&x);
}

static void
expect_same(const cadre_program_t *p, outcome_t *left, outcome_t *right, uint64_t seed)
{
    for (int i = 0; i < cadre_program_push_count(p); i++) {
        cr_assert_eq(memcmp(left->gradients[i], right->gradients[i],
                            size_of(p, cadre_program_push(p, i)->variable)),
                     0, "seed %d: gradient %d", (int)seed, i);
        free(left->gradients[i]);
        free(right->gradients[i]);
    }
    for (int i = 0; i < cadre_program_result_count(p); i++) {
        cr_assert_eq(memcmp(left->results[i].data, right->results[i].data,
                            cadre_tensor_size_bytes(&left->results[i])),
                     0, "seed %d: result %d", (int)seed, i);
        cadre_tensor_fini(&left->results[i]);
        cadre_tensor_fini(&right->results[i]);
    }
}

Test(plan_fuse, groups_run_step_by_step_give_the_bits_of_plans_without)
{
    cadre_device_functions_t functions = cadre_cpu_functions;
    functions.plan_flags |= CADRE_PLAN_FUSE;
    cadre_device_options_t options = {.name = "cpu", .threads = 1};
    cadre_slot_options_t poisoned = {.checks.poison = true};
    cadre_slot_options_t separate = {
        .checks.poison = true, .checks.no_fusion = true, .checks.no_reuse = true};
    cadre_device_t *device = NULL;
    cadre_slot_t *slots[2] = {NULL};
    cr_assert_eq(cadre_device_open_functions(&functions, &options, &device), 0);
    cr_assert_eq(cadre_slot_open(device, &poisoned, &slots[0]), 0);
    cr_assert_eq(cadre_slot_open(device, &separate, &slots[1]), 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        cadre_auto(cadre_program_destroy) cadre_program_t *p = random_program_of(seed);
        outcome_t left = {0};
        outcome_t right = {0};
        run_on(slots[0], p, seed, &left);
        run_on(slots[1], p, seed, &right);
        expect_same(p, &left, &right, seed);
    }
    cadre_slot_close(&slots[0]);
    cadre_slot_close(&slots[1]);
    cadre_device_close(&device);
}
