/*
 * registry - the native functions that this worker knows, by name.
 *
 * Owner:   main, before any slot starts. Thread: immutable afterwards, any thread may look.
 *
 * Functions come from shared objects that the operator names on the command line (native.h). One is
 * built in, "noop", which does nothing and measures what a closure costs.
 */
#ifndef CADRE_WORKER_CORE_REGISTRY_H
#define CADRE_WORKER_CORE_REGISTRY_H

#include <cadre/worker.h>

enum {
    CADRE_NATIVE_FUNCTIONS_MAX = 1024, /* cadre_registry_add: CADRE_EFULL */
    CADRE_NATIVE_EXITS_MAX = 1024,     /* cadre_registry_at_exit: CADRE_EFULL */
};

typedef struct {
    char *name;
    cadre_native_t function;
    void *state;
} cadre_native_entry_t;

cadre_registry_t *cadre_registry_new(void);

/* Calls the destructors that were registered for the exit, the last first; these close the shared
 * objects, so no native function may be running. */
void cadre_registry_destroy(cadre_registry_t **self_p);

/* Returns the native function of this name; NULL when there is none. */
const cadre_native_entry_t *cadre_registry_find(const cadre_registry_t *self, const char *name);

/* Returns the name of function `index`, in order of registration; NULL from the last one on. */
const char *cadre_registry_name(const cadre_registry_t *self, size_t index);

#endif
