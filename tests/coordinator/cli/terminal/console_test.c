#include "coordinator/cli/terminal/console.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(console, .timeout = 240);

static const cadre_progress_t progress = {
    .epoch = 3,
    .epochs = 10,
    .step = 18204,
    .steps = 44400,
    .epoch_fraction = 0.41,
    .loss = 0.4127,
    .rows_per_second = 812345,
    .staleness_max = 3,
    .workers = 7,
    .workers_wanted = 8,
    .checkpoint_age_s = 42,
    .seconds_left = 190,
};

Test(console, shows_how_training_stands_in_one_bar)
{
    char text[CADRE_CONSOLE_LINE_SIZE];
    cr_assert_str_eq(cadre_progress_bar(&progress, 200, text),
                     "[########............]  epoch 3/10  41%  step 18204  loss 0.4127  812k ex/s"
                     "  stale max 3  workers 7/8  ckpt 42s ago  eta 3m10s");
    cr_assert_eq(strlen(cadre_progress_bar(&progress, 40, text)), 40);
}

Test(console, writes_key_and_value_without_a_terminal)
{
    char text[CADRE_CONSOLE_LINE_SIZE];
    cr_assert_str_eq(cadre_progress_line(&progress, false, text),
                     "epoch=3/10 progress=41% step=18204/44400 loss=0.4127 examples_per_s=812345 "
                     "stale_max=3 workers=7/8 checkpoint_age_s=42 eta_s=190");
}

Test(console, adds_the_evaluation_at_the_end_of_an_epoch)
{
    char text[CADRE_CONSOLE_LINE_SIZE];
    cadre_progress_t end = progress;
    cadre_metrics_set(&end.metrics, CADRE_METRIC_ACCURACY, 0.975);
    cadre_metrics_set(&end.metrics, CADRE_METRIC_LOSS, 0.1);
    cadre_metrics_set(&end.metrics, CADRE_METRIC_F1, 0.5);
    cr_assert(strstr(cadre_progress_line(&end, true, text),
                     "progress=100% step=18204/44400 loss=0.4127 test_accuracy=0.9750 "
                     "test_loss=0.1000 test_f1=0.5000 "));
    cadre_metrics_set(&end.metrics, CADRE_METRIC_ACCURACY, NAN); /* values have a loss alone */
    cr_assert(strstr(cadre_progress_line(&end, true, text), "loss=0.4127 test_loss=0.1000 "));
}

Test(console, leaves_out_what_is_not_known)
{
    char text[CADRE_CONSOLE_LINE_SIZE];
    cadre_progress_t start = {.epochs = 2, .loss = NAN, .checkpoint_age_s = -1, .seconds_left = -1};
    cr_assert_str_eq(cadre_progress_line(&start, false, text),
                     "epoch=0/2 progress=0% step=0/0 examples_per_s=0 stale_max=0 workers=0/0");
    cadre_progress_bar(&start, 200, text);
    cr_assert_not(strstr(text, "loss") || strstr(text, "eta") || strstr(text, "ckpt"));
}

Test(console, writes_durations_as_people_do)
{
    static const struct {
        double seconds;
        const char *text;
    } examples[] = {{0, "0s"},        {59.4, "59s"},   {60, "1m00s"},   {190, "3m10s"},
                    {3599, "59m59s"}, {3600, "1h00m"}, {7260, "2h01m"}, {-1, "0s"},
                    {INFINITY, "0s"}, {NAN, "0s"}};
    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        char text[24];
        cr_expect_str_eq(cadre_duration_text(examples[i].seconds, text), examples[i].text);
    }
}
