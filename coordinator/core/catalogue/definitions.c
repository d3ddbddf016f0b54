#include "coordinator/core/catalogue/definitions.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec.h"

_Static_assert(CADRE_DEFINITIONS_PAGE_SIZE + CADRE_LARGE_HEADER_SIZE_MAX + sizeof(uint32_t) <=
                   CADRE_CHUNK_SIZE_MAX,
               "a page is one chunk, whatever its last record is");

/* Frees the log, with its cached messages. */
void
cadre_definitions_fini(cadre_definitions_t *self)
{
    for (size_t i = 0; i < self->page_count; i++) {
        free(self->pages[i].bytes);
        cadre_outbox_entry_fini(&self->pages[i].message);
    }
    for (size_t i = 0; i < CADRE_DEFINITIONS_RECENT; i++) {
        cadre_outbox_entry_fini(&self->recent[i].message);
    }
    free(self->pages);
    *self = (cadre_definitions_t){0};
}

/* --- the log --- */

static bool
is_full(const cadre_definitions_page_t *page)
{
    return page->size_bytes >= CADRE_DEFINITIONS_PAGE_SIZE;
}

/* Returns the page that takes the next record: the last one, or another behind it. */
static cadre_definitions_page_t *
open_page(cadre_definitions_t *self)
{
    size_t last = self->page_count;
    if (last > 0 && !is_full(&self->pages[last - 1])) {
        return &self->pages[last - 1];
    }

    self->page_count++;
    self->pages = cadre_realloc(self->pages, self->page_count, sizeof(*self->pages));
    self->pages[last] = (cadre_definitions_page_t){.first = self->count};
    return &self->pages[last];
}

/* Appends a record to the log: the encoded VARIABLE message, behind its size. */
void
cadre_definitions_add(cadre_definitions_t *self, const cadre_message_t *variable)
{
    cadre_assert(variable->type == CADRE_MESSAGE_VARIABLE && variable->chunk_count == 0);
    cadre_chunk_t *header = cadre_message_encode(variable);
    uint32_t size_bytes = (uint32_t)cadre_chunk_size_bytes(header);

    cadre_definitions_page_t *page = open_page(self);
    size_t end = page->size_bytes + sizeof(size_bytes) + size_bytes;
    if (end > page->capacity) {
        page->capacity = 2 * end;
        page->bytes = cadre_realloc(page->bytes, page->capacity, 1);
    }
    cadre_assert(page->bytes);

    memcpy(page->bytes + page->size_bytes, &size_bytes, sizeof(size_bytes));
    memcpy(page->bytes + page->size_bytes + sizeof(size_bytes), cadre_chunk_data(header),
           size_bytes);
    page->size_bytes = end;
    page->count++;
    self->count++;
    cadre_chunk_unref(&header);
}

/* --- sending the log --- */

/* Returns the offset in the page's bytes at which the record after the first `skipped` begins. */
static size_t
record_offset(const cadre_definitions_page_t *page, uint64_t skipped)
{
    size_t at = 0;
    for (uint64_t i = 0; i < skipped; i++) {
        uint32_t size_bytes;
        memcpy(&size_bytes, page->bytes + at, sizeof(size_bytes));
        at += sizeof(size_bytes) + size_bytes;
    }
    return at;
}

/* Encodes the page's records after its first `skipped` as a message. Which worker gets it is set
 * each time that it is sent. */
static cadre_outbox_entry_t
encode(const cadre_definitions_page_t *page, uint64_t skipped, const cadre_message_t *sender)
{
    cadre_message_t message = *sender;
    message.type = CADRE_MESSAGE_DEFINITIONS;
    message.definitions = (cadre_definitions_message_t){.first = page->first + skipped,
                                                        .count = page->count - skipped};
    size_t at = record_offset(page, skipped);
    cadre_message_add_chunk(&message,
                            cadre_chunk_new_copy(page->bytes + at, page->size_bytes - at));

    cadre_outbox_entry_t entry;
    cadre_outbox_entry_init(&entry, &(cadre_task_t){.role = CADRE_ROLE_WORKER}, &message);
    return entry;
}

/* Returns the message with the page's records after its first `skipped`: one of the few messages
 * that are kept, since several workers often lack the same records, or a new one in place of the
 * oldest. A kept message is recognised by its first record and its count of records, so one that
 * was made before the page grew is not used. */
static cadre_outbox_entry_t *
message_of_part(cadre_definitions_t *self, const cadre_definitions_page_t *page, uint64_t skipped,
                const cadre_message_t *sender)
{
    uint64_t first = page->first + skipped;
    uint64_t count = page->count - skipped;
    for (size_t i = 0; i < CADRE_DEFINITIONS_RECENT; i++) {
        cadre_definitions_part_t *part = &self->recent[i];
        if (part->message.header && part->first == first && part->count == count) {
            return &part->message;
        }
    }

    cadre_definitions_part_t *part = &self->recent[self->recent_next];
    self->recent_next = (self->recent_next + 1) % CADRE_DEFINITIONS_RECENT;
    cadre_outbox_entry_fini(&part->message);
    *part = (cadre_definitions_part_t){first, count, encode(page, skipped, sender)};
    return &part->message;
}

/* Returns the message with the records of a page that a worker with the first `known` records
 * lacks. */
static cadre_outbox_entry_t *
message_of_page(cadre_definitions_t *self, cadre_definitions_page_t *page, uint64_t known,
                const cadre_message_t *sender)
{
    /* The message of a page that still grows must not be cached as that of the whole page. */
    uint64_t skipped = known > page->first ? known - page->first : 0;
    if (skipped > 0 || !is_full(page)) {
        return message_of_part(self, page, skipped, sender);
    }

    if (!page->message.header) {
        page->message = encode(page, 0, sender);
    }
    return &page->message;
}

/* Returns the number of the page that holds the record after the first `known`. */
static size_t
page_after(const cadre_definitions_t *self, uint64_t known)
{
    size_t low = 0;
    size_t high = self->page_count - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (self->pages[middle].first <= known) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* Sends a worker all records after the first `known`, one message for each page of the log. Returns
 * the number of messages. */
size_t
cadre_definitions_send(cadre_definitions_t *self, const cadre_message_t *sender,
                       const cadre_task_t *to, uint64_t known, cadre_outbox_t *outbox)
{
    if (known >= self->count) {
        return 0;
    }

    size_t first = page_after(self, known);
    for (size_t i = first; i < self->page_count; i++) {
        cadre_outbox_entry_t *message = message_of_page(self, &self->pages[i], known, sender);
        message->destination = *to;
        cadre_outbox_repeat(outbox, message);
    }
    return self->page_count - first;
}
