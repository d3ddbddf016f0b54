#include "bench/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

enum {
    EXIT_CANNOT_EXECUTE = 126,
    LOOK_MS = 10,
    PATH_SIZE = 4096,
};

/* The path of program `name` beside our own, freed by the caller. */
static char *
path_beside(const char *name)
{
    char path[PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    return cadre_asprintf("%.*s/%s", slash ? (int)(slash - path) : 0, path, name);
}

/* Only async-signal-safe calls. */
static _Noreturn void
run_child(const char *path, char *const *arguments, pid_t parent, bool verbose)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(verbose ? STDERR_FILENO : null, STDOUT_FILENO);
    dup2(verbose ? STDERR_FILENO : null, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    if (getppid() == parent) {
        execv(path, arguments);
    }

    _exit(EXIT_CANNOT_EXECUTE);
}

int
cadre_bench_process_start(const char *name, const char *const *arguments, bool verbose, pid_t *pid)
{
    cadre_auto(cadre_free) char *path = path_beside(name);
    if (access(path, X_OK) < 0) {
        return cadre_fail(CADRE_EUNAVAILABLE, "%s: %s", path, strerror(errno));
    }

    char *list[CADRE_BENCH_ARGUMENTS_MAX + 2] = {path};
    for (size_t i = 0; arguments[i]; i++) {
        cadre_assert(i < CADRE_BENCH_ARGUMENTS_MAX);
        list[i + 1] = cadre_strdup(arguments[i]);
    }

    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        run_child(path, list, parent, verbose);
    }

    for (size_t i = 1; list[i]; i++) {
        free(list[i]);
    }

    if (child < 0) {
        return cadre_fail(CADRE_EIO, "no process can be started: %s", strerror(errno));
    }

    *pid = child;
    return 0;
}

void
cadre_bench_process_end(pid_t *pid_p, int grace_ms)
{
    pid_t pid = *pid_p;
    *pid_p = 0;
    if (pid <= 0) {
        return;
    }

    for (int waited_ms = 0; waited_ms < grace_ms; waited_ms += LOOK_MS) {
        if (waitpid(pid, NULL, WNOHANG) != 0) {
            return;
        }
        poll(NULL, 0, LOOK_MS);
    }

    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
