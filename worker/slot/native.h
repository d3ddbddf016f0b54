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

enum { CADRE_NATIVE_FILES_MAX = 64 }; /* --native flags of a command line; one more is refused */

/* Loads the shared object `path` (a relative one is taken from the current folder) and calls its
 * cadre_native_register. Fails, with a text that names the file: with CADRE_ENOTFOUND when there is
 * no such file; CADRE_EREFUSED when it is not a regular file, belongs to neither root nor this
 * user, or others can write to it or to a folder above it; CADRE_ECONFIG when it cannot be loaded,
 * lacks the entry point, or the entry point fails. */
int cadre_native_load(cadre_registry_t *registry, const char *path);

#endif
