/*
 * worker_builds - resources: a function runs once here for each, before any closure that names it.
 *
 * A build is a run like a closure's, on a slot, but with an id above those of closures: it is not
 * among the closures that HELLO lists as held, only the end of the session cancels it, it pushes
 * nothing, and its end is reported by a HEARTBEAT at once. A build that fails by its function's
 * fault has failed for good and fails the closures that name the resource; so does a build on which
 * the device has failed CADRE_BUILD_TRIES_MAX times. Any other (a shard was away) is tried again.
 *
 * Owner:   nobody: what is known of a resource stands in the directory. Thread: the network
 *          actor's.
 */
#ifndef CADRE_WORKER_CORE_WORKER_BUILDS_H
#define CADRE_WORKER_CORE_WORKER_BUILDS_H

#include "worker/core/directory.h"
#include "worker/core/worker_reports.h"

/* Returns the next resource whose build is due, and marks it as being built; NULL when there is no
 * further one. Start with *cursor = 0 and *due_ms = UINT64_MAX; at the end *due_ms is the time at
 * which the earliest other build is due. */
const cadre_resource_entry_t *cadre_worker_builds_next(cadre_directory_t *directory,
                                                       uint64_t now_ms, size_t *cursor,
                                                       uint64_t *due_ms);

/* Returns the call that builds a resource, as if it were a CLOSURE; borrows from the directory. */
cadre_message_t cadre_worker_builds_call(const cadre_directory_t *directory,
                                         const cadre_resource_entry_t *entry);

/* Takes the end of a build: the resource is built and owns `outcome->holding` (taken), has failed
 * for good, or is to be built again. */
void cadre_worker_builds_end(cadre_directory_t *directory, const cadre_run_t *run,
                             cadre_run_outcome_t *outcome, cadre_worker_effects_t *effects,
                             uint64_t now_ms);

/* Gives a build up before its end, to be tried again. */
void cadre_worker_builds_again(cadre_directory_t *directory, const cadre_run_t *run,
                               uint64_t now_ms);

/* Gives a run what the resources hold that its closure names. Fails with CADRE_EAGAIN while one of
 * these is not built, and with CADRE_EINVALID and `*text` when one has failed for good. */
int cadre_worker_builds_give(const cadre_directory_t *directory, cadre_run_t *run,
                             const char **text);

/* Have the shell destroy what one resource held (NULL is fine), or what all in the directory hold.
 * No slot may be running a closure that reads it. */
void cadre_worker_builds_release(cadre_holding_t *holding, cadre_worker_effects_t *effects);
void cadre_worker_builds_release_all(cadre_directory_t *directory, cadre_worker_effects_t *effects);

#endif
