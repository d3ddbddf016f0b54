/*
 * partition - the rows of one variable that a shard serves: values, optimizer slots, version. Copy
 * on write.
 *
 * Values and slots are chunks (common/tensor/chunk.h) cut by one layout. A chunk that somebody else
 * holds - a pull that is still being sent, a snapshot that is still being written - never changes:
 * an update writes it in place only when the partition is alone with it, otherwise into another
 * buffer, which then takes its place. So whoever took references has one version for good, and
 * neither waits for the other. An update is checked as a whole before anything is written; after
 * the check it cannot fail.
 *
 * The version counts every change, assignments included, so that "unchanged since version v" is
 * true. Steps count optimizer updates only: the t of Adam's bias correction.
 *
 * Where the wire dtype is another than the variable's (common/spec/wire_dtype.h), gradients are
 * converted before the optimizer sees them, and pulls of workers get a copy of the values that is
 * converted when the first of them asks for a version, and kept until the next version.
 *
 * With delay compensation the values that workers pulled last are kept (pulled_versions.h). An
 * assignment lets them go: what it changes is no delay.
 *
 * Owner:   one shard.
 * Thread:  the shard's actor only; the chunks it hands out may be read and released on any thread.
 */
#ifndef CADRE_PS_CORE_PARTITION_H
#define CADRE_PS_CORE_PARTITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/tensor/chunk.h"
#include "common/tensor/chunk_layout.h"
#include "common/tensor/tensor.h"
#include "common/wire/message.h"
#include "common/wire/row_list.h"
#include "ps/core/partition_spec.h"
#include "ps/core/values/chunk_pool.h"
#include "ps/core/values/optimizer.h"

typedef struct cadre_partition cadre_partition_t;

enum { CADRE_PARTITION_PIECE_COUNT = 65536 }; /* elements of a piece of an update, at most */

/* One of the gradients that an update sums, and its factor in the sum. */
typedef struct {
    /* Cut as the wire layout says; where it is one of rows, as row_gradient.h says. */
    cadre_chunk_t *const *chunks;
    size_t rows; /* the gradient is zero but in so many rows, which came; 0: all of it came */
    float weight;
    /* The values that it was computed from, where it is late and compensated for that; else NULL.
     * Not of a sum of several. */
    cadre_chunk_t *const *pulled;
} cadre_gradient_term_t;

/* What an update applies to a partition: the weighted sum of `count` gradients, added in this
 * order. The optimizer `add` takes them unweighted. */
typedef struct {
    const cadre_gradient_term_t *terms;
    size_t count;
} cadre_gradient_sum_t;

/* A span of one chunk that an update changes. The pieces of all partitions of one update may be
 * applied at once, on any threads. */
typedef struct {
    const cadre_partition_t *partition;
    cadre_gradient_sum_t gradient; /* gradient of the whole partition */
    size_t chunk;                  /* number of the chunk that this is a span of */
    size_t first;                  /* the span's first element in that chunk */
    cadre_optimizer_span_t span;   /* without a gradient */
} cadre_partition_piece_t;

/* References to the values and slots that a partition had at one moment. */
typedef struct {
    uint64_t version;
    uint64_t steps;
    size_t chunk_count;
    size_t slot_count;
    cadre_chunk_t **values;                           /* chunk_count of them */
    cadre_chunk_t **slots[CADRE_OPTIMIZER_SLOTS_MAX]; /* slot_count lists of chunk_count */
} cadre_partition_snapshot_t;

/* Makes a partition with its initial values, at version 0. Fails with CADRE_EINVALID for rows
 * outside the variable or a bad spec, CADRE_EDTYPE when initializer or optimizer do not suit the
 * dtype, CADRE_ETOOLARGE on overflow. `pool` is borrowed and must outlive the partition. */
int cadre_partition_open(cadre_partition_t **self_p, const cadre_partition_spec_t *spec,
                         cadre_chunk_pool_t *pool);

/* Makes a partition without initial values; fails as cadre_partition_open. The caller writes every
 * chunk once, by cadre_partition_initialise or through cadre_partition_blank, before it does
 * anything else with the partition. Different chunks may be written on different threads. */
int cadre_partition_open_blank(cadre_partition_t **self_p, const cadre_partition_spec_t *spec,
                               cadre_chunk_pool_t *pool);

/* Writes the initial numbers of chunk `k` of the values (slot < 0) or of slot number `slot`. */
void cadre_partition_initialise(cadre_partition_t *self, int slot, size_t k);

/* Copies chunk `k` of the values, which was written, to the running average. */
void cadre_partition_begin_average(cadre_partition_t *self, size_t k);

/* Returns the bytes of chunk `k` of the values (slot < 0) or of a slot, for the caller to write. */
void *cadre_partition_blank(cadre_partition_t *self, int slot, size_t k);

/* Drops the partition's references; NULL inside is fine. */
void cadre_partition_close(cadre_partition_t **self_p);

const cadre_partition_spec_t *cadre_partition_spec(const cadre_partition_t *self);

/* Gives the partition another schedule of its learning rate, for the updates from now on. */
void cadre_partition_reschedule(cadre_partition_t *self, const cadre_schedule_spec_t *schedule);

const cadre_chunk_layout_t *cadre_partition_layout(const cadre_partition_t *self);

/* Returns how the values are cut into chunks on the wire: as many elements each, in the wire
 * dtype. */
const cadre_chunk_layout_t *cadre_partition_wire_layout(const cadre_partition_t *self);

uint64_t cadre_partition_version(const cadre_partition_t *self);
uint64_t cadre_partition_steps(const cadre_partition_t *self);

/* Puts a reference to each value chunk into `chunks`, which has room for layout->count; the caller
 * drops them. All are of the version that cadre_partition_version tells. */
void cadre_partition_pull(const cadre_partition_t *self, cadre_chunk_t **chunks);

/* Notes that a worker has the values of this version now, for the delay compensation of the
 * gradient that it may push; does nothing where the partition has none. */
void cadre_partition_note_pulled(cadre_partition_t *self);

/* Returns the values that a gradient of this version was computed from, for its compensation; NULL
 * where the partition has none, or the version is kept no more: it is too old, or older than an
 * assignment. */
cadre_chunk_t *const *cadre_partition_pulled(const cadre_partition_t *self, uint64_t version);

/* Converts the values of this version to the wire dtype, unless that is done or not needed; reuses
 * the buffers of the version before where nobody else holds them. Fails with CADRE_ENOTFINITE when
 * a finite value would be infinite in the wire dtype. */
int cadre_partition_make_wire(cadre_partition_t *self);

/* Puts references to the values in the wire dtype into `chunks`, as cadre_partition_pull. The
 * caller has called cadre_partition_make_wire since the last change. */
void cadre_partition_pull_wire(const cadre_partition_t *self, cadre_chunk_t **chunks);

/* Returns how many elements a row has. */
uint64_t cadre_partition_row_elements(const cadre_partition_t *self);

/* Copies `count` elements from element `first` of the partition on to `to`: of the values in their
 * own dtype (slot < 0), or of slot number `slot`. */
void cadre_partition_copy(const cadre_partition_t *self, int slot, uint64_t first, size_t count,
                          void *to);

/* Copies values as cadre_partition_copy, and converts them to the wire dtype. Fails with
 * CADRE_ENOTFINITE as cadre_partition_make_wire. */
int cadre_partition_copy_wire(const cadre_partition_t *self, uint64_t first, size_t count,
                              void *to);

/* Returns the number of the slot that is the running average; it must have one. */
int cadre_partition_average_slot(const cadre_partition_t *self);

/* Returns how many slots the optimizer keeps, the running average included. */
size_t cadre_partition_slot_count(const cadre_partition_t *self);

/* Puts references to slot number `slot` into `chunks`, as cadre_partition_pull. */
void cadre_partition_pull_slot(const cadre_partition_t *self, size_t slot, cadre_chunk_t **chunks);

/* Returns whether a running average of the values is kept. */
bool cadre_partition_has_average(const cadre_partition_t *self);

/* Checks values that are to be assigned. Fails with CADRE_ESHAPE when number or sizes of the chunks
 * differ from the layout, with CADRE_ENOTFINITE when a value is infinite or NaN. Chunks may be
 * unaligned. */
int cadre_partition_check(const cadre_partition_t *self, cadre_chunk_t *const *chunks,
                          size_t count);

/* Checks a gradient, which is in the wire dtype; fails as cadre_partition_check. */
int cadre_partition_check_gradient(const cadre_partition_t *self, cadre_chunk_t *const *chunks,
                                   size_t count);

/* Checks the number and sizes of the chunks alone, and the numbers of one chunk alone: the two
 * halves of cadre_partition_check_gradient, of which the second may be called on any thread. */
int cadre_partition_check_gradient_sizes(const cadre_partition_t *self,
                                         cadre_chunk_t *const *chunks, size_t count);
bool cadre_partition_is_finite(const cadre_partition_t *self, const cadre_chunk_t *gradient);

/* Applies one gradient, cut as the wire layout says, and adds one to version and steps. The caller
 * has checked `chunks` with cadre_partition_check_gradient, for all partitions of an update before
 * the first is applied. */
void cadre_partition_apply(cadre_partition_t *self, cadre_chunk_t *const *chunks);

/* Apply a gradient, or a sum of several, in three steps, of which the middle one may run on many
 * threads: begin makes room and fills in cadre_partition_piece_count pieces; the caller has each
 * piece applied once; end puts the results in place. Nothing else may be done to the partition in
 * between, and the gradients must stay until the end. */
size_t cadre_partition_piece_count(const cadre_partition_t *self);
void cadre_partition_begin_apply(cadre_partition_t *self, const cadre_gradient_sum_t *gradient,
                                 cadre_partition_piece_t *pieces);
void cadre_partition_apply_piece(const cadre_partition_piece_t *piece);
void cadre_partition_end_apply(cadre_partition_t *self);

/* Apply the gradient of `count` elements from element `first` of the partition on, in the
 * variable's dtype and checked to be finite: a part of an update of some rows, while the others
 * rest, which no thread but this works at. End such an update: adds one to version and steps. */
void cadre_partition_apply_elements(cadre_partition_t *self, uint64_t first, size_t count,
                                    const void *gradient);
void cadre_partition_end_elements(cadre_partition_t *self);

/* Assigns to the values by mode (assignment.h), and adds one to the version; slots stay. The
 * caller has checked `chunks`. */
void cadre_partition_assign(cadre_partition_t *self, cadre_assign_mode_t mode,
                            cadre_chunk_t *const *chunks);

/* Assigns to some rows, one after the other, as cadre_partition_assign does to all; a row that is
 * named again is changed again. The rows are of the partition, and stand in `chunks` as a partition
 * of so many rows would, all numbers finite. */
void cadre_partition_assign_rows(cadre_partition_t *self, cadre_assign_mode_t mode,
                                 const cadre_part_rows_t *rows, cadre_chunk_t *const *chunks);

/* Returns a copy of the partition as it is now, which shares its chunks by copy on write: a change
 * of one does not show in the other. */
cadre_partition_t *cadre_partition_fork(const cadre_partition_t *self);

/* Takes references to the values and slots. The caller ends the snapshot with
 * cadre_partition_snapshot_fini, on any one thread. */
void cadre_partition_snapshot(const cadre_partition_t *self, cadre_partition_snapshot_t *out);

void cadre_partition_snapshot_fini(cadre_partition_snapshot_t *snapshot);

/* Sets version and steps to what they were at the checkpoint, after the values have been loaded. */
void cadre_partition_restore_counts(cadre_partition_t *self, uint64_t version, uint64_t steps);

#endif
