#include "coordinator/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/endpoint.h"

enum {
    /* Tries to lock; each fails only if another coordinator began and ended meanwhile. */
    TRIES_MAX = 16,
    MODE = 0600,
    TEXT_SIZE = CADRE_NAME_SIZE_MAX + CADRE_HOST_SIZE_MAX + 96, /* bytes of the text in the file */
};

/* Fails with CADRE_EEXISTS and the name of the holder, which the first line of the file says. */
static int
held_by_another(int fd, const char *what)
{
    char holder[TEXT_SIZE] = "";
    ssize_t size_bytes = pread(fd, holder, sizeof(holder) - 1, 0);
    if (size_bytes > 0) {
        holder[size_bytes] = '\0';
        holder[strcspn(holder, "\n")] = '\0';
    }
    return cadre_fail(CADRE_EEXISTS, "%s is in use by %s", what,
                      *holder ? holder : "another coordinator");
}

/* Writes who holds the lock into the file: job, process and host. */
static int
write_holder(int fd, const char *path, const char *job)
{
    char host[CADRE_HOST_SIZE_MAX + 1] = "";
    char text[TEXT_SIZE];

    if (gethostname(host, sizeof(host) - 1) < 0) {
        snprintf(host, sizeof(host), "this host");
    }

    int length = snprintf(text, sizeof(text), "the coordinator of job %s, process %d on %s\n", job,
                          (int)getpid(), host);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)length, 0) != length) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    return 0;
}

/* Returns whether the path still leads to the open file: its last holder may have removed it
 * meanwhile. */
static bool
is_there(int fd, const char *path)
{
    struct stat opened;
    struct stat found;
    return fstat(fd, &opened) == 0 && lstat(path, &found) == 0 && opened.st_ino == found.st_ino &&
           opened.st_dev == found.st_dev;
}

/* Checks that the file is a regular one of this user's, with one name. Any other file is not ours
 * to lock, read or write. */
static int
check_own(int fd, const char *path)
{
    struct stat about;
    if (fstat(fd, &about) < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || about.st_nlink > 1) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s is no lock file of this user's: another user's, no regular file, or "
                          "linked elsewhere",
                          path);
    }

    return 0;
}

/* Locks a file that is this user's. CADRE_EAGAIN when it was removed meanwhile. */
static int
lock(int fd, const char *path, const char *what)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int status = check_own(fd, path);
    if (status < 0) {
        return status;
    }

    if (fcntl(fd, F_OFD_SETLK, &whole) < 0) {
        return errno == EAGAIN || errno == EACCES
                   ? held_by_another(fd, what)
                   : cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    if (!is_there(fd, path)) {
        /* told only when the last of several tries ends like this */
        return cadre_fail(CADRE_EAGAIN, "%s is removed and made again and again", path);
    }

    return 0;
}

/* Opens and locks the file. CADRE_EAGAIN when it was removed meanwhile. */
static int
take(const char *path, const char *what, int *out)
{
    /* a link at the path is not followed, and a FIFO does not block: check_own refuses it */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, MODE);
    if (fd < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    int status = lock(fd, path, what);
    if (status < 0) {
        close(fd);
        return status;
    }

    *out = fd;
    return 0;
}

/* Takes the lock of the file at `path`, making the file where it is missing, and writes the
 * holder's name into it. */
int
cadre_lock_file_open(cadre_lock_file_t *self, const char *path, const char *what, const char *job)
{
    int fd = -1;
    int status = CADRE_EAGAIN;
    for (int i = 0; i < TRIES_MAX && status == CADRE_EAGAIN; i++) {
        status = take(path, what, &fd);
    }

    if (status < 0) {
        return status;
    }

    status = write_holder(fd, path, job);
    if (status < 0) {
        close(fd);
        return status;
    }

    *self = (cadre_lock_file_t){.path = cadre_strdup(path), .fd = fd};
    return 0;
}

/* Takes the lock again if the path does not lead to the locked file any more. */
int
cadre_lock_file_keep(cadre_lock_file_t *self, const char *what, const char *job)
{
    if (is_there(self->fd, self->path)) {
        return 0;
    }

    cadre_lock_file_t renewed = {0};
    int status = cadre_lock_file_open(&renewed, self->path, what, job);
    if (status < 0) {
        return status;
    }

    close(self->fd);
    free(self->path);
    *self = renewed;
    return 0;
}

/* Releases the lock and removes the file. */
void
cadre_lock_file_close(cadre_lock_file_t *self)
{
    if (self->path) {
        if (is_there(self->fd, self->path)) {
            /* only our own file: another one at the path belongs to another coordinator */
            unlink(self->path);
        }
        close(self->fd);
        cadre_free(&self->path);
    }
}
