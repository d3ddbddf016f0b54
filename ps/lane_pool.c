#include "ps/lane_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

struct cadre_lane_pool {
    pthread_mutex_t lock;
    pthread_cond_t begun; /* signalled when a run has begun, or the pool ends */
    pthread_cond_t left;  /* signalled when the last thread has left a run */
    uint64_t runs;        /* how many runs were begun so far */
    bool open;            /* threads may join the present run */
    bool ends;            /* the threads are to end */
    unsigned inside;      /* threads in the present run, without its caller */

    size_t count; /* the indexes of the present run are those below this */
    void (*each)(void *argument, size_t index);
    void *argument;
    atomic_size_t next;

    unsigned thread_count;
    pthread_t threads[CADRE_LANES_MAX];
};

/* Computes indexes of the present run, each the next that no other thread has taken, until none is
 * left. */
static void
work(cadre_lane_pool_t *self)
{
    size_t index;
    while ((index = atomic_fetch_add(&self->next, 1)) < self->count) {
        self->each(self->argument, index);
    }
}

/* Runs one thread of the pool: sleeps until a run begins, works along once, and tells the caller of
 * the run when the last thread has left. */
static void *
run_thread(void *argument)
{
    cadre_lane_pool_t *self = argument;
    uint64_t seen = 0;
    pthread_mutex_lock(&self->lock);
    while (!self->ends) {
        if (!self->open || self->runs == seen) {
            pthread_cond_wait(&self->begun, &self->lock);
            continue;
        }
        seen = self->runs;
        self->inside++;
        pthread_mutex_unlock(&self->lock);
        work(self);
        pthread_mutex_lock(&self->lock);
        if (--self->inside == 0) {
            pthread_cond_signal(&self->left);
        }
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* Calls `each` for every index below `count`, on the threads of the pool and on the caller's;
 * returns when all calls have returned. A single index the caller does alone. */
static void
run(void *context, size_t count, void (*each)(void *argument, size_t index), void *argument)
{
    cadre_lane_pool_t *self = context;
    if (count < 2) {
        for (size_t i = 0; i < count; i++) {
            each(argument, i);
        }
        return;
    }
    pthread_mutex_lock(&self->lock);
    self->count = count;
    self->each = each;
    self->argument = argument;
    atomic_store(&self->next, 0);
    self->runs++;
    self->open = true;
    pthread_cond_broadcast(&self->begun);
    pthread_mutex_unlock(&self->lock);
    work(self);
    pthread_mutex_lock(&self->lock);
    self->open = false; /* a thread that wakes only now has nothing to do */
    /* `each` and its argument must stay until the last thread has left. */
    while (self->inside > 0) {
        pthread_cond_wait(&self->left, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
}

/* Starts `lanes` - 1 threads: the caller of a run is the other lane. If one cannot be started,
 * those before it are ended. */
int
cadre_lane_pool_open(unsigned lanes, cadre_lane_pool_t **out)
{
    if (lanes < 1 || lanes > CADRE_LANES_MAX) {
        return cadre_fail(CADRE_EINVALID, "%u lanes are not in 1..%d", lanes, CADRE_LANES_MAX);
    }
    cadre_lane_pool_t *self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->begun, NULL);
    pthread_cond_init(&self->left, NULL);
    int error = 0;
    while (error == 0 && self->thread_count + 1 < lanes) {
        error = pthread_create(&self->threads[self->thread_count], NULL, run_thread, self);
        self->thread_count += error == 0;
    }
    if (error) {
        unsigned started = self->thread_count + 1;
        cadre_lane_pool_destroy(&self);
        return cadre_fail(CADRE_EIO, "lane %u of %u cannot be started: %s", started + 1, lanes,
                          strerror(error));
    }
    *out = self;
    return 0;
}

/* Wakes the sleeping threads so that they end, waits for each, and frees the pool. */
void
cadre_lane_pool_destroy(cadre_lane_pool_t **self_p)
{
    cadre_lane_pool_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    pthread_mutex_lock(&self->lock);
    self->ends = true;
    pthread_cond_broadcast(&self->begun);
    pthread_mutex_unlock(&self->lock);
    for (unsigned i = 0; i < self->thread_count; i++) {
        pthread_join(self->threads[i], NULL);
    }
    pthread_cond_destroy(&self->left);
    pthread_cond_destroy(&self->begun);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

cadre_lanes_t
cadre_lane_pool_lanes(cadre_lane_pool_t *self)
{
    return (cadre_lanes_t){.context = self, .run = self->thread_count > 0 ? run : NULL};
}
