#include "tests/ps/peers.h"

#include <poll.h>
#include <zmq.h>

#include "tests/system/process.h"

void
peers_bind(peers_t *self, const char *address)
{
    cadre_endpoint_t endpoint;
    cr_assert_eq(cadre_endpoint_parse(address, &endpoint), 0);
    cr_assert_eq(cadre_socket_open_router(self->context, CADRE_PLANE_CONTROL, &self->control), 0);
    int64_t deadline_ms = cadre_clock_now_ms() + PEERS_WAIT_MS;
    int status = 0;
    while ((status = cadre_socket_bind(self->control, &endpoint)) < 0 &&
           cadre_clock_now_ms() < deadline_ms) {
        poll(NULL, 0, 20); /* a socket closed just now may still hold the port */
    }
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    cadre_endpoint_text(cadre_socket_endpoint(self->control), self->endpoint);
}

void
peers_start(peers_t *self, const char *first, const char *second)
{
    cadre_auto(cadre_free) char *path = program_path("cadre-ps");
    setenv("CADRE_CHECKPOINT_DIR", "/", 0); /* unless the test has said otherwise */
    self->process = process_start(&(process_t){
        .arguments = (const char *const[]){path, "--coordinator", self->endpoint, "--log-level",
                                           "warn", first, second, NULL}});
}

peers_t
peers_open(const char *first, const char *second)
{
    peers_t self = {.me = {CADRE_ROLE_COORDINATOR, 0, 77},
                    .worker = {CADRE_ROLE_WORKER, 0, 88},
                    .epoch = 4,
                    .request = 1000};
    cr_assert_eq(cadre_context_open(&self.context), 0);
    peers_bind(&self, "tcp://127.0.0.1:*");
    peers_start(&self, first, second);
    return self;
}

int
peers_receive(peers_t *self, cadre_socket_t *socket, int timeout_ms, cadre_message_t *message)
{
    int64_t deadline_ms = cadre_clock_now_ms() + timeout_ms;
    int status = 0;
    while ((status = cadre_socket_receive(socket, &self->frames)) == CADRE_EAGAIN) {
        int64_t left_ms = deadline_ms - cadre_clock_now_ms();
        if (left_ms <= 0) {
            return CADRE_ETIMEOUT;
        }
        zmq_pollitem_t item = {.socket = cadre_socket_handle(socket), .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, (long)left_ms);
    }
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    status = cadre_message_decode(cadre_chunk_data(self->frames.header),
                                  cadre_chunk_size_bytes(self->frames.header), self->frames.chunks,
                                  self->frames.count, message);
    cr_assert_eq(status, 0, "%s", cadre_error_text());
    return 0;
}

void
peers_send(peers_t *self, cadre_socket_t *socket, const cadre_routing_id_t *to,
           cadre_message_t *message)
{
    message->epoch = self->epoch;
    message->incarnation = to ? self->me.incarnation : self->worker.incarnation;
    cadre_chunk_t *header = cadre_message_encode(message);
    int status = 0;
    int64_t deadline_ms = cadre_clock_now_ms() + PEERS_WAIT_MS;
    while ((status = cadre_socket_send(socket, to, header, message->chunks,
                                       message->chunk_count)) == CADRE_EAGAIN &&
           cadre_clock_now_ms() < deadline_ms) {
        poll(NULL, 0, 5);
    }
    cr_assert_eq(status, 0);
    cadre_chunk_unref(&header);
    cadre_message_fini(message);
}

void
peers_await_control(peers_t *self, cadre_message_type_t type, cadre_message_t *message)
{
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(peers_receive(self, self->control, PEERS_WAIT_MS, message), 0, "no %s came",
                     cadre_message_type_text(type));
        self->ps = self->frames.from;
        if (message->type == type) {
            return;
        }
        cadre_message_fini(message);
    }
    cr_assert_fail("no %s among 100 messages", cadre_message_type_text(type));
}

void
peers_welcome(peers_t *self)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_WELCOME};
    message.welcome = (cadre_welcome_message_t){.job = "test",
                                                .heartbeat_ms = 100,
                                                .lease_ms = 3000,
                                                .resend_ms = 100,
                                                .shards = 1,
                                                .generation = 1};
    peers_send(self, self->control, &self->ps, &message);
}

void
peers_join(peers_t *self)
{
    cadre_message_t hello;
    peers_await_control(self, CADRE_MESSAGE_HELLO, &hello);
    cr_assert_eq(hello.hello.role, CADRE_ROLE_PS);
    cr_assert_eq(hello.hello.process, (uint64_t)self->process);
    peers_welcome(self);
    char id[CADRE_TASK_TEXT_SIZE];
    cadre_endpoint_t endpoint;
    cr_assert_eq(cadre_endpoint_parse(hello.hello.address, &endpoint), 0);
    cr_assert_eq(cadre_socket_open_dealer(self->context, CADRE_PLANE_DATA,
                                          cadre_task_text(&self->worker, id), &self->data),
                 0);
    cr_assert_eq(cadre_socket_connect(self->data, &endpoint), 0);
    cadre_message_fini(&hello);
}

int
peers_ask_control(peers_t *self, cadre_message_t *message)
{
    cadre_message_t reply;
    uint64_t request = message->request = ++self->request;
    peers_send(self, self->control, &self->ps, message);
    peers_await_control(self, CADRE_MESSAGE_REPLY, &reply);
    cr_assert_eq(reply.request, request);
    int status = -(int)reply.reply.status;
    cadre_message_fini(&reply);
    return status;
}

void
peers_ask_data(peers_t *self, cadre_message_t *message, cadre_message_t *answer)
{
    uint64_t request = message->request = ++self->request;
    peers_send(self, self->data, NULL, message);
    cr_assert_eq(peers_receive(self, self->data, PEERS_WAIT_MS, answer), 0);
    cr_assert_eq(answer->request, request);
}

int
peers_await_exit(peers_t *self)
{
    int status = 0;
    cr_assert(process_wait(self->process, PEERS_WAIT_MS, &status), "the process has not ended");
    self->process = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
}

void
peers_close(peers_t *self)
{
    if (self->process > 0) {
        kill(self->process, SIGKILL);
        waitpid(self->process, NULL, 0);
    }
    cadre_frames_fini(&self->frames);
    cadre_socket_close(&self->data, 0);
    cadre_socket_close(&self->control, 0);
    cadre_context_close(&self->context);
}
