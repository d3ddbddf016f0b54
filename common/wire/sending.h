/*
 * sending - counts the bytes that were sent to a peer and have not left this process yet.
 *
 * Owner:   whoever sends holds a reference, and so does each frame: the object lives until the last
 *          one has ended.
 * Thread:  any. The socket's owner adds; ZeroMQ's I/O thread, which ends a frame when its bytes are
 *          with the system or its connection has gone, subtracts. The count is atomic, and nothing
 *          else depends on it: a count that is read late is too large, never too small.
 */
#ifndef CADRE_COMMON_WIRE_SENDING_H
#define CADRE_COMMON_WIRE_SENDING_H

#include <stddef.h>

typedef struct cadre_sending cadre_sending_t;

cadre_sending_t *cadre_sending_new(void);
void cadre_sending_unref(cadre_sending_t **self_p);
size_t cadre_sending_bytes(const cadre_sending_t *self);

/* Adds bytes that are being sent to the count; takes a reference, which cadre_sending_end drops. */
void cadre_sending_add(cadre_sending_t *self, size_t size_bytes);

/* Takes bytes that have left this process off the count; drops a reference. */
void cadre_sending_end(cadre_sending_t *self, size_t size_bytes);

#endif
