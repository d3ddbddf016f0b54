#include "coordinator/core/dispatch/backups.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "coordinator/core/dispatch/overruns.h"

enum {
    WATCH_MS = 10,     /* between two looks at the closures in flight */
    SLOW_MS_MIN = 50,  /* a closure is not slow while it is in flight for less */
    DURATIONS_MIN = 5, /* closures of a function that must have ended to know its usual time */
    SLOW_HALVES = 3,   /* halves of the usual time after which a closure is slow */
    QUANTILE = 95,     /* quantile of the durations, in percent, that counts as the usual time */
    MEDIAN_FACTOR = 2, /* the usual time is at most this many medians */
};

void
cadre_backups_init(cadre_backups_t *self, const cadre_backups_links_t *links)
{
    *self = (cadre_backups_t){.links = *links};
}

void
cadre_backups_fini(cadre_backups_t *self)
{
    for (size_t i = 0; i < self->functions; i++) {
        free(self->durations[i]);
    }
    free(self->durations);
    *self = (cadre_backups_t){.functions = 0};
}

/* --- the usual time of a function --- */

/* Returns the durations of a function, made at its first use. */
static cadre_durations_t *
durations_of(cadre_backups_t *self, uint32_t function)
{
    while (self->functions < function) {
        self->durations =
            cadre_realloc(self->durations, self->functions + 1, sizeof(*self->durations));
        self->durations[self->functions++] = NULL;
    }
    cadre_durations_t **durations = &self->durations[function - 1];
    if (!*durations) {
        *durations = cadre_calloc(1, sizeof(**durations));
    }
    return *durations;
}

/* Returns how long a closure of this function may be in flight before it is slow, in ms; UINT64_MAX
 * while too few closures of the function have ended to know. */
static uint64_t
slow_ms(const cadre_backups_t *self, uint32_t function)
{
    const cadre_durations_t *durations =
        function <= self->functions ? self->durations[function - 1] : NULL;
    if (!durations || durations->total < DURATIONS_MIN) {
        return UINT64_MAX;
    }

    uint64_t usual_ms = cadre_min_u64(cadre_durations_quantile(durations, QUANTILE),
                                      MEDIAN_FACTOR * cadre_durations_quantile(durations, 50));
    uint64_t limit_ms = usual_ms * SLOW_HALVES / 2;
    return limit_ms > SLOW_MS_MIN ? limit_ms : SLOW_MS_MIN;
}

/* Notes how long a closure that ended well took on its worker, counted from when it was handed out.
 * A worker that was not slow lags no longer. */
void
cadre_backups_note_done(cadre_backups_t *self, cadre_member_t *worker,
                        const cadre_closure_t *closure)
{
    if (self->links.options->backup_attempts == 0) {
        return;
    }
    uint64_t took_ms = self->links.effects->now_ms - closure->begun_ms;
    cadre_durations_add(durations_of(self, closure->function), took_ms);
    if (took_ms < slow_ms(self, closure->function)) {
        worker->lags = false;
    }
}

/* --- second attempts --- */

/* Returns whether a slot of the worker is free; attempts that it was told to stop still hold
 * slots. */
static bool
is_idle(const cadre_member_t *worker)
{
    return worker->in_flight.count + worker->overdue_count < worker->slots;
}

/* Returns a worker with an idle slot that could run the closure, NULL when there is none. */
static cadre_member_t *
find_idle(const cadre_backups_t *self, const cadre_closure_t *closure)
{
    const cadre_membership_t *members = self->links.members;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        cadre_member_t *other = members->workers[i];
        if (other && other != closure->worker && is_idle(other) && !other->lags &&
            cadre_dispatcher_can_take(self->links.dispatcher, other) &&
            cadre_dispatcher_may_run(self->links.dispatcher, other, closure)) {
            return other;
        }
    }
    return NULL;
}

/* Returns whether a closure may have a second attempt at the same time. It may not when it has one,
 * when it is being cancelled, when its worker was chosen for it (a tag; a closure that is apart,
 * such as a suspect on trial), or when its attempt is stale: that one will run again anyway. */
static bool
may_race(const cadre_backups_t *self, const cadre_closure_t *closure)
{
    return closure->raced == 0 && !cadre_closure_queue_is_cancelled(self->links.queue, closure) &&
           closure->tag == CADRE_TAG_NONE && !cadre_closure_is_apart(closure) &&
           closure->attempt > closure->stale;
}

/* Gives a slow closure to another worker, where one is idle. With `runs` its worker may be running
 * it, and the two attempts race; otherwise it waits behind others there, and is moved. */
static void
back_up(cadre_backups_t *self, cadre_closure_t *closure, bool runs)
{
    cadre_member_t *other = find_idle(self, closure);
    if (!other) {
        return;
    }

    cadre_member_t *worker = closure->worker;
    cadre_effects_log(self->links.effects, 'I', "backup_attempt",
                      "closure=%" PRIu64 " function=%s worker=%u other=%u in_flight_ms=%" PRIu64
                      " slow_ms=%" PRIu64 " next=\"%s\"",
                      closure->id, self->links.catalogue->functions[closure->function - 1]->name,
                      worker->index, other->index, self->links.effects->now_ms - closure->begun_ms,
                      slow_ms(self, closure->function),
                      runs ? "whichever ends first counts" : "it had not begun: it is moved");
    worker->lags = true;
    if (!runs) {
        cadre_attempts_move(self->links.attempts, closure, other);
        return;
    }
    /* the first attempt's slot counts as taken until that attempt has stopped */
    cadre_overruns_add_overdue(worker, closure->id);
    cadre_attempts_race(self->links.attempts, closure, other);
}

/* Looks for slow closures of one worker. A worker runs its closures in the order in which it got
 * them: as many as it has slots, less the slots held by overdue attempts, count as running. */
static void
watch_worker(cadre_backups_t *self, const cadre_member_t *worker)
{
    const uint64_t now_ms = self->links.effects->now_ms;
    uint32_t slots =
        worker->slots > worker->overdue_count ? worker->slots - worker->overdue_count : 0;
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = worker->in_flight.first; closure; closure = next) {
        next = closure->next;
        const bool runs = slots > 0;
        slots -= runs;
        if (self->links.attempts->racing >= self->links.options->backup_attempts) {
            return;
        }
        if (may_race(self, closure) &&
            now_ms - closure->begun_ms >= slow_ms(self, closure->function)) {
            back_up(self, closure, runs);
        }
    }
}

/* Returns whether any worker has a free slot: without one no second attempt can begin. */
static bool
has_idle_worker(const cadre_backups_t *self)
{
    const cadre_membership_t *members = self->links.members;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        if (members->workers[i] && is_idle(members->workers[i])) {
            return true;
        }
    }
    return false;
}

/* Looks for slow closures each WATCH_MS, where backup attempts are on. Returns when to call
 * again. */
uint64_t
cadre_backups_tick(cadre_backups_t *self)
{
    const cadre_backups_links_t *links = &self->links;
    const size_t in_flight =
        links->queue->in_flight + links->queue->tagged_in_flight + links->replay->in_flight;
    if (links->options->backup_attempts == 0 || in_flight == 0) {
        return UINT64_MAX;
    }
    if (links->effects->now_ms < self->due_ms) {
        return self->due_ms;
    }

    self->due_ms = links->effects->now_ms + WATCH_MS;
    for (uint32_t i = 0; i < links->members->worker_capacity && has_idle_worker(self); i++) {
        if (links->members->workers[i]) {
            watch_worker(self, links->members->workers[i]);
        }
    }
    return self->due_ms;
}
