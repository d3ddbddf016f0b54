#include "coordinator/private_directory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/memory.h"
#include "common/base/status.h"

static bool
is_private(const char *path, uid_t user)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == user &&
           (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

int
cadre_private_directory(const char *runtime, const char *temporary, uid_t user, char **out)
{
    cadre_auto(cadre_free) char *of_system = cadre_asprintf("/run/user/%u", (unsigned)user);
    cadre_auto(cadre_free) char *own = cadre_asprintf("%s/cadre-%u", temporary, (unsigned)user);
    if (runtime && *runtime == '/' && is_private(runtime, user)) {
        *out = cadre_strdup(runtime);
        return 0;
    }
    if (is_private(of_system, user)) {
        *out = cadre_strdup(of_system);
        return 0;
    }
    if (mkdir(own, 0700) < 0 && errno != EEXIST) {
        return cadre_fail(CADRE_EIO, "%s: %s", own, strerror(errno));
    }
    if (!is_private(own, user)) {
        return cadre_fail(
            CADRE_EREFUSED,
            "%s is not a directory of this user's alone (mode 0700): remove it, or set "
            "XDG_RUNTIME_DIR to one",
            own);
    }
    *out = cadre_strdup(own);
    return 0;
}
