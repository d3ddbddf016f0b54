#include "worker/device/arena.h"

#include <criterion/criterion.h>

TestSuite(arena, .timeout = 240);

Test(arena, rounds_places_up_to_the_alignment)
{
    cadre_arena_t arena;
    cadre_arena_init(&arena);
    cr_assert_eq(cadre_arena_take(&arena, 1), 0);
    cr_assert_eq(cadre_arena_take(&arena, 256), 256);
    cr_assert_eq(cadre_arena_take(&arena, 257), 512);
    cr_assert_eq(cadre_arena_take(&arena, 0), 1024);
    cr_assert_eq(arena.size_bytes_max, 1280);
    cadre_arena_fini(&arena);
}

Test(arena, takes_the_smallest_hole_that_fits)
{
    cadre_arena_t arena;
    cadre_arena_init(&arena);
    size_t large = cadre_arena_take(&arena, 1024);
    cadre_arena_take(&arena, 256);
    size_t small = cadre_arena_take(&arena, 512);
    cadre_arena_take(&arena, 256);
    cadre_arena_give(&arena, large, 1024);
    cadre_arena_give(&arena, small, 512);
    cr_assert_eq(cadre_arena_take(&arena, 500), small);
    cr_assert_eq(cadre_arena_take(&arena, 700), large);
    cr_assert_eq(cadre_arena_take(&arena, 256), large + 768); /* what was left of it */
    cr_assert_eq(cadre_arena_take(&arena, 256), 2048);
    cadre_arena_fini(&arena);
}

Test(arena, joins_neighbouring_holes_in_any_order)
{
    const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (int i = 0; i < 6; i++) {
        cadre_arena_t arena;
        cadre_arena_init(&arena);
        size_t places[3];
        for (int k = 0; k < 3; k++) {
            places[k] = cadre_arena_take(&arena, 256);
        }
        cadre_arena_take(&arena, 256); /* keeps the end away */
        for (int k = 0; k < 3; k++) {
            cadre_arena_give(&arena, places[orders[i][k]], 256);
        }
        cr_assert_eq(arena.hole_count, 1);
        cr_assert_eq(cadre_arena_take(&arena, 768), 0);
        cr_assert_eq(arena.size_bytes_max, 1024);
        cadre_arena_fini(&arena);
    }
}

Test(arena, shrinks_at_its_end_and_remembers_the_most)
{
    cadre_arena_t arena;
    cadre_arena_init(&arena);
    size_t first = cadre_arena_take(&arena, 256);
    size_t second = cadre_arena_take(&arena, 256);
    cadre_arena_give(&arena, first, 256);
    cadre_arena_give(&arena, second, 256);
    cr_assert_eq(arena.end, 0);
    cr_assert_eq(arena.hole_count, 0);
    cr_assert_eq(cadre_arena_take(&arena, 1024), 0);
    cr_assert_eq(arena.size_bytes_max, 1024);
    cadre_arena_fini(&arena);
}
