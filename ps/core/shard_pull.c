#include "ps/core/shard_pull.h"

#include "common/base/memory.h"
#include "common/base/status.h"

/* Returns whether the asker holds the present version of the part: `held` is its version plus 1. */
static bool
is_current(const cadre_shard_part_t *part, uint64_t held)
{
    return held == cadre_shard_part_version(part) + 1;
}

/* Converts to the wire dtype the parts that a worker asks for and does not hold. */
static int
make_wire(const cadre_named_parts_t *named)
{
    for (size_t i = 0; i < named->count; i++) {
        const cadre_shard_part_t *part = named->items[i].part;
        if (is_current(part, named->items[i].number)) {
            continue;
        }
        int status = cadre_partition_make_wire(part->partition);
        if (status < 0) {
            return cadre_shard_part_fail(part, status);
        }
    }
    return 0;
}

int
cadre_shard_pull_slot(const cadre_partition_t *partition, cadre_pulled_t what)
{
    switch (what.kind) {
    case CADRE_PULLED_WIRE:
    case CADRE_PULLED_EXACT:
        return -1;
    case CADRE_PULLED_AVERAGE:
        return cadre_partition_average_slot(partition);
    case CADRE_PULLED_SLOT:
        return (int)what.slot;
    }
    return -1;
}

/* Checks that a part keeps the average or the slot that is pulled. */
int
cadre_shard_pull_check(const cadre_shard_part_t *part, cadre_pulled_t what)
{
    const bool has_average = part->partition && cadre_partition_has_average(part->partition);
    if (what.kind == CADRE_PULLED_AVERAGE && !has_average) {
        return cadre_shard_part_fail(part, cadre_fail(CADRE_EINVALID, "there is no average"));
    }
    const size_t slots = part->table ? cadre_table_slot_count(part->table)
                                     : cadre_partition_slot_count(part->partition);
    if (what.kind == CADRE_PULLED_SLOT && what.slot >= slots) {
        return cadre_shard_part_fail(
            part, cadre_fail(CADRE_EINVALID, "slot %zu of its %zu slots", what.slot, slots));
    }
    return 0;
}

/* Checks every part that is named. */
static int
check_all(const cadre_named_parts_t *named, cadre_pulled_t what)
{
    for (size_t i = 0; i < named->count; i++) {
        int status = cadre_shard_pull_check(named->items[i].part, what);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Takes references to what is pulled of a partition. */
static void
take(const cadre_partition_t *partition, cadre_pulled_t what, cadre_chunk_t **chunks)
{
    const int slot = cadre_shard_pull_slot(partition, what);
    if (slot >= 0) {
        cadre_partition_pull_slot(partition, (size_t)slot, chunks);
    } else if (what.kind == CADRE_PULLED_WIRE) {
        cadre_partition_pull_wire(partition, chunks);
    } else {
        cadre_partition_pull(partition, chunks);
    }
}

/* Finds the parts that a PULL names, and checks that they can be answered, before anything is put
 * into the answer. */
int
cadre_shard_pull_prepare(cadre_shard_parts_t *parts, const cadre_u64s_t *list, cadre_pulled_t what,
                         cadre_named_parts_t *out)
{
    int status = cadre_shard_parts_find_named(parts, list, out);
    if (status < 0) {
        return status;
    }
    size_t chunks = 0;
    for (size_t i = 0; i < out->count; i++) {
        const cadre_shard_part_t *part = out->items[i].part;
        if (part->table) {
            return cadre_shard_part_fail(
                part, cadre_fail(CADRE_EINVALID, "rows of a table are pulled by keys"));
        }
        if (!is_current(part, out->items[i].number)) {
            chunks += cadre_partition_layout(part->partition)->count;
        }
    }
    if (chunks > CADRE_MESSAGE_CHUNKS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%zu chunks do not fit one answer of %d: ask in parts",
                          chunks, CADRE_MESSAGE_CHUNKS_MAX);
    }
    return what.kind == CADRE_PULLED_WIRE ? make_wire(out) : check_all(out, what);
}

/* Puts into the answer references to the values of each part, but for parts of which the asker has
 * the present version. */
void
cadre_shard_pull_answer(const cadre_named_parts_t *named, cadre_pulled_t what,
                        cadre_ps_counters_t *counters, cadre_message_t *answer,
                        cadre_pulled_part_t *pulled)
{
    size_t room = 0;
    for (size_t i = 0; i < named->count; i++) {
        room += cadre_partition_layout(named->items[i].part->partition)->count;
    }
    answer->chunks = cadre_calloc(room, sizeof(cadre_chunk_t *));

    for (size_t i = 0; i < named->count; i++) {
        const cadre_shard_part_t *part = named->items[i].part;
        const cadre_partition_t *partition = part->partition;
        pulled[i] = (cadre_pulled_part_t){.version = cadre_partition_version(partition)};
        if (what.kind == CADRE_PULLED_WIRE) {
            cadre_partition_note_pulled(part->partition);
        }
        if (is_current(part, named->items[i].number)) {
            cadre_ps_counters_note(counters, CADRE_PS_COUNTER_unchanged);
            continue;
        }
        const cadre_chunk_layout_t *layout = what.kind == CADRE_PULLED_WIRE
                                                 ? cadre_partition_wire_layout(partition)
                                                 : cadre_partition_layout(partition);
        take(partition, what, answer->chunks + answer->chunk_count);
        pulled[i].chunk_count = layout->count;
        answer->chunk_count += layout->count;
        cadre_ps_counters_note_pulled(counters, layout->size_bytes, 0);
    }
}

/* Returns how many bytes of values would answer a PULL of this list. */
size_t
cadre_shard_pull_size_bytes(const cadre_shard_parts_t *parts, const cadre_u64s_t *list)
{
    const cadre_part_list_t asked = cadre_part_list_view(list);
    size_t size_bytes = 0;
    for (size_t i = 0; i < asked.count; i++) {
        const cadre_part_t *at = &asked.items[i];
        const cadre_shard_part_t *part = NULL;
        if (cadre_shard_parts_find(parts, at->variable, at->partition, &part) == 0 &&
            part->partition && !is_current(part, at->number)) {
            size_bytes += cadre_partition_wire_layout(part->partition)->size_bytes;
        }
    }
    return size_bytes;
}
