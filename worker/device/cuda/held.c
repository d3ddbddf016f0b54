#include "worker/device/cuda/held.h"

#include <stdlib.h>

#include "common/base/memory.h"

struct cadre_held_value {
    size_t offset;
    uint64_t version;
};

/* Frees the list. */
void
cadre_held_fini(cadre_held_t *self)
{
    free(self->values);
    *self = (cadre_held_t){0};
}

/* Returns whether the slot's block of device memory holds the variable with this content number, so
 * that it need not be copied; false for 0, an unknown content. */
bool
cadre_held_has(const cadre_held_t *self, const cadre_layout_input_t *variable, uint64_t version)
{
    for (int i = 0; i < self->count && version != 0; i++) {
        const struct cadre_held_value *value = &self->values[i];
        if (value->offset == variable->offset) {
            return value->version == version;
        }
    }
    return false;
}

/* Notes that the block holds the variables of the layout under these content numbers, and no
 * others: they have just been copied in. */
void
cadre_held_set(cadre_held_t *self, const cadre_layout_t *layout, const uint64_t *versions)
{
    cadre_held_clear(self);
    if (!versions || layout->variable_count == 0) {
        return;
    }
    self->count = layout->variable_count;
    self->values = cadre_realloc(self->values, (size_t)self->count, sizeof(*self->values));
    for (int i = 0; i < self->count; i++) {
        const cadre_layout_input_t *variable = &layout->variables[i];
        self->values[i] = (struct cadre_held_value){.offset = variable->offset,
                                                    .version = versions[variable->index]};
    }
}

void
cadre_held_clear(cadre_held_t *self)
{
    self->count = 0;
}
