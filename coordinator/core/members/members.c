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

/* --- messages to tasks --- */

/* Sends WELCOME: that the task is a member, at which index, and the intervals that it has to keep.
 * `request`: number of the HELLO that this answers; 0: none, the message only finds out whether the
 * member is there. */
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

/* Tells a worker to finish what it runs and to leave; logs that the first time. */
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

/* Refuses a HELLO with `status` and this thread's error text, to its sender and in the log. */
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

/* Chooses the highest protocol version that both sides speak. CADRE_EPROTOCOL when there is none,
 * or when both speak the newest but lay out its messages differently. */
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

/* Refuses a ps that may use no folder, if the job has checkpoints: it would fail the first
 * checkpoint, or a restore, long after it joined. */
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

/* Refuses a ps without a TCP address in a job with keys: coordinator and workers would open the
 * path of a local socket on their own machines, where nobody asks for a key. */
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

/* Returns how long the holder of a place may be silent before the place is given away; also how
 * long a newcomer waits to find that out. */
static uint64_t
contest_ms(const cadre_members_t *self)
{
    return cadre_min_u64(self->links.options->lease_ms, CADRE_SUSPECT_MS);
}

/* Returns whether the holder of a place is silent for so long that a newcomer may have the place.
 * For a kept member, `heard_ms` is already the time by which it should have been back. */
static bool
is_silent(const cadre_members_t *self, const cadre_member_t *holder)
{
    uint64_t now_ms = self->links.effects->now_ms;
    return now_ms >= holder->heard_ms + (holder->kept ? 0 : contest_ms(self));
}

/* Returns whether the newcomer has waited for long enough to know that the holders of the places
 * live. At its first HELLO the verdict makes the core probe all members, so that a holder whose
 * connection is closed is found at once. */
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

/* Returns CADRE_EAGAIN while it is not known whether `holder` lives, and also when it is silent:
 * then the verdict has the core take it out first. CADRE_EREFUSED when the holder lives. */
static int
contest_holder(cadre_members_t *self, const cadre_task_t *from, const cadre_hello_message_t *hello,
               cadre_member_t *holder, cadre_hello_verdict_t *verdict)
{
    char name[32];
    if (is_silent(self, holder)) {
        /* A holder on the newcomer's host has died, as a rule: its supervisor has started the
         * newcomer, and the closed connection is seen only later. */
        bool died = strcmp(holder->host, hello->host) == 0;
        cadre_contests_forget(&self->contests, from->incarnation);
        *verdict = (cadre_hello_verdict_t){
            .outcome = CADRE_HELLO_REPLACES,
            .member = holder,
            .why = "silent, and replaced by a new process with the same index",
            .died = died};
        return CADRE_EAGAIN;
    }

    /* a kept holder may still be reconnecting */
    if (!has_waited(self, from, verdict) || holder->kept) {
        return CADRE_EAGAIN;
    }

    return cadre_fail(CADRE_EREFUSED, "%s is process %" PRIu32 " on %.100s, which is heard",
                      cadre_member_name(holder, name), holder->process, holder->host);
}

/* Judges a ps that left its index open while all places are held. Returns CADRE_EAGAIN while a
 * holder is silent, or may be, so that its place may become free; CADRE_EFULL when all holders
 * live. */
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
        return CADRE_EAGAIN; /* once the silent holder is lost, its place is free */
    }

    return cadre_fail(CADRE_EFULL, "all %" PRIu32 " ps of the job are there, and heard", ps_count);
}

/* Returns whether a worker is silent and may be gone, so that there will be room for another
 * one. */
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

/* Returns CADRE_EFULL for a worker when there are no file descriptors left for workers (those for
 * the ps are reserved). CADRE_EAGAIN while a worker is silent: the newcomer may be its
 * successor. */
static int
check_room(const cadre_members_t *self, const cadre_task_t *from)
{
    const cadre_core_options_t *options = self->links.options;
    uint32_t limit = options->is_serial ? 1 : options->workers_max;
    if (from->role != CADRE_ROLE_WORKER || limit == 0 ||
        self->links.membership->worker_count < limit) {
        return 0;
    }

    if (has_silent_worker(self)) {
        return CADRE_EAGAIN;
    }

    if (options->is_serial) {
        return cadre_fail(CADRE_EFULL, "the job is in one process, and its one slot runs closures "
                                       "one after the other: it takes no further worker");
    }
    return cadre_fail(CADRE_EFULL, "the coordinator has descriptors for %" PRIu32 " workers: %s",
                      limit, options->workers_why);
}

/* Returns 0 when the sender of a HELLO has a place, or there is one for it. */
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

/* Makes the sender of a HELLO a member, if it is none. CADRE_EAGAIN: not now, as `verdict` says;
 * any other status refuses it. */
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

    /* Checked last, because only a place may become free later: the results of the other checks do
     * not change. */
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

/* Returns whether a ps that left its index open believes in another index than the one it has: it
 * was told two, one after the other. */
static bool
is_confused(const cadre_member_t *member, const cadre_hello_message_t *hello)
{
    return member->task.role == CADRE_ROLE_PS && hello->index != CADRE_INDEX_ANY &&
           hello->index != member->index;
}

/* Returns whether a worker's HELLO needs no answer: it was answered a moment ago, or is older than
 * the last one that was. Each answer would send the closures in flight again. */
static bool
is_answered(const cadre_members_t *self, const cadre_member_t *member,
            const cadre_hello_message_t *hello)
{
    bool moment =
        member->hello_ms && self->links.effects->now_ms < member->hello_ms + CADRE_HELLO_ANSWER_MS;
    return member->task.role == CADRE_ROLE_WORKER &&
           (hello->round < member->round || (moment && hello->round == member->round));
}

/* Judges a HELLO. Admits or refuses the sender here; what else has to be done, the caller reads in
 * the verdict. */
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

/* --- tasks that leave --- */

/* Takes out a member that has gone. Tasks that wait for a place are asked to say HELLO again. */
void
cadre_members_remove(cadre_members_t *self, cadre_member_t *member)
{
    cadre_membership_remove(self->links.membership, member);
    cadre_effects_note_progress(self->links.effects);

    /* A place is free: tasks that wait for one are to say HELLO again. */
    cadre_task_t task;
    while (cadre_contests_pop(&self->contests, &task)) {
        cadre_members_tell_unknown(self, &task);
    }
}
