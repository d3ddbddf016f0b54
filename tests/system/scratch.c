#include "tests/system/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"

enum {
    TAIL_LINES = 12,
    LOOK_AGAIN_MS = 3,
    OPEN_FILES_MAX = 16, /* of nftw */
};

void
require(bool condition, const char *text)
{
    if (!condition) {
        fprintf(stderr, "the test cannot go on: %s (%s)\n", text, strerror(errno));
        abort();
    }
}

char *
file_text(const char *path)
{
    FILE *file = fopen(path, "re");
    size_t size = 0;
    char *text = cadre_strdup("");
    char buffer[4096];
    size_t got;
    while (file && (got = fread(buffer, 1, sizeof(buffer), file)) > 0) {
        text = cadre_realloc(text, size + got + 1, 1);
        memcpy(text + size, buffer, got);
        size += got;
        text[size] = '\0';
    }
    if (file) {
        fclose(file);
    }
    return text;
}

deadline_t
deadline_in(int64_t ms)
{
    return (deadline_t){cadre_clock_now_ms() + ms};
}

bool
again(deadline_t deadline)
{
    if (cadre_clock_now_ms() >= deadline.end_ms) {
        errno = ETIMEDOUT;
        return false;
    }
    poll(NULL, 0, LOOK_AGAIN_MS);
    return true;
}

/* --- the process that cleans up --- */

static void
print_tail(const char *folder, const char *name)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", folder, name);
    cadre_auto(cadre_free) char *text = file_text(path);
    const char *from = text + strlen(text);
    for (int lines = 0; from > text && lines <= TAIL_LINES;) {
        from--;
        lines += *from == '\n';
    }
    dprintf(STDERR_FILENO, "---- end of %s\n%s", name, *from == '\n' ? from + 1 : from);
}

static void
print_logs(const char *folder)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && strcmp(dot, ".log") == 0) {
            print_tail(folder, entry->d_name);
        }
    }
    if (directory) {
        closedir(directory);
    }
}

static int
remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static void
remove_folder(const char *folder)
{
    nftw(folder, remove_one, OPEN_FILES_MAX, FTW_DEPTH | FTW_PHYS);
}

/* Reads until the test has gone; a byte says that it passed and has removed the directory. */
static _Noreturn void
stay_behind(const char *folder, int end)
{
    char byte;
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    ssize_t got;
    do {
        got = read(end, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        print_logs(folder);
        /* Tasks that are just being killed may still write: once more, until nothing is left. */
        deadline_t deadline = deadline_in(5000);
        do {
            remove_folder(folder);
        } while (access(folder, F_OK) == 0 && again(deadline));
    }
    _exit(0);
}

void
scratch_open(scratch_t *self)
{
    int ends[2];
    snprintf(self->path, sizeof(self->path), "/tmp/cadre-test-XXXXXX");
    require(mkdtemp(self->path) != NULL, "a directory for the test");
    require(pipe2(ends, O_CLOEXEC) == 0, "a pipe");
    pid_t pid = fork();
    require(pid >= 0, "a process");
    if (pid == 0) {
        close(ends[1]);
        stay_behind(self->path, ends[0]);
    }
    close(ends[0]);
    self->guard = ends[1];
}

void
scratch_close(scratch_t *self)
{
    remove_folder(self->path);
    ssize_t written = write(self->guard, "", 1);
    (void)written; /* without it the process only finds nothing to remove */
    close(self->guard);
    self->guard = -1;
}

char *
scratch_path(const scratch_t *self, const char *name)
{
    return cadre_asprintf("%s/%s", self->path, name);
}
