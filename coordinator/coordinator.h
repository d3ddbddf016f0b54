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
#include "common/net/shortcut.h"
#include "common/net/socket.h"
#include "coordinator/completion.h"
#include "coordinator/core/coordinator_core.h"
#include "coordinator/gate.h"
#include "coordinator/local/local_tasks.h"
#include "coordinator/lock_file.h"

enum {
    CADRE_STOP_WAIT_MS = 2000,   /* how long close waits for tasks to leave */
    CADRE_STORE_STOP_MS = 60000, /* how long close waits for the store to end what it is writing */
    CADRE_STORE_ORDER = 1,       /* on the store's pipe: a cadre_store_order_t */
};

/* What a resumed checkpoint says of a table, as far as it matters when that is created again. */
typedef struct {
    uint32_t parts; /* 0: a dense variable */
    uint32_t admit_after;
    bool row_wise;
} cadre_resumed_table_t;

struct cadre_coordinator {
    cadre_gate_t *gate;
    cadre_core_t core;
    char *job;
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    cadre_context_t *context;
    cadre_authenticator_t *authenticator; /* NULL without keys */
    /* Protection of the control socket, as cadre_security_transport names it. */
    const char *transport;
    cadre_lock_file_t address_lock;
    char *own_directory; /* directory of the ipc socket, if no address was given; else NULL */
    cadre_lock_file_t checkpoint_lock;
    cadre_socket_t *control; /* bound socket; belongs to the actor once that runs */
    cadre_monitor_t *monitor;
    cadre_actor_t *actor;
    cadre_actor_t *store;
    char *checkpoint_dir;
    int checkpoint_keep;
    /* Other tasks may know the address: it was given by the caller or the cluster's description. */
    bool invited;
    /* What records progress without counting closures of clients; NULL: another does, or none. */
    cadre_progress_callback_t on_progress;
    void *progress_context;
    cadre_log_callback_t log;
    void *log_context;
    cadre_local_tasks_t *local; /* ps and worker in this process; NULL: none */
    cadre_shortcut_t *shortcut; /* to that ps; NULL: none; fixed before the actor runs */
    cadre_http_server_t *http;  /* HTTP server that the actor publishes to; NULL: none */
    /* Why no more workers fit, for the error: how many file descriptors there are. */
    char *descriptors_why;
    /* Path of the checkpoint that was resumed; NULL: none; fixed at open. */
    char *resumed_path;
    uint64_t resumed_cut;
    char *resumed_progress;
    /* Numbers of closures that the checkpoint holds which was resumed, or which the job went back
     * to since. */
    cadre_sequences_t resumed_sequences;
    char **resumed_variables; /* names of the variables that the resumed checkpoint holds */
    /* Kinds of the optimizers of these variables; an entry is NULL if the checkpoint names none. */
    char **resumed_optimizers;
    cadre_resumed_table_t *resumed_tables; /* how they were kept, in the same order */
    size_t resumed_variable_count;
    cadre_name_map_t resumed_names; /* name to its entry in resumed_variables */
};

/* A caller's handle of the results of a closure (coordinator/api/future.h). */
struct cadre_future {
    cadre_gate_t *gate;
    cadre_coordinator_t *coordinator; /* only for waiting, and only while the gate is not closed */
    cadre_closure_t *closure;         /* valid until `results` say that it has ended */
    /* Results of the closure, shared with closures that take them as arguments. */
    cadre_results_t *results;
    /* Descriptor that becomes readable at the end; -1 before the caller asks for it. */
    int fd;
    cadre_completion_entry_t entry; /* the future's place in a completion queue */
};

/* The actor's loop (coordinator_actor.c). */
void cadre_coordinator_run(void *pipe, void *coordinator);

/* Binds the control socket, reads the checkpoint to resume, makes the core: everything that can
 * fail (setup.c). */
int cadre_coordinator_set_up(cadre_coordinator_t *self, const cadre_coordinator_options_t *options);

/* Takes the lock of the checkpoint directory; takes it again if the directory has been replaced.
 * Two coordinators that write into one directory would remove each other's checkpoints. Readers
 * take no lock: a checkpoint is there as a whole or not at all. */
int cadre_coordinator_lock_checkpoints(cadre_coordinator_t *self);

/* The store's thread (store_actor.c): takes cadre_store_order_t, gives answers to the core under
 * the lock. */
void cadre_store_run(void *pipe, void *coordinator);

/* Under the lock, before it is let go by whoever has called the core: makes the descriptors of
 * futures readable whose closures have ended, and tells their completion queues. */
void cadre_coordinator_tell_ended(cadre_coordinator_t *self);

/* Under the lock: returns 0, or the error for which no call can succeed any more. */
int cadre_coordinator_usable(cadre_coordinator_t *self);

/* Under the lock: waits until the operation has no requests pending; on failure it is given up.
 * `what` says in the log what the call waits for. */
int cadre_coordinator_await(cadre_coordinator_t *self, cadre_operation_t *operation,
                            int64_t deadline_ms, const char *what);

/* Under the lock: waits for a change; logs every 5 s what a call is waiting for. `since_ms` starts
 * at 0. */
int cadre_coordinator_wait(cadre_coordinator_t *self, int64_t deadline_ms, const char *what,
                           int64_t *since_ms);

/* Under the lock: waits like cadre_coordinator_wait, but not for any change: until the question is
 * over, as a rule (gate.h). */
int cadre_coordinator_wait_until(cadre_coordinator_t *self, int64_t deadline_ms, const char *what,
                                 int64_t *since_ms, cadre_gate_question_t *question);

/* Under the lock: waits like cadre_coordinator_wait, or returns at once why no call can succeed any
 * more. */
int cadre_coordinator_wait_while_usable(cadre_coordinator_t *self, int64_t deadline_ms,
                                        const char *what, int64_t *since_ms);

/* Under the lock: waits until an assignment may be made, because what is kept for a replay leaves
 * room for it, and no closure below an open cut would come after it. */
int cadre_coordinator_await_room(cadre_coordinator_t *self, int64_t deadline_ms);

/* Under the lock: fails with a status that ended a wait for these closures, or for one that has not
 * ended; the text of CADRE_ETIMEOUT goes on with those that have not ended, and what they wait
 * for. */
int cadre_coordinator_fail_unended(cadre_coordinator_t *self, const cadre_waited_t *waited,
                                   int status);
int cadre_coordinator_fail_waiting(cadre_coordinator_t *self, const cadre_closure_t *closure,
                                   int status);

/* Under the lock: returns CADRE_ETIMEOUT with a text that says which tasks are missing. */
int cadre_coordinator_fail_absent(cadre_coordinator_t *self, int workers);

/* Under the lock, which is released for a moment: lets the synchronous step that is being filled
 * end with the closures that it has, because the caller waits for closures and schedules no
 * more. */
void cadre_coordinator_cut_step_short(cadre_coordinator_t *self);

#endif
