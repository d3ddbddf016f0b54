#include "worker/slot_link.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/actor.h"
#include "common/memory.h"
#include "common/poll.h"
#include "common/status.h"

void
cadre_slot_link_init(cadre_slot_link_t *self, void *pipe)
{
    *self = (cadre_slot_link_t){.pipe = pipe};
}

void
cadre_slot_link_fini(cadre_slot_link_t *self)
{
    free(self->known);
    *self = (cadre_slot_link_t){0};
}

bool
cadre_slot_link_begin(cadre_slot_link_t *self, cadre_work_t *work)
{
    self->work = work;
    if (work->run->message.incarnation == self->session) {
        return false;
    }
    self->session = work->run->message.incarnation;
    self->known_count = 0;
    return true;
}

static int
ask(cadre_slot_link_t *self, cadre_slot_request_t *request)
{
    request->work = self->work;
    int status = cadre_pipe_send(self->pipe, CADRE_SLOT_ASK, request);
    cadre_pipe_message_t answer = {.kind = CADRE_PIPE_STOP};
    while (status == 0 && answer.kind != CADRE_SLOT_ANSWERED) {
        zmq_pollitem_t item = {.socket = self->pipe, .events = ZMQ_POLLIN};
        cadre_poll(&item, 1, -1);
        status = cadre_pipe_receive(self->pipe, &answer);
        status = status == CADRE_EAGAIN ? 0 : status;
    }
    if (status < 0) {
        return status;
    }
    return request->status < 0 ? cadre_fail(request->status, "%s", request->text) : 0;
}

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
    if (self->known_count == self->known_capacity) {
        self->known_capacity = self->known_capacity ? 2 * self->known_capacity : 16;
        self->known =
            cadre_realloc((void *)self->known, self->known_capacity, sizeof(*self->known));
    }
    self->known[self->known_count++] = request.variable;
    *out = request.variable;
    return 0;
}

int
cadre_slot_link_pull(cadre_slot_link_t *self, const cadre_variable_entry_t *const *variables,
                     size_t count, cadre_value_t **values)
{
    cadre_slot_request_t request = {
        .question = CADRE_SLOT_PULL, .variables = variables, .count = count};
    int status = ask(self, &request);
    if (status < 0) {
        if (request.failure != CADRE_FAILURE_USER) {
            cadre_work_end(self->work, status, request.failure, request.text);
        }
        return status;
    }
    *values = request.values;
    return 0;
}

int
cadre_slot_link_push(cadre_slot_link_t *self, const cadre_gradient_t *gradients, size_t count)
{
    cadre_slot_request_t request = {
        .question = CADRE_SLOT_PUSH, .gradients = gradients, .count = count};
    int status = ask(self, &request);
    if (status < 0) {
        cadre_work_end(self->work, status, request.failure, request.text);
    }
    return status;
}
