/*
 * huge_keeper - a thread that has one huge page of memory touched ahead, for tables that grow
 * (ps/core/values/huge_source.h).
 *
 * Owner:   the ps's shard actor.
 * Thread:  opened and destroyed by its owner; pages are taken on any thread.
 *
 * The page that is ready is an atomic pointer, an exception to the rule of one thread to a state:
 * an update takes some hundred microseconds, and shall not wait for a message. Whoever takes it
 * leaves NULL, so nobody else has it; what the thread wrote to it happened before. The thread
 * begins with the first page that is taken, so a shard without large tables has none ready.
 */
#ifndef CADRE_PS_HUGE_KEEPER_H
#define CADRE_PS_HUGE_KEEPER_H

#include <stddef.h>

#include "ps/core/values/huge_source.h"

typedef struct cadre_huge_keeper cadre_huge_keeper_t;

/* Starts the thread. Fails with CADRE_EIO when it cannot be started. */
int cadre_huge_keeper_open(cadre_huge_keeper_t **out);

/* Ends the thread, and gives the page that is ready back. NULL inside is fine. */
void cadre_huge_keeper_destroy(cadre_huge_keeper_t **self_p);

/* Returns the keeper as a source for a shard. It gives the page that is ready, or, where none is
 * yet, one that was not touched. */
cadre_huge_source_t cadre_huge_keeper_source(cadre_huge_keeper_t *self);

/* Returns how many pages that were ready it gave. */
size_t cadre_huge_keeper_given(const cadre_huge_keeper_t *self);

#endif
