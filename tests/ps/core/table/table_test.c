/*
 * Tables beside a model of them: an array with the row of every key that there may be, and sgd in
 * plain arithmetic.
 */
#include "ps/core/table/table.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"

TestSuite(table, .timeout = 240);

static cadre_table_spec_t
make_spec(uint32_t dim, const char *optimizer, const char *initializer)
{
    cadre_table_spec_t spec = cadre_table_spec(dim);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizer), 0);
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, initializer), 0);
    spec.initializer.seed = 42;
    return spec;
}

typedef struct {
    cadre_chunk_pool_t *pool;
    cadre_table_t *table;
} fixture_t;

static fixture_t
set_up(const cadre_table_spec_t *spec)
{
    fixture_t f = {.pool = cadre_chunk_pool_new(8 << 20)};
    cr_assert_eq(cadre_table_open(&f.table, spec, f.pool), 0, "%s", cadre_error_text());
    return f;
}

static void
tear_down(fixture_t *f)
{
    cadre_table_close(&f->table);
    cadre_chunk_pool_destroy(&f->pool);
}

/* Pushes a gradient with the same number everywhere. */
static int
push(const fixture_t *f, size_t count, const uint64_t *keys, float number)
{
    const size_t numbers = count * cadre_table_get_spec(f->table)->dim;
    float *gradient = cadre_calloc(numbers + 1, sizeof(float));
    for (size_t i = 0; i < numbers; i++) {
        gradient[i] = number;
    }
    int status = cadre_table_check(
        f->table, &(cadre_table_update_t){.count = count, .keys = keys, .numbers = gradient});
    if (status == 0) {
        cadre_table_push(
            f->table, &(cadre_table_update_t){.count = count, .keys = keys, .numbers = gradient});
    }
    free(gradient);
    return status;
}

static int
push_one(const fixture_t *f, uint64_t key)
{
    return push(f, 1, &key, 1);
}

static float
value_of(const fixture_t *f, uint64_t key)
{
    float *values = cadre_calloc(cadre_table_get_spec(f->table)->dim, sizeof(float));
    cadre_table_pull(f->table, CADRE_F32, 1, &key, values);
    const float value = values[0];
    free(values);
    return value;
}

/* --- the model --- */

enum { KEYS = 6000, DIM = 5, UPDATE_KEYS_MAX = 700 };

typedef struct {
    float values[KEYS][DIM];
    bool has[KEYS];
    uint64_t last[KEYS]; /* update */
    uint64_t step;
} model_t;

static uint64_t
key_of(size_t i)
{
    return i * UINT64_C(0x100000001) + 17;
}

/* Draws the keys of one update, in ascending order. */
static size_t
draw_keys(cadre_random_t *random, uint32_t *chosen, uint64_t *keys)
{
    const uint64_t wanted = cadre_random_below(random, UPDATE_KEYS_MAX) + 1;
    size_t count = 0;
    for (uint32_t i = 0; i < KEYS && count < UPDATE_KEYS_MAX; i++) {
        if (cadre_random_below(random, KEYS) < wanted) {
            chosen[count] = i;
            keys[count++] = key_of(i);
        }
    }
    return count;
}

static void
model_push(model_t *model, size_t count, const uint32_t *chosen, const float *gradient)
{
    model->step++;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < DIM; j++) {
            model->values[chosen[i]][j] -= 0.5F * gradient[i * DIM + j];
        }
        model->has[chosen[i]] = true;
        model->last[chosen[i]] = model->step;
    }
}

static void
check_against(const model_t *model, const fixture_t *f)
{
    uint64_t *keys = cadre_calloc(KEYS, sizeof(*keys));
    float *values = cadre_calloc((size_t)KEYS * DIM, sizeof(*values));
    uint64_t rows = 0;
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = key_of(i);
        rows += model->has[i];
        cr_assert_eq(cadre_table_has(f->table, keys[i]), model->has[i], "key %zu", i);
    }
    cadre_table_pull(f->table, CADRE_F32, KEYS, keys, values);
    cr_assert_arr_eq(values, model->values, sizeof(model->values));
    cr_assert_eq(cadre_table_figures(f->table).rows, rows);
    free(keys);
    free(values);
}

/* Lets the model follow what the table evicted; a row may go when `age` says so, and then has its
 * first values again. */
static void
follow_evictions(model_t *model, const model_t *fresh, const fixture_t *f, uint64_t age)
{
    for (size_t i = 0; i < KEYS; i++) {
        if (model->has[i] && !cadre_table_has(f->table, key_of(i))) {
            cr_assert_gt(model->step - model->last[i], age, "key %zu", i);
            model->has[i] = false;
            memcpy(model->values[i], fresh->values[i], sizeof(fresh->values[i]));
        }
    }
}

static void
follow_the_model(uint64_t seed, uint32_t age_max)
{
    cadre_table_spec_t spec = make_spec(DIM, "sgd", "uniform");
    spec.optimizer.parameters[CADRE_LEARNING_RATE] = 0.5;
    spec.age_max = age_max;
    fixture_t f = set_up(&spec);
    model_t *model = cadre_calloc(1, sizeof(*model));
    model_t *fresh = cadre_calloc(1, sizeof(*fresh));
    for (size_t i = 0; i < KEYS; i++) {
        const uint64_t key = key_of(i);
        cadre_table_pull(f.table, CADRE_F32, 1, &key, model->values[i]);
    }
    *fresh = *model;

    cadre_random_t random;
    cadre_random_init(&random, seed, 2);
    cadre_table_snapshot_t snapshot = {.sketch = NULL};
    uint32_t chosen[UPDATE_KEYS_MAX];
    uint64_t keys[UPDATE_KEYS_MAX];
    float *gradient = cadre_calloc((size_t)UPDATE_KEYS_MAX * DIM, sizeof(*gradient));
    for (uint64_t step = 1; step <= 60; step++) {
        const size_t count = draw_keys(&random, chosen, keys);
        cadre_random_fill_normal(seed, 100 + step, 0, count * DIM, gradient);
        cr_assert_eq(cadre_table_check(f.table, &(cadre_table_update_t){.count = count,
                                                                        .keys = keys,
                                                                        .numbers = gradient}),
                     0);
        cadre_table_push(
            f.table, &(cadre_table_update_t){.count = count, .keys = keys, .numbers = gradient});
        model_push(model, count, chosen, gradient);
        follow_evictions(model, fresh, &f, age_max > 0 ? age_max : UINT64_MAX - 1);
        if (cadre_random_below(&random, 8) == 0) {
            cadre_table_snapshot_fini(&snapshot);
            cadre_table_snapshot(f.table, 0, 1, &snapshot);
        }
        if (step % 10 == 0) {
            check_against(model, &f);
        }
    }
    cr_assert(age_max == 0 || cadre_table_figures(f.table).expired > 0);

    cadre_table_snapshot_fini(&snapshot);
    free(gradient);
    free(model);
    free(fresh);
    tear_down(&f);
}

Test(table, follows_the_model_for_random_updates)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        follow_the_model(seed, 0);
    }
}

Test(table, follows_the_model_while_old_rows_are_evicted)
{
    for (uint64_t seed = 11; seed <= 20; seed++) {
        follow_the_model(seed, 12);
    }
}

/* --- first values --- */

Test(table, begins_a_key_with_the_same_values_on_any_shard_and_in_any_order)
{
    static const char *const kinds[] = {"zeros", "constant", "uniform", "normal",
                                        "truncated_normal"};
    for (size_t k = 0; k < CADRE_COUNT_OF(kinds); k++) {
        cadre_table_spec_t spec = make_spec(DIM, "sgd", kinds[k]);
        fixture_t left = set_up(&spec);
        fixture_t right = set_up(&spec);
        const uint64_t before[] = {1, 5, UINT64_MAX};
        cr_assert_eq(push(&right, 3, before, 1), 0);
        const uint64_t keys[] = {9, 7, UINT64_C(1) << 63, 0, 7};
        float a[5 * DIM];
        float b[5 * DIM];
        cadre_table_pull(left.table, CADRE_F32, 5, keys, a);
        const uint64_t ascending[] = {0, 7, 9, UINT64_C(1) << 63};
        cr_assert_eq(push(&right, 4, ascending, 0), 0);
        cadre_table_pull(right.table, CADRE_F32, 5, keys, b);
        cr_assert_arr_eq(a, b, sizeof(a), "%s", kinds[k]);
        cr_assert_eq(cadre_table_figures(left.table).rows, 0, "reading makes no rows");
        tear_down(&left);
        tear_down(&right);
    }
}

Test(table, begins_different_keys_and_seeds_with_different_values)
{
    cadre_table_spec_t spec = make_spec(2, "sgd", "uniform");
    fixture_t f = set_up(&spec);
    spec.initializer.seed++;
    fixture_t other = set_up(&spec);
    const uint64_t keys[] = {0, 1, 2, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        cr_assert_neq(value_of(&f, keys[i]), value_of(&other, keys[i]));
        for (size_t j = 0; j < i; j++) {
            cr_assert_neq(value_of(&f, keys[i]), value_of(&f, keys[j]));
        }
    }
    tear_down(&f);
    tear_down(&other);
}

Test(table, draws_first_values_as_the_initializer_says)
{
    enum { COUNT = 20000 };
    cadre_table_spec_t spec = make_spec(4, "sgd", "normal");
    fixture_t f = set_up(&spec);
    double sum = 0;
    double squares = 0;
    for (uint64_t key = 0; key < COUNT; key++) {
        float values[4];
        cadre_table_pull(f.table, CADRE_F32, 1, &key, values);
        for (size_t i = 0; i < 4; i++) {
            sum += (double)values[i];
            squares += (double)values[i] * (double)values[i];
        }
    }
    cr_assert_float_eq(sum / (4 * COUNT), 0, 0.001);
    cr_assert_float_eq(sqrt(squares / (4 * COUNT)), 0.05, 0.001);
    tear_down(&f);
}

Test(table, stores_bf16_and_computes_in_f32)
{
    cadre_table_spec_t spec = make_spec(3, "adagrad", "uniform");
    spec.storage = CADRE_BF16;
    fixture_t f = set_up(&spec);
    const uint64_t key = 5;
    float values[3];
    for (int round = 0; round < 3; round++) {
        cadre_table_pull(f.table, CADRE_F32, 1, &key, values);
        uint16_t words[3];
        float rounded[3];
        cadre_bf16_from_f32(values, words, 3);
        cadre_bf16_to_f32(words, rounded, 3);
        cr_assert_arr_eq(values, rounded, sizeof(values));
        cr_assert_eq(push_one(&f, key), 0);
    }
    /* accumulator: 0.1 + 3; the first step alone would be lost at a larger value */
    cr_assert_eq(cadre_table_figures(f.table).rows, 1);
    tear_down(&f);
}

/* --- refusals --- */

Test(table, refuses_a_bad_update_and_changes_nothing)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    fixture_t f = set_up(&spec);
    const uint64_t descending[] = {2, 1};
    const uint64_t twice[] = {1, 1};
    const uint64_t good[] = {1, 2};
    cr_assert_eq(push(&f, 2, descending, 1), CADRE_EINVALID);
    cr_assert(strstr(cadre_error_text(), "keys must ascend"));
    cr_assert_eq(push(&f, 2, twice, 1), CADRE_EINVALID);
    cr_assert_eq(push(&f, 2, good, NAN), CADRE_ENOTFINITE);
    uint64_t *many = cadre_calloc(CADRE_TABLE_KEYS_MAX + 1, sizeof(*many));
    for (size_t i = 0; i <= CADRE_TABLE_KEYS_MAX; i++) {
        many[i] = i;
    }
    cr_assert_eq(push(&f, CADRE_TABLE_KEYS_MAX + 1, many, 1), CADRE_ETOOLARGE);
    cr_assert_eq(cadre_table_figures(f.table).rows, 0);
    cr_assert_eq(cadre_table_figures(f.table).steps, 0);
    cr_assert_eq(push(&f, CADRE_TABLE_KEYS_MAX, many, 1), 0);
    free(many);
    tear_down(&f);
}

Test(table, refuses_an_update_of_more_keys_than_rows_even_where_it_evicts)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = 3;
    spec.when_full = CADRE_TABLE_EVICT_LRU;
    fixture_t f = set_up(&spec);
    const uint64_t keys[] = {1, 2, 3, 4};
    cr_assert_eq(push(&f, 3, keys, 1), 0);
    cr_assert_eq(push(&f, 3, keys + 1, 1), 0);
    cr_assert_eq(push(&f, 4, keys, 1), CADRE_EFULL);
    cr_assert(strstr(cadre_error_text(), "no more keys than rows_max"), "%s", cadre_error_text());
    tear_down(&f);
}

Test(table, refuses_rows_beyond_the_limit_and_takes_updates_of_those_it_has)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = 3;
    fixture_t f = set_up(&spec);
    const uint64_t keys[] = {1, 2, 3, 4};
    cr_assert_eq(push(&f, 2, keys, 1), 0);
    cr_assert_eq(push(&f, 4, keys, 1), CADRE_EFULL);
    cr_assert(strstr(cadre_error_text(), "has 2 of at most 3 rows"), "%s", cadre_error_text());
    cr_assert(strstr(cadre_error_text(), "raise rows_max, or let rows go with when_full"), "%s",
              cadre_error_text());
    cr_assert(!cadre_table_has(f.table, 3));
    cr_assert_eq(value_of(&f, 1), -0.01F, "a refused update changes nothing");
    cr_assert_eq(push(&f, 3, keys, 1), 0);
    cr_assert_eq(push(&f, 3, keys, 1), 0);
    cr_assert_eq(push_one(&f, 4), CADRE_EFULL);
    tear_down(&f);
}

Test(table, refuses_a_spec_that_is_not_for_tables)
{
    cadre_table_spec_t spec = make_spec(1, "rmsprop", "zeros");
    cadre_table_t *table = NULL;
    cr_assert_eq(cadre_table_open(&table, &spec, NULL), CADRE_EINVALID);
    cr_assert_null(table);
}

/* --- rows that come and go --- */

Test(table, admits_a_key_at_its_third_sighting)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.admit_after = 3;
    fixture_t f = set_up(&spec);
    for (int sighting = 1; sighting <= 4; sighting++) {
        cr_assert_eq(push_one(&f, 8), 0);
        cr_assert_eq(cadre_table_has(f.table, 8), sighting >= 3);
    }
    cr_assert_float_eq((double)value_of(&f, 8), -0.02, 1e-7, "two gradients were dropped");
    cr_assert_eq(cadre_table_figures(f.table).unadmitted, 2);
    tear_down(&f);
}

Test(table, does_not_count_keys_that_are_not_yet_admitted_as_rows)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.admit_after = 2;
    spec.rows_max = 1;
    fixture_t f = set_up(&spec);
    const uint64_t keys[] = {1, 2, 3};
    cr_assert_eq(push(&f, 3, keys, 1), 0);
    cr_assert_eq(push(&f, 3, keys, 1), CADRE_EFULL);
    cr_assert_eq(push_one(&f, 2), 0);
    cr_assert(cadre_table_has(f.table, 2));
    tear_down(&f);
}

Test(table, makes_room_by_the_row_that_was_not_updated_for_longest)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = 10;
    spec.when_full = CADRE_TABLE_EVICT_LRU;
    fixture_t f = set_up(&spec);
    for (uint64_t key = 0; key < 10; key++) {
        cr_assert_eq(push_one(&f, key), 0);
    }
    cr_assert_eq(push_one(&f, 0), 0);
    cr_assert_eq(push_one(&f, 100), 0);
    cr_assert(cadre_table_has(f.table, 0));
    cr_assert(!cadre_table_has(f.table, 1));
    cr_assert_eq(value_of(&f, 1), 0, "it has its first value again");
    cr_assert_eq(cadre_table_figures(f.table).rows, 10);
    cr_assert_eq(cadre_table_figures(f.table).evicted, 1);
    tear_down(&f);
}

Test(table, makes_room_by_the_row_that_was_updated_least_often)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = 10;
    spec.when_full = CADRE_TABLE_EVICT_LFU;
    fixture_t f = set_up(&spec);
    for (uint64_t key = 0; key < 10; key++) {
        for (int i = 0; i < (key == 7 ? 1 : 4); i++) {
            cr_assert_eq(push_one(&f, key), 0);
        }
    }
    cr_assert_eq(push_one(&f, 100), 0);
    cr_assert(!cadre_table_has(f.table, 7));
    cr_assert(cadre_table_has(f.table, 0));
    tear_down(&f);
}

/* Rows that were looked at before it do not count for less. */
Test(table, makes_room_by_the_row_that_was_updated_once_less_than_others)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = 10;
    spec.when_full = CADRE_TABLE_EVICT_LFU;
    fixture_t f = set_up(&spec);
    for (uint64_t key = 0; key < 10; key++) {
        for (int i = 0; i < (key == 7 ? 3 : 4); i++) {
            cr_assert_eq(push_one(&f, key), 0);
        }
    }
    cr_assert_eq(push_one(&f, 100), 0);
    cr_assert(!cadre_table_has(f.table, 7));
    cr_assert(cadre_table_has(f.table, 0));
    tear_down(&f);
}

Test(table, forgets_what_was_updated_often_long_ago)
{
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = 10;
    spec.when_full = CADRE_TABLE_EVICT_LFU;
    fixture_t f = set_up(&spec);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(push_one(&f, 0), 0);
    }
    for (uint64_t key = 1; key < 100; key++) {
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(push_one(&f, key), 0);
        }
        cr_assert(key > 9 || cadre_table_has(f.table, 0));
    }
    cr_assert(!cadre_table_has(f.table, 0));
    tear_down(&f);
}

/* All but one row of a full table are updated, and one key is new: only that one may go. */
Test(table, never_evicts_a_row_of_the_same_update)
{
    enum { ROWS = 200 };
    const cadre_table_policy_t policies[] = {CADRE_TABLE_EVICT_LRU, CADRE_TABLE_EVICT_LFU};
    for (size_t p = 0; p < 2; p++) {
        cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
        spec.rows_max = ROWS;
        spec.when_full = policies[p];
        spec.age_max = 1;
        fixture_t f = set_up(&spec);
        uint64_t keys[ROWS + 1];
        for (uint64_t round = 0; round < 50; round++) {
            for (uint64_t i = 0; i < ROWS; i++) {
                keys[i] = round + i;
            }
            cr_assert_eq(push(&f, ROWS, keys, 1), 0);
            for (uint64_t i = 0; i < ROWS; i++) {
                cr_assert(cadre_table_has(f.table, keys[i]));
            }
        }
        for (uint64_t i = 0; i <= ROWS; i++) {
            keys[i] = i;
        }
        cr_assert_eq(push(&f, ROWS + 1, keys, 1), CADRE_EFULL);
        tear_down(&f);
    }
}

/* The new key is the first of the update, long before most that have rows. */
Test(table, never_evicts_a_row_that_a_large_update_comes_to_later)
{
    enum { ROWS = 2000, ROUNDS = 20 };
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = ROWS;
    spec.when_full = CADRE_TABLE_EVICT_LRU;
    fixture_t f = set_up(&spec);
    uint64_t keys[ROWS];
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < ROWS; i++) {
            keys[i] = ROUNDS - round + i;
        }
        cr_assert_eq(push(&f, ROWS, keys, 1), 0);
        cr_assert_eq(cadre_table_figures(f.table).evicted, round);
    }
    tear_down(&f);
}

/* Assigns a number to keys from `first` on, or adds it. */
static void
assign(const fixture_t *f, cadre_assign_mode_t mode, uint64_t first, size_t count, float number)
{
    uint64_t *keys = cadre_calloc(count, sizeof(*keys));
    float *numbers = cadre_calloc(count, sizeof(*numbers));
    for (size_t i = 0; i < count; i++) {
        keys[i] = first + i;
        numbers[i] = number;
    }
    const cadre_table_update_t update = {.count = count, .keys = keys, .numbers = numbers};
    cr_assert_eq(cadre_table_check_assign(f->table, &update), 0, "%s", cadre_error_text());
    cadre_table_assign(f->table, mode, &update);
    free(keys);
    free(numbers);
}

static void
expect_numbers(const fixture_t *f, uint64_t first, size_t count, float number)
{
    for (uint64_t key = first; key < first + count; key++) {
        cr_assert(cadre_table_has(f->table, key), "key %d", (int)key);
        cr_assert_eq(value_of(f, key), number, "key %d", (int)key);
    }
}

/* Whatever was updated or assigned last: an assignment has a row for each of its keys, and those of
 * the one before stay as long as there are rows that were not changed since. */
Test(table, has_rows_for_all_keys_of_an_assignment)
{
    enum { ROWS = 1000, PIECE = 300, ROUNDS = 8, UPDATED = 100 };
    const cadre_table_policy_t policies[] = {CADRE_TABLE_EVICT_LRU, CADRE_TABLE_EVICT_LFU};
    for (size_t p = 0; p < 2; p++) {
        cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
        spec.rows_max = ROWS;
        spec.when_full = policies[p];
        fixture_t f = set_up(&spec);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            assign(&f, CADRE_ASSIGN_SET, round * PIECE, PIECE, 1);
            expect_numbers(&f, round * PIECE, PIECE, 1);
        }

        uint64_t keys[UPDATED];
        for (uint64_t i = 0; i < UPDATED; i++) {
            keys[i] = ROUNDS * PIECE + i;
        }
        cr_assert_eq(push(&f, UPDATED, keys, 1), 0);
        for (uint64_t first = 0; first < ROWS - UPDATED; first += PIECE) {
            assign(&f, CADRE_ASSIGN_SET, first, PIECE, 2);
        }
        expect_numbers(&f, 0, ROWS - UPDATED, 2);
        assign(&f, CADRE_ASSIGN_SET, 0, ROWS, 3);
        expect_numbers(&f, 0, ROWS, 3);
        cr_assert_eq(cadre_table_figures(f.table).unadmitted, 0);
        cr_assert_eq(cadre_table_figures(f.table).rows, ROWS);
        tear_down(&f);
    }
}

/* As the parts of one large assignment come, where nothing is older: what came in the part before
 * is not evicted, as the hand has passed it. */
Test(table, takes_as_many_rows_as_it_may_have_in_parts)
{
    enum { ROWS = 1000, PART = 170, ROUNDS = 5 };
    const cadre_table_policy_t policies[] = {CADRE_TABLE_EVICT_LRU, CADRE_TABLE_EVICT_LFU};
    for (size_t p = 0; p < 2; p++) {
        cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
        spec.rows_max = ROWS;
        spec.when_full = policies[p];
        fixture_t f = set_up(&spec);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            for (uint64_t i = 0; i < ROWS; i += PART) {
                const size_t count = ROWS - i < PART ? ROWS - i : PART;
                assign(&f, CADRE_ASSIGN_SET, round * ROWS + i, count, (float)round);
            }
            expect_numbers(&f, round * ROWS, ROWS, (float)round);
        }
        tear_down(&f);
    }
}

/* The first keys are new, and the others have the rows that were changed least recently. */
Test(table, never_evicts_a_row_that_an_assignment_comes_to_later)
{
    enum { ROWS = 200, NEW = 100 };
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.rows_max = ROWS;
    spec.when_full = CADRE_TABLE_EVICT_LRU;
    fixture_t f = set_up(&spec);
    assign(&f, CADRE_ASSIGN_SET, NEW, ROWS - NEW, 1);
    for (uint64_t key = ROWS; key < ROWS + NEW; key++) {
        cr_assert_eq(push_one(&f, key), 0);
    }
    assign(&f, CADRE_ASSIGN_ADD, 0, ROWS, 1);
    expect_numbers(&f, 0, NEW, 1);
    expect_numbers(&f, NEW, ROWS - NEW, 2);
    tear_down(&f);
}

Test(table, evicts_rows_that_are_too_old_in_a_few_updates)
{
    enum { ROWS = 1000 };
    cadre_table_spec_t spec = make_spec(1, "sgd", "zeros");
    spec.age_max = 5;
    fixture_t f = set_up(&spec);
    uint64_t keys[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
    }
    cr_assert_eq(push(&f, ROWS, keys, 1), 0);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(push_one(&f, 5000), 0);
        cr_assert_eq(cadre_table_figures(f.table).rows, ROWS + 1);
    }
    for (int i = 0; i < ROWS / 50; i++) {
        cr_assert_eq(push_one(&f, 5000), 0);
    }
    cr_assert_eq(cadre_table_figures(f.table).rows, 1);
    cr_assert_eq(cadre_table_figures(f.table).expired, ROWS);
    tear_down(&f);
}

Test(table, evicts_rows_that_the_group_lasso_has_made_0)
{
    cadre_table_spec_t spec = make_spec(2, "sgd", "zeros");
    spec.group_lasso = 2;
    spec.norm_min = 1e-6;
    fixture_t f = set_up(&spec);
    const uint64_t small = 1;
    const uint64_t large = 2;
    cr_assert_eq(push(&f, 1, &small, 0.5F), 0);
    cr_assert(cadre_table_has(f.table, small), "a row of this update stays");
    cr_assert_eq(push(&f, 1, &large, 5), 0);
    cr_assert(!cadre_table_has(f.table, small));
    cr_assert_eq(push_one(&f, 3), 0);
    cr_assert(cadre_table_has(f.table, large));
    tear_down(&f);
}

/* --- memory --- */

Test(table, takes_at_most_1_35_of_the_payload_at_any_size)
{
    static const struct {
        const char *optimizer;
        uint32_t dim;
        bool row_wise;
        size_t payload; /* key, values and slots */
    } cases[] = {
        {"sgd", 16, false, 8 + 64},          {"adagrad", 8, true, 8 + 32 + 4},
        {"adagrad", 16, true, 8 + 64 + 4},   {"adagrad", 64, true, 8 + 256 + 4},
        {"adagrad", 32, false, 8 + 2 * 128}, {"adam", 64, false, 8 + 3 * 256},
        {"momentum", 10, false, 8 + 2 * 40}, {"ftrl", 1, false, 8 + 12},
    };
    for (size_t c = 0; c < CADRE_COUNT_OF(cases); c++) {
        cadre_table_spec_t spec = make_spec(cases[c].dim, cases[c].optimizer, "zeros");
        spec.row_wise = cases[c].row_wise;
        fixture_t f = set_up(&spec);
        uint64_t keys[1000];
        for (uint64_t first = 0; first < 60000; first += CADRE_COUNT_OF(keys)) {
            for (uint64_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
                keys[i] = first + i;
            }
            cr_assert_eq(push(&f, CADRE_COUNT_OF(keys), keys, 1), 0);
            const cadre_table_figures_t figures = cadre_table_figures(f.table);
            const double bytes = (double)figures.size_bytes / (double)figures.rows;
            cr_assert(figures.rows < 20000 ||
                          bytes < (cases[c].dim < 8 ? 2 : 1.35) * (double)cases[c].payload,
                      "%s, dim %u, %llu rows: %g bytes", cases[c].optimizer, cases[c].dim,
                      (unsigned long long)figures.rows, bytes);
        }
        tear_down(&f);
    }
}
