#include "ps/huge_keeper.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

enum { SMALL_PAGE_SIZE = 4096 }; /* of the machine, where the system gives no huge page */

struct cadre_huge_keeper {
    pthread_t thread;
    sem_t asked;           /* a page was taken, or the keeper ends */
    atomic_bool ends;      /* the thread is to end */
    _Atomic(void *) ready; /* NULL: none is */
    atomic_size_t given;
};

/* Has the system clear the memory now. */
static void
touch(void *memory)
{
    volatile char *bytes = memory;
    for (size_t at = 0; at < CADRE_HUGE_SIZE; at += SMALL_PAGE_SIZE) {
        bytes[at] = 0;
    }
}

/* Touches a page each time that the one before was taken. Of several that were taken meanwhile the
 * others find none ready. */
static void *
run(void *argument)
{
    cadre_huge_keeper_t *self = argument;
    for (;;) {
        while (sem_wait(&self->asked) < 0 && errno == EINTR) {
        }
        if (atomic_load(&self->ends)) {
            return NULL;
        }
        if (!atomic_load(&self->ready)) {
            void *memory = cadre_huge_alloc();
            touch(memory);
            atomic_store(&self->ready, memory);
        }
    }
}

int
cadre_huge_keeper_open(cadre_huge_keeper_t **out)
{
    cadre_huge_keeper_t *self = cadre_calloc(1, sizeof(*self));
    sem_init(&self->asked, 0, 0);
    const int error = pthread_create(&self->thread, NULL, run, self);
    if (error) {
        sem_destroy(&self->asked);
        free(self);
        return cadre_fail(CADRE_EIO, "the thread for huge pages cannot be started: %s",
                          strerror(error));
    }
    *out = self;
    return 0;
}

void
cadre_huge_keeper_destroy(cadre_huge_keeper_t **self_p)
{
    cadre_huge_keeper_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    atomic_store(&self->ends, true);
    sem_post(&self->asked);
    pthread_join(self->thread, NULL);
    sem_destroy(&self->asked);
    cadre_huge_free(atomic_load(&self->ready));
    free(self);
}

static void *
take(void *context)
{
    cadre_huge_keeper_t *self = context;
    void *memory = atomic_exchange(&self->ready, NULL);
    sem_post(&self->asked);
    if (!memory) {
        return cadre_huge_alloc();
    }
    atomic_fetch_add_explicit(&self->given, 1, memory_order_relaxed);
    return memory;
}

cadre_huge_source_t
cadre_huge_keeper_source(cadre_huge_keeper_t *self)
{
    return (cadre_huge_source_t){.context = self, .take = take};
}

size_t
cadre_huge_keeper_given(const cadre_huge_keeper_t *self)
{
    return atomic_load_explicit(&self->given, memory_order_relaxed);
}
