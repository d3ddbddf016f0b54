/*
 * joining - how tasks come and go: HELLO, GOODBYE, a lost connection, a lease that ran out, the
 * end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/status.h"
#include "coordinator/coordinator_core.h"
#include "coordinator/send_queues.h"

/* `request`: of the HELLO that it answers; 0 for a WELCOME that only looks whether somebody is
 * there. */
static void
welcome(cadre_core_t *self, const cadre_member_t *member, uint64_t request)
{
    uint64_t generation = 0;
    if (member->task.role == CADRE_ROLE_PS) {
        const cadre_place_t *place = &self->shards[member->index];
        generation = place->generation + (place->state == CADRE_PLACE_AWAY ? 1 : 0);
    }
    cadre_message_t message = cadre_core_message(self, CADRE_MESSAGE_WELCOME);
    message.request = request;
    message.welcome = (cadre_welcome_message_t){.index = member->index,
                                                .job = self->options.job,
                                                .heartbeat_ms = self->options.heartbeat_ms,
                                                .lease_ms = self->options.lease_ms,
                                                .resend_ms = self->options.resend_ms,
                                                .shards = self->options.ps_count,
                                                .generation = generation};
    cadre_outbox_send(&self->outbox, &member->task, &message);
}

void
cadre_core_lose(cadre_core_t *self, cadre_member_t *member, const char *why, bool died)
{
    char name[32];
    cadre_member_name(member, name);
    size_t in_flight = member->in_flight.count;
    bool is_ps = member->task.role == CADRE_ROLE_PS;
    if (is_ps) {
        self->totals.ps_lost++;
        cadre_checkpoint_on_lost(self);
    } else {
        self->totals.workers_lost++;
        cadre_resources_lost(self, member, died);
        cadre_dispatch_lost(self, member, died);
        cadre_membership_note_end(&self->membership, member, self->now_ms, died);
    }
    cadre_core_log(self, 'W', is_ps ? "ps_lost" : "worker_lost",
                   "task=\"%s\" process=%u why=\"%s\" closures=%zu next=\"%s\"", name,
                   member->process, why, in_flight,
                   is_ps ? "its shard is restored on the process that takes its place"
                         : "they run again on other workers");
    if (is_ps) {
        cadre_recovery_on_lost(self, member, why);
    }
    cadre_membership_remove(&self->membership, member);
    self->progress = true;
}

void
cadre_core_refuse(cadre_core_t *self, const cadre_task_t *task, const char *reason)
{
    cadre_message_t stop = cadre_core_message(self, CADRE_MESSAGE_STOP);
    stop.stop.reason = reason;
    cadre_outbox_send(&self->outbox, task, &stop);
}

static void
refuse_hello(cadre_core_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello)
{
    cadre_core_log(self, 'W', "hello_refused", "host=\"%s\" process=%" PRIu64 " why=\"%s\"",
                   hello->host, hello->process, cadre_error_text());
    char reason[CADRE_TEXT_SIZE_MAX + 1];
    snprintf(reason, sizeof(reason), "refused: %.200s", cadre_error_text());
    cadre_core_refuse(self, from, reason);
}

/* Lets a task in, in the place of an earlier incarnation of it. On the same host that one has died
 * as a rule, and the news of it comes later than what took its place. */
static int
admit(cadre_core_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
      cadre_member_t **member)
{
    cadre_member_t *occupant = cadre_membership_occupant(&self->membership, from, hello);
    if (occupant) {
        bool died = strcmp(occupant->host, hello->host) == 0;
        cadre_core_lose(self, occupant, "replaced by a new process with the same index", died);
    }
    return cadre_membership_join(&self->membership, from, hello, self->now_ms, member);
}

/* A ps that left its index open and was told two, of which it believes the other one. */
static bool
is_confused(const cadre_member_t *member, const cadre_hello_message_t *hello)
{
    return member->task.role == CADRE_ROLE_PS && hello->index != CADRE_INDEX_ANY &&
           hello->index != member->index;
}

void
cadre_core_on_hello(cadre_core_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    const cadre_hello_message_t *hello = &message->hello;
    cadre_member_t *member = cadre_membership_find(&self->membership, from->incarnation);
    if (member && is_confused(member, hello)) {
        cadre_core_lose(self, member, "it serves another shard", false);
        cadre_recovery_on_confused(self, from->incarnation);
        member = NULL;
    }
    bool known = member != NULL;
    if (admit(self, from, hello, &member) < 0) {
        refuse_hello(self, from, hello);
        return;
    }
    if (!known) {
        char name[32];
        cadre_resources_forgive(self, from->incarnation);
        cadre_core_log(self, 'I', "task_joined", "task=\"%s\" host=\"%s\" process=%u slots=%u",
                       cadre_member_name(member, name), member->host, member->process,
                       member->slots);
        if (member->task.role == CADRE_ROLE_PS) {
            cadre_recovery_on_ps(self, member, hello);
        }
    }
    welcome(self, member, message->request);
    if (member->task.role == CADRE_ROLE_WORKER) {
        cadre_core_brief(self, member);
        cadre_dispatch_compare(self, member, hello->held, true);
    }
    self->progress = true;
}

static void
lose_task(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms, const char *why, bool died)
{
    self->now_ms = now_ms;
    cadre_member_t *member = cadre_membership_find(&self->membership, task->incarnation);
    if (member) {
        cadre_core_lose(self, member, why, died);
    }
}

void
cadre_core_gone(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms)
{
    lose_task(self, task, now_ms, "its connection closed", true);
}

void
cadre_core_overrun(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms)
{
    char why[96];
    snprintf(why, sizeof(why), "it does not read: over %d MiB wait for it",
             CADRE_SEND_QUEUE_SIZE_MAX >> 20);
    lose_task(self, task, now_ms, why, false);
}

void
cadre_core_probe(cadre_core_t *self)
{
    const cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->membership.members, &cursor));) {
        welcome(self, member, 0);
    }
}

void
cadre_core_on_goodbye(cadre_core_t *self, cadre_member_t *member, const char *reason)
{
    char name[32];
    cadre_core_log(self, 'I', "task_left", "task=\"%s\" reason=\"%s\"",
                   cadre_member_name(member, name), reason);
    if (member->task.role == CADRE_ROLE_WORKER) {
        cadre_resources_lost(self, member, false);
        cadre_dispatch_lost(self, member, false);
        cadre_membership_note_end(&self->membership, member, self->now_ms, false);
        cadre_membership_remove(&self->membership, member);
        self->progress = true;
    } else if (self->stopping) {
        cadre_recovery_on_lost(self, member, reason); /* a worker may still ask where it is */
        cadre_membership_remove(&self->membership, member);
        self->progress = true;
    } else {
        cadre_core_lose(self, member, reason, false);
    }
}

void
cadre_core_stop(cadre_core_t *self, const char *reason)
{
    self->stopping = true;
    cadre_checkpoint_abort(self, CADRE_ECLOSED, reason);
    const cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->membership.members, &cursor));) {
        cadre_core_refuse(self, &member->task, reason);
    }
}
