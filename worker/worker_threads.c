#include "worker/worker_threads.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/system/descriptors.h"
#include "common/system/log.h"
#include "worker/slot/reader_actor.h"
#include "worker/slot/slot_actor.h"
#include "worker/worker_actor.h"

enum {
    DESCRIPTORS_OWN = 16, /* descriptors that the threads open, beside connections to ps */
    AHEAD = 64,           /* runs that wait for a slot in the work queue */
    HOST_NAME_SIZE = 256, /* gethostname */
    STOP_MS = 5000,       /* how long a thread with nothing left to do may take to end */
};

struct cadre_worker_threads {
    cadre_worker_threads_options_t options;
    cadre_work_queue_t *queue;
    cadre_slot_actor_t **slots; /* [options.slots] */
    void **pipes;               /* [options.slots] */
    cadre_reader_actor_t *reader;
    cadre_worker_actor_t *network;
    char host[HOST_NAME_SIZE];                         /* the core points to it */
    char descriptors_why[CADRE_DESCRIPTORS_TEXT_SIZE]; /* explains core.shards_max */
};

/* Starts the slot threads, which all take from one work queue. */
static int
start_slots(cadre_worker_threads_t *self, cadre_context_t *context)
{
    self->queue = cadre_work_queue_new();
    self->slots = cadre_calloc(self->options.slots, sizeof(cadre_slot_actor_t *));
    self->pipes = cadre_calloc(self->options.slots, sizeof(void *));
    for (uint32_t i = 0; i < self->options.slots; i++) {
        const cadre_slot_actor_options_t options = {.queue = self->queue,
                                                    .device = self->options.device,
                                                    .registry = self->options.registry,
                                                    .lane =
                                                        cadre_trace_lane(self->options.trace, i),
                                                    .looks = self->options.shortcut != NULL};
        int status = cadre_slot_actor_open(context, &options, &self->slots[i]);
        if (status < 0) {
            return status;
        }
        self->pipes[i] = cadre_slot_actor_socket(self->slots[i]);
    }
    return 0;
}

/* Returns to how many ps this worker can connect, at two descriptors each: from the limit of the
 * process, less descriptors that are open by now and those kept for files and the coordinator. */
static uint32_t
count_room(cadre_worker_threads_t *self)
{
    uint64_t taken = cadre_descriptors_open() + DESCRIPTORS_OWN + cadre_descriptors_reserve();
    uint64_t limit = cadre_descriptors_limit();
    uint64_t room = limit > taken ? (limit - taken) / 2 : 1;
    cadre_descriptors_text(self->descriptors_why);
    return (uint32_t)(room < CADRE_SHARDS_MAX ? room : CADRE_SHARDS_MAX);
}

/* Starts the network thread, under a new random incarnation: to the coordinator this is a new
 * process, also when it is a later session of the same one. */
static int
start_network(cadre_worker_threads_t *self, cadre_context_t *context)
{
    const cadre_worker_threads_options_t *given = &self->options;
    gethostname(self->host, sizeof(self->host) - 1);
    cadre_worker_actor_options_t options = {
        .core = {.session = {.task = {CADRE_ROLE_WORKER, given->index, 0},
                             .build = CADRE_VERSION,
                             .host = self->host,
                             .process = (uint32_t)getpid(),
                             .away_ms = given->away_ms},
                 .devices = cadre_device_name(given->device),
                 .slots = given->slots,
                 .ahead = AHEAD,
                 .shards_max = count_room(self),
                 .shards_why = self->descriptors_why,
                 .shard_timeout_ms = given->shard_ms,
                 .row_cache_bytes = given->row_cache_bytes,
                 .observes = given->http != NULL,
                 .registry = given->registry},
        .coordinator = given->coordinator,
        .drain_ms = given->drain_ms,
        .http = given->http,
        .hosted = given->hosted,
        .shortcut = given->shortcut,
        .queue = self->queue,
        .slots = self->pipes,
        .reader = cadre_reader_actor_socket(self->reader)};
    uint64_t incarnation = 0;
    /* 0 means no process; getrandom may be cut short by a signal. */
    while (incarnation == 0) {
        if (getrandom(&incarnation, sizeof(incarnation), 0) != (ssize_t)sizeof(incarnation)) {
            incarnation = 0;
        }
    }
    options.core.session.task.incarnation = incarnation;
    return cadre_worker_actor_open(context, &options, &self->network);
}

/* Starts slots, reader and network thread, in this order: the network thread has pipes to the
 * others. */
static int
start(cadre_worker_threads_t *self, cadre_context_t *context)
{
    int status = start_slots(self, context);
    if (status < 0) {
        return status;
    }

    status = cadre_reader_actor_open(context, self->options.data_dir, self->options.confined,
                                     &self->reader);
    return status < 0 ? status : start_network(self, context);
}

/* Starts the threads of one session; on failure stops those that were started. */
int
cadre_worker_threads_open(cadre_context_t *context, const cadre_worker_threads_options_t *options,
                          cadre_worker_threads_t **out)
{
    cadre_worker_threads_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    int status = start(self, context);
    if (status < 0) {
        cadre_worker_threads_close(&self);
        return status;
    }

    *out = self;
    return 0;
}

void *
cadre_worker_threads_socket(cadre_worker_threads_t *self)
{
    return cadre_worker_actor_socket(self->network);
}

/* Stops the threads: the network thread first, which uses the others; slots end when the queue is
 * closed. No thread has work left, so each ends at once; STOP_MS bounds that. On a timeout nothing
 * is freed. */
int
cadre_worker_threads_close(cadre_worker_threads_t **self_p)
{
    cadre_worker_threads_t *self = *self_p;
    if (!self) {
        return 0;
    }

    int status = cadre_worker_actor_close(&self->network, STOP_MS);
    if (self->queue) {
        cadre_work_queue_close(self->queue);
    }
    for (uint32_t i = 0; self->slots && i < self->options.slots && status == 0; i++) {
        status = cadre_slot_actor_close(&self->slots[i], STOP_MS);
    }
    status = status < 0 ? status : cadre_reader_actor_close(&self->reader, STOP_MS);
    if (status < 0) {
        return status;
    }

    *self_p = NULL;
    free(self->slots);
    free(self->pipes);
    cadre_work_queue_destroy(&self->queue);
    free(self);
    return 0;
}

void
cadre_worker_threads_end_trace(cadre_trace_t **trace_p, const char *path)
{
    if (!*trace_p) {
        return;
    }
    uint64_t dropped = cadre_trace_dropped(*trace_p);
    if (cadre_trace_close(trace_p) < 0) {
        cadre_log(CADRE_LOG_ERROR, "trace_failed",
                  "reason=\"%s\" next=\"the file ends before that\"", cadre_error_text());
    } else if (dropped > 0) {
        cadre_log(CADRE_LOG_WARN, "trace_truncated", "file=\"%s\" dropped=%" PRIu64 " limit=%d",
                  path, dropped, CADRE_TRACE_EVENTS_MAX);
    }
}
