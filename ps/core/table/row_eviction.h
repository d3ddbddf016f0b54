/*
 * row_eviction - which rows of a table are to go.
 *
 * Two hands go round over all rows, as in the clock algorithm. One is moved when a row must make
 * room for another: it looks at CADRE_EVICTION_SAMPLE rows, of which the one that was not updated
 * for longest, or was updated least often, goes: an approximation of LRU and LFU that costs as much
 * for many rows as for few. Under LFU the updates of those that stay are halved, so that what was
 * popular once does not stay for ever. The other is moved a little by every update, and finds rows
 * that are too old, or whose norm is too small.
 *
 * Neither ever chooses a row that the update of now has changed, or the assignment of now names.
 * Where an assignment finds no row that was changed before the newest update, the hand takes those
 * that it comes to, one after the other: what an earlier assignment put behind it goes last.
 *
 * Owner:   one table.
 * Thread:  the shard's actor only.
 */
#ifndef CADRE_PS_CORE_TABLE_ROW_EVICTION_H
#define CADRE_PS_CORE_TABLE_ROW_EVICTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/spec/table_spec.h"
#include "ps/core/table/row_pages.h"

enum { CADRE_EVICTION_SAMPLE = 16 };

typedef struct {
    uint32_t victim_hand;
    uint32_t expiry_hand;
    float *row; /* of the table's dim: values as f32, to measure them */

    /* Of an assignment: a bit for each row that it names; else NULL. */
    uint64_t *named;

    /* The step at which one found no row that was changed before it: there is none until the next
     * update. */
    bool has_no_older;
    uint32_t no_older_step;
} cadre_row_eviction_t;

void cadre_row_eviction_init(cadre_row_eviction_t *self, const cadre_table_spec_t *spec);

/* Puts the hands where they were when rows below `end` had been in use. Fails with CADRE_ECORRUPT
 * when they cannot have been there. */
int cadre_row_eviction_load(cadre_row_eviction_t *self, uint32_t victim_hand, uint32_t expiry_hand,
                            uint64_t end);

void cadre_row_eviction_fini(cadre_row_eviction_t *self);

/* Begins an assignment that may evict rows, of a table that will have `rows` places; notes a row
 * that it names; ends it. */
void cadre_row_eviction_begin_naming(cadre_row_eviction_t *self, uint64_t rows);
void cadre_row_eviction_name(cadre_row_eviction_t *self, uint32_t row);
void cadre_row_eviction_end_naming(cadre_row_eviction_t *self);

/* Returns the row that is to make room; UINT32_MAX when none may go. What update number `step` has
 * changed, or an assignment since, does not; in an assignment such rows may go when there are no
 * others any more, but those that it names. */
uint32_t cadre_row_eviction_victim(cadre_row_eviction_t *self, const cadre_table_spec_t *spec,
                                   uint32_t step, cadre_row_pages_t *pages);

/* Looks for a row that is too old or too small among the next `*visits` of all rows, and takes off
 * how many it has looked at. Returns it; UINT32_MAX when there is none. */
uint32_t cadre_row_eviction_expired(cadre_row_eviction_t *self, const cadre_table_spec_t *spec,
                                    uint32_t step, const cadre_row_pages_t *pages,
                                    uint64_t *visits);

#endif
