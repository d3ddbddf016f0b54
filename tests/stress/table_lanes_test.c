/*
 * table_lanes_test - large updates and pulls of a table on a pool of lanes, while another thread
 * reads the pages of a snapshot and drops them, for the thread sanitizer to watch; and what comes
 * of them must be what one thread makes of the same updates.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "ps/core/table/table.h"
#include "ps/lane_pool.h"

enum { LANES = 4, UPDATES = 24, KEYS = 6000, DIM = 24, NEW_KEYS = 200 };

static void
expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "failed: %s\n", what);
        abort();
    }
}

static cadre_table_t *
open_table(cadre_chunk_pool_t *pool)
{
    cadre_table_spec_t spec = cadre_table_spec(DIM);
    cadre_table_t *table = NULL;
    expect(cadre_optimizer_spec_parse(&spec.optimizer, "adagrad") == 0, "optimizer");
    expect(cadre_initializer_spec_parse(&spec.initializer, "zeros") == 0, "initializer");
    expect(cadre_table_open(&table, &spec, pool) == 0, "table");
    return table;
}

/* Pushes update number `n`, which has some keys that no update before it had. */
static void
push(cadre_table_t *table, uint64_t n, const cadre_lanes_t *lanes)
{
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(KEYS, sizeof(*keys));
    cadre_auto(cadre_free) float *numbers = cadre_calloc((size_t)KEYS * DIM, sizeof(*numbers));
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i + n * NEW_KEYS;
    }
    for (size_t i = 0; i < (size_t)KEYS * DIM; i++) {
        numbers[i] = (float)((i + n) % 13) - 6;
    }
    const cadre_table_update_t update = {
        .count = KEYS, .keys = keys, .numbers = numbers, .lanes = lanes};
    expect(cadre_table_check(table, &update) == 0, "check");
    cadre_table_push(table, &update);
}

/* Pulls the keys of update number `n` of both tables. */
static void
expect_same(cadre_table_t *shared, cadre_table_t *alone, uint64_t n, const cadre_lanes_t *lanes)
{
    const size_t size = (size_t)KEYS * DIM;
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(KEYS, sizeof(*keys));
    cadre_auto(cadre_free) float *a = cadre_calloc(size, sizeof(*a));
    cadre_auto(cadre_free) float *b = cadre_calloc(size, sizeof(*b));
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * 7919 % KEYS + n * NEW_KEYS;
    }
    const cadre_row_pull_t pull = {
        .count = KEYS, .keys = keys, .dtype = CADRE_F32, .values = a, .lanes = lanes};
    expect(cadre_table_pull_rows(shared, &pull) == 0, "pull on lanes");
    expect(cadre_table_pull(alone, CADRE_F32, KEYS, keys, b) == 0, "pull");
    expect(memcmp(a, b, size * sizeof(*a)) == 0, "the same rows");
}

static void *
read_snapshot(void *argument)
{
    cadre_table_snapshot_t *snapshot = argument;
    uint64_t sum = 0;
    for (size_t i = 0; i < snapshot->rows.count; i++) {
        const unsigned char *bytes = cadre_chunk_data(snapshot->rows.chunks[i]);
        for (size_t at = 0; at < cadre_chunk_size_bytes(snapshot->rows.chunks[i]); at++) {
            sum += bytes[at];
        }
    }
    cadre_table_snapshot_fini(snapshot);
    return sum == 0 ? NULL : argument;
}

int
main(void)
{
    cadre_lane_pool_t *lane_pool = NULL;
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    expect(cadre_lane_pool_open(LANES, &lane_pool) == 0, "lanes");
    const cadre_lanes_t lanes = cadre_lane_pool_lanes(lane_pool);
    cadre_table_t *shared = open_table(pool);
    cadre_table_t *alone = open_table(pool);
    push(shared, 0, &lanes);
    push(alone, 0, NULL);
    for (uint64_t n = 1; n < UPDATES; n++) {
        cadre_table_snapshot_t snapshot;
        pthread_t reader;
        void *seen = NULL;
        cadre_table_snapshot(shared, 0, n, &snapshot);
        cadre_table_snapshot_t others;
        cadre_table_snapshot(alone, 0, n, &others);
        cadre_table_snapshot_fini(&others);
        expect(pthread_create(&reader, NULL, read_snapshot, &snapshot) == 0, "thread");
        push(shared, n, &lanes);
        push(shared, n, &lanes); /* now of pages that nobody else holds */
        push(alone, n, NULL);
        push(alone, n, NULL);
        expect_same(shared, alone, n, &lanes);
        pthread_join(reader, &seen);
        expect(seen != NULL, "a snapshot has numbers");
    }
    for (uint64_t key = 0; key < KEYS + UPDATES * NEW_KEYS; key++) {
        float a[DIM];
        float b[DIM];
        expect(cadre_table_pull(shared, CADRE_F32, 1, &key, a) == 0, "pull");
        expect(cadre_table_pull(alone, CADRE_F32, 1, &key, b) == 0, "pull");
        expect(memcmp(a, b, sizeof(a)) == 0, "the same values");
    }
    cadre_table_close(&shared);
    cadre_table_close(&alone);
    cadre_lane_pool_destroy(&lane_pool);
    cadre_chunk_pool_destroy(&pool);
    return 0;
}
