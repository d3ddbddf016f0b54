/*
 * event_fd - an eventfd that a program polls to learn that a future or completion queue is ready.
 *
 * Owner:   a future or a completion queue. Thread: under the gate's lock.
 */
#ifndef CADRE_COORDINATOR_EVENT_FD_H
#define CADRE_COORDINATOR_EVENT_FD_H

/* Opens a descriptor that is not readable. Some descriptors of the process are kept back for the
 * coordinator: libzmq aborts the process when it accepts a connection and none is left.
 *
 * CADRE_EIO: no descriptor is left but those that are kept back. */
int cadre_event_fd_open(int *fd);

/* Make the descriptor readable, or not readable; -1 does nothing. */
void cadre_event_fd_set(int fd);
void cadre_event_fd_clear(int fd);

/* Closes the descriptor; -1 does nothing. */
void cadre_event_fd_close(int fd);

#endif
