#include "ps/core/table/page_slabs.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

TestSuite(page_slabs, .timeout = 240);

enum { PAGE_SIZE = 60 << 10, PER_SLAB = CADRE_HUGE_SIZE / PAGE_SIZE };

static void
fill(cadre_chunk_t *chunk, unsigned number)
{
    cr_assert_eq(cadre_chunk_size_bytes(chunk), PAGE_SIZE);
    cr_assert_eq((uintptr_t)cadre_chunk_data(chunk) % 64, 0);
    cr_assert(cadre_chunk_alone(chunk));
    memset(cadre_chunk_data(chunk), (int)number, PAGE_SIZE);
}

static void
check(const cadre_chunk_t *chunk, unsigned number)
{
    const unsigned char *bytes = cadre_chunk_data(chunk);
    for (size_t i = 0; i < PAGE_SIZE; i++) {
        cr_assert_eq(bytes[i], number);
    }
}

Test(page_slabs, keeps_pages_apart)
{
    enum { PAGES = 3 * PER_SLAB };
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(PAGE_SIZE, (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *chunks[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        cr_assert_eq(cadre_page_slabs_count(slabs), (i + PER_SLAB - 1) / PER_SLAB);
        chunks[i] = cadre_page_slabs_take(slabs, 0);
        fill(chunks[i], i);
    }
    for (unsigned i = 0; i < PAGES; i++) {
        check(chunks[i], i);
        cadre_chunk_unref(&chunks[i]);
    }
    cadre_page_slabs_destroy(&slabs);
}

Test(page_slabs, uses_places_again_that_were_given_back)
{
    enum { PAGES = 20 * PER_SLAB };
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(PAGE_SIZE, (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *chunks[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        chunks[i] = cadre_page_slabs_take(slabs, 0);
        fill(chunks[i], i % 251);
    }
    for (unsigned i = 0; i < PAGES; i += 2) {
        cadre_chunk_unref(&chunks[i]);
    }
    for (unsigned i = 0; i < PAGES; i += 2) {
        chunks[i] = cadre_page_slabs_take(slabs, 0);
        fill(chunks[i], i % 251);
    }
    cr_assert_eq(cadre_page_slabs_count(slabs), 20);
    for (unsigned i = 0; i < PAGES; i++) {
        check(chunks[i], i % 251);
        cadre_chunk_unref(&chunks[i]);
    }
    cadre_page_slabs_destroy(&slabs);
}

Test(page_slabs, leaves_pages_that_outlive_their_owner)
{
    enum { PAGES = PER_SLAB + 1 };
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(PAGE_SIZE, (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *chunks[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        chunks[i] = cadre_page_slabs_take(slabs, 0);
        fill(chunks[i], i);
    }
    cadre_chunk_unref(&chunks[0]);
    cadre_page_slabs_destroy(&slabs);
    cr_assert_null(slabs);
    for (unsigned i = 1; i < PAGES; i++) {
        check(chunks[i], i);
        cadre_chunk_unref(&chunks[i]);
    }
}

Test(page_slabs, has_as_many_places_as_a_word_has_bits_for_small_pages)
{
    enum { SMALL = 100 };
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(SMALL, (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *chunks[CADRE_SLAB_PAGES_MAX + 1];
    for (unsigned i = 0; i <= CADRE_SLAB_PAGES_MAX; i++) {
        chunks[i] = cadre_page_slabs_take(slabs, 0);
        memset(cadre_chunk_data(chunks[i]), (int)i, SMALL);
        cr_assert_eq(cadre_page_slabs_count(slabs), 1 + i / CADRE_SLAB_PAGES_MAX);
    }
    for (unsigned i = 0; i <= CADRE_SLAB_PAGES_MAX; i++) {
        cr_assert_eq(((unsigned char *)cadre_chunk_data(chunks[i]))[SMALL - 1], i);
        cadre_chunk_unref(&chunks[i]);
    }
    cadre_page_slabs_destroy(&slabs);
}

Test(page_slabs, takes_the_largest_page_that_is_worth_a_slab)
{
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(CADRE_HUGE_SIZE / CADRE_SLAB_PAGES_MIN,
                                                     (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *chunks[CADRE_SLAB_PAGES_MIN + 1];
    for (unsigned i = 0; i <= CADRE_SLAB_PAGES_MIN; i++) {
        chunks[i] = cadre_page_slabs_take(slabs, 0);
        cr_assert_eq(cadre_page_slabs_count(slabs), 1 + i / CADRE_SLAB_PAGES_MIN);
    }
    for (unsigned i = 0; i <= CADRE_SLAB_PAGES_MIN; i++) {
        cadre_chunk_unref(&chunks[i]);
    }
    cadre_page_slabs_destroy(&slabs);
}

/* Takes pages to fill so many slabs, or drops them. */
static void
take_all(cadre_page_slabs_t *slabs, cadre_chunk_t **chunks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        chunks[i] = cadre_page_slabs_take(slabs, 0);
        fill(chunks[i], i % 251);
    }
}

static void
drop_all(cadre_chunk_t **chunks, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        check(chunks[i], i % 251);
        cadre_chunk_unref(&chunks[i]);
    }
}

static void
trim_all(cadre_page_slabs_t *slabs)
{
    for (size_t i = 0; i < 2 * cadre_page_slabs_count(slabs); i++) {
        cadre_page_slabs_trim(slabs, 8, 8);
    }
}

Test(page_slabs, gives_the_memory_of_free_slabs_back_but_for_a_few)
{
    enum { SLABS = 24, PAGES = SLABS * PER_SLAB };
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(PAGE_SIZE, (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *chunks[PAGES];
    cadre_page_slabs_trim(slabs, 8, 8);
    take_all(slabs, chunks, PAGES);
    trim_all(slabs);
    cr_expect_eq(cadre_page_slabs_emptied(slabs), 0);

    drop_all(chunks, PAGES - 1);
    trim_all(slabs);
    cr_expect_eq(cadre_page_slabs_emptied(slabs), SLABS - 2); /* one has a page, one is spare */
    cr_expect_eq(cadre_page_slabs_count(slabs), SLABS);
    check(chunks[PAGES - 1], (PAGES - 1) % 251);

    take_all(slabs, chunks, PAGES - 1);
    cr_expect_eq(cadre_page_slabs_emptied(slabs), 0);
    cr_expect_eq(cadre_page_slabs_count(slabs), SLABS);
    trim_all(slabs);
    drop_all(chunks, PAGES);
    cadre_page_slabs_destroy(&slabs);
}

/* Slabs whose pages are all held stand before those with places. */
Test(page_slabs, adds_no_slab_while_others_have_places)
{
    enum { SLABS = 100, PAGES = SLABS * CADRE_SLAB_PAGES_MIN, HELD = PAGES / 2 };
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(CADRE_HUGE_SIZE / CADRE_SLAB_PAGES_MIN,
                                                     (cadre_huge_source_t){NULL, NULL});
    cadre_chunk_t *chunks[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        chunks[i] = cadre_page_slabs_take(slabs, 0);
    }
    for (unsigned round = 0; round < 2; round++) {
        const unsigned first = round == 0 ? HELD : 0;
        for (unsigned i = first; i < first + HELD; i++) {
            cadre_chunk_unref(&chunks[i]);
        }
        for (unsigned i = first; i < first + HELD; i++) {
            chunks[i] = cadre_page_slabs_take(slabs, 0);
        }
        cr_expect_eq(cadre_page_slabs_count(slabs), SLABS);
    }
    for (unsigned i = 0; i < PAGES; i++) {
        cadre_chunk_unref(&chunks[i]);
    }
    cadre_page_slabs_destroy(&slabs);
}

/* Moves what it is told to, and returns how many pages that were. */
static unsigned
move_strays(cadre_page_slabs_t *slabs, cadre_chunk_t **chunks)
{
    enum { AT_ONCE = 3 };
    cadre_stray_page_t strays[AT_ONCE];
    const size_t count = cadre_page_slabs_list_strays(slabs, AT_ONCE, strays);
    unsigned moved = 0;
    for (size_t i = 0; i < count; i++) {
        cadre_chunk_t **chunk = &chunks[strays[i].name];
        cr_assert_eq(cadre_chunk_data(*chunk), strays[i].bytes);
        cadre_chunk_t *copy = cadre_page_slabs_take_partial(slabs, strays[i].name);
        if (copy) {
            cr_assert_neq((uintptr_t)cadre_chunk_data(copy) / CADRE_HUGE_SIZE,
                          (uintptr_t)strays[i].bytes / CADRE_HUGE_SIZE);
            fill(copy, strays[i].name % 251);
            cadre_chunk_unref(chunk);
            *chunk = copy;
            moved++;
        }
    }
    return moved;
}

Test(page_slabs, clears_those_of_which_most_places_are_free)
{
    enum { SLABS = 64, PAGES = SLABS * PER_SLAB, KEPT_EVERY = 8, TURNS = 2000 };
    cadre_page_slabs_t *slabs = cadre_page_slabs_new(PAGE_SIZE, (cadre_huge_source_t){NULL, NULL});
    static cadre_chunk_t *chunks[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        chunks[i] = cadre_page_slabs_take(slabs, i);
        fill(chunks[i], i % 251);
    }
    unsigned kept = 0;
    for (unsigned i = 0; i < PAGES; i++) {
        if (i % KEPT_EVERY == 0 || i < PAGES / 4) { /* a quarter of the slabs are full */
            kept++;
        } else {
            cadre_chunk_unref(&chunks[i]);
        }
    }

    unsigned moved = 0;
    for (int i = 0; i < TURNS; i++) {
        cadre_page_slabs_trim(slabs, 8, 8);
        moved += move_strays(slabs, chunks);
    }
    const size_t in_use = cadre_page_slabs_count(slabs) - cadre_page_slabs_emptied(slabs);
    cr_expect_leq(in_use, kept / PER_SLAB + SLABS / CADRE_SLACK + 3);
    cr_expect_lt(moved, kept - PAGES / 4, "of what was in full slabs nothing moves");
    for (unsigned i = 0; i < PAGES; i++) {
        if (chunks[i]) {
            check(chunks[i], i % 251);
            cadre_chunk_unref(&chunks[i]);
        }
    }
    cadre_page_slabs_destroy(&slabs);
}
