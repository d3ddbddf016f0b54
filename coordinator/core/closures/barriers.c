#include "coordinator/core/closures/barriers.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

enum { CAPACITY_MIN = 16 };

void
cadre_barriers_init(cadre_barriers_t *self)
{
    *self = (cadre_barriers_t){.count = 1, .capacity = CAPACITY_MIN, .oldest = 1};
    self->alive = cadre_calloc(CAPACITY_MIN, sizeof(*self->alive));
}

void
cadre_barriers_fini(cadre_barriers_t *self)
{
    free(self->alive);
    *self = (cadre_barriers_t){.alive = NULL};
}

/* Counts a closure that is put, in the open interval: that behind the last barrier. Returns the
 * interval's number. */
uint64_t
cadre_barriers_enter(cadre_barriers_t *self)
{
    size_t last = self->count - 1;
    self->alive[self->first + last]++;
    return self->oldest + last;
}

/* Counts the end of a closure of this interval, then forgets the oldest intervals whose closures
 * have all ended. */
void
cadre_barriers_leave(cadre_barriers_t *self, uint64_t interval)
{
    cadre_assert(interval >= self->oldest && interval - self->oldest < self->count);
    size_t *alive = &self->alive[self->first + (size_t)(interval - self->oldest)];
    cadre_assert(*alive > 0);
    (*alive)--;
    while (self->count > 1 && self->alive[self->first] == 0) {
        self->first++;
        self->count--;
        self->oldest++;
    }
}

/* Makes room for one more interval behind the last one, which is open. */
static void
make_room(cadre_barriers_t *self)
{
    if (self->first + self->count < self->capacity) {
        return;
    }
    if (self->count > self->capacity / 2) {
        self->capacity *= 2;
        self->alive = cadre_realloc(self->alive, self->capacity, sizeof(*self->alive));
    }
    memmove(self->alive, self->alive + self->first, self->count * sizeof(*self->alive));
    self->first = 0;
}

/* Sets a barrier behind all closures that were put so far. Returns its number: that of the interval
 * which it closes. */
uint64_t
cadre_barriers_set(cadre_barriers_t *self)
{
    uint64_t open = self->oldest + self->count - 1;
    if (self->alive[self->first + self->count - 1] == 0) {
        return open - 1; /* nothing was put since the last barrier: that barrier serves again */
    }
    make_room(self);
    self->alive[self->first + self->count++] = 0;
    return open;
}

bool
cadre_barriers_passed(const cadre_barriers_t *self, uint64_t barrier)
{
    return self->oldest > barrier;
}
