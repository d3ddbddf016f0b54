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
 * Exactly once (docs/protocol.md#exactly-once): every attempt of a closure pushes under the same
 * update ids, each push that is found lost goes again, and a closure is reported only after every
 * shard has answered.
 */
#ifndef CADRE_WORKER_CORE_WORKER_CORE_H
#define CADRE_WORKER_CORE_WORKER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/outbox.h"
#include "common/wire/tensor_list.h"
#include "worker/core/closure_run.h"
#include "worker/core/directory.h"
#include "worker/core/registry.h"

typedef struct cadre_worker_core cadre_worker_core_t;

typedef struct {
    cadre_task_t task; /* role worker; index as asked for, or CADRE_INDEX_ANY */
    const char *build; /* borrowed for the life of the core, like the next two */
    const char *host;
    const char *devices;
    uint32_t process;
    uint32_t slots; /* 1 to CADRE_SLOTS_MAX */
    uint32_t ahead; /* runs that may be STARTed beyond the slots: they wait in the shell's queue, so
                       that a slot that ends a short run needs no answer to begin the next */
    uint32_t shards_max;       /* that there are descriptors for; 0: any number, */
    const char *shards_why;    /* and what to do about it, borrowed like the others */
    uint64_t shard_timeout_ms; /* a shard that says nothing for so long, though it is asked, counts
                                   as unreachable; 0: none does */
    size_t kept_values_max;    /* bytes of results kept for other closures; 0:
                                   CADRE_KEPT_VALUES_SIZE_MAX */
    size_t window;             /* of PUSHes until a ps tells one, how these are cut; 0:
                                  CADRE_WINDOW_SIZE_MIN, */
    size_t push_part_size;     /* CADRE_PUSH_PART_SIZE, */
    size_t partitions_max;     /* CADRE_PARTITIONS_PER_UPDATE_MAX */
    bool observes;             /* notes how stale updates were */
    const cadre_registry_t *registry; /* native functions that are here, borrowed; NULL: whichever
                                         is asked for */
} cadre_worker_options_t;

typedef enum {
    CADRE_WORKER_SHARD_MOVED,  /* `index`: connect to its address in the directory; when it is away,
                                  give the connection up; `status` CADRE_ETIMEOUT: nothing has come
                                  on it for CADRE_MUTE_MS, make another one */
    CADRE_WORKER_UNREACHABLE,  /* `index`: the shard has said nothing for too long, what waited for
                                  it was given up; `status` 0: it is heard again */
    CADRE_WORKER_OPEN_DATASET, /* `index`: the dataset id; answer with _dataset_opened */
    CADRE_WORKER_LOAD,         /* `run`: read its batches; answer with _loaded */
    CADRE_WORKER_START,        /* `run` in place `index` of slots + ahead; ends with _finish */
    CADRE_WORKER_VALUES,  /* `run`: the pull has ended: `status`, or values that the shell owns */
    CADRE_WORKER_PUSHED,  /* `run`: the push has ended: `status` */
    CADRE_WORKER_FORGET,  /* `closure`: its batches are no longer needed */
    CADRE_WORKER_RELEASE, /* `holding`: destroy it, on a thread that may take its time */
    CADRE_WORKER_LACKS,   /* the function `index` is native and not here: `text` */
    CADRE_WORKER_RESET,   /* another session began: drop datasets and caches */
    CADRE_WORKER_MUTE,    /* no answer to HELLO for CADRE_MUTE_MS: make the control connection anew,
                             on another socket (common/net/socket.h says why) */
    CADRE_WORKER_REFUSED, /* the coordinator does not take this worker, for the reason `text`;
                             `status`: CADRE_EPROTOCOL when it is of another release */
    CADRE_WORKER_LEFT,    /* the session is over; `text` says why */
} cadre_worker_event_kind_t;

typedef struct {
    cadre_worker_event_kind_t kind;
    cadre_run_t *run;
    uint64_t closure;
    uint32_t index;
    int status;
    char text[CADRE_TEXT_SIZE_MAX + 1];
    cadre_value_t *values;
    size_t value_count;
    cadre_holding_t *holding;
} cadre_worker_event_t;

cadre_worker_core_t *cadre_worker_core_new(const cadre_worker_options_t *options, uint64_t now_ms);
void cadre_worker_core_destroy(cadre_worker_core_t **self_p);

/* What came out, oldest first: the shell pops both until they are empty. */
cadre_outbox_t *cadre_worker_core_outbox(cadre_worker_core_t *self);
bool cadre_worker_core_event(cadre_worker_core_t *self, cadre_worker_event_t *event);

const cadre_directory_t *cadre_worker_core_directory(const cadre_worker_core_t *self);

/* Who this worker is; its index is CADRE_INDEX_ANY until the coordinator has chosen one. */
const cadre_task_t *cadre_worker_core_task(const cadre_worker_core_t *self);

/* A message from the coordinator (role coordinator) or from shard `from->index`; takes it. */
void cadre_worker_core_receive(cadre_worker_core_t *self, const cadre_task_t *from,
                               cadre_message_t *message, uint64_t now_ms);

/* A message that could not be decoded was dropped. */
void cadre_worker_core_malformed(cadre_worker_core_t *self);

/* The control connection came (back) up: says HELLO again. */
void cadre_worker_core_connected(cadre_worker_core_t *self, uint64_t now_ms);

/* Timers: heartbeats, probes. Returns when it wants to be called again at the latest. */
uint64_t cadre_worker_core_tick(cadre_worker_core_t *self, uint64_t now_ms);

/* Finish what runs, hand back what is queued, then leave (SIGTERM, DRAIN). */
void cadre_worker_core_drain(cadre_worker_core_t *self, const char *reason, uint64_t now_ms);

/* Whether it finishes what runs and takes nothing new. */
bool cadre_worker_core_is_draining(const cadre_worker_core_t *self);

/* Whether it was told to drain: who has left for that reason does not come back. */
bool cadre_worker_core_is_dismissed(const cadre_worker_core_t *self);

/* Leaves at once: what runs is cancelled, and the coordinator gives it to others. */
void cadre_worker_core_abandon(cadre_worker_core_t *self, const char *reason);

/* False from the time on when the coordinator has not answered for CADRE_LEASE_TRUST_PERCENT of the
 * lease: requests to shards wait until it has welcomed this worker again. */
bool cadre_worker_core_in_touch(const cadre_worker_core_t *self, uint64_t now_ms);

/* The answer to OPEN_DATASET: `ready` with status, text, rows and so on; id is set here. */
void cadre_worker_core_dataset_opened(cadre_worker_core_t *self, uint32_t dataset,
                                      const cadre_dataset_ready_message_t *ready, uint64_t now_ms);

/* The answer to LOAD. */
void cadre_worker_core_loaded(cadre_worker_core_t *self, uint64_t closure, int status,
                              const char *text, uint64_t now_ms);

/* Asks for whole variables, for a run that is COMPUTING; VALUES follows in any case, with
 * CADRE_ECANCELLED for a cancelled run. */
void cadre_worker_core_pull(cadre_worker_core_t *self, cadre_run_t *run,
                            const cadre_variable_entry_t *const *variables, size_t count,
                            uint64_t now_ms);

/* Pushes the gradients of one step, keeping its own references, for a run that is COMPUTING; PUSHED
 * follows in any case. A cancelled run pushes nothing and gets CADRE_ECANCELLED. */
void cadre_worker_core_push(cadre_worker_core_t *self, cadre_run_t *run,
                            const cadre_gradient_t *gradients, size_t count, uint64_t now_ms);

typedef struct {
    int status; /* 0, or why it failed; the failures of pull and push included */
    const char *text;
    cadre_failure_t failure;            /* for a failure */
    const char *const *names;           /* of the results */
    const cadre_tensor_list_t *results; /* or NULL */
    uint64_t compute_us;
    uint64_t examples;
    cadre_holding_t *holding; /* of a build, or NULL: the core's from now on */
} cadre_run_outcome_t;

/* The slot is done with a run that is COMPUTING and must not touch it again. A run that builds a
 * resource (`builds`) begins and ends like a closure. */
void cadre_worker_core_finish(cadre_worker_core_t *self, cadre_run_t *run,
                              const cadre_run_outcome_t *outcome, uint64_t now_ms);

#endif
