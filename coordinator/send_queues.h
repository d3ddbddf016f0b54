/*
 * send_queues - messages on their way to peers, with a queue for each peer that cannot take more.
 *
 * Owner:   the coordinator's actor. Thread: the actor's.
 *
 * A message goes out at once unless its peer is full (CADRE_EAGAIN) or has messages waiting: then
 * it waits behind those, and for its own peer only. A peer is a task on a plane. What waits is
 * bounded in bytes for each: who does not read for that long is lost, by name, and what waited for
 * it is dropped. A chunk that several messages share counts for each, though it is there once.
 */
#ifndef CADRE_COORDINATOR_SEND_QUEUES_H
#define CADRE_COORDINATOR_SEND_QUEUES_H

#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/wire/outbox.h"

enum {
    CADRE_SEND_RETRY_MS = 2,      /* a peer was full: it is tried again then; */
    CADRE_SEND_RETRY_MAX_MS = 16, /* twice as late each time that nothing went, up to this */
};

/* Sends an entry, which stays the caller's: 0, CADRE_EAGAIN when the peer is full,
 * CADRE_EUNAVAILABLE when it is not there. */
typedef int (*cadre_send_t)(void *context, const cadre_outbox_entry_t *entry);

/* A peer is not there (CADRE_EUNAVAILABLE), or does not read (CADRE_EFULL). */
typedef void (*cadre_send_lost_t)(void *context, const cadre_task_t *task, int status);

typedef struct {
    cadre_send_t send;
    cadre_send_lost_t lost;
    void *context;
    cadre_u64_map_t queues; /* by peer; of those alone for which something waits */
} cadre_send_queues_t;

void cadre_send_queues_init(cadre_send_queues_t *self, cadre_send_t send, cadre_send_lost_t lost,
                            void *context);
void cadre_send_queues_fini(cadre_send_queues_t *self);

/* Sends every entry of the outbox, or queues it; the outbox is empty afterwards. */
void cadre_send_queues_put(cadre_send_queues_t *self, cadre_outbox_t *outbox, uint64_t now_ms);

/* Sends what waits for peers that are due. */
void cadre_send_queues_flush(cadre_send_queues_t *self, uint64_t now_ms);

/* Returns when the next peer is due; UINT64_MAX when nothing waits. */
uint64_t cadre_send_queues_due_ms(const cadre_send_queues_t *self);

/* Bytes that wait for the task on this plane. */
uint64_t cadre_send_queues_size(const cadre_send_queues_t *self, const cadre_task_t *task,
                                cadre_plane_t plane);

#endif
