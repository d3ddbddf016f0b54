/*
 * huge_source - where a shard has huge pages of memory from (common/base/memory.h).
 *
 * The first touch of one has the system clear 2 MiB, which takes a third of a millisecond, and four
 * on a virtual machine whose host has to find the memory. Whoever made the shard may do that ahead,
 * without the shard starting a thread itself: the ps does (huge_keeper.h), the simulation and tests
 * do not.
 *
 * Owner:   who made the shard; `context` outlives it, but not the pages.
 * Thread:  any, several at once.
 */
#ifndef CADRE_PS_CORE_VALUES_HUGE_SOURCE_H
#define CADRE_PS_CORE_VALUES_HUGE_SOURCE_H

/* Zeroed: each page is one that was never touched. */
typedef struct {
    void *context;

    /* Returns CADRE_HUGE_SIZE bytes as cadre_huge_alloc does, freed with cadre_huge_free. */
    void *(*take)(void *context);
} cadre_huge_source_t;

/* Returns memory of this source. */
void *cadre_huge_source_take(const cadre_huge_source_t *self);

#endif
