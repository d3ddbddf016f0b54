#include "coordinator/cli/launch/run_summary.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <signal.h>

#include "common/base/memory.h"
#include "coordinator/cli/terminal/exit_code.h"

TestSuite(run_summary, .timeout = 240);

static int
code(int trainer_status, bool target_missed, int stop_signal)
{
    cadre_trainer_outcome_t outcome = {.status = trainer_status, .target_missed = target_missed};
    cadre_run_summary_t summary = {.outcome = &outcome, .stop_signal = stop_signal};
    return cadre_run_summary_code(&summary);
}

Test(run_summary, ends_with_the_code_of_what_happened)
{
    cr_expect_eq(code(0, false, 0), 0);
    cr_expect_eq(code(0, true, 0), CADRE_EXIT_FAILED);
    cr_expect_eq(code(CADRE_EDATA, false, 0), CADRE_EXIT_DATA);
    cr_expect_eq(code(CADRE_EINTERRUPTED, false, SIGINT), CADRE_EXIT_INTERRUPTED);
    cr_expect_eq(code(CADRE_EINTERRUPTED, false, SIGTERM), CADRE_EXIT_TERMINATED);
}

Test(run_summary, is_not_a_clean_stop_when_the_checkpoint_failed)
{
    cr_expect_eq(code(CADRE_EIO, false, SIGINT), CADRE_EXIT_IO);
}

Test(run_summary, succeeds_when_the_signal_came_too_late)
{
    cr_expect_eq(code(0, false, SIGINT), 0);
}

Test(run_summary, puts_the_loss_of_a_task_first)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_EINTERRUPTED, .aborted = true};
    cadre_run_summary_t summary = {
        .outcome = &outcome, .ended = true, .exit_code = CADRE_EXIT_UNAVAILABLE, .reason = "x"};
    cr_expect_eq(cadre_run_summary_code(&summary), CADRE_EXIT_UNAVAILABLE);
}

Test(run_summary, passes_on_the_code_of_a_program)
{
    cadre_run_summary_t summary = {
        .ended = true, .exit_code = 7, .reason = "", .stop_signal = SIGINT};
    cr_expect_eq(cadre_run_summary_code(&summary), 7);
}

static char *const typed[] = {(char *)"cadre", (char *)"run", (char *)"j.json", NULL};

static const char *resumed = "/x/ckpt-7";

/* What a run of j.json that ended so says on stderr. */
static void
expect_words(cadre_run_summary_t *summary, const char *words)
{
    cadre_job_t job = {.file = (char *)"j.json",
                       .resume = (char *)resumed,
                       .checkpoint_dir = (char *)"c",
                       .epochs = 10,
                       .target_accuracy = 1};
    cadre_console_t console = {0};
    cadre_events_t events = {0};
    summary->job = &job;
    summary->command = typed;
    summary->json = true;
    cadre_run_summary_print(summary, &console, &events);
    cr_assert_stderr_eq_str(words);
}

Test(run_summary, end_with_the_command_that_resumes, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {
        .status = CADRE_EINTERRUPTED, .saved = true, .result = {.checkpoint = (char *)"c/ckpt-1"}};
    cadre_run_summary_t summary = {.outcome = &outcome, .stop_signal = SIGINT};
    expect_words(&summary, "checkpoint: c/ckpt-1\ncadre: stopped after a checkpoint\n"
                           "next: cadre run j.json --resume auto\n");
}

Test(run_summary, say_what_is_left_when_a_ps_is_lost, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_EINTERRUPTED,
                                       .result = {.checkpoint = (char *)"c/ckpt-1"}};
    cadre_run_summary_t summary = {.outcome = &outcome,
                                   .ended = true,
                                   .exit_code = CADRE_EXIT_UNAVAILABLE,
                                   .reason = "ps 0 was killed by SIGKILL"};
    expect_words(&summary, "checkpoint: c/ckpt-1\n"
                           "cadre: ps 0 was killed by SIGKILL; the checkpoint is intact\n"
                           "next: cadre run j.json --resume auto\n");
}

Test(run_summary, offer_an_older_checkpoint_when_the_newest_is_damaged, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_ECORRUPT,
                                       .text = "ps 0 cannot begin: c/ckpt-1/shard-0.mdb: the hash",
                                       .result = {.checkpoint = (char *)"c/ckpt-1"}};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "checkpoint: c/ckpt-1\n"
                           "cadre: ps 0 cannot begin: c/ckpt-1/shard-0.mdb: the hash "
                           "(stored bytes are damaged)\n"
                           "next: cadre run j.json --resume auto\n");
}

Test(run_summary, offer_more_epochs_when_the_target_was_missed, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.target_missed = true, .result = {.accuracy = 0.5}};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "cadre: accuracy 50.00 % is below the target of 100.00 %\n"
                           "next: cadre run j.json --epochs 20 --resume auto\n");
}

Test(run_summary, ask_for_the_folder_of_missing_data, .init = cr_redirect_stderr)
{
    cadre_run_summary_t summary = {.status = CADRE_ENOTFOUND, .text = "/d/a.csv: No such file"};
    expect_words(&summary, "cadre: /d/a.csv: No such file\nnext: cadre run j.json --data DIR\n");
}

Test(run_summary, offer_the_newest_checkpoint_for_a_missing_one, .init = cr_redirect_stderr)
{
    cadre_run_summary_t summary = {.status = CADRE_ENOTFOUND, .text = "/x/ckpt-7: No such file"};
    expect_words(&summary,
                 "cadre: /x/ckpt-7: No such file\nnext: cadre run j.json --resume auto\n");
}

Test(run_summary, know_a_missing_checkpoint_by_a_name_without_folder, .init = cr_redirect_stderr)
{
    cadre_run_summary_t summary = {.status = CADRE_ENOTFOUND, .text = "ckpt-7: No such file"};
    resumed = "ckpt-7";
    expect_words(&summary, "cadre: ckpt-7: No such file\nnext: cadre run j.json --resume auto\n");
}

Test(run_summary, offer_a_fresh_start_when_the_checkpoint_is_of_another_model,
     .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_ESHAPE, .text = "variable w1"};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "cadre: variable w1 (shapes do not agree)\n"
                           "next: cadre run j.json --resume never\n");
}

Test(run_summary, offer_to_pass_over_a_bad_line, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_EDATA,
                                       .text = "dataset train: bad line: a.csv:3: no number"};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "cadre: dataset train: bad line: a.csv:3: no number (bad input data)\n"
                           "hint: mend the line, or let some be skipped: \"skip_bad\" in "
                           "data.train\n");
}

Test(run_summary, name_the_rows_that_the_bad_line_is_of, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {
        .status = CADRE_EDATA, .text = "dataset test: more than 2 bad lines: a.csv:3: no number"};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary,
                 "cadre: dataset test: more than 2 bad lines: a.csv:3: no number (bad input "
                 "data)\n"
                 "hint: mend the line, or let some be skipped: \"skip_bad\" in "
                 "data.test\n");
}

Test(run_summary, do_not_offer_it_for_what_is_no_bad_line, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_EDATA,
                                       .text = "dataset train: a.csv:1: two columns 'x'"};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "cadre: dataset train: a.csv:1: two columns 'x' (bad input data)\n");
}

Test(run_summary, do_not_resume_what_has_other_data, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_ECONFIG,
                                       .text = "c/ckpt-1 was taken at row 9: or --resume never",
                                       .result = {.checkpoint = (char *)"c/ckpt-1"}};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "checkpoint: c/ckpt-1\n"
                           "cadre: c/ckpt-1 was taken at row 9: or --resume never (bad "
                           "configuration)\n"
                           "next: cadre run j.json --resume never\n");
}

Test(run_summary, go_on_when_a_file_that_was_there_is_back, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_ENOTFOUND,
                                       .text = "day_5.tsv: No such file",
                                       .result = {.checkpoint = (char *)"c/ckpt-1", .seconds = 2}};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "checkpoint: c/ckpt-1\n"
                           "cadre: day_5.tsv: No such file (not found)\n"
                           "next: cadre run j.json --resume auto\n");
}

Test(run_summary, leave_to_a_full_table_what_to_do, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = CADRE_EFULL, .text = "raise rows_max"};
    cadre_run_summary_t summary = {.outcome = &outcome};
    expect_words(&summary, "cadre: raise rows_max (a limit is reached)\n");
}

Test(run_summary, name_no_checkpoint_where_none_are_taken, .init = cr_redirect_stderr)
{
    cadre_trainer_outcome_t outcome = {.status = 0};
    cadre_job_t job = {.file = (char *)"j.json", .checkpoint_dir = (char *)"none", .epochs = 10};
    cadre_run_summary_t summary = {
        .job = &job, .outcome = &outcome, .command = typed, .json = true};
    cadre_console_t console = {0};
    cadre_events_t events = {0};
    cadre_run_summary_print(&summary, &console, &events);
    cr_assert_stderr_eq_str("next: cadre run j.json --epochs 20\n");
}
