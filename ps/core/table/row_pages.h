/*
 * row_pages - the rows of a table on one shard, by number: key, values, optimizer slots. Copy on
 * write.
 *
 * A page is one chunk (common/tensor/chunk.h) of at most 64 KiB with as many rows as fit, a power
 * of two, at least one. It has arrays one after the other: keys, the update that each row was
 * changed by last, how often it was updated (for LFU), which rows are in use, values, and each
 * slot. A page that somebody else holds - a snapshot that is being written - never changes: who
 * wants to write a row of it gets a copy, which takes its place. So a snapshot is a list of
 * references. Once there are many pages their memory comes from slabs (page_slabs.h).
 *
 * A page remembers the snapshot that it was changed after, so that a snapshot can leave out what an
 * earlier one has. Rows that were freed are handed out again, the last one first. Their pages are
 * never given back: a table that has lost rows keeps the room for others.
 *
 * References to pages stand in blocks of BLOCK_PAGES, and a block that is full does not move. A
 * fork shares the blocks, each of which is copied when one of the two first changes it: so a fork
 * takes as long as the list of blocks, which has an entry for many MiB of rows. Nothing else here
 * takes longer the more rows there are, but for a snapshot.
 *
 * Owner:   one table.
 * Thread:  the shard's actor only, and lanes that it waits for (cadre_row_pages_is_owned); but a
 *          fork may be handed to another thread, and the chunks of a snapshot may be read and
 *          released on any. Blocks are counted as chunks are, and as with these a count of one
 *          cannot grow behind its holder's back.
 */
#ifndef CADRE_PS_CORE_TABLE_ROW_PAGES_H
#define CADRE_PS_CORE_TABLE_ROW_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/limits.h"
#include "common/tensor/chunk.h"
#include "ps/core/values/chunk_pool.h"

enum { CADRE_ROW_PAGE_SIZE_MAX = 64 << 10 }; /* unless a single row is larger */

/* What a page has of each row, in bytes. */
typedef struct {
    size_t value_size; /* all values of a row */
    size_t slot_count;
    size_t slot_sizes[CADRE_OPTIMIZER_SLOTS_MAX]; /* slot s of a row */
    bool has_uses;                                /* rows count their updates */
} cadre_row_layout_t;

typedef struct cadre_row_pages cadre_row_pages_t;

/* Some rows by number, and those that will be wanted next. Of the latter a number of no row may
 * stand for none. */
typedef struct {
    const uint32_t *items; /* [count + next] */
    size_t count;
    size_t next;
} cadre_row_numbers_t;

/* References to the pages that have changed since an earlier snapshot, and what else is needed to
 * go on from there. */
typedef struct {
    uint64_t number;        /* of this snapshot; the next one may ask for what comes after it */
    uint64_t row_end;       /* rows of all pages up to here have been in use */
    int64_t free_row;       /* the one that is handed out next; -1: there is none */
    size_t count;           /* pages */
    uint32_t *positions;    /* of each page in the table */
    cadre_chunk_t **chunks; /* its bytes */
} cadre_row_snapshot_t;

/* Returns an empty store of rows. `pool` is borrowed and must outlive it. */
cadre_row_pages_t *cadre_row_pages_new(const cadre_row_layout_t *layout, cadre_chunk_pool_t *pool);

void cadre_row_pages_destroy(cadre_row_pages_t **self_p);

/* Gives a row to `key`; its values and slots are arbitrary, its uses 0. */
uint32_t cadre_row_pages_add(cadre_row_pages_t *self, uint64_t key);

/* Takes a row that is in use back. */
void cadre_row_pages_remove(cadre_row_pages_t *self, uint32_t row);

/* Returns how many rows a page has. */
uint32_t cadre_row_pages_per_page(const cadre_row_pages_t *self);

/* Gives the key of row number `place` of a page of the same layout, and returns whether that row is
 * in use. `bytes` are as many as a page has, aligned for u64. */
bool cadre_row_pages_peek(const cadre_row_pages_t *self, const void *bytes, uint32_t place,
                          uint64_t *key);

/* Where rows are copied from: pages of another store, perhaps of another layout, but with values of
 * as many bytes. */
typedef struct {
    const cadre_row_pages_t *pages;       /* whose layout it is; its own rows do not matter */
    int slots[CADRE_OPTIMIZER_SLOTS_MAX]; /* which of its slots each slot becomes; -1: none */
    bool keeps_steps;                     /* the update that changed a row last is copied */
} cadre_row_source_t;

/* Copies values, uses, and what else the source says, from row number `place` of one of its pages
 * to a row that was just added. A slot that no slot becomes stays arbitrary. */
void cadre_row_pages_copy(cadre_row_pages_t *self, uint32_t row, const cadre_row_source_t *source,
                          const void *bytes, uint32_t place);

/* Returns the bytes of a page, and where in it values, and the bits of rows in use, begin. */
size_t cadre_row_pages_page_size(const cadre_row_pages_t *self);
size_t cadre_row_pages_value_offset(const cadre_row_pages_t *self);
size_t cadre_row_pages_used_offset(const cadre_row_pages_t *self);

/* Returns how many rows are in use. */
uint64_t cadre_row_pages_count(const cadre_row_pages_t *self);

/* Returns the number that all rows were ever below. */
uint64_t cadre_row_pages_end(const cadre_row_pages_t *self);

/* Returns whether a row below the end is in use. */
bool cadre_row_pages_used(const cadre_row_pages_t *self, uint32_t row);

uint64_t cadre_row_pages_key(const cadre_row_pages_t *self, uint32_t row);

/* Returns the update that changed a row last, and how many did (0 where these are not counted). */
uint32_t cadre_row_pages_step(const cadre_row_pages_t *self, uint32_t row);
uint32_t cadre_row_pages_uses(const cadre_row_pages_t *self, uint32_t row);

/* Returns whether a row stands in a page that nobody else holds, and that is marked as changed.
 * What changes the row then changes nothing else, and several threads may change a row each. */
bool cadre_row_pages_is_owned(const cadre_row_pages_t *self, uint32_t row);

/* Says that update number `step` changes a row, which is one use more. */
void cadre_row_pages_touch(cadre_row_pages_t *self, uint32_t row, uint32_t step);

/* Says so of many rows. A number of no row may stand for none. */
void cadre_row_pages_touch_all(cadre_row_pages_t *self, const uint32_t *rows, size_t count,
                               uint32_t step);

/* Halves the uses of a row: what was long ago counts less. */
void cadre_row_pages_halve(cadre_row_pages_t *self, uint32_t row);

/* Returns the values (slot < 0) or a slot of a row, to be read. */
const void *cadre_row_pages_read(const cadre_row_pages_t *self, uint32_t row, int slot);

/* Returns the values (slot < 0) or a slot of a row, to be written before the next call; copies the
 * page first where somebody else holds it. */
void *cadre_row_pages_write(cadre_row_pages_t *self, uint32_t row, int slot);

/* Copies the values (slot < 0) or a slot of some rows to `out`, one after the other, and asks the
 * CPU for those of the next ones. */
void cadre_row_pages_gather(const cadre_row_pages_t *self, int slot,
                            const cadre_row_numbers_t *rows, void *out);

/* Copies them back, into pages that nobody else holds then. */
void cadre_row_pages_scatter(cadre_row_pages_t *self, int slot, const cadre_row_numbers_t *rows,
                             const void *from);

/* Ask the CPU to fetch the key of a row; the update that changed it last; its values and slots. */
void cadre_row_pages_prefetch(const cadre_row_pages_t *self, uint32_t row);
void cadre_row_pages_prefetch_step(const cadre_row_pages_t *self, uint32_t row);
void cadre_row_pages_prefetch_numbers(const cadre_row_pages_t *self, uint32_t row);

/* Returns a store with the same rows as these now, for snapshot `number`, which is above 0 and
 * those of the snapshots before: a change of one does not show in the other. */
cadre_row_pages_t *cadre_row_pages_fork(cadre_row_pages_t *self, uint64_t number);

/* Says that what changes from now on has changed after snapshot `number`, or a later one that was
 * named before. */
void cadre_row_pages_begin(cadre_row_pages_t *self, uint64_t number);

/* Takes references to all pages that have changed since snapshot `since`; 0: to all pages. This
 * snapshot has `number`, which is above 0 and those of the snapshots before. The caller ends it
 * with cadre_row_snapshot_fini, on any one thread. */
void cadre_row_pages_snapshot(cadre_row_pages_t *self, uint64_t since, uint64_t number,
                              cadre_row_snapshot_t *out);

/* Loading puts the pages of a snapshot into an empty store: begin, each page once, end. Whoever has
 * several snapshots loads the newest page of each position. The store goes on where the snapshot
 * was taken: it hands out the same rows, and its next snapshot may leave out what that one and
 * those before it have.
 *
 * Begin fails with CADRE_ECORRUPT when there cannot be so many rows. It looks at the numbers of the
 * snapshot alone. */
int cadre_row_pages_load_begin(cadre_row_pages_t *self, const cadre_row_snapshot_t *snapshot);

/* Puts a copy of a page in its position. Fails with CADRE_ECORRUPT when the bytes are of another
 * size, or there is no such position, or a page in it. */
int cadre_row_pages_load(cadre_row_pages_t *self, uint32_t position, const void *bytes,
                         size_t size_bytes);

/* Returns the first row of a page, and the first one behind it. */
uint32_t cadre_row_pages_first(const cadre_row_pages_t *self, uint32_t position);
uint32_t cadre_row_pages_after(const cadre_row_pages_t *self, uint32_t position);

/* Ends loading. Fails with CADRE_ECORRUPT when a page is missing, or rows are neither in use nor
 * free. */
int cadre_row_pages_load_end(cadre_row_pages_t *self);

void cadre_row_snapshot_fini(cadre_row_snapshot_t *snapshot);

/* Gives some of the memory back that pages have left which were replaced, and moves some that stand
 * alone between such: each call a little, after each update, the more the more keys it has. */
void cadre_row_pages_trim(cadre_row_pages_t *self, size_t key_count);

/* Returns the bytes of all pages and of what finds them; and about how many more they would be with
 * `count` more rows. Neither counts copies that snapshots hold, nor places of slabs that are free:
 * these depend on when a snapshot was written, and not on the updates alone. */
uint64_t cadre_row_pages_size_bytes(const cadre_row_pages_t *self);
uint64_t cadre_row_pages_growth(const cadre_row_pages_t *self, uint64_t count);

/* Returns the bytes of slabs (page_slabs.h) that have memory: of most pages of a large table, of
 * copies that snapshots hold, and of free places. */
uint64_t cadre_row_pages_slab_bytes(const cadre_row_pages_t *self);

#endif
