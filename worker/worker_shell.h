/*
 * worker_shell - the inside of worker_actor, shared by its two files: worker_actor.c (sockets, what
 * comes in, the loop) and worker_events.c (slots, reader, shards: what the core wants done).
 */
#ifndef CADRE_WORKER_WORKER_SHELL_H
#define CADRE_WORKER_WORKER_SHELL_H

#include <zmq.h>

#include "common/net/actor.h"
#include "common/net/monitor.h"
#include "common/net/peer.h"
#include "worker/slot/reader_actor.h"
#include "worker/worker_actor.h"

struct cadre_worker_actor {
    cadre_actor_t *actor;
    cadre_context_t *context;
    cadre_worker_actor_options_t options;
    void *main; /* pipe */
    cadre_worker_core_t *core;

    cadre_peer_t control;
    cadre_monitor_t *monitor;
    bool connected;
    bool was_connected; /* at any time */
    uint64_t lost_ms;   /* since when there is no coordinator */
    uint64_t lost_log_ms;
    uint64_t failed_log_ms; /* when the log may tell again that a handshake failed */
    uint64_t redial_ms;     /* when to try again, after a failed handshake; 0: there was none */
    uint64_t keys_due_ms;   /* when to look at the allowed keys again */
    cadre_peer_t *shards;   /* [shard_count] */
    uint32_t shard_count;
    uint32_t connections; /* made to shards so far */
    cadre_frames_t frames;
    zmq_pollitem_t *items; /* what is polled: see worker_actor.c */

    uint64_t now_ms;
    uint64_t ticked_ms;
    uint64_t due_ms;       /* the core's; may have become earlier when `stirred` */
    bool stirred;          /* something has come in since the last tick */
    bool untouched;        /* contact with the coordinator is lost; said so */
    bool cleared;          /* draining: what no slot had begun is handed back */
    const char *draining;  /* why, where it was not the coordinator's wish; NULL: it is not */
    uint64_t drain_due_ms; /* then what still runs is left to other workers */
    uint64_t drained_ms;   /* when it was last told over HTTP that it does not drain */
    bool left;
    bool device_lost; /* said to main */
    uint64_t session; /* count of RESETs */

    cadre_work_t *started; /* by the events of this turn */
    cadre_work_t **started_last_p;
    size_t works_out; /* in the queue or on slots */

    cadre_u64_map_t loads; /* by closure id */
    size_t reads_out;      /* loads and opens that the reader has */
    cadre_load_t *spare_loads;
    size_t spare_load_count;
};

/* Finishes or hands back what there is, then leaves for this reason, a literal; the first one
 * stays.
 */
void cadre_worker_begin_drain(cadre_worker_actor_t *self, const char *reason);

/* Does what the core wants done: after every message that may end runs, because an event may name
 * one. */
void cadre_worker_obey(cadre_worker_actor_t *self);

/* The same, and hands started runs to the slots and messages to the sockets: once per turn. */
void cadre_worker_settle(cadre_worker_actor_t *self);

void cadre_worker_from_slot(cadre_worker_actor_t *self, uint32_t slot,
                            const cadre_pipe_message_t *message);
void cadre_worker_from_reader(cadre_worker_actor_t *self, const cadre_pipe_message_t *message);

/* Hands back what no slot has begun. */
void cadre_worker_clear_queue(cadre_worker_actor_t *self);

/* The connection is up and nobody answers: another control socket, under the same name. When there
 * is none to be had, the old one stays until the next time. */
void cadre_worker_dial_again(cadre_worker_actor_t *self);

/* The session is over: tells main why. */
void cadre_worker_leave(cadre_worker_actor_t *self, const char *reason);

/* Frees all batches; the reader must have given them back. */
void cadre_worker_free_loads(cadre_worker_actor_t *self);

#endif
