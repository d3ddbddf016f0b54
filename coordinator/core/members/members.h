/*
 * members - how tasks come and go: HELLO and what answers it, and what members are told.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A HELLO is judged here, by the release that says it, the place that it asks for and who holds
 * that. What a member has, and so what is to be done when one goes, others know: whom a HELLO
 * replaces is returned, to be lost by the core before the HELLO is judged again.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_MEMBERS_H
#define CADRE_COORDINATOR_CORE_MEMBERS_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/effects/core_options.h"
#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/contests.h"
#include "coordinator/core/members/membership.h"

/* What is read, and who is told: all borrowed for its life. */
typedef struct {
    const cadre_core_options_t *options;
    cadre_membership_t *membership;
    cadre_effects_t *effects;
} cadre_members_links_t;

typedef struct {
    cadre_members_links_t links;
    cadre_contests_t contests; /* who waits for a place that is held */
} cadre_members_t;

/* What a HELLO leads to. */
typedef enum {
    CADRE_HELLO_WAITS,    /* nothing: it was answered a moment ago, or is said again */
    CADRE_HELLO_CONTESTS, /* it is said again, and until then all members are to be probed */
    CADRE_HELLO_REPLACES, /* `member` is to be lost, and the HELLO judged again */
    CADRE_HELLO_REFUSED,  /* its sender was told why */
    CADRE_HELLO_JOINS,    /* `member` is new, and to be welcomed */
    CADRE_HELLO_STAYS,    /* `member` was one before, and is to be welcomed again */
} cadre_hello_outcome_t;

typedef struct {
    cadre_hello_outcome_t outcome;
    cadre_member_t *member;
    const char *why; /* REPLACES: for what reason, */
    bool died;       /* and whether its process has ended, as far as can be told */
} cadre_hello_verdict_t;

void cadre_members_init(cadre_members_t *self, const cadre_members_links_t *links);

/* --- coming --- */

/* Judges a HELLO. `needs_folder`: the job has checkpoints, so that a ps must be able to read or
 * write them. */
cadre_hello_verdict_t cadre_members_on_hello(cadre_members_t *self, const cadre_task_t *from,
                                             const cadre_message_t *message, bool needs_folder);

/* Sends WELCOME. `request`: of the HELLO that it answers; 0 for one that only looks whether
 * somebody is there. `generation`: that a ps serves its shard in; 0 for a worker. */
void cadre_members_welcome(cadre_members_t *self, const cadre_member_t *member, uint64_t request,
                           uint64_t generation);

/* Tells a task that it is no member: it says HELLO. */
void cadre_members_tell_unknown(cadre_members_t *self, const cadre_task_t *task);

/* Nobody could be heard for `ms`: who contests a place has asked for that much less. */
void cadre_members_excuse(cadre_members_t *self, uint64_t ms);

/* --- going --- */

/* Tells a worker to finish what it runs, hand the rest back and leave. */
void cadre_members_drain(cadre_members_t *self, cadre_member_t *worker);

/* Tells a worker again that is being drained. */
void cadre_members_repeat_drain(cadre_members_t *self, const cadre_member_t *worker);

void cadre_members_tell_stop(cadre_members_t *self, const cadre_task_t *task, const char *reason);

/* Takes a member out that has gone, and asks those who wait for a place to say HELLO again; nothing
 * may be in flight on it. */
void cadre_members_remove(cadre_members_t *self, cadre_member_t *member);

#endif
