#include "common/system/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns whether some component of the path is "..". */
bool
cadre_beneath_goes_up(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2) {
        bool begins = at == path || at[-1] == '/';
        if (begins && (at[2] == '/' || at[2] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Sets errno and returns -1, as a system call that fails. */
static int
fail(int error)
{
    errno = error;
    return -1;
}

/* Opens the component `name` in `folder`, and closes `folder`. Refuses a link (ELOOP), and anything
 * else that is no folder. */
static int
step(int folder, const char *name)
{
    int next = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int error = errno;
    close(folder);
    if (next < 0) {
        return fail(error);
    }

    struct stat about;
    if (fstat(next, &about) == 0 && S_ISDIR(about.st_mode)) {
        return next;
    }
    close(next);
    return fail(S_ISLNK(about.st_mode) ? ELOOP : ENOTDIR);
}

/* Opens `path` below `root` with one call for each component, where the kernel has no openat2.
 * Another process cannot redirect it: each folder is opened by its name in the folder before, whose
 * descriptor stays valid if it is renamed. */
static int
walk(int root, const char *path)
{
    char names[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof(names)) {
        return fail(ENAMETOOLONG);
    }
    memcpy(names, path, length + 1);

    int folder = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char *rest = NULL;
    for (char *name = strtok_r(names, "/", &rest); name && folder >= 0;
         name = strtok_r(NULL, "/", &rest)) {
        folder = step(folder, name);
    }
    return folder;
}

/* Opens the folder `path` below the open folder `root`, through no symbolic link. Returns a
 * descriptor, or -1 with errno. */
int
cadre_beneath_open(int root, const char *path)
{
    if (path[0] == '/' || cadre_beneath_goes_up(path)) {
        return fail(EXDEV);
    }

    const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int found = (int)syscall(SYS_openat2, root, path[0] ? path : ".", &how, sizeof(how));
    /* EPERM: what filters of containers say to a call that they do not know. */
    bool is_unknown = found < 0 && (errno == ENOSYS || errno == EPERM);
    return is_unknown ? walk(root, path) : found;
}
