#include "worker/slot/native.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/trusted.h"

/* Checks every folder from the file's own up to the root of the file system: whoever may write to
 * one of them could put another file in the place of this one. */
static int
check_folders(const char *path)
{
    cadre_auto(cadre_free) char *folder = cadre_strdup(path);
    struct stat info;
    do {
        *strrchr(folder, '/') = '\0';
        const char *name = *folder ? folder : "/";
        if (stat(name, &info) < 0) {
            return cadre_fail(CADRE_ENOTFOUND, "%s: %s", name, strerror(errno));
        }
        if (!cadre_trusted_folder(&info)) {
            return cadre_fail(CADRE_EREFUSED,
                              "%s: its folder %s can be written by others (chmod go-w)", path,
                              name);
        }
    } while (*folder);

    return 0;
}

/* Refuses a file that somebody else could change, which would put code into this process. After
 * this check only root and this user can change what the path leads to, so the file may be opened
 * by its path. (Opened by /proc/self/fd it would not find the libraries beside it, $ORIGIN.) */
static int
check_file(const char *path)
{
    struct stat info;
    if (stat(path, &info) < 0) {
        return cadre_fail(CADRE_ENOTFOUND, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(info.st_mode)) {
        return cadre_fail(CADRE_EREFUSED, "%s is not a regular file", path);
    }

    if (!cadre_trusted_file(&info)) {
        return cadre_fail(CADRE_EREFUSED,
                          "%s must belong to root or to this user and be writable by nobody else "
                          "(chmod go-w)",
                          path);
    }

    return check_folders(path);
}

static void
close_object(void *object)
{
    dlclose(object);
}

/* Calls the entry point of the shared object, which registers its functions. */
static int
call_entry_point(cadre_registry_t *registry, void *object, const char *path)
{
    int (*entry)(cadre_registry_t *) = NULL;
    void *symbol = dlsym(object, "cadre_native_register");
    if (!symbol) {
        return cadre_fail(CADRE_ECONFIG, "%s does not export cadre_native_register", path);
    }

    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C casts no data pointer to a function pointer */
    int status = entry(registry);
    if (status < 0) {
        return cadre_fail(CADRE_ECONFIG, "%s: cadre_native_register: %s: %s", path,
                          cadre_status_text(status), cadre_error_text());
    }

    return 0;
}

/* Loads the shared object `path` and registers its native functions. Only a file that nobody but
 * root and this user can change is loaded. */
int
cadre_native_load(cadre_registry_t *registry, const char *path)
{
    cadre_auto(cadre_free) char *absolute = realpath(path, NULL);
    if (!absolute) {
        return cadre_fail(CADRE_ENOTFOUND, "native functions: %s: %s", path, strerror(errno));
    }

    int status = check_file(absolute);
    if (status < 0) {
        return cadre_fail_within(status, "native functions");
    }

    void *object = dlopen(absolute, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        return cadre_fail(CADRE_ECONFIG, "native functions: %s", dlerror());
    }

    /* Destructors run in reverse order: so the shared object is closed after the destructors that
     * it registers itself. */
    status = cadre_registry_at_exit(registry, close_object, object);
    if (status < 0) {
        dlclose(object);
        return cadre_fail_within(status, "native functions");
    }

    status = call_entry_point(registry, object, absolute);
    return status < 0 ? cadre_fail_within(status, "native functions") : 0;
}
