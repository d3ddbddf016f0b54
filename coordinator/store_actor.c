/*
 * The store: the thread that does the coordinator's file work, so that a slow disk never holds up a
 * heartbeat. It begins and aborts drafts, commits them, and deletes old checkpoints.
 */
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_draft.h"
#include "common/system/clock.h"
#include "common/system/poll.h"
#include "coordinator/coordinator.h"

typedef struct {
    cadre_coordinator_t *coordinator;
    cadre_checkpoint_directory_t *directory;
    cadre_checkpoint_draft_t *draft;
    uint64_t id; /* id of the draft, or of the last one */
} store_t;

/* Gives the core an answer of the store, under the lock, and wakes the actor and calls that
 * wait. */
static void
answer(store_t *self, cadre_store_order_kind_t kind, int status, const char *text)
{
    cadre_coordinator_t *coordinator = self->coordinator;
    cadre_store_answer_t said = {
        .kind = kind, .checkpoint = self->id, .status = status, .text = text};
    cadre_gate_lock(coordinator->gate);
    cadre_core_stored(&coordinator->core, &said, (uint64_t)cadre_clock_now_ms());
    cadre_gate_broadcast(coordinator->gate);
    cadre_gate_unlock_and_wake(coordinator->gate);
}

/* Gives the highest id of a checkpoint in the directory; 0: there is none. */
static int
newest_id(store_t *self, uint64_t *id)
{
    cadre_checkpoint_entry_t *entries = NULL;
    size_t count = 0;
    int status = cadre_checkpoint_directory_list(self->directory, &entries, &count);
    *id = status == 0 && count > 0 ? entries[0].id : 0;
    cadre_checkpoint_entries_free(&entries, count);
    return status;
}

/* Begins a draft with an id above those of all checkpoints that are there. */
static int
begin_draft(store_t *self)
{
    int status =
        cadre_checkpoint_directory_open(self->coordinator->checkpoint_dir, true, &self->directory);
    if (status < 0) {
        return status;
    }

    status = cadre_coordinator_lock_checkpoints(self->coordinator);
    if (status < 0) {
        return status;
    }

    uint64_t newest = 0;
    status = newest_id(self, &newest);
    if (status < 0) {
        return status;
    }

    self->id = newest >= self->id ? newest + 1 : self->id + 1;
    return cadre_checkpoint_draft_begin(self->directory, self->id, &self->draft);
}

/* Carries out the order to open a draft, in place of one that may be left, and answers with its
 * path. */
static void
open_draft(store_t *self)
{
    cadre_checkpoint_draft_abort(&self->draft);
    /* The directory is opened by its name each time: it may have been replaced, or mounted again,
     * since the last checkpoint. */
    cadre_checkpoint_directory_destroy(&self->directory);
    int status = begin_draft(self);
    answer(self, CADRE_STORE_OPEN, status,
           status < 0 ? cadre_error_text() : cadre_checkpoint_draft_path(self->draft));
}

/* Commits the draft with this manifest, and answers with the checkpoint's path. */
static void
commit(store_t *self, cadre_manifest_t *manifest)
{
    char created[CADRE_CLOCK_TEXT_SIZE];
    char name[CADRE_CHECKPOINT_NAME_SIZE];

    manifest->created = cadre_strdup(cadre_clock_utc_text(created));
    int status = self->draft ? cadre_checkpoint_draft_commit(&self->draft, manifest)
                             : cadre_fail(CADRE_ESTATE, "there is no draft");
    if (status < 0) {
        answer(self, CADRE_STORE_COMMIT, status, cadre_error_text());
        return;
    }

    char *path = cadre_asprintf("%s/%s", self->coordinator->checkpoint_dir,
                                cadre_checkpoint_name(self->id, name));
    answer(self, CADRE_STORE_COMMIT, 0, path);
    free(path);
}

/* Deletes checkpoints beyond the number that is kept, but none from id `oldest` on. */
static void
retain(store_t *self, uint64_t oldest)
{
    int status = cadre_checkpoint_directory_retain(
        self->directory, (size_t)self->coordinator->checkpoint_keep, oldest, NULL);
    if (status < 0) {
        cadre_gate_lock(self->coordinator->gate);
        cadre_core_note_retention_failed(&self->coordinator->core, self->id, cadre_error_text());
        cadre_gate_unlock_and_wake(self->coordinator->gate);
    }
    answer(self, CADRE_STORE_RETAIN, status, status < 0 ? cadre_error_text() : "");
}

/* Carries out an order of the checkpoint, and frees it. */
static void
carry_out(store_t *self, cadre_store_order_t *order)
{
    switch (order->kind) {
    case CADRE_STORE_OPEN:
        open_draft(self);
        break;
    case CADRE_STORE_COMMIT:
        commit(self, order->manifest);
        break;
    case CADRE_STORE_ABORT:
        cadre_checkpoint_draft_abort(&self->draft);
        break;
    case CADRE_STORE_RETAIN:
        retain(self, order->checkpoint);
        break;
    }

    if (order->manifest) {
        cadre_manifest_fini(order->manifest);
        free(order->manifest);
    }

    free(order);
}

/* Runs the store's thread: carries out orders until another message tells it to stop. A draft that
 * is open then is removed. */
void
cadre_store_run(void *pipe, void *argument)
{
    store_t self = {.coordinator = argument};
    bool stopped = false;
    while (!stopped) {
        zmq_pollitem_t item = {.socket = pipe, .events = ZMQ_POLLIN};
        cadre_poll(&item, 1, -1);
        cadre_pipe_message_t message;
        while (cadre_pipe_receive(pipe, &message) == 0) {
            if (message.kind == CADRE_STORE_ORDER) {
                carry_out(&self, message.pointer);
            } else {
                stopped = true;
            }
        }
    }

    cadre_checkpoint_draft_abort(&self.draft);
    cadre_checkpoint_directory_destroy(&self.directory);
}
