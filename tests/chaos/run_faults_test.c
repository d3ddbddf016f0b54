/* `cadre run` on disks that fail, through the preloaded library of file_faults.h. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/chaos/file_faults.h"
#include "tests/system/command.h"
#include "tests/system/process.h"

TestSuite(run_faults, .timeout = 900);

enum { DIGITS_CLOSURES = 45 /* of one epoch */, EPOCHS = 40 };

/* A run whose tasks are under fire, to be started by run_to_end. */
typedef struct {
    command_t command;
    file_faults_t *faults;
    char *orders;
} bench_t;

static void
bench_open(bench_t *self, const char *program)
{
    cadre_auto(cadre_free) char *library = program_path("../tests/chaos_file_faults.so");
    if (access(library, F_OK) != 0) {
        cr_skip_test("a sanitizer's runtime must come first in a process: nothing is preloaded");
    }
    command_open(&self->command);
    self->orders = scratch_path(&self->command.scratch, "orders");
    self->faults = file_faults_open(self->orders, self->command.checkpoints);
    snprintf(self->faults->program, sizeof(self->faults->program), "%s", program);
    setenv("LD_PRELOAD", library, 1);
    setenv(FILE_FAULTS_VARIABLE, self->orders, 1);
}

static void
bench_close(bench_t *self)
{
    file_faults_close(&self->faults);
    free(self->orders);
    command_close(&self->command);
}

static json_t *
run_to_end(bench_t *self, const char *checkpoint_every)
{
    cadre_auto(cadre_free) char *job = source_path("examples/digits.json");
    const char *words[] = {"run",
                           job,
                           "-o",
                           "json",
                           "--epochs",
                           "40",
                           "--checkpoint-dir",
                           self->command.checkpoints,
                           "--checkpoint-every",
                           checkpoint_every,
                           NULL};
    command_start(&self->command, words);
    unsetenv("LD_PRELOAD");
    command_expect_exit(&self->command, command_end(&self->command), 0);
    json_t *result = command_result(&self->command);
    cr_assert(result);
    cr_expect_eq(json_number_at(result, "closures.finished"), EPOCHS * DIGITS_CLOSURES);
    cr_expect_eq(json_number_at(result, "updates.0.applied"), EPOCHS * DIGITS_CLOSURES);
    cr_expect_eq(json_number_at(result, "updates.1.applied"), EPOCHS * DIGITS_CLOSURES);
    cr_expect_eq(self->faults->failed, 1, "the fault struck");
    return result;
}

Test(run_faults, a_ps_that_dies_in_the_last_checkpoint_costs_no_run)
{
    bench_t bench;
    bench_open(&bench, "cadre-ps");
    file_faults_arm(bench.faults, FILE_FAULTS_KILL, 1, false);
    json_t *result = run_to_end(&bench, "0");
    cr_expect_eq(json_number_at(result, "failures.ps"), 1);
    cr_expect(json_string_value(json_object_get(result, "checkpoint")));
    json_decref(result);
    bench_close(&bench);
}

Test(run_faults, a_checkpoint_that_fails_on_the_way_costs_no_run)
{
    bench_t bench;
    bench_open(&bench, "cadre-ps");
    file_faults_arm(bench.faults, ENOSPC, 2, false);
    json_t *result = run_to_end(&bench, "0.05");
    cr_expect_eq(json_number_at(result, "failures.ps"), 0);
    json_decref(result);
    cadre_auto(cadre_free) char *errors = command_errors(&bench.command);
    cr_expect(strstr(errors, "checkpoint_failed"), "%s", errors);
    cr_expect(strstr(errors, "No space left on device"), "%s", errors);
    bench_close(&bench);
}
