/*
 * look - looking for a moment whether something has come, before sleeping until it comes.
 *
 * Of the tasks of a job in one process one thread hands over to the next, and each computes for
 * some ten microseconds: to sleep and to be woken takes as long. So a thread looks again and again
 * for CADRE_LOOK_US, and lets others have the processor in between. It does not where that would
 * not pay: after waits that were longer on average, and for a while after a look for which it lost
 * the processor for long, because another process, or a thread that computes, wants it too.
 *
 * Owner:   the thread that waits. Zeroed memory is a look that has seen nothing.
 * Thread:  that one.
 */
#ifndef CADRE_COMMON_SYSTEM_LOOK_H
#define CADRE_COMMON_SYSTEM_LOOK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    CADRE_LOOK_US = 100,              /* how long a thread looks */
    CADRE_LOOK_WAIT_US = 200,         /* the mean of waits, up to which it does */
    CADRE_LOOK_LOST_US = 1000,        /* time without the processor that begins a rest */
    CADRE_LOOK_REST_US = 100000,      /* how long a first rest is */
    CADRE_LOOK_REST_US_MAX = 6400000, /* how long a rest is at most, twice as long as the last */
};

typedef struct {
    int64_t begin_us;      /* of the wait */
    int64_t mean_us;       /* of the last waits, each of CADRE_LOOK_LOST_US at most */
    int64_t rest_until_us; /* it does not look until then */
    int64_t rest_us;       /* how long that was */
} cadre_look_t;

/* Begins a wait: looks for a moment whether `is_there` says that something has come. Returns
 * whether it has. */
bool cadre_look(cadre_look_t *self, bool (*is_there)(void *context), void *context);

/* Ends the wait that cadre_look has begun, when something has come. */
void cadre_look_end(cadre_look_t *self);

#endif
