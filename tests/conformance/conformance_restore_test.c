/* Checkpoints loaded by another number of ps, and into other partitions, than wrote them: V7, with
 * several variables, optimizer slots and chunks, and what is created late. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/tensor/tensor.h"
#include "tests/conformance/stage.h"

TestSuite(conformance_restore, .timeout = 900);

/* Where a job runs, and into how many parts its variables are cut. */
typedef struct {
    int ps;
    int parts;
} place_t;

static local_cluster_options_t
options_for(int ps, bool resumes)
{
    local_cluster_options_t options = {.ps = ps, .workers = 1, .slots = 1};
    options.coordinator.checkpoint_dir = local_checkpoints;
    options.coordinator.resume = resumes ? CADRE_RESUME_AUTO : CADRE_RESUME_NEVER;
    return options;
}

static void
open_stage(stage_t *stage, int ps)
{
    local_cluster_options_t options = options_for(ps, false);
    *stage = (stage_t){.coordinator = NULL};
    local_cluster_open(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
}

/* Ends the job and takes it up again with that many ps. */
static void
resume(stage_t *stage, int ps)
{
    local_cluster_options_t options = options_for(ps, true);
    local_cluster_end_job(&stage->cluster);
    local_cluster_begin_job(&stage->cluster, &options);
    stage->coordinator = stage->cluster.coordinator;
}

/* --- a model --- */

/* "wide" is trained; the others hold what was assigned to them: rows that do not divide evenly,
 * parts of several chunks, integers, a scalar. */
typedef struct {
    const char *name;
    cadre_dtype_t dtype;
    const char *optimizer;
    int rank;
    int64_t shape[2];
} member_t;

static const member_t MODEL[] = {
    {"wide", CADRE_F32, "adam", 1, {WIDE_ROWS}}, {"table", CADRE_F32, "momentum", 2, {37, 5}},
    {"large", CADRE_F32, "sgd", 2, {3001, 257}}, {"count", CADRE_I64, "add", 1, {23}},
    {"scalar", CADRE_F64, "add", 0, {0}},
};

enum { MEMBERS = CADRE_COUNT_OF(MODEL) };

static cadre_variable_t *
create(stage_t *stage, const member_t *member, int parts)
{
    cadre_variable_options_t options = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    options.initializer = cadre_initializer(member->dtype == CADRE_F32 ? CADRE_INITIALIZER_NORMAL
                                                                       : CADRE_INITIALIZER_ZEROS);
    options.seed = 5;
    OK(cadre_optimizer_named(member->optimizer, &options.optimizer));
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = member->rank > 0 ? parts : 1;
    OK(cadre_variable_create(stage->coordinator, member->name, member->dtype, member->shape,
                             member->rank, &options, &variable));
    return variable;
}

/* Numbers that are all different, in every byte. */
static cadre_tensor_t
numbers(const member_t *member)
{
    cadre_tensor_t tensor = {.data = NULL};
    OK(cadre_tensor_init(&tensor, member->dtype, member->shape, member->rank));
    uint64_t state = (uint64_t)(member - MODEL) + 1;
    for (int64_t i = 0; i < cadre_tensor_count(&tensor); i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double number = (double)(int64_t)state / 9e9;
        if (member->dtype == CADRE_F32) {
            ((float *)tensor.data)[i] = (float)number;
        } else if (member->dtype == CADRE_F64) {
            ((double *)tensor.data)[i] = number;
        } else {
            ((int64_t *)tensor.data)[i] = (int64_t)state;
        }
    }
    return tensor;
}

static void
expect_same(cadre_variable_t *variable, const cadre_tensor_t *expected, const char *when)
{
    cadre_tensor_t found = {.data = NULL};
    OK(cadre_variable_read(variable, &found, LOCAL_WAIT_MS));
    cr_assert_eq(cadre_tensor_size_bytes(&found), cadre_tensor_size_bytes(expected));
    cr_assert_arr_eq(found.data, expected->data, cadre_tensor_size_bytes(expected), "%s: %s", when,
                     cadre_variable_name(variable));
    cadre_tensor_fini(&found);
}

enum { SAVED_AT = 4, END = 7 };

/* "wide" at the checkpoint and at the end of a job that nothing ever happened to. */
static void
train_undisturbed(cadre_tensor_t *saved, cadre_tensor_t *end)
{
    stage_t stage;
    open_stage(&stage, 1);
    cadre_variable_t *wide = create(&stage, &MODEL[0], 1);
    stage_train(&stage, 1, SAVED_AT);
    OK(cadre_variable_read(wide, saved, LOCAL_WAIT_MS));
    stage_train(&stage, SAVED_AT + 1, END);
    OK(cadre_variable_read(wide, end, LOCAL_WAIT_MS));
    stage_close(&stage);
}

/* Saves at `from`, loads at `to`, the last of the model first, and trains on. */
static void
check_move(place_t from, place_t to, const cadre_tensor_t *saved, const cadre_tensor_t *end)
{
    stage_t stage;
    cadre_variable_t *variables[MEMBERS];
    cadre_tensor_t expected[MEMBERS];
    char when[64];
    snprintf(when, sizeof(when), "%d ps, %d parts -> %d ps, %d parts", from.ps, from.parts, to.ps,
             to.parts);
    open_stage(&stage, from.ps);
    for (size_t i = 0; i < MEMBERS; i++) {
        variables[i] = create(&stage, &MODEL[i], from.parts);
        expected[i] = numbers(&MODEL[i]);
        if (i > 0) {
            OK(cadre_variable_assign(variables[i], CADRE_VARIABLE_SET, &expected[i],
                                     LOCAL_WAIT_MS));
        }
    }
    stage_train(&stage, 1, SAVED_AT);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    stage_train(&stage, SAVED_AT + 1, SAVED_AT + 1); /* lost with the job */
    resume(&stage, to.ps);
    for (size_t i = MEMBERS; i-- > 1;) {
        variables[i] = create(&stage, &MODEL[i], to.parts);
        expect_same(variables[i], &expected[i], when);
    }
    variables[0] = create(&stage, &MODEL[0], to.parts);
    expect_same(variables[0], saved, when);
    stage_train(&stage, SAVED_AT + 1, END);
    expect_same(variables[0], end, when); /* which the slots decide */
    for (size_t i = 0; i < MEMBERS; i++) {
        cadre_tensor_fini(&expected[i]);
    }
    stage_close(&stage);
}

Test(conformance_restore, V7_ps_and_partitions_of_another_number_are_bit_exact)
{
    static const int moves[][2] = {{4, 1}, {1, 4}, {4, 2}, {2, 4}};
    cadre_tensor_t saved = {.data = NULL};
    cadre_tensor_t end = {.data = NULL};
    train_undisturbed(&saved, &end);
    for (size_t ps = 0; ps < CADRE_COUNT_OF(moves); ps++) {
        for (size_t parts = 0; parts < CADRE_COUNT_OF(moves); parts++) {
            check_move((place_t){moves[ps][0], moves[parts][0]},
                       (place_t){moves[ps][1], moves[parts][1]}, &saved, &end);
        }
    }
    check_move((place_t){3, 5}, (place_t){3, 2}, &saved, &end);
    check_move((place_t){2, 3}, (place_t){3, 3}, &saved, &end);
    cadre_tensor_fini(&saved);
    cadre_tensor_fini(&end);
}

/* The restore was asked for when the job began; the variable comes when others have long been
 * trained, assigned to and read. */
/* No load ends within a millisecond; how long one takes is not how long a ps was away. */
Test(conformance_restore, a_load_that_takes_longer_than_a_ps_may_be_away_is_waited_for)
{
    stage_t stage;
    open_stage(&stage, 1);
    cadre_tensor_t expected = numbers(&MODEL[2]);
    cadre_variable_t *variable = create(&stage, &MODEL[2], 3);
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &expected, LOCAL_WAIT_MS));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    local_cluster_options_t options = options_for(1, true);
    options.coordinator.ps_timeout_ms = 1;
    local_cluster_end_job(&stage.cluster);
    local_cluster_begin_job(&stage.cluster, &options);
    stage.coordinator = stage.cluster.coordinator;
    expect_same(create(&stage, &MODEL[2], 3), &expected, "loaded");
    cadre_tensor_fini(&expected);
    stage_close(&stage);
}

Test(conformance_restore, V7_a_variable_that_is_created_late_is_restored_too)
{
    stage_t stage;
    open_stage(&stage, 2);
    cadre_variable_t *table = create(&stage, &MODEL[1], 3);
    cadre_tensor_t expected = numbers(&MODEL[1]);
    create(&stage, &MODEL[0], 2);
    OK(cadre_variable_assign(table, CADRE_VARIABLE_SET, &expected, LOCAL_WAIT_MS));
    stage_train(&stage, 1, SAVED_AT);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    resume(&stage, 4);
    cadre_variable_t *wide = create(&stage, &MODEL[0], 4);
    stage_train(&stage, SAVED_AT + 1, END);
    cadre_tensor_t zeros = {.data = NULL};
    OK(cadre_tensor_init(&zeros, CADRE_F32, MODEL[0].shape, 1));
    OK(cadre_variable_assign(wide, CADRE_VARIABLE_SET, &zeros, LOCAL_WAIT_MS));
    table = create(&stage, &MODEL[1], 4);
    expect_same(table, &expected, "created late");
    expect_same(wide, &zeros, "beside it");
    cadre_tensor_fini(&zeros);
    cadre_tensor_fini(&expected);
    stage_close(&stage);
}

static cadre_variable_t *
create_pinned(stage_t *stage, bool is_pinned, int shard)
{
    cadre_variable_options_t options = cadre_variable_options();
    cadre_variable_t *variable = NULL;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_MOMENTUM);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.is_pinned = is_pinned;
    options.shard = shard;
    OK(cadre_variable_create(stage->coordinator, MODEL[1].name, MODEL[1].dtype, MODEL[1].shape,
                             MODEL[1].rank, &options, &variable));
    return variable;
}

Test(conformance_restore, V7_a_pinned_variable_is_restored_where_it_is_pinned_then)
{
    stage_t stage;
    int shard = -1;
    cadre_tensor_t expected = numbers(&MODEL[1]);
    open_stage(&stage, 2);
    cadre_variable_t *table = create_pinned(&stage, true, 1);
    cadre_variable_partition(table, 0, NULL, NULL, &shard);
    cr_expect_eq(shard, 1);
    OK(cadre_variable_assign(table, CADRE_VARIABLE_SET, &expected, LOCAL_WAIT_MS));
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));

    resume(&stage, 3);
    table = create_pinned(&stage, true, 2);
    cadre_variable_partition(table, 0, NULL, NULL, &shard);
    cr_expect_eq(shard, 2);
    cr_expect_eq(cadre_variable_partition_count(table), 1);
    expect_same(table, &expected, "pinned elsewhere");
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));

    resume(&stage, 3);
    table = create_pinned(&stage, false, 0);
    cr_expect_eq(cadre_variable_partition_count(table), 3);
    expect_same(table, &expected, "pinned no more");
    cadre_tensor_fini(&expected);
    stage_close(&stage);
}

/* The job's own checkpoint does not hold what was not created by then; a shard that is restored
 * from it would begin with other values than its neighbours. */
Test(conformance_restore, V7_a_variable_comes_too_late_after_the_next_checkpoint)
{
    stage_t stage;
    cadre_variable_t *variable = NULL;
    open_stage(&stage, 2);
    create(&stage, &MODEL[0], 2);
    create(&stage, &MODEL[1], 2);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    resume(&stage, 2);
    create(&stage, &MODEL[0], 2);
    stage_train(&stage, 1, 2);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    FAILS(cadre_variable_create(stage.coordinator, MODEL[1].name, MODEL[1].dtype, MODEL[1].shape,
                                MODEL[1].rank, NULL, &variable),
          CADRE_ESTATE, "ckpt-00000001");
    FAILS(cadre_variable_create(stage.coordinator, MODEL[0].name, MODEL[0].dtype, MODEL[0].shape,
                                MODEL[0].rank, NULL, &variable),
          CADRE_EEXISTS, MODEL[0].name);
    create(&stage, &MODEL[2], 2); /* which it never held */
    stage_train(&stage, 3, 4);
    stage_close(&stage);
}

/* --- damage --- */

/* Flips a bit in the middle of shard file 0 of checkpoint `id`. */
static void
damage(const stage_t *stage, unsigned id)
{
    char *path =
        cadre_asprintf("%s/checkpoints/ckpt-%08u/shard-0.mdb", stage->cluster.scratch.path, id);
    FILE *file = fopen(path, "r+b");
    cr_assert_not_null(file, "%s", path);
    fseek(file, 0, SEEK_END);
    long middle = ftell(file) / 2;
    fseek(file, middle, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, middle, SEEK_SET);
    fputc(byte ^ 4, file);
    cr_assert_eq(fclose(file), 0);
    free(path);
}

Test(conformance_restore, the_checkpoint_before_loads_when_the_newest_is_damaged)
{
    stage_t stage;
    open_stage(&stage, 2);
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    const int64_t shape[] = {WIDE_ROWS};
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, shape, 1, &options,
                             &stage.wide));
    for (int i = 0; i < 2; i++) {
        stage_schedule(&stage, "add_one", 10);
        stage_join(&stage);
        OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    }
    damage(&stage, 2);
    resume(&stage, 3);
    cr_assert(local_cluster_logged(&stage.cluster, "checkpoint_damaged"));
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, shape, 1, &options,
                             &stage.wide));
    stage_expect(&stage, 10);
    stage_schedule(&stage, "add_one", 7);
    stage_join(&stage);
    stage_expect(&stage, 17);
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).finished, 17);
    stage_close(&stage);
}

/* --- no place to write --- */

/* The directory of checkpoints is taken away, or is a file, while the job runs: saving fails and is
 * counted, training goes on, and saving works again when there is a place. */
Test(conformance_restore, training_goes_on_while_checkpoints_have_no_place)
{
    stage_t stage;
    open_stage(&stage, 2);
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    const int64_t shape[] = {WIDE_ROWS};
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, shape, 1, &options,
                             &stage.wide));
    stage_schedule(&stage, "add_one", 10);
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    char *place = cadre_asprintf("%s/checkpoints", stage.cluster.scratch.path);
    char *aside = cadre_asprintf("%s/aside", stage.cluster.scratch.path);
    cr_assert_eq(rename(place, aside), 0);
    FILE *file = fopen(place, "w"); /* a file of its name, which not even root can write into */
    cr_assert_not_null(file);
    fclose(file);
    for (uint64_t i = 1; i <= 2; i++) {
        stage_schedule(&stage, "add_one", 10);
        FAILS(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL), CADRE_EIO,
              place);
        cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints_failed, i);
    }
    cr_expect(local_cluster_logged(&stage.cluster, "checkpoint_failed"));
    stage_join(&stage);
    stage_expect(&stage, 30);
    cr_assert_eq(unlink(place), 0); /* where the next one finds nothing, it makes the directory */
    OK(cadre_checkpoint_save(stage.coordinator, NULL, LOCAL_WAIT_MS, NULL));
    cr_expect_eq(cadre_coordinator_totals(stage.coordinator).checkpoints, 2);
    resume(&stage, 1);
    OK(cadre_variable_create(stage.coordinator, "wide", CADRE_F32, shape, 1, &options,
                             &stage.wide));
    stage_expect(&stage, 30);
    free(place);
    free(aside);
    stage_close(&stage);
}
