#include "worker/core/push_cut.h"

#include <stdlib.h>

#include "common/base/memory.h"

typedef struct {
    const cadre_message_t *head;
    cadre_message_t *messages;
    size_t count;
    const cadre_part_t *named; /* the first partition that the last message names */
    size_t named_count;        /* how many it names */
    size_t size_bytes;         /* of the chunks of the last message */
} cutter_t;

/* Begins the next message of the PUSH, with no partitions and chunks yet. `named`: the first of the
 * partitions that it may name. */
static cadre_message_t *
begin_message(cutter_t *self, const cadre_part_t *named)
{
    self->messages = cadre_realloc(self->messages, self->count + 1, sizeof(*self->messages));
    cadre_message_t *message = &self->messages[self->count];
    *message = *self->head;
    message->push.partitions = cadre_part_list(named, 0);
    message->push.part = self->count++;
    self->named = named;
    self->named_count = 0;
    self->size_bytes = 0;
    return message;
}

/* Returns whether one chunk more, of `size_bytes`, would make the message too large. */
static bool
is_full(const cutter_t *self, const cadre_message_t *message, size_t size_bytes, size_t size_max)
{
    return message->chunk_count == CADRE_MESSAGE_CHUNKS_MAX ||
           (message->chunk_count > 0 && self->size_bytes + size_bytes > size_max);
}

/* Cuts one shard's part of an update into messages that are within the limits. A message names the
 * partitions that begin in it; a partition's chunks may go on in the next message. */
static void
cut(cutter_t *self, const cadre_push_content_t *content, const cadre_push_limits_t *limits)
{
    cadre_message_t *message = begin_message(self, content->named);
    for (size_t i = 0; i < content->count; i++) {
        const cadre_run_part_t *part = &content->parts[content->indexes[i]];
        if (self->named_count == limits->partitions_max) {
            message = begin_message(self, content->named + i);
        }
        message->push.partitions = cadre_part_list(self->named, ++self->named_count);
        for (size_t k = 0; k < part->chunk_count; k++) {
            size_t size_bytes = cadre_chunk_size_bytes(part->chunks[k]);
            if (is_full(self, message, size_bytes, limits->size_bytes_max)) {
                message = begin_message(self, content->named + i + 1);
            }
            cadre_message_add_chunk(message, cadre_chunk_ref(part->chunks[k]));
            self->size_bytes += size_bytes;
        }
    }
}

/* Makes the messages of a PUSH: the first as `entry` of the request, the others as its `parts`; and
 * the RESERVE that asks the ps for room for all of them. */
void
cadre_push_cut(const cadre_push_content_t *content, const cadre_push_limits_t *limits,
               const cadre_message_t *head, const cadre_task_t *ps, cadre_link_request_t *request)
{
    cutter_t cutter = {.head = head};
    cut(&cutter, content, limits);
    request->part_count = cutter.count - 1;
    request->parts =
        request->part_count ? cadre_calloc(request->part_count, sizeof(*request->parts)) : NULL;
    for (size_t i = 0; i < cutter.count; i++) {
        /* 0: the PUSH is whole in this message */
        cutter.messages[i].push.parts = cutter.count > 1 ? cutter.count : 0;
        cadre_outbox_entry_init(i == 0 ? &request->entry : &request->parts[i - 1], ps,
                                &cutter.messages[i]);
    }
    free(cutter.messages);

    /* RESERVE with 0 bytes would give room back, so for an empty update it asks for 1. */
    cadre_message_t reserve = *head;
    reserve.type = CADRE_MESSAGE_RESERVE;
    reserve.reserve =
        (cadre_reserve_message_t){.update = head->push.update,
                                  .generation = head->push.generation,
                                  .size_bytes = request->size_bytes ? request->size_bytes : 1};
    cadre_outbox_entry_init(&request->reserve, ps, &reserve);
}
