/*
 * closure_log - closures in the order in which they were begun, whatever the order they come in.
 *
 * Owner:   the replay. Thread: under the coordinator's lock.
 *
 * An array indexed by closure->number, cut into blocks that are there only where a closure is. So a
 * closure that ends half a million closures late is put in as fast as any other, numbers that are
 * never put in cost a pointer per block, and what is oldest is found without a search. (A sorted
 * list took 10 ms for such a closure, under the lock.)
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_CLOSURE_LOG_H
#define CADRE_COORDINATOR_CORE_SHARDS_CLOSURE_LOG_H

#include "coordinator/core/closures/closure.h"

enum { CADRE_CLOSURE_LOG_BLOCK = 512 }; /* numbers of one block */

typedef struct cadre_closure_block cadre_closure_block_t;

/* Zeroed memory is an empty one. */
typedef struct {
    cadre_closure_block_t **blocks; /* a ring: number n is in block n / CADRE_CLOSURE_LOG_BLOCK */
    size_t capacity;                /* of the ring, a power of two; 0: no block was ever there */
    uint64_t first;                 /* block numbers [first, end) may be there */
    uint64_t end;
    uint64_t lowest; /* number of the oldest, while there is one */
    size_t count;
} cadre_closure_log_t;

/* Ends an empty one. */
void cadre_closure_log_fini(cadre_closure_log_t *self);

/* Puts a closure in, whose number none here has. */
void cadre_closure_log_put(cadre_closure_log_t *self, cadre_closure_t *closure);

/* Takes a closure out that is here. */
void cadre_closure_log_take(cadre_closure_log_t *self, const cadre_closure_t *closure);

/* Returns the oldest, NULL when it is empty. */
cadre_closure_t *cadre_closure_log_first(const cadre_closure_log_t *self);

/* Returns the youngest, NULL when it is empty. */
cadre_closure_t *cadre_closure_log_last(const cadre_closure_log_t *self);

/* Returns the closure that follows `closure`, which is in the log; NULL when it is the last. */
cadre_closure_t *cadre_closure_log_next(const cadre_closure_log_t *self,
                                        const cadre_closure_t *closure);

#endif
