#include "common/wire/routing_id.h"

#include <stdio.h>
#include <string.h>

#include "common/base/status.h"

/* Sets an id from bytes; CADRE_EINVALID when there are none or too many. */
int
cadre_routing_id_set(cadre_routing_id_t *self, const void *bytes, size_t size_bytes)
{
    if (size_bytes == 0 || size_bytes > CADRE_ROUTING_ID_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "a routing id of %zu bytes is not in 1..%d", size_bytes,
                          CADRE_ROUTING_ID_SIZE_MAX);
    }
    *self = (cadre_routing_id_t){.size = (uint8_t)size_bytes};
    memcpy(self->bytes, bytes, size_bytes);
    return 0;
}

static bool
is_printable(const cadre_routing_id_t *self)
{
    for (size_t i = 0; i < self->size; i++) {
        if (self->bytes[i] <= ' ' || self->bytes[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Writes the id as it is when it is printable ASCII, else as hexadecimal digits; returns `text`. */
const char *
cadre_routing_id_text(const cadre_routing_id_t *self, char *text)
{
    if (is_printable(self)) {
        memcpy(text, self->bytes, self->size);
        text[self->size] = '\0';
        return text;
    }
    memcpy(text, "0x", 3);
    for (size_t i = 0; i < self->size; i++) {
        snprintf(text + 2 + 2 * i, 3, "%02x", self->bytes[i]);
    }
    return text;
}
