#include "coordinator/cli/launch/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/device_list.h"
#include "common/spec/device_name.h"
#include "common/system/cpu_quota.h"
#include "coordinator/cli/launch/trace_folder.h"
#include "coordinator/cli/train/job_strategy.h"

/* Exit codes of shells for a command that cannot be executed, or is not found. */
enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

struct cadre_launcher {
    const cadre_launcher_options_t *options;
    cadre_launcher_core_t core;
    cadre_session_t session;
    int *pids;                 /* [tasks]: process id; 0 when the task does not run */
    int64_t *log_from;         /* [tasks]: size of the task's log when its process was started */
    cadre_process_end_t *ends; /* [tasks]: how the last process that has ended did so */
    char *ps_path;
    char *worker_path;
    char *address;
    char **environment; /* environment of tasks: without the description of any cluster */
    /* Environment of the user's program: with the description of this cluster. */
    char **program_environment;
};

/* --- command lines and environment of tasks --- */

typedef struct {
    const char *file;
    char **arguments;
    size_t count;
} command_t;

static void
add(command_t *command, const char *argument)
{
    command->arguments =
        cadre_realloc(command->arguments, command->count + 2, sizeof(*command->arguments));
    command->arguments[command->count++] = cadre_strdup(argument);
    command->arguments[command->count] = NULL;
}

static void
add_flag(command_t *command, const char *flag, const char *value)
{
    add(command, flag);
    add(command, value);
}

/* Frees the words of a command line. */
static void
command_fini(command_t *command)
{
    for (size_t i = 0; i < command->count; i++) {
        free(command->arguments[i]);
    }
    free(command->arguments);
}

/* Adds the flag by which a worker writes its trace, to a file that no earlier process of it has. */
static void
add_trace(const char *folder, const cadre_launch_task_t *task, command_t *command)
{
    cadre_auto(cadre_free) char *path = cadre_trace_folder_file(folder, task->index, task->starts);
    add_flag(command, "--trace", path);
}

/* Adds the flags that every ps and worker gets. Under a user's program a task waits for a next
 * session when one ends, as the program may open a coordinator several times. */
static void
add_membership(const cadre_launcher_t *self, uint32_t index, command_t *command)
{
    char number[24];
    snprintf(number, sizeof(number), "%u", index);
    add_flag(command, "--index", number);
    add_flag(command, "--coordinator", self->address);
    if (self->options->program) {
        add_flag(command, "--on-session-end", "wait");
    }
}

int64_t
cadre_launcher_threads(const cadre_launcher_options_t *options)
{
    int64_t sharers = cadre_max_i64((int64_t)options->workers, options->slots);
    int64_t share = cadre_max_i64(cadre_cpu_count() / sharers, 1);
    return options->threads > 0 ? options->threads : share;
}

/* Adds the flags for a worker's threads, device and precision. By default a worker has CPUs / slots
 * threads, which it works out itself, or CPUs / workers where that is less. */
static void
add_compute(const cadre_launcher_options_t *options, uint32_t index, command_t *command)
{
    char number[24];
    if (options->threads > 0 || options->workers > options->slots) {
        snprintf(number, sizeof(number), "%lld", (long long)cadre_launcher_threads(options));
        add_flag(command, "--threads", number);
    }
    if (options->row_cache != CADRE_ROW_CACHE_MIB) {
        snprintf(number, sizeof(number), "%lld", (long long)options->row_cache);
        add_flag(command, "--row-cache", number);
    }
    if (!options->device) {
        return;
    }

    cadre_auto(cadre_free) char *own = cadre_device_list_item(options->device, index);
    cadre_auto(cadre_free) char *turn = cadre_asprintf("auto:%u", index);
    /* "auto:N" is the GPU whose turn it is for worker N, so that workers do not share the first. */
    bool in_turn = strcmp(own, "auto") == 0 && index > 0;
    add_flag(command, "--device", in_turn ? turn : own);
    add_flag(command, "--math",
             cadre_choice_text(CADRE_MATH_WORDS, options->math, number, sizeof(number)));
}

/* Returns the command line of a task, freed with command_fini: of cadre-ps or cadre-worker with
 * flags from the options, or the user's own. */
static command_t
command_for(const cadre_launcher_t *self, const cadre_launch_task_t *task)
{
    const cadre_launcher_options_t *options = self->options;
    command_t command = {0};
    char number[24];

    switch (task->role) {
    case CADRE_LAUNCH_PS: {
        cadre_auto(cadre_free) char *own =
            cadre_session_endpoint(&self->session, task->role, task->index);
        command.file = self->ps_path;
        add(&command, self->ps_path);
        add_membership(self, task->index, &command);
        add_flag(&command, "--address", own);
        snprintf(number, sizeof(number), "%lld", (long long)options->ps_lanes);
        add_flag(&command, "--lanes", number);
        for (size_t i = 0; i < CADRE_COUNT_OF(options->checkpoint_dirs); i++) {
            if (options->checkpoint_dirs[i]) {
                add_flag(&command, "--checkpoint-dir", options->checkpoint_dirs[i]);
            }
        }
        break;
    }
    case CADRE_LAUNCH_WORKER:
        command.file = self->worker_path;
        add(&command, self->worker_path);
        add_membership(self, task->index, &command);
        snprintf(number, sizeof(number), "%lld", (long long)options->slots);
        add_flag(&command, "--slots", number);
        snprintf(number, sizeof(number), "%lld", (long long)options->shard_timeout_s);
        add_flag(&command, "--shard-timeout", number);
        add_compute(options, task->index, &command);
        if (options->trace) {
            add_trace(options->trace, task, &command);
        }
        for (size_t i = 0; i < options->native_count; i++) {
            add_flag(&command, "--native", options->natives[i]);
        }
        if (options->data_dir) {
            add_flag(&command, "--data-dir", options->data_dir);
        }
        break;
    case CADRE_LAUNCH_PROGRAM:
        command.file = options->program[0];
        for (size_t i = 0; options->program[i]; i++) {
            add(&command, options->program[i]);
        }
        break;
    }

    return command;
}

/* Returns a copy of the environment of this process without any description of a cluster. For the
 * user's program `cluster` and `strategy` are added. With NULL it is for ps and workers, and has no
 * CADRE_HTTP either: that is the address of the coordinator's HTTP server. */
static char **
environment_with(const char *cluster, const char *strategy)
{
    size_t count = 0;
    while (environ[count]) {
        count++;
    }

    char **copy = cadre_calloc(count + 3, sizeof(*copy));
    size_t copied = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_ours = !cluster && strncmp(environ[i], "CADRE_HTTP=", 11) == 0;
        if (!is_ours && strncmp(environ[i], "CADRE_CLUSTER=", 14) != 0 &&
            strncmp(environ[i], "CADRE_STRATEGY=", 15) != 0 &&
            strncmp(environ[i], "TF_CONFIG=", 10) != 0) {
            copy[copied++] = cadre_strdup(environ[i]);
        }
    }

    if (cluster) {
        copy[copied++] = cadre_asprintf("CADRE_CLUSTER=%s", cluster);
        copy[copied] = cadre_asprintf("CADRE_STRATEGY=%s", strategy);
    }

    return copy;
}

/* Frees an environment, a list of texts that ends with NULL; NULL is allowed. */
static void
free_environment(char **environment)
{
    for (size_t i = 0; environment && environment[i]; i++) {
        free(environment[i]);
    }
    free(environment);
}

/* --- starting --- */

/* What the child process needs to start a task; it may only make async-signal-safe calls. */
typedef struct {
    const command_t *command;
    char *const *environment;
    pid_t parent;
    int input; /* descriptor that becomes its stdin, if it has a log */
    /* Descriptor of the log; negative: keeps the launcher's terminal and process group. */
    int output;
} start_t;

/* Writes "cadre: FILE: ERROR" on stderr with calls that are allowed after a fork: no printf. */
static void
say_cannot_execute(const char *file, int error)
{
    const char *const words[] = {"cadre: ", file, ": ", strerrordesc_np(error), "\n"};
    for (size_t i = 0; i < CADRE_COUNT_OF(words); i++) {
        ssize_t written = write(STDERR_FILENO, words[i], strlen(words[i]));
        (void)written;
    }
}

/* Runs in the child process after the fork: sets up its files and signals, and executes the
 * command. The kernel kills the child when the launcher has ended. A child with a log gets a
 * process group of its own, so that Ctrl-C reaches the launcher only. */
static _Noreturn void
run_child(const start_t *start)
{
    sigset_t none;
    sigemptyset(&none);
    if (start->output >= 0) {
        setpgid(0, 0);
        dup2(start->input, STDIN_FILENO);
        dup2(start->output, STDOUT_FILENO);
        dup2(start->output, STDERR_FILENO);
    }

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != start->parent) {
        _exit(EXIT_CANNOT_EXECUTE); /* the launcher died before prctl took effect */
    }

    /* The command inherits neither what the launcher ignores and blocks nor its descriptors. */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    execvpe(start->command->file, start->command->arguments, start->environment);
    int error = errno;
    say_cannot_execute(start->command->file, error);
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

static void
close_descriptor(int *descriptor)
{
    if (*descriptor >= 0) {
        close(*descriptor);
    }
}

/* Starts a process for task `number`. The output of a ps or worker goes to its log; the user's
 * program keeps the terminal. */
static int
start_task(cadre_launcher_t *self, size_t number)
{
    const cadre_launch_task_t *task = &self->core.tasks[number];
    bool program = task->role == CADRE_LAUNCH_PROGRAM;
    cadre_auto(close_descriptor) int input = -1;
    cadre_auto(close_descriptor) int output = -1;

    if (!program) {
        cadre_auto(cadre_free) char *log =
            cadre_session_log_path(&self->session, task->role, task->index);
        input = open("/dev/null", O_RDONLY | O_CLOEXEC);
        output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (output < 0) {
            return cadre_fail(CADRE_EIO, "%s: %s", log, strerror(errno));
        }
        /* Earlier processes of the task wrote what the log has so far. */
        self->log_from[number] = lseek(output, 0, SEEK_END);
    }

    /* Memory is allocated before the fork: the child may only make async-signal-safe calls. */
    cadre_auto(command_fini) command_t command = command_for(self, task);
    start_t start = {
        .command = &command,
        .environment = program ? self->program_environment : self->environment,
        .parent = getpid(),
        .input = input,
        .output = output,
    };
    pid_t pid = fork();
    if (pid < 0) {
        return cadre_fail(CADRE_EIO, "no process can be started: %s", strerror(errno));
    }
    if (pid == 0) {
        run_child(&start);
    }

    self->pids[number] = pid;
    return 0;
}

/* Starts the tasks that are due, and writes their process ids to tasks.json. */
int
cadre_launcher_start(cadre_launcher_t *self, int64_t now_ms)
{
    size_t number;
    bool started = false;

    while (cadre_launcher_core_next(&self->core, now_ms, &number)) {
        int status = start_task(self, number);
        if (status < 0) {
            self->core.tasks[number].state = CADRE_LAUNCH_ENDED; /* the core counts it as running */
            return status;
        }
        started = true;
    }

    return started ? cadre_session_write_tasks(&self->session, &self->core, self->pids) : 0;
}

int64_t
cadre_launcher_wait_ms(const cadre_launcher_t *self, int64_t now_ms)
{
    return cadre_launcher_core_wait_ms(&self->core, now_ms);
}

/* Takes the end of one task, whose consequences the core decides, and reports it; returns false
 * when no task has ended. */
bool
cadre_launcher_reap(cadre_launcher_t *self, int64_t now_ms, cadre_launcher_report_t *report)
{
    for (size_t i = 0; i < self->core.task_count; i++) {
        int wait_status;
        if (self->pids[i] > 0 && waitpid(self->pids[i], &wait_status, WNOHANG) > 0) {
            const cadre_launch_task_t *task = &self->core.tasks[i];
            *report = (cadre_launcher_report_t){
                .role = task->role,
                .index = task->index,
                .pid = self->pids[i],
                .end = cadre_process_end(wait_status),
                .log_from = self->log_from[i],
                .silent_ms = task->given_up ? task->silent_ms : 0,
            };

            self->pids[i] = 0;
            self->ends[i] = report->end;
            report->decision = cadre_launcher_core_ended(&self->core, i, report->end, now_ms);
            cadre_session_write_tasks(&self->session, &self->core, self->pids);
            return true;
        }
    }

    return false;
}

/* Gives the state of task `number`; returns false when there are not so many tasks. */
bool
cadre_launcher_task(const cadre_launcher_t *self, size_t number, cadre_launcher_task_t *task)
{
    if (number >= self->core.task_count) {
        return false;
    }

    const cadre_launch_task_t *known = &self->core.tasks[number];
    uint32_t running = self->pids[number] > 0 ? 1 : 0;
    *task = (cadre_launcher_task_t){
        .role = known->role,
        .index = known->index,
        .pid = self->pids[number],
        .has_ended = known->starts > running, /* an earlier process of this task has ended */
        .end = self->ends[number],
        .log_from = self->log_from[number],
    };
    return true;
}

void
cadre_launcher_look(cadre_launcher_t *self, size_t number, bool heard, int64_t elapsed_ms)
{
    cadre_assert(number < self->core.task_count && self->pids[number] > 0);
    if (cadre_launcher_core_look(&self->core, number, heard, elapsed_ms)) {
        kill(self->pids[number], SIGKILL);
    }
}

/* --- ending --- */

void
cadre_launcher_stop(cadre_launcher_t *self)
{
    cadre_launcher_core_stop(&self->core);
}

/* Sends a signal to the user's program if `program`, else to every running ps and worker. */
static void
signal_role(cadre_launcher_t *self, int signal_number, bool program)
{
    for (size_t i = 0; i < self->core.task_count; i++) {
        bool is_program = self->core.tasks[i].role == CADRE_LAUNCH_PROGRAM;
        if (self->pids[i] > 0 && is_program == program) {
            kill(self->pids[i], signal_number);
        }
    }
}

void
cadre_launcher_signal(cadre_launcher_t *self, int signal_number)
{
    signal_role(self, signal_number, false);
}

void
cadre_launcher_signal_program(cadre_launcher_t *self, int signal_number)
{
    signal_role(self, signal_number, true);
}

size_t
cadre_launcher_running(const cadre_launcher_t *self)
{
    return cadre_launcher_core_running(&self->core);
}

/* Kills and reaps the tasks that still run, ends the session and frees the launcher. */
void
cadre_launcher_close(cadre_launcher_t **self_p)
{
    cadre_launcher_t *self = *self_p;
    if (!self) {
        return;
    }

    for (size_t i = 0; i < self->core.task_count; i++) {
        if (self->pids[i] > 0) {
            kill(self->pids[i], SIGKILL);
            waitpid(self->pids[i], NULL, 0);
        }
    }

    cadre_session_close(&self->session, self->options->keep_session);
    cadre_launcher_core_fini(&self->core);
    free_environment(self->environment);
    free_environment(self->program_environment);
    free(self->pids);
    free(self->log_from);
    free(self->ends);
    free(self->ps_path);
    free(self->worker_path);
    free(self->address);
    cadre_free(self_p);
}

/* --- opening --- */

/* Returns the folder that this executable is in, freed by the caller; NULL when /proc does not
 * tell. */
char *
cadre_launcher_binary_folder(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (length <= 0 || path[0] != '/') {
        cadre_fail(CADRE_EUNAVAILABLE,
                   "/proc/self/exe: %s: without /proc the programs beside this one are not found",
                   length < 0 ? strerror(errno) : "no path");
        return NULL;
    }

    path[length] = '\0';
    return cadre_strndup(path, (size_t)(strrchr(path, '/') - path));
}

/* Gives the path of a program of Cadre, which must be executable and beside this one. */
static int
find_binary(const char *name, char **path)
{
    cadre_auto(cadre_free) char *folder = cadre_launcher_binary_folder();
    if (!folder) {
        return CADRE_EUNAVAILABLE;
    }

    *path = cadre_asprintf("%s/%s", folder, name);
    if (access(*path, X_OK) < 0) {
        return cadre_fail(CADRE_EUNAVAILABLE, "%s: %s; the command needs %s beside it", *path,
                          strerror(errno), name);
    }

    return 0;
}

/* Finds the programs of the tasks. */
static int
find_binaries(cadre_launcher_t *self)
{
    int status = find_binary("cadre-ps", &self->ps_path);
    return status < 0 ? status : find_binary("cadre-worker", &self->worker_path);
}

/* Returns the launcher's options that follow from a job's settings; their texts are the job's. */
cadre_launcher_options_t
cadre_launcher_options(const cadre_job_t *job)
{
    return (cadre_launcher_options_t){
        .ps = (uint32_t)job->ps,
        .workers = (uint32_t)job->workers,
        .slots = job->slots,
        .threads = job->threads,
        .row_cache = job->row_cache,
        .ps_lanes = job->ps_lanes,
        .shard_timeout_s = job->shard_timeout_s,
        .device = job->device,
        .math = job->math,
        .trace = job->trace,
        .restarts_max = job->max_restarts,
        .ps_timeout_ms = (int64_t)(job->ps_timeout_s * 1000),
        .strategy = cadre_job_strategy_word(job),
    };
}

/* Makes what the tasks need - their records, the programs' paths, the session with its sockets, the
 * environments - and starts none yet. */
int
cadre_launcher_open(const cadre_launcher_options_t *options, cadre_launcher_t **out)
{
    cadre_auto(cadre_launcher_close) cadre_launcher_t *self = cadre_calloc(1, sizeof(*self));
    self->options = options;
    cadre_launcher_core_init(&self->core, options->hosted ? 0 : options->ps,
                             options->hosted ? 0 : options->workers, options->program != NULL,
                             options->restarts_max);
    /* A silent ps is replaced early enough that its shard can be restored before the job gives it
     * up. */
    if (options->ps_timeout_ms / 2 < self->core.ps_silent_max_ms) {
        self->core.ps_silent_max_ms = options->ps_timeout_ms / 2;
    }

    self->pids = cadre_calloc(self->core.task_count, sizeof(*self->pids));
    self->log_from = cadre_calloc(self->core.task_count, sizeof(*self->log_from));
    self->ends = cadre_calloc(self->core.task_count, sizeof(*self->ends));
    self->environment = environment_with(NULL, NULL);
    int status = options->hosted ? 0 : find_binaries(self);
    if (status < 0) {
        return status;
    }

    status = cadre_session_open(&self->session, options->keep_session);
    if (status < 0) {
        return status;
    }

    /* Without tasks nothing else writes the file by which the next launcher knows a session that
     * was left. */
    status =
        options->hosted ? cadre_session_write_tasks(&self->session, &self->core, self->pids) : 0;
    if (status < 0) {
        return status;
    }

    self->address = cadre_session_endpoint(&self->session, CADRE_LAUNCH_PROGRAM, 0);
    if (options->program) {
        cadre_auto(cadre_free) char *cluster = cadre_session_cluster(&self->session, &self->core);
        self->program_environment = environment_with(cluster, options->strategy);
    }

    *out = self;
    self = NULL;
    return 0;
}

const cadre_session_t *
cadre_launcher_session(const cadre_launcher_t *self)
{
    return &self->session;
}

const char *
cadre_launcher_address(const cadre_launcher_t *self)
{
    return self->address;
}
