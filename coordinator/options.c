#include "coordinator/options.h"

#include <string.h>

#include "common/base/status.h"

/* Copies the caller's options struct, which may be shorter than ours; the fields that it lacks
 * become 0. */
int
cadre_options_take(const void *given, void *own, size_t own_size_bytes, const char *type)
{
    size_t size_bytes = 0;
    if (!given) {
        return cadre_fail(CADRE_EINVALID, "options: there is no %s: NULL", type);
    }

    memcpy(&size_bytes, given, sizeof(size_bytes));
    if (size_bytes < sizeof(size_bytes) || size_bytes > own_size_bytes) {
        return cadre_fail(CADRE_EINVALID,
                          "options: size is %zu, of a %s it is %zu, or less from an older header",
                          size_bytes, type, own_size_bytes);
    }

    memmove(own, given, size_bytes); /* `own` and `given` may be the same struct */
    memset((char *)own + size_bytes, 0, own_size_bytes - size_bytes);
    memcpy(own, &own_size_bytes, sizeof(own_size_bytes));
    return 0;
}
