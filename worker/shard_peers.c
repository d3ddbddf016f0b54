#include "worker/shard_peers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/log.h"
#include "common/wire/codec.h"

void
cadre_shard_peers_init(cadre_shard_peers_t *self, cadre_context_t *context)
{
    *self = (cadre_shard_peers_t){.context = context};
}

/* Closes all connections at once; messages that are not sent yet are dropped. */
void
cadre_shard_peers_fini(cadre_shard_peers_t *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        cadre_peer_close(&self->peers[i], 0);
    }
    free(self->peers);
    free(self->names);
    *self = (cadre_shard_peers_t){.context = NULL};
}

/* Begins a session with `count` shards. Connections to shards that stay are kept until the
 * coordinator names another process; those beyond are closed. */
void
cadre_shard_peers_resize(cadre_shard_peers_t *self, uint32_t count)
{
    for (uint32_t i = count; i < self->count; i++) {
        cadre_peer_close(&self->peers[i], 0);
    }
    self->peers = cadre_realloc(self->peers, count, sizeof(*self->peers));
    self->names = cadre_realloc(self->names, count, sizeof(*self->names));
    for (uint32_t i = self->count; i < count; i++) {
        self->peers[i] = (cadre_peer_t){.socket = NULL};
    }
    self->count = count;
}

/* Opens a connection to a shard under a new routing id. A ROUTER that still has a connection with
 * the same id would ignore this one for good; so the id, `name`, gets the number of the connection
 * in the place of the worker's index (which a shard does not use). */
static int
dial(cadre_shard_peers_t *self, cadre_task_t *name, const char *address, cadre_socket_t **socket)
{
    char routing_id[CADRE_TASK_TEXT_SIZE];
    name->index = ++self->connections;
    cadre_task_text(name, routing_id);
    cadre_endpoint_t endpoint;
    int status = cadre_endpoint_parse(address, &endpoint);
    if (status < 0) {
        return status;
    }
    status = cadre_socket_open_dealer(self->context, CADRE_PLANE_DATA, routing_id, socket);
    if (status < 0) {
        return status;
    }
    return cadre_socket_connect(*socket, &endpoint);
}

/* Connects to the ps that serves shard `index`, as the directory's entry says, or closes the
 * connection when none does. `is_mute`: nothing comes on the connection though answers are owed
 * (half-open), so it is replaced although the process is the same. */
void
cadre_shard_peers_connect(cadre_shard_peers_t *self, const cadre_task_t *worker, uint32_t index,
                          const cadre_shard_entry_t *entry, bool is_mute)
{
    cadre_peer_t *peer = &self->peers[index];
    if (entry->away) {
        /* Closes the connection, or libzmq would dial whatever comes to its address, again and
         * again. */
        cadre_peer_close(peer, 0);
        cadre_log(CADRE_LOG_WARN, "shard_unavailable", "shard=%u next=\"its closures wait for it\"",
                  index);
        return;
    }

    if (is_mute) {
        cadre_log(CADRE_LOG_WARN, "shard_half_open", "shard=%u silent_ms=%d next=\"reconnects\"",
                  index, CADRE_MUTE_MS);
    } else if (peer->socket && cadre_task_equal(&peer->task, &entry->task) &&
               strcmp(peer->address, entry->address) == 0) {
        return; /* another generation of the same process */
    }

    cadre_peer_close(peer, 0);
    cadre_socket_t *socket = NULL;
    self->names[index] = *worker;
    if (dial(self, &self->names[index], entry->address, &socket) < 0) {
        cadre_socket_close(&socket, 0);
        cadre_log(CADRE_LOG_ERROR, "shard_connect_failed", "shard=%u address=%s reason=\"%s\"",
                  index, entry->address, cadre_error_text());
        return;
    }
    cadre_peer_init(peer, socket, &entry->task, entry->address);
    cadre_log(CADRE_LOG_DEBUG, "shard", "shard=%u address=%s generation=%" PRIu64, index,
              entry->address, entry->generation);
}

/* Sends a message to the ps that it is addressed to; drops it when that process is not connected,
 * since requests to shards are retransmitted. */
void
cadre_shard_peers_send(cadre_shard_peers_t *self, cadre_outbox_entry_t *entry)
{
    uint32_t index = entry->destination.index;
    if (index < self->count && cadre_task_equal(&self->peers[index].task, &entry->destination)) {
        cadre_peer_send(&self->peers[index], entry);
    } else {
        cadre_outbox_entry_fini(entry);
    }
}

/* Returns what the connection to this ps calls this worker; NULL when there is none. */
const cadre_task_t *
cadre_shard_peers_name(const cadre_shard_peers_t *self, const cadre_task_t *shard)
{
    uint32_t index = shard->index;
    bool is_connected = index < self->count && self->peers[index].socket &&
                        cadre_task_equal(&self->peers[index].task, shard);
    return is_connected ? &self->names[index] : NULL;
}

int
cadre_shard_peers_decode(const cadre_task_t *shard, cadre_chunk_t *header, cadre_chunk_t **chunks,
                         size_t count, cadre_message_t *message)
{
    int status = cadre_message_decode(cadre_chunk_data(header), cadre_chunk_size_bytes(header),
                                      chunks, count, message);
    if (status < 0) {
        return status;
    }

    bool is_foreign = message->incarnation != shard->incarnation;
    if (is_foreign || cadre_message_authorize(message->type, CADRE_ROLE_PS) < 0) {
        cadre_message_fini(message);
        return CADRE_EMALFORMED;
    }

    return 0;
}

/* Returns whether the keys of all connected ps are still allowed. */
bool
cadre_shard_peers_are_trusted(const cadre_shard_peers_t *self)
{
    for (uint32_t i = 0; i < self->count; i++) {
        if (self->peers[i].socket && !cadre_socket_trusted(self->peers[i].socket)) {
            return false;
        }
    }
    return true;
}
