#include "coordinator/cli/train/loss_sample.h"

#include <criterion/criterion.h>
#include <math.h>

TestSuite(loss_sample, .timeout = 240);

Test(loss_sample, is_no_number_before_the_first_loss)
{
    cadre_loss_sample_t sample = {0};
    cadre_loss_sample_poll(&sample);
    cr_assert(isnan(cadre_loss_sample_mean(&sample)));
}

Test(loss_sample, is_the_mean_of_the_latest_losses_only)
{
    cadre_loss_sample_t sample = {0};
    cadre_loss_sample_put(&sample, 1);
    cadre_loss_sample_put(&sample, 2);
    cr_assert_float_eq(cadre_loss_sample_mean(&sample), 1.5, 0);
    for (int i = 0; i < CADRE_LOSS_SAMPLE_WINDOW - 2; i++) {
        cadre_loss_sample_put(&sample, 0);
    }
    cr_assert_float_eq(cadre_loss_sample_mean(&sample), 3.0 / CADRE_LOSS_SAMPLE_WINDOW, 1e-12);
    cadre_loss_sample_put(&sample, 0);
    cr_assert_float_eq(cadre_loss_sample_mean(&sample), 2.0 / CADRE_LOSS_SAMPLE_WINDOW, 1e-12);
}
