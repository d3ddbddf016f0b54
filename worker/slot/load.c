#include "worker/slot/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"

cadre_load_t *
cadre_load_new(void)
{
    return cadre_calloc(1, sizeof(cadre_load_t));
}

/* Frees the load and the memory of its batches. */
void
cadre_load_destroy(cadre_load_t **self_p)
{
    cadre_load_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t i = 0; i < CADRE_BATCHES_MAX; i++) {
        cadre_tensor_fini(&self->batches[i].x);
        cadre_tensor_fini(&self->batches[i].y);
    }

    free(self);
}

/* Makes the load a request for the batches of `closure`. The tensors of an earlier closure stay:
 * their memory is used again. */
void
cadre_load_begin(cadre_load_t *self, const cadre_closure_message_t *closure)
{
    const cadre_batch_rows_list_t batches = cadre_batch_rows_list_view(&closure->batches);
    cadre_assert(batches.count <= CADRE_COUNT_OF(self->rows));
    self->next = NULL;
    self->closure = closure->id;
    self->back = false;
    self->forgotten = false;
    self->count = batches.count;
    memcpy(self->rows, batches.items, batches.count * sizeof(self->rows[0]));
    self->status = 0;
    self->text[0] = '\0';
}

/* Returns the tensor that a program calls `name`: "x" and "y" of the first batch, "x1" and "y1" of
 * the second, and so on; NULL for any other name. */
const cadre_tensor_t *
cadre_load_tensor(const cadre_load_t *self, const char *name)
{
    for (size_t i = 0; i < self->count; i++) {
        char number[8] = "";
        if (i > 0) {
            snprintf(number, sizeof(number), "%zu", i);
        }
        if ((name[0] == 'x' || name[0] == 'y') && strcmp(name + 1, number) == 0) {
            return name[0] == 'x' ? &self->batches[i].x : &self->batches[i].y;
        }
    }

    return NULL;
}

size_t
cadre_load_size_bytes(const cadre_load_t *self)
{
    size_t size_bytes = 0;
    for (size_t i = 0; i < self->count; i++) {
        size_bytes += cadre_tensor_size_bytes(&self->batches[i].x);
        size_bytes += cadre_tensor_size_bytes(&self->batches[i].y);
    }
    return size_bytes;
}
