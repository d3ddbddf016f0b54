#include "tests/worker/cuda_fake/fake_cuda.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/random.h"

typedef enum { WORK_CALL, WORK_RECORD, WORK_WAIT } work_kind_t;

typedef struct work {
    struct work *next;
    work_kind_t kind;
    fake_call_t call;
    void *argument;
    size_t argument_size;
    cudaEvent_t event;
    uint64_t ticket; /* of RECORD and WAIT */
} work_t;

typedef struct {
    work_t *first;
    work_t **last;
} queue_t;

struct CUstream_st {
    struct CUstream_st *next; /* of all */
    queue_t queue;
    struct CUgraph_st *recording;
};

struct CUevent_st {
    uint64_t issued; /* records asked for */
    uint64_t done;   /* records that happened */
};

struct CUgraph_st {
    queue_t queue;
};

struct CUgraphExec_st {
    queue_t queue;
};

typedef struct memory {
    struct memory *next;
    char *data;
    size_t size_bytes;
    bool pinned;
} memory_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaStream_t streams;
static memory_t *memories;
static fake_cuda_count_t count;
static size_t limit = (size_t)1 << 40;
static uint64_t random_seed;
static uint64_t random_at;
static const char *broken;
static int broken_calls;
static int broken_error;

/* ---- controls ---- */

void
fake_cuda_seed(uint64_t seed)
{
    random_seed = seed;
    random_at = 0;
}

void
fake_cuda_break(const char *function, int calls, int error)
{
    broken = function;
    broken_calls = calls;
    broken_error = error;
}

int
fake_error(const char *function)
{
    if (!broken || strcmp(broken, function) != 0 || broken_calls-- > 0) {
        return 0;
    }
    broken = NULL;
    return broken_error;
}

#define MAY_BREAK()                                                                                \
    do {                                                                                           \
        int error_ = fake_error(__func__);                                                         \
        if (error_) {                                                                              \
            return (cudaError_t)error_;                                                            \
        }                                                                                          \
    } while (0)

void
fake_count_object(int64_t by)
{
    pthread_mutex_lock(&lock);
    count.objects += by;
    pthread_mutex_unlock(&lock);
}

fake_cuda_count_t
fake_cuda_count(void)
{
    return count;
}

void
fake_cuda_limit(size_t size_bytes)
{
    limit = size_bytes;
}

/* ---- queues ---- */

static void
append(queue_t *queue, work_t *work)
{
    if (!queue->first) {
        queue->last = &queue->first;
    }
    work->next = NULL;
    *queue->last = work;
    queue->last = &work->next;
}

static work_t *
copy_of(const work_t *work)
{
    work_t *copy = cadre_calloc(1, sizeof(*copy));
    *copy = *work;
    if (work->argument) {
        copy->argument = cadre_calloc(1, work->argument_size);
        memcpy(copy->argument, work->argument, work->argument_size);
    }
    return copy;
}

static void
clear(queue_t *queue)
{
    while (queue->first) {
        work_t *work = queue->first;
        queue->first = work->next;
        free(work->argument);
        free(work);
    }
}

/* Into the graph that is being recorded there, or onto the stream. */
static void
enqueue(cudaStream_t stream, work_t *work)
{
    append(stream->recording ? &stream->recording->queue : &stream->queue, work);
}

void
fake_enqueue(cudaStream_t stream, fake_call_t call, const void *argument, size_t size_bytes)
{
    work_t work = {.kind = WORK_CALL,
                   .call = call,
                   .argument = (void *)(uintptr_t)argument,
                   .argument_size = size_bytes};
    pthread_mutex_lock(&lock);
    enqueue(stream, copy_of(&work));
    pthread_mutex_unlock(&lock);
}

static bool
can_run(const struct CUstream_st *stream)
{
    const work_t *work = stream->queue.first;
    return work && (work->kind != WORK_WAIT || work->event->done >= work->ticket);
}

/* Does one piece of work of some stream that can go on. */
static void
run_one(void)
{
    cudaStream_t ready[64];
    size_t ready_count = 0;
    for (cudaStream_t stream = streams; stream; stream = stream->next) {
        if (can_run(stream) && ready_count < CADRE_COUNT_OF(ready)) {
            ready[ready_count++] = stream;
        }
    }
    cadre_assert(ready_count > 0); /* otherwise everything waits for everything */
    float number = cadre_random_uniform(random_seed, 1, random_at++);
    cudaStream_t stream = ready[(size_t)(number * (float)ready_count) % ready_count];
    work_t *work = stream->queue.first;
    stream->queue.first = work->next;
    if (work->kind == WORK_CALL) {
        work->call(work->argument);
    } else if (work->kind == WORK_RECORD && work->event->done < work->ticket) {
        work->event->done = work->ticket;
    }
    free(work->argument);
    free(work);
}

/* ---- memory ---- */

static cudaError_t
allocate(void **out, size_t size_bytes, bool pinned)
{
    pthread_mutex_lock(&lock);
    bool full = !pinned && count.device_bytes + size_bytes > limit;
    if (!full) {
        memory_t *memory = cadre_calloc(1, sizeof(*memory));
        *memory = (memory_t){.next = memories, .size_bytes = size_bytes, .pinned = pinned};
        memory->data = aligned_alloc(256, (size_bytes + 255) / 256 * 256);
        memset(memory->data, 0xff, size_bytes);
        memories = memory;
        *(pinned ? &count.pinned_bytes : &count.device_bytes) += size_bytes;
        count.allocations++;
        *out = memory->data;
    }
    pthread_mutex_unlock(&lock);
    return full ? cudaErrorMemoryAllocation : cudaSuccess;
}

/* Frees later, and nothing but NaN until then: an address that is used after its end must not be
 * that of what was allocated next. */
static void
retire(char *data, size_t size_bytes)
{
    enum { KEPT = 16 };
    static char *kept[KEPT];
    static size_t next;
    memset(data, 0xff, size_bytes);
    free(kept[next]);
    kept[next] = data;
    next = (next + 1) % KEPT;
}

static cudaError_t
release(void *data, bool pinned)
{
    pthread_mutex_lock(&lock);
    for (memory_t **place = &memories; *place && data; place = &(*place)->next) {
        memory_t *memory = *place;
        if (memory->data == data) {
            cadre_assert(memory->pinned == pinned);
            *(pinned ? &count.pinned_bytes : &count.device_bytes) -= memory->size_bytes;
            *place = memory->next;
            retire(memory->data, memory->size_bytes);
            free(memory);
            data = NULL;
            break;
        }
    }
    cadre_assert(!data);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t
cudaMalloc(void **memory, size_t size_bytes)
{
    MAY_BREAK();
    return allocate(memory, size_bytes, false);
}

cudaError_t
cudaFree(void *memory)
{
    return release(memory, false);
}

cudaError_t
cudaMallocHost(void **memory, size_t size_bytes)
{
    MAY_BREAK();
    return allocate(memory, size_bytes, true);
}

cudaError_t
cudaFreeHost(void *memory)
{
    return release(memory, true);
}

cudaError_t
cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
    *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered};
    pthread_mutex_lock(&lock);
    for (const memory_t *memory = memories; memory; memory = memory->next) {
        const char *at = pointer;
        if (at >= memory->data && at < memory->data + memory->size_bytes) {
            attributes->type = memory->pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        }
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

typedef struct {
    void *to;
    const void *from; /* NULL: fill */
    int value;
    size_t size_bytes;
} copy_t;

static void
do_copy(const void *argument)
{
    const copy_t *copy = argument;
    if (copy->from) {
        memcpy(copy->to, copy->from, copy->size_bytes);
    } else {
        memset(copy->to, copy->value, copy->size_bytes);
    }
}

cudaError_t
cudaMemcpy(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind)
{
    MAY_BREAK();
    (void)kind;
    memcpy(to, from, size_bytes);
    return cudaSuccess;
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind,
                cudaStream_t stream)
{
    MAY_BREAK();
    struct cudaPointerAttributes attributes[2];
    cudaPointerGetAttributes(&attributes[0], to);
    cudaPointerGetAttributes(&attributes[1], from);
    bool to_host = kind == cudaMemcpyDeviceToHost;
    bool from_host = kind == cudaMemcpyHostToDevice;
    cadre_assert(attributes[0].type == (to_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice));
    cadre_assert(attributes[1].type == (from_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice));
    if (from_host) { /* slots copy at the same time */
        __atomic_fetch_add(&count.bytes_in, size_bytes, __ATOMIC_RELAXED);
    }
    copy_t copy = {.to = to, .from = from, .size_bytes = size_bytes};
    fake_enqueue(stream, do_copy, &copy, sizeof(copy));
    return cudaSuccess;
}

cudaError_t
cudaMemsetAsync(void *to, int value, size_t size_bytes, cudaStream_t stream)
{
    MAY_BREAK();
    copy_t copy = {.to = to, .value = value, .size_bytes = size_bytes};
    fake_enqueue(stream, do_copy, &copy, sizeof(copy));
    return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t
cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    MAY_BREAK();
    cadre_assert(flags == cudaStreamNonBlocking);
    cudaStream_t self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_lock(&lock);
    self->next = streams;
    streams = self;
    count.objects++;
    pthread_mutex_unlock(&lock);
    *stream = self;
    return cudaSuccess;
}

cudaError_t
cudaStreamDestroy(cudaStream_t stream)
{
    pthread_mutex_lock(&lock);
    for (cudaStream_t *place = &streams; *place; place = &(*place)->next) {
        if (*place == stream) {
            *place = stream->next;
            break;
        }
    }
    clear(&stream->queue);
    free(stream);
    count.objects--;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t
cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    MAY_BREAK();
    (void)flags;
    *event = cadre_calloc(1, sizeof(**event));
    fake_count_object(1);
    return cudaSuccess;
}

cudaError_t
cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    fake_count_object(-1);
    return cudaSuccess;
}

cudaError_t
cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    MAY_BREAK();
    pthread_mutex_lock(&lock);
    /* In a recording, an event that is not external would be part of the recording only. */
    cadre_assert((flags == cudaEventRecordExternal) == (stream->recording != NULL));
    work_t work = {.kind = WORK_RECORD, .event = event};
    work.ticket = stream->recording ? 0 : ++event->issued;
    enqueue(stream, copy_of(&work));
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t
cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    MAY_BREAK();
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t
cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    MAY_BREAK();
    pthread_mutex_lock(&lock);
    cadre_assert(flags == 0 && !stream->recording);
    work_t work = {.kind = WORK_WAIT, .event = event, .ticket = event->issued};
    enqueue(stream, copy_of(&work));
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t
cudaEventSynchronize(cudaEvent_t event)
{
    MAY_BREAK();
    pthread_mutex_lock(&lock);
    uint64_t ticket = event->issued;
    while (event->done < ticket) {
        run_one();
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t
cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    MAY_BREAK();
    cadre_assert(mode == cudaStreamCaptureModeThreadLocal && !stream->recording);
    stream->recording = cadre_calloc(1, sizeof(*stream->recording));
    fake_count_object(1);
    return cudaSuccess;
}

cudaError_t
cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    *status = stream->recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t
cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaGraph_t recorded = stream->recording;
    stream->recording = NULL;
    *graph = NULL;
    int error = fake_error(__func__);
    if (error) {
        cudaGraphDestroy(recorded);
        return (cudaError_t)error;
    }
    *graph = recorded;
    return cudaSuccess;
}

cudaError_t
cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    MAY_BREAK();
    cadre_assert(flags == 0);
    cudaGraphExec_t self = cadre_calloc(1, sizeof(*self));
    for (const work_t *work = graph->queue.first; work; work = work->next) {
        append(&self->queue, copy_of(work));
    }
    fake_count_object(1);
    *out = self;
    return cudaSuccess;
}

cudaError_t
cudaGraphDestroy(cudaGraph_t graph)
{
    clear(&graph->queue);
    free(graph);
    fake_count_object(-1);
    return cudaSuccess;
}

cudaError_t
cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    clear(&graph->queue);
    free(graph);
    fake_count_object(-1);
    return cudaSuccess;
}

cudaError_t
cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    MAY_BREAK();
    pthread_mutex_lock(&lock);
    count.launches++;
    for (const work_t *work = graph->queue.first; work; work = work->next) {
        work_t *copy = copy_of(work);
        if (copy->kind == WORK_RECORD) {
            copy->ticket = ++copy->event->issued;
        }
        enqueue(stream, copy);
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

/* ---- the devices ---- */

/* One, unless FAKE_CUDA_DEVICES says how many are made up. */
static int
device_count(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    long devices = text ? strtol(text, NULL, 10) : 1;
    return devices > 0 ? (int)devices : 1;
}

cudaError_t
cudaGetDeviceCount(int *devices)
{
    MAY_BREAK();
    *devices = device_count();
    return cudaSuccess;
}

cudaError_t
cudaSetDevice(int device)
{
    MAY_BREAK();
    return device >= 0 && device < device_count() ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t
cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    MAY_BREAK();
    (void)device;
    memset(properties, 0, sizeof(*properties));
    snprintf(properties->name, sizeof(properties->name), "Fake");
    properties->major = 9;
    return cudaSuccess;
}

cudaError_t
cudaDriverGetVersion(int *version)
{
    *version = 12040;
    return cudaSuccess;
}

cudaError_t
cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t
cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *
cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "some error";
}

const char *
cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorFake";
}
