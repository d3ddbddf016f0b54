/* Variables: the ids V of docs/conformance.md, and P10 end to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_variables, .timeout = 900);

static void
open_plain(stage_t *stage, int ps, int workers)
{
    *stage = (stage_t){.coordinator = NULL};
    local_cluster_open(&stage->cluster, &(local_cluster_options_t){.ps = ps, .workers = workers});
    stage->coordinator = stage->cluster.coordinator;
}

static cadre_variable_t *
create(stage_t *stage, const char *name, int64_t rows, int64_t columns, int parts)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {rows, columns};
    cadre_variable_t *variable = NULL;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(stage->coordinator, name, CADRE_F32, shape, 2, &options, &variable));
    return variable;
}

/* A tensor of rows x columns whose element i is base + i. */
static cadre_tensor_t
counting(int64_t rows, int64_t columns, float base)
{
    const int64_t shape[] = {rows, columns};
    cadre_tensor_t tensor = {.data = NULL};
    OK(cadre_tensor_init(&tensor, CADRE_F32, shape, 2));
    for (int64_t i = 0; i < rows * columns; i++) {
        ((float *)tensor.data)[i] = base + (float)i;
    }
    return tensor;
}

/* Passes when every element is base + slope * its number. */
static void
expect_line(cadre_variable_t *variable, float base, float slope)
{
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read(variable, &value, LOCAL_WAIT_MS));
    for (int64_t i = 0; i < cadre_tensor_count(&value); i++) {
        float wanted = base + slope * (float)i;
        float got = ((const float *)value.data)[i];
        cr_assert_float_eq(got, wanted, 0, "element %d is %g, not %g", (int)i, (double)got,
                           (double)wanted);
    }
    cadre_tensor_fini(&value);
}

Test(conformance_variables, V1_shape_dtype_name_and_parts)
{
    stage_t stage;
    open_plain(&stage, 3, 0);
    cadre_variable_t *variable = create(&stage, "table", 13, 4, 5);
    int64_t shape[CADRE_RANK_MAX];
    cr_expect_str_eq(cadre_variable_name(variable), "table");
    cr_expect_eq(cadre_variable_dtype(variable), CADRE_F32);
    cr_expect_eq(cadre_variable_shape(variable, shape), 2);
    cr_expect_eq(shape[0], 13);
    cr_expect_eq(shape[1], 4);
    cr_assert_eq(cadre_variable_partition_count(variable), 5);
    const int64_t sizes[] = {3, 3, 3, 2, 2}; /* P4 */
    int64_t next = 0;
    bool used[3] = {false};
    for (int i = 0; i < 5; i++) {
        int64_t first = -1;
        int64_t rows = -1;
        int shard = -1;
        cadre_variable_partition(variable, i, &first, &rows, &shard);
        cr_expect_eq(first, next);
        cr_expect_eq(rows, sizes[i]);
        cr_assert(shard >= 0 && shard < 3);
        used[shard] = true;
        next += rows;
    }
    cr_expect(used[0] && used[1] && used[2], "the parts are spread");
    FAILS(cadre_variable_create(stage.coordinator, "table", CADRE_F32, shape, 2, NULL, &variable),
          CADRE_EEXISTS, "table");
    stage_close(&stage);
}

enum { MANY = 3000, MANY_PARTS = 2 }; /* more parts than are asked for at once */

static void
name_definitions(cadre_variable_definition_t *definitions, const cadre_variable_options_t *options,
                 char names[MANY][16])
{
    static const int64_t shape[] = {MANY_PARTS};
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "many-%d", i);
        definitions[i] = (cadre_variable_definition_t){names[i], CADRE_F32, shape, 1, options};
    }
}

Test(conformance_variables, V1_many_are_created_together_or_none_of_them)
{
    static cadre_variable_definition_t definitions[MANY];
    static cadre_variable_t *variables[MANY];
    static char names[MANY][16];
    cadre_variable_options_t options = cadre_variable_options();
    stage_t stage;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = MANY_PARTS;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    name_definitions(definitions, &options, names);
    open_plain(&stage, 2, 0);
    definitions[MANY - 1].name = names[0]; /* after the shards have created most of them */
    FAILS(cadre_variable_create_many(stage.coordinator, definitions, MANY, variables),
          CADRE_EEXISTS, "many-0");
    cr_expect_null(variables[0]);
    definitions[MANY - 1].name = names[MANY - 1];
    OK(cadre_variable_create_many(stage.coordinator, definitions, MANY, variables));
    const float ones[] = {1, 2};
    for (int i = 0; i < MANY; i += MANY - 1) {
        cr_assert_str_eq(cadre_variable_name(variables[i]), names[i]);
        cadre_tensor_t value = {.data = NULL};
        OK(cadre_tensor_init(&value, CADRE_F32, (const int64_t[]){MANY_PARTS}, 1));
        memcpy(value.data, ones, sizeof(ones));
        OK(cadre_variable_assign(variables[i], CADRE_VARIABLE_ADD, &value, LOCAL_WAIT_MS));
        expect_line(variables[i], 1, 1);
        cadre_tensor_fini(&value);
    }
    OK(cadre_variable_create_many(stage.coordinator, NULL, 0, NULL));
    stage_close(&stage);
}

Test(conformance_variables, V2_assignments_over_uneven_parts)
{
    for (int parts = 1; parts <= 4; parts += 3) {
        stage_t stage;
        open_plain(&stage, 2, 0);
        cadre_variable_t *variable = create(&stage, "v", 10, 3, parts);
        cadre_tensor_t value = counting(10, 3, 5);
        OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
        expect_line(variable, 5, 1);
        OK(cadre_variable_assign(variable, CADRE_VARIABLE_ADD, &value, LOCAL_WAIT_MS));
        OK(cadre_variable_assign(variable, CADRE_VARIABLE_ADD, &value, LOCAL_WAIT_MS));
        expect_line(variable, 15, 3);
        OK(cadre_variable_assign(variable, CADRE_VARIABLE_SUBTRACT, &value, LOCAL_WAIT_MS));
        expect_line(variable, 10, 2);
        OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
        expect_line(variable, 5, 1);
        cadre_tensor_fini(&value);
        stage_close(&stage);
    }
}

Test(conformance_variables, V5_a_read_joins_parts_and_chunks_in_order)
{
    stage_t stage;
    open_plain(&stage, 3, 0);
    cadre_variable_t *small = create(&stage, "small", 7, 1, 7);
    cadre_variable_t *large = create(&stage, "large", 1000, 1009, 3); /* 4 MB: chunks of 1 MiB */
    cadre_tensor_t few = counting(7, 1, 0);
    cadre_tensor_t many = counting(1000, 1009, 0);
    OK(cadre_variable_assign(small, CADRE_VARIABLE_SET, &few, LOCAL_WAIT_MS));
    OK(cadre_variable_assign(large, CADRE_VARIABLE_SET, &many, LOCAL_WAIT_MS));
    expect_line(small, 0, 1);
    expect_line(large, 0, 1);
    cadre_tensor_fini(&few);
    cadre_tensor_fini(&many);
    stage_close(&stage);
}

Test(conformance_variables, V5_integers_and_doubles_are_read_as_they_were_written)
{
    stage_t stage;
    open_plain(&stage, 2, 0);
    const int64_t shape[] = {3};
    cadre_variable_options_t options = {.size = sizeof(options),
                                        .optimizer = {.kind = CADRE_OPTIMIZER_ADD},
                                        .partitioner = CADRE_PARTITION_FIXED,
                                        .count = 2};
    cadre_variable_t *variable = NULL;
    int64_t numbers[] = {INT64_MIN, -1, INT64_MAX};
    cadre_tensor_t value = {.dtype = CADRE_I64, .rank = 1, .shape = {3}, .data = numbers};
    cadre_tensor_t back = {.data = NULL};
    OK(cadre_variable_create(stage.coordinator, "i", CADRE_I64, shape, 1, &options, &variable));
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    OK(cadre_variable_read(variable, &back, LOCAL_WAIT_MS));
    cr_expect_arr_eq(back.data, numbers, sizeof(numbers));
    cadre_tensor_fini(&back);
    double halves[] = {0.5, -1e300, 3};
    value = (cadre_tensor_t){.dtype = CADRE_F64, .rank = 1, .shape = {3}, .data = halves};
    OK(cadre_variable_create(stage.coordinator, "d", CADRE_F64, shape, 1, &options, &variable));
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    OK(cadre_variable_read(variable, &back, LOCAL_WAIT_MS));
    cr_expect_arr_eq(back.data, halves, sizeof(halves));
    cadre_tensor_fini(&back);
    stage_close(&stage);
}

Test(conformance_variables, V9_another_dtype_or_shape_is_refused_and_changes_nothing)
{
    stage_t stage;
    open_plain(&stage, 2, 0);
    cadre_variable_t *variable = create(&stage, "v", 10, 3, 2);
    cadre_tensor_t good = counting(10, 3, 1);
    cadre_tensor_t narrow = counting(10, 2, 1);
    cadre_tensor_t lower = counting(9, 3, 1);
    cadre_tensor_t flat = good;
    flat.rank = 1;
    flat.shape[0] = 30;
    cadre_tensor_t integers = good;
    integers.dtype = CADRE_I32;
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &good, LOCAL_WAIT_MS));
    FAILS(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &narrow, LOCAL_WAIT_MS), CADRE_ESHAPE,
          "v");
    FAILS(cadre_variable_assign(variable, CADRE_VARIABLE_ADD, &lower, LOCAL_WAIT_MS), CADRE_ESHAPE,
          "v");
    FAILS(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &flat, LOCAL_WAIT_MS), CADRE_ESHAPE,
          "v");
    FAILS(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &integers, LOCAL_WAIT_MS),
          CADRE_EDTYPE, "v");
    expect_line(variable, 1, 1);
    cadre_variable_options_t adam = {.size = sizeof(adam),
                                     .optimizer = {.kind = CADRE_OPTIMIZER_ADAM}};
    const int64_t shape[] = {3};
    int status =
        cadre_variable_create(stage.coordinator, "i", CADRE_I32, shape, 1, &adam, &variable);
    cr_expect_neq(status, 0, "integers have no optimizer but add");
    cadre_tensor_fini(&good);
    cadre_tensor_fini(&narrow);
    cadre_tensor_fini(&lower);
    stage_close(&stage);
}

/* --- initial values --- */

static cadre_tensor_t
initial_value(stage_t *stage, const char *initializer, int parts)
{
    cadre_auto(cadre_free) char *name = cadre_asprintf("%s-%d", initializer, parts);
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {17, 300};
    cadre_variable_t *variable = NULL;
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_initializer_named(initializer, &options.initializer));
    options.seed = 42;
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    if (strcmp(initializer, "constant") == 0) {
        options.initializer.value = 3.5;
    }
    OK(cadre_variable_create(stage->coordinator, name, CADRE_F32, shape, 2, &options, &variable));
    OK(cadre_variable_read(variable, &value, LOCAL_WAIT_MS));
    return value;
}

Test(conformance_variables, P10_initial_values_are_the_same_for_every_partition_count)
{
    static const char *const initializers[] = {
        "zeros",          "constant",      "uniform",    "normal",    "truncated_normal",
        "glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform",
        "lecun_normal",   "identity"};
    stage_t stage;
    open_plain(&stage, 3, 0);
    for (size_t i = 0; i < CADRE_COUNT_OF(initializers); i++) {
        cadre_tensor_t whole = initial_value(&stage, initializers[i], 1);
        for (int parts = 2; parts <= 17; parts += 5) {
            cadre_tensor_t cut = initial_value(&stage, initializers[i], parts);
            cr_expect_arr_eq(whole.data, cut.data, cadre_tensor_size_bytes(&whole),
                             "%s in %d parts", initializers[i], parts);
            cadre_tensor_fini(&cut);
        }
        cadre_tensor_fini(&whole);
    }
    stage_close(&stage);
}

/* --- checkpoints --- */

static void
resume(stage_t *stage, int ps, int workers)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers, .slots = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.resume = CADRE_RESUME_AUTO;
    local_cluster_begin_job(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
}

static void
open_for_checkpoints(stage_t *stage, int ps, int workers)
{
    local_cluster_options_t options = {.ps = ps, .workers = workers, .slots = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    *stage = (stage_t){.coordinator = NULL};
    local_cluster_open(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
}

Test(conformance_variables, V6_save_overwrite_restore)
{
    stage_t stage;
    open_for_checkpoints(&stage, 2, 1);
    cadre_variable_t *variable = create(&stage, "v", 10, 3, 2);
    cadre_tensor_t saved = counting(10, 3, 1);
    cadre_tensor_t later = counting(10, 3, 1000);
    uint64_t checkpoint = 0;
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &saved, LOCAL_WAIT_MS));
    OK(cadre_checkpoint_save(stage.coordinator, "{\"epoch\": 3}", LOCAL_WAIT_MS, &checkpoint));
    cr_expect_gt(checkpoint, 0);
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &later, LOCAL_WAIT_MS));
    expect_line(variable, 1000, 1);
    local_cluster_end_job(&stage.cluster);
    resume(&stage, 2, 1);
    variable = create(&stage, "v", 10, 3, 2);
    expect_line(variable, 1, 1);
    const char *path = NULL;
    const char *progress = NULL;
    uint64_t cut = 0;
    cr_assert(cadre_checkpoint_resumed(stage.coordinator, &path, &cut, &progress));
    cr_expect_str_eq(progress, "{\"epoch\":3}");
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, &checkpoint));
    cadre_tensor_fini(&saved);
    cadre_tensor_fini(&later);
    stage_close(&stage);
}

Test(conformance_variables, V6_counts_go_on_where_the_checkpoint_was)
{
    stage_t stage;
    open_for_checkpoints(&stage, 2, 2);
    cadre_variable_options_t options = {.size = sizeof(options),
                                        .optimizer = {.kind = CADRE_OPTIMIZER_ADD},
                                        .partitioner = CADRE_PARTITION_FIXED,
                                        .count = 2};
    const int64_t shape[] = {WIDE_ROWS};
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, shape, 1, &options,
                             &stage.wide));
    stage_schedule(&stage, "add_one", 100);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL)); /* in the middle */
    stage_schedule(&stage, "add_one", 11);
    stage_join(&stage);
    stage_expect(&stage, 111);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_schedule(&stage, "add_one", 5); /* lost with the job */
    stage_join(&stage);
    local_cluster_end_job(&stage.cluster);
    resume(&stage, 2, 2);
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, shape, 1, &options,
                             &stage.wide));
    stage_expect(&stage, 111);
    stage_schedule(&stage, "add_one", 9);
    stage_join(&stage);
    stage_expect(&stage, 120);
    stage_expect_applied(&stage, 120);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).finished, 120);
    stage_close(&stage);
}

/* A part of the matrix of V7: where a variable was saved, and where it is loaded. */
typedef struct {
    int ps;
    int parts;
} place_t;

static cadre_variable_t *
create_trained(stage_t *stage, const char *optimizer, int parts)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {WIDE_ROWS};
    cadre_variable_t *variable = NULL;
    options.initializer = cadre_initializer(CADRE_INITIALIZER_NORMAL);
    options.seed = 5;
    OK(cadre_optimizer_named(optimizer, &options.optimizer));
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    OK(cadre_variable_create(stage->coordinator, "wide", CADRE_F32, shape, 1, &options, &variable));
    return variable;
}

static void
copy_value(cadre_variable_t *variable, float values[WIDE_ROWS])
{
    cadre_tensor_t tensor = {.data = NULL};
    OK(cadre_variable_read(variable, &tensor, LOCAL_WAIT_MS));
    memcpy(values, tensor.data, WIDE_ROWS * sizeof(float));
    cadre_tensor_fini(&tensor);
}

/* Trains, saves at `from`, trains on; then the same from the checkpoint at `to`: the bits must be
 * those of the run that went on, which the optimizer's slots decide. */
static void
check_move(const char *optimizer, place_t from, place_t to)
{
    enum { SAVED_AT = 5, END = 9 };
    float at_checkpoint[WIDE_ROWS];
    float undisturbed[WIDE_ROWS];
    float restored[WIDE_ROWS];
    stage_t stage;
    open_for_checkpoints(&stage, from.ps, 1);
    cadre_variable_t *variable = create_trained(&stage, optimizer, from.parts);
    stage_train(&stage, 1, SAVED_AT);
    copy_value(variable, at_checkpoint);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_train(&stage, SAVED_AT + 1, END);
    copy_value(variable, undisturbed);
    local_cluster_end_job(&stage.cluster);
    resume(&stage, to.ps, 1);
    cadre_variable_t *other = create(&stage, "another", 4, 1, 1); /* before the one that is asked */
    variable = create_trained(&stage, optimizer, to.parts);
    expect_line(other, 0, 0);
    copy_value(variable, restored);
    cr_assert_arr_eq(restored, at_checkpoint, sizeof(restored), "%s %d/%d -> %d/%d", optimizer,
                     from.ps, from.parts, to.ps, to.parts);
    stage_train(&stage, SAVED_AT + 1, END);
    copy_value(variable, restored);
    cr_assert_arr_eq(restored, undisturbed, sizeof(restored), "%s %d/%d -> %d/%d, slots", optimizer,
                     from.ps, from.parts, to.ps, to.parts);
    stage_close(&stage);
}

Test(conformance_variables, V7_a_checkpoint_moves_between_numbers_of_ps_and_partitions)
{
    static const struct {
        const char *optimizer;
        place_t from;
        place_t to;
    } moves[] = {
        {"adam", {1, 4}, {1, 1}},     {"adam", {1, 1}, {1, 4}},
        {"adam", {1, 4}, {1, 2}},     {"adam", {1, 2}, {1, 4}},
        {"adam", {4, 4}, {1, 1}},     {"adam", {1, 1}, {4, 4}},
        {"adam", {2, 2}, {4, 4}},     {"adam", {3, 3}, {2, 4}},
        {"sgd", {2, 4}, {3, 2}},      {"momentum", {2, 4}, {3, 2}},
        {"nesterov", {4, 2}, {2, 3}}, {"adagrad", {2, 4}, {1, 3}},
        {"rmsprop", {1, 3}, {2, 4}},  {"adamw", {3, 1}, {2, 2}},
        {"ftrl", {2, 2}, {3, 5}},     {"delayed_nesterov", {2, 3}, {3, 2}},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(moves); i++) {
        check_move(moves[i].optimizer, moves[i].from, moves[i].to);
    }
}

Test(conformance_variables, V7_a_variable_that_changed_its_shape_is_refused)
{
    stage_t stage;
    open_for_checkpoints(&stage, 1, 1);
    create(&stage, "v", 10, 3, 1);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    local_cluster_end_job(&stage.cluster);
    resume(&stage, 1, 1);
    const int64_t shape[] = {10, 4};
    cadre_variable_t *variable = NULL;
    FAILS(cadre_variable_create(stage.coordinator, "v", CADRE_F32, shape, 2, NULL, &variable),
          CADRE_ESHAPE, "v");
    variable = create(&stage, "v", 10, 3, 1);
    expect_line(variable, 0, 0);
    stage_close(&stage);
}

/* --- several variables as of one moment --- */

/* Schedules `count` calls of "add_named", each of which adds 1 to "other" and to "wide". */
static void
add_to_both(stage_t *stage, int count)
{
    const cadre_tensor_t name = stage_text("other");
    for (int i = 0; i < count; i++) {
        cadre_future_t *future = stage_call(stage, "add_named", "name", &name);
        cadre_future_destroy(&future);
    }
}

/* Passes when "wide" and "other", read together, hold the same number everywhere; returns it. */
static double
read_both(stage_t *stage, cadre_variable_t *other)
{
    cadre_variable_t *both[] = {stage->wide, other};
    cadre_tensor_t values[2] = {{.data = NULL}, {.data = NULL}};
    OK(cadre_variable_read_many(stage->coordinator, both, 2, values, LOCAL_WAIT_MS));
    const double number = (double)((const float *)values[0].data)[0];
    for (int i = 0; i < 2; i++) {
        for (int64_t k = 0; k < cadre_tensor_count(&values[i]); k++) {
            const double found = (double)((const float *)values[i].data)[k];
            cr_assert(found >= number && found <= number, "%s holds %g at %d, wide %g at 0",
                      cadre_variable_name(both[i]), found, (int)k, number);
        }
        cadre_tensor_fini(&values[i]);
    }
    return number;
}

static cadre_variable_t *
create_other(stage_t *stage)
{
    const int64_t rows = WIDE_ROWS;
    cadre_variable_t *other = NULL;
    cadre_variable_options_t options = cadre_variable_options();
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(stage->coordinator, "other", CADRE_F32, &rows, 1, &options, &other));
    return other;
}

/* The reads take place while closures run, also after a ps was killed. */
Test(conformance_variables, several_are_read_as_of_one_moment)
{
    enum { READS = 30, BURST = 20 };
    stage_t stage;
    local_cluster_options_t options = {.ps = 2, .workers = 2};
    options.coordinator.checkpoint_dir = local_checkpoints;
    stage_open_with(&stage, &options);
    cadre_variable_t *other = create_other(&stage);
    double last = 0;
    int between = 0; /* reads that came neither before all closures nor after all */
    for (int i = 0; i < READS; i++) {
        add_to_both(&stage, BURST);
        if (i == READS / 2) {
            local_cluster_restart(&stage.cluster, LOCAL_PS, 1);
        }
        const double number = read_both(&stage, other);
        cr_assert(number >= last, "%g after %g", number, last);
        last = number;
        between += number > 0 && number < (double)BURST * (i + 1);
    }
    cr_expect_gt(between, 0, "closures waited while the variables were read");
    stage_join(&stage);
    const double end = read_both(&stage, other);
    cr_expect(end >= READS * BURST && end <= READS * BURST, "%g in the end", end);
    stage_close(&stage);
}

Test(conformance_variables, a_closure_that_goes_on_holds_up_a_read_of_several_and_nothing_after_it)
{
    stage_t stage;
    stage_open(&stage, 2, 1);
    cadre_variable_t *other = create_other(&stage);
    cadre_variable_t *both[] = {stage.wide, other};
    cadre_tensor_t values[2] = {{.data = NULL}, {.data = NULL}};
    hold_t hold = stage_hold(&stage, "hold");
    hold_wait(&hold, 1);
    FAILS(cadre_variable_read_many(stage.coordinator, both, 2, values, 100), CADRE_ETIMEOUT,
          "closures in flight");
    cr_expect_null(values[0].data);
    add_to_both(&stage, 1); /* the pause is over: a slot of the worker may be free */
    hold_release(&hold);
    stage_join(&stage);
    both[1] = NULL;
    FAILS(cadre_variable_read_many(stage.coordinator, both, 2, values, -1), CADRE_EINVALID,
          "variable 1 of the list");
    FAILS(cadre_variable_read_many(stage.coordinator, NULL, 2, values, -1), CADRE_EINVALID,
          "no list");
    OK(cadre_variable_read_many(stage.coordinator, NULL, 0, NULL, -1));
    OK(cadre_variable_read_many(stage.coordinator, both, 1, values, LOCAL_WAIT_MS));
    cadre_tensor_fini(&values[0]);
    hold_fini(&hold);
    stage_close(&stage);
}
