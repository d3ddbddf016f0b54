#include "coordinator/cli/commands.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/cli/terminal/exit_code.h"

TestSuite(commands, .timeout = 240);

enum { ARGUMENTS_MAX = 8 };

static int
command(const char *line)
{
    static char words[256];
    char *arguments[ARGUMENTS_MAX + 1] = {0};
    int count = 0;
    snprintf(words, sizeof(words), "%s", line);
    for (char *word = words; *word && count < ARGUMENTS_MAX; count++) {
        arguments[count] = word;
        word += strcspn(word, " ");
        if (*word) {
            *word++ = '\0';
        }
    }
    return cadre_command(count, arguments);
}

Test(commands, suggest_the_verb_that_was_meant, .init = cr_redirect_stderr)
{
    cr_assert_eq(command("cadre trian j.json"), CADRE_EXIT_USAGE);
    cr_assert_stderr_eq_str("cadre: there is no verb \"trian\"; did you mean \"train\"?\n"
                            "next: cadre --help\n");
}

Test(commands, list_the_verbs, .init = cr_redirect_stdout)
{
    cr_assert_eq(command("cadre --help"), 0);
    fflush(stdout);
    FILE *file = cr_get_redirected_stdout();
    char text[4096];
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    static const char *const wanted[] = {"run",        "train",  "worker", "evaluate",
                                         "checkpoint", "keygen", "130"};
    for (size_t i = 0; i < CADRE_COUNT_OF(wanted); i++) {
        cr_expect(strstr(text, wanted[i]), "%s", wanted[i]);
    }
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        cr_expect_leq(strcspn(line, "\n"), 100, "%s", line);
    }
}

Test(commands, without_a_verb_are_wrong_usage, .init = cr_redirect_stderr)
{
    cr_assert_eq(command("cadre"), CADRE_EXIT_USAGE);
}

Test(commands, without_a_job_file_end_with_usage, .init = cr_redirect_stderr,
     .exit_code = CADRE_EXIT_USAGE)
{
    command("cadre run --epochs 3");
}

Test(commands, with_a_flag_that_does_not_exist_end_with_usage, .init = cr_redirect_stderr)
{
    cr_assert_eq(command("cadre train j.json --ps 3"), CADRE_EXIT_USAGE);
    cr_assert_stderr_eq_str("cadre: cadre train has no flag --ps\n");
}

Test(commands, want_flags_written_out, .init = cr_redirect_stderr)
{
    cr_assert_eq(command("cadre run j.json --data --ps --epoch 3"), CADRE_EXIT_USAGE);
    cr_assert_stderr_eq_str("cadre: cadre run has no flag --epoch; did you mean --epochs?\n");
}

Test(commands, of_all_verbs_want_flags_written_out, .init = cr_redirect_stderr)
{
    static const struct {
        const char *line;
        const char *wanted;
    } cases[] = {
        {"cadre train j.json --outpu json", "cadre train has no flag --outpu"},
        {"cadre evaluate j.json --outpu json", "cadre evaluate has no flag --outpu"},
        {"cadre status --outpu json", "cadre status has no flag --outpu"},
        {"cadre variables w --outpu json", "cadre variables has no flag --outpu"},
        {"cadre checkpoint list d --outpu=json", "cadre checkpoint has no flag --outpu=json"},
        {"cadre embedding words a --outpu json", "cadre embedding has no flag --outpu"},
        {"cadre config show j.json --origi", "cadre config has no flag --origi"},
        {"cadre keygen d --outpu json", "cadre keygen has no flag --outpu"},
    };
    for (size_t i = 0; i < CADRE_COUNT_OF(cases); i++) {
        cr_expect_eq(command(cases[i].line), CADRE_EXIT_USAGE, "%s", cases[i].line);
        const char *text = cadre_error_text();
        cr_expect(strncmp(text, cases[i].wanted, strlen(cases[i].wanted)) == 0, "%s", text);
    }
}

/* Words of a text may look like flags. */
Test(commands, take_what_is_behind_two_dashes_for_no_flag, .init = cr_redirect_stderr)
{
    cr_expect_eq(command("cadre embedding words -- --nowhere"), CADRE_EXIT_NO_INPUT);
    cr_expect(strstr(cadre_error_text(), "--nowhere: No such file"), "%s", cadre_error_text());
}

Test(commands, take_a_value_for_no_flag, .init = cr_redirect_stderr)
{
    cr_assert_eq(command("cadre run /nowhere/j.json --data --x --epochs=3"), CADRE_EXIT_NO_INPUT);
}

Test(commands, know_the_short_form_of_help, .init = cr_redirect_stdout, .exit_code = 0)
{
    command("cadre train -h");
    cr_assert_fail("it ends the process");
}

Test(commands, help_with_the_verb_that_is_asked_for, .init = cr_redirect_stderr)
{
    cr_assert_eq(command("cadre help trian"), CADRE_EXIT_USAGE);
    cr_assert_stderr_eq_str("cadre: there is no verb \"trian\"; did you mean \"train\"?\n"
                            "next: cadre --help\n");
}

Test(commands, name_the_flag_with_a_bad_value, .init = cr_redirect_stderr)
{
    char path[] = "/tmp/cadre-commands-XXXXXX";
    int file = mkstemp(path);
    static const char job[] = "{\"data\": {\"train\": {\"format\": \"csv\", \"path\": \"a\"}}, "
                              "\"model\": {\"type\": \"logistic\"}}";
    cr_assert_eq(write(file, job, sizeof(job) - 1), (ssize_t)sizeof(job) - 1);
    close(file);
    cadre_auto(cadre_free) char *line = cadre_asprintf("cadre run %s --epochs 0", path);
    int code = command(line);
    unlink(path);
    cr_assert_eq(code, CADRE_EXIT_USAGE);
    cr_assert_stderr_eq_str("cadre: --epochs: 0 is not in 1 to 1000000\n");
}

Test(commands, say_which_job_file_is_missing, .init = cr_redirect_stderr)
{
    cr_assert_eq(command("cadre run /nowhere/j.json"), CADRE_EXIT_NO_INPUT);
    cr_assert_stderr_eq_str("cadre: /nowhere/j.json: No such file or directory\n");
}

Test(commands, check_a_job_file, .init = cr_redirect_stderr)
{
    char path[] = "/tmp/cadre-commands-XXXXXX";
    int file = mkstemp(path);
    cr_assert_eq(write(file, "{\n \"sed\": 1}", 12), 12);
    close(file);
    cadre_auto(cadre_free) char *line = cadre_asprintf("cadre config check %s", path);
    cadre_auto(cadre_free) char *wanted =
        cadre_asprintf("%s:2:2: unknown key \"sed\" in the job; did you mean \"seed\"?\n", path);
    int code = command(line);
    unlink(path);
    cr_assert_eq(code, CADRE_EXIT_CONFIG);
    cr_assert_stderr_eq_str(wanted);
}

Test(commands, say_that_a_directory_holds_no_checkpoint, .init = cr_redirect_stderr)
{
    char path[] = "/tmp/cadre-commands-XXXXXX";
    cr_assert(mkdtemp(path));
    cadre_auto(cadre_free) char *line = cadre_asprintf("cadre checkpoint list %s", path);
    cadre_auto(cadre_free) char *wanted = cadre_asprintf("cadre: %s holds no checkpoint\n", path);
    int code = command(line);
    rmdir(path);
    cr_assert_eq(code, CADRE_EXIT_NO_INPUT);
    cr_assert_stderr_eq_str(wanted);
}

Test(commands, do_not_train_without_a_cluster, .init = cr_redirect_stderr)
{
    unsetenv("CADRE_CLUSTER");
    unsetenv("TF_CONFIG");
    const char *source = getenv("CADRE_SOURCE_DIR");
    cadre_auto(cadre_free) char *line =
        cadre_asprintf("cadre train %s/examples/digits.json", source ? source : ".");
    cr_assert_eq(command(line), CADRE_EXIT_CONFIG);
}
