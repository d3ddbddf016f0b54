#include "coordinator/core/members/rights.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/keys/peer_key.h"
#include "common/wire/codec.h"

void
cadre_rights_init(cadre_rights_t *self, const cadre_membership_t *membership,
                  cadre_effects_t *effects)
{
    *self = (cadre_rights_t){.membership = membership, .effects = effects};
}

/* Returns CADRE_EREFUSED unless `from` is the name that `member` joined with, or names its place.
 * The two differ in a task that left its index open (CADRE_INDEX_ANY): over its data connection a
 * ps speaks under the index of its place. */
static int
check_name(const cadre_member_t *member, const cadre_task_t *from)
{
    bool same = from->role == member->task.role && from->index == member->task.index;
    bool by_place = from->role == member->task.role && from->index == member->index;
    if (same || by_place) {
        return 0;
    }
    char joined[CADRE_TASK_TEXT_SIZE];
    char said[CADRE_TASK_TEXT_SIZE];
    return cadre_fail(CADRE_EREFUSED, "the task that joined as %s speaks as %s",
                      cadre_task_text(&member->task, joined), cadre_task_text(from, said));
}

/* Returns 0 when the sender may send this message, else CADRE_EREFUSED. A task that is no member is
 * checked by its role and incarnation alone. */
int
cadre_rights_check(const cadre_rights_t *self, const cadre_task_t *from,
                   const cadre_message_t *message)
{
    int status = cadre_message_authorize(message->type, from->role);
    if (status < 0) {
        return status;
    }
    if (message->incarnation != from->incarnation) {
        return cadre_fail(CADRE_EREFUSED, "the header names another incarnation than the sender's");
    }

    const cadre_member_t *member = cadre_membership_find(self->membership, from->incarnation);
    if (!member) {
        return 0;
    }
    if (message->key != member->key) {
        return cadre_fail(CADRE_EREFUSED, "another key than it joined under");
    }

    return check_name(member, from);
}

/* Counts messages that were dropped, and logs the count at most once each CADRE_DROPPED_LOG_MS. */
void
cadre_rights_note_dropped(cadre_rights_t *self, uint64_t count, const cadre_sender_t *from,
                          const char *why)
{
    char task[CADRE_TASK_TEXT_SIZE];
    char key[CADRE_KEY_ID_TEXT_SIZE];

    self->dropped += count;
    if (self->due_ms > self->effects->now_ms) {
        return; /* a flood of refused messages is logged in one line now and then */
    }

    self->due_ms = self->effects->now_ms + CADRE_DROPPED_LOG_MS;
    cadre_effects_log(
        self->effects, 'W', "messages_dropped",
        "count=%" PRIu64 " from=%s key_id=%s last=\"%.200s\" next=\"dropped; the job goes "
        "on\"",
        self->dropped, from->is_named ? cadre_task_text(&from->task, task) : "unknown",
        cadre_key_id_text(from->key, key), why);
}

/* --- keys that were withdrawn --- */

static int
compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void
cadre_rights_sort_keys(uint64_t *ids, size_t count)
{
    qsort(ids, count, sizeof(*ids), compare_ids);
}

bool
cadre_rights_is_key_of(uint64_t key, const uint64_t *ids, size_t count)
{
    return bsearch(&key, ids, count, sizeof(*ids), compare_ids) != NULL;
}

/* Returns a member that joined under a key which is not among the allowed ones any more; NULL:
 * none. */
cadre_member_t *
cadre_rights_find_withdrawn(const cadre_rights_t *self, const uint64_t *ids, size_t count)
{
    cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->membership->members, &cursor));) {
        if (member->key != 0 && !cadre_rights_is_key_of(member->key, ids, count)) {
            return member;
        }
    }
    return NULL;
}
