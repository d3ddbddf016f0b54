/*
 * actor - a thread with one state of its own, and the pipes over which it talks to others.
 *
 * Owner:   whoever opened it, who must end it with cadre_actor_stop.
 * Thread:  the owner's. A pipe end belongs to one thread at a time: the thread that makes a pipe
 *          may hand its ends to actors when it starts them.
 *
 * An actor cannot fail to start: its owner opens, binds and allocates what the actor needs, hands
 * it over as `argument`, and only then starts the thread. What travels on a pipe is a kind and a
 * pointer: the sender gives the object away and does not touch it again. The pipes themselves have
 * no bound, because a send must neither block nor fail; how many messages may be under way on one
 * is bounded by an agreement of its two ends (a question before an answer, one snapshot at a time),
 * and each folder's README says how.
 *
 * Actors block all signals: these are for the thread of main.
 */
#ifndef CADRE_COMMON_NET_ACTOR_H
#define CADRE_COMMON_NET_ACTOR_H

#include <stdint.h>

#include "common/net/context.h"

enum {
    /* Kind of the message that cadre_actor_stop sends, with NULL; users choose other kinds. */
    CADRE_PIPE_STOP = 0,
    CADRE_ACTOR_STOP_MS = 5000, /* how long most owners wait for an actor to end */
};

/* One message of a pipe. */
typedef struct {
    uint32_t kind;
    void *pointer; /* owned by the receiver from now on; may be NULL */
} cadre_pipe_message_t;

typedef struct cadre_actor cadre_actor_t;

/* The function that an actor's thread runs. It returns soon after it has received a CADRE_PIPE_STOP
 * from `pipe`, its end of the pipe to the owner, or earlier. It closes everything that it was
 * handed, except `pipe`. */
typedef void (*cadre_actor_run_t)(void *pipe, void *argument);

/* Starts a thread called `name` (15 characters are seen) that runs `run`. CADRE_EIO when the system
 * has no thread or socket left; `argument` then stays the caller's. */
int cadre_actor_open(cadre_context_t *context, const char *name, cadre_actor_run_t run,
                     void *argument, cadre_actor_t **out);

/* Returns the owner's end of the pipe. */
void *cadre_actor_socket(cadre_actor_t *self);

/* Sends CADRE_PIPE_STOP and waits at most `timeout_ms` for the thread to end. What the actor sent
 * before can still be received; cadre_actor_stop then closes the rest. CADRE_ETIMEOUT when the
 * thread has not ended: all that is left to do then is to end the process, or to ask again. */
int cadre_actor_end(cadre_actor_t *self, int timeout_ms);

/* Calls cadre_actor_end, unless that was done; then closes the pipe and nulls the pointer: objects
 * that the actor sent and nobody received are lost. CADRE_ETIMEOUT, and the actor stays as it was,
 * when the thread has not ended. *self_p may be NULL. */
int cadre_actor_stop(cadre_actor_t **self_p, int timeout_ms);

/* --- pipes --- */

/* Makes a pipe: two connected ends, for zmq_poll and the functions below. CADRE_EIO when no socket
 * can be opened. */
int cadre_pipe_open(cadre_context_t *context, void **left, void **right);

/* Closes one end and nulls the pointer; messages that were not received on it are lost. *end_p may
 * be NULL. */
void cadre_pipe_close(void **end_p);

/* Sends a message; `pointer` belongs to the receiver then. Never blocks. CADRE_ECLOSED when the
 * context is being closed: the pointer then stays the caller's. */
int cadre_pipe_send(void *end, uint32_t kind, void *pointer);

/* Takes the oldest message. Never blocks: CADRE_EAGAIN (without a text) when there is none,
 * CADRE_ECLOSED when the context is being closed. */
int cadre_pipe_receive(void *end, cadre_pipe_message_t *out);

#endif
