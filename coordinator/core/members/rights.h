/*
 * rights - whether a message is one that its sender may send, and the count of messages that are
 * not.
 *
 * Owner:   the coordinator core. Thread: under the coordinator's lock.
 *
 * Default deny: the table of rights (proto-schemas/messages.h, `senders`) says which roles may send
 * a type of message, and a member may speak only under the name and the key that it joined with.
 * Without this second rule a task that joined as a worker could open another connection, call
 * itself a ps there, and have its index taken for that of a shard.
 */
#ifndef CADRE_COORDINATOR_CORE_MEMBERS_RIGHTS_H
#define CADRE_COORDINATOR_CORE_MEMBERS_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "coordinator/core/effects/effects.h"
#include "coordinator/core/members/membership.h"

/* Who sent a message, by the connection that it came over: its routing id and its key, not what the
 * message says of itself. */
typedef struct {
    cadre_task_t task;
    bool is_named; /* `task` is known; else the connection has no valid routing id */
    uint64_t key;  /* the id of its key (cadre_peer_key_t), 0: without keys */
} cadre_sender_t;

typedef struct {
    const cadre_membership_t *membership; /* borrowed, like the next one */
    cadre_effects_t *effects;
    uint64_t dropped; /* how many messages were malformed, or not their sender's to send */
    uint64_t due_ms;  /* when dropped messages may be logged again */
} cadre_rights_t;

void cadre_rights_init(cadre_rights_t *self, const cadre_membership_t *membership,
                       cadre_effects_t *effects);

/* Returns 0 when `from` may send `message`, by its role and by the name and key that the member
 * with its incarnation joined with; else CADRE_EREFUSED. */
int cadre_rights_check(const cadre_rights_t *self, const cadre_task_t *from,
                       const cadre_message_t *message);

/* Counts messages that were dropped because they were malformed or not their sender's to send, and
 * logs the count, at most every CADRE_DROPPED_LOG_MS. `from` and `why`: sender and fault of the
 * last one. */
void cadre_rights_note_dropped(cadre_rights_t *self, uint64_t count, const cadre_sender_t *from,
                               const char *why);

/* Returns a member that joined under none of the `count` allowed keys, whose ids are sorted; NULL
 * when there is none. */
cadre_member_t *cadre_rights_find_withdrawn(const cadre_rights_t *self, const uint64_t *ids,
                                            size_t count);

/* Sorts ids of keys for the functions above and below. */
void cadre_rights_sort_keys(uint64_t *ids, size_t count);

/* Returns whether the key with this id is among the sorted ones. */
bool cadre_rights_is_key_of(uint64_t key, const uint64_t *ids, size_t count);

#endif
