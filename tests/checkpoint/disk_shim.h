/*
 * disk_shim - stands between the code under test, LMDB included, and the file system: it keeps a
 * log of everything that changes files below one folder, and lets a chosen call fail.
 *
 * The functions of the C library that change files are defined here and so come before the C
 * library's own, in this program and in the libraries it loads. Include it once, before everything
 * else.
 */
#ifndef CADRE_TESTS_CHECKPOINT_DISK_SHIM_H
#define CADRE_TESTS_CHECKPOINT_DISK_SHIM_H

#undef _FORTIFY_SOURCE /* its inline versions of these functions would be in the way */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

typedef enum {
    DISK_MKDIR,
    DISK_CREATE, /* of a file, empty */
    DISK_WRITE,
    DISK_SYNC, /* of a file or a directory */
    DISK_RENAME,
    DISK_UNLINK,
    DISK_RMDIR,
    DISK_MARK, /* the test's own: `mark` */
    DISK_LOOK, /* changes nothing, may only fail: an open, a read */
} disk_kind_t;

typedef struct {
    disk_kind_t kind;
    char path[PATH_MAX]; /* below the root */
    char to[PATH_MAX];   /* of a rename */
    uint8_t *bytes;
    size_t size_bytes;
    uint64_t offset;
    bool is_synced; /* a write that returns when it is on disk (O_DSYNC) */
    uint64_t mark;
} disk_op_t;

typedef struct {
    char root[PATH_MAX]; /* without links; "" while the shim is off */
    disk_op_t *log;      /* NULL when nothing is to be logged */
    size_t count;
    size_t capacity;
    int64_t calls;   /* so far */
    int64_t fail_at; /* the number of the call that fails, -1 for none */
    bool fail_on;    /* and all after it */
    int fail_error;
    int64_t failed;       /* calls that failed so */
    bool plain;           /* as on NFS: no flags for a rename, no sync of a directory */
    const char *unsynced; /* a directory, below the root, whose sync fails with EIO; NULL: none */
} disk_shim_t;

static disk_shim_t disk_shim = {.fail_at = -1};

#define DISK_SHIM __attribute__((visibility("default"))) /* libraries are to find it too */

#define DISK_REAL(type, name)                                                                      \
    static type *real;                                                                             \
    if (!real) {                                                                                   \
        void *found = dlsym(RTLD_NEXT, #name);                                                     \
        memcpy(&real, &found, sizeof(real));                                                       \
    }

/* Writes an absolute name into `whole`; of one that goes by a descriptor of this process, as LMDB's
 * do, what that leads to. */
static inline void
disk_follow(const char *name, char *whole)
{
    char link[64];
    int fd = -1, length = 0;
    ssize_t size = -1;
    if (sscanf(name, "/proc/self/fd/%d%n", &fd, &length) == 1) {
        snprintf(link, sizeof(link), "%.*s", length, name);
        size = readlink(link, whole, PATH_MAX - 1);
    }
    length = size < 0 ? 0 : length;
    snprintf(whole + (size < 0 ? 0 : size), PATH_MAX, "%s", name + length);
}

/* Where `name` is below the root, into `path`; false when it is somewhere else. */
static inline bool
disk_place(int directory_fd, const char *name, char *path)
{
    char whole[2 * PATH_MAX] = "";
    if (disk_shim.root[0] == '\0') {
        return false;
    }
    if (!name || name[0] != '/') {
        char link[64];
        snprintf(link, sizeof(link), "/proc/self/fd/%d", directory_fd);
        ssize_t size = directory_fd == AT_FDCWD ? -1 : readlink(link, whole, PATH_MAX - 1);
        if (size < 0) {
            return false;
        }
        whole[size] = '\0';
    }
    if (name && name[0] == '/') {
        disk_follow(name, whole);
    } else if (name) {
        snprintf(whole + strlen(whole), PATH_MAX, "/%s", name);
    }
    size_t size = strlen(disk_shim.root);
    if (strncmp(whole, disk_shim.root, size) != 0 || (whole[size] && whole[size] != '/')) {
        return false;
    }
    snprintf(path, PATH_MAX, "%s", whole + size + (whole[size] == '/'));
    return true;
}

/* Counts a call; true when it is to fail, with errno set. */
static inline bool
disk_fails(void)
{
    int64_t number = disk_shim.calls++;
    bool fails = disk_shim.fail_at >= 0 &&
                 (number == disk_shim.fail_at || (disk_shim.fail_on && number > disk_shim.fail_at));
    if (fails) {
        disk_shim.failed++;
        errno = disk_shim.fail_error;
    }
    return fails;
}

static inline disk_op_t *
disk_log_add(disk_kind_t kind, const char *path)
{
    static disk_op_t unused;
    if (!disk_shim.log) {
        return &unused;
    }
    if (disk_shim.count == disk_shim.capacity) {
        disk_shim.capacity *= 2;
        disk_shim.log = realloc(disk_shim.log, disk_shim.capacity * sizeof(*disk_shim.log));
    }
    disk_op_t *op = &disk_shim.log[disk_shim.count++];
    memset(op, 0, sizeof(*op));
    op->kind = kind;
    snprintf(op->path, sizeof(op->path), "%s", path);
    return op;
}

static inline void
disk_log_write(int fd, const char *path, const void *bytes, size_t size_bytes, uint64_t offset)
{
    if (!disk_shim.log) {
        return;
    }
    disk_op_t *op = disk_log_add(DISK_WRITE, path);
    op->bytes = malloc(size_bytes + 1);
    memcpy(op->bytes, bytes, size_bytes);
    op->size_bytes = size_bytes;
    op->offset = offset;
    op->is_synced = fcntl(fd, F_GETFL) & O_DSYNC;
}

/* Begins to log what happens below `root`. */
static inline void
disk_shim_begin(const char *root, bool with_log)
{
    if (!realpath(root, disk_shim.root)) {
        abort();
    }
    disk_shim.calls = 0;
    disk_shim.failed = 0;
    disk_shim.fail_at = -1;
    disk_shim.count = 0;
    disk_shim.capacity = 256;
    disk_shim.log = with_log ? calloc(disk_shim.capacity, sizeof(*disk_shim.log)) : NULL;
}

static inline void
disk_shim_end(void)
{
    disk_shim.root[0] = '\0';
}

static inline void
disk_shim_mark(uint64_t mark)
{
    if (disk_shim.root[0]) {
        disk_log_add(DISK_MARK, "")->mark = mark;
    }
}

static inline void
disk_shim_free_log(void)
{
    for (size_t i = 0; i < disk_shim.count; i++) {
        free(disk_shim.log[i].bytes);
    }
    free(disk_shim.log);
    disk_shim.log = NULL;
    disk_shim.count = 0;
}

/* --- opening --- */

typedef int disk_openat_t(int, const char *, int, ...);

static inline int
disk_open(int directory_fd, const char *name, int flags, mode_t mode)
{
    DISK_REAL(disk_openat_t, openat)
    char path[PATH_MAX];
    if (!disk_place(directory_fd, name, path)) {
        return real(directory_fd, name, flags, mode);
    }
    bool is_new = (flags & O_CREAT) && faccessat(directory_fd, name, F_OK, 0) != 0;
    if (disk_fails()) {
        return -1;
    }
    int fd = real(directory_fd, name, flags, mode);
    if (fd >= 0 && is_new) {
        disk_log_add(DISK_CREATE, path);
    }
    return fd;
}

DISK_SHIM int
open(const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return disk_open(AT_FDCWD, name, flags, mode);
}

DISK_SHIM int
openat(int directory_fd, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return disk_open(directory_fd, name, flags, mode);
}

/* --- reading and writing --- */

typedef ssize_t disk_pread_t(int, void *, size_t, off_t);
typedef ssize_t disk_pwrite_t(int, const void *, size_t, off_t);
typedef ssize_t disk_write_t(int, const void *, size_t);
typedef ssize_t disk_writev_t(int, const struct iovec *, int);

DISK_SHIM ssize_t
pread(int fd, void *bytes, size_t size_bytes, off_t offset)
{
    DISK_REAL(disk_pread_t, pread)
    char path[PATH_MAX];
    return disk_place(fd, NULL, path) && disk_fails() ? -1 : real(fd, bytes, size_bytes, offset);
}

DISK_SHIM ssize_t
pwrite(int fd, const void *bytes, size_t size_bytes, off_t offset)
{
    DISK_REAL(disk_pwrite_t, pwrite)
    char path[PATH_MAX];
    if (!disk_place(fd, NULL, path)) {
        return real(fd, bytes, size_bytes, offset);
    }
    ssize_t count = disk_fails() ? -1 : real(fd, bytes, size_bytes, offset);
    if (count > 0) {
        disk_log_write(fd, path, bytes, (size_t)count, (uint64_t)offset);
    }
    return count;
}

DISK_SHIM ssize_t
write(int fd, const void *bytes, size_t size_bytes)
{
    DISK_REAL(disk_write_t, write)
    char path[PATH_MAX];
    if (!disk_place(fd, NULL, path)) {
        return real(fd, bytes, size_bytes);
    }
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t count = disk_fails() ? -1 : real(fd, bytes, size_bytes);
    if (count > 0) {
        disk_log_write(fd, path, bytes, (size_t)count, (uint64_t)offset);
    }
    return count;
}

DISK_SHIM ssize_t
writev(int fd, const struct iovec *parts, int part_count)
{
    DISK_REAL(disk_writev_t, writev)
    char path[PATH_MAX];
    if (!disk_place(fd, NULL, path)) {
        return real(fd, parts, part_count);
    }
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t count = disk_fails() ? -1 : real(fd, parts, part_count);
    size_t left = count > 0 ? (size_t)count : 0;
    for (int i = 0; i < part_count && left > 0; i++) {
        size_t size = parts[i].iov_len < left ? parts[i].iov_len : left;
        disk_log_write(fd, path, parts[i].iov_base, size, (uint64_t)offset);
        offset += (off_t)size;
        left -= size;
    }
    return count;
}

/* --- syncing --- */

typedef int disk_sync_t(int);

static inline int
disk_sync_with(disk_sync_t *real, int fd)
{
    char path[PATH_MAX];
    if (!disk_place(fd, NULL, path)) {
        return real(fd);
    }
    int status = disk_fails() ? -1 : real(fd);
    if (status == 0) {
        disk_log_add(DISK_SYNC, path);
    }
    return status;
}

DISK_SHIM int
fsync(int fd)
{
    DISK_REAL(disk_sync_t, fsync)
    char path[PATH_MAX];
    struct stat about;
    if (disk_place(fd, NULL, path) && fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
        bool unsynced = disk_shim.unsynced && strcmp(disk_shim.unsynced, path) == 0;
        if (unsynced || disk_shim.plain) {
            errno = unsynced ? EIO : EINVAL;
            return -1;
        }
    }
    return disk_sync_with(real, fd);
}

DISK_SHIM int
fdatasync(int fd)
{
    DISK_REAL(disk_sync_t, fdatasync)
    return disk_sync_with(real, fd);
}

/* --- names --- */

typedef int disk_mkdirat_t(int, const char *, mode_t);
typedef int disk_renameat2_t(int, const char *, int, const char *, unsigned);
typedef int disk_unlinkat_t(int, const char *, int);

DISK_SHIM int
mkdirat(int directory_fd, const char *name, mode_t mode)
{
    DISK_REAL(disk_mkdirat_t, mkdirat)
    char path[PATH_MAX];
    if (!disk_place(directory_fd, name, path)) {
        return real(directory_fd, name, mode);
    }
    int status = disk_fails() ? -1 : real(directory_fd, name, mode);
    if (status == 0) {
        disk_log_add(DISK_MKDIR, path);
    }
    return status;
}

/* A sanitizer calls this one before it is ready for code that it looks at. */
DISK_SHIM __attribute__((no_sanitize_address)) int
mkdir(const char *name, mode_t mode)
{
    if (disk_shim.root[0] == '\0') {
        return (int)syscall(SYS_mkdirat, AT_FDCWD, name, mode);
    }
    return mkdirat(AT_FDCWD, name, mode);
}

DISK_SHIM int
renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    DISK_REAL(disk_renameat2_t, renameat2)
    char path[PATH_MAX], to_path[PATH_MAX];
    if (!disk_place(from_fd, from, path) || !disk_place(to_fd, to, to_path)) {
        return real(from_fd, from, to_fd, to, flags);
    }
    if (disk_shim.plain && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    int status = disk_fails() ? -1 : real(from_fd, from, to_fd, to, flags);
    if (status == 0) {
        disk_op_t *op = disk_log_add(DISK_RENAME, path);
        snprintf(op->to, sizeof(op->to), "%s", to_path);
    }
    return status;
}

DISK_SHIM int
renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}

DISK_SHIM int
unlinkat(int directory_fd, const char *name, int flags)
{
    DISK_REAL(disk_unlinkat_t, unlinkat)
    char path[PATH_MAX];
    if (!disk_place(directory_fd, name, path)) {
        return real(directory_fd, name, flags);
    }
    int status = disk_fails() ? -1 : real(directory_fd, name, flags);
    if (status == 0) {
        disk_log_add(flags & AT_REMOVEDIR ? DISK_RMDIR : DISK_UNLINK, path);
    }
    return status;
}

DISK_SHIM int
unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

#endif
