/* The daemons, called directly, say how to call them. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/process.h"
#include "tests/system/scratch.h"

TestSuite(help, .timeout = 900);

enum { WAIT_MS = 120000 };

/* What the program writes to stdout, freed by the caller; it succeeds and writes nothing else. */
static char *
ask(const scratch_t *scratch, const char *program, const char *flag)
{
    cadre_auto(cadre_free) char *path = program_path(program);
    cadre_auto(cadre_free) char *name = cadre_asprintf("%s%s", program, flag);
    cadre_auto(cadre_free) char *output = scratch_path(scratch, name);
    cadre_auto(cadre_free) char *errors = scratch_path(scratch, "errors");
    const char *arguments[] = {path, flag, NULL};
    pid_t pid =
        process_start(&(process_t){.arguments = arguments, .output = output, .errors = errors});
    int wait_status = 0;
    cr_assert(process_wait(pid, WAIT_MS, &wait_status));
    cadre_auto(cadre_free) char *complaint = file_text(errors);
    cr_assert(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0, "%s", complaint);
    cr_assert_str_empty(complaint);
    return file_text(output);
}

static void
expect_short_form(const char *program)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *wanted = ask(&scratch, program, "--help");
    cadre_auto(cadre_free) char *given = ask(&scratch, program, "-h");
    cr_expect(strstr(wanted, "--coordinator-timeout"), "%s", wanted);
    cr_expect_str_eq(given, wanted);
    cadre_auto(cadre_free) char *version = ask(&scratch, program, "--version");
    cr_expect_eq(strncmp(version, program, strlen(program)), 0, "%s", version);
    scratch_close(&scratch);
}

/* What `cadre WORDS` writes to stdout, freed by the caller. */
static char *
ask_cadre(const scratch_t *scratch, const char *first, const char *second)
{
    cadre_auto(cadre_free) char *path = program_path("cadre");
    cadre_auto(cadre_free) char *output = scratch_path(scratch, "output");
    const char *arguments[] = {path, first, second, NULL};
    unlink(output);
    pid_t pid = process_start(&(process_t){.arguments = arguments, .output = output});
    int wait_status = 0;
    cr_assert(process_wait(pid, WAIT_MS, &wait_status));
    cr_assert(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0, "%s", first);
    return file_text(output);
}

static void
expect_same(const scratch_t *scratch, const char *const left[2], const char *const right[2])
{
    cadre_auto(cadre_free) char *wanted = ask_cadre(scratch, left[0], left[1]);
    cadre_auto(cadre_free) char *given = ask_cadre(scratch, right[0], right[1]);
    cr_expect_str_not_empty(wanted);
    cr_expect_str_eq(given, wanted);
}

Test(help, of_a_verb_and_the_version_have_two_forms)
{
    scratch_t scratch;
    scratch_open(&scratch);
    const char *const verbs[] = {"run", "ps", "keygen"};
    for (size_t i = 0; i < CADRE_COUNT_OF(verbs); i++) {
        expect_same(&scratch, (const char *[]){verbs[i], "--help"},
                    (const char *[]){"help", verbs[i]});
    }
    expect_same(&scratch, (const char *[]){"--version", NULL}, (const char *[]){"-V", NULL});
    expect_same(&scratch, (const char *[]){"--help", NULL}, (const char *[]){"help", NULL});
    scratch_close(&scratch);
}

/* Whoever has forgotten a flag is told its name. */
Test(help, is_given_to_a_worker_without_a_coordinator)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *path = program_path("cadre-worker");
    cadre_auto(cadre_free) char *errors = scratch_path(&scratch, "errors");
    cadre_auto(cadre_free) char *output = scratch_path(&scratch, "output");
    const char *arguments[] = {path, NULL};
    pid_t pid =
        process_start(&(process_t){.arguments = arguments, .output = output, .errors = errors});
    int wait_status = 0;
    cr_assert(process_wait(pid, WAIT_MS, &wait_status));
    cr_expect(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 78);
    cadre_auto(cadre_free) char *text = file_text(errors);
    cr_expect(strstr(text, "Give --coordinator ENDPOINT"), "%s", text);
    scratch_close(&scratch);
}

Test(help, cadre_ps_knows_the_short_form)
{
    expect_short_form("cadre-ps");
}

Test(help, cadre_worker_knows_the_short_form)
{
    expect_short_form("cadre-worker");
}
