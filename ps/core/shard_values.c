#include <inttypes.h>
#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "ps/core/shard_state.h"

/* Values are asked for, and changed, by tasks of this session that know the present generation. The
 * epoch matters because another coordinator counts generations from 1 again. */
static int
check_fence(const cadre_shard_t *self, const cadre_message_t *message, uint64_t generation)
{
    if (self->epoch == 0 || message->epoch != self->epoch) {
        return cadre_fail(CADRE_EFENCED, "the session has epoch %" PRIu64 ", not %" PRIu64,
                          self->epoch, message->epoch);
    }
    return cadre_shard_check_generation(self, generation);
}

/* Puts the partitions that `triples` names into self->named. */
static int
find_named(cadre_shard_t *self, const cadre_u64s_t *triples)
{
    if (triples->count == 0 || triples->count % 3 != 0) {
        return cadre_fail(CADRE_EMALFORMED, "a list of partitions has %zu numbers", triples->count);
    }
    if (triples->count / 3 > self->named_capacity) {
        self->named_capacity = triples->count / 3;
        self->named = cadre_realloc(self->named, self->named_capacity, sizeof(*self->named));
    }
    for (size_t i = 0; i < triples->count / 3; i++) {
        int status = cadre_shard_find(self, triples->items[3 * i], triples->items[3 * i + 1],
                                      &self->named[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

static int
fail_at(int status, const cadre_shard_part_t *part)
{
    return cadre_fail_within(status, "%s, partition %" PRIu64, part->name,
                             cadre_partition_spec(part->partition)->partition);
}

/* --- pull --- */

static bool
is_current(const cadre_shard_part_t *part, uint64_t held)
{
    return held == cadre_partition_version(part->partition) + 1;
}

/* The coordinator reads what it may assign again: values as they are. Workers get the wire dtype.
 */
static bool
is_exact(const cadre_shard_question_t *question)
{
    return question->from->role == CADRE_ROLE_COORDINATOR;
}

/* Makes ready what a worker asks for and does not hold. */
static int
make_wire(cadre_shard_t *self, const cadre_u64s_t *triples)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < triples->count / 3; i++) {
        cadre_shard_part_t *part = self->named[i];
        if (!is_current(part, triples->items[3 * i + 2])) {
            status = cadre_partition_make_wire(part->partition);
            status = status < 0 ? fail_at(status, part) : 0;
        }
    }
    return status;
}

static int
check_pull(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    const cadre_pull_message_t *pull = &question->message->pull;
    int status = check_fence(self, question->message, pull->generation);
    if (status == 0) {
        status = find_named(self, &pull->partitions);
    }
    if (status < 0) {
        return status;
    }
    size_t chunks = 0;
    for (size_t i = 0; i < pull->partitions.count / 3; i++) {
        if (!is_current(self->named[i], pull->partitions.items[3 * i + 2])) {
            chunks += cadre_partition_layout(self->named[i]->partition)->count;
        }
    }
    if (chunks > CADRE_MESSAGE_CHUNKS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%zu chunks do not fit one answer of %d: ask in parts",
                          chunks, CADRE_MESSAGE_CHUNKS_MAX);
    }
    return is_exact(question) ? 0 : make_wire(self, &pull->partitions);
}

/* References to every value that was asked for and is not held already. */
static void
give_values(cadre_shard_t *self, const cadre_shard_question_t *question, cadre_message_t *answer,
            uint64_t *pairs)
{
    const cadre_pull_message_t *pull = &question->message->pull;
    const bool exact = is_exact(question);
    size_t count = pull->partitions.count / 3;
    size_t room = 0;
    for (size_t i = 0; i < count; i++) {
        room += cadre_partition_layout(self->named[i]->partition)->count;
    }
    answer->chunks = cadre_calloc(room, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < count; i++) {
        cadre_partition_t *partition = self->named[i]->partition;
        const cadre_chunk_layout_t *layout =
            exact ? cadre_partition_layout(partition) : cadre_partition_wire_layout(partition);
        pairs[2 * i] = cadre_partition_version(partition);
        pairs[2 * i + 1] = 0;
        if (is_current(self->named[i], pull->partitions.items[3 * i + 2])) {
            self->counters[CADRE_PS_COUNTER_unchanged]++;
            continue;
        }
        pairs[2 * i + 1] = layout->count;
        if (exact) {
            cadre_partition_pull(partition, answer->chunks + answer->chunk_count);
        } else {
            cadre_partition_pull_wire(partition, answer->chunks + answer->chunk_count);
        }
        answer->chunk_count += layout->count;
        self->counters[CADRE_PS_COUNTER_pull_bytes] += layout->size_bytes;
    }
}

/* What a worker may push unasked; the coordinator pushes nothing. */
static size_t
window_of(const cadre_shard_t *self, const cadre_shard_question_t *question)
{
    return question->from->role == CADRE_ROLE_WORKER ? cadre_intake_window(self->intake) : 0;
}

void
cadre_shard_pull(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    const cadre_pull_message_t *pull = &question->message->pull;
    uint64_t pairs[2 * CADRE_PARTITIONS_PER_UPDATE_MAX];
    cadre_message_t answer = cadre_shard_answer(self, question, CADRE_MESSAGE_VALUES);
    int status = check_pull(self, question);
    answer.values = (cadre_values_message_t){.status = (uint64_t)-status,
                                             .text = status < 0 ? cadre_error_text() : "",
                                             .generation = self->generation,
                                             .window = window_of(self, question)};
    self->counters[CADRE_PS_COUNTER_pulls]++;
    if (status == 0) {
        give_values(self, question, &answer, pairs);
        answer.values.partitions = (cadre_u64s_t){pairs, 2 * (pull->partitions.count / 3)};
    }
    cadre_shard_send(question, &answer);
}

size_t
cadre_shard_answer_size(const cadre_shard_t *self, const cadre_message_t *message)
{
    size_t size_bytes = 0;
    const cadre_u64s_t *triples = &message->pull.partitions;
    for (size_t i = 0; message->type == CADRE_MESSAGE_PULL && i + 2 < triples->count; i += 3) {
        cadre_shard_part_t *part = NULL;
        if (cadre_shard_find(self, triples->items[i], triples->items[i + 1], &part) == 0 &&
            !is_current(part, triples->items[i + 2])) {
            size_bytes += cadre_partition_wire_layout(part->partition)->size_bytes;
        }
    }
    return size_bytes;
}

/* --- push --- */

/* An update that comes after a cut does not belong below it. */
static int
check_cut(const cadre_push_message_t *push)
{
    if (push->checkpoint > 0 && push->update < push->cut) {
        return cadre_fail(CADRE_EINVALID,
                          "update %" PRIu64 " says that it comes after cut %" PRIu64, push->update,
                          push->cut);
    }
    return 0;
}

/* The partitions, versions and chunks of an update, all of them before any is touched. */
static int
check_parts(cadre_shard_t *self, const cadre_message_t *message, uint64_t *staleness)
{
    const cadre_u64s_t *triples = &message->push.partitions;
    uint64_t push = ++self->push_last;
    uint64_t stalest = 0;
    size_t at = 0;
    int status = find_named(self, triples);
    cadre_update_clear(&self->update);
    for (size_t i = 0; status == 0 && i < triples->count / 3; i++) {
        cadre_shard_part_t *part = self->named[i];
        uint64_t version = cadre_partition_version(part->partition);
        uint64_t pulled = triples->items[3 * i + 2];
        size_t count = cadre_partition_layout(part->partition)->count;
        if (part->push == push) {
            status = cadre_fail(CADRE_EINVALID, "named twice");
        } else if (pulled > version) {
            status = cadre_fail(CADRE_EINVALID, "version %" PRIu64 " was pulled, %" PRIu64 " is",
                                pulled, version);
        } else if (count > message->chunk_count - at) {
            status = cadre_fail(CADRE_ESHAPE, "%zu chunks instead of %zu",
                                message->chunk_count - at, count);
        } else {
            status =
                cadre_partition_check_gradient_sizes(part->partition, message->chunks + at, count);
        }
        if (status < 0) {
            return fail_at(status, part);
        }
        part->push = push;
        cadre_update_add(&self->update, part->partition, message->chunks + at);
        at += count;
        stalest = version - pulled > stalest ? version - pulled : stalest;
    }
    if (status == 0 && at != message->chunk_count) {
        status = cadre_fail(CADRE_ESHAPE, "%zu chunks are left over", message->chunk_count - at);
    }
    size_t bad = 0;
    if (status == 0 && cadre_update_check(&self->update, &self->options.lanes, &bad) < 0) {
        status = fail_at(CADRE_ENOTFINITE, self->named[bad]);
    }
    *staleness = stalest;
    return status;
}

static void
count_applied(uint64_t counters[CADRE_PS_COUNTER_COUNT], uint64_t size_bytes, uint64_t staleness)
{
    counters[CADRE_PS_COUNTER_applied]++;
    counters[CADRE_PS_COUNTER_push_bytes] += size_bytes;
    counters[CADRE_PS_COUNTER_staleness_sum] += staleness;
    if (staleness > counters[CADRE_PS_COUNTER_staleness_max]) {
        counters[CADRE_PS_COUNTER_staleness_max] = staleness;
    }
}

static void
apply(cadre_shard_t *self, const cadre_message_t *message, uint64_t staleness)
{
    const cadre_push_message_t *push = &message->push;
    cadre_shard_open_cut(self, push->checkpoint, push->cut);
    const bool straggles = push->update < self->cut;
    uint64_t size_bytes = 0;
    size_t at = 0;
    for (size_t i = 0; i < push->partitions.count / 3; i++) {
        const cadre_chunk_layout_t *layout = cadre_partition_wire_layout(self->named[i]->partition);
        if (straggles && self->named[i]->image) {
            cadre_update_add(&self->update, self->named[i]->image, message->chunks + at);
        }
        at += layout->count;
        size_bytes += layout->size_bytes;
    }
    cadre_update_apply(&self->update, &self->options.lanes);
    cadre_applied_window_mark(self->window, push->update);
    count_applied(self->counters, size_bytes, staleness);
    if (straggles) {
        count_applied(self->cut_counters, size_bytes, staleness);
    }
}

/* The versions of the partitions that a push names, where all are known and one answer takes them:
 * a worker that hears `duplicate` learns them too. */
static cadre_u64s_t
versions_of(cadre_shard_t *self, const cadre_u64s_t *triples,
            uint64_t versions[CADRE_PARTITIONS_PER_UPDATE_MAX])
{
    size_t count = triples->count / 3;
    if (count > CADRE_PARTITIONS_PER_UPDATE_MAX || find_named(self, triples) < 0) {
        return (cadre_u64s_t){NULL, 0};
    }
    for (size_t i = 0; i < count; i++) {
        versions[i] = cadre_partition_version(self->named[i]->partition);
    }
    return (cadre_u64s_t){versions, count};
}

/* Says what has become of an update, and counts it. */
static void
answer_update(cadre_shard_t *self, const cadre_shard_question_t *question, uint64_t update,
              int status, uint64_t staleness)
{
    uint64_t versions[CADRE_PARTITIONS_PER_UPDATE_MAX];
    cadre_message_t answer = cadre_shard_answer(self, question, CADRE_MESSAGE_APPLIED);
    answer.applied = (cadre_applied_message_t){.update = update,
                                               .status = (uint64_t)-status,
                                               .text = "",
                                               .generation = self->generation,
                                               .staleness = staleness,
                                               .window = window_of(self, question)};
    bool is_in = status == 0 || status == CADRE_EDUPLICATE;
    if (is_in && question->message->type == CADRE_MESSAGE_PUSH) {
        answer.applied.versions = versions_of(self, &question->message->push.partitions, versions);
    }
    if (status == CADRE_EDUPLICATE) {
        self->counters[CADRE_PS_COUNTER_duplicate]++;
    } else if (status < 0) {
        answer.applied.text = cadre_error_text();
        self->counters[CADRE_PS_COUNTER_refused]++;
    }
    cadre_shard_send(question, &answer);
}

/* Whether this shard takes an update of this id at all. */
static int
check_update(const cadre_shard_t *self, const cadre_message_t *message, uint64_t update,
             uint64_t generation)
{
    int status = check_fence(self, message, generation);
    return status < 0 ? status : cadre_applied_window_check(self->window, update);
}

/* Takes a part of an update; true when all are there, and the question's message is the whole of
 * it. What has been seen, or is refused, is not collected; that is said once, at the first part. */
static bool
collect(cadre_shard_t *self, const cadre_shard_question_t *question, uint64_t **triples)
{
    cadre_message_t *message = question->message;
    const cadre_push_message_t *push = &message->push;
    int status = check_update(self, message, push->update, push->generation);
    if (status < 0) {
        cadre_intake_end(self->intake, question->from->incarnation, message->request);
        if (push->part == 0) {
            answer_update(self, question, push->update, status, 0);
        }
        return false;
    }
    return cadre_intake_take(self->intake, question->from, message, triples, self->now_ms);
}

void
cadre_shard_push(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    cadre_auto(cadre_free) uint64_t *triples = NULL;
    const cadre_message_t *message = question->message;
    const cadre_push_message_t *push = &message->push;
    if (push->parts > 1 && !collect(self, question, &triples)) {
        return;
    }
    uint64_t staleness = 0;
    int status = check_update(self, message, push->update, push->generation);
    if (status == 0) {
        status = check_cut(push);
    }
    if (status == 0) {
        status = check_parts(self, message, &staleness);
    }
    if (status == 0) {
        apply(self, message, staleness);
    }
    cadre_intake_end(self->intake, question->from->incarnation, message->request);
    answer_update(self, question, push->update, status, staleness);
}

void
cadre_shard_reserve(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    const cadre_message_t *message = question->message;
    const cadre_reserve_message_t *reserve = &message->reserve;
    if (reserve->size_bytes == 0) {
        cadre_intake_end(self->intake, question->from->incarnation, message->request);
        return;
    }
    int status = check_update(self, message, reserve->update, reserve->generation);
    if (status == 0 && reserve->size_bytes > self->size_bytes) {
        status = cadre_fail(CADRE_ESHAPE, "an update of %" PRIu64 " bytes to a shard of %" PRIu64,
                            reserve->size_bytes, self->size_bytes);
    }
    if (status < 0) {
        cadre_intake_end(self->intake, question->from->incarnation, message->request);
        answer_update(self, question, reserve->update, status, 0);
        return;
    }
    cadre_intake_reserve(self->intake, question->from, message->request, reserve->size_bytes,
                         self->now_ms);
}

/* --- assign --- */

/* One that was refused is refused again, also when a later one was taken meanwhile: a replay
 * repeats both before the call that made the first has its answer. */
static int
assign(cadre_shard_t *self, const cadre_message_t *message)
{
    const cadre_assign_message_t *assign = &message->assign;
    cadre_shard_part_t *part = NULL;
    int status = check_fence(self, message, assign->generation);
    if (status < 0) {
        return status;
    }
    const bool is_again = assign->sequence <= self->assigned;
    status = cadre_shard_find(self, assign->variable, assign->partition, &part);
    if (status < 0) {
        return is_again ? 0 : status; /* 0: dropped since */
    }
    cadre_assert(part);
    status = cadre_partition_check(part->partition, message->chunks, message->chunk_count);
    if (status < 0) {
        self->refused = assign->sequence > self->refused ? assign->sequence : self->refused;
        return fail_at(status, part);
    }
    if (is_again) {
        return 0;
    }
    cadre_shard_open_cut(self, assign->checkpoint, assign->cut);
    cadre_assign_mode_t mode = (cadre_assign_mode_t)assign->mode;
    cadre_partition_assign(part->partition, mode, message->chunks);
    self->counters[CADRE_PS_COUNTER_assigned]++;
    if (self->cut && assign->checkpoint < self->checkpoint && part->image) {
        cadre_partition_assign(part->image, mode, message->chunks);
        self->cut_counters[CADRE_PS_COUNTER_assigned]++;
    }
    self->assigned = assign->sequence;
    return 0;
}

void
cadre_shard_assign(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    cadre_shard_reply(self, question, assign(self, question->message));
}

/* --- probe --- */

/* Requests are answered in the turn in which they are received, but for those that wait for room or
 * a load: another one that is asked after behind it has been answered, or never came. Both is
 * unknown, but for what can be told from its number. */
static cadre_probed_t
state_of(const cadre_shard_t *self, uint64_t update, uint64_t sequence)
{
    bool is_pushed =
        update > 0 && cadre_applied_window_check(self->window, update) == CADRE_EDUPLICATE;
    bool is_assigned = sequence > self->refused && sequence <= self->assigned;
    return is_pushed || is_assigned ? CADRE_PROBED_APPLIED : CADRE_PROBED_UNKNOWN;
}

/* A PULL that is not admitted yet, or a PUSH that may not come yet. */
static bool
is_waiting(const cadre_shard_t *self, uint64_t incarnation, uint64_t request)
{
    const cadre_admission_t *admission = self->options.admission;
    return (admission && cadre_admission_is_waiting(admission, incarnation, request)) ||
           cadre_intake_is_waiting(self->intake, incarnation, request);
}

void
cadre_shard_probe(cadre_shard_t *self, const cadre_shard_question_t *question)
{
    const cadre_probe_message_t *probe = &question->message->probe;
    const bool is_current = check_fence(self, question->message, probe->generation) == 0;
    uint64_t states[2 * CADRE_PROBE_REQUESTS_MAX];
    size_t count = probe->requests.count / 3;
    for (size_t i = 0; i < count; i++) {
        const uint64_t *request = &probe->requests.items[3 * i];
        states[2 * i] = request[0];
        states[2 * i + 1] =
            is_current ? state_of(self, request[1], request[2]) : CADRE_PROBED_UNKNOWN;
        if (is_waiting(self, question->from->incarnation, request[0]) ||
            cadre_shard_is_loading(self, question, request[0])) {
            states[2 * i + 1] = CADRE_PROBED_QUEUED;
        }
    }
    cadre_message_t answer = cadre_shard_answer(self, question, CADRE_MESSAGE_PROBED);
    answer.probed.states = (cadre_u64s_t){states, 2 * count};
    cadre_shard_send(question, &answer);
}
