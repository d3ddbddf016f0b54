/*
 * context - the I/O threads that the sockets of one process object share.
 *
 * Owner:   the process object (coordinator, ps, worker); outlives its sockets.
 * Thread:  any.
 */
#ifndef CADRE_COMMON_CONTEXT_H
#define CADRE_COMMON_CONTEXT_H

enum { CADRE_CONTEXT_CLOSE_S = 3 };

typedef struct cadre_context cadre_context_t;

/* A ZeroMQ context with two I/O threads (host names are resolved in them). No signal handlers, no
 * global state; not usable in a child after fork. CADRE_EIO when the system refuses it. */
int cadre_context_open(cadre_context_t **out);

/* Waits for the lingering messages of closed sockets (at most their linger time) and ends the I/O
 * threads. Every socket and monitor must have been closed. After CADRE_CONTEXT_CLOSE_S it returns
 * all the same and leaves the context to end by itself: libzmq 4.3 can wait for a connection that
 * broke at the wrong moment forever (its issues 2586, 3915), and a program must be able to exit. */
void cadre_context_close(cadre_context_t **self_p);

/* The ZeroMQ context, for sockets of other kinds (inproc pairs between actors). */
void *cadre_context_handle(cadre_context_t *self);

#endif
