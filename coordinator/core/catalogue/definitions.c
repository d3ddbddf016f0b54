#include "coordinator/core/catalogue/definitions.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/wire/codec.h"

_Static_assert(CADRE_DEFINITIONS_PAGE_SIZE + CADRE_LARGE_HEADER_SIZE_MAX + sizeof(uint32_t) <=
                   CADRE_CHUNK_SIZE_MAX,
               "a page is one chunk, whatever its last record is");

void
cadre_definitions_fini(cadre_definitions_t *self)
{
    for (size_t i = 0; i < self->page_count; i++) {
        free(self->pages[i].bytes);
        cadre_outbox_entry_fini(&self->entries[i]);
    }
    for (size_t i = 0; i < CADRE_DEFINITIONS_RECENT; i++) {
        cadre_outbox_entry_fini(&self->recent[i].entry);
    }
    free(self->pages);
    free(self->entries);
    *self = (cadre_definitions_t){0};
}

/* The page that takes the next record. */
static cadre_definitions_page_t *
open_page(cadre_definitions_t *self)
{
    size_t last = self->page_count;
    if (last > 0 && self->pages[last - 1].size_bytes < CADRE_DEFINITIONS_PAGE_SIZE) {
        return &self->pages[last - 1];
    }
    self->page_count++;
    self->pages = cadre_realloc(self->pages, self->page_count, sizeof(*self->pages));
    self->entries = cadre_realloc(self->entries, self->page_count, sizeof(*self->entries));
    self->pages[last] = (cadre_definitions_page_t){.first = self->count};
    self->entries[last] = (cadre_outbox_entry_t){.header = NULL};
    return &self->pages[last];
}

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

/* The page's records after its first `skipped`, as a message to nobody yet. */
static cadre_outbox_entry_t
encode(const cadre_definitions_page_t *page, uint64_t skipped, const cadre_message_t *envelope)
{
    size_t at = 0;
    for (uint64_t i = 0; i < skipped; i++) {
        uint32_t size_bytes;
        memcpy(&size_bytes, page->bytes + at, sizeof(size_bytes));
        at += sizeof(size_bytes) + size_bytes;
    }
    cadre_outbox_entry_t entry;
    cadre_message_t message = *envelope;
    message.type = CADRE_MESSAGE_DEFINITIONS;
    message.definitions = (cadre_definitions_message_t){.first = page->first + skipped,
                                                        .count = page->count - skipped};
    cadre_message_add_chunk(&message,
                            cadre_chunk_new_copy(page->bytes + at, page->size_bytes - at));
    cadre_outbox_entry_init(&entry, &(cadre_task_t){.role = CADRE_ROLE_WORKER}, &message);
    return entry;
}

/* A part of a page, which others of the same turn lack too, mostly. */
static cadre_outbox_entry_t *
part_entry(cadre_definitions_t *self, const cadre_definitions_page_t *page, uint64_t skipped,
           const cadre_message_t *envelope)
{
    uint64_t first = page->first + skipped;
    uint64_t count = page->count - skipped;
    for (size_t i = 0; i < CADRE_DEFINITIONS_RECENT; i++) {
        cadre_definitions_part_t *part = &self->recent[i];
        if (part->entry.header && part->first == first && part->count == count) {
            return &part->entry;
        }
    }
    cadre_definitions_part_t *part = &self->recent[self->recent_next];
    self->recent_next = (self->recent_next + 1) % CADRE_DEFINITIONS_RECENT;
    cadre_outbox_entry_fini(&part->entry);
    *part = (cadre_definitions_part_t){first, count, encode(page, skipped, envelope)};
    return &part->entry;
}

static cadre_outbox_entry_t *
entry_of(cadre_definitions_t *self, size_t index, uint64_t from, const cadre_message_t *envelope)
{
    const cadre_definitions_page_t *page = &self->pages[index];
    uint64_t skipped = from > page->first ? from - page->first : 0;
    if (skipped > 0 || page->size_bytes < CADRE_DEFINITIONS_PAGE_SIZE) {
        return part_entry(self, page, skipped, envelope);
    }
    if (!self->entries[index].header) {
        self->entries[index] = encode(page, 0, envelope);
    }
    return &self->entries[index];
}

/* The page that holds the record after the first `from`. */
static size_t
page_of(const cadre_definitions_t *self, uint64_t from)
{
    size_t low = 0;
    size_t high = self->page_count - 1;
    while (low < high) {
        size_t middle = (low + high + 1) / 2;
        if (self->pages[middle].first <= from) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

size_t
cadre_definitions_send(cadre_definitions_t *self, const cadre_message_t *envelope,
                       const cadre_task_t *to, uint64_t from, cadre_outbox_t *outbox)
{
    size_t sent = 0;
    if (from >= self->count) {
        return 0;
    }
    for (size_t i = page_of(self, from); i < self->page_count; i++) {
        cadre_outbox_entry_t *entry = entry_of(self, i, from, envelope);
        entry->destination = *to;
        cadre_outbox_repeat(outbox, entry);
        sent++;
    }
    return sent;
}
