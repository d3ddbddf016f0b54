/* Variables that travel as bf16 (cadre_variable_options_t.wire), with real processes: every update
 * counts once, what a ps keeps, saves and gives the coordinator is f32, and what bf16 cannot hold
 * is refused. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_wire, .timeout = 900);

static local_cluster_options_t
options_for(int ps, int workers, bool resumes)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.resume = resumes ? CADRE_RESUME_AUTO : CADRE_RESUME_NEVER;
    return options;
}

static cadre_variable_t *
create(stage_t *stage, const char *name, cadre_dtype_t wire, const char *optimizer)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {WIDE_ROWS};
    cadre_variable_t *variable = NULL;
    OK(cadre_optimizer_named(optimizer, &options.optimizer));
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = stage->cluster.options.ps;
    options.wire = wire;
    OK(cadre_variable_create(stage->coordinator, name, CADRE_F32, shape, 1, &options, &variable));
    cr_assert_eq(cadre_variable_wire(variable), wire);
    return variable;
}

/* A cluster in which "wide" travels as `wire`, starts at zero and adds. */
static void
open_stage(stage_t *stage, int ps, int workers, cadre_dtype_t wire)
{
    local_cluster_options_t options = options_for(ps, workers, false);
    *stage = (stage_t){.coordinator = NULL};
    local_cluster_open(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
    stage->wide = create(stage, "wide", wire, "add");
}

static void
resume(stage_t *stage, int ps, cadre_dtype_t wire)
{
    local_cluster_options_t options = options_for(ps, 1, true);
    local_cluster_end_job(&stage->cluster);
    local_cluster_begin_job(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
    stage->wide = create(stage, "wide", wire, "add");
}

static void
expect_all(cadre_variable_t *variable, double value)
{
    cadre_tensor_t read = {.data = NULL};
    OK(cadre_variable_read(variable, &read, LOCAL_WAIT_MS));
    for (int i = 0; i < WIDE_ROWS; i++) {
        double found = (double)((const float *)read.data)[i];
        cr_assert(found >= value && found <= value, "%s[%d] is %.9g, not %.9g",
                  cadre_variable_name(variable), i, found, value);
    }
    cadre_tensor_fini(&read);
}

/* 257 and so on have no place in bf16: sums stay exact because the ps keeps f32. */
BOTH_SIZES(conformance_wire, each_update_counts_once_and_in_f32)
{
    enum { CALLS = 700 };
    stage_t stage;
    open_stage(&stage, size, size, CADRE_BF16);
    stage_schedule(&stage, "add_one", CALLS);
    stage_join(&stage);
    stage_expect(&stage, CALLS);
    stage_expect_applied(&stage, CALLS);
    stage_close(&stage);
}

BOTH_SIZES(conformance_wire, workers_see_values_rounded_and_the_coordinator_does_not)
{
    float values[WIDE_ROWS];
    stage_t stage;
    cadre_tensor_t seen = {.data = NULL};
    cadre_tensor_t precise = stage_row(values, 1.0f + 0x1p-9f);
    open_stage(&stage, size, 1, CADRE_BF16);
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &precise, LOCAL_WAIT_MS));
    stage_expect(&stage, 1 + 0x1p-9);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "read"), NULL,
                                  LOCAL_WAIT_MS, &future));
    OK(cadre_future_fetch(future, "wide", &seen, LOCAL_WAIT_MS));
    cr_assert_eq(seen.dtype, CADRE_F32);
    cr_assert_eq(cadre_tensor_count(&seen), WIDE_ROWS);
    for (int i = 0; i < WIDE_ROWS; i++) {
        cr_assert_eq(((const float *)seen.data)[i], 1.0f);
    }
    cadre_tensor_fini(&seen);
    cadre_future_destroy(&future);
    stage_close(&stage);
}

/* The sum of a counter over all ps, as the status has it: what their last heartbeats said. */
static uint64_t
ps_counter(stage_t *stage, const char *name)
{
    cadre_auto(cadre_free) char *text = NULL;
    OK(cadre_coordinator_status_json(stage->coordinator, &text));
    json_t *status = json_loads(text, 0, NULL);
    uint64_t sum = 0;
    size_t i = 0;
    json_t *task = NULL;
    json_array_foreach(json_object_get(status, "tasks"), i, task)
    {
        if (strcmp(json_string_value(json_object_get(task, "role")), "ps") == 0) {
            const json_t *counters = json_object_get(task, "counters");
            sum += (uint64_t)json_integer_value(json_object_get(counters, name));
        }
    }
    json_decref(status);
    return sum;
}

Test(conformance_wire, half_the_bytes_travel)
{
    enum { CALLS = 50 };
    for (int narrow = 0; narrow < 2; narrow++) {
        const uint64_t bytes = CALLS * WIDE_ROWS * (narrow ? 2 : 4);
        stage_t stage;
        open_stage(&stage, 2, 1, narrow ? CADRE_BF16 : CADRE_F32);
        stage_schedule(&stage, "add_one", CALLS);
        stage_join(&stage);
        EVENTUALLY(ps_counter(&stage, "applied") == 2 * CALLS);
        cr_expect_eq(ps_counter(&stage, "push_bytes"), bytes);
        for (int i = 0; i < CALLS; i++) {
            cadre_future_t *future = NULL;
            OK(cadre_coordinator_schedule(stage.coordinator, stage_function(&stage, "read"), NULL,
                                          LOCAL_WAIT_MS, &future));
            OK(cadre_future_wait(future, LOCAL_WAIT_MS));
            cadre_future_destroy(&future);
            stage_schedule(&stage, "add_one", 1); /* so that the next pull is of another version */
            stage_join(&stage);
        }
        EVENTUALLY(ps_counter(&stage, "applied") == 4 * CALLS);
        cr_expect_eq(ps_counter(&stage, "pull_bytes"), bytes);
        stage_close(&stage);
    }
}

/* --- programs, with variables of both kinds --- */

/* Pushes its argument "g" to "a" and "b", gives "a" and "b". */
static cadre_function_t *
both_function(stage_t *stage)
{
    const int64_t shape[] = {WIDE_ROWS};
    const cadre_dim_t dims[] = {cadre_dim(WIDE_ROWS)};
    cadre_program_t *program = cadre_program_new("both");
    cadre_function_t *function = NULL;
    cadre_node_t a = cadre_op_var(program, "a", shape, 1);
    cadre_node_t b = cadre_op_var(program, "b", shape, 1);
    cadre_node_t g = cadre_op_arg(program, "g", CADRE_F32, dims, 1);
    cadre_op_push(program, a, g);
    cadre_op_push(program, b, g);
    cadre_op_result(program, "a", a);
    cadre_op_result(program, "b", b);
    OK(cadre_function_register(stage->coordinator, &program, &function));
    return function;
}

static cadre_future_t *
call_both(stage_t *stage, const cadre_function_t *function, float gradient)
{
    float values[WIDE_ROWS];
    cadre_tensor_t tensor = stage_row(values, gradient);
    cadre_argument_t arguments[] = {{"g", &tensor}};
    cadre_call_t call = cadre_call_tensors(arguments, 1);
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage->coordinator, function, &call, LOCAL_WAIT_MS, &future));
    return future;
}

Test(conformance_wire, a_program_trains_variables_of_both_kinds)
{
    enum { CALLS = 5 };
    const float gradient = 1.0f + 0x1p-9f; /* 1 in bf16 */
    stage_t stage;
    open_stage(&stage, 2, 1, CADRE_F32);
    cadre_variable_t *a = create(&stage, "a", CADRE_BF16, "add");
    cadre_variable_t *b = create(&stage, "b", CADRE_F32, "add");
    const cadre_function_t *function = both_function(&stage);
    for (int i = 0; i < CALLS; i++) {
        cadre_tensor_t seen = {.data = NULL};
        cadre_future_t *future = call_both(&stage, function, gradient);
        OK(cadre_future_fetch(future, "b", &seen, LOCAL_WAIT_MS));
        cr_assert_eq(((const float *)seen.data)[0], (float)i * gradient);
        cadre_tensor_fini(&seen);
        cadre_future_destroy(&future);
    }
    stage_join(&stage);
    expect_all(a, CALLS);
    expect_all(b, (double)CALLS * (double)gradient);
    stage_close(&stage);
}

/* f32 holds 3.4e38, bf16 ends a little below: the push is refused as a whole, "b" gets nothing. */
Test(conformance_wire, a_gradient_that_bf16_cannot_hold_fails_its_closure_by_name)
{
    static const float bad[] = {3.4e38f, INFINITY, NAN};
    stage_t stage;
    open_stage(&stage, 2, 1, CADRE_BF16);
    cadre_variable_t *a = create(&stage, "a", CADRE_BF16, "add");
    cadre_variable_t *b = create(&stage, "b", CADRE_F32, "add");
    const cadre_function_t *function = both_function(&stage);
    for (size_t i = 0; i < CADRE_COUNT_OF(bad); i++) {
        cadre_future_t *future = call_both(&stage, function, bad[i]);
        FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_ENOTFINITE,
              "the gradient of a is infinite or NaN as bf16");
        cadre_future_destroy(&future);
        float values[WIDE_ROWS];
        cadre_tensor_t gradient = stage_row(values, bad[i]);
        future = stage_call(&stage, "push", "gradient", &gradient);
        FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_ENOTFINITE,
              "the gradient of wide is infinite or NaN as bf16");
        cadre_future_destroy(&future);
    }
    cadre_future_t *future = call_both(&stage, function, 2);
    stage_join(&stage);
    cadre_future_destroy(&future);
    expect_all(a, 2);
    expect_all(b, 2);
    stage_expect(&stage, 0);
    stage_close(&stage);
}

/* The other way: the ps has what a worker would see as infinity. Whoever pulls it fails, and only
 * they; with a value that bf16 holds all goes on. */
BOTH_SIZES(conformance_wire, a_value_that_bf16_cannot_hold_fails_its_closure_by_name)
{
    float values[WIDE_ROWS];
    cadre_tensor_t value = stage_row(values, 1);
    stage_t stage;
    open_stage(&stage, size, size, CADRE_BF16);
    cadre_variable_t *a = create(&stage, "a", CADRE_BF16, "add");
    cadre_variable_t *b = create(&stage, "b", CADRE_F32, "add");
    const cadre_function_t *function = both_function(&stage);
    cadre_auto(cadre_free) char *refusal = cadre_asprintf(
        "ps %d: a, partition %d: value 3.4e+38 is beyond the largest bf16", size - 1, size - 1);
    values[WIDE_ROWS - 1] = 3.4e38f;
    OK(cadre_variable_assign(a, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    for (int i = 0; i < 2; i++) {
        cadre_future_t *future = call_both(&stage, function, 1);
        FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_ENOTFINITE, refusal);
        cadre_future_destroy(&future);
        stage_schedule(&stage, "read", 1);
        FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_ENOTFINITE,
              "wide, partition");
    }
    stage_schedule(&stage, "add_one", 1); /* pulls nothing */
    stage_join(&stage);
    value = stage_row(values, 4);
    OK(cadre_variable_assign(a, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    cadre_future_t *future = call_both(&stage, function, 1);
    stage_schedule(&stage, "read", 1);
    stage_join(&stage);
    cadre_future_destroy(&future);
    expect_all(a, 5);
    expect_all(b, 1);
    stage_expect(&stage, 4);
    stage_close(&stage);
}

/* --- tasks that die --- */

static uint64_t
applied(stage_t *stage, int shard)
{
    cadre_shard_totals_t totals;
    OK(cadre_shard_totals(stage->coordinator, shard, &totals, LOCAL_WAIT_MS));
    return totals.applied;
}

/* A worker dies amid its pushes: some shards have an update of it, others have not. */
Test(conformance_wire, a_worker_is_killed_while_it_pushes)
{
    enum { CALLS = 3000, KILLS = 3 };
    stage_t stage;
    open_stage(&stage, 2, 2, CADRE_BF16);
    stage_schedule(&stage, "add_one", CALLS);
    for (uint64_t kill = 1; kill <= KILLS; kill++) {
        EVENTUALLY(applied(&stage, 0) >= kill * CALLS / (2 * KILLS));
        local_cluster_restart(&stage.cluster, LOCAL_WORKER, (int)(kill % 2));
    }
    stage_join(&stage);
    stage_expect(&stage, CALLS);
    stage_expect_applied(&stage, CALLS);
    stage_close(&stage);
}

Test(conformance_wire, a_ps_is_killed_and_its_shard_replayed)
{
    enum { CALLS = 1000 };
    stage_t stage;
    open_stage(&stage, 2, 1, CADRE_BF16);
    stage_schedule(&stage, "add_one", CALLS);
    stage_join(&stage);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_schedule(&stage, "add_one", CALLS);
    EVENTUALLY(applied(&stage, 1) >= CALLS + CALLS / 2);
    local_cluster_restart(&stage.cluster, LOCAL_PS, 1);
    stage_join(&stage);
    stage_expect(&stage, 2 * CALLS);
    stage_close(&stage);
}

/* --- checkpoints --- */

/* They hold f32, whatever travels: a job may go on with another type on the wire, bit for bit. */
Test(conformance_wire, a_checkpoint_is_f32_and_goes_on_with_either_type)
{
    static const cadre_dtype_t wires[] = {CADRE_F32, CADRE_BF16, CADRE_BF16, CADRE_F32};
    float values[WIDE_ROWS];
    stage_t stage;
    double value = 1 + 0x1p-20;
    cadre_tensor_t precise = stage_row(values, (float)value);
    open_stage(&stage, 2, 1, CADRE_BF16);
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &precise, LOCAL_WAIT_MS));
    for (size_t i = 0; i < CADRE_COUNT_OF(wires); i++) {
        stage_schedule(&stage, "add_one", 1);
        stage_join(&stage);
        value += 1;
        OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
        resume(&stage, 1 + (int)i % 3, wires[i]);
        stage_expect(&stage, value);
    }
    stage_close(&stage);
}
