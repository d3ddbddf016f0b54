/*
 * leases - who is presumed dead because nothing was heard of it.
 *
 * A lease measures the silence of a task, so it does not run while the coordinator itself does not
 * listen. The shell promises to call again by the time that the last tick named; what it is late
 * by was the coordinator's own stall (a stopped process, a machine that swaps, an API call that
 * held the lock), and every lease is longer by it. Nor is a lease judged while input is unread:
 * what was said in time may lie there. A flood of input puts that off by one more lease, not for
 * ever.
 *
 * A connection that closes tells of a death, but after an own stall and when keys were withdrawn,
 * when the coordinator itself ends all of them.
 */
#include <inttypes.h>

#include "coordinator/core/coordinator_core.h"

enum {
    STALL_PERCENT = 10, /* of a lease: being late by less is a busy machine */
};

/* Excuses everybody for the time in which the coordinator did not listen. */
static void
excuse_stall(cadre_core_t *self)
{
    uint64_t late_ms =
        self->effects.now_ms > self->tick_due_ms ? self->effects.now_ms - self->tick_due_ms : 0;
    if (100 * late_ms < STALL_PERCENT * self->options.lease_ms || late_ms == 0) {
        return;
    }
    self->stalled_ms += late_ms;
    self->stall_end_ms = self->effects.now_ms;
    cadre_membership_excuse(&self->membership, late_ms, self->effects.now_ms);
    cadre_contests_excuse(&self->contests, late_ms, self->effects.now_ms);
    self->unread_since_ms += self->unread_since_ms != UINT64_MAX ? late_ms : 0;
    cadre_recovery_excuse(&self->recovery, late_ms);
    cadre_effects_log(&self->effects, 'W', "own_stall",
                      "ms=%" PRIu64 " next=\"every lease is longer by it: nobody was heard\"",
                      late_ms);
}

/* By when tasks have come back that dialled anew because of a stall: a ROUTER that has not seen the
 * connection before close ignores the new one, so they may have to dial twice. */
static uint64_t
back_ms(const cadre_core_t *self, uint64_t now_ms)
{
    uint64_t late_ms = now_ms > self->tick_due_ms ? now_ms - self->tick_due_ms : 0;
    bool goes_on = 100 * late_ms >= STALL_PERCENT * self->options.lease_ms;
    if (!goes_on && self->stalled_ms == 0) {
        return 0;
    }
    return (goes_on ? now_ms : self->stall_end_ms) + CADRE_MUTE_MS;
}

bool
cadre_leases_has_stalled(const cadre_core_t *self, uint64_t now_ms)
{
    uint64_t until_ms = back_ms(self, now_ms);
    return until_ms > 0 && now_ms < until_ms + self->options.lease_ms;
}

bool
cadre_leases_keep(const cadre_core_t *self, cadre_member_t *member, uint64_t now_ms)
{
    if (cadre_leases_has_stalled(self, now_ms)) {
        cadre_membership_keep(member, back_ms(self, now_ms));
        return true;
    }
    /* All connections end then, and who is still allowed dials again. */
    uint64_t until_ms = self->withdrawn_ms + CADRE_MUTE_MS;
    bool is_ended_by_us = self->withdrawn_ms > 0 && now_ms < until_ms;
    if (is_ended_by_us) {
        cadre_membership_keep(member, until_ms);
    }
    return is_ended_by_us;
}

/* Whether input that lies unread may yet show that somebody is alive. */
static bool
is_behind(cadre_core_t *self, bool unread)
{
    if (!unread) {
        self->unread_since_ms = UINT64_MAX;
    } else if (self->unread_since_ms == UINT64_MAX) {
        self->unread_since_ms = self->effects.now_ms;
    }
    return unread && self->effects.now_ms < self->unread_since_ms + self->options.lease_ms;
}

uint64_t
cadre_leases_tick(cadre_core_t *self, bool unread)
{
    uint64_t due_ms = UINT64_MAX;
    cadre_member_t *expired = NULL;
    excuse_stall(self);
    if (is_behind(self, unread)) {
        return self->effects.now_ms + 1;
    }
    while ((expired = cadre_membership_expired(&self->membership, self->effects.now_ms,
                                               self->options.lease_ms, &due_ms))) {
        cadre_core_lose(self, expired, "its lease ran out", false);
    }
    return due_ms;
}
