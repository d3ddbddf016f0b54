/*
 * context - the I/O threads that the sockets of one process object share.
 *
 * Owner:   the process object (coordinator, ps, worker); outlives its sockets.
 * Thread:  any.
 */
#ifndef CADRE_COMMON_NET_CONTEXT_H
#define CADRE_COMMON_NET_CONTEXT_H

#include <stdbool.h>

#include "common/keys/keyring.h"

enum { CADRE_CONTEXT_CLOSE_S = 3 };

typedef struct cadre_context cadre_context_t;

/* Opens a ZeroMQ context with two I/O threads (host names are resolved in them). No signal
 * handlers, no global state; not usable in a child after fork. CADRE_EIO when the system refuses
 * it. */
int cadre_context_open(cadre_context_t **out);

/* Waits for the lingering messages of closed sockets (at most their linger time) and ends the I/O
 * threads. Every socket and monitor must have been closed. After CADRE_CONTEXT_CLOSE_S it returns
 * all the same and leaves the context to end by itself: libzmq 4.3 can wait for a connection that
 * broke at the wrong moment forever (its issues 2586, 3915), and a program must be able to exit. */
void cadre_context_close(cadre_context_t **self_p);

/* Guards every tcp socket that is opened from now on with CURVE and these keys; the context owns
 * the keyring from now on. */
void cadre_context_guard(cadre_context_t *self, cadre_keyring_t *keyring);

/* Permits tcp connections beyond this machine without keys: anyone who reaches the port may then
 * take part, and read what is sent. Not permitted at the start. */
void cadre_context_permit_plain(cadre_context_t *self);

/* Returns the keys, NULL when there are none; valid as long as the context. */
cadre_keyring_t *cadre_context_keyring(const cadre_context_t *self);
bool cadre_context_permits_plain(const cadre_context_t *self);

/* Returns the ZeroMQ context, for sockets of other kinds (inproc pairs between actors). */
void *cadre_context_handle(cadre_context_t *self);

#endif
