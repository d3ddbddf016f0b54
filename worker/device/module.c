#include "worker/device/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* In an installation, the path from the programs' folder to the modules' folder. */
#ifndef CADRE_MODULE_FOLDER
#define CADRE_MODULE_FOLDER "../lib/cadre"
#endif

/* Gives the folders in which modules may be: this program's, and that of an installation, relative
 * to it. The caller frees both. */
int
cadre_module_folders(char *folders[CADRE_MODULE_FOLDERS])
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0) {
        return cadre_fail(CADRE_EIO, "/proc/self/exe: %s", strerror(errno));
    }
    path[length] = '\0';
    *strrchr(path, '/') = '\0'; /* the link is an absolute path, so it has a slash */
    folders[0] = cadre_strdup(path);
    folders[1] = cadre_asprintf("%s/%s", path, CADRE_MODULE_FOLDER);
    return 0;
}

/* Fails with CADRE_EPROTOCOL unless the module has the layout of this build: the two share
 * structs. */
static int
check(const cadre_device_module_t *module, const char *path)
{
    if (!module) {
        return cadre_fail(CADRE_EPROTOCOL, "%s describes no device", path);
    }
    if (module->abi != CADRE_DEVICE_ABI) {
        return cadre_fail(CADRE_EPROTOCOL,
                          "%s has device ABI %" PRIu32
                          ", this program %d: both must come from one build",
                          path, module->abi, CADRE_DEVICE_ABI);
    }
    if (module->layout != CADRE_DEVICE_LAYOUT) {
        return cadre_fail(CADRE_EPROTOCOL, "%s is of another build of the same device ABI", path);
    }
    return 0;
}

/* Loads the module at `path` and gives its device functions. A module of another build is closed
 * again. */
static int
open_file(const char *path, const cadre_device_functions_t **out)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        return cadre_fail(CADRE_EUNAVAILABLE, "%s", dlerror());
    }
    cadre_device_module_entry_t entry = NULL;
    void *symbol = dlsym(object, CADRE_DEVICE_MODULE_SYMBOL);
    if (!symbol) {
        dlclose(object);
        return cadre_fail(CADRE_EPROTOCOL, "%s does not export %s", path,
                          CADRE_DEVICE_MODULE_SYMBOL);
    }
    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C casts no data pointer to a function pointer */
    const cadre_device_module_t *module = entry();
    int status = check(module, path);
    if (status < 0) {
        dlclose(object);
        return status;
    }
    *out = module->functions;
    return 0;
}

/* Gives the path of cadre_device_KIND.so in the first of the folders that has it. `path` may be
 * NULL, to ask only whether there is one. */
int
cadre_module_find(const char *kind, char *const *folders, size_t folder_count, char **path)
{
    for (size_t i = 0; i < folder_count; i++) {
        cadre_auto(cadre_free) char *file =
            cadre_asprintf("%s/cadre_device_%s.so", folders[i], kind);
        if (access(file, F_OK) == 0) {
            if (path) {
                *path = file;
                file = NULL;
            }
            return 0;
        }
    }
    return cadre_fail(CADRE_ENOTFOUND, "no cadre_device_%s.so in %s%s%s", kind,
                      folder_count > 0 ? folders[0] : "no folder", folder_count > 1 ? " or " : "",
                      folder_count > 1 ? folders[1] : "");
}

/* Loads cadre_device_KIND.so from the first of the folders that has it. */
int
cadre_module_open(const char *kind, char *const *folders, size_t folder_count,
                  const cadre_device_functions_t **out)
{
    cadre_auto(cadre_free) char *path = NULL;
    int status = cadre_module_find(kind, folders, folder_count, &path);
    return status < 0 ? status : open_file(path, out);
}

/* Fails unless the dynamic linker finds `library`; the text says `what` is missing. */
int
cadre_module_probe(const char *library, const char *what)
{
    /* The library stays open: unloading a driver may crash. */
    if (!dlopen(library, RTLD_LAZY | RTLD_LOCAL)) {
        return cadre_fail(CADRE_EUNAVAILABLE, "no %s: %s", what, dlerror());
    }
    return 0;
}
