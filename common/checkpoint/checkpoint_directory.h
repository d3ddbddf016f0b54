/*
 * checkpoint_directory - the checkpoints of one job: DIR/ckpt-<id>/{manifest.json,shard-<k>.mdb}.
 *
 * Owner:   the coordinator; `cadre checkpoint`, which only reads.
 * Thread:  one thread at a time; one writing process per directory at a time.
 *
 * A checkpoint is built in DIR/.tmp-ckpt-<id>-<n>/ by a draft (checkpoint_draft.h). The one rename
 * that commits it is that of this directory to DIR/ckpt-<id>: before it nothing of the checkpoint
 * is visible, after it everything is, and it was all fsynced before. Deleting goes the other way:
 * first the rename to a temporary name, then the files. So whatever a crash leaves is either a
 * whole checkpoint or a temporary, and clean removes temporaries.
 *
 * DIR/best names the checkpoint that whoever trains has marked as the best.
 *
 * Only names of exactly these shapes are ever opened or removed, never through a symbolic link, and
 * a directory that holds anything else is left alone. DIR itself may be a link: the user named it.
 */
#ifndef CADRE_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H
#define CADRE_COMMON_CHECKPOINT_CHECKPOINT_DIRECTORY_H

#include <stdbool.h>

#include "common/checkpoint/manifest.h"

enum {
    CADRE_CHECKPOINT_ENTRIES_MAX =
        65536, /* most checkpoints in one directory; with more, a listing fails */
    CADRE_CHECKPOINT_TEMPORARY_SIZE = 64, /* bytes for ".tmp-ckpt-<id>-<n>" */
    CADRE_CHECKPOINT_TEMPORARIES_MAX =
        1000, /* most temporary directories of one id; with more, CADRE_EEXISTS: clean was never
                 called */
};

typedef struct cadre_checkpoint_directory cadre_checkpoint_directory_t;

/* One checkpoint in a listing. */
typedef struct {
    uint64_t id;
    /* The manifest is sound and every file exists with its size; files are not hashed. And the
     * checkpoint that it leaves pages to is valid. */
    bool valid;
    char *reason;   /* why it is not valid; NULL if it is */
    uint64_t cut;   /* set only when valid, as the next four fields are */
    uint64_t since; /* the checkpoint that has the pages of tables that this one lacks; 0: none */
    char *created;
    size_t shard_count;
    uint64_t size_bytes;
    bool is_best; /* marked as the best; set also when not valid */
} cadre_checkpoint_entry_t;

/* Opens DIR; creates it (not its parents) if `create`. CADRE_ENOTFOUND when it does not exist,
 * CADRE_EIO. */
int cadre_checkpoint_directory_open(const char *path, bool create,
                                    cadre_checkpoint_directory_t **out);
void cadre_checkpoint_directory_destroy(cadre_checkpoint_directory_t **self_p);

/* Lists every ckpt-<id> in DIR, damaged ones included, newest first. Freed with
 * cadre_checkpoint_entries_free. CADRE_EIO, CADRE_ETOOLARGE for more than
 * CADRE_CHECKPOINT_ENTRIES_MAX. */
int cadre_checkpoint_directory_list(cadre_checkpoint_directory_t *self,
                                    cadre_checkpoint_entry_t **entries, size_t *count);
void cadre_checkpoint_entries_free(cadre_checkpoint_entry_t **entries_p, size_t count);

/* Verifies one checkpoint down to every record: manifest hash, size and hash of every file, hash of
 * every record, every element of every variable and slot exactly once. CADRE_ENOTFOUND, CADRE_EIO,
 * CADRE_ECORRUPT or CADRE_EMALFORMED with what is wrong and where. */
int cadre_checkpoint_directory_verify(cadre_checkpoint_directory_t *self, uint64_t id);

/* Gives the id of the newest checkpoint whose manifest, sizes and file hashes verify. `damaged`
 * (may be NULL) is called for each newer one that does not verify, so that the caller can report
 * it. So are the files of those that it leaves pages to. CADRE_ENOTFOUND when there is none. */
int cadre_checkpoint_directory_newest(cadre_checkpoint_directory_t *self,
                                      void (*damaged)(void *context, uint64_t id,
                                                      const char *reason),
                                      void *context, uint64_t *id);

/* Keeps the newest `keep` (at least 1) valid checkpoints, the one that is marked as the best, and
 * all with ids from `oldest` on (UINT64_MAX: none for that reason), and those that one of these has
 * left pages of tables to, and removes every other one, damaged or not. A checkpoint is valid if
 * its manifest verifies and its files have their sizes: their contents were read again and hashed
 * by the ps that wrote them, before the commit. Damaged ones newer than the oldest that is kept
 * stay, for somebody to look at. `removed` may be NULL. CADRE_EIO; CADRE_EREFUSED for a directory
 * with other files. */
int cadre_checkpoint_directory_retain(cadre_checkpoint_directory_t *self, size_t keep,
                                      uint64_t oldest, size_t *removed);

/* Removes the temporary directories that a crashed process left. To be called when no draft is
 * open, since it removes those of drafts too. `removed` may be NULL. */
int cadre_checkpoint_directory_clean(cadre_checkpoint_directory_t *self, size_t *removed);

/* Marks checkpoint `id`, which is there, as the best in the place of the one that was: the file
 * DIR/best has its name, and is replaced by a rename, so that a crash leaves the one or the other.
 * CADRE_ENOTFOUND, CADRE_EIO. */
int cadre_checkpoint_directory_mark_best(cadre_checkpoint_directory_t *self, uint64_t id);

/* Gives the checkpoint that is marked as the best. CADRE_ENOTFOUND when none is, or it is not there
 * any more; CADRE_ECORRUPT when the mark names no checkpoint; CADRE_EIO. */
int cadre_checkpoint_directory_best(cadre_checkpoint_directory_t *self, uint64_t *id);

/* Gives the id in the name of a checkpoint, "ckpt-<id>"; false for any other text. */
bool cadre_checkpoint_name_parse(const char *name, uint64_t *id);

/* ---- for drafts ---- */

/* Return the path of DIR as it was given, for error texts, and its descriptor; both are valid while
 * the directory is open. */
const char *cadre_checkpoint_directory_path(const cadre_checkpoint_directory_t *self);
int cadre_checkpoint_directory_fd(const cadre_checkpoint_directory_t *self);

/* Writes ".tmp-ckpt-<id>-<n>" into `text` of CADRE_CHECKPOINT_TEMPORARY_SIZE bytes; returns
 * `text`. */
const char *cadre_checkpoint_temporary_name(uint64_t id, unsigned n, char *text);

/* Opens a subdirectory of DIR, not through a symbolic link. CADRE_ENOTFOUND, CADRE_EIO (also for
 * something that is no directory). */
int cadre_checkpoint_directory_enter(const cadre_checkpoint_directory_t *self, const char *name,
                                     int *out);

/* Removes a subdirectory and its files if all of them belong to a checkpoint; otherwise removes
 * nothing and fails with CADRE_EREFUSED. CADRE_EIO. */
int cadre_checkpoint_directory_remove(cadre_checkpoint_directory_t *self, const char *name);

#endif
