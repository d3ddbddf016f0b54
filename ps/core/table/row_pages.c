#include "ps/core/table/row_pages.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "ps/core/table/page_slabs.h"

enum {
    BLOCK_PAGES = 1024, /* pages of a block of references */
    WORD_BITS = 64,
    LINE_SIZE = 64,
    PREFETCH_LINES = 8,
    STEPS_AHEAD = 12,      /* rows whose last update the CPU is asked for before it is needed */
    ROW_NONE = -1,         /* the end of the list of free rows */
    KEYS_PER_MOVE = 1024,  /* keys of an update for one more page that is moved after it, */
    TRIM_LOOKS = 8,        /* and for so many more slabs that are looked at */
    DISCARDS_MAX = 8,      /* slabs whose memory one call gives back: each takes some 0.1 ms */
    SMALL_SIZE = 16 << 20, /* bytes of pages, before slabs are used: a small table leaves none of
                              them half empty, and fits the CPU's caches */
};

typedef struct {
    cadre_chunk_t *chunk;
    unsigned char *bytes;   /* of the chunk */
    uint64_t changed_after; /* number of the snapshot that was the newest at the last change */
    uint64_t owned;         /* `shares` of the store at the last change */
} page_t;

/* References to pages. The block belongs to `chunk`, which counts who has it. */
typedef struct {
    cadre_chunk_t *chunk;
    page_t *pages; /* [BLOCK_PAGES] */
} block_t;

struct cadre_row_pages {
    cadre_row_layout_t layout;
    cadre_chunk_pool_t *pool;  /* borrowed */
    cadre_page_slabs_t *slabs; /* NULL: there are few pages, or large ones */

    /* Rows of a page, as a power of two, and where its arrays begin. */
    unsigned shift;
    size_t page_size;
    size_t steps_offset;
    size_t uses_offset;
    size_t used_offset;
    size_t value_offset;
    size_t slot_offsets[CADRE_OPTIMIZER_SLOTS_MAX];

    block_t *blocks;
    size_t block_count;
    size_t block_capacity;
    size_t page_count;

    uint64_t count;
    uint64_t end;
    int64_t free_row;  /* the row that was freed last; it has the one before in place of its key */
    uint64_t snapshot; /* number of the newest; 0: there was none */
    uint64_t shares;   /* grows when others get references: a page that was changed since then, and
                          its block, are nobody else's */
};

/* Places the arrays of a page with 2^shift rows; returns the bytes of the page. Arrays of words
 * come first, so that all are aligned; slots and values begin with a line, so that a row of whole
 * lines takes no part of another. */
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
    at = (at + LINE_SIZE - 1) / LINE_SIZE * LINE_SIZE;
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
    self->shares = 1;
    while (place(self, self->shift + 1) <= CADRE_ROW_PAGE_SIZE_MAX) {
        self->shift++;
    }
    self->page_size = place(self, self->shift);
    return self;
}

static page_t *
page_at(const cadre_row_pages_t *self, size_t page)
{
    return &self->blocks[page / BLOCK_PAGES].pages[page % BLOCK_PAGES];
}

static void
release_block(void *owner)
{
    page_t *pages = owner;
    for (size_t i = 0; i < BLOCK_PAGES; i++) {
        cadre_chunk_unref(&pages[i].chunk);
    }
    free(pages);
}

/* Returns a block whose references the caller fills in. */
static block_t
block_new(void)
{
    page_t *pages = cadre_calloc(BLOCK_PAGES, sizeof(*pages));
    return (block_t){
        .chunk = cadre_chunk_new_foreign(pages, BLOCK_PAGES * sizeof(*pages), release_block, pages),
        .pages = pages};
}

/* Makes block number `i` one that nobody else has. */
static void
own_block(cadre_row_pages_t *self, size_t i)
{
    block_t *block = &self->blocks[i];
    if (cadre_chunk_alone(block->chunk)) {
        return;
    }

    block_t copy = block_new();
    memcpy(copy.pages, block->pages, BLOCK_PAGES * sizeof(*copy.pages));
    for (size_t k = 0; k < BLOCK_PAGES && copy.pages[k].chunk; k++) {
        cadre_chunk_ref(copy.pages[k].chunk);
    }
    cadre_chunk_unref(&block->chunk);
    *block = copy;
}

void
cadre_row_pages_destroy(cadre_row_pages_t **self_p)
{
    cadre_row_pages_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t i = 0; i < self->block_count; i++) {
        cadre_chunk_unref(&self->blocks[i].chunk);
    }
    free(self->blocks);
    cadre_page_slabs_destroy(&self->slabs);
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

/* Returns memory for page `number`: a place of a slab, once there are enough pages to fill some. */
static cadre_chunk_t *
new_page(cadre_row_pages_t *self, size_t number)
{
    if (!self->slabs) {
        if (self->page_count * self->page_size < SMALL_SIZE ||
            self->page_size > CADRE_HUGE_SIZE / CADRE_SLAB_PAGES_MIN) {
            return cadre_chunk_pool_take(self->pool, self->page_size);
        }
        self->slabs =
            cadre_page_slabs_new(self->page_size, cadre_chunk_pool_huge_source(self->pool));
    }
    return cadre_page_slabs_take(self->slabs, (uint32_t)number);
}

/* Drops a page that was replaced: where it came from, or would now, it can be used again. */
static void
drop_page(cadre_row_pages_t *self, cadre_chunk_t **chunk_p)
{
    if (self->slabs) {
        cadre_chunk_unref(chunk_p);
    } else {
        cadre_chunk_pool_put(self->pool, chunk_p);
    }
}

/* Makes the page of a row, which others may hold, this store's own, and marks it as changed. */
static void
take_page(cadre_row_pages_t *self, size_t number)
{
    own_block(self, number / BLOCK_PAGES);
    page_t *page = page_at(self, number);
    page->changed_after = self->snapshot;
    page->owned = self->shares;
    if (cadre_chunk_alone(page->chunk)) {
        return;
    }

    cadre_chunk_t *copy = new_page(self, number);
    memcpy(cadre_chunk_data(copy), page->bytes, self->page_size);
    drop_page(self, &page->chunk);
    page->chunk = copy;
    page->bytes = cadre_chunk_data(copy);
}

/* Makes the page of a row one that nobody else holds, and marks it as changed. */
static void
own(cadre_row_pages_t *self, uint32_t row)
{
    const size_t number = row >> self->shift;
    if (page_at(self, number)->owned != self->shares) {
        take_page(self, number);
    }
}

bool
cadre_row_pages_is_owned(const cadre_row_pages_t *self, uint32_t row)
{
    return page_of(self, row)->owned == self->shares;
}

/* Adds a position for a page. */
static page_t *
add_position(cadre_row_pages_t *self)
{
    if (self->page_count == self->block_count * BLOCK_PAGES) {
        self->blocks = cadre_grow(self->blocks, self->block_count, &self->block_capacity,
                                  sizeof(*self->blocks));
        self->blocks[self->block_count++] = block_new();
    }
    own_block(self, self->page_count / BLOCK_PAGES);
    return page_at(self, self->page_count++);
}

static void
add_page(cadre_row_pages_t *self)
{
    page_t *page = add_position(self);
    page->chunk = new_page(self, self->page_count - 1);
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

size_t
cadre_row_pages_value_offset(const cadre_row_pages_t *self)
{
    return self->value_offset;
}

size_t
cadre_row_pages_used_offset(const cadre_row_pages_t *self)
{
    return self->used_offset;
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
cadre_row_pages_copy(cadre_row_pages_t *self, uint32_t row, const cadre_row_source_t *source,
                     const void *bytes, uint32_t place)
{
    const cadre_row_pages_t *its = source->pages;
    const unsigned char *from = bytes;
    own(self, row);
    if (source->keeps_steps) {
        memcpy(step_at(self, row), from + its->steps_offset + place * sizeof(uint32_t),
               sizeof(uint32_t));
    }
    if (self->layout.has_uses && its->layout.has_uses) {
        memcpy(uses_at(self, row), from + its->uses_offset + place * sizeof(uint32_t),
               sizeof(uint32_t));
    }
    memcpy(number_at(self, row, -1), from + its->value_offset + place * self->layout.value_size,
           self->layout.value_size);
    for (size_t s = 0; s < self->layout.slot_count; s++) {
        const size_t size = self->layout.slot_sizes[s];
        if (source->slots[s] >= 0) {
            memcpy(number_at(self, row, (int)s),
                   from + its->slot_offsets[source->slots[s]] + place * size, size);
        }
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
cadre_row_pages_touch_all(cadre_row_pages_t *self, const uint32_t *rows, size_t count,
                          uint32_t step)
{
    for (size_t i = 0; i < count; i++) {
        const size_t ahead = i + STEPS_AHEAD;
        if (ahead < count && rows[ahead] < self->end) {
            __builtin_prefetch(step_at(self, rows[ahead]));
        }
        if (rows[i] < self->end) {
            cadre_row_pages_touch(self, rows[i], step);
        }
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
cadre_row_pages_prefetch_step(const cadre_row_pages_t *self, uint32_t row)
{
    __builtin_prefetch(step_at(self, row));
}

/* Returns the bytes of the values (slot < 0) or a slot of a row. */
static size_t
size_of(const cadre_row_pages_t *self, int slot)
{
    return slot < 0 ? self->layout.value_size : self->layout.slot_sizes[slot];
}

/* Where an array of the pages has what it has of a row. Loops over rows keep it in registers. */
typedef struct {
    const block_t *blocks;
    size_t offset; /* in the page */
    size_t size;
    unsigned shift;
    uint32_t mask;
} array_t;

static array_t
array_of(const cadre_row_pages_t *self, int slot)
{
    return (array_t){.blocks = self->blocks,
                     .offset = slot < 0 ? self->value_offset : self->slot_offsets[slot],
                     .size = size_of(self, slot),
                     .shift = self->shift,
                     .mask = ((uint32_t)1 << self->shift) - 1};
}

static inline unsigned char *
element(const array_t *array, uint32_t row)
{
    const uint32_t page = row >> array->shift;
    unsigned char *bytes = array->blocks[page / BLOCK_PAGES].pages[page % BLOCK_PAGES].bytes;
    return bytes + array->offset + (row & array->mask) * array->size;
}

/* Asks for the first lines of some bytes: the hardware sees a longer run itself. */
static inline void
prefetch_bytes(const unsigned char *bytes, size_t size_bytes)
{
    const size_t before = (uintptr_t)bytes % LINE_SIZE;
    const size_t end = cadre_min_u64(before + size_bytes, (size_t)PREFETCH_LINES * LINE_SIZE);
    for (size_t at = 0; at < end; at += LINE_SIZE) {
        __builtin_prefetch(bytes - before + at);
    }
}

/* Copies what an array has of a row, without a call for each: that takes about as long as copying
 * some lines. */
static inline void
copy_bytes(unsigned char *to, const unsigned char *from, size_t size_bytes)
{
    for (; size_bytes >= LINE_SIZE; size_bytes -= LINE_SIZE, to += LINE_SIZE, from += LINE_SIZE) {
        memcpy(to, from, LINE_SIZE);
    }
    if (size_bytes > 0) {
        memcpy(to, from, size_bytes);
    }
}

void
cadre_row_pages_prefetch_numbers(const cadre_row_pages_t *self, uint32_t row)
{
    for (int slot = -1; slot < (int)self->layout.slot_count; slot++) {
        prefetch_bytes(number_at(self, row, slot), size_of(self, slot));
    }
}

void
cadre_row_pages_gather(const cadre_row_pages_t *self, int slot, const cadre_row_numbers_t *rows,
                       void *out)
{
    const array_t array = array_of(self, slot);
    const uint32_t *next = rows->items + rows->count;
    unsigned char *to = out;
    for (size_t i = 0; i < rows->count; i++, to += array.size) {
        if (i < rows->next && next[i] < self->end) {
            prefetch_bytes(element(&array, next[i]), array.size);
        }
        copy_bytes(to, element(&array, rows->items[i]), array.size);
    }
}

void
cadre_row_pages_scatter(cadre_row_pages_t *self, int slot, const cadre_row_numbers_t *rows,
                        const void *from)
{
    const array_t array = array_of(self, slot);
    const unsigned char *bytes = from;
    for (size_t i = 0; i < rows->count; i++, bytes += array.size) {
        own(self, rows->items[i]);
        copy_bytes(element(&array, rows->items[i]), bytes, array.size);
    }
}

cadre_row_pages_t *
cadre_row_pages_fork(cadre_row_pages_t *self, uint64_t number)
{
    cadre_row_pages_t *fork = cadre_calloc(1, sizeof(*fork));
    self->shares++;
    *fork = *self;
    fork->slabs = NULL;
    fork->block_capacity = self->block_count;
    fork->blocks = cadre_calloc(self->block_count, sizeof(*fork->blocks));
    for (size_t i = 0; i < self->block_count; i++) {
        fork->blocks[i] = self->blocks[i];
        cadre_chunk_ref(fork->blocks[i].chunk);
    }
    cadre_row_pages_begin(self, number);
    return fork;
}

void
cadre_row_pages_begin(cadre_row_pages_t *self, uint64_t number)
{
    self->snapshot = cadre_max_u64(self->snapshot, number);
    self->shares++; /* so that what was changed before is marked again */
}

void
cadre_row_pages_snapshot(cadre_row_pages_t *self, uint64_t since, uint64_t number,
                         cadre_row_snapshot_t *out)
{
    *out =
        (cadre_row_snapshot_t){.number = number, .row_end = self->end, .free_row = self->free_row};
    out->positions = cadre_calloc(self->page_count, sizeof(*out->positions));
    out->chunks = cadre_calloc(self->page_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < self->page_count; i++) {
        page_t *page = page_at(self, i);
        if (page->changed_after >= since) {
            out->positions[out->count] = (uint32_t)i;
            out->chunks[out->count++] = cadre_chunk_ref(page->chunk);
        }
    }
    cadre_row_pages_begin(self, number);
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

    page->chunk = new_page(self, position);
    page->bytes = cadre_chunk_data(page->chunk);
    memcpy(page->bytes, bytes, size_bytes);
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

/* Copies a page to another place, so that its slab has none left. One that others hold stays where
 * it is; its row and what is known of its changes stay as they are. */
static void
move_page(cadre_row_pages_t *self, const cadre_stray_page_t *stray)
{
    if (!cadre_chunk_alone(self->blocks[stray->name / BLOCK_PAGES].chunk)) {
        return;
    }
    page_t *page = page_at(self, stray->name);
    if (page->bytes != stray->bytes || !cadre_chunk_alone(page->chunk)) {
        return;
    }
    cadre_chunk_t *copy = cadre_page_slabs_take_partial(self->slabs, stray->name);
    if (!copy) {
        return;
    }

    memcpy(cadre_chunk_data(copy), page->bytes, self->page_size);
    cadre_chunk_unref(&page->chunk);
    page->chunk = copy;
    page->bytes = cadre_chunk_data(copy);
}

void
cadre_row_pages_trim(cadre_row_pages_t *self, size_t key_count)
{
    if (!self->slabs) {
        return;
    }

    size_t discards = DISCARDS_MAX;
    for (size_t left = 1 + key_count / KEYS_PER_MOVE; left > 0;) {
        discards -= cadre_page_slabs_trim(self->slabs, TRIM_LOOKS, discards);
        cadre_stray_page_t strays[CADRE_SLAB_PAGES_MAX];
        const size_t count = cadre_page_slabs_list_strays(
            self->slabs, cadre_min_u64(left, CADRE_SLAB_PAGES_MAX), strays);
        for (size_t i = 0; i < count; i++) {
            move_page(self, &strays[i]);
        }
        left -= cadre_max_u64(count, 1);
    }
}

uint64_t
cadre_row_pages_size_bytes(const cadre_row_pages_t *self)
{
    return self->page_count * self->page_size + self->block_count * BLOCK_PAGES * sizeof(page_t) +
           self->block_capacity * sizeof(*self->blocks);
}

uint64_t
cadre_row_pages_growth(const cadre_row_pages_t *self, uint64_t count)
{
    const uint64_t room = ((uint64_t)self->page_count << self->shift) - self->count;
    const uint64_t rows = count - cadre_min_u64(count, room);
    const uint64_t pages = (rows + cadre_row_pages_per_page(self) - 1) >> self->shift;
    const uint64_t blocks = (pages + BLOCK_PAGES - 1) / BLOCK_PAGES;
    return pages * self->page_size + blocks * BLOCK_PAGES * sizeof(page_t);
}

uint64_t
cadre_row_pages_slab_bytes(const cadre_row_pages_t *self)
{
    if (!self->slabs) {
        return 0;
    }
    const size_t slabs =
        cadre_page_slabs_count(self->slabs) - cadre_page_slabs_emptied(self->slabs);
    return (uint64_t)slabs * CADRE_HUGE_SIZE;
}
