/*
 * The optimizers of rows: against the dense ones, whose formulas have references of their own, and
 * what rows alone have against references in double.
 */
#include "ps/core/table/row_optimizer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"

TestSuite(row_optimizer, .timeout = 240);

enum { ROWS = 5, DIM = 7, STEPS = 30 };

static cadre_table_spec_t
make_spec(const char *optimizer)
{
    cadre_table_spec_t spec = cadre_table_spec(DIM);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizer), 0);
    cr_assert_eq(cadre_optimizer_spec_set(&spec.optimizer, "learning_rate", 0.1), 0);
    return spec;
}

typedef struct {
    float gradient[ROWS * DIM];
    float values[ROWS * DIM];
    float slots[3][ROWS * DIM];
} arrays_t;

static cadre_row_block_t
block_of(arrays_t *arrays, size_t rows)
{
    return (cadre_row_block_t){.rows = rows,
                               .gradient = arrays->gradient,
                               .room = arrays->gradient,
                               .values = arrays->values,
                               .slots = {arrays->slots[0], arrays->slots[1], arrays->slots[2]}};
}

static void
draw(uint64_t stream, float *numbers)
{
    cadre_random_fill_normal(3, stream, 0, ROWS * DIM, numbers);
}

Test(row_optimizer, does_to_each_row_what_the_dense_optimizer_does)
{
    static const char *const names[] = {"sgd", "momentum", "adagrad", "adam", "ftrl"};
    for (size_t n = 0; n < CADRE_COUNT_OF(names); n++) {
        cadre_table_spec_t spec = make_spec(names[n]);
        cr_assert_eq(cadre_table_spec_check(&spec), 0);
        cadre_row_optimizer_t optimizer;
        cadre_row_optimizer_init(&optimizer, &spec);
        arrays_t left;
        draw(1, left.values);
        for (size_t s = 0; s < cadre_row_optimizer_slot_count(&optimizer); s++) {
            for (size_t row = 0; row < ROWS; row++) {
                cadre_row_optimizer_begin_slot(&optimizer, s, left.slots[s] + row * DIM);
            }
        }
        arrays_t right = left;
        for (uint64_t step = 1; step <= STEPS; step++) {
            draw(step + 1, left.gradient);
            memcpy(right.gradient, left.gradient, sizeof(right.gradient));
            const cadre_row_block_t block = block_of(&left, ROWS);
            cadre_row_optimizer_apply(&optimizer, step, &block);
            const cadre_optimizer_span_t span = {.count = (size_t)ROWS * DIM,
                                                 .gradient = right.gradient,
                                                 .value_in = right.values,
                                                 .value_out = right.values,
                                                 .slots_in = {right.slots[0], right.slots[1]},
                                                 .slots_out = {right.slots[0], right.slots[1]}};
            cadre_optimizer_apply(&optimizer.optimizer, step, &span);
        }
        cr_assert_arr_eq(left.values, right.values, sizeof(left.values), "%s", names[n]);
    }
}

Test(row_optimizer, follows_the_reference_of_row_wise_adagrad)
{
    cadre_table_spec_t spec = make_spec("adagrad");
    spec.row_wise = true;
    cr_assert_eq(cadre_table_spec_check(&spec), 0);
    cadre_row_optimizer_t optimizer;
    cadre_row_optimizer_init(&optimizer, &spec);
    cr_assert_eq(cadre_row_optimizer_slot_width(&optimizer), 1);
    arrays_t arrays;
    draw(1, arrays.values);
    double values[ROWS * DIM];
    double accumulators[ROWS];
    for (size_t i = 0; i < (size_t)ROWS * DIM; i++) {
        values[i] = (double)arrays.values[i];
    }
    for (size_t row = 0; row < ROWS; row++) {
        cadre_row_optimizer_begin_slot(&optimizer, 0, &arrays.slots[0][row]);
        accumulators[row] = 0.1;
    }

    for (uint64_t step = 1; step <= STEPS; step++) {
        draw(step + 1, arrays.gradient);
        for (size_t row = 0; row < ROWS; row++) {
            double mean = 0;
            for (size_t i = 0; i < DIM; i++) {
                mean += pow((double)arrays.gradient[row * DIM + i], 2) / DIM;
            }
            accumulators[row] += mean;
            for (size_t i = 0; i < DIM; i++) {
                values[row * DIM + i] -=
                    0.1 * (double)arrays.gradient[row * DIM + i] / sqrt(accumulators[row] + 1e-7);
            }
        }
        const cadre_row_block_t block = block_of(&arrays, ROWS);
        cadre_row_optimizer_apply(&optimizer, step, &block);
    }
    for (size_t i = 0; i < (size_t)ROWS * DIM; i++) {
        cr_assert_float_eq((double)arrays.values[i], values[i], 1e-5);
    }
}

Test(row_optimizer, shortens_rows_by_the_group_lasso_and_drops_short_ones_to_0)
{
    cadre_table_spec_t spec = make_spec("sgd");
    spec.group_lasso = 2;
    cadre_row_optimizer_t optimizer;
    cadre_row_optimizer_init(&optimizer, &spec);
    arrays_t arrays = {.values = {3, 4}};
    arrays.values[DIM] = 0.15F;
    arrays.values[DIM + 1] = -0.1F;
    const cadre_row_block_t block = block_of(&arrays, 2);
    cadre_row_optimizer_apply(&optimizer, 1, &block);
    cr_assert_float_eq((double)arrays.values[0], 3 * (1 - 0.2 / 5), 1e-6);
    cr_assert_float_eq((double)arrays.values[1], 4 * (1 - 0.2 / 5), 1e-6);
    cr_assert_eq(arrays.values[DIM], 0);
    cr_assert_eq(arrays.values[DIM + 1], 0);
}

Test(row_optimizer, clips_and_follows_a_schedule)
{
    cadre_table_spec_t spec = make_spec("sgd");
    spec.optimizer.clip_value = 0.5;
    cadre_schedule_t given = cadre_schedule(CADRE_SCHEDULE_PIECEWISE_CONSTANT);
    given.boundary_count = 1;
    given.boundaries[0] = 1;
    given.values[0] = 1;
    cr_assert_eq(cadre_schedule_spec_take(&spec.optimizer.schedule, &given), 0);
    cr_assert_eq(cadre_table_spec_check(&spec), 0);
    cadre_row_optimizer_t optimizer;
    cadre_row_optimizer_init(&optimizer, &spec);
    arrays_t arrays = {.gradient = {3, -0.25F}};
    const cadre_row_block_t block = block_of(&arrays, 1);
    cadre_row_optimizer_apply(&optimizer, 1, &block);
    cr_assert_float_eq((double)arrays.values[0], -0.05, 1e-7);
    cr_assert_float_eq((double)arrays.values[1], 0.025, 1e-7);
    cadre_row_optimizer_apply(&optimizer, 3, &block);
    cr_assert_float_eq((double)arrays.values[0], -0.55, 1e-6);
}
