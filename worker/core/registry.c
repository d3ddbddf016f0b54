#include "worker/core/registry.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* A destructor to be called when the registry is destroyed. */
typedef struct {
    cadre_destructor_t destructor;
    void *state;
} native_exit_t;

struct cadre_registry {
    cadre_native_entry_t *entries;
    size_t count;
    size_t capacity;
    native_exit_t *exits;
    size_t exit_count;
};

/* Runs the built-in function "noop", by which the cost of a closure itself is measured. */
static int
do_nothing(cadre_invocation_t *invocation, void *state)
{
    (void)invocation;
    (void)state;
    return 0;
}

/* Returns a registry with the one built-in function, "noop". */
cadre_registry_t *
cadre_registry_new(void)
{
    cadre_registry_t *self = cadre_calloc(1, sizeof(*self));
    cadre_registry_add(self, "noop", do_nothing, NULL);
    return self;
}

/* Calls the destructors that were registered for the exit, the last first, and frees the registry.
 * These close the shared objects, so no native function may be running. */
void
cadre_registry_destroy(cadre_registry_t **self_p)
{
    cadre_registry_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    while (self->exit_count > 0) {
        const native_exit_t *last = &self->exits[--self->exit_count];
        last->destructor(last->state);
    }
    free(self->exits);
    for (size_t i = 0; i < self->count; i++) {
        free(self->entries[i].name);
    }
    free(self->entries);
    free(self);
}

/* Returns the native function of this name; NULL when there is none. */
const cadre_native_entry_t *
cadre_registry_find(const cadre_registry_t *self, const char *name)
{
    for (size_t i = 0; i < self->count; i++) {
        if (strcmp(self->entries[i].name, name) == 0) {
            return &self->entries[i];
        }
    }
    return NULL;
}

const char *
cadre_registry_name(const cadre_registry_t *self, size_t index)
{
    return index < self->count ? self->entries[index].name : NULL;
}

/* Returns whether `name` may be the name of a native function. */
static bool
name_valid(const char *name)
{
    static const char characters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t length = name ? strlen(name) : 0;
    return length > 0 && length <= CADRE_NAME_SIZE_MAX && !strchr("._-", name[0]) &&
           strspn(name, characters) == length;
}

/* Adds a native function, which is called with `state`. The name must be new and valid. */
int
cadre_registry_add(cadre_registry_t *self, const char *name, cadre_native_t function, void *state)
{
    if (!self || !function || !name_valid(name)) {
        return cadre_fail(CADRE_EINVALID,
                          "a native function's name is 1 to %d letters, digits, '.', '_' and '-', "
                          "beginning with a letter or digit",
                          CADRE_NAME_SIZE_MAX);
    }
    if (cadre_registry_find(self, name)) {
        return cadre_fail(CADRE_EEXISTS, "native function %s is there already", name);
    }
    if (self->count == CADRE_NATIVE_FUNCTIONS_MAX) {
        return cadre_fail(CADRE_EFULL, "more than %d native functions", CADRE_NATIVE_FUNCTIONS_MAX);
    }
    self->entries = cadre_grow(self->entries, self->count, &self->capacity, sizeof(*self->entries));
    self->entries[self->count++] = (cadre_native_entry_t){cadre_strdup(name), function, state};
    return 0;
}

/* Has `destructor` called with `state` when the registry is destroyed. */
int
cadre_registry_at_exit(cadre_registry_t *self, cadre_destructor_t destructor, void *state)
{
    if (!self || !destructor) {
        return cadre_fail(CADRE_EINVALID, "nothing to be called at exit");
    }
    if (self->exit_count == CADRE_NATIVE_EXITS_MAX) {
        return cadre_fail(CADRE_EFULL, "more than %d to be called at exit", CADRE_NATIVE_EXITS_MAX);
    }
    self->exits = cadre_realloc(self->exits, self->exit_count + 1, sizeof(*self->exits));
    self->exits[self->exit_count++] = (native_exit_t){destructor, state};
    return 0;
}
