/*
 * module - finds and opens the shared object of a kind of device.
 *
 * A module that was opened stays in the process: libraries behind it (CUDA's) do not like to leave.
 *
 * Plain functions without state. Thread: the one that opens devices.
 */
#ifndef CADRE_WORKER_DEVICE_MODULE_H
#define CADRE_WORKER_DEVICE_MODULE_H

#include "worker/device/device_module.h"

enum { CADRE_MODULE_FOLDERS = 2 };

/* Where modules may lie: beside this program, and in the directory that an installation puts them
 * into, found from where the program lies. Each is freed by the caller. CADRE_EIO. */
int cadre_module_folders(char *folders[CADRE_MODULE_FOLDERS]);

/* 0 when one of `folders` has cadre_device_KIND.so, CADRE_ENOTFOUND otherwise; *path, if asked for,
 * is freed by the caller. */
int cadre_module_find(const char *kind, char *const *folders, size_t folder_count, char **path);

/* Opens cadre_device_KIND.so from the first of `folders` that has it. Each failure has a text that
 * names the file or library: CADRE_ENOTFOUND when no folder has it, CADRE_EUNAVAILABLE when it
 * cannot be loaded (a library that it needs is missing), CADRE_EPROTOCOL when it is none of ours or
 * of another build. */
int cadre_module_open(const char *kind, char *const *folders, size_t folder_count,
                      const cadre_device_functions_t **out);

/* Whether the dynamic linker finds `library`: 0, or CADRE_EUNAVAILABLE with a text that names it
 * and `what` it is. */
int cadre_module_probe(const char *library, const char *what);

#endif
