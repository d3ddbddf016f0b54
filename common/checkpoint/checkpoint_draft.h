/*
 * checkpoint_draft - a checkpoint that is being built, in a temporary directory until its commit.
 *
 * Owner:   the coordinator, which has one draft at a time.
 * Thread:  as for checkpoint_directory.h, which describes the commit.
 */
#ifndef CADRE_COMMON_CHECKPOINT_CHECKPOINT_DRAFT_H
#define CADRE_COMMON_CHECKPOINT_CHECKPOINT_DRAFT_H

#include "common/checkpoint/checkpoint_directory.h"

typedef struct cadre_checkpoint_draft cadre_checkpoint_draft_t;

/* Starts checkpoint `id` in a fresh temporary directory; the draft must end before `directory`
 * does. CADRE_EEXISTS when the checkpoint exists, CADRE_EIO. */
int cadre_checkpoint_draft_begin(cadre_checkpoint_directory_t *directory, uint64_t id,
                                 cadre_checkpoint_draft_t **out);

/* Returns the path of the temporary directory, into which shards write: DIR as it was given, and
 * its name. Valid as long as the draft. */
const char *cadre_checkpoint_draft_path(const cadre_checkpoint_draft_t *self);

/* Checks that `manifest` is for this id and that every file is there with its size, writes the
 * manifest, fsyncs everything and renames the directory into place. Ends the draft and nulls the
 * pointer; on failure the temporary directory is removed, and other checkpoints stay as they were.
 * CADRE_EINVALID, CADRE_ECORRUPT, CADRE_EIO; CADRE_EIO also when only the very last fsync, of DIR,
 * failed: the checkpoint is then visible, but the caller must not count on it. */
int cadre_checkpoint_draft_commit(cadre_checkpoint_draft_t **self_p,
                                  const cadre_manifest_t *manifest);

/* Removes the temporary directory and frees the draft. *self_p may be NULL. */
void cadre_checkpoint_draft_abort(cadre_checkpoint_draft_t **self_p);

#endif
