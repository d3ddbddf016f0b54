/* The public calls of read caches. */
#include <stdlib.h>

#include <cadre/read_cache.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"
#include "common/tensor/tensor.h"
#include "coordinator/coordinator.h"

struct cadre_read_cache {
    const cadre_coordinator_t *coordinator;
    cadre_u64_map_t values; /* by id of the variable: cadre_tensor_t, each allocated */
};

int
cadre_read_cache_create(cadre_coordinator_t *coordinator, cadre_read_cache_t **out)
{
    cadre_read_cache_t *self = cadre_calloc(1, sizeof(*self));
    self->coordinator = coordinator;
    *out = self;
    return 0;
}

void
cadre_read_cache_destroy(cadre_read_cache_t **self_p)
{
    cadre_read_cache_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_tensor_t *value = NULL;
    for (size_t cursor = 0; (value = cadre_u64_map_next(&self->values, &cursor));) {
        cadre_tensor_fini(value);
        free(value);
    }
    cadre_u64_map_fini(&self->values);
    free(self);
}

/* Reads a variable into a tensor that the cache takes. */
static int
fill(cadre_read_cache_t *self, cadre_variable_t *variable, int64_t timeout_ms)
{
    cadre_tensor_t *value = cadre_calloc(1, sizeof(*value));
    int status = cadre_variable_read(variable, value, timeout_ms);
    if (status < 0) {
        free(value);
        return status;
    }
    cadre_u64_map_put(&self->values, variable->id, value);
    return 0;
}

/* Gives the value from memory, or reads it first. */
int
cadre_read_cache_read(cadre_read_cache_t *self, cadre_variable_t *variable,
                      const cadre_tensor_t **value, int64_t timeout_ms)
{
    if (!self || !variable) {
        return cadre_fail(CADRE_EINVALID, "this is no %s: NULL", self ? "variable" : "read cache");
    }
    if (variable->coordinator != self->coordinator) {
        return cadre_fail(CADRE_EINVALID, "variable %s belongs to another coordinator",
                          variable->name);
    }
    if (!cadre_u64_map_get(&self->values, variable->id)) {
        int status = fill(self, variable, timeout_ms);
        if (status < 0) {
            return status;
        }
    }
    if (value) {
        *value = cadre_u64_map_get(&self->values, variable->id);
    }
    return 0;
}
