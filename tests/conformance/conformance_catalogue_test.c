/* What a job has: the ids L of docs/conformance.md. */
#include <cadre/catalogue.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_catalogue, .timeout = 900);

enum { SAVES = 3 };

Test(conformance_catalogue, L1_what_there_is_is_listed_in_order)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    cadre_variable_t *second = NULL;
    cadre_variable_t *found = NULL;
    cadre_variable_t **variables = NULL;
    const int64_t shape[] = {3};
    size_t count = 0;
    OK(cadre_variable_create(stage.coordinator, "second", CADRE_F32, shape, 1, NULL, &second));
    OK(cadre_variable_list(stage.coordinator, &variables, &count));
    cr_assert_eq(count, 2);
    cr_expect_eq(variables[0], stage.wide);
    cr_expect_eq(variables[1], second);
    free(variables);
    OK(cadre_variable_find(stage.coordinator, "second", &found));
    cr_expect_eq(found, second);
    stage_schedule(&stage, "add_one", 1); /* it may run again: what is dropped is kept for it */
    OK(cadre_variable_drop(&second, LOCAL_WAIT_MS));
    FAILS(cadre_variable_find(stage.coordinator, "second", &found), CADRE_ENOTFOUND, "second");
    OK(cadre_variable_list(stage.coordinator, &variables, &count));
    cr_assert_eq(count, 1);
    free(variables);

    cadre_resource_t **resources = NULL;
    OK(cadre_resource_list(stage.coordinator, &resources, &count));
    cr_expect_eq(count, 0);
    cr_expect_null(resources);
    cadre_function_t **functions = NULL;
    cadre_function_t *one = stage_function(&stage, "add_one");
    cadre_function_t *build = stage_function(&stage, "build_place");
    OK(cadre_function_list(stage.coordinator, &functions, &count));
    cr_assert_eq(count, 2);
    cr_expect_eq(functions[0], one);
    cr_expect_str_eq(cadre_function_name(functions[1]), "build_place");
    free(functions);

    cadre_resource_t *resource = NULL;
    OK(cadre_resource_create(stage.coordinator, "place", build, NULL, &resource));
    OK(cadre_resource_list(stage.coordinator, &resources, &count));
    cr_assert_eq(count, 1);
    cr_expect_eq(resources[0], resource);
    free(resources);

    cadre_auto(cadre_free) char *path = stage_write_rows(&stage, 10);
    cadre_dataset_t *rows = stage_open_rows(&stage, path, "rows");
    cadre_dataset_t **datasets = NULL;
    OK(cadre_dataset_list(stage.coordinator, &datasets, &count));
    cr_assert_eq(count, 1);
    cr_expect_eq(datasets[0], rows);
    cr_expect_str_eq(cadre_dataset_name(rows), "rows");
    free(datasets);
    OK(cadre_dataset_list(stage.coordinator, NULL, NULL));
    stage_close(&stage);
}

static cadre_variable_t *
create_adam(stage_t *stage)
{
    cadre_variable_options_t options = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADAM);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    const int64_t shape[] = {WIDE_ROWS};
    OK(cadre_variable_create(stage->coordinator, "wide", CADRE_F32, shape, 1, &options, &variable));
    return variable;
}

static double
first_of(const cadre_tensor_t *value)
{
    return (double)((const float *)value->data)[0];
}

Test(conformance_catalogue, L2_checkpoints_are_listed_and_read_while_the_job_runs)
{
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_t stage = {.coordinator = NULL};
    local_cluster_open(&stage.cluster, &options);
    stage.coordinator = stage.cluster.coordinator;
    stage.wide = create_adam(&stage);
    float row[WIDE_ROWS];
    uint64_t ids[SAVES];
    for (int i = 0; i < SAVES; i++) {
        cadre_tensor_t value = stage_row(row, (float)i + 1);
        OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
        OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, &ids[i]));
        stage_train(&stage, 1, 2);
    }

    size_t count = 0;
    cadre_checkpoint_info_t *infos = NULL;
    OK(cadre_checkpoint_mark_best(stage.coordinator, ids[1]));
    OK(cadre_checkpoint_list(stage.coordinator, &infos, &count));
    cr_assert_eq(count, SAVES);
    for (int i = 0; i < SAVES; i++) {
        const cadre_checkpoint_info_t *info = &infos[SAVES - 1 - i];
        cadre_tensor_t value = {0};
        cr_expect_eq(info->id, ids[i]);
        cr_expect(info->is_valid, "%s", info->reason);
        cr_expect_eq(info->is_best, i == 1);
        cr_expect_eq(info->shard_count, 2);
        cr_expect_eq(info->cut, (uint64_t)(1 + 2 * i));
        OK(cadre_checkpoint_read(stage.coordinator, info->id, "wide", NULL, &value));
        cr_expect_eq(cadre_tensor_count(&value), WIDE_ROWS);
        cr_expect_eq((int)first_of(&value), i + 1);
        OK(cadre_checkpoint_read(stage.coordinator, info->id, "wide", "velocity", &value));
        cr_expect_eq(first_of(&value) > 0, i > 0, "of updates before");
        cadre_tensor_fini(&value);
    }

    cadre_tensor_t value = {0};
    FAILS(cadre_checkpoint_read(stage.coordinator, ids[0], "narrow", NULL, &value), CADRE_ENOTFOUND,
          "narrow");
    FAILS(cadre_checkpoint_read(stage.coordinator, ids[0], "wide", "sleeve", &value),
          CADRE_ENOTFOUND, "has no slot sleeve, it has momentum, velocity");
    FAILS(cadre_checkpoint_read(stage.coordinator, 999, "wide", NULL, &value), CADRE_ENOTFOUND, "");
    OK(cadre_checkpoint_read(stage.coordinator, ids[0], "wide", NULL, &value));
    OK(cadre_variable_assign(stage.wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    stage_expect(&stage, 1);
    cadre_tensor_fini(&value);
    cadre_checkpoint_infos_free(&infos, count);
    cr_expect_null(infos);
    stage_close(&stage);
}

Test(conformance_catalogue, L2_without_a_directory_there_is_none)
{
    stage_t stage;
    stage_open(&stage, 1, 1);
    size_t count = 7;
    cadre_checkpoint_info_t *infos = NULL;
    FAILS(cadre_checkpoint_list(stage.coordinator, &infos, &count), CADRE_ESTATE, "no checkpoint");
    FAILS(cadre_checkpoint_read(stage.coordinator, 1, "wide", NULL, NULL), CADRE_ESTATE, "");
    cr_expect_eq(count, 7);
    stage_close(&stage);
}

/* --- values put back --- */

/* Two variables over two ps, with the checkpoint `saved` in which "wide" is 7 and "count" 5; now
 * "wide" is 8, with a momentum, and "count" 9. */
typedef struct {
    stage_t stage;
    cadre_variable_t *count;
    uint64_t saved;
} past_t;

static void
set_count(past_t *past, int64_t number)
{
    const cadre_tensor_t value = cadre_tensor_view(CADRE_I64, &number, NULL, 0);
    OK(cadre_variable_assign(past->count, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
}

static void
set_wide(past_t *past, float number)
{
    float row[WIDE_ROWS];
    const cadre_tensor_t value = stage_row(row, number);
    OK(cadre_variable_assign(past->stage.wide, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
}

/* Creates "count", i64 [3] or, with rank 0, a scalar. */
static void
create_count(past_t *past, int rank)
{
    const int64_t shape[] = {3};
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(past->stage.coordinator, "count", CADRE_I64, shape, rank, &options,
                             &past->count));
}

static void
open_past(past_t *past)
{
    local_cluster_options_t options = {.ps = 2, .workers = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    *past = (past_t){.saved = 0};
    local_cluster_open(&past->stage.cluster, &options);
    past->stage.coordinator = past->stage.cluster.coordinator;
    past->stage.wide = create_adam(&past->stage);
    create_count(past, 0);
    set_wide(past, 7);
    set_count(past, 5);
    OK(cadre_checkpoint_save(past->stage.coordinator, NULL, LOCAL_WAIT_MS, &past->saved));
    set_wide(past, 8);
    set_count(past, 9);
}

static int
restore(past_t *past, const char *name)
{
    return cadre_checkpoint_restore_values(past->stage.coordinator, past->saved,
                                           name ? &name : NULL, name ? 1 : 0, LOCAL_WAIT_MS);
}

static void
expect_both(past_t *past, float wide, double count)
{
    double number = 0;
    stage_expect(&past->stage, wide);
    OK(cadre_variable_read_number(past->count, &number, LOCAL_WAIT_MS));
    cr_expect_eq(number, count, "count is %g, not %g", number, count);
}

Test(conformance_catalogue, L3_values_are_put_back_all_or_by_name)
{
    past_t past;
    open_past(&past);
    OK(restore(&past, "count"));
    expect_both(&past, 8, 5);
    set_count(&past, 9);
    OK(restore(&past, NULL));
    expect_both(&past, 7, 5);
    stage_close(&past.stage);
}

Test(conformance_catalogue, L3_values_that_were_put_back_survive_a_ps_once)
{
    past_t past;
    open_past(&past);
    OK(restore(&past, NULL));
    const int64_t one = 1;
    const cadre_tensor_t more = cadre_tensor_view(CADRE_I64, &one, NULL, 0);
    OK(cadre_variable_assign(past.count, CADRE_VARIABLE_ADD, &more, LOCAL_WAIT_MS));
    for (int i = 0; i < 2; i++) { /* one after the other, from the checkpoint and a replay */
        local_cluster_restart(&past.stage.cluster, LOCAL_PS, i);
        EVENTUALLY(cadre_coordinator_totals(past.stage.coordinator).ps_lost == (uint64_t)i + 1);
        expect_both(&past, 7, 6);
    }
    stage_close(&past.stage);
}

Test(conformance_catalogue, L3_what_does_not_fit_changes_nothing)
{
    past_t past;
    open_past(&past);
    FAILS(restore(&past, "nobody"), CADRE_ENOTFOUND, "no variable called nobody");
    FAILS(cadre_checkpoint_restore_values(past.stage.coordinator, 999, NULL, 0, LOCAL_WAIT_MS),
          CADRE_ENOTFOUND, "");

    /* a variable that the checkpoint does not hold yet */
    cadre_variable_t *late = NULL;
    const int64_t shape[] = {3};
    OK(cadre_variable_create(past.stage.coordinator, "late", CADRE_F32, shape, 1, NULL, &late));
    FAILS(restore(&past, NULL), CADRE_ENOTFOUND, "has no variable called late");
    expect_both(&past, 8, 9);
    OK(cadre_variable_drop(&late, LOCAL_WAIT_MS));

    /* one that has the name of another */
    OK(cadre_variable_drop(&past.count, LOCAL_WAIT_MS));
    create_count(&past, 1);
    FAILS(restore(&past, NULL), CADRE_ESHAPE, "variable count is [3], and [] in checkpoint");
    stage_expect(&past.stage, 8);

    hold_t hold = stage_hold(&past.stage, "hold");
    FAILS(restore(&past, "wide"), CADRE_ESTATE, "closures are queued or in flight");
    hold_release(&hold);
    stage_join(&past.stage);
    OK(restore(&past, "wide"));
    stage_expect(&past.stage, 7);
    hold_fini(&hold);
    stage_close(&past.stage);
}
