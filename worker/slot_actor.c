#include "worker/slot_actor.h"

#include <stdlib.h>

#include "common/actor.h"
#include "common/memory.h"
#include "common/status.h"
#include "worker/invocation.h"
#include "worker/program_runner.h"
#include "worker/slot_link.h"

struct cadre_slot_actor {
    cadre_actor_t *actor;
    cadre_work_queue_t *queue;
    const cadre_registry_t *registry;
    cadre_slot_t *slot;
    cadre_slot_link_t link;
    cadre_program_runner_t *runner;
    cadre_slot_states_t states;
};

static void
run_work(cadre_slot_actor_t *self, cadre_work_t *work)
{
    if (cadre_slot_link_begin(&self->link, work)) {
        cadre_program_runner_reset(self->runner);
    }
    if (work->load && work->load->count > 0) {
        work->examples = work->load->items[3]; /* rows of the first batch */
    }
    if (atomic_load(&work->run->cancelled)) {
        cadre_work_end(work, CADRE_ECANCELLED, CADRE_FAILURE_RETURNED, "cancelled");
    } else if (work->run->function->kind == CADRE_FUNCTION_PROGRAM) {
        cadre_program_runner_run(self->runner);
    } else {
        cadre_invocation_run(&self->link, self->registry, self->slot, &self->states);
    }
    if (work->run->builds) {
        cadre_work_end_build(work);
    }
}

static void
run(void *pipe, void *argument)
{
    cadre_slot_actor_t *self = argument;
    cadre_slot_link_init(&self->link, pipe);
    self->runner = cadre_program_runner_new(self->slot, &self->link);
    cadre_work_t *work = NULL;
    while ((work = cadre_work_queue_take(self->queue))) {
        run_work(self, work);
        if (cadre_pipe_send(pipe, CADRE_SLOT_ENDED, work) < 0) {
            cadre_work_destroy(&work);
        }
    }
    cadre_program_runner_destroy(&self->runner);
    cadre_slot_states_fini(&self->states);
    cadre_slot_link_fini(&self->link);
    cadre_slot_close(&self->slot);
}

int
cadre_slot_actor_open(cadre_context_t *context, cadre_work_queue_t *queue, cadre_device_t *device,
                      const cadre_registry_t *registry, cadre_slot_actor_t **out)
{
    cadre_slot_actor_t *self = cadre_calloc(1, sizeof(*self));
    self->queue = queue;
    self->registry = registry;
    int status = cadre_slot_open(device, NULL, &self->slot);
    if (status == 0) {
        status = cadre_actor_open(context, "slot", run, self, &self->actor);
    }
    if (status < 0) {
        cadre_slot_close(&self->slot);
        free(self);
        return status;
    }
    *out = self;
    return 0;
}

void *
cadre_slot_actor_socket(cadre_slot_actor_t *self)
{
    return cadre_actor_socket(self->actor);
}

int
cadre_slot_actor_close(cadre_slot_actor_t **self_p, int timeout_ms)
{
    cadre_slot_actor_t *self = *self_p;
    if (!self) {
        return 0;
    }
    int status = cadre_actor_stop(&self->actor, timeout_ms);
    if (status < 0) {
        return status;
    }
    *self_p = NULL;
    free(self);
    return 0;
}
