/*
 * The cut of a checkpoint on one shard. From SNAPSHOT, or from the first PUSH or ASSIGN that says
 * that it comes after the cut, until CLOSE_CUT every part has an image: a fork that shares its
 * chunks. What belongs below the cut and comes only now (a straggler) is applied to both, so that
 * at the end the images hold exactly what is below the cut, and nobody has waited.
 *
 * One window serves both: it has the bit of a straggler that the image has, because the two are
 * applied in one turn, and what lies above the cut never touches the image.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "ps/core/shard_state.h"

void
cadre_shard_snapshot_destroy(cadre_shard_snapshot_t **self_p)
{
    cadre_shard_snapshot_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    for (size_t i = 0; i < self->part_count; i++) {
        cadre_partition_snapshot_fini(&self->parts[i].references);
    }
    free(self->parts);
    free(self->directory);
    free(self);
}

cadre_shard_snapshot_t *
cadre_shard_take_snapshot(cadre_shard_t *self)
{
    cadre_shard_snapshot_t *snapshot = self->snapshot;
    self->snapshot = NULL;
    return snapshot;
}

/* Ends the images; what was opened counts as having been. */
static void
drop_images(cadre_shard_t *self)
{
    cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        cadre_partition_close(&part->image);
    }
    self->cut = 0;
}

void
cadre_shard_open_cut(cadre_shard_t *self, uint64_t checkpoint, uint64_t cut)
{
    if (checkpoint <= self->checkpoint) {
        return;
    }
    drop_images(self); /* of one whose end was lost */
    cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        part->image = cadre_partition_fork(part->partition);
    }
    self->checkpoint = checkpoint;
    self->cut = cut;
    memcpy(self->cut_counters, self->counters, sizeof(self->cut_counters));
}

void
cadre_shard_end_cut(cadre_shard_t *self, uint64_t checkpoint)
{
    self->confirmed = checkpoint > self->confirmed ? checkpoint : self->confirmed;
    if (checkpoint >= self->checkpoint) {
        drop_images(self);
        self->checkpoint = checkpoint; /* its SNAPSHOT, should it come only now, opens nothing */
    }
}

static int
open_cut(cadre_shard_t *self, const cadre_snapshot_message_t *message)
{
    int status = cadre_shard_check_generation(self, message->generation);
    if (status < 0) {
        return status;
    }
    if (message->checkpoint < self->checkpoint) {
        uint64_t other = self->checkpoint;
        if (message->checkpoint > self->confirmed) {
            drop_images(self); /* of a number that no coordinator ever said */
            self->checkpoint = self->confirmed;
        }
        return cadre_fail(CADRE_EFENCED, "checkpoint %" PRIu64 " came after %" PRIu64,
                          message->checkpoint, other);
    }
    if (message->checkpoint == self->checkpoint && self->cut && message->cut != self->cut) {
        return cadre_fail(CADRE_EINVALID, "the cut was opened at %" PRIu64 ", not at %" PRIu64,
                          self->cut, message->cut);
    }
    cadre_shard_open_cut(self, message->checkpoint, message->cut);
    self->confirmed = message->checkpoint;
    return 0;
}

void
cadre_shard_snapshot(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    const cadre_snapshot_message_t *message = &question->message->snapshot;
    int status = open_cut(self, message);
    cadre_message_t answer = cadre_shard_answer(self, question, CADRE_MESSAGE_SNAPSHOT_TAKEN);
    answer.snapshot_taken = (cadre_snapshot_taken_message_t){
        .checkpoint = message->checkpoint,
        .status = (uint64_t)-status,
        .text = status < 0 ? cadre_error_text() : "",
    };
    cadre_shard_send(question, &answer);
}

/* --- closing --- */

/* Whether a checkpoint leaves the part out, though there may be an image: a cut that a PUSH opened
 * may have been ahead of RETIRE. */
static bool
is_left_out(const cadre_shard_part_t *part, uint64_t checkpoint)
{
    return !part->image || (part->retired && checkpoint > part->last_checkpoint);
}

/* Makes a snapshot of the images: references to all their chunks, whatever their size. */
static cadre_shard_snapshot_t *
take(const cadre_shard_t *self, const cadre_close_cut_message_t *message)
{
    cadre_shard_snapshot_t *snapshot = cadre_calloc(1, sizeof(*snapshot));
    snapshot->epoch = self->epoch;
    snapshot->checkpoint = message->checkpoint;
    snapshot->index = self->index;
    snapshot->directory = cadre_strdup(message->directory);
    snapshot->state =
        (cadre_shard_state_t){.window_base = message->cut, .generation = self->generation};
#define TAKE_OVER(name) snapshot->state.name = self->cut_counters[CADRE_PS_COUNTER_##name];
    CADRE_SHARD_COUNTER_LIST(TAKE_OVER)
#undef TAKE_OVER
    memcpy(snapshot->counters, self->cut_counters, sizeof(snapshot->counters));
    snapshot->parts = cadre_calloc(self->parts.count, sizeof(*snapshot->parts));
    const cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        if (!is_left_out(part, message->checkpoint)) {
            cadre_shard_snapshot_part_t *taken = &snapshot->parts[snapshot->part_count++];
            memcpy(taken->name, part->name, sizeof(taken->name));
            taken->spec = *cadre_partition_spec(part->image);
            taken->layout = *cadre_partition_layout(part->image);
            cadre_partition_snapshot(part->image, &taken->references);
        }
    }
    return snapshot;
}

int
cadre_shard_close_cut(cadre_shard_t *self, const cadre_close_cut_message_t *message)
{
    int status = cadre_shard_check_generation(self, message->generation);
    if (status < 0 || message->checkpoint == self->closed) {
        return status; /* 0: said again */
    }
    if (!self->cut || message->checkpoint != self->checkpoint || message->cut != self->cut) {
        return cadre_fail(
            CADRE_ESTATE,
            "cut %" PRIu64 " of checkpoint %" PRIu64 " is not open: that of %" PRIu64 " is %s",
            message->cut, message->checkpoint, self->checkpoint, self->cut ? "open" : "closed");
    }
    cadre_shard_snapshot_destroy(&self->snapshot);
    self->snapshot = take(self, message);
    self->closed = message->checkpoint;
    drop_images(self);
    cadre_applied_window_set_base(self->window, message->cut);
    return 0;
}
