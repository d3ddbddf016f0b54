#include "ps/core/table/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/bf16.h"
#include "common/tensor/dtype.h"
#include "ps/core/table/row_eviction.h"
#include "ps/core/table/row_index.h"
#include "ps/core/table/row_optimizer.h"
#include "ps/core/table/row_workspace.h"
#include "ps/core/values/assignment.h"
#include "ps/core/values/initializer.h"

enum {
    VISITS = 64,        /* rows that every update looks at for the old and the small, */
    VISITS_PER_KEY = 2, /* and for each of its keys */
    SHRINK_ROWS = 64,   /* rows beyond rows_max that an update evicts, and one for each key */
    STEPS_AHEAD = 12,   /* rows whose last update the CPU is asked for before it is needed */
    COUNTED_KEYS = 64,  /* that are looked for at a time, to count those without a row */
    RUN_KEYS = 1024,    /* of an update, found and then changed: what a row has of pages of the
                             machine is still known to the CPU then */
};

/* What becomes of a key of an update that has no row, or whose row was changed already. Rows have
 * numbers up to CADRE_TABLE_ROWS_MAX. */
#define KEY_UNADMITTED CADRE_ROW_NONE
#define KEY_ADMITTED   (CADRE_ROW_NONE - 1)
#define KEY_APPLIED    (CADRE_ROW_NONE - 2)

struct cadre_table {
    cadre_table_spec_t spec;
    cadre_ps_initializer_t initializer; /* each row has a seed of its own */
    cadre_row_optimizer_t optimizer;
    cadre_row_pages_t *pages;
    cadre_row_index_t *index;
    cadre_sighting_sketch_t *sketch; /* NULL: keys are admitted at once */
    cadre_row_eviction_t eviction;
    uint64_t rows_max;
    cadre_table_figures_t figures;
    uint64_t assigned; /* version of the last assignment, or of what was loaded: from then on every
                          version is an update */
    uint64_t removed;  /* version that removed a row last */

    /* For one call at a time: the row of each key, and copies of rows for the optimizer. */
    uint32_t *found;
    size_t found_capacity;
    cadre_row_workspace_t workspace;
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
    cadre_row_workspace_init(&self->workspace, spec, &self->optimizer);
    *self_p = self;
    return 0;
}

void
cadre_table_reschedule(cadre_table_t *self, const cadre_schedule_spec_t *schedule)
{
    self->spec.optimizer.schedule = *schedule;
    cadre_optimizer_reschedule(&self->optimizer.optimizer, schedule);
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
    cadre_row_workspace_fini(&self->workspace);
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

static cadre_row_reader_t
reader_of(const cadre_table_t *self)
{
    return (cadre_row_reader_t){.spec = &self->spec,
                                .initializer = &self->initializer,
                                .index = self->index,
                                .pages = self->pages};
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

/* Returns the rows of the first keys of `found`, as many as have one, at most a block. */
static cadre_row_numbers_t
rows_from(const cadre_table_t *self, const uint32_t *found, size_t count)
{
    cadre_row_numbers_t rows = {.items = found};
    while (rows.count < count && rows.count < self->workspace.rows_max &&
           found[rows.count] < KEY_APPLIED) {
        rows.count++;
    }
    rows.next = cadre_min_u64(count - rows.count, self->workspace.rows_max);
    return rows;
}

int
cadre_table_pull(cadre_table_t *self, cadre_dtype_t dtype, size_t count, const uint64_t *keys,
                 void *values)
{
    const cadre_row_pull_t pull = {.count = count, .keys = keys, .dtype = dtype, .values = values};
    return cadre_table_pull_rows(self, &pull);
}

int
cadre_table_pull_rows(cadre_table_t *self, const cadre_row_pull_t *pull)
{
    const cadre_row_reader_t reader = reader_of(self);
    return cadre_row_reader_pull(&reader, &self->workspace, pull);
}

/* --- slots --- */

size_t
cadre_table_slot_count(const cadre_table_t *self)
{
    return cadre_row_optimizer_slot_count(&self->optimizer);
}

size_t
cadre_table_slot_width(const cadre_table_t *self)
{
    return cadre_row_optimizer_slot_width(&self->optimizer);
}

void
cadre_table_pull_slot(const cadre_table_t *self, size_t slot, size_t count, const uint64_t *keys,
                      float *numbers)
{
    const size_t width = cadre_table_slot_width(self);
    for (size_t i = 0; i < count; i++, numbers += width) {
        const uint32_t row = cadre_row_index_find(self->index, keys[i]);
        if (row == CADRE_ROW_NONE) {
            cadre_row_optimizer_begin_slot(&self->optimizer, slot, numbers);
        } else {
            memcpy(numbers, cadre_row_pages_read(self->pages, row, (int)slot),
                   width * sizeof(*numbers));
        }
    }
}

/* Returns whether a key had its present values at `version` already. Every version since then was
 * an update, so a row that the last so many updates have not changed is the same; and so is a key
 * that has no row, when none was removed. Steps of rows wrap: an old row may look young, and counts
 * as changed. */
static bool
is_unchanged(const cadre_table_t *self, uint32_t row, uint64_t version)
{
    const cadre_table_figures_t *figures = &self->figures;
    if (version < self->assigned || version > figures->version) {
        return false;
    }
    if (row == CADRE_ROW_NONE) {
        return version >= self->removed;
    }
    const uint32_t age = (uint32_t)figures->steps - cadre_row_pages_step(self->pages, row);
    return age >= figures->version - version;
}

void
cadre_table_find_unchanged(cadre_table_t *self, size_t count, const uint64_t *keys,
                           const uint64_t *held, bool *unchanged)
{
    reserve_found(self, count);
    cadre_row_index_find_all(self->index, count, keys, self->found);
    for (size_t i = 0; i < count; i++) {
        if (i + STEPS_AHEAD < count && self->found[i + STEPS_AHEAD] != CADRE_ROW_NONE) {
            cadre_row_pages_prefetch_step(self->pages, self->found[i + STEPS_AHEAD]);
        }
        unchanged[i] = held[i] > 0 && is_unchanged(self, self->found[i], held[i] - 1);
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

/* Returns what to do when there is no room for rows. */
static const char *
advice(const cadre_table_t *self)
{
    if (self->spec.when_full != CADRE_TABLE_REFUSE) {
        return "it may have no more keys than rows_max: raise that, or take smaller batches";
    }
    return self->spec.rows_max > 0
               ? "raise rows_max, or let rows go with when_full \"lru\" or \"lfu\""
               : "have more ps, or let rows go with rows_max and when_full \"lru\" or \"lfu\"";
}

/* Checks that there is room for the rows of an update. They are counted only where there might be
 * none; where rows are evicted, the keys alone need room. */
static int
check_room(const cadre_table_t *self, size_t count, const uint64_t *keys)
{
    const uint64_t rows = cadre_row_pages_count(self->pages);
    if (rows + count <= self->rows_max) {
        return 0;
    }
    if (self->spec.when_full != CADRE_TABLE_REFUSE) {
        return count <= self->rows_max
                   ? 0
                   : cadre_fail(CADRE_EFULL,
                                "the update has %zu keys, and the table at most %llu rows on this "
                                "ps: %s",
                                count, (unsigned long long)self->rows_max, advice(self));
    }

    uint64_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (!cadre_table_has(self, keys[i]) && would_be_admitted(self, keys[i])) {
            wanted++;
        }
    }
    if (wanted == 0 || rows + wanted <= self->rows_max) {
        return 0;
    }
    return cadre_fail(CADRE_EFULL,
                      "the table has %llu of at most %llu rows on this ps; the update of %zu keys "
                      "needs %llu more: %s",
                      (unsigned long long)rows, (unsigned long long)self->rows_max, count,
                      (unsigned long long)wanted, advice(self));
}

int
cadre_table_check(const cadre_table_t *self, const cadre_table_update_t *update)
{
    int status = check_keys(update->count, update->keys);
    if (status < 0) {
        return status;
    }
    if (!cadre_table_update_is_finite(update, self->spec.dim)) {
        return cadre_fail(CADRE_ENOTFINITE, "a gradient of a row is not finite");
    }
    return check_room(self, update->count, update->keys);
}

/* Returns how many of these keys have no row. */
static uint64_t
count_missing(const cadre_table_t *self, size_t count, const uint64_t *keys)
{
    uint32_t rows[COUNTED_KEYS];
    uint64_t missing = 0;
    for (size_t first = 0; first < count; first += COUNTED_KEYS) {
        const size_t here = cadre_min_u64(count - first, COUNTED_KEYS);
        cadre_row_index_find_all(self->index, here, keys + first, rows);
        for (size_t i = 0; i < here; i++) {
            missing += rows[i] == CADRE_ROW_NONE;
        }
    }
    return missing;
}

int
cadre_table_check_assign(const cadre_table_t *self, const cadre_table_update_t *update)
{
    const uint64_t rows = cadre_row_pages_count(self->pages);
    if (rows + update->count <= self->rows_max) {
        return 0;
    }

    /* A key that comes again is counted again: close to its limit a table refuses more than it
     * must. */
    const uint64_t missing = count_missing(self, update->count, update->keys);
    const bool evicts = self->spec.when_full != CADRE_TABLE_REFUSE;
    if (missing == 0 || (evicts ? update->count : rows + missing) <= self->rows_max) {
        return 0;
    }
    return cadre_fail(CADRE_EFULL,
                      "the table has %llu of at most %llu rows on this ps; %llu keys of the "
                      "assignment of %zu have none: %s",
                      (unsigned long long)rows, (unsigned long long)self->rows_max,
                      (unsigned long long)missing, update->count, advice(self));
}

uint64_t
cadre_table_growth(const cadre_table_t *self, size_t count, const uint64_t *keys)
{
    const uint64_t left =
        self->rows_max - cadre_min_u64(self->rows_max, cadre_row_pages_count(self->pages));
    const uint64_t missing = keys ? count_missing(self, count, keys) : count;
    const uint64_t rows = cadre_min_u64(left, missing);
    return cadre_row_pages_growth(self->pages, rows) + cadre_row_index_growth(self->index, rows) +
           (self->sketch ? cadre_sighting_sketch_growth(self->sketch, missing) : 0);
}

/* --- updates --- */

/* Drops a row of which the index and the pages know. */
static void
remove_row(cadre_table_t *self, uint32_t row)
{
    cadre_row_index_remove(self->index, row);
    cadre_row_pages_remove(self->pages, row);
    self->removed = self->figures.version;
}

/* Counts a sighting of a key without a row. Returns whether it is to get one. (A sketch may let two
 * keys of one update count as one, and so admit more than were checked to have room.) */
static bool
admit(cadre_table_t *self, uint64_t key)
{
    return !self->sketch || cadre_sighting_sketch_see(self->sketch, key) >= self->spec.admit_after;
}

static void
begin_slots(cadre_table_t *self, uint32_t row)
{
    for (size_t s = 0; s < cadre_row_optimizer_slot_count(&self->optimizer); s++) {
        cadre_row_optimizer_begin_slot(&self->optimizer, s,
                                       cadre_row_pages_write(self->pages, row, (int)s));
    }
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
        const uint32_t victim =
            cadre_row_eviction_victim(&self->eviction, &self->spec, step, self->pages);
        if (victim == CADRE_ROW_NONE) {
            return KEY_UNADMITTED;
        }
        remove_row(self, victim);
        self->figures.evicted++;
    }

    const uint32_t row = cadre_row_pages_add(self->pages, key);
    cadre_row_index_add(self->index, row);
    const cadre_row_reader_t reader = reader_of(self);
    cadre_row_reader_first(&reader, key, self->workspace.block.values);
    store_values(self, row, self->workspace.block.values);
    begin_slots(self, row);
    cadre_row_pages_touch(self->pages, row, step);
    self->figures.created++;
    return row;
}

/* Asks the CPU for the first rows of a run; those behind are asked for block by block. */
static void
prefetch_block(const cadre_table_t *self, const uint32_t *found, size_t count)
{
    for (size_t i = 0; i < count && i < self->workspace.rows_max; i++) {
        if (found[i] < KEY_APPLIED) {
            cadre_row_pages_prefetch_numbers(self->pages, found[i]);
        }
    }
}

/* Finds or makes the rows of a run of keys, which `found` has where they are found already. Rows
 * that are there are marked as changed by this update before the first row is evicted. */
static void
find_rows(cadre_table_t *self, size_t count, const uint64_t *keys, uint32_t *found, uint32_t step)
{
    prefetch_block(self, found, count);
    cadre_row_pages_touch_all(self->pages, found, count, step);
    for (size_t i = 0; i < count; i++) {
        if (found[i] == CADRE_ROW_NONE && admit(self, keys[i])) {
            found[i] = KEY_ADMITTED;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (found[i] == KEY_ADMITTED) {
            found[i] = create(self, keys[i], step);
        }
        self->figures.unadmitted += found[i] == KEY_UNADMITTED;
    }
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

/* Evicts rows of a table that has more than it may: it was loaded from one with more ps, or with
 * another rows_max. */
static void
evict_excess(cadre_table_t *self, size_t count, uint32_t step)
{
    if (self->spec.when_full == CADRE_TABLE_REFUSE) {
        return;
    }
    for (size_t left = SHRINK_ROWS + count;
         left > 0 && cadre_row_pages_count(self->pages) > self->rows_max; left--) {
        const uint32_t victim =
            cadre_row_eviction_victim(&self->eviction, &self->spec, step, self->pages);
        if (victim == CADRE_ROW_NONE) {
            return;
        }
        remove_row(self, victim);
        self->figures.evicted++;
    }
}

/* Applies the gradients of a run of `count` rows, or some of them, which stand in one piece, to
 * rows `found`. */
static void
apply_piece(cadre_table_t *self, cadre_row_workspace_t *workspace,
            const cadre_table_update_t *update, const uint32_t *found, size_t count,
            const unsigned char *piece)
{
    const cadre_dtype_t dtype = cadre_table_update_dtype(update);
    const size_t row_size = self->spec.dim * cadre_dtype_size(dtype);
    for (size_t i = 0, here = 0; i < count; i += here) {
        const cadre_row_numbers_t rows = rows_from(self, found + i, count - i);
        if (rows.count > 0) {
            cadre_row_workspace_apply(workspace, self->pages, &rows, dtype, piece + i * row_size,
                                      self->figures.steps);
        }
        here = cadre_max_u64(rows.count, 1); /* without the keys that have none */
    }
}

/* Applies the gradients of `count` keys from number `first` of the update on to rows `found`. */
static void
apply_run(cadre_table_t *self, cadre_row_workspace_t *workspace, const cadre_table_update_t *update,
          size_t first, size_t count, const uint32_t *found)
{
    for (size_t done = 0, here = 0; done < count; done += here) {
        const unsigned char *piece =
            cadre_table_update_rows(update, self->spec.dim, first + done, &here);
        here = cadre_min_u64(here, count - done);
        apply_piece(self, workspace, update, found + done, here, piece);
    }
}

/* Finds or makes the rows of a run of keys as find_rows does, and applies their gradients, but
 * where that was done. */
static void
settle_run(cadre_table_t *self, const cadre_table_update_t *update, size_t first, size_t count,
           uint32_t *found)
{
    const uint32_t step = (uint32_t)self->figures.steps;
    find_rows(self, count, update->keys + first, found, step);
    apply_run(self, &self->workspace, update, first, count, found);
}

/* Returns whether rows may be evicted for those of an update. */
static bool
may_evict(const cadre_table_t *self, const cadre_table_update_t *update)
{
    const uint64_t rows = cadre_row_pages_count(self->pages);
    const bool evicts = self->spec.when_full != CADRE_TABLE_REFUSE;
    return evicts && rows + update->count > self->rows_max;
}

/* Returns how many keys of an update are found before the first is changed: all of them where rows
 * may be evicted, since those that the update changes must not be. */
static size_t
run_of(const cadre_table_t *self, const cadre_table_update_t *update)
{
    return may_evict(self, update) ? update->count : RUN_KEYS;
}

static void
push_alone(cadre_table_t *self, const cadre_table_update_t *update)
{
    const size_t run = run_of(self, update);
    reserve_found(self, cadre_min_u64(run, update->count));
    for (size_t first = 0, here = 0; first < update->count; first += here) {
        here = cadre_min_u64(run, update->count - first);
        cadre_row_index_find_all(self->index, here, update->keys + first, self->found);
        settle_run(self, update, first, here, self->found);
    }
}

/* --- updates on several lanes --- */

/* An update as lanes have it. They look for its keys, and change the rows that are there, in pages
 * that nobody else holds: each row by itself, wherever the others are. What changes more, making
 * rows and copying pages, is left to the shard's thread, which does it in the order of the keys. So
 * nothing that comes of an update depends on the lanes. */
typedef struct {
    cadre_table_t *table; /* of which lanes write rows alone, and when these were changed */
    const cadre_table_update_t *update;
    uint32_t *found; /* [update->count]: of each key its row, CADRE_ROW_NONE, or KEY_APPLIED */
} lane_push_t;

/* Takes the rows that a lane may change out of `found`, to `taken`. */
static void
take_rows(const cadre_table_t *self, uint32_t *found, size_t count, uint32_t *taken)
{
    for (size_t i = 0; i < count; i++) {
        const bool is_taken =
            found[i] != CADRE_ROW_NONE && cadre_row_pages_is_owned(self->pages, found[i]);
        taken[i] = is_taken ? found[i] : KEY_APPLIED;
        found[i] = is_taken ? KEY_APPLIED : found[i];
    }
}

static void
push_piece(void *argument, size_t index)
{
    const lane_push_t *push = argument;
    cadre_table_t *table = push->table;
    const size_t keys = cadre_table_update_piece_keys(table->spec.dim);
    const size_t first = index * keys;
    const size_t count = cadre_min_u64(push->update->count - first, keys);
    uint32_t taken[CADRE_TABLE_PIECE_KEYS];
    cadre_row_index_find_all(table->index, count, push->update->keys + first, push->found + first);
    take_rows(table, push->found + first, count, taken);
    prefetch_block(table, taken, count);
    cadre_row_pages_touch_all(table->pages, taken, count, (uint32_t)table->figures.steps);

    cadre_auto(cadre_row_workspace_fini) cadre_row_workspace_t workspace;
    cadre_row_workspace_init(&workspace, &table->spec, &table->optimizer);
    apply_run(table, &workspace, push->update, first, count, taken);
}

static void
push_on_lanes(cadre_table_t *self, const cadre_table_update_t *update, size_t pieces)
{
    reserve_found(self, update->count);
    lane_push_t push = {self, update, self->found};
    cadre_lanes_run(update->lanes, pieces, push_piece, &push);
    for (size_t first = 0; first < update->count; first += RUN_KEYS) {
        const size_t here = cadre_min_u64(RUN_KEYS, update->count - first);
        settle_run(self, update, first, here, self->found + first);
    }
}

void
cadre_table_push(cadre_table_t *self, const cadre_table_update_t *update)
{
    const size_t pieces = cadre_table_update_piece_count(update, self->spec.dim);
    self->figures.steps++;
    self->figures.version++;
    if (pieces > 0 && !may_evict(self, update)) {
        push_on_lanes(self, update, pieces);
    } else {
        push_alone(self, update);
    }
    expire(self, update->count, (uint32_t)self->figures.steps);
    evict_excess(self, update->count, (uint32_t)self->figures.steps);
    cadre_row_pages_trim(self->pages, update->count);
}

/* --- assignments --- */

/* Where an assignment may evict rows, notes those that it names: they stay. */
static void
begin_naming(cadre_table_t *self, const cadre_table_update_t *update)
{
    if (!may_evict(self, update)) {
        return;
    }
    cadre_row_eviction_begin_naming(&self->eviction,
                                    cadre_row_pages_end(self->pages) + update->count);
    for (size_t i = 0; i < update->count; i++) {
        const uint32_t row = cadre_row_index_find(self->index, update->keys[i]);
        if (row != CADRE_ROW_NONE) {
            cadre_row_eviction_name(&self->eviction, row);
        }
    }
}

/* Assigns to the row of a key. */
static void
assign_row(cadre_table_t *self, cadre_assign_mode_t mode, uint64_t key, const float *numbers)
{
    const uint32_t step = (uint32_t)self->figures.steps;
    uint32_t row = cadre_row_index_find(self->index, key);
    if (row == CADRE_ROW_NONE) {
        row = create(self, key, step);
    } else {
        cadre_row_pages_touch(self->pages, row, step);
    }
    if (row == KEY_UNADMITTED) {
        self->figures.unadmitted++;
        return;
    }

    if (self->eviction.named) {
        cadre_row_eviction_name(&self->eviction, row);
    }
    load_values(self, row, self->workspace.block.values);
    cadre_assignment_apply(mode, CADRE_F32, numbers, self->workspace.block.values,
                           self->workspace.block.values, self->spec.dim);
    store_values(self, row, self->workspace.block.values);
}

void
cadre_table_assign(cadre_table_t *self, cadre_assign_mode_t mode,
                   const cadre_table_update_t *update)
{
    const size_t row_size = self->spec.dim * cadre_dtype_size(cadre_table_update_dtype(update));
    self->assigned = ++self->figures.version;
    begin_naming(self, update);
    for (size_t first = 0, here = 0; first < update->count; first += here) {
        const unsigned char *piece = cadre_table_update_rows(update, self->spec.dim, first, &here);
        for (size_t i = 0; i < here; i++) {
            cadre_table_update_copy(update, piece + i * row_size, self->workspace.block.room,
                                    self->spec.dim);
            assign_row(self, mode, update->keys[first + i], self->workspace.block.room);
        }
    }
    cadre_row_eviction_end_naming(&self->eviction);
}

/* --- forks --- */

cadre_table_t *
cadre_table_fork(cadre_table_t *self, uint64_t number)
{
    cadre_table_t *fork = cadre_calloc(1, sizeof(*fork));
    *fork = *self;
    fork->pages = cadre_row_pages_fork(self->pages, number);
    fork->index = cadre_row_index_fork(self->index, fork->pages);
    fork->sketch = self->sketch ? cadre_sighting_sketch_copy(self->sketch) : NULL;
    cadre_row_eviction_init(&fork->eviction, &self->spec);
    int status =
        cadre_row_eviction_load(&fork->eviction, self->eviction.victim_hand,
                                self->eviction.expiry_hand, cadre_row_pages_end(self->pages));
    cadre_assert(status == 0); /* the hands are at rows of this table */
    fork->found = NULL;
    fork->found_capacity = 0;
    cadre_row_workspace_init(&fork->workspace, &fork->spec, &fork->optimizer);
    return fork;
}

void
cadre_table_freeze(cadre_table_t *self)
{
    cadre_row_index_destroy(&self->index);
}

void
cadre_table_begin(cadre_table_t *self, uint64_t number)
{
    cadre_row_pages_begin(self->pages, number);
}

/* --- snapshots --- */

void
cadre_table_snapshot(cadre_table_t *self, uint64_t since, uint64_t number,
                     cadre_table_snapshot_t *out)
{
    *out = (cadre_table_snapshot_t){
        .figures = cadre_table_figures(self),
        .victim_hand = self->eviction.victim_hand,
        .expiry_hand = self->eviction.expiry_hand,
    };
    cadre_row_pages_snapshot(self->pages, since, number, &out->rows);
    out->sketch = self->sketch ? cadre_sighting_sketch_copy(self->sketch) : NULL;
}

void
cadre_table_snapshot_fini(cadre_table_snapshot_t *snapshot)
{
    cadre_row_snapshot_fini(&snapshot->rows);
    cadre_sighting_sketch_destroy(&snapshot->sketch);
}

void
cadre_table_describe(const cadre_table_t *self, const cadre_table_snapshot_t *snapshot,
                     cadre_table_record_t *out)
{
    const cadre_table_figures_t *figures = &snapshot->figures;
    *out = (cadre_table_record_t){
        .dim = self->spec.dim,
        .storage = (uint64_t)self->spec.storage,
        .optimizer = (uint64_t)self->spec.optimizer.kind,
        .slots = cadre_row_optimizer_slot_count(&self->optimizer),
        .slot_width = cadre_row_optimizer_slot_width(&self->optimizer),
        .page_rows = cadre_row_pages_per_page(self->pages),
        .page_size = cadre_row_pages_page_size(self->pages),
        .value_offset = cadre_row_pages_value_offset(self->pages),
        .used_offset = cadre_row_pages_used_offset(self->pages),
        .end = snapshot->rows.row_end,
        .free_row = (uint64_t)(snapshot->rows.free_row + 1),
        .victim_hand = snapshot->victim_hand,
        .expiry_hand = snapshot->expiry_hand,
        .sighting_layers = snapshot->sketch ? cadre_sighting_sketch_begun(snapshot->sketch) : 0,
        .sighting_keys = snapshot->sketch ? cadre_sighting_sketch_keys(snapshot->sketch) : 0,
        .rows = figures->rows,
        .version = figures->version,
        .steps = figures->steps,
        .created = figures->created,
        .evicted = figures->evicted,
        .expired = figures->expired,
        .unadmitted = figures->unadmitted,
        .checkpoint = snapshot->rows.number,
    };
}

int
cadre_table_compare(const cadre_table_t *self, const cadre_table_record_t *record,
                    cadre_stored_rows_t *out)
{
    const cadre_table_snapshot_t none = {.victim_hand = 0};
    cadre_table_record_t own;
    cadre_table_describe(self, &none, &own);
    return cadre_stored_rows_init(out, record, &own);
}

cadre_table_snapshot_t
cadre_table_described(const cadre_table_record_t *record)
{
    return (cadre_table_snapshot_t){
        .rows = {.number = record->checkpoint,
                 .row_end = record->end,
                 .free_row = (int64_t)record->free_row - 1},
        .figures = {.rows = record->rows,
                    .version = record->version,
                    .steps = record->steps,
                    .created = record->created,
                    .evicted = record->evicted,
                    .expired = record->expired,
                    .unadmitted = record->unadmitted},
        .victim_hand = (uint32_t)record->victim_hand,
        .expiry_hand = (uint32_t)record->expiry_hand,
    };
}

int
cadre_table_load_begin(cadre_table_t *self, const cadre_table_snapshot_t *snapshot)
{
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
    self->assigned = self->figures.version;
    cadre_row_index_reserve(self->index,
                            cadre_min_u64(snapshot->figures.rows, snapshot->rows.row_end));
    if (snapshot->sketch) {
        cadre_sighting_sketch_t *sketch = cadre_sighting_sketch_copy(snapshot->sketch);
        cadre_table_take_sightings(self, &sketch);
    }
    return 0;
}

void
cadre_table_take_sightings(cadre_table_t *self, cadre_sighting_sketch_t **sketch_p)
{
    if (self->sketch) {
        cadre_sighting_sketch_destroy(&self->sketch);
        self->sketch = *sketch_p;
        *sketch_p = NULL;
    }
    cadre_sighting_sketch_destroy(sketch_p);
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
cadre_table_adopt_page(cadre_table_t *self, const cadre_stored_rows_t *stored, const void *bytes,
                       size_t size_bytes, uint32_t shard, uint32_t shard_count)
{
    const size_t page_size = cadre_row_pages_page_size(stored->layout);
    if (size_bytes != page_size) {
        return cadre_fail(CADRE_ECORRUPT, "a page of %zu bytes, where those of a table have %zu",
                          size_bytes, page_size);
    }

    const uint32_t rows = cadre_row_pages_per_page(stored->layout);
    for (uint32_t place = 0; place < rows; place++) {
        uint64_t key = 0;
        if (!cadre_row_pages_peek(stored->layout, bytes, place, &key) ||
            cadre_table_shard(key, shard_count) != shard) {
            continue;
        }
        if (cadre_table_has(self, key)) {
            return cadre_fail(CADRE_ECORRUPT, "key %llu has two rows", (unsigned long long)key);
        }
        const uint32_t row = cadre_row_pages_add(self->pages, key);
        cadre_row_index_add(self->index, row);
        cadre_row_pages_copy(self->pages, row, &stored->source, bytes, place);
        if (!stored->source.keeps_steps) {
            begin_slots(self, row);
        }
        self->figures.created++;
    }
    return 0;
}

void
cadre_table_adopt_counts(cadre_table_t *self, const cadre_stored_rows_t *stored,
                         const cadre_table_figures_t *figures)
{
    if (stored->source.keeps_steps) {
        self->figures.steps = cadre_max_u64(self->figures.steps, figures->steps);
    }
    self->figures.version = cadre_max_u64(self->figures.version, figures->version);
    self->assigned = self->figures.version;
}

uint64_t
cadre_table_version(const cadre_table_t *self)
{
    return self->figures.version;
}

cadre_table_figures_t
cadre_table_figures(const cadre_table_t *self)
{
    cadre_table_figures_t figures = self->figures;
    figures.rows = cadre_row_pages_count(self->pages);
    figures.size_bytes = cadre_row_pages_size_bytes(self->pages);
    figures.size_bytes += self->index ? cadre_row_index_size_bytes(self->index) : 0;
    figures.size_bytes += self->sketch ? cadre_sighting_sketch_size_bytes(self->sketch) : 0;
    return figures;
}
