/*
 * disk - the few POSIX file calls of this folder, with a status and an error text for each failure.
 *
 * Thread: functions of their arguments only.
 *
 * Files are named by an open directory and a name without slashes and are never opened through a
 * symbolic link. `path` is for error texts.
 */
#ifndef CADRE_COMMON_CHECKPOINT_DISK_H
#define CADRE_COMMON_CHECKPOINT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

/* Keeps "<formatted text>: <errno's text>" as the error text. CADRE_ENOTFOUND for ENOENT,
 * CADRE_EEXISTS for EEXIST and ENOTEMPTY, CADRE_ECORRUPT for ELOOP (a link where a file should be),
 * CADRE_EIO for everything else. */
int cadre_disk_fail(int error, const char *format, ...) CADRE_PRINTF(2, 3);

#ifdef __clang_analyzer__
#define cadre_disk_fail(...)                                                                       \
    (cadre_disk_fail(__VA_ARGS__), CADRE_EIO) /* as in common/base/status.h */
#endif

/* Opens a regular file for reading. CADRE_ECORRUPT when it is a link, a pipe or anything else. */
int cadre_disk_open(int directory_fd, const char *name, const char *path, int *out);

enum { CADRE_DISK_FD_PATH_SIZE = 32 };

/* Writes a path (in /proc) that leads to the open file `fd` itself, whatever its name leads to by
 * now, into `text` of CADRE_DISK_FD_PATH_SIZE bytes and returns `text`: for LMDB, which takes paths
 * only. The path works as long as the descriptor is open; files that were opened by it stay
 * open. */
const char *cadre_disk_fd_path(int fd, char *text);

/* Closes *fd_p, unless it is -1; a destructor for cadre_auto. */
void cadre_disk_close(int *fd_p);

/* A question that functions which may take long ask now and then: if the answer is true, they give
 * up with CADRE_ECANCELLED. Where they are given NULL instead, they never give up. */
typedef struct {
    bool (*ask)(void *context);
    void *context;
} cadre_give_up_t;

bool cadre_give_up(const cadre_give_up_t *self);

enum { CADRE_DISK_SPAN_SIZE = 16 << 20 };

/* Reads the file from its start for its size and its hash: the XXH3-64 of the XXH3-64s
 * (little-endian) of its spans of CADRE_DISK_SPAN_SIZE bytes. With `parallel` several spans are
 * read at once, as many as there are CPUs; without, all on the caller's thread, which leaves the
 * other CPUs free. CADRE_EIO. */
int cadre_disk_hash(int fd, const char *path, bool parallel, const cadre_give_up_t *give_up,
                    uint64_t *size_bytes, uint64_t *hash);

/* Reads a whole file into new memory, which the caller frees with free; a zero byte follows its
 * bytes. CADRE_ETOOLARGE for a file of more than `size_max` bytes. */
int cadre_disk_read(int directory_fd, const char *name, const char *path, size_t size_max,
                    char **bytes, size_t *size_bytes);

/* Creates the file, which must not exist, writes and fsyncs it; removes it on failure. The caller
 * fsyncs the directory. */
int cadre_disk_create(int directory_fd, const char *name, const char *path, const void *bytes,
                      size_t size_bytes);

/* Makes the directory unless it exists, and syncs its parent in any case: a name that is not on
 * disk takes everything below it along in a crash, and whoever made the directory may have crashed
 * before syncing. A parent that cannot be opened is not synced. CADRE_EIO; CADRE_ENOTFOUND when the
 * parent does not exist. */
int cadre_disk_make_directory(const char *path);

/* Fsyncs the file. CADRE_EIO on failure, after which it must not be tried again: the kernel may
 * have dropped the pages. */
int cadre_disk_sync(int fd, const char *path);

/* Syncs the names in a directory. Some file systems (network and FUSE ones) know no sync of a
 * directory and say EINVAL or EROFS: on those the sync is skipped. */
int cadre_disk_sync_directory(int fd, const char *path);

#endif
