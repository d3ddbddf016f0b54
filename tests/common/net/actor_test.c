#include "common/net/actor.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"

TestSuite(actor, .timeout = 240);

enum { KIND_NUMBER = 1, KIND_SIGNALS = 2, KIND_DONE = 3 };

static int
receive_within(void *end, int timeout_ms, cadre_pipe_message_t *out)
{
    int64_t deadline_ms = cadre_clock_now_ms() + timeout_ms;
    for (;;) {
        int status = cadre_pipe_receive(end, out);
        int64_t left_ms = deadline_ms - cadre_clock_now_ms();
        if (status != CADRE_EAGAIN || left_ms <= 0) {
            return status;
        }
        zmq_pollitem_t item = {.socket = end, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, (long)left_ms);
    }
}

/* Doubles each number; tells whether it can see signals. */
static void
doubler(void *pipe, void *argument)
{
    (void)argument;
    for (;;) {
        cadre_pipe_message_t message;
        if (receive_within(pipe, 10000, &message) < 0 || message.kind == CADRE_PIPE_STOP) {
            return;
        }
        if (message.kind == KIND_NUMBER) {
            *(uint64_t *)message.pointer *= 2;
            cadre_pipe_send(pipe, KIND_NUMBER, message.pointer);
        } else {
            sigset_t blocked;
            pthread_sigmask(SIG_SETMASK, NULL, &blocked);
            cadre_pipe_send(pipe, sigismember(&blocked, SIGTERM) ? KIND_DONE : KIND_SIGNALS, NULL);
        }
    }
}

Test(actor, takes_objects_and_gives_them_back_in_order)
{
    cadre_context_t *context = NULL;
    cadre_actor_t *actor = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_actor_open(context, "doubler", doubler, NULL, &actor), 0);
    void *pipe = cadre_actor_socket(actor);
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t *number = cadre_calloc(1, sizeof(*number));
        *number = i;
        cr_assert_eq(cadre_pipe_send(pipe, KIND_NUMBER, number), 0);
    }
    for (uint64_t i = 0; i < 5000; i++) {
        cadre_pipe_message_t message;
        cr_assert_eq(receive_within(pipe, 5000, &message), 0);
        cr_assert_eq(*(uint64_t *)message.pointer, 2 * i);
        free(message.pointer);
    }
    cadre_pipe_message_t none;
    cr_assert_eq(cadre_pipe_receive(pipe, &none), CADRE_EAGAIN);
    cr_assert_eq(cadre_actor_stop(&actor, CADRE_ACTOR_STOP_MS), 0);
    cr_assert_null(actor);
    cr_assert_eq(cadre_actor_stop(&actor, CADRE_ACTOR_STOP_MS), 0, "stopping nothing is harmless");
    cadre_context_close(&context);
}

Test(actor, sees_no_signals_while_its_owner_still_does)
{
    cadre_context_t *context = NULL;
    cadre_actor_t *actor = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_actor_open(context, "a name that is longer than the kernel keeps", doubler,
                                  NULL, &actor),
                 0);
    cadre_pipe_message_t message;
    cadre_pipe_send(cadre_actor_socket(actor), KIND_SIGNALS, NULL);
    cr_assert_eq(receive_within(cadre_actor_socket(actor), 5000, &message), 0);
    cr_assert_eq(message.kind, KIND_DONE);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    cr_assert_not(sigismember(&blocked, SIGTERM));
    cr_assert_eq(cadre_actor_stop(&actor, CADRE_ACTOR_STOP_MS), 0);
    cadre_context_close(&context);
}

/* Deaf to its pipe until it hears from `argument`, the end of another one. */
static void
deaf(void *pipe, void *argument)
{
    (void)pipe;
    cadre_pipe_message_t message;
    void *other = argument;
    receive_within(other, 10000, &message);
    cadre_pipe_close(&other);
}

Test(actor, is_not_waited_for_without_bound)
{
    cadre_context_t *context = NULL;
    cadre_actor_t *actor = NULL;
    void *left = NULL;
    void *right = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_pipe_open(context, &left, &right), 0);
    cr_assert_eq(cadre_actor_open(context, "deaf", deaf, right, &actor), 0);
    int64_t begin_ms = cadre_clock_now_ms();
    cr_assert_eq(cadre_actor_stop(&actor, 50), CADRE_ETIMEOUT);
    cr_assert_geq(cadre_clock_now_ms() - begin_ms, 49);
    cr_assert_not_null(actor, "it can be asked again");
    cadre_pipe_send(left, KIND_DONE, NULL);
    cr_assert_eq(cadre_actor_stop(&actor, CADRE_ACTOR_STOP_MS), 0);
    cadre_pipe_close(&left);
    cadre_context_close(&context);
}

static void
gone_at_once(void *pipe, void *argument)
{
    (void)argument;
    cadre_pipe_send(pipe, KIND_DONE, NULL);
}

Test(actor, may_end_by_itself_and_what_it_said_is_still_heard)
{
    cadre_context_t *context = NULL;
    cadre_actor_t *actor = NULL;
    cr_assert_eq(cadre_context_open(&context), 0);
    cr_assert_eq(cadre_actor_open(context, "gone", gone_at_once, NULL, &actor), 0);
    cr_assert_eq(cadre_actor_end(actor, CADRE_ACTOR_STOP_MS), 0);
    cr_assert_eq(cadre_actor_end(actor, CADRE_ACTOR_STOP_MS), 0, "twice is harmless");
    cadre_pipe_message_t message;
    cr_assert_eq(cadre_pipe_receive(cadre_actor_socket(actor), &message), 0);
    cr_assert_eq(message.kind, KIND_DONE);
    cr_assert_eq(cadre_actor_stop(&actor, CADRE_ACTOR_STOP_MS), 0);
    cadre_context_close(&context);
}
