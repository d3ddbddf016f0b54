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

/* A loader with no checkpoint open has no reader. */
typedef struct {
    const cadre_folders_t *folders; /* that checkpoints may be in; borrowed */
    cadre_checkpoint_reader_t *reader;
} cadre_checkpoint_loader_t;

/* As a loader, whose `close` is to be called at the end. */
cadre_loader_t cadre_checkpoint_loader(cadre_checkpoint_loader_t *self);

#endif
