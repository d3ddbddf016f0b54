/* Variables that could not be created everywhere, and variables that are dropped: what stays of
 * them; functions and resources that are dropped. */
#include <cadre/catalogue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "common/tensor/tensor.h"
#include "tests/conformance/stage.h"
#include "tests/sanitizer.h"
#include "tests/system/process.h"

TestSuite(conformance_drop, .timeout = 900);

static int
create(stage_t *stage, const char *name, int64_t rows, int parts, cadre_variable_t **variable)
{
    cadre_variable_options_t options = cadre_variable_options();
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    return cadre_variable_create(stage->coordinator, name, CADRE_F32, &rows, 1, &options, variable);
}

/* Two parts, one of them on a ps that is frozen for longer than the call waits. */
Test(conformance_drop, a_creation_that_fails_leaves_nothing_behind)
{
    enum { LEASE_MS = 60000 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.lease_ms = LEASE_MS;
    options.coordinator.ps_timeout_ms = 1500;
    stage_open_with(&stage, &options);
    cadre_variable_t *variable = NULL;
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGSTOP);
    int64_t begin_ms = cadre_clock_now_ms();
    FAILS(create(&stage, "old", 10, 2, &variable), CADRE_ETIMEOUT, "variable old");
    cr_expect_lt(cadre_clock_now_ms() - begin_ms, LEASE_MS, "who is silent is not waited for");
    cr_expect_null(variable);
    local_cluster_signal(&stage.cluster, LOCAL_PS, 1, SIGCONT);
    int status = CADRE_ETIMEOUT;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); status == CADRE_ETIMEOUT;) {
        cr_assert(again(deadline), "the ps answers again");
        status = create(&stage, "other", 3, 1, &variable);
    }
    OK(status);
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof(name), "new%d", i);
        OK(create(&stage, name, 3, 1, &variable));
    }
    OK(create(&stage, "old", 10, 2, &variable));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_schedule(&stage, "add_one", 20); /* the worker knows that an id is nobody's */
    stage_join(&stage);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    local_cluster_restart(&stage.cluster, LOCAL_PS, 1);
    stage_schedule(&stage, "add_one", 20);
    stage_join(&stage);
    stage_expect(&stage, 40);
    stage_close(&stage);
}

/* No shard could hold it: each refuses its part. */
Test(conformance_drop, a_creation_that_the_shards_refuse_leaves_its_name)
{
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    cadre_variable_t *variable = NULL;
    FAILS(create(&stage, "vast", INT64_C(1) << 40, 2, &variable), CADRE_ETOOLARGE, "vast");
    OK(create(&stage, "vast", 10, 2, &variable));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_schedule(&stage, "add_one", 5);
    stage_join(&stage);
    stage_expect(&stage, 5);
    stage_close(&stage);
}

/* --- dropped by the program --- */

/* Schedules "add_named" on a variable; with `hold` it waits for that. */
static cadre_future_t *
use(stage_t *stage, const char *name, const hold_t *hold)
{
    const cadre_tensor_t tensors[] = {stage_text(name), stage_text(hold ? hold->started : ""),
                                      stage_text(hold ? hold->release : "")};
    const cadre_argument_t arguments[] = {
        {"name", &tensors[0]}, {"started", &tensors[1]}, {"release", &tensors[2]}};
    cadre_call_t call = {.size = sizeof(call), .tensors = arguments, .tensor_count = hold ? 3 : 1};
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage->coordinator, stage_function(stage, "add_named"), &call,
                                  LOCAL_WAIT_MS, &future));
    return future;
}

/* Passes when the closure has found a value of `rows` rows of `value`; drops the future. */
static void
expect_used(cadre_future_t *future, int64_t rows, double value)
{
    cadre_tensor_t found = {.data = NULL};
    OK(cadre_future_fetch(future, "value", &found, LOCAL_WAIT_MS));
    cr_assert_eq(cadre_tensor_count(&found), rows);
    for (int64_t i = 0; i < rows; i++) {
        double row = (double)((const float *)found.data)[i];
        cr_assert(row >= value && row <= value, "row %d is %g, not %g", (int)i, row, value);
    }
    cadre_tensor_fini(&found);
    cadre_future_destroy(&future);
}

/* What the status says of variables. */
static void
expect_status(stage_t *stage, int count, int dropping, int kept)
{
    cadre_auto(cadre_free) char *wanted = cadre_asprintf(
        "\"variables\":{\"count\":%d,\"dropping\":%d,\"kept\":%d}", count, dropping, kept);
    bool is_there = false;
    for (deadline_t deadline = deadline_in(LOCAL_WAIT_MS); !is_there;) {
        char *text = NULL;
        OK(cadre_coordinator_status_json(stage->coordinator, &text));
        is_there = strstr(text, wanted) != NULL;
        cr_assert(is_there || again(deadline), "%s is not in %s", wanted, text);
        free(text);
    }
}

Test(conformance_drop, closures_from_before_use_it_and_those_from_after_fail)
{
    stage_t stage;
    cadre_variable_t *old = NULL;
    stage_open(&stage, 2, 1);
    OK(create(&stage, "old", 10, 2, &old));
    expect_used(use(&stage, "old", NULL), 10, 0);
    hold_t hold = stage_hold_files(&stage, "hold");
    cadre_future_t *before = use(&stage, "old", &hold);
    hold_wait(&hold, 1);
    FAILS(cadre_variable_drop(&old, 100), CADRE_ETIMEOUT, "closures that may use a variable");
    cr_expect_null(old);
    expect_status(&stage, 1, 1, 0);
    OK(cadre_variable_drop(&old, 0));
    OK(cadre_variable_drop(NULL, 0));
    hold_release(&hold);
    expect_used(before, 10, 1);
    stage_join(&stage);
    cadre_future_t *after = use(&stage, "old", NULL);
    FAILS(cadre_future_wait(after, LOCAL_WAIT_MS), CADRE_ENOTFOUND,
          "there is no variable old any more: it was dropped before this was scheduled");
    cadre_future_destroy(&after);
    FAILS(cadre_coordinator_join(stage.coordinator, LOCAL_WAIT_MS), CADRE_ENOTFOUND, "old");
    stage_expect(&stage, 2);
    hold_fini(&hold);
    stage_close(&stage);
}

Test(conformance_drop, the_name_is_free_for_another_that_begins_with_its_own_values)
{
    stage_t stage;
    cadre_variable_t *variable = NULL;
    stage_open(&stage, 2, 1);
    for (int64_t rows = 2; rows <= WIDE_ROWS; rows += 2) {
        OK(create(&stage, "name", rows, 2, &variable));
        expect_used(use(&stage, "name", NULL), rows, 0);
        expect_used(use(&stage, "name", NULL), rows, 1);
        OK(cadre_variable_drop(&variable, LOCAL_WAIT_MS));
    }
    stage_join(&stage);
    stage_expect(&stage, WIDE_ROWS);
    stage_close(&stage);
}

/* Without a replay nothing needs the values: the memory goes at once. */
Test(conformance_drop, the_memory_of_its_shards_is_free_again)
{
    enum { ROWS = 24 << 20 };
    stage_t stage;
    cadre_variable_t *variable = NULL;
    local_cluster_options_t options = {.ps = 1, .workers = 1};
    options.coordinator.recovery = CADRE_RECOVERY_RELAXED;
    stage_open_with(&stage, &options);
    for (int i = 0; i < 3; i++) {
        OK(create(&stage, "large", ROWS, 1, &variable));
        OK(cadre_variable_drop(&variable, LOCAL_WAIT_MS));
        expect_status(&stage, 1, 0, 0);
    }
    cadre_shard_totals_t totals;
    OK(cadre_shard_totals(stage.coordinator, 0, &totals, LOCAL_WAIT_MS)); /* DROP was before it */
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("/proc/%d/statm", (int)stage.cluster.tasks[LOCAL_PS][0]);
    FILE *file = fopen(path, "re");
    long pages = 0;
    cr_assert(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    if (!SANITIZER) { /* they keep what was freed for a while */
        cr_expect_lt(pages * 4096, (long)ROWS * 4 * 2, "it holds less than two of them");
    }
    stage_close(&stage);
}

static void
kill_ps(stage_t *stage, uint64_t restored)
{
    local_cluster_restart(&stage->cluster, LOCAL_PS, 1);
    EVENTUALLY(cadre_coordinator_totals(stage->coordinator).ps_restored == restored);
    stage_join(stage);
}

/* A ps that is lost before any checkpoint needs the variable again, one after two does not. */
Test(conformance_drop, a_ps_that_is_lost_afterwards_ends_without_it)
{
    stage_t stage;
    cadre_variable_t *variable = NULL;
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    OK(create(&stage, "old", 10, 2, &variable));
    for (int i = 0; i < 20; i++) {
        cadre_future_t *future = use(&stage, "old", NULL);
        cadre_future_destroy(&future);
    }
    OK(cadre_variable_drop(&variable, LOCAL_WAIT_MS));
    OK(create(&stage, "old", 4, 2, &variable));
    expect_used(use(&stage, "old", NULL), 4, 0);
    expect_status(&stage, 2, 0, 1);
    kill_ps(&stage, 1);
    stage_expect(&stage, 21);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    kill_ps(&stage, 2);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    expect_status(&stage, 2, 0, 0);
    expect_used(use(&stage, "old", NULL), 4, 1);
    kill_ps(&stage, 3);
    expect_used(use(&stage, "old", NULL), 4, 2);
    stage_join(&stage);
    stage_expect(&stage, 23);
    cr_expect_not(local_cluster_logged(&stage.cluster, "replay_failed"));
    cr_expect_not(local_cluster_logged(&stage.cluster, "not_retired"));
    stage_close(&stage);
}

static char *
save(stage_t *stage)
{
    OK(cadre_checkpoint_save(stage->coordinator, NULL, LOCAL_WAIT_MS, NULL));
    return cadre_checkpoint_last(stage->coordinator);
}

/* Ends the job, and takes it up again from that checkpoint. */
static void
resume(stage_t *stage, const char *path)
{
    local_cluster_options_t options = stage->cluster.options;
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.resume_path = path;
    local_cluster_end_job(&stage->cluster);
    local_cluster_begin_job(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
    OK(create(stage, "wide", WIDE_ROWS, 2, &stage->wide));
}

Test(conformance_drop, checkpoints_from_after_are_without_it_and_older_ones_hold_it)
{
    stage_t stage;
    cadre_variable_t *variable = NULL;
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    OK(create(&stage, "old", 10, 2, &variable));
    expect_used(use(&stage, "old", NULL), 10, 0);
    cadre_auto(cadre_free) char *with = save(&stage);
    OK(cadre_variable_drop(&variable, LOCAL_WAIT_MS));
    cadre_auto(cadre_free) char *without = save(&stage);
    resume(&stage, without);
    OK(create(&stage, "old", 4, 1, &variable)); /* CADRE_ESHAPE if the checkpoint held it */
    expect_used(use(&stage, "old", NULL), 4, 0);
    stage_join(&stage);
    stage_expect(&stage, 2);
    resume(&stage, with);
    FAILS(create(&stage, "old", 4, 1, &variable), CADRE_ESHAPE, "old");
    OK(create(&stage, "old", 10, 1, &variable));
    expect_used(use(&stage, "old", NULL), 10, 1);
    OK(cadre_variable_drop(&variable, LOCAL_WAIT_MS));
    OK(create(&stage, "old", 10, 2, &variable)); /* another: what was resumed was the other's */
    expect_used(use(&stage, "old", NULL), 10, 0);
    stage_join(&stage);
    stage_expect(&stage, 3);
    stage_close(&stage);
}

/* A program that trains a row of a table: the names of its variables are looked up again. */
Test(conformance_drop, a_registered_program_takes_the_table_that_has_the_name_now)
{
    stage_t stage;
    cadre_variable_t *table = NULL;
    const int64_t shape[] = {4, 3};
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_SGD);
    options.optimizer.learning_rate = 1;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    stage_open(&stage, 2, 1);
    cadre_function_t *function = NULL;
    for (int round = 0; round < 3; round++) {
        cadre_tensor_t value = {.data = NULL};
        OK(cadre_variable_create(stage.coordinator, "table", CADRE_F32, shape, 2, &options,
                                 &table));
        if (!function) {
            cadre_program_t *program = cadre_program_new("row");
            const cadre_dim_t ids[] = {cadre_dim(1), cadre_dim(1)};
            cadre_node_t rows =
                cadre_op_embedding_bag(program, cadre_op_var(program, "table", shape, 2),
                                       cadre_op_arg(program, "ids", CADRE_I32, ids, 2),
                                       (cadre_node_t){0}, (cadre_node_t){0}, CADRE_BAG_SUM);
            cadre_op_minimize(program, cadre_op_sum_all(program, rows));
            OK(cadre_function_register(stage.coordinator, &program, &function));
        }
        int32_t id = round;
        cadre_tensor_t ids = {.dtype = CADRE_I32, .rank = 2, .shape = {1, 1}, .data = &id};
        cadre_argument_t argument = {"ids", &ids};
        cadre_call_t call = cadre_call_tensors(&argument, 1);
        OK(cadre_coordinator_schedule(stage.coordinator, function, &call, LOCAL_WAIT_MS, NULL));
        stage_join(&stage);
        OK(cadre_variable_read(table, &value, LOCAL_WAIT_MS));
        for (int i = 0; i < 12; i++) {
            float wanted = i / 3 == round ? -1.0f : 0.0f;
            cr_assert_float_eq(((const float *)value.data)[i], wanted, 1e-6, "round %d: %d", round,
                               i);
        }
        cadre_tensor_fini(&value);
        OK(cadre_variable_drop(&table, LOCAL_WAIT_MS));
    }
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage.coordinator, function, NULL, LOCAL_WAIT_MS, &future));
    FAILS(cadre_future_wait(future, LOCAL_WAIT_MS), CADRE_ENOTFOUND, "table any more");
    cadre_future_destroy(&future);
    stage_close(&stage);
}

/* --- functions and resources --- */

enum { LARGE = 1 << 18 }; /* elements of the constant of a large program: 1 MiB */

/* A program that sums a large constant; `number` makes it another one. */
static cadre_function_t *
register_large(stage_t *stage, int number)
{
    cadre_program_t *program = cadre_program_new("large");
    cadre_tensor_t numbers = {.data = NULL};
    const int64_t shape[] = {LARGE};
    OK(cadre_tensor_init(&numbers, CADRE_F32, shape, 1));
    memset(numbers.data, 0, cadre_tensor_size_bytes(&numbers));
    ((float *)numbers.data)[0] = (float)number;
    cadre_op_result(program, "sum", cadre_op_sum_all(program, cadre_op_const(program, &numbers)));
    cadre_tensor_fini(&numbers);
    cadre_function_t *function = NULL;
    OK(cadre_function_register(stage->coordinator, &program, &function));
    return function;
}

static void
expect_sum(stage_t *stage, cadre_function_t *function, double wanted)
{
    double sum = 0;
    cadre_future_t *future = NULL;
    OK(cadre_coordinator_schedule(stage->coordinator, function, NULL, LOCAL_WAIT_MS, &future));
    OK(cadre_future_fetch_number(future, "sum", &sum, LOCAL_WAIT_MS));
    cr_expect(sum >= wanted && sum <= wanted, "%g, not %g", sum, wanted);
    cadre_future_destroy(&future);
}

Test(conformance_drop, the_memory_of_functions_is_free_again_everywhere)
{
    enum { ROUNDS = 150, MORE_KIB_MAX = 60 << 10 };
    stage_t stage;
    stage_open(&stage, 1, 1);
    int64_t before_kib[2] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        cadre_function_t *function = register_large(&stage, i);
        expect_sum(&stage, function, i);
        OK(cadre_function_drop(&function));
        cr_assert_null(function);
        if (i == ROUNDS / 3) {
            before_kib[0] = process_memory_kib(getpid(), "VmRSS:");
            before_kib[1] = process_memory_kib(stage.cluster.tasks[LOCAL_WORKER][0], "VmRSS:");
        }
    }
    if (!SANITIZER) { /* they keep what was freed for a while */
        cr_expect_lt(process_memory_kib(getpid(), "VmRSS:") - before_kib[0], MORE_KIB_MAX);
        cr_expect_lt(process_memory_kib(stage.cluster.tasks[LOCAL_WORKER][0], "VmRSS:") -
                         before_kib[1],
                     MORE_KIB_MAX);
    }
    size_t count = 0;
    OK(cadre_function_list(stage.coordinator, NULL, &count));
    cr_expect_eq(count, 0);
    stage_close(&stage);
}

/* The closures of a dropped function run again for a ps that is lost; later ones are refused. */
Test(conformance_drop, closures_of_a_dropped_function_run_again)
{
    enum { CLOSURES = 40 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    cadre_function_t *function = stage_function(&stage, "add_one");
    cadre_function_t *const kept = function;
    stage_schedule(&stage, "add_one", CLOSURES);
    OK(cadre_function_drop(&function));
    FAILS(cadre_coordinator_schedule(stage.coordinator, kept, NULL, LOCAL_WAIT_MS, NULL),
          CADRE_EINVALID, "no function registered");
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 0);
    stage_join(&stage);
    kill_ps(&stage, 1);
    stage_expect(&stage, CLOSURES);
    cr_expect_neq(stage_function(&stage, "add_one"), kept, "it is another one from now on");
    stage_schedule(&stage, "add_one", CLOSURES);
    stage_join(&stage);
    local_cluster_restart(&stage.cluster, LOCAL_WORKER, 1); /* learns of both by their ids */
    kill_ps(&stage, 2);
    stage_expect(&stage, 2.0 * CLOSURES);
    stage_expect_applied(&stage, 2 * CLOSURES);
    stage_close(&stage);
}

Test(conformance_drop, a_resource_is_dropped_and_its_name_is_free)
{
    stage_t stage;
    cadre_resource_t *place = NULL;
    stage_open(&stage, 1, 2);
    cadre_function_t *build = stage_function(&stage, "build_place");
    cadre_function_t *tell = stage_function(&stage, "tell_place");
    for (int round = 0; round < 3; round++) {
        OK(cadre_resource_create(stage.coordinator, "place", build, NULL, &place));
        const cadre_resource_t *const used[] = {place};
        cadre_call_t call = {.size = sizeof(call), .resources = used, .resource_count = 1};
        for (int i = 0; i < 10; i++) {
            OK(cadre_coordinator_schedule(stage.coordinator, tell, &call, LOCAL_WAIT_MS, NULL));
        }
        FAILS(cadre_function_drop(&build), CADRE_ESTATE, "builds resource place");
        cr_assert_not_null(build);
        OK(cadre_resource_drop(&place));
        FAILS(cadre_coordinator_schedule(stage.coordinator, tell, &call, LOCAL_WAIT_MS, NULL),
              CADRE_EINVALID, "resource 0 is none");
        stage_join(&stage);
    }
    size_t count = 0;
    OK(cadre_resource_list(stage.coordinator, NULL, &count));
    cr_expect_eq(count, 0);
    OK(cadre_function_drop(&build));
    OK(cadre_resource_drop(&place)); /* NULL is fine */
    OK(cadre_function_drop(NULL));
    stage_close(&stage);
}
