/*
 * members - how tasks join and leave: judges HELLO, and sends WELCOME, DRAIN, STOP and refusals.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A HELLO is judged here by the sender's release, the place that it asks for, and the member that
 * holds this place. What becomes of the closures or the shard of a member that goes is decided
 * elsewhere: the member that a HELLO replaces is returned, and the core takes it out as lost before
 * it has the HELLO judged again.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_MEMBERS_H
#define CADRE_COORDINATOR_CORE_MEMBERS_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/contests.h"
#include "coordinator/core/members/membership.h"

/* The objects that members read and call; borrowed for their life. */
typedef struct {
    const cadre_core_options_t *options;
    cadre_membership_t *membership;
    cadre_effects_t *effects;
} cadre_members_links_t;

typedef struct {
    cadre_members_links_t links;
    cadre_contests_t contests; /* tasks that wait for a place which another one holds */
} cadre_members_t;

/* What a HELLO leads to. */
typedef enum {
    /* Nothing now: the HELLO was answered a moment ago, or its sender must say it again. */
    CADRE_HELLO_WAITS,
    CADRE_HELLO_CONTESTS, /* the place is held: the sender says HELLO again, and until then all
                             members are probed */
    CADRE_HELLO_REPLACES, /* the core takes `member` out as lost, and has the HELLO judged again */
    CADRE_HELLO_REFUSED,  /* the sender was told why */
    CADRE_HELLO_JOINS,    /* `member` is new; the core welcomes it */
    CADRE_HELLO_STAYS,    /* `member` had joined before; the core welcomes it again */
} cadre_hello_outcome_t;

typedef struct {
    cadre_hello_outcome_t outcome;
    cadre_member_t *member;
    const char *why; /* REPLACES: why `member` is lost */
    bool died;       /* REPLACES: its process has ended, as far as can be told */
} cadre_hello_verdict_t;

void cadre_members_init(cadre_members_t *self, const cadre_members_links_t *links);

/* --- tasks that join --- */

/* Judges a HELLO. `needs_folder`: the job has checkpoints, so that a ps must be able to read or
 * write them. */
cadre_hello_verdict_t cadre_members_on_hello(cadre_members_t *self, const cadre_task_t *from,
                                             const cadre_message_t *message, bool needs_folder);

/* Sends WELCOME. `request`: the number of the HELLO that it answers; 0 for a WELCOME that only
 * finds out whether the member is still there. `generation`: the one in which a ps serves its
 * shard; 0 for a worker. */
void cadre_members_welcome(cadre_members_t *self, const cadre_member_t *member, uint64_t request,
                           uint64_t generation);

/* Tells a task that it is no member, whereupon it says HELLO. */
void cadre_members_tell_unknown(cadre_members_t *self, const cadre_task_t *task);

/* Excuses tasks that contest a place for `ms`, in which the coordinator itself stood still: that
 * time does not count as asking. */
void cadre_members_excuse(cadre_members_t *self, uint64_t ms);

/* --- tasks that leave --- */

/* Tells a worker to finish what it runs, hand the rest back and leave. */
void cadre_members_drain(cadre_members_t *self, cadre_member_t *worker);

/* Repeats DRAIN to a worker that is being drained. */
void cadre_members_repeat_drain(cadre_members_t *self, const cadre_member_t *worker);

void cadre_members_tell_stop(cadre_members_t *self, const cadre_task_t *task, const char *reason);

/* Takes out a member that has gone, on which no closure may be in flight, and asks the tasks that
 * wait for a place to say HELLO again. */
void cadre_members_remove(cadre_members_t *self, cadre_member_t *member);

#endif
