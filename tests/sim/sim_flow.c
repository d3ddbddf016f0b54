#include "tests/sim/sim_flow.h"

#include <inttypes.h>
#include <xxhash.h>

void
sim_flow_fini(sim_flow_t *self)
{
    cadre_u64_map_fini(&self->sent);
    cadre_u64_map_fini(&self->came);
}

static uint64_t
key_of(const cadre_outbox_entry_t *entry, uint32_t from, uint32_t to)
{
    return XXH3_64bits_withSeed(cadre_chunk_data(entry->header),
                                cadre_chunk_size_bytes(entry->header), (uint64_t)from << 32 | to);
}

/* Whether it is a question or report that may only be repeated for a reason. */
static bool
is_watched(cadre_message_type_t type)
{
    return type == CADRE_MESSAGE_PULL || type == CADRE_MESSAGE_PUSH ||
           type == CADRE_MESSAGE_CLOSURE_DONE || type == CADRE_MESSAGE_CLOSURE_FAILED;
}

void
sim_flow_look(sim_flow_t *self, sim_check_t *check, sim_network_t *network, uint32_t from,
              uint32_t to, const cadre_outbox_entry_t *entry)
{
    if (entry->type == CADRE_MESSAGE_HELLO) {
        sim_network_give_up(network, entry->plane, from, to);
    }
    if (!is_watched(entry->type)) {
        return;
    }
    uintptr_t harm = 1 + (uintptr_t)sim_network_harm(network, entry->plane, from, to);
    uintptr_t before =
        (uintptr_t)cadre_u64_map_put(&self->sent, key_of(entry, from, to), (void *)harm);
    size_t size_bytes = 0;
    for (size_t i = 0; i < entry->chunk_count; i++) {
        size_bytes += cadre_chunk_size_bytes(entry->chunks[i]);
    }
    *(before ? &self->again_bytes : &self->needed_bytes) += size_bytes;
    if (before == harm) {
        sim_check_fail(
            check, "I9: %s from %" PRIu32 " to %" PRIu32 " is retransmitted, and nothing was lost",
            cadre_message_type_text(entry->type), from, to);
    }
}

void
sim_flow_arrived(sim_flow_t *self, sim_network_t *network, const sim_event_t *event,
                 const cadre_message_t *message)
{
    if (message->type != CADRE_MESSAGE_CLOSURE) {
        return;
    }
    uint64_t facts[] = {event->node, message->epoch, message->closure.id, message->closure.attempt};
    if (cadre_u64_map_put(&self->came, XXH3_64bits(facts, sizeof(facts)), self)) {
        sim_network_give_up(network, CADRE_PLANE_CONTROL, event->from, event->node);
    }
}
