/*
 * future - what becomes of a closure, for whoever asked.
 *
 * A future is shared by its owner and, until the closure has ended, the closure (closure->future).
 * Both sides touch it under the gate's lock only. Results stay encoded until they are fetched.
 */
#include "coordinator/future.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/status.h"
#include "coordinator/coordinator.h"

struct cadre_future {
    cadre_gate_t *gate;
    cadre_coordinator_t *coordinator; /* only for waiting, and only while the gate is not closed */
    cadre_closure_t *closure;         /* until it has ended */
    bool ended;
    int status;
    char *text; /* of a failure */
    uint64_t closure_id;
    int fd; /* -1 until somebody asks */
    /* results */
    char **names;
    size_t name_count;
    uint64_t *items;
    size_t item_count;
    cadre_chunk_t **chunks;
    size_t chunk_count;
};

cadre_future_t *
cadre_future_new(cadre_coordinator_t *coordinator, cadre_closure_t *closure)
{
    cadre_future_t *self = cadre_calloc(1, sizeof(*self));
    self->gate = cadre_gate_ref(coordinator->gate);
    self->coordinator = coordinator;
    self->closure = closure;
    self->fd = -1;
    closure->future = self;
    return self;
}

static void
destroy(cadre_future_t *self)
{
    for (size_t i = 0; i < self->name_count; i++) {
        free(self->names[i]);
    }
    for (size_t i = 0; i < self->chunk_count; i++) {
        cadre_chunk_unref(&self->chunks[i]);
    }
    free(self->names);
    free(self->items);
    free(self->chunks);
    free(self->text);
    if (self->fd >= 0) {
        close(self->fd);
    }
    cadre_gate_unref(&self->gate);
    free(self);
}

/* Keeps the results of the report: their chunks by reference, the rest copied. */
static void
keep_results(cadre_future_t *self, const cadre_message_t *message)
{
    const cadre_closure_done_message_t *done = &message->closure_done;
    self->name_count = done->names.count;
    self->names = cadre_calloc(self->name_count, sizeof(char *));
    for (size_t i = 0; i < self->name_count; i++) {
        self->names[i] = cadre_strdup(done->names.items[i]);
    }
    self->item_count = done->tensors.count;
    self->items = cadre_calloc(self->item_count, sizeof(*self->items));
    if (self->item_count > 0) {
        memcpy(self->items, done->tensors.items, self->item_count * sizeof(*self->items));
    }
    self->chunk_count = message->chunk_count;
    self->chunks = cadre_calloc(self->chunk_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < self->chunk_count; i++) {
        self->chunks[i] = cadre_chunk_ref(message->chunks[i]);
    }
}

static void
signal_fd(const cadre_future_t *self)
{
    uint64_t one = 1;
    ssize_t written = self->fd >= 0 ? write(self->fd, &one, sizeof(one)) : 0;
    (void)written; /* it is readable already when the count is full */
}

void
cadre_future_on_end(void *context, cadre_closure_t *closure, const cadre_closure_end_t *end)
{
    (void)context;
    cadre_future_t *self = closure->future;
    if (self) {
        self->closure = NULL;
        self->closure_id = closure->id;
        self->ended = true;
        self->status = end->status;
        if (end->status < 0) {
            self->text = cadre_strdup(end->text ? end->text : "");
        } else {
            keep_results(self, end->message);
        }
        closure->future = NULL;
        signal_fd(self);
    }
}

void
cadre_future_drop(cadre_future_t **self_p)
{
    cadre_future_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_gate_lock(self->gate);
    if (self->closure) {
        self->closure->future = NULL;
        self->closure->wants_results = false;
    }
    cadre_gate_unlock(self->gate);
    destroy(self);
}

/* Under the lock: waits for the end; 0, or how it failed. */
static int
wait_locked(cadre_future_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    while (!self->ended) {
        int status = self->gate->closed ? cadre_gate_wait(self->gate, deadline_ms)
                                        : cadre_coordinator_usable(self->coordinator);
        if (status == 0) {
            status = cadre_coordinator_wait(self->coordinator, deadline_ms, "a closure", &since_ms);
        }
        if (status < 0) {
            return status;
        }
    }
    return self->status < 0 ? cadre_fail(self->status, "%s", self->text) : 0;
}

int
cadre_future_wait(cadre_future_t *self, int64_t timeout_ms)
{
    cadre_gate_lock(self->gate);
    int status = wait_locked(self, cadre_gate_deadline_ms(timeout_ms));
    cadre_gate_unlock(self->gate);
    return status;
}

static int
find_result(const cadre_future_t *self, const char *name, size_t *position)
{
    for (size_t i = 0; i < self->name_count; i++) {
        if (!name || strcmp(self->names[i], name) == 0) {
            *position = i;
            return 0;
        }
    }
    return cadre_fail(CADRE_ENOTFOUND, "the closure has no result called %s",
                      name ? name : "anything");
}

int
cadre_fetch(cadre_future_t *self, const char *name, cadre_tensor_t *value, int64_t timeout_ms)
{
    size_t position = 0;
    cadre_gate_lock(self->gate);
    int status = wait_locked(self, cadre_gate_deadline_ms(timeout_ms));
    cadre_gate_unlock(self->gate);
    if (status == 0) {
        status = find_result(self, name, &position);
    }
    if (status < 0) {
        return status;
    }
    /* From here on the future has ended and never changes. */
    cadre_message_t message = {.chunks = self->chunks, .chunk_count = self->chunk_count};
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    status = cadre_tensor_list_decode((cadre_u64s_t){self->items, self->item_count}, &message,
                                      CADRE_RESULT_SIZE_MAX, &tensors, &count);
    if (status == 0 && position >= count) {
        status = cadre_fail(CADRE_EMALFORMED, "the report has fewer results than names");
    }
    if (status == 0) {
        *value = tensors[position];
        tensors[position] = (cadre_tensor_t){0};
    }
    cadre_tensors_fini(&tensors, count);
    return status;
}

int
cadre_fetch_all(cadre_future_t *const *futures, size_t count, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int first = 0;
    for (size_t i = 0; i < count && first == 0; i++) {
        cadre_gate_lock(futures[i]->gate);
        first = wait_locked(futures[i], deadline_ms);
        cadre_gate_unlock(futures[i]->gate);
    }
    return first;
}

int
cadre_future_fd(cadre_future_t *self, int *fd)
{
    int status = 0;
    cadre_gate_lock(self->gate);
    if (self->fd < 0) {
        self->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (self->fd < 0) {
            status = cadre_fail(CADRE_EIO, "eventfd: %s", strerror(errno));
        } else if (self->ended) {
            signal_fd(self);
        }
    }
    if (status == 0) {
        *fd = self->fd;
    }
    cadre_gate_unlock(self->gate);
    return status;
}

uint64_t
cadre_future_closure_id(const cadre_future_t *self)
{
    cadre_gate_lock(self->gate);
    uint64_t id = self->closure ? self->closure->id : self->closure_id;
    cadre_gate_unlock(self->gate);
    return id;
}
