#include "common/system/startup.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/status.h"
#include "common/system/descriptors.h"

TestSuite(startup, .timeout = 240);

/* In a process of its own, which has no other descriptors: 0 when 0 to 2 are /dev/null. */
static int
start_without_descriptors(void)
{
    struct stat null;
    struct stat found;
    for (int fd = 0; fd < 64; fd++) {
        close(fd);
    }
    if (cadre_startup() < 0 || stat("/dev/null", &null) < 0) {
        return 1;
    }
    for (int fd = 0; fd <= 2; fd++) {
        if (fstat(fd, &found) < 0 || found.st_rdev != null.st_rdev) {
            return 2 + fd;
        }
    }
    if (read(0, &found, 1) != 0 || write(1, "x", 1) != 1 || write(2, "x", 1) != 1) {
        return 5;
    }
    return open("/dev/null", O_RDONLY) == 3 ? 0 : 6;
}

Test(startup, keeps_standard_descriptors_from_becoming_files_of_ours)
{
    pid_t child = fork();
    if (child == 0) {
        _exit(start_without_descriptors());
    }
    int end = 0;
    cr_assert_eq(waitpid(child, &end, 0), child);
    cr_expect(WIFEXITED(end) && WEXITSTATUS(end) == 0, "%x", (unsigned)end);
}

Test(startup, raises_the_limit_of_open_files)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 256;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(cadre_startup(), 0, "%s", cadre_error_text());
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(limit.rlim_cur, limit.rlim_max);
}

Test(startup, refuses_fewer_open_files_than_a_program_needs)
{
    struct rlimit limit = {CADRE_DESCRIPTORS_MIN, CADRE_DESCRIPTORS_MIN};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(cadre_startup(), 0, "%s", cadre_error_text());
    limit = (struct rlimit){CADRE_DESCRIPTORS_MIN - 1, CADRE_DESCRIPTORS_MIN - 1};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    cr_expect_eq(cadre_startup(), CADRE_ECONFIG);
    cr_expect_str_eq(cadre_error_text(), "RLIMIT_NOFILE, the limit of open files, is 63: raise it, "
                                         "as with `ulimit -n 126`; 64 are needed");
}

Test(startup, leaves_open_descriptors_alone)
{
    struct stat before[3];
    struct stat after[3];
    for (int fd = 0; fd <= 2; fd++) {
        cr_assert_eq(fstat(fd, &before[fd]), 0);
    }
    cr_expect_eq(cadre_startup(), 0, "%s", cadre_error_text());
    for (int fd = 0; fd <= 2; fd++) {
        cr_assert_eq(fstat(fd, &after[fd]), 0);
        cr_expect_eq(before[fd].st_ino, after[fd].st_ino);
    }
}

Test(startup, refuses_a_stack_that_threads_would_overflow)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_STACK, &limit), 0);
    limit.rlim_cur = CADRE_STACK_SIZE_MIN;
    cr_assert_eq(setrlimit(RLIMIT_STACK, &limit), 0);
    cr_expect_eq(cadre_startup(), 0, "%s", cadre_error_text());
    limit.rlim_cur = CADRE_STACK_SIZE_MIN - 1024;
    cr_assert_eq(setrlimit(RLIMIT_STACK, &limit), 0);
    cr_expect_eq(cadre_startup(), CADRE_ECONFIG);
    cr_expect(strstr(cadre_error_text(), "511 KiB"), "%s", cadre_error_text());
    cr_expect(strstr(cadre_error_text(), "ulimit -s"), "%s", cadre_error_text());
}

Test(startup, keeps_secrets_out_of_core_dumps)
{
    cr_assert_eq(setenv("CADRE_ALLOW_CORE_DUMPS", "1", 1), 0);
    cadre_startup_hold_secrets();
    cr_expect_eq(prctl(PR_GET_DUMPABLE), 1);
    cr_assert_eq(setenv("CADRE_ALLOW_CORE_DUMPS", "0", 1), 0);
    cadre_startup_hold_secrets();
    cr_expect_eq(prctl(PR_GET_DUMPABLE), 0);
}
