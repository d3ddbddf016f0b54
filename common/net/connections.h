/*
 * connections - shuts down accepted tcp connections of this process, found by the system's list of
 * its descriptors.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_NET_CONNECTIONS_H
#define CADRE_COMMON_NET_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Shuts down every tcp connection that was accepted on one of `count` local ports: both ends see it
 * closed. CADRE_EIO when not all could be looked at, for want of descriptors: the caller tries
 * again. */
int cadre_connections_end(const uint16_t *ports, size_t count);

#endif
