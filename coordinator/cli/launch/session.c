#include "coordinator/cli/launch/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/endpoint.h"

/* Names in the session directory, beside sockets and logs. */
static const char SCHEMA[] = "cadre.session/v1";
static const char TASKS_NAME[] = "tasks.json";
static const char KEPT_NAME[] = "kept"; /* marks a directory that its launcher was told to keep */

/* Returns whether a name is "cadre-" and six characters, as mkdtemp makes them. */
static bool
is_session_name(const char *name)
{
    return strncmp(name, "cadre-", 6) == 0 && strlen(name) == 12;
}

/* Returns whether a session is this user's, was not to be kept, and its launcher has ended. That
 * nobody locks its directory tells the last: process ids mean nothing across containers. On success
 * the directory is locked, so that no other launcher removes it, too. */
static bool
is_abandoned(int directory, const char *path)
{
    struct stat about;
    if (fstat(directory, &about) < 0 || about.st_uid != geteuid() ||
        flock(directory, LOCK_EX | LOCK_NB) < 0 || faccessat(directory, KEPT_NAME, F_OK, 0) == 0) {
        return false;
    }

    cadre_auto(cadre_free) char *tasks = cadre_asprintf("%s/%s", path, TASKS_NAME);
    json_t *object = json_load_file(tasks, 0, NULL);
    const char *schema = json_string_value(json_object_get(object, "schema"));
    bool ours = schema && strcmp(schema, SCHEMA) == 0;

    json_decref(object);
    return ours;
}

/* Removes all files in the directory. */
static void
empty(int directory)
{
    /* closedir closes the descriptor that fdopendir got, so the stream gets one of its own. */
    int again = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = again >= 0 ? fdopendir(again) : NULL;
    const struct dirent *entry;
    while (stream && (entry = readdir(stream))) {
        unlinkat(directory, entry->d_name, 0); /* fails for folders, of which there are none */
    }
    if (stream) {
        closedir(stream);
    }
}

/* Removes the sessions that killed launchers have left in the folder of the session `own`, at most
 * CADRE_SESSION_SWEEP_MAX of them. The own one is locked, so it stays. */
static void
sweep(const char *own)
{
    cadre_auto(cadre_free) char *parent = cadre_strndup(own, (size_t)(strrchr(own, '/') - own));
    DIR *stream = opendir(parent);
    const struct dirent *entry;
    for (int swept = 0; stream && swept < CADRE_SESSION_SWEEP_MAX && (entry = readdir(stream));) {
        if (!is_session_name(entry->d_name)) {
            continue;
        }

        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", parent, entry->d_name);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && is_abandoned(fd, path)) {
            empty(fd);
            rmdir(path);
            swept++;
        }

        if (fd >= 0) {
            close(fd);
        }
    }

    if (stream) {
        closedir(stream);
    }
}

/* Opens and locks the directory of the session, and marks it if it is to be kept. */
static int
open_directory(cadre_session_t *self, bool keep)
{
    self->directory = open(self->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->directory < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", self->path, strerror(errno));
    }

    /* The lock tells other launchers that this one lives. A file system that refuses locks refuses
     * theirs too, and without a lock they remove nothing: so a failure does no harm. */
    flock(self->directory, LOCK_EX | LOCK_NB);
    int mark = keep ? openat(self->directory, KEPT_NAME, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (keep && mark < 0) {
        return cadre_fail(CADRE_EIO, "%s/%s: %s", self->path, KEPT_NAME, strerror(errno));
    }
    if (mark >= 0) {
        close(mark);
    }

    return 0;
}

/* Makes the directory of the session and locks it, then removes sessions that killed launchers
 * left. */
int
cadre_session_open(cadre_session_t *self, bool keep)
{
    int status = cadre_ipc_directory_new(getenv("XDG_RUNTIME_DIR"), &self->path);
    if (status < 0) {
        return status;
    }

    status = open_directory(self, keep);
    if (status < 0) {
        return status;
    }

    sweep(self->path);
    return 0;
}

/* Ends the session: removes the directory unless `keep`, and unlocks it. Does nothing where none
 * was opened. */
void
cadre_session_close(cadre_session_t *self, bool keep)
{
    if (!self->path) {
        return;
    }

    if (!keep && self->directory >= 0) {
        empty(self->directory);
        cadre_ipc_directory_remove(&self->path);
    }

    if (self->directory >= 0) {
        close(self->directory);
    }
    cadre_free(&self->path);
}

char *
cadre_session_endpoint(const cadre_session_t *self, cadre_launch_role_t role, uint32_t index)
{
    if (role == CADRE_LAUNCH_PROGRAM) {
        return cadre_asprintf("ipc://%s/coordinator", self->path);
    }
    return cadre_asprintf("ipc://%s/%s-%u", self->path, cadre_launch_role_text(role), index);
}

char *
cadre_session_log_path(const cadre_session_t *self, cadre_launch_role_t role, uint32_t index)
{
    return cadre_asprintf("%s/%s-%u.log", self->path, cadre_launch_role_text(role), index);
}

/* Returns where the last CADRE_SESSION_TAIL_LINES lines of `text` begin, or all its lines if there
 * are fewer. Unless `whole`, the text was cut in the middle of its first line, which is left
 * out. */
static const char *
last_lines(char *text, size_t length, bool whole)
{
    while (length > 0 && text[length - 1] == '\n') {
        text[--length] = '\0';
    }

    size_t begin = length;
    int lines = 0;
    while (begin > 0 && lines < CADRE_SESSION_TAIL_LINES) {
        begin--;
        lines += text[begin] == '\n';
    }

    if (lines == CADRE_SESSION_TAIL_LINES) {
        return text + begin + 1;
    }

    const char *line = whole ? NULL : strchr(text, '\n');
    return line ? line + 1 : text;
}

/* Writes the last lines of a task's log into `text`, and returns it. `from`: offset at which the
 * last process of the task began to write; what is before was written by an earlier one. */
const char *
cadre_session_tail(const cadre_session_t *self, cadre_launch_role_t role, uint32_t index,
                   int64_t from, char *text)
{
    char bytes[CADRE_SESSION_TAIL_SIZE + 1] = "";
    cadre_auto(cadre_free) char *path = cadre_session_log_path(self, role, index);

    text[0] = '\0';
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return text;
    }

    int64_t end = lseek(file, 0, SEEK_END);
    /* If more was written than is shown, its first line is probably cut. */
    int64_t begin = end - from > CADRE_SESSION_TAIL_SIZE ? end - CADRE_SESSION_TAIL_SIZE : from;
    ssize_t size_bytes = pread(file, bytes, CADRE_SESSION_TAIL_SIZE, begin);

    close(file);
    if (size_bytes > 0) {
        bytes[size_bytes] = '\0';
        snprintf(text, CADRE_SESSION_TAIL_SIZE + 1, "%s",
                 last_lines(bytes, strlen(bytes), begin == from));
    }

    return text;
}

/* Returns the content of tasks.json: the launcher's process id and the tasks with theirs. */
static json_t *
tasks_object(const cadre_launcher_core_t *core, const int *pids)
{
    json_t *tasks = json_array();
    for (size_t i = 0; i < core->task_count; i++) {
        const cadre_launch_task_t *task = &core->tasks[i];
        json_t *pid = pids[i] > 0 ? json_integer(pids[i]) : json_null();
        json_array_append_new(
            tasks, json_pack("{s:s, s:i, s:o, s:i}", "role", cadre_launch_role_text(task->role),
                             "index", (int)task->index, "pid", pid, "starts", (int)task->starts));
    }

    return json_pack("{s:s, s:i, s:o}", "schema", SCHEMA, "launcher", (int)getpid(), "tasks",
                     tasks);
}

/* Replaces tasks.json by a rename, so that a reader sees the old or the new one, never half of
 * it. */
int
cadre_session_write_tasks(const cadre_session_t *self, const cadre_launcher_core_t *core,
                          const int *pids)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, TASKS_NAME);
    cadre_auto(cadre_free) char *fresh = cadre_asprintf("%s.new", path);
    json_t *object = tasks_object(core, pids);
    int failed = json_dump_file(object, fresh, JSON_INDENT(1));
    json_decref(object);
    if (failed || rename(fresh, path) < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }
    return 0;
}

/* Returns the description of the cluster for the user's program, which is its coordinator: the
 * addresses of all tasks as JSON, freed by the caller. */
char *
cadre_session_cluster(const cadre_session_t *self, const cadre_launcher_core_t *core)
{
    json_t *ps = json_array();
    json_t *workers = json_array();

    for (size_t i = 0; i < core->task_count; i++) {
        const cadre_launch_task_t *task = &core->tasks[i];
        if (task->role != CADRE_LAUNCH_PROGRAM) {
            cadre_auto(cadre_free) char *endpoint =
                cadre_session_endpoint(self, task->role, task->index);
            json_array_append_new(task->role == CADRE_LAUNCH_PS ? ps : workers,
                                  json_string(endpoint));
        }
    }

    cadre_auto(cadre_free) char *coordinator =
        cadre_session_endpoint(self, CADRE_LAUNCH_PROGRAM, 0);
    json_t *cluster =
        json_pack("{s:{s:[s], s:o, s:o}, s:{s:s, s:i}}", "cluster", "coordinator", coordinator,
                  "ps", ps, "worker", workers, "task", "type", "coordinator", "index", 0);
    char *text = json_dumps(cluster, JSON_COMPACT);

    json_decref(cluster);
    return text;
}
