/*
 * clients - programs that use the job without being members of it: they read variables and, where
 * the job allows it, schedule closures.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A client says ATTACH at first and with every heartbeat, and is gone with GOODBYE or when its
 * lease runs out. Its requests are numbered by itself, and a number that was seen is not carried
 * out twice: what became of a SCHEDULE is kept until the client says that it has the answer
 * (`settled`), and one below that is ignored. LIST and READ change nothing and may be repeated. A
 * client that is gone does not come back: its requests would not be recognised any more.
 *
 * The closures of a client are a group of their own: the client alone hears of a failure, and what
 * has not ended is cancelled when the client is gone. They have no turn among the closures of
 * a job whose steps have an order, and so may not push there.
 */
#ifndef CADRE_COORDINATOR_CORE_CLIENTS_CLIENTS_H
#define CADRE_COORDINATOR_CORE_CLIENTS_CLIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/u64_map.h"
#include "coordinator/core/catalogue/catalogue.h"
#include "coordinator/core/clients/client_closures.h"
#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/shards/shard_requests.h"

/* The objects that clients read and call; borrowed for their life. */
typedef struct {
    const cadre_core_options_t *options;
    const cadre_catalogue_t *catalogue;
    cadre_closure_queue_t *queue;
    cadre_shard_requests_t *requests;
    cadre_totals_t *totals;
    cadre_totals_t *of_clients;
    cadre_effects_t *effects;
} cadre_clients_links_t;

typedef struct cadre_clients cadre_clients_t;

/* One attached client. */
typedef struct {
    cadre_clients_t *clients;
    cadre_task_t task;
    uint64_t key;      /* id of the key under which it attached; 0: the job has no keys */
    uint64_t heard_ms; /* when it was heard last, not counting own stalls of the coordinator */
    uint64_t reading;  /* request of the READ under way; 0: none */
    uint64_t reads;    /* how many partitions, or rows of partitions, it was given */
    uint64_t rows_of; /* variable whose rows it has asked for last, as the log says once; 0: none */
    cadre_client_closures_t closures;
} cadre_attached_t;

struct cadre_clients {
    cadre_clients_links_t links;
    cadre_u64_map_t attached; /* by incarnation */
};

void cadre_clients_init(cadre_clients_t *self, const cadre_clients_links_t *links);

/* Frees all clients, whose closures must have ended. */
void cadre_clients_fini(cadre_clients_t *self);

/* Takes a message of a client, which its sender may send; it may cancel closures. */
void cadre_clients_receive(cadre_clients_t *self, const cadre_task_t *from,
                           const cadre_message_t *message);

/* Tells clients of closures that have ended, and detaches those whose lease ran out, unless more
 * input is `unread`. Returns when to look again. */
uint64_t cadre_clients_tick(cadre_clients_t *self, bool unread);

/* Extends all leases by `ms`, in which the coordinator itself stood still. */
void cadre_clients_excuse(cadre_clients_t *self, uint64_t ms);

/* Detaches the client of this task, if it is one; `why` goes into the log. */
void cadre_clients_lose(cadre_clients_t *self, const cadre_task_t *task, const char *why);

/* Detaches clients whose key is not among the `count` allowed ones, which are sorted. */
void cadre_clients_keys_withdrawn(cadre_clients_t *self, const uint64_t *ids, size_t count);

/* Tells all clients that the job ends, and detaches them. */
void cadre_clients_stop(cadre_clients_t *self, const char *reason);

#endif
