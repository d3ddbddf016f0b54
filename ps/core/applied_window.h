/*
 * applied_window - which update ids a shard has applied.
 *
 * Ids below `base` are settled: the coordinator said that every closure below it has ended, so an
 * update with such an id can only be a repetition. At and above the base one bit per id says
 * applied. The window never guesses: an id at base + CADRE_APPLIED_WINDOW_MAX or beyond is refused,
 * because forgetting one would let an update count twice (docs/protocol.md#i1-at-most-once). Nor
 * does it move its base by itself past a run of applied ids: a closure reserves ids on every shard,
 * uses them on some, and what was never applied here may still arrive until the coordinator says
 * otherwise.
 *
 * The bits stand in a ring, id modulo capacity, so that moving the base costs only the bits that it
 * passes. The ring begins small and doubles when an id needs it; at the limit it is 8 MiB.
 *
 * Owner:   one shard.
 * Thread:  the shard's actor only.
 */
#ifndef CADRE_PS_CORE_APPLIED_WINDOW_H
#define CADRE_PS_CORE_APPLIED_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cadre_applied_window cadre_applied_window_t;

/* Returns a window in which every id below `base` is settled and no other is applied. */
cadre_applied_window_t *cadre_applied_window_new(uint64_t base);

void cadre_applied_window_destroy(cadre_applied_window_t **self_p);

/* Returns what marking `update_id` would return, and changes nothing: 0 when the update may be
 * applied, CADRE_EDUPLICATE (without an error text, since it is a success) when it was applied or
 * is settled, CADRE_EFULL when it lies beyond the limit. */
int cadre_applied_window_check(const cadre_applied_window_t *self, uint64_t update_id);

/* Marks `update_id` as applied. Returns what cadre_applied_window_check does; on anything but 0
 * nothing changes. */
int cadre_applied_window_mark(cadre_applied_window_t *self, uint64_t update_id);

/* Settles every id below `base`. A base below the current one comes late and changes nothing. */
void cadre_applied_window_set_base(cadre_applied_window_t *self, uint64_t base);

/* Forgets everything and starts at `base`, which may be below the current one: the shard was
 * restored. */
void cadre_applied_window_reset(cadre_applied_window_t *self, uint64_t base);

uint64_t cadre_applied_window_base(const cadre_applied_window_t *self);

/* Returns how many ids at and above the base are marked. */
uint64_t cadre_applied_window_count(const cadre_applied_window_t *self);

/* Returns the bytes of memory that the ring takes. */
size_t cadre_applied_window_size_bytes(const cadre_applied_window_t *self);

#endif
