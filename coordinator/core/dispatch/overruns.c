#include "coordinator/core/dispatch/overruns.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/core/dispatch/reach.h"

enum {
    WATCH_MS = 200, /* between two looks at the closures that run */
    /* A closure that has run for this time is logged, and again each time that its running time has
     * doubled. */
    NAMED_MS = 60000,
};

void
cadre_overruns_init(cadre_overruns_t *self, const cadre_overruns_links_t *links)
{
    *self = (cadre_overruns_t){.links = *links};
}

static const char *
function_name(const cadre_overruns_t *self, const cadre_closure_t *closure)
{
    return self->links.catalogue->functions[closure->function - 1]->name;
}

/* --- closures that do not stop --- */

void
cadre_overruns_add_overdue(cadre_member_t *worker, uint64_t id)
{
    worker->overdue = cadre_realloc(worker->overdue, worker->overdue_count + 1, sizeof(uint64_t));
    worker->overdue[worker->overdue_count++] = id;
}

/* Takes a closure that the worker has reported off the list of those that hold slots past their
 * deadline. */
void
cadre_overruns_on_report(cadre_member_t *worker, uint64_t id)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < worker->overdue_count; i++) {
        if (worker->overdue[i] != id) {
            worker->overdue[kept++] = worker->overdue[i];
        }
    }
    worker->overdue_count = kept;
}

static bool
is_held(cadre_u64s_t held, uint64_t id)
{
    for (size_t i = 0; i < held.count; i++) {
        if (held.items[i] == id) {
            return true;
        }
    }
    return false;
}

/* Keeps, of the closures that hold slots past their deadline, those that the worker says it still
 * holds. */
void
cadre_overruns_on_held(cadre_member_t *worker, cadre_u64s_t held)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < worker->overdue_count; i++) {
        if (is_held(held, worker->overdue[i])) {
            worker->overdue[kept++] = worker->overdue[i];
        }
    }
    worker->overdue_count = kept;
}

/* Takes all closures back from a worker each of whose slots is taken by an overdue closure: they
 * would wait for long. The newest is put back first, so that all come to stand in their old order
 * at the front of the queue. */
static void
free_what_waits(cadre_overruns_t *self, cadre_member_t *worker)
{
    while (worker->overdue_count >= worker->slots && worker->in_flight.last) {
        cadre_closure_t *closure = worker->in_flight.last;
        cadre_closure_sender_cancel(self->links.sender, worker, &closure->id, 1);
        cadre_attempts_put_back(self->links.attempts, closure);
    }
}

/* --- deadlines --- */

/* Returns another worker that could run the closure which overran on `worker`, NULL when there is
 * none. */
static const cadre_member_t *
find_other(const cadre_overruns_t *self, const cadre_member_t *worker,
           const cadre_closure_t *closure)
{
    const cadre_membership_t *members = self->links.members;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        const cadre_member_t *other = members->workers[i];
        if (other && other != worker && !other->suspect && !other->draining &&
            other->overdue_count < other->slots &&
            cadre_dispatcher_may_run(self->links.dispatcher, other, closure)) {
            return other;
        }
    }
    return NULL;
}

/* Ends a closure that has overrun too often with CADRE_ETIMEOUT. */
static void
fail(cadre_overruns_t *self, cadre_closure_t *closure, const cadre_member_t *worker)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text),
             "function %s, closure %" PRIu64 ": it ran past its deadline of %" PRIu64
             " ms %u times, the last time on worker %u (process %u)",
             function_name(self, closure), closure->id, closure->deadline_ms, closure->overruns,
             worker->index, worker->process);
    const cadre_closure_end_t end = {.status = CADRE_ETIMEOUT, .text = text};
    cadre_attempts_fail(self->links.attempts, closure, NULL, &end);
}

/* What becomes of a closure that has run past its deadline. */
typedef enum {
    GOES_ON,   /* where it is */
    GOES_AWAY, /* to another worker */
    FAILS,
} fate_t;

/* Returns the fate as words for the log. */
static const char *
fate_words(fate_t fate)
{
    switch (fate) {
    case GOES_ON:
        return "there is no other worker for it: it goes on";
    case GOES_AWAY:
        return "another worker gets it, this one is told to stop";
    case FAILS:
        break;
    }
    return "it has failed";
}

/* Decides what becomes of a closure that runs past its deadline: it fails at the last overrun
 * allowed, else another worker gets it where one can run it. */
static fate_t
fate_of(const cadre_overruns_t *self, const cadre_member_t *worker, const cadre_closure_t *closure)
{
    if (closure->overruns >= CADRE_OVERRUNS_MAX) {
        return FAILS;
    }
    return find_other(self, worker, closure) ? GOES_AWAY : GOES_ON;
}

/* Counts a deadline that the closure's attempt has run past. The closure is apart from now on: its
 * worker is not to get it again, should it come back from there. */
static void
count(cadre_overruns_t *self, const cadre_member_t *worker, cadre_closure_t *closure)
{
    self->links.totals->deadlines_missed++;
    closure->missed++;
    closure->overran_on[closure->overruns++] = worker->task.incarnation;
    cadre_apart_add(self->links.apart, closure);
}

/* Decides what becomes of a closure that has run past its deadline, logs it, and does it. One that
 * goes on where it is is given as much time again, and goes to another worker as soon as there is
 * one. */
static void
overrun(cadre_overruns_t *self, cadre_member_t *worker, cadre_closure_t *closure, uint64_t ran_ms)
{
    const bool is_counted = ran_ms / closure->deadline_ms <= closure->missed;
    if (!is_counted) {
        count(self, worker, closure);
    }
    fate_t fate = fate_of(self, worker, closure);
    if (fate == GOES_ON && is_counted) {
        return; /* the log has said so already */
    }

    cadre_effects_log(self->links.effects, 'W', "deadline_missed",
                      "closure=%" PRIu64 " function=%s worker=%u process=%u attempt=%" PRIu64
                      " ran_ms=%" PRIu64 " deadline_ms=%" PRIu64 " next=\"%s\"",
                      closure->id, function_name(self, closure), worker->index, worker->process,
                      closure->attempt, ran_ms, closure->deadline_ms, fate_words(fate));
    if (fate == GOES_ON) {
        return;
    }

    cadre_overruns_add_overdue(worker, closure->id);
    cadre_closure_sender_cancel(self->links.sender, worker, &closure->id, 1);
    if (fate == FAILS) {
        fail(self, closure, worker);
        return;
    }
    cadre_attempts_put_back(self->links.attempts, closure);
}

/* --- closures that run --- */

/* Logs a closure that has run for NAMED_MS, and again each time that its running time has
 * doubled. */
static void
name_long(const cadre_overruns_t *self, const cadre_member_t *worker, cadre_closure_t *closure,
          uint64_t ran_ms)
{
    if (ran_ms < NAMED_MS || ran_ms < 2 * closure->named_ms) {
        return;
    }

    closure->named_ms = ran_ms;
    char next[64] = "it is waited for";
    uint64_t waits_ms = 0;
    uint32_t shard = cadre_reach_waits_for(worker, closure->id, &waits_ms);
    if (shard != UINT32_MAX) {
        snprintf(next, sizeof(next), "it waits for ps %u for %" PRIu64 " ms", shard, waits_ms);
    }
    cadre_effects_log(self->links.effects, 'W', "closure_slow",
                      "closure=%" PRIu64 " function=%s worker=%u process=%u host=\"%s\" "
                      "attempt=%" PRIu64 " ran_ms=%" PRIu64 " next=\"%s%s\"",
                      closure->id, function_name(self, closure), worker->index, worker->process,
                      worker->host, closure->attempt, ran_ms, next,
                      closure->deadline_ms ? "" : ": it has no deadline");
}

/* Notes the closure if it has run for longer than all seen in this look. */
static void
note_longest(cadre_overruns_t *self, const cadre_member_t *worker, const cadre_closure_t *closure,
             uint64_t ran_ms)
{
    if (ran_ms < self->longest.ran_ms) {
        return;
    }
    self->longest = (cadre_longest_t){.closure = closure->id,
                                      .function = function_name(self, closure),
                                      .worker = worker->index,
                                      .ran_ms = ran_ms};
    self->longest.shard = cadre_reach_waits_for(worker, closure->id, &self->longest.waits_ms);
}

/* Watches a closure that its worker may be running: starts its time, names it in the log, and acts
 * once it is past its deadline. */
static void
watch_closure(cadre_overruns_t *self, cadre_member_t *worker, cadre_closure_t *closure)
{
    /* Measured on a clock that stands still while the coordinator does. */
    uint64_t now_ms = self->links.effects->now_ms - self->links.leases->stalled_ms;
    if (!closure->is_running) {
        closure->is_running = true;
        closure->running_ms = now_ms;
    }

    uint64_t ran_ms = now_ms - closure->running_ms;
    note_longest(self, worker, closure, ran_ms);
    name_long(self, worker, closure, ran_ms);
    if (closure->deadline_ms && ran_ms >= closure->deadline_ms &&
        !cadre_closure_queue_is_cancelled(self->links.queue, closure)) {
        overrun(self, worker, closure, ran_ms);
    }
}

/* Looks at the closures that a worker may be running: the oldest, as many as it has slots. */
static void
watch_worker(cadre_overruns_t *self, cadre_member_t *worker)
{
    uint32_t left = worker->slots;
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = worker->in_flight.first; closure && left > 0; left--) {
        next = closure->next;
        watch_closure(self, worker, closure);
        closure = next;
    }
    free_what_waits(self, worker);
}

/* Looks at the closures that run on each worker, each WATCH_MS. */
void
cadre_overruns_tick(cadre_overruns_t *self)
{
    uint64_t now_ms = self->links.effects->now_ms;
    if (now_ms < self->due_ms) {
        return;
    }

    self->due_ms = now_ms + WATCH_MS;
    self->longest = (cadre_longest_t){.ran_ms = 0};
    const cadre_membership_t *members = self->links.members;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        if (members->workers[i]) {
            watch_worker(self, members->workers[i]);
        }
    }
}
