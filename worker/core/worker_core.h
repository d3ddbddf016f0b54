/*
 * worker_core - everything a worker decides: its session with the coordinator, the closures it
 * holds, their pulls, pushes and reports.
 *
 * Owner:   the worker's network actor (or the simulation). Thread: its owner's.
 *
 * A core (docs/architecture.md#core-and-shell): no socket, thread, clock or file. Messages and the
 * time go in; messages (the outbox) and events for the shell come out, and the shell empties both
 * after every call. Computing is the shell's: it gets START with a run, asks with
 * cadre_worker_core_pull and _push, gets VALUES and PUSHED, and ends with _finish.
 *
 * The core itself is the session, the timers and the router of messages. What is decided about
 * closures is decided by worker_runs, about values and updates by worker_values.
 *
 * Exactly once (docs/protocol.md#exactly-once): every attempt of a closure pushes under the same
 * update ids, each push that is found lost goes again, and a closure is reported only after every
 * shard has answered.
 */
#ifndef CADRE_WORKER_CORE_WORKER_CORE_H
#define CADRE_WORKER_CORE_WORKER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/core/registry.h"
#include "worker/core/worker_reports.h"
#include "worker/core/worker_values.h"

typedef struct cadre_worker_core cadre_worker_core_t;

typedef struct {
    cadre_session_options_t session; /* of role worker; what it borrows outlives the core */
    const char *devices;             /* what the slots compute on, for HELLO; outlives the core */
    uint32_t slots;                  /* closures that run at once, 1 to CADRE_SLOTS_MAX */
    uint32_t ahead;      /* how many runs more than there are slots may be STARTed: they wait in the
                       shell's queue, so that a slot that ends a short run needs no answer to begin
                       the next */
    uint32_t shards_max; /* to how many ps this process has file descriptors to connect; 0: any
                            number */
    const char *shards_why;    /* text: why no more, and what the user can do; outlives the core */
    uint64_t shard_timeout_ms; /* a shard that says nothing for so long, though it is asked, counts
                                   as unreachable; 0: none does */
    size_t kept_values_max;    /* bytes of results kept for other closures; 0:
                                   CADRE_KEPT_VALUES_SIZE_MAX */
    size_t window;             /* bytes of PUSHes that may be unanswered without RESERVE, until a ps
                                  tells its own number; 0: CADRE_WINDOW_SIZE_MIN */
    size_t push_part_size;     /* bytes of one message of a PUSH; 0: CADRE_PUSH_PART_SIZE */
    size_t partitions_max;     /* partitions that one message of a PUSH names; 0:
                                  CADRE_PARTITIONS_PER_UPDATE_MAX */
    size_t row_cache_bytes;    /* rows of tables that are kept for the next pull; 0: none */
    bool row_cache_patient;    /* row_cache.h */
    bool observes;             /* whether the staleness of updates is recorded per variable */
    const cadre_registry_t *registry; /* native functions of this worker, borrowed; NULL: the
                                         worker counts as having every one */
} cadre_worker_options_t;

/* Figures of a worker now, for its status and metrics. The pointers borrow from the core. */
typedef struct {
    cadre_session_state_t state;
    cadre_session_contact_t contact;
    uint64_t session; /* incarnation of the coordinator; 0 before the first WELCOME */
    uint64_t epoch;
    const char *build;
    uint32_t slots;
    size_t held;    /* runs of closures and builds of resources, from arrival to acknowledgement */
    size_t waiting; /* runs that wait for anything but a slot */
    uint32_t running;     /* runs that were handed to slots and have not finished */
    uint32_t unreachable; /* shards that this worker cannot reach */
    cadre_push_totals_t pushes;
    const uint64_t *counters; /* [CADRE_WORKER_COUNTER_COUNT] */
    const cadre_staleness_t *staleness;
} cadre_worker_core_figures_t;

cadre_worker_core_t *cadre_worker_core_new(const cadre_worker_options_t *options, uint64_t now_ms);
void cadre_worker_core_destroy(cadre_worker_core_t **self_p);

/* Return the messages, and the next event, that came out, oldest first: the shell takes from both
 * until they are empty. */
cadre_outbox_t *cadre_worker_core_outbox(cadre_worker_core_t *self);
bool cadre_worker_core_event(cadre_worker_core_t *self, cadre_worker_event_t *event);

const cadre_directory_t *cadre_worker_core_directory(const cadre_worker_core_t *self);

cadre_worker_core_figures_t cadre_worker_core_figures(const cadre_worker_core_t *self);

/* Returns the closure or build with this id, or the cached value of a partition; NULL when it is
 * not here. For tests and the simulation to look at. */
cadre_run_t *cadre_worker_core_run(const cadre_worker_core_t *self, uint64_t id);
const cadre_cached_value_t *cadre_worker_core_held(const cadre_worker_core_t *self,
                                                   uint32_t variable, uint32_t partition,
                                                   uint64_t generation);

/* Returns this worker as a task; its index is CADRE_INDEX_ANY until the coordinator has chosen one.
 */
const cadre_task_t *cadre_worker_core_task(const cadre_worker_core_t *self);

/* Acts on a message from the coordinator (role coordinator) or from shard `from->index`; takes it.
 */
void cadre_worker_core_receive(cadre_worker_core_t *self, const cadre_task_t *from,
                               cadre_message_t *message, uint64_t now_ms);

/* Counts a message as malformed that could not be decoded and was dropped. */
void cadre_worker_core_malformed(cadre_worker_core_t *self);

/* Notes that the control connection came up, again or for the first time: sends HELLO. */
void cadre_worker_core_connected(cadre_worker_core_t *self, uint64_t now_ms);

/* Notes that the control connection broke: nothing is sent to the coordinator until it is back. */
void cadre_worker_core_disconnected(cadre_worker_core_t *self, uint64_t now_ms);

/* Runs the timers: heartbeats, probes. Returns when it must be called again at the latest. */
uint64_t cadre_worker_core_tick(cadre_worker_core_t *self, uint64_t now_ms);

/* Sets when the shell will call again, whatever the tick returned: for tests. */
void cadre_worker_core_set_due(cadre_worker_core_t *self, uint64_t due_ms);

/* Begins to drain (SIGTERM, DRAIN): finishes what runs, hands back what is queued, then leaves. */
void cadre_worker_core_drain(cadre_worker_core_t *self, const char *reason, uint64_t now_ms);

/* Returns whether the worker drains: finishes what runs and takes nothing new. */
bool cadre_worker_core_is_draining(const cadre_worker_core_t *self);

/* Returns whether the worker was told to drain: it does not join again after it has left. */
bool cadre_worker_core_is_dismissed(const cadre_worker_core_t *self);

/* Leaves at once: cancels what runs, which the coordinator gives to other workers. */
void cadre_worker_core_abandon(cadre_worker_core_t *self, const char *reason, uint64_t now_ms);

/* Returns false once the coordinator has not answered for CADRE_LEASE_TRUST_PERCENT of the lease:
 * requests to shards then wait until it has welcomed this worker again. */
bool cadre_worker_core_in_touch(const cadre_worker_core_t *self, uint64_t now_ms);

/* Takes the shell's answer to OPEN_DATASET: `ready` with status, text, rows and so on; its id is
 * set here. */
void cadre_worker_core_dataset_opened(cadre_worker_core_t *self, uint32_t dataset,
                                      const cadre_dataset_ready_message_t *ready, uint64_t now_ms);

/* Takes the shell's answer to LOAD: the batches of the closure are read (status 0), or why not. */
void cadre_worker_core_loaded(cadre_worker_core_t *self, uint64_t closure, int status,
                              const char *text, uint64_t now_ms);

/* Counts blocks of streamed datasets that the shell has read. */
void cadre_worker_core_note_blocks_read(cadre_worker_core_t *self, uint64_t blocks);

/* Asks for variables, or rows of them, for a run that is COMPUTING; the event VALUES follows in any
 * case, with CADRE_ECANCELLED for a cancelled run. Until then the ids of rows must not change. */
void cadre_worker_core_pull(cadre_worker_core_t *self, cadre_run_t *run,
                            const cadre_wanted_t *wanted, size_t count, uint64_t now_ms);

/* Pushes the gradients of one step, for a run that is COMPUTING, with references of its own; the
 * event PUSHED follows in any case. A cancelled run pushes nothing and gets CADRE_ECANCELLED. */
void cadre_worker_core_push(cadre_worker_core_t *self, cadre_run_t *run,
                            const cadre_gradient_t *gradients, size_t count, uint64_t now_ms);

/* Ends the computing of a run: its slot must not touch it again. A run that builds a resource
 * (`builds`) begins and ends like a closure. */
void cadre_worker_core_finish(cadre_worker_core_t *self, cadre_run_t *run,
                              const cadre_run_outcome_t *outcome, uint64_t now_ms);

/* Gives up a run that no slot holds, as the end of the session does: for tests. */
void cadre_worker_core_give_up(cadre_worker_core_t *self, cadre_run_t *run, cadre_failure_t failure,
                               int status, const char *text, uint64_t now_ms);

#endif
