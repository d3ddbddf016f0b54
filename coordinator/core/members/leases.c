#include "coordinator/core/members/leases.h"

#include <inttypes.h>

#include "common/base/limits.h"

enum {
    STALL_PERCENT = 10, /* share of a lease; a shorter delay counts as a busy machine, not as a
                         * stall */
};

void
cadre_leases_init(cadre_leases_t *self, const cadre_leases_links_t *links)
{
    *self =
        (cadre_leases_t){.links = *links, .tick_due_ms = UINT64_MAX, .unread_since_ms = UINT64_MAX};
}

void
cadre_leases_promise(cadre_leases_t *self, uint64_t due_ms)
{
    self->tick_due_ms = due_ms;
}

/* --- own stalls --- */

/* Returns by how many ms the shell is late for the tick that it promised. */
static uint64_t
late_ms(const cadre_leases_t *self, uint64_t now_ms)
{
    return now_ms > self->tick_due_ms ? now_ms - self->tick_due_ms : 0;
}

/* Returns whether being late by `ms` counts as a stall. */
static bool
is_stall(const cadre_leases_t *self, uint64_t ms)
{
    return ms > 0 && 100 * ms >= STALL_PERCENT * self->links.options->lease_ms;
}

/* Returns how long the coordinator itself stood still until now, 0 where it did not, and extends
 * all leases by it. */
uint64_t
cadre_leases_end_stall(cadre_leases_t *self)
{
    uint64_t now_ms = self->links.effects->now_ms;
    uint64_t stall_ms = late_ms(self, now_ms);
    if (!is_stall(self, stall_ms)) {
        return 0;
    }

    self->stalled_ms += stall_ms;
    self->stall_end_ms = now_ms;
    /* the time for which unread input puts leases off does not run in a stall */
    self->unread_since_ms += self->unread_since_ms != UINT64_MAX ? stall_ms : 0;
    cadre_membership_excuse(self->links.membership, stall_ms, now_ms);
    cadre_effects_log(self->links.effects, 'W', "local_pause",
                      "ms=%" PRIu64 " next=\"every lease is extended by it: nobody was heard\"",
                      stall_ms);
    return stall_ms;
}

/* Returns by when tasks that reconnect because of an own stall are back; 0 when there was no stall.
 * A ROUTER socket ignores a new connection of a peer while it has not seen the old one close, so a
 * task may have to connect twice: hence CADRE_MUTE_MS. */
static uint64_t
back_ms(const cadre_leases_t *self, uint64_t now_ms)
{
    bool goes_on = is_stall(self, late_ms(self, now_ms));
    if (!goes_on && self->stalled_ms == 0) {
        return 0;
    }
    return (goes_on ? now_ms : self->stall_end_ms) + CADRE_MUTE_MS;
}

/* Returns whether the coordinator itself stood still a moment ago: tasks then reconnect, and a
 * connection that closes does not mean a death. */
static bool
has_stalled(const cadre_leases_t *self, uint64_t now_ms)
{
    uint64_t until_ms = back_ms(self, now_ms);
    return until_ms > 0 && now_ms < until_ms + self->links.options->lease_ms;
}

/* --- connections that close --- */

void
cadre_leases_note_withdrawal(cadre_leases_t *self)
{
    self->withdrawn_ms = self->links.effects->now_ms;
}

/* Returns whether a member whose connection has closed is kept as a member: it may reconnect after
 * an own stall, or after keys were withdrawn. */
bool
cadre_leases_keep(const cadre_leases_t *self, cadre_member_t *member, uint64_t now_ms)
{
    if (has_stalled(self, now_ms)) {
        cadre_membership_keep(member, back_ms(self, now_ms));
        return true;
    }

    /* After a withdrawal the coordinator closes all connections; tasks whose key is still allowed
     * reconnect. */
    uint64_t until_ms = self->withdrawn_ms + CADRE_MUTE_MS;
    bool is_ended_by_us = self->withdrawn_ms > 0 && now_ms < until_ms;
    if (is_ended_by_us) {
        cadre_membership_keep(member, until_ms);
    }

    return is_ended_by_us;
}

/* --- silence --- */

/* Returns whether unread input may still show that a silent task is alive; for one lease at
 * most. */
static bool
is_behind(cadre_leases_t *self, bool unread)
{
    uint64_t now_ms = self->links.effects->now_ms;
    if (!unread) {
        self->unread_since_ms = UINT64_MAX;
        return false;
    }
    if (self->unread_since_ms == UINT64_MAX) {
        self->unread_since_ms = now_ms;
    }
    return now_ms < self->unread_since_ms + self->links.options->lease_ms;
}

/* Returns a member whose lease has run out; NULL: there is none, or input is unread that may be
 * from it. */
cadre_member_t *
cadre_leases_expired(cadre_leases_t *self, bool unread, uint64_t *due_ms)
{
    uint64_t now_ms = self->links.effects->now_ms;
    if (is_behind(self, unread)) {
        *due_ms = now_ms + 1;
        return NULL;
    }
    return cadre_membership_expired(self->links.membership, now_ms, self->links.options->lease_ms,
                                    due_ms);
}
