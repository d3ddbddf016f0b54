#include "tests/system/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/system/scratch.h"

enum { EXIT_CANNOT_EXECUTE = 126 };

static char *
path_in(const char *variable, const char *name)
{
    const char *folder = getenv(variable);
    require(folder != NULL, variable);
    return cadre_asprintf("%s/%s", folder, name);
}

char *
program_path(const char *name)
{
    return path_in("CADRE_BIN_DIR", name);
}

char *
source_path(const char *name)
{
    return path_in("CADRE_SOURCE_DIR", name);
}

/* The test's environment without a description of a cluster, with `extra` in front. */
static char **
environment_with(const char *const *extra)
{
    size_t own = 0;
    size_t more = 0;
    while (environ[own]) {
        own++;
    }
    while (extra && extra[more]) {
        more++;
    }
    char **all = cadre_calloc(own + more + 1, sizeof(*all));
    size_t count = 0;
    for (size_t i = 0; i < more; i++) {
        all[count++] = cadre_strdup(extra[i]);
    }
    for (size_t i = 0; i < own; i++) {
        if (strncmp(environ[i], "CADRE_CLUSTER=", 14) != 0 &&
            strncmp(environ[i], "TF_CONFIG=", 10) != 0) {
            all[count++] = cadre_strdup(environ[i]);
        }
    }
    return all;
}

static void
free_environment(char **environment)
{
    for (size_t i = 0; environment[i]; i++) {
        free(environment[i]);
    }
    free(environment);
}

static int
open_output(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    require(fd >= 0, path);
    return fd;
}

pid_t
process_start(const process_t *process)
{
    char **environment = environment_with(process->environment);
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int output = process->output ? open_output(process->output) : -1;
    const char *errors_path = process->errors ? process->errors : process->output;
    int errors = errors_path ? open_output(errors_path) : -1;
    pid_t parent = getpid();
    pid_t pid = fork();
    require(pid >= 0, "a process");
    if (pid == 0) { /* only calls that are safe although other threads hold locks */
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        setpgid(0, 0);
        dup2(input, STDIN_FILENO);
        if (output >= 0) {
            dup2(output, STDOUT_FILENO);
        }
        if (errors >= 0) {
            dup2(errors, STDERR_FILENO);
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent) {
            execve(process->arguments[0], (char *const *)(uintptr_t)process->arguments,
                   environment);
        }
        _exit(EXIT_CANNOT_EXECUTE);
    }
    close(input);
    if (output >= 0) {
        close(output);
    }
    if (errors >= 0) {
        close(errors);
    }
    free_environment(environment);
    return pid;
}

bool
process_wait(pid_t pid, int64_t timeout_ms, int *wait_status)
{
    deadline_t deadline = deadline_in(timeout_ms);
    pid_t ended;
    while ((ended = waitpid(pid, wait_status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (!again(deadline)) {
            return false;
        }
    }
    return ended == pid;
}

int
process_output(const char *const *arguments, const char *const *environment, int64_t timeout_ms,
               char *text, size_t size_bytes)
{
    char path[] = "/tmp/cadre-output-XXXXXX";
    int fd = mkstemp(path);
    require(fd >= 0, path);
    close(fd);
    int state = 0;
    pid_t pid = process_start(
        &(process_t){.arguments = arguments, .environment = environment, .output = path});
    bool has_ended = process_wait(pid, timeout_ms, &state);
    cadre_auto(cadre_free) char *all = file_text(path);
    unlink(path);
    snprintf(text, size_bytes, "%s", all);
    if (!has_ended) {
        kill(pid, SIGKILL);
    }
    require(has_ended, arguments[0]);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

/* Whether a thread of the process is in none of the states stopped, traced, dead. */
static bool
runs(pid_t pid, const char *thread)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("/proc/%d/task/%s/stat", (int)pid, thread);
    cadre_auto(cadre_free) char *text = file_text(path);
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    return rest && !strchr("TtZX", rest[2]);
}

/* Whether any thread of the process does; a child of somebody else's cannot be asked by waitid. */
static bool
any_runs(pid_t pid)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    bool found = false;
    for (const struct dirent *entry; directory && !found && (entry = readdir(directory));) {
        found = entry->d_name[0] != '.' && runs(pid, entry->d_name);
    }
    if (directory) {
        closedir(directory);
    }
    return found;
}

bool
process_wait_stopped(pid_t pid, int64_t timeout_ms)
{
    deadline_t deadline = deadline_in(timeout_ms);
    while (any_runs(pid)) {
        if (!again(deadline)) {
            return false;
        }
    }
    return true;
}

int64_t
process_cpu_ms(pid_t pid)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("/proc/%d/stat", (int)pid);
    cadre_auto(cadre_free) char *text = file_text(path);
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    uint64_t user;
    uint64_t system;
    if (!rest ||
        sscanf(rest + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64 " %" SCNu64, &user,
               &system) != 2) {
        return -1;
    }
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

int64_t
process_memory_kib(pid_t pid, const char *which)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("/proc/%d/status", (int)pid);
    cadre_auto(cadre_free) char *text = file_text(path);
    const char *line = strstr(text, which);
    int64_t kib = -1;
    if (line) {
        kib = strtoll(line + strlen(which), NULL, 10);
    }
    return kib;
}
