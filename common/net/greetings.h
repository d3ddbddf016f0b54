/*
 * greetings - how many connections one address may have, and how fast it may begin them.
 *
 * Owner:   the programs that listen, cadre and cadre-ps (accept.c); it does nothing in others.
 * Thread:  cadre_greetings_enter takes a lock and is called by ZeroMQ's I/O threads. The other
 * functions take none, so that a process that was just forked may close inherited connections.
 *
 * A handshake costs some tenths of a millisecond of CPU and a connection some kilobytes, before it
 * is known whose it is. So each address has a token bucket for CADRE_GREETINGS_BURST connections
 * that fills with CADRE_GREETINGS_RATE a second. All workers of a machine, or behind one translated
 * address, come from one address: a worker that is refused tries again within two seconds.
 */
#ifndef CADRE_COMMON_NET_GREETINGS_H
#define CADRE_COMMON_NET_GREETINGS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    /* Connections a second that one address may begin in the long run. */
    CADRE_GREETINGS_RATE = 256,
    CADRE_GREETINGS_BURST = 1024, /* connections that one address may begin at once after a pause */
    CADRE_CONNECTIONS_PER_ADDRESS_MAX = 4096,
    /* How many addresses have a bucket of their own; all others share one. */
    CADRE_GREETINGS_ADDRESSES = 1024,
};

/* Zeroed memory with an initialised lock holds no connections. */
typedef struct {
    pthread_mutex_t lock;
    struct {
        uint64_t address; /* hash of the address; 0: the place is free */
        int64_t full_us;  /* when the address's token bucket will be full */
        atomic_int connections;
    } places[CADRE_GREETINGS_ADDRESSES];
} cadre_greetings_t;

/* Returns a hash of an address that is never 0; for IPv6 of the network's part, since one machine
 * may have all addresses of its network. 0 for the address of a local socket. */
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
