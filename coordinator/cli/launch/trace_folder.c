#include "coordinator/cli/launch/trace_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* Returns the path of a worker's trace, freed by the caller. A process that was started again has
 * the number of its start in the name, so that earlier traces stay. */
char *
cadre_trace_folder_file(const char *folder, uint32_t index, uint32_t starts)
{
    return starts > 1
               ? cadre_asprintf("%s/worker-%" PRIu32 ".%" PRIu32 ".json", folder, index, starts)
               : cadre_asprintf("%s/worker-%" PRIu32 ".json", folder, index);
}

/* Returns the position after the digits at `text`; NULL when there are none. */
static const char *
skip_number(const char *text)
{
    const char *end = text;
    while (isdigit((unsigned char)*end)) {
        end++;
    }
    return end > text ? end : NULL;
}

/* Returns whether `name` is that of a trace, as cadre_trace_folder_file makes it. */
static bool
is_trace(const char *name)
{
    static const char prefix[] = "worker-";
    if (strncmp(name, prefix, strlen(prefix)) != 0) {
        return false;
    }
    const char *rest = skip_number(name + strlen(prefix));
    if (rest && *rest == '.' && isdigit((unsigned char)rest[1])) {
        rest = skip_number(rest + 1);
    }
    return rest && strcmp(rest, ".json") == 0;
}

static int
fail(const char *folder, const char *what)
{
    return cadre_fail(CADRE_EIO, "the folder %s %s: %s", folder, what, strerror(errno));
}

/* Checks that files can be made in `folder`, by making a folder there: access() would say yes to
 * root everywhere. */
static int
try_writing(const char *folder)
{
    cadre_auto(cadre_free) char *inside = cadre_asprintf("%s/.cadre-XXXXXX", folder);
    if (!mkdtemp(inside)) {
        return fail(folder, "cannot be written to");
    }
    rmdir(inside);
    return 0;
}

/* Checks that files can be written into the folder or, where it does not exist yet, into the
 * nearest folder above it that does. */
int
cadre_trace_folder_check(const char *folder)
{
    struct stat info;
    cadre_auto(cadre_free) char *path = cadre_strdup(folder);
    while (stat(path, &info) < 0) {
        if (errno != ENOENT) {
            return fail(path, "cannot be used");
        }
        char *slash = strrchr(path, '/');
        while (slash && slash > path && slash[-1] == '/') {
            slash--;
        }
        if (!slash || slash == path) {
            return try_writing(slash ? "/" : ".");
        }
        *slash = '\0';
    }

    if (!S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return fail(path, "cannot be used");
    }

    return try_writing(path);
}

/* Makes the folder with its parents, as mkdir -p does. */
static int
make(const char *folder)
{
    cadre_auto(cadre_free) char *path = cadre_strdup(folder);
    for (char *c = path + 1;; c++) {
        bool end = *c == '\0';
        if (!end && *c != '/') {
            continue;
        }

        *c = '\0';
        struct stat info;
        if (mkdir(path, 0777) < 0 && stat(path, &info) < 0) {
            return fail(path, "cannot be made");
        }
        if (end) {
            return 0;
        }

        *c = '/';
    }
}

static void
close_folder(DIR **folder)
{
    if (*folder) {
        closedir(*folder);
    }
}

/* Removes the traces of earlier runs from the folder; other files stay. */
int
cadre_trace_folder_sweep(const char *folder, const char *own)
{
    const char *slash = own ? strrchr(own, '/') : NULL;
    const char *spared = slash ? slash + 1 : "";
    cadre_auto(close_folder) DIR *entries = opendir(folder);
    if (!entries) {
        return fail(folder, "cannot be read");
    }

    const struct dirent *entry;
    while ((entry = readdir(entries))) {
        bool is_old = is_trace(entry->d_name) && strcmp(entry->d_name, spared) != 0;
        if (is_old && unlinkat(dirfd(entries), entry->d_name, 0) < 0) {
            return cadre_fail(CADRE_EIO, "the trace %s/%s of an earlier run cannot be removed: %s",
                              folder, entry->d_name, strerror(errno));
        }
    }

    return 0;
}

/* Makes the folder with its parents, and checks that it can be written to. */
int
cadre_trace_folder_make(const char *folder)
{
    int status = make(folder);
    return status < 0 ? status : cadre_trace_folder_check(folder);
}
