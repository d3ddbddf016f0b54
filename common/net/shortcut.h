/*
 * shortcut - how messages of a worker, and of the coordinator, reach a ps in their own process: by
 * a call, on the thread that has something to ask, instead of through sockets and three other
 * threads.
 *
 * Worker and ps are the same cores as in processes of their own, and what passes between them are
 * the same encoded messages. A shortcut is the lock of both cores: each thread that uses one of
 * them (the worker's network thread, the shard's thread, a slot, the coordinator's thread) holds it
 * meanwhile, and none holds it while it waits for sockets. Only the network thread and the shard's
 * use their sockets; who calls leaves to them what has to go through one, and wakes them. The
 * connections to the ps stay: answers that come later than the call go through them.
 *
 * Owner:   who hosts worker and ps; outlives their threads.
 * Thread:  any.
 */
#ifndef CADRE_COMMON_NET_SHORTCUT_H
#define CADRE_COMMON_NET_SHORTCUT_H

#include <stdbool.h>

#include "common/wire/outbox.h"

typedef struct cadre_shortcut cadre_shortcut_t;

/* Acts on a message of `from` for the ps as if it had come over the entry's plane, with the lock
 * held; takes the entry. What the ps answers `from` on that plane at once goes into `answers`. */
typedef void (*cadre_shortcut_serve_t)(void *context, const cadre_task_t *from,
                                       cadre_outbox_entry_t *entry, cadre_outbox_t *answers);

cadre_shortcut_t *cadre_shortcut_new(void);

/* Frees the shortcut, which no thread uses any more, and nulls the pointer. */
void cadre_shortcut_destroy(cadre_shortcut_t **self_p);

/* Lock and unlock the cores. Do nothing for NULL: a task that nobody hosts has its core alone. */
void cadre_shortcut_lock(cadre_shortcut_t *self);
void cadre_shortcut_unlock(cadre_shortcut_t *self);

/* With the lock held: lets go of it until another thread has called cadre_shortcut_answered. */
void cadre_shortcut_wait(cadre_shortcut_t *self);

/* With the lock held: wakes the threads in cadre_shortcut_wait, so that they look again. */
void cadre_shortcut_answered(cadre_shortcut_t *self);

/* With the lock held: the ps of this incarnation is reached through `serve` from now on; NULL: it
 * is not any more. */
void cadre_shortcut_open(cadre_shortcut_t *self, uint64_t incarnation, cadre_shortcut_serve_t serve,
                         void *context);

/* With the lock held: gives an entry of `from` to the ps that it is addressed to, which takes it.
 * Returns false, and nothing has happened, when that ps is not reached this way. Does nothing and
 * returns false for NULL. */
bool cadre_shortcut_carry(cadre_shortcut_t *self, const cadre_task_t *from,
                          cadre_outbox_entry_t *entry, cadre_outbox_t *answers);

#endif
