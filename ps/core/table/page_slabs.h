/*
 * page_slabs - memory for the pages of a table, in pieces for which the system gives huge pages.
 *
 * Rows that are named together stand anywhere in a table, so that of small pages of the machine
 * each is another, and the CPU waits for where it is. A slab is CADRE_HUGE_SIZE of memory
 * (common/base/memory.h), with places for as many pages as fit. A place is given as a chunk; when
 * the last reference to it is dropped it is free for another. Of slabs that are free as a whole all
 * but CADRE_SLABS_SPARE give their memory back when the owner says so, and keep their addresses. A
 * slab goes when its last chunk has gone and the owner has ended.
 *
 * Owner:   one store of rows (row_pages.h).
 * Thread:  the owner's; but chunks may be dropped on any, and outlive the owner. A place that
 *          becomes free shows as a bit of an atomic word, which only the owner clears: it sees
 *          the bit now or later, and what others did with the bytes has happened before.
 */
#ifndef CADRE_PS_CORE_TABLE_PAGE_SLABS_H
#define CADRE_PS_CORE_TABLE_PAGE_SLABS_H

#include <stddef.h>

#include "common/base/memory.h"
#include "common/tensor/chunk.h"
#include "ps/core/values/huge_source.h"

enum {
    CADRE_SLAB_PAGES_MAX = 64, /* pages of a slab; smaller ones leave some of it unused */
    CADRE_SLAB_PAGES_MIN = 8,  /* larger pages are not worth a slab */
    CADRE_SLABS_SPARE = 8,     /* free slabs that keep their memory */
};

typedef struct cadre_page_slabs cadre_page_slabs_t;

/* Returns a source of pages of `page_size` bytes, of at most CADRE_HUGE_SIZE /
 * CADRE_SLAB_PAGES_MIN, in slabs that are taken from `huge_source`. */
cadre_page_slabs_t *cadre_page_slabs_new(size_t page_size, cadre_huge_source_t huge_source);

void cadre_page_slabs_destroy(cadre_page_slabs_t **self_p);

/* Returns a chunk of a page's bytes, which are arbitrary, aligned to 64 bytes, with one
 * reference. */
cadre_chunk_t *cadre_page_slabs_take(cadre_page_slabs_t *self);

/* Looks at a few slabs in turn, and gives the memory of those that are free as a whole back to the
 * system, but for that of CADRE_SLABS_SPARE. */
void cadre_page_slabs_trim(cadre_page_slabs_t *self);

/* Returns how many slabs the owner has, and how many of these were emptied and not used since. */
size_t cadre_page_slabs_count(const cadre_page_slabs_t *self);
size_t cadre_page_slabs_emptied(const cadre_page_slabs_t *self);

#endif
