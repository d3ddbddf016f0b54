#include "common/system/poll.h"

#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/system/clock.h"

_Static_assert(ZMQ_POLLIN == 1 && ZMQ_POLLOUT == 2, "events of sockets are given as they come");

enum { FEW = 32 }; /* up to so many items no memory is allocated */

static short
to_poll(short events)
{
    int result = (events & ZMQ_POLLIN ? POLLIN : 0) | (events & ZMQ_POLLOUT ? POLLOUT : 0);
    return (short)result;
}

static short
from_poll(short revents)
{
    int result = (revents & (POLLIN | POLLHUP) ? ZMQ_POLLIN : 0) |
                 (revents & POLLOUT ? ZMQ_POLLOUT : 0) | (revents & POLLERR ? ZMQ_POLLERR : 0);
    return (short)result;
}

/* Looks at a socket (ZMQ_EVENTS), sets its revents, and returns whether it has an event. */
static bool
look(zmq_pollitem_t *item)
{
    int events = 0;
    size_t size = sizeof(events);
    bool closed = zmq_getsockopt(item->socket, ZMQ_EVENTS, &events, &size) < 0;
    item->revents = closed ? item->events : (short)(events & item->events);
    return item->revents != 0;
}

/* Returns the descriptor to wait on: that of the file, or the one by which a ZeroMQ socket signals.
 */
static int
descriptor_of(const zmq_pollitem_t *item)
{
    int descriptor = item->fd;
    size_t size = sizeof(descriptor);
    if (item->socket && zmq_getsockopt(item->socket, ZMQ_FD, &descriptor, &size) < 0) {
        return -1; /* the context is being closed: poll ignores it */
    }
    return descriptor;
}

/* Fills in `waits`, the list for poll(2); with `sockets` false, sockets are left out. */
static void
fill(const zmq_pollitem_t *items, int count, bool sockets, struct pollfd *waits)
{
    for (int i = 0; i < count; i++) {
        bool left_out = items[i].socket && !sockets;
        waits[i] = (struct pollfd){
            .fd = left_out ? -1 : descriptor_of(&items[i]),
            .events = items[i].socket ? (short)POLLIN : to_poll(items[i].events),
        };
    }
}

/* Waits once with poll(2); returns how many items have an event. */
static int
wait(zmq_pollitem_t *items, int count, struct pollfd *waits, int timeout_ms)
{
    int found = 0;
    if (poll(waits, (nfds_t)count, timeout_ms) <= 0) {
        return 0;
    }

    for (int i = 0; i < count; i++) {
        if (waits[i].revents != 0 && items[i].socket) {
            look(&items[i]);
        } else if (waits[i].revents != 0) {
            items[i].revents = from_poll(waits[i].revents);
        }
        found += items[i].revents != 0;
    }

    return found;
}

/* Looks at all sockets and returns how many have an event; *descriptors tells whether some items
 * are no sockets. */
static int
look_at_all(zmq_pollitem_t *items, int count, bool *descriptors)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        items[i].revents = 0;
        if (items[i].socket) {
            found += look(&items[i]);
        } else {
            *descriptors = true;
        }
    }

    return found;
}

/* Waits until an item has one of its events, at most `timeout_ms` (-1: without limit), and returns
 * how many have; as zmq_poll, with fewer system calls. */
int
cadre_poll(zmq_pollitem_t *items, int count, long timeout_ms)
{
    struct pollfd few[FEW];
    struct pollfd *waits = count <= FEW ? few : cadre_calloc((size_t)count, sizeof(*waits));
    int64_t end_ms = timeout_ms < 0 ? INT64_MAX : cadre_clock_now_ms() + timeout_ms;
    bool descriptors = false;
    int found = look_at_all(items, count, &descriptors);
    if (found > 0 || timeout_ms == 0) {
        /* A socket has an event, or there is no time to wait: plain descriptors are only looked at.
         */
        if (descriptors) {
            fill(items, count, false, waits);
            wait(items, count, waits, 0);
            found = 0;
            for (int i = 0; i < count; i++) {
                found += items[i].revents != 0;
            }
        }
    } else {
        int64_t left_ms = timeout_ms;
        fill(items, count, true, waits);
        /* A socket's descriptor may become readable without an event on the socket (see ZMQ_FD of
         * zmq_getsockopt): then this waits on for the rest of the time. */
        do {
            int most_ms = left_ms < 0 ? -1 : (int)cadre_min_i64(left_ms, INT_MAX);
            found = wait(items, count, waits, most_ms);
            left_ms = timeout_ms < 0 ? -1 : end_ms - cadre_clock_now_ms();
        } while (found == 0 && (timeout_ms < 0 || left_ms > 0));
    }

    if (waits != few) {
        free(waits);
    }

    return found;
}

typedef struct {
    zmq_pollitem_t *items;
    int count;
} items_t;

static bool
have_event(void *context)
{
    const items_t *self = context;
    return cadre_poll(self->items, self->count, 0) > 0;
}

int
cadre_poll_looking(cadre_look_t *look, zmq_pollitem_t *items, int count, long timeout_ms)
{
    if (!look || timeout_ms == 0) {
        return cadre_poll(items, count, timeout_ms);
    }
    items_t context = {.items = items, .count = count};
    const bool has_come = cadre_look(look, have_event, &context);
    const int found = cadre_poll(items, count, has_come ? 0 : timeout_ms);
    cadre_look_end(look);
    return found;
}
