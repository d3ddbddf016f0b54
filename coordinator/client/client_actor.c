/* The client's thread, which alone uses its socket. A turn sends what the attachment has to say,
 * waits, and gives the attachment what has come. */
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "common/system/poll.h"
#include "common/wire/codec.h"
#include "coordinator/client/client.h"

enum {
    TURN_MESSAGES_MAX = 64, /* most messages that are received before the next look at all else */
};

typedef struct {
    cadre_client_t *client;
    void *pipe;
    cadre_frames_t frames;
    int64_t connected_ms; /* when the connection was begun */
    bool stopped;
} actor_t;

int
cadre_client_connect(cadre_client_t *self)
{
    char name[CADRE_TASK_TEXT_SIZE];
    int status =
        cadre_socket_open_dealer(self->context, CADRE_PLANE_CONTROL,
                                 cadre_task_text(&self->attachment.task, name), &self->socket);
    if (status < 0) {
        return status;
    }
    status = cadre_monitor_open(self->context, self->socket, &self->monitor);
    if (status < 0) {
        return status;
    }
    return cadre_socket_connect(self->socket, &self->coordinator);
}

/* Sends what is in the outbox. What cannot be sent is lost, and asked for again: the attachment
 * takes no send for an arrival. */
static void
send_all(cadre_client_t *client, cadre_outbox_t *outbox)
{
    cadre_outbox_entry_t entry;
    while (cadre_outbox_pop(outbox, &entry)) {
        if (client->socket) {
            cadre_socket_send(client->socket, NULL, entry.header, entry.chunks, entry.chunk_count);
        }
        cadre_outbox_entry_fini(&entry);
    }
    cadre_outbox_fini(outbox);
}

/* Under the lock: gives the attachment the frames that were just received; what cannot be read is
 * dropped, as if it were lost. */
static void
take_frames(actor_t *self)
{
    cadre_message_t message;
    cadre_frames_t *frames = &self->frames;
    if (cadre_message_decode(cadre_chunk_data(frames->header),
                             cadre_chunk_size_bytes(frames->header), frames->chunks, frames->count,
                             &message) < 0) {
        return;
    }
    cadre_attachment_receive(&self->client->attachment, &message, (uint64_t)cadre_clock_now_ms());
    cadre_message_fini(&message);
}

/* Under the lock: receives what has come. */
static void
receive(actor_t *self)
{
    cadre_client_t *client = self->client;
    for (int i = 0; client->socket && i < TURN_MESSAGES_MAX; i++) {
        if (cadre_socket_receive(client->socket, &self->frames) < 0) {
            return; /* nothing more, or something that cannot be read: the next turn goes on */
        }
        take_frames(self);
    }
}

/* Under the lock: ends the attachment when the coordinator refuses the client in the handshake. */
static void
watch(actor_t *self)
{
    cadre_client_t *client = self->client;
    cadre_event_t event;
    bool guarded = cadre_context_keyring(client->context) != NULL;
    while (client->monitor && cadre_monitor_receive(client->monitor, &event) == 0) {
        if (event.kind == CADRE_EVENT_HANDSHAKE_FAILED) {
            cadre_attachment_end(&client->attachment, CADRE_EREFUSED,
                                 cadre_event_why_failed(&event, guarded));
        }
    }
}

/* Makes another connection where nothing has come over this one for CADRE_MUTE_MS: the ROUTER may
 * still hold an older one under the client's name, and then ignores this one for good. */
static void
replace_mute(actor_t *self)
{
    cadre_client_t *client = self->client;
    int64_t now_ms = cadre_clock_now_ms();
    int64_t heard_ms = (int64_t)client->attachment.heard_ms;
    int64_t since_ms = heard_ms > self->connected_ms ? heard_ms : self->connected_ms;
    if (now_ms - since_ms < CADRE_MUTE_MS) {
        return;
    }

    cadre_monitor_close(&client->monitor);
    cadre_socket_close(&client->socket, 0);
    self->connected_ms = now_ms;
    if (cadre_client_connect(client) < 0) {
        /* too few descriptors: the next try comes after CADRE_MUTE_MS */
        cadre_monitor_close(&client->monitor);
        cadre_socket_close(&client->socket, 0);
    }
}

/* Waits for input until `due_ms`, and reads what only wakes. */
static void
wait_for_input(actor_t *self, uint64_t due_ms)
{
    cadre_client_t *client = self->client;
    uint64_t now_ms = (uint64_t)cadre_clock_now_ms();
    uint64_t until_ms = due_ms < now_ms + CADRE_RESEND_MS ? due_ms : now_ms + CADRE_RESEND_MS;
    zmq_pollitem_t items[4] = {{.socket = self->pipe, .events = ZMQ_POLLIN},
                               {.fd = client->gate->wake_fd, .events = ZMQ_POLLIN}};
    int count = 2;
    if (client->socket) {
        items[count++] =
            (zmq_pollitem_t){.socket = cadre_socket_handle(client->socket), .events = ZMQ_POLLIN};
        items[count++] =
            (zmq_pollitem_t){.socket = cadre_monitor_handle(client->monitor), .events = ZMQ_POLLIN};
    }

    cadre_poll(items, count, until_ms > now_ms ? (long)(until_ms - now_ms) : 0);
    uint64_t wakes = 0;
    if (items[1].revents & ZMQ_POLLIN) {
        ssize_t size = read(client->gate->wake_fd, &wakes, sizeof(wakes));
        (void)size; /* how often it was woken does not matter */
    }

    cadre_pipe_message_t message;
    while (cadre_pipe_receive(self->pipe, &message) == 0) {
        self->stopped = self->stopped || message.kind == CADRE_PIPE_STOP;
    }
}

void
cadre_client_run(void *pipe, void *argument)
{
    cadre_client_t *client = argument;
    actor_t self = {.client = client, .pipe = pipe, .connected_ms = cadre_clock_now_ms()};
    cadre_outbox_t outbox = {.entries = NULL};
    while (!self.stopped) {
        cadre_gate_lock(client->gate);
        watch(&self);
        receive(&self);
        uint64_t due_ms =
            cadre_attachment_tick(&client->attachment, (uint64_t)cadre_clock_now_ms(), &outbox);
        client->gate->asleep = true;
        cadre_gate_broadcast(client->gate);
        cadre_gate_unlock(client->gate);

        send_all(client, &outbox);
        replace_mute(&self);
        wait_for_input(&self, due_ms);
    }

    cadre_attachment_leave(&client->attachment, &outbox);
    send_all(client, &outbox);
    cadre_monitor_close(&client->monitor);
    cadre_socket_close(&client->socket, CADRE_CLEAN_STOP_LINGER_MS);
    cadre_frames_fini(&self.frames);
}
