#include "coordinator/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"

/* A wait returns this often even without a broadcast: an interruption must not get lost between
 * check and wait. */
enum { LOOK_MS = 200 };

/* Makes a gate: mutex, condition on the monotonic clock, and the eventfd that wakes the actor. */
int
cadre_gate_open(cadre_gate_t **gate)
{
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0) {
        return cadre_fail(CADRE_EIO, "eventfd: %s", strerror(errno));
    }

    cadre_gate_t *self = cadre_calloc(1, sizeof(*self));
    self->wake_fd = wake_fd;
    atomic_init(&self->references, 1);
    atomic_init(&self->interrupted, false);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&self->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&self->lock, NULL);
    *gate = self;
    return 0;
}

cadre_gate_t *
cadre_gate_ref(cadre_gate_t *self)
{
    atomic_fetch_add(&self->references, 1);
    return self;
}

/* Drops one reference; the last one frees the gate. */
void
cadre_gate_unref(cadre_gate_t **self_p)
{
    cadre_gate_t *self = *self_p;
    *self_p = NULL;
    if (!self || atomic_fetch_sub(&self->references, 1) > 1) {
        return;
    }
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    close(self->wake_fd);
    free(self);
}

void
cadre_gate_lock(cadre_gate_t *self)
{
    int error = pthread_mutex_lock(&self->lock);
    cadre_assert(error == 0);
}

void
cadre_gate_unlock(cadre_gate_t *self)
{
    pthread_mutex_unlock(&self->lock);
}

/* Wakes the actor where it sleeps in poll. Under the lock. */
static void
wake(cadre_gate_t *self)
{
    if (self->asleep) {
        self->asleep = false;
        uint64_t one = 1;
        ssize_t written = write(self->wake_fd, &one, sizeof(one));
        /* EAGAIN: the count is full, and so the eventfd is readable */
        cadre_assert(written == sizeof(one) || errno == EAGAIN);
    }
}

void
cadre_gate_unlock_and_wake(cadre_gate_t *self)
{
    wake(self);
    cadre_gate_unlock(self);
}

/* Returns whether a question of a call that waits is over. */
static bool
is_any_over(const cadre_gate_t *self)
{
    for (const cadre_gate_question_t *each = self->questions; each; each = each->next) {
        if (each->is_over(each->context)) {
            return true;
        }
    }
    return false;
}

void
cadre_gate_broadcast(cadre_gate_t *self)
{
    /* once the gate is closed a question may be of a coordinator that is no more */
    if (self->waiters > 0 || self->closed || is_any_over(self)) {
        pthread_cond_broadcast(&self->changed);
    }
}

int64_t
cadre_gate_deadline_ms(int64_t timeout_ms)
{
    if (timeout_ms < 0) {
        return INT64_MAX;
    }
    int64_t now_ms = cadre_clock_now_ms();
    return timeout_ms < INT64_MAX - now_ms ? now_ms + timeout_ms : INT64_MAX;
}

int64_t
cadre_gate_left_ms(int64_t deadline_ms)
{
    const int64_t left_ms = deadline_ms == INT64_MAX ? -1 : deadline_ms - cadre_clock_now_ms();
    return deadline_ms == INT64_MAX || left_ms > 0 ? left_ms : 0;
}

/* Under the lock: waits for the condition from now until `until_ms`. */
static void
wait_on_condition(cadre_gate_t *self, int64_t now_ms, int64_t until_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t wait_ms = until_ms - now_ms;
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }

    pthread_cond_timedwait(&self->changed, &self->lock, &until);
}

/* Under the lock: enters a question among those that broadcasts ask; NULL: a call that looks again
 * at each of them. */
static void
enter(cadre_gate_t *self, cadre_gate_question_t *question)
{
    if (!question) {
        self->waiters++;
        return;
    }
    question->next = self->questions;
    self->questions = question;
}

/* Under the lock: takes out what `enter` has entered. */
static void
leave(cadre_gate_t *self, const cadre_gate_question_t *question)
{
    if (!question) {
        self->waiters--;
        return;
    }

    cadre_gate_question_t **at = &self->questions;
    while (*at != question) {
        at = &(*at)->next;
    }
    *at = question->next;
}

/* Waits for a broadcast that finds the question over, at most LOOK_MS; 0: look again. Fails when
 * the deadline has passed, the call was interrupted or the coordinator was closed. */
int
cadre_gate_wait_until(cadre_gate_t *self, int64_t deadline_ms, cadre_gate_question_t *question)
{
    if (self->closed) {
        return cadre_fail(CADRE_ECLOSED, "the coordinator was closed");
    }
    if (atomic_load(&self->interrupted)) {
        return cadre_fail(CADRE_EINTERRUPTED, "interrupted");
    }

    int64_t now_ms = cadre_clock_now_ms();
    if (now_ms >= deadline_ms) {
        return cadre_fail(CADRE_ETIMEOUT, "the deadline passed");
    }

    /* the caller may have changed the core: the actor is to act on that now */
    wake(self);
    enter(self, question);
    wait_on_condition(self, now_ms,
                      deadline_ms - now_ms < LOOK_MS ? deadline_ms : now_ms + LOOK_MS);
    leave(self, question);
    return 0;
}

int
cadre_gate_wait(cadre_gate_t *self, int64_t deadline_ms)
{
    return cadre_gate_wait_until(self, deadline_ms, NULL);
}
