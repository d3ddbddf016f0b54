#include "coordinator/core/provisioning/worker_admission.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

enum { LOOK_MS = 200 }; /* between two looks for closures that no worker can run */

void
cadre_worker_admission_init(cadre_worker_admission_t *self,
                            const cadre_worker_admission_links_t *links)
{
    *self = (cadre_worker_admission_t){.links = *links};
}

/* --- workers' answers about a dataset --- */

/* Returns whether two workers could both open the dataset and found the same rows there. */
static bool
is_same(const cadre_data_answer_t *left, const cadre_data_answer_t *right)
{
    return left->status == 0 && right->status == 0 && left->hash == right->hash &&
           left->info.rows == right->info.rows && left->info.features == right->info.features &&
           left->info.label == right->info.label && left->info.classes == right->info.classes;
}

/* Returns this worker's answer about the dataset (DATASET_READY); NULL while it has not answered.
 * Answers are by incarnation: a process that was started again answers again. */
static const cadre_data_answer_t *
find_answer(const cadre_dataset_t *dataset, const cadre_member_t *worker)
{
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        if (dataset->answers[i].worker == worker->task.incarnation) {
            return &dataset->answers[i];
        }
    }
    return NULL;
}

/* Adds the first answer of a worker about a dataset. */
static cadre_data_answer_t *
add_answer(cadre_worker_admission_t *self, cadre_dataset_t *dataset, const cadre_member_t *worker,
           const cadre_dataset_ready_message_t *ready)
{
    if (dataset->answer_count == 0) {
        dataset->answered_ms = self->links.effects->now_ms;
    }

    dataset->answers =
        cadre_realloc(dataset->answers, dataset->answer_count + 1, sizeof(*dataset->answers));
    cadre_data_answer_t *answer = &dataset->answers[dataset->answer_count++];
    *answer = (cadre_data_answer_t){.worker = worker->task.incarnation,
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

/* Takes out the worker's answer about the dataset, if there is one. */
static void
forget_answer(cadre_dataset_t *dataset, const cadre_member_t *worker)
{
    const cadre_data_answer_t *answer = find_answer(dataset, worker);
    if (!answer) {
        return;
    }

    size_t at = (size_t)(answer - dataset->answers);
    free(dataset->answers[at].text);
    dataset->answer_count--;
    memmove(&dataset->answers[at], &dataset->answers[at + 1],
            (dataset->answer_count - at) * sizeof(*dataset->answers));
}

/* --- what a worker lacks --- */

static const char *
function_name(const cadre_worker_admission_t *self, uint32_t function)
{
    return self->links.catalogue->functions[function - 1]->name;
}

/* Writes how many rows the data have, of how many features, and the hash of all, for people. */
static void
write_rows(const cadre_dataset_info_t *info, uint64_t hash, char text[128])
{
    snprintf(text, 128, "%" PRId64 " rows of %" PRId64 " features, hash %016" PRIx64, info->rows,
             info->features, hash);
}

/* Writes why a worker with this answer gets no closure that reads the dataset: it could not open
 * the files, or has other rows than the job's. Returns the status with which a closure fails if no
 * other worker can run it either. */
static int
explain_refusal(const cadre_dataset_t *dataset, const cadre_data_answer_t *answer,
                char why[CADRE_LACK_TEXT_SIZE])
{
    if (answer->status < 0) {
        snprintf(why, CADRE_LACK_TEXT_SIZE, "it cannot open the data: %s", answer->text);
        return answer->status;
    }

    char own[128];
    char expected[128];
    write_rows(&answer->info, answer->hash, own);
    write_rows(&dataset->info, dataset->hash, expected);
    snprintf(why, CADRE_LACK_TEXT_SIZE, "its data differ: it has %s, and the job %s", own,
             expected);
    return CADRE_EDATA;
}

static void
explain_lack(const char *function, char why[CADRE_LACK_TEXT_SIZE])
{
    snprintf(why, CADRE_LACK_TEXT_SIZE, "it has no native function %s (--native FILE)", function);
}

/* Logs that the worker gets no closures that need this function or dataset (`kind` and `name`). */
static void
log_lack(cadre_worker_admission_t *self, const cadre_member_t *worker, const char *kind,
         const char *name, const char *why)
{
    cadre_effects_log(
        self->links.effects, 'W', "not_admitted",
        "worker=%u process=%u to=\"%s %s\" why=\"%s\" next=\"it gets no closures that "
        "need it\"",
        worker->index, worker->process, kind, name, why);
}

/* Notes and logs, once, that a worker lacks a function. */
static void
lack_function(cadre_worker_admission_t *self, cadre_member_t *worker, uint32_t function)
{
    if (cadre_id_set_has(&worker->abilities.lacked, function)) {
        return;
    }

    char why[CADRE_LACK_TEXT_SIZE];
    cadre_id_set_put(&worker->abilities.lacked, function);
    self->lacks++;
    explain_lack(function_name(self, function), why);
    log_lack(self, worker, "function", function_name(self, function), why);

    cadre_resources_on_lack(self->links.resources, worker);
}

static bool
is_native(const cadre_worker_admission_t *self, uint64_t function)
{
    return function >= 1 && function <= self->links.catalogue->function_count &&
           self->links.catalogue->functions[function - 1]->kind == CADRE_FUNCTION_NATIVE;
}

/* Takes from a heartbeat which native functions the worker lacks. Other ids are left out: a program
 * that the coordinator sends cannot be lacking. */
void
cadre_worker_admission_on_heartbeat(cadre_worker_admission_t *self, cadre_member_t *worker,
                                    const cadre_heartbeat_message_t *heartbeat)
{
    for (size_t i = 0; i < heartbeat->lacks.count; i++) {
        if (is_native(self, heartbeat->lacks.items[i])) {
            lack_function(self, worker, (uint32_t)heartbeat->lacks.items[i]);
        }
    }
}

void
cadre_worker_admission_on_unable(cadre_worker_admission_t *self, cadre_member_t *worker,
                                 uint32_t function)
{
    if (is_native(self, function)) {
        lack_function(self, worker, function);
    }
}

/* Gives number `at` of what the worker lacks, in words; false when it lacks less. Functions come
 * first, then datasets. */
bool
cadre_worker_admission_lack(const cadre_worker_admission_t *self, const cadre_member_t *worker,
                            uint32_t at, char what[CADRE_LACK_TEXT_SIZE],
                            char why[CADRE_LACK_TEXT_SIZE])
{
    const cadre_catalogue_t *catalogue = self->links.catalogue;
    uint32_t seen = 0;
    for (uint32_t id = 1; id <= catalogue->function_count; id++) {
        if (cadre_id_set_has(&worker->abilities.lacked, id) && seen++ == at) {
            snprintf(what, CADRE_LACK_TEXT_SIZE, "function %s", function_name(self, id));
            explain_lack(function_name(self, id), why);
            return true;
        }
    }

    for (uint32_t id = 1; id <= catalogue->dataset_count; id++) {
        if (cadre_id_set_has(&worker->abilities.refused, id) && seen++ == at) {
            const cadre_dataset_t *dataset = catalogue->datasets[id - 1];
            snprintf(what, CADRE_LACK_TEXT_SIZE, "dataset %s", dataset->name);
            explain_refusal(dataset, find_answer(dataset, worker), why);
            return true;
        }
    }
    return false;
}

/* --- which rows are the job's --- */

/* Notes and logs that a worker gets no closures that read the dataset. */
static void
refuse_data(cadre_worker_admission_t *self, cadre_member_t *worker, const cadre_dataset_t *dataset,
            const cadre_data_answer_t *answer)
{
    char why[CADRE_LACK_TEXT_SIZE];
    cadre_id_set_put(&worker->abilities.refused, dataset->id);
    self->lacks++;
    explain_refusal(dataset, answer, why);
    log_lack(self, worker, "dataset", dataset->name, why);
}

/* Admits a worker to a dataset that it has opened, if its rows are the job's; else refuses it. */
static void
judge(cadre_worker_admission_t *self, cadre_member_t *worker, const cadre_dataset_t *dataset,
      const cadre_data_answer_t *answer)
{
    const cadre_data_answer_t expected = {.info = dataset->info, .hash = dataset->hash};
    if (is_same(answer, &expected)) {
        cadre_id_set_put(&worker->abilities.admitted, dataset->id);
    } else {
        refuse_data(self, worker, dataset, answer);
    }
}

/* Returns how many workers have the rows of this answer. */
static uint32_t
votes(const cadre_dataset_t *dataset, const cadre_data_answer_t *answer)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        count += is_same(&dataset->answers[i], answer);
    }
    return count;
}

/* Makes the rows of this answer the job's, and judges all workers that have answered by them. */
static void
choose(cadre_worker_admission_t *self, cadre_dataset_t *dataset, const cadre_data_answer_t *chosen)
{
    dataset->opened = true;
    dataset->info = chosen->info;
    dataset->hash = chosen->hash;
    cadre_effects_note_progress(self->links.effects);
    if (*chosen->text) {
        cadre_effects_log(self->links.effects, 'W', "dataset_doubtful", "dataset=%s reason=\"%s\"",
                          dataset->name, chosen->text);
    }

    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        const cadre_data_answer_t *answer = &dataset->answers[i];
        cadre_member_t *worker = cadre_membership_find(self->links.members, answer->worker);
        if (answer->status == 0 && worker) {
            judge(self, worker, dataset, answer);
        }
    }
}

/* Marks the dataset as failed with the error of the first answer: no worker can open it. */
static void
give_data_up(cadre_worker_admission_t *self, cadre_dataset_t *dataset)
{
    dataset->opened = true;
    dataset->status = dataset->answers[0].status;
    snprintf(dataset->text, sizeof(dataset->text), "%s", dataset->answers[0].text);
    cadre_effects_note_progress(self->links.effects);
}

void
cadre_worker_admission_give_up(cadre_dataset_t *dataset, int status)
{
    cadre_assert(!dataset->opened);
    dataset->opened = true;
    dataset->status = status;
    snprintf(dataset->text, sizeof(dataset->text), "nobody waits for it any more");
}

/* Returns whether the worker is connected and not about to leave. */
static bool
is_there(const cadre_member_t *worker)
{
    return worker && !worker->draining;
}

/* Returns whether all connected workers have answered about the dataset. */
static bool
have_all_answered(const cadre_worker_admission_t *self, const cadre_dataset_t *dataset)
{
    for (uint32_t i = 0; i < self->links.members->worker_capacity; i++) {
        const cadre_member_t *worker = self->links.members->workers[i];
        if (is_there(worker) && !find_answer(dataset, worker)) {
            return false;
        }
    }
    return true;
}

/* Returns the answer that most workers agree with, the first of several such; NULL when no worker
 * could open the dataset. */
static const cadre_data_answer_t *
find_best(const cadre_dataset_t *dataset)
{
    const cadre_data_answer_t *best = NULL;
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        const cadre_data_answer_t *answer = &dataset->answers[i];
        if (answer->status == 0 && (!best || votes(dataset, answer) > votes(dataset, best))) {
            best = answer;
        }
    }
    return best;
}

/* Decides which rows of the dataset are the job's once all workers have answered, or
 * CADRE_UNSERVED_MS after the first answer. */
static void
decide(cadre_worker_admission_t *self, cadre_dataset_t *dataset)
{
    if (dataset->answer_count == 0) {
        return;
    }
    bool is_late = self->links.effects->now_ms >= dataset->answered_ms + CADRE_UNSERVED_MS;
    bool have_all = have_all_answered(self, dataset);
    if (!have_all && !is_late) {
        return;
    }

    const cadre_data_answer_t *best = find_best(dataset);
    if (best) {
        choose(self, dataset, best);
    } else if (have_all && is_late) { /* before that a worker that can open it may join */
        give_data_up(self, dataset);
    }
}

static bool
has_failed(const cadre_dataset_t *dataset)
{
    return dataset->opened && dataset->status < 0;
}

/* Takes a worker's answer about a dataset: whether it could open it, and which rows it has. */
void
cadre_worker_admission_on_dataset(cadre_worker_admission_t *self, cadre_member_t *worker,
                                  const cadre_dataset_ready_message_t *ready)
{
    if (ready->id < 1 || ready->id > self->links.catalogue->dataset_count) {
        return;
    }
    if (ready->status == 0 && !cadre_dtype_valid(ready->label_dtype)) {
        const cadre_sender_t sender = {worker->task, true, worker->key};
        cadre_rights_note_dropped(self->links.rights, 1, &sender,
                                  "DATASET_READY: its labels have no data type");
        return;
    }
    cadre_dataset_t *dataset = self->links.catalogue->datasets[ready->id - 1];
    if (has_failed(dataset) || find_answer(dataset, worker)) {
        return; /* the dataset has failed for good, or the worker has answered before */
    }

    const cadre_data_answer_t *answer = add_answer(self, dataset, worker, ready);
    if (answer->status < 0) {
        refuse_data(self, worker, dataset, answer);
    } else if (dataset->opened) {
        judge(self, worker, dataset, answer);
    } else if (2 * votes(dataset, answer) > self->links.members->worker_count) {
        /* more than half agree: no other answer can win */
        choose(self, dataset, answer);
    }
    if (!dataset->opened) {
        decide(self, dataset);
    }
}

/* Sends the dataset to all workers that have not answered about it. */
static void
ask_again(cadre_worker_admission_t *self, cadre_dataset_t *dataset)
{
    for (uint32_t i = 0; i < self->links.members->worker_capacity; i++) {
        const cadre_member_t *worker = self->links.members->workers[i];
        if (worker && !find_answer(dataset, worker)) {
            cadre_announcements_send_dataset(self->links.announcements, worker, dataset);
        }
    }
}

/* Sends datasets again to workers that have not answered about them. Returns whether an answer is
 * missing. */
bool
cadre_worker_admission_chase(cadre_worker_admission_t *self)
{
    bool is_missing = false;
    bool is_due = cadre_announcements_take_datasets_due(self->links.announcements);
    for (uint32_t i = 0; i < self->links.catalogue->dataset_count; i++) {
        cadre_dataset_t *dataset = self->links.catalogue->datasets[i];
        if (has_failed(dataset) || dataset->answer_count == self->links.members->worker_count) {
            continue;
        }

        is_missing = true;
        if (is_due) {
            ask_again(self, dataset);
        }
    }
    return is_missing;
}

/* Forgets what a member that goes lacks, and its answers about datasets. */
void
cadre_worker_admission_on_lost(cadre_worker_admission_t *self, const cadre_member_t *member)
{
    const cadre_catalogue_t *catalogue = self->links.catalogue;
    for (uint32_t id = 1; id <= catalogue->dataset_count; id++) {
        self->lacks -= cadre_id_set_has(&member->abilities.refused, id);
        forget_answer(catalogue->datasets[id - 1], member);
    }
    for (uint32_t id = 1; id <= catalogue->function_count; id++) {
        self->lacks -= cadre_id_set_has(&member->abilities.lacked, id);
    }
}

/* --- closures that no worker can run --- */

/* Returns why this worker will never run a closure with these needs, as a status and in `why`; 0
 * when it can run the closure, or may be able to later. */
static int
never_runs(const cadre_worker_admission_t *self, const cadre_member_t *worker,
           const cadre_needs_t *needs, char why[CADRE_LACK_TEXT_SIZE])
{
    const cadre_catalogue_t *catalogue = self->links.catalogue;
    if (cadre_id_set_has(&worker->abilities.lacked, needs->function)) {
        explain_lack(function_name(self, needs->function), why);
        return CADRE_ENOTFOUND;
    }

    /* four numbers for each batch, of which the first is its dataset */
    for (size_t i = 0; i < needs->batch_items; i += 4) {
        uint32_t id = (uint32_t)needs->batches[i];
        if (cadre_id_set_has(&worker->abilities.refused, id)) {
            char refused[CADRE_LACK_TEXT_SIZE];
            const cadre_dataset_t *dataset = catalogue->datasets[id - 1];
            int status = explain_refusal(dataset, find_answer(dataset, worker), refused);
            snprintf(why, CADRE_LACK_TEXT_SIZE, "dataset %.100s: %.400s", dataset->name, refused);
            return status;
        }
    }

    for (size_t i = 0; i < needs->resource_count; i++) {
        const cadre_resource_t *resource = catalogue->resources[needs->resources[i] - 1];
        if (!cadre_resource_is_buildable(resource, &worker->abilities)) {
            snprintf(why, CADRE_LACK_TEXT_SIZE,
                     "it has no native function %.100s (--native FILE), which builds resource %s",
                     function_name(self, resource->call->function), resource->name);
            return CADRE_ENOTFOUND;
        }
    }
    return 0;
}

/* Returns whether worker number `index` is connected, does not leave, and may run closures with
 * this tag. */
static bool
is_for(const cadre_worker_admission_t *self, uint32_t index, uint32_t tag)
{
    return is_there(self->links.members->workers[index]) && (tag == CADRE_TAG_NONE || tag == index);
}

/* Returns whether no worker will ever run a closure with these needs, of those that `tag` allows.
 * False if no such worker is connected: then one may still join. */
static bool
is_unserved(const void *context, const cadre_needs_t *needs, uint32_t tag)
{
    const cadre_worker_admission_t *self = context;
    const cadre_membership_t *members = self->links.members;
    char why[CADRE_LACK_TEXT_SIZE];
    bool found = false;
    for (uint32_t i = 0; i < members->worker_capacity; i++) {
        if (is_for(self, i, tag)) {
            if (never_runs(self, members->workers[i], needs, why) == 0) {
                return false;
            }
            found = true;
        }
    }
    return found;
}

/* Returns the tag of the closure, or CADRE_TAG_NONE for a kept closure whose worker has gone: any
 * worker may run that one again. */
static uint32_t
tag_of(const cadre_worker_admission_t *self, const cadre_closure_t *closure)
{
    const cadre_membership_t *members = self->links.members;
    bool is_gone =
        closure->tag != CADRE_TAG_NONE && !cadre_membership_worker_at(members, closure->tag);
    return closure->kept && is_gone ? CADRE_TAG_NONE : closure->tag;
}

/* Returns why no worker can run the closure, as a status and this thread's error text, which names
 * the first worker's reason. */
static int
explain(const cadre_worker_admission_t *self, const cadre_closure_t *closure)
{
    const cadre_needs_t needs = cadre_closure_needs(closure);
    uint32_t tag = tag_of(self, closure);
    char why[CADRE_LACK_TEXT_SIZE] = "";
    uint32_t count = 0;
    uint32_t first = 0;
    int status = 0;
    for (uint32_t i = 0; i < self->links.members->worker_capacity; i++) {
        if (is_for(self, i, tag) && count++ == 0) {
            first = i;
            status = never_runs(self, self->links.members->workers[i], &needs, why);
        }
    }

    if (count == 1) {
        const char *who = tag == CADRE_TAG_NONE ? "the only worker" : "the worker that it is for";
        return cadre_fail(status, "%s cannot run it: worker %" PRIu32 ": %s", who, first, why);
    }
    return cadre_fail(status, "none of the %" PRIu32 " workers can run it: worker %" PRIu32 ": %s",
                      count, first, why);
}

/* Returns the closure that is next to run again if no worker could run it for CADRE_UNSERVED_MS;
 * NULL: it can run, or there is none. */
cadre_closure_t *
cadre_worker_admission_find_unserved_again(cadre_worker_admission_t *self, int *status)
{
    /* Only the first closure is looked at: those behind it cannot end before it does. */
    cadre_closure_t *closure = cadre_closure_log_first(&self->links.replay->redo);
    const cadre_needs_t needs = closure ? cadre_closure_needs(closure) : (cadre_needs_t){0};
    if (!closure || !is_unserved(self, &needs, tag_of(self, closure))) {
        cadre_unserved_end(&self->redo_unserved);
        return NULL;
    }
    if (!cadre_unserved_for_long(&self->redo_unserved, self->links.effects->now_ms,
                                 CADRE_UNSERVED_MS)) {
        return NULL;
    }

    *status = explain(self, closure);
    return closure;
}

/* Returns a queued closure that no worker could run for CADRE_UNSERVED_MS; NULL: there is none. */
cadre_closure_t *
cadre_worker_admission_find_unserved(cadre_worker_admission_t *self, int *status)
{
    cadre_closure_t *closure =
        cadre_closure_lanes_unserved(&self->links.queue->lanes, is_unserved, self,
                                     self->links.effects->now_ms, CADRE_UNSERVED_MS);
    if (!closure || self->links.queue->cancelling) {
        return NULL;
    }

    *status = explain(self, closure);
    return closure;
}

/* Returns whether it is time to look for closures that no worker can run; never while no worker
 * lacks anything. */
bool
cadre_worker_admission_take_due(cadre_worker_admission_t *self)
{
    bool is_due = self->links.effects->now_ms >= self->due_ms;
    if (!is_due || (self->lacks == 0 && !self->unserved)) {
        return false;
    }

    self->due_ms = self->links.effects->now_ms + LOOK_MS;
    /* If no worker lacks anything, this look is the last: it resets the waiting times. */
    self->unserved = self->lacks > 0;
    return true;
}

/* Decides, for each dataset without decision, which rows are the job's if it is time to. */
void
cadre_worker_admission_tick(cadre_worker_admission_t *self)
{
    for (uint32_t i = 0; i < self->links.catalogue->dataset_count; i++) {
        cadre_dataset_t *dataset = self->links.catalogue->datasets[i];
        if (!dataset->opened) {
            decide(self, dataset);
        }
    }
}
