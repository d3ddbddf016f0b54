#include "coordinator/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/endpoint.h"
#include "common/limits.h"
#include "common/memory.h"
#include "common/status.h"

enum {
    MODE = 0666,                                                /* less the umask */
    TEXT_SIZE = CADRE_NAME_SIZE_MAX + CADRE_HOST_SIZE_MAX + 96, /* of what stands in the file */
};

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

int
cadre_lock_file_open(const char *path, const char *what, const char *job, int *out)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, MODE);
    if (fd < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int status = 0;
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) {
        status = write_holder(fd, path, job);
    } else if (errno == EAGAIN || errno == EACCES) {
        status = held_by_another(fd, what);
    } else {
        status = cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }
    if (status < 0) {
        close(fd);
        return status;
    }
    *out = fd;
    return 0;
}

void
cadre_lock_file_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}
