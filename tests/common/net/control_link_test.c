#include "common/net/control_link.h"

#include <criterion/criterion.h>
#include <string.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/socket.h"
#include "common/system/clock.h"
#include "common/wire/codec.h"

TestSuite(control_link, .timeout = 240);

enum { WAIT_MS = 120000 };

typedef struct {
    cadre_context_t *context;
    cadre_socket_t *router; /* the coordinator's */
    cadre_endpoint_t endpoint;
    cadre_control_link_t *link;
} field_t;

static uint64_t
now(void)
{
    return (uint64_t)cadre_clock_now_ms();
}

static void
bind_router(field_t *self)
{
    cr_assert_eq(cadre_socket_open_router(self->context, CADRE_PLANE_CONTROL, &self->router), 0);
    cr_assert_eq(cadre_socket_bind(self->router, &self->endpoint), 0, "%s", cadre_error_text());
    self->endpoint = *cadre_socket_endpoint(self->router);
}

static void
open_field(field_t *self)
{
    *self = (field_t){.context = NULL};
    cr_assert_eq(cadre_context_open(&self->context), 0);
    cr_assert_eq(cadre_endpoint_parse("127.0.0.1:*", &self->endpoint), 0);
    bind_router(self);
    const cadre_control_link_options_t options = {.coordinator = self->endpoint,
                                                  .task = {CADRE_ROLE_PS, 3, 77}};
    cr_assert_eq(cadre_control_link_open(self->context, &options, &self->link), 0);
}

static void
close_field(field_t *self)
{
    cadre_control_link_close(&self->link);
    cadre_socket_close(&self->router, 0);
    cadre_context_close(&self->context);
}

/* Waits until that has happened to the connection. */
static void
await(field_t *self, cadre_control_link_event_t wanted)
{
    cadre_control_link_event_t event;
    uint64_t until_ms = now() + WAIT_MS;
    while ((event = cadre_control_link_watch(self->link, now())) != wanted) {
        cr_assert_eq(event, CADRE_LINK_SAME);
        cr_assert_lt(now(), until_ms);
        uint64_t due_ms = cadre_control_link_tick(self->link, now());
        uint64_t rest_ms = due_ms > now() ? due_ms - now() : 0;
        zmq_pollitem_t item = {.socket = cadre_control_link_monitor_handle(self->link),
                               .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, rest_ms < WAIT_MS ? (long)rest_ms : WAIT_MS);
    }
}

static void
send_goodbye(field_t *self, const char *reason)
{
    cadre_outbox_entry_t entry;
    cadre_message_t message = {.type = CADRE_MESSAGE_GOODBYE, .incarnation = 77};
    message.goodbye.reason = reason;
    cadre_outbox_entry_init(&entry, &(cadre_task_t){CADRE_ROLE_COORDINATOR, 0, 0}, &message);
    cadre_control_link_send(self->link, &entry);
    cr_assert_null(entry.header);
}

/* What comes to the coordinator next; whom it is from is in `frames`. */
static void
receive_goodbye(field_t *self, cadre_frames_t *frames, const char *reason)
{
    zmq_pollitem_t item = {.socket = cadre_socket_handle(self->router), .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, WAIT_MS), 1);
    cadre_message_t message;
    cr_assert_eq(cadre_socket_receive(self->router, frames), 0);
    cr_assert_eq(cadre_message_decode(cadre_chunk_data(frames->header),
                                      cadre_chunk_size_bytes(frames->header), NULL, 0, &message),
                 0);
    cr_expect_str_eq(message.goodbye.reason, reason);
    cadre_message_fini(&message);
}

Test(control_link, brings_messages_both_ways)
{
    field_t self;
    open_field(&self);
    cadre_message_t message = {.type = CADRE_MESSAGE_UNKNOWN_PEER};
    cr_expect_eq(cadre_control_link_receive(self.link, &message), CADRE_EAGAIN);
    await(&self, CADRE_LINK_UP);
    cr_expect(cadre_control_link_is_up(self.link));
    cr_expect(cadre_control_link_is_trusted(self.link));
    send_goodbye(&self, "one");
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    receive_goodbye(&self, &frames, "one");

    cadre_chunk_t *header = cadre_message_encode(&message);
    cr_assert_eq(cadre_socket_send(self.router, &frames.from, header, NULL, 0), 0);
    cadre_chunk_unref(&header);
    zmq_pollitem_t item = {.socket = cadre_control_link_handle(self.link), .events = ZMQ_POLLIN};
    cr_assert_eq(zmq_poll(&item, 1, WAIT_MS), 1);
    cr_assert_eq(cadre_control_link_receive(self.link, &message), 0);
    cr_expect_eq(message.type, CADRE_MESSAGE_UNKNOWN_PEER);
    cadre_message_fini(&message);
    close_field(&self);
}

Test(control_link, drops_what_is_sent_without_a_connection_and_finds_the_next_coordinator)
{
    field_t self;
    open_field(&self);
    send_goodbye(&self, "before");
    await(&self, CADRE_LINK_UP);
    cadre_socket_close(&self.router, 0);
    await(&self, CADRE_LINK_DOWN);
    cr_expect_not(cadre_control_link_is_up(self.link));
    send_goodbye(&self, "between");
    cr_expect_not(cadre_control_link_is_full(self.link));
    bind_router(&self);
    await(&self, CADRE_LINK_UP);
    send_goodbye(&self, "after");
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    receive_goodbye(&self, &frames, "after");
    close_field(&self);
}

Test(control_link, dials_anew_under_the_same_name)
{
    field_t self;
    open_field(&self);
    await(&self, CADRE_LINK_UP);
    cr_assert(cadre_control_link_redial(self.link, now()));
    cr_expect_not(cadre_control_link_is_up(self.link));
    await(&self, CADRE_LINK_UP);
    close_field(&self);
}

Test(control_link, keeps_what_a_full_socket_does_not_take)
{
    enum { MESSAGES = 3 * CADRE_CONTROL_HWM };
    field_t self;
    open_field(&self);
    await(&self, CADRE_LINK_UP);
    char text[CADRE_TEXT_SIZE_MAX + 1] = "";
    memset(text, 'x', CADRE_TEXT_SIZE_MAX);
    int count = 0;
    for (; count < 1000 * MESSAGES && !cadre_control_link_is_full(self.link); count++) {
        send_goodbye(&self, text);
    }
    cr_assert(cadre_control_link_is_full(self.link));
    send_goodbye(&self, "last");
    count++;
    cadre_auto(cadre_frames_fini) cadre_frames_t frames = {0};
    for (int i = 1; i <= count; i++) {
        cadre_control_link_flush(self.link);
        receive_goodbye(&self, &frames, i < count ? text : "last");
    }
    cr_expect_not(cadre_control_link_is_full(self.link));
    close_field(&self);
}

Test(control_link, wants_a_turn_when_the_log_is_to_say_that_it_waits)
{
    field_t self;
    open_field(&self);
    uint64_t due_ms = cadre_control_link_tick(self.link, now());
    cr_expect_gt(due_ms, now());
    uint64_t next_ms = cadre_control_link_tick(self.link, due_ms);
    cr_expect_gt(next_ms - due_ms, 5000, "ever more seldom");
    await(&self, CADRE_LINK_UP);
    cr_expect_eq(cadre_control_link_tick(self.link, next_ms), UINT64_MAX);
    close_field(&self);
}
