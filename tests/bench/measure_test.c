#include "bench/measure.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/status.h"

TestSuite(measure, .timeout = 240);

Test(measure, quantile_sorts_and_stays_inside)
{
    double values[] = {5, 1, 4, 2, 3};
    cr_assert_eq(cadre_bench_quantile(values, 5, 0.5), 3);
    cr_assert_eq(cadre_bench_quantile(values, 5, 0), 1);
    cr_assert_eq(cadre_bench_quantile(values, 5, 0.99), 5);
    cr_assert_eq(cadre_bench_quantile(values, 5, 1), 5);
    cr_assert_eq(cadre_bench_quantile(values, 1, 0.5), 1);
}

/* Two measures that share a journal of who ran when. */
typedef struct {
    char *journal;
    char name;
    int runs;
    int fail_at; /* run number, from 1; 0: never */
} runner_t;

static int
run(void *context, double *value)
{
    runner_t *self = context;
    size_t length = strlen(self->journal);
    self->journal[length] = self->name;
    self->journal[length + 1] = '\0';
    self->runs++;
    *value = self->runs == 1 ? 1000 : self->runs;
    return self->runs == self->fail_at ? cadre_fail(CADRE_EIO, "broken") : 0;
}

Test(measure, takes_turns_and_leaves_the_first_run_out)
{
    char journal[32] = "";
    runner_t left = {.journal = journal, .name = 'a'};
    runner_t right = {.journal = journal, .name = 'b'};
    cadre_bench_measure_t measures[] = {{run, &left, 0}, {run, &right, 0}};
    cr_assert_eq(cadre_bench_measure_in_turn(measures, 2, 3), 0);
    cr_assert_str_eq(journal, "abababab");
    cr_assert_eq(measures[0].value, 3); /* of 2, 3, 4 */
    cr_assert_eq(measures[1].value, 3);
}

Test(measure, ends_at_the_first_failure)
{
    char journal[32] = "";
    runner_t left = {.journal = journal, .name = 'a'};
    runner_t right = {.journal = journal, .name = 'b', .fail_at = 2};
    cadre_bench_measure_t measures[] = {{run, &left, 0}, {run, &right, 0}};
    cr_assert_eq(cadre_bench_measure_in_turn(measures, 2, 3), CADRE_EIO);
    cr_assert_str_eq(journal, "abab");
}

Test(measure, sees_what_a_process_uses)
{
    double before = 0;
    double after = 0;
    double bytes = 0;
    cr_assert_eq(cadre_bench_cpu_seconds(getpid(), &before), 0);
    double until = cadre_bench_now() + 0.02;
    while (cadre_bench_now() < until) {
    }
    cr_assert_eq(cadre_bench_cpu_seconds(getpid(), &after), 0);
    cr_assert_gt(after, before);
    cr_assert_eq(cadre_bench_resident_bytes(getpid(), &bytes), 0);
    cr_assert_gt(bytes, 4096);
}

Test(measure, sees_the_most_memory_that_a_process_has_had)
{
    const size_t size = (size_t)64 << 20;
    double before = 0;
    double now = 0;
    double peak = 0;
    cr_assert_eq(cadre_bench_resident_bytes(getpid(), &before), 0);
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    memset(memory, 1, size);
    munmap(memory, size);
    cr_assert_eq(cadre_bench_resident_bytes(getpid(), &now), 0);
    cr_assert_eq(cadre_bench_peak_bytes(getpid(), &peak), 0);
    cr_assert_lt(now, before + (double)size / 2);
    cr_assert_gt(peak, before + (double)size / 2);
}

Test(measure, says_when_a_process_is_gone)
{
    double value = 0;
    pid_t nobody = fork();
    if (nobody == 0) {
        _exit(0);
    }
    waitpid(nobody, NULL, 0);
    cr_assert_eq(cadre_bench_cpu_seconds(nobody, &value), CADRE_EIO);
    cr_assert_eq(cadre_bench_resident_bytes(nobody, &value), CADRE_EIO);
    cr_assert_eq(cadre_bench_peak_bytes(nobody, &value), CADRE_EIO);
}
