/*
 * folders - where a ps may read checkpoints and write its part of them.
 *
 * Owner:   main, for the life of the process.
 * Thread:  any: it does not change once the ps runs.
 *
 * RESTORE and CLOSE_CUT name paths, and whoever has the coordinator's place names them: a ps opens
 * and creates nothing outside the folders that it was started with. Links are resolved on both
 * sides, so a folder may be named by any of its names; but that only finds out what is meant. It is
 * then opened below its folder through no link at all, so that whoever can write there cannot lead
 * the ps out by a link that comes between the look and the use, and the files in it are opened by
 * that descriptor. A path whose folders are not there is compared as it is written, and tells a
 * stranger nothing of what else there is.
 */
#ifndef CADRE_PS_FOLDERS_H
#define CADRE_PS_FOLDERS_H

#include <stdbool.h>
#include <stddef.h>

enum { CADRE_FOLDERS_MAX = 16 };

/* Zeroed: none may be used. */
typedef struct {
    bool any;
    const char *paths[CADRE_FOLDERS_MAX]; /* borrowed */
    size_t count;
} cadre_folders_t;

/* CADRE_EINVALID for an empty path, or beyond CADRE_FOLDERS_MAX. `path` is borrowed. */
int cadre_folders_add(cadre_folders_t *self, const char *path);

/* Whether no path at all is allowed. */
bool cadre_folders_is_empty(const cadre_folders_t *self);

/* Opens `path`, one of the folders or below it, to open files in (O_PATH). CADRE_EREFUSED, with
 * words that say how to allow it, when it is nowhere in them, is a symbolic link, or led through
 * one that was put there meanwhile; CADRE_ENOTFOUND, CADRE_EIO. */
int cadre_folders_open(const cadre_folders_t *self, const char *path, int *out);

#endif
