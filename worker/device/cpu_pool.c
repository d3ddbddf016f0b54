#include "worker/device/cpu_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/base/memory.h"

/* Parts of a loop per thread: with several, a thread that the system delays holds up less. */
enum { PARTS_PER_THREAD = 4 };

struct cadre_cpu_pool {
    pthread_t *threads;
    int thread_count; /* that were started */

    pthread_mutex_t mutex; /* guards all fields below */
    pthread_cond_t work;   /* signalled when there are parts to take, or `stop` is set */
    pthread_cond_t idle;   /* signalled when the last part of a loop is done */
    bool busy;             /* a caller's loop has the threads */
    bool stop;             /* the threads are to end */
    cadre_cpu_part_t *part;
    const void *context;
    int64_t count;
    int64_t parts; /* how many parts the present loop has; 0: no loop */
    int64_t taken; /* how many parts of the loop a thread has begun */
    int64_t done;  /* how many parts of the loop are done */
};

/* Returns the iteration with which part `at` begins: the sizes of parts differ by one at most.
 * (count * at / parts would be shorter and may overflow.) */
static int64_t
begin_of(const cadre_cpu_pool_t *self, int64_t at)
{
    return self->count / self->parts * at + self->count % self->parts * at / self->parts;
}

/* Runs parts until all have been taken; called and returns with the mutex held. */
static void
run_parts(cadre_cpu_pool_t *self)
{
    while (self->taken < self->parts) {
        int64_t at = self->taken++;
        int64_t begin = begin_of(self, at);
        int64_t end = begin_of(self, at + 1);
        pthread_mutex_unlock(&self->mutex);
        self->part(self->context, begin, end);
        pthread_mutex_lock(&self->mutex);
        self->done++;
    }
    if (self->done == self->parts) {
        pthread_cond_signal(&self->idle);
    }
}

/* Runs a thread of the pool: takes parts of whatever loop there is until the pool is destroyed. */
static void *
run_thread(void *argument)
{
    cadre_cpu_pool_t *self = argument;
    pthread_mutex_lock(&self->mutex);
    while (!self->stop) {
        if (self->taken < self->parts) {
            run_parts(self);
        } else {
            pthread_cond_wait(&self->work, &self->mutex);
        }
    }
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

/* Returns a pool in which `threads` threads compute, the caller of cadre_cpu_pool_run among them.
 * Starts the others with all signals blocked, so that the program's own threads get these. If a
 * thread cannot be started the pool has fewer. */
cadre_cpu_pool_t *
cadre_cpu_pool_new(int threads)
{
    cadre_cpu_pool_t *self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->work, NULL);
    pthread_cond_init(&self->idle, NULL);
    self->threads = cadre_calloc((size_t)threads, sizeof(*self->threads));
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (self->thread_count < threads - 1 &&
           pthread_create(&self->threads[self->thread_count], NULL, run_thread, self) == 0) {
        self->thread_count++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return self;
}

/* Ends the threads and frees the pool; no loop may be running. */
void
cadre_cpu_pool_destroy(cadre_cpu_pool_t **self_p)
{
    cadre_cpu_pool_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    pthread_mutex_lock(&self->mutex);
    self->stop = true;
    pthread_cond_broadcast(&self->work);
    pthread_mutex_unlock(&self->mutex);
    for (int i = 0; i < self->thread_count; i++) {
        pthread_join(self->threads[i], NULL);
    }
    pthread_cond_destroy(&self->idle);
    pthread_cond_destroy(&self->work);
    pthread_mutex_destroy(&self->mutex);
    free(self->threads);
    free(self);
}

/* Runs the iterations [0, count) of a loop on several threads and returns when all are done. Each
 * thread has at least `grain` iterations: fewer are not worth waking one. */
void
cadre_cpu_pool_run(cadre_cpu_pool_t *self, int64_t count, int64_t grain, cadre_cpu_part_t *part,
                   const void *context)
{
    int64_t threads = count / (grain > 0 ? grain : 1);
    int64_t threads_max = self ? self->thread_count + 1 : 1;
    threads = threads < threads_max ? threads : threads_max;
    if (threads < 2) {
        part(context, 0, count);
        return;
    }

    /* One loop at a time has the threads; another caller does not wait, and computes alone. */
    pthread_mutex_lock(&self->mutex);
    if (self->busy) {
        pthread_mutex_unlock(&self->mutex);
        part(context, 0, count);
        return;
    }

    self->busy = true;
    self->part = part;
    self->context = context;
    self->count = count;
    self->parts = count < PARTS_PER_THREAD * threads ? count : PARTS_PER_THREAD * threads;
    self->taken = 0;
    self->done = 0;
    for (int64_t i = 1; i < threads; i++) {
        pthread_cond_signal(&self->work);
    }

    /* The caller runs parts too; when none is left, other threads may still be in their last
     * one. */
    run_parts(self);
    while (self->done < self->parts) {
        pthread_cond_wait(&self->idle, &self->mutex);
    }
    self->parts = 0;
    self->taken = 0;
    self->busy = false;
    pthread_mutex_unlock(&self->mutex);
}
