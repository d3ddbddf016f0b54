#include "coordinator/cli/launch/host_devices.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/device_list.h"
#include "common/spec/device_name.h"
#include "common/system/clock.h"
#include "coordinator/cli/launch/launcher.h"

enum { LIST_SIZE = 32768 }; /* bytes that cadre-worker may print */

/* Starts `cadre-worker --list-devices` with its stdout in a pipe; gives the end to read from in
 * `output`. */
static int
start_list(const char *worker, pid_t *pid, int *output)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return cadre_fail(CADRE_EIO, "pipe: %s", strerror(errno));
    }

    char *const arguments[] = {(char *)(uintptr_t)worker, (char *)(uintptr_t) "--list-devices",
                               NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int error = posix_spawn(pid, worker, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return cadre_fail(CADRE_EUNAVAILABLE, "%s: %s", worker, strerror(error));
    }

    *output = ends[0];
    return 0;
}

/* Reads the list into `text` (LIST_SIZE bytes). Returns whether its end came: false after
 * CADRE_HOST_DEVICES_WAIT_MS, or when the list is too long. */
static bool
read_list(int output, char *text)
{
    int64_t deadline_ms = cadre_clock_now_ms() + CADRE_HOST_DEVICES_WAIT_MS;
    size_t length = 0;
    /* Until the end of the pipe: cadre-worker has exited, and the list is whole. */
    while (length < LIST_SIZE - 1) {
        int64_t left_ms = deadline_ms - cadre_clock_now_ms();
        struct pollfd item = {.fd = output, .events = POLLIN};
        if (left_ms <= 0 || poll(&item, 1, (int)left_ms) == 0) {
            return false;
        }
        ssize_t size = read(output, text + length, LIST_SIZE - 1 - length);
        if (size == 0) {
            text[length] = '\0';
            return true;
        }
        length += size > 0 ? (size_t)size : 0;
    }
    return false;
}

/* Returns how many lines of the text begin with `prefix`. */
static int64_t
count_lines(const char *text, const char *prefix)
{
    int64_t count = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, prefix, strlen(prefix)) == 0;
    }
    return count;
}

/* Counts the GPUs by a process of cadre-worker, which is killed if it does not end in time. */
static int
count_gpus(int64_t *count)
{
    cadre_auto(cadre_free) char *folder = cadre_launcher_binary_folder();
    if (!folder) {
        return CADRE_EUNAVAILABLE;
    }

    cadre_auto(cadre_free) char *worker = cadre_asprintf("%s/cadre-worker", folder);
    pid_t pid = 0;
    int output = -1;
    int status = start_list(worker, &pid, &output);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_free) char *text = cadre_calloc(LIST_SIZE, 1);
    int end = -1;
    bool is_whole = read_list(output, text);
    close(output);
    if (!is_whole) {
        kill(pid, SIGKILL);
    }
    while (waitpid(pid, &end, 0) < 0 && errno == EINTR) {
    }

    if (!is_whole || end != 0) {
        return cadre_fail(CADRE_EUNAVAILABLE,
                          "%s --list-devices does not say which devices there are; name them by "
                          "--device, as cuda:0,cuda:1",
                          worker);
    }

    *count = count_lines(text, "cuda:");
    return 0;
}

/* Counts the devices that the job may use: those that it lists, the GPUs of the host for "auto", or
 * none for the CPU alone. */
int
cadre_host_devices_count(const cadre_job_t *job, cadre_job_places_t *places)
{
    *places = (cadre_job_places_t){.devices = (int64_t)cadre_device_list_count(job->device)};
    if (places->devices > 1) {
        return 0; /* the job lists several */
    }

    int device = CADRE_DEVICE_CPU;
    int status = cadre_device_name_parse(job->device, &device);
    if (status < 0) {
        return status;
    }
    if (device > CADRE_DEVICE_CPU) {
        return 0; /* one GPU by name, "cuda:0": that is the one device */
    }

    places->devices = 0;
    places->is_choice = true;
    return device == CADRE_DEVICE_CPU ? 0 : count_gpus(&places->devices);
}

/* Sets workers and ps of a job as its strategy has them for the devices of this host. Refuses a
 * list of devices of which one would have no worker. */
int
cadre_host_devices_place(cadre_job_t *job)
{
    cadre_job_places_t places = {.devices = 0};
    int status = cadre_job_counts_devices(job) ? cadre_host_devices_count(job, &places) : 0;
    if (status < 0) {
        return status;
    }

    status = cadre_job_follow_strategy(job, &places);
    if (status < 0) {
        return status;
    }

    int64_t listed = (int64_t)cadre_device_list_count(job->device);
    if (listed <= job->workers) {
        return 0;
    }
    cadre_auto(cadre_free) char *devices = cadre_job_place(job, "cluster.device", "device");
    cadre_auto(cadre_free) char *workers = cadre_job_place(job, "cluster.workers", "workers");
    return cadre_fail(
        CADRE_ECONFIG, "%s lists %lld devices, but %s is %lld: say --workers %lld, or list fewer",
        devices, (long long)listed, workers, (long long)job->workers, (long long)listed);
}
