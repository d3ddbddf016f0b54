/*
 * The library that file_faults.h describes, for LD_PRELOAD. It stands before the C library's calls
 * and keeps errno where it lets one pass.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/chaos/file_faults.h"

#define EXPORT __attribute__((visibility("default")))

/* The function `name` of the next library, as `next`. */
#define NEXT(name)                                                                                 \
    static __typeof__(&(name)) next;                                                               \
    if (!next) {                                                                                   \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                                 \
    }

static file_faults_t *orders;

__attribute__((constructor)) static void
find_orders(void)
{
    const char *path = getenv(FILE_FAULTS_VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *memory = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        orders = memory == MAP_FAILED ? NULL : memory;
        close(fd);
    }
}

/* --- which call --- */

/* The path of a descriptor; false when it has none. */
static bool
path_of_fd(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static bool
path_at(int directory, const char *name, char path[PATH_MAX])
{
    int fd = -1, through = 0;
    bool is_through_fd = sscanf(name, "/proc/self/fd/%d%n", &fd, &through) == 1;
    if (is_through_fd && name[through] == '\0') { /* LMDB's: by the descriptor of its file */
        return path_of_fd(fd, path);
    }
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return true;
    }
    if (directory == AT_FDCWD ? !getcwd(path, PATH_MAX) : !path_of_fd(directory, path)) {
        return false;
    }
    size_t length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s", name);
    return true;
}

static bool
is_ours(const char *path)
{
    size_t length = strlen(orders->directory);
    if (orders->program[0] && strcmp(program_invocation_short_name, orders->program) != 0) {
        return false;
    }
    return strncmp(path, orders->directory, length) == 0 &&
           (path[length] == '/' || path[length] == '\0');
}

/* --- what happens to it --- */

/* The same for the same call, whoever draws: Sebastiano Vigna's splitmix64. */
static uint64_t
draw(uint64_t number)
{
    number += UINT64_C(0x9e3779b97f4a7c15);
    number = (number ^ (number >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94d049bb133111eb);
    return number ^ (number >> 31);
}

static bool
is_due(uint64_t call)
{
    uint32_t percent = atomic_load(&orders->percent);
    uint64_t from = atomic_load(&orders->from);
    if (percent > 0) {
        return draw(call) % 100 < percent;
    }
    return call == from || (call > from && atomic_load(&orders->sticky));
}

/* Whether the call on `path` is to fail; errno then says how. */
static bool
fails(const char *name, const char *path)
{
    int before = errno;
    if (!is_ours(path)) {
        errno = before;
        return false;
    }
    uint64_t call = atomic_fetch_add(&orders->calls, 1) + 1;
    int error = atomic_load(&orders->error);
    if (error == 0 || !is_due(call)) {
        errno = before;
        return false;
    }
    snprintf(orders->last_call, sizeof(orders->last_call), "%s", name);
    snprintf(orders->last_path, sizeof(orders->last_path), "%s", path);
    if (error == FILE_FAULTS_KILL) {
        atomic_store(&orders->error, 0); /* whoever is started again lives */
        atomic_fetch_add(&orders->failed, 1);
        kill(getpid(), SIGKILL);
    }
    atomic_fetch_add(&orders->failed, 1);
    errno = error;
    return true;
}

static bool
fails_on(const char *name, int fd)
{
    char path[PATH_MAX];
    int before = errno;
    bool has_path = orders && path_of_fd(fd, path);
    errno = before;
    return has_path && fails(name, path);
}

static bool
fails_at(const char *name, int directory, const char *place)
{
    char path[PATH_MAX];
    int before = errno;
    bool has_path = orders && path_at(directory, place, path);
    errno = before;
    return has_path && fails(name, path);
}

/* --- the calls --- */

static int
open_any(int directory, const char *path, int flags, mode_t mode)
{
    NEXT(openat)
    if ((flags & O_CREAT) && fails_at("open", directory, path)) {
        return -1;
    }
    return next(directory, path, flags, mode);
}

#define MODE_OF(flags, mode)                                                                       \
    mode_t mode = 0;                                                                               \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                         \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        mode = va_arg(arguments, mode_t);                                                          \
        va_end(arguments);                                                                         \
    }

EXPORT int
open(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int
open64(const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int
openat(int directory, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_any(directory, path, flags, mode);
}

EXPORT int
openat64(int directory, const char *path, int flags, ...)
{
    MODE_OF(flags, mode)
    return open_any(directory, path, flags, mode);
}

EXPORT int
mkdirat(int directory, const char *path, mode_t mode)
{
    NEXT(mkdirat)
    return fails_at("mkdir", directory, path) ? -1 : next(directory, path, mode);
}

EXPORT int
mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

EXPORT ssize_t
write(int fd, const void *bytes, size_t size)
{
    NEXT(write)
    return fails_on("write", fd) ? -1 : next(fd, bytes, size);
}

EXPORT ssize_t
writev(int fd, const struct iovec *pieces, int count)
{
    NEXT(writev)
    return fails_on("writev", fd) ? -1 : next(fd, pieces, count);
}

EXPORT ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t place)
{
    NEXT(pwrite)
    return fails_on("pwrite", fd) ? -1 : next(fd, bytes, size, place);
}

EXPORT ssize_t
pwrite64(int fd, const void *bytes, size_t size, off64_t place)
{
    return pwrite(fd, bytes, size, place);
}

EXPORT ssize_t
pwritev(int fd, const struct iovec *pieces, int count, off_t place)
{
    NEXT(pwritev)
    return fails_on("pwritev", fd) ? -1 : next(fd, pieces, count, place);
}

EXPORT ssize_t
pwritev64(int fd, const struct iovec *pieces, int count, off64_t place)
{
    return pwritev(fd, pieces, count, place);
}

EXPORT int
ftruncate(int fd, off_t size)
{
    NEXT(ftruncate)
    return fails_on("ftruncate", fd) ? -1 : next(fd, size);
}

EXPORT int
ftruncate64(int fd, off64_t size)
{
    return ftruncate(fd, size);
}

EXPORT int
fsync(int fd)
{
    NEXT(fsync)
    return fails_on("fsync", fd) ? -1 : next(fd);
}

EXPORT int
fdatasync(int fd)
{
    NEXT(fdatasync)
    return fails_on("fdatasync", fd) ? -1 : next(fd);
}

EXPORT int
renameat2(int from, const char *old, int to, const char *new, unsigned flags)
{
    NEXT(renameat2)
    return fails_at("rename", from, old) ? -1 : next(from, old, to, new, flags);
}

EXPORT int
renameat(int from, const char *old, int to, const char *new)
{
    return renameat2(from, old, to, new, 0);
}

EXPORT int
rename(const char *old, const char *new)
{
    return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0);
}

EXPORT int
unlinkat(int directory, const char *path, int flags)
{
    NEXT(unlinkat)
    return fails_at("unlink", directory, path) ? -1 : next(directory, path, flags);
}

EXPORT int
unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}
