#include "common/base/queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

enum { CAPACITY_FIRST = 8 };

void
cadre_queue_init(cadre_queue_t *self, size_t item_size)
{
    *self = (cadre_queue_t){.item_size = item_size};
}

void
cadre_queue_fini(cadre_queue_t *self)
{
    free(self->items);
    *self = (cadre_queue_t){.items = NULL};
}

static unsigned char *
item_at(const cadre_queue_t *self, size_t position)
{
    return self->items + ((self->first + position) & (self->capacity - 1)) * self->item_size;
}

/* Makes room for one more value: a full ring is copied into one twice as large, oldest value first.
 */
static void
grow(cadre_queue_t *self)
{
    if (self->count < self->capacity) {
        return;
    }
    size_t capacity = self->capacity ? 2 * self->capacity : CAPACITY_FIRST;
    unsigned char *items = cadre_calloc(capacity, self->item_size);
    for (size_t i = 0; i < self->count; i++) {
        memcpy(items + i * self->item_size, item_at(self, i), self->item_size);
    }
    free(self->items);
    self->items = items;
    self->capacity = capacity;
    self->first = 0;
}

void
cadre_queue_push(cadre_queue_t *self, const void *item)
{
    grow(self);
    memcpy(item_at(self, self->count), item, self->item_size);
    self->count++;
}

/* Moves the oldest value to `item`; false when the queue is empty. */
bool
cadre_queue_pop(cadre_queue_t *self, void *item)
{
    if (self->count == 0) {
        return false;
    }
    memcpy(item, item_at(self, 0), self->item_size);
    self->first = (self->first + 1) & (self->capacity - 1);
    self->count--;
    return true;
}
