/*
 * sequences - which of the caller's sequence numbers have ended well: a set of ranges.
 *
 * Owner:   the checkpoints of the coordinator core; the public handle, for what was resumed.
 * Thread:  its owner's.
 *
 * A caller numbers closures in the order in which it schedules them, and they end nearly in that
 * order: a few ranges hold millions of numbers. CADRE_SEQUENCE_RANGES_MAX bounds them where it does
 * not.
 */
#ifndef CADRE_COORDINATOR_CORE_CHECKPOINT_SEQUENCES_H
#define CADRE_COORDINATOR_CORE_CHECKPOINT_SEQUENCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CADRE_SEQUENCE_RANGES_MAX = 65536 };

/* Largest sequence number: what the manifest's JSON can hold as a whole number. */
#define CADRE_SEQUENCE_MAX ((uint64_t)INT64_MAX)

typedef struct {
    uint64_t first;
    uint64_t last;
} cadre_sequence_range_t;

/* Zeroed memory is an empty set. */
typedef struct {
    cadre_sequence_range_t *ranges; /* ascending, none touches the next */
    size_t count;
    size_t capacity;
} cadre_sequences_t;

void cadre_sequences_fini(cadre_sequences_t *self);

/* Adds the numbers from `first` to `last`, both between 1 and CADRE_SEQUENCE_MAX; the set may hold
 * some of them already. */
void cadre_sequences_add(cadre_sequences_t *self, uint64_t first, uint64_t last);

/* Moves all numbers of `from` into `self`; `from` is empty afterwards. */
void cadre_sequences_merge(cadre_sequences_t *self, cadre_sequences_t *from);

/* Returns the first number from `from` on that is not in the set. */
uint64_t cadre_sequences_next(const cadre_sequences_t *self, uint64_t from);

/* Returns the set as [first, last, first, last, ...]. */
json_t *cadre_sequences_json(const cadre_sequences_t *self);

/* Reads a list, in the form that cadre_sequences_json returns, into an empty set. CADRE_EMALFORMED
 * unless its numbers ascend. */
int cadre_sequences_read(cadre_sequences_t *self, const json_t *list);

#endif
