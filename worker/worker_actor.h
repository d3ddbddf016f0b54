/*
 * worker_actor - the worker's network thread: owns every socket and the worker core.
 *
 * Owner:   main. Thread: opened and closed on main's; the pipes handed to it are its own in
 *          between.
 *
 * The actor waits for messages, for answers of slots and reader, and for the core's next due time.
 * It never computes or reads a file itself, so heartbeats go out whatever the slots do.
 */
#ifndef CADRE_WORKER_WORKER_ACTOR_H
#define CADRE_WORKER_WORKER_ACTOR_H

#include "common/http/http_server.h"
#include "common/net/context.h"
#include "common/net/endpoint.h"
#include "common/net/shortcut.h"
#include "worker/core/worker_core.h"
#include "worker/slot/work_queue.h"

typedef struct cadre_worker_actor cadre_worker_actor_t;

typedef struct {
    cadre_worker_options_t core;
    cadre_endpoint_t coordinator;
    uint64_t drain_ms; /* how long closures may run on after DRAIN before they are given up */
    cadre_work_queue_t *queue;  /* borrowed for the actor's life, like the next two */
    void **slots;               /* [core.slots]: pipes to the slot actors */
    void *reader;               /* pipe to the reader actor */
    cadre_http_server_t *http;  /* where the actor publishes its figures; NULL: nowhere */
    bool hosted;                /* in a process of another program, whose log keeps its name */
    cadre_shortcut_t *shortcut; /* to a ps in this process, borrowed; NULL: there is none */
} cadre_worker_actor_options_t;

/* Kinds of messages on the pipe between main and this actor. */
enum {
    /* from main, on a signal: finish what runs, hand back the other closures, then leave */
    CADRE_WORKER_ACTOR_DRAIN = 1,
    /* to main: the session is over; a char * says why */
    CADRE_WORKER_ACTOR_HAS_LEFT,
    /* to main, in place of HAS_LEFT: the session is over, a char * says why, and the process is
     * to end */
    CADRE_WORKER_ACTOR_DISMISSED,
    /* to main: the coordinator refuses this worker, since the two are of different releases; a
     * char * says why */
    CADRE_WORKER_ACTOR_MISMATCH,
    /* to main: the coordinator refuses this worker for another reason, or a key of the coordinator
     * or a ps is withdrawn; a char * says why */
    CADRE_WORKER_ACTOR_UNWANTED,
    /* to main, once: the device computes no more, a char * says why, and the worker drains */
    CADRE_WORKER_ACTOR_DEVICE_LOST,
    /* to main, last: slots and reader are idle, the thread has ended */
    CADRE_WORKER_ACTOR_GONE,
};

/* Starts the thread. Fails with CADRE_EIO when the system has no socket or thread left. */
int cadre_worker_actor_open(cadre_context_t *context, const cadre_worker_actor_options_t *options,
                            cadre_worker_actor_t **out);

/* Returns main's end of the pipe. */
void *cadre_worker_actor_socket(cadre_worker_actor_t *self);

/* Waits for the end of the thread and frees the actor; to be called after its GONE has come. Fails
 * with CADRE_ETIMEOUT, and frees nothing, when the thread does not end. */
int cadre_worker_actor_close(cadre_worker_actor_t **self_p, int timeout_ms);

#endif
