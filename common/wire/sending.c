#include "common/wire/sending.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/memory.h"

struct cadre_sending {
    atomic_size_t references;
    atomic_size_t bytes;
};

cadre_sending_t *
cadre_sending_new(void)
{
    cadre_sending_t *self = cadre_calloc(1, sizeof(*self));
    atomic_init(&self->references, 1);
    return self;
}

/* Gives up a reference; the last one frees the counter. */
void
cadre_sending_unref(cadre_sending_t **self_p)
{
    cadre_sending_t *self = *self_p;
    *self_p = NULL;
    if (self && atomic_fetch_sub(&self->references, 1) == 1) {
        free(self);
    }
}

size_t
cadre_sending_bytes(const cadre_sending_t *self)
{
    return atomic_load(&self->bytes);
}

void
cadre_sending_add(cadre_sending_t *self, size_t size_bytes)
{
    atomic_fetch_add(&self->references, 1);
    atomic_fetch_add(&self->bytes, size_bytes);
}

void
cadre_sending_end(cadre_sending_t *self, size_t size_bytes)
{
    atomic_fetch_sub(&self->bytes, size_bytes);
    cadre_sending_unref(&self);
}
