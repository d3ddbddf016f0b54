#include "ps/load_actor.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/system/parallel.h"
#include "common/system/poll.h"
#include "ps/checkpoint_loader.h"
#include "ps/core/checkpoint_load.h"

typedef struct {
    void *pipe;
    bool stopped;
    cadre_checkpoint_loader_t files;
    cadre_loader_t loader;
    uint64_t from;                   /* loads with a lower number are given up */
    cadre_checkpoint_load_t **loads; /* [count]; those from `first` on are not begun */
    size_t first;
    size_t count;
    cadre_checkpoint_load_t *at_hand; /* the load being carried out */
    atomic_uint_fast64_t *steps;

    /* For the log: what was loaded since this actor last had nothing to do. */
    int64_t begin_ms;
    uint64_t partitions;
    uint64_t size_bytes;
} load_actor_t;

/* Frees the object that a pipe message carries: a number (CADRE_LOAD_FROM), else a load. */
void
cadre_load_actor_drop(cadre_pipe_message_t *message)
{
    if (message->kind == CADRE_LOAD_FROM) {
        free(message->pointer);
    } else {
        cadre_checkpoint_load_t *load = message->pointer;
        cadre_checkpoint_load_destroy(&load);
    }
    message->pointer = NULL;
}

/* Appends a load to the queue; when all loads in it were taken, the queue begins at its front
 * again. */
static void
put(load_actor_t *self, cadre_checkpoint_load_t *load)
{
    if (self->first == self->count) {
        self->first = 0;
        self->count = 0;
    }
    self->loads = cadre_realloc(self->loads, self->count + 1, sizeof(cadre_checkpoint_load_t *));
    self->loads[self->count++] = load;
}

/* Takes the messages that have come, without waiting. CADRE_LOAD_FROM: loads with a number below
 * the given one are not wanted any more. */
static void
take_orders(load_actor_t *self)
{
    cadre_pipe_message_t message;
    while (!self->stopped && cadre_pipe_receive(self->pipe, &message) == 0) {
        if (message.kind == CADRE_LOAD_LOAD) {
            put(self, message.pointer);
        } else if (message.kind == CADRE_LOAD_FROM) {
            self->from = *(const uint64_t *)message.pointer;
            cadre_load_actor_drop(&message);
        } else {
            self->stopped = true;
        }
    }
}

/* Returns whether the load being carried out is to be given up; called between pieces of it. */
static bool
give_up(void *context)
{
    load_actor_t *self = context;
    /* a sign of life: the shard's actor looks whether the count changes */
    atomic_fetch_add(self->steps, 1);
    take_orders(self);
    return self->stopped || self->at_hand->number < self->from;
}

/* Calls `each` for every index below `count`: on as many threads as there are CPUs, a single call
 * on this one. */
static void
run_lanes(void *context, size_t count, void (*each)(void *argument, size_t index), void *argument)
{
    (void)context;
    if (count > 1) {
        cadre_parallel_for(count, each, argument);
    } else if (count > 0) {
        each(argument, 0);
    }
}

/* Returns the bytes of a partition or table that was filled. */
static uint64_t
size_of(const cadre_checkpoint_load_t *load)
{
    if (load->table) {
        return cadre_table_figures(load->table).size_bytes;
    }
    const cadre_optimizer_spec_t *optimizer = &load->spec.optimizer;
    return cadre_partition_layout(load->partition)->size_bytes *
           (1 + cadre_optimizer_slot_count(optimizer));
}

/* Logs a load that failed, and counts a partition that was filled from the checkpoint for the log
 * line of `tell`. */
static void
note(load_actor_t *self, const cadre_checkpoint_load_t *load)
{
    if (load->status < 0) {
        cadre_log(CADRE_LOG_WARN, "load_failed", "what=\"%s\" why=\"%s\"",
                  load->path ? load->path : load->name, load->text);
    } else if (load->found) {
        self->partitions++;
        self->size_bytes += size_of(load);
    }
}

/* Carries out the oldest load of the queue, unless it is not wanted any more, and sends it back
 * either way: whoever ordered it waits for every one. */
static void
carry_out(load_actor_t *self)
{
    const cadre_lanes_t lanes = {.run = run_lanes};
    const cadre_give_up_t asks = {give_up, self};
    cadre_checkpoint_load_t *load = self->loads[self->first++];
    self->at_hand = load;
    if (load->number >= self->from) {
        cadre_checkpoint_load_run(load, &self->loader, &lanes, &asks);
        if (load->status != CADRE_ECANCELLED) {
            note(self, load);
        }
    } else {
        load->status = cadre_fail(CADRE_ECANCELLED, "the load was given up");
    }
    self->at_hand = NULL;
    if (cadre_pipe_send(self->pipe, CADRE_LOAD_LOADED, load) < 0) {
        cadre_checkpoint_load_destroy(&load);
    }
}

/* Logs one line for all partitions that were loaded one after the other. */
static void
tell(load_actor_t *self)
{
    if (self->partitions > 0) {
        cadre_log(CADRE_LOG_INFO, "loaded",
                  "partitions=%" PRIu64 " size_bytes=%" PRIu64 " ms=%" PRId64, self->partitions,
                  self->size_bytes, cadre_clock_now_ms() - self->begin_ms);
    }
    self->partitions = 0;
    self->size_bytes = 0;
}

/* Runs the thread: carries out loads one after the other, and sleeps while there are none. When it
 * is stopped, drops those that are left. */
static void
run(void *pipe, void *argument)
{
    load_actor_t *self = argument;
    self->pipe = pipe;
    while (!self->stopped) {
        zmq_pollitem_t item = {.socket = pipe, .events = ZMQ_POLLIN};
        if (self->first == self->count) { /* nothing is left to do */
            tell(self);
            cadre_poll(&item, 1, -1);
            self->begin_ms = cadre_clock_now_ms();
        }
        take_orders(self);
        if (self->first < self->count && !self->stopped) {
            carry_out(self);
        }
    }
    while (self->first < self->count) {
        cadre_checkpoint_load_destroy(&self->loads[self->first++]);
    }
    free(self->loads);
    self->loader.close(self->loader.context);
    free(self);
}

/* Starts the thread that reads checkpoints. */
int
cadre_load_actor_open(cadre_context_t *context, const cadre_folders_t *folders,
                      atomic_uint_fast64_t *steps, cadre_actor_t **out)
{
    load_actor_t *self = cadre_calloc(1, sizeof(*self));
    self->files.folders = folders;
    self->steps = steps;
    self->loader = cadre_checkpoint_loader(&self->files);
    int status = cadre_actor_open(context, "cadre-load", run, self, out);
    if (status < 0) {
        free(self);
    }
    return status;
}
