/*
 * outbox - the messages a core gives back to its shell to send, first in, first out.
 *
 * Owner:   one core.
 * Thread:  the core's actor only.
 *
 * A message is encoded when it is put in, so nothing it borrows has to live longer than that call.
 * It grows without a limit of its own: a core puts in at most a few messages for each one it is
 * given, and its shell empties it after every turn. A shell whose socket is full (CADRE_EAGAIN)
 * puts the entry back in front and goes on when the socket can take more.
 */
#ifndef CADRE_COMMON_WIRE_OUTBOX_H
#define CADRE_COMMON_WIRE_OUTBOX_H

#include <stdbool.h>

#include "common/wire/message.h"
#include "common/wire/plane.h"
#include "common/wire/task.h"

/* An encoded message to be sent. It owns references to its chunks; ended with
 * cadre_outbox_entry_fini. */
typedef struct {
    cadre_task_t destination;
    cadre_plane_t plane;
    cadre_message_type_t type;
    cadre_chunk_t *header;
    cadre_chunk_t **chunks;
    size_t chunk_count;
} cadre_outbox_entry_t;

/* A ring; zeroed memory is an empty outbox. */
typedef struct {
    cadre_outbox_entry_t *entries;
    size_t capacity; /* 0 or a power of two */
    size_t first;
    size_t count;
} cadre_outbox_t;

/* Drops every entry and the ring and zeroes the struct. Harmless on a zeroed one. */
void cadre_outbox_fini(cadre_outbox_t *self);

/* Encodes `message` for `destination`, on the plane its type belongs to (cadre_message_plane), and
 * moves its payload chunks into the entry: message->chunks is NULL and chunk_count 0 afterwards.
 * Everything else in `message`, its storage included, stays the caller's. */
void cadre_outbox_send(cadre_outbox_t *self, const cadre_task_t *destination,
                       cadre_message_t *message);

/* Puts in a message as cadre_outbox_send, on the plane that the caller names: a REPLY goes back on
 * the plane of its question. */
void cadre_outbox_send_on(cadre_outbox_t *self, cadre_plane_t plane,
                          const cadre_task_t *destination, cadre_message_t *message);

/* Encodes `message` into an entry that the caller keeps, to send it with cadre_outbox_repeat as
 * often as needed; moves the message's payload chunks into the entry. */
void cadre_outbox_entry_init(cadre_outbox_entry_t *self, const cadre_task_t *destination,
                             cadre_message_t *message);

/* Appends the message that `entry` holds, with references of its own. */
void cadre_outbox_repeat(cadre_outbox_t *self, const cadre_outbox_entry_t *entry);

/* Appends the entry; moves it, `entry` is zeroed. */
void cadre_outbox_push(cadre_outbox_t *self, cadre_outbox_entry_t *entry);

/* Takes the oldest entry out; false, and `out` untouched, when there is none. */
bool cadre_outbox_pop(cadre_outbox_t *self, cadre_outbox_entry_t *out);

/* Puts an entry back where pop took it from; moves it, `entry` is zeroed. */
void cadre_outbox_push_front(cadre_outbox_t *self, cadre_outbox_entry_t *entry);

size_t cadre_outbox_count(const cadre_outbox_t *self);

/* Drops the entry's references and zeroes it. Harmless on a zeroed one. */
void cadre_outbox_entry_fini(cadre_outbox_entry_t *self);

#endif
