#include "coordinator/local/local_tasks.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <zmq.h>

#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/actor.h"
#include "common/system/clock.h"
#include "common/system/cpu_quota.h"
#include "common/system/float_mode.h"
#include "common/system/memory_limit.h"
#include "common/system/poll.h"
#include "ps/control_loop.h"
#include "worker/device/cpu_trial.h"
#include "worker/device/device.h"
#include "worker/worker_actor.h"
#include "worker/worker_threads.h"

enum { LANES_MAX = 16 }; /* as cadre-ps has it */

struct cadre_local_tasks {
    cadre_local_tasks_options_t options; /* its texts but these two are used by open alone */
    char *data_dir;
    char *trace_path;
    cadre_folders_t folders;
    cadre_control_loop_t *loop; /* used by the ps thread; NULL when that has ended well */
    cadre_actor_t *ps;
    cadre_registry_t *registry;
    cadre_device_t *device;
    cadre_trace_t *trace; /* NULL: none is written */
    cadre_worker_threads_t *worker;
};

/* --- starting --- */

/* Runs the ps, on its own thread, as main of cadre-ps does. When the loop cannot be closed (a shard
 * hangs) self->loop stays set, which tells stop_ps. */
static void
run_ps(void *pipe, void *argument)
{
    cadre_local_tasks_t *self = argument;
    cadre_control_loop_run(self->loop, pipe);
    cadre_control_loop_close(&self->loop);
}

/* Gives the address of the ps: inproc, or beside the coordinator's for other processes. The
 * hosted worker asks by calls in both cases. */
static int
find_ps_address(const cadre_local_tasks_t *self, cadre_endpoint_t *address)
{
    if (!self->options.outside) {
        cadre_inproc_endpoint("ps", address);
        return 0;
    }
    cadre_auto(cadre_free) char *text = cadre_asprintf("%s-ps", self->options.outside);
    return cadre_endpoint_parse(text, address);
}

/* Opens the ps with all this machine's memory and half of its processors, and starts its thread. */
static int
start_ps(cadre_local_tasks_t *self, cadre_context_t *context)
{
    unsigned share = (unsigned)cadre_min_int((cadre_cpu_count() + 1) / 2, LANES_MAX);
    self->folders.any = true; /* the ps may write wherever this process may */
    cadre_control_options_t options = {.coordinator = self->options.coordinator,
                                       .index = 0,
                                       .size_bytes_max = cadre_memory_size(),
                                       .lanes =
                                           self->options.ps_lanes ? self->options.ps_lanes : share,
                                       .folders = &self->folders,
                                       .signals = -1, /* none: signals are for the program */
                                       .context = context,
                                       .shortcut = self->options.shortcut};
    int status = find_ps_address(self, &options.address);
    if (status < 0) {
        return status;
    }
    while (options.incarnation == 0) { /* 0 means no process */
        if (getrandom(&options.incarnation, sizeof(options.incarnation), 0) !=
            (ssize_t)sizeof(options.incarnation)) {
            options.incarnation = 0;
        }
    }

    status = cadre_control_loop_open(&options, &self->loop);
    if (status < 0) {
        return status;
    }
    return cadre_actor_open(context, "cadre-ps", run_ps, self, &self->ps);
}

static const char *
environment(const char *variable, const char *otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? text : otherwise;
}

/* Opens the device that the options, or CADRE_DEVICE and CADRE_MATH, name; slots share the
 * processors. */
static int
open_device(cadre_local_tasks_t *self)
{
    const char *device = self->options.device;
    int threads = self->options.threads;
    int share = cadre_max_int(cadre_cpu_count() / (int)self->options.slots, 1);
    const cadre_device_options_t options = {.name = device ? device
                                                           : environment("CADRE_DEVICE", "auto"),
                                            .threads = threads > 0 ? threads : share,
                                            .math = environment("CADRE_MATH", "f32")};
    int status = cadre_cpu_room(self->options.slots);
    status = status < 0 ? status : cadre_device_open_with(&options, &self->device);
    if (status == CADRE_EINVALID) { /* name or math is not a valid word */
        cadre_fail_within(status, device ? "options: local_device, or CADRE_MATH"
                                         : "CADRE_DEVICE or CADRE_MATH");
        return CADRE_ECONFIG;
    }
    /* Where OpenBLAS gets no memory a limit of this process is set wrong. */
    return status == CADRE_ENOMEMORY ? CADRE_ECONFIG : status;
}

/* Opens the trace, where there is to be one, with a lane for each slot. */
static int
open_trace(cadre_local_tasks_t *self)
{
    if (!self->trace_path) {
        return 0;
    }
    return cadre_trace_open(self->trace_path, self->options.slots, CADRE_TRACE_EVENTS_MAX,
                            &self->trace);
}

/* Starts the worker's threads. Told to leave, the worker has half of
 * CADRE_LOCAL_STOP_MS to end what it runs, so that it is gone when stop_worker gives up. */
static int
start_worker(cadre_local_tasks_t *self, cadre_context_t *context)
{
    const cadre_worker_threads_options_t options = {.coordinator = self->options.coordinator,
                                                    .index = 0,
                                                    .slots = self->options.slots,
                                                    .device = self->device,
                                                    .registry = self->registry,
                                                    .data_dir = self->data_dir,
                                                    .trace = self->trace,
                                                    .drain_ms = CADRE_LOCAL_STOP_MS / 2,
                                                    .hosted = true,
                                                    .shortcut = self->options.shortcut};
    return cadre_worker_threads_open(context, &options, &self->worker);
}

/* Opens what the worker needs before anything runs, then starts ps and worker. */
static int
start(cadre_local_tasks_t *self, cadre_context_t *context)
{
    int status = open_device(self);
    if (status < 0) {
        return status;
    }

    status = open_trace(self);
    if (status < 0) {
        return status;
    }

    status = start_ps(self, context);
    return status < 0 ? status : start_worker(self, context);
}

/* Starts the tasks with the float mode of a ps or worker process (subnormals are 0) and with all
 * signals blocked, so that signals go to the threads of the program. Threads inherit both from the
 * thread that starts them: they are set here, and put back for the caller. */
static int
start_as_tasks(cadre_local_tasks_t *self, cadre_context_t *context)
{
    sigset_t all;
    sigset_t before;
    uint64_t mode = cadre_float_mode();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    cadre_flush_subnormals();

    int status = start(self, context);

    cadre_float_mode_set(mode);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* Makes the registry of native functions and lets `natives` (NULL: none) fill it. */
static int
register_natives(cadre_local_tasks_t *self, cadre_local_natives_t natives)
{
    self->registry = cadre_registry_new();
    if (natives && natives(self->registry) < 0) {
        return cadre_fail_within(CADRE_ECONFIG, "options: natives");
    }
    return 0;
}

/* Starts a ps and a worker as threads of this process. When one fails to start all that was started
 * is ended. */
int
cadre_local_tasks_open(cadre_context_t *context, const cadre_local_tasks_options_t *options,
                       cadre_local_tasks_t **out)
{
    cadre_local_tasks_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    const char *folder =
        options->data_dir ? options->data_dir : environment("CADRE_DATA_DIR", NULL);
    self->data_dir = folder ? cadre_strdup(folder) : NULL;
    self->trace_path = options->trace ? cadre_strdup(options->trace) : NULL;
    self->options.slots = options->slots ? options->slots : CADRE_LOCAL_SLOTS;
    int status = register_natives(self, options->natives);
    if (status == 0) {
        status = start_as_tasks(self, context);
    }
    if (status == 0) {
        *out = self;
        return 0;
    }

    /* closing may set another error text */
    cadre_auto(cadre_free) char *reason = cadre_strdup(cadre_error_text());
    cadre_local_tasks_close(&self);
    return cadre_fail(status, "%s", reason);
}

/* --- ending --- */

/* Waits until the network thread has ended, which it does once no slot has a closure any more. */
static int
await_gone(cadre_local_tasks_t *self)
{
    void *socket = cadre_worker_threads_socket(self->worker);
    int64_t end_ms = cadre_clock_now_ms() + CADRE_LOCAL_STOP_MS;
    for (;;) {
        cadre_pipe_message_t message;
        while (cadre_pipe_receive(socket, &message) == 0) {
            free(message.pointer); /* a text for a log: the coordinator has logged the same */
            if (message.kind == CADRE_WORKER_ACTOR_GONE) {
                return 0;
            }
        }

        int64_t left_ms = end_ms - cadre_clock_now_ms();
        if (left_ms <= 0) {
            return cadre_fail(CADRE_ETIMEOUT, "a closure did not end within %d ms",
                              CADRE_LOCAL_STOP_MS);
        }
        zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
        cadre_poll(&item, 1, (long)left_ms);
    }
}

/* Tells the worker to leave once its closures have ended, waits for that, and ends its threads. */
static int
stop_worker(cadre_local_tasks_t *self)
{
    if (!self->worker) {
        return 0;
    }

    cadre_pipe_send(cadre_worker_threads_socket(self->worker), CADRE_WORKER_ACTOR_DRAIN, NULL);
    int status = await_gone(self);
    return status < 0 ? status : cadre_worker_threads_close(&self->worker);
}

/* Waits for the thread of the ps, which the coordinator has told to stop. */
static int
stop_ps(cadre_local_tasks_t *self)
{
    if (!self->ps) {
        return cadre_control_loop_close(&self->loop); /* the thread of the ps was not started */
    }

    int status = cadre_actor_stop(&self->ps, CADRE_LOCAL_STOP_MS);
    if (status < 0) {
        return status;
    }
    /* set: the thread has ended, but the loop could not be closed (run_ps) */
    return self->loop ? cadre_fail(CADRE_ETIMEOUT, "the shard or its disk hangs") : 0;
}

/* Ends worker and ps. On failure nothing is freed: the threads that go on use it. */
int
cadre_local_tasks_close(cadre_local_tasks_t **self_p)
{
    cadre_local_tasks_t *self = *self_p;
    if (!self) {
        return 0;
    }

    int status = stop_worker(self);
    if (status < 0) {
        return status;
    }

    status = stop_ps(self);
    if (status < 0) {
        return status;
    }

    *self_p = NULL;
    cadre_worker_threads_end_trace(&self->trace, self->trace_path);
    cadre_device_close(&self->device);
    cadre_registry_destroy(&self->registry);
    free(self->data_dir);
    free(self->trace_path);
    free(self);
    return 0;
}
