/*
 * actor - a thread with one state of its own, and the pipes over which it talks to others.
 *
 * Owner:   who opened it, and ends it with cadre_actor_stop.
 * Thread:  the owner's. A pipe end belongs to one thread at a time: who makes a pipe may hand its
 *          ends to actors when it starts them.
 *
 * An actor cannot fail to start: its owner opens, binds and allocates what the actor needs, hands
 * it over as `argument`, and only then starts the thread. What travels on a pipe is a kind and a
 * pointer: the sender gives the object away and does not touch it again. The pipes themselves have
 * no bound, because a send must neither block nor fail; what may be under way on one is bounded by
 * what its two ends agreed on (a question before an answer, one snapshot at a time), and each
 * folder's README says how.
 *
 * Actors never see signals: they are for the thread of main.
 */
#ifndef CADRE_COMMON_NET_ACTOR_H
#define CADRE_COMMON_NET_ACTOR_H

#include <stdint.h>

#include "common/net/context.h"

enum {
    CADRE_PIPE_STOP = 0,        /* from cadre_actor_stop, with NULL; other kinds are the users' */
    CADRE_ACTOR_STOP_MS = 5000, /* what most owners allow an actor to end its turn */
};

/* One message of a pipe. */
typedef struct {
    uint32_t kind;
    void *pointer; /* the receiver's from now on; NULL is fine */
} cadre_pipe_message_t;

typedef struct cadre_actor cadre_actor_t;

/* The actor's whole life on its thread: it returns soon after `pipe`, its end of the pipe to the
 * owner, gave it a CADRE_PIPE_STOP. It may also return earlier. It closes what it was handed, but
 * for `pipe`. */
typedef void (*cadre_actor_run_t)(void *pipe, void *argument);

/* Starts a thread called `name` (15 characters are seen) that runs `run`. CADRE_EIO when the system
 * has no thread or socket left; `argument` then stays the caller's. */
int cadre_actor_open(cadre_context_t *context, const char *name, cadre_actor_run_t run,
                     void *argument, cadre_actor_t **out);

/* The owner's end of the pipe. */
void *cadre_actor_socket(cadre_actor_t *self);

/* Sends CADRE_PIPE_STOP and waits at most `timeout_ms` for the thread to end. What the actor sent
 * before can still be received; cadre_actor_stop then closes the rest. CADRE_ETIMEOUT when the
 * thread has not ended: all that is left to do then is to end the process, or to ask again. */
int cadre_actor_end(cadre_actor_t *self, int timeout_ms);

/* cadre_actor_end, unless that was done; then closes the pipe and nulls the pointer: objects that
 * the actor sent and nobody received are lost. CADRE_ETIMEOUT, and the actor is as it was, when the
 * thread has not ended. NULL inside is fine. */
int cadre_actor_stop(cadre_actor_t **self_p, int timeout_ms);

/* --- pipes --- */

/* Two connected ends, for zmq_poll and the functions below. CADRE_EIO. */
int cadre_pipe_open(cadre_context_t *context, void **left, void **right);

/* Closes one end and nulls the pointer; what was not received on it is lost. NULL inside is fine.
 */
void cadre_pipe_close(void **end_p);

/* Gives `pointer` away. Never blocks. CADRE_ECLOSED when the context is being closed: the pointer
 * then stays the caller's. */
int cadre_pipe_send(void *end, uint32_t kind, void *pointer);

/* Takes the oldest message. Never blocks: CADRE_EAGAIN (without a text) when there is none,
 * CADRE_ECLOSED when the context is being closed. */
int cadre_pipe_receive(void *end, cadre_pipe_message_t *out);

#endif
