/*
 * joining - how tasks come and go: HELLO, GOODBYE, a lost connection, a lease that ran out, the
 * end.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "coordinator/core/coordinator_core.h"

/* `request`: of the HELLO that it answers; 0 for a WELCOME that only looks whether somebody is
 * there. */
static void
welcome(cadre_core_t *self, const cadre_member_t *member, uint64_t request)
{
    uint64_t generation = 0;
    if (member->task.role == CADRE_ROLE_PS) {
        const cadre_place_t *place = &self->recovery.places[member->index];
        generation = place->generation + (place->state == CADRE_PLACE_AWAY ? 1 : 0);
    }
    cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_WELCOME);
    message.request = request;
    message.welcome = (cadre_welcome_message_t){.index = member->index,
                                                .job = self->options.job,
                                                .heartbeat_ms = self->options.heartbeat_ms,
                                                .lease_ms = self->options.lease_ms,
                                                .resend_ms = self->options.resend_ms,
                                                .shards = self->options.ps_count,
                                                .generation = generation,
                                                .protocol = member->protocol};
    cadre_effects_send(&self->effects, &member->task, &message);
}

/* A place is free: whoever waits for one says HELLO again. */
static void
invite(cadre_core_t *self)
{
    cadre_task_t task;
    while (cadre_contests_pop(&self->contests, &task)) {
        cadre_message_t again = cadre_effects_message(&self->effects, CADRE_MESSAGE_UNKNOWN_PEER);
        cadre_effects_send(&self->effects, &task, &again);
    }
}

static void
remove_member(cadre_core_t *self, cadre_member_t *member)
{
    cadre_admission_lost(self, member);
    cadre_membership_remove(&self->membership, member);
    cadre_effects_note_progress(&self->effects);
    invite(self);
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
        cadre_checkpoint_on_lost(&self->checkpoint);
    } else {
        self->totals.workers_lost++;
        cadre_resources_lost(self, member, died);
        cadre_dispatch_lost(self, member, died);
        cadre_membership_note_end(&self->membership, member, self->effects.now_ms, died);
    }
    cadre_effects_log(&self->effects, 'W', is_ps ? "ps_lost" : "worker_lost",
                      "task=\"%s\" process=%u why=\"%s\" closures=%zu next=\"%s\"", name,
                      member->process, why, in_flight,
                      is_ps ? "its shard is restored on the process that takes its place"
                            : "they run again on other workers");
    if (is_ps) {
        cadre_recovery_on_lost(&self->recovery, member, why);
    }
    remove_member(self, member);
}

void
cadre_core_say_stop(cadre_core_t *self, const cadre_task_t *task, const char *reason)
{
    cadre_message_t stop = cadre_effects_message(&self->effects, CADRE_MESSAGE_STOP);
    stop.stop.reason = reason;
    cadre_effects_send(&self->effects, task, &stop);
}

/* The reason is in this thread's error text. */
static void
refuse_hello(cadre_core_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
             int status)
{
    char name[CADRE_TASK_TEXT_SIZE];
    cadre_contests_forget(&self->contests, from->incarnation);
    cadre_effects_log(&self->effects, 'W', "hello_refused",
                      "task=%s host=\"%s\" process=%" PRIu64 " why=\"%.300s\" next=\"it leaves\"",
                      cadre_task_text(from, name), hello->host, hello->process, cadre_error_text());
    cadre_message_t message = cadre_effects_message(&self->effects, CADRE_MESSAGE_REFUSED);
    message.refused = (cadre_refused_message_t){.lowest = CADRE_PROTOCOL_LOWEST,
                                                .highest = CADRE_PROTOCOL_VERSION,
                                                .schema = cadre_message_schema_hash(),
                                                .build = self->options.build,
                                                .status = (uint64_t)-status,
                                                .text = cadre_error_text()};
    cadre_effects_send(&self->effects, from, &message);
}

/* The highest protocol that both speak. */
static int
choose_protocol(const cadre_core_t *self, const cadre_hello_message_t *hello, uint32_t *chosen)
{
    const char *build = self->options.build ? self->options.build : "";
    bool apart = hello->lowest > CADRE_PROTOCOL_VERSION || hello->highest < CADRE_PROTOCOL_LOWEST;
    if (apart || hello->lowest > hello->highest) {
        return cadre_fail(CADRE_EPROTOCOL,
                          "build %s speaks protocol %" PRIu64 " to %" PRIu64
                          ", the coordinator's build %s protocol %d to %d: run the same release",
                          hello->build, hello->lowest, hello->highest, build, CADRE_PROTOCOL_LOWEST,
                          CADRE_PROTOCOL_VERSION);
    }
    if (hello->highest == CADRE_PROTOCOL_VERSION && hello->schema != cadre_message_schema_hash()) {
        return cadre_fail(CADRE_EPROTOCOL,
                          "build %s and the coordinator's build %s lay out the messages of "
                          "protocol %d differently: run the same release",
                          hello->build, build, CADRE_PROTOCOL_VERSION);
    }
    *chosen =
        hello->highest < CADRE_PROTOCOL_VERSION ? (uint32_t)hello->highest : CADRE_PROTOCOL_VERSION;
    return 0;
}

/* A ps that may use no folder would fail the first checkpoint, or a restore, long after it joined.
 */
static int
check_folders(const cadre_core_t *self, const cadre_hello_message_t *hello)
{
    bool needs_one = self->checkpoint.enabled || self->recovery.points.at[0].path[0];
    if (hello->role == CADRE_ROLE_PS && hello->folderless && needs_one) {
        return cadre_fail(CADRE_EREFUSED,
                          "this ps may use no folder for checkpoints, and the job has some: start "
                          "cadre-ps with --checkpoint-dir DIR, or CADRE_CHECKPOINT_DIR in its "
                          "environment, or the job without checkpoints");
    }
    return 0;
}

/* What is guarded stays so: the path of a local socket would be opened by coordinator and workers,
 * each on its own machine, and there asks nobody for a key. */
static int
check_guarded(const cadre_core_t *self, const cadre_hello_message_t *hello)
{
    bool guarded = self->options.transport && strcmp(self->options.transport, "curve") == 0;
    if (guarded && hello->role == CADRE_ROLE_PS && strncmp(hello->address, "tcp://", 6) != 0) {
        return cadre_fail(CADRE_EREFUSED,
                          "this ps serves on %.100s, where no key is asked for, and the job has "
                          "keys: start cadre-ps with --address tcp://HOST:PORT",
                          hello->address);
    }
    return 0;
}

/* --- places that are held --- */

/* How long a holder may be silent before its place is given away, and how long it is waited whether
 * it is. */
static uint64_t
contest_ms(const cadre_core_t *self)
{
    return self->options.lease_ms < CADRE_SUSPECT_MS ? self->options.lease_ms : CADRE_SUSPECT_MS;
}

/* One that is kept has had its time when it was expected to be back. */
static bool
is_silent(const cadre_core_t *self, const cadre_member_t *holder)
{
    return self->effects.now_ms >= holder->heard_ms + (holder->kept ? 0 : contest_ms(self));
}

/* Whether the newcomer has waited for long enough to know that the holders of the places live. The
 * first time they are all asked, so that one whose connection is closed is known at once. */
static bool
has_waited(cadre_core_t *self, const cadre_task_t *from)
{
    size_t known = self->contests.count;
    uint64_t since_ms = cadre_contests_since(&self->contests, from, self->effects.now_ms);
    if (self->contests.count > known) {
        cadre_core_probe(self);
    }
    return self->effects.now_ms >= since_ms + contest_ms(self);
}

/* Returns 0 when the place of `holder` is free for `from` now, CADRE_EAGAIN while that is not
 * known, CADRE_EREFUSED when the holder lives. */
static int
contest_holder(cadre_core_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
               cadre_member_t *holder)
{
    char name[32];
    if (is_silent(self, holder)) {
        /* On the same host it has died, as a rule, and the news of it comes later than what took
         * its place. */
        bool died = strcmp(holder->host, hello->host) == 0;
        cadre_contests_forget(&self->contests, from->incarnation);
        cadre_core_lose(self, holder, "silent, and replaced by a new process with the same index",
                        died);
        return 0;
    }
    if (!has_waited(self, from) || holder->kept) {
        return CADRE_EAGAIN;
    }
    return cadre_fail(CADRE_EREFUSED, "%s is process %" PRIu32 " on %.100s, which is heard",
                      cadre_member_name(holder, name), holder->process, holder->host);
}

/* The same for a ps that left its index open, when every place is held. */
static int
contest_all(cadre_core_t *self, const cadre_task_t *from)
{
    bool some_silent = false;
    for (uint32_t i = 0; i < self->options.ps_count; i++) {
        const cadre_member_t *holder = self->membership.ps[i];
        some_silent = some_silent || holder->kept || is_silent(self, holder);
    }
    if (some_silent || !has_waited(self, from)) {
        return CADRE_EAGAIN; /* a place that its holder loses is free then */
    }
    return cadre_fail(CADRE_EFULL, "all %" PRIu32 " ps of the job are there, and heard",
                      self->options.ps_count);
}

/* Whether some worker may be gone, so that its room is free soon. */
static bool
has_silent_worker(const cadre_core_t *self)
{
    for (uint32_t i = 0; i < self->membership.worker_places; i++) {
        const cadre_member_t *worker = self->membership.workers[i];
        if (worker && (worker->suspect || is_silent(self, worker))) {
            return true;
        }
    }
    return false;
}

/* Returns CADRE_EFULL beyond what there are descriptors for: those of the ps are kept for them.
 * CADRE_EAGAIN while a worker is silent: the newcomer may be its successor. */
static int
check_room(const cadre_core_t *self, const cadre_task_t *from)
{
    uint32_t limit = self->options.workers_max;
    if (from->role != CADRE_ROLE_WORKER || limit == 0 || self->membership.worker_count < limit) {
        return 0;
    }
    if (has_silent_worker(self)) {
        return CADRE_EAGAIN;
    }
    return cadre_fail(CADRE_EFULL, "the coordinator has descriptors for %" PRIu32 " workers: %s",
                      limit, self->options.workers_why);
}

/* Lets a task in, in the place of an earlier incarnation of it that is gone. */
static int
admit(cadre_core_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
      uint64_t key, cadre_member_t **member)
{
    const cadre_membership_t *membership = &self->membership;
    uint32_t protocol = 0;
    int status = choose_protocol(self, hello, &protocol);
    if (status == 0) {
        status = check_folders(self, hello);
    }
    if (status == 0) {
        status = check_guarded(self, hello);
    }
    if (status < 0) {
        return status;
    }
    bool known = cadre_membership_find(membership, from->incarnation) != NULL;
    bool full = from->role == CADRE_ROLE_PS && from->index == CADRE_INDEX_ANY &&
                membership->ps_joined == membership->ps_count;
    cadre_member_t *holder = cadre_membership_occupant(membership, from, hello);
    if (holder) {
        status = contest_holder(self, from, hello, holder);
    } else if (full && !known) {
        status = contest_all(self, from);
    } else if (!known) {
        status = check_room(self, from);
    }
    if (status == 0) {
        status =
            cadre_membership_join(&self->membership, from, hello, self->effects.now_ms, member);
    }
    if (status == 0) {
        (*member)->protocol = protocol;
        (*member)->key = key;
        cadre_contests_forget(&self->contests, from->incarnation);
    }
    return status;
}

/* A ps that left its index open and was told two, of which it believes the other one. */
static bool
is_confused(const cadre_member_t *member, const cadre_hello_message_t *hello)
{
    return member->task.role == CADRE_ROLE_PS && hello->index != CADRE_INDEX_ANY &&
           hello->index != member->index;
}

/* A worker whose HELLO was answered a moment ago says it again, or an older one comes late: each
 * answer tells again what it has in flight. */
static bool
is_answered(const cadre_core_t *self, const cadre_member_t *member,
            const cadre_hello_message_t *hello)
{
    bool moment =
        member->hello_ms && self->effects.now_ms < member->hello_ms + CADRE_HELLO_ANSWER_MS;
    return member->task.role == CADRE_ROLE_WORKER &&
           (hello->round < member->round || (moment && hello->round == member->round));
}

void
cadre_core_on_hello(cadre_core_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    const cadre_hello_message_t *hello = &message->hello;
    cadre_member_t *member = cadre_membership_find(&self->membership, from->incarnation);
    if (member && is_answered(self, member, hello)) {
        return;
    }
    if (member && is_confused(member, hello)) {
        cadre_core_lose(self, member, "it serves another shard", false);
        cadre_recovery_on_confused(&self->recovery, from->incarnation);
        member = NULL;
    }
    bool known = member != NULL;
    int status = admit(self, from, hello, message->key, &member);
    if (status == CADRE_EAGAIN) {
        return; /* it says HELLO again */
    }
    if (status < 0) {
        refuse_hello(self, from, hello, status);
        return;
    }
    cadre_assert(member);
    if (!known) {
        char name[32];
        cadre_resources_forgive(self, from->incarnation);
        cadre_effects_log(
            &self->effects, 'I', "task_joined", "task=\"%s\" host=\"%s\" process=%u slots=%u",
            cadre_member_name(member, name), member->host, member->process, member->slots);
        if (member->task.role == CADRE_ROLE_PS) {
            cadre_recovery_on_ps(&self->recovery, member, hello);
        }
    } else if (member->task.role == CADRE_ROLE_PS) { /* what came before its WELCOME is dropped */
        cadre_recovery_doubt(&self->recovery, member->index);
    }
    welcome(self, member, message->request);
    if (member->task.role == CADRE_ROLE_WORKER) {
        if (!known || hello->round > member->round) {
            cadre_core_brief(self, member, hello);
        }
        member->round = hello->round;
        member->hello_ms = self->effects.now_ms;
        cadre_dispatch_compare(self, member, hello->held, true);
    }
    cadre_effects_note_progress(&self->effects);
}

static void
lose_task(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms, const char *why, bool died)
{
    cadre_effects_set_time(&self->effects, now_ms);
    cadre_member_t *member = cadre_membership_find(&self->membership, task->incarnation);
    if (member) {
        cadre_core_lose(self, member, why, died);
    }
}

void
cadre_core_gone(cadre_core_t *self, const cadre_task_t *task, uint64_t now_ms)
{
    cadre_member_t *member = cadre_membership_find(&self->membership, task->incarnation);
    if (!member || !cadre_leases_keep(&self->leases, member, now_ms)) {
        lose_task(self, task, now_ms, "its connection closed", true);
    }
}

void
cadre_core_keys_withdrawn(cadre_core_t *self, uint64_t *ids, size_t count, uint64_t now_ms)
{
    cadre_effects_set_time(&self->effects, now_ms);
    cadre_leases_note_withdrawal(&self->leases);
    cadre_rights_sort_keys(ids, count);

    cadre_member_t *member = NULL;
    while ((member = cadre_rights_find_withdrawn(&self->rights, ids, count))) {
        cadre_core_lose(self, member, "its key is withdrawn", false);
    }
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
    cadre_effects_log(&self->effects, 'I', "task_left", "task=\"%s\" reason=\"%s\"",
                      cadre_member_name(member, name), reason);
    if (member->task.role == CADRE_ROLE_WORKER) {
        cadre_resources_lost(self, member, false);
        cadre_dispatch_lost(self, member, false);
        cadre_membership_note_end(&self->membership, member, self->effects.now_ms, false);
        remove_member(self, member);
    } else if (self->stopping) {
        cadre_recovery_on_lost(&self->recovery, member,
                               reason); /* a worker may still ask where it is */
        remove_member(self, member);
    } else {
        cadre_core_lose(self, member, reason, false);
    }
}

void
cadre_core_stop(cadre_core_t *self, const char *reason)
{
    self->stopping = true;
    cadre_checkpoint_abort(&self->checkpoint, CADRE_ECLOSED, reason);
    cadre_checkpoint_count(&self->checkpoint, &self->totals);
    const cadre_member_t *member = NULL;
    for (size_t cursor = 0; (member = cadre_u64_map_next(&self->membership.members, &cursor));) {
        cadre_core_say_stop(self, &member->task, reason);
    }
}
