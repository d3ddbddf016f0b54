/*
 * shard_cut - the cut of a checkpoint on one shard.
 *
 * Owner:   one shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. From SNAPSHOT, or from the first PUSH or ASSIGN that
 * says that it comes after the cut, until CLOSE_CUT every part has an image: a fork that shares its
 * chunks, or pages. An update below the cut that comes only now (a straggler) is applied to part
 * and image, so that at the end the images hold exactly what is below the cut, and nobody has
 * waited.
 *
 * Part and image share one window of applied updates: a straggler is applied to both in one turn,
 * so its bit is true of both, and an update above the cut never touches the image.
 */
#ifndef CADRE_PS_CORE_SHARD_CUT_H
#define CADRE_PS_CORE_SHARD_CUT_H

#include "ps/core/ps_counters.h"
#include "ps/core/shard_parts.h"
#include "ps/core/shard_snapshot.h"

enum {
    CADRE_CUTS_KNOWN_MAX = 64, /* closed cuts that are known; of tables nothing is left out since an
                                  earlier one */
};

/* The image of a part: of its two pointers one is NULL at least. */
typedef struct {
    cadre_partition_t *partition;
    cadre_table_t *table;
} cadre_shard_image_t;

typedef struct cadre_shard_cut cadre_shard_cut_t;

/* Returns an object that knows of no cut. */
cadre_shard_cut_t *cadre_shard_cut_new(void);
void cadre_shard_cut_destroy(cadre_shard_cut_t **self_p);

/* Drops the images and forgets all cuts, as of a new object. */
void cadre_shard_cut_clear(cadre_shard_cut_t *self);

/* Opens the cut of `checkpoint`, unless the cut of this or of a later checkpoint was opened
 * before. */
void cadre_shard_cut_open(cadre_shard_cut_t *self, uint64_t checkpoint, uint64_t cut,
                          const cadre_shard_parts_t *parts, const cadre_ps_counters_t *counters);

/* Opens the cut that SNAPSHOT names, or confirms that it is open. Fails with CADRE_EFENCED when the
 * cut of a later checkpoint was opened; if only a PUSH had named that one, not the coordinator, its
 * images are dropped, and the SNAPSHOT succeeds when it is repeated. Fails with CADRE_EINVALID when
 * the cut of this checkpoint was opened at another id. */
int cadre_shard_cut_confirm(cadre_shard_cut_t *self, const cadre_snapshot_message_t *message,
                            const cadre_shard_parts_t *parts, const cadre_ps_counters_t *counters);

/* Closes the cut: `out` becomes a snapshot of its images, in which the caller fills in epoch and
 * index. `writer` is a number that no other writer of checkpoints has: the stamp of what this one
 * writes follows from it and the checkpoint. Of tables pages are left out that checkpoint
 * message->since has, where this shard has written that one, or was loaded from it. Returns 0 and
 * leaves `out` alone for a retransmitted message. Fails with CADRE_ESTATE when that cut is not
 * open. */
int cadre_shard_cut_close(cadre_shard_cut_t *self, const cadre_close_cut_message_t *message,
                          uint64_t writer, const cadre_shard_parts_t *parts,
                          cadre_shard_snapshot_t **out);

/* Drops the images of this checkpoint, which has ended, or of an earlier one. */
void cadre_shard_cut_end(cadre_shard_cut_t *self, uint64_t checkpoint);

/* Frees the image that an open cut holds of a partition, because its variable is dropped. */
void cadre_shard_cut_drop(cadre_shard_cut_t *self, const cadre_shard_part_t *part);

/* Returns whether a cut is open and the update is a straggler: its id is below that cut. */
bool cadre_shard_cut_is_below(const cadre_shard_cut_t *self, uint64_t update);

/* Returns whether a cut is open and an assignment is a straggler: it was made before that cut.
 * `checkpoint`: the last one whose cut the assignment comes after. */
bool cadre_shard_cut_is_before(const cadre_shard_cut_t *self, uint64_t checkpoint);

/* Returns the image of a part, for a straggler to be applied to; NULLs for a part that was created
 * after the cut was opened. */
cadre_shard_image_t cadre_shard_cut_image(const cadre_shard_cut_t *self,
                                          const cadre_shard_part_t *part);

/* Returns the checkpoint of the last cut that was opened, or had ended. */
uint64_t cadre_shard_cut_checkpoint(const cadre_shard_cut_t *self);

/* Count a straggler, an update or an assignment, among what is below the cut. */
void cadre_shard_cut_note_update(cadre_shard_cut_t *self, uint64_t size_bytes, uint64_t rows,
                                 uint64_t staleness);
void cadre_shard_cut_note_assign(cadre_shard_cut_t *self);

/* Counts a straggler's gradient that is late, for an image: compensated, or as it came. */
void cadre_shard_cut_note_late(cadre_shard_cut_t *self, bool is_compensated);

#endif
