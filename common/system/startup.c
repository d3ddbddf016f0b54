#include "common/system/startup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/status.h"
#include "common/system/descriptors.h"

/* Opens /dev/null as each of the descriptors 0 to 2 that is closed. The system gives out the lowest
 * free descriptor, so opening until one is above 2 fills the gaps. */
static void
reserve_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            continue;
        }
        if (open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) {
            (void)!open("/", O_PATH); /* in place of /dev/null: writes to it just fail */
        }
    }
}

/* Ends the process with CADRE_EXIT_OUTPUT when stdout has not taken all output, which is known only
 * after the last flush. Runs at exit, since argp calls exit() itself. */
static void
check_stdout(void)
{
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fclose(stdout) != 0 || failed) {
        fprintf(stderr, "%s: cannot write to stdout%s%s\n", program_invocation_short_name,
                errno ? ": " : "", errno ? strerror(errno) : "");
        _exit(CADRE_EXIT_OUTPUT);
    }
}

/* Prepares the process: descriptors 0 to 2, the limit of open files, and the check of stdout at
 * exit. Fails when a limit under which the program was started is too low. */
int
cadre_startup(void)
{
    struct rlimit stack;
    char text[CADRE_DESCRIPTORS_TEXT_SIZE];

    reserve_descriptors();
    cadre_descriptors_raise();
    atexit(check_stdout);
    if (cadre_descriptors_limit() < CADRE_DESCRIPTORS_MIN) {
        return cadre_fail(CADRE_ECONFIG, "%s; %d are needed", cadre_descriptors_text(text),
                          CADRE_DESCRIPTORS_MIN);
    }

    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur < CADRE_STACK_SIZE_MIN) {
        return cadre_fail(
            CADRE_ECONFIG,
            "the stack is limited to %llu KiB, and a thread needs %d KiB: raise it, as with "
            "`ulimit -s 8192`",
            (unsigned long long)stack.rlim_cur >> 10, CADRE_STACK_SIZE_MIN >> 10);
    }

    return 0;
}

/* Forbids core dumps, and that other processes inspect this one, unless CADRE_ALLOW_CORE_DUMPS is
 * 1. */
void
cadre_startup_hold_secrets(void)
{
    const char *allow = getenv("CADRE_ALLOW_CORE_DUMPS");
    if (!allow || strcmp(allow, "1") != 0) {
        prctl(PR_SET_DUMPABLE, 0);
    }
}
