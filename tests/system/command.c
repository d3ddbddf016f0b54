#include "tests/system/command.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/memory.h"
#include "tests/system/process.h"

enum { ARGUMENTS_MAX = 32, STOP_MS = 120000 /* for a stop, on a busy machine */ };

void
command_open(command_t *self)
{
    *self = (command_t){.pid = 0};
    scratch_open(&self->scratch);
    self->checkpoints = scratch_path(&self->scratch, "checkpoints");
}

void
command_close(command_t *self)
{
    if (self->pid) {
        kill(self->pid, SIGKILL);
        command_end(self);
    }
    free(self->checkpoints);
    free(self->output);
    free(self->errors);
    scratch_close(&self->scratch);
}

/* Each run has a folder of its own for its session, so that tasks are never those of the last. */
static char *
session_folder(const command_t *self)
{
    return cadre_asprintf("%s/run-%d", self->scratch.path, self->runs);
}

void
command_start(command_t *self, const char *const *arguments)
{
    require(self->pid == 0, "the command before has ended");
    self->runs++;
    free(self->output);
    free(self->errors);
    self->output = cadre_asprintf("%s/output-%d", self->scratch.path, self->runs);
    self->errors = cadre_asprintf("%s/errors-%d.log", self->scratch.path, self->runs);
    cadre_auto(cadre_free) char *folder = session_folder(self);
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *runtime = cadre_asprintf("XDG_RUNTIME_DIR=%s", folder);
    require(mkdir(folder, 0700) == 0, folder);
    const char *all[ARGUMENTS_MAX] = {program};
    for (size_t i = 0; arguments[i]; i++) {
        require(i + 2 < ARGUMENTS_MAX, "room for the arguments");
        all[i + 1] = arguments[i];
    }
    const char *environment[] = {runtime, NULL};
    self->pid = process_start(&(process_t){.arguments = all,
                                           .environment = environment,
                                           .output = self->output,
                                           .errors = self->errors});
}

int
command_end(command_t *self)
{
    int end = 0;
    require(process_wait(self->pid, COMMAND_WAIT_MS, &end), "the end of the command");
    self->pid = 0;
    return WIFEXITED(end) ? WEXITSTATUS(end) : -WTERMSIG(end);
}

int
command_run(command_t *self, const char *const *arguments)
{
    command_start(self, arguments);
    return command_end(self);
}

void
command_expect_exit(const command_t *self, int code, int wanted)
{
    cadre_auto(cadre_free) char *words = command_words(self);
    cadre_auto(cadre_free) char *text = cadre_asprintf("exit %d, not %d: %s", code, wanted, words);
    require(code == wanted, text);
}

char *
command_output(const command_t *self)
{
    return file_text(self->output);
}

char *
command_errors(const command_t *self)
{
    return file_text(self->errors);
}

static const char *
end_of(const char *text)
{
    enum { SHOWN = 2000 };
    size_t length = strlen(text);
    return text + (length > SHOWN ? length - SHOWN : 0);
}

char *
command_words(const command_t *self)
{
    cadre_auto(cadre_free) char *output = command_output(self);
    cadre_auto(cadre_free) char *errors = command_errors(self);
    return cadre_asprintf("stdout: ...%s\nstderr: ...%s", end_of(output), end_of(errors));
}

json_t *
command_result(const command_t *self)
{
    cadre_auto(cadre_free) char *text = command_output(self);
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == '\n') {
        text[length - 1] = '\0';
    }
    const char *line = strrchr(text, '\n');
    return json_loads(line ? line + 1 : text, JSON_REJECT_DUPLICATES, NULL);
}

double
json_number_at(const json_t *object, const char *path)
{
    while (object && *path) {
        char name[64];
        size_t length = strcspn(path, ".");
        snprintf(name, sizeof(name), "%.*s", (int)length, path);
        object = json_is_array(object) ? json_array_get(object, strtoul(name, NULL, 10))
                                       : json_object_get(object, name);
        path += length + (path[length] == '.');
    }
    return json_is_number(object) ? json_number_value(object) : -1;
}

/* tasks.json of the session under way, or NULL. */
static json_t *
read_tasks(const command_t *self)
{
    cadre_auto(cadre_free) char *folder = session_folder(self);
    DIR *directory = opendir(folder);
    json_t *tasks = NULL;
    for (const struct dirent *entry; directory && !tasks && (entry = readdir(directory));) {
        cadre_auto(cadre_free) char *path =
            cadre_asprintf("%s/%s/tasks.json", folder, entry->d_name);
        tasks = entry->d_name[0] == '.' ? NULL : json_load_file(path, 0, NULL);
    }
    if (directory) {
        closedir(directory);
    }
    return tasks;
}

pid_t
command_task(const command_t *self, const char *role, int index)
{
    json_t *tasks = read_tasks(self);
    const json_t *list = json_object_get(tasks, "tasks");
    pid_t pid = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *task = json_array_get(list, i);
        const char *its_role = json_string_value(json_object_get(task, "role"));
        if (its_role && strcmp(its_role, role) == 0 &&
            json_integer_value(json_object_get(task, "index")) == index) {
            pid = (pid_t)json_integer_value(json_object_get(task, "pid"));
        }
    }
    json_decref(tasks);
    return pid;
}

pid_t
command_signal_task(const command_t *self, const char *role, int index, int number)
{
    pid_t pid = command_task(self, role, index);
    require(pid > 0 && kill(pid, number) == 0, "a task that runs");
    require(number != SIGSTOP || process_wait_stopped(pid, STOP_MS), "a task to stand still");
    return pid;
}

char *
command_status(const command_t *self, const char *format)
{
    enum { SIZE_BYTES = 65536, WAIT_MS = 120000 };
    static const char begins[] = "coordinator=";
    cadre_auto(cadre_free) char *errors = command_errors(self);
    const char *said = strstr(errors, begins);
    if (!said || !strchr(said, '\n')) {
        return NULL;
    }
    said += strlen(begins);
    cadre_auto(cadre_free) char *address = cadre_strndup(said, strcspn(said, " \n"));
    cadre_auto(cadre_free) char *program = program_path("cadre");
    cadre_auto(cadre_free) char *text = cadre_calloc(1, SIZE_BYTES);
    const char *arguments[] = {program, "status", "--coordinator", address, "-o", format, NULL};
    int code = process_output(arguments, NULL, WAIT_MS, text, SIZE_BYTES);
    return code == 0 ? cadre_strdup(text) : NULL;
}

/* The highest number of a checkpoint; 0 when there is none. */
static long
newest_checkpoint(const char *path)
{
    DIR *directory = opendir(path);
    long newest = 0;
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        long number =
            strncmp(entry->d_name, "ckpt-", 5) == 0 ? strtol(entry->d_name + 5, NULL, 10) : 0;
        newest = number > newest ? number : newest;
    }
    if (directory) {
        closedir(directory);
    }
    return newest;
}

bool
command_has_ended(const command_t *self)
{
    siginfo_t info = {.si_pid = 0};
    waitid(P_PID, (id_t)self->pid, &info, WEXITED | WNOHANG | WNOWAIT);
    return info.si_pid != 0;
}

long
command_wait_checkpoint_after(const command_t *self, long last)
{
    deadline_t deadline = deadline_in(COMMAND_WAIT_MS);
    while (newest_checkpoint(self->checkpoints) <= last && !command_has_ended(self)) {
        require(again(deadline), "a checkpoint");
    }
    return newest_checkpoint(self->checkpoints);
}

void
command_wait_checkpoint(const command_t *self)
{
    command_wait_checkpoint_after(self, 0);
}

void
command_signal(const command_t *self, int number)
{
    require(kill(self->pid, number) == 0, "a signal");
}
