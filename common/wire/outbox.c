#include "common/wire/outbox.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec.h"

enum { CAPACITY_FIRST = 16 };

static size_t
slot(const cadre_outbox_t *self, size_t position)
{
    return (self->first + position) & (self->capacity - 1);
}

/* Makes room for one more entry: a full ring is copied into one twice as large, oldest entry first.
 */
static void
grow(cadre_outbox_t *self)
{
    if (self->count < self->capacity) {
        return;
    }
    size_t capacity = self->capacity ? 2 * self->capacity : CAPACITY_FIRST;
    cadre_outbox_entry_t *entries = cadre_calloc(capacity, sizeof(*entries));
    for (size_t i = 0; i < self->count; i++) {
        entries[i] = self->entries[slot(self, i)];
    }
    free(self->entries);
    self->entries = entries;
    self->capacity = capacity;
    self->first = 0;
}

/* Drops the entry's references to its header and chunks, and zeroes it. */
void
cadre_outbox_entry_fini(cadre_outbox_entry_t *self)
{
    cadre_chunk_unref(&self->header);
    for (size_t i = 0; i < self->chunk_count; i++) {
        cadre_chunk_unref(&self->chunks[i]);
    }
    free(self->chunks);
    *self = (cadre_outbox_entry_t){.header = NULL};
}

void
cadre_outbox_fini(cadre_outbox_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        cadre_outbox_entry_fini(&self->entries[slot(self, i)]);
    }
    free(self->entries);
    *self = (cadre_outbox_t){.entries = NULL};
}

void
cadre_outbox_send(cadre_outbox_t *self, const cadre_task_t *destination, cadre_message_t *message)
{
    cadre_outbox_send_on(self, cadre_message_plane(message->type), destination, message);
}

/* Encodes a message into an entry; moves the message's payload chunks into it. */
void
cadre_outbox_entry_init(cadre_outbox_entry_t *self, const cadre_task_t *destination,
                        cadre_message_t *message)
{
    *self = (cadre_outbox_entry_t){
        .destination = *destination,
        .plane = cadre_message_plane(message->type),
        .type = message->type,
        .header = cadre_message_encode(message),
        .chunks = message->chunks,
        .chunk_count = message->chunk_count,
    };
    message->chunks = NULL;
    message->chunk_count = 0;
}

void
cadre_outbox_send_on(cadre_outbox_t *self, cadre_plane_t plane, const cadre_task_t *destination,
                     cadre_message_t *message)
{
    grow(self);
    cadre_outbox_entry_t *entry = &self->entries[slot(self, self->count++)];
    cadre_outbox_entry_init(entry, destination, message);
    entry->plane = plane;
}

/* Appends a copy of an entry, with references of its own, so that the entry can be sent again. */
void
cadre_outbox_repeat(cadre_outbox_t *self, const cadre_outbox_entry_t *entry)
{
    grow(self);
    cadre_outbox_entry_t *copy = &self->entries[slot(self, self->count++)];
    *copy = *entry;
    copy->header = cadre_chunk_ref(entry->header);
    copy->chunks = NULL;
    if (entry->chunk_count > 0) {
        copy->chunks = cadre_calloc(entry->chunk_count, sizeof(*copy->chunks));
    }
    for (size_t i = 0; i < entry->chunk_count; i++) {
        copy->chunks[i] = cadre_chunk_ref(entry->chunks[i]);
    }
}

void
cadre_outbox_push(cadre_outbox_t *self, cadre_outbox_entry_t *entry)
{
    cadre_assert(entry->header);
    grow(self);
    self->entries[slot(self, self->count++)] = *entry;
    *entry = (cadre_outbox_entry_t){.header = NULL};
}

/* Takes the oldest entry out, which the caller owns then; false when there is none. */
bool
cadre_outbox_pop(cadre_outbox_t *self, cadre_outbox_entry_t *out)
{
    if (self->count == 0) {
        return false;
    }
    *out = self->entries[self->first];
    self->first = slot(self, 1);
    self->count--;
    return true;
}

/* Puts an entry, which is moved, in front of all others: one that could not be sent yet. */
void
cadre_outbox_push_front(cadre_outbox_t *self, cadre_outbox_entry_t *entry)
{
    cadre_assert(entry->header);
    grow(self);
    self->first = slot(self, self->capacity - 1);
    self->entries[self->first] = *entry;
    self->count++;
    *entry = (cadre_outbox_entry_t){.header = NULL};
}

size_t
cadre_outbox_count(const cadre_outbox_t *self)
{
    return self->count;
}
