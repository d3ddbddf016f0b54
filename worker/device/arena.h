/*
 * arena - places inside one block of memory, given out and taken back while a plan is made.
 *
 * Plain bookkeeping: no memory is touched. Best fit from a list of holes; the block grows at its
 * end when no hole fits. Every place begins and ends at a multiple of CADRE_ARENA_ALIGNMENT.
 *
 * Owner:   the plan that is being made.
 * Thread:  its owner's.
 */
#ifndef CADRE_WORKER_DEVICE_ARENA_H
#define CADRE_WORKER_DEVICE_ARENA_H

#include <stddef.h>

enum { CADRE_ARENA_ALIGNMENT = 256 };

typedef struct {
    size_t offset;
    size_t size_bytes;
} cadre_arena_hole_t;

typedef struct {
    cadre_arena_hole_t *holes; /* free places, by offset; no two touch, none touches the end */
    int hole_count;
    int hole_room;         /* how many holes there is memory for */
    size_t end;            /* offset below which all used places and holes lie */
    size_t size_bytes_max; /* the largest `end` so far: what must be allocated */
} cadre_arena_t;

/* Returns the next multiple of the alignment. */
static inline size_t
cadre_arena_round(size_t size_bytes)
{
    return (size_bytes + CADRE_ARENA_ALIGNMENT - 1) / CADRE_ARENA_ALIGNMENT * CADRE_ARENA_ALIGNMENT;
}

void cadre_arena_init(cadre_arena_t *self);
void cadre_arena_fini(cadre_arena_t *self);

/* Takes a place of `size_bytes` (rounded up to the alignment) and returns its offset. The caller
 * asks for less than 2^47 bytes at a time in at most 2^16 places, so that nothing overflows. */
size_t cadre_arena_take(cadre_arena_t *self, size_t size_bytes);

/* Gives a place back; `size_bytes` is what it was taken with. */
void cadre_arena_give(cadre_arena_t *self, size_t offset, size_t size_bytes);

#endif
