/*
 * leases - presumes a task dead when nothing was heard of it for the time of its lease.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A lease measures the silence of a task, so it does not run while the coordinator itself does not
 * listen. The shell promises to call again by the time that the last tick returned. If it calls
 * later, the delay was the coordinator's own stall (a stopped process, a machine that swaps, an API
 * call that held the lock), and every lease is extended by it. Nor is a lease judged while input is
 * unread: a message that came in time may be among it. A flood of input puts the judgement off by
 * one more lease at most.
 *
 * A connection that closes means that its task has died; except after an own stall, when tasks
 * reconnect, and after keys were withdrawn, when the coordinator itself closes all connections.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_LEASES_H
#define CADRE_COORDINATOR_CORE_MEMBERS_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"

/* The objects that leases read and call; borrowed for their life. */
typedef struct {
    const cadre_core_options_t *options;
    cadre_membership_t *membership;
    cadre_effects_t *effects;
} cadre_leases_links_t;

typedef struct {
    cadre_leases_links_t links;
    uint64_t stalled_ms;      /* length of all own stalls so far, summed */
    uint64_t stall_end_ms;    /* when the last own stall ended */
    uint64_t withdrawn_ms;    /* when keys were withdrawn (revoked) last; 0: never */
    uint64_t tick_due_ms;     /* when the shell promised to tick again, at the latest */
    uint64_t unread_since_ms; /* since when input has been unread; UINT64_MAX: none is */
} cadre_leases_t;

void cadre_leases_init(cadre_leases_t *self, const cadre_leases_links_t *links);

/* Notes that the shell promises to tick again by `due_ms`. */
void cadre_leases_promise(cadre_leases_t *self, uint64_t due_ms);

/* Returns the length of the coordinator's own stall that ends now, in ms, and extends the leases of
 * all members by it; 0 when there was none. The caller must extend all other deadlines that tasks
 * have to meet. */
uint64_t cadre_leases_end_stall(cadre_leases_t *self);

/* Returns the first member whose lease has run out, which the caller removes before the next call;
 * NULL when there is none. `unread`: more input waits than was read in this turn. Sets `due_ms` to
 * the time of the next look. */
cadre_member_t *cadre_leases_expired(cadre_leases_t *self, bool unread, uint64_t *due_ms);

/* Notes that keys were withdrawn, whereupon the coordinator closes all connections. */
void cadre_leases_note_withdrawal(cadre_leases_t *self);

/* Keeps a member whose connection has closed, if that was after an own stall or after keys were
 * withdrawn: the member may live, and gets the time to say HELLO over another connection. Otherwise
 * returns false: the member counts as dead. */
bool cadre_leases_keep(const cadre_leases_t *self, cadre_member_t *member, uint64_t now_ms);

#endif
