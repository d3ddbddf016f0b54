/* More connections than a process may have descriptors: it goes on, says so, and takes connections
 * again when others have ended. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/descriptors.h"
#include "tests/system/process.h"
#include "tests/system/scratch.h"
#include "tests/system/stranger.h"

TestSuite(descriptors, .timeout = 900);

enum { LIMIT = 128, FLOOD = 4 * LIMIT, WAIT_MS = 120000 };

typedef struct {
    scratch_t scratch;
    char *socket; /* the program's */
    char *log;
    pid_t pid;
} stage_t;

/* Whether ZeroMQ greets on a new connection; it is closed when it does not. */
static bool
is_greeted(const stage_t *self)
{
    char greeting = 0;
    int fd = stranger_connect(self->socket);
    struct pollfd item = {.fd = fd, .events = POLLIN};
    bool greeted = fd >= 0 && poll(&item, 1, 1000) == 1 && recv(fd, &greeting, 1, 0) == 1;
    if (fd >= 0) {
        close(fd);
    }
    return greeted;
}

/* Starts a ps that may have LIMIT descriptors; its coordinator is not there. */
static void
start_ps(stage_t *self)
{
    scratch_open(&self->scratch);
    self->socket = scratch_path(&self->scratch, "ps");
    self->log = scratch_path(&self->scratch, "ps.log");
    cadre_auto(cadre_free) char *program = program_path("cadre-ps");
    cadre_auto(cadre_free) char *line =
        cadre_asprintf("ulimit -n %d; exec '%s' --index 0 --coordinator ipc://%s/coordinator "
                       "--address ipc://%s",
                       LIMIT, program, self->scratch.path, self->socket);
    const char *arguments[] = {"/bin/sh", "-c", line, NULL};
    self->pid = process_start(&(process_t){.arguments = arguments, .output = self->log});
    for (deadline_t deadline = deadline_in(WAIT_MS); !is_greeted(self);) {
        cr_assert(again(deadline), "the ps does not listen");
    }
}

static bool
has_logged(const stage_t *self, const char *text)
{
    cadre_auto(cadre_free) char *log = file_text(self->log);
    return strstr(log, text) != NULL;
}

static void
end(stage_t *self)
{
    int status = 0;
    kill(self->pid, SIGTERM);
    cr_assert(process_wait(self->pid, WAIT_MS, &status));
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM, "%x", (unsigned)status);
    free(self->socket);
    free(self->log);
    scratch_close(&self->scratch);
}

Test(descriptors, that_strangers_use_up_are_named_and_come_back)
{
    stage_t stage;
    int fds[FLOOD];
    cadre_descriptors_raise();
    cr_assert_geq(cadre_descriptors_limit(), 2 * FLOOD);
    start_ps(&stage);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FLOOD; i++) {
            fds[i] = stranger_connect(stage.socket);
            cr_assert(fds[i] >= 0, "connection %d of round %d: the ps is gone", i, round);
        }
        for (deadline_t deadline = deadline_in(WAIT_MS);
             !has_logged(&stage, "descriptors_exhausted");) {
            cr_assert(again(deadline), "the log does not say what has run out");
        }
        for (int i = 0; i < FLOOD; i++) {
            close(fds[i]);
        }
        for (deadline_t deadline = deadline_in(WAIT_MS); !is_greeted(&stage);) {
            cr_assert(again(deadline), "nobody is accepted any more");
        }
    }
    cr_expect(has_logged(&stage, "RLIMIT_NOFILE, the limit of open files, is 128: raise it"));
    end(&stage);
}
