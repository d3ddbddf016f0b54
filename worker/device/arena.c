#include "worker/device/arena.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

/* Returns how many bytes a place of this size takes; at least one unit, so that no two places are
 * at one offset. */
static size_t
rounded(size_t size_bytes)
{
    return size_bytes == 0 ? CADRE_ARENA_ALIGNMENT : cadre_arena_round(size_bytes);
}

void
cadre_arena_init(cadre_arena_t *self)
{
    *self = (cadre_arena_t){0};
}

void
cadre_arena_fini(cadre_arena_t *self)
{
    free(self->holes);
    *self = (cadre_arena_t){0};
}

/* Takes a hole out of the list. */
static void
remove_hole(cadre_arena_t *self, int index)
{
    self->hole_count--;
    memmove(&self->holes[index], &self->holes[index + 1],
            (size_t)(self->hole_count - index) * sizeof(*self->holes));
}

/* Adds a hole to the list at `index`; the list is in the order of offsets. */
static void
insert_hole(cadre_arena_t *self, int index, cadre_arena_hole_t hole)
{
    if (self->hole_count == self->hole_room) {
        self->hole_room = self->hole_room ? 2 * self->hole_room : 16;
        self->holes = cadre_realloc(self->holes, (size_t)self->hole_room, sizeof(*self->holes));
    }
    memmove(&self->holes[index + 1], &self->holes[index],
            (size_t)(self->hole_count - index) * sizeof(*self->holes));
    self->holes[index] = hole;
    self->hole_count++;
}

/* Takes a place of `size_bytes` and returns its offset: in the smallest hole that is large enough,
 * else at the end. */
size_t
cadre_arena_take(cadre_arena_t *self, size_t size_bytes)
{
    size_t size = rounded(size_bytes);
    int best = -1;
    for (int i = 0; i < self->hole_count; i++) {
        if (self->holes[i].size_bytes >= size &&
            (best < 0 || self->holes[i].size_bytes < self->holes[best].size_bytes)) {
            best = i;
        }
    }
    if (best < 0) {
        size_t offset = self->end;
        self->end += size;
        if (self->end > self->size_bytes_max) {
            self->size_bytes_max = self->end;
        }
        return offset;
    }
    size_t offset = self->holes[best].offset;
    self->holes[best].offset += size;
    self->holes[best].size_bytes -= size;
    if (self->holes[best].size_bytes == 0) {
        remove_hole(self, best);
    }
    return offset;
}

/* Gives a place back, which becomes a hole, or makes the arena's used part shorter. */
void
cadre_arena_give(cadre_arena_t *self, size_t offset, size_t size_bytes)
{
    cadre_arena_hole_t hole = {.offset = offset, .size_bytes = rounded(size_bytes)};
    cadre_assert(hole.offset + hole.size_bytes <= self->end);
    int at = 0;
    while (at < self->hole_count && self->holes[at].offset < offset) {
        at++;
    }
    /* Holes that touch become one hole. A hole at the end becomes none: `end` moves down to it. */
    if (at > 0) {
        cadre_arena_hole_t before = self->holes[at - 1];
        cadre_assert(before.offset + before.size_bytes <= offset);
        if (before.offset + before.size_bytes == offset) {
            hole.offset = before.offset;
            hole.size_bytes += before.size_bytes;
            remove_hole(self, --at);
        }
    }
    if (at < self->hole_count) {
        cadre_arena_hole_t after = self->holes[at];
        cadre_assert(hole.offset + hole.size_bytes <= after.offset);
        if (hole.offset + hole.size_bytes == after.offset) {
            hole.size_bytes += after.size_bytes;
            remove_hole(self, at);
        }
    }
    if (hole.offset + hole.size_bytes == self->end) {
        self->end = hole.offset;
        return;
    }
    insert_hole(self, at, hole);
}
