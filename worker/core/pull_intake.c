#include "worker/core/pull_intake.h"

#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/record_list.h"

/* The bits of VALUES of the rows that have not changed. */
typedef struct {
    cadre_u64s_t words; /* none: every row follows */
    size_t first;       /* the bit of the next part's first row */
} unchanged_t;

static bool
is_unchanged(const unchanged_t *self, size_t row)
{
    const size_t bit = self->first + row;
    return self->words.count > 0 && self->words.items[bit / 64] >> bit % 64 & 1;
}

static cadre_row_source_t
source_of(const cadre_run_part_t *part, uint64_t generation)
{
    return (cadre_row_source_t){.variable = part->variable->id,
                                .partition = part->partition,
                                .generation = generation,
                                .row_size_bytes = part->variable->wire_row_size_bytes};
}

/* Returns where row `k` of a part stands in its chunks; rows do not straddle these. */
static unsigned char *
row_at(const cadre_chunk_layout_t *layout, cadre_chunk_t *const *chunks, size_t row_size, size_t k)
{
    const size_t rows = layout->stride_bytes / row_size;
    return (unsigned char *)cadre_chunk_data(chunks[k / rows]) + k % rows * row_size;
}

/* --- before the shard is asked --- */

/* Returns how old each row is beside the newest, as PULL says it, and that version; a row that is
 * too much older counts as not held. */
static uint16_t *
new_ages(const cadre_held_row_t *held, size_t count, uint64_t *newest)
{
    uint16_t *ages = cadre_calloc(count, sizeof(*ages));
    *newest = 0;
    for (size_t i = 0; i < count; i++) {
        *newest = held[i].values ? cadre_max_u64(*newest, held[i].version) : *newest;
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t age = *newest - held[i].version;
        ages[i] = held[i].values && age < UINT16_MAX ? (uint16_t)(age + 1) : 0;
    }
    return ages;
}

void
cadre_pull_intake_hold(cadre_row_cache_t *rows, cadre_run_part_t *part, uint64_t generation)
{
    const cadre_row_source_t source = source_of(part, generation);
    if (!part->variable->is_table || source.row_size_bytes > CADRE_CHUNK_SIZE_MAX) {
        return;
    }
    cadre_auto(cadre_free) cadre_held_row_t *held = cadre_calloc(part->id_count, sizeof(*held));
    if (cadre_row_cache_find(rows, &source, part->id_count, part->ids, held) == 0) {
        return;
    }
    uint64_t newest = 0;
    uint16_t *ages = new_ages(held, part->id_count, &newest);
    cadre_run_part_hold(part, generation, newest, &ages);
    const cadre_chunk_layout_t layout = cadre_run_part_layout(part);
    for (size_t i = 0; i < part->id_count; i++) {
        if (part->ages[i] > 0) {
            memcpy(row_at(&layout, part->chunks, source.row_size_bytes, i), held[i].values,
                   source.row_size_bytes);
        }
    }
}

/* --- the answer --- */

/* Returns whether the chunks of an answer have the number and sizes of this layout. */
static bool
chunks_fit(const cadre_chunk_layout_t *layout, cadre_chunk_t *const *chunks, size_t count)
{
    if (layout->count != count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (cadre_chunk_size_bytes(chunks[i]) != cadre_chunk_layout_size(layout, i)) {
            return false;
        }
    }
    return true;
}

/* Fills one whole partition of a pull from the chunks of the answer, and keeps them; or from what
 * is kept, when the answer has no chunks (unchanged since that version). A variable that is gone is
 * not kept again. */
static int
take_partition(const cadre_pull_intake_t *self, cadre_run_part_t *part, uint64_t version,
               uint64_t generation, cadre_chunk_t **chunks, size_t count)
{
    const cadre_chunk_layout_t layout = cadre_run_part_layout(part);
    const cadre_cached_value_t *held =
        cadre_value_cache_get(self->values, part->variable->id, part->partition, generation);
    if (count == 0 && held && held->version >= version) {
        chunks = held->chunks;
        count = held->chunk_count;
        version = held->version;
    } else if (!chunks_fit(&layout, chunks, count)) {
        return CADRE_EMALFORMED;
    } else if (!part->variable->is_gone) {
        cadre_value_cache_put(self->values, part->variable->id, part->partition,
                              &(cadre_cached_value_t){.generation = generation,
                                                      .version = version,
                                                      .chunks = chunks,
                                                      .chunk_count = count});
    }
    cadre_run_part_fill(part, version, generation, chunks, count);
    return 0;
}

/* Counts the rows of a part that have not changed. CADRE_EMALFORMED where one is not held. */
static int
count_unchanged(const cadre_run_part_t *part, const unchanged_t *unchanged, size_t *out)
{
    *out = 0;
    for (size_t i = 0; unchanged->words.count > 0 && i < part->id_count; i++) {
        const bool is_same = is_unchanged(unchanged, i);
        if (is_same && (!part->ages || part->ages[i] == 0)) {
            return CADRE_EMALFORMED;
        }
        *out += is_same;
    }
    return 0;
}

/* Copies the rows that came to their places among those that are there. */
static void
scatter(const cadre_run_part_t *part, const unchanged_t *unchanged,
        const cadre_chunk_layout_t *came, cadre_chunk_t *const *chunks)
{
    const size_t row_size = part->variable->wire_row_size_bytes;
    const cadre_chunk_layout_t layout = cadre_run_part_layout(part);
    for (size_t i = 0, at = 0; i < part->id_count; i++) {
        if (!is_unchanged(unchanged, i)) {
            memcpy(row_at(&layout, part->chunks, row_size, i), row_at(came, chunks, row_size, at++),
                   row_size);
        }
    }
}

/* Keeps rows of a part of a table that was filled, and counts those that were asked about. */
static void
keep_rows(const cadre_pull_intake_t *self, const cadre_run_part_t *part, size_t unchanged)
{
    const cadre_row_source_t source = source_of(part, part->generation);
    const cadre_chunk_layout_t layout = cadre_run_part_layout(part);
    const size_t chunk_rows = layout.stride_bytes / source.row_size_bytes;
    size_t asked = 0;
    for (size_t i = 0; part->ages && i < part->id_count; i++) {
        asked += part->ages[i] > 0;
    }
    cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_rows_held, asked);
    cadre_row_cache_judge(self->rows, &source, asked, unchanged);
    for (size_t k = 0; k < part->chunk_count && chunk_rows > 0; k++) {
        const size_t first = k * chunk_rows;
        const size_t count = cadre_min_u64(part->id_count - first, chunk_rows);
        cadre_row_cache_put(self->rows, &source, part->version, count, part->ids + first,
                            cadre_chunk_data(part->chunks[k]));
    }
}

/* Fills a part that is some rows from the chunks of the answer, and from those that the worker
 * holds. */
static int
take_rows(const cadre_pull_intake_t *self, cadre_run_part_t *part, const unchanged_t *unchanged,
          const cadre_message_t *message, const cadre_pulled_part_t *pulled, size_t first)
{
    cadre_chunk_t **chunks = message->chunks + first;
    const uint64_t generation = message->values.generation;
    size_t same = 0;
    if (count_unchanged(part, unchanged, &same) < 0 ||
        (same > 0 && generation != part->generation)) {
        return CADRE_EMALFORMED;
    }
    const cadre_chunk_layout_t came =
        cadre_variable_entry_rows_layout(part->variable, part->id_count - same);
    if (!chunks_fit(&came, chunks, pulled->chunk_count)) {
        return CADRE_EMALFORMED;
    }
    if (same == 0) {
        cadre_run_part_fill(part, pulled->version, generation, chunks, pulled->chunk_count);
    } else {
        scatter(part, unchanged, &came, chunks);
        cadre_run_part_complete(part, pulled->version);
    }

    if (part->variable->is_table && !part->variable->is_gone) {
        keep_rows(self, part, same);
    }
    cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_rows_pulled,
                              part->id_count - same);
    cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_rows_unchanged, same);
    return 0;
}

/* Returns whether the bits of rows are none, or as many as the parts have rows, and no more. */
static bool
bits_fit(const cadre_run_t *run, const size_t *indexes, size_t count, const cadre_u64s_t *bits)
{
    size_t rows = 0;
    for (size_t i = 0; i < count; i++) {
        rows += run->parts[indexes[i]].id_count;
    }
    if (bits->count == 0) {
        return true;
    }
    return bits->count == (rows + 63) / 64 &&
           (rows % 64 == 0 || bits->items[bits->count - 1] >> rows % 64 == 0);
}

int
cadre_pull_intake_take(const cadre_pull_intake_t *self, cadre_run_t *run, const size_t *indexes,
                       size_t count, const cadre_message_t *message)
{
    const cadre_values_message_t *values = &message->values;
    const cadre_pulled_part_list_t pulled = cadre_pulled_part_list_view(&values->partitions);
    /* Check the length first: `pulled.items` has to have an element for every part asked for. */
    if (cadre_pulled_part_list(pulled.items, count).count != values->partitions.count ||
        !bits_fit(run, indexes, count, &values->unchanged)) {
        return CADRE_EMALFORMED;
    }
    unchanged_t unchanged = {.words = values->unchanged};
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const cadre_pulled_part_t *item = &pulled.items[i];
        cadre_run_part_t *part = &run->parts[indexes[i]];
        if (item->chunk_count > message->chunk_count - at) {
            return CADRE_EMALFORMED;
        }
        int status = part->ids ? take_rows(self, part, &unchanged, message, item, at)
                               : take_partition(self, part, item->version, values->generation,
                                                message->chunks + at, item->chunk_count);
        if (status < 0) {
            return status;
        }
        unchanged.first += part->id_count;
        at += item->chunk_count;
    }
    if (at != message->chunk_count) {
        return CADRE_EMALFORMED;
    }
    size_t received_bytes = 0; /* what has not changed comes without chunks */
    for (size_t i = 0; i < at; i++) {
        received_bytes += cadre_chunk_size_bytes(message->chunks[i]);
    }
    cadre_run_note_received(run, received_bytes);
    cadre_worker_counters_add(self->counters, CADRE_WORKER_COUNTER_pull_bytes, received_bytes);
    return 0;
}
