#include "worker/device/cpu_trial.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/memory_limit.h"
#include "worker/device/blas.h"

enum { WIDTH = 256 }; /* of the matrices: OpenBLAS multiplies smaller ones without a buffer */

/* What the trial's thread works on. It is not freed when the thread does not end in time, since the
 * thread goes on using it. */
typedef struct {
    sem_t ended;
    cadre_real_t numbers[3 * WIDTH * WIDTH];
} trial_t;

/* Multiplies on the trial's thread, and says when it has ended. */
static void *
multiply(void *context)
{
    trial_t *trial = context;
    cadre_real_t *numbers = trial->numbers;
    const cadre_blas_product_t product = {.m = WIDTH, .n = WIDTH, .inner = WIDTH};
    cadre_blas_multiply(&product, numbers, numbers + WIDTH * WIDTH, numbers + 2 * WIDTH * WIDTH);
    sem_post(&trial->ended);
    return NULL;
}

/* Fails with a text that says which limits of memory to look at. */
static int
fail_trial(int64_t timeout_ms)
{
    return cadre_fail(CADRE_ENOMEMORY,
                      "OpenBLAS has not multiplied two small matrices in %lld s: it gets no memory "
                      "for its buffers "
                      "(%d MiB for each thread). This process may use %llu MiB: look at the limits "
                      "of memory (ulimit "
                      "-v, the container's, vm.overcommit_memory)",
                      (long long)timeout_ms / 1000, CADRE_BLAS_BUFFER_SIZE >> 20,
                      (unsigned long long)cadre_memory_size() >> 20);
}

/* Multiplies two small matrices on a thread of its own; fails with CADRE_ENOMEMORY when that has
 * not ended in time, because OpenBLAS tries for ever to get memory. */
int
cadre_cpu_trial(int64_t timeout_ms)
{
    pthread_t thread;
    struct timespec end;
    trial_t *trial = cadre_calloc(1, sizeof(*trial));
    sem_init(&trial->ended, 0, 0);
    int error = pthread_create(&thread, NULL, multiply, trial);
    if (error) {
        free(trial);
        return cadre_fail(CADRE_ENOMEMORY, "no thread can be started: %s", strerror(error));
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += timeout_ms % 1000 * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    int late = 0;
    while ((late = sem_clockwait(&trial->ended, CLOCK_MONOTONIC, &end)) < 0 && errno == EINTR) {
    }
    if (late < 0) {
        pthread_detach(thread); /* the thread keeps `trial`, which is never freed */
        return fail_trial(timeout_ms);
    }
    pthread_join(thread, NULL);
    sem_destroy(&trial->ended);
    free(trial);
    return 0;
}

/* Returns the bytes of address space in use: the first number in /proc/self/statm, in pages. */
static uint64_t
used_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%llu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Fails with CADRE_ENOMEMORY when the limit of the address space (ulimit -v) leaves no room for so
 * many threads that call OpenBLAS, each with its buffer. */
int
cadre_cpu_room(uint32_t callers)
{
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) < 0 || space.rlim_cur == RLIM_INFINITY) {
        return 0;
    }
    uint64_t of_caller = (uint64_t)CADRE_BLAS_BUFFER_SIZE + CADRE_THREAD_SPACE_SIZE;
    uint64_t needed = used_bytes() + CADRE_WORKER_SPACE_SIZE + callers * of_caller;
    if (space.rlim_cur >= needed) {
        return 0;
    }
    return cadre_fail(CADRE_ENOMEMORY,
                      "the address space is limited to %llu MiB (ulimit -v), and %u threads that "
                      "multiply need %llu "
                      "MiB: raise it, or use fewer slots",
                      (unsigned long long)space.rlim_cur >> 20, callers,
                      (unsigned long long)needed >> 20);
}
