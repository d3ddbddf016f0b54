/*
 * greetings - how many connections one address may have, and how fast it may begin them.
 *
 * Owner:   the programs that listen, cadre and cadre-ps (accept.c); it does nothing in others.
 * Thread:  cadre_greetings_enter takes a lock and is called by ZeroMQ's I/O threads. The others
 * take none, so that a process that was just forked may close what it inherited.
 *
 * A handshake costs some tenths of a millisecond of CPU and a connection some kilobytes, before
 * anybody knows who it is. Each address has a bucket of CADRE_GREETINGS_BURST that fills with
 * CADRE_GREETINGS_RATE a second. All workers of a machine, or behind one translated address, come
 * from one address: who is refused tries again within two seconds.
 */
#ifndef CADRE_COMMON_NET_GREETINGS_H
#define CADRE_COMMON_NET_GREETINGS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    CADRE_GREETINGS_RATE = 256,   /* connections a second of one address, */
    CADRE_GREETINGS_BURST = 1024, /* after a pause so many at once */
    CADRE_CONNECTIONS_PER_ADDRESS_MAX = 4096,
    CADRE_GREETINGS_ADDRESSES = 1024, /* with a bucket of their own; others share one */
};

/* Zeroed memory, but for the lock, is empty. */
typedef struct {
    pthread_mutex_t lock;
    struct {
        uint64_t address; /* a hash; 0: free */
        int64_t full_us;  /* when its bucket will be full */
        atomic_int connections;
    } places[CADRE_GREETINGS_ADDRESSES];
} cadre_greetings_t;

/* Tells addresses apart: a hash, of IPv6 of the network, since one machine has all addresses of its
 * own; 0 for a local socket's. */
uint64_t cadre_greetings_hash(const struct sockaddr *address);

/* Counts a connection from `address`. Returns the place to hand to cadre_greetings_leave, 0 for a
 * connection that is not counted (a local socket), or -1 when the connection is to be closed. */
int cadre_greetings_enter(cadre_greetings_t *self, const struct sockaddr *address, int64_t now_us);

/* Counts the end of a connection that cadre_greetings_enter gave `place`. */
void cadre_greetings_leave(cadre_greetings_t *self, int place);

/* Returns how many connections this process refused since the last call (cadre_greetings_refuse
 * counts one). */
uint64_t cadre_greetings_refused(void);
void cadre_greetings_refuse(void);

#endif
