/* The public calls that drop functions and resources. */
#include <cadre/coordinator.h>

#include "coordinator/coordinator.h"

/* Drops a function; removes it at once where no closure can name it. */
int
cadre_function_drop(cadre_function_t **self_p)
{
    cadre_function_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return 0;
    }

    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_gate_lock(coordinator->gate);
    int status = cadre_core_drop_function(&coordinator->core, self);
    cadre_core_advance_drops(&coordinator->core);
    cadre_gate_unlock_and_wake(coordinator->gate);
    *self_p = status == 0 ? NULL : self;
    return status;
}

/* Drops a resource; removes it at once where no closure can name it. */
int
cadre_resource_drop(cadre_resource_t **self_p)
{
    cadre_resource_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return 0;
    }

    *self_p = NULL;
    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_gate_lock(coordinator->gate);
    cadre_core_drop_resource(&coordinator->core, self);
    cadre_core_advance_drops(&coordinator->core);
    cadre_gate_unlock_and_wake(coordinator->gate);
    return 0;
}
