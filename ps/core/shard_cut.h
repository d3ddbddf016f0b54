/*
 * shard_cut - the cut of a checkpoint on one shard.
 *
 * Owner:   one shard. Thread: its.
 *
 * A core: no socket, thread, clock or file. From SNAPSHOT, or from the first PUSH or ASSIGN that
 * says that it comes after the cut, until CLOSE_CUT every part has an image: a fork that shares its
 * chunks. What belongs below the cut and comes only now (a straggler) is applied to both, so that
 * at the end the images hold exactly what is below the cut, and nobody has waited.
 *
 * One window of applied updates serves both: it has the bit of a straggler that the image has,
 * because the two are applied in one turn, and what lies above the cut never touches the image.
 */
#ifndef CADRE_PS_CORE_SHARD_CUT_H
#define CADRE_PS_CORE_SHARD_CUT_H

#include "ps/core/ps_counters.h"
#include "ps/core/shard_parts.h"
#include "ps/core/shard_snapshot.h"

typedef struct cadre_shard_cut cadre_shard_cut_t;

/* No cut has been opened. */
cadre_shard_cut_t *cadre_shard_cut_new(void);
void cadre_shard_cut_destroy(cadre_shard_cut_t **self_p);

/* Drops the images: no cut has been opened. */
void cadre_shard_cut_clear(cadre_shard_cut_t *self);

/* Opens the cut of `checkpoint`, unless that, or a later one, was opened before. */
void cadre_shard_cut_open(cadre_shard_cut_t *self, uint64_t checkpoint, uint64_t cut,
                          const cadre_shard_parts_t *parts, const cadre_ps_counters_t *counters);

/* Opens the cut as SNAPSHOT says, who speaks for the coordinator: a later one that is open is of a
 * number that no coordinator ever said, and goes. CADRE_EFENCED when it came after a later one,
 * CADRE_EINVALID when that checkpoint's cut was opened elsewhere. */
int cadre_shard_cut_confirm(cadre_shard_cut_t *self, const cadre_snapshot_message_t *message,
                            const cadre_shard_parts_t *parts, const cadre_ps_counters_t *counters);

/* Closes the cut: `out` is a snapshot of its images, which it lacks its session and shard; or stays
 * as it is when the message was retransmitted. CADRE_ESTATE when that cut is not open. */
int cadre_shard_cut_close(cadre_shard_cut_t *self, const cadre_close_cut_message_t *message,
                          const cadre_shard_parts_t *parts, cadre_shard_snapshot_t **out);

/* Drops the images of this checkpoint, which is over, and of those before it. */
void cadre_shard_cut_end(cadre_shard_cut_t *self, uint64_t checkpoint);

/* Frees the image that an open cut holds of a partition, because its variable is dropped. */
void cadre_shard_cut_drop(cadre_shard_cut_t *self, const cadre_shard_part_t *part);

/* Whether a cut is open and the update, or what was assigned after the cut of `checkpoint`, belongs
 * below it: it is a straggler. */
bool cadre_shard_cut_is_below(const cadre_shard_cut_t *self, uint64_t update);
bool cadre_shard_cut_is_before(const cadre_shard_cut_t *self, uint64_t checkpoint);

/* What the open cut holds of a part, for a straggler to be applied to; NULL: it is younger. */
cadre_partition_t *cadre_shard_cut_image(const cadre_shard_cut_t *self,
                                         const cadre_shard_part_t *part);

/* Counts a straggler. */
void cadre_shard_cut_note_update(cadre_shard_cut_t *self, uint64_t size_bytes, uint64_t staleness);
void cadre_shard_cut_note_assign(cadre_shard_cut_t *self);

#endif
