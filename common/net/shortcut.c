#include "common/net/shortcut.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/system/clock.h"

/* How long a thread looks whether the lock is free before it sleeps: about what it costs to sleep
 * and to be woken on a virtual machine, and as long as a small update holds the lock. The clock is
 * read once in so many looks: a look takes 20 to 60 ns, by the processor. */
enum { LOOK_US = 40, LOOKS = 16 };

struct cadre_shortcut {
    pthread_mutex_t lock;
    atomic_bool is_held; /* a hint, for threads that look whether the lock may be free */
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

/* Lets the processor know that this thread only looks. */
static void
relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Notes whether a thread has the lock, for those that look. */
static void
note_held(cadre_shortcut_t *self, bool is_held)
{
    atomic_store_explicit(&self->is_held, is_held, memory_order_relaxed);
}

/* Looks for LOOK_US whether the lock is free, and takes it then. */
static bool
look_for_lock(cadre_shortcut_t *self)
{
    const int64_t begin_us = cadre_clock_now_us();
    do {
        for (int i = 0; i < LOOKS; i++) {
            if (!atomic_load_explicit(&self->is_held, memory_order_relaxed) &&
                pthread_mutex_trylock(&self->lock) == 0) {
                return true;
            }
            relax();
        }
    } while (cadre_clock_now_us() - begin_us < LOOK_US);
    return false;
}

void
cadre_shortcut_lock(cadre_shortcut_t *self)
{
    if (!self) {
        return;
    }
    if (pthread_mutex_trylock(&self->lock) != 0 && !look_for_lock(self)) {
        pthread_mutex_lock(&self->lock);
    }
    note_held(self, true);
}

void
cadre_shortcut_unlock(cadre_shortcut_t *self)
{
    if (self) {
        note_held(self, false);
        pthread_mutex_unlock(&self->lock);
    }
}

void
cadre_shortcut_wait(cadre_shortcut_t *self)
{
    note_held(self, false);
    pthread_cond_wait(&self->answered, &self->lock);
    note_held(self, true);
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
