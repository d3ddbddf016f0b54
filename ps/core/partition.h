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
#include "ps/core/chunk_pool.h"
#include "ps/core/optimizer.h"
#include "ps/core/partition_spec.h"

typedef struct cadre_partition cadre_partition_t;

enum { CADRE_PARTITION_PIECE_COUNT = 65536 }; /* elements of a piece of an update, at most */

/* One gradient of those that an update sums, and the factor that it counts with. */
typedef struct {
    cadre_chunk_t *const *chunks; /* as in the wire layout */
    float weight;
} cadre_gradient_term_t;

/* What an update applies to a partition: the weighted sum of `count` gradients, added in this
 * order. The optimizer `add` takes them unweighted. */
typedef struct {
    const cadre_gradient_term_t *terms;
    size_t count;
} cadre_gradient_sum_t;

/* A stretch of one chunk that an update changes. The pieces of all partitions of one update may be
 * applied at once, on any threads. */
typedef struct {
    const cadre_partition_t *partition;
    cadre_gradient_sum_t gradient;     /* of the partition */
    size_t chunk;                      /* number of the one that this is a stretch of, */
    size_t first;                      /* and its first element there */
    cadre_optimizer_stretch_t stretch; /* its gradient is that of the first term */
} cadre_partition_piece_t;

/* References to everything of one moment. */
typedef struct {
    uint64_t version;
    uint64_t steps;
    size_t chunk_count;
    size_t slot_count;
    cadre_chunk_t **values;                           /* chunk_count of them */
    cadre_chunk_t **slots[CADRE_OPTIMIZER_SLOTS_MAX]; /* slot_count lists of chunk_count */
} cadre_partition_snapshot_t;

/* A partition with its initial values, at version 0. CADRE_EINVALID for rows outside the variable
 * or a bad spec, CADRE_EDTYPE when initializer or optimizer do not suit the dtype, CADRE_ETOOLARGE
 * on overflow. `pool` is borrowed and must outlive the partition. */
int cadre_partition_open(cadre_partition_t **self_p, const cadre_partition_spec_t *spec,
                         cadre_chunk_pool_t *pool);

/* The same without its initial values: every chunk is written once, by cadre_partition_initialise
 * or to cadre_partition_blank, before anything else is done to the partition. Different chunks may
 * be written on different threads. */
int cadre_partition_open_blank(cadre_partition_t **self_p, const cadre_partition_spec_t *spec,
                               cadre_chunk_pool_t *pool);

/* Writes what chunk `k` of the values (slot < 0) or of slot number `slot` begins with. */
void cadre_partition_initialise(cadre_partition_t *self, int slot, size_t k);

/* The bytes of chunk `k` of values or slot, to be written. */
void *cadre_partition_blank(cadre_partition_t *self, int slot, size_t k);

/* Drops the partition's references; NULL inside is fine. */
void cadre_partition_close(cadre_partition_t **self_p);

const cadre_partition_spec_t *cadre_partition_spec(const cadre_partition_t *self);
const cadre_chunk_layout_t *cadre_partition_layout(const cadre_partition_t *self);

/* The same elements chunk by chunk, in the wire dtype. */
const cadre_chunk_layout_t *cadre_partition_wire_layout(const cadre_partition_t *self);

uint64_t cadre_partition_version(const cadre_partition_t *self);
uint64_t cadre_partition_steps(const cadre_partition_t *self);

/* Puts a reference to each value chunk into `chunks`, which has room for layout->count; the caller
 * drops them. All are of the version that cadre_partition_version tells. */
void cadre_partition_pull(const cadre_partition_t *self, cadre_chunk_t **chunks);

/* Makes the values of this version ready for the wire, into the buffers of the version before where
 * nobody else holds them. CADRE_ENOTFINITE when a finite one would be infinite in the wire dtype.
 */
int cadre_partition_make_wire(cadre_partition_t *self);

/* As cadre_partition_pull, in the wire dtype, for which cadre_partition_make_wire has made this
 * version ready. */
void cadre_partition_pull_wire(const cadre_partition_t *self, cadre_chunk_t **chunks);

/* Checks bytes that are to be assigned: CADRE_ESHAPE when the number or a size of the chunks
 * differs from the layout, CADRE_ENOTFINITE when a number is infinite or NaN. Chunks may be
 * unaligned. */
int cadre_partition_check(const cadre_partition_t *self, cadre_chunk_t *const *chunks,
                          size_t count);

/* The same for a gradient, which is in the wire dtype. */
int cadre_partition_check_gradient(const cadre_partition_t *self, cadre_chunk_t *const *chunks,
                                   size_t count);

/* Checks the number and sizes of the chunks alone, and the numbers of one chunk alone: the two
 * halves of cadre_partition_check_gradient, of which the second may be called on any thread. */
int cadre_partition_check_gradient_sizes(const cadre_partition_t *self,
                                         cadre_chunk_t *const *chunks, size_t count);
bool cadre_partition_is_finite(const cadre_partition_t *self, const cadre_chunk_t *gradient);

/* Applies one gradient, chunk by chunk as in the wire layout, and adds one to version and steps.
 * The caller has checked `chunks` with cadre_partition_check_gradient (all partitions of an update
 * before applying the first). */
void cadre_partition_apply(cadre_partition_t *self, cadre_chunk_t *const *chunks);

/* The same in three steps, of which the middle one may go on many threads: begin makes room and
 * gives the pieces, of which there are cadre_partition_piece_count; each is applied once; end
 * publishes them. Nothing else may be done to the partition in between, and the gradient's terms
 * stay until then. */
size_t cadre_partition_piece_count(const cadre_partition_t *self);
void cadre_partition_begin_apply(cadre_partition_t *self, const cadre_gradient_sum_t *gradient,
                                 cadre_partition_piece_t *pieces);
void cadre_partition_apply_piece(const cadre_partition_piece_t *piece);
void cadre_partition_end_apply(cadre_partition_t *self);

/* Sets the values, or adds to or subtracts from them, and adds one to the version; slots stay. The
 * caller has checked `chunks`. */
void cadre_partition_assign(cadre_partition_t *self, cadre_assign_mode_t mode,
                            cadre_chunk_t *const *chunks);

/* Returns another partition that is what this one is now and shares its chunks: what is done to one
 * of them does not show in the other. */
cadre_partition_t *cadre_partition_fork(const cadre_partition_t *self);

/* Takes references to everything. The caller ends it with cadre_partition_snapshot_fini, on any one
 * thread. */
void cadre_partition_snapshot(const cadre_partition_t *self, cadre_partition_snapshot_t *out);

void cadre_partition_snapshot_fini(cadre_partition_snapshot_t *snapshot);

/* What version and steps were at the checkpoint: the end of a load. */
void cadre_partition_restore_counts(cadre_partition_t *self, uint64_t version, uint64_t steps);

#endif
