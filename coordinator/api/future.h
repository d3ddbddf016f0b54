/* future - makes the public cadre_future_t of a closure; the calls on it are in
 * <cadre/coordinator.h>. */
#ifndef CADRE_COORDINATOR_API_FUTURE_H
#define CADRE_COORDINATOR_API_FUTURE_H

#include <cadre/completion.h>
#include <cadre/coordinator.h>

#include "coordinator/core/closures/closure.h"

/* Under the lock: returns a future for a closure that has not ended. */
cadre_future_t *cadre_future_new(cadre_coordinator_t *coordinator, cadre_closure_t *closure);

/* Under the lock: returns the results of the future's closure, borrowed; NULL for a future that is
 * NULL or of another coordinator. */
cadre_results_t *cadre_future_results(const cadre_future_t *self,
                                      const cadre_coordinator_t *coordinator);

/* Under the lock: puts it into a completion queue.
 *
 * CADRE_EINVALID: it is NULL, or of another coordinator.
 * CADRE_EEXISTS: it is in one. */
int cadre_future_add_to(cadre_future_t *self, cadre_completion_t *completion);

#endif
