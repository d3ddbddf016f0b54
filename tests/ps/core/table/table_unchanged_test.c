/*
 * Which rows have not changed since a version: beside a log of all values at all versions.
 */
#include "ps/core/table/table.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

TestSuite(table_unchanged, .timeout = 240);

enum { KEYS = 40, DIM = 2, VERSIONS = 400 };

typedef struct {
    cadre_chunk_pool_t *pool;
    cadre_table_t *table;
    cadre_random_t random;
    uint64_t keys[KEYS];
    float log[VERSIONS + 1][KEYS][DIM]; /* [version] */
    uint64_t answers[2];
} fixture_t;

static void
set_up(fixture_t *self, const cadre_table_spec_t *spec, uint64_t seed)
{
    memset(self, 0, sizeof(*self));
    self->pool = cadre_chunk_pool_new(8 << 20);
    cadre_random_init(&self->random, 1, seed);
    cr_assert_eq(cadre_table_open(&self->table, spec, self->pool), 0, "%s", cadre_error_text());
    for (size_t i = 0; i < KEYS; i++) {
        self->keys[i] = 3 * i;
    }
    cr_assert_eq(cadre_table_pull(self->table, CADRE_F32, KEYS, self->keys, self->log[0]), 0);
}

static void
tear_down(fixture_t *self)
{
    cadre_table_close(&self->table);
    cadre_chunk_pool_destroy(&self->pool);
}

/* Changes a few keys by an update, or by an assignment. */
static void
change(fixture_t *self, bool is_assignment)
{
    float numbers[KEYS * DIM];
    uint64_t keys[KEYS];
    size_t count = 0;
    const uint64_t version = cadre_table_version(self->table) + 1;
    for (size_t i = 0; i < KEYS * DIM; i++) {
        numbers[i] = 1;
    }
    for (size_t i = 0; i < KEYS; i++) {
        if (cadre_random_below(&self->random, 8) == 0) {
            keys[count++] = self->keys[i];
        }
    }
    const cadre_table_update_t update = {.count = count, .keys = keys, .numbers = numbers};
    if (is_assignment) {
        cadre_table_assign(self->table, CADRE_ASSIGN_ADD, &update);
    } else {
        cadre_table_push(self->table, &update);
    }
    cr_assert_eq(cadre_table_version(self->table), version);
    cr_assert_eq(cadre_table_pull(self->table, CADRE_F32, KEYS, self->keys, self->log[version]), 0);
}

/* Asks after all keys, each at some version; what is called unchanged must be so. */
static void
ask(fixture_t *self)
{
    const uint64_t version = cadre_table_version(self->table);
    uint64_t held[KEYS];
    bool unchanged[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        const uint64_t back = cadre_random_below(&self->random, 12);
        held[i] = back > version ? 0 : version - back + 1;
    }
    cadre_table_find_unchanged(self->table, KEYS, self->keys, held, unchanged);
    for (size_t i = 0; i < KEYS; i++) {
        cr_assert(!unchanged[i] || held[i] > 0);
        cr_assert(!unchanged[i] || memcmp(self->log[held[i] - 1][i], self->log[version][i],
                                          DIM * sizeof(float)) == 0,
                  "key %zu at version %llu of %llu", i, (unsigned long long)held[i] - 1,
                  (unsigned long long)version);
        self->answers[unchanged[i]]++;
    }
}

static cadre_table_spec_t
make_spec(void)
{
    cadre_table_spec_t spec = cadre_table_spec(DIM);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, "sgd"), 0);
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "uniform"), 0);
    return spec;
}

/* Changes the table and asks, many times; `assigns`: one change of so many is an assignment. */
static void
follow(const cadre_table_spec_t *spec, uint64_t assigns, uint64_t seed)
{
    fixture_t *self = cadre_calloc(1, sizeof(*self));
    set_up(self, spec, seed);
    for (int i = 0; i < VERSIONS; i++) {
        change(self, assigns > 0 && cadre_random_below(&self->random, assigns) == 0);
        ask(self);
    }
    cr_expect_gt(self->answers[true], VERSIONS, "hardly anything was found unchanged");
    cr_expect_gt(self->answers[false], VERSIONS);
    tear_down(self);
    free(self);
}

Test(table_unchanged, is_never_said_of_what_has_changed)
{
    cadre_table_spec_t spec = make_spec();
    follow(&spec, 0, 1);
    follow(&spec, 20, 2);
}

Test(table_unchanged, is_never_said_of_a_row_that_was_removed_or_made_anew)
{
    cadre_table_spec_t spec = make_spec();
    spec.rows_max = 30;
    spec.when_full = CADRE_TABLE_EVICT_LRU;
    follow(&spec, 0, 3);
    spec.admit_after = 2;
    follow(&spec, 20, 4);
    spec.rows_max = 0;
    spec.when_full = CADRE_TABLE_REFUSE;
    spec.age_max = 8;
    follow(&spec, 0, 5);
}

/* Says what the table says of one key at one version. */
static bool
is_unchanged(fixture_t *self, uint64_t key, uint64_t version)
{
    bool unchanged = false;
    cadre_table_find_unchanged(self->table, 1, &key, &(uint64_t){version + 1}, &unchanged);
    return unchanged;
}

Test(table_unchanged, is_said_of_what_no_update_has_named_since)
{
    static const float one[DIM] = {1, 1};
    fixture_t *self = cadre_calloc(1, sizeof(*self));
    const cadre_table_spec_t spec = make_spec();
    set_up(self, &spec, 1);
    const cadre_table_update_t update = {.count = 1, .keys = (uint64_t[]){5}, .numbers = one};
    cr_expect(is_unchanged(self, 5, 0));
    cr_expect_not(is_unchanged(self, 5, 1), "there is no such version yet");
    cadre_table_push(self->table, &update); /* 1 */
    cr_expect(is_unchanged(self, 5, 1) && is_unchanged(self, 6, 0));
    cr_expect_not(is_unchanged(self, 5, 0));
    cadre_table_push(self->table, &(cadre_table_update_t){
                                      .count = 1, .keys = (uint64_t[]){7}, .numbers = one}); /* 2 */
    cr_expect(is_unchanged(self, 5, 1) && is_unchanged(self, 5, 2));
    cadre_table_assign(self->table, CADRE_ASSIGN_SET, &update); /* 3 */
    cr_expect_not(is_unchanged(self, 5, 2));
    cr_expect(is_unchanged(self, 5, 3));
    cadre_table_push(self->table, &(cadre_table_update_t){
                                      .count = 1, .keys = (uint64_t[]){7}, .numbers = one}); /* 4 */
    cr_expect(is_unchanged(self, 5, 3) && is_unchanged(self, 5, 4));
    cr_expect_not(is_unchanged(self, 7, 3));
    tear_down(self);
    free(self);
}
