#include "common/checkpoint/disk.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/system/parallel.h"

#undef cadre_disk_fail

enum {
    BLOCK_SIZE = 1 << 20,
    SPANS_AT_ONCE = 64,
};

/* Returns the status for an errno. */
static int
status_of(int error)
{
    switch (error) {
    case ENOENT:
        return CADRE_ENOTFOUND;
    case EEXIST:
    case ENOTEMPTY:
        return CADRE_EEXISTS;
    case ELOOP: /* a symbolic link, which is never followed (O_NOFOLLOW) */
        return CADRE_ECORRUPT;
    default:
        return CADRE_EIO;
    }
}

/* Fails with the status for an errno, and a text that ends with what the errno means. */
int
cadre_disk_fail(int error, const char *format, ...)
{
    char text[CADRE_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    char reason[256];
    return cadre_fail(status_of(error), "%s: %s", text, strerror_r(error, reason, sizeof(reason)));
}

/* Opens a regular file for reading, but not through a symbolic link. */
int
cadre_disk_open(int directory_fd, const char *name, const char *path, int *out)
{
    /* O_NONBLOCK: opening a pipe under this name must not block; fstat then shows what it is. */
    int fd = openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return cadre_disk_fail(errno, "cannot open %s", path);
    }

    struct stat about;
    if (fstat(fd, &about) != 0) {
        int error = errno;
        close(fd);
        return cadre_disk_fail(error, "cannot look at %s", path);
    }

    if (!S_ISREG(about.st_mode)) {
        close(fd);
        return cadre_fail(CADRE_ECORRUPT, "%s is not a regular file", path);
    }

    *out = fd;
    return 0;
}

const char *
cadre_disk_fd_path(int fd, char *text)
{
    snprintf(text, CADRE_DISK_FD_PATH_SIZE, "/proc/self/fd/%d", fd);
    return text;
}

void
cadre_disk_close(int *fd_p)
{
    if (*fd_p >= 0) {
        close(*fd_p);
        *fd_p = -1;
    }
}

/* Reads up to `size_bytes` at `offset`. Returns the count, 0 at the end of the file, -1 with errno
 * on failure. */
static ssize_t
read_at(int fd, void *bytes, size_t size_bytes, uint64_t offset)
{
    ssize_t count;
    do {
        count = pread(fd, bytes, size_bytes, (off_t)offset);
    } while (count < 0 && errno == EINTR);
    return count;
}

bool
cadre_give_up(const cadre_give_up_t *self)
{
    return self && self->ask(self->context);
}

static void
free_state(XXH3_state_t **state_p)
{
    XXH3_freeState(*state_p);
}

/* The spans of one file that are hashed in parallel in one round. */
typedef struct {
    int fd;
    uint64_t size_bytes; /* size of the file */
    size_t first;        /* index of the first span of this round */
    uint64_t *hashes;    /* [spans of the file] */
    int *errors;         /* [spans of a round]: errno, or 0 */
} hashing_t;

/* Hashes one span. A file that has become shorter is hashed as far as it goes: its hash then
 * differs. */
static void
hash_span(void *context, size_t index)
{
    const hashing_t *self = context;
    cadre_auto(cadre_free) uint8_t *block = cadre_aligned_alloc(BLOCK_SIZE);
    cadre_auto(free_state) XXH3_state_t *state = XXH3_createState();

    cadre_assert(state);
    XXH3_64bits_reset(state);
    uint64_t at = (self->first + index) * CADRE_DISK_SPAN_SIZE;
    uint64_t end = at + CADRE_DISK_SPAN_SIZE;
    end = cadre_min_u64(end, self->size_bytes);
    while (at < end) {
        size_t length = end - at < BLOCK_SIZE ? (size_t)(end - at) : BLOCK_SIZE;
        ssize_t count = read_at(self->fd, block, length, at);
        if (count < 0) {
            self->errors[index] = errno;
            return;
        }
        if (count == 0) {
            break;
        }
        XXH3_64bits_update(state, block, (size_t)count);
        at += (uint64_t)count;
    }

    self->hashes[self->first + index] = htole64(XXH3_64bits_digest(state));
}

/* Computes the size and the hash of a file. The file's hash is that of the hashes of its spans, so
 * it does not depend on how many spans are read at once. */
int
cadre_disk_hash(int fd, const char *path, bool parallel, const cadre_give_up_t *give_up,
                uint64_t *size_bytes, uint64_t *hash)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return cadre_disk_fail(errno, "cannot look at %s", path);
    }

    hashing_t hashing = {.fd = fd, .size_bytes = (uint64_t)about.st_size};
    size_t count = (size_t)(hashing.size_bytes / CADRE_DISK_SPAN_SIZE +
                            (hashing.size_bytes % CADRE_DISK_SPAN_SIZE > 0));
    cadre_auto(cadre_free) uint64_t *hashes = cadre_calloc(count, sizeof(*hashes));
    int errors[SPANS_AT_ONCE] = {0};

    hashing.hashes = hashes;
    hashing.errors = errors;
    const size_t at_once = parallel ? SPANS_AT_ONCE : 1;
    /* The file's hash is that of the hashes of its spans: it does not depend on how many are read
     * at once. */
    for (; hashing.first < count; hashing.first += at_once) {
        size_t left = count - hashing.first;
        left = cadre_min_u64(left, at_once);
        if (cadre_give_up(give_up)) {
            return cadre_fail(CADRE_ECANCELLED, "%s: reading it was given up", path);
        }

        if (left > 1) {
            cadre_parallel_for(left, hash_span, &hashing);
        } else {
            hash_span(&hashing, 0);
        }

        for (size_t i = 0; i < left; i++) {
            if (errors[i]) {
                return cadre_disk_fail(errors[i], "cannot read %s", path);
            }
        }
    }

    *size_bytes = hashing.size_bytes;
    *hash = XXH3_64bits(hashes, count * sizeof(*hashes));
    return 0;
}

/* Reads a whole file of at most `size_max` bytes, with a zero byte behind it; the caller frees it.
 * */
int
cadre_disk_read(int directory_fd, const char *name, const char *path, size_t size_max, char **bytes,
                size_t *size_bytes)
{
    cadre_auto(cadre_disk_close) int fd = -1;
    int status = cadre_disk_open(directory_fd, name, path, &fd);
    if (status != 0) {
        return status;
    }

    struct stat about;
    if (fstat(fd, &about) != 0) {
        return cadre_disk_fail(errno, "cannot look at %s", path);
    }

    if ((uint64_t)about.st_size > size_max) {
        return cadre_fail(CADRE_ETOOLARGE, "%s has %lld bytes, more than %zu", path,
                          (long long)about.st_size, size_max);
    }

    size_t size = (size_t)about.st_size;
    cadre_auto(cadre_free) char *text = cadre_calloc(size + 1, 1);
    size_t at = 0;
    while (at < size) {
        ssize_t count = read_at(fd, text + at, size - at, at);
        if (count < 0) {
            return cadre_disk_fail(errno, "cannot read %s", path);
        }
        if (count == 0) {
            break; /* the file shrank meanwhile; whoever parses its contents will notice */
        }
        at += (size_t)count;
    }

    *bytes = text;
    text = NULL;
    *size_bytes = at;
    return 0;
}

/* Writes all bytes, in as many calls as it takes. */
static int
write_all(int fd, const char *path, const char *bytes, size_t size_bytes)
{
    size_t at = 0;
    while (at < size_bytes) {
        ssize_t count = write(fd, bytes + at, size_bytes - at);
        if (count < 0 && errno != EINTR) {
            return cadre_disk_fail(errno, "cannot write %s", path);
        }
        at += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

/* Creates a file, which must not exist, with these bytes, and syncs it; removes it on failure. */
int
cadre_disk_create(int directory_fd, const char *name, const char *path, const void *bytes,
                  size_t size_bytes)
{
    cadre_auto(cadre_disk_close) int fd = openat(
        directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)0666);
    if (fd < 0) {
        return cadre_disk_fail(errno, "cannot create %s", path);
    }

    int status = write_all(fd, path, bytes, size_bytes);
    if (status == 0) {
        status = cadre_disk_sync(fd, path);
    }
    if (status != 0) {
        unlinkat(directory_fd, name, 0);
    }

    return status;
}

/* Makes a directory unless it exists, and syncs the directory above, if that can be opened, so that
 * the name survives a crash. */
int
cadre_disk_make_directory(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return cadre_disk_fail(errno, "cannot create %s", path);
    }
    cadre_auto(cadre_free) char *above = cadre_asprintf("%s/..", path);
    cadre_auto(cadre_disk_close) int fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? cadre_disk_sync_directory(fd, above) : 0;
}

int
cadre_disk_sync(int fd, const char *path)
{
    if (fsync(fd) != 0) {
        return cadre_disk_fail(errno, "cannot fsync %s", path);
    }
    return 0;
}

/* Syncs the names in a directory; file systems that know no such sync (EINVAL, EROFS) are let off.
 * */
int
cadre_disk_sync_directory(int fd, const char *path)
{
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS) {
        return cadre_disk_fail(errno, "cannot fsync %s", path);
    }
    return 0;
}
