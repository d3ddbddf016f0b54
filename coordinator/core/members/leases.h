/*
 * leases - who is presumed dead because nothing was heard of it.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
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
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_LEASES_H
#define CADRE_COORDINATOR_CORE_MEMBERS_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"

/* What leases read, and whom they tell: all borrowed for their life. */
typedef struct {
    const cadre_core_options_t *options;
    cadre_membership_t *membership;
    cadre_effects_t *effects;
} cadre_leases_links_t;

typedef struct {
    cadre_leases_links_t links;
    uint64_t stalled_ms;      /* how long the shell did not listen, together */
    uint64_t stall_end_ms;    /* of the last time */
    uint64_t withdrawn_ms;    /* when keys were withdrawn last; 0: never */
    uint64_t tick_due_ms;     /* when the shell promised to tick again, at the latest */
    uint64_t unread_since_ms; /* how long input has been unread; UINT64_MAX: it is not */
} cadre_leases_t;

void cadre_leases_init(cadre_leases_t *self, const cadre_leases_links_t *links);

/* Notes that the shell promises to tick again by `due_ms`. */
void cadre_leases_promise(cadre_leases_t *self, uint64_t due_ms);

/* Excuses the members for the time in which the coordinator did not listen, and returns it in ms;
 * 0: it did. What else has a deadline that others must meet is for the caller to excuse. */
uint64_t cadre_leases_end_stall(cadre_leases_t *self);

/* Returns the first member whose lease has run out, which is to be taken out before the next call;
 * NULL when there is none. `unread`: more input waits than was read this turn. `due_ms` becomes
 * when to look again. */
cadre_member_t *cadre_leases_expired(cadre_leases_t *self, bool unread, uint64_t *due_ms);

/* Notes that keys were withdrawn, and that all connections end with them. */
void cadre_leases_note_withdrawal(cadre_leases_t *self);

/* Keeps a member whose connection has closed, after an own stall and when keys were withdrawn: it
 * lives, as far as is known, and its lease is long enough for it to say HELLO over another one.
 * Returns false when the connection tells of its death. */
bool cadre_leases_keep(const cadre_leases_t *self, cadre_member_t *member, uint64_t now_ms);

#endif
