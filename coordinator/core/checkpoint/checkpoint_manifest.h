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

/* The manifest of the checkpoint that is about to be committed, but for `created`, which whoever
 * writes it fills in. The caller ends and frees it. CADRE_EINVALID when the progress record is no
 * JSON object. */
int cadre_checkpoint_manifest(const cadre_checkpoint_t *self, cadre_manifest_t **manifest);

/* The totals that a manifest holds, its own checkpoint counted, and the user's progress record as
 * text that the caller frees (NULL when none). CADRE_EMALFORMED when its record was not written by
 * a coordinator. */
int cadre_checkpoint_totals(const cadre_manifest_t *manifest, cadre_totals_t *totals,
                            char **progress);

/* The sequence numbers that it holds, into an empty set, which is to be ended also when this fails.
 * CADRE_EMALFORMED. */
int cadre_checkpoint_sequences(const cadre_manifest_t *manifest, cadre_sequences_t *sequences);

#endif
