#include "coordinator/client/attachment.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

/* Where all messages of a client go. A DEALER has one peer, so that only the role counts. */
static const cadre_task_t coordinator = {.role = CADRE_ROLE_COORDINATOR};

void
cadre_attachment_init(cadre_attachment_t *self, const cadre_task_t *task, uint64_t now_ms)
{
    *self =
        (cadre_attachment_t){.task = *task, .heartbeat_ms = CADRE_HEARTBEAT_MS, .heard_ms = now_ms};
}

/* --- requests --- */

/* Takes the request out of the list of those that have not ended; does nothing when it has. */
static void
unlist(cadre_attachment_t *self, const cadre_client_request_t *request)
{
    for (cadre_client_request_t **at = &self->first; *at; at = &(*at)->next) {
        if (*at == request) {
            *at = request->next;
            self->count--;
            return;
        }
    }
}

/* Appends the request: numbers go up, so that the list stays in their order. */
static void
append(cadre_attachment_t *self, cadre_client_request_t *request)
{
    cadre_client_request_t **at = &self->first;
    while (*at) {
        at = &(*at)->next;
    }
    *at = request;
    self->count++;
}

int
cadre_attachment_ask(cadre_attachment_t *self, cadre_message_t *message,
                     cadre_client_request_t *request)
{
    if (self->state == CADRE_ATTACHMENT_ENDED) {
        return cadre_fail(self->status, "%s", self->text);
    }
    if (self->count >= CADRE_CLIENT_REQUESTS_MAX) {
        return cadre_fail(CADRE_EFULL, "%d requests of this client are unanswered: wait for one",
                          CADRE_CLIENT_REQUESTS_MAX);
    }

    request->number = ++self->last;
    request->is_schedule = message->type == CADRE_MESSAGE_SCHEDULE;
    message->request = request->number;
    message->incarnation = self->task.incarnation;
    message->epoch = self->epoch;
    cadre_outbox_entry_init(&request->said, &coordinator, message);
    append(self, request);
    return 0;
}

void
cadre_attachment_forget(cadre_attachment_t *self, cadre_client_request_t *request)
{
    unlist(self, request);
    cadre_outbox_entry_fini(&request->said);
    cadre_message_fini(&request->answer);
}

/* Gives a request its answer, whose content moves. */
static void
answer(cadre_attachment_t *self, cadre_client_request_t *request, cadre_message_t *message)
{
    unlist(self, request);
    cadre_outbox_entry_fini(&request->said);
    request->answer = *message;
    *message = (cadre_message_t){.storage = NULL};
    request->ended = true;
}

/* Returns the request with this number that has not ended; NULL: there is none. */
static cadre_client_request_t *
find(const cadre_attachment_t *self, uint64_t number)
{
    cadre_client_request_t *request = self->first;
    while (request && request->number != number) {
        request = request->next;
    }
    return request;
}

/* Returns the lowest number of a SCHEDULE that has not ended: the coordinator may forget those
 * below it. */
static uint64_t
settled(const cadre_attachment_t *self)
{
    for (const cadre_client_request_t *request = self->first; request; request = request->next) {
        if (request->is_schedule) {
            return request->number;
        }
    }
    return self->last + 1;
}

/* --- the end --- */

void
cadre_attachment_end(cadre_attachment_t *self, int status, const char *text)
{
    if (self->state == CADRE_ATTACHMENT_ENDED) {
        return;
    }

    self->state = CADRE_ATTACHMENT_ENDED;
    self->status = status;
    snprintf(self->text, sizeof(self->text), "%s", text);
    while (self->first) {
        cadre_client_request_t *request = self->first;
        unlist(self, request);
        cadre_outbox_entry_fini(&request->said);
        request->status = status;
        snprintf(request->text, sizeof(request->text), "%s", text);
        request->ended = true;
    }
}

void
cadre_attachment_leave(cadre_attachment_t *self, cadre_outbox_t *outbox)
{
    if (self->state != CADRE_ATTACHMENT_STANDS) {
        return;
    }
    cadre_message_t goodbye = {.type = CADRE_MESSAGE_GOODBYE,
                               .incarnation = self->task.incarnation,
                               .epoch = self->epoch,
                               .goodbye = {.reason = "closed"}};
    cadre_outbox_send(outbox, &coordinator, &goodbye);
}

/* --- messages --- */

/* Takes the first ATTACHED, or one of a heartbeat: requests that it calls unknown are sent again,
 * unless they were sent after the ATTACH that it answers. */
static void
on_attached(cadre_attachment_t *self, const cadre_message_t *message)
{
    const cadre_attached_message_t *attached = &message->attached;
    if (attached->status != 0) {
        cadre_attachment_end(self, -(int)attached->status, attached->text);
        return;
    }

    if (self->state == CADRE_ATTACHMENT_BEGINS) {
        self->state = CADRE_ATTACHMENT_STANDS;
        self->epoch = message->epoch;
        self->may_schedule = attached->may_schedule;
        self->heartbeat_ms = attached->heartbeat_ms > 0 ? attached->heartbeat_ms : 1;
        snprintf(self->job, sizeof(self->job), "%s", attached->job);
    }

    for (size_t i = 0; i < attached->unknown.count; i++) {
        cadre_client_request_t *request = find(self, attached->unknown.items[i]);
        if (request && message->request > request->sent_after) {
            request->sent = false;
        }
    }
}

/* Returns whether the message is of the session that the client attached to. */
static bool
is_of_session(const cadre_attachment_t *self, const cadre_message_t *message)
{
    return self->state == CADRE_ATTACHMENT_BEGINS || message->epoch == self->epoch;
}

void
cadre_attachment_receive(cadre_attachment_t *self, cadre_message_t *message, uint64_t now_ms)
{
    self->heard_ms = now_ms;
    if (message->type == CADRE_MESSAGE_UNKNOWN_PEER) {
        cadre_attachment_end(self, CADRE_ECLOSED,
                             "the coordinator does not know this client any more: its lease ran "
                             "out, or the coordinator was started again");
        return;
    }
    if (!is_of_session(self, message)) {
        return;
    }
    if (message->type == CADRE_MESSAGE_ATTACHED) {
        on_attached(self, message);
        return;
    }
    if (message->type == CADRE_MESSAGE_STOP) {
        cadre_attachment_end(self, CADRE_ECLOSED, message->stop.reason);
        return;
    }

    cadre_client_request_t *request = find(self, message->request);
    if (request) {
        answer(self, request, message);
    }
}

/* --- time --- */

/* Says ATTACH: that the client begins, or that it is there, and what it awaits. */
static void
say_attach(cadre_attachment_t *self, cadre_outbox_t *outbox)
{
    uint64_t awaited[CADRE_CLIENT_REQUESTS_MAX];
    size_t count = 0;
    for (const cadre_client_request_t *request = self->first; request; request = request->next) {
        if (request->sent) {
            awaited[count++] = request->number;
        }
    }

    cadre_message_t attach = {.type = CADRE_MESSAGE_ATTACH,
                              .request = ++self->beat,
                              .incarnation = self->task.incarnation,
                              .epoch = self->epoch,
                              .attach = {.schema = cadre_message_schema_hash(),
                                         .build = CADRE_VERSION,
                                         .awaited = {awaited, count},
                                         .settled = settled(self)}};
    cadre_outbox_send(outbox, &coordinator, &attach);
}

uint64_t
cadre_attachment_tick(cadre_attachment_t *self, uint64_t now_ms, cadre_outbox_t *outbox)
{
    if (self->state == CADRE_ATTACHMENT_ENDED) {
        return UINT64_MAX;
    }

    /* Before the requests: a heartbeat can only say what has become of earlier ones. */
    if (now_ms >= self->beat_due_ms) {
        bool begins = self->state == CADRE_ATTACHMENT_BEGINS;
        say_attach(self, outbox);
        self->beat_due_ms = now_ms + (begins ? CADRE_RESEND_MS : self->heartbeat_ms);
    }

    bool stands = self->state == CADRE_ATTACHMENT_STANDS;
    for (cadre_client_request_t *request = stands ? self->first : NULL; request;
         request = request->next) {
        if (!request->sent) {
            cadre_outbox_repeat(outbox, &request->said);
            request->sent = true;
            request->sent_after = self->beat;
        }
    }

    return self->beat_due_ms;
}
