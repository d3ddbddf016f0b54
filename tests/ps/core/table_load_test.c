/*
 * table_load_test - tables that go on from what others were: under another optimizer, with
 * admission turned on or off, on another number of shards.
 */
#include "ps/core/table_load.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/random.h"
#include "common/base/status.h"

TestSuite(table_load, .timeout = 240);

enum { DIM = 6, KEYS = 900, PARTS_MAX = 3, UPDATES = 12, MORE = 5 };

static cadre_table_spec_t
make_spec(const char *optimizer)
{
    cadre_table_spec_t spec = cadre_table_spec(DIM);
    cr_assert_eq(cadre_optimizer_spec_parse(&spec.optimizer, optimizer), 0);
    spec.optimizer.parameters[CADRE_LEARNING_RATE] = 0.05;
    cr_assert_eq(cadre_initializer_spec_parse(&spec.initializer, "normal"), 0);
    return spec;
}

/* A table on some shards, and what a checkpoint has of it. */
typedef struct {
    cadre_chunk_pool_t *pool;
    uint32_t parts;
    cadre_table_t *tables[PARTS_MAX];
    cadre_table_snapshot_t snapshots[PARTS_MAX];
    cadre_table_record_t records[PARTS_MAX];
    bool is_stored;
} cluster_t;

static cluster_t
open_cluster(const cadre_table_spec_t *spec, uint32_t parts)
{
    cluster_t self = {.pool = cadre_chunk_pool_new(8 << 20), .parts = parts};
    for (uint32_t k = 0; k < parts; k++) {
        cr_assert_eq(cadre_table_open(&self.tables[k], spec, self.pool), 0, "%s",
                     cadre_error_text());
    }
    return self;
}

static void
close_cluster(cluster_t *self)
{
    for (uint32_t k = 0; k < self->parts; k++) {
        if (self->is_stored) {
            cadre_table_snapshot_fini(&self->snapshots[k]);
        }
        cadre_table_close(&self->tables[k]);
    }
    cadre_chunk_pool_destroy(&self->pool);
}

static cadre_table_t *
table_of(cluster_t *self, uint64_t key)
{
    return self->tables[cadre_table_shard(key, self->parts)];
}

/* An update of every shard, of one key in three, which follows from its number. */
static void
update(cluster_t *self, uint64_t number)
{
    for (uint32_t k = 0; k < self->parts; k++) {
        uint64_t keys[KEYS];
        float gradient[KEYS * DIM];
        size_t count = 0;
        for (uint64_t key = number % 3; key < KEYS; key += 3) {
            if (cadre_table_shard(key, self->parts) == k) {
                cadre_random_fill_normal(key, number, 0, DIM, gradient + count * DIM);
                keys[count++] = key;
            }
        }
        const cadre_table_update_t its = {.count = count, .keys = keys, .numbers = gradient};
        cr_assert_eq(cadre_table_check(self->tables[k], &its), 0, "%s", cadre_error_text());
        cadre_table_push(self->tables[k], &its);
    }
}

static void
see(cluster_t *self, uint64_t key)
{
    const float gradient[DIM] = {1};
    cadre_table_push(table_of(self, key),
                     &(cadre_table_update_t){.count = 1, .keys = &key, .numbers = gradient});
}

static void
store(cluster_t *self)
{
    self->is_stored = true;
    for (uint32_t k = 0; k < self->parts; k++) {
        cadre_table_snapshot(self->tables[k], 0, 1, &self->snapshots[k]);
        cadre_table_describe(self->tables[k], &self->snapshots[k], &self->records[k]);
    }
}

static int
read_table(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
           cadre_table_record_t *record)
{
    const cluster_t *self = context;
    (void)variable, (void)give_up;
    *record = self->records[part];
    return 0;
}

static int
read_sightings(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
               int (*visit)(void *visitor, const cadre_table_page_t *block), void *visitor)
{
    const cadre_sighting_sketch_t *sketch = ((const cluster_t *)context)->snapshots[part].sketch;
    int status = 0;
    (void)variable, (void)give_up;
    cr_assert_not_null(sketch);
    for (uint32_t i = 0; i < cadre_sighting_sketch_positions(sketch) && status == 0; i++) {
        const cadre_chunk_t *block = cadre_sighting_sketch_block(sketch, i);
        const cadre_table_page_t page = {.position = i,
                                         .bytes = block ? cadre_chunk_data(block) : NULL,
                                         .size_bytes = CADRE_SIGHTING_BLOCK_SIZE};
        status = block ? visit(visitor, &page) : 0;
    }
    return status;
}

static int
read_pages(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
           int (*visit)(void *visitor, const cadre_table_page_t *page), void *visitor)
{
    const cadre_row_snapshot_t *rows = &((const cluster_t *)context)->snapshots[part].rows;
    int status = 0;
    (void)variable, (void)give_up;
    for (size_t i = 0; i < rows->count && status == 0; i++) {
        const cadre_table_page_t page = {.position = rows->positions[i],
                                         .bytes = cadre_chunk_data(rows->chunks[i]),
                                         .size_bytes = cadre_chunk_size_bytes(rows->chunks[i])};
        status = visit(visitor, &page);
    }
    return status;
}

/* Fills a part from what another cluster has stored. */
static int
load_part(cluster_t *self, uint32_t part, cluster_t *from)
{
    const cadre_loader_t loader = {
        .context = from, .table = read_table, .pages = read_pages, .sightings = read_sightings};
    const cadre_table_load_t load = {
        .name = "table", .part = part, .parts = self->parts, .size_bytes_max = UINT64_MAX};
    const cadre_give_up_t never = {NULL, NULL};
    cadre_table_base_t base;
    return cadre_table_load(self->tables[part], &load, from->parts, &loader, &never, &base);
}

/* Returns a cluster that goes on from another one, which is stored. */
static cluster_t
go_on(cluster_t *from, const cadre_table_spec_t *spec, uint32_t parts)
{
    cluster_t self = open_cluster(spec, parts);
    for (uint32_t k = 0; k < parts; k++) {
        cr_assert_eq(load_part(&self, k, from), 0, "%s", cadre_error_text());
    }
    return self;
}

static void
expect_alike(cluster_t *left, cluster_t *right)
{
    for (uint64_t key = 0; key < KEYS; key++) {
        float a[DIM];
        float b[DIM];
        cr_assert_eq(cadre_table_has(table_of(left, key), key),
                     cadre_table_has(table_of(right, key), key));
        cadre_table_pull(table_of(left, key), CADRE_F32, 1, &key, a);
        cadre_table_pull(table_of(right, key), CADRE_F32, 1, &key, b);
        cr_assert_arr_eq(a, b, sizeof(a), "key %llu", (unsigned long long)key);
    }
}

/* Assigns the values of all rows of another cluster. */
static void
assign_all(cluster_t *self, cluster_t *from)
{
    for (uint64_t key = 0; key < KEYS; key++) {
        float values[DIM];
        if (cadre_table_has(table_of(from, key), key)) {
            cadre_table_pull(table_of(from, key), CADRE_F32, 1, &key, values);
            cadre_table_assign(
                table_of(self, key), CADRE_ASSIGN_SET,
                &(cadre_table_update_t){.count = 1, .keys = &key, .numbers = values});
        }
    }
}

/* Trains with one spec, and goes on with another: as `like` does, which has the slots and steps
 * that are expected, once it has the values. */
static void
expect_goes_on_like(const cadre_table_spec_t *before, const cadre_table_spec_t *after,
                    const cadre_table_spec_t *like, uint64_t updates_of_like)
{
    for (uint32_t parts = 1; parts <= PARTS_MAX; parts++) {
        cluster_t from = open_cluster(before, 2);
        cluster_t twin = open_cluster(like, parts);
        for (uint64_t number = 0; number < UPDATES; number++) {
            update(&from, number);
        }
        for (uint64_t number = 0; number < updates_of_like; number++) {
            update(&twin, number);
        }
        store(&from);
        cluster_t self = go_on(&from, after, parts);
        expect_alike(&self, &from);
        assign_all(&twin, &from);
        for (uint64_t number = UPDATES; number < UPDATES + MORE; number++) {
            update(&self, number);
            update(&twin, number);
        }
        expect_alike(&self, &twin);
        close_cluster(&from);
        close_cluster(&twin);
        close_cluster(&self);
    }
}

Test(table_load, begins_slots_and_steps_anew_under_an_optimizer_with_others)
{
    static const char *const pairs[][2] = {
        {"momentum", "adagrad"}, {"adagrad", "momentum"}, {"adam", "ftrl"},
        {"ftrl", "adam"},        {"sgd", "adam"},         {"momentum", "adam"},
        {"adam", "sgd"},         {"adagrad", "ftrl"},     {"adam", "momentum"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(pairs); i++) {
        const cadre_table_spec_t before = make_spec(pairs[i][0]);
        const cadre_table_spec_t after = make_spec(pairs[i][1]);
        expect_goes_on_like(&before, &after, &after, 0);
    }
}

Test(table_load, begins_accumulators_anew_where_their_width_is_another)
{
    const cadre_table_spec_t each = make_spec("adagrad");
    cadre_table_spec_t row_wise = each;
    row_wise.row_wise = true;
    expect_goes_on_like(&each, &row_wise, &row_wise, 0);
    expect_goes_on_like(&row_wise, &each, &each, 0);
}

/* The accumulator of ftrl is that of adagrad. */
Test(table_load, goes_on_with_slots_of_the_same_names)
{
    const cadre_table_spec_t ftrl = make_spec("ftrl");
    const cadre_table_spec_t adagrad = make_spec("adagrad");
    expect_goes_on_like(&ftrl, &adagrad, &adagrad, UPDATES);
}

Test(table_load, goes_on_with_slots_where_uses_are_counted_from_now_on_or_no_more)
{
    const cadre_table_spec_t plain = make_spec("adam");
    cadre_table_spec_t counting = plain;
    counting.rows_max = KEYS;
    counting.when_full = CADRE_TABLE_EVICT_LFU;
    expect_goes_on_like(&plain, &counting, &plain, UPDATES);
    expect_goes_on_like(&counting, &plain, &plain, UPDATES);
}

Test(table_load, refuses_rows_of_another_dim_or_storage_by_name)
{
    const cadre_table_spec_t spec = make_spec("adam");
    cluster_t from = open_cluster(&spec, 1);
    update(&from, 0);
    store(&from);

    cadre_table_spec_t other = spec;
    other.storage = CADRE_BF16;
    cluster_t self = open_cluster(&other, 1);
    cr_assert_eq(load_part(&self, 0, &from), CADRE_ESHAPE);
    cr_assert(strstr(cadre_error_text(), "kept as f32, not bf16"), "%s", cadre_error_text());
    close_cluster(&self);

    other = spec;
    other.dim = DIM + 1;
    self = open_cluster(&other, 1);
    cr_assert_eq(load_part(&self, 0, &from), CADRE_ESHAPE);
    cr_assert(strstr(cadre_error_text(), "6 numbers in the checkpoint, and 7 here"), "%s",
              cadre_error_text());
    close_cluster(&self);
    close_cluster(&from);
}

Test(table_load, refuses_what_is_no_table)
{
    const cadre_table_spec_t spec = make_spec("adam");
    cluster_t from = open_cluster(&spec, 1);
    cluster_t self = open_cluster(&spec, 1);
    update(&from, 0);
    store(&from);
    const cadre_table_record_t record = from.records[0];
    from.records[0].optimizer = 99;
    cr_expect_eq(load_part(&self, 0, &from), CADRE_ECORRUPT);
    from.records[0].optimizer = CADRE_OPTIMIZER_SGD; /* has no slots */
    cr_expect_eq(load_part(&self, 0, &from), CADRE_ECORRUPT);
    from.records[0] = record;
    from.records[0].page_rows /= 2;
    cr_expect_eq(load_part(&self, 0, &from), CADRE_ECORRUPT);
    close_cluster(&self);
    close_cluster(&from);
}

Test(table_load, forgets_sightings_where_admission_is_turned_off)
{
    cadre_table_spec_t spec = make_spec("adam");
    spec.admit_after = 3;
    cluster_t from = open_cluster(&spec, 1);
    see(&from, 7);
    see(&from, 7);
    store(&from);
    spec.admit_after = 0;
    cluster_t self = go_on(&from, &spec, 1);
    cr_expect_not(cadre_table_has(table_of(&self, 7), 7));
    see(&self, 8);
    cr_expect(cadre_table_has(table_of(&self, 8), 8));
    close_cluster(&from);
    close_cluster(&self);
}

Test(table_load, counts_from_now_on_where_admission_is_turned_on)
{
    cadre_table_spec_t spec = make_spec("adam");
    cluster_t from = open_cluster(&spec, 1);
    see(&from, 7);
    store(&from);
    spec.admit_after = 2;
    cluster_t self = go_on(&from, &spec, 1);
    cr_expect(cadre_table_has(table_of(&self, 7), 7));
    see(&self, 8);
    cr_expect_not(cadre_table_has(table_of(&self, 8), 8));
    see(&self, 8);
    cr_expect(cadre_table_has(table_of(&self, 8), 8));
    close_cluster(&from);
    close_cluster(&self);
}

/* Sightings go on with the number of parts, whatever the optimizer; with another number of parts
 * they begin anew. */
Test(table_load, goes_on_with_sightings_on_as_many_shards)
{
    static const char *const optimizers[] = {"adam", "adagrad"};
    for (size_t i = 0; i < CADRE_COUNT_OF(optimizers); i++) {
        for (uint32_t parts = 1; parts <= PARTS_MAX; parts++) {
            cadre_table_spec_t before = make_spec("adam");
            cadre_table_spec_t after = make_spec(optimizers[i]);
            before.admit_after = 3;
            after.admit_after = 3;
            cluster_t from = open_cluster(&before, 2);
            see(&from, 7);
            see(&from, 7);
            store(&from);
            cluster_t self = go_on(&from, &after, parts);
            see(&self, 7);
            cr_expect_eq(cadre_table_has(table_of(&self, 7), 7), parts == 2);
            close_cluster(&from);
            close_cluster(&self);
        }
    }
}
