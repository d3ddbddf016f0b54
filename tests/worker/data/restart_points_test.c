#include "worker/data/restart_points.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"

TestSuite(restart_points, .timeout = 240);

/* Adds the points that are wanted of `content` bytes of a file, where each 64 KiB could be one. */
static void
walk(cadre_restart_points_t *points, size_t file, uint64_t content, bool has_window)
{
    for (uint64_t at = 0; at <= content; at += 64 << 10) {
        if (cadre_restart_points_want(points, file, at, has_window)) {
            cadre_restart_points_add(
                points, &(cadre_restart_point_t){.file = file,
                                                 .content = at,
                                                 .window = has_window ? cadre_calloc(1, 1) : NULL});
        }
    }
}

Test(restart_points, finds_the_last_in_front_of_a_place)
{
    cadre_restart_points_t points;
    cadre_restart_points_init(&points);
    cr_expect_null(cadre_restart_points_find(&points, 0, 5));
    walk(&points, 1, 4 << 20, false);
    walk(&points, 3, 3 * CADRE_RESTART_DISTANCE, true);
    cr_assert_eq(points.count, 4 + 3);
    cr_expect_null(cadre_restart_points_find(&points, 0, UINT64_MAX));
    cr_expect_null(cadre_restart_points_find(&points, 1, (1 << 20) - 1));
    cr_expect_eq(cadre_restart_points_find(&points, 1, 1 << 20)->content, 1 << 20);
    cr_expect_eq(cadre_restart_points_find(&points, 1, UINT64_MAX)->content, 4 << 20);
    cr_expect_null(cadre_restart_points_find(&points, 2, UINT64_MAX));
    cr_expect_eq(cadre_restart_points_find(&points, 3, 2 * CADRE_RESTART_DISTANCE + 1)->content,
                 2 * CADRE_RESTART_DISTANCE);
    cadre_restart_points_fini(&points);
}

/* Of ten times as much content as there may be windows for at the first distance. */
Test(restart_points, are_no_more_than_their_limit)
{
    cadre_restart_points_t points;
    cadre_restart_points_init(&points);
    const uint64_t content = (uint64_t)10 * CADRE_RESTART_WINDOWS_MAX * CADRE_RESTART_DISTANCE;
    walk(&points, 0, content, true);
    cr_expect_eq(points.count, points.windows);
    cr_expect_leq(points.windows, CADRE_RESTART_WINDOWS_MAX);
    cr_expect_gt(points.windows, CADRE_RESTART_WINDOWS_MAX / 2);
    for (size_t i = 1; i < points.count; i++) {
        const uint64_t apart = points.items[i].content - points.items[i - 1].content;
        cr_assert(apart >= points.distance && apart <= points.distance + (64 << 10));
    }
    cadre_restart_points_fini(&points);
}
