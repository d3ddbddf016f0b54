#include "coordinator/cli/setting_flags.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/commands.h"
#include "coordinator/cli/terminal/exit_code.h"

TestSuite(setting_flags, .timeout = 240);

#define OPTIONS  "cadre_coordinator_options_t."
#define TRAINING "cadre_training_options_t."

/* The flags that `cadre run` refuses beside a program, and what a program has in their place. */
static const struct {
    const char *flag;
    const char *value;
    const char *instead;
} job_only[] = {
    {"--recovery", "rollback", OPTIONS "recovery"},
    {"--ps-timeout", "5", OPTIONS "ps_timeout_ms"},
    {"--closure-deadline", "5", OPTIONS "closure_deadline_ms"},
    {"--backup-attempts", "1", OPTIONS "backup_attempts"},
    {"--client-closures", "true", OPTIONS "client_closures"},
    {"--epochs", "3", TRAINING "epochs"},
    {"--batch-size", "8", TRAINING "batch_size"},
    {"--local-steps", "2", "cadre_op_inner_step"},
    {"--history", "h.csv", TRAINING "hook"},
    {"--consistency", "sync", OPTIONS "consistency"},
    {"--step-closures", "4", OPTIONS "step_closures"},
    {"--staleness-bound", "4", OPTIONS "staleness_bound"},
    {"--delay-compensation", "2", "cadre_variable_options_t.delay_compensation"},
    {"--stop-steps", "9", TRAINING "stop_steps"},
    {"--stop-seconds", "9", TRAINING "stop_ms"},
    {"--seed", "7", OPTIONS "seed"},
    {"--checkpoint-dir", "checkpoints", OPTIONS "checkpoint_dir"},
    {"--checkpoint-every", "5", OPTIONS "checkpoint_every_ms"},
    {"--checkpoint-every-steps", "5", OPTIONS "checkpoint_every_steps"},
    {"--checkpoint-every-epochs", "5", TRAINING "checkpoint_every_epochs"},
    {"--resume", "auto", OPTIONS "resume"},
    {"--wait", "5", "cadre_coordinator_wait_ready"},
    {"--http", "0", OPTIONS "http"},
    {"--log-level", "info", OPTIONS "log"},
    {"--output", "json", "prints its result itself"},
};

static bool
is_refused(const char *flag)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(job_only); i++) {
        if (strcmp(job_only[i].flag + strlen("--"), flag) == 0) {
            return true;
        }
    }
    return false;
}

/* A program would run as if they had not been given. */
Test(setting_flags, that_only_a_job_has_a_use_for_are_refused_with_a_program,
     .init = cr_redirect_stderr)
{
    for (size_t i = 0; i < CADRE_COUNT_OF(job_only); i++) {
        char *arguments[] = {
            "cadre",           "run", (char *)job_only[i].flag, (char *)job_only[i].value, "--",
            "/nowhere/at/all", NULL};
        cr_expect_eq(cadre_command(6, arguments), CADRE_EXIT_USAGE, "%s", job_only[i].flag);
        cadre_auto(cadre_free) char *begin =
            cadre_asprintf("%s is for a job file: a program ", job_only[i].flag);
        cr_expect(strncmp(cadre_error_text(), begin, strlen(begin)) == 0, "%s", cadre_error_text());
        cr_expect(strstr(cadre_error_text(), job_only[i].instead), "%s: %s", job_only[i].flag,
                  cadre_error_text());
    }
}

/* Whoever adds a flag says which of both it is. */
Test(setting_flags, are_all_either_for_tasks_or_refused_with_a_program)
{
    static const char *const of_tasks[] = {
        "strategy", "tasks", "ps",    "workers",      "slots", "ps-lanes",  "threads",
        "device",   "math",  "trace", "max-restarts", "data",  "row-cache", "shard-timeout"};
    size_t count = 0;
    const cadre_setting_flag_t *flags = cadre_setting_flags(&count);
    for (size_t i = 0; i < count; i++) {
        bool is_of_tasks = false;
        for (size_t k = 0; k < CADRE_COUNT_OF(of_tasks); k++) {
            is_of_tasks = is_of_tasks || strcmp(of_tasks[k], flags[i].flag) == 0;
        }
        cr_expect_eq(is_of_tasks, !flags[i].in_program, "%s", flags[i].flag);
        cr_expect_neq(is_of_tasks, is_refused(flags[i].flag), "%s", flags[i].flag);
    }
}

/* What a command line with flags means can be seen without running it. */
Test(setting_flags, of_a_run_are_those_of_config_too, .init = cr_redirect_stdout)
{
    cadre_auto(cadre_free) char *job =
        cadre_asprintf("%s/examples/digits.json", getenv("CADRE_SOURCE_DIR"));
    char *arguments[] = {"cadre",
                         "config",
                         "show",
                         "--origin",
                         "--consistency",
                         "sync",
                         "--ps",
                         "3",
                         "--stop-steps",
                         "9",
                         "--stop-seconds",
                         "1.5",
                         "--checkpoint-every-steps",
                         "100",
                         "--checkpoint-every-epochs",
                         "2",
                         job,
                         NULL};
    cr_assert_eq(cadre_command((int)CADRE_COUNT_OF(arguments) - 1, arguments), 0, "%s",
                 cadre_error_text());
    fflush(stdout);
    char text[32768];
    const size_t length = fread(text, 1, sizeof(text) - 1, cr_get_redirected_stdout());
    text[length] = '\0';
    static const char *const lines[][3] = {
        {"training.consistency", "sync", "flag"},
        {"cluster.ps", "3", "flag"},
        {"training.stop.steps", "9", "flag"},
        {"training.stop.seconds", "1.5", "flag"},
        {"checkpoint.every_steps", "100", "flag"},
        {"checkpoint.every_epochs", "2", "flag"},
        {"training.epochs", "40", "file"},
        {"training.stop.at_least", "none", "default"},
        {"training.stop.at_most", "none", "default"},
        {"training.history", "none", "default"},
        {"model.layers", "none", "default"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(lines); i++) {
        cadre_auto(cadre_free) char *line =
            cadre_asprintf("%-32s %-32s # %s\n", lines[i][0], lines[i][1], lines[i][2]);
        cr_expect(strstr(text, line), "%s is not in:\n%s", line, text);
    }
}

Test(setting_flags, of_config_are_written_out, .init = cr_redirect_stderr)
{
    char *arguments[] = {"cadre", "config", "show", "--strat", "local", "j.json", NULL};
    cr_expect_eq(cadre_command(6, arguments), CADRE_EXIT_USAGE);
    cr_expect_str_eq(cadre_error_text(), "cadre config has no flag --strat");
}
