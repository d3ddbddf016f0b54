#include "worker/core/push_cut.h"

#include <stdlib.h>

#include "common/base/memory.h"

typedef struct {
    const cadre_message_t *head;
    const cadre_push_content_t *content;
    cadre_message_t *messages;
    size_t count;
    size_t first;      /* number of the first partition that the last message may name */
    size_t size_bytes; /* of the chunks of the last message */
} cutter_t;

/* Begins the next message of the PUSH, with no partitions and chunks yet; it may name partitions
 * from number `first` on. */
static cadre_message_t *
begin_message(cutter_t *self, size_t first)
{
    self->messages = cadre_realloc(self->messages, self->count + 1, sizeof(*self->messages));
    cadre_message_t *message = &self->messages[self->count];
    *message = *self->head;
    message->push.part = self->count++;
    self->first = first;
    self->size_bytes = 0;
    return message;
}

/* Has the last message name the partitions up to number `last`: whole ones, and behind them those
 * of which there are rows. */
static void
name_up_to(const cutter_t *self, cadre_message_t *message, size_t last)
{
    const cadre_push_content_t *content = self->content;
    const size_t whole_end = last < content->whole_count ? last + 1 : content->whole_count;
    if (self->first < whole_end) {
        message->push.partitions =
            cadre_part_list(content->named + self->first, whole_end - self->first);
    }
    if (last >= content->whole_count) {
        const size_t first =
            self->first > content->whole_count ? self->first - content->whole_count : 0;
        message->push.rows = cadre_pushed_rows_list(content->named_rows + first,
                                                    last + 1 - content->whole_count - first);
    }
}

/* Returns whether the last message takes no further partition of the kind of number `next`. */
static bool
names_all(const cutter_t *self, size_t next, const cadre_push_limits_t *limits)
{
    const size_t whole_count = self->content->whole_count;
    if (next < whole_count) {
        return next - self->first >= limits->partitions_max;
    }
    const size_t first = self->first > whole_count ? self->first : whole_count;
    return next - first >= CADRE_ROW_PARTS_MAX;
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
cut(cutter_t *self, const cadre_push_limits_t *limits)
{
    const cadre_push_content_t *content = self->content;
    cadre_message_t *message = begin_message(self, 0);
    for (size_t i = 0; i < content->count; i++) {
        const cadre_run_part_t *part = &content->parts[content->indexes[i]];
        if (names_all(self, i, limits)) {
            message = begin_message(self, i);
        }
        name_up_to(self, message, i);
        for (size_t k = 0; k < part->chunk_count; k++) {
            size_t size_bytes = cadre_chunk_size_bytes(part->chunks[k]);
            if (is_full(self, message, size_bytes, limits->size_bytes_max)) {
                message = begin_message(self, i + 1);
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
    cutter_t cutter = {.head = head, .content = content};
    cut(&cutter, limits);
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
