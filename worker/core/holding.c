#include "worker/core/holding.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/wire/tensor_list.h"

/* Returns a holding, what is built for the resource `name`, in which nothing has been put. */
cadre_holding_t *
cadre_holding_new(const char *name)
{
    cadre_holding_t *self = cadre_calloc(1, sizeof(*self));
    self->name = cadre_strdup(name);
    return self;
}

/* Calls the destructor that was put with the pointer, and frees the results. */
void
cadre_holding_destroy(cadre_holding_t **self_p)
{
    cadre_holding_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_holding_put(self, NULL, NULL); /* destroys what was put before */
    for (size_t i = 0; i < self->count; i++) {
        free(self->names[i]);
    }
    free(self->names);
    cadre_tensors_fini(&self->tensors, self->count);
    free(self->name);
    free(self);
}

/* Takes the object that the building function hands over; destroys the one handed over before. */
void
cadre_holding_put(cadre_holding_t *self, void *pointer, cadre_destructor_t destructor)
{
    if (self->destructor && self->pointer) {
        self->destructor(self->pointer);
    }
    self->pointer = pointer;
    self->destructor = destructor;
}

/* Returns the result of this resource that closures name `argument`, as "RESOURCE.RESULT"; NULL
 * when the name is of another resource, or of a result that this one does not have. */
const cadre_tensor_t *
cadre_holding_value(const cadre_holding_t *self, const char *argument)
{
    size_t length = strlen(self->name);
    if (strncmp(argument, self->name, length) != 0 || argument[length] != '.') {
        return NULL;
    }
    for (size_t i = 0; i < self->count; i++) {
        if (strcmp(self->names[i], argument + length + 1) == 0) {
            return &self->tensors[i];
        }
    }
    return NULL;
}
