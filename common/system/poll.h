/*
 * poll - waiting for ZeroMQ sockets and descriptors, with fewer system calls than zmq_poll.
 *
 * Thread:  that of the sockets.
 *
 * What a ZeroMQ socket has for its owner is known by looking (ZMQ_EVENTS), which costs a poll(2) of
 * its own; its descriptor only says that looking may pay. zmq_poll looks at every socket before and
 * after it waits, which is most of what a busy actor with eight sockets does. Here every socket is
 * looked at once before waiting, because a send or receive since the last look may have swallowed
 * its signal, and after waiting only those whose descriptors speak.
 */
#ifndef CADRE_COMMON_SYSTEM_POLL_H
#define CADRE_COMMON_SYSTEM_POLL_H

#include <zmq.h>

/* As zmq_poll: waits for an item with one of its events, at most `timeout_ms` (-1: without limit),
 * and sets the revents of all. Returns how many have some; 0 when the time is over (a signal does
 * not end the wait).
 * A socket whose context is being closed has all events it asked for, so that its owner's next call
 * tells. */
int cadre_poll(zmq_pollitem_t *items, int count, long timeout_ms);

#endif
