/*
 * table - the rows of a sparse variable that one shard has, by 64-bit key.
 *
 * Every key has values: those of its row, or, before it has one, its first values, which are a
 * function of seed, key and column alone, whatever the number of shards and the order of updates.
 * Reading changes nothing. The first update of a key gives it a row; with admit_after > 1 a later
 * one does, by a sketch that counts sightings (sighting_sketch.h), and the gradients before it are
 * dropped.
 *
 * An update names each key once, in ascending order. It is checked as a whole before anything is
 * changed; after the check it cannot fail. All that it does, evictions included, follows from the
 * updates before it: no clock, no random numbers, nothing of pulls.
 *
 * Rows stand in pages that are copied on write (row_pages.h), so that a snapshot takes references.
 * A fork goes its own way from where the table stands, and takes no longer the more rows there are,
 * but for the lists of row_pages.h and row_index.h.
 *
 * Owner:   one shard.
 * Thread:  the shard's actor only, and the lanes of an update while it is checked or pushed; but a
 *          fork that was frozen may be handed to another thread, and the chunks of a snapshot may
 *          be read and released on any.
 */
#ifndef CADRE_PS_CORE_TABLE_TABLE_H
#define CADRE_PS_CORE_TABLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/checkpoint/table_file.h"
#include "common/spec/table_spec.h"
#include "common/wire/message.h"
#include "ps/core/table/row_pages.h"
#include "ps/core/table/row_reader.h"
#include "ps/core/table/sighting_sketch.h"
#include "ps/core/table/stored_rows.h"
#include "ps/core/table/table_update.h"
#include "ps/core/values/chunk_pool.h"

typedef struct cadre_table cadre_table_t;

typedef struct {
    uint64_t rows;
    uint64_t version;    /* updates and assignments that were applied */
    uint64_t steps;      /* updates that were applied: the t of adam */
    uint64_t created;    /* rows, ever */
    uint64_t evicted;    /* to make room for others */
    uint64_t expired;    /* too old or too small */
    uint64_t unadmitted; /* gradients dropped because their key was not yet seen often enough */
    uint64_t size_bytes; /* of pages, index and sketch */
} cadre_table_figures_t;

/* A table at one moment: pages that have changed since an earlier one, and what else decides how
 * the table goes on. */
typedef struct {
    cadre_row_snapshot_t rows;
    cadre_table_figures_t figures;
    uint32_t victim_hand; /* those of row_eviction.h */
    uint32_t expiry_hand;
    cadre_sighting_sketch_t *sketch; /* a copy; NULL where keys are admitted at once */
} cadre_table_snapshot_t;

/* Makes a table without rows. Fails as cadre_table_spec_check. `pool` is borrowed and must outlive
 * the table. */
int cadre_table_open(cadre_table_t **self_p, const cadre_table_spec_t *spec,
                     cadre_chunk_pool_t *pool);

/* Drops all rows; NULL inside is fine. */
void cadre_table_close(cadre_table_t **self_p);

const cadre_table_spec_t *cadre_table_get_spec(const cadre_table_t *self);

/* Gives the table another schedule of its learning rate, for the updates from now on. */
void cadre_table_reschedule(cadre_table_t *self, const cadre_schedule_spec_t *schedule);

/* Returns whether a key has a row. */
bool cadre_table_has(const cadre_table_t *self, uint64_t key);

/* Writes the values of `count` keys, in any order and as often as they are named, to `values`:
 * [count, dim] of `dtype`, f32 or bf16. Fails with CADRE_ENOTFINITE when a finite value is infinite
 * as bf16; `values` may then be partly written. */
int cadre_table_pull(cadre_table_t *self, cadre_dtype_t dtype, size_t count, const uint64_t *keys,
                     void *values);

/* Does the same with rows that go into chunks, or with the help of lanes. */
int cadre_table_pull_rows(cadre_table_t *self, const cadre_row_pull_t *pull);

/* Returns how many slots the optimizer keeps, and how many numbers of each a row has. */
size_t cadre_table_slot_count(const cadre_table_t *self);
size_t cadre_table_slot_width(const cadre_table_t *self);

/* Writes slot number `slot`, below cadre_table_slot_count, of `count` keys, in any order and as
 * often as they are named, to `numbers`: [count, cadre_table_slot_width]. A key without a row has
 * what the slot begins with. */
void cadre_table_pull_slot(const cadre_table_t *self, size_t slot, size_t count,
                           const uint64_t *keys, float *numbers);

/* Notes in `unchanged` which of `count` keys have the values that they had at a version of this
 * table: `held` is of each that version plus 1, or 0, which is never unchanged. What was assigned
 * to, and any key without a row once one was removed, may count as changed though it is not. */
void cadre_table_find_unchanged(cadre_table_t *self, size_t count, const uint64_t *keys,
                                const uint64_t *held, bool *unchanged);

/* Checks an update. Fails with
 *
 * CADRE_EINVALID: keys do not ascend.
 * CADRE_ETOOLARGE: there are more keys than CADRE_TABLE_KEYS_MAX.
 * CADRE_ENOTFINITE: a number is infinite or NaN.
 * CADRE_EFULL: the table would have more rows than rows_max and evicts none; or it does, and there
 *   are more keys than rows_max. */
int cadre_table_check(const cadre_table_t *self, const cadre_table_update_t *update);

/* Applies an update that was checked, and evicts rows that are due: old and small ones, and of
 * those beyond rows_max as many as the update has keys and a few more. One whose keys ascend and
 * whose numbers are finite is also applied where it would be refused as CADRE_EFULL or
 * CADRE_ETOOLARGE: keys for which there is no row are counted as not admitted. */
void cadre_table_push(cadre_table_t *self, const cadre_table_update_t *update);

/* Checks an assignment, whose keys may come in any order and again. Fails with CADRE_EFULL when the
 * table would have more rows than rows_max and evicts none, or has no room for the keys alone. */
int cadre_table_check_assign(const cadre_table_t *self, const cadre_table_update_t *update);

/* Assigns to rows by mode (ps/core/values/assignment.h), one after the other; slots stay. A key
 * without a row gets one, with its first values, whether or not it was seen often enough. Where
 * that evicts rows, first those go that the newest update has not changed and no assignment since,
 * then others, but none of these keys. */
void cadre_table_assign(cadre_table_t *self, cadre_assign_mode_t mode,
                        const cadre_table_update_t *update);

/* Returns about how many bytes larger the table can be after an update or assignment of these keys,
 * each of which is looked for; of any `count` keys where `keys` is NULL. */
uint64_t cadre_table_growth(const cadre_table_t *self, size_t count, const uint64_t *keys);

/* Returns a table that goes on from where this one stands, for snapshot `number` of this one, which
 * is above 0 and those of the snapshots before: a change of one does not show in the other. */
cadre_table_t *cadre_table_fork(cadre_table_t *self, uint64_t number);

/* Drops of a fork what only pulls and changes need. From now on nothing but its snapshot may be
 * taken, once, and the fork closed, on any one thread. */
void cadre_table_freeze(cadre_table_t *self);

/* Says that what changes from now on has changed after snapshot `number`, as of a table that was
 * made or loaded after it. */
void cadre_table_begin(cadre_table_t *self, uint64_t number);

/* Takes references to all pages that have changed since an earlier snapshot, as
 * cadre_row_pages_snapshot does. The caller ends it with cadre_table_snapshot_fini, on any one
 * thread. */
void cadre_table_snapshot(cadre_table_t *self, uint64_t since, uint64_t number,
                          cadre_table_snapshot_t *out);

void cadre_table_snapshot_fini(cadre_table_snapshot_t *snapshot);

/* Describes a snapshot of this table, or of one of the same spec, for a checkpoint; the caller
 * fills in what is not the table's: stamp, base, base_stamp, shard and shards. */
void cadre_table_describe(const cadre_table_t *self, const cadre_table_snapshot_t *snapshot,
                          cadre_table_record_t *out);

/* Compares the rows that a checkpoint describes with those of this table, as cadre_stored_rows_init
 * does: where they are the same they are loaded, else adopted. The caller ends `out` after success.
 * Fails with CADRE_ESHAPE when rows have another dim or storage, with CADRE_ECORRUPT for what is no
 * table's. */
int cadre_table_compare(const cadre_table_t *self, const cadre_table_record_t *record,
                        cadre_stored_rows_t *out);

/* Returns the snapshot that a checkpoint describes, without pages and sightings. */
cadre_table_snapshot_t cadre_table_described(const cadre_table_record_t *record);

/* Loading makes a table without rows what it was when a snapshot was taken: begin, then each page
 * once, then end (cadre_row_pages_load_begin has more). The spec is that of then; a table that was
 * loaded goes on, bit by bit, like the one that the snapshot was taken of; but admission may be
 * turned off, and sightings are forgotten then, or on, and keys are counted from now on. Each fails
 * with CADRE_ECORRUPT for what no such snapshot has; the table is only good to be closed then.
 * Begin borrows the snapshot, and does not look at its pages. */
int cadre_table_load_begin(cadre_table_t *self, const cadre_table_snapshot_t *snapshot);
int cadre_table_load_page(cadre_table_t *self, uint32_t position, const void *bytes,
                          size_t size_bytes);
int cadre_table_load_end(cadre_table_t *self);

/* Goes on with the sightings of another sketch, which is taken, where the table counts them; else
 * drops it. */
void cadre_table_take_sightings(cadre_table_t *self, cadre_sighting_sketch_t **sketch_p);

/* Takes those rows of a page that belong to `shard` of `shard_count`: for a table that was on
 * another number of shards, or kept its rows otherwise, as `stored` says. The page is the newest of
 * its position; its bytes are aligned for u64. Rows beyond rows_max are taken too, and evicted, or
 * no others made, later. The hands stand at the first row. Fails with
 * CADRE_ECORRUPT when the bytes are of another size, or a key has a row already. */
int cadre_table_adopt_page(cadre_table_t *self, const cadre_stored_rows_t *stored,
                           const void *bytes, size_t size_bytes, uint32_t shard,
                           uint32_t shard_count);

/* Says how often a table was changed that rows were taken of: version and steps are the most of all
 * from now on, unless `stored` says that steps begin at 0. */
void cadre_table_adopt_counts(cadre_table_t *self, const cadre_stored_rows_t *stored,
                              const cadre_table_figures_t *figures);

/* Returns the version, as the figures have it. */
uint64_t cadre_table_version(const cadre_table_t *self);

cadre_table_figures_t cadre_table_figures(const cadre_table_t *self);

#endif
