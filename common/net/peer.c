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
    for (size_t i = 0; i < self->count; i++) {
        cadre_outbox_entry_fini(&self->waiting[self->first + i]);
    }
    self->first = 0;
    self->count = 0;
}

void
cadre_peer_close(cadre_peer_t *self, int linger_ms)
{
    cadre_peer_drop_waiting(self);
    cadre_socket_close(&self->socket, linger_ms);
    free(self->waiting);
    free(self->address);
    *self = (cadre_peer_t){0};
}

/* False when the socket is full; any other failure loses the message, as a connection may. */
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

static void
keep(cadre_peer_t *self, cadre_outbox_entry_t *entry)
{
    if (self->count == CADRE_PEER_WAITING_MAX) {
        cadre_outbox_entry_fini(entry);
        return;
    }
    if (self->first + self->count == self->capacity) {
        if (self->first > 0) {
            for (size_t i = 0; i < self->count; i++) {
                self->waiting[i] = self->waiting[self->first + i];
            }
            self->first = 0;
        } else {
            self->capacity = self->capacity ? 2 * self->capacity : 64;
            self->waiting = cadre_realloc(self->waiting, self->capacity, sizeof(*self->waiting));
        }
    }
    self->waiting[self->first + self->count++] = *entry;
    *entry = (cadre_outbox_entry_t){0};
}

void
cadre_peer_send(cadre_peer_t *self, cadre_outbox_entry_t *entry)
{
    if (!self->socket) {
        cadre_outbox_entry_fini(entry);
    } else if (self->count > 0 || !try_send(self, entry)) {
        keep(self, entry);
    }
}

bool
cadre_peer_flush(cadre_peer_t *self)
{
    while (self->count > 0 && try_send(self, &self->waiting[self->first])) {
        self->first++;
        self->count--;
    }
    if (self->count == 0) {
        self->first = 0;
    }
    return self->count == 0;
}
