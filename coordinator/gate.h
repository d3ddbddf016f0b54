/*
 * gate - the one lock of libcadre, and the condition on which calls of the API wait.
 *
 * The lock protects the coordinator core: the actor holds it while it handles a batch of messages,
 * a call of the API while it reads or changes the core. Both are short; a call that must wait for
 * something waits on the condition, which the actor broadcasts when a turn has changed anything; it
 * may leave a question with the gate, so that it is woken for an answer only.
 * Futures outlive their coordinator, so the gate is reference-counted and the last holder frees it.
 *
 * Thread: any. `interrupted` is atomic because a signal handler may set it.
 */
#ifndef CADRE_COORDINATOR_GATE_H
#define CADRE_COORDINATOR_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a call waits for, asked under the lock. Lives on the stack of the call while that waits. */
typedef struct cadre_gate_question {
    bool (*is_over)(const void *context); /* whether the call has to look again */
    const void *context;
    struct cadre_gate_question *next;
} cadre_gate_question_t;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t waiters;                 /* under the lock: that look again at every broadcast */
    cadre_gate_question_t *questions; /* under the lock: of those that wait until one is over */
    bool closed;                      /* under the lock: the coordinator is gone */
    atomic_bool interrupted;
    int wake_fd; /* an eventfd that the actor polls */
    bool asleep; /* under the lock: the actor waits in poll and must be woken */
    atomic_uint references;
} cadre_gate_t;

/* Makes a gate with one reference. CADRE_EIO when the system has no descriptor left. */
int cadre_gate_open(cadre_gate_t **gate);
cadre_gate_t *cadre_gate_ref(cadre_gate_t *self);
void cadre_gate_unref(cadre_gate_t **self_p);

void cadre_gate_lock(cadre_gate_t *self);

/* Unlocks; wakes the actor when it sleeps, because the core may have something to send. */
void cadre_gate_unlock_and_wake(cadre_gate_t *self);
void cadre_gate_unlock(cadre_gate_t *self);

/* Under the lock: wakes the calls that wait, so that they look again; where all of them have a
 * question none of which is over, wakes nobody. */
void cadre_gate_broadcast(cadre_gate_t *self);

/* Returns when a wait of `timeout_ms` from now ends, on the monotonic clock; INT64_MAX (never) for
 * -1. */
int64_t cadre_gate_deadline_ms(int64_t timeout_ms);

/* Returns the time that is left until such a moment, as the timeout of another call. */
int64_t cadre_gate_left_ms(int64_t deadline_ms);

/* Under the lock: waits for a broadcast until `deadline_ms` at the latest, waking the actor first.
 * CADRE_ETIMEOUT, CADRE_EINTERRUPTED and CADRE_ECLOSED end a call; 0 means look again. */
int cadre_gate_wait(cadre_gate_t *self, int64_t deadline_ms);

/* Under the lock: waits as cadre_gate_wait, but broadcasts wake the call only once the question is
 * over: a call that waits for the last of many changes does not look at each of them. NULL: as
 * cadre_gate_wait. */
int cadre_gate_wait_until(cadre_gate_t *self, int64_t deadline_ms, cadre_gate_question_t *question);

#endif
