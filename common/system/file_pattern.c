#include "common/system/file_pattern.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/memory.h"
#include "common/base/status.h"

static const char SPECIAL[] = "*?[";

bool
cadre_file_pattern_is(const char *path)
{
    return strpbrk(path, SPECIAL) != NULL;
}

/* Returns `path` in the folder `base` when it is relative. */
static char *
join(const char *base, const char *path)
{
    return !base || !*base || *path == '/' ? cadre_strdup(path)
                                           : cadre_asprintf("%s/%s", base, path);
}

/* Returns a copy of `text` whose characters stand for themselves in a pattern. */
static char *
quote(const char *text)
{
    char *quoted = cadre_calloc(2 * strlen(text) + 1, 1);
    char *to = quoted;
    for (; *text; text++) {
        if (strchr("*?[]\\", *text)) {
            *to++ = '\\';
        }
        *to++ = *text;
    }
    return quoted;
}

/* Appends a name, which the struct then owns. */
static int
append(cadre_file_names_t *names, const char *name, size_t count_max)
{
    if (names->count >= count_max) {
        return cadre_fail(CADRE_ETOOLARGE, "%s is one file more than the %zu that are allowed",
                          name, count_max);
    }
    names->items = cadre_grow(names->items, names->count, &names->capacity, sizeof(*names->items));
    names->items[names->count++] = cadre_strdup(name);
    return 0;
}

static int
compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Appends what glob has found. */
static int
append_all(cadre_file_names_t *names, glob_t *found, size_t count_max)
{
    qsort(found->gl_pathv, found->gl_pathc, sizeof(*found->gl_pathv), compare);
    int status = 0;
    for (size_t i = 0; i < found->gl_pathc && status == 0; i++) {
        status = append(names, found->gl_pathv[i], count_max);
    }
    return status;
}

int
cadre_file_pattern_expand(const char *base, const char *path, size_t count_max,
                          cadre_file_names_t *names)
{
    cadre_auto(cadre_free) char *whole = join(base, path);
    struct stat info;
    if (!cadre_file_pattern_is(path) || lstat(whole, &info) == 0) {
        return append(names, whole, count_max);
    }

    cadre_auto(cadre_free) char *folder = base ? quote(base) : NULL;
    cadre_auto(cadre_free) char *pattern = join(folder, path);
    glob_t found = {0};
    int code = glob(pattern, GLOB_NOSORT, NULL, &found);
    int status = code == 0 ? append_all(names, &found, count_max)
                           : cadre_fail(CADRE_ENOTFOUND, "no file fits %s", whole);
    globfree(&found);
    return status;
}

void
cadre_file_names_fini(cadre_file_names_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->items[i]);
    }
    free(self->items);
    *self = (cadre_file_names_t){0};
}
