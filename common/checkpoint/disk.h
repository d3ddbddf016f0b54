/*
 * disk - the few POSIX file calls of this folder, with a status and a text for whatever they
 * answer.
 *
 * Thread: functions of their arguments only.
 *
 * Files are named by an open directory and a name without slashes and are never opened through a
 * symbolic link. `path` is for messages.
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

/* Writes a path of the open file `fd` itself, wherever its name leads by now, into `text` of
 * CADRE_DISK_FD_PATH_SIZE bytes and returns `text`: for LMDB, which knows no descriptors. It is
 * good as long as the descriptor is open; what was opened by it stays. */
const char *cadre_disk_fd_path(int fd, char *text);

/* close(2) in the shape of a destructor; -1 is fine. */
void cadre_disk_close(int *fd_p);

/* Asked now and then by what may take long: true gives it up, as CADRE_ECANCELLED.
 * NULL in its place: never. */
typedef struct {
    bool (*ask)(void *context);
    void *context;
} cadre_give_up_t;

bool cadre_give_up(const cadre_give_up_t *self);

enum { CADRE_DISK_SPAN_SIZE = 16 << 20 };

/* Reads the file from its start for its size and its hash: the XXH3-64 of the XXH3-64s
 * (little-endian) of its spans of CADRE_DISK_SPAN_SIZE bytes. With `parallel` several at
 * once where there are CPUs for it, else on the caller's thread alone, which leaves the CPUs to
 * whatever else runs. CADRE_EIO. */
int cadre_disk_hash(int fd, const char *path, bool parallel, const cadre_give_up_t *give_up,
                    uint64_t *size_bytes, uint64_t *hash);

/* Reads a whole file of at most `size_max` bytes, which free() frees; a zero byte follows.
 * CADRE_ETOOLARGE beyond it. */
int cadre_disk_read(int directory_fd, const char *name, const char *path, size_t size_max,
                    char **bytes, size_t *size_bytes);

/* Creates the file, which must not exist, writes and fsyncs it; removed again on failure. The
 * directory is the caller's to fsync. */
int cadre_disk_create(int directory_fd, const char *name, const char *path, const void *bytes,
                      size_t size_bytes);

/* Makes the directory unless it is there, and syncs the one above it: a name that is not on disk
 * takes everything below it along in a crash, and whoever made it may have crashed before this. One
 * above that cannot be opened, or knows no sync, is skipped. CADRE_EIO, CADRE_ENOTFOUND. */
int cadre_disk_make_directory(const char *path);

/* CADRE_EIO. Never to be repeated after a failure. */
int cadre_disk_sync(int fd, const char *path);

/* Syncs the names in a directory. Some file systems (network and FUSE ones) know no sync of a
 * directory and say EINVAL or EROFS: there names are as durable as they get, and the sync is
 * skipped. */
int cadre_disk_sync_directory(int fd, const char *path);

#endif
