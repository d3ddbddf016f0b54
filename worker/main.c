/* cadre-worker: one worker of a job. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/float_mode.h"
#include "common/system/log.h"
#include "common/system/startup.h"
#include "worker/device/cpu_trial.h"
#include "worker/worker_flags.h"
#include "worker/worker_process.h"
#include "worker/worker_threads.h"

/* A pipe into which the handler of SIGTERM and SIGINT writes a byte, and which main's loop reads.
 * Not a signalfd: that needs the signals blocked in every thread, and a library may start threads
 * before main begins. It is static because a handler gets no argument. */
static int signal_pipe[2];

/* Handles SIGTERM and SIGINT: writes the number into the pipe that main reads. Keeps errno, which
 * the interrupted code may be about to read. */
static void
on_signal(int number)
{
    int error = errno;
    uint8_t byte = (uint8_t)number;
    ssize_t written = write(signal_pipe[1], &byte, 1);
    (void)written; /* a failure is ignored: a full pipe holds signals enough */
    errno = error;
}

/* Opens the pipe and installs the handler; returns the end to read from, -1 on failure. */
static int
open_signals(void)
{
    if (pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        return cadre_fail(-1, "pipe: %s", strerror(errno));
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    return signal_pipe[0];
}

/* Sets up the log; until the coordinator has given this worker an index, the log names one only if
 * a flag did. */
static void
set_up_log(const cadre_worker_flags_t *flags)
{
    cadre_log_setup_stderr(flags->level, "worker");
    if (flags->cluster.index != CADRE_INDEX_ANY) {
        cadre_log_set_index(flags->cluster.index);
    }
}

/* Prints why the process cannot work, and returns the status to exit with. */
static int
refuse(int exit_status)
{
    fprintf(stderr, "cadre-worker: %s\n", cadre_error_text());
    return exit_status;
}

/* Fails with CADRE_ENOTFOUND when --data-dir is no folder. */
static int
check_data_dir(const char *path)
{
    struct stat info;
    if (path && stat(path, &info) < 0) {
        return cadre_fail(CADRE_ENOTFOUND, "--data-dir %s: %s", path, strerror(errno));
    }
    if (path && !S_ISDIR(info.st_mode)) {
        return cadre_fail(CADRE_ENOTFOUND, "--data-dir %s is no folder", path);
    }
    return 0;
}

/* Prints what --check has found, a line each; the excuse says why "auto" has taken the CPU. */
static void
print_check(const cadre_worker_flags_t *flags, const cadre_device_t *device,
            const cadre_registry_t *registry)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    printf("coordinator %s\n", cadre_endpoint_text(&flags->cluster.coordinator, address));
    printf("slots %" PRIu32 "\nthreads %d\ndevice %s\ndata %s\n", flags->slots, flags->threads,
           cadre_device_name(device), flags->data_dir ? flags->data_dir : ".");
    if (flags->trace) {
        printf("trace %s\n", flags->trace);
    }
    if (cadre_device_excuse(device)) {
        printf("note %s\n", cadre_device_excuse(device));
    }
    const char *name = NULL;
    for (size_t i = 0; (name = cadre_registry_name(registry, i)); i++) {
        printf("native %s\n", name);
    }
}

/* Prints the devices of this machine for --list-devices, the CPU last. */
static int
list_devices(void)
{
    int count = cadre_device_gpu_count();
    for (int i = 0; i < count; i++) {
        printf("cuda:%d\n", i);
    }
    printf("cpu\n");
    return CADRE_WORKER_EXIT_OK;
}

/* Logs which device computes. */
static void
say_device(const cadre_device_t *device)
{
    if (cadre_device_excuse(device)) { /* of --device auto only: another name ends the worker */
        cadre_log(CADRE_LOG_INFO, "no_gpu", "reason=\"%s\" next=\"computes on the CPU\"",
                  cadre_device_excuse(device));
    }
    cadre_log(CADRE_LOG_INFO, "device", "name=\"%s\"", cadre_device_name(device));
}

static int
refuse_trace(void)
{
    cadre_fail_within(CADRE_EIO, "--trace");
    return refuse(CADRE_WORKER_EXIT_CANNOT_WRITE);
}

/* Opens the server for probes and metrics, if a flag asks for it. */
static int
open_http(const cadre_worker_flags_t *flags, cadre_http_server_t **out)
{
    static const char *const actors[] = {"network thread"}; /* whose turns /livez watches */
    if (!flags->http) {
        return 0;
    }
    int status = cadre_http_server_open(flags->http, actors, CADRE_COUNT_OF(actors), out);
    if (status < 0) {
        return cadre_fail_within(status, "--http");
    }
    cadre_log(CADRE_LOG_INFO, "http_listening", "address=%s", cadre_http_server_address(*out));
    return 0;
}

/* Serves one session after the other, as long as a session ends with -1 (serve another one);
 * returns the status to exit with. */
static int
serve_sessions(const cadre_worker_flags_t *flags, cadre_device_t *device,
               const cadre_registry_t *registry, int signals)
{
    cadre_trace_t *trace = NULL;
    if (flags->trace &&
        cadre_trace_open(flags->trace, flags->slots, CADRE_TRACE_EVENTS_MAX, &trace) < 0) {
        return refuse_trace();
    }
    say_device(device);
    cadre_worker_outputs_t outputs = {.trace = trace};
    int status = open_http(flags, &outputs.http) < 0 ? refuse(CADRE_WORKER_EXIT_UNAVAILABLE) : -1;
    while (status < 0) {
        status = cadre_worker_process_serve(flags, device, registry, &outputs, signals);
    }
    cadre_http_server_close(&outputs.http);
    cadre_worker_threads_end_trace(&trace, flags->trace);
    return status;
}

/* Installs the signal handler and serves sessions. Not before, so that SIGTERM and SIGINT end the
 * process at once while a native file or a device is opened: that may take long, and nobody reads
 * the pipe then. */
static int
serve_until_told(const cadre_worker_flags_t *flags, cadre_device_t *device,
                 const cadre_registry_t *registry)
{
    int signals = open_signals();
    return signals < 0 ? refuse(CADRE_WORKER_EXIT_IO)
                       : serve_sessions(flags, device, registry, signals);
}

/* Opens the device and serves sessions; or with --check only checks, and says what was found. */
static int
serve(const cadre_worker_flags_t *flags, const cadre_registry_t *registry)
{
    cadre_device_options_t options = {
        .name = flags->device, .threads = flags->threads, .math = flags->math};
    cadre_device_t *device = NULL;
    int opened = cadre_cpu_room(flags->slots);
    opened = opened < 0 ? opened : cadre_device_open_with(&options, &device);
    if (opened == CADRE_ENOMEMORY) {
        _exit(refuse(CADRE_WORKER_EXIT_CONFIG)); /* a thread of OpenBLAS's may hang, and exit()
                                                    would wait for it */
    }
    if (opened < 0) {
        return refuse(CADRE_WORKER_EXIT_CONFIG);
    }
    int status = CADRE_WORKER_EXIT_OK;
    if (flags->check && flags->trace && cadre_trace_check(flags->trace) < 0) {
        status = refuse_trace();
    } else if (flags->check && cadre_worker_process_check(flags) < 0) {
        status = refuse(CADRE_WORKER_EXIT_CONFIG);
    } else if (flags->check) {
        print_check(flags, device, registry);
    } else {
        status = serve_until_told(flags, device, registry);
    }
    cadre_device_close(&device);
    return status;
}

/* Runs a worker: reads the flags, loads the native functions, and serves sessions. */
int
main(int argc, char **argv)
{
    cadre_auto(cadre_worker_flags_fini) cadre_worker_flags_t flags = {0};
    if (cadre_startup() < 0) {
        return refuse(CADRE_WORKER_EXIT_CONFIG);
    }
    cadre_memory_keep_freed();
    cadre_flush_subnormals();
    if (cadre_worker_flags_parse(argc, argv, &flags) < 0) {
        return refuse(CADRE_WORKER_EXIT_CONFIG);
    }
    if (flags.list_devices) {
        return list_devices();
    }
    if (flags.security.keys) {
        cadre_startup_hold_secrets();
    }
    if (flags.die_with_parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    set_up_log(&flags);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (check_data_dir(flags.data_dir) < 0) {
        return refuse(CADRE_WORKER_EXIT_NO_INPUT);
    }
    cadre_auto(cadre_registry_destroy) cadre_registry_t *registry = cadre_registry_new();
    for (int i = 0; i < flags.native_count; i++) {
        if (cadre_native_load(registry, flags.natives[i]) < 0) {
            return refuse(CADRE_WORKER_EXIT_CONFIG);
        }
    }
    return serve(&flags, registry);
}
