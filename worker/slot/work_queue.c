#include "worker/slot/work_queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"

struct cadre_work_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_cond_t lowered; /* what a rest waits for; on the monotonic clock */
    cadre_work_t *first;
    cadre_work_t **last_p;
    size_t count;     /* works in the queue */
    atomic_bool ends; /* a hint, for slots that look: there are works, or the queue is closed */
    size_t low;       /* a rest ends when there are fewer works; 0: no thread rests */
    bool disturbed;   /* the rest, or the next one, is to end */
    unsigned waiting; /* slots in take */
    bool closed;
};

cadre_work_queue_t *
cadre_work_queue_new(void)
{
    cadre_work_queue_t *self = cadre_calloc(1, sizeof(*self));
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self->lowered, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->filled, NULL);
    self->last_p = &self->first;
    return self;
}

/* Destroys the queue and the works still in it; no thread uses it any more. */
void
cadre_work_queue_destroy(cadre_work_queue_t **self_p)
{
    cadre_work_queue_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    while (self->first) {
        cadre_work_t *work = self->first;
        self->first = work->next;
        cadre_work_destroy(&work);
    }

    pthread_cond_destroy(&self->lowered);
    pthread_cond_destroy(&self->filled);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

/* Under the lock: notes whether a slot that takes need not wait. */
static void
note_ends(cadre_work_queue_t *self)
{
    atomic_store_explicit(&self->ends, self->first || self->closed, memory_order_relaxed);
}

static bool
ends_waiting(void *context)
{
    const cadre_work_queue_t *self = context;
    return atomic_load_explicit(&self->ends, memory_order_relaxed);
}

/* Appends a list of works, linked by `next`. Wakes as many slots as there are new works, but no
 * more than wait; after the lock is given back, so that they do not run into it. */
void
cadre_work_queue_put(cadre_work_queue_t *self, cadre_work_t *first)
{
    unsigned count = 0;
    cadre_work_t **last_p = &first;
    while (*last_p) {
        last_p = &(*last_p)->next;
        count++;
    }

    if (count == 0) {
        return;
    }

    pthread_mutex_lock(&self->lock);
    *self->last_p = first;
    self->last_p = last_p;
    self->count += count;
    note_ends(self);
    unsigned wake = (unsigned)cadre_min_u64(count, self->waiting);
    pthread_mutex_unlock(&self->lock);
    for (unsigned i = 0; i < wake; i++) {
        pthread_cond_signal(&self->filled);
    }
}

/* Under the lock: takes the oldest work out; NULL for none. */
static cadre_work_t *
take_first(cadre_work_queue_t *self)
{
    cadre_work_t *work = self->first;
    if (!work) {
        return NULL;
    }

    self->first = work->next;
    work->next = NULL;
    self->count--;
    if (!self->first) {
        self->last_p = &self->first;
    }
    return work;
}

/* Waits for the oldest work and takes it; NULL once the queue is closed. Ends a rest when few works
 * are left, after the lock is given back. */
cadre_work_t *
cadre_work_queue_take(cadre_work_queue_t *self, cadre_look_t *look)
{
    if (look) {
        cadre_look(look, ends_waiting, self);
    }
    pthread_mutex_lock(&self->lock);
    while (!self->first && !self->closed) {
        self->waiting++;
        pthread_cond_wait(&self->filled, &self->lock);
        self->waiting--;
    }

    cadre_work_t *work = self->closed ? NULL : take_first(self);
    bool is_low = self->count < self->low;
    note_ends(self);
    pthread_mutex_unlock(&self->lock);
    if (look) {
        cadre_look_end(look);
    }
    if (is_low) {
        pthread_cond_signal(&self->lowered);
    }
    return work;
}

/* Takes all works that no slot has taken yet, as a list linked by `next`; NULL for none. */
cadre_work_t *
cadre_work_queue_clear(cadre_work_queue_t *self)
{
    pthread_mutex_lock(&self->lock);
    cadre_work_t *first = self->first;
    self->first = NULL;
    self->last_p = &self->first;
    self->count = 0;
    note_ends(self);
    pthread_mutex_unlock(&self->lock);
    return first;
}

/* Returns the time on the monotonic clock `us` from now. */
static struct timespec
time_after(uint32_t us)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += us / 1000000;
    time.tv_nsec += 1000L * (us % 1000000);
    if (time.tv_nsec >= 1000000000) {
        time.tv_sec++;
        time.tv_nsec -= 1000000000;
    }
    return time;
}

/* Waits until few works are left, the rest is disturbed, or the time is over. */
void
cadre_work_queue_rest(cadre_work_queue_t *self, size_t low, uint32_t rest_us)
{
    const struct timespec until = time_after(rest_us);
    int error = 0;
    pthread_mutex_lock(&self->lock);
    self->low = low;
    while (error == 0 && self->count >= low && !self->disturbed) {
        error = pthread_cond_timedwait(&self->lowered, &self->lock, &until);
    }
    self->low = 0;
    self->disturbed = false;
    pthread_mutex_unlock(&self->lock);
}

void
cadre_work_queue_disturb(cadre_work_queue_t *self)
{
    pthread_mutex_lock(&self->lock);
    self->disturbed = true;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_signal(&self->lowered);
}

void
cadre_work_queue_close(cadre_work_queue_t *self)
{
    pthread_mutex_lock(&self->lock);
    self->closed = true;
    note_ends(self);
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->filled);
}
