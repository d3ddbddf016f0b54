/*
 * membership - the tasks that are in the job: ps and workers by index and incarnation, and when
 * each was heard last.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * A task joins with HELLO, stays a member while it is heard within its lease, and goes by GOODBYE,
 * by a closed connection, by silence, or because a new incarnation of its role and index says
 * HELLO. An incarnation that is gone may come back only by HELLO; one that was replaced may not
 * come back, or two processes with one index would throw each other out for ever.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_MEMBERSHIP_H
#define CADRE_COORDINATOR_CORE_MEMBERS_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/wire/message.h"
#include "common/wire/resource_set.h"
#include "common/wire/shard_set.h"
#include "common/wire/task.h"
#include "coordinator/core/closures/closure.h"

typedef struct cadre_member {
    /* Role, index and incarnation of its routing id; the index may be CADRE_INDEX_ANY. */
    cadre_task_t task;
    uint32_t index; /* the index of its place */
    uint64_t key;   /* id of the key that it joined under; 0: without keys */
    uint64_t joined_ms;
    /* When it was heard last; for a kept member, the time by which it should be heard again. */
    uint64_t heard_ms;
    uint64_t heartbeat; /* number of the last HEARTBEAT */
    bool suspect;       /* kept, or silent for CADRE_SUSPECT_MS: gets no new work */
    bool kept;          /* its connection closed after an own stall or a withdrawal of keys, and it
                         * was not heard since */
    bool draining;      /* the worker finishes what it has and takes nothing new */
    bool drain_asked;   /* the API has asked the worker to drain: DRAIN is sent again until it
                         * leaves */
    uint32_t protocol;  /* version of the protocol that the task was told to speak */
    char *host;
    uint32_t process;
    char *address; /* ps: its data endpoint */
    char *devices;
    uint32_t slots;
    uint64_t counters[64]; /* counters of the task, as its last HEARTBEAT says */

    /* ps: what it holds of tables, as its last HEARTBEAT says: for each its variable, and then its
     * counters (table_totals.h). */
    uint64_t *tables;
    size_t table_items;

    /* Workers: what they have, kept by dispatch/attempts. */
    cadre_closure_list_t in_flight;

    /* Workers: what they reported, kept by dispatch/reports. */
    uint64_t ended;         /* closures that the worker has reported */
    uint64_t took_us;       /* microseconds that the closures which ended well took, from their
                               arrival to their end */
    uint64_t refused;       /* reports of closures that it had not been given */
    uint64_t rest_until_ms; /* the worker could not run a closure: it gets no other one before this
                             * time */

    /* Workers: how many closures they may have, kept by dispatch/dispatcher. */
    uint32_t credit;         /* how many closures the worker may hold */
    uint64_t credit_ms;      /* when `credit` was computed */
    uint64_t credit_ended;   /* `ended` when `credit` was computed */
    uint64_t credit_took_us; /* `took_us` when `credit` was computed */

    /* Workers: reports to acknowledge, kept by dispatch/acks. */
    uint64_t *acks; /* pairs of (closure id, attempt); `ack_items` numbers */
    size_t ack_items;
    size_t ack_capacity;
    bool ack_due;         /* the worker sent a message that is answered by an ACK, be it an empty
                           * one */
    uint64_t ack_request; /* request id of the message that the next ACK answers; 0: none */

    /* Workers: closures that they were told to stop past their deadline, and hold; kept by
     * dispatch/overruns. */
    uint64_t *overdue;
    uint32_t overdue_count;

    /* Workers: whether the last attempt that was slow there has not been followed by a usual one,
     * kept by dispatch/backups. */
    bool lags;

    /* Workers: what they say of shards, kept by dispatch/reach. */
    cadre_shard_set_t unreachable; /* shards of which the worker hears nothing */
    uint64_t *waits;               /* triples (closure, shard, ms): which closure has waited for
                                    * which shard, and for how long */
    size_t wait_items;

    /* Workers: what they were told, kept by announcements. `briefed`: they were sent all that
     * existed when they joined. */
    bool briefed;
    uint64_t round;        /* number of the last HELLO that was answered */
    uint64_t hello_ms;     /* when HELLO number `round` was answered; 0: never */
    uint64_t definitions;  /* how many records of the definitions log were sent to the worker */
    uint64_t wanted;       /* how many records of that log the worker had when it last asked for
                            * more (WANT) */
    uint64_t want_ms;      /* when the same WANT will be answered again */
    uint64_t want_rest_ms; /* how long the same WANT is left unanswered, longer each time */

    cadre_abilities_t abilities; /* workers: kept by worker_admission; what they have built, by
                                  * resources */

    /* Workers: kept by resources. */
    cadre_resource_set_t resources_told; /* resources that it was told to build */
    uint64_t resources_ms;               /* when the worker was last told to build a resource */
    uint32_t trial; /* the worker builds the suspect resource with this id, or is about to; 0:
                     * none */

    /* Workers: kept by dispatch/apart, and for how long by dispatch/trials and resources. */
    uint64_t trial_closure;  /* the worker runs the suspect closure with this id, or is about to; 0:
                              * none */
    uint64_t alone_until_ms; /* until then the worker gets nothing beside its trial */
} cadre_member_t;

/* How many incarnations that were replaced are remembered, the newest ones. */
enum { CADRE_REPLACED_MAX = 1024 };

typedef struct {
    cadre_u64_map_t members; /* by incarnation */
    cadre_member_t **ps;     /* [ps_count], NULL where no ps is */
    uint32_t ps_count;
    cadre_member_t **workers; /* by index, NULL where no worker is */
    uint32_t worker_capacity;
    uint32_t worker_count;
    uint32_t worker_places; /* the highest index that a worker has had plus 1 */
    uint32_t ps_joined;
    uint64_t *ps_last;       /* [ps_count]: the incarnation that last claimed the place */
    uint64_t *worker_last;   /* [worker_capacity]: the incarnation that last claimed the place of a
                              * worker; 0: none */
    cadre_record_t *records; /* [worker_capacity]: how long processes have lived in each place, and
                                how many died */
    uint64_t *died;          /* [worker_capacity]: incarnation of the last process that died there;
                                0: none */
    uint64_t replaced[CADRE_REPLACED_MAX]; /* incarnations that were replaced, a ring */
    size_t replaced_at;
    uint64_t look_ms; /* no lease runs out before this time */
} cadre_membership_t;

void cadre_membership_init(cadre_membership_t *self, uint32_t ps_count);
void cadre_membership_fini(cadre_membership_t *self);

/* Returns the member with this incarnation, or NULL. */
cadre_member_t *cadre_membership_find(const cadre_membership_t *self, uint64_t incarnation);

/* Returns the worker with this index, or NULL. */
cadre_member_t *cadre_membership_worker_at(const cadre_membership_t *self, uint32_t index);

/* Returns the member that holds the place which a HELLO asks for: another incarnation of the same
 * role and index. NULL when the place is free, when the sender is a member or was replaced, or when
 * it does not insist on the place: its routing id says CADRE_INDEX_ANY, and the index in the HELLO
 * is only the one it had before. The caller removes the occupant first (cadre_membership_remove).
 */
cadre_member_t *cadre_membership_occupant(const cadre_membership_t *self, const cadre_task_t *from,
                                          const cadre_hello_message_t *hello);

/* Adds the sender of a HELLO, or brings it up to date. CADRE_EINVALID for a role or index that has
 * no place in the job or differs from the routing id, CADRE_EFULL beyond CADRE_TASKS_MAX and for
 * one ps too many, CADRE_EFENCED for a task that was replaced. */
int cadre_membership_join(cadre_membership_t *self, const cadre_task_t *from,
                          const cadre_hello_message_t *hello, uint64_t now_ms,
                          cadre_member_t **member);

/* Notes that the process of a worker has lived until now, and whether it died (`died`), before it
 * is removed. */
void cadre_membership_note_end(cadre_membership_t *self, const cadre_member_t *member,
                               uint64_t now_ms, bool died);

/* Takes a member out and frees it; nothing may be in flight on it. */
void cadre_membership_remove(cadre_membership_t *self, cadre_member_t *member);

/* Excuses all members for `ms`, in which the coordinator itself stood still: counts each as heard
 * that much later, at `now_ms` at the latest; a kept member gets as much time as before to be
 * heard. */
void cadre_membership_excuse(cadre_membership_t *self, uint64_t ms, uint64_t now_ms);

/* Notes that a member was heard. */
void cadre_membership_heard(cadre_member_t *member, uint64_t now_ms);

/* Notes the protocol version and the key (its id) with which a member has joined. */
void cadre_membership_note_terms(cadre_member_t *member, uint32_t protocol, uint64_t key);

/* Notes that a HELLO of a worker was answered. */
void cadre_membership_note_hello(cadre_member_t *worker, uint64_t round, uint64_t now_ms);

/* Takes the counters of a HEARTBEAT; false when a later HEARTBEAT has overtaken it. */
bool cadre_membership_note_heartbeat(cadre_member_t *member,
                                     const cadre_heartbeat_message_t *heartbeat);

/* Notes that a worker finishes what it has and leaves. */
void cadre_membership_drain(cadre_member_t *worker);

/* Notes that the API has asked a worker to finish what it has and leave: DRAIN is repeated until it
 * does so. */
void cadre_membership_ask_to_drain(cadre_member_t *worker);

/* Notes that a member's connection has closed, and that it has until `until_ms` to be heard over
 * another one. Further calls change nothing until it has been heard. */
void cadre_membership_keep(cadre_member_t *member, uint64_t until_ms);

/* Returns the first member that has been silent for `lease_ms`, or NULL; marks suspect members on
 * the way. Sets `due_ms` to the time of the next look. */
cadre_member_t *cadre_membership_expired(cadre_membership_t *self, uint64_t now_ms,
                                         uint64_t lease_ms, uint64_t *due_ms);

/* Returns the record of a worker's death, for suspicion: it had something to run or build since
 * `since_ms`. */
cadre_death_t cadre_membership_death(const cadre_membership_t *self, const cadre_member_t *worker,
                                     uint64_t since_ms, uint64_t now_ms);

/* Returns whether a worker is to do nothing but its trial now. */
bool cadre_member_is_alone(const cadre_member_t *worker, uint64_t now_ms);

/* Writes "worker 3" or "ps 0" into `text` of 32 bytes; returns it. */
const char *cadre_member_name(const cadre_member_t *member, char text[32]);

#endif
