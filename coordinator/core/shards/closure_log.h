/*
 * closure_log - closures in the order in which they were first handed out, whatever the order in
 * which they are put in.
 *
 * Owner:   the replay. Thread: under the coordinator's lock.
 *
 * An array indexed by closure->number, cut into blocks, which are allocated only where a closure
 * is. So a closure that ends half a million closures late is put in as fast as any other, numbers
 * that are never put in cost a pointer per block, and the oldest closure is found without a search.
 * (A sorted list took 10 ms for such a late closure, under the lock.)
 */
#ifndef CADRE_COORDINATOR_CORE_SHARDS_CLOSURE_LOG_H
#define CADRE_COORDINATOR_CORE_SHARDS_CLOSURE_LOG_H

#include "coordinator/core/closures/closure.h"

enum { CADRE_CLOSURE_LOG_BLOCK = 512 }; /* numbers of one block */

typedef struct cadre_closure_block cadre_closure_block_t;

/* Zeroed memory is an empty log. */
typedef struct {
    cadre_closure_block_t **blocks; /* a ring: number n is in block n / CADRE_CLOSURE_LOG_BLOCK */
    /* How many pointers the ring has, a power of two; 0 before the first block. */
    size_t capacity;
    uint64_t first; /* only blocks with numbers in [first, end) may be allocated */
    uint64_t end;
    uint64_t lowest; /* number of the oldest closure, if `count` is not 0 */
    size_t count;
} cadre_closure_log_t;

/* Frees a log, which must be empty. */
void cadre_closure_log_fini(cadre_closure_log_t *self);

/* Puts in a closure, whose number no other closure of the log has. */
void cadre_closure_log_put(cadre_closure_log_t *self, cadre_closure_t *closure);

/* Takes out a closure that is in the log. */
void cadre_closure_log_take(cadre_closure_log_t *self, const cadre_closure_t *closure);

/* Returns the oldest closure, NULL when the log is empty. */
cadre_closure_t *cadre_closure_log_first(const cadre_closure_log_t *self);

/* Returns the closure that follows `closure`, which is in the log; NULL when it is the last. */
cadre_closure_t *cadre_closure_log_next(const cadre_closure_log_t *self,
                                        const cadre_closure_t *closure);

#endif
