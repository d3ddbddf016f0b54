#include "ps/core/shard_tables.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "ps/core/values/optimizer_kernel.h"

enum { IDS_PER_CHUNK = CADRE_CHUNK_SIZE_MAX / sizeof(uint64_t) };

void
cadre_table_keys_fini(cadre_table_keys_t *self)
{
    free(self->copy);
}

/* Returns the keys in `bytes`, which are borrowed: as they are where they are aligned, else a
 * copy. */
static cadre_table_keys_t
keys_in(const void *bytes, size_t count)
{
    if ((uintptr_t)bytes % sizeof(uint64_t) == 0) {
        return (cadre_table_keys_t){.items = bytes, .count = count};
    }
    uint64_t *copy = cadre_calloc(count, sizeof(*copy));
    memcpy(copy, bytes, count * sizeof(*copy));
    return (cadre_table_keys_t){.items = copy, .count = count, .copy = copy};
}

/* Returns the keys of a gradient, which may have none. */
static cadre_table_keys_t
keys_of(const cadre_row_gradient_t *gradient)
{
    if (gradient->count == 0) {
        return (cadre_table_keys_t){.count = 0};
    }
    if (gradient->count <= IDS_PER_CHUNK) {
        return keys_in(cadre_chunk_data(gradient->chunks[0]), gradient->count);
    }

    uint64_t *copy = cadre_calloc(gradient->count, sizeof(*copy));
    for (size_t first = 0; first < gradient->count; first += IDS_PER_CHUNK) {
        const size_t here = cadre_min_u64(gradient->count - first, IDS_PER_CHUNK);
        memcpy(copy + first, cadre_chunk_data(gradient->chunks[first / IDS_PER_CHUNK]),
               here * sizeof(*copy));
    }
    return (cadre_table_keys_t){.items = copy, .count = gradient->count, .copy = copy};
}

/* Returns how `count` rows of `dim` numbers are cut: as f32, with the sizes that the chunks have in
 * `dtype`. */
static cadre_chunk_layout_t
layout_of(uint32_t dim, uint64_t count, cadre_dtype_t dtype)
{
    cadre_chunk_layout_t layout;
    int status = cadre_chunk_layout_init(&layout, count, dim * sizeof(float));
    cadre_assert(status == 0); /* both are bounded */
    return cadre_chunk_layout_convert(&layout, sizeof(float), cadre_dtype_size(dtype));
}

/* Returns rows in chunks as an update of a table. */
static cadre_table_update_t
update_of(uint32_t dim, size_t count, const uint64_t *keys, cadre_chunk_t *const *chunks,
          cadre_dtype_t dtype)
{
    const cadre_chunk_layout_t layout = layout_of(dim, count, dtype);
    return (cadre_table_update_t){.count = count,
                                  .keys = keys,
                                  .chunks = chunks,
                                  .chunk_rows = layout.stride_bytes / dim / cadre_dtype_size(dtype),
                                  .dtype = dtype};
}

/* --- pull --- */

/* Copies the keys whose values have changed, and sets the bits of the others. */
static cadre_table_keys_t
keys_without(const cadre_table_keys_t *keys, const bool *unchanged, uint64_t *bits, size_t first)
{
    cadre_table_keys_t changed = {.copy = cadre_calloc(keys->count, sizeof(uint64_t))};
    for (size_t i = 0; i < keys->count; i++) {
        changed.copy[changed.count] = keys->items[i];
        changed.count += !unchanged[i];
        bits[(first + i) / 64] |= (uint64_t)unchanged[i] << (first + i) % 64;
    }
    changed.items = changed.copy;
    return changed;
}

cadre_table_keys_t
cadre_shard_tables_keys(const cadre_shard_part_t *part, const cadre_part_rows_t *rows,
                        uint64_t *unchanged, size_t first)
{
    cadre_table_keys_t keys = keys_in(rows->ids, rows->count);
    if (!rows->ages) {
        return keys;
    }
    cadre_auto(cadre_free) uint64_t *held = cadre_calloc(rows->count, sizeof(*held));
    cadre_auto(cadre_free) bool *same = cadre_calloc(rows->count, sizeof(*same));
    for (size_t i = 0; i < rows->count; i++) {
        held[i] = cadre_part_rows_held(rows, i);
    }
    cadre_table_find_unchanged(part->table, rows->count, keys.items, held, same);
    cadre_table_keys_t changed = keys_without(&keys, same, unchanged, first);
    cadre_table_keys_fini(&keys);
    return changed;
}

int
cadre_shard_tables_pull(const cadre_shard_part_t *part, const cadre_table_keys_t *keys,
                        cadre_dtype_t dtype, cadre_chunk_t *const *chunks,
                        const cadre_lanes_t *lanes)
{
    const uint32_t dim = part->spec.table.dim;
    const cadre_chunk_layout_t layout = layout_of(dim, keys->count, dtype);
    const cadre_row_pull_t pull = {.count = keys->count,
                                   .keys = keys->items,
                                   .dtype = dtype,
                                   .chunks = chunks,
                                   .chunk_rows =
                                       layout.stride_bytes / dim / cadre_dtype_size(dtype),
                                   .lanes = lanes};
    return cadre_table_pull_rows(part->table, &pull);
}

void
cadre_shard_tables_pull_slot(const cadre_shard_part_t *part, const cadre_table_keys_t *keys,
                             size_t slot, cadre_chunk_t *const *chunks)
{
    const uint32_t width = (uint32_t)cadre_table_slot_width(part->table);
    const size_t chunk_rows =
        layout_of(width, keys->count, CADRE_F32).stride_bytes / width / sizeof(float);
    for (size_t first = 0; first < keys->count; first += chunk_rows) {
        const size_t here = cadre_min_u64(keys->count - first, chunk_rows);
        cadre_table_pull_slot(part->table, slot, here, keys->items + first,
                              cadre_chunk_data(chunks[first / chunk_rows]));
    }
}

/* --- push --- */

int
cadre_shard_tables_chunk_count(const cadre_shard_part_t *part, uint64_t count, size_t *out)
{
    if (count > CADRE_TABLE_KEYS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "an update has %llu keys, at most %d",
                          (unsigned long long)count, CADRE_TABLE_KEYS_MAX);
    }
    *out = count == 0 ? 0
                      : cadre_row_gradient_id_chunks(count) +
                            layout_of(part->spec.table.dim, count, CADRE_F32).count;
    return 0;
}

/* Returns a gradient as an update of a table of this spec. */
static cadre_table_update_t
gradient_update(const cadre_partition_spec_t *spec, const cadre_row_gradient_t *gradient,
                const uint64_t *keys)
{
    if (gradient->count == 0) {
        return (cadre_table_update_t){.count = 0};
    }
    return update_of(spec->table.dim, gradient->count, keys,
                     gradient->chunks + cadre_row_gradient_id_chunks(gradient->count), spec->wire);
}

int
cadre_shard_tables_check(const cadre_shard_part_t *part, const cadre_row_gradient_t *gradient,
                         const cadre_lanes_t *lanes)
{
    const cadre_partition_spec_t *spec = &part->spec;
    if (gradient->count == 0) {
        return 0;
    }
    const cadre_chunk_layout_t layout = layout_of(spec->table.dim, gradient->count, spec->wire);
    int status = cadre_row_gradient_check_sizes(gradient, &layout);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_table_keys_fini) cadre_table_keys_t keys = keys_of(gradient);
    cadre_table_update_t update = gradient_update(spec, gradient, keys.items);
    update.lanes = lanes;
    return cadre_table_check(part->table, &update);
}

uint64_t
cadre_shard_tables_growth(const cadre_shard_part_t *part, const cadre_row_gradient_t *gradient,
                          bool exactly)
{
    if (!exactly) {
        return cadre_table_growth(part->table, gradient->count, NULL);
    }
    cadre_auto(cadre_table_keys_fini) cadre_table_keys_t keys = keys_of(gradient);
    return cadre_table_growth(part->table, gradient->count, keys.items);
}

void
cadre_shard_tables_apply(cadre_table_t *table, const cadre_partition_spec_t *spec,
                         const cadre_row_gradient_t *gradient, const cadre_lanes_t *lanes)
{
    cadre_auto(cadre_table_keys_fini) cadre_table_keys_t keys = keys_of(gradient);
    cadre_table_update_t update = gradient_update(spec, gradient, keys.items);
    update.lanes = lanes;
    cadre_table_push(table, &update);
}

/* --- sums --- */

/* A row of one of the gradients that are summed. */
typedef struct {
    uint64_t key;
    size_t term;
    const char *numbers; /* in the wire dtype */
} row_t;

/* Orders rows by key, and those of one key by term. */
static int
compare_rows(const void *left, const void *right)
{
    const row_t *a = left;
    const row_t *b = right;
    if (a->key != b->key) {
        return a->key > b->key ? 1 : -1;
    }
    return (a->term > b->term) - (a->term < b->term);
}

/* Lists the rows of all terms in the order in which they are summed. */
static void
list_rows(const cadre_partition_spec_t *spec, const cadre_row_term_t *terms, size_t count,
          row_t *rows)
{
    const size_t row_size = spec->table.dim * cadre_dtype_size(spec->wire);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const cadre_row_gradient_t *gradient = &terms[i].gradient;
        cadre_auto(cadre_table_keys_fini) cadre_table_keys_t keys = keys_of(gradient);
        const cadre_table_update_t update = gradient_update(spec, gradient, keys.items);
        for (size_t k = 0; k < update.count; k++) {
            const char *chunk = cadre_chunk_data(update.chunks[k / update.chunk_rows]);
            rows[at++] = (row_t){.key = keys.items[k],
                                 .term = i,
                                 .numbers = chunk + k % update.chunk_rows * row_size};
        }
    }
    qsort(rows, at, sizeof(*rows), compare_rows);
}

/* Adds `weight` times a row to `sum`; the first takes the place of what is there. `numbers` has
 * room for a row. */
static void
add_row(const cadre_partition_spec_t *spec, const row_t *row, float weight, bool is_first,
        float *numbers, float *sum)
{
    const size_t dim = spec->table.dim;
    const void *gradient = row->numbers;
    if (spec->wire != CADRE_F32) {
        cadre_dtype_traits(spec->wire)->to_f32(gradient, numbers, dim);
        gradient = numbers;
    }
    if (is_first) {
        cadre_kernel_scale_f32(dim, weight, gradient, sum);
    } else {
        cadre_kernel_add_scaled_f32(dim, weight, gradient, sum);
    }
}

/* Sums the rows of each key, and applies the sums as one update. */
static void
apply_sums(cadre_table_t *table, const cadre_partition_spec_t *spec, const cadre_row_term_t *terms,
           const row_t *rows, size_t count, const cadre_lanes_t *lanes)
{
    const size_t dim = spec->table.dim;
    cadre_auto(cadre_free) uint64_t *keys = cadre_calloc(count, sizeof(*keys));
    cadre_auto(cadre_free) float *sums = cadre_calloc(count * dim, sizeof(*sums));
    cadre_auto(cadre_free) float *numbers = cadre_calloc(dim, sizeof(*numbers));
    size_t sum_count = 0;
    for (size_t i = 0; i < count; i++) {
        const bool is_first = i == 0 || rows[i - 1].key != rows[i].key;
        sum_count += is_first;
        keys[sum_count - 1] = rows[i].key;
        add_row(spec, &rows[i], terms[rows[i].term].weight, is_first, numbers,
                sums + (sum_count - 1) * dim);
    }
    const cadre_table_update_t update = {
        .count = sum_count, .keys = keys, .numbers = sums, .lanes = lanes};
    cadre_table_push(table, &update);
}

void
cadre_shard_tables_apply_sum(cadre_table_t *table, const cadre_partition_spec_t *spec,
                             const cadre_row_term_t *terms, size_t count,
                             const cadre_lanes_t *lanes)
{
    if (count == 1 && terms[0].weight == 1) {
        cadre_shard_tables_apply(table, spec, &terms[0].gradient, lanes);
        return;
    }

    size_t row_count = 0;
    for (size_t i = 0; i < count; i++) {
        row_count += terms[i].gradient.count;
    }
    cadre_auto(cadre_free) row_t *rows = cadre_calloc(row_count, sizeof(*rows));
    list_rows(spec, terms, count, rows);
    apply_sums(table, spec, terms, rows, row_count, lanes);
}

/* --- assign --- */

int
cadre_shard_tables_check_assign(const cadre_shard_part_t *part, const cadre_part_rows_t *rows,
                                uint64_t *growth)
{
    cadre_auto(cadre_table_keys_fini) cadre_table_keys_t keys = keys_in(rows->ids, rows->count);
    const cadre_table_update_t update = {.count = rows->count, .keys = keys.items};
    int status = cadre_table_check_assign(part->table, &update);
    if (status < 0) {
        return status;
    }
    *growth = cadre_table_growth(part->table, update.count, update.keys);
    return 0;
}

void
cadre_shard_tables_assign(cadre_table_t *table, cadre_assign_mode_t mode,
                          const cadre_part_rows_t *rows, cadre_chunk_t *const *chunks)
{
    cadre_auto(cadre_table_keys_fini) cadre_table_keys_t keys = keys_in(rows->ids, rows->count);
    const cadre_table_update_t update =
        update_of(cadre_table_get_spec(table)->dim, rows->count, keys.items, chunks, CADRE_F32);
    cadre_table_assign(table, mode, &update);
}
