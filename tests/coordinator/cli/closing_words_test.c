#include "coordinator/cli/closing_words.h"

#include <criterion/criterion.h>
#include <signal.h>

#include "coordinator/cli/exit_code.h"

TestSuite(closing_words, .timeout = 10);

static int
code(int trainer_status, bool target_missed, int stop_signal)
{
    cadre_trainer_outcome_t outcome = {.status = trainer_status, .target_missed = target_missed};
    cadre_closing_t closing = {.outcome = &outcome, .stop_signal = stop_signal};
    return cadre_closing_code(&closing);
}

Test(closing_words, ends_with_the_code_of_what_happened)
{
    cr_expect_eq(code(0, false, 0), 0);
    cr_expect_eq(code(0, true, 0), CADRE_EXIT_FAILED);
    cr_expect_eq(code(CADRE_EDATA, false, 0), CADRE_EXIT_DATA);
    cr_expect_eq(code(CADRE_EINTERRUPTED, false, SIGINT), CADRE_EXIT_INTERRUPTED);
    cr_expect_eq(code(CADRE_EINTERRUPTED, false, SIGTERM), CADRE_EXIT_TERMINATED);
}

Test(closing_words, is_not_a_clean_stop_when_the_checkpoint_failed)
{
    cr_expect_eq(code(CADRE_EIO, false, SIGINT), CADRE_EXIT_IO);
}

Test(closing_words, succeeds_when_the_signal_came_too_late)
{
    cr_expect_eq(code(0, false, SIGINT), 0);
}

Test(closing_words, puts_the_loss_of_a_task_first)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_EINTERRUPTED, .aborted = true};
    cadre_closing_t closing = {
        .outcome = &outcome, .ended = true, .exit_code = CADRE_EXIT_UNAVAILABLE, .reason = "x"};
    cr_expect_eq(cadre_closing_code(&closing), CADRE_EXIT_UNAVAILABLE);
}

Test(closing_words, passes_on_the_code_of_a_program)
{
    cadre_closing_t closing = {.ended = true, .exit_code = 7, .reason = "", .stop_signal = SIGINT};
    cr_expect_eq(cadre_closing_code(&closing), 7);
}
