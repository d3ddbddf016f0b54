#include "common/net/peer.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"

void
cadre_peer_init(cadre_peer_t *self, cadre_socket_t *socket, const cadre_task_t *task,
                const char *address)
{
    *self = (cadre_peer_t){.socket = socket, .task = *task, .address = cadre_strdup(address)};
}

void
cadre_peer_drop_waiting(cadre_peer_t *self)
{
    cadre_outbox_fini(&self->waiting);
}

void
cadre_peer_close(cadre_peer_t *self, int linger_ms)
{
    cadre_peer_drop_waiting(self);
    cadre_socket_close(&self->socket, linger_ms);
    free(self->address);
    *self = (cadre_peer_t){.socket = NULL};
}

bool
cadre_peer_is_full(const cadre_peer_t *self)
{
    return cadre_outbox_count(&self->waiting) > 0;
}

/* Sends an entry and frees it; false when the socket is full, and the entry stays. Any other
 * failure loses the message, as a broken connection may. */
static bool
try_send(cadre_peer_t *self, cadre_outbox_entry_t *entry)
{
    if (cadre_socket_send(self->socket, NULL, entry->header, entry->chunks, entry->chunk_count) ==
        CADRE_EAGAIN) {
        return false;
    }
    cadre_outbox_entry_fini(entry);
    return true;
}

/* Sends the entry, which is taken. While the socket is full the entry waits behind those that wait
 * already; beyond CADRE_PEER_WAITING_MAX it is dropped, as cores send again what is not answered.
 */
void
cadre_peer_send(cadre_peer_t *self, cadre_outbox_entry_t *entry)
{
    if (!self->socket || cadre_outbox_count(&self->waiting) == CADRE_PEER_WAITING_MAX) {
        cadre_outbox_entry_fini(entry);
    } else if (cadre_peer_is_full(self) || !try_send(self, entry)) {
        cadre_outbox_push(&self->waiting, entry);
    }
}

/* Sends the messages that wait, the oldest first, until the socket is full again. */
void
cadre_peer_flush(cadre_peer_t *self)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(&self->waiting, &entry)) {
        if (!try_send(self, &entry)) {
            cadre_outbox_push_front(&self->waiting, &entry);
            return;
        }
    }
}
