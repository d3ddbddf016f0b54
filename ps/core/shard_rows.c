#include "ps/core/shard_rows.h"

#include <inttypes.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/dtype.h"
#include "ps/core/shard_tables.h"

/* Values in the dtype of their variable. */
static const cadre_pulled_t exact = {.kind = CADRE_PULLED_EXACT};

/* Fails with CADRE_EINVALID unless all rows are of this part. */
static int
check_ids(const cadre_shard_part_t *part, const cadre_part_rows_t *rows)
{
    const uint64_t first = (uint64_t)part->spec.first_row;
    const uint64_t count = (uint64_t)part->spec.rows;
    for (size_t k = 0; k < rows->count; k++) {
        const uint64_t row = cadre_part_rows_at(rows, k);
        if (row < first || row - first >= count) {
            return cadre_shard_part_fail(
                part, cadre_fail(CADRE_EINVALID,
                                 "row %" PRIu64 " is not among its %" PRIu64 " from %" PRIu64 " on",
                                 row, count, first));
        }
    }
    return 0;
}

/* How far the answer to a PULL is. */
typedef struct {
    cadre_pulled_rows_t *pulled;
    size_t parts;
    size_t rows;
    size_t listed;    /* those whose ids the PULL lists */
    size_t unchanged; /* those that do not follow */
    const cadre_lanes_t *lanes;
} answered_t;

/* Finds the part of a record, and checks that what is pulled is there. */
static int
find_rows(const cadre_shard_parts_t *parts, const cadre_part_rows_t *rows, cadre_pulled_t what,
          const cadre_shard_part_t **out)
{
    int status = cadre_shard_parts_find(parts, rows->variable, rows->partition, out);
    if (status < 0) {
        return status;
    }
    status = cadre_shard_pull_check(*out, what);
    if (status < 0) {
        return status;
    }
    if (!(*out)->table) {
        return check_ids(*out, rows);
    }
    if (!rows->ids) {
        return cadre_shard_part_fail(
            *out, cadre_fail(CADRE_EINVALID, "rows of a table are found by keys, not by place"));
    }
    return 0;
}

/* Returns the bytes of one row of what is pulled of a part, values in its own dtype. */
static size_t
row_size_bytes(const cadre_shard_part_t *part, cadre_pulled_t what)
{
    if (!part->table) {
        return (size_t)cadre_partition_row_elements(part->partition) *
               cadre_dtype_size(part->spec.dtype);
    }
    const size_t elements =
        what.kind == CADRE_PULLED_SLOT ? cadre_table_slot_width(part->table) : part->spec.table.dim;
    return elements * sizeof(float);
}

/* Checks all records before anything is copied. */
static int
check_rows(const cadre_shard_parts_t *parts, const cadre_row_list_t *list, cadre_pulled_t what)
{
    cadre_row_list_t walk = *list;
    cadre_part_rows_t rows;
    size_t count = 0;
    size_t size_bytes = 0;
    while (cadre_row_list_next(&walk, &rows)) {
        const cadre_shard_part_t *part = NULL;
        int status = find_rows(parts, &rows, what, &part);
        if (status < 0) {
            return status;
        }
        count += rows.count;
        size_bytes += rows.count * row_size_bytes(part, what);
    }
    if (count > 1 && size_bytes > CADRE_ROWS_SIZE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%zu bytes of rows, one answer has %d: ask in parts",
                          size_bytes, CADRE_ROWS_SIZE_MAX);
    }
    return 0;
}

/* Copies elements of a partition, as `what` says, to `to`. */
static int
copy(const cadre_partition_t *partition, cadre_pulled_t what, uint64_t first, size_t count,
     void *to)
{
    if (what.kind == CADRE_PULLED_WIRE) {
        return cadre_partition_copy_wire(partition, first, count, to);
    }
    cadre_partition_copy(partition, cadre_shard_pull_slot(partition, what), first, count, to);
    return 0;
}

/* Copies the rows of one record into chunks that are cut by `layout`. A row larger than a chunk
 * goes into several. */
static int
copy_rows(const cadre_shard_part_t *part, const cadre_part_rows_t *rows, cadre_pulled_t what,
          const cadre_chunk_layout_t *layout, cadre_chunk_t *const *chunks)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(part->partition);
    const size_t size = cadre_dtype_size(what.kind == CADRE_PULLED_WIRE ? spec->wire : spec->dtype);
    const size_t row_elements = (size_t)cadre_partition_row_elements(part->partition);
    const size_t stride = layout->stride_bytes / size;
    size_t at = 0; /* elements of the record that are copied */
    for (size_t k = 0; k < rows->count; k++) {
        const uint64_t row = cadre_part_rows_at(rows, k) - (uint64_t)spec->first_row;
        for (size_t done = 0, here = 0; done < row_elements; done += here, at += here) {
            const size_t room = stride - at % stride;
            here = row_elements - done < room ? row_elements - done : room;
            char *to = (char *)cadre_chunk_data(chunks[at / stride]) + at % stride * size;
            int status = copy(part->partition, what, row * row_elements + done, here, to);
            if (status < 0) {
                return cadre_shard_part_fail(part, status);
            }
        }
    }
    return 0;
}

/* Adds chunks for `count` rows of a part to the answer, cut by *layout, which it computes. */
static int
add_chunks(const cadre_shard_part_t *part, size_t count, cadre_pulled_t what,
           cadre_message_t *answer, cadre_chunk_layout_t *layout)
{
    const cadre_partition_spec_t *spec = &part->spec;
    int status = cadre_chunk_layout_init(layout, count, row_size_bytes(part, what));
    if (status < 0) {
        return status;
    }
    if (what.kind == CADRE_PULLED_WIRE) {
        *layout = cadre_chunk_layout_convert(layout, cadre_dtype_size(spec->dtype),
                                             cadre_dtype_size(spec->wire));
    }
    for (size_t k = 0; k < layout->count; k++) {
        cadre_message_add_chunk(answer, cadre_chunk_new(cadre_chunk_layout_size(layout, k)));
    }
    return 0;
}

/* Sets the bits, from bit `first` on, of the keys of one record of which a table has no row. */
static void
find_absent(const cadre_shard_part_t *part, const cadre_part_rows_t *rows, size_t first,
            uint64_t *absent)
{
    for (size_t k = 0; k < rows->count; k++) {
        const uint64_t is_absent = !cadre_table_has(part->table, cadre_part_rows_at(rows, k));
        absent[(first + k) / 64] |= is_absent << (first + k) % 64;
    }
}

/* Adds those rows of one record of a table to the answer that the asker does not hold as they are
 * now, and notes which do not follow. */
static int
add_table_rows(const cadre_shard_part_t *part, const cadre_part_rows_t *rows, cadre_pulled_t what,
               cadre_message_t *answer, answered_t *answered)
{
    const cadre_partition_spec_t *spec = &part->spec;
    cadre_auto(cadre_table_keys_fini) cadre_table_keys_t keys =
        cadre_shard_tables_keys(part, rows, answered->pulled->unchanged, answered->listed);
    const size_t first = answer->chunk_count;
    cadre_chunk_layout_t layout;
    int status = add_chunks(part, keys.count, what, answer, &layout);
    if (status < 0) {
        return status;
    }
    answered->unchanged += rows->count - keys.count;
    if (answered->pulled->absent_words > 0) {
        find_absent(part, rows, answered->listed, answered->pulled->absent);
    }
    if (what.kind == CADRE_PULLED_SLOT) {
        cadre_shard_tables_pull_slot(part, &keys, what.slot, answer->chunks + first);
        return 0;
    }
    status = cadre_shard_tables_pull(part, &keys,
                                     what.kind == CADRE_PULLED_WIRE ? spec->wire : spec->dtype,
                                     answer->chunks + first, answered->lanes);
    return status < 0 ? cadre_shard_part_fail(part, status) : 0;
}

/* Adds rows of one record of a dense variable to the answer. */
static int
add_dense_rows(const cadre_shard_part_t *part, const cadre_part_rows_t *rows, cadre_pulled_t what,
               cadre_message_t *answer)
{
    const size_t first = answer->chunk_count;
    cadre_chunk_layout_t layout;
    int status = add_chunks(part, rows->count, what, answer, &layout);
    return status < 0 ? status : copy_rows(part, rows, what, &layout, answer->chunks + first);
}

/* Adds the rows of one record to the answer. */
static int
add_rows(const cadre_shard_part_t *part, const cadre_part_rows_t *rows, cadre_pulled_t what,
         cadre_message_t *answer, answered_t *answered)
{
    const size_t first = answer->chunk_count;
    int status = part->table ? add_table_rows(part, rows, what, answer, answered)
                             : add_dense_rows(part, rows, what, answer);
    if (status < 0) {
        return status;
    }
    answered->pulled->parts[answered->parts++] = (cadre_pulled_part_t){
        .version = cadre_shard_part_version(part), .chunk_count = answer->chunk_count - first};
    answered->rows += rows->count;
    answered->listed += rows->ids ? rows->count : 0;
    return 0;
}

/* Drops the chunks of an answer that cannot be given. */
static void
drop_chunks(cadre_message_t *answer)
{
    while (answer->chunk_count > 0) {
        cadre_chunk_unref(&answer->chunks[--answer->chunk_count]);
    }
}

/* Copies the rows that a PULL names into its answer, after all of them were checked. */
int
cadre_shard_rows_pull(const cadre_shard_parts_t *parts, const cadre_message_t *message,
                      cadre_pulled_t what, cadre_ps_counters_t *counters, cadre_message_t *answer,
                      cadre_pulled_rows_t *pulled)
{
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    int status = cadre_row_list_init(&list, &message->pull.rows, message);
    if (status < 0) {
        return status;
    }
    status = cadre_row_list_read_held(&list, &message->pull.held, message);
    if (status < 0) {
        return status;
    }
    status = check_rows(parts, &list, what);
    if (status < 0) {
        return status;
    }
    if (message->pull.absence && list.listed > CADRE_CLIENT_ROWS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%zu rows, of which %d may be asked whether they exist",
                          list.listed, CADRE_CLIENT_ROWS_MAX);
    }

    pulled->absent_words = message->pull.absence ? (list.listed + 63) / 64 : 0;
    answered_t answered = {.pulled = pulled, .lanes = cadre_shard_parts_lanes(parts)};
    while (cadre_row_list_next(&list, &rows)) {
        const cadre_shard_part_t *part = NULL;
        (void)cadre_shard_parts_find(parts, rows.variable, rows.partition, &part);
        status = add_rows(part, &rows, what, answer, &answered);
        if (status < 0) {
            drop_chunks(answer);
            return status;
        }
    }
    size_t size_bytes = 0;
    for (size_t k = 0; k < answer->chunk_count; k++) {
        size_bytes += cadre_chunk_size_bytes(answer->chunks[k]);
    }
    pulled->words = answered.unchanged > 0 ? (list.listed + 63) / 64 : 0;
    cadre_ps_counters_note_pulled(counters, size_bytes, answered.rows - answered.unchanged);
    cadre_ps_counters_note_unchanged(counters, answered.unchanged);
    return 0;
}

/* Adds up the bytes of the rows that a PULL names, in the wire dtype of their variables. */
size_t
cadre_shard_rows_size_bytes(const cadre_shard_parts_t *parts, const cadre_message_t *message)
{
    cadre_row_list_t list;
    cadre_part_rows_t rows;
    size_t size_bytes = 0;
    if (cadre_row_list_init(&list, &message->pull.rows, message) < 0) {
        return 0;
    }
    while (cadre_row_list_next(&list, &rows)) {
        const cadre_shard_part_t *part = NULL;
        if (cadre_shard_parts_find(parts, rows.variable, rows.partition, &part) == 0) {
            const cadre_partition_spec_t *spec = &part->spec;
            size_bytes += rows.count * row_size_bytes(part, exact) / cadre_dtype_size(spec->dtype) *
                          cadre_dtype_size(spec->wire);
        }
    }
    return size_bytes;
}

/* --- rows that an ASSIGN brings --- */

/* Returns how the rows of one record are cut, in their own dtype; no chunks where they are too
 * large for any message. */
static cadre_chunk_layout_t
layout_of(const cadre_shard_part_t *part, const cadre_part_rows_t *rows)
{
    cadre_chunk_layout_t layout = {.count = 0};
    (void)cadre_chunk_layout_init(&layout, rows->count, row_size_bytes(part, exact));
    return layout;
}

size_t
cadre_shard_rows_chunk_count(const cadre_shard_part_t *part, const cadre_part_rows_t *rows)
{
    return layout_of(part, rows).count;
}

/* Checks the chunks of one record: number, sizes, and that all numbers are finite. */
static int
check_chunks(const cadre_shard_part_t *part, const cadre_chunk_layout_t *layout,
             cadre_chunk_t *const *chunks, size_t left)
{
    const cadre_dtype_t dtype = part->spec.dtype;
    if (layout->count > left) {
        return cadre_fail(CADRE_ESHAPE, "%zu chunks instead of %zu", left, layout->count);
    }
    for (size_t k = 0; k < layout->count; k++) {
        const size_t expected = cadre_chunk_layout_size(layout, k);
        const size_t actual = cadre_chunk_size_bytes(chunks[k]);
        if (actual != expected) {
            return cadre_fail(CADRE_ESHAPE, "chunk %zu has %zu bytes instead of %zu", k, actual,
                              expected);
        }
        if (!cadre_dtype_is_finite(dtype, cadre_chunk_data(chunks[k]),
                                   actual / cadre_dtype_size(dtype))) {
            return cadre_fail(CADRE_ENOTFINITE, "a row holds an infinite number or NaN");
        }
    }
    return 0;
}

/* Checks everything that an ASSIGN of rows may be refused for, before any value is changed. */
int
cadre_shard_rows_check(const cadre_shard_parts_t *parts, const cadre_message_t *message,
                       cadre_row_list_t *list)
{
    int status = cadre_row_list_init(list, &message->assign.rows, message);
    if (status < 0) {
        return status;
    }
    status = check_rows(parts, list, exact);
    if (status < 0) {
        return status;
    }

    cadre_row_list_t walk = *list;
    cadre_part_rows_t rows;
    size_t at = list->id_chunks;
    uint64_t growth = 0;
    while (cadre_row_list_next(&walk, &rows)) {
        const cadre_shard_part_t *part = NULL;
        (void)cadre_shard_parts_find(parts, rows.variable, rows.partition, &part);
        const cadre_chunk_layout_t layout = layout_of(part, &rows);
        status = rows.variable == message->assign.variable
                     ? check_chunks(part, &layout, message->chunks + at, message->chunk_count - at)
                     : cadre_fail(CADRE_EINVALID, "it is of another variable than the ASSIGN");
        uint64_t its_growth = 0;
        if (status == 0 && part->table) {
            status = cadre_shard_tables_check_assign(part, &rows, &its_growth);
        }
        if (status < 0) {
            return cadre_shard_part_fail(part, status);
        }
        growth += its_growth;
        at += layout.count;
    }
    if (at != message->chunk_count) {
        return cadre_fail(CADRE_ESHAPE, "%zu chunks are left over", message->chunk_count - at);
    }
    return growth > 0 ? cadre_shard_parts_check_growth(parts, growth) : 0;
}
