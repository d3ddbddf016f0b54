/*
 * client_closures - the closures that one client has scheduled, from SCHEDULE until the client has
 * their results.
 *
 * Owner:   a client of the coordinator core. Thread: under the coordinator's lock.
 *
 * There are at most CADRE_CLIENT_REQUESTS_MAX of them. Each is known by the request of its
 * SCHEDULE, so that a repetition is not scheduled again; also one that was refused is kept, because
 * a repetition might be accepted after the client has heard of the refusal.
 */
#ifndef CADRE_COORDINATOR_CORE_CLIENTS_CLIENT_CLOSURES_H
#define CADRE_COORDINATOR_CORE_CLIENTS_CLIENT_CLOSURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/closures/closure_queue.h"
#include "coordinator/core/effects/core_options.h"

/* One SCHEDULE of a client. */
typedef struct {
    uint64_t request;
    cadre_results_t
        *results; /* of its closure; NULL: it was refused, or the results are too large */
    int status;   /* without results: why */
    char *text;
    bool told; /* RESULT was sent once */
} cadre_client_entry_t;

typedef struct {
    cadre_closure_group_t *group; /* NULL before the first SCHEDULE */
    uint64_t settled;             /* the client has the answers to all requests below this number */
    size_t count;
    cadre_client_entry_t items[CADRE_CLIENT_REQUESTS_MAX];
} cadre_client_closures_t;

/* The objects that scheduling reads and calls. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_catalogue_t *catalogue;
    cadre_closure_queue_t *queue;
    cadre_totals_t *totals;
    cadre_totals_t *of_clients;
} cadre_client_closures_links_t;

/* Schedules the closure of a SCHEDULE that was not seen before. Returns its entry, which may say
 * that the closure is refused; NULL when there is no room now: nothing is kept, and the client asks
 * again. */
cadre_client_entry_t *cadre_client_closures_put(cadre_client_closures_t *self,
                                                const cadre_client_closures_links_t *links,
                                                const cadre_message_t *message);

/* Returns the entry of this request; NULL: there is none. */
cadre_client_entry_t *cadre_client_closures_find(cadre_client_closures_t *self, uint64_t request);

/* Returns whether the closure of the entry has ended, or there is none. */
bool cadre_client_entry_has_ended(const cadre_client_entry_t *self);

/* Fills in RESULT for an entry that has ended. Lists and texts are borrowed from the entry; the
 * chunks are references of the message. */
void cadre_client_entry_result(cadre_client_entry_t *self, cadre_message_t *answer);

/* Forgets all entries below `settled`, whose answers the client has. */
void cadre_client_closures_settle(cadre_client_closures_t *self, uint64_t settled);

/* Cancels what has not ended, and forgets all entries. Returns how many had not ended. */
size_t cadre_client_closures_cancel(cadre_client_closures_t *self, cadre_closure_queue_t *queue);

/* Frees the entries, whose closures have ended. */
void cadre_client_closures_fini(cadre_client_closures_t *self);

#endif
