/* `cadre run` with a worker more that lacks what the work needs: the job goes on with the others,
 * and says why. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/copy_file.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_admission, .timeout = 900);

/* What stands behind `key` in a text, up to the next space; freed by the caller. */
static char *
word_after(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    cr_assert(at, "%s is missing: %s", key, text);
    at += strlen(key);
    return cadre_strndup(at, strcspn(at, " \n"));
}

static pid_t
start_stranger(const digits_t *digits, const char *log)
{
    cadre_auto(cadre_free) char *worker = program_path("cadre-worker");
    cadre_auto(cadre_free) char *errors = command_errors(&digits->command);
    cadre_auto(cadre_free) char *coordinator = word_after(errors, "coordinator=");
    const char *arguments[] = {worker, "--index", "2", "--coordinator", coordinator, NULL};
    return process_start(&(process_t){.arguments = arguments, .output = log});
}

Test(run_admission, a_worker_without_the_data_leaves_them_to_the_others)
{
    digits_t digits;
    int end = 0;
    digits_open(&digits, 9000);
    digits_add(&digits, "--checkpoint-every", "1");
    cadre_auto(cadre_free) char *data = scratch_path(&digits.command.scratch, "data");
    cadre_auto(cadre_free) char *rows = cadre_asprintf("%s/digits.csv.gz", data);
    cadre_auto(cadre_free) char *example = source_path("examples/data/digits.csv.gz");
    cr_assert_eq(mkdir(data, 0700), 0);
    copy_file(example, rows);
    digits_add(&digits, "--data", digits.command.scratch.path);
    digits_start(&digits);
    digits_wait_said(&digits, "epoch=2/");
    cr_assert_eq(unlink(rows), 0, "who has read them keeps them; the stranger finds none");
    cadre_auto(cadre_free) char *log = scratch_path(&digits.command.scratch, "stranger.log");
    pid_t stranger = start_stranger(&digits, log);
    digits_wait_said(&digits, "not_admitted worker=2");
    digits_expect_said(&digits, "to=\"dataset train\" why=\"it cannot open the data: ");
    digits_expect_said(&digits, "next=\"it gets no closures that need it\"");
    long last = command_wait_checkpoint_after(&digits.command, 0);
    cr_expect_gt(command_wait_checkpoint_after(&digits.command, last), last, "it goes on");
    command_signal(&digits.command, SIGINT);
    digits_expect_end(&digits, 130);
    json_t *result = command_result(&digits.command);
    digits_expect_number(result, "failures.worker", 0);
    /* What is queued at the cut of the last checkpoint may not have begun when the run ends. */
    double scheduled = json_number_at(result, "closures.scheduled");
    cr_expect_leq(json_number_at(result, "closures.attempts"), scheduled, "none ran twice");
    cr_expect_leq(scheduled - json_number_at(result, "closures.finished"), DIGITS_CLOSURES);
    json_decref(result);
    cr_expect(process_wait(stranger, COMMAND_WAIT_MS, &end));
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0, "it left with the job");
    cadre_auto(cadre_free) char *words = file_text(log);
    cr_expect(strstr(words, "dataset_refused"), "%s", words);
    digits_close(&digits);
}

/* A program may end before a worker has joined: it is run until that one says what it lacks. */
static const char *const script =
    "coordinator=$(echo \"$CADRE_CLUSTER\" | sed "
    "'s/.*\"coordinator\":\\[\"\\([^\"]*\\)\".*/\\1/')\n"
    "env -u CADRE_CLUSTER \"$2\" --index 2 --coordinator \"$coordinator\" --on-session-end wait "
    ">\"$3\" 2>&1 &\n"
    "worker=$!\n"
    "until grep -q function_missing \"$3\"; do\n"
    "    kill -0 $worker && \"$1\" || exit 9\n"
    "done\n"
    "\"$1\" || exit 9\n"
    "kill $worker\n"
    "wait $worker\n"
    "[ $? = 143 ]\n";

Test(run_admission, a_worker_without_a_native_function_leaves_it_to_the_others)
{
    command_t command;
    command_open(&command);
    cadre_auto(cadre_free) char *native = program_path("examples/count_native.so");
    cadre_auto(cadre_free) char *program = program_path("examples/count");
    cadre_auto(cadre_free) char *worker = program_path("cadre-worker");
    cadre_auto(cadre_free) char *log = scratch_path(&command.scratch, "stranger.log");
    const char *arguments[] = {"run",  "--native", native,  "--",   "/bin/sh", "-c",
                               script, "sh",       program, worker, log,       NULL};
    command_expect_exit(&command, command_run(&command, arguments), 0);
    cadre_auto(cadre_free) char *output = command_output(&command);
    for (const char *line = output; *line; line += strlen("10000\n")) {
        cr_assert(strncmp(line, "10000\n", strlen("10000\n")) == 0, "%s", output);
    }
    cadre_auto(cadre_free) char *said = file_text(log);
    cr_expect(strstr(said, "add_one"), "%s", said);
    command_close(&command);
}
