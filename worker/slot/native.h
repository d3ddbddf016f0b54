/*
 * native - loading native functions from shared objects.
 *
 * Owner:   main, before any slot starts.
 * Thread:  main's.
 *
 * The operator names the files on the command line, and nothing else can: what comes over the wire
 * loads no code.
 */
#ifndef CADRE_WORKER_SLOT_NATIVE_H
#define CADRE_WORKER_SLOT_NATIVE_H

#include "worker/core/registry.h"

enum { CADRE_NATIVE_FILES_MAX = 64 }; /* of a command line: a further --native is refused */

/* Loads the shared object `path` (a relative one is taken from the current folder) and calls its
 * cadre_native_register. CADRE_ENOTFOUND when there is no such file; CADRE_EREFUSED when it is not
 * a regular file, belongs to neither root nor this user, or can be written by others (itself or the
 * folder it lies in); CADRE_ECONFIG when it cannot be loaded, lacks the entry point, or that
 * fails. Every text names the file. */
int cadre_native_load(cadre_registry_t *registry, const char *path);

#endif
