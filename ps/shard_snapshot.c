#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/status.h"
#include "ps/shard_state.h"

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

/* References to all chunks: its cost is the number of chunks, not their size. */
static cadre_shard_snapshot_t *
take(cadre_shard_t *self, const cadre_snapshot_message_t *message)
{
    cadre_shard_snapshot_t *snapshot = cadre_calloc(1, sizeof(*snapshot));
    snapshot->epoch = self->epoch;
    snapshot->checkpoint = message->checkpoint;
    snapshot->index = self->index;
    snapshot->directory = cadre_strdup(message->directory);
    snapshot->state =
        (cadre_shard_state_t){.window_base = message->cut, .generation = self->generation};
#define TAKE_OVER(name) snapshot->state.name = self->counters[CADRE_PS_COUNTER_##name];
    CADRE_SHARD_COUNTER_LIST(TAKE_OVER)
#undef TAKE_OVER
    memcpy(snapshot->counters, self->counters, sizeof(snapshot->counters));
    snapshot->parts = cadre_calloc(self->parts.count, sizeof(*snapshot->parts));
    const cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        cadre_shard_snapshot_part_t *taken = &snapshot->parts[snapshot->part_count++];
        memcpy(taken->name, part->name, sizeof(taken->name));
        taken->spec = *cadre_partition_spec(part->partition);
        taken->layout = *cadre_partition_layout(part->partition);
        cadre_partition_snapshot(part->partition, &taken->references);
    }
    return snapshot;
}

static int
snapshot(cadre_shard_t *self, const cadre_snapshot_message_t *message)
{
    int status = cadre_shard_check_generation(self, message->generation);
    if (status < 0 || message->checkpoint == self->checkpoint) {
        return status; /* 0: said again */
    }
    if (message->checkpoint < self->checkpoint) {
        return cadre_fail(CADRE_EFENCED, "checkpoint %" PRIu64 " came after %" PRIu64,
                          message->checkpoint, self->checkpoint);
    }
    cadre_applied_window_set_base(self->window, message->cut);
    cadre_shard_snapshot_destroy(&self->snapshot);
    self->snapshot = take(self, message);
    self->checkpoint = message->checkpoint;
    return 0;
}

void
cadre_shard_snapshot(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    const cadre_snapshot_message_t *message = &question->message->snapshot;
    int status = snapshot(self, message);
    cadre_message_t answer = cadre_shard_answer(self, question, CADRE_MESSAGE_SNAPSHOT_TAKEN);
    answer.snapshot_taken = (cadre_snapshot_taken_message_t){
        .checkpoint = message->checkpoint,
        .status = (uint64_t)-status,
        .text = status < 0 ? cadre_error_text() : "",
    };
    cadre_shard_send(question, &answer);
}
