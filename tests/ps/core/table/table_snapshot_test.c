/*
 * Snapshots of tables, whole and of what has changed: what is loaded from them goes on like the
 * table that they were taken of.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "ps/core/table/table.h"
#include "tests/sanitizer.h"

TestSuite(table_snapshot, .timeout = 240);

enum { DIM = 40, KEYS = 3000, WINDOW = 600, UPDATE_KEYS_MAX = 200, SNAPSHOTS_MAX = 8 };

static cadre_table_spec_t
make_spec(const char *optimizer)
{
    cadre_table_spec_t spec = cadre_table_spec(DIM);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizer), 0);
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "normal"), 0);
    return spec;
}

/* Applies one update of random keys and numbers, which follow from its number. Ten updates each are
 * of keys near to each other. */
static void
update(cadre_table_t *table, uint64_t number)
{
    uint64_t keys[UPDATE_KEYS_MAX];
    float gradient[UPDATE_KEYS_MAX * DIM];
    cadre_random_t random;
    cadre_random_init(&random, 7, number);
    size_t count = 0;
    const uint64_t first = number / 10 * (WINDOW / 2) % (KEYS - WINDOW);
    for (uint64_t key = first; key < first + WINDOW && count < UPDATE_KEYS_MAX;
         key += 1 + cadre_random_below(&random, 10)) {
        keys[count++] = key;
    }
    cadre_random_fill_normal(8, number, 0, count * DIM, gradient);
    cr_assert_eq(
        cadre_table_check(
            table, &(cadre_table_update_t){.count = count, .keys = keys, .numbers = gradient}),
        0, "%s", cadre_error_text());
    cadre_table_push(table,
                     &(cadre_table_update_t){.count = count, .keys = keys, .numbers = gradient});
}

/* Loads the newest page of each position out of `count` snapshots, of which the first is whole. */
static int
load(cadre_table_t *table, size_t count, const cadre_table_snapshot_t *snapshots)
{
    int status = cadre_table_load_begin(table, &snapshots[count - 1]);
    bool *loaded = cadre_calloc(snapshots[count - 1].rows.row_end + 1, sizeof(*loaded));
    for (size_t s = count; s > 0 && status == 0; s--) {
        const cadre_row_snapshot_t *rows = &snapshots[s - 1].rows;
        for (size_t i = 0; i < rows->count && status == 0; i++) {
            if (!loaded[rows->positions[i]]) {
                loaded[rows->positions[i]] = true;
                status = cadre_table_load_page(table, rows->positions[i],
                                               cadre_chunk_data(rows->chunks[i]),
                                               cadre_chunk_size_bytes(rows->chunks[i]));
            }
        }
    }
    free(loaded);
    return status == 0 ? cadre_table_load_end(table) : status;
}

static void
check_same(cadre_table_t *left, cadre_table_t *right)
{
    for (uint64_t key = 0; key < KEYS; key++) {
        float a[DIM];
        float b[DIM];
        cr_assert_eq(cadre_table_has(left, key), cadre_table_has(right, key));
        cadre_table_pull(left, CADRE_F32, 1, &key, a);
        cadre_table_pull(right, CADRE_F32, 1, &key, b);
        cr_assert_arr_eq(a, b, sizeof(a));
    }
    const cadre_table_figures_t figures = cadre_table_figures(left);
    const cadre_table_figures_t others = cadre_table_figures(right);
    cr_assert_eq(figures.rows, others.rows);
    cr_assert_eq(figures.steps, others.steps);
    cr_assert_eq(figures.created, others.created);
    cr_assert_eq(figures.evicted, others.evicted);
    cr_assert_eq(figures.expired, others.expired);
    cr_assert_eq(figures.unadmitted, others.unadmitted);
}

/* Trains, takes a whole snapshot and some of what has changed, loads them, and trains both on.
 * Returns whether a snapshot has left out pages. */
static bool
go_on_alike(const cadre_table_spec_t *spec)
{
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_table_t *table = NULL;
    cr_assert_eq(cadre_table_open(&table, spec, pool), 0, "%s", cadre_error_text());
    cadre_table_snapshot_t snapshots[SNAPSHOTS_MAX];
    uint64_t number = 0;
    bool has_left_out = false;
    for (size_t s = 0; s < SNAPSHOTS_MAX; s++) {
        for (int i = 0; i < 10; i++) {
            update(table, number++);
        }
        cadre_table_snapshot(table, s == 0 ? 0 : snapshots[s - 1].rows.number, s + 1,
                             &snapshots[s]);

        cadre_table_t *loaded = NULL;
        cr_assert_eq(cadre_table_open(&loaded, spec, pool), 0);
        cr_assert_eq(load(loaded, s + 1, snapshots), 0, "%s", cadre_error_text());
        check_same(table, loaded);

        cadre_table_snapshot_t none;
        cadre_table_snapshot(loaded, snapshots[s].rows.number, s + 2, &none);
        cr_assert_eq(none.rows.count, 0, "nothing has changed since");
        cadre_table_snapshot_t whole;
        cadre_table_snapshot(loaded, 0, s + 3, &whole);
        has_left_out |= snapshots[s].rows.count < whole.rows.count;
        cadre_table_snapshot_fini(&none);
        cadre_table_snapshot_fini(&whole);
        if (s + 1 == SNAPSHOTS_MAX) {
            for (int i = 0; i < 40; i++, number++) {
                update(table, number);
                update(loaded, number);
            }
            check_same(table, loaded);
        }
        cadre_table_close(&loaded);
    }
    for (size_t s = 0; s < SNAPSHOTS_MAX; s++) {
        cadre_table_snapshot_fini(&snapshots[s]);
    }
    cadre_table_close(&table);
    cadre_chunk_pool_destroy(&pool);
    return has_left_out;
}

Test(table_snapshot, goes_on_bit_by_bit_with_any_optimizer)
{
    static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam", "ftrl"};
    for (size_t i = 0; i < CADRE_COUNT_OF(optimizers); i++) {
        const cadre_table_spec_t spec = make_spec(optimizers[i]);
        cr_assert(go_on_alike(&spec));
    }
}

Test(table_snapshot, goes_on_with_the_same_evictions_and_sightings)
{
    const cadre_table_policy_t policies[] = {CADRE_TABLE_EVICT_LRU, CADRE_TABLE_EVICT_LFU};
    for (size_t p = 0; p < CADRE_COUNT_OF(policies); p++) {
        cadre_table_spec_t spec = make_spec("adagrad");
        spec.row_wise = true;
        spec.storage = CADRE_BF16;
        spec.admit_after = 2;
        spec.rows_max = 900;
        spec.when_full = policies[p];
        spec.age_max = 25;
        go_on_alike(&spec);
    }
}

/* --- forks --- */

static cadre_table_t *
trained(const cadre_table_spec_t *spec, cadre_chunk_pool_t *pool, uint64_t updates)
{
    cadre_table_t *table = NULL;
    cr_assert_eq(cadre_table_open(&table, spec, pool), 0, "%s", cadre_error_text());
    for (uint64_t number = 0; number < updates; number++) {
        update(table, number);
    }
    return table;
}

/* A table and its fork go different ways, each like a table of its own; what is taken of the fork
 * after the table is gone is whole. */
static void
fork_goes_its_own_way(const cadre_table_spec_t *spec)
{
    enum { BEFORE = 60, AFTER = 60 };
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_table_t *table = trained(spec, pool, BEFORE);
    cadre_table_t *like_table = trained(spec, pool, BEFORE);
    cadre_table_t *like_fork = trained(spec, pool, BEFORE);
    cadre_table_t *fork = cadre_table_fork(table, 1);
    for (uint64_t number = BEFORE; number < BEFORE + AFTER; number++) {
        update(table, number);
        update(like_table, number);
        if (number % 3 == 0) {
            update(fork, 1000 + number);
            update(like_fork, 1000 + number);
        }
    }
    check_same(table, like_table);
    check_same(fork, like_fork);
    cadre_table_t *second = cadre_table_fork(table, 2);
    update(table, 2000);
    check_same(second, like_table);
    cadre_table_close(&second);

    cadre_table_freeze(fork);
    cadre_table_close(&table);
    cadre_table_snapshot_t snapshot;
    cadre_table_snapshot(fork, 0, 1, &snapshot);
    cadre_table_close(&fork);
    cadre_table_t *loaded = trained(spec, pool, 0);
    cr_assert_eq(load(loaded, 1, &snapshot), 0, "%s", cadre_error_text());
    check_same(loaded, like_fork);

    cadre_table_snapshot_fini(&snapshot);
    cadre_table_close(&loaded);
    cadre_table_close(&like_table);
    cadre_table_close(&like_fork);
    cadre_chunk_pool_destroy(&pool);
}

Test(table_snapshot, a_fork_and_its_table_do_not_see_each_others_changes)
{
    cadre_table_spec_t spec = make_spec("adam");
    fork_goes_its_own_way(&spec);
    spec.admit_after = 2;
    spec.rows_max = 900;
    spec.when_full = CADRE_TABLE_EVICT_LFU;
    spec.age_max = 25;
    fork_goes_its_own_way(&spec);
}

/* What changed after a fork is in the next snapshot; what a straggler changed in both, too. */
Test(table_snapshot, leaves_out_what_has_not_changed_since_a_fork)
{
    const cadre_table_spec_t spec = make_spec("sgd");
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_table_t *table = trained(&spec, pool, 100);
    cadre_table_t *first = cadre_table_fork(table, 7);
    update(table, 3);
    cadre_table_t *second = cadre_table_fork(table, 9);
    cadre_table_snapshot_t whole;
    cadre_table_snapshot_t some;
    cadre_table_snapshot_t none;
    cadre_table_snapshot(first, 0, 7, &whole);
    cadre_table_snapshot(second, 7, 9, &some);
    cadre_table_snapshot(table, 9, 10, &none);
    cr_assert_gt(some.rows.count, 0);
    cr_assert_lt(some.rows.count, whole.rows.count);
    cr_assert_eq(none.rows.count, 0);
    cadre_table_snapshot_fini(&whole);
    cadre_table_snapshot_fini(&some);
    cadre_table_snapshot_fini(&none);
    cadre_table_close(&first);
    cadre_table_close(&second);
    cadre_table_close(&table);
    cadre_chunk_pool_destroy(&pool);
}

/* --- other numbers of shards --- */

/* Applies an update as many shards do, each with its own keys. */
static void
update_shards(cadre_table_t *const *tables, uint32_t shard_count, uint64_t number)
{
    cadre_random_t random;
    cadre_random_init(&random, 9, number);
    for (uint64_t key = 0; key < KEYS; key += 1 + cadre_random_below(&random, 50)) {
        float gradient[DIM];
        cadre_random_fill_normal(key, number, 0, DIM, gradient);
        cadre_table_push(tables[cadre_table_shard(key, shard_count)],
                         &(cadre_table_update_t){.count = 1, .keys = &key, .numbers = gradient});
    }
}

/* Gives how rows of this very table lie; the caller ends it. */
static cadre_stored_rows_t
rows_like(const cadre_table_t *table, const cadre_table_snapshot_t *snapshot)
{
    cadre_table_record_t record;
    cadre_stored_rows_t stored;
    cadre_table_describe(table, snapshot, &record);
    cr_assert_eq(cadre_table_compare(table, &record, &stored), 0, "%s", cadre_error_text());
    cr_assert(stored.same);
    return stored;
}

static void
adopt_all(cadre_table_t *table, const cadre_table_snapshot_t *snapshot, uint32_t shard,
          uint32_t shard_count)
{
    cadre_auto(cadre_stored_rows_fini) cadre_stored_rows_t stored = rows_like(table, snapshot);
    for (size_t i = 0; i < snapshot->rows.count; i++) {
        const cadre_chunk_t *chunk = snapshot->rows.chunks[i];
        cr_assert_eq(cadre_table_adopt_page(table, &stored, cadre_chunk_data(chunk),
                                            cadre_chunk_size_bytes(chunk), shard, shard_count),
                     0, "%s", cadre_error_text());
    }
    cadre_table_adopt_counts(table, &stored, &snapshot->figures);
}

/* One shard has the rows of two, each of which had as many as a shard may have. */
Test(table_snapshot, comes_down_to_the_rows_that_a_shard_may_have)
{
    enum { BEFORE = 2, ROWS_MAX = 100 };
    const cadre_table_policy_t policies[] = {CADRE_TABLE_EVICT_LRU, CADRE_TABLE_EVICT_LFU};
    for (size_t p = 0; p < 2; p++) {
        cadre_table_spec_t spec = make_spec("sgd");
        spec.rows_max = ROWS_MAX;
        spec.when_full = policies[p];
        cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
        cadre_table_t *table = NULL;
        cr_assert_eq(cadre_table_open(&table, &spec, pool), 0);
        for (uint32_t shard = 0; shard < BEFORE; shard++) {
            cadre_table_t *before = NULL;
            cr_assert_eq(cadre_table_open(&before, &spec, pool), 0);
            for (uint64_t key = 0, rows = 0; rows < ROWS_MAX; key++) {
                const float gradient[DIM] = {1};
                if (cadre_table_shard(key, BEFORE) == shard) {
                    cadre_table_push(before, &(cadre_table_update_t){
                                                 .count = 1, .keys = &key, .numbers = gradient});
                    rows++;
                }
            }
            cadre_table_snapshot_t snapshot;
            cadre_table_snapshot(before, 0, 1, &snapshot);
            adopt_all(table, &snapshot, 0, 1);
            cadre_table_snapshot_fini(&snapshot);
            cadre_table_close(&before);
        }
        cr_assert_eq(cadre_table_figures(table).rows, 2 * ROWS_MAX);

        const uint64_t fresh = UINT64_MAX;
        const float gradient[DIM] = {1};
        const cadre_table_update_t update = {.count = 1, .keys = &fresh, .numbers = gradient};
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(cadre_table_check(table, &update), 0, "%s", cadre_error_text());
            cadre_table_push(table, &update);
        }
        cr_assert_eq(cadre_table_figures(table).rows, ROWS_MAX);
        cr_assert_eq(cadre_table_figures(table).evicted, ROWS_MAX + 1);
        cr_assert(cadre_table_has(table, fresh));
        cadre_table_close(&table);
        cadre_chunk_pool_destroy(&pool);
    }
}

/* Three shards become two, which go on; one shard beside them has the same rows all the time. */
Test(table_snapshot, goes_on_with_another_number_of_shards)
{
    enum { BEFORE = 3, AFTER = 2 };
    const cadre_table_spec_t spec = make_spec("adagrad");
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_table_t *one = NULL;
    cadre_table_t *before[BEFORE] = {NULL};
    cadre_table_t *after[AFTER] = {NULL};
    cr_assert_eq(cadre_table_open(&one, &spec, pool), 0);
    for (size_t i = 0; i < BEFORE; i++) {
        cr_assert_eq(cadre_table_open(&before[i], &spec, pool), 0);
    }
    for (uint64_t number = 0; number < 10; number++) {
        update_shards(&one, 1, number);
        update_shards(before, BEFORE, number);
    }
    for (uint32_t shard = 0; shard < AFTER; shard++) {
        cr_assert_eq(cadre_table_open(&after[shard], &spec, pool), 0);
        for (size_t i = 0; i < BEFORE; i++) {
            cadre_table_snapshot_t snapshot;
            cadre_table_snapshot(before[i], 0, 1, &snapshot);
            adopt_all(after[shard], &snapshot, shard, AFTER);
            cadre_table_snapshot_fini(&snapshot);
        }
    }
    for (uint64_t number = 10; number < 20; number++) {
        update_shards(&one, 1, number);
        update_shards(after, AFTER, number);
    }

    for (uint64_t key = 0; key < KEYS; key++) {
        float a[DIM];
        float b[DIM];
        cadre_table_t *its = after[cadre_table_shard(key, AFTER)];
        cr_assert_eq(cadre_table_has(its, key), cadre_table_has(one, key));
        cadre_table_pull(one, CADRE_F32, 1, &key, a);
        cadre_table_pull(its, CADRE_F32, 1, &key, b);
        cr_assert_arr_eq(a, b, sizeof(a), "key %llu", (unsigned long long)key);
    }
    cr_assert_eq(cadre_table_figures(after[0]).rows + cadre_table_figures(after[1]).rows,
                 cadre_table_figures(one).rows);
    cadre_table_close(&one);
    for (size_t i = 0; i < BEFORE; i++) {
        cadre_table_close(&before[i]);
    }
    for (size_t i = 0; i < AFTER; i++) {
        cadre_table_close(&after[i]);
    }
    cadre_chunk_pool_destroy(&pool);
}

/* A table may have more rows than its limit when others have come to its shard. */
Test(table_snapshot, keeps_rows_of_other_shards_beyond_the_limit_and_makes_no_others)
{
    cadre_table_spec_t spec = make_spec("adagrad");
    spec.rows_max = 2;
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_table_t *sources[2] = {NULL};
    cadre_table_t *table = NULL;
    const float gradient[3 * DIM] = {1};
    cr_assert_eq(cadre_table_open(&table, &spec, pool), 0);
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t keys[] = {2 * i, 2 * i + 1};
        cr_assert_eq(cadre_table_open(&sources[i], &spec, pool), 0);
        cadre_table_push(sources[i],
                         &(cadre_table_update_t){.count = 2, .keys = keys, .numbers = gradient});
        cadre_table_snapshot_t snapshot;
        cadre_table_snapshot(sources[i], 0, 1, &snapshot);
        adopt_all(table, &snapshot, 0, 1);
        const cadre_chunk_t *page = snapshot.rows.chunks[0];
        cadre_stored_rows_t stored = rows_like(table, &snapshot);
        cr_assert_eq(cadre_table_adopt_page(table, &stored, cadre_chunk_data(page),
                                            cadre_chunk_size_bytes(page), 0, 1),
                     CADRE_ECORRUPT, "its rows are there");
        cr_assert_eq(cadre_table_adopt_page(table, &stored, gradient, sizeof(gradient), 0, 1),
                     CADRE_ECORRUPT);
        cadre_stored_rows_fini(&stored);
        cadre_table_snapshot_fini(&snapshot);
        cadre_table_close(&sources[i]);
    }
    const uint64_t there[] = {0, 1, 3};
    const uint64_t another[] = {0, 7};
    cr_assert_eq(cadre_table_figures(table).rows, 4);
    cr_assert_eq(
        cadre_table_check(table,
                          &(cadre_table_update_t){.count = 3, .keys = there, .numbers = gradient}),
        0);
    cr_assert_eq(
        cadre_table_check(
            table, &(cadre_table_update_t){.count = 2, .keys = another, .numbers = gradient}),
        CADRE_EFULL);
    cadre_table_close(&table);
    cadre_chunk_pool_destroy(&pool);
}

/* --- what no snapshot has --- */

typedef struct {
    cadre_chunk_pool_t *pool;
    cadre_table_t *table;
    cadre_table_t *loaded;
    cadre_table_snapshot_t snapshot;
} fixture_t;

static fixture_t
set_up(uint32_t admit_after)
{
    cadre_table_spec_t spec = make_spec("adam");
    spec.admit_after = admit_after;
    spec.age_max = 3;
    fixture_t f = {.pool = cadre_chunk_pool_new(8 << 20)};
    cr_assert_eq(cadre_table_open(&f.table, &spec, f.pool), 0);
    cr_assert_eq(cadre_table_open(&f.loaded, &spec, f.pool), 0);
    for (uint64_t i = 0; i < 40; i++) {
        update(f.table, i);
    }
    cadre_table_snapshot(f.table, 0, 1, &f.snapshot);
    cr_assert_geq(f.snapshot.rows.free_row, 0);
    return f;
}

static void
expect_corrupt(fixture_t *f, const char *text)
{
    cr_assert_eq(load(f->loaded, 1, &f->snapshot), CADRE_ECORRUPT, "%s", text);
    cr_assert(strstr(cadre_error_text(), text), "\"%s\" lacks \"%s\"", cadre_error_text(), text);
    cadre_table_snapshot_fini(&f->snapshot);
    cadre_table_close(&f->loaded);
    cadre_table_close(&f->table);
    cadre_chunk_pool_destroy(&f->pool);
}

/* Returns the bytes of the first page, which are those of the table, too. */
static uint64_t *
first_page(const fixture_t *f)
{
    return cadre_chunk_data(f->snapshot.rows.chunks[0]);
}

Test(table_snapshot, refuses_numbers_that_no_table_has)
{
    fixture_t f = set_up(1);
    f.snapshot.rows.row_end = UINT64_C(1) << 32;
    cr_assert_eq(cadre_table_load_begin(f.loaded, &f.snapshot), CADRE_ECORRUPT);
    f.snapshot.rows.row_end = 5;
    f.snapshot.rows.free_row = 5;
    cr_assert_eq(cadre_table_load_begin(f.loaded, &f.snapshot), CADRE_ECORRUPT);
    f.snapshot.rows.free_row = -2;
    expect_corrupt(&f, "of which -2 is free");

    f = set_up(1);
    f.snapshot.expiry_hand = (uint32_t)f.snapshot.rows.row_end;
    expect_corrupt(&f, "hands at rows");

    f = set_up(1);
    f.snapshot.figures.rows++;
    expect_corrupt(&f, "rows where there were");
}

Test(table_snapshot, refuses_pages_that_are_missing_twice_or_of_another_size)
{
    fixture_t f = set_up(1);
    const size_t size = cadre_chunk_size_bytes(f.snapshot.rows.chunks[0]);
    cr_assert_eq(cadre_table_load_begin(f.loaded, &f.snapshot), 0);
    cr_assert_eq(cadre_table_load_page(f.loaded, 0, first_page(&f), size - 1), CADRE_ECORRUPT);
    cr_assert_eq(cadre_table_load_page(f.loaded, 1 << 20, first_page(&f), size), CADRE_ECORRUPT);
    cr_assert_eq(cadre_table_load_page(f.loaded, 0, first_page(&f), size), 0);
    cr_assert_eq(cadre_table_load_page(f.loaded, 0, first_page(&f), size), CADRE_ECORRUPT);
    cr_assert(strstr(cadre_error_text(), "comes twice"));
    cr_assert_eq(cadre_table_load_end(f.loaded), CADRE_ECORRUPT);
    cadre_table_close(&f.loaded);
    const cadre_table_spec_t spec = *cadre_table_get_spec(f.table);
    cr_assert_eq(cadre_table_open(&f.loaded, &spec, f.pool), 0);
    f.snapshot.rows.positions[0] = 1;
    expect_corrupt(&f, "rows where there were");
}

Test(table_snapshot, refuses_a_key_that_has_two_rows)
{
    fixture_t f = set_up(1);
    uint64_t *keys = first_page(&f);
    size_t used = 0;
    uint64_t key = 0;
    for (size_t i = 0; used < 2; i++) {
        if (keys[i] < KEYS && cadre_table_has(f.table, keys[i])) {
            key = used++ == 0 ? keys[i] : key;
            keys[i] = key;
        }
    }
    expect_corrupt(&f, "has two rows");
}

Test(table_snapshot, refuses_free_rows_that_are_no_list)
{
    fixture_t f = set_up(1);
    first_page(&f)[f.snapshot.rows.free_row] = (uint64_t)f.snapshot.rows.free_row;
    expect_corrupt(&f, "no list");
}

/* Returns the bytes of memory that the process has. */
static size_t
resident(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert_not_null(file);
    size_t pages = 0;
    cr_assert_eq(fscanf(file, "%*u %zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Pushes a gradient to many rows, a thousand keys at a time. */
static void
push_rows(cadre_table_t *table, uint64_t count)
{
    enum { RUN = 1000 };
    static const float gradient[RUN * DIM];
    uint64_t keys[RUN];
    for (uint64_t first = 0; first < count; first += RUN) {
        for (uint64_t i = 0; i < RUN; i++) {
            keys[i] = first + i;
        }
        cadre_table_push(table,
                         &(cadre_table_update_t){.count = RUN, .keys = keys, .numbers = gradient});
    }
}

/* Every page is changed while a snapshot holds it, so that there are two of each for a while. */
Test(table_snapshot, gives_back_what_its_copies_took_with_the_updates_that_follow)
{
    enum { ROWS = 600000, ROUNDS = 3, SLACK = 48 << 20, UPDATES_MAX = 100 };
    if (SANITIZER) {
        cr_skip_test("the sanitizer's own memory grows with ours, and stays");
    }
    const cadre_table_spec_t spec = make_spec("sgd");
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_table_t *table = NULL;
    cr_assert_eq(cadre_table_open(&table, &spec, pool), 0, "%s", cadre_error_text());
    push_rows(table, ROWS);
    const size_t before = resident();
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        cadre_table_snapshot_t snapshot;
        cadre_table_snapshot(table, 0, round, &snapshot);
        push_rows(table, ROWS);
        cr_expect_gt(resident(), before + SLACK);
        cadre_table_snapshot_fini(&snapshot);
        for (uint64_t number = 0; number < UPDATES_MAX && resident() > before + SLACK; number++) {
            update(table, number);
        }
        cr_expect_leq(resident(), before + SLACK);
    }
    cadre_table_close(&table);
    cadre_chunk_pool_destroy(&pool);
}
