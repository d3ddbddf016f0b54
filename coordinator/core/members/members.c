#include "coordinator/core/members/members.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

void
cadre_members_init(cadre_members_t *self, const cadre_members_links_t *links)
{
    *self = (cadre_members_t){.links = *links};
}

/* --- what tasks are sent --- */

void
cadre_members_welcome(cadre_members_t *self, const cadre_member_t *member, uint64_t request,
                      uint64_t generation)
{
    const cadre_core_options_t *options = self->links.options;
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_WELCOME);

    message.request = request;
    message.welcome = (cadre_welcome_message_t){.index = member->index,
                                                .job = options->job,
                                                .heartbeat_ms = options->heartbeat_ms,
                                                .lease_ms = options->lease_ms,
                                                .resend_ms = options->resend_ms,
                                                .shards = options->ps_count,
                                                .generation = generation,
                                                .protocol = member->protocol};
    cadre_effects_send(self->links.effects, &member->task, &message);
}

void
cadre_members_tell_unknown(cadre_members_t *self, const cadre_task_t *task)
{
    cadre_message_t unknown =
        cadre_effects_message(self->links.effects, CADRE_MESSAGE_UNKNOWN_PEER);
    cadre_effects_send(self->links.effects, task, &unknown);
}

void
cadre_members_tell_stop(cadre_members_t *self, const cadre_task_t *task, const char *reason)
{
    cadre_message_t stop = cadre_effects_message(self->links.effects, CADRE_MESSAGE_STOP);
    stop.stop.reason = reason;
    cadre_effects_send(self->links.effects, task, &stop);
}

void
cadre_members_repeat_drain(cadre_members_t *self, const cadre_member_t *worker)
{
    if (worker->drain_asked) {
        cadre_message_t drain = cadre_effects_message(self->links.effects, CADRE_MESSAGE_DRAIN);
        cadre_effects_send(self->links.effects, &worker->task, &drain);
    }
}

void
cadre_members_drain(cadre_members_t *self, cadre_member_t *worker)
{
    char name[32];
    if (!worker->drain_asked) {
        cadre_effects_log(self->links.effects, 'I', "task_drained", "task=\"%s\"",
                          cadre_member_name(worker, name));
    }
    cadre_membership_ask_to_drain(worker);
    cadre_members_repeat_drain(self, worker);
}

/* The reason is in this thread's error text. */
static void
refuse_hello(cadre_members_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
             int status)
{
    char name[CADRE_TASK_TEXT_SIZE];
    cadre_contests_forget(&self->contests, from->incarnation);
    cadre_effects_log(self->links.effects, 'W', "hello_refused",
                      "task=%s host=\"%s\" process=%" PRIu64 " why=\"%.300s\" next=\"it leaves\"",
                      cadre_task_text(from, name), hello->host, hello->process, cadre_error_text());
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_REFUSED);
    message.refused = (cadre_refused_message_t){.lowest = CADRE_PROTOCOL_LOWEST,
                                                .highest = CADRE_PROTOCOL_VERSION,
                                                .schema = cadre_message_schema_hash(),
                                                .build = self->links.options->build,
                                                .status = (uint64_t)-status,
                                                .text = cadre_error_text()};
    cadre_effects_send(self->links.effects, from, &message);
}

/* --- who may join at all --- */

/* The highest protocol that both speak. */
static int
choose_protocol(const cadre_members_t *self, const cadre_hello_message_t *hello, uint32_t *chosen)
{
    const char *build = self->links.options->build ? self->links.options->build : "";
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
check_folders(const cadre_hello_message_t *hello, bool needs_folder)
{
    if (hello->role == CADRE_ROLE_PS && hello->folderless && needs_folder) {
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
check_guarded(const cadre_members_t *self, const cadre_hello_message_t *hello)
{
    const char *transport = self->links.options->transport;
    bool guarded = transport && strcmp(transport, "curve") == 0;
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
contest_ms(const cadre_members_t *self)
{
    return cadre_min_u64(self->links.options->lease_ms, CADRE_SUSPECT_MS);
}

/* One that is kept has had its time when it was expected to be back. */
static bool
is_silent(const cadre_members_t *self, const cadre_member_t *holder)
{
    uint64_t now_ms = self->links.effects->now_ms;
    return now_ms >= holder->heard_ms + (holder->kept ? 0 : contest_ms(self));
}

/* Whether the newcomer has waited for long enough to know that the holders of the places live. The
 * first time they are all to be asked, so that one whose connection is closed is known at once. */
static bool
has_waited(cadre_members_t *self, const cadre_task_t *from, cadre_hello_verdict_t *verdict)
{
    uint64_t now_ms = self->links.effects->now_ms;
    size_t known = self->contests.count;
    uint64_t since_ms = cadre_contests_since(&self->contests, from, now_ms);
    if (self->contests.count > known) {
        verdict->outcome = CADRE_HELLO_CONTESTS;
    }
    return now_ms >= since_ms + contest_ms(self);
}

/* Returns CADRE_EAGAIN while it is not known whether the place of `holder` is free for `from`, and
 * when it is, once the holder has gone; CADRE_EREFUSED when the holder lives. */
static int
contest_holder(cadre_members_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
               cadre_member_t *holder, cadre_hello_verdict_t *verdict)
{
    char name[32];
    if (is_silent(self, holder)) {
        /* On the same host it has died, as a rule, and the news of it comes later than what took
         * its place. */
        bool died = strcmp(holder->host, hello->host) == 0;
        cadre_contests_forget(&self->contests, from->incarnation);
        *verdict = (cadre_hello_verdict_t){
            .outcome = CADRE_HELLO_REPLACES,
            .member = holder,
            .why = "silent, and replaced by a new process with the same index",
            .died = died};
        return CADRE_EAGAIN;
    }

    if (!has_waited(self, from, verdict) || holder->kept) {
        return CADRE_EAGAIN;
    }

    return cadre_fail(CADRE_EREFUSED, "%s is process %" PRIu32 " on %.100s, which is heard",
                      cadre_member_name(holder, name), holder->process, holder->host);
}

/* Returns CADRE_EAGAIN while a ps that left its index open may get one of the places, which are all
 * held; CADRE_EFULL when all holders live. */
static int
contest_all(cadre_members_t *self, const cadre_task_t *from, cadre_hello_verdict_t *verdict)
{
    bool some_silent = false;
    uint32_t ps_count = self->links.options->ps_count;
    for (uint32_t i = 0; i < ps_count; i++) {
        const cadre_member_t *holder = self->links.membership->ps[i];
        some_silent = some_silent || holder->kept || is_silent(self, holder);
    }

    if (some_silent || !has_waited(self, from, verdict)) {
        return CADRE_EAGAIN; /* a place that its holder loses is free then */
    }

    return cadre_fail(CADRE_EFULL, "all %" PRIu32 " ps of the job are there, and heard", ps_count);
}

/* Whether some worker may be gone, so that its room is free soon. */
static bool
has_silent_worker(const cadre_members_t *self)
{
    const cadre_membership_t *membership = self->links.membership;
    for (uint32_t i = 0; i < membership->worker_places; i++) {
        const cadre_member_t *worker = membership->workers[i];
        if (worker && (worker->suspect || is_silent(self, worker))) {
            return true;
        }
    }
    return false;
}

/* Returns CADRE_EFULL beyond what there are descriptors for: those of the ps are kept for them.
 * CADRE_EAGAIN while a worker is silent: the newcomer may be its successor. */
static int
check_room(const cadre_members_t *self, const cadre_task_t *from)
{
    const cadre_core_options_t *options = self->links.options;
    uint32_t limit = options->workers_max;
    if (from->role != CADRE_ROLE_WORKER || limit == 0 ||
        self->links.membership->worker_count < limit) {
        return 0;
    }

    if (has_silent_worker(self)) {
        return CADRE_EAGAIN;
    }

    return cadre_fail(CADRE_EFULL, "the coordinator has descriptors for %" PRIu32 " workers: %s",
                      limit, options->workers_why);
}

/* Returns 0 when there is a place for the sender of a HELLO, or it has one. */
static int
check_place(cadre_members_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
            cadre_hello_verdict_t *verdict)
{
    const cadre_membership_t *membership = self->links.membership;
    cadre_member_t *holder = cadre_membership_occupant(membership, from, hello);
    if (holder) {
        return contest_holder(self, from, hello, holder, verdict);
    }
    if (cadre_membership_find(membership, from->incarnation)) {
        return 0;
    }

    bool is_open = from->role == CADRE_ROLE_PS && from->index == CADRE_INDEX_ANY;
    if (is_open && membership->ps_joined == membership->ps_count) {
        return contest_all(self, from, verdict);
    }

    return check_room(self, from);
}

/* --- HELLO --- */

/* Lets a task in, or in again. CADRE_EAGAIN: not now, as `verdict` says. */
static int
admit(cadre_members_t *self, const cadre_task_t *from, const cadre_message_t *message,
      bool needs_folder, cadre_hello_verdict_t *verdict)
{
    const cadre_hello_message_t *hello = &message->hello;
    uint32_t protocol = 0;
    int status = choose_protocol(self, hello, &protocol);
    if (status < 0) {
        return status;
    }

    status = check_folders(hello, needs_folder);
    if (status < 0) {
        return status;
    }

    status = check_guarded(self, hello);
    if (status < 0) {
        return status;
    }

    /* Last, as the one that may be waited for: what was checked before does not change. */
    status = check_place(self, from, hello, verdict);
    if (status < 0) {
        return status;
    }

    status = cadre_membership_join(self->links.membership, from, hello, self->links.effects->now_ms,
                                   &verdict->member);
    if (status < 0) {
        return status;
    }

    cadre_membership_note_terms(verdict->member, protocol, message->key);
    cadre_contests_forget(&self->contests, from->incarnation);
    return 0;
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
is_answered(const cadre_members_t *self, const cadre_member_t *member,
            const cadre_hello_message_t *hello)
{
    bool moment =
        member->hello_ms && self->links.effects->now_ms < member->hello_ms + CADRE_HELLO_ANSWER_MS;
    return member->task.role == CADRE_ROLE_WORKER &&
           (hello->round < member->round || (moment && hello->round == member->round));
}

cadre_hello_verdict_t
cadre_members_on_hello(cadre_members_t *self, const cadre_task_t *from,
                       const cadre_message_t *message, bool needs_folder)
{
    const cadre_hello_message_t *hello = &message->hello;
    cadre_hello_verdict_t verdict = {.outcome = CADRE_HELLO_WAITS};
    cadre_member_t *known = cadre_membership_find(self->links.membership, from->incarnation);
    if (known && is_answered(self, known, hello)) {
        return verdict;
    }

    if (known && is_confused(known, hello)) {
        return (cadre_hello_verdict_t){
            .outcome = CADRE_HELLO_REPLACES, .member = known, .why = "it serves another shard"};
    }

    int status = admit(self, from, message, needs_folder, &verdict);
    if (status == CADRE_EAGAIN) {
        return verdict; /* a task that is not answered says HELLO again */
    }

    if (status < 0) {
        refuse_hello(self, from, hello, status);
        verdict.outcome = CADRE_HELLO_REFUSED;
        return verdict;
    }

    cadre_assert(verdict.member);
    verdict.outcome = known ? CADRE_HELLO_STAYS : CADRE_HELLO_JOINS;
    if (!known) {
        char name[32];
        const cadre_member_t *member = verdict.member;
        cadre_effects_log(
            self->links.effects, 'I', "task_joined", "task=\"%s\" host=\"%s\" process=%u slots=%u",
            cadre_member_name(member, name), member->host, member->process, member->slots);
    }

    return verdict;
}

void
cadre_members_excuse(cadre_members_t *self, uint64_t ms)
{
    cadre_contests_excuse(&self->contests, ms, self->links.effects->now_ms);
}

/* --- going --- */

void
cadre_members_remove(cadre_members_t *self, cadre_member_t *member)
{
    cadre_membership_remove(self->links.membership, member);
    cadre_effects_note_progress(self->links.effects);

    /* A place is free: whoever waits for one says HELLO again. */
    cadre_task_t task;
    while (cadre_contests_pop(&self->contests, &task)) {
        cadre_members_tell_unknown(self, &task);
    }
}
