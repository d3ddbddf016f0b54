/*
 * worker_effects - what a worker wants done that its core cannot do itself: messages sent in its
 * name, and events for the shell.
 *
 * Owner:   the worker core, whose objects put in what they want; its shell takes it out after every
 *          call.
 * Thread:  its owner's.
 */
#ifndef CADRE_WORKER_CORE_WORKER_EFFECTS_H
#define CADRE_WORKER_CORE_WORKER_EFFECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/queue.h"
#include "common/session/session.h"
#include "common/wire/outbox.h"
#include "worker/core/closure_run.h"

typedef enum {
    CADRE_WORKER_SHARD_MOVED,  /* connect to shard `index` at its address in the directory, or close
                                  its connection when the shard is away; `status` CADRE_ETIMEOUT:
                                  replace a connection that is half-open */
    CADRE_WORKER_REACHABILITY, /* shard `index` was silent for too long, and requests to it were
                                  given up (`status` CADRE_ETIMEOUT), or is heard again (0) */
    CADRE_WORKER_OPEN_DATASET, /* open the dataset with id `index`; answer with
                                  cadre_worker_core_dataset_opened */
    CADRE_WORKER_LOAD,         /* read the batches of `run`; answer with cadre_worker_core_loaded */
    CADRE_WORKER_START,        /* compute `run`, in place `index` of slots + ahead; the shell
                                  ends that with cadre_worker_core_finish */
    CADRE_WORKER_VALUES,  /* the pull of `run`, in place `index`, has ended: `status` says why it
                             failed; 0: `values`, which the shell owns */
    CADRE_WORKER_PUSHED,  /* the push of `run`, in place `index`, has ended with `status` */
    CADRE_WORKER_FORGET,  /* drop the batches of `closure`: nobody needs them any more */
    CADRE_WORKER_RELEASE, /* destroy `holding`, on a thread that may take its time */
    CADRE_WORKER_LACKS,  /* log that native function `index`, named `text`, is not in this worker */
    CADRE_WORKER_RESET,  /* another session began: drop datasets and caches */
    CADRE_WORKER_REDIAL, /* replace the half-open connection to the coordinator; then call
                            cadre_worker_core_disconnected */
    CADRE_WORKER_REFUSED, /* the coordinator refuses this worker: `status` and `text` say why */
    CADRE_WORKER_LEFT,    /* this worker is out of the session: `text` says why */
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

typedef struct {
    cadre_outbox_t outbox;
    cadre_queue_t events;     /* of cadre_worker_event_t */
    cadre_session_t *session; /* fills in the sender's fields of messages */
    bool is_hurried;          /* the coordinator waits for what the next HEARTBEAT tells */
} cadre_worker_effects_t;

/* Makes the session of the worker, whose messages go into the outbox. */
void cadre_worker_effects_init(cadre_worker_effects_t *self,
                               const cadre_session_options_t *options);

/* Drops what was not taken, and ends the session. */
void cadre_worker_effects_fini(cadre_worker_effects_t *self);

/* Returns an empty message of this type with the sender's fields filled in. */
cadre_message_t cadre_worker_effects_message(const cadre_worker_effects_t *self,
                                             cadre_message_type_t type);

/* The address of the coordinator in the outbox, whichever process is the coordinator now. */
extern const cadre_task_t CADRE_WORKER_COORDINATOR;

/* Sends a message to the coordinator. */
void cadre_worker_effects_tell(cadre_worker_effects_t *self, cadre_message_t *message);

/* Appends an event; takes its values. */
void cadre_worker_effects_emit(cadre_worker_effects_t *self, const cadre_worker_event_t *event);

/* Takes the oldest event out; false when there is none. */
bool cadre_worker_effects_take_event(cadre_worker_effects_t *self, cadre_worker_event_t *event);

/* Ask for a HEARTBEAT in this turn, before it is due, because the coordinator waits for what it
 * says; return whether one was asked for since the last call, and clear that. */
void cadre_worker_effects_hurry(cadre_worker_effects_t *self);
bool cadre_worker_effects_take_hurry(cadre_worker_effects_t *self);

#endif
