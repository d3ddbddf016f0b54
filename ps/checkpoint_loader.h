/*
 * checkpoint_loader - the loader (ps/core/loader.h) that reads checkpoint files.
 *
 * Owner:   the load actor.
 * Thread:  its owner's, and `read` on its helpers'.
 */
#ifndef CADRE_PS_CHECKPOINT_LOADER_H
#define CADRE_PS_CHECKPOINT_LOADER_H

#include "common/checkpoint/checkpoint_reader.h"
#include "ps/core/loader.h"
#include "ps/folders.h"

/* The state of a loader; `reader` is NULL while no checkpoint is open. */
typedef struct {
    const cadre_folders_t *folders; /* folders that checkpoints may be in; borrowed */
    cadre_checkpoint_reader_t *reader;
} cadre_checkpoint_loader_t;

/* Returns the interface of this loader; the caller calls its `close` at the end. */
cadre_loader_t cadre_checkpoint_loader(cadre_checkpoint_loader_t *self);

#endif
