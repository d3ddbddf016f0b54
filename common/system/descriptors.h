/*
 * descriptors - how many files and sockets the process may open (RLIMIT_NOFILE).
 *
 * Owner:   none.
 * Thread:  any; the limit is the process's.
 *
 * A process needs 25 descriptors, and one for the connection of each peer; a coordinator needs
 * three more for each ps, a worker two for each ps. The usual soft limit of 1,024 is for programs
 * that use select(), which ours do not.
 *
 * Peers open connections, so these must not take the last descriptors: a reserve is kept for files
 * and for connections that this process opens. A coordinator refuses workers with a message before
 * the reserve is touched (setup.c); a connection that would take a descriptor of it, also to a ps,
 * is closed (accept.c).
 */
#ifndef CADRE_COMMON_SYSTEM_DESCRIPTORS_H
#define CADRE_COMMON_SYSTEM_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_DESCRIPTORS_MIN = 64, /* a program does not start with fewer */
    /* Descriptors that connections of peers must leave, where the limit is 256 or more; a lower
     * limit has a quarter of itself as the reserve. */
    CADRE_DESCRIPTORS_RESERVE = 64,
    CADRE_DESCRIPTORS_TEXT_SIZE = 160,
};

/* Raises the soft limit to the hard one, as far as that may be done. */
void cadre_descriptors_raise(void);

/* Returns how many descriptors the process may have. */
uint64_t cadre_descriptors_limit(void);

/* Returns how many descriptors the process has open. */
uint64_t cadre_descriptors_open(void);

/* Returns how many descriptors are the reserve that connections of peers must leave. */
uint64_t cadre_descriptors_reserve(void);

/* Returns whether a descriptor that was just opened is one of the reserve. The system gives out the
 * lowest free one, so all below it are taken. */
bool cadre_descriptors_is_reserved(int descriptor);

/* Writes "RLIMIT_NOFILE is N: raise it, as with `ulimit -n M`" into `text`, for an error or a log,
 * where N is the limit and M twice as much; returns `text`. */
const char *cadre_descriptors_text(char text[CADRE_DESCRIPTORS_TEXT_SIZE]);

#endif
