/*
 * refusals - tells the log now and then of connections that the program ended or did not take
 * (accept.c): there may be thousands a second.
 *
 * Owner:   the actor of a bound socket.
 * Thread:  its actor's.
 */
#ifndef CADRE_COMMON_REFUSALS_H
#define CADRE_COMMON_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum { CADRE_REFUSALS_TEXT_SIZE = 192 };

/* Zeroed at the start. */
typedef struct {
    uint64_t large; /* connections that brought too much of one message, */
    uint64_t many;  /* and those of which there were too many, since the log was told */
    int64_t due_ms;
} cadre_refusals_t;

/* Writes the pairs of an event connections_refused into `pairs` of CADRE_REFUSALS_TEXT_SIZE bytes;
 * false when there is nothing to tell, or not yet again. */
bool cadre_refusals_tell(cadre_refusals_t *self, int64_t now_ms, char *pairs);

#endif
