#include "common/system/poll.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/net/actor.h"
#include "common/net/context.h"
#include "common/system/clock.h"

TestSuite(poll, .timeout = 240);

enum { LONG_MS = 60000, SHORT_MS = 50, ROUNDS = 5000 };

typedef struct {
    cadre_context_t *context;
    void *left;
    void *right;
} pair_t;

static pair_t
open_pair(void)
{
    pair_t pair = {.context = NULL};
    cr_assert_eq(cadre_context_open(&pair.context), 0);
    cr_assert_eq(cadre_pipe_open(pair.context, &pair.left, &pair.right), 0);
    return pair;
}

static void
close_pair(pair_t *pair)
{
    cadre_pipe_close(&pair->left);
    cadre_pipe_close(&pair->right);
    cadre_context_close(&pair->context);
}

Test(poll, sees_what_is_there_already)
{
    pair_t pair = open_pair();
    cadre_pipe_message_t message;
    cr_assert_eq(cadre_pipe_send(pair.left, 1, NULL), 0);
    cr_assert_eq(cadre_pipe_send(pair.left, 2, NULL), 0);
    zmq_pollitem_t item = {.socket = pair.right, .events = ZMQ_POLLIN};
    cr_assert_eq(cadre_poll(&item, 1, -1), 1);
    cr_assert_eq(item.revents, ZMQ_POLLIN);
    /* The second one has no signal of its own any more. */
    cr_assert_eq(cadre_pipe_receive(pair.right, &message), 0);
    cr_assert_eq(cadre_poll(&item, 1, -1), 1);
    cr_assert_eq(cadre_pipe_receive(pair.right, &message), 0);
    cr_assert_eq(cadre_poll(&item, 1, 0), 0);
    cr_assert_eq(item.revents, 0);
    close_pair(&pair);
}

Test(poll, waits_no_longer_than_it_is_told)
{
    pair_t pair = open_pair();
    zmq_pollitem_t item = {.socket = pair.right, .events = ZMQ_POLLIN};
    int64_t begin_ms = cadre_clock_now_ms();
    cr_assert_eq(cadre_poll(&item, 1, SHORT_MS), 0);
    int64_t waited_ms = cadre_clock_now_ms() - begin_ms;
    cr_assert_geq(waited_ms, SHORT_MS - 1);
    cr_assert_lt(waited_ms, LONG_MS);
    close_pair(&pair);
}

Test(poll, gives_only_the_events_that_were_asked_for)
{
    pair_t pair = open_pair();
    zmq_pollitem_t items[] = {{.socket = pair.left, .events = ZMQ_POLLIN},
                              {.socket = pair.right, .events = ZMQ_POLLOUT}};
    cr_assert_eq(cadre_poll(items, 2, LONG_MS), 1);
    cr_assert_eq(items[0].revents, 0);
    cr_assert_eq(items[1].revents, ZMQ_POLLOUT);
    close_pair(&pair);
}

Test(poll, tells_of_sockets_and_descriptors_together)
{
    pair_t pair = open_pair();
    int descriptor = eventfd(1, EFD_NONBLOCK);
    zmq_pollitem_t items[] = {{.socket = pair.right, .events = ZMQ_POLLIN},
                              {.fd = descriptor, .events = ZMQ_POLLIN}};
    cr_assert_eq(cadre_poll(items, 2, LONG_MS), 1);
    cr_assert_eq(items[0].revents, 0);
    cr_assert_eq(items[1].revents, ZMQ_POLLIN);
    cr_assert_eq(cadre_pipe_send(pair.left, 1, NULL), 0);
    cr_assert_eq(cadre_poll(items, 2, LONG_MS), 2);
    cr_assert_eq(cadre_poll(items, 2, 0), 2);
    uint64_t count = 0;
    cr_assert_eq(read(descriptor, &count, sizeof(count)), (ssize_t)sizeof(count));
    cr_assert_eq(cadre_poll(items, 2, LONG_MS), 1);
    cr_assert_eq(items[1].revents, 0);
    close(descriptor);
    close_pair(&pair);
}

/* Sends back everything; a socket that sends between its waits loses signals, never messages. */
static void
reflect(void *pipe, void *argument)
{
    (void)argument;
    cadre_pipe_message_t message = {.kind = 1};
    while (message.kind != CADRE_PIPE_STOP) {
        zmq_pollitem_t item = {.socket = pipe, .events = ZMQ_POLLIN};
        cadre_poll(&item, 1, -1);
        while (message.kind != CADRE_PIPE_STOP && cadre_pipe_receive(pipe, &message) == 0) {
            cadre_pipe_send(pipe, message.kind, NULL);
        }
    }
}

Test(poll, loses_no_wake_up)
{
    enum { ACTORS = 3, WINDOW = 4 };
    cadre_context_t *context = NULL;
    cadre_actor_t *actors[ACTORS];
    zmq_pollitem_t items[ACTORS];
    cr_assert_eq(cadre_context_open(&context), 0);
    for (int i = 0; i < ACTORS; i++) {
        cr_assert_eq(cadre_actor_open(context, "reflect", reflect, NULL, &actors[i]), 0);
        items[i] = (zmq_pollitem_t){.socket = cadre_actor_socket(actors[i]), .events = ZMQ_POLLIN};
        for (int k = 0; k < WINDOW; k++) {
            cr_assert_eq(cadre_pipe_send(items[i].socket, 1, NULL), 0);
        }
    }
    for (int received = 0; received < ROUNDS;) {
        cadre_pipe_message_t message;
        cr_assert_gt(cadre_poll(items, ACTORS, LONG_MS), 0, "nothing after %d messages", received);
        /* One per turn and socket: what is left has to be seen without a signal. */
        for (int i = 0; i < ACTORS; i++) {
            if (items[i].revents && cadre_pipe_receive(items[i].socket, &message) == 0) {
                received++;
                cr_assert_eq(cadre_pipe_send(items[i].socket, 1, NULL), 0);
            }
        }
    }
    for (int i = 0; i < ACTORS; i++) {
        cr_assert_eq(cadre_actor_stop(&actors[i], CADRE_ACTOR_STOP_MS), 0);
    }
    cadre_context_close(&context);
}

/* Whether it looks or sleeps until it comes. */
Test(poll, looks_for_sockets_and_descriptors)
{
    pair_t pair = open_pair();
    int descriptor = eventfd(0, EFD_CLOEXEC);
    zmq_pollitem_t items[] = {{.socket = pair.right, .events = ZMQ_POLLIN},
                              {.fd = descriptor, .events = ZMQ_POLLIN}};
    cadre_look_t looks[] = {{.mean_us = 0}, {.mean_us = CADRE_LOOK_WAIT_US + 1}};
    for (size_t i = 0; i < 3; i++) {
        cadre_look_t *look = i < 2 ? &looks[i] : NULL;
        cadre_pipe_message_t message;
        uint64_t number = 1;
        cr_expect_eq(cadre_poll_looking(look, items, 2, 1), 0);
        cr_assert_eq(cadre_pipe_send(pair.left, 1, NULL), 0);
        cr_expect_eq(cadre_poll_looking(look, items, 2, LONG_MS), 1);
        cr_expect_eq(items[0].revents, ZMQ_POLLIN);
        cr_assert_eq(cadre_pipe_receive(pair.right, &message), 0);
        cr_assert_eq(write(descriptor, &number, sizeof(number)), (ssize_t)sizeof(number));
        cr_expect_eq(cadre_poll_looking(look, items, 2, LONG_MS), 1);
        cr_expect_eq(items[1].revents, ZMQ_POLLIN);
        cr_assert_eq(read(descriptor, &number, sizeof(number)), (ssize_t)sizeof(number));
    }
    close(descriptor);
    close_pair(&pair);
}

Test(poll, takes_more_items_than_fit_its_stack)
{
    enum { MANY = 100 };
    pair_t pair = open_pair();
    int idle = eventfd(0, EFD_NONBLOCK);
    zmq_pollitem_t items[MANY];
    for (int i = 0; i < MANY; i++) {
        items[i] = (zmq_pollitem_t){.fd = idle, .events = ZMQ_POLLIN};
    }
    items[MANY - 1] = (zmq_pollitem_t){.socket = pair.right, .events = ZMQ_POLLIN};
    cr_assert_eq(cadre_poll(items, MANY, 0), 0);
    cr_assert_eq(cadre_pipe_send(pair.left, 1, NULL), 0);
    cr_assert_eq(cadre_poll(items, MANY, LONG_MS), 1);
    cr_assert_eq(items[MANY - 1].revents, ZMQ_POLLIN);
    close(idle);
    close_pair(&pair);
}
