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

/* Writes DIRECTORY/shard-<index>.mdb, if that is in one of the folders, synced and hashed, and says
 * in `written` what became of it: a failure is a status there, with the file removed. Asks
 * `give_up` before every chunk and gives up (CADRE_ECANCELLED) when it answers true. Drops each
 * reference as soon as its bytes are in the file's hands, so that an update which comes meanwhile
 * copies only what is not written yet. */
void cadre_snapshot_write(cadre_shard_snapshot_t *snapshot, const cadre_folders_t *folders,
                          bool (*give_up)(void *context), void *context,
                          cadre_ps_written_t *written);

#endif
