#include "coordinator/private_directory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* Returns whether the path is a directory of this user's, not a link, and nobody else may enter
 * it. */
static bool
is_private(const char *path, uid_t user)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == user &&
           (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/* Makes HOME/.cache/cadre and gives its path; false if it cannot be made, or other users may enter
 * it. */
static bool
make_in_home(const char *home, uid_t user, char **out)
{
    struct stat about;
    if (!home || *home != '/' || lstat(home, &about) < 0 || about.st_uid != user ||
        (about.st_mode & (S_IWGRP | S_IWOTH))) {
        return false;
    }

    cadre_auto(cadre_free) char *cache = cadre_asprintf("%s/.cache", home);
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/cadre", cache);

    /* both directories may exist already: only the check below counts */
    mkdir(cache, 0700);
    mkdir(own, 0700);
    if (!is_private(own, user)) {
        return false;
    }

    *out = cadre_strdup(own);
    return true;
}

/* Gives the first directory that only this user may enter: XDG_RUNTIME_DIR, /run/user/UID, or one
 * in HOME that is made for it. */
int
cadre_private_directory(const char *runtime, const char *home, uid_t user, char **out)
{
    cadre_auto(cadre_free) char *of_system = cadre_asprintf("/run/user/%u", (unsigned)user);
    if (runtime && *runtime == '/' && is_private(runtime, user)) {
        *out = cadre_strdup(runtime);
        return 0;
    }

    if (is_private(of_system, user)) {
        *out = cadre_strdup(of_system);
        return 0;
    }

    return make_in_home(home, user, out)
               ? 0
               : cadre_fail(CADRE_ENOTFOUND,
                            "there is no directory of this user's alone: neither "
                            "XDG_RUNTIME_DIR, %s nor one in HOME",
                            of_system);
}
