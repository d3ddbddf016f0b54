/*
 * folders - where a ps may read checkpoints and write its part of them.
 *
 * Owner:   main, for the life of the process.
 * Thread:  any: it does not change once the ps runs.
 *
 * RESTORE and CLOSE_CUT name paths, and whoever has the coordinator's place names them: a ps opens
 * and creates nothing outside the folders that it was started with. Links are resolved in the path
 * and in these folders before the two are compared, so a folder may be given by any of its names.
 * The path is then opened below its folder without following any link, so that nobody who can write
 * there can lead the ps out by a link made between check and use; the files in it are opened by
 * that descriptor. A path whose folders do not exist is compared as it is written, so that a
 * refusal tells a stranger nothing of what exists elsewhere.
 */
#ifndef CADRE_PS_FOLDERS_H
#define CADRE_PS_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

enum { CADRE_FOLDERS_MAX = 16 };

/* The allowed folders. Zeroed: none. */
typedef struct {
    bool any;                             /* every path is allowed */
    const char *paths[CADRE_FOLDERS_MAX]; /* borrowed */
    size_t count;
} cadre_folders_t;

/* Allows a folder; `path` is borrowed. Fails with CADRE_EINVALID for an empty path, and for more
 * than CADRE_FOLDERS_MAX. */
int cadre_folders_add(cadre_folders_t *self, const char *path);

/* Returns whether no path at all is allowed. */
bool cadre_folders_is_empty(const cadre_folders_t *self);

/* Opens the folder `path`, an allowed one or one below it, so that files in it can be opened
 * (O_PATH). Fails with CADRE_EREFUSED, and a text that says how to allow it, when it is in no
 * allowed folder, is a symbolic link, or leads through a link that was made after the check; with
 * CADRE_ENOTFOUND when it does not exist; with CADRE_EIO. */
int cadre_folders_open(const cadre_folders_t *self, const char *path, int *out);

#endif
