#include "ps/core/table/page_slabs.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"

enum {
    LINE_SIZE = 64,
    LOOKS = 256, /* slabs that a take looks at before one is added, the newest aside */
};

typedef struct slab slab_t;

/* Where a page may stand. */
typedef struct {
    slab_t *slab;
    unsigned number;
    uint32_t name; /* what the owner calls the page that was put here last */
} place_t;

struct slab {
    unsigned char *bytes;
    atomic_size_t holders;     /* the owner, and each chunk */
    atomic_uint_fast64_t free; /* a bit for each place that no chunk has */
    bool emptied;              /* the owner's: the system has the memory back */
    place_t places[CADRE_SLAB_PAGES_MAX];
};

struct cadre_page_slabs {
    cadre_huge_source_t huge_source;
    size_t page_size;
    size_t stride; /* from one place to the next */
    unsigned places;
    slab_t **slabs;
    size_t count;
    size_t capacity;
    size_t hand;    /* the slab that a take looks at next */
    size_t sweep;   /* the one that a trim looks at next */
    size_t spare;   /* free ones with memory that the sweep has left since the first slab */
    size_t emptied; /* slabs */

    /* Slabs in use in part, but for the newest, and their free places: of the sweep so far, and of
     * the last whole one, less those that were cleared since. */
    size_t swept_partial;
    size_t swept_free;
    size_t partial;
    size_t partial_free;

    slab_t *cleared;       /* the slab whose pages are moved out; NULL: none */
    unsigned cleared_next; /* the place of it that is listed next */
    size_t refill;         /* the slab that takes a page that moves next, if it has a place */
};

cadre_page_slabs_t *
cadre_page_slabs_new(size_t page_size, cadre_huge_source_t huge_source)
{
    cadre_page_slabs_t *self = cadre_calloc(1, sizeof(*self));
    self->huge_source = huge_source;
    self->page_size = page_size;
    self->stride = (page_size + LINE_SIZE - 1) / LINE_SIZE * LINE_SIZE;
    cadre_assert(page_size > 0 && self->stride * CADRE_SLAB_PAGES_MIN <= CADRE_HUGE_SIZE);
    self->places = (unsigned)cadre_min_u64(CADRE_HUGE_SIZE / self->stride, CADRE_SLAB_PAGES_MAX);
    return self;
}

static void
release_slab(slab_t *slab)
{
    if (atomic_fetch_sub_explicit(&slab->holders, 1, memory_order_acq_rel) == 1) {
        cadre_huge_free(slab->bytes);
        free(slab);
    }
}

void
cadre_page_slabs_destroy(cadre_page_slabs_t **self_p)
{
    cadre_page_slabs_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t i = 0; i < self->count; i++) {
        release_slab(self->slabs[i]);
    }
    free(self->slabs);
    free(self);
}

static uint64_t
all_places(const cadre_page_slabs_t *self)
{
    return UINT64_MAX >> (CADRE_SLAB_PAGES_MAX - self->places);
}

static slab_t *
add_slab(cadre_page_slabs_t *self)
{
    slab_t *slab = cadre_calloc(1, sizeof(*slab));
    slab->bytes = cadre_huge_source_take(&self->huge_source);
    atomic_init(&slab->holders, 1);
    atomic_init(&slab->free, all_places(self));
    for (unsigned i = 0; i < self->places; i++) {
        slab->places[i] = (place_t){.slab = slab, .number = i};
    }
    self->slabs = cadre_grow(self->slabs, self->count, &self->capacity, sizeof(*self->slabs));
    self->slabs[self->count++] = slab;
    return slab;
}

/* Gives a place back when the last reference to its chunk is dropped. The chunk still holds the
 * slab while it does that. */
static void
release_place(void *owner)
{
    const place_t *place = owner;
    atomic_fetch_or_explicit(&place->slab->free, UINT64_C(1) << place->number,
                             memory_order_release);
    release_slab(place->slab);
}

/* Returns a chunk over a free place of a slab; NULL when it has none. */
static cadre_chunk_t *
take_place(cadre_page_slabs_t *self, slab_t *slab, uint32_t name)
{
    const uint64_t bits = atomic_load_explicit(&slab->free, memory_order_acquire);
    if (bits == 0 || slab == self->cleared) {
        return NULL;
    }

    self->emptied -= slab->emptied;
    slab->emptied = false;
    const unsigned number = (unsigned)__builtin_ctzll(bits);
    slab->places[number].name = name;
    atomic_fetch_and_explicit(&slab->free, ~(UINT64_C(1) << number), memory_order_relaxed);
    atomic_fetch_add_explicit(&slab->holders, 1, memory_order_relaxed);
    return cadre_chunk_new_foreign(slab->bytes + number * self->stride, self->page_size,
                                   release_place, &slab->places[number]);
}

/* Looks at the newest slab, and then at others in turn. A slab is added where none of these has a
 * place, so that looks are few beside the pages that it holds: while the turn goes round, one slab
 * is added at most for LOOKS that are full. */
cadre_chunk_t *
cadre_page_slabs_take(cadre_page_slabs_t *self, uint32_t name)
{
    cadre_chunk_t *chunk = NULL;
    if (self->count > 0) {
        chunk = take_place(self, self->slabs[self->count - 1], name);
    }
    for (size_t i = 0; !chunk && i < LOOKS && i < self->count; i++) {
        chunk = take_place(self, self->slabs[self->hand], name);
        if (!chunk) {
            self->hand = (self->hand + 1) % self->count;
        }
    }
    return chunk ? chunk : take_place(self, add_slab(self), name);
}

cadre_chunk_t *
cadre_page_slabs_take_partial(cadre_page_slabs_t *self, uint32_t name)
{
    for (size_t i = 0; i < LOOKS && i < self->count; i++) {
        slab_t *slab = self->slabs[self->refill];
        const uint64_t bits = atomic_load_explicit(&slab->free, memory_order_acquire);
        cadre_chunk_t *chunk = bits == all_places(self) ? NULL : take_place(self, slab, name);
        if (chunk) {
            return chunk;
        }
        self->refill = (self->refill + 1) % self->count;
    }
    return NULL;
}

/* Returns how many of the slabs that have memory are worth a place of each, or may be spare. */
static size_t
slack(const cadre_page_slabs_t *self)
{
    return 1 + (self->count - self->emptied) / CADRE_SLACK;
}

/* Counts a slab that has pages; has it cleared when many places of others are free, and no fewer of
 * this one than of most. */
static void
count_partial(cadre_page_slabs_t *self, slab_t *slab, uint64_t bits)
{
    const size_t free_count = (size_t)__builtin_popcountll(bits);
    if (free_count == 0 || slab == self->slabs[self->count - 1]) {
        return;
    }

    self->swept_partial++;
    self->swept_free += free_count;
    if (!self->cleared && free_count * self->partial >= self->partial_free &&
        self->partial_free >= self->places * (1 + slack(self))) {
        self->cleared = slab;
        self->cleared_next = 0;
        self->partial--;
        self->partial_free -= self->places; /* its own, and those that its pages take */
    }
}

static void
end_sweep(cadre_page_slabs_t *self)
{
    self->spare = 0;
    self->partial = self->swept_partial;
    self->partial_free = self->swept_free;
    self->swept_partial = 0;
    self->swept_free = 0;
}

/* Nobody else writes a slab of which all places are free, and none of them is given while the owner
 * is here. */
size_t
cadre_page_slabs_trim(cadre_page_slabs_t *self, size_t looks, size_t discards_max)
{
    size_t discards = 0;
    for (size_t i = 0; i < looks && i < self->count && discards < discards_max; i++) {
        slab_t *slab = self->slabs[self->sweep];
        const uint64_t bits = atomic_load_explicit(&slab->free, memory_order_acquire);
        if (bits == all_places(self) && !slab->emptied &&
            self->spare++ >= cadre_min_u64(CADRE_SLABS_SPARE, slack(self))) {
            cadre_huge_discard(slab->bytes);
            slab->emptied = true;
            self->emptied++;
            discards++;
        }
        if (bits != all_places(self)) {
            count_partial(self, slab, bits);
        }
        self->sweep = (self->sweep + 1) % self->count;
        if (self->sweep == 0) {
            end_sweep(self);
        }
    }
    return discards;
}

/* Once all are listed the slab may be used again, from the next call on: until then the owner moves
 * those of this call. */
size_t
cadre_page_slabs_list_strays(cadre_page_slabs_t *self, size_t count_max, cadre_stray_page_t *out)
{
    slab_t *slab = self->cleared;
    if (!slab || self->cleared_next == self->places) {
        self->cleared = NULL;
        return 0;
    }

    size_t count = 0;
    const uint64_t bits = atomic_load_explicit(&slab->free, memory_order_acquire);
    for (; count < count_max && self->cleared_next < self->places; self->cleared_next++) {
        const unsigned number = self->cleared_next;
        if ((bits >> number & 1) == 0) {
            out[count++] = (cadre_stray_page_t){.name = slab->places[number].name,
                                                .bytes = slab->bytes + number * self->stride};
        }
    }
    return count;
}

size_t
cadre_page_slabs_emptied(const cadre_page_slabs_t *self)
{
    return self->emptied;
}

size_t
cadre_page_slabs_count(const cadre_page_slabs_t *self)
{
    return self->count;
}
