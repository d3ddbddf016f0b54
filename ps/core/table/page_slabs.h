/*
 * page_slabs - memory for the pages of a table, in pieces for which the system gives huge pages.
 *
 * Rows that are named together stand anywhere in a table, so that of small pages of the machine
 * each is another, and the CPU waits for where it is. A slab is CADRE_HUGE_SIZE of memory
 * (common/base/memory.h), with places for as many pages as fit. A place is given as a chunk; when
 * the last reference to it is dropped it is free for another. Of slabs that are free as a whole all
 * but a few give their memory back when the owner says so, and keep their addresses. A slab goes
 * when its last chunk has gone and the owner has ended.
 *
 * A snapshot leaves slabs behind of which most places are free. While many are, the emptier ones
 * are cleared, one at a time: the owner hears which pages stand in it, and copies each to another
 * that is in use in part. What is left free then is one place of CADRE_SLACK, about.
 *
 * Owner:   one store of rows (row_pages.h).
 * Thread:  the owner's; but chunks may be dropped on any, and outlive the owner. A place that
 *          becomes free shows as a bit of an atomic word, which only the owner clears: it sees
 *          the bit now or later, and what others did with the bytes has happened before.
 */
#ifndef CADRE_PS_CORE_TABLE_PAGE_SLABS_H
#define CADRE_PS_CORE_TABLE_PAGE_SLABS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/memory.h"
#include "common/tensor/chunk.h"
#include "ps/core/values/huge_source.h"

enum {
    CADRE_SLAB_PAGES_MAX = 64, /* pages of a slab; smaller ones leave some of it unused */
    CADRE_SLAB_PAGES_MIN = 8,  /* larger pages are not worth a slab */
    CADRE_SLABS_SPARE = 8,     /* free slabs that keep their memory, at most, */
    CADRE_SLACK = 32,          /* and one, and one for each so many slabs that have memory; as many
                                  as that may free places be of */
};

/* A page that is to stand elsewhere. */
typedef struct {
    uint32_t name;     /* what its owner calls it */
    const void *bytes; /* where it stands, or one stood that was dropped meanwhile */
} cadre_stray_page_t;

typedef struct cadre_page_slabs cadre_page_slabs_t;

/* Returns a source of pages of `page_size` bytes, of at most CADRE_HUGE_SIZE /
 * CADRE_SLAB_PAGES_MIN, in slabs that are taken from `huge_source`. */
cadre_page_slabs_t *cadre_page_slabs_new(size_t page_size, cadre_huge_source_t huge_source);

void cadre_page_slabs_destroy(cadre_page_slabs_t **self_p);

/* Returns a chunk of a page's bytes, which are arbitrary, aligned to 64 bytes, with one reference.
 * `name` is what the owner calls the page. */
cadre_chunk_t *cadre_page_slabs_take(cadre_page_slabs_t *self, uint32_t name);

/* Looks at so many slabs in turn, and gives the memory of those that are free as a whole back to
 * the system, but for that of a few; stops after `discards_max`. Returns of how many it did. */
size_t cadre_page_slabs_trim(cadre_page_slabs_t *self, size_t looks, size_t discards_max);

/* Lists up to `count_max` pages of the slab that is being cleared, each once; returns how many.
 * What the owner does not move stays. */
size_t cadre_page_slabs_list_strays(cadre_page_slabs_t *self, size_t count_max,
                                    cadre_stray_page_t *out);

/* Returns a chunk as cadre_page_slabs_take does, for a page that moves: in a slab that is in use in
 * part and not being cleared. NULL: it finds none. */
cadre_chunk_t *cadre_page_slabs_take_partial(cadre_page_slabs_t *self, uint32_t name);

/* Returns how many slabs the owner has, and how many of these were emptied and not used since. */
size_t cadre_page_slabs_count(const cadre_page_slabs_t *self);
size_t cadre_page_slabs_emptied(const cadre_page_slabs_t *self);

#endif
