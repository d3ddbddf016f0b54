/*
 * native - the native functions that this worker knows, by name.
 *
 * Owner:   main, before any slot starts. Thread: immutable afterwards, any thread may look.
 *
 * Functions come from shared objects that the operator names on the command line, and from nowhere
 * else: nothing on the wire can load code. One function is built in, "noop", which does nothing and
 * measures what a closure costs.
 */
#ifndef CADRE_WORKER_NATIVE_H
#define CADRE_WORKER_NATIVE_H

#include <cadre/worker.h>

enum {
    CADRE_NATIVE_FUNCTIONS_MAX = 1024, /* cadre_registry_add: CADRE_EFULL */
    CADRE_NATIVE_FILES_MAX = 64,       /* cadre_registry_load: CADRE_EFULL */
    CADRE_NATIVE_EXITS_MAX = 1024,     /* cadre_registry_at_exit: CADRE_EFULL */
};

typedef struct {
    char *name;
    cadre_native_t function;
    void *state;
} cadre_native_entry_t;

cadre_registry_t *cadre_registry_new(void);

/* Calls what is to be called at exit, the last first, then closes the shared objects: no function
 * of theirs may run any more. */
void cadre_registry_destroy(cadre_registry_t **self_p);

/* Loads the shared object `path` (a relative one is taken from the current folder) and calls its
 * cadre_native_register. CADRE_ENOTFOUND when there is no such file; CADRE_EREFUSED when it is not
 * a regular file, belongs to neither root nor this user, or can be written by others (itself or the
 * folder it lies in); CADRE_ECONFIG when it cannot be loaded, lacks the entry point, or that
 * fails. Every text names the file. */
int cadre_registry_load(cadre_registry_t *self, const char *path);

/* NULL when there is none. */
const cadre_native_entry_t *cadre_registry_find(const cadre_registry_t *self, const char *name);

/* Names, in order of registration; NULL from the end on. */
const char *cadre_registry_name(const cadre_registry_t *self, size_t index);

#endif
