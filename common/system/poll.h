/*
 * poll - waiting for ZeroMQ sockets and descriptors, with fewer system calls than zmq_poll.
 *
 * Thread:  that of the sockets.
 *
 * Whether a ZeroMQ socket has an event is learned by asking it (ZMQ_EVENTS), which costs a system
 * call; its descriptor only signals that asking may pay. zmq_poll asks every socket before and
 * after it waits, which takes most of the time of a busy actor with eight sockets. cadre_poll asks
 * every socket once before waiting, because a send or receive since the last time may have consumed
 * the signal, and after waiting only the sockets whose descriptors are readable.
 */
#ifndef CADRE_COMMON_SYSTEM_POLL_H
#define CADRE_COMMON_SYSTEM_POLL_H

#include <zmq.h>

#include "common/system/look.h"

/* Waits until an item has one of its events, at most `timeout_ms` (-1: without limit), and sets the
 * revents of all items, as zmq_poll. Returns how many items have an event; 0 when the time is over.
 * A signal does not end the wait. A socket whose context is being closed gets all events it asked
 * for, so that its owner's next call fails with that. */
int cadre_poll(zmq_pollitem_t *items, int count, long timeout_ms);

/* As cadre_poll, but looks for a moment before it sleeps (look.h); not with NULL for `look`. */
int cadre_poll_looking(cadre_look_t *look, zmq_pollitem_t *items, int count, long timeout_ms);

#endif
