/*
 * run_program_test - `cadre run -- program`: the user's program is the coordinator.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "tests/system/process.h"
#include "tests/system/scratch.h"

enum { WAIT_MS = 120000 };

typedef struct {
    char *output;
    char *errors;
    int code; /* to exit with */
} ran_t;

TestSuite(run_program, .timeout = 900);

/* Runs `script` in a shell under `cadre run`; $1 is the example, whose native functions the workers
 * have, $2 a directory that is not there yet. */
static ran_t
run_example(const char *example, const char *script)
{
    scratch_t scratch;
    scratch_open(&scratch);
    cadre_auto(cadre_free) char *cadre = program_path("cadre");
    cadre_auto(cadre_free) char *path = cadre_asprintf("examples/%s", example);
    cadre_auto(cadre_free) char *program = program_path(path);
    cadre_auto(cadre_free) char *native = cadre_asprintf("%s_native.so", program);
    cadre_auto(cadre_free) char *directory = scratch_path(&scratch, "checkpoints");
    cadre_auto(cadre_free) char *output = scratch_path(&scratch, "output");
    cadre_auto(cadre_free) char *errors = scratch_path(&scratch, "errors");
    const char *arguments[] = {cadre, "run",  "--native", native,  "--",      "/bin/sh",
                               "-c",  script, "sh",       program, directory, NULL};
    pid_t pid =
        process_start(&(process_t){.arguments = arguments, .output = output, .errors = errors});
    int wait_status = 0;
    cr_assert(process_wait(pid, WAIT_MS, &wait_status), "%s", file_text(errors));
    cr_assert(WIFEXITED(wait_status));
    ran_t ran = {file_text(output), file_text(errors), WEXITSTATUS(wait_status)};
    scratch_close(&scratch);
    return ran;
}

/* With the example that counts to 10,000. */
static ran_t
run(const char *script)
{
    return run_example("count", script);
}

static void
ran_fini(ran_t *self)
{
    free(self->output);
    free(self->errors);
}

/* Nothing but the line that says where the session is. */
static void
expect_quiet(const ran_t *ran)
{
    const char *end = strchr(ran->errors, '\n');
    cr_expect(strncmp(ran->errors, "session=", 8) == 0 && end && !end[1], "%s", ran->errors);
}

Test(run_program, says_nothing_when_the_program_ends_well)
{
    cadre_auto(ran_fini) ran_t ran = run("\"$1\"");
    cr_expect_eq(ran.code, 0);
    cr_expect_str_eq(ran.output, "10000\n");
    expect_quiet(&ran);
}

Test(run_program, lets_the_program_open_one_session_after_the_other)
{
    cadre_auto(ran_fini) ran_t ran = run("\"$1\" && \"$1\" && sleep 0.3");
    cr_expect_eq(ran.code, 0);
    cr_expect_str_eq(ran.output, "10000\n10000\n");
    expect_quiet(&ran);
}

/* $PPID is `cadre run`; its first child is ps 0. The program waits until another one runs. */
Test(run_program, says_nothing_more_of_a_ps_that_was_started_again_when_the_program_ends_well)
{
    cadre_auto(ran_fini) ran_t ran =
        run("first() { cut -d' ' -f1 /proc/$PPID/task/$PPID/children; }; ps=$(first);"
            "\"$1\" && kill -9 $ps && while [ \"$(first)\" = $ps ]; do :; done && \"$1\"");
    cr_expect_eq(ran.code, 0);
    cr_expect_str_eq(ran.output, "10000\n10000\n");
    cr_expect(strstr(ran.errors, "its shard waits for it; it starts again"), "%s", ran.errors);
    cr_expect_not(strstr(ran.errors, "cadre: ps 0"), "%s", ran.errors);
}

Test(run_program, passes_the_exit_code_on)
{
    cadre_auto(ran_fini) ran_t ran = run("exit 7");
    cr_expect_eq(ran.code, 7);
    expect_quiet(&ran);
}

/* Killed after each of three checkpoints, at whatever it is doing: what is queued is in none. */
Test(run_program, the_example_that_resumes_does_each_closure_once)
{
    cadre_auto(ran_fini) ran_t ran = run_example(
        "resume", "newest() { ls \"$1\" 2>/dev/null | grep '^ckpt' | tail -n 1; };"
                  "for i in 1 2 3; do before=$(newest \"$2\"); \"$1\" \"$2\" & program=$!;"
                  "while [ \"$(newest \"$2\")\" = \"$before\" ] && kill -0 $program; do :; done;"
                  "kill -9 $program; wait $program; done; \"$1\" \"$2\"");
    cr_expect_eq(ran.code, 0, "%s", ran.errors);
    unsigned long long from[4] = {0};
    unsigned long long total = 0;
    cr_assert_eq(sscanf(ran.output, "from %llu from %llu from %llu from %llu %llu", &from[0],
                        &from[1], &from[2], &from[3], &total),
                 5, "%s", ran.output);
    cr_expect_eq(from[0], 1);
    cr_expect_gt(from[3], 1, "it went on: %s", ran.output);
    cr_expect_leq(from[3], 5000, "it was killed before its end");
    cr_expect_eq(total, 12502500);
}
