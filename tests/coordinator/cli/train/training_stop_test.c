#include "coordinator/cli/train/training_stop.h"

#include <criterion/criterion.h>
#include <math.h>

#include "common/base/memory.h"
#include "common/base/status.h"

TestSuite(training_stop, .timeout = 240);

static const cadre_stop_conditions_t by_loss = {
    .metric = CADRE_METRIC_LOSS, .patience = 2, .min_delta = 0.1};

/* Notes the values one after the other; what the last one leads to. */
static cadre_stop_t
after(const cadre_stop_conditions_t *conditions, const double *values, size_t count)
{
    cadre_training_watch_t watch = {0};
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(cadre_training_watch_stop(&watch, conditions), CADRE_STOP_NOT, "before %zu",
                     i);
        cadre_training_watch_note(&watch, conditions, values[i]);
    }
    return cadre_training_watch_stop(&watch, conditions);
}

Test(training_stop, stops_after_as_many_evaluations_without_an_improvement)
{
    /* As keras.callbacks.EarlyStopping counts: the first one is always an improvement. */
    cr_expect_eq(after(&by_loss, (double[]){1, 0.95, 0.89, 0.8}, 4), CADRE_STOP_NOT);
    cr_expect_eq(after(&by_loss, (double[]){1, 0.95, 0.91}, 3), CADRE_STOP_PATIENCE);
    cr_expect_eq(after(&by_loss, (double[]){1, 2, 0.5, 0.45, 0.45}, 5), CADRE_STOP_PATIENCE);
    cr_expect_eq(after(&by_loss, (double[]){NAN, NAN}, 2), CADRE_STOP_PATIENCE,
                 "what is no number improves nothing");
}

Test(training_stop, says_of_a_metric_without_a_value_that_it_is_undefined_and_why)
{
    char text[160];
    cadre_training_describe_rest(CADRE_METRIC_AUC, &(double){0.75}, 3, true, text, sizeof(text));
    cr_expect_str_eq(text, "test_auc was not better than 0.75 in 3 evaluations");
    cadre_training_describe_rest(CADRE_METRIC_LOSS, &(double){0.5}, 0, true, text, sizeof(text));
    cr_expect_str_eq(text, "test_loss was not better than 0.5");
    cadre_training_describe_rest(CADRE_METRIC_AUC_EXACT, NULL, 1000000, true, text, sizeof(text));
    cr_expect_str_eq(text, "test_auc_exact is undefined in 1000000 evaluations: an AUC compares "
                           "rows of two classes, and all rows held out are of one");
    cadre_training_describe_rest(CADRE_METRIC_AUC, NULL, 2, false, text, sizeof(text));
    cr_expect_str_eq(text, "test_auc is undefined in 2 evaluations: it is not a number",
                     "the loss is none either");
}

Test(training_stop, lacks_a_metric_that_no_evaluation_has_found_for_its_target)
{
    const cadre_stop_conditions_t target = {
        .metric = CADRE_METRIC_AUC, .has_target = true, .target = 0.9};
    const cadre_stop_conditions_t patience = {.metric = CADRE_METRIC_AUC, .patience = 5};
    cadre_training_watch_t watch = {0};
    cr_expect_not(cadre_training_watch_lacks(&watch, &target), "nothing was evaluated");
    cadre_training_watch_note(&watch, &target, NAN);
    cr_expect(cadre_training_watch_lacks(&watch, &target));
    cr_expect_not(cadre_training_watch_lacks(&watch, &patience), "patience says so itself");
    cadre_training_watch_note(&watch, &target, 0.5);
    cadre_training_watch_note(&watch, &target, NAN);
    cr_expect_not(cadre_training_watch_lacks(&watch, &target));
}

Test(training_stop, follows_the_direction_of_the_metric)
{
    cadre_stop_conditions_t by_accuracy = {.metric = CADRE_METRIC_ACCURACY, .patience = 1};
    cr_expect_eq(after(&by_accuracy, (double[]){0.5, 0.6, 0.7}, 3), CADRE_STOP_NOT);
    cr_expect_eq(after(&by_accuracy, (double[]){0.5, 0.5}, 2), CADRE_STOP_PATIENCE);
}

Test(training_stop, stops_at_its_target_and_not_before)
{
    cadre_stop_conditions_t high = {
        .metric = CADRE_METRIC_ACCURACY, .has_target = true, .target = 0.9};
    cadre_stop_conditions_t low = {.metric = CADRE_METRIC_LOSS, .has_target = true, .target = 0.1};
    cr_expect_eq(after(&high, (double[]){0.1, 0.89}, 2), CADRE_STOP_NOT);
    cr_expect_eq(after(&high, (double[]){0.1, 0.9}, 2), CADRE_STOP_TARGET);
    cr_expect_eq(after(&low, (double[]){0.5, 0.11}, 2), CADRE_STOP_NOT);
    cr_expect_eq(after(&low, (double[]){0.5, 0.1}, 2), CADRE_STOP_TARGET);
    cr_expect_eq(after(&low, (double[]){0.5, NAN}, 2), CADRE_STOP_NOT);
}

Test(training_stop, knows_the_best_state_and_when_that_was)
{
    cadre_training_watch_t watch = {0};
    cr_expect(cadre_training_watch_keep(&watch, CADRE_METRIC_LOSS, 0.5, 10));
    cr_expect_not(cadre_training_watch_keep(&watch, CADRE_METRIC_LOSS, 0.5, 20));
    cr_expect_not(cadre_training_watch_keep(&watch, CADRE_METRIC_LOSS, NAN, 30));
    cr_expect(cadre_training_watch_keep(&watch, CADRE_METRIC_LOSS, 0.4, 40));
    cr_expect(watch.kept_closures == 40);
}

Test(training_stop, remembers_every_bit_in_a_checkpoint)
{
    cadre_training_watch_t watch = {.has_latest = true,
                                    .latest = 0.1 + 0.2,
                                    .has_best = true,
                                    .best = 1.0 / 3,
                                    .without = 7,
                                    .has_kept = true,
                                    .kept = 2.0 / 3,
                                    .kept_closures = 450,
                                    .elapsed_ms = 61234};
    json_t *object = cadre_training_watch_encode(&watch);
    cadre_auto(cadre_free) char *text = json_dumps(object, JSON_REAL_PRECISION(17));
    json_t *read = json_loads(text, 0, NULL);
    cadre_training_watch_t found = {0};
    cr_assert_eq(cadre_training_watch_decode(read, &found), 0);
    cr_expect(found.has_latest && !(found.latest < watch.latest || found.latest > watch.latest));
    cr_expect(found.has_best && !(found.best < watch.best || found.best > watch.best));
    cr_expect(found.has_kept && !(found.kept < watch.kept || found.kept > watch.kept));
    cr_expect(found.without == 7 && found.kept_closures == 450 && found.elapsed_ms == 61234);
    json_decref(object);
    json_decref(read);
    cr_expect_null(cadre_training_watch_encode(&(cadre_training_watch_t){0}));
}

Test(training_stop, refuses_what_somebody_else_wrote)
{
    static const char *const texts[] = {"[]", "{\"more\": 1}", "{\"without\": -1}",
                                        "{\"best\": \"low\"}", "{\"elapsed_ms\": -5}"};
    for (size_t i = 0; i < CADRE_COUNT_OF(texts); i++) {
        cadre_training_watch_t watch;
        json_t *object = json_loads(texts[i], 0, NULL);
        cr_expect_eq(cadre_training_watch_decode(object, &watch), CADRE_EMALFORMED, "%s", texts[i]);
        json_decref(object);
    }
}
