#include "coordinator/cli/train/training_plan.h"

#include <criterion/criterion.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(training_plan, .timeout = 240);

/* 10 rows in batches of 4: three closures an epoch, evaluated after epochs 2 and 3 (from 1). */
static const cadre_training_plan_t plan = {
    .first_id = 1,
    .rows = 10,
    .batch_size = 4,
    .epochs = 3,
    .evaluate_every = 2,
    .evaluation_closures = 2,
};

/* A place of a job whose epochs are passes. */
#define AT(e, row, trained, evaluated)                                                             \
    {                                                                                              \
        .epoch = (e), .position = (row), .closures = (trained), .evaluations = (evaluated),        \
        .pass = (e)                                                                                \
    }

static void
expect(const cadre_training_plan_t *self, uint64_t cut, cadre_training_place_t place)
{
    cadre_training_place_t found = cadre_training_plan_at(self, cut);
    cr_expect(found.epoch == place.epoch && found.position == place.position &&
                  found.closures == place.closures && found.evaluations == place.evaluations &&
                  found.pass == place.pass && found.begun == place.begun,
              "cut %llu: epoch %lld position %lld closures %lld evaluations %lld pass %lld "
              "begun %lld",
              (unsigned long long)cut, (long long)found.epoch, (long long)found.position,
              (long long)found.closures, (long long)found.evaluations, (long long)found.pass,
              (long long)found.begun);
}

Test(training_plan, knows_the_place_of_every_cut)
{
    static const cadre_training_place_t places[] = {
        AT(0, 0, 0, 0), AT(0, 4, 1, 0),  AT(0, 8, 2, 0),  AT(1, 0, 3, 0), AT(1, 4, 4, 0),
        AT(1, 8, 5, 0), AT(1, 10, 6, 0), AT(1, 10, 6, 1), AT(2, 0, 6, 2), AT(2, 4, 7, 2),
        AT(2, 8, 8, 2), AT(2, 10, 9, 2), AT(2, 10, 9, 3), AT(3, 0, 9, 4),
    };
    expect(&plan, 0, places[0]);
    for (size_t i = 0; i < CADRE_COUNT_OF(places); i++) {
        expect(&plan, i + 1, places[i]);
    }
    cr_assert_eq(cadre_training_plan_total(&plan), 9);
}

Test(training_plan, goes_on_from_any_place_to_the_same_end)
{
    for (uint64_t cut = 1; cut <= 14; cut++) {
        cadre_training_plan_t rest = plan;
        rest.first_id = cut;
        rest.start = cadre_training_plan_at(&plan, cut);
        cr_expect_eq(cadre_training_plan_total(&rest), 9, "cut %llu", (unsigned long long)cut);
        cadre_training_place_t end = cadre_training_plan_at(&rest, 1000);
        cr_expect(end.epoch == 3 && end.closures == 9);
    }
}

Test(training_plan, resumes_at_the_row_that_comes_next)
{
    cadre_training_plan_t rest = plan;
    rest.first_id = 6; /* closures 1 to 5 are done */
    rest.start = (cadre_training_place_t)AT(1, 8, 5, 0);
    expect(&rest, 6, (cadre_training_place_t)AT(1, 8, 5, 0));
    expect(&rest, 7, (cadre_training_place_t)AT(1, 10, 6, 0));
    expect(&rest, 9, (cadre_training_place_t)AT(2, 0, 6, 2));
    expect(&rest, 10, (cadre_training_place_t)AT(2, 4, 7, 2));
}

Test(training_plan, leaves_out_the_last_batch_when_told)
{
    cadre_training_plan_t whole = plan;
    whole.drop_last = true;
    cr_assert_eq(cadre_training_plan_batches(&whole, 0), 2);
    cr_assert_eq(cadre_training_plan_batches(&whole, 8), 0);
    expect(&whole, 3, (cadre_training_place_t)AT(1, 0, 2, 0));
}

Test(training_plan, knows_the_rows_of_the_closures_that_ended)
{
    static const int64_t rows[] = {0, 4, 8, 10, 14, 18, 20, 24, 28, 30};
    static const int64_t whole_rows[] = {0, 4, 8, 12, 16, 20, 24};
    cadre_training_plan_t whole = plan;
    whole.drop_last = true;
    for (int64_t i = 0; i < (int64_t)CADRE_COUNT_OF(rows); i++) {
        cr_expect_eq(cadre_training_plan_rows(&plan, i), rows[i], "%lld", (long long)i);
        for (uint64_t cut = 1; cut <= 14; cut++) { /* and of one that was resumed there */
            cadre_training_plan_t rest = plan;
            rest.start = cadre_training_plan_at(&plan, cut);
            if (rest.start.closures <= i) {
                cr_expect_eq(cadre_training_plan_rows(&rest, i), rows[i], "%lld after cut %llu",
                             (long long)i, (unsigned long long)cut);
            }
        }
    }
    for (int64_t i = 0; i < (int64_t)CADRE_COUNT_OF(whole_rows); i++) {
        cr_expect_eq(cadre_training_plan_rows(&whole, i), whole_rows[i], "%lld", (long long)i);
    }
    whole.start = (cadre_training_place_t)AT(1, 10, 4, 0);
    cr_expect_eq(cadre_training_plan_rows(&whole, 5), 20);
}

Test(training_plan, keeps_a_place_in_a_checkpoint_and_reads_it_back)
{
    cadre_training_place_t place = AT(1, 2, 3, 4);
    cadre_auto(cadre_free) char *text = cadre_training_place_encode(&place);
    cadre_training_place_t found;
    cr_assert_eq(cadre_training_place_decode(text, &found), 0);
    cr_assert(found.epoch == 1 && found.position == 2 && found.closures == 3 &&
              found.evaluations == 4 && found.pass == 1);
    cr_assert_str_eq(text,
                     "{\"epoch\": 1, \"position\": 2, \"closures\": 3, "
                     "\"evaluations\": 4}",
                     "as builds before had it");
}

/* Epochs of 5 closures over passes of 3: an epoch ends in the middle of a pass. */
static const cadre_training_plan_t stepped = {
    .first_id = 1,
    .rows = 10,
    .batch_size = 4,
    .epochs = 2,
    .steps_per_epoch = 5,
    .evaluate_every = 1,
    .evaluation_closures = 2,
};

Test(training_plan, goes_on_through_passes_where_epochs_are_steps)
{
    cr_assert_eq(cadre_training_plan_total(&stepped), 10);
    expect(&stepped, 4, (cadre_training_place_t){.position = 10, .closures = 3, .begun = 3});
    expect(&stepped, 6,
           (cadre_training_place_t){.position = 8, .closures = 5, .pass = 1, .begun = 5});
    expect(&stepped, 8,
           (cadre_training_place_t){
               .epoch = 1, .position = 8, .closures = 5, .evaluations = 2, .pass = 1});
    expect(&stepped, 10,
           (cadre_training_place_t){
               .epoch = 1, .position = 4, .closures = 7, .evaluations = 2, .pass = 2, .begun = 2});
    cr_assert_eq(cadre_training_plan_rows(&stepped, 10), 34);
    for (uint64_t cut = 1; cut <= 15; cut++) {
        cadre_training_plan_t rest = stepped;
        rest.first_id = cut;
        rest.start = cadre_training_plan_at(&stepped, cut);
        cr_expect_eq(cadre_training_plan_total(&rest), 10, "cut %llu", (unsigned long long)cut);
        bool evaluates = cut == 7 || cut == 14; /* which is done again from its beginning */
        for (uint64_t later = cut; later <= 15 && !evaluates; later++) {
            expect(&rest, later, cadre_training_plan_at(&stepped, later));
        }
        cr_expect_eq(cadre_training_plan_rows(&rest, 10), 34);
    }
}

Test(training_plan, ends_at_a_step_and_goes_on_from_there_with_more)
{
    cadre_training_plan_t short_one = plan;
    short_one.steps_max = 5;
    cr_assert_eq(cadre_training_plan_total(&short_one), 5);
    expect(&short_one, 6, (cadre_training_place_t)AT(1, 8, 5, 0)); /* before the evaluation */
    cr_assert(cadre_training_plan_evaluates(&short_one, &(cadre_training_place_t)AT(1, 8, 5, 0)));
    expect(&short_one, 8, (cadre_training_place_t)AT(1, 8, 5, 2));
    expect(&short_one, 100, (cadre_training_place_t)AT(1, 8, 5, 94));

    cadre_training_plan_t longer = plan;
    longer.first_id = 8;
    longer.start = cadre_training_plan_at(&short_one, 8);
    cr_assert_eq(cadre_training_plan_total(&longer), 9);
    expect(&longer, 9, (cadre_training_place_t)AT(1, 10, 6, 2));

    short_one.steps_max = 2; /* fewer than are done */
    short_one.start = longer.start;
    cr_assert_eq(cadre_training_plan_total(&short_one), 5);
    cr_assert(cadre_training_plan_is_over(&short_one, &short_one.start));
}

Test(training_plan, has_an_evaluation_that_is_watched_done_again)
{
    cadre_training_plan_t watched = plan;
    watched.watched = true;
    expect(&watched, 7, (cadre_training_place_t)AT(1, 10, 6, 0));
    expect(&watched, 9, (cadre_training_place_t)AT(1, 10, 6, 2)); /* all of it has run */
}

Test(training_plan, keeps_passes_steps_and_what_was_found_in_a_checkpoint)
{
    cadre_training_place_t place = {.epoch = 1,
                                    .position = 8,
                                    .closures = 7,
                                    .pass = 4,
                                    .begun = 2,
                                    .watch = {.has_best = true, .best = 0.25, .without = 3}};
    cadre_auto(cadre_free) char *text = cadre_training_place_encode(&place);
    cadre_training_place_t found;
    cr_assert_eq(cadre_training_place_decode(text, &found), 0);
    cr_assert(found.pass == 4 && found.begun == 2 && found.watch.has_best &&
              found.watch.without == 3 && !found.watch.has_kept);
}

/* A place within a pass of other ranges or batches is none of this order; between two passes it is
 * one of any. */
Test(training_plan, goes_on_within_a_pass_of_the_same_ranges_and_batches_alone)
{
    static const struct {
        int64_t had_ranges;
        int64_t had_rows;
        int64_t position;
        int64_t ranges;
        int status;
    } cases[] = {
        {4, 4, 8, 4, 0},
        {4, 4, 8, 1, CADRE_ECONFIG},
        {4, 4, 8, 3, CADRE_ECONFIG},
        {4, 2, 8, 4, CADRE_ECONFIG},
        {0, 0, 8, 4, CADRE_ECONFIG},
        {0, 0, 8, 1, 0},
        {4, 2, 0, 4, 0},
        {4, 2, 10, 3, 0},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cadre_training_place_t place = {.epoch = 1,
                                        .position = cases[i].position,
                                        .pass = 1,
                                        .ranges = cases[i].had_ranges,
                                        .batch_rows = cases[i].had_rows};
        cadre_auto(cadre_free) char *text = cadre_training_place_encode(&place);
        cadre_training_plan_t resumed = {.rows = 10, .batch_size = 4};
        cr_assert_eq(cadre_training_place_decode(text, &resumed.start), 0);
        cr_expect_eq(cadre_training_plan_deal(&resumed, cases[i].ranges, "ckpt-1"), cases[i].status,
                     "case %zu", i);
        cr_expect(cases[i].status < 0 ||
                  resumed.start.ranges == (cases[i].ranges > 1 ? cases[i].ranges : 0));
    }
}

Test(training_plan, refuses_a_place_that_somebody_else_wrote)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"epoch\": 1, \"position\": 2, \"closures\": 3}",
        "{\"epoch\": -1, \"position\": 2, \"closures\": 3, \"evaluations\": 0}",
        "{\"epoch\": 1.5, \"position\": 2, \"closures\": 3, \"evaluations\": 0}",
        "{\"epoch\": 1, \"position\": 2, \"closures\": 3, \"evaluations\": 0, \"more\": 1}",
        "{\"epoch\": 1, \"position\": 2, \"closures\": 3, \"evaluations\": 0, \"pass\": -1}",
        "{\"epoch\": 1, \"position\": 2, \"closures\": 3, \"evaluations\": 0, \"begun\": -1}",
        "{\"epoch\": 1, \"position\": 2, \"closures\": 3, \"evaluations\": 0, \"watch\": 1}",
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(texts); i++) {
        cadre_training_place_t place;
        cr_expect_eq(cadre_training_place_decode(texts[i], &place), CADRE_EMALFORMED, "%s",
                     texts[i]);
    }
}
