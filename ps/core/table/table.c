#include "ps/core/table/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"
#include "common/tensor/dtype.h"
#include "ps/core/initializer.h"
#include "ps/core/table/row_eviction.h"
#include "ps/core/table/row_index.h"
#include "ps/core/table/row_optimizer.h"
#include "ps/core/table/sighting_sketch.h"

enum {
    BLOCK_ROWS = 256,      /* rows that the optimizer is given at a time, at most, */
    BLOCK_NUMBERS = 16384, /* and numbers, or a single row */
    VISITS = 64,           /* rows that every update looks at for the old and the small, */
    VISITS_PER_KEY = 2,    /* and for each of its keys */
};

/* What becomes of a key of an update that has no row. Rows have numbers up to
 * CADRE_TABLE_ROWS_MAX. */
#define KEY_UNADMITTED CADRE_ROW_NONE
#define KEY_ADMITTED   (CADRE_ROW_NONE - 1)

struct cadre_table {
    cadre_table_spec_t spec;
    cadre_ps_initializer_t initializer; /* each row has a seed of its own */
    cadre_row_optimizer_t optimizer;
    cadre_row_pages_t *pages;
    cadre_row_index_t *index;
    cadre_sighting_sketch_t *sketch; /* NULL: keys are admitted at once */
    cadre_row_eviction_t eviction;
    uint64_t seed_mix;
    uint64_t rows_max;
    cadre_table_figures_t figures;

    /* For one call at a time: the row of each key, and copies of rows for the optimizer. */
    uint32_t *found;
    size_t found_capacity;
    size_t block_rows;
    uint32_t *block_row_numbers;
    cadre_row_block_t block;
};

static void
make_layout(const cadre_table_t *self, cadre_row_layout_t *layout)
{
    const cadre_table_spec_t *spec = &self->spec;
    *layout = (cadre_row_layout_t){
        .value_size = spec->dim * (spec->storage == CADRE_BF16 ? sizeof(uint16_t) : sizeof(float)),
        .slot_count = cadre_row_optimizer_slot_count(&self->optimizer),
        .has_uses = spec->when_full == CADRE_TABLE_EVICT_LFU,
    };
    for (size_t s = 0; s < layout->slot_count; s++) {
        layout->slot_sizes[s] = cadre_row_optimizer_slot_width(&self->optimizer) * sizeof(float);
    }
}

static void
make_block(cadre_table_t *self)
{
    const size_t dim = self->spec.dim;
    self->block_rows = cadre_max_u64(1, cadre_min_u64(BLOCK_ROWS, BLOCK_NUMBERS / dim));
    self->block_row_numbers = cadre_calloc(self->block_rows, sizeof(uint32_t));
    self->block.gradient = cadre_calloc(self->block_rows * dim, sizeof(float));
    self->block.values = cadre_calloc(self->block_rows * dim, sizeof(float));
    for (size_t s = 0; s < cadre_row_optimizer_slot_count(&self->optimizer); s++) {
        self->block.slots[s] = cadre_calloc(
            self->block_rows * cadre_row_optimizer_slot_width(&self->optimizer), sizeof(float));
    }
}

int
cadre_table_open(cadre_table_t **self_p, const cadre_table_spec_t *spec, cadre_chunk_pool_t *pool)
{
    int status = cadre_table_spec_check(spec);
    if (status < 0) {
        return status;
    }

    cadre_table_t *self = cadre_calloc(1, sizeof(*self));
    self->spec = *spec;
    self->rows_max = spec->rows_max > 0 ? spec->rows_max : CADRE_TABLE_ROWS_MAX;
    self->seed_mix = cadre_table_mix(spec->initializer.seed);
    status = cadre_initializer_init(&self->initializer, &spec->initializer, CADRE_F32,
                                    (int64_t[]){spec->dim}, 1);
    cadre_assert(status == 0);

    cadre_row_optimizer_init(&self->optimizer, spec);
    cadre_row_layout_t layout;
    make_layout(self, &layout);
    self->pages = cadre_row_pages_new(&layout, pool);
    self->index = cadre_row_index_new(self->pages);
    if (spec->admit_after > 1) {
        self->sketch = cadre_sighting_sketch_new();
    }
    cadre_row_eviction_init(&self->eviction, spec);
    make_block(self);
    *self_p = self;
    return 0;
}

void
cadre_table_close(cadre_table_t **self_p)
{
    cadre_table_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    cadre_row_index_destroy(&self->index);
    cadre_row_pages_destroy(&self->pages);
    cadre_sighting_sketch_destroy(&self->sketch);
    cadre_row_eviction_fini(&self->eviction);
    free(self->found);
    free(self->block_row_numbers);
    free(self->block.gradient);
    free(self->block.values);
    for (size_t s = 0; s < CADRE_OPTIMIZER_SLOTS_MAX; s++) {
        free(self->block.slots[s]);
    }
    free(self);
}

const cadre_table_spec_t *
cadre_table_get_spec(const cadre_table_t *self)
{
    return &self->spec;
}

bool
cadre_table_has(const cadre_table_t *self, uint64_t key)
{
    return cadre_row_index_find(self->index, key) != CADRE_ROW_NONE;
}

/* --- values --- */

/* Makes room for the rows of `count` keys. */
static void
reserve_found(cadre_table_t *self, size_t count)
{
    if (count > self->found_capacity) {
        self->found = cadre_realloc(self->found, count, sizeof(*self->found));
        self->found_capacity = count;
    }
}

/* Writes the first values of a key as they are stored: what was bf16 once stays so. The row has a
 * seed of its own, which no other key of the table has. */
static void
first_values(const cadre_table_t *self, uint64_t key, float *values)
{
    const cadre_ps_initializer_t initializer =
        cadre_initializer_reseed(&self->initializer, cadre_table_mix(key ^ self->seed_mix));
    cadre_initializer_fill(&initializer, 0, self->spec.dim, values);
    if (self->spec.storage == CADRE_BF16) {
        for (uint32_t i = 0; i < self->spec.dim; i++) {
            uint16_t word = 0;
            cadre_bf16_from_f32(values + i, &word, 1);
            cadre_bf16_to_f32(&word, values + i, 1);
        }
    }
}

static void
load_values(const cadre_table_t *self, uint32_t row, float *values)
{
    const void *stored = cadre_row_pages_read(self->pages, row, -1);
    if (self->spec.storage == CADRE_BF16) {
        cadre_bf16_to_f32(stored, values, self->spec.dim);
    } else {
        memcpy(values, stored, self->spec.dim * sizeof(*values));
    }
}

static void
store_values(cadre_table_t *self, uint32_t row, const float *values)
{
    void *stored = cadre_row_pages_write(self->pages, row, -1);
    if (self->spec.storage == CADRE_BF16) {
        cadre_bf16_from_f32(values, stored, self->spec.dim);
    } else {
        memcpy(stored, values, self->spec.dim * sizeof(*values));
    }
}

void
cadre_table_pull(cadre_table_t *self, size_t count, const uint64_t *keys, float *values)
{
    reserve_found(self, count);
    cadre_row_index_find_all(self->index, count, keys, self->found);
    for (size_t i = 0; i < count; i++) {
        float *row = values + i * self->spec.dim;
        if (self->found[i] == CADRE_ROW_NONE) {
            first_values(self, keys[i], row);
        } else {
            load_values(self, self->found[i], row);
        }
    }
}

/* --- checks --- */

static int
check_keys(size_t count, const uint64_t *keys)
{
    if (count > CADRE_TABLE_KEYS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "an update has %zu keys, at most %d", count,
                          CADRE_TABLE_KEYS_MAX);
    }
    for (size_t i = 1; i < count; i++) {
        if (keys[i] <= keys[i - 1]) {
            return cadre_fail(CADRE_EINVALID, "key %llu comes after %llu: keys must ascend",
                              (unsigned long long)keys[i], (unsigned long long)keys[i - 1]);
        }
    }
    return 0;
}

/* Returns whether a key without a row would get one by this update. */
static bool
would_be_admitted(const cadre_table_t *self, uint64_t key)
{
    return !self->sketch ||
           cadre_sighting_sketch_count(self->sketch, key) + 1 >= self->spec.admit_after;
}

/* Checks that there is room for the rows of an update. They are counted only where there might be
 * none. */
static int
check_room(const cadre_table_t *self, size_t count, const uint64_t *keys)
{
    const uint64_t rows = cadre_row_pages_count(self->pages);
    if (rows + count <= self->rows_max) {
        return 0;
    }
    if (self->spec.when_full != CADRE_TABLE_REFUSE && count <= self->rows_max) {
        return 0;
    }

    uint64_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (!cadre_table_has(self, keys[i]) && would_be_admitted(self, keys[i])) {
            wanted++;
        }
    }
    if (self->spec.when_full == CADRE_TABLE_REFUSE &&
        (wanted == 0 || rows + wanted <= self->rows_max)) {
        return 0;
    }
    return cadre_fail(CADRE_EFULL,
                      "the table has %llu of at most %llu rows; the update of %zu keys needs %llu "
                      "more",
                      (unsigned long long)rows, (unsigned long long)self->rows_max, count,
                      (unsigned long long)wanted);
}

int
cadre_table_check(const cadre_table_t *self, size_t count, const uint64_t *keys,
                  const void *gradient)
{
    int status = check_keys(count, keys);
    if (status < 0) {
        return status;
    }
    if (!cadre_dtype_is_finite(CADRE_F32, gradient, count * self->spec.dim)) {
        return cadre_fail(CADRE_ENOTFINITE, "a gradient of a row is not finite");
    }
    return check_room(self, count, keys);
}

/* --- updates --- */

/* Drops a row of which the index and the pages know. */
static void
remove_row(cadre_table_t *self, uint32_t row)
{
    cadre_row_index_remove(self->index, row);
    cadre_row_pages_remove(self->pages, row);
}

/* Counts a sighting of a key without a row. Returns whether it is to get one. (A sketch may let two
 * keys of one update count as one, and so admit more than were checked to have room.) */
static bool
admit(cadre_table_t *self, uint64_t key)
{
    return !self->sketch || cadre_sighting_sketch_see(self->sketch, key) >= self->spec.admit_after;
}

/* Gives a key a row with its first values; another row makes room for it where that is needed.
 * Returns KEY_UNADMITTED where none may. */
static uint32_t
create(cadre_table_t *self, uint64_t key, uint32_t step)
{
    if (cadre_row_pages_count(self->pages) >= self->rows_max) {
        if (self->spec.when_full == CADRE_TABLE_REFUSE) {
            return KEY_UNADMITTED;
        }
        remove_row(self,
                   cadre_row_eviction_victim(&self->eviction, &self->spec, step, self->pages));
        self->figures.evicted++;
    }

    const uint32_t row = cadre_row_pages_add(self->pages, key);
    cadre_row_index_add(self->index, row);
    first_values(self, key, self->block.values);
    store_values(self, row, self->block.values);
    for (size_t s = 0; s < cadre_row_optimizer_slot_count(&self->optimizer); s++) {
        cadre_row_optimizer_begin_slot(&self->optimizer, s,
                                       cadre_row_pages_write(self->pages, row, (int)s));
    }
    cadre_row_pages_touch(self->pages, row, step);
    self->figures.created++;
    return row;
}

/* Finds or makes the rows of an update. Rows that are there are marked as changed by this update
 * before the first row is evicted. */
static void
find_rows(cadre_table_t *self, size_t count, const uint64_t *keys, uint32_t step)
{
    reserve_found(self, count);
    cadre_row_index_find_all(self->index, count, keys, self->found);
    for (size_t i = 0; i < count; i++) {
        if (self->found[i] != CADRE_ROW_NONE) {
            cadre_row_pages_touch(self->pages, self->found[i], step);
        } else if (admit(self, keys[i])) {
            self->found[i] = KEY_ADMITTED;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (self->found[i] == KEY_ADMITTED) {
            self->found[i] = create(self, keys[i], step);
        }
        self->figures.unadmitted += self->found[i] == KEY_UNADMITTED;
    }
}

/* Copies row `row`, and its gradient, behind the rows of the block. */
static void
gather(cadre_table_t *self, uint32_t row, const void *gradient)
{
    const size_t at = self->block.rows++;
    const size_t width = cadre_row_optimizer_slot_width(&self->optimizer);
    self->block_row_numbers[at] = row;
    memcpy(self->block.gradient + at * self->spec.dim, gradient, self->spec.dim * sizeof(float));
    load_values(self, row, self->block.values + at * self->spec.dim);
    for (size_t s = 0; s < cadre_row_optimizer_slot_count(&self->optimizer); s++) {
        memcpy(self->block.slots[s] + at * width, cadre_row_pages_read(self->pages, row, (int)s),
               width * sizeof(float));
    }
}

/* Applies the optimizer to the rows of the block, and copies them back. */
static void
apply_block(cadre_table_t *self)
{
    cadre_row_block_t *block = &self->block;
    const size_t width = cadre_row_optimizer_slot_width(&self->optimizer);
    cadre_row_optimizer_apply(&self->optimizer, self->figures.steps, block);
    for (size_t i = 0; i < block->rows; i++) {
        const uint32_t row = self->block_row_numbers[i];
        store_values(self, row, block->values + i * self->spec.dim);
        for (size_t s = 0; s < cadre_row_optimizer_slot_count(&self->optimizer); s++) {
            memcpy(cadre_row_pages_write(self->pages, row, (int)s), block->slots[s] + i * width,
                   width * sizeof(float));
        }
    }
    block->rows = 0;
}

/* Removes rows that are too old or too small, as far as a few visits go. */
static void
expire(cadre_table_t *self, size_t count, uint32_t step)
{
    if (self->spec.age_max == 0 && self->spec.norm_min == 0) {
        return;
    }

    uint64_t visits = VISITS + VISITS_PER_KEY * count;
    for (;;) {
        const uint32_t row =
            cadre_row_eviction_expired(&self->eviction, &self->spec, step, self->pages, &visits);
        if (row == CADRE_ROW_NONE) {
            return;
        }
        remove_row(self, row);
        self->figures.expired++;
    }
}

void
cadre_table_push(cadre_table_t *self, size_t count, const uint64_t *keys, const void *gradient)
{
    const uint32_t step = (uint32_t)++self->figures.steps;
    const unsigned char *bytes = gradient;
    find_rows(self, count, keys, step);
    for (size_t i = 0; i < count; i++) {
        if (self->found[i] != KEY_UNADMITTED) {
            gather(self, self->found[i], bytes + i * self->spec.dim * sizeof(float));
        }
        if (self->block.rows == self->block_rows || (i + 1 == count && self->block.rows > 0)) {
            apply_block(self);
        }
    }
    expire(self, count, step);
}

/* --- snapshots --- */

void
cadre_table_snapshot(cadre_table_t *self, uint32_t since, cadre_table_snapshot_t *out)
{
    *out = (cadre_table_snapshot_t){
        .figures = cadre_table_figures(self),
        .victim_hand = self->eviction.victim_hand,
        .expiry_hand = self->eviction.expiry_hand,
    };
    cadre_row_pages_snapshot(self->pages, since, &out->rows);
    if (self->sketch) {
        out->sightings = cadre_sighting_sketch_save(self->sketch, &out->counters);
    }
}

void
cadre_table_snapshot_fini(cadre_table_snapshot_t *snapshot)
{
    cadre_row_snapshot_fini(&snapshot->rows);
    cadre_chunk_unref(&snapshot->counters);
}

int
cadre_table_load_begin(cadre_table_t *self, const cadre_table_snapshot_t *snapshot)
{
    if ((snapshot->counters != NULL) != (self->sketch != NULL)) {
        return cadre_fail(CADRE_ECORRUPT, "a table that %s sightings",
                          self->sketch ? "lacks" : "should not have");
    }
    int status = cadre_row_pages_load_begin(self->pages, &snapshot->rows);
    if (status < 0) {
        return status;
    }
    status = cadre_row_eviction_load(&self->eviction, snapshot->victim_hand, snapshot->expiry_hand,
                                     snapshot->rows.row_end);
    if (status < 0) {
        return status;
    }
    self->figures = snapshot->figures;
    if (!self->sketch) {
        return 0;
    }
    return cadre_sighting_sketch_load(self->sketch, snapshot->sightings, snapshot->counters);
}

/* Puts a page in its position, and its rows into the index. */
int
cadre_table_load_page(cadre_table_t *self, uint32_t position, const void *bytes, size_t size_bytes)
{
    int status = cadre_row_pages_load(self->pages, position, bytes, size_bytes);
    if (status < 0) {
        return status;
    }

    const uint32_t after = cadre_row_pages_after(self->pages, position);
    for (uint32_t row = cadre_row_pages_first(self->pages, position); row < after; row++) {
        if (!cadre_row_pages_used(self->pages, row)) {
            continue;
        }
        const uint64_t key = cadre_row_pages_key(self->pages, row);
        if (cadre_table_has(self, key)) {
            return cadre_fail(CADRE_ECORRUPT, "key %llu has two rows", (unsigned long long)key);
        }
        cadre_row_index_add(self->index, row);
    }
    return 0;
}

int
cadre_table_load_end(cadre_table_t *self)
{
    if (cadre_row_pages_count(self->pages) != self->figures.rows) {
        return cadre_fail(CADRE_ECORRUPT, "%llu rows where there were %llu",
                          (unsigned long long)cadre_row_pages_count(self->pages),
                          (unsigned long long)self->figures.rows);
    }
    return cadre_row_pages_load_end(self->pages);
}

int
cadre_table_adopt_page(cadre_table_t *self, const void *bytes, size_t size_bytes, uint32_t shard,
                       uint32_t shard_count)
{
    if (size_bytes != cadre_row_pages_page_size(self->pages)) {
        return cadre_fail(CADRE_ECORRUPT, "a page of %zu bytes, where those of a table have %zu",
                          size_bytes, cadre_row_pages_page_size(self->pages));
    }

    const uint32_t rows = cadre_row_pages_per_page(self->pages);
    for (uint32_t place = 0; place < rows; place++) {
        uint64_t key = 0;
        if (!cadre_row_pages_peek(self->pages, bytes, place, &key) ||
            cadre_table_shard(key, shard_count) != shard) {
            continue;
        }
        if (cadre_table_has(self, key)) {
            return cadre_fail(CADRE_ECORRUPT, "key %llu has two rows", (unsigned long long)key);
        }
        const uint32_t row = cadre_row_pages_add(self->pages, key);
        cadre_row_index_add(self->index, row);
        cadre_row_pages_copy(self->pages, row, bytes, place);
        self->figures.created++;
    }
    return 0;
}

void
cadre_table_adopt_steps(cadre_table_t *self, uint64_t steps)
{
    self->figures.steps = cadre_max_u64(self->figures.steps, steps);
}

cadre_table_figures_t
cadre_table_figures(const cadre_table_t *self)
{
    cadre_table_figures_t figures = self->figures;
    figures.rows = cadre_row_pages_count(self->pages);
    figures.size_bytes =
        cadre_row_pages_size_bytes(self->pages) + cadre_row_index_size_bytes(self->index);
    figures.size_bytes += self->sketch ? cadre_sighting_sketch_size_bytes() : 0;
    return figures;
}
