/*
 * descriptors - how many files and sockets the process may open (RLIMIT_NOFILE).
 *
 * Owner:   none.
 * Thread:  any; the limit is the process's.
 *
 * What is needed: 25 for a process, and one connection for each peer; a coordinator has three more
 * for each ps, a worker two for each ps. The usual soft limit of 1,024 is for programs that use
 * select(), which ours do not.
 *
 * Connections come from others, so they must not take the last: those are kept for files and for
 * connections that we make. A coordinator refuses workers in words before (setup.c); what connects
 * all the same, or to a ps, is closed by the program (accept.c).
 */
#ifndef CADRE_COMMON_SYSTEM_DESCRIPTORS_H
#define CADRE_COMMON_SYSTEM_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_DESCRIPTORS_MIN = 64,     /* a program does not start with fewer */
    CADRE_DESCRIPTORS_RESERVE = 64, /* that connections leave, of 256 or more; else a quarter */
    CADRE_DESCRIPTORS_TEXT_SIZE = 160,
};

/* Raises the soft limit to the hard one, as far as that may be done. */
void cadre_descriptors_raise(void);

/* How many the process may have. */
uint64_t cadre_descriptors_limit(void);

/* How many it has. */
uint64_t cadre_descriptors_open(void);

/* What connections leave of the limit. */
uint64_t cadre_descriptors_reserve(void);

/* Whether the one that was just opened is of the reserve. They are given out from the lowest on, so
 * that all below it are taken. */
bool cadre_descriptors_is_reserved(int descriptor);

/* "RLIMIT_NOFILE is N: raise it, as with `ulimit -n M`", with what there is and twice of it, for an
 * error or a log. Gives `text` back. */
const char *cadre_descriptors_text(char text[CADRE_DESCRIPTORS_TEXT_SIZE]);

#endif
