#include "coordinator/cli/launch/host_devices.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/limits.h"
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

/* Returns why the tasks of the job must be processes, freed by the caller; NULL when they may be
 * threads of this one. A GPU has to be alone in its process: after an error of CUDA that ends. */
static char *
why_processes(const cadre_job_t *job, const cadre_job_places_t *places, const char *apart)
{
    if (!cadre_job_is_of_one_host(job)) {
        return cadre_asprintf("strategy %s has processes", cadre_job_strategy_word(job));
    }
    if (apart) {
        return cadre_asprintf("%s takes processes", apart);
    }
    if (places->devices > 0) {
        return cadre_strdup(
            "a GPU, or a list of devices, takes a process for each (--device cpu does not)");
    }
    if (job->closure_deadline_s > 0 || job->backup_attempts > 0) {
        return cadre_strdup("closure_deadline_s and backup_attempts have another worker try again");
    }
    if (cadre_job_insists_on_shards(job)) {
        return cadre_asprintf("cluster.ps is %lld, and one process has one", (long long)job->ps);
    }
    int64_t slots = cadre_job_workers(job, places) * cadre_job_slots(job);
    if (slots > CADRE_SLOTS_MAX) {
        return cadre_asprintf("%lld slots are more than the %d of one process", (long long)slots,
                              CADRE_SLOTS_MAX);
    }
    return NULL;
}

/* Returns whether several slots would compute with several threads each: in one process they take
 * turns, as OpenBLAS lets one product with several threads in at a time. */
static bool
take_turns(const cadre_job_t *job, const cadre_job_places_t *places)
{
    const cadre_launcher_options_t each = {.workers = (uint32_t)cadre_job_workers(job, places),
                                           .slots = cadre_job_slots(job),
                                           .threads = job->threads};
    return each.workers * each.slots > 1 && cadre_launcher_threads(&each) > 1;
}

/* Decides whether the tasks of the job are threads of this process. */
static int
choose_tasks(cadre_job_t *job, cadre_job_places_t *places, const char *apart)
{
    if (job->tasks == CADRE_JOB_TASKS_PROCESSES) {
        return 0;
    }

    cadre_auto(cadre_free) char *why = why_processes(job, places, apart);
    bool is_auto = job->tasks == CADRE_JOB_TASKS_AUTO;
    places->is_one_process = !why && !(is_auto && take_turns(job, places));
    if (is_auto) {
        return !places->is_one_process ? 0
                                       : cadre_job_set(job, "cluster.tasks", "threads",
                                                       CADRE_ORIGIN_STRATEGY, "cluster.tasks");
    }

    cadre_auto(cadre_free) char *place = cadre_job_place(job, "cluster.tasks", "tasks");
    return why ? cadre_fail(CADRE_ECONFIG, "%s is threads, but %s: leave it out", place, why) : 0;
}

/* Returns whether the devices decide how many tasks the job has, or which. */
static bool
depends_on_devices(const cadre_job_t *job, const char *apart)
{
    bool may_be_threads =
        cadre_job_is_of_one_host(job) && job->tasks != CADRE_JOB_TASKS_PROCESSES && !apart;
    return may_be_threads || cadre_job_counts_devices(job);
}

/* Sets workers and ps of a job as its strategy has them for the devices of this host, and whether
 * they are threads. Refuses a list of devices of which one would have no worker. */
int
cadre_host_devices_place(cadre_job_t *job, const char *apart)
{
    cadre_job_places_t places = {.devices = 0};
    int status = cadre_job_choose_device(job);
    if (status < 0) {
        return status;
    }

    status = depends_on_devices(job, apart) ? cadre_host_devices_count(job, &places) : 0;
    if (status < 0) {
        return status;
    }

    status = choose_tasks(job, &places, apart);
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
