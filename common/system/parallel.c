#include "common/system/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/bounds.h"
#include "common/system/cpu_quota.h"

typedef struct {
    size_t count;
    void (*each)(void *context, size_t index);
    void *context;
    atomic_size_t next;
} work_t;

/* Calls the function for one index after the other, until all are taken; runs on several threads at
 * once. */
static void *
run(void *argument)
{
    work_t *work = argument;
    size_t index;
    while ((index = atomic_fetch_add(&work->next, 1)) < work->count) {
        work->each(work->context, index);
    }
    return NULL;
}

/* Calls `each` once for every index below `count`, on as many threads as there are CPUs to use,
 * this one among them. Where a thread cannot be started the others do its share. */
void
cadre_parallel_for(size_t count, void (*each)(void *context, size_t index), void *context)
{
    work_t work = {.count = count, .each = each, .context = context};
    pthread_t threads[CADRE_PARALLEL_THREADS_MAX];
    size_t wanted = cadre_min_u64((size_t)cadre_cpu_count(), count);

    wanted = cadre_min_u64(wanted, CADRE_PARALLEL_THREADS_MAX);
    size_t started = 0;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, run, &work) == 0) {
        started++;
    }

    run(&work);
    for (size_t i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}
