/*
 * event_fd - a descriptor that a program polls for something of the library.
 *
 * Owner:   a future or a completion queue. Thread: under the gate's lock.
 */
#ifndef CADRE_COORDINATOR_EVENT_FD_H
#define CADRE_COORDINATOR_EVENT_FD_H

/* Opens one that is not readable, but not one of the last: who accepts a connection without a
 * descriptor left does not survive it (libzmq asserts), so some are left to the coordinator.
 *
 * CADRE_EIO: there is none to be had. */
int cadre_event_fd_open(int *fd);

/* Make it readable, or not; -1 is none. */
void cadre_event_fd_set(int fd);
void cadre_event_fd_clear(int fd);

/* Closes it, where it is not -1. */
void cadre_event_fd_close(int fd);

#endif
