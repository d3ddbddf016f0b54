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

static void
expect(const cadre_training_plan_t *self, uint64_t cut, cadre_training_place_t place)
{
    cadre_training_place_t found = cadre_training_plan_at(self, cut);
    cr_expect(found.epoch == place.epoch && found.position == place.position &&
                  found.closures == place.closures && found.evaluations == place.evaluations,
              "cut %llu: epoch %lld position %lld closures %lld evaluations %lld",
              (unsigned long long)cut, (long long)found.epoch, (long long)found.position,
              (long long)found.closures, (long long)found.evaluations);
}

Test(training_plan, knows_the_place_of_every_cut)
{
    static const cadre_training_place_t places[] = {
        {0, 0, 0, 0}, {0, 4, 1, 0},  {0, 8, 2, 0},  {1, 0, 3, 0}, {1, 4, 4, 0},
        {1, 8, 5, 0}, {1, 10, 6, 0}, {1, 10, 6, 1}, {2, 0, 6, 2}, {2, 4, 7, 2},
        {2, 8, 8, 2}, {2, 10, 9, 2}, {2, 10, 9, 3}, {3, 0, 9, 4},
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
    rest.start = (cadre_training_place_t){1, 8, 5, 0};
    expect(&rest, 6, (cadre_training_place_t){1, 8, 5, 0});
    expect(&rest, 7, (cadre_training_place_t){1, 10, 6, 0});
    expect(&rest, 9, (cadre_training_place_t){2, 0, 6, 2});
    expect(&rest, 10, (cadre_training_place_t){2, 4, 7, 2});
}

Test(training_plan, leaves_out_the_last_batch_when_told)
{
    cadre_training_plan_t whole = plan;
    whole.drop_last = true;
    cr_assert_eq(cadre_training_plan_batches(&whole, 0), 2);
    cr_assert_eq(cadre_training_plan_batches(&whole, 8), 0);
    expect(&whole, 3, (cadre_training_place_t){1, 0, 2, 0});
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
    whole.start = (cadre_training_place_t){.epoch = 1, .position = 10, .closures = 4};
    cr_expect_eq(cadre_training_plan_rows(&whole, 5), 20);
}

Test(training_plan, keeps_a_place_in_a_checkpoint_and_reads_it_back)
{
    cadre_training_place_t place = {1, 2, 3, 4};
    cadre_auto(cadre_free) char *text = cadre_training_place_encode(&place);
    cadre_training_place_t found;
    cr_assert_eq(cadre_training_place_decode(text, &found), 0);
    cr_assert(found.epoch == 1 && found.position == 2 && found.closures == 3 &&
              found.evaluations == 4);
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
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(texts); i++) {
        cadre_training_place_t place;
        cr_expect_eq(cadre_training_place_decode(texts[i], &place), CADRE_EMALFORMED, "%s",
                     texts[i]);
    }
}
