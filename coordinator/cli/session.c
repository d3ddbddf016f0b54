#include "coordinator/cli/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/endpoint.h"
#include "common/memory.h"
#include "common/status.h"

int
cadre_session_open(cadre_session_t *self)
{
    return cadre_ipc_directory_new(getenv("XDG_RUNTIME_DIR"), &self->path);
}

void
cadre_session_close(cadre_session_t *self, bool keep)
{
    if (!self->path || keep) {
        cadre_free(&self->path);
        return;
    }
    DIR *directory = opendir(self->path);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        unlinkat(dirfd(directory), entry->d_name, 0); /* fails for folders: there are none */
    }
    if (directory) {
        closedir(directory);
    }
    cadre_ipc_directory_remove(&self->path);
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

/* Cuts `text` to its last lines, whole ones, and returns where they begin. */
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
    return json_pack("{s:s, s:i, s:o}", "schema", "cadre.session/v1", "launcher", (int)getpid(),
                     "tasks", tasks);
}

int
cadre_session_write_tasks(const cadre_session_t *self, const cadre_launcher_core_t *core,
                          const int *pids)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/tasks.json", self->path);
    cadre_auto(cadre_free) char *fresh = cadre_asprintf("%s.new", path);
    json_t *object = tasks_object(core, pids);
    int failed = json_dump_file(object, fresh, JSON_INDENT(1));
    json_decref(object);
    if (failed || rename(fresh, path) < 0) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }
    return 0;
}

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
