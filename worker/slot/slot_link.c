#include "worker/slot/slot_link.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/actor.h"
#include "common/system/clock.h"
#include "common/system/poll.h"

void
cadre_slot_link_init(cadre_slot_link_t *self, void *pipe, cadre_trace_lane_t *lane)
{
    *self = (cadre_slot_link_t){.pipe = pipe, .lane = lane};
}

void
cadre_slot_link_fini(cadre_slot_link_t *self)
{
    free(self->known);
    *self = (cadre_slot_link_t){0};
}

/* Begins a work. Forgets the variables that were looked up, if a drop of a variable or another
 * session may have changed what a name means. Returns true for another session. */
bool
cadre_slot_link_begin(cadre_slot_link_t *self, cadre_work_t *work)
{
    self->work = work;
    if (work->call->message.closure.drops != self->drops) {
        self->drops = work->call->message.closure.drops;
        self->known_count = 0;
    }

    if (work->call->message.incarnation == self->session) {
        return false;
    }

    self->session = work->call->message.incarnation;
    self->known_count = 0;
    return true;
}

/* Notes in the trace what the slot has done for its work from `begin_us` until now. */
void
cadre_slot_link_trace(const cadre_slot_link_t *self, cadre_trace_kind_t kind, int64_t begin_us,
                      size_t size_bytes)
{
    if (!self->lane) {
        return;
    }

    const cadre_closure_call_t *call = self->work->call;
    const cadre_trace_event_t event = {.kind = kind,
                                       .worker = self->work->worker_index,
                                       .closure = cadre_closure_call_id(call),
                                       .attempt = call->message.closure.attempt,
                                       .size_bytes = size_bytes,
                                       .begin_us = begin_us,
                                       .end_us = cadre_clock_now_us()};
    cadre_trace_add(self->lane, &event);
}

void
cadre_slot_link_begin_native(cadre_slot_link_t *self)
{
    self->computing_us = cadre_clock_now_us();
}

void
cadre_slot_link_end_native(cadre_slot_link_t *self)
{
    cadre_slot_link_trace(self, CADRE_TRACE_COMPUTE, self->computing_us, 0);
    self->computing_us = 0;
}

/* Sends a request to the network actor and waits until it is answered. */
static int
ask_by_pipe(cadre_slot_link_t *self, cadre_slot_request_t *request)
{
    int status = cadre_pipe_send(self->pipe, CADRE_SLOT_ASK, request);
    if (status < 0) {
        return status;
    }

    cadre_pipe_message_t answer = {.kind = CADRE_PIPE_STOP};
    while (answer.kind != CADRE_SLOT_ANSWERED) {
        zmq_pollitem_t item = {.socket = self->pipe, .events = ZMQ_POLLIN};
        cadre_poll(&item, 1, -1);
        status = cadre_pipe_receive(self->pipe, &answer);
        if (status < 0 && status != CADRE_EAGAIN) {
            return status;
        }
    }

    return 0;
}

/* Has a request answered, by the work's asker or the network actor, and waits for that without
 * limit: the core ends every operation at some time. The request is on the caller's stack, and
 * borrowed until then. */
static int
ask(cadre_slot_link_t *self, cadre_slot_request_t *request)
{
    request->work = self->work;
    if (self->work->ask) {
        self->work->ask(self->work->asker, request);
    } else {
        int status = ask_by_pipe(self, request);
        if (status < 0) {
            return status;
        }
    }

    return request->status < 0 ? cadre_fail(request->status, "%s", request->text) : 0;
}

/* Returns the bytes that a gradient has on the wire, with the ids of its rows. */
static size_t
gradient_size_bytes(const cadre_gradient_t *gradient)
{
    const size_t row_size_bytes = gradient->variable->wire_row_size_bytes;
    return gradient->rows ? gradient->rows->count * (row_size_bytes + sizeof(uint64_t))
                          : cadre_chunk_size_bytes(gradient->gradient);
}

/* Returns the bytes that a request has moved over the network: values that came, or gradients that
 * went. */
static size_t
moved_bytes(const cadre_slot_request_t *request)
{
    size_t size_bytes = request->received_bytes;
    for (size_t i = 0; request->gradients && i < request->count; i++) {
        size_bytes += gradient_size_bytes(&request->gradients[i]);
    }
    return size_bytes;
}

/* Asks the network actor, waits for the answer (ask), and notes the time in the trace. A native
 * function's time of computing ends before the question and begins again after the answer. */
static int
ask_traced(cadre_slot_link_t *self, cadre_slot_request_t *request)
{
    bool native = self->computing_us > 0;
    if (native) {
        cadre_slot_link_end_native(self);
    }

    int64_t begin_us = self->lane ? cadre_clock_now_us() : 0;
    int status = ask(self, request);

    cadre_slot_link_trace(
        self, request->question == CADRE_SLOT_PULL ? CADRE_TRACE_PULL : CADRE_TRACE_PUSH, begin_us,
        moved_bytes(request));
    if (native) {
        cadre_slot_link_begin_native(self);
    }

    return status;
}

/* Finds the variable that the work's closure means by `name`: among those looked up before, else by
 * asking the network actor. */
int
cadre_slot_link_resolve(cadre_slot_link_t *self, const char *name,
                        const cadre_variable_entry_t **out)
{
    for (size_t i = 0; i < self->known_count; i++) {
        if (strcmp(self->known[i]->name, name) == 0) {
            *out = self->known[i];
            return 0;
        }
    }

    cadre_slot_request_t request = {.question = CADRE_SLOT_RESOLVE, .name = name};
    int status = ask(self, &request);
    if (status < 0) {
        return status;
    }

    self->known = cadre_grow((void *)self->known, self->known_count, &self->known_capacity,
                             sizeof(*self->known));
    self->known[self->known_count++] = request.variable;
    *out = request.variable;
    return 0;
}

/* Pulls variables, or rows of them; `values` come in the order asked. A failure that is not the
 * function's fault ends the work too. */
int
cadre_slot_link_pull(cadre_slot_link_t *self, const cadre_wanted_t *wanted, size_t count,
                     cadre_value_t **values)
{
    cadre_slot_request_t request = {.question = CADRE_SLOT_PULL, .wanted = wanted, .count = count};
    int status = ask_traced(self, &request);
    if (status < 0) {
        if (request.failure != CADRE_FAILURE_USER) {
            cadre_work_end(self->work, status, request.failure, request.text);
        }
        return status;
    }

    *values = request.values;
    return 0;
}

/* Pushes one step's gradients, and waits until every shard has answered. Any failure ends the work,
 * whatever the function makes of it: an update that only some shards have must not be reported as
 * done. */
int
cadre_slot_link_push(cadre_slot_link_t *self, const cadre_gradient_t *gradients, size_t count)
{
    cadre_slot_request_t request = {
        .question = CADRE_SLOT_PUSH, .gradients = gradients, .count = count};
    int status = ask_traced(self, &request);
    if (status < 0) {
        cadre_work_end(self->work, status, request.failure, request.text);
    }
    return status;
}
