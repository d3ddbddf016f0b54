#include "worker/slot/slot_actor.h"

#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/actor.h"
#include "common/system/clock.h"
#include "worker/slot/invocation.h"
#include "worker/slot/program_runner.h"
#include "worker/slot/slot_link.h"

struct cadre_slot_actor {
    cadre_actor_t *actor;
    cadre_slot_actor_options_t options;
    cadre_slot_t *slot;
    cadre_slot_link_t link;
    cadre_program_runner_t *runner;
    cadre_slot_states_t states;
};

/* Notes in the trace what came before this work: the slot's time without work, and the reading of
 * the work's batches. */
static void
trace_arrival(const cadre_slot_actor_t *self, const cadre_work_t *work, int64_t waited_since_us)
{
    if (!self->options.lane) {
        return;
    }

    cadre_slot_link_trace(&self->link, CADRE_TRACE_WAIT, waited_since_us, 0);
    if (work->load) {
        const cadre_trace_event_t batch = {.kind = CADRE_TRACE_BATCH,
                                           .worker = work->worker_index,
                                           .closure = cadre_closure_call_id(work->call),
                                           .attempt = work->call->message.closure.attempt,
                                           .size_bytes = cadre_load_size_bytes(work->load),
                                           .begin_us = work->load->begin_us,
                                           .end_us = work->load->end_us};
        cadre_trace_add(self->options.lane, &batch);
    }
}

/* Runs one closure or build to its end, by its program or native function. */
static void
run_work(cadre_slot_actor_t *self, cadre_work_t *work, int64_t waited_since_us)
{
    if (cadre_slot_link_begin(&self->link, work)) { /* of another session than the work before */
        cadre_program_runner_reset(self->runner);
    }

    trace_arrival(self, work, waited_since_us);
    /* The rows of a closure's first batch are its examples, for the counters. */
    if (work->load && work->load->count > 0) {
        work->examples = work->load->rows[0].count;
    }

    if (cadre_closure_call_is_cancelled(work->call)) {
        cadre_work_end(work, CADRE_ECANCELLED, CADRE_FAILURE_RETURNED, "cancelled");
    } else if (work->call->function->kind == CADRE_FUNCTION_PROGRAM) {
        cadre_program_runner_run(self->runner);
    } else {
        cadre_invocation_run(&self->link, self->options.registry, self->slot, &self->states);
    }

    if (work->call->builds) {
        cadre_work_end_build(work);
    }
}

/* The slot's thread: runs one work after the other from the queue that all slots share, until the
 * queue is closed. */
static void
run(void *pipe, void *argument)
{
    cadre_slot_actor_t *self = argument;
    cadre_slot_link_init(&self->link, pipe, self->options.lane);
    self->runner = cadre_program_runner_new(self->options.device, self->slot, &self->link);
    cadre_work_t *work = NULL;
    int64_t since_us = cadre_clock_now_us();
    cadre_look_t look = {.mean_us = 0};
    while (
        (work = cadre_work_queue_take(self->options.queue, self->options.looks ? &look : NULL))) {
        run_work(self, work, since_us);
        if (cadre_pipe_send(pipe, CADRE_SLOT_ENDED, work) < 0) { /* the worker is closing */
            cadre_work_destroy(&work);
        }
        since_us = cadre_clock_now_us();
    }

    cadre_trace_flush(self->options.lane);
    cadre_program_runner_destroy(&self->runner);
    cadre_slot_states_fini(&self->states);
    cadre_slot_link_fini(&self->link);
    cadre_slot_close(&self->slot);
}

/* Opens a slot of the device, with its default options, and starts the thread. */
int
cadre_slot_actor_open(cadre_context_t *context, const cadre_slot_actor_options_t *options,
                      cadre_slot_actor_t **out)
{
    cadre_slot_actor_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    int status = cadre_slot_open(options->device, NULL, &self->slot);
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

/* Ends the thread, whose queue must have been closed before; CADRE_ETIMEOUT, and nothing is freed,
 * when a closure does not end in time. */
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
