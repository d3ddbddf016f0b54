/*
 * snapshot_writer - writes a shard's snapshot to its checkpoint file.
 *
 * Thread:  any one, which has the snapshot to itself.
 */
#ifndef CADRE_PS_SNAPSHOT_WRITER_H
#define CADRE_PS_SNAPSHOT_WRITER_H

#include <stdbool.h>

#include "ps/core/ps_core.h"
#include "ps/core/shard.h"
#include "ps/folders.h"

/* Writes the snapshot to DIRECTORY/shard-<index>.mdb, which must be in one of the folders; syncs
 * and hashes the file, and says in `written` what became of it. On failure `written` has the
 * status, and the file is removed. Asks `give_up` before every chunk, and fails with
 * CADRE_ECANCELLED when that returns true. Drops the reference to a chunk as soon as its bytes are
 * copied, so that an update which comes meanwhile has to copy only chunks that are not written yet.
 */
void cadre_snapshot_write(cadre_shard_snapshot_t *snapshot, const cadre_folders_t *folders,
                          bool (*give_up)(void *context), void *context,
                          cadre_ps_written_t *written);

#endif
