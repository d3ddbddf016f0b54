#include "ps/folders.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/status.h"

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

/* Whether `path` is `folder` or below it, as both are written. */
static bool
is_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    while (length > 0 && folder[length - 1] == '/') {
        length--;
    }
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Whether some component of the path is "..". */
static bool
goes_up(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")); at += 2) {
        bool begins = at == path || at[-1] == '/';
        if (begins && (at[2] == '/' || at[2] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool
is_allowed(const char *path, const char *folder)
{
    char real_path[PATH_MAX];
    char real_folder[PATH_MAX];
    if (realpath(path, real_path)) {
        return realpath(folder, real_folder) && is_within(real_path, real_folder);
    }
    if (goes_up(path)) {
        return false;
    }
    return is_within(path, folder) ||
           (realpath(folder, real_folder) && is_within(path, real_folder));
}

int
cadre_folders_check(const cadre_folders_t *self, const char *path)
{
    for (size_t i = 0; i < self->count; i++) {
        if (is_allowed(path, self->paths[i])) {
            return 0;
        }
    }
    if (self->any) {
        return 0;
    }
    return cadre_fail(CADRE_EREFUSED,
                      "%.120s is in no folder that this ps may use for checkpoints: start cadre-ps "
                      "with --checkpoint-dir",
                      path);
}
