/*
 * checkpoint_directory_internal - what checkpoint_directory.c and checkpoint_draft.c share: names
 * and careful removal.
 *
 * Thread: as checkpoint_directory.h.
 */
#ifndef CADRE_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_INTERNAL_H
#define CADRE_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_INTERNAL_H

#include "common/checkpoint/checkpoint_directory.h"

enum {
    CADRE_CHECKPOINT_TEMPORARY_SIZE = 64, /* bytes for ".tmp-ckpt-<id>-<n>" */
    CADRE_CHECKPOINT_TEMPORARIES_MAX =
        1000, /* of one id; then CADRE_EEXISTS: clean was never called */
};

struct cadre_checkpoint_directory {
    char *path;
    int fd;
};

/* ".tmp-ckpt-<id>-<n>" into `text`; returns `text`. */
const char *cadre_checkpoint_temporary_name(uint64_t id, unsigned n, char *text);

/* Opens a subdirectory of DIR, not through a symbolic link. CADRE_ENOTFOUND, CADRE_EIO (also for
 * something that is no directory). */
int cadre_checkpoint_directory_enter(const cadre_checkpoint_directory_t *self, const char *name,
                                     int *out);

/* Removes a subdirectory and the files in it when all of them are ours; otherwise removes nothing.
 * CADRE_EREFUSED, CADRE_EIO. */
int cadre_checkpoint_directory_remove(cadre_checkpoint_directory_t *self, const char *name);

#endif
