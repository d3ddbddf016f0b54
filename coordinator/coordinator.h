/*
 * coordinator - the object behind the public handle: core, gate, actor, store.
 *
 * Owner:   the caller of cadre_coordinator_open.
 * Thread:  `core`, `store_busy` and everything that is not fixed at open: under the gate's lock.
 */
#ifndef CADRE_COORDINATOR_COORDINATOR_H
#define CADRE_COORDINATOR_COORDINATOR_H

#include <cadre/coordinator.h>

#include "common/base/name_map.h"
#include "common/http/http_server.h"
#include "common/net/actor.h"
#include "common/net/authenticator.h"
#include "common/net/endpoint.h"
#include "common/net/monitor.h"
#include "common/net/socket.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/gate.h"
#include "coordinator/lock_file.h"

enum {
    CADRE_STOP_WAIT_MS = 2000,   /* how long close waits for tasks to leave */
    CADRE_STORE_STOP_MS = 60000, /* and for the store to end what it is writing */
    CADRE_STORE_ORDER = 1,       /* on the store's pipe: a cadre_store_order_t */
};

struct cadre_coordinator {
    cadre_gate_t *gate;
    cadre_core_t core;
    char *job;
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_context_t *context;
    cadre_authenticator_t *authenticator; /* NULL without keys */
    const char *transport; /* of its control socket: as cadre_security_transport says */
    cadre_lock_file_t address_lock;
    char *own_directory; /* of the socket, where nobody said where it is to be; else NULL */
    cadre_lock_file_t checkpoint_lock;
    cadre_socket_t *control; /* bound; belongs to the actor once that runs */
    cadre_monitor_t *monitor;
    cadre_actor_t *actor;
    cadre_actor_t *store;
    char *checkpoint_dir;
    int checkpoint_keep;
    bool invited; /* somebody may know the address: the caller, or who described the cluster */
    cadre_log_callback_t log;
    void *log_context;
    cadre_http_server_t *http; /* the actor publishes to it; or NULL */
    char *descriptors_why;     /* how many descriptors there are, for workers that are too many */
    char *resumed_path;        /* NULL when nothing was resumed; fixed at open */
    uint64_t resumed_cut;
    char *resumed_progress;
    cadre_sequences_t resumed_sequences;
    char **resumed_variables;  /* names of what the resumed checkpoint holds */
    char **resumed_optimizers; /* and the kinds of their optimizers; NULL where it names none */
    size_t resumed_variable_count;
    cadre_name_map_t resumed_names; /* to resumed_variables: the entry of each */
};

/* A caller's handle of what a closure gives (coordinator/api/future.h). */
struct cadre_future {
    cadre_gate_t *gate;
    cadre_coordinator_t *coordinator; /* only for waiting, and only while the gate is not closed */
    cadre_closure_t *closure;         /* there until it has ended, as its results say */
    cadre_results_t *results;         /* its, shared with closures that take them as arguments */
    int fd;                           /* -1 until somebody asks */
};

/* The actor's loop (coordinator_actor.c). */
void cadre_coordinator_run(void *pipe, void *coordinator);

/* Binds the control socket, reads the checkpoint to resume, makes the core: everything that can
 * fail (setup.c). */
int cadre_coordinator_set_up(cadre_coordinator_t *self, const cadre_coordinator_options_t *options);

/* Takes the lock of the checkpoint directory, or again where the directory has been replaced. Two
 * coordinators that write into one would remove each other's checkpoints, wherever they listen. Who
 * only reads takes no lock: a checkpoint is there as a whole or not at all. */
int cadre_coordinator_lock_checkpoints(cadre_coordinator_t *self);

/* The store's thread (store_actor.c): takes cadre_store_order_t, gives answers to the core under
 * the lock. */
void cadre_store_run(void *pipe, void *coordinator);

/* Under the lock, before it is let go by whoever has called the core: makes the descriptors of
 * futures readable whose closures have ended. */
void cadre_coordinator_tell_ended(cadre_coordinator_t *self);

/* Makes the descriptor of a future readable. */
void cadre_coordinator_signal_future(const cadre_future_t *future);

/* Under the lock: 0, or the reason why no call can succeed any more. */
int cadre_coordinator_usable(cadre_coordinator_t *self);

/* Under the lock: waits until *pending is 0; on failure the operation is forgotten. `what` is for
 * the log. */
int cadre_coordinator_await(cadre_coordinator_t *self, cadre_operation_t *operation,
                            int64_t deadline_ms, const char *what);

/* Under the lock: waits for a change; logs every 5 s what a call is waiting for. `since_ms` starts
 * at 0. */
int cadre_coordinator_wait(cadre_coordinator_t *self, int64_t deadline_ms, const char *what,
                           int64_t *since_ms);

/* Under the lock: waits like cadre_coordinator_wait, or returns at once why no call can succeed any
 * more. */
int cadre_coordinator_wait_while_usable(cadre_coordinator_t *self, int64_t deadline_ms,
                                        const char *what, int64_t *since_ms);

/* Under the lock: CADRE_ETIMEOUT with a text that says who is missing. */
int cadre_coordinator_fail_absent(cadre_coordinator_t *self, int workers);

/* Under the lock, which it lets go for a moment: the caller waits for closures, so the synchronous
 * step that is being filled ends with those that it has. */
void cadre_coordinator_cut_step_short(cadre_coordinator_t *self);

#endif
