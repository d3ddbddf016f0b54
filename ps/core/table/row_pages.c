#include "ps/core/table/row_pages.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    BLOCK_PAGES = 1024, /* pages of a block of references */
    WORD_BITS = 64,
    ROW_NONE = -1, /* the end of the list of free rows */
};

typedef struct {
    cadre_chunk_t *chunk;
    unsigned char *bytes;   /* of the chunk */
    uint32_t changed_after; /* number of the snapshot that was the newest at the last change */
} page_t;

struct cadre_row_pages {
    cadre_row_layout_t layout;
    cadre_chunk_pool_t *pool; /* borrowed */

    /* Rows of a page, as a power of two, and where its arrays begin. */
    unsigned shift;
    size_t page_size;
    size_t steps_offset;
    size_t uses_offset;
    size_t used_offset;
    size_t value_offset;
    size_t slot_offsets[CADRE_OPTIMIZER_SLOTS_MAX];

    page_t **blocks;
    size_t block_count;
    size_t block_capacity;
    size_t page_count;

    uint64_t count;
    uint64_t end;
    int64_t free_row;  /* the row that was freed last; it has the one before in place of its key */
    uint32_t snapshot; /* number of the newest; the first has 1 */
};

/* Places the arrays of a page with 2^shift rows; returns the bytes of the page. Arrays of words
 * come first, so that all are aligned. */
static size_t
place(cadre_row_pages_t *self, unsigned shift)
{
    const size_t rows = (size_t)1 << shift;
    size_t at = rows * sizeof(uint64_t);
    self->used_offset = at;
    at += (rows + WORD_BITS - 1) / WORD_BITS * sizeof(uint64_t);
    self->steps_offset = at;
    at += rows * sizeof(uint32_t);
    self->uses_offset = at;
    at += self->layout.has_uses ? rows * sizeof(uint32_t) : 0;
    for (size_t s = 0; s < self->layout.slot_count; s++) {
        self->slot_offsets[s] = at;
        at += rows * self->layout.slot_sizes[s];
    }
    self->value_offset = at;
    return at + rows * self->layout.value_size;
}

cadre_row_pages_t *
cadre_row_pages_new(const cadre_row_layout_t *layout, cadre_chunk_pool_t *pool)
{
    cadre_row_pages_t *self = cadre_calloc(1, sizeof(*self));
    self->layout = *layout;
    self->pool = pool;
    self->free_row = ROW_NONE;
    while (place(self, self->shift + 1) <= CADRE_ROW_PAGE_SIZE_MAX) {
        self->shift++;
    }
    self->page_size = place(self, self->shift);
    return self;
}

static page_t *
page_at(const cadre_row_pages_t *self, size_t page)
{
    return &self->blocks[page / BLOCK_PAGES][page % BLOCK_PAGES];
}

void
cadre_row_pages_destroy(cadre_row_pages_t **self_p)
{
    cadre_row_pages_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t i = 0; i < self->page_count; i++) {
        cadre_chunk_unref(&page_at(self, i)->chunk);
    }
    for (size_t i = 0; i < self->block_count; i++) {
        free(self->blocks[i]);
    }
    free(self->blocks);
    free(self);
}

static const page_t *
page_of(const cadre_row_pages_t *self, uint32_t row)
{
    return page_at(self, row >> self->shift);
}

static size_t
place_in_page(const cadre_row_pages_t *self, uint32_t row)
{
    return row & (((uint32_t)1 << self->shift) - 1);
}

static uint64_t *
key_at(const cadre_row_pages_t *self, uint32_t row)
{
    return (uint64_t *)(void *)page_of(self, row)->bytes + place_in_page(self, row);
}

static uint32_t *
step_at(const cadre_row_pages_t *self, uint32_t row)
{
    unsigned char *bytes = page_of(self, row)->bytes + self->steps_offset;
    return (uint32_t *)(void *)bytes + place_in_page(self, row);
}

static uint32_t *
uses_at(const cadre_row_pages_t *self, uint32_t row)
{
    unsigned char *bytes = page_of(self, row)->bytes + self->uses_offset;
    return (uint32_t *)(void *)bytes + place_in_page(self, row);
}

static uint64_t *
used_word(const cadre_row_pages_t *self, uint32_t row)
{
    unsigned char *bytes = page_of(self, row)->bytes + self->used_offset;
    return (uint64_t *)(void *)bytes + place_in_page(self, row) / WORD_BITS;
}

static unsigned char *
number_at(const cadre_row_pages_t *self, uint32_t row, int slot)
{
    unsigned char *bytes = page_of(self, row)->bytes;
    const size_t i = place_in_page(self, row);
    if (slot < 0) {
        return bytes + self->value_offset + i * self->layout.value_size;
    }
    return bytes + self->slot_offsets[slot] + i * self->layout.slot_sizes[slot];
}

/* Makes the page of a row one that nobody else holds, and marks it as changed. */
static void
own(cadre_row_pages_t *self, uint32_t row)
{
    page_t *page = page_at(self, row >> self->shift);
    page->changed_after = self->snapshot;
    if (cadre_chunk_alone(page->chunk)) {
        return;
    }

    cadre_chunk_t *copy = cadre_chunk_pool_take(self->pool, self->page_size);
    memcpy(cadre_chunk_data(copy), page->bytes, self->page_size);
    cadre_chunk_pool_put(self->pool, &page->chunk);
    page->chunk = copy;
    page->bytes = cadre_chunk_data(copy);
}

/* Adds a position for a page. */
static page_t *
add_position(cadre_row_pages_t *self)
{
    if (self->page_count == self->block_count * BLOCK_PAGES) {
        self->blocks = cadre_grow(self->blocks, self->block_count, &self->block_capacity,
                                  sizeof(*self->blocks));
        self->blocks[self->block_count++] = cadre_calloc(BLOCK_PAGES, sizeof(page_t));
    }
    return page_at(self, self->page_count++);
}

static void
add_page(cadre_row_pages_t *self)
{
    page_t *page = add_position(self);
    page->chunk = cadre_chunk_new(self->page_size);
    page->bytes = cadre_chunk_data(page->chunk);
    memset(page->bytes, 0, self->page_size); /* what was never used is written to disk, too */
}

uint32_t
cadre_row_pages_add(cadre_row_pages_t *self, uint64_t key)
{
    uint32_t row = (uint32_t)self->free_row;
    if (self->free_row == ROW_NONE) {
        row = (uint32_t)self->end++;
        if (row >> self->shift == self->page_count) {
            add_page(self);
        }
    } else {
        self->free_row = (int64_t)*key_at(self, row);
    }

    own(self, row);
    *key_at(self, row) = key;
    *step_at(self, row) = 0;
    if (self->layout.has_uses) {
        *uses_at(self, row) = 0;
    }
    *used_word(self, row) |= UINT64_C(1) << place_in_page(self, row) % WORD_BITS;
    self->count++;
    return row;
}

/* Takes a row back; it stands first in the list of free rows then, which runs through their
 * keys. */
void
cadre_row_pages_remove(cadre_row_pages_t *self, uint32_t row)
{
    cadre_assert(cadre_row_pages_used(self, row));
    own(self, row);
    *used_word(self, row) &= ~(UINT64_C(1) << place_in_page(self, row) % WORD_BITS);
    *key_at(self, row) = (uint64_t)self->free_row;
    self->free_row = row;
    self->count--;
}

uint32_t
cadre_row_pages_per_page(const cadre_row_pages_t *self)
{
    return (uint32_t)1 << self->shift;
}

size_t
cadre_row_pages_page_size(const cadre_row_pages_t *self)
{
    return self->page_size;
}

bool
cadre_row_pages_peek(const cadre_row_pages_t *self, const void *bytes, uint32_t place,
                     uint64_t *key)
{
    const uint64_t *words = bytes;
    *key = words[place];
    words += self->used_offset / sizeof(*words);
    return words[place / WORD_BITS] >> place % WORD_BITS & 1;
}

void
cadre_row_pages_copy(cadre_row_pages_t *self, uint32_t row, const void *bytes, uint32_t place)
{
    const unsigned char *from = bytes;
    own(self, row);
    memcpy(step_at(self, row), from + self->steps_offset + place * sizeof(uint32_t),
           sizeof(uint32_t));
    if (self->layout.has_uses) {
        memcpy(uses_at(self, row), from + self->uses_offset + place * sizeof(uint32_t),
               sizeof(uint32_t));
    }
    memcpy(number_at(self, row, -1), from + self->value_offset + place * self->layout.value_size,
           self->layout.value_size);
    for (size_t s = 0; s < self->layout.slot_count; s++) {
        memcpy(number_at(self, row, (int)s),
               from + self->slot_offsets[s] + place * self->layout.slot_sizes[s],
               self->layout.slot_sizes[s]);
    }
}

uint64_t
cadre_row_pages_count(const cadre_row_pages_t *self)
{
    return self->count;
}

uint64_t
cadre_row_pages_end(const cadre_row_pages_t *self)
{
    return self->end;
}

bool
cadre_row_pages_used(const cadre_row_pages_t *self, uint32_t row)
{
    return *used_word(self, row) >> place_in_page(self, row) % WORD_BITS & 1;
}

uint64_t
cadre_row_pages_key(const cadre_row_pages_t *self, uint32_t row)
{
    return *key_at(self, row);
}

uint32_t
cadre_row_pages_step(const cadre_row_pages_t *self, uint32_t row)
{
    return *step_at(self, row);
}

uint32_t
cadre_row_pages_uses(const cadre_row_pages_t *self, uint32_t row)
{
    return self->layout.has_uses ? *uses_at(self, row) : 0;
}

void
cadre_row_pages_touch(cadre_row_pages_t *self, uint32_t row, uint32_t step)
{
    own(self, row);
    *step_at(self, row) = step;
    if (self->layout.has_uses && *uses_at(self, row) < UINT32_MAX) {
        ++*uses_at(self, row);
    }
}

void
cadre_row_pages_halve(cadre_row_pages_t *self, uint32_t row)
{
    if (self->layout.has_uses) {
        own(self, row);
        *uses_at(self, row) /= 2;
    }
}

const void *
cadre_row_pages_read(const cadre_row_pages_t *self, uint32_t row, int slot)
{
    return number_at(self, row, slot);
}

void *
cadre_row_pages_write(cadre_row_pages_t *self, uint32_t row, int slot)
{
    own(self, row);
    return number_at(self, row, slot);
}

void
cadre_row_pages_prefetch(const cadre_row_pages_t *self, uint32_t row)
{
    __builtin_prefetch(key_at(self, row));
}

void
cadre_row_pages_snapshot(cadre_row_pages_t *self, uint32_t since, cadre_row_snapshot_t *out)
{
    cadre_assert(since <= self->snapshot);
    *out = (cadre_row_snapshot_t){
        .number = self->snapshot + 1, .row_end = self->end, .free_row = self->free_row};
    out->positions = cadre_calloc(self->page_count, sizeof(*out->positions));
    out->chunks = cadre_calloc(self->page_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < self->page_count; i++) {
        page_t *page = page_at(self, i);
        if (page->changed_after >= since) {
            out->positions[out->count] = (uint32_t)i;
            out->chunks[out->count++] = cadre_chunk_ref(page->chunk);
        }
    }
    self->snapshot++;
}

int
cadre_row_pages_load_begin(cadre_row_pages_t *self, const cadre_row_snapshot_t *snapshot)
{
    cadre_assert(self->page_count == 0);
    const uint64_t end = snapshot->row_end;
    if (end > (uint64_t)CADRE_TABLE_ROWS_MAX + 1 || snapshot->free_row < ROW_NONE ||
        (snapshot->free_row >= 0 && (uint64_t)snapshot->free_row >= end)) {
        return cadre_fail(CADRE_ECORRUPT, "a table of %llu rows, of which %lld is free",
                          (unsigned long long)end, (long long)snapshot->free_row);
    }

    self->end = end;
    self->free_row = snapshot->free_row;
    self->snapshot = snapshot->number;
    while (self->page_count << self->shift < end) {
        add_position(self);
    }
    return 0;
}

uint32_t
cadre_row_pages_first(const cadre_row_pages_t *self, uint32_t position)
{
    return position << self->shift;
}

uint32_t
cadre_row_pages_after(const cadre_row_pages_t *self, uint32_t position)
{
    return (uint32_t)cadre_min_u64(((uint64_t)position + 1) << self->shift, self->end);
}

int
cadre_row_pages_load(cadre_row_pages_t *self, uint32_t position, const void *bytes,
                     size_t size_bytes)
{
    if (position >= self->page_count || size_bytes != self->page_size) {
        return cadre_fail(CADRE_ECORRUPT,
                          "page %u of %zu bytes, where a table has %zu pages of %zu bytes",
                          position, size_bytes, self->page_count, self->page_size);
    }
    page_t *page = page_at(self, position);
    if (page->chunk) {
        return cadre_fail(CADRE_ECORRUPT, "page %u of a table comes twice", position);
    }

    page->chunk = cadre_chunk_new_copy(bytes, size_bytes);
    page->bytes = cadre_chunk_data(page->chunk);
    const uint32_t after = cadre_row_pages_after(self, position);
    for (uint32_t row = cadre_row_pages_first(self, position); row < after; row++) {
        self->count += cadre_row_pages_used(self, row);
    }
    return 0;
}

/* Checks that all pages are there, and that the list of free rows has each row that is not in use
 * once: so many entries, none of them in use, and none of them twice, since it ends. */
int
cadre_row_pages_load_end(cadre_row_pages_t *self)
{
    for (size_t i = 0; i < self->page_count; i++) {
        if (!page_at(self, i)->chunk) {
            return cadre_fail(CADRE_ECORRUPT, "page %zu of a table is missing", i);
        }
    }

    uint64_t left = self->end - self->count;
    int64_t row = self->free_row;
    while (left > 0 && row >= 0 && (uint64_t)row < self->end &&
           !cadre_row_pages_used(self, (uint32_t)row)) {
        row = (int64_t)*key_at(self, (uint32_t)row);
        left--;
    }
    if (left > 0 || row != ROW_NONE) {
        return cadre_fail(CADRE_ECORRUPT, "the free rows of a table are no list");
    }
    return 0;
}

void
cadre_row_snapshot_fini(cadre_row_snapshot_t *snapshot)
{
    for (size_t i = 0; i < snapshot->count; i++) {
        cadre_chunk_unref(&snapshot->chunks[i]);
    }
    free(snapshot->chunks);
    free(snapshot->positions);
    *snapshot = (cadre_row_snapshot_t){.count = 0};
}

uint64_t
cadre_row_pages_size_bytes(const cadre_row_pages_t *self)
{
    return self->page_count * self->page_size + self->block_count * BLOCK_PAGES * sizeof(page_t) +
           self->block_capacity * sizeof(*self->blocks);
}
