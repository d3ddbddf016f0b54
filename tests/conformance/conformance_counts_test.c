/* Counts and statistics that f32 cannot hold, in variables of programs: ids V18 and V19 of
 * docs/conformance.md. */
#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_counts, .timeout = 900);

enum { KILL_EVERY = 100, CLOSURES = 3 * KILL_EVERY };

static const int64_t step = INT64_C(1) << 33;

/* Creates a number to which closures add, at zero. */
static cadre_variable_t *
create_sum(stage_t *stage, const char *name, cadre_dtype_t dtype)
{
    cadre_variable_options_t options = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(stage->coordinator, name, dtype, NULL, 0, &options, &variable));
    return variable;
}

static const cadre_function_t *
register_program(stage_t *stage, cadre_program_t *p)
{
    cadre_function_t *function = NULL;
    OK(cadre_function_register(stage->coordinator, &p, &function));
    return function;
}

/* Adds 2^33 to "count", and gives as "next" what it found and one more. */
static cadre_program_t *
counting_program(void)
{
    cadre_program_t *p = cadre_program_new("count");
    cadre_node_t count = cadre_op_var_of(p, "count", CADRE_I64, NULL, 0);
    cadre_op_push(p, count, cadre_op_const_i64(p, step));
    cadre_op_result(p, "next", cadre_op_add(p, count, cadre_op_const_i64(p, 1)));
    return p;
}

static void
expect_count(cadre_variable_t *count, int64_t wanted)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    OK(cadre_variable_read(count, &value, LOCAL_WAIT_MS));
    cr_assert_eq(value.dtype, CADRE_I64);
    cr_assert_eq(*(const int64_t *)value.data, wanted, "%lld",
                 (long long)*(const int64_t *)value.data);
}

static void
replace_worker(stage_t *stage)
{
    uint64_t lost = cadre_coordinator_totals(stage->coordinator).workers_lost;
    local_cluster_restart(&stage->cluster, LOCAL_WORKER, 0);
    local_cluster_wait_lost(&stage->cluster, lost + 1);
    local_cluster_wait_workers(&stage->cluster, stage->cluster.options.workers);
}

Test(conformance_counts, V18_a_count_beyond_f32_is_exact_although_workers_die)
{
    stage_t stage;
    stage_open_capacity(&stage, 2, 2, 8); /* so that scheduling is no faster than the work */
    cadre_variable_t *count = create_sum(&stage, "count", CADRE_I64);
    const cadre_function_t *function = register_program(&stage, counting_program());
    int64_t closures = 0;
    do {
        for (int i = 0; i < CLOSURES; i++) {
            cadre_call_t call = cadre_call_tensors(NULL, 0);
            OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
            if (i % KILL_EVERY == KILL_EVERY / 2) {
                replace_worker(&stage);
            }
        }
        closures += CLOSURES;
        stage_join(&stage);
        expect_count(count, closures * step);
    } while (cadre_coordinator_totals(stage.coordinator).attempts == (uint64_t)closures);
    stage_close(&stage);
}

Test(conformance_counts, V18_a_result_is_of_the_dtype_that_it_was_computed_in)
{
    stage_t stage;
    cadre_future_t *future = NULL;
    cadre_auto(cadre_tensor_fini) cadre_tensor_t next = {0};
    stage_open(&stage, 1, 1);
    cadre_variable_t *count = create_sum(&stage, "count", CADRE_I64);
    int64_t before = (INT64_C(1) << 53) + 1;
    const cadre_tensor_t value = cadre_tensor_view(CADRE_I64, &before, NULL, 0);
    OK(cadre_variable_assign(count, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    cadre_call_t call = cadre_call_tensors(NULL, 0);
    OK(cadre_coordinator_schedule(stage.coordinator, register_program(&stage, counting_program()),
                                  &call, LOCAL_WAIT_MS, &future));
    OK(cadre_future_fetch(future, "next", &next, LOCAL_WAIT_MS));
    cr_assert_eq(next.dtype, CADRE_I64);
    cr_assert_eq(*(const int64_t *)next.data, before + 1);
    expect_count(count, before + step);
    cadre_future_destroy(&future);
    stage_close(&stage);
}

/* A program that was built for another dtype than the variable has. */
Test(conformance_counts, V18_a_variable_of_another_dtype_is_refused)
{
    stage_t stage;
    cadre_function_t *function = NULL;
    stage_open(&stage, 1, 1);
    (void)create_sum(&stage, "count", CADRE_I32);
    cadre_program_t *p = counting_program();
    FAILS(cadre_function_register(stage.coordinator, &p, &function), CADRE_ESHAPE,
          "program count: variable count is i32 [], not i64 []");
    cadre_program_destroy(&p);
    stage_close(&stage);
}

/* ---- a running mean ---- */

enum { BATCH = 8, BATCHES = 64 };

/* Adds the sum of a batch to "sum", and its size to "seen". */
static const cadre_function_t *
register_observe(stage_t *stage)
{
    cadre_program_t *p = cadre_program_new("observe");
    const cadre_dim_t dims[] = {cadre_dim_symbol("B")};
    cadre_node_t x = cadre_op_arg(p, "x", CADRE_F64, dims, 1);
    cadre_node_t ones = cadre_op_cast(p, cadre_op_eq(p, x, x), CADRE_I64);
    cadre_op_push(p, cadre_op_var_of(p, "sum", CADRE_F64, NULL, 0), cadre_op_sum(p, x, 0));
    cadre_op_push(p, cadre_op_var_of(p, "seen", CADRE_I64, NULL, 0), cadre_op_sum(p, ones, 0));
    return register_program(stage, p);
}

/* Gives the mean of all that was seen. */
static const cadre_function_t *
register_mean(stage_t *stage)
{
    cadre_program_t *p = cadre_program_new("mean");
    cadre_node_t sum = cadre_op_var_of(p, "sum", CADRE_F64, NULL, 0);
    cadre_node_t seen = cadre_op_var_of(p, "seen", CADRE_I64, NULL, 0);
    cadre_op_result(p, "mean", cadre_op_div(p, sum, cadre_op_cast(p, seen, CADRE_F64)));
    return register_program(stage, p);
}

/* Number `i` of all: near 2^30, so that f32 would lose what tells them apart, and with so few bits
 * that f64 holds every sum of them exactly. */
static double
observed(int i)
{
    return 0x1p30 + i * 0x1p-8;
}

static void
observe(stage_t *stage, const cadre_function_t *function, int batch)
{
    double numbers[BATCH];
    for (int i = 0; i < BATCH; i++) {
        numbers[i] = observed(batch * BATCH + i);
    }
    const int64_t shape[] = {BATCH};
    const cadre_tensor_t tensor = cadre_tensor_view(CADRE_F64, numbers, shape, 1);
    const cadre_argument_t x = {.name = "x", .tensor = &tensor};
    cadre_call_t call = cadre_call_tensors(&x, 1);
    OK(cadre_coordinator_schedule(stage->coordinator, function, &call, LOCAL_WAIT_MS, NULL));
}

Test(conformance_counts, V19_a_running_mean_in_f64_is_exact_although_ps_and_workers_die)
{
    stage_t stage;
    cadre_future_t *future = NULL;
    cadre_auto(cadre_tensor_fini) cadre_tensor_t mean = {0};
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    (void)create_sum(&stage, "sum", CADRE_F64);
    (void)create_sum(&stage, "seen", CADRE_I64);
    const cadre_function_t *function = register_observe(&stage);
    for (int batch = 0; batch < BATCHES; batch++) {
        observe(&stage, function, batch);
        if (batch == BATCHES / 4) {
            OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
        }
        if (batch % (BATCHES / 4) == BATCHES / 8) {
            local_cluster_restart(&stage.cluster, LOCAL_PS, batch / (BATCHES / 4) % 2);
            replace_worker(&stage);
        }
    }
    stage_join(&stage);

    cadre_call_t call = cadre_call_tensors(NULL, 0);
    OK(cadre_coordinator_schedule(stage.coordinator, register_mean(&stage), &call, LOCAL_WAIT_MS,
                                  &future));
    OK(cadre_future_fetch(future, "mean", &mean, LOCAL_WAIT_MS));
    cr_assert_eq(mean.dtype, CADRE_F64);
    const double wanted = (observed(0) + observed(BATCH * BATCHES - 1)) / 2;
    cr_assert_eq(*(const double *)mean.data, wanted, "%.17g, not %.17g", *(const double *)mean.data,
                 wanted);
    cadre_future_destroy(&future);
    stage_close(&stage);
}
