/* A process that is killed in the middle of its runs leaves the device to the others. */
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"

enum { READY_MS = 120000, WIDTH = 512, BUSY_RUNS = 3 };

extern char **environ;

static void
make_busy(gpu_case_t *one)
{
    cadre_program_t *p = cadre_program_new("busy");
    cadre_node_t x =
        gpu_argument(one, p, gpu_random(CADRE_F32, (int64_t[]){WIDTH, WIDTH}, 2, -1, 1));
    cadre_node_t w = cadre_op_var(p, "w", (int64_t[]){WIDTH, WIDTH}, 2);
    cadre_op_minimize(p, cadre_op_mean_all(p, cadre_op_square(p, cadre_op_matmul(p, x, w))));
    gpu_case_init(one, p);
}

int
gpu_check_hold(cadre_device_t *device)
{
    gpu_case_t one = {0};
    make_busy(&one);
    cadre_slot_t *slot = NULL;
    int status = cadre_slot_open(device, NULL, &slot);
    for (int i = 0; status == 0; i++) {
        gpu_outcome_t outcome;
        status = gpu_case_run(&one, slot, 1, &outcome);
        gpu_outcome_fini(&one, &outcome);
        if (i == BUSY_RUNS && (printf("ready\n") < 0 || fflush(stdout) != 0)) {
            status = CADRE_EIO; /* nobody is left who would end this process */
        }
    }
    cadre_slot_close(&slot);
    gpu_case_fini(&one);
    return status;
}

/* Starts this program once more, as one that runs until it is killed. */
static bool
start(gpu_check_t *self, pid_t *pid, int *output)
{
    int pipes[2];
    cadre_assert(pipe(pipes) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipes[0]);
    posix_spawn_file_actions_addclose(&actions, pipes[1]);
    char *arguments[] = {"cadre-gpu-check", "--hold", (char *)(uintptr_t)self->name, NULL};
    int error = posix_spawn(pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    *output = pipes[0];
    gpu_check_that(self, error == 0, "a second process: %s", strerror(error));
    return error == 0;
}

static void
run_beside(gpu_check_t *self, const gpu_case_t *one, const char *when)
{
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    for (int i = 0; i < BUSY_RUNS; i++) {
        gpu_outcome_t outcome;
        int status = gpu_case_run(one, slot, 1, &outcome);
        gpu_check_that(self, status == 0, "%s another process was killed: %s", when,
                       cadre_error_text());
        gpu_outcome_fini(one, &outcome);
    }
    cadre_slot_close(&slot);
}

void
gpu_check_killed(gpu_check_t *self)
{
    pid_t pid = 0;
    int output = -1;
    if (!self->name || !start(self, &pid, &output)) {
        return; /* a device that no other process reaches */
    }
    gpu_case_t one = {0};
    make_busy(&one);
    struct pollfd poller = {.fd = output, .events = POLLIN};
    char text[8] = "";
    bool ready = poll(&poller, 1, READY_MS) == 1 && read(output, text, sizeof(text) - 1) > 0 &&
                 strncmp(text, "ready", 5) == 0;
    gpu_check_that(self, ready, "a second process does not get to run on the device");
    run_beside(self, &one, "before");
    kill(pid, SIGKILL);
    int ended = 0;
    cadre_assert(waitpid(pid, &ended, 0) == pid);
    gpu_check_that(self, WIFSIGNALED(ended), "the second process ended by itself");
    close(output);
    run_beside(self, &one, "after");
    gpu_case_fini(&one);
}
