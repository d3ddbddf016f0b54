/* `cadre` in surroundings that are not as they should be: descriptors, limits, signals, outputs,
 * /proc. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/sanitizer.h"
#include "tests/system/digits.h"
#include "tests/system/process.h"

TestSuite(run_surroundings, .timeout = 900);

/* Runs a line of shell in the scratch directory, with the programs in PATH and DIGITS, the
 * example's file, in the environment: its exit code, or minus the signal. What it writes goes to
 * `output` of the command. */
static int
shell(command_t *command, const char *line)
{
    cadre_auto(cadre_free) char *bin = program_path("");
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    cadre_auto(cadre_free) char *all = cadre_asprintf(
        "cd %s; PATH=%s:$PATH; DIGITS=%s; XDG_RUNTIME_DIR=$PWD; export XDG_RUNTIME_DIR; %s",
        command->scratch.path, bin, job, line);
    const char *arguments[] = {"/bin/bash", "-c", all, NULL};
    int end = 0;
    free(command->output);
    command->output = scratch_path(&command->scratch, "output");
    unlink(command->output);
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = command->output});
    cr_assert(process_wait(pid, COMMAND_WAIT_MS, &end), "%s", line);
    return WIFEXITED(end) ? WEXITSTATUS(end) : -WTERMSIG(end);
}

static bool
said(const command_t *command, const char *words)
{
    cadre_auto(cadre_free) char *output = command_output(command);
    return strstr(output, words) != NULL;
}

#define EXPECT_SHELL(command, line, wanted)                                                        \
    do {                                                                                           \
        int ended = shell(command, line);                                                          \
        cadre_auto(cadre_free) char *output = command_output(command);                             \
        cr_expect_eq(ended, wanted, "%s: %d, not %d: %s", line, ended, wanted, output);            \
    } while (0)

/* --- signals --- */

/* timeout(1) signals the child and then its group, within microseconds. */
Test(run_surroundings, two_signals_at_once_are_one_request_to_stop)
{
    digits_t digits;
    digits_open(&digits, 3000);
    digits_add(&digits, "--checkpoint-every", "0");
    digits_start(&digits);
    digits_wait_said(&digits, "epoch=2/");
    command_signal(&digits.command, SIGTERM);
    command_signal(&digits.command, SIGINT);
    command_signal(&digits.command, SIGTERM);
    int code = command_end(&digits.command);
    cr_expect(code == 143 || code == 130, "%d",
              code); /* they are read in the order of their numbers */
    json_t *result = command_result(&digits.command);
    cr_expect(json_string_value(json_object_get(result, "checkpoint")), "it took a checkpoint");
    json_decref(result);
    digits_close(&digits);
}

/* --- outputs --- */

Test(run_surroundings, output_that_cannot_be_written_ends_with_74)
{
    command_t command;
    command_open(&command);
    EXPECT_SHELL(&command, "cadre config show $DIGITS > /dev/full", 74);
    cr_expect(said(&command, "cannot write to stdout: No space left on device"));
    EXPECT_SHELL(&command, "cadre --help > /dev/full", 74);
    EXPECT_SHELL(&command, "cadre run --help > /dev/full", 74);
    EXPECT_SHELL(&command, "cadre-worker --help > /dev/full", 74);
    EXPECT_SHELL(&command, "cadre-ps --check --coordinator ipc://$PWD/c > /dev/full", 74);
    EXPECT_SHELL(
        &command,
        "cadre run $DIGITS --workers 1 --epochs 30 --checkpoint-dir none -o json > /dev/full", 74);
    EXPECT_SHELL(
        &command,
        "cadre run $DIGITS --workers 1 --epochs 30 --checkpoint-dir none --events /dev/full", 74);
    cr_expect(said(&command, "--events /dev/full: No space left on device"));
    EXPECT_SHELL(
        &command,
        "cadre run $DIGITS --workers 1 --epochs 30 --checkpoint-dir none --history /dev/full", 74);
    cr_expect(said(&command, "--history /dev/full: No space left on device"));
    EXPECT_SHELL(&command, "cadre run $DIGITS --events none/a.json", 73);
    cr_expect(said(&command, "none/a.json: No such file or directory"));
    EXPECT_SHELL(&command, "cadre run $DIGITS --history none/a.csv", 73);
    cr_expect(said(&command, "--history: none/a.csv: No such file or directory"));
    EXPECT_SHELL(&command, "cadre config show $DIGITS", 0);
    command_close(&command);
}

/* What stands in a file of events: objects, and nothing between them. */
static void
expect_events(const command_t *command, const char *name)
{
    cadre_auto(cadre_free) char *path = scratch_path(&command->scratch, name);
    cadre_auto(cadre_free) char *text = file_text(path);
    int lines = 0;
    for (char *line = text; *line; line += strlen(line) + 1, lines++) {
        cr_assert(strchr(line, '\n'), "%s", line);
        *strchr(line, '\n') = '\0';
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        cr_expect(json_object_get(object, "event"), "%s", line);
        json_decref(object);
    }
    cr_expect_gt(lines, 3);
}

Test(run_surroundings, descriptors_that_are_closed_do_not_become_files_of_the_run)
{
    command_t command;
    command_open(&command);
    EXPECT_SHELL(
        &command,
        "cadre run $DIGITS --workers 1 --epochs 30 --checkpoint-dir none --events a.json 2>&-", 0);
    expect_events(&command, "a.json");
    EXPECT_SHELL(&command,
                 "cadre run $DIGITS --workers 1 --epochs 30 --checkpoint-dir none -o json --events "
                 "b.json >&-",
                 0);
    expect_events(&command, "b.json");
    command_close(&command);
}

Test(run_surroundings, texts_of_others_reach_no_terminal_as_they_are)
{
    command_t command;
    command_open(&command);
    EXPECT_SHELL(&command,
                 "printf '{\"na\\\\u001b[31mme\": 1}' > bad.json; cadre config check bad.json", 78);
    EXPECT_SHELL(&command,
                 "printf '{\"name\\033]0;x\\007\": 1}' > bad.json; cadre config check bad.json",
                 78);
    EXPECT_SHELL(&command, "cadre config check $'no\\033[2Jfile.json'", 66);
    cr_expect_not(said(&command, "\033"));
    EXPECT_SHELL(
        &command,
        "CADRE_CLUSTER='{\"cluster\": {\"coordinator\": [\"\\u001b[31mhost\"]}}' cadre-ps --check",
        78);
    cr_expect_not(said(&command, "\033"));
    EXPECT_SHELL(&command, "cadre config check bad.json", 78);
    cr_expect_not(said(&command, "\033"));
    EXPECT_SHELL(&command,
                 "sed 's/\"name\": *\"digits\"/\"name\": \"digits\", \"checkpoint\": {\"dir\": "
                 "\"\\\\u001b[31m\"}/' "
                 "$DIGITS > job.json; cadre config show job.json; true",
                 0);
    cr_expect_not(said(&command, "\033"));
    command_close(&command);
}

/* --- limits --- */

Test(run_surroundings, a_small_stack_is_refused_in_words)
{
    command_t command;
    command_open(&command);
    EXPECT_SHELL(&command, "ulimit -s 64; exec cadre run $DIGITS", 78);
    cr_expect(said(&command, "ulimit -s 8192"));
    EXPECT_SHELL(&command, "ulimit -s 64; exec cadre-worker --coordinator 127.0.0.1:1", 78);
    EXPECT_SHELL(&command, "ulimit -s 64; exec cadre-ps --coordinator 127.0.0.1:1", 78);
    command_close(&command);
}

/* OpenBLAS that gets no memory asks again, for ever and without a word. */
Test(run_surroundings, a_small_address_space_is_refused_in_words)
{
    if (SANITIZER) {
        cr_skip_test("a sanitizer needs address space of its own");
    }
    command_t command;
    command_open(&command);
    EXPECT_SHELL(&command, "ulimit -v 600000; exec cadre run $DIGITS --checkpoint-dir none", 78);
    cr_expect(said(&command, "ulimit -v"));
    command_close(&command);
}

/* --- programs --- */

Test(run_surroundings, a_crash_of_the_users_program_is_its_own)
{
    command_t command;
    command_open(&command);
    EXPECT_SHELL(&command, "cadre run -- /bin/sh -c 'kill -SEGV $$'", 139);
    cr_expect(said(&command, "SIGSEGV"));
    cr_expect(said(&command, "a bug in it"));
    cr_expect_not(said(&command, "ours"));
    command_close(&command);
}

/* What lies in the current folder is started by nobody. */
Test(run_surroundings, without_proc_no_program_of_the_current_folder_is_run)
{
    if (SANITIZER) {
        cr_skip_test("a sanitizer needs /proc");
    }
    command_t command;
    command_open(&command);
    int code =
        shell(&command, "printf '#!/bin/sh\\ntouch planted\\n' > cadre-ps; chmod +x cadre-ps; "
                        "cp cadre-ps cadre-worker; "
                        "unshare -m true || exit 99; exec unshare -m bash -c "
                        "'mount -t tmpfs none /proc && cadre run '$DIGITS; ");
    if (code == 99) {
        command_close(&command);
        cr_skip_test("no mount namespaces here");
    }
    cr_expect_eq(code, 69);
    cr_expect(said(&command, "without /proc"));
    cadre_auto(cadre_free) char *planted = scratch_path(&command.scratch, "planted");
    cr_expect_neq(access(planted, F_OK), 0, "it was run");
    EXPECT_SHELL(
        &command,
        "exec unshare -m bash -c 'mount -t tmpfs none /proc && cadre ps --coordinator 127.0.0.1:1'",
        69);
    cr_expect_neq(access(planted, F_OK), 0, "it was run");
    command_close(&command);
}
