#include "coordinator/cli/train/training_plateau.h"

#include <criterion/criterion.h>
#include <math.h>

#include "common/base/status.h"

TestSuite(training_plateau, .timeout = 240);

static const cadre_plateau_conditions_t conditions = {
    .metric = CADRE_METRIC_LOSS, .patience = 2, .min_delta = 0.1, .factor = 0.5, .min_rate = 0.2};

Test(training_plateau, lowers_the_rate_after_evaluations_without_an_improvement)
{
    static const double values[] = {3, 2.95, 2, 1.95, 1.92, 1.5, NAN, 1.6, 1.5, 1.5, 1.5, 1.5};
    static const bool lowered[] = {false, false, false, false, true,  false,
                                   false, true,  false, false, false, false};
    cadre_training_plateau_t self = {.has_best = false};
    for (uint64_t i = 0; i < 12; i++) {
        cr_expect_eq(cadre_training_plateau_note(&self, &conditions, 0.5, values[i], 10 * (i + 1)),
                     lowered[i], "%d", (int)i);
    }
    cr_expect_eq(self.changes, 2);
    cr_expect_eq(self.updates[0], 50);
    cr_expect_eq(self.rates[0], 0.25);
    cr_expect_eq(self.updates[1], 80);
    cr_expect_eq(self.rates[1], 0.2, "not below min_rate");
}

Test(training_plateau, of_a_metric_of_which_higher_is_better_looks_the_other_way)
{
    cadre_plateau_conditions_t accuracy = conditions;
    accuracy.metric = CADRE_METRIC_ACCURACY;
    accuracy.patience = 1;
    cadre_training_plateau_t self = {.has_best = false};
    cr_expect_not(cadre_training_plateau_note(&self, &accuracy, 1, 0.5, 1));
    cr_expect_not(cadre_training_plateau_note(&self, &accuracy, 1, 0.9, 2));
    cr_expect(cadre_training_plateau_note(&self, &accuracy, 1, 0.95, 3));
}

Test(training_plateau, does_not_lower_more_often_than_a_schedule_has_boundaries)
{
    cadre_plateau_conditions_t often = conditions;
    often.patience = 1;
    often.min_rate = 0;
    cadre_training_plateau_t self = {.has_best = true, .best = 0};
    for (uint64_t i = 1; i <= CADRE_SCHEDULE_BOUNDARIES_MAX; i++) {
        cr_expect(cadre_training_plateau_note(&self, &often, 1, 1, i));
    }
    cr_expect_not(cadre_training_plateau_note(&self, &often, 1, 1, 1000));
}

Test(training_plateau, is_the_same_after_a_checkpoint)
{
    cadre_training_plateau_t self = {.has_best = false};
    cadre_training_plateau_t read = {.has_best = false};
    cr_expect_null(cadre_training_plateau_encode(&self));
    for (uint64_t i = 1; i <= 6; i++) {
        cadre_training_plateau_note(&self, &conditions, 1, 2, 10 * i);
    }
    json_t *object = cadre_training_plateau_encode(&self);
    cr_assert_eq(cadre_training_plateau_decode(object, &read), 0);
    json_decref(object);
    cr_expect_eq(read.best, self.best);
    cr_expect_eq(read.without, self.without);
    cr_expect_eq(read.changes, self.changes);
    for (int64_t i = 0; i < self.changes; i++) {
        cr_expect_eq(read.updates[i], self.updates[i]);
        cr_expect_eq(read.rates[i], self.rates[i]);
    }
}

Test(training_plateau, refuses_a_record_that_it_cannot_have_written)
{
    static const char *const texts[] = {
        "{}",
        "{\"without\": -1, \"updates\": [], \"rates\": []}",
        "{\"without\": 0, \"updates\": [1], \"rates\": []}",
        "{\"without\": 0, \"updates\": [2, 2], \"rates\": [1, 1]}",
        "{\"without\": 0, \"updates\": [1], \"rates\": [-1]}",
        "{\"without\": 0, \"updates\": [1], \"rates\": [1], \"more\": 1}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cadre_training_plateau_t read = {.has_best = false};
        json_t *object = json_loads(texts[i], 0, NULL);
        cr_expect_eq(cadre_training_plateau_decode(object, &read), CADRE_EMALFORMED, "%s",
                     texts[i]);
        json_decref(object);
    }
}
