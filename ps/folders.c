#include "ps/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/disk.h"
#include "common/system/beneath.h"

/* Allows checkpoints in `path` and below it. */
int
cadre_folders_add(cadre_folders_t *self, const char *path)
{
    if (!path[0]) {
        return cadre_fail(CADRE_EINVALID, "a folder for checkpoints has no name");
    }
    if (self->count == CADRE_FOLDERS_MAX) {
        return cadre_fail(CADRE_EINVALID, "there are more than %d folders for checkpoints",
                          CADRE_FOLDERS_MAX);
    }
    self->paths[self->count++] = path;
    return 0;
}

bool
cadre_folders_is_empty(const cadre_folders_t *self)
{
    return !self->any && self->count == 0;
}

/* Returns the path with the links in it resolved, but for its last component. If the folders above
 * do not exist, returns it as it is written. */
static char *
resolve(const char *path)
{
    cadre_auto(cadre_free) char *above = cadre_strdup(path);
    size_t length = strlen(above);
    while (length > 1 && above[length - 1] == '/') {
        above[--length] = '\0';
    }

    char *slash = strrchr(above, '/');
    const char *name = slash ? slash + 1 : above;
    cadre_auto(cadre_free) char *last = cadre_strdup(name);
    above[name - above] = '\0';
    cadre_auto(cadre_free) char *real = realpath(above[0] ? above : ".", NULL);
    if (!real) {
        return cadre_strdup(path);
    }
    return cadre_asprintf("%s/%s", strcmp(real, "/") == 0 ? "" : real, last);
}

/* Returns `path` relative to `folder`, "" for the folder itself; NULL when it is not below it. */
static const char *
below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    while (length > 0 && folder[length - 1] == '/') {
        length--;
    }
    if (strncmp(path, folder, length) != 0 || (path[length] != '/' && path[length] != '\0')) {
        return NULL;
    }
    return path + length + strspn(path + length, "/");
}

/* Opens `rest` below the folder without following any link; `path`, as it was asked for, is for
 * error texts. */
static int
open_below(const char *folder, const char *rest, const char *path, int *out)
{
    cadre_auto(cadre_disk_close) int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int found = root < 0 ? -1 : cadre_beneath_open(root, rest);
    if (found < 0 && errno == ELOOP) {
        return cadre_fail(CADRE_EREFUSED,
                          "%.120s leads through a symbolic link, and a ps opens nothing by one "
                          "below %.120s",
                          path, folder);
    }
    if (found < 0) {
        return cadre_disk_fail(errno, "cannot open %s", path);
    }
    *out = found;
    return 0;
}

/* Opens any path. Used where the coordinator is on an ipc socket, and so runs as the same user. */
static int
open_anywhere(const char *path, int *out)
{
    int found = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (found < 0) {
        return cadre_disk_fail(errno, "cannot open %s", path);
    }
    *out = found;
    return 0;
}

/* Opens `path` below the first allowed folder that it is in; folders are compared by what their
 * links lead to, and as they are written. */
int
cadre_folders_open(const cadre_folders_t *self, const char *path, int *out)
{
    if (self->any) {
        return open_anywhere(path, out);
    }

    cadre_auto(cadre_free) char *resolved = resolve(path);
    for (size_t i = 0; i < self->count; i++) {
        cadre_auto(cadre_free) char *real = realpath(self->paths[i], NULL);
        const char *rest = real ? below(resolved, real) : NULL;
        rest = rest ? rest : below(resolved, self->paths[i]);
        /* A path with ".." could lead out of the folder again. */
        if (rest && !cadre_beneath_goes_up(rest)) {
            return open_below(self->paths[i], rest, path, out);
        }
    }
    return cadre_fail(CADRE_EREFUSED,
                      "%.120s is in no folder that this ps may use for checkpoints: start cadre-ps "
                      "with --checkpoint-dir",
                      path);
}
