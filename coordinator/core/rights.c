/*
 * rights - whether a message is one that its sender may send, and the count of those that are not.
 *
 * Default deny: the table of rights (proto-schemas/messages.h, `senders`) says which roles may send
 * a type, and a member speaks under the name and the key that it joined with and no other. Without
 * the second half a task that joined as a worker could open another connection, call itself a ps
 * there, and have its own index taken for that of a shard.
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/status.h"
#include "common/keys/peer_key.h"
#include "common/wire/codec.h"
#include "coordinator/core/coordinator_core.h"

/* Returns CADRE_EREFUSED unless `from` is the name that `member` joined with, or, for a ps, that of
 * the data connection made to its shard. */
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

int
cadre_core_check_sender(const cadre_core_t *self, const cadre_task_t *from,
                        const cadre_message_t *message)
{
    const cadre_member_t *member = cadre_membership_find(&self->membership, from->incarnation);
    int status = cadre_message_authorize(message->type, from->role);
    if (status == 0 && message->incarnation != from->incarnation) {
        status =
            cadre_fail(CADRE_EREFUSED, "the header names another incarnation than the sender's");
    }
    if (status == 0 && member && message->key != member->key) {
        status = cadre_fail(CADRE_EREFUSED, "another key than it joined under");
    }
    return status == 0 && member ? check_name(member, from) : status;
}

void
cadre_core_dropped(cadre_core_t *self, uint64_t count, const cadre_sender_t *from, const char *why)
{
    char task[CADRE_TASK_TEXT_SIZE];
    char key[CADRE_KEY_ID_TEXT_SIZE];
    self->dropped += count;
    if (self->dropped_due_ms > self->effects.now_ms) {
        return; /* a flood of them is told in one line now and then */
    }
    self->dropped_due_ms = self->effects.now_ms + CADRE_DROPPED_LOG_MS;
    cadre_effects_log(
        &self->effects, 'W', "messages_dropped",
        "count=%" PRIu64 " from=%s key_id=%s last=\"%.200s\" next=\"dropped; the job goes "
        "on\"",
        self->dropped, from->is_named ? cadre_task_text(&from->task, task) : "unknown",
        cadre_key_id_text(from->key, key), why);
}
