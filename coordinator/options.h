/* options - copies the options struct of a caller that may have been built with an older header. */
#ifndef CADRE_COORDINATOR_OPTIONS_H
#define CADRE_COORDINATOR_OPTIONS_H

#include <stddef.h>

/* Copies the caller's struct, whose first field is its size, into `own`, which has
 * `own_size_bytes`: fields that the caller's header did not have are zero. CADRE_EINVALID, naming
 * `type`, for NULL, a size of 0 or a larger one than ours. */
int cadre_options_take(const void *given, void *own, size_t own_size_bytes, const char *type);

#endif
