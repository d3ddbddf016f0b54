#include "common/net/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <zmq.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"

struct cadre_context {
    void *handle;
    cadre_keyring_t *keyring; /* NULL: no keys */
    bool permits_plain;
};

/* Opens a ZeroMQ context with two I/O threads. */
int
cadre_context_open(cadre_context_t **out)
{
    void *handle = zmq_ctx_new();
    if (!handle) {
        return cadre_fail(CADRE_EIO, "no ZeroMQ context can be made: %s", zmq_strerror(errno));
    }

    if (zmq_ctx_set(handle, ZMQ_IO_THREADS, 2) < 0 ||
        zmq_ctx_set(handle, ZMQ_MAX_SOCKETS, CADRE_TASKS_MAX) < 0) {
        int status =
            cadre_fail(CADRE_EIO, "a ZeroMQ context cannot be set up: %s", zmq_strerror(errno));
        zmq_ctx_term(handle);
        return status;
    }

    cadre_context_t *self = cadre_calloc(1, sizeof(*self));
    self->handle = handle;
    *out = self;
    return 0;
}

/* Waits until the ZeroMQ context has ended; the main function of a thread. */
static void *
terminate(void *handle)
{
    while (zmq_ctx_term(handle) < 0 && errno == EINTR) {
    }
    return NULL;
}

/* Ends the ZeroMQ context. A thread of its own waits for that, because libzmq may wait for ever for
 * a connection that broke; after CADRE_CONTEXT_CLOSE_S it is left alone. */
void
cadre_context_close(cadre_context_t **self_p)
{
    cadre_context_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    pthread_t thread;
    struct timespec until;
    if (pthread_create(&thread, NULL, terminate, self->handle) != 0) { /* no thread to be had */
        terminate(self->handle);
    } else {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += CADRE_CONTEXT_CLOSE_S;
        if (pthread_timedjoin_np(thread, NULL, &until) != 0) {
            pthread_detach(thread);
        }
    }

    cadre_keyring_close(&self->keyring);
    free(self);
}

void
cadre_context_guard(cadre_context_t *self, cadre_keyring_t *keyring)
{
    self->keyring = keyring;
}

void
cadre_context_permit_plain(cadre_context_t *self)
{
    self->permits_plain = true;
}

cadre_keyring_t *
cadre_context_keyring(const cadre_context_t *self)
{
    return self->keyring;
}

bool
cadre_context_permits_plain(const cadre_context_t *self)
{
    return self->permits_plain;
}

void *
cadre_context_handle(cadre_context_t *self)
{
    return self->handle;
}
