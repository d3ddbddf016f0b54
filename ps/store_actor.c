#include "ps/store_actor.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"
#include "common/system/log.h"
#include "common/system/poll.h"
#include "ps/snapshot_writer.h"

typedef struct {
    void *pipe;
    const cadre_folders_t *folders;
    bool stopped;
    cadre_store_abandon_t abandoned; /* the checkpoint that is no longer wanted */
    cadre_shard_snapshot_t *writing;
    cadre_shard_snapshot_t *next; /* the snapshot to be written next. One place is enough: the
                                     coordinator makes one checkpoint at a time, so a newer snapshot
                                     replaces one that still waits */
} store_t;

/* Puts a snapshot next in line, in place of one that still waits. */
static void
take_next(store_t *self, cadre_shard_snapshot_t *snapshot)
{
    cadre_shard_snapshot_destroy(&self->next);
    self->next = snapshot;
}

/* Takes the messages that have come; never waits. */
static void
take_orders(store_t *self)
{
    cadre_pipe_message_t message;
    while (!self->stopped && cadre_pipe_receive(self->pipe, &message) == 0) {
        if (message.kind == CADRE_STORE_WRITE) {
            take_next(self, message.pointer);
        } else if (message.kind == CADRE_STORE_ABANDON) {
            self->abandoned = *(cadre_store_abandon_t *)message.pointer;
            free(message.pointer);
        } else {
            self->stopped = true;
        }
    }
}

/* Returns whether the snapshot being written is of no use any more; called before every chunk. */
static bool
give_up(void *context)
{
    store_t *self = context;
    take_orders(self);
    /* A newer snapshot means that the coordinator has given this one up. */
    return self->stopped || self->next ||
           (self->writing->epoch == self->abandoned.epoch &&
            self->writing->checkpoint == self->abandoned.checkpoint);
}

/* Writes the snapshot that waits, logs what became of it, and tells the control loop. */
static void
write_next(store_t *self)
{
    self->writing = self->next;
    self->next = NULL;
    int64_t begin_ms = cadre_clock_now_ms();
    cadre_ps_written_t *written = cadre_calloc(1, sizeof(*written));
    cadre_snapshot_write(self->writing, self->folders, give_up, self, written);
    cadre_shard_snapshot_destroy(&self->writing);
    if (written->status == 0) {
        cadre_log(CADRE_LOG_INFO, "snapshot_written",
                  "checkpoint=%" PRIu64 " size_bytes=%" PRIu64 " ms=%" PRId64, written->checkpoint,
                  written->size_bytes, cadre_clock_now_ms() - begin_ms);
    } else {
        cadre_log(CADRE_LOG_WARN, "snapshot_failed",
                  "checkpoint=%" PRIu64 " why=\"%s\" next=\"the checkpoint before stays valid\"",
                  written->checkpoint, written->text);
    }
    if (cadre_pipe_send(self->pipe, CADRE_STORE_WRITTEN, written) < 0) {
        free(written);
    }
}

/* Runs the thread: writes snapshots as they come, and sleeps while none waits. */
static void
run(void *pipe, void *argument)
{
    store_t *self = argument;
    self->pipe = pipe;
    while (!self->stopped) {
        zmq_pollitem_t item = {.socket = pipe, .events = ZMQ_POLLIN};
        if (!self->next) {
            cadre_poll(&item, 1, -1);
        }
        take_orders(self);
        if (self->next && !self->stopped) {
            write_next(self);
        }
    }
    cadre_shard_snapshot_destroy(&self->next);
    free(self);
}

/* Starts the thread that writes snapshots. */
int
cadre_store_actor_open(cadre_context_t *context, const cadre_folders_t *folders,
                       cadre_actor_t **out)
{
    store_t *self = cadre_calloc(1, sizeof(*self));
    self->folders = folders;
    int status = cadre_actor_open(context, "cadre-store", run, self, out);
    if (status < 0) {
        free(self);
    }
    return status;
}
