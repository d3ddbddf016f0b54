/* `cadre run` whose tasks are killed, that is stopped, and that is taken up again. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/sanitizer.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_failures, .timeout = 900);

enum { KILLS_MAX = 6 }; /* so that a slow build, whose workers take long to start, gets on */

static const char *const workers[] = {"worker/0", "worker/1"};

/* --- workers --- */

Test(run_failures, killed_workers_cost_time_and_nothing_else)
{
    digits_t plain;
    digits_t killed;
    digits_open(&plain, 150);
    digits_open(&killed, 150);
    digits_add(&killed, "--max-restarts", "10000");
    digits_start(&plain);
    json_t *undisturbed = digits_expect_finished(&plain);
    digits_start(&killed);
    int kills = digits_kill(&killed.command, workers, 2, KILLS_MAX, 400);
    json_t *result = digits_expect_finished(&killed);
    cr_expect_geq(kills, 2);
    /* One that is killed before it has joined is none that was lost. */
    cr_expect_geq(json_number_at(result, "failures.worker"), 1);
    cr_expect_float_eq(json_number_at(result, "accuracy"), json_number_at(undisturbed, "accuracy"),
                       DIGITS_TOLERANCE);
    json_decref(undisturbed);
    json_decref(result);
    digits_close(&killed);
    digits_close(&plain);
}

Test(run_failures, killed_workers_leave_adult_as_accurate)
{
    const char *data = getenv("CADRE_TEST_DATA");
    if (!data) {
        cr_skip_test("CADRE_TEST_DATA names no folder");
    }
    if (SANITIZER) {
        cr_skip_test("how accurate a model is does not depend on it");
    }
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *job = source_path("examples/adult.json");
    cadre_auto(cadre_free) char *place = cadre_asprintf("%s/adult", data);
    const char *arguments[] = {"run",
                               job,
                               "--data",
                               place,
                               "--checkpoint-dir",
                               command.checkpoints,
                               "-o",
                               "json",
                               "--max-restarts",
                               "unlimited",
                               NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    json_t *undisturbed = command_result(&command);
    command_start(&command, arguments);
    int kills = digits_kill(&command, workers, 2, KILLS_MAX, 150);
    command_expect_exit(&command, command_end(&command), 0);
    json_t *result = command_result(&command);
    cr_expect_geq(kills, 1);
    cr_expect_float_eq(json_number_at(result, "accuracy"), json_number_at(undisturbed, "accuracy"),
                       0.005);
    double closures = json_number_at(undisturbed, "closures.scheduled");
    digits_expect_number(result, "closures.finished", closures);
    digits_expect_number(result, "updates.0.applied", closures);
    json_decref(undisturbed);
    json_decref(result);
    command_close(&command);
}

Test(run_failures, a_worker_that_dies_too_often_ends_the_run)
{
    digits_t digits;
    digits_open(&digits, 100000);
    digits_add(&digits, "--max-restarts", "1");
    digits_add(&digits, "--workers", "1");
    digits_start_to_checkpoint(&digits, "0.2");
    int kills = digits_kill(&digits.command, workers, 1, KILLS_MAX, 100);
    cr_expect_geq(kills, 1);
    digits_expect_end(&digits, 69);
    digits_expect_said(&digits, "worker 0");
    digits_expect_said(&digits, "SIGKILL");
    digits_expect_checkpoints_intact(&digits);
    digits_close(&digits);
}

/* --- everything, a ps, and a stop --- */

Test(run_failures, everything_is_killed_and_resumed_with_the_same_totals)
{
    digits_t digits;
    digits_open(&digits, 120);
    digits_start_to_checkpoint(&digits, "0.1");
    command_signal(&digits.command, SIGKILL); /* its tasks die with it */
    cr_expect_eq(command_end(&digits.command), -SIGKILL, "it was in the middle");
    digits_expect_resumable(&digits);
    digits_close(&digits);
}

Test(run_failures, a_ps_that_may_not_be_started_again_ends_the_run_which_says_how_to_go_on)
{
    digits_t digits;
    digits_open(&digits, 120);
    digits_add(&digits, "--max-restarts", "0");
    digits_start_to_checkpoint(&digits, "0.1");
    command_signal_task(&digits.command, "ps", 1, SIGKILL);
    digits_expect_end(&digits, 69);
    digits_expect_said(&digits, "ps 1");
    digits_expect_next(&digits);
    json_t *result = command_result(&digits.command);
    json_t *updates = json_object_get(result, "updates");
    cr_expect_geq(json_number_at(result, "updates.0.applied"), 1);
    cr_expect(json_is_null(json_object_get(json_array_get(updates, 1), "applied")));
    json_decref(result);
    digits_expect_resumable(&digits);
    digits_close(&digits);
}

static void
stop_and_resume(int number, int code)
{
    digits_t digits;
    digits_open(&digits, 120);
    digits_start(&digits);
    digits_wait_said(&digits, "epoch=2/");
    command_signal(&digits.command, number);
    digits_expect_end(&digits, code);
    digits_expect_said(&digits, "stopping after a checkpoint; ");
    json_t *result = command_result(&digits.command);
    cr_expect(json_string_value(json_object_get(result, "checkpoint")), "it took a checkpoint");
    json_decref(result);
    digits_expect_resumable(&digits);
    digits_close(&digits);
}

Test(run_failures, ctrl_c_stops_after_a_checkpoint_that_can_be_resumed)
{
    stop_and_resume(SIGINT, 130);
}

Test(run_failures, ctrl_c_stops_without_a_checkpoint_where_none_are_taken)
{
    digits_t digits;
    digits_open(&digits, 2000);
    digits_add(&digits, "--checkpoint-dir", "none");
    digits_start(&digits);
    digits_wait_said(&digits, "epoch=2/");
    command_signal(&digits.command, SIGINT);
    digits_expect_end(&digits, 130);
    digits_expect_said(&digits, "stopping without a checkpoint; Ctrl-C again kills");
    digits_close(&digits);
}

Test(run_failures, sigterm_stops_after_a_checkpoint_that_can_be_resumed)
{
    stop_and_resume(SIGTERM, 143);
}

Test(run_failures, a_resume_may_use_another_number_of_ps_and_workers)
{
    digits_t digits;
    digits_open(&digits, 60);
    digits_start_to_checkpoint(&digits, "0.1");
    command_signal(&digits.command, SIGINT);
    int code = command_end(&digits.command);
    cr_assert(code == 130 || code == 0, "exit %d", code);
    digits_add(&digits, "--ps", "3");
    digits_add(&digits, "--workers", "1");
    digits_add(&digits, "--resume", "auto");
    digits_start(&digits);
    digits_expect_end(&digits, 0);
    json_t *result = command_result(&digits.command);
    cr_expect_geq(json_number_at(result, "accuracy"), 0.96);
    cr_expect_eq(json_number_at(result, "closures.finished"), digits.epochs * DIGITS_CLOSURES);
    cr_expect_geq(json_number_at(result, "updates.2.shard"), 2);
    json_decref(result);
    digits_close(&digits);
}

Test(run_failures, a_resume_is_told_whose_checkpoint_it_is_and_that_nothing_is_left_to_do)
{
    digits_t digits;
    digits_open(&digits, 30);
    digits_start(&digits);
    json_decref(digits_expect_finished(&digits));
    setenv("CADRE_JOB", "other", 1);
    digits_expect_resumed(&digits);
    digits_expect_said(&digits, "warning: resumed_other_job");
    digits_expect_said(&digits, "job=digits");
    digits_expect_said(&digits, "has ended: all 30 epochs are done, it is only evaluated");
    digits_close(&digits);
}

/* --- checkpoints on disk --- */

static char *
shard_file(const command_t *command)
{
    cadre_auto(cadre_free) char *listing = scratch_path(&command->scratch, "listing");
    const char *arguments[] = {
        "/usr/bin/find", command->checkpoints, "-name", "*shard*", "-type", "f", NULL};
    int end = 0;
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = listing});
    cr_assert(process_wait(pid, COMMAND_WAIT_MS, &end));
    char *text = file_text(listing);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* The newest checkpoint becomes files for NumPy, of which none is overwritten. */
static void
expect_export(command_t *command)
{
    cadre_auto(cadre_free) char *to = scratch_path(&command->scratch, "exported");
    cadre_auto(cadre_free) char *weights = cadre_asprintf("%s/w1.npy", to);
    const char *export[] = {"checkpoint", "export",  command->checkpoints, "--to", to,  "-o",
                            "json",       "--slots", "--checkpoint",       "1",    NULL};
    export[7] = NULL; /* without slots, of the newest */
    command_expect_exit(command, command_run(command, export), 0);
    json_t *exported = command_result(command);
    cr_expect_eq(json_array_size(json_object_get(exported, "files")), 4, "two layers");
    json_decref(exported);
    struct stat about;
    cr_assert_eq(stat(weights, &about), 0);
    cr_expect_eq(about.st_size, 128 + 64 * 128 * 4);
    command_expect_exit(command, command_run(command, export), 77);
    export[4] = command->scratch.path;
    export[7] = "--slots";
    export[8] = NULL;
    command_expect_exit(command, command_run(command, export), 0);
    exported = command_result(command);
    cr_expect_eq(json_array_size(json_object_get(exported, "files")), 12, "adam keeps two of each");
    json_decref(exported);
    export[8] = "--checkpoint";
    export[9] = "999";
    command_expect_exit(command, command_run(command, export), 66);
}

/* The variables of the newest checkpoint are listed, and of one that is named. */
static void
expect_variables(command_t *command)
{
    const char *list[] = {"checkpoint", "variables", command->checkpoints, "-o", "json", NULL};
    command_expect_exit(command, command_run(command, list), 0);
    json_t *listed = command_result(command);
    cr_expect_eq(json_array_size(json_object_get(listed, "variables")), 4, "two layers");
    cr_expect_eq(json_number_at(listed, "variables.0.shape.0"), 64);
    cr_expect_eq(json_number_at(listed, "variables.0.shape.1"), 128);
    json_decref(listed);
    list[3] = NULL;
    command_expect_exit(command, command_run(command, list), 0);
    cadre_auto(cadre_free) char *text = command_output(command);
    cr_expect(strstr(text, " f32 [64,128], 1 partition\n"), "%s", text);
    cr_expect(strncmp(text, "ckpt-", 5) == 0, "it names the checkpoint: %s", text);
    list[3] = "--checkpoint";
    list[4] = "999";
    command_expect_exit(command, command_run(command, list), 66);
    list[1] = "list";
    command_expect_exit(command, command_run(command, list), 2);
}

Test(run_failures, a_listing_of_variables_says_which_checkpoint_it_is_of_where_a_newer_is_damaged)
{
    digits_t digits;
    digits_open(&digits, 1);
    digits_start(&digits);
    command_end(&digits.command);
    cadre_auto(cadre_free) char *shard = shard_file(&digits.command);
    cadre_auto(cadre_free) char *sound =
        cadre_strndup(shard, (size_t)(strrchr(shard, '/') - shard));
    cadre_auto(cadre_free) char *newer =
        cadre_asprintf("%s/ckpt-00000999", digits.command.checkpoints);
    const char *copy[] = {"/bin/cp", "-r", sound, newer, NULL};
    int end = 0;
    pid_t pid = process_start(&(process_t){.arguments = copy});
    cr_assert(process_wait(pid, COMMAND_WAIT_MS, &end));
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s%s", newer, strrchr(shard, '/'));
    cr_assert_eq(truncate(path, 100), 0, "%s", path);

    const char *list[] = {"checkpoint", "variables", digits.command.checkpoints, NULL};
    command_expect_exit(&digits.command, command_run(&digits.command, list), 0);
    cadre_auto(cadre_free) char *errors = command_errors(&digits.command);
    cr_expect(strstr(errors, "warning: the newest checkpoint is damaged, ckpt-00000999: "), "%s",
              errors);
    cadre_auto(cadre_free) char *text = command_output(&digits.command);
    cr_expect(strncmp(text, strrchr(sound, '/') + 1, strlen("ckpt-00000001")) == 0, "%s", text);
    digits_close(&digits);
}

Test(run_failures, checkpoints_are_listed_and_damage_is_found)
{
    digits_t digits;
    digits_open(&digits, 2);
    digits_start(&digits);
    command_end(&digits.command); /* 1: two epochs are not enough for the target */
    const char *list[] = {"checkpoint", "list", digits.command.checkpoints, "-o", "json", NULL};
    const char *verify[] = {"checkpoint", "verify", digits.command.checkpoints, NULL};
    command_expect_exit(&digits.command, command_run(&digits.command, list), 0);
    json_t *listed = command_result(&digits.command);
    cr_expect_eq(json_number_at(listed, "checkpoints.0.cut"), 2 * DIGITS_CLOSURES + 1);
    cr_expect_eq(json_number_at(listed, "checkpoints.0.shards"), 2);
    json_decref(listed);
    command_expect_exit(&digits.command, command_run(&digits.command, verify), 0);
    expect_variables(&digits.command);
    expect_export(&digits.command);
    cadre_auto(cadre_free) char *path = shard_file(&digits.command);
    FILE *file = fopen(path, "r+e");
    cr_assert(file, "%s", path);
    fseek(file, 20000, SEEK_SET);
    fputc('~', file);
    fclose(file);
    command_expect_exit(&digits.command, command_run(&digits.command, verify), 65);
    cr_assert_eq(unlink(path), 0);
    command_expect_exit(&digits.command, command_run(&digits.command, verify), 65);
    cadre_auto(cadre_free) char *to = scratch_path(&digits.command.scratch, "damaged");
    const char *export[] = {"checkpoint", "export", digits.command.checkpoints, "--to", to, NULL,
                            "1",          NULL};
    command_expect_exit(&digits.command, command_run(&digits.command, export), 65);
    export[5] = "--checkpoint";
    command_expect_exit(&digits.command, command_run(&digits.command, export), 65);
    const char *nowhere[] = {"checkpoint", "list", "/nowhere/at/all", NULL};
    command_expect_exit(&digits.command, command_run(&digits.command, nowhere), 66);
    digits_close(&digits);
}
