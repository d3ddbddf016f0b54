#include "coordinator/cli/launch/data_path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/file_pattern.h"

static const char variable[] = "${DATA}";

static char *
absolute(const char *path)
{
    cadre_auto(cadre_free) char *here = getcwd(NULL, 0);
    return *path == '/' || !here ? cadre_strdup(path) : cadre_asprintf("%s/%s", here, path);
}

char *
cadre_data_folder(const cadre_job_t *job)
{
    return absolute(job->data_dir ? job->data_dir : job->folder);
}

/* Returns `path` in the folder `base`; `path` itself if it is absolute or `base` is NULL. */
static char *
join(const char *base, const char *path)
{
    return base && *path != '/' ? cadre_asprintf("%s/%s", base, path) : cadre_strdup(path);
}

enum { FILES_MAX = 65536 }; /* as the worker takes (worker/data/source.h) */

/* Checks that the file exists and can be read, and is no folder. */
static int
check_file(const char *path)
{
    struct stat info;
    if (access(path, R_OK) < 0 || stat(path, &info) < 0) {
        return cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        return cadre_fail(CADRE_ENOTFOUND, "%s is a folder, not a file of rows", path);
    }
    return 0;
}

/* Checks each file that fits the path, which may be a pattern. */
static int
check_files(const char *path)
{
    cadre_auto(cadre_file_names_fini) cadre_file_names_t names = {0};
    int status = cadre_file_pattern_expand(NULL, path, FILES_MAX, &names);
    for (size_t i = 0; i < names.count && status == 0; i++) {
        status = check_file(names.items[i]);
    }
    return status;
}

/* Gives the path of a data file as a task opens it. ${DATA} at its beginning stands for the folder
 * of --data, and a relative path is in that folder. With `local` the tasks are on this machine:
 * without --data a relative path is then in the job file's folder, and the file must exist. */
static int
resolve_path(const cadre_job_t *job, const char *path, bool local, char **resolved)
{
    const char *base = job->data_dir;
    size_t length = sizeof(variable) - 1;
    if (strncmp(path, variable, length) == 0) {
        if (local && !base) {
            return cadre_fail(CADRE_ENOTFOUND, "%s: the path %s needs a folder: give --data DIR",
                              job->file, path);
        }
        path += length;
        path += strspn(path, "/");
    } else if (local && !base) {
        base = job->folder;
    }

    char *joined = join(base, path);
    if (local) {
        char *whole = absolute(joined);
        free(joined);
        joined = whole;
    }

    int status = local ? check_files(joined) : 0;
    if (status < 0) {
        free(joined);
        return status;
    }

    *resolved = joined;
    return 0;
}

/* Resolves the path `value`; NULL, and a status, when it cannot be. */
static int
resolve_value(const cadre_job_t *job, const json_t *value, bool local, json_t **resolved)
{
    cadre_auto(cadre_free) char *whole = NULL;
    int status = resolve_path(job, json_string_value(value), local, &whole);
    if (status == 0) {
        *resolved = json_string(whole);
    }
    return status;
}

/* Resolves each path of a list. */
static int
resolve_list(const cadre_job_t *job, const json_t *list, bool local, json_t **resolved)
{
    json_t *whole = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *value = NULL;
        int status = resolve_value(job, json_array_get(list, i), local, &value);
        if (status < 0) {
            json_decref(whole);
            return status;
        }
        json_array_append_new(whole, value);
    }
    *resolved = whole;
    return 0;
}

/* Gives a copy of a dataset's description in which the paths of its files are resolved. */
int
cadre_data_resolve(const cadre_job_t *job, const json_t *description, bool local, json_t **resolved)
{
    static const char *const keys[] = {"path", "labels_path"};
    json_t *copy = json_deep_copy(description);
    for (size_t i = 0; i < CADRE_COUNT_OF(keys); i++) {
        const json_t *value = json_object_get(copy, keys[i]);
        if (!value) {
            continue;
        }
        json_t *whole = NULL;
        int status = json_is_array(value) ? resolve_list(job, value, local, &whole)
                                          : resolve_value(job, value, local, &whole);
        if (status < 0) {
            json_decref(copy);
            return status;
        }
        json_object_set_new(copy, keys[i], whole);
    }

    *resolved = copy;
    return 0;
}
