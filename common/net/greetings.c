#include "common/net/greetings.h"

#include <netinet/in.h>
#include <string.h>

#include "common/base/bounds.h"

enum {
    PROBES = 8, /* how many places are tried for an address (open addressing) */
    SHARED = 0, /* place that is shared by all addresses that find no other */
    COST_US = 1000000 / CADRE_GREETINGS_RATE, /* time in which a bucket gets back one connection */
    EMPTY_US = COST_US * CADRE_GREETINGS_BURST, /* time in which an empty bucket fills up */
};

static atomic_uint_fast64_t refused;

/* Returns a hash of an address (FNV-1a), never 0. A peer that wants to share the bucket of another
 * address must have about 2^32 addresses to choose from, and only gains that both are slow. */
static uint64_t
hash(const void *bytes, size_t size)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    }
    return sum ? sum : 1;
}

/* Returns a hash of an IP address, never 0; 0 for any other kind of address. Of IPv6 only the
 * network's 8 bytes count, because one machine may have all addresses of its network. */
uint64_t
cadre_greetings_hash(const struct sockaddr *address)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;

    switch (address->sa_family) {
    case AF_INET:
        memcpy(&four, address, sizeof(four));
        return hash(&four.sin_addr, sizeof(four.sin_addr));
    case AF_INET6:
        memcpy(&six, address, sizeof(six));
        return IN6_IS_ADDR_V4MAPPED(&six.sin6_addr) ? hash(&six.sin6_addr, sizeof(six.sin6_addr))
                                                    : hash(&six.sin6_addr, 8);
    default:
        return 0;
    }
}

/* Called under the lock. Returns the place of an address in the table; a new address gets a place
 * whose old address has no connections and a full bucket. If none is found, SHARED, a place for all
 * such addresses. */
static int
find_place(cadre_greetings_t *self, uint64_t address, int64_t now_us)
{
    int idle = SHARED;
    for (uint64_t i = 0; i < PROBES; i++) {
        /* Place 0 is SHARED. */
        int place = 1 + (int)((address + i) % (CADRE_GREETINGS_ADDRESSES - 1));
        if (self->places[place].address == address) {
            return place;
        }
        bool is_idle = atomic_load(&self->places[place].connections) == 0 &&
                       self->places[place].full_us <= now_us;
        if (idle == SHARED && is_idle) {
            idle = place;
        }
    }

    if (idle != SHARED) {
        self->places[idle].address = address;
        self->places[idle].full_us = now_us;
    }

    return idle;
}

/* Counts a new connection of an address. Returns its place for cadre_greetings_leave, 0 for a local
 * socket, or -1 when the connection is one too many or comes too soon. Each address has a token
 * bucket, kept as the time at which it will be full: a connection moves that time on by COST_US,
 * and fits unless it would come to lie more than EMPTY_US ahead. */
int
cadre_greetings_enter(cadre_greetings_t *self, const struct sockaddr *address, int64_t now_us)
{
    uint64_t name = cadre_greetings_hash(address);
    if (name == 0) {
        return 0; /* a local socket: not limited */
    }

    pthread_mutex_lock(&self->lock);
    int place = find_place(self, name, now_us);
    int64_t full_us = cadre_max_i64(self->places[place].full_us, now_us) + COST_US;
    bool fits = full_us - now_us <= EMPTY_US &&
                atomic_load(&self->places[place].connections) < CADRE_CONNECTIONS_PER_ADDRESS_MAX;
    if (fits) {
        self->places[place].full_us = full_us;
        atomic_fetch_add(&self->places[place].connections, 1);
    }

    pthread_mutex_unlock(&self->lock);

    if (!fits) {
        return -1;
    }

    /* SHARED is 0, which means no place to the caller: it gets a number of its own. */
    return place == SHARED ? CADRE_GREETINGS_ADDRESSES : place;
}

void
cadre_greetings_leave(cadre_greetings_t *self, int place)
{
    if (place > 0) {
        atomic_fetch_sub(&self->places[place % CADRE_GREETINGS_ADDRESSES].connections, 1);
    }
}

void
cadre_greetings_refuse(void)
{
    atomic_fetch_add(&refused, 1);
}

uint64_t
cadre_greetings_refused(void)
{
    return atomic_exchange(&refused, 0);
}
