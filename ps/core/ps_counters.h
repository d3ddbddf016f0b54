/*
 * ps_counters - what a shard counts of what was done to it (CADRE_PS_COUNTERS).
 *
 * Owner:   the shard; and an open cut, whose counters are those of the shard at the cut, with the
 *          stragglers since. Thread: the shard's.
 */
#ifndef CADRE_PS_CORE_PS_COUNTERS_H
#define CADRE_PS_CORE_PS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/checkpoint/shard_file.h"
#include "common/wire/message.h"

/* Zeroed memory: nothing was counted. */
typedef struct {
    uint64_t items[CADRE_PS_COUNTER_COUNT];
    uint64_t step; /* the synchronous step that ended last; 0: none has */
} cadre_ps_counters_t;

/* Sets all counters to 0 but that of malformed messages, which counts for the whole process. */
void cadre_ps_counters_clear(cadre_ps_counters_t *self);

/* Adds one to a counter, named by its CADRE_PS_COUNTER_... number. */
void cadre_ps_counters_note(cadre_ps_counters_t *self, int counter);

/* Counts an update that was applied, with the rows that it had gradients of by number or key. */
void cadre_ps_counters_note_update(cadre_ps_counters_t *self, uint64_t size_bytes, uint64_t rows,
                                   uint64_t staleness);

/* Counts a late gradient of a partition with delay compensation. */
void cadre_ps_counters_note_late(cadre_ps_counters_t *self, bool is_compensated);

/* Counts the bytes of an answer to a PULL, and its rows where it was asked for some. */
void cadre_ps_counters_note_pulled(cadre_ps_counters_t *self, uint64_t size_bytes, uint64_t rows);

/* Counts rows that the asker held as they are. */
void cadre_ps_counters_note_unchanged(cadre_ps_counters_t *self, uint64_t rows);

/* Notes that a synchronous step has ended. */
void cadre_ps_counters_note_step(cadre_ps_counters_t *self, uint64_t step);

/* Sets the counters to those that a checkpoint holds in `state`. */
void cadre_ps_counters_restore(cadre_ps_counters_t *self, const cadre_shard_state_t *state);

/* Writes the counters into `state`, for a checkpoint. */
void cadre_ps_counters_store(const cadre_ps_counters_t *self, cadre_shard_state_t *state);

#endif
