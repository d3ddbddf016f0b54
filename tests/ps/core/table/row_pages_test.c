#include "ps/core/table/row_pages.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

TestSuite(row_pages, .timeout = 240);

enum { WIDTH = 4 };

static const cadre_row_layout_t layout = {.value_size = WIDTH * sizeof(float),
                                          .slot_count = 2,
                                          .slot_sizes = {WIDTH * sizeof(float), sizeof(float)},
                                          .has_uses = true};

static void
write_row(cadre_row_pages_t *pages, uint32_t row, float number)
{
    for (int slot = -1; slot < 2; slot++) {
        float *numbers = cadre_row_pages_write(pages, row, slot);
        for (int i = 0; i < (slot == 1 ? 1 : WIDTH); i++) {
            numbers[i] = number + (float)slot;
        }
    }
}

static void
check_row(const cadre_row_pages_t *pages, uint32_t row, float number)
{
    for (int slot = -1; slot < 2; slot++) {
        const float *numbers = cadre_row_pages_read(pages, row, slot);
        for (int i = 0; i < (slot == 1 ? 1 : WIDTH); i++) {
            cr_assert_eq(numbers[i], number + (float)slot, "row %u, slot %d", row, slot);
        }
    }
}

Test(row_pages, keeps_every_row_apart_from_the_others)
{
    enum { ROWS = 20000 };
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(1 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&layout, pool);
    for (uint32_t i = 0; i < ROWS; i++) {
        cr_assert_eq(cadre_row_pages_add(pages, i * UINT64_C(7)), i);
        write_row(pages, i, (float)i);
        cadre_row_pages_touch(pages, i, i + 1);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        cr_assert_eq(cadre_row_pages_key(pages, i), i * UINT64_C(7));
        cr_assert_eq(cadre_row_pages_step(pages, i), i + 1);
        cr_assert_eq(cadre_row_pages_uses(pages, i), 1);
        cr_assert(cadre_row_pages_used(pages, i));
        check_row(pages, i, (float)i);
    }
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

Test(row_pages, hands_out_freed_rows_before_new_ones)
{
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(1 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&layout, pool);
    for (uint32_t i = 0; i < 100; i++) {
        cadre_row_pages_add(pages, i);
        cadre_row_pages_touch(pages, i, 9);
    }
    cadre_row_pages_remove(pages, 7);
    cadre_row_pages_remove(pages, 50);
    cr_assert_eq(cadre_row_pages_count(pages), 98);
    cr_assert(!cadre_row_pages_used(pages, 7));
    cr_assert_eq(cadre_row_pages_add(pages, 1000), 50);
    cr_assert_eq(cadre_row_pages_uses(pages, 50), 0);
    cr_assert_eq(cadre_row_pages_step(pages, 50), 0);
    cr_assert_eq(cadre_row_pages_add(pages, 1001), 7);
    cr_assert_eq(cadre_row_pages_add(pages, 1002), 100);
    cr_assert_eq(cadre_row_pages_end(pages), 101);
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

Test(row_pages, leaves_a_snapshot_as_it_was)
{
    enum { ROWS = 5000 };
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&layout, pool);
    for (uint32_t i = 0; i < ROWS; i++) {
        cadre_row_pages_add(pages, i);
        write_row(pages, i, (float)i);
    }

    cadre_row_snapshot_t snapshot;
    cadre_row_pages_snapshot(pages, 0, 1, &snapshot);
    cr_assert_gt(snapshot.count, 2);
    cr_assert_eq(snapshot.row_end, ROWS);
    unsigned char before[CADRE_ROW_PAGE_SIZE_MAX];
    const size_t size = cadre_chunk_size_bytes(snapshot.chunks[1]);
    memcpy(before, cadre_chunk_data(snapshot.chunks[1]), size);

    for (uint32_t i = 0; i < ROWS; i++) {
        write_row(pages, i, -(float)i);
        cadre_row_pages_touch(pages, i, 3);
        if (i % 2 == 0) {
            cadre_row_pages_remove(pages, i);
        }
    }
    cr_assert_arr_eq(cadre_chunk_data(snapshot.chunks[1]), before, size);
    check_row(pages, 1001, -1001);
    cadre_row_snapshot_fini(&snapshot);
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

Test(row_pages, copies_rows_out_and_back_into_pages_of_its_own)
{
    enum { ROWS = 5000, SOME = 3 };
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&layout, pool);
    for (uint32_t i = 0; i < ROWS; i++) {
        cadre_row_pages_add(pages, i);
        write_row(pages, i, (float)i);
    }
    cadre_row_pages_t *fork = cadre_row_pages_fork(pages, 1);

    const uint32_t items[] = {4711, 7, 2500, 3, UINT32_MAX};
    const cadre_row_numbers_t rows = {items, SOME, 2};
    float values[SOME * WIDTH];
    float slots[SOME];
    cadre_row_pages_gather(pages, -1, &rows, values);
    cadre_row_pages_gather(pages, 1, &rows, slots);
    for (size_t i = 0; i < SOME; i++) {
        cr_assert_eq(values[i * WIDTH + WIDTH - 1], (float)items[i] - 1);
        cr_assert_eq(slots[i], (float)items[i] + 1);
        values[i * WIDTH] = -1;
        slots[i] = -2;
    }
    cadre_row_pages_scatter(pages, -1, &rows, values);
    cadre_row_pages_scatter(pages, 1, &rows, slots);
    for (size_t i = 0; i < SOME; i++) {
        const float *stored = cadre_row_pages_read(pages, items[i], -1);
        cr_assert_eq(stored[0], -1);
        cr_assert_eq(stored[1], (float)items[i] - 1);
        cr_assert_eq(*(const float *)cadre_row_pages_read(pages, items[i], 1), -2);
        check_row(fork, items[i], (float)items[i]);
    }
    check_row(pages, 3, 3);
    cadre_row_pages_destroy(&fork);
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

Test(row_pages, begins_values_and_slots_with_a_line)
{
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(1 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&layout, pool);
    cadre_row_pages_add(pages, 0);
    for (int slot = -1; slot < 1; slot++) {
        cr_expect_eq((uintptr_t)cadre_row_pages_read(pages, 0, slot) % 64, 0);
    }
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

Test(row_pages, leaves_out_of_a_snapshot_what_an_earlier_one_has)
{
    enum { ROWS = 5000 };
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&layout, pool);
    for (uint32_t i = 0; i < ROWS; i++) {
        cadre_row_pages_add(pages, i);
    }

    cadre_row_snapshot_t whole;
    cadre_row_snapshot_t none;
    cadre_row_snapshot_t one;
    cadre_row_snapshot_t both;
    cadre_row_pages_snapshot(pages, 0, 1, &whole);
    cadre_row_pages_snapshot(pages, whole.number, 2, &none);
    write_row(pages, 0, 1);
    cadre_row_pages_snapshot(pages, none.number, 3, &one);
    cadre_row_pages_remove(pages, ROWS - 1);
    cadre_row_pages_snapshot(pages, whole.number, 4, &both);
    cr_assert_eq(none.count, 0);
    cr_assert_eq(one.count, 1);
    cr_assert_eq(one.positions[0], 0);
    cr_assert_eq(both.count, 2);
    cr_assert_eq(both.positions[0], 0);
    cr_assert_eq(both.positions[1], whole.count - 1);
    cadre_row_snapshot_fini(&whole);
    cadre_row_snapshot_fini(&none);
    cadre_row_snapshot_fini(&one);
    cadre_row_snapshot_fini(&both);
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

Test(row_pages, has_rows_that_are_larger_than_a_page)
{
    const cadre_row_layout_t large = {.value_size = 8192 * sizeof(float),
                                      .slot_count = 2,
                                      .slot_sizes = {8192 * sizeof(float), 8192 * sizeof(float)}};
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(1 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&large, pool);
    for (uint32_t i = 0; i < 10; i++) {
        cadre_row_pages_add(pages, i);
        memset(cadre_row_pages_write(pages, i, -1), (int)i, large.value_size);
        memset(cadre_row_pages_write(pages, i, 1), (int)i + 1, large.value_size);
    }
    for (uint32_t i = 0; i < 10; i++) {
        const unsigned char *values = cadre_row_pages_read(pages, i, -1);
        cr_assert_eq(values[0], i);
        cr_assert_eq(values[large.value_size - 1], i);
        cr_assert_eq(cadre_row_pages_key(pages, i), i);
    }
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

/* Returns the first value of a row after so many rounds, of which each changes every other row. */
static float
value_after(uint32_t row, unsigned rounds)
{
    return (float)row + (row % 2 == 0 ? (float)rounds : 0);
}

/* Above some MiB pages stand in slabs, where those that are replaced leave places. */
Test(row_pages, keeps_many_pages_and_their_snapshots)
{
    enum { ROWS = 3000, VALUES = 4096, ROUNDS = 3 };
    const cadre_row_layout_t wide = {.value_size = VALUES * sizeof(float)};
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&wide, pool);
    for (uint32_t i = 0; i < ROWS; i++) {
        cadre_row_pages_add(pages, i);
        *(float *)cadre_row_pages_write(pages, i, -1) = (float)i;
    }
    for (unsigned round = 1; round <= ROUNDS; round++) {
        cadre_row_snapshot_t snapshot;
        cadre_row_pages_snapshot(pages, 0, round, &snapshot);
        cadre_row_pages_t *fork = cadre_row_pages_fork(pages, round);
        for (uint32_t i = 0; i < ROWS; i += 2) {
            *(float *)cadre_row_pages_write(pages, i, -1) += 1;
            *(float *)cadre_row_pages_write(fork, i, -1) = -1;
        }
        for (size_t i = 0; i < snapshot.count; i++) {
            const unsigned char *page = cadre_chunk_data(snapshot.chunks[i]);
            const float *values = (const void *)(page + cadre_row_pages_value_offset(pages));
            const uint32_t row = cadre_row_pages_first(pages, snapshot.positions[i]);
            cr_assert_eq(values[0], value_after(row, round - 1));
        }
        for (uint32_t i = 0; i < ROWS; i++) {
            const float *values = cadre_row_pages_read(pages, i, -1);
            const float *others = cadre_row_pages_read(fork, i, -1);
            cr_assert_eq(values[0], value_after(i, round));
            cr_assert_eq(others[0], i % 2 == 0 ? -1 : (float)i);
        }
        cadre_row_pages_destroy(&fork);
        cadre_row_snapshot_fini(&snapshot);
    }
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}

enum { STRAY_EVERY = 10, TRIMS = 2000 }; /* one page of so many is not changed */

static void
note_places(const cadre_row_pages_t *pages, uint32_t rows, const void **places)
{
    for (uint32_t i = 0; i < rows; i++) {
        places[i] = cadre_row_pages_read(pages, i, -1);
    }
}

static void
trim_all(cadre_row_pages_t *pages)
{
    for (int i = 0; i < TRIMS; i++) {
        cadre_row_pages_trim(pages, 8 << 10);
    }
}

/* As trim_all, and returns how many calls it took until the slabs have `size_bytes` at most. */
static int
trim_to(cadre_row_pages_t *pages, size_t key_count, uint64_t size_bytes)
{
    int calls = 0;
    for (; calls < TRIMS && cadre_row_pages_slab_bytes(pages) > size_bytes; calls++) {
        cadre_row_pages_trim(pages, key_count);
    }
    return calls;
}

static bool
is_changed(const cadre_row_pages_t *pages, uint32_t row)
{
    return row / cadre_row_pages_per_page(pages) % STRAY_EVERY != 0;
}

/* Changes the rows of most pages while a snapshot holds all of them. No page moves while the
 * snapshot still holds those that were not changed, and what some copies took the place of. */
static void
change_most(cadre_row_pages_t *pages, uint32_t rows)
{
    enum { HELD_EVERY = STRAY_EVERY / 2 };
    cadre_row_snapshot_t snapshot;
    cadre_row_pages_snapshot(pages, 0, 1, &snapshot);
    for (uint32_t i = 0; i < rows; i++) {
        if (is_changed(pages, i)) {
            *(float *)cadre_row_pages_write(pages, i, -1) += 1;
        }
    }

    const void **places = cadre_calloc(rows, sizeof(*places));
    note_places(pages, rows, places);
    for (size_t i = 0; i < snapshot.count; i++) {
        if (i % HELD_EVERY != 0) {
            cadre_chunk_unref(&snapshot.chunks[i]);
        }
    }
    trim_all(pages);
    uint32_t moved = 0;
    for (uint32_t i = 0; i < rows; i++) {
        moved += cadre_row_pages_read(pages, i, -1) != places[i];
    }
    cr_assert_lt(moved, rows / 20, "%u rows", moved); /* but for those of the newest slab */
    free(places);
    cadre_row_snapshot_fini(&snapshot);
}

Test(row_pages, give_the_memory_back_that_a_snapshot_took)
{
    enum { ROWS = 6000, VALUES = 4096, CALLS = 15 };
    const cadre_row_layout_t wide = {.value_size = VALUES * sizeof(float)};
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(8 << 20);
    cadre_row_pages_t *pages = cadre_row_pages_new(&wide, pool);
    for (uint32_t i = 0; i < ROWS; i++) {
        cadre_row_pages_add(pages, i);
        *(float *)cadre_row_pages_write(pages, i, -1) = (float)i;
    }
    const uint64_t before = cadre_row_pages_slab_bytes(pages);
    change_most(pages, ROWS);

    /* What somebody holds is not moved. */
    static const void *places[2][ROWS];
    cadre_row_snapshot_t snapshot;
    cadre_row_pages_snapshot(pages, 0, 2, &snapshot);
    note_places(pages, ROWS, places[0]);
    trim_all(pages);
    note_places(pages, ROWS, places[1]);
    cr_assert_eq(memcmp(places[0], places[1], sizeof(places[0])), 0, "a snapshot's");
    cadre_row_snapshot_fini(&snapshot);
    cadre_row_pages_t *fork = cadre_row_pages_fork(pages, 3);
    trim_all(pages);
    note_places(fork, ROWS, places[1]);
    cr_assert_eq(memcmp(places[0], places[1], sizeof(places[0])), 0, "a fork's");
    cadre_row_pages_destroy(&fork);

    /* An update of many keys clears more than one slab. */
    cr_assert_gt(cadre_row_pages_slab_bytes(pages), before + before / 8);
    const uint64_t page_bytes =
        (uint64_t)cadre_row_pages_page_size(pages) * ROWS / cadre_row_pages_per_page(pages);
    const int calls = trim_to(pages, 64 << 10, page_bytes + page_bytes / 5);
    cr_expect_leq(calls, CALLS, "%d calls", calls);
    trim_all(pages);
    cr_assert_lt((double)cadre_row_pages_slab_bytes(pages), 1.2 * (double)page_bytes);
    for (uint32_t i = 0; i < ROWS; i++) {
        const float *values = cadre_row_pages_read(pages, i, -1);
        cr_assert_eq(values[0], (float)i + (float)is_changed(pages, i), "row %u", i);
        cr_assert_eq(cadre_row_pages_key(pages, i), i);
    }

    /* A page that was moved has not changed. */
    cadre_row_pages_snapshot(pages, 3, 4, &snapshot);
    cr_assert_eq(snapshot.count, 0);
    cadre_row_snapshot_fini(&snapshot);
    cadre_row_pages_destroy(&pages);
    cadre_chunk_pool_destroy(&pool);
}
