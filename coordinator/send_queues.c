#include "coordinator/send_queues.h"

#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

typedef struct {
    cadre_task_t task;
    cadre_plane_t plane;
    cadre_outbox_t waiting;
    uint64_t size_bytes;
    uint64_t retry_ms;
    uint64_t pause_ms;
} queue_t;

void
cadre_send_queues_init(cadre_send_queues_t *self, cadre_send_t send, cadre_send_lost_t lost,
                       void *context)
{
    *self = (cadre_send_queues_t){.send = send, .lost = lost, .context = context};
}

static void
destroy(queue_t *queue)
{
    cadre_outbox_fini(&queue->waiting);
    free(queue);
}

void
cadre_send_queues_fini(cadre_send_queues_t *self)
{
    queue_t *queue = NULL;
    for (size_t cursor = 0; (queue = cadre_u64_map_next(&self->queues, &cursor));) {
        destroy(queue);
    }
    cadre_u64_map_fini(&self->queues);
}

/* Returns the key of a peer's queue: its incarnation, which is random, with the plane in the
 * highest bit. */
static uint64_t
key_of(const cadre_task_t *task, cadre_plane_t plane)
{
    return task->incarnation ^ (uint64_t)plane << 63;
}

/* Returns the bytes of memory that a message takes while it waits. */
static uint64_t
size_of(const cadre_outbox_entry_t *entry)
{
    uint64_t size_bytes = sizeof(*entry) + cadre_chunk_size_bytes(entry->header);
    for (size_t i = 0; i < entry->chunk_count; i++) {
        size_bytes += cadre_chunk_size_bytes(entry->chunks[i]);
    }
    return size_bytes;
}

/* Drops a queue with its messages, because its peer is gone or does not read, and reports the peer
 * as lost. */
static void
lose(cadre_send_queues_t *self, uint64_t key, int status)
{
    queue_t *queue = cadre_u64_map_take(&self->queues, key);
    self->lost(self->context, &queue->task, status);
    destroy(queue);
}

/* Appends the entry, which is taken, to its peer's queue; a peer whose queue is too long is lost.
 * An UNKNOWN_PEER is dropped instead: its task asks again, and is answered then. */
static void
queue_up(cadre_send_queues_t *self, queue_t *queue, cadre_outbox_entry_t *entry, uint64_t now_ms)
{
    uint64_t key = key_of(&entry->destination, entry->plane);
    if (entry->type == CADRE_MESSAGE_UNKNOWN_PEER) {
        cadre_outbox_entry_fini(entry);
        return;
    }

    if (!queue) {
        queue = cadre_calloc(1, sizeof(*queue));
        queue->task = entry->destination;
        queue->plane = entry->plane;
        queue->pause_ms = CADRE_SEND_RETRY_MS;
        queue->retry_ms = now_ms + queue->pause_ms;
        cadre_u64_map_put(&self->queues, key, queue);
    }

    if (queue->size_bytes >= CADRE_SEND_QUEUE_SIZE_MAX) {
        cadre_outbox_entry_fini(entry);
        lose(self, key, CADRE_EFULL);
        return;
    }

    queue->size_bytes += size_of(entry);
    cadre_outbox_push(&queue->waiting, entry);
}

/* Sends the messages of the outbox, each at once unless others wait for its peer or the peer is
 * full: then it is queued. */
void
cadre_send_queues_put(cadre_send_queues_t *self, cadre_outbox_t *outbox, uint64_t now_ms)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(outbox, &entry)) {
        queue_t *queue =
            self->queues.count > 0
                ? cadre_u64_map_get(&self->queues, key_of(&entry.destination, entry.plane))
                : NULL;
        int status = queue ? CADRE_EAGAIN : self->send(self->context, &entry);
        if (status == CADRE_EAGAIN) {
            queue_up(self, queue, &entry, now_ms);
            continue;
        }

        if (status == CADRE_EUNAVAILABLE) {
            self->lost(self->context, &entry.destination, status);
        }

        cadre_outbox_entry_fini(&entry);
    }
}

/* Sends a queue's messages from the front. Returns 0 when the queue is empty, CADRE_EAGAIN when the
 * peer is full, CADRE_EUNAVAILABLE when it is gone. */
static int
drain(cadre_send_queues_t *self, queue_t *queue, uint64_t now_ms)
{
    cadre_outbox_entry_t entry;
    bool some = false;

    while (cadre_outbox_pop(&queue->waiting, &entry)) {
        int status = self->send(self->context, &entry);
        if (status == CADRE_EAGAIN) {
            cadre_outbox_push_front(&queue->waiting, &entry);
            /* the pause doubles each time that nothing at all could be sent */
            uint64_t longer_ms = 2 * queue->pause_ms;
            longer_ms = longer_ms < CADRE_SEND_RETRY_MAX_MS ? longer_ms : CADRE_SEND_RETRY_MAX_MS;
            queue->pause_ms = some ? CADRE_SEND_RETRY_MS : longer_ms;
            queue->retry_ms = now_ms + queue->pause_ms;
            return status;
        }

        queue->size_bytes -= size_of(&entry);
        cadre_outbox_entry_fini(&entry);
        if (status == CADRE_EUNAVAILABLE) {
            return status;
        }

        some = true;
    }

    return 0;
}

/* Returns the keys of all queues, freed by the caller: a copy, since the map changes when queues
 * end. */
static uint64_t *
all_keys(const cadre_send_queues_t *self)
{
    uint64_t *keys = cadre_calloc(self->queues.count, sizeof(*keys));
    const queue_t *queue = NULL;
    size_t count = 0;
    for (size_t cursor = 0; (queue = cadre_u64_map_next(&self->queues, &cursor));) {
        keys[count++] = key_of(&queue->task, queue->plane);
    }
    return keys;
}

/* Sends what waits for peers whose time to be tried again has come. */
void
cadre_send_queues_flush(cadre_send_queues_t *self, uint64_t now_ms)
{
    size_t count = self->queues.count;
    if (count == 0) {
        return;
    }

    cadre_auto(cadre_free) uint64_t *keys = all_keys(self);
    for (size_t i = 0; i < count; i++) {
        queue_t *queue = cadre_u64_map_get(&self->queues, keys[i]);
        int status = queue->retry_ms <= now_ms ? drain(self, queue, now_ms) : CADRE_EAGAIN;
        if (status == CADRE_EUNAVAILABLE) {
            lose(self, keys[i], status);
        } else if (status == 0) {
            destroy(cadre_u64_map_take(&self->queues, keys[i]));
        }
    }
}

/* Returns when the next peer is to be tried again; UINT64_MAX: nothing waits. */
uint64_t
cadre_send_queues_due_ms(const cadre_send_queues_t *self)
{
    const queue_t *queue = NULL;
    uint64_t due_ms = UINT64_MAX;
    for (size_t cursor = 0; (queue = cadre_u64_map_next(&self->queues, &cursor));) {
        due_ms = queue->retry_ms < due_ms ? queue->retry_ms : due_ms;
    }
    return due_ms;
}

uint64_t
cadre_send_queues_size(const cadre_send_queues_t *self, const cadre_task_t *task,
                       cadre_plane_t plane)
{
    const queue_t *queue = cadre_u64_map_get(&self->queues, key_of(task, plane));
    return queue ? queue->size_bytes : 0;
}
