#include "common/net/actor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* libzmq orders the two threads, but ThreadSanitizer cannot see into libzmq: these hints tell it.
 * Nor does ThreadSanitizer of gcc 12 know pthread_clockjoin_np; it knows pthread_timedjoin_np,
 * which waits by the wall clock. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define announce(pointer)  __tsan_release(pointer)
#define take_over(pointer) __tsan_acquire(pointer)
static const clockid_t JOIN_CLOCK = CLOCK_REALTIME;
#define join_until(thread, deadline) pthread_timedjoin_np(thread, NULL, deadline)
#else
#define announce(pointer)            ((void)(pointer))
#define take_over(pointer)           ((void)(pointer))
static const clockid_t JOIN_CLOCK = CLOCK_MONOTONIC;
#define join_until(thread, deadline) pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, deadline)
#endif

/* Bytes that the kernel has for a thread's name, the NUL included. */
enum { THREAD_NAME_SIZE = 16 };

struct cadre_actor {
    pthread_t thread;
    void *outside; /* the owner's end of the pipe */
    void *inside;
    cadre_actor_run_t run;
    void *argument;
    bool ended; /* the thread is joined */
};

/* --- pipes --- */

/* Opens one end of a pipe: a PAIR socket without high-water marks, so that a send never blocks, and
 * without linger, so that closing it waits for nothing. NULL on failure, with errno. */
static void *
new_end(cadre_context_t *context)
{
    void *end = zmq_socket(cadre_context_handle(context), ZMQ_PAIR);
    int none = 0;
    if (end && (zmq_setsockopt(end, ZMQ_SNDHWM, &none, sizeof(none)) < 0 ||
                zmq_setsockopt(end, ZMQ_RCVHWM, &none, sizeof(none)) < 0 ||
                zmq_setsockopt(end, ZMQ_LINGER, &none, sizeof(none)) < 0)) {
        zmq_close(end);
        end = NULL;
    }
    return end;
}

/* Makes a pipe: two connected ends within this process. */
int
cadre_pipe_open(cadre_context_t *context, void **left, void **right)
{
    void *bound = new_end(context);
    void *connected = new_end(context);
    char name[64];

    /* The name is unique: sockets that are alive have different addresses in memory. */
    snprintf(name, sizeof(name), "inproc://cadre-pipe-%p", bound);
    if (!bound || !connected || zmq_bind(bound, name) < 0 || zmq_connect(connected, name) < 0) {
        int status = cadre_fail(CADRE_EIO, "a pipe cannot be made: %s", zmq_strerror(errno));
        cadre_pipe_close(&bound);
        cadre_pipe_close(&connected);
        return status;
    }

    *left = bound;
    *right = connected;
    return 0;
}

void
cadre_pipe_close(void **end_p)
{
    if (*end_p) {
        zmq_close(*end_p);
        *end_p = NULL;
    }
}

/* Sends a kind and a pointer, whose object belongs to the receiver then; never blocks.
 * CADRE_ECLOSED when the context is being closed. */
int
cadre_pipe_send(void *end, uint32_t kind, void *pointer)
{
    cadre_pipe_message_t message = {.kind = kind, .pointer = pointer};
    if (pointer) {
        announce(pointer);
    }

    int rc = 0;
    do {
        rc = zmq_send(end, &message, sizeof(message), ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);

    if (rc >= 0) {
        return 0;
    }

    /* EAGAIN cannot come: without a high-water mark a connected pair is never full. */
    cadre_assert(errno == ETERM);
    return cadre_fail(CADRE_ECLOSED, "the context is closed");
}

/* Takes the oldest message off a pipe; never blocks: CADRE_EAGAIN when there is none. */
int
cadre_pipe_receive(void *end, cadre_pipe_message_t *out)
{
    cadre_pipe_message_t message = {.kind = 0};
    int rc = 0;
    do {
        rc = zmq_recv(end, &message, sizeof(message), ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);

    if (rc < 0) {
        return errno == EAGAIN ? CADRE_EAGAIN : cadre_fail(CADRE_ECLOSED, "the context is closed");
    }

    cadre_assert(rc == (int)sizeof(message));
    if (message.pointer) {
        take_over(message.pointer);
    }

    *out = message;
    return 0;
}

/* --- actors --- */

static void *
thread_main(void *argument)
{
    cadre_actor_t *self = argument;
    self->run(self->inside, self->argument);
    return NULL;
}

/* Starts the thread with every signal blocked: signals are for the main thread. Returns 0 or an
 * errno. */
static int
start(cadre_actor_t *self)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&self->thread, NULL, thread_main, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Starts a thread that runs `run` with its end of a pipe and `argument`. On failure `argument`
 * stays the caller's. */
int
cadre_actor_open(cadre_context_t *context, const char *name, cadre_actor_run_t run, void *argument,
                 cadre_actor_t **out)
{
    cadre_actor_t *self = cadre_calloc(1, sizeof(*self));
    int status = cadre_pipe_open(context, &self->outside, &self->inside);
    if (status < 0) {
        free(self);
        return status;
    }

    self->run = run;
    self->argument = argument;
    int error = start(self);
    if (error != 0) {
        cadre_pipe_close(&self->outside);
        cadre_pipe_close(&self->inside);
        free(self);
        return cadre_fail(CADRE_EIO, "no thread can be started for %s: %s", name, strerror(error));
    }

    char short_name[THREAD_NAME_SIZE];
    snprintf(short_name, sizeof(short_name), "%s", name);
    pthread_setname_np(self->thread, short_name); /* seen in debuggers and ps only */
    *out = self;
    return 0;
}

void *
cadre_actor_socket(cadre_actor_t *self)
{
    return self->outside;
}

/* Tells the actor to stop and waits at most `timeout_ms` for its thread to end. What it sent before
 * can still be received. */
int
cadre_actor_end(cadre_actor_t *self, int timeout_ms)
{
    if (self->ended) {
        return 0;
    }

    cadre_pipe_send(self->outside, CADRE_PIPE_STOP, NULL);
    struct timespec deadline;
    clock_gettime(JOIN_CLOCK, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
    if (deadline.tv_nsec >= 1000000000L) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000L;
    }

    int error = join_until(self->thread, &deadline);
    if (error == ETIMEDOUT) {
        return cadre_fail(CADRE_ETIMEOUT, "a thread did not end within %d ms", timeout_ms);
    }

    cadre_assert(error == 0);
    self->ended = true;
    return 0;
}

/* Ends the actor's thread and frees the actor. CADRE_ETIMEOUT, and the actor stays, when the thread
 * has not ended. */
int
cadre_actor_stop(cadre_actor_t **self_p, int timeout_ms)
{
    cadre_actor_t *self = *self_p;
    if (!self) {
        return 0;
    }

    int status = cadre_actor_end(self, timeout_ms);
    if (status < 0) {
        return status;
    }

    *self_p = NULL;
    cadre_pipe_close(&self->outside);
    cadre_pipe_close(&self->inside);
    free(self);
    return 0;
}
