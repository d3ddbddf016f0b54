/*
 * checkpoint_manifest - the job's catalogue and counters as a checkpoint's manifest, and back.
 *
 * Thread: under the coordinator's lock. No files: common/checkpoint writes and reads the manifest.
 */
#ifndef CADRE_COORDINATOR_CORE_CHECKPOINT_CHECKPOINT_MANIFEST_H
#define CADRE_COORDINATOR_CORE_CHECKPOINT_CHECKPOINT_MANIFEST_H

#include <cadre/coordinator.h>

#include "common/checkpoint/manifest.h"
#include "coordinator/core/checkpoint/checkpoint.h"

/* Builds the manifest of the checkpoint that is about to be committed, without `created`, which the
 * store fills in when it writes the file. The caller ends and frees the manifest. CADRE_EINVALID
 * when the progress record is no JSON object, CADRE_ESTATE when a shard has written the values of
 * another synchronous step than the cut lies after. */
int cadre_checkpoint_manifest(const cadre_checkpoint_t *self, cadre_manifest_t **manifest);

/* Reads the totals that a manifest holds (its own checkpoint is counted) and the user's progress
 * record, as text that the caller frees (NULL when there is none). CADRE_EMALFORMED when the
 * manifest's record was not written by a coordinator. */
int cadre_checkpoint_totals(const cadre_manifest_t *manifest, cadre_totals_t *totals,
                            char **progress);

/* Reads the sequence numbers that a manifest holds into an empty set, which the caller must end
 * even when this fails. CADRE_EMALFORMED when they are no ascending list. */
int cadre_checkpoint_sequences(const cadre_manifest_t *manifest, cadre_sequences_t *sequences);

#endif
