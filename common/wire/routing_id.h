/*
 * routing_id - the name under which a ROUTER knows a peer: bytes of the peer's choosing.
 *
 * Thread:  any.
 */
#ifndef CADRE_COMMON_WIRE_ROUTING_ID_H
#define CADRE_COMMON_WIRE_ROUTING_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CADRE_ROUTING_ID_SIZE_MAX = 64 }; /* bytes; a peer with a longer one is malformed */

/* Who a message is for or from, as a ROUTER knows its peers. Bytes of a peer's choosing: print them
 * with cadre_routing_id_text. */
typedef struct {
    uint8_t size; /* 0: none */
    uint8_t bytes[CADRE_ROUTING_ID_SIZE_MAX];
} cadre_routing_id_t;

enum { CADRE_ROUTING_ID_TEXT_SIZE = 2 * CADRE_ROUTING_ID_SIZE_MAX + 3 };

/* Sets an id from bytes; fails with CADRE_EINVALID when there are none or too many. */
int cadre_routing_id_set(cadre_routing_id_t *self, const void *bytes, size_t size_bytes);

/* Writes the id into `text` of CADRE_ROUTING_ID_TEXT_SIZE bytes: as it is when all of it is
 * printable ASCII, else "0x" and hexadecimal digits. Returns `text`. */
const char *cadre_routing_id_text(const cadre_routing_id_t *self, char *text);

#endif
