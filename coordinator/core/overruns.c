/*
 * overruns - closures that run for too long: one with a deadline gets a second attempt elsewhere,
 * and each is named.
 *
 * A closure runs from when it is among the oldest of its worker, as many as that has slots; the
 * coordinator's own stalls do not count. Past its deadline another worker gets it, if there is one
 * that has not been too slow for it yet: exactly-once makes that safe, the first attempt is told to
 * stop, and whichever reports first ends it. Without another worker it goes on where it is, and the
 * log says so. CADRE_OVERRUNS_MAX attempts that took too long end it with CADRE_ETIMEOUT. A slot
 * that does not stop counts as taken until a heartbeat does not name the closure any more; a worker
 * whose slots are all taken so is left nothing else.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "coordinator/core/coordinator_core.h"

enum {
    WATCH_MS = 200,   /* between two looks at what runs */
    NAMED_MS = 60000, /* a closure that runs so long is named, and again each time it has doubled */
};

static const char *
function_name(const cadre_core_t *self, const cadre_closure_t *closure)
{
    return self->catalogue.functions[closure->function - 1]->name;
}

static void
add_overdue(cadre_member_t *member, uint64_t id)
{
    member->overdue = cadre_realloc(member->overdue, member->overdue_count + 1, sizeof(uint64_t));
    member->overdue[member->overdue_count++] = id;
}

void
cadre_overruns_heard(cadre_member_t *member, cadre_u64s_t held)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < member->overdue_count; i++) {
        bool is_held = false;
        for (size_t k = 0; k < held.count && !is_held; k++) {
            is_held = held.items[k] == member->overdue[i];
        }
        if (is_held) {
            member->overdue[kept++] = member->overdue[i];
        }
    }
    member->overdue_count = kept;
}

/* A worker that could run what overran on `member`, NULL when there is none. */
static cadre_member_t *
find_other(const cadre_core_t *self, const cadre_member_t *member, const cadre_closure_t *closure)
{
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        cadre_member_t *other = self->membership.workers[i];
        if (other && other != member && !other->suspect && !other->draining &&
            other->overdue_count < other->slots && cadre_dispatch_may_run(self, other, closure)) {
            return other;
        }
    }
    return NULL;
}

static void
fail(cadre_core_t *self, cadre_closure_t *closure, const cadre_member_t *member)
{
    char text[CADRE_CLOSURE_ERROR_SIZE];
    snprintf(text, sizeof(text),
             "function %s, closure %" PRIu64 ": %u attempts ran for longer than its deadline of "
             "%" PRIu64 " ms, the last one on worker %u (process %u)",
             function_name(self, closure), closure->id, closure->overruns, closure->deadline_ms,
             member->index, member->process);
    cadre_dispatch_fail(self, closure, CADRE_ETIMEOUT, text);
}

/* It ran past its deadline on `member`. */
static void
overrun(cadre_core_t *self, cadre_member_t *member, cadre_closure_t *closure, uint64_t ran_ms)
{
    bool last = closure->overruns + 1 >= CADRE_OVERRUNS_MAX;
    const cadre_member_t *other = last ? NULL : find_other(self, member, closure);
    bool goes_on = !last && !other;
    if (goes_on && closure->stays) {
        return; /* said before */
    }
    closure->stays = goes_on;
    cadre_effects_log(&self->effects, 'W', "deadline_missed",
                      "closure=%" PRIu64 " function=%s worker=%u process=%u attempt=%" PRIu64
                      " ran_ms=%" PRIu64 " deadline_ms=%" PRIu64 " next=\"%s\"",
                      closure->id, function_name(self, closure), member->index, member->process,
                      closure->attempt, ran_ms, closure->deadline_ms,
                      goes_on ? "there is no other worker for it: it goes on"
                      : last  ? "it has failed"
                              : "another worker gets it, this one is told to stop");
    if (goes_on) {
        return;
    }
    self->totals.deadlines_missed++;
    closure->overran_on[closure->overruns++] = member->task.incarnation;
    add_overdue(member, closure->id);
    cadre_dispatch_tell_cancel(self, member, closure->id);
    if (last) {
        fail(self, closure, member);
    } else {
        cadre_dispatch_put_back(self, closure);
        cadre_apart_add(&self->apart, closure);
    }
}

/* Names what runs for very long. */
static void
name_long(cadre_core_t *self, const cadre_member_t *member, cadre_closure_t *closure,
          uint64_t ran_ms)
{
    if (ran_ms < NAMED_MS || ran_ms < 2 * closure->named_ms) {
        return;
    }
    closure->named_ms = ran_ms;
    char next[64] = "it is waited for";
    uint64_t waits_ms = 0;
    uint32_t shard = cadre_reach_waits_for(member, closure->id, &waits_ms);
    if (shard != UINT32_MAX) {
        snprintf(next, sizeof(next), "it waits for ps %u for %" PRIu64 " ms", shard, waits_ms);
    }
    cadre_effects_log(&self->effects, 'W', "closure_long",
                      "closure=%" PRIu64 " function=%s worker=%u process=%u host=\"%s\" "
                      "attempt=%" PRIu64 " ran_ms=%" PRIu64 " next=\"%s%s\"",
                      closure->id, function_name(self, closure), member->index, member->process,
                      member->host, closure->attempt, ran_ms, next,
                      closure->deadline_ms ? "" : ": it has no deadline");
}

/* How long it has run. */
static uint64_t
ran(const cadre_core_t *self, const cadre_closure_t *closure)
{
    return self->effects.now_ms - self->leases.stalled_ms - closure->running_ms;
}

/* Every slot has something that does not stop: what waits behind it goes elsewhere, the newest
 * first, so that at the front of the queue they come to stand in their old order. */
static void
free_what_waits(cadre_core_t *self, cadre_member_t *member)
{
    while (member->overdue_count >= member->slots && member->in_flight.last) {
        cadre_closure_t *closure = member->in_flight.last;
        cadre_dispatch_tell_cancel(self, member, closure->id);
        cadre_dispatch_put_back(self, closure);
    }
}

static void
watch_member(cadre_core_t *self, cadre_member_t *member)
{
    uint32_t left = member->slots;
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = member->in_flight.first; closure && left > 0;
         closure = next, left--) {
        next = closure->next;
        if (!closure->is_running) {
            closure->is_running = true;
            closure->running_ms = self->effects.now_ms - self->leases.stalled_ms;
        }
        uint64_t ran_ms = ran(self, closure);
        if (ran_ms >= self->longest.ran_ms) {
            self->longest = (cadre_longest_t){.closure = closure->id,
                                              .function = function_name(self, closure),
                                              .worker = member->index,
                                              .ran_ms = ran_ms};
            self->longest.shard =
                cadre_reach_waits_for(member, closure->id, &self->longest.waits_ms);
        }
        name_long(self, member, closure, ran_ms);
        if (closure->deadline_ms && ran_ms >= closure->deadline_ms && !self->queue.cancelling) {
            overrun(self, member, closure, ran_ms);
        }
    }
    free_what_waits(self, member);
}

void
cadre_overruns_tick(cadre_core_t *self)
{
    if (self->effects.now_ms < self->watch_due_ms) {
        return;
    }
    self->watch_due_ms = self->effects.now_ms + WATCH_MS;
    self->longest = (cadre_longest_t){.ran_ms = 0};
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        if (self->membership.workers[i]) {
            watch_member(self, self->membership.workers[i]);
        }
    }
}
