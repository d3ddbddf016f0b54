#include "worker/data/data_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "worker/data/content.h"

enum { BUFFER_SIZE = 256 << 10 };

struct cadre_data_file {
    cadre_content_t *content;
    char *path;
    uint64_t size_on_disk;
    uint64_t size_bytes_max;
    uint64_t offset;
    int64_t line_number;
    /* [capacity], for reading lines: the bytes [start, stop) are still to be handed out */
    char *buffer;
    size_t capacity;
    size_t start;
    size_t stop;
    bool ended;
};

/* How files are opened: non-blocking, because opening a FIFO would wait for a writer. */
enum { HOW = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

/* Returns `path` relative to `root`: without the name of the root in front, be it as given or with
 * all links resolved. Any other path is returned as it is; the kernel then finds that it is not
 * below the root. */
const char *
cadre_data_file_below(const char *root, const char *path)
{
    cadre_auto(cadre_free) char *real = realpath(root, NULL);
    const char *const names[] = {root, real ? real : root};
    for (size_t i = 0; i < CADRE_COUNT_OF(names); i++) {
        size_t length = strlen(names[i]);
        while (length > 0 && names[i][length - 1] == '/') {
            length--;
        }
        if (strncmp(path, names[i], length) == 0 && path[length] == '/') {
            path += length;
            return path + strspn(path, "/");
        }
    }

    return path;
}

/* Opens `path` if it is below the folder `root`; the kernel checks every component and link on the
 * way. Returns a descriptor, or a failure. */
static int
open_below(const char *root, const char *path)
{
    struct open_how how = {.flags = HOW, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return cadre_fail(CADRE_ENOTFOUND, "%s: %s", root, strerror(errno));
    }

    int descriptor =
        (int)syscall(SYS_openat2, folder, cadre_data_file_below(root, path), &how, sizeof(how));
    int error = errno;

    close(folder);
    if (descriptor < 0 && error == EXDEV) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s is not below %s, and a coordinator on tcp may have no other file "
                          "read: give cadre-worker the --data-dir that holds it",
                          path, root);
    }

    return descriptor < 0 ? cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(error))
                          : descriptor;
}

static int
open_anywhere(const char *path)
{
    int descriptor = open(path, HOW);
    return descriptor < 0 ? cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(errno))
                          : descriptor;
}

/* Opens a regular file; returns its descriptor, or a failure. */
static int
open_regular(const char *path, const char *root, uint64_t *size_on_disk)
{
    int descriptor = root ? open_below(root, path) : open_anywhere(path);
    if (descriptor < 0) {
        return descriptor;
    }

    struct stat information;
    if (fstat(descriptor, &information) < 0 || !S_ISREG(information.st_mode)) {
        close(descriptor);
        return cadre_fail(CADRE_ENOTFOUND, "%s: not a regular file", path);
    }

    *size_on_disk = (uint64_t)information.st_size;
    return descriptor;
}

/* Opens a regular file, plain, gzip or zstd, of which at most `size_bytes_max` of content may be
 * read. With a `root` (else NULL) it must be in that folder or below. */
int
cadre_data_file_open(const char *path, const char *root, uint64_t size_bytes_max,
                     cadre_data_file_t **out)
{
    uint64_t size_on_disk = 0;
    int descriptor = open_regular(path, root, &size_on_disk);
    if (descriptor < 0) {
        return descriptor;
    }

    cadre_data_file_t *self = cadre_calloc(1, sizeof(*self));
    self->content = cadre_content_new(descriptor);
    self->path = cadre_strdup(path);
    self->size_on_disk = size_on_disk;
    self->size_bytes_max = size_bytes_max;
    *out = self;
    return 0;
}

/* Closes the file and frees its buffers; *self_p may be NULL. */
void
cadre_data_file_close(cadre_data_file_t **self_p)
{
    cadre_data_file_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_content_destroy(&self->content);
    free(self->buffer);
    free(self->path);
    free(self);
}

const char *
cadre_data_file_path(const cadre_data_file_t *self)
{
    return self->path;
}

int64_t
cadre_data_file_line_number(const cadre_data_file_t *self)
{
    return self->line_number;
}

uint64_t
cadre_data_file_offset(const cadre_data_file_t *self)
{
    return self->offset - (self->stop - self->start);
}

void
cadre_data_file_note(cadre_data_file_t *self, cadre_restart_points_t *points, size_t file)
{
    cadre_content_note(self->content, points, file);
}

/* Returns the most content that the file can have, given its size on disk and how it is
 * compressed. */
uint64_t
cadre_data_file_content_max(const cadre_data_file_t *self)
{
    uint64_t content = 0;
    return __builtin_mul_overflow(self->size_on_disk, cadre_content_ratio_max(self->content),
                                  &content)
               ? UINT64_MAX
               : content;
}

/* Puts the file's name in front of this thread's error text. */
static int
name_failure(const cadre_data_file_t *self, int status)
{
    return cadre_fail_within(status, "%s", self->path);
}

/* Reads some bytes, none at the end alone, and checks the limit of the content. */
static int
read_some(cadre_data_file_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    int status = cadre_content_read(self->content, bytes, size_bytes, got);
    if (status < 0) {
        return name_failure(self, status);
    }

    self->offset += *got;
    if (self->offset > self->size_bytes_max) {
        return cadre_fail(CADRE_ETOOLARGE, "%s: more than %" PRIu64 " bytes of content", self->path,
                          self->size_bytes_max);
    }
    return 0;
}

/* Reads `size_bytes` bytes of content, or fewer at the end of the file; `*got` says how many. */
int
cadre_data_file_read(cadre_data_file_t *self, void *bytes, size_t size_bytes, size_t *got)
{
    size_t done = 0;
    while (done < size_bytes) {
        size_t some = 0;
        int status = read_some(self, (char *)bytes + done, size_bytes - done, &some);
        if (status < 0) {
            return status;
        }
        if (some == 0) {
            break;
        }
        done += some;
    }

    *got = done;
    return 0;
}

int
cadre_data_file_check_rest(cadre_data_file_t *self)
{
    cadre_auto(cadre_free) char *bytes = cadre_calloc(BUFFER_SIZE, 1);
    size_t got = cadre_content_ratio_max(self->content) > 1 ? 1 : 0;
    for (size_t done = 0; got > 0 && done < CADRE_DATA_CHECK_SIZE_MAX; done += got) {
        int status = read_some(self, bytes, BUFFER_SIZE, &got);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

bool
cadre_data_file_is_near(const cadre_data_file_t *self, const cadre_restart_points_t *points,
                        size_t file, uint64_t offset)
{
    const bool is_read = offset < self->offset; /* into the buffer, if not handed out already */
    return offset >= cadre_data_file_offset(self) &&
           cadre_content_is_near(self->content, points, file, is_read ? self->offset : offset);
}

int
cadre_data_file_seek(cadre_data_file_t *self, const cadre_restart_points_t *points, size_t file,
                     uint64_t offset, int64_t line_number)
{
    const uint64_t here = cadre_data_file_offset(self);
    self->line_number = line_number;
    if (offset >= here && offset <= self->offset && self->start < self->stop) {
        self->start += (size_t)(offset - here);
        return 0;
    }

    self->start = 0;
    self->stop = 0;
    self->ended = false;
    self->offset = offset;
    int status = cadre_content_seek(self->content, points, file, offset);
    return status < 0 ? name_failure(self, status) : 0;
}

/* Fails when the line that is being read is longer than a line may be. */
static int
check_line_size(const cadre_data_file_t *self, size_t length)
{
    return length <= CADRE_DATA_LINE_SIZE_MAX
               ? 0
               : cadre_fail(CADRE_EDATA, "%s:%" PRId64 ": a line of more than %d bytes", self->path,
                            self->line_number + 1, CADRE_DATA_LINE_SIZE_MAX);
}

/* Reads more bytes into the buffer of lines: moves the bytes that are left to its front, and
 * doubles it when it is full. */
static int
fill(cadre_data_file_t *self)
{
    size_t left = self->stop - self->start;
    if (left > 0 && self->start > 0) {
        memmove(self->buffer, self->buffer + self->start, left);
    }

    self->start = 0;
    self->stop = left;
    /* One byte more than the limit is allowed here, for a CR before the LF, which does not
     * count. */
    int status = check_line_size(self, left > 0 ? left - 1 : 0);
    if (status < 0) {
        return status;
    }

    if (self->stop == self->capacity) {
        self->capacity = self->capacity ? 2 * self->capacity : BUFFER_SIZE;
        self->buffer = cadre_realloc(self->buffer, self->capacity, 1);
    }

    size_t got = 0;
    status = read_some(self, self->buffer + self->stop, self->capacity - self->stop, &got);
    self->ended = got == 0;
    self->stop += got;
    return status;
}

/* Hands out the line [self->start, stop) of the buffer without a CR at its end, and returns 1; the
 * next line begins at `next`. */
static int
hand_out(cadre_data_file_t *self, size_t stop, size_t next, const char **line, size_t *length)
{
    size_t size = stop - self->start;
    if (size > 0 && self->buffer[stop - 1] == '\r') {
        size--;
    }

    int status = check_line_size(self, size);
    if (status < 0) {
        return status;
    }

    *line = self->buffer + self->start;
    *length = size;
    self->start = next;
    self->line_number++;
    return 1;
}

/* Gives the next line without its line end, valid until the next call. Returns 1; 0 at the end of
 * the file. */
int
cadre_data_file_line(cadre_data_file_t *self, const char **line, size_t *length)
{
    size_t searched = 0; /* bytes of the buffer that have no newline */
    for (;;) {
        size_t left = self->stop - self->start;
        char *newline = left > searched
                            ? memchr(self->buffer + self->start + searched, '\n', left - searched)
                            : NULL;
        if (newline) {
            size_t stop = (size_t)(newline - self->buffer);
            return hand_out(self, stop, stop + 1, line, length);
        }

        if (self->ended) {
            break;
        }

        searched = left;
        int status = fill(self);
        if (status < 0) {
            return status;
        }
    }

    return self->start == self->stop ? 0 : hand_out(self, self->stop, self->stop, line, length);
}
