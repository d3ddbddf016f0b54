/*
 * Large updates on lanes, beside the same updates of a table that has none: after each both must be
 * the same bit by bit, and what a snapshot holds must stay what it was. And large pulls.
 */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "ps/core/table/table.h"

TestSuite(table_lanes, .timeout = 240);

enum {
    UPDATES = 6,
    KEYS = 3000,    /* of an update, */
    BETWEEN = 4,    /* about every fourth of those from 0 on */
    DIM = 48,       /* KEYS of them are enough for lanes */
    CHUNK_ROWS = 7, /* no piece begins with a chunk, but the first */
    FEW_DIM = 3,    /* so many keys are not */
};

/* Lanes that take the pieces from behind, in this thread. */
static void
run_backwards(void *context, size_t count, void (*each)(void *argument, size_t index),
              void *argument)
{
    size_t *runs = context;
    ++*runs;
    for (size_t i = count; i-- > 0;) {
        each(argument, i);
    }
}

typedef struct {
    cadre_table_spec_t spec;
    cadre_chunk_pool_t *pool;
    cadre_table_t *alone;
    cadre_table_t *shared;
    cadre_lanes_t lanes; /* of the latter */
    size_t runs;
    cadre_random_t random;
    uint64_t keys[KEYS];
    cadre_chunk_t *chunks[KEYS / CHUNK_ROWS + 1];
} fixture_t;

static void
set_up(fixture_t *self, uint32_t dim, const char *optimizer)
{
    *self = (fixture_t){.spec = cadre_table_spec(dim)};
    cr_assert_eq(cadre_optimizer_spec_parse(&self->spec.optimizer, optimizer), 0);
    cr_assert_eq(cadre_initializer_spec_parse(&self->spec.initializer, "normal"), 0);
    self->pool = cadre_chunk_pool_new(8 << 20);
    self->lanes = (cadre_lanes_t){&self->runs, run_backwards};
    cadre_random_init(&self->random, 5, 5);
}

static void
open_tables(fixture_t *self)
{
    cr_assert_eq(cadre_table_open(&self->alone, &self->spec, self->pool), 0);
    cr_assert_eq(cadre_table_open(&self->shared, &self->spec, self->pool), 0);
}

static void
drop_chunks(fixture_t *self)
{
    for (size_t k = 0; k < CADRE_COUNT_OF(self->chunks); k++) {
        cadre_chunk_unref(&self->chunks[k]);
    }
}

static void
tear_down(fixture_t *self)
{
    drop_chunks(self);
    cadre_table_close(&self->alone);
    cadre_table_close(&self->shared);
    cadre_chunk_pool_destroy(&self->pool);
}

/* Draws an update: keys that ascend, and numbers for them. */
static cadre_table_update_t
draw(fixture_t *self)
{
    const size_t row_size = self->spec.dim * sizeof(float);
    drop_chunks(self);
    for (size_t i = 0; i < KEYS; i++) {
        self->keys[i] = i * BETWEEN + cadre_random_below(&self->random, BETWEEN);
    }
    for (size_t k = 0, left = KEYS; left > 0; k++) {
        const size_t rows = left < CHUNK_ROWS ? left : CHUNK_ROWS;
        self->chunks[k] = cadre_chunk_new(rows * row_size);
        float *numbers = cadre_chunk_data(self->chunks[k]);
        for (size_t i = 0; i < rows * self->spec.dim; i++) {
            numbers[i] = (float)cadre_random_below(&self->random, 2000) / 1000 - 1;
        }
        left -= rows;
    }
    return (cadre_table_update_t){
        .count = KEYS, .keys = self->keys, .chunks = self->chunks, .chunk_rows = CHUNK_ROWS};
}

static void
push(fixture_t *self)
{
    cadre_table_update_t update = draw(self);
    cr_assert_eq(cadre_table_check(self->alone, &update), 0, "%s", cadre_error_text());
    cadre_table_push(self->alone, &update);
    update.lanes = &self->lanes;
    cr_assert_eq(cadre_table_check(self->shared, &update), 0, "%s", cadre_error_text());
    cadre_table_push(self->shared, &update);
}

/* Compares two snapshots of all rows, with what pages keep beside numbers. */
static void
expect_same(const cadre_table_snapshot_t *a, const cadre_table_snapshot_t *b, size_t page_size)
{
    cr_expect(memcmp(&a->figures, &b->figures, sizeof(a->figures)) == 0);
    cr_assert_eq(a->rows.count, b->rows.count);
    cr_expect_eq(a->rows.free_row, b->rows.free_row);
    for (size_t i = 0; i < a->rows.count; i++) {
        cr_assert(memcmp(cadre_chunk_data(a->rows.chunks[i]), cadre_chunk_data(b->rows.chunks[i]),
                         page_size) == 0,
                  "page %zu", i);
    }
}

/* Pushes updates to both tables, with a snapshot of each held over the next update, and a fork of
 * each for which rows are copied. */
static void
follow(fixture_t *self)
{
    open_tables(self);
    push(self); /* with admission, which makes no row */
    for (uint64_t n = 1; n <= UPDATES; n++) {
        push(self);
        cadre_table_snapshot_t alone;
        cadre_table_snapshot_t shared;
        cadre_table_t *fork = n % 3 == 0 ? cadre_table_fork(self->shared, 2 * n) : NULL;
        cadre_table_snapshot(self->alone, 0, 2 * n + 1, &alone);
        cadre_table_snapshot(self->shared, 0, 2 * n + 1, &shared);
        const size_t page_size = cadre_chunk_size_bytes(alone.rows.chunks[0]);
        expect_same(&alone, &shared, page_size);
        const size_t last = shared.rows.count - 1;
        cadre_auto(cadre_free) char *before = cadre_calloc(2, page_size);
        memcpy(before, cadre_chunk_data(shared.rows.chunks[0]), page_size);
        memcpy(before + page_size, cadre_chunk_data(shared.rows.chunks[last]), page_size);
        if (n % 2 == 0) {
            push(self); /* while the pages are held */
        }
        cr_expect(memcmp(before, cadre_chunk_data(shared.rows.chunks[0]), page_size) == 0);
        cr_expect(
            memcmp(before + page_size, cadre_chunk_data(shared.rows.chunks[last]), page_size) == 0);
        cadre_table_snapshot_fini(&alone);
        cadre_table_snapshot_fini(&shared);
        cadre_table_close(&fork);
    }
}

Test(table_lanes, change_nothing_of_what_sgd_does)
{
    fixture_t self;
    set_up(&self, DIM, "sgd");
    follow(&self);
    cr_expect_gt(self.runs, 2 * UPDATES);
    tear_down(&self);
}

Test(table_lanes, change_nothing_of_what_adam_does_to_bf16)
{
    fixture_t self;
    set_up(&self, DIM, "adam");
    self.spec.storage = CADRE_BF16;
    follow(&self);
    cr_expect_gt(self.runs, 2 * UPDATES);
    tear_down(&self);
}

Test(table_lanes, change_nothing_of_what_row_wise_adagrad_does_to_long_rows)
{
    fixture_t self;
    set_up(&self, 500, "adagrad");
    self.spec.row_wise = true;
    follow(&self);
    cr_expect_gt(self.runs, 2 * UPDATES);
    tear_down(&self);
}

Test(table_lanes, admit_and_expire_the_same_keys)
{
    fixture_t self;
    set_up(&self, DIM, "sgd");
    self.spec.admit_after = 2;
    self.spec.age_max = 2;
    follow(&self);
    cr_expect_gt(cadre_table_figures(self.shared).unadmitted, 0);
    cr_expect_gt(cadre_table_figures(self.shared).expired, 0);
    tear_down(&self);
}

Test(table_lanes, evict_the_same_rows)
{
    fixture_t self;
    set_up(&self, DIM, "sgd");
    self.spec.rows_max = 2 * KEYS;
    self.spec.when_full = CADRE_TABLE_EVICT_LFU;
    follow(&self);
    cr_expect_gt(cadre_table_figures(self.shared).evicted, 0);
    tear_down(&self);
}

Test(table_lanes, sleep_where_an_update_is_small)
{
    fixture_t self;
    set_up(&self, FEW_DIM, "sgd");
    follow(&self);
    cr_expect_eq(self.runs, 0);
    tear_down(&self);
}

/* Counts numbers of keys around the least that wakes lanes. */
Test(table_lanes, wake_at_as_many_numbers_as_their_header_says)
{
    enum { LEAST = CADRE_LANES_ALONE_COUNT / DIM + 1 };
    const cadre_lanes_t lanes = {.run = run_backwards};
    cadre_table_update_t update = {.count = LEAST - 1, .lanes = &lanes};
    cr_expect_eq(cadre_table_update_piece_count(&update, DIM), 0);
    update.count = LEAST;
    cr_expect_eq(cadre_table_update_piece_count(&update, DIM), LEAST / CADRE_TABLE_PIECE_KEYS + 1);
    const cadre_lanes_t nobody = {.run = NULL};
    update.lanes = &nobody;
    cr_expect_eq(cadre_table_update_piece_count(&update, DIM), 0);
    update.lanes = NULL;
    cr_expect_eq(cadre_table_update_piece_count(&update, DIM), 0);
}

Test(table_lanes, find_a_number_that_is_not_finite_wherever_it_is)
{
    fixture_t self;
    set_up(&self, DIM, "sgd");
    open_tables(&self);
    cadre_table_update_t update = draw(&self);
    update.lanes = &self.lanes;
    static const size_t rows[] = {0, 1023, 1024, 2047, 2048, KEYS - 1};
    for (size_t k = 0; k < CADRE_COUNT_OF(rows); k++) {
        const size_t i = rows[k];
        float *number =
            (float *)cadre_chunk_data(self.chunks[i / CHUNK_ROWS]) + i % CHUNK_ROWS * DIM + i % DIM;
        const float before = *number;
        *number = NAN;
        cr_expect_eq(cadre_table_check(self.shared, &update), CADRE_ENOTFINITE, "row %zu", i);
        *number = before;
        cr_expect_eq(cadre_table_check(self.shared, &update), 0);
    }
    cr_expect_gt(self.runs, 0);
    tear_down(&self);
}

/* --- pulls --- */

enum {
    WANTED = 2 * KEYS,  /* keys, some of which have no row, and some come again */
    WANTED_ROWS = 1000, /* of a chunk: neither pieces nor blocks of rows end with it */
};

/* Draws keys that may have rows, in any order. */
static void
draw_wanted(fixture_t *self, uint64_t *keys)
{
    for (size_t i = 0; i < WANTED; i++) {
        keys[i] = cadre_random_below(&self->random, KEYS * BETWEEN);
    }
}

/* Pulls the same keys of both tables, from the one with lanes into chunks, and compares. */
static void
expect_same_rows(fixture_t *self, const uint64_t *keys, cadre_dtype_t dtype)
{
    const size_t row_size = self->spec.dim * cadre_dtype_size(dtype);
    cadre_auto(cadre_free) unsigned char *alone = cadre_calloc(WANTED, row_size);
    cadre_chunk_t *chunks[WANTED / WANTED_ROWS];
    for (size_t k = 0; k < CADRE_COUNT_OF(chunks); k++) {
        chunks[k] = cadre_chunk_new(WANTED_ROWS * row_size);
    }
    const cadre_row_pull_t pull = {.count = WANTED,
                                   .keys = keys,
                                   .dtype = dtype,
                                   .chunks = chunks,
                                   .chunk_rows = WANTED_ROWS,
                                   .lanes = &self->lanes};
    self->runs = 0;
    cr_assert_eq(cadre_table_pull(self->alone, dtype, WANTED, keys, alone), 0);
    cr_assert_eq(cadre_table_pull_rows(self->shared, &pull), 0);
    cr_expect_eq(self->runs, 1);
    for (size_t k = 0; k < CADRE_COUNT_OF(chunks); k++) {
        cr_expect(memcmp(cadre_chunk_data(chunks[k]), alone + k * WANTED_ROWS * row_size,
                         WANTED_ROWS * row_size) == 0,
                  "chunk %zu", k);
        cadre_chunk_unref(&chunks[k]);
    }
}

Test(table_lanes, pull_the_same_rows_in_both_dtypes)
{
    static const cadre_dtype_t storages[] = {CADRE_F32, CADRE_BF16};
    for (size_t i = 0; i < CADRE_COUNT_OF(storages); i++) {
        fixture_t self;
        uint64_t keys[WANTED];
        set_up(&self, DIM, "sgd");
        self.spec.storage = storages[i];
        open_tables(&self);
        push(&self);
        draw_wanted(&self, keys);
        expect_same_rows(&self, keys, CADRE_F32);
        expect_same_rows(&self, keys, CADRE_BF16);
        tear_down(&self);
    }
}

Test(table_lanes, name_the_first_key_whose_value_is_too_large_for_bf16)
{
    fixture_t self;
    uint64_t keys[WANTED];
    set_up(&self, DIM, "sgd");
    self.spec.optimizer.parameters[0] = 1; /* the learning rate */
    open_tables(&self);
    cadre_table_update_t update = draw(&self);
    float *number = (float *)cadre_chunk_data(self.chunks[0]) + DIM - 1;
    *number = FLT_MAX;
    cadre_table_push(self.shared, &update);
    draw_wanted(&self, keys);
    keys[WANTED - 5] = self.keys[0];
    for (size_t i = 0; i < WANTED - 5; i++) {
        keys[i] = keys[i] == self.keys[0] ? self.keys[1] : keys[i];
    }
    cadre_auto(cadre_free) uint16_t *values = cadre_calloc((size_t)WANTED * DIM, sizeof(*values));
    const cadre_row_pull_t pull = {
        .count = WANTED, .keys = keys, .dtype = CADRE_BF16, .values = values, .lanes = &self.lanes};
    cr_expect_eq(cadre_table_pull_rows(self.shared, &pull), CADRE_ENOTFINITE);
    cr_expect(strstr(cadre_error_text(), "too large for bf16"), "%s", cadre_error_text());
    tear_down(&self);
}

Test(table_lanes, sleep_where_few_rows_are_pulled)
{
    enum { FEW = CADRE_LANES_ALONE_COUNT / DIM };
    fixture_t self;
    set_up(&self, DIM, "sgd");
    open_tables(&self);
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(FEW + 1, sizeof(*keys));
    cadre_auto(cadre_free) float *values = cadre_calloc((FEW + 1) * DIM, sizeof(*values));
    cadre_row_pull_t pull = {
        .count = FEW, .keys = keys, .dtype = CADRE_F32, .values = values, .lanes = &self.lanes};
    cr_expect_eq(cadre_table_pull_rows(self.shared, &pull), 0);
    cr_expect_eq(self.runs, 0);
    pull.count++;
    cr_expect_eq(cadre_table_pull_rows(self.shared, &pull), 0);
    cr_expect_eq(self.runs, 1);
    tear_down(&self);
}
