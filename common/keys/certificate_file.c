#include "common/keys/certificate_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/trusted.h"

/* The bytes of a certificate file, wiped when their scope ends. Has room for one byte too many, so
 * that a file that is too long is noticed. */
typedef struct {
    char bytes[CADRE_CERTIFICATE_SIZE_MAX + 1];
} secret_text_t;

static void
secret_text_wipe(secret_text_t *self)
{
    explicit_bzero(self, sizeof(*self));
}

static void
close_fd(int *fd_p)
{
    if (*fd_p >= 0) {
        close(*fd_p);
    }
}

/* Fails with the status of an errno, and a text that begins with the path. */
static int
fail_system(const char *path, int error)
{
    char reason[256];
    int status = CADRE_EIO;
    if (error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG) {
        status = CADRE_ENOTFOUND;
    } else if (error == EEXIST) {
        status = CADRE_EEXISTS;
    } else if (error == EACCES || error == EPERM || error == ENXIO) {
        status = CADRE_EREFUSED; /* ENXIO: it is a socket */
    }

    return cadre_fail(status, "%s: %s", path, strerror_r(error, reason, sizeof(reason)));
}

/* Checks that the open file is a regular one that belongs to this user or root. */
static int
check_owner(const char *path, const struct stat *about)
{
    if (!S_ISREG(about->st_mode)) {
        return cadre_fail(CADRE_EREFUSED, "%s: not a regular file", path);
    }

    if (!cadre_trusted_owner(about)) {
        return cadre_fail(
            CADRE_EREFUSED,
            "%s: it belongs to user %u, neither to this user nor to root: chown %u %s", path,
            (unsigned)about->st_uid, (unsigned)geteuid(), path);
    }

    return 0;
}

/* Checks the mode of the open file: nobody else may read a secret, and nobody else may write to a
 * public certificate. */
static int
check_mode(const char *path, const struct stat *about, bool secret)
{
    /* Of root's file a group may read the secret, as Kubernetes mounts it; else only the owner. */
    mode_t others = about->st_uid == 0 ? 037 : 077;
    if (secret && (about->st_mode & others)) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s: others may open it (mode %04o) and it holds a secret key: chmod 600 "
                          "%s, or in Kubernetes defaultMode: 0400",
                          path, (unsigned)about->st_mode & 07777, path);
    }

    if (!secret && (about->st_mode & 022)) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s: others may write to it, and so say who takes part: chmod go-w %s",
                          path, path);
    }

    return 0;
}

/* Reads an open file to its end, or until `text` is full: that is one byte more than a certificate
 * may have, and the parser refuses it. */
static int
read_bytes(const char *path, int fd, secret_text_t *text, size_t *size_bytes)
{
    size_t size = 0;
    while (size < sizeof(text->bytes)) {
        ssize_t count = read(fd, text->bytes + size, sizeof(text->bytes) - size);
        if (count < 0 && errno != EINTR) {
            return fail_system(path, errno);
        }
        if (count == 0) {
            break;
        }
        size += count > 0 ? (size_t)count : 0;
    }

    *size_bytes = size;
    return 0;
}

/* Opens a file for reading and gives what fstat says of it; refuses it unless it is a regular file
 * of this user or root. The caller closes `fd`, also on failure. */
static int
open_owned(const char *path, int *fd, struct stat *about)
{
    /* O_NONBLOCK: opening a pipe under this name must not block; fstat then shows what it is. */
    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, about) < 0) {
        return fail_system(path, errno);
    }
    return check_owner(path, about);
}

/* Reads and parses a certificate file; gives what fstat says of it, for the check of its mode. */
static int
read_file(const char *path, struct stat *about, cadre_certificate_t *out)
{
    cadre_auto(close_fd) int fd = -1;
    cadre_auto(secret_text_wipe) secret_text_t text;
    size_t size_bytes = 0;
    int status = open_owned(path, &fd, about);
    if (status < 0) {
        return status;
    }

    status = read_bytes(path, fd, &text, &size_bytes);
    if (status < 0) {
        return status;
    }

    status = cadre_certificate_parse(text.bytes, size_bytes, out);
    return status < 0 ? cadre_fail_within(status, "%s", path) : 0;
}

/* Reads a certificate file: the process's own with its secret (`secret`), or another's public one.
 * Refuses a file that others may change, or read if it has a secret. */
int
cadre_certificate_file_read(const char *path, bool secret, cadre_certificate_t *out)
{
    struct stat about;
    cadre_auto(cadre_certificate_fini) cadre_certificate_t certificate = {0};
    int status = read_file(path, &about, &certificate);
    if (status < 0) {
        return status;
    }

    /* The content is checked before the mode: the remedy for a secret in the wrong file is not
     * chmod. */
    if (secret != (certificate.secret_key[0] != '\0')) {
        return cadre_fail(CADRE_EDATA,
                          secret ? "%s: it holds no secret key: a task's own file has both keys"
                                 : "%s: it holds a secret key, which is for its owner alone: only "
                                   "public certificates belong here",
                          path);
    }

    status = check_mode(path, &about, secret);
    if (status < 0) {
        return status;
    }

    *out = certificate;
    return 0;
}

/* Writes a text to an open file and waits until it is on the disk. */
static int
write_bytes(const char *path, int fd, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        ssize_t count = write(fd, text, left);
        if (count < 0 && errno != EINTR) {
            return fail_system(path, errno);
        }
        text += count > 0 ? count : 0;
        left -= count > 0 ? (size_t)count : 0;
    }

    return fsync(fd) == 0 ? 0 : fail_system(path, errno);
}

/* Syncs the folder of `path`, so that the file's name is on disk, too; skipped on file systems that
 * cannot sync folders. */
static int
sync_folder(const char *path)
{
    cadre_auto(cadre_free) char *copy = cadre_strdup(path);
    cadre_auto(close_fd) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) == 0 || errno == EINVAL ? 0 : fail_system(path, errno);
}

/* Writes a certificate to a new file, with or without its secret, and waits until the file and its
 * name are on the disk. */
int
cadre_certificate_file_write(const cadre_certificate_t *self, const char *path, bool secret)
{
    cadre_auto(secret_text_wipe) secret_text_t text;
    cadre_certificate_text(self, secret, text.bytes);
    cadre_auto(close_fd) int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, secret ? 0600 : 0644);
    if (fd < 0) {
        return fail_system(path, errno);
    }

    int status = write_bytes(path, fd, text.bytes);
    status = status < 0 ? status : sync_folder(path);
    if (status < 0) {
        unlink(path); /* a key that a crash may take away must not be used */
    }

    return status;
}
