/*
 * send_queues - messages on their way to peers, with a queue for each peer that cannot take more.
 *
 * Owner:   the coordinator's actor. Thread: the actor's.
 *
 * A message is sent at once unless its peer is full (CADRE_EAGAIN) or has messages waiting: then it
 * waits behind those, and holds up no other peer. A peer is a task on a plane. Each queue is
 * bounded in bytes: a peer that does not read until its queue is full is reported as lost, and the
 * queue is dropped. A chunk that several messages share counts for each of them, though it is in
 * memory once.
 */
#ifndef CADRE_COORDINATOR_SEND_QUEUES_H
#define CADRE_COORDINATOR_SEND_QUEUES_H

#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/wire/outbox.h"

enum {
    CADRE_SEND_RETRY_MS = 2, /* a peer that was full is tried again after this time */
    /* The time doubles, up to this, each time that nothing could be sent. */
    CADRE_SEND_RETRY_MAX_MS = 16,
};

/* Sends an entry, which stays the caller's: 0, CADRE_EAGAIN when the peer is full,
 * CADRE_EUNAVAILABLE when it is not there. */
typedef int (*cadre_send_t)(void *context, const cadre_outbox_entry_t *entry);

/* Called when a peer is gone (CADRE_EUNAVAILABLE), or does not read (CADRE_EFULL). */
typedef void (*cadre_send_lost_t)(void *context, const cadre_task_t *task, int status);

typedef struct {
    cadre_send_t send;
    cadre_send_lost_t lost;
    void *context;
    cadre_u64_map_t queues; /* queue of each peer that has messages waiting, by key_of */
} cadre_send_queues_t;

void cadre_send_queues_init(cadre_send_queues_t *self, cadre_send_t send, cadre_send_lost_t lost,
                            void *context);
void cadre_send_queues_fini(cadre_send_queues_t *self);

/* Sends every entry of the outbox, or queues it; the outbox is empty afterwards. */
void cadre_send_queues_put(cadre_send_queues_t *self, cadre_outbox_t *outbox, uint64_t now_ms);

/* Sends queued messages of the peers that are due to be tried again. */
void cadre_send_queues_flush(cadre_send_queues_t *self, uint64_t now_ms);

/* Returns when the next peer is due to be tried again; UINT64_MAX when no message waits. */
uint64_t cadre_send_queues_due_ms(const cadre_send_queues_t *self);

/* Returns how many bytes wait for the task on this plane. */
uint64_t cadre_send_queues_size(const cadre_send_queues_t *self, const cadre_task_t *task,
                                cadre_plane_t plane);

#endif
