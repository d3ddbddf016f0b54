/*
 * admission - which workers are given what: not what needs a native function or data that they
 * lack.
 *
 * A worker says with its heartbeats which native functions it has not, and hands closures of those
 * back; of each dataset it says whether it could open it, how many rows there are and a hash of
 * them all. The rows that most workers have are the job's: a worker with other ones would mix them
 * into it in silence, so it is given none. That is decided when more than half of the workers agree
 * or all have answered, or CADRE_UNSERVED_MS after the first answer.
 *
 * What a worker lacks is said once, in the log and in the status, and the others go on. What no
 * worker that is there can run fails after CADRE_UNSERVED_MS: one that can may be about to join. A
 * process that was started again is judged anew.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "coordinator/core/coordinator_core.h"

enum { LOOK_MS = 200 }; /* between two looks at what waits */

/* --- what a worker lacks --- */

static const char *
function_name(const cadre_core_t *self, uint32_t function)
{
    return self->catalogue.functions[function - 1]->name;
}

static bool
is_same(const cadre_data_answer_t *left, const cadre_data_answer_t *right)
{
    return left->status == 0 && right->status == 0 && left->hash == right->hash &&
           left->info.rows == right->info.rows && left->info.features == right->info.features &&
           left->info.label == right->info.label && left->info.classes == right->info.classes;
}

static const cadre_data_answer_t *
answer_of(const cadre_dataset_t *dataset, const cadre_member_t *member)
{
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        if (dataset->answers[i].worker == member->task.incarnation) {
            return &dataset->answers[i];
        }
    }
    return NULL;
}

static const char *
rows_words(const cadre_dataset_info_t *info, uint64_t hash, char text[128])
{
    snprintf(text, 128, "%" PRId64 " rows of %" PRId64 " features, hash %016" PRIx64, info->rows,
             info->features, hash);
    return text;
}

/* Why this worker gets nothing that reads the dataset; returns a status for closures that nobody
 * else can run either. */
static int
why_refused(const cadre_dataset_t *dataset, const cadre_data_answer_t *answer,
            char why[CADRE_LACK_TEXT_SIZE])
{
    char own[128];
    char expected[128];
    if (answer->status < 0) {
        snprintf(why, CADRE_LACK_TEXT_SIZE, "it cannot open the data: %s", answer->text);
        return answer->status;
    }
    snprintf(why, CADRE_LACK_TEXT_SIZE, "its data differ: it has %s, and the job %s",
             rows_words(&answer->info, answer->hash, own),
             rows_words(&dataset->info, dataset->hash, expected));
    return CADRE_EDATA;
}

static void
why_lacking(const char *function, char why[CADRE_LACK_TEXT_SIZE])
{
    snprintf(why, CADRE_LACK_TEXT_SIZE, "it has no native function %s (--native FILE)", function);
}

static void
log_lack(cadre_core_t *self, const cadre_member_t *member, const char *kind, const char *name,
         const char *why)
{
    cadre_effects_log(
        &self->effects, 'W', "not_admitted",
        "worker=%u process=%u to=\"%s %s\" why=\"%s\" next=\"it gets no closures that "
        "need it\"",
        member->index, member->process, kind, name, why);
}

static void
lack_function(cadre_core_t *self, cadre_member_t *member, uint32_t function)
{
    char why[CADRE_LACK_TEXT_SIZE];
    if (cadre_id_set_has(&member->abilities.lacked, function)) {
        return;
    }
    cadre_id_set_put(&member->abilities.lacked, function);
    self->lacks++;
    why_lacking(function_name(self, function), why);
    log_lack(self, member, "function", function_name(self, function), why);
    cadre_resources_on_lack(self, member);
}

static bool
is_native(const cadre_core_t *self, uint64_t function)
{
    return function >= 1 && function <= self->catalogue.function_count &&
           self->catalogue.functions[function - 1]->kind == CADRE_FUNCTION_NATIVE;
}

void
cadre_admission_on_heartbeat(cadre_core_t *self, cadre_member_t *member,
                             const cadre_heartbeat_message_t *heartbeat)
{
    for (size_t i = 0; i < heartbeat->lacks.count; i++) {
        if (is_native(self, heartbeat->lacks.items[i])) {
            lack_function(self, member, (uint32_t)heartbeat->lacks.items[i]);
        }
    }
}

void
cadre_admission_on_unable(cadre_core_t *self, cadre_member_t *member, uint32_t function)
{
    if (is_native(self, function)) {
        lack_function(self, member, function);
    }
}

bool
cadre_admission_lack(const cadre_core_t *self, const cadre_member_t *member, uint32_t at,
                     char what[CADRE_LACK_TEXT_SIZE], char why[CADRE_LACK_TEXT_SIZE])
{
    uint32_t seen = 0;
    for (uint32_t id = 1; id <= self->catalogue.function_count; id++) {
        if (cadre_id_set_has(&member->abilities.lacked, id) && seen++ == at) {
            snprintf(what, CADRE_LACK_TEXT_SIZE, "function %s", function_name(self, id));
            why_lacking(function_name(self, id), why);
            return true;
        }
    }
    for (uint32_t id = 1; id <= self->catalogue.dataset_count; id++) {
        if (cadre_id_set_has(&member->abilities.refused, id) && seen++ == at) {
            const cadre_dataset_t *dataset = self->catalogue.datasets[id - 1];
            snprintf(what, CADRE_LACK_TEXT_SIZE, "dataset %s", dataset->name);
            why_refused(dataset, answer_of(dataset, member), why);
            return true;
        }
    }
    return false;
}

/* --- datasets --- */

static void
refuse_data(cadre_core_t *self, cadre_member_t *member, const cadre_dataset_t *dataset,
            const cadre_data_answer_t *answer)
{
    char why[CADRE_LACK_TEXT_SIZE];
    cadre_id_set_put(&member->abilities.refused, dataset->id);
    self->lacks++;
    why_refused(dataset, answer, why);
    log_lack(self, member, "dataset", dataset->name, why);
}

/* The dataset's rows are known, and the worker has opened it. */
static void
judge(cadre_core_t *self, cadre_member_t *member, const cadre_dataset_t *dataset,
      const cadre_data_answer_t *answer)
{
    const cadre_data_answer_t expected = {.info = dataset->info, .hash = dataset->hash};
    if (is_same(answer, &expected)) {
        cadre_id_set_put(&member->abilities.admitted, dataset->id);
    } else {
        refuse_data(self, member, dataset, answer);
    }
}

static uint32_t
votes(const cadre_dataset_t *dataset, const cadre_data_answer_t *answer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        count += is_same(&dataset->answers[i], answer);
    }
    return count;
}

/* These are the job's rows from now on. */
static void
choose(cadre_core_t *self, cadre_dataset_t *dataset, const cadre_data_answer_t *chosen)
{
    dataset->opened = true;
    dataset->info = chosen->info;
    dataset->hash = chosen->hash;
    cadre_effects_note_progress(&self->effects);
    if (*chosen->text) {
        cadre_effects_log(&self->effects, 'W', "header_detected", "dataset=%s reason=\"%s\"",
                          dataset->name, chosen->text);
    }
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        const cadre_data_answer_t *answer = &dataset->answers[i];
        cadre_member_t *member = cadre_membership_find(&self->membership, answer->worker);
        if (answer->status == 0 && member) {
            judge(self, member, dataset, answer);
        }
    }
}

static bool
is_there(const cadre_member_t *member)
{
    return member && !member->draining;
}

static bool
have_all_answered(const cadre_core_t *self, const cadre_dataset_t *dataset)
{
    bool all = dataset->answer_count > 0;
    for (uint32_t i = 0; i < self->membership.worker_capacity && all; i++) {
        const cadre_member_t *member = self->membership.workers[i];
        all = !is_there(member) || answer_of(dataset, member);
    }
    return all;
}

/* Decides once all have answered, or it is time to. */
static void
decide(cadre_core_t *self, cadre_dataset_t *dataset)
{
    bool is_late = self->effects.now_ms >= dataset->answered_ms + CADRE_UNSERVED_MS;
    bool all = have_all_answered(self, dataset);
    if (dataset->answer_count == 0 || (!all && !is_late)) {
        return;
    }
    const cadre_data_answer_t *best = NULL;
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        const cadre_data_answer_t *answer = &dataset->answers[i];
        if (answer->status == 0 && (!best || votes(dataset, answer) > votes(dataset, best))) {
            best = answer;
        }
    }
    if (best) {
        choose(self, dataset, best);
    } else if (all && is_late) {
        dataset->opened = true;
        dataset->status = dataset->answers[0].status;
        snprintf(dataset->text, sizeof(dataset->text), "%s", dataset->answers[0].text);
        cadre_effects_note_progress(&self->effects);
    }
}

static cadre_data_answer_t *
add_answer(cadre_core_t *self, cadre_dataset_t *dataset, const cadre_member_t *member,
           const cadre_dataset_ready_message_t *ready)
{
    if (dataset->answer_count == 0) {
        dataset->answered_ms = self->effects.now_ms;
    }
    dataset->answers =
        cadre_realloc(dataset->answers, dataset->answer_count + 1, sizeof(*dataset->answers));
    cadre_data_answer_t *answer = &dataset->answers[dataset->answer_count++];
    *answer = (cadre_data_answer_t){.worker = member->task.incarnation,
                                    .status = -(int)ready->status,
                                    .text = cadre_strdup(ready->text),
                                    .info = {.rows = (int64_t)ready->rows,
                                             .features = (int64_t)ready->features,
                                             .label = (cadre_dtype_t)ready->label_dtype,
                                             .classes = (int64_t)ready->classes,
                                             .skipped = (int64_t)ready->skipped},
                                    .hash = ready->hash};
    return answer;
}

void
cadre_admission_on_dataset(cadre_core_t *self, cadre_member_t *member,
                           const cadre_dataset_ready_message_t *ready)
{
    if (ready->id < 1 || ready->id > self->catalogue.dataset_count) {
        return;
    }
    if (ready->status == 0 && !cadre_dtype_valid(ready->label_dtype)) {
        const cadre_sender_t sender = {member->task, true, member->key};
        cadre_rights_note_dropped(&self->rights, 1, &sender,
                                  "DATASET_READY: its labels have no data type");
        return;
    }
    cadre_dataset_t *dataset = self->catalogue.datasets[ready->id - 1];
    bool has_failed = dataset->opened && dataset->status < 0;
    if (has_failed || answer_of(dataset, member)) {
        return;
    }
    const cadre_data_answer_t *answer = add_answer(self, dataset, member, ready);
    if (answer->status < 0) {
        refuse_data(self, member, dataset, answer);
    } else if (dataset->opened) {
        judge(self, member, dataset, answer);
    } else if (2 * votes(dataset, answer) > self->membership.worker_count) {
        choose(self, dataset, answer);
    }
    if (!dataset->opened) {
        decide(self, dataset);
    }
}

bool
cadre_admission_chase(cadre_core_t *self)
{
    bool missing = false;
    bool due = cadre_announcements_take_datasets_due(&self->announcements);
    for (uint32_t i = 0; i < self->catalogue.dataset_count; i++) {
        cadre_dataset_t *dataset = self->catalogue.datasets[i];
        bool has_failed = dataset->opened && dataset->status < 0;
        if (has_failed || dataset->answer_count == self->membership.worker_count) {
            continue;
        }
        missing = true;
        for (uint32_t k = 0; k < self->membership.worker_capacity && due; k++) {
            const cadre_member_t *member = self->membership.workers[k];
            if (member && !answer_of(dataset, member)) {
                cadre_announcements_send_dataset(&self->announcements, member, dataset);
            }
        }
    }
    return missing;
}

/* --- workers that go --- */

static void
forget_answer(cadre_dataset_t *dataset, const cadre_member_t *member)
{
    const cadre_data_answer_t *answer = answer_of(dataset, member);
    if (!answer) {
        return;
    }
    size_t at = (size_t)(answer - dataset->answers);
    free(dataset->answers[at].text);
    dataset->answer_count--;
    memmove(&dataset->answers[at], &dataset->answers[at + 1],
            (dataset->answer_count - at) * sizeof(*dataset->answers));
}

void
cadre_admission_lost(cadre_core_t *self, const cadre_member_t *member)
{
    for (uint32_t id = 1; id <= self->catalogue.dataset_count; id++) {
        self->lacks -= cadre_id_set_has(&member->abilities.refused, id);
        forget_answer(self->catalogue.datasets[id - 1], member);
    }
    for (uint32_t id = 1; id <= self->catalogue.function_count; id++) {
        self->lacks -= cadre_id_set_has(&member->abilities.lacked, id);
    }
}

/* --- closures that no worker can run --- */

/* Returns why this worker will never run a closure with these needs, as a status and a text; 0 when
 * it has what is needed, or may come to have it. */
static int
never_runs(const cadre_core_t *self, const cadre_member_t *member, const cadre_needs_t *needs,
           char why[CADRE_LACK_TEXT_SIZE])
{
    if (cadre_id_set_has(&member->abilities.lacked, needs->function)) {
        why_lacking(function_name(self, needs->function), why);
        return CADRE_ENOTFOUND;
    }
    for (size_t i = 0; i < needs->batch_items; i += 4) {
        uint32_t id = (uint32_t)needs->batches[i];
        if (cadre_id_set_has(&member->abilities.refused, id)) {
            char refused[CADRE_LACK_TEXT_SIZE];
            const cadre_dataset_t *dataset = self->catalogue.datasets[id - 1];
            int status = why_refused(dataset, answer_of(dataset, member), refused);
            snprintf(why, CADRE_LACK_TEXT_SIZE, "dataset %.100s: %.400s", dataset->name, refused);
            return status;
        }
    }
    for (size_t i = 0; i < needs->resource_count; i++) {
        const cadre_resource_t *resource = self->catalogue.resources[needs->resources[i] - 1];
        if (!cadre_resource_is_buildable(resource, &member->abilities)) {
            snprintf(why, CADRE_LACK_TEXT_SIZE,
                     "it has no native function %.100s (--native FILE), which builds resource %s",
                     function_name(self, resource->call->function), resource->name);
            return CADRE_ENOTFOUND;
        }
    }
    return 0;
}

/* Whether no worker that is there will ever run it: those that it is for. */
static bool
is_unserved(const void *context, const cadre_needs_t *needs, uint32_t tag)
{
    const cadre_core_t *self = context;
    char why[CADRE_LACK_TEXT_SIZE];
    bool found = false;
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        const cadre_member_t *member = self->membership.workers[i];
        if (is_there(member) && (tag == CADRE_TAG_NONE || tag == i)) {
            if (never_runs(self, member, needs, why) == 0) {
                return false;
            }
            found = true;
        }
    }
    return found;
}

/* Who may run the closure: a kept one whose worker has gone is anybody's. */
static uint32_t
tag_of(const cadre_core_t *self, const cadre_closure_t *closure)
{
    const cadre_membership_t *membership = &self->membership;
    bool is_gone = closure->tag != CADRE_TAG_NONE && (closure->tag >= membership->worker_capacity ||
                                                      !membership->workers[closure->tag]);
    return closure->kept && is_gone ? CADRE_TAG_NONE : closure->tag;
}

/* Sets the error text to why no worker runs it, by the first one that does not; the status. */
static int
explain(const cadre_core_t *self, const cadre_closure_t *closure)
{
    uint32_t tag = tag_of(self, closure);
    const cadre_needs_t needs = cadre_closure_needs(closure);
    char why[CADRE_LACK_TEXT_SIZE] = "";
    uint32_t count = 0;
    uint32_t first = 0;
    int status = 0;
    for (uint32_t i = 0; i < self->membership.worker_capacity; i++) {
        const cadre_member_t *member = self->membership.workers[i];
        if (is_there(member) && (tag == CADRE_TAG_NONE || tag == i)) {
            first = count++ == 0 ? i : first;
            status = count == 1 ? never_runs(self, member, &needs, why) : status;
        }
    }
    return count == 1
               ? cadre_fail(status, "%s cannot run it: worker %" PRIu32 ": %s",
                            tag == CADRE_TAG_NONE ? "the only worker" : "the worker that it is for",
                            first, why)
               : cadre_fail(status,
                            "none of the %" PRIu32 " workers can run it: worker %" PRIu32 ": %s",
                            count, first, why);
}

/* The first closure that is to run again: nothing behind it ends before it does. */
static void
look_at_replay(cadre_core_t *self)
{
    cadre_closure_t *closure = cadre_closure_log_first(&self->replay.redo);
    const cadre_needs_t needs = closure ? cadre_closure_needs(closure) : (cadre_needs_t){0};
    if (!closure || !is_unserved(self, &needs, tag_of(self, closure))) {
        self->redo_unserved.waits = false;
    } else if (cadre_unserved_for_long(&self->redo_unserved, self->effects.now_ms,
                                       CADRE_UNSERVED_MS)) {
        int status = explain(self, closure);
        cadre_replay_take_out(&self->replay, closure);
        cadre_attempts_give_up(&self->attempts, closure, status, cadre_error_text());
    }
}

void
cadre_admission_tick(cadre_core_t *self)
{
    for (uint32_t i = 0; i < self->catalogue.dataset_count; i++) {
        if (!self->catalogue.datasets[i]->opened) {
            decide(self, self->catalogue.datasets[i]);
        }
    }
    if (self->effects.now_ms < self->admission_due_ms || (self->lacks == 0 && !self->unserved)) {
        return;
    }
    self->admission_due_ms = self->effects.now_ms + LOOK_MS;
    self->unserved = self->lacks > 0; /* if not, this look is the last: no time goes on */
    look_at_replay(self);
    cadre_closure_t *closure = cadre_closure_lanes_unserved(
        &self->queue.lanes, is_unserved, self, self->effects.now_ms, CADRE_UNSERVED_MS);
    if (closure && !self->queue.cancelling) {
        cadre_attempts_refuse(&self->attempts, closure, explain(self, closure));
    }
}
