#include "tests/chaos/file_faults.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/process.h"
#include "tests/system/scratch.h"

TestSuite(file_faults, .timeout = 900);

enum { END_MS = 120000 };

typedef struct {
    scratch_t scratch;
    file_faults_t *faults;
    char *orders;
    char *ours;
} bench_t;

static void
bench_open(bench_t *self)
{
    cadre_auto(cadre_free) char *library = program_path("../tests/chaos_file_faults.so");
    if (access(library, F_OK) != 0) {
        cr_skip_test(
            "a sanitizer's runtime must come first in a process: nothing can be preloaded");
    }
    scratch_open(&self->scratch);
    self->orders = scratch_path(&self->scratch, "orders");
    self->ours = scratch_path(&self->scratch, "ours");
    cr_assert_eq(mkdir(self->ours, 0700), 0);
    self->faults = file_faults_open(self->orders, self->ours);
}

static void
bench_close(bench_t *self)
{
    file_faults_close(&self->faults);
    free(self->orders);
    free(self->ours);
    scratch_close(&self->scratch);
}

/* Runs a line of shell in the scratch directory, where ours/ is the directory under fire. */
static int
run(const bench_t *self, const char *line)
{
    cadre_auto(cadre_free) char *library = program_path("../tests/chaos_file_faults.so");
    cadre_auto(cadre_free) char *preload = cadre_asprintf("LD_PRELOAD=%s", library);
    cadre_auto(cadre_free) char *orders = cadre_asprintf(FILE_FAULTS_VARIABLE "=%s", self->orders);
    cadre_auto(cadre_free) char *whole = cadre_asprintf("cd %s && %s", self->scratch.path, line);
    cadre_auto(cadre_free) char *output = scratch_path(&self->scratch, "output");
    const char *arguments[] = {"/bin/sh", "-c", whole, NULL};
    const char *environment[] = {preload, orders, NULL};
    int end = 0;
    pid_t pid = process_start(
        &(process_t){.arguments = arguments, .environment = environment, .output = output});
    cr_assert(process_wait(pid, END_MS, &end));
    return end;
}

static bool
has_said(const bench_t *self, const char *text)
{
    cadre_auto(cadre_free) char *output = scratch_path(&self->scratch, "output");
    cadre_auto(cadre_free) char *said = file_text(output);
    return strstr(said, text) != NULL;
}

Test(file_faults, counts_calls_under_the_directory_and_no_others)
{
    bench_t bench;
    bench_open(&bench);
    cr_expect_eq(run(&bench, "echo x > ours/a; echo x > theirs; echo x > ours-not"), 0);
    cr_expect_eq(bench.faults->calls, 2, "open and write, not %d", (int)bench.faults->calls);
    cr_expect_eq(run(&bench, "cd ours && echo x > b && mv b c && rm c && mkdir d"), 0);
    cr_expect_eq(bench.faults->calls, 2 + 5, "not %d", (int)bench.faults->calls);
    cr_expect_eq(bench.faults->failed, 0);
    bench_close(&bench);
}

Test(file_faults, counts_what_is_opened_by_a_descriptor)
{
    bench_t bench;
    bench_open(&bench);
    cr_expect_eq(run(&bench, "exec 3> ours/a; echo x > /proc/self/fd/3"), 0);
    cr_expect_eq(bench.faults->calls, 3, "two opens and a write, not %d", (int)bench.faults->calls);
    cr_expect_eq(run(&bench, "exec 3> theirs; echo x > /proc/self/fd/3"), 0);
    cr_expect_eq(bench.faults->calls, 3);
    bench_close(&bench);
}

Test(file_faults, fails_the_call_that_was_ordered_and_no_other)
{
    bench_t bench;
    bench_open(&bench);
    file_faults_arm(bench.faults, ENOSPC, 2, false);
    cr_expect_neq(run(&bench, "dd if=/dev/zero of=ours/a bs=1 count=1"), 0);
    cr_expect(has_said(&bench, "No space left on device"));
    cr_expect_str_eq(bench.faults->last_call, "write");
    cr_expect(strstr(bench.faults->last_path, "/ours/a"), "%s", bench.faults->last_path);
    cr_expect_eq(run(&bench, "echo x > ours/a"), 0, "once only");
    cr_expect_eq(bench.faults->failed, 1);
    bench_close(&bench);
}

Test(file_faults, fails_all_that_follow_until_disarmed)
{
    bench_t bench;
    bench_open(&bench);
    file_faults_arm(bench.faults, EIO, 3, true);
    cr_expect_eq(run(&bench, "echo x > ours/a"), 0);
    cr_expect_neq(run(&bench, "echo x > ours/b"), 0);
    cr_expect_neq(run(&bench, "dd if=/dev/zero of=ours/a bs=1 count=1 conv=fsync"), 0);
    cr_expect(has_said(&bench, "Input/output error"));
    file_faults_disarm(bench.faults);
    cr_expect_eq(run(&bench, "dd if=/dev/zero of=ours/a bs=1 count=1 conv=fsync"), 0);
    bench_close(&bench);
}

Test(file_faults, fails_syncs)
{
    bench_t bench;
    bench_open(&bench);
    file_faults_arm(bench.faults, EIO, 0, false);
    cr_expect_eq(run(&bench, "dd if=/dev/zero of=ours/a bs=1 count=1 conv=fsync"), 0);
    uint64_t last = bench.faults->calls;
    file_faults_arm(bench.faults, EIO, last, false);
    cr_expect_neq(run(&bench, "dd if=/dev/zero of=ours/a bs=1 count=1 conv=fsync"), 0);
    cr_expect_str_eq(bench.faults->last_call, "fsync");
    bench_close(&bench);
}

Test(file_faults, kills_in_the_place_of_a_call_and_once)
{
    bench_t bench;
    bench_open(&bench);
    file_faults_arm(bench.faults, FILE_FAULTS_KILL, 2, true);
    int end = run(&bench, "echo x > ours/a");
    cr_expect(WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL, "%x", (unsigned)end);
    struct stat about;
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/a", bench.ours);
    cr_assert_eq(stat(path, &about), 0);
    cr_expect_eq(about.st_size, 0, "it was opened, not written");
    cr_expect_eq(run(&bench, "echo x > ours/a"), 0);
    bench_close(&bench);
}

Test(file_faults, fails_at_random_as_often_as_ordered)
{
    bench_t bench;
    bench_open(&bench);
    file_faults_arm_random(bench.faults, EIO, 30);
    run(&bench, "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do "
                "echo x > ours/$i$j; done; done");
    double share = (double)bench.faults->failed / (double)bench.faults->calls;
    cr_expect_geq(bench.faults->calls, 81);
    cr_expect(share > 0.15 && share < 0.45, "%d of %d", (int)bench.faults->failed,
              (int)bench.faults->calls);
    bench_close(&bench);
}
