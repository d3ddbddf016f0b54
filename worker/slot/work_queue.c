#include "worker/slot/work_queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"

struct cadre_work_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    cadre_work_t *first;
    cadre_work_t **last_p;
    unsigned waiting; /* slots in take */
    bool closed;
};

cadre_work_queue_t *
cadre_work_queue_new(void)
{
    cadre_work_queue_t *self = cadre_calloc(1, sizeof(*self));
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

    pthread_cond_destroy(&self->filled);
    pthread_mutex_destroy(&self->lock);
    free(self);
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
    unsigned wake = (unsigned)cadre_min_u64(count, self->waiting);
    pthread_mutex_unlock(&self->lock);
    for (unsigned i = 0; i < wake; i++) {
        pthread_cond_signal(&self->filled);
    }
}

/* Waits for the oldest work and takes it; NULL once the queue is closed. */
cadre_work_t *
cadre_work_queue_take(cadre_work_queue_t *self)
{
    pthread_mutex_lock(&self->lock);
    while (!self->first && !self->closed) {
        self->waiting++;
        pthread_cond_wait(&self->filled, &self->lock);
        self->waiting--;
    }

    cadre_work_t *work = self->closed ? NULL : self->first;
    if (work) {
        self->first = work->next;
        work->next = NULL;
        if (!self->first) {
            self->last_p = &self->first;
        }
    }

    pthread_mutex_unlock(&self->lock);
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
    pthread_mutex_unlock(&self->lock);
    return first;
}

void
cadre_work_queue_close(cadre_work_queue_t *self)
{
    pthread_mutex_lock(&self->lock);
    self->closed = true;
    pthread_mutex_unlock(&self->lock);
    pthread_cond_broadcast(&self->filled);
}
