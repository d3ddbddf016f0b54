#include "common/net/shortcut.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/base/memory.h"

struct cadre_shortcut {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    uint64_t incarnation; /* of the ps; like the next two NULL while no ps is reached */
    cadre_shortcut_serve_t serve;
    void *context;
};

cadre_shortcut_t *
cadre_shortcut_new(void)
{
    cadre_shortcut_t *self = cadre_calloc(1, sizeof(*self));
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->answered, NULL);
    return self;
}

/* Frees the lock and the condition, which no thread uses any more. */
void
cadre_shortcut_destroy(cadre_shortcut_t **self_p)
{
    cadre_shortcut_t *self = *self_p;
    if (!self) {
        return;
    }

    pthread_cond_destroy(&self->answered);
    pthread_mutex_destroy(&self->lock);
    cadre_free(self_p);
}

void
cadre_shortcut_lock(cadre_shortcut_t *self)
{
    if (self) {
        pthread_mutex_lock(&self->lock);
    }
}

void
cadre_shortcut_unlock(cadre_shortcut_t *self)
{
    if (self) {
        pthread_mutex_unlock(&self->lock);
    }
}

void
cadre_shortcut_wait(cadre_shortcut_t *self)
{
    pthread_cond_wait(&self->answered, &self->lock);
}

void
cadre_shortcut_answered(cadre_shortcut_t *self)
{
    pthread_cond_broadcast(&self->answered);
}

void
cadre_shortcut_open(cadre_shortcut_t *self, uint64_t incarnation, cadre_shortcut_serve_t serve,
                    void *context)
{
    self->incarnation = incarnation;
    self->serve = serve;
    self->context = context;
}

/* Hands an entry to the ps that it is addressed to, when this is the ps in this process. */
bool
cadre_shortcut_carry(cadre_shortcut_t *self, const cadre_task_t *from, cadre_outbox_entry_t *entry,
                     cadre_outbox_t *answers)
{
    if (!self || !self->serve || entry->destination.incarnation != self->incarnation) {
        return false;
    }

    self->serve(self->context, from, entry, answers);
    return true;
}
