/* Rows of variables: the ids V of docs/conformance.md that are about rows. */
#include <cadre/read_cache.h>
#include <cadre/rows.h>
#include <math.h>

#include "tests/conformance/stage.h"

TestSuite(conformance_rows, .timeout = 900);

enum { COLUMNS = 3 };

static void
open_plain(stage_t *stage, int ps)
{
    *stage = (stage_t){.coordinator = NULL};
    local_cluster_open(&stage->cluster, &(local_cluster_options_t){.ps = ps});
    stage->coordinator = stage->cluster.coordinator;
}

/* A variable whose element i is i. */
static cadre_variable_t *
create(stage_t *stage, const char *name, int64_t rows, int64_t columns, int parts)
{
    cadre_variable_options_t options = cadre_variable_options();
    const int64_t shape[] = {rows, columns};
    cadre_variable_t *variable = NULL;
    cadre_tensor_t value = {.data = NULL};
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = parts;
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    OK(cadre_variable_create(stage->coordinator, name, CADRE_F32, shape, 2, &options, &variable));
    OK(cadre_tensor_init(&value, CADRE_F32, shape, 2));
    for (int64_t i = 0; i < rows * columns; i++) {
        ((float *)value.data)[i] = (float)i;
    }
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    cadre_tensor_fini(&value);
    return variable;
}

/* Passes when the tensor is these rows of a variable that `create` has made. */
static void
expect_rows(const cadre_tensor_t *rows, const int64_t *ids, size_t count, int64_t columns)
{
    cr_assert_eq(rows->rank, 2);
    cr_assert_eq(rows->shape[0], (int64_t)count);
    cr_assert_eq(rows->shape[1], columns);
    for (size_t i = 0; i < count * (size_t)columns; i++) {
        const float wanted = (float)(ids[i / (size_t)columns] * columns + (int64_t)i % columns);
        const float got = ((const float *)rows->data)[i];
        cr_assert_eq(got, wanted, "element %zu is %g, not %g", i, (double)got, (double)wanted);
    }
}

static void
read_rows_of(int ps, int parts)
{
    stage_t stage;
    open_plain(&stage, ps);
    cadre_variable_t *variable = create(&stage, "table", 13, COLUMNS, parts);
    cadre_tensor_t rows = {.data = NULL};
    const int64_t ids[] = {12, 0, 7, 7, 3, 11, 0};
    OK(cadre_variable_read_rows(variable, ids, 7, &rows, LOCAL_WAIT_MS));
    expect_rows(&rows, ids, 7, COLUMNS);
    OK(cadre_variable_read_rows(variable, ids + 2, 1, &rows, LOCAL_WAIT_MS));
    expect_rows(&rows, ids + 2, 1, COLUMNS);
    const int64_t stretch[] = {2, 3, 4, 5, 6, 7, 8, 9, 10};
    OK(cadre_variable_read_slice(variable, 2, 9, &rows, LOCAL_WAIT_MS));
    expect_rows(&rows, stretch, 9, COLUMNS);
    cadre_tensor_fini(&rows);
    stage_close(&stage);
}

Test(conformance_rows, V4_rows_come_in_the_order_of_the_ids_from_one_ps)
{
    read_rows_of(1, 1);
    read_rows_of(1, 5);
}

Test(conformance_rows, V4_rows_come_in_the_order_of_the_ids_from_three_ps)
{
    read_rows_of(3, 5);
    read_rows_of(3, 13);
}

Test(conformance_rows, V4_more_rows_than_a_message_holds_come_in_several)
{
    enum { ROWS = 1500, WIDE = 1009 }; /* 6 MB in all, of which a message holds 4 */
    static int64_t ids[ROWS];
    stage_t stage;
    open_plain(&stage, 1);
    cadre_variable_t *variable = create(&stage, "large", ROWS, WIDE, 2);
    cadre_tensor_t rows = {.data = NULL};
    for (int i = 0; i < ROWS; i++) {
        ids[i] = (i * 7) % ROWS;
    }
    OK(cadre_variable_read_rows(variable, ids, ROWS, &rows, LOCAL_WAIT_MS));
    expect_rows(&rows, ids, ROWS, WIDE);
    cadre_tensor_fini(&rows);
    stage_close(&stage);
}

Test(conformance_rows, V23_ids_outside_are_refused_by_name)
{
    stage_t stage;
    open_plain(&stage, 1);
    cadre_variable_t *variable = create(&stage, "table", 13, COLUMNS, 5);
    cadre_variable_t *scalar = NULL;
    cadre_tensor_t rows = {.data = NULL};
    const int64_t behind[] = {3, 13};
    const int64_t negative[] = {-1};
    FAILS(cadre_variable_read_rows(variable, behind, 2, &rows, LOCAL_WAIT_MS), CADRE_EINVALID,
          "id 1 is 13, variable table has rows 0 to 12");
    FAILS(cadre_variable_read_rows(variable, negative, 1, &rows, LOCAL_WAIT_MS), CADRE_EINVALID,
          "id 0 is -1");
    FAILS(cadre_variable_read_rows(variable, behind, 0, &rows, LOCAL_WAIT_MS), CADRE_EINVALID,
          "table");
    FAILS(cadre_variable_read_rows(variable, NULL, 1, &rows, LOCAL_WAIT_MS), CADRE_EINVALID,
          "table");
    FAILS(cadre_variable_read_rows(variable, behind, SIZE_MAX, &rows, LOCAL_WAIT_MS),
          CADRE_ETOOLARGE, "table");
    FAILS(cadre_variable_read_slice(variable, 5, 9, &rows, LOCAL_WAIT_MS), CADRE_EINVALID,
          "9 rows from 5 on");
    FAILS(cadre_variable_read_slice(variable, -1, 1, &rows, LOCAL_WAIT_MS), CADRE_EINVALID, "-1");
    OK(cadre_variable_create(stage.coordinator, "s", CADRE_F32, NULL, 0, NULL, &scalar));
    FAILS(cadre_variable_read_slice(scalar, 0, 1, &rows, LOCAL_WAIT_MS), CADRE_ESHAPE, "s");
    cr_assert_null(rows.data);
    stage_close(&stage);
}

/* Passes when the first numbers of the variable's rows are these. */
static void
expect_first_column(cadre_variable_t *variable, const float *wanted, int64_t rows)
{
    cadre_tensor_t value = {.data = NULL};
    OK(cadre_variable_read(variable, &value, LOCAL_WAIT_MS));
    for (int64_t r = 0; r < rows; r++) {
        const float got = ((const float *)value.data)[r * COLUMNS];
        cr_assert_eq(got, wanted[r], "row %d is %g, not %g", (int)r, (double)got,
                     (double)wanted[r]);
    }
    cadre_tensor_fini(&value);
}

/* A tensor of `count` rows whose row i is `base` + i. */
static cadre_tensor_t
some_rows(int64_t count, float base)
{
    const int64_t shape[] = {count, COLUMNS};
    cadre_tensor_t tensor = {.data = NULL};
    OK(cadre_tensor_init(&tensor, CADRE_F32, shape, 2));
    for (int64_t i = 0; i < count * COLUMNS; i++) {
        ((float *)tensor.data)[i] = base + (float)(i / COLUMNS);
    }
    return tensor;
}

static void
assign_rows_of(int ps, int parts)
{
    stage_t stage;
    open_plain(&stage, ps);
    cadre_variable_t *variable = create(&stage, "table", 7, COLUMNS, parts);
    cadre_tensor_t rows = some_rows(4, 100);
    const int64_t ids[] = {6, 2, 6, 0};
    OK(cadre_variable_assign_rows(variable, CADRE_VARIABLE_SET, ids, 4, &rows, LOCAL_WAIT_MS));
    expect_first_column(variable, (const float[]){103, 3, 101, 9, 12, 15, 102}, 7);
    OK(cadre_variable_assign_rows(variable, CADRE_VARIABLE_ADD, ids, 4, &rows, LOCAL_WAIT_MS));
    expect_first_column(variable, (const float[]){206, 3, 202, 9, 12, 15, 304}, 7);
    cadre_tensor_t one = some_rows(1, 100);
    OK(cadre_variable_assign_rows(variable, CADRE_VARIABLE_SUBTRACT, ids, 1, &one, LOCAL_WAIT_MS));
    cadre_tensor_fini(&one);
    expect_first_column(variable, (const float[]){206, 3, 202, 9, 12, 15, 204}, 7);
    cadre_tensor_fini(&rows);
    stage_close(&stage);
}

Test(conformance_rows, V3_rows_are_set_added_and_subtracted_on_one_ps)
{
    assign_rows_of(1, 1);
    assign_rows_of(1, 4);
}

Test(conformance_rows, V3_rows_are_set_added_and_subtracted_on_three_ps)
{
    assign_rows_of(3, 5);
    assign_rows_of(3, 7);
}

Test(conformance_rows, V20_assigned_rows_come_back_with_a_lost_ps)
{
    stage_t stage;
    open_plain(&stage, 2);
    cadre_variable_t *variable = create(&stage, "table", 7, COLUMNS, 5);
    cadre_tensor_t rows = some_rows(4, 100);
    const int64_t ids[] = {6, 2, 6, 0};
    OK(cadre_variable_assign_rows(variable, CADRE_VARIABLE_SET, ids, 4, &rows, LOCAL_WAIT_MS));
    cadre_tensor_t one = some_rows(1, 101);
    OK(cadre_variable_assign_rows(variable, CADRE_VARIABLE_ADD, ids, 1, &one, LOCAL_WAIT_MS));
    cadre_tensor_fini(&one);
    for (int i = 0; i < 2; i++) {
        local_cluster_restart(&stage.cluster, LOCAL_PS, i);
    }
    expect_first_column(variable, (const float[]){103, 3, 101, 9, 12, 15, 203}, 7);
    cadre_tensor_fini(&rows);
    stage_close(&stage);
}

Test(conformance_rows, V9_rows_of_another_shape_or_dtype_change_nothing)
{
    stage_t stage;
    open_plain(&stage, 1);
    cadre_variable_t *variable = create(&stage, "table", 4, COLUMNS, 2);
    cadre_tensor_t rows = some_rows(2, 100);
    cadre_tensor_t integers = rows;
    const int64_t ids[] = {3, 0};
    const int64_t behind[] = {3, 4};
    integers.dtype = CADRE_I32;
    FAILS(cadre_variable_assign_rows(variable, CADRE_VARIABLE_SET, ids, 1, &rows, LOCAL_WAIT_MS),
          CADRE_ESHAPE, "table");
    FAILS(
        cadre_variable_assign_rows(variable, CADRE_VARIABLE_SET, ids, 2, &integers, LOCAL_WAIT_MS),
        CADRE_EDTYPE, "table");
    FAILS(cadre_variable_assign_rows(variable, CADRE_VARIABLE_SET, behind, 2, &rows, LOCAL_WAIT_MS),
          CADRE_EINVALID, "id 1 is 4");
    FAILS(cadre_variable_assign_rows(variable, CADRE_VARIABLE_SET, ids, 2, NULL, LOCAL_WAIT_MS),
          CADRE_EINVALID, "no value");
    FAILS(cadre_variable_assign_rows(variable, (cadre_assign_t)7, ids, 2, &rows, LOCAL_WAIT_MS),
          CADRE_EINVALID, "no mode");
    ((float *)rows.data)[COLUMNS] = INFINITY;
    FAILS(cadre_variable_assign_rows(variable, CADRE_VARIABLE_SET, ids, 2, &rows, LOCAL_WAIT_MS),
          CADRE_ENOTFINITE, "number 1, for row 0");
    expect_first_column(variable, (const float[]){0, 3, 6, 9}, 4);
    cadre_tensor_fini(&rows);
    stage_close(&stage);
}

/* --- scatter --- */

/* What an assignment makes of a number. */
static double
changed(cadre_assign_t mode, double was, double by)
{
    switch (mode) {
    case CADRE_VARIABLE_SET:
        return by;
    case CADRE_VARIABLE_ADD:
        return was + by;
    case CADRE_VARIABLE_SUBTRACT:
        return was - by;
    case CADRE_VARIABLE_MULTIPLY:
        return was * by;
    case CADRE_VARIABLE_DIVIDE:
        return was / by;
    case CADRE_VARIABLE_MINIMUM:
        return by < was ? by : was;
    case CADRE_VARIABLE_MAXIMUM:
        return by > was ? by : was;
    }
    return 0;
}

/* Rows on both sides of a border of parts are changed as those of a plain array, in the order of
 * the ids, and come back with a ps that is lost. */
static void
scatter(int ps, int parts)
{
    enum { ROWS = 7, IDS = 5 };
    const int64_t ids[IDS] = {3, 2, 3, 6, 0};
    stage_t stage;
    open_plain(&stage, ps);
    cadre_variable_t *variable = create(&stage, "table", ROWS, COLUMNS, parts);
    float wanted[ROWS];
    for (int r = 0; r < ROWS; r++) {
        wanted[r] = (float)(r * COLUMNS);
    }
    for (int mode = CADRE_VARIABLE_SET; mode <= CADRE_VARIABLE_MAXIMUM; mode++) {
        cadre_tensor_t rows = some_rows(IDS, (float)mode + 1.5f);
        for (int i = 0; i < IDS; i++) {
            const double by = (double)((const float *)rows.data)[i * COLUMNS];
            wanted[ids[i]] = (float)changed((cadre_assign_t)mode, (double)wanted[ids[i]], by);
        }
        OK(cadre_variable_assign_rows(variable, (cadre_assign_t)mode, ids, IDS, &rows,
                                      LOCAL_WAIT_MS));
        expect_first_column(variable, wanted, ROWS);
        cadre_tensor_fini(&rows);
    }
    local_cluster_restart(&stage.cluster, LOCAL_PS, ps - 1);
    expect_first_column(variable, wanted, ROWS);
    stage_close(&stage);
}

Test(conformance_rows, V3_rows_are_changed_as_those_of_a_plain_array)
{
    scatter(1, 1);
    scatter(2, 3);
    scatter(3, 7);
}

/* Integers too, whole variables as well; a divisor of 0 changes nothing. */
Test(conformance_rows, V3_integers_wrap_around_and_are_not_divided_by_0)
{
    enum { ROWS = 5 };
    stage_t stage;
    open_plain(&stage, 2);
    cadre_variable_options_t options = cadre_variable_options();
    options.optimizer = cadre_optimizer(CADRE_OPTIMIZER_ADD);
    options.partitioner = CADRE_PARTITION_FIXED;
    options.count = 2;
    const int64_t shape[] = {ROWS};
    cadre_variable_t *variable = NULL;
    OK(cadre_variable_create(stage.coordinator, "counts", CADRE_I64, shape, 1, &options,
                             &variable));
    int64_t numbers[ROWS] = {INT64_MIN, 7, -7, INT64_MAX, 1};
    cadre_tensor_t value = cadre_tensor_view(CADRE_I64, numbers, shape, 1);
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
    int64_t by[ROWS] = {-1, 2, 2, 2, 3};
    cadre_tensor_t divisor = cadre_tensor_view(CADRE_I64, by, shape, 1);
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_DIVIDE, &divisor, LOCAL_WAIT_MS));
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_MULTIPLY, &divisor, LOCAL_WAIT_MS));
    by[4] = 0;
    FAILS(cadre_variable_assign(variable, CADRE_VARIABLE_DIVIDE, &divisor, LOCAL_WAIT_MS),
          CADRE_EINVALID, "counts: a divisor is 0");
    const int64_t ids[] = {0, 1, 2, 3, 4};
    FAILS(cadre_variable_assign_rows(variable, CADRE_VARIABLE_DIVIDE, ids, ROWS, &divisor,
                                     LOCAL_WAIT_MS),
          CADRE_EINVALID, "counts: a divisor is 0");
    cadre_tensor_t read = {.data = NULL};
    OK(cadre_variable_read(variable, &read, LOCAL_WAIT_MS));
    const int64_t wanted[ROWS] = {INT64_MIN, 6, -6, INT64_MAX - 1, 0};
    cr_expect_arr_eq(read.data, wanted, sizeof(wanted));
    cadre_tensor_fini(&read);
    stage_close(&stage);
}

/* --- ranges --- */

/* Passes when the range is the rows that a slice of Python's gives. */
static void
expect_range(cadre_variable_t *variable, const int64_t range[3], const int64_t *ids, size_t count)
{
    cadre_tensor_t rows = {.data = NULL};
    OK(cadre_variable_read_range(variable, range[0], range[1], range[2], &rows, LOCAL_WAIT_MS));
    expect_rows(&rows, ids, count, COLUMNS);
    cadre_tensor_fini(&rows);
}

Test(conformance_rows, V11_ranges_count_from_the_end_and_go_backwards)
{
    stage_t stage;
    open_plain(&stage, 2);
    cadre_variable_t *variable = create(&stage, "table", 13, COLUMNS, 5);
    expect_range(variable, (const int64_t[]){2, 5, 1}, (const int64_t[]){2, 3, 4}, 3);
    expect_range(variable, (const int64_t[]){-3, 13, 1}, (const int64_t[]){10, 11, 12}, 3);
    expect_range(variable, (const int64_t[]){1, -1, 4}, (const int64_t[]){1, 5, 9}, 3);
    expect_range(variable, (const int64_t[]){12, 2, -5}, (const int64_t[]){12, 7}, 2);
    expect_range(variable, (const int64_t[]){3, -14, -1}, (const int64_t[]){3, 2, 1, 0}, 4);
    expect_range(variable, (const int64_t[]){-1, -3, -1}, (const int64_t[]){12, 11}, 2);
    expect_range(variable, (const int64_t[]){-13, 13, INT64_MAX}, (const int64_t[]){0}, 1);
    expect_range(variable, (const int64_t[]){12, -14, INT64_MIN}, (const int64_t[]){12}, 1);
    stage_close(&stage);
}

Test(conformance_rows, V11_ranges_beyond_the_rows_are_refused)
{
    static const struct {
        int64_t range[3];
        const char *part;
    } cases[] = {{{13, 13, 1}, "the start of a range is 13"},
                 {{-14, 3, 1}, "it is in -13 to 12"},
                 {{0, 14, 1}, "the stop of a range is 14"},
                 {{0, -14, 1}, "it is in -13 to 13"},
                 {{0, 13, -1}, "it is in -14 to 12"},
                 {{0, 5, 0}, "step of a range of variable table is 0"},
                 {{5, 5, 1}, "from 5 to 5 by 1 of variable table has no row"},
                 {{3, 5, -1}, "has no row"},
                 {{INT64_MIN, INT64_MAX, 1}, "the start"}};
    stage_t stage;
    open_plain(&stage, 1);
    cadre_variable_t *variable = create(&stage, "table", 13, COLUMNS, 5);
    cadre_tensor_t rows = {.data = NULL};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t *range = cases[i].range;
        FAILS(
            cadre_variable_read_range(variable, range[0], range[1], range[2], &rows, LOCAL_WAIT_MS),
            CADRE_EINVALID, cases[i].part);
    }
    cr_expect_null(rows.data);
    stage_close(&stage);
}

/* --- caches, other partitions --- */

Test(conformance_rows, V10_a_read_cache_gives_the_first_value_until_it_ends)
{
    stage_t stage;
    open_plain(&stage, 2);
    cadre_variable_t *variable = create(&stage, "table", 7, COLUMNS, 2);
    cadre_variable_t *other = create(&stage, "other", 7, COLUMNS, 3);
    cadre_read_cache_t *cache = NULL;
    const cadre_tensor_t *value = NULL;
    const cadre_tensor_t *again = NULL;
    cadre_tensor_t rows = some_rows(7, 50);
    OK(cadre_read_cache_create(stage.coordinator, &cache));
    OK(cadre_read_cache_read(cache, variable, &value, LOCAL_WAIT_MS));
    OK(cadre_variable_assign(variable, CADRE_VARIABLE_SET, &rows, LOCAL_WAIT_MS));
    OK(cadre_variable_assign(other, CADRE_VARIABLE_SET, &rows, LOCAL_WAIT_MS));
    OK(cadre_read_cache_read(cache, variable, &again, LOCAL_WAIT_MS));
    cr_expect_eq(value, again);
    cr_expect_eq(((const float *)again->data)[COLUMNS], (float)COLUMNS, "as it was");
    OK(cadre_read_cache_read(cache, other, &value, LOCAL_WAIT_MS));
    cr_expect_eq(((const float *)value->data)[COLUMNS], 51, "first asked for after it changed");
    cadre_read_cache_destroy(&cache);
    cadre_read_cache_destroy(&cache);
    OK(cadre_read_cache_create(stage.coordinator, &cache));
    OK(cadre_read_cache_read(cache, variable, &value, LOCAL_WAIT_MS));
    cr_expect_eq(((const float *)value->data)[COLUMNS], 51);
    FAILS(cadre_read_cache_read(cache, NULL, &value, LOCAL_WAIT_MS), CADRE_EINVALID, "NULL");
    cadre_read_cache_destroy(&cache);
    cadre_tensor_fini(&rows);
    stage_close(&stage);
}

Test(conformance_rows, V12_a_value_is_one_tensor_whatever_its_partitions_are)
{
    stage_t stage;
    open_plain(&stage, 3);
    cadre_tensor_t value = {.data = NULL};
    cadre_tensor_t copied = {.data = NULL};
    cadre_variable_t *from = create(&stage, "from", 13, COLUMNS, 5);
    OK(cadre_variable_read(from, &value, LOCAL_WAIT_MS));
    for (int parts = 1; parts <= 13; parts += 4) {
        char name[16];
        snprintf(name, sizeof(name), "to%d", parts);
        cadre_variable_t *to = create(&stage, name, 13, COLUMNS, parts);
        OK(cadre_variable_assign(to, CADRE_VARIABLE_MULTIPLY, &value, LOCAL_WAIT_MS));
        OK(cadre_variable_assign(to, CADRE_VARIABLE_SET, &value, LOCAL_WAIT_MS));
        OK(cadre_variable_read(to, &copied, LOCAL_WAIT_MS));
        cr_expect_arr_eq(copied.data, value.data, cadre_tensor_size_bytes(&value), "%d", parts);
    }
    cadre_tensor_fini(&value);
    cadre_tensor_fini(&copied);
    stage_close(&stage);
}
