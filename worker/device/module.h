/*
 * module - finds and opens the shared object of a kind of device.
 *
 * A module that was opened stays loaded: its libraries (CUDA's) may crash when they are unloaded.
 *
 * Plain functions without state. Thread: the one that opens devices.
 */
#ifndef CADRE_WORKER_DEVICE_MODULE_H
#define CADRE_WORKER_DEVICE_MODULE_H

#include "worker/device/device_module.h"

enum { CADRE_MODULE_FOLDERS = 2 };

/* Gives the folders in which modules may be: that of this program, and that of an installation,
 * relative to it. The caller frees each. Fails with CADRE_EIO when /proc/self/exe cannot be
 * read. */
int cadre_module_folders(char *folders[CADRE_MODULE_FOLDERS]);

/* Finds cadre_device_KIND.so in `folders`; fails with CADRE_ENOTFOUND. `path` may be NULL; else the
 * caller frees *path. */
int cadre_module_find(const char *kind, char *const *folders, size_t folder_count, char **path);

/* Opens cadre_device_KIND.so from the first of `folders` that has it. Fails, with a text that names
 * the file or library: with CADRE_ENOTFOUND when no folder has the module, CADRE_EUNAVAILABLE when
 * it cannot be loaded (a library that it needs is missing), CADRE_EPROTOCOL when it is no module of
 * Cadre, or of another build. */
int cadre_module_open(const char *kind, char *const *folders, size_t folder_count,
                      const cadre_device_functions_t **out);

/* Checks that the dynamic linker finds `library`; fails with CADRE_EUNAVAILABLE and a text that
 * says which library is missing and `what` it is. */
int cadre_module_probe(const char *library, const char *what);

#endif
