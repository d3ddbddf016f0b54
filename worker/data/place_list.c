#include "worker/data/place_list.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

void
cadre_place_list_fini(cadre_place_list_t *self)
{
    free(self->bytes);
    free(self->groups);
    *self = (cadre_place_list_t){0};
}

/* --- numbers --- */

/* Adds a number by seven bits to a byte, the lower ones first; the upper bit says that more follow.
 */
static void
put(cadre_place_list_t *self, uint64_t number)
{
    for (;;) {
        const uint8_t rest = number > 127 ? 128 : 0;
        self->bytes = cadre_grow(self->bytes, self->size, &self->capacity, 1);
        self->bytes[self->size++] = (uint8_t)((number & 127) | rest);
        if (!rest) {
            return;
        }
        number >>= 7;
    }
}

static uint64_t
take(const uint8_t **at)
{
    uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
        const uint8_t byte = *(*at)++;
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return number;
        }
    }
}

/* Adds how far a number is from the one before, either way: even where it is above, so that small
 * distances are small numbers. */
static void
put_distance(cadre_place_list_t *self, uint64_t number, uint64_t before)
{
    const uint64_t distance = number - before;
    put(self, distance >> 63 ? ~(distance << 1) : distance << 1);
}

static uint64_t
take_distance(const uint8_t **at, uint64_t before)
{
    const uint64_t number = take(at);
    return before + (number & 1 ? ~(number >> 1) : number >> 1);
}

/* --- places --- */

void
cadre_place_list_add(cadre_place_list_t *self, const cadre_reader_place_t *place)
{
    if (self->count % CADRE_PLACE_GROUP == 0) {
        self->groups = cadre_grow(self->groups, self->count / CADRE_PLACE_GROUP,
                                  &self->groups_capacity, sizeof(*self->groups));
        self->groups[self->count / CADRE_PLACE_GROUP] = self->size;
        self->last = (cadre_reader_place_t){0};
    }
    put_distance(self, place->next_file, self->last.next_file);
    put_distance(self, place->offset, self->last.offset);
    put_distance(self, place->number, self->last.number);
    put_distance(self, place->center, self->last.center);
    put(self, (uint64_t)place->row << 1 | place->is_open);
    self->last = *place;
    self->count++;
}

cadre_reader_place_t
cadre_place_list_at(const cadre_place_list_t *self, size_t index)
{
    cadre_assert(index < self->count);
    const uint8_t *at = self->bytes + self->groups[index / CADRE_PLACE_GROUP];
    cadre_reader_place_t place = {0};
    for (size_t i = 0; i <= index % CADRE_PLACE_GROUP; i++) {
        place.next_file = (uint32_t)take_distance(&at, place.next_file);
        place.offset = take_distance(&at, place.offset);
        place.number = take_distance(&at, place.number);
        place.center = take_distance(&at, place.center);
        const uint64_t row = take(&at);
        place.row = (uint32_t)(row >> 1);
        place.is_open = row & 1;
    }
    return place;
}

uint64_t
cadre_place_list_size_bytes(const cadre_place_list_t *self)
{
    return self->capacity + self->groups_capacity * sizeof(*self->groups);
}
