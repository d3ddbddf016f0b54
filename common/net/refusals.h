/*
 * refusals - tells the log now and then of connections that the program ended or did not take
 * (accept.c): there may be thousands a second.
 *
 * Owner:   the actor of a bound socket.
 * Thread:  its actor's.
 */
#ifndef CADRE_COMMON_NET_REFUSALS_H
#define CADRE_COMMON_NET_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum { CADRE_REFUSALS_TEXT_SIZE = 192 };

/* Zeroed at the start, but for `checked`. */
typedef struct {
    uint64_t large;   /* connections that brought too much of one message, */
    uint64_t many;    /* those of which there were too many, */
    uint64_t strange; /* and those whose handshake failed; since the log was told */
    int64_t due_ms;
    bool checked; /* the one stranger without keys of one's own check has come (authenticator.h), or
                     there is none to come */
} cadre_refusals_t;

/* Counts a connection whose handshake failed. */
void cadre_refusals_add_strange(cadre_refusals_t *self);

/* Writes the pairs of an event connections_refused into `pairs` of CADRE_REFUSALS_TEXT_SIZE bytes;
 * false when there is nothing to tell, or not yet again. */
bool cadre_refusals_tell(cadre_refusals_t *self, int64_t now_ms, char *pairs);

#endif
