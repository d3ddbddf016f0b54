#include "coordinator/cli/status_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/monitor.h"
#include "common/system/clock.h"
#include "common/system/poll.h"
#include "common/wire/codec.h"
#include "common/wire/task.h"

typedef struct {
    cadre_context_t *context;
    cadre_socket_t *socket;
    cadre_monitor_t *monitor;
    cadre_frames_t frames;
    cadre_task_t task;
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    int64_t ask_ms; /* when to ask again */
} client_t;

/* Connects to the coordinator as a client, with a random incarnation. */
static int
client_open(client_t *self, const cadre_endpoint_t *coordinator, const cadre_security_t *security)
{
    char name[CADRE_TASK_TEXT_SIZE];
    self->task = (cadre_task_t){CADRE_ROLE_CLIENT, CADRE_INDEX_ANY, 0};

    cadre_endpoint_text(coordinator, self->address);
    if (getrandom(&self->task.incarnation, sizeof(self->task.incarnation), 0) < 0) {
        return cadre_fail(CADRE_EIO, "no random number: %s", strerror(errno));
    }

    int status = cadre_context_open(&self->context);
    if (status < 0) {
        return status;
    }

    status = cadre_security_apply(security, CADRE_KEY_CLIENT, self->context);
    if (status < 0) {
        return status;
    }

    status = cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL,
                                      cadre_task_text(&self->task, name), &self->socket);
    if (status < 0) {
        return status;
    }

    status = cadre_monitor_open(self->context, self->socket, &self->monitor);
    if (status < 0) {
        return status;
    }

    return cadre_socket_connect(self->socket, coordinator);
}

/* Closes what the client has opened; nothing waits for messages that are still to be sent. */
static void
client_close(client_t *self)
{
    cadre_monitor_close(&self->monitor);
    cadre_socket_close(&self->socket, 0);
    cadre_frames_fini(&self->frames);
    cadre_context_close(&self->context);
}

/* Sends the question when it is due: at first, and every CADRE_RESEND_MS without an answer. */
static void
ask(client_t *self, int64_t now_ms)
{
    if (now_ms < self->ask_ms) {
        return;
    }
    cadre_message_t question = {
        .type = CADRE_MESSAGE_STATUS, .request = 1, .incarnation = self->task.incarnation};
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *header = cadre_message_encode(&question);
    /* A failure to send does not matter: the question is sent again. */
    cadre_socket_send(self->socket, NULL, header, NULL, 0);
    self->ask_ms = now_ms + CADRE_RESEND_MS;
}

/* Returns the chunks of the message, one behind the other, as a text with a NUL at its end. */
static char *
join_chunks(const cadre_message_t *message)
{
    const size_t size = cadre_message_chunks_size_bytes(message);
    char *text = cadre_calloc(size + 1, 1);
    for (size_t i = 0, at = 0; i < message->chunk_count; i++) {
        size_t part = cadre_chunk_size_bytes(message->chunks[i]);
        memcpy(text + at, cadre_chunk_data(message->chunks[i]), part);
        at += part;
    }

    return text;
}

/* Returns the text of an answer, if one has come; else NULL. */
static char *
take_answer(client_t *self)
{
    char *text = NULL;
    while (!text && cadre_socket_receive(self->socket, &self->frames) == 0) {
        cadre_message_t message;
        int status = cadre_message_decode(cadre_chunk_data(self->frames.header),
                                          cadre_chunk_size_bytes(self->frames.header),
                                          self->frames.chunks, self->frames.count, &message);
        if (status == 0) {
            text = message.type == CADRE_MESSAGE_STATUS_TEXT ? join_chunks(&message) : NULL;
            cadre_message_fini(&message);
        }
    }

    return text;
}

/* Takes what the monitor has said of the connection so far, without waiting. Returns CADRE_EREFUSED
 * when the handshake with the coordinator has failed, and 0 while it has not. */
static int
watch(client_t *self)
{
    cadre_event_t event;
    /* Whether keys are used, which changes the likely causes of a failure. */
    bool guarded = cadre_context_keyring(self->context) != NULL;
    while (cadre_monitor_receive(self->monitor, &event) == 0) {
        if (event.kind == CADRE_EVENT_HANDSHAKE_FAILED) {
            return cadre_fail(CADRE_EREFUSED, "%s: %s", self->address,
                              cadre_event_why_failed(&event, guarded));
        }
    }
    return 0;
}

/* Asks for the status until an answer has come into `*text`, or `timeout_ms` have passed. */
static int
converse(client_t *self, int64_t timeout_ms, char **text)
{
    int64_t now_ms = cadre_clock_now_ms();
    int64_t deadline_ms = now_ms + timeout_ms;
    while (now_ms < deadline_ms) {
        ask(self, now_ms);
        zmq_pollitem_t items[] = {
            {.socket = cadre_socket_handle(self->socket), .events = ZMQ_POLLIN},
            {.socket = cadre_monitor_handle(self->monitor), .events = ZMQ_POLLIN}};
        int64_t due_ms = cadre_min_i64(self->ask_ms, deadline_ms);
        cadre_poll(items, 2, due_ms > now_ms ? (long)(due_ms - now_ms) : 0);
        *text = take_answer(self);
        int status = *text ? 0 : watch(self);
        if (*text || status < 0) {
            return status;
        }

        now_ms = cadre_clock_now_ms();
    }

    return cadre_fail(CADRE_ETIMEOUT,
                      "%s: no answer within %lld s: does a coordinator run "
                      "there? --wait says how long to wait for it",
                      self->address, (long long)(timeout_ms / 1000));
}

/* Asks the coordinator for the status of its job; gives JSON text, which the caller frees. */
int
cadre_status_ask(const cadre_endpoint_t *coordinator, const cadre_security_t *security,
                 int64_t timeout_ms, char **text)
{
    cadre_auto(client_close) client_t client = {.context = NULL};
    *text = NULL;
    int status = client_open(&client, coordinator, security);
    if (status < 0) {
        return status;
    }
    return converse(&client, timeout_ms, text);
}
