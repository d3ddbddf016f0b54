/*
 * A table by any updates, and by pages that somebody has changed: what is loaded from good pages
 * has the same rows, bad ones are refused or give a table that goes on working.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "ps/core/table/table.h"

enum { DIM = 2, UPDATE_KEYS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

typedef struct {
    const uint8_t *bytes;
    size_t left;
    cadre_chunk_pool_t *pool;
    cadre_table_t *table;
    bool is_changed; /* some of its bytes are not its own */
} run_t;

static uint8_t
next(run_t *self)
{
    if (self->left == 0) {
        return 0;
    }
    self->left--;
    return *self->bytes++;
}

static cadre_table_spec_t
choose_spec(run_t *self)
{
    static const char *const optimizers[] = {"sgd", "momentum", "adagrad", "adam", "ftrl"};
    cadre_table_spec_t spec = cadre_table_spec(DIM);
    cadre_optimizer_spec_parse(&spec.optimizer,
                               optimizers[next(self) % CADRE_COUNT_OF(optimizers)]);
    cadre_initializer_spec_parse(&spec.initializer, "uniform");
    spec.row_wise = spec.optimizer.kind == CADRE_OPTIMIZER_ADAGRAD && next(self) % 2 == 0;
    spec.storage = next(self) % 2 == 0 ? CADRE_F32 : CADRE_BF16;
    spec.admit_after = next(self) % 3;
    spec.rows_max = 1 + next(self);
    spec.when_full = CADRE_TABLE_REFUSE + next(self) % 3;
    spec.age_max = next(self) % 32;
    spec.norm_min = next(self) % 4 == 0 ? 1e-3 : 0;
    return spec;
}

static void
update(run_t *self)
{
    uint64_t keys[UPDATE_KEYS];
    float gradient[UPDATE_KEYS * DIM];
    uint64_t key = next(self);
    const size_t count = 1 + next(self) % UPDATE_KEYS;
    for (size_t i = 0; i < count; i++) {
        keys[i] = key;
        key += next(self) % 16;
        for (size_t j = 0; j < DIM; j++) {
            gradient[i * DIM + j] = (float)next(self) - 128;
        }
    }
    if (cadre_table_check(
            self->table,
            &(cadre_table_update_t){.count = count, .keys = keys, .numbers = gradient}) == 0) {
        cadre_table_push(self->table, &(cadre_table_update_t){
                                          .count = count, .keys = keys, .numbers = gradient});
        cadre_table_pull(self->table, CADRE_F32, count, keys, gradient);
    }
}

/* Counts the keys that have a row: as many as the table says, and as it may have. */
static void
check_rows(const run_t *self)
{
    if (self->is_changed) {
        return;
    }
    uint64_t rows = 0;
    for (uint64_t key = 0; key < 1024; key++) {
        rows += cadre_table_has(self->table, key);
    }
    cadre_assert(rows == cadre_table_figures(self->table).rows);
    cadre_assert(rows <= cadre_table_get_spec(self->table)->rows_max);
}

/* Loads a table from a snapshot of this one, of which `changes` bytes are others, and goes on with
 * it where it is accepted. */
static void
reload(run_t *self, int changes)
{
    cadre_table_snapshot_t snapshot;
    cadre_table_snapshot(self->table, 0, 1, &snapshot);
    if (changes > 3) {
        snapshot.rows.free_row = (int64_t)next(self) - 1;
        snapshot.rows.row_end += next(self) % 3;
    }
    cadre_table_t *loaded = NULL;
    int status = cadre_table_open(&loaded, cadre_table_get_spec(self->table), self->pool);
    cadre_assert(status == 0);
    status = cadre_table_load_begin(loaded, &snapshot);
    for (size_t i = 0; i < snapshot.rows.count && status == 0; i++) {
        const size_t size = cadre_chunk_size_bytes(snapshot.rows.chunks[i]);
        uint8_t *copy = cadre_aligned_alloc(size);
        memcpy(copy, cadre_chunk_data(snapshot.rows.chunks[i]), size);
        for (int change = 0; change < changes; change++) {
            const size_t place = ((size_t)next(self) << 8 | next(self)) % size;
            copy[place] = next(self);
        }
        status = cadre_table_load_page(loaded, snapshot.rows.positions[i], copy, size);
        free(copy);
    }
    status = status == 0 ? cadre_table_load_end(loaded) : status;
    cadre_table_snapshot_fini(&snapshot);
    cadre_assert(status == 0 || changes > 0 || self->is_changed);
    if (status == 0) {
        cadre_table_close(&self->table);
        self->table = loaded;
        self->is_changed |= changes > 0;
    } else {
        cadre_table_close(&loaded);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    run_t run = {.bytes = bytes, .left = size_bytes, .pool = cadre_chunk_pool_new(1 << 20)};
    const cadre_table_spec_t spec = choose_spec(&run);
    if (cadre_table_open(&run.table, &spec, run.pool) == 0) {
        while (run.left > 0) {
            const uint8_t operation = next(&run) % 32;
            if (operation < 28) {
                update(&run);
            } else {
                reload(&run, operation < 30 ? 0 : (operation - 29) * 2);
            }
            check_rows(&run);
        }
    }
    cadre_table_close(&run.table);
    cadre_chunk_pool_destroy(&run.pool);
    return 0;
}
