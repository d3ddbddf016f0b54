#include "tests/sim/sim_bytes.h"

#include <xxhash.h>

void
sim_bytes_fini(sim_bytes_t *self)
{
    cadre_u64_map_fini(&self->first);
}

/* Takes one number of a header: a msgpack uint. */
static uint64_t
take_number(const uint8_t **at)
{
    uint8_t kind = *(*at)++;
    size_t bytes = kind >= 0xcc && kind <= 0xcf ? (size_t)1 << (kind - 0xcc) : 0;
    uint64_t number = bytes == 0 ? kind : 0;
    for (size_t i = 0; i < bytes; i++) {
        number = number << 8 | *(*at)++;
    }
    return number;
}

sim_header_t
sim_header_of(const cadre_outbox_entry_t *entry)
{
    enum { PROTOCOL, TYPE, REQUEST, INCARNATION, EPOCH, COUNT };
    const uint8_t *at = cadre_chunk_data(entry->header);
    at += *at == 0xdc ? 3 : 1; /* the array's own head */
    uint64_t numbers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = take_number(&at);
    }
    return (sim_header_t){
        .request = numbers[REQUEST], .incarnation = numbers[INCARNATION], .epoch = numbers[EPOCH]};
}

static uint64_t
key_of(const sim_link_t *link, const cadre_outbox_entry_t *entry)
{
    uint64_t key = XXH3_64bits_withSeed(&link->from, sizeof(link->from), link->to);
    bool is_answer = entry->type == CADRE_MESSAGE_VALUES || entry->type == CADRE_MESSAGE_APPLIED;
    if (is_answer) {
        const uint64_t numbers[] = {entry->type, sim_header_of(entry).request};
        return XXH3_64bits_withSeed(numbers, sizeof(numbers), key);
    }
    key = XXH3_64bits_withSeed(cadre_chunk_data(entry->header),
                               cadre_chunk_size_bytes(entry->header), key);
    for (size_t i = 0; i < entry->chunk_count; i++) {
        key = XXH3_64bits_withSeed(cadre_chunk_data(entry->chunks[i]),
                                   cadre_chunk_size_bytes(entry->chunks[i]), key);
    }
    return key;
}

/* What the coordinator asks of a shard, and waits for the answer. */
static bool
is_request(cadre_message_type_t type)
{
    return type == CADRE_MESSAGE_CREATE || type == CADRE_MESSAGE_SETTLE ||
           type == CADRE_MESSAGE_SNAPSHOT || type == CADRE_MESSAGE_CLOSE_CUT ||
           type == CADRE_MESSAGE_RESTORE || type == CADRE_MESSAGE_DROP ||
           type == CADRE_MESSAGE_COUNT || type == CADRE_MESSAGE_END_STEP;
}

void
sim_bytes_count(sim_bytes_t *self, sim_link_t *link, const cadre_outbox_entry_t *entry,
                uint64_t now_ms, uint64_t disturbed_ms)
{
    bool is_data = entry->plane == CADRE_PLANE_DATA;
    if (!is_data && !is_request(entry->type)) {
        return;
    }
    uint64_t key = key_of(link, entry);
    uint64_t first = (uint64_t)(uintptr_t)cadre_u64_map_get(&self->first, key);
    uint64_t size_bytes = cadre_chunk_size_bytes(entry->header);
    for (size_t i = 0; i < entry->chunk_count; i++) {
        size_bytes += cadre_chunk_size_bytes(entry->chunks[i]);
    }
    if (first == 0) {
        cadre_u64_map_put(&self->first, key, (void *)(uintptr_t)(now_ms + 1));
        link->needed_bytes += is_data ? size_bytes : 0;
    } else if (disturbed_ms < first - 1) {
        link->wasted_bytes += is_data ? size_bytes : 0;
        link->repeated += is_data ? 0 : 1;
    }
}
