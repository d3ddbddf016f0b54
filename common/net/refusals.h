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

/* Zeroed at the start, except `checked`. */
typedef struct {
    /* Connections that brought too much of one message, since the last log line. */
    uint64_t large;
    uint64_t many;    /* connections that were too many of one address, since the last log line */
    uint64_t strange; /* connections whose handshake failed, since the last log line */
    int64_t due_ms;
    /* The stranger without keys by which this process checks its own socket (authenticator.h) has
     * come, or none will come: every further handshake that fails is counted. */
    bool checked;
} cadre_refusals_t;

/* Counts a connection whose handshake failed. */
void cadre_refusals_add_strange(cadre_refusals_t *self);

/* Writes the fields of a log event connections_refused into `pairs` of CADRE_REFUSALS_TEXT_SIZE
 * bytes; false when there is nothing to log, or the last line is not long enough ago. */
bool cadre_refusals_tell(cadre_refusals_t *self, int64_t now_ms, char *pairs);

#endif
