#include "coordinator/core/dispatch/apart.h"

void
cadre_apart_init(cadre_apart_t *self, const cadre_membership_t *members)
{
    *self = (cadre_apart_t){.members = members};
}

void
cadre_apart_fini(cadre_apart_t *self)
{
    cadre_u64_map_fini(&self->closures);
}

void
cadre_apart_add(cadre_apart_t *self, cadre_closure_t *closure)
{
    if (!cadre_u64_map_get(&self->closures, closure->id)) {
        cadre_u64_map_put(&self->closures, closure->id, closure);
    }
}

void
cadre_apart_begin_trial(cadre_closure_t *closure, cadre_member_t *worker)
{
    closure->trial = worker->task.incarnation;
    worker->trial_closure = closure->id;
}

/* Ends the trial of a suspect closure: the worker that was reserved for it may take others. */
void
cadre_apart_end_trial(cadre_apart_t *self, cadre_closure_t *closure)
{
    cadre_member_t *worker =
        closure->trial ? cadre_membership_find(self->members, closure->trial) : NULL;
    if (worker) {
        worker->trial_closure = 0;
    }
    closure->trial = 0;
}

/* Takes out a closure that is not suspect any more; one that overran its deadline as well stays
 * apart. */
void
cadre_apart_acquit(cadre_apart_t *self, cadre_closure_t *closure)
{
    if (self->closures.count > 0 && closure->overruns == 0) {
        cadre_u64_map_take(&self->closures, closure->id);
    }
    cadre_apart_end_trial(self, closure);
}

void
cadre_apart_forget(cadre_apart_t *self, cadre_closure_t *closure)
{
    closure->overruns = 0;
    cadre_apart_acquit(self, closure);
    cadre_suspicion_clear(&closure->suspicion);
}
