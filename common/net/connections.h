/*
 * connections - this process's accepted tcp connections, as the system knows them.
 *
 * Thread:  any; the functions keep no state.
 */
#ifndef CADRE_COMMON_NET_CONNECTIONS_H
#define CADRE_COMMON_NET_CONNECTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Ends every tcp connection that was accepted on one of `count` local ports: whoever reads it finds
 * it closed. CADRE_EIO when it could not look at all of them, for want of descriptors: try again.
 */
int cadre_connections_end(const uint16_t *ports, size_t count);

#endif
