/*
 * descriptors - how many files and sockets the process may open (RLIMIT_NOFILE).
 *
 * Owner:   none.
 * Thread:  any; the limit is the process's.
 *
 * What is needed: 25 for a process, and one connection for each peer; a coordinator has three more
 * for each ps, a worker two for each ps. The usual soft limit of 1,024 is for programs that use
 * select(), which ours do not.
 */
#ifndef CADRE_COMMON_DESCRIPTORS_H
#define CADRE_COMMON_DESCRIPTORS_H

/* Raises the soft limit to the hard one, as far as that may be done. */
void cadre_descriptors_raise(void);

#endif
