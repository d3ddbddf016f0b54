#include "worker/device/cpu_trial.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/status.h"
#include "tests/sanitizer.h"
#include "worker/device/blas.h"

TestSuite(cpu_trial, .timeout = 240);

/* Address space for `more` bytes beside what is used. */
static void
limit_space(uint64_t more)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    rlim_t space = pages * (rlim_t)sysconf(_SC_PAGESIZE) + more;
    cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){space, space}), 0);
}

Test(cpu_trial, passes_where_there_is_memory)
{
    cr_assert_eq(cadre_blas_load(), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_cpu_trial(CADRE_BLAS_TRIAL_MS), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_cpu_room(1000), 0, "%s", cadre_error_text());
}

/* In a process of its own, whose thread hangs in OpenBLAS until it ends. */
Test(cpu_trial, says_that_openblas_gets_no_memory_instead_of_hanging)
{
    if (SANITIZER) {
        cr_skip_test("a sanitizer needs address space of its own");
    }
    cr_assert_eq(cadre_blas_load(), 0, "%s", cadre_error_text());
    pid_t child = fork();
    if (child == 0) {
        limit_space((uint64_t)CADRE_BLAS_BUFFER_SIZE / 8); /* the thread's stack, and a little */
        int status = cadre_cpu_trial(1500);
        bool told = strstr(cadre_error_text(), "ulimit -v") != NULL;
        _exit(status == CADRE_ENOMEMORY && told ? 0 : 1);
    }
    int end = 0;
    cr_assert_eq(waitpid(child, &end, 0), child);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0, "%x", (unsigned)end);
}

Test(cpu_trial, counts_the_buffers_of_all_threads_against_the_address_space)
{
    if (SANITIZER) {
        cr_skip_test("a sanitizer needs address space of its own");
    }
    limit_space(CADRE_WORKER_SPACE_SIZE +
                3 * (uint64_t)(CADRE_BLAS_BUFFER_SIZE + CADRE_THREAD_SPACE_SIZE));
    cr_expect_eq(cadre_cpu_room(2), 0, "%s", cadre_error_text());
    cr_expect_eq(cadre_cpu_room(4), CADRE_ENOMEMORY);
    cr_expect(strstr(cadre_error_text(), "ulimit -v"), "%s", cadre_error_text());
}
