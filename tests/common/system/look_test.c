#include "common/system/look.h"

#include <criterion/criterion.h>

#include "common/system/clock.h"

TestSuite(look, .timeout = 240);

/* Something that is there from look `comes` on, and each look for which takes `takes_us`. */
typedef struct {
    int comes;
    int looks;
    int64_t takes_us;
} thing_t;

static bool
is_there(void *context)
{
    thing_t *self = context;
    const int64_t until_us = cadre_clock_now_us() + self->takes_us;
    while (self->takes_us > 0 && cadre_clock_now_us() < until_us) {
    }
    return ++self->looks >= self->comes;
}

/* A wait of `us` that has just ended. */
static void
note_wait(cadre_look_t *look, int64_t us)
{
    look->begin_us = cadre_clock_now_us() - us;
    cadre_look_end(look);
}

Test(look, finds_what_comes)
{
    cadre_look_t look = {.mean_us = 0};
    thing_t thing = {.comes = 1};
    cr_expect(cadre_look(&look, is_there, &thing));
    cr_expect_eq(thing.looks, 1);
}

Test(look, looks_once_more_at_the_end)
{
    cadre_look_t look = {.mean_us = 0};
    thing_t thing = {.comes = 2, .takes_us = CADRE_LOOK_US};
    cr_expect(cadre_look(&look, is_there, &thing));
    cr_expect_eq(thing.looks, 2);
}

Test(look, gives_up)
{
    cadre_look_t look = {.mean_us = 0};
    thing_t thing = {.comes = INT32_MAX};
    cr_expect(!cadre_look(&look, is_there, &thing));
    cr_expect_gt(thing.looks, 1);
}

Test(look, does_not_where_waits_are_long)
{
    cadre_look_t look = {.mean_us = 0};
    for (int i = 0; i < 16; i++) {
        note_wait(&look, INT64_C(1000000));
    }
    thing_t thing = {.comes = 1};
    cr_expect(!cadre_look(&look, is_there, &thing));
    cr_expect_eq(thing.looks, 0);

    /* One long wait among short ones does not end it, as no wait counts for more than a
     * millisecond. */
    for (int i = 0; i < 64; i++) {
        note_wait(&look, 0);
    }
    note_wait(&look, INT64_C(1000000));
    cr_expect(cadre_look(&look, is_there, &thing));
}

Test(look, rests_after_the_processor_was_lost)
{
    cadre_look_t look = {.mean_us = 0};
    thing_t thing = {.comes = INT32_MAX, .takes_us = 2 * CADRE_LOOK_LOST_US};
    cr_expect(!cadre_look(&look, is_there, &thing));
    cr_expect_eq(look.rest_us, CADRE_LOOK_REST_US);
    thing = (thing_t){.comes = 1};
    look.rest_until_us = INT64_MAX; /* however slow this machine is */
    cr_expect(!cadre_look(&look, is_there, &thing));
    cr_expect_eq(thing.looks, 0);
}

Test(look, rests_longer_where_it_is_lost_again)
{
    for (int i = 1; i <= 2; i++) {
        thing_t thing = {.comes = INT32_MAX, .takes_us = 2 * CADRE_LOOK_LOST_US};
        cadre_look_t look = {.rest_us = i * CADRE_LOOK_REST_US_MAX / 2,
                             .rest_until_us = cadre_clock_now_us()};
        cr_expect(!cadre_look(&look, is_there, &thing));
        cr_expect_eq(look.rest_us, CADRE_LOOK_REST_US_MAX);
    }
}

Test(look, rests_no_longer_where_it_was_not_lost_for_a_while)
{
    thing_t thing = {.comes = INT32_MAX, .takes_us = 2 * CADRE_LOOK_LOST_US};
    cadre_look_t look = {.rest_us = CADRE_LOOK_REST_US_MAX};
    look.rest_until_us = cadre_clock_now_us() - look.rest_us;
    cr_expect(!cadre_look(&look, is_there, &thing));
    cr_expect_eq(look.rest_us, CADRE_LOOK_REST_US);
}
