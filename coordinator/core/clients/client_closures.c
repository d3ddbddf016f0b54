#include "coordinator/core/clients/client_closures.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* --- what a SCHEDULE says --- */

/* Returns the newest function of that name; NULL: there is none. Functions of one name and
 * different content may exist: the job's program has replaced the earlier ones. */
static const cadre_function_t *
find_function(const cadre_catalogue_t *catalogue, const char *name)
{
    for (uint32_t i = catalogue->function_count; i > 0; i--) {
        if (!catalogue->functions[i - 1]->dropped &&
            strcmp(catalogue->functions[i - 1]->name, name) == 0) {
            return catalogue->functions[i - 1];
        }
    }
    return NULL;
}

/* Returns the dataset of that name, if the workers have opened it; else NULL. */
static const cadre_dataset_t *
find_dataset(const cadre_catalogue_t *catalogue, const char *name)
{
    for (uint32_t i = 0; i < catalogue->dataset_count; i++) {
        const cadre_dataset_t *dataset = catalogue->datasets[i];
        if (strcmp(dataset->name, name) == 0) {
            return dataset->opened && dataset->status == 0 ? dataset : NULL;
        }
    }
    return NULL;
}

/* Gives the closure the rows of a dataset that the message names, in file order. */
static int
add_rows(const cadre_catalogue_t *catalogue, const cadre_schedule_message_t *schedule,
         cadre_closure_t *closure)
{
    if (!schedule->dataset[0]) {
        return 0;
    }

    const cadre_dataset_t *dataset = find_dataset(catalogue, schedule->dataset);
    if (!dataset) {
        return cadre_fail(CADRE_ENOTFOUND, "the job has no dataset %s", schedule->dataset);
    }

    uint64_t rows = (uint64_t)dataset->info.rows;
    if (schedule->count < 1 || schedule->first >= rows ||
        schedule->count > rows - schedule->first) {
        return cadre_fail(CADRE_EINVALID,
                          "dataset %s: %" PRIu64 " rows from row %" PRIu64 " on, of %" PRIu64,
                          schedule->dataset, schedule->count, schedule->first, rows);
    }

    /* order 0: as in the files */
    const uint64_t items[] = {dataset->id, 0, schedule->first, schedule->count};
    closure->batches = cadre_calloc(CADRE_COUNT_OF(items), sizeof(*closure->batches));
    memcpy(closure->batches, items, sizeof(items));
    closure->batch_items = CADRE_COUNT_OF(items);
    cadre_dataset_note_range(dataset, 0, (int64_t)schedule->first, (int64_t)schedule->count,
                             closure);
    return 0;
}

/* Refuses a name that is none, that stands there twice, or that is a column of the rows. */
static int
check_argument(const cadre_schedule_message_t *schedule, size_t index)
{
    const char *name = schedule->names.items[index];
    int status = cadre_name_check("argument", name);
    if (status < 0) {
        return status;
    }

    bool is_column = strcmp(name, "x") == 0 || strcmp(name, "y") == 0;
    if (schedule->dataset[0] && is_column) {
        return cadre_fail(CADRE_EINVALID, "argument %s: the rows of dataset %s have that column",
                          name, schedule->dataset);
    }

    for (size_t i = 0; i < index; i++) {
        if (strcmp(name, schedule->names.items[i]) == 0) {
            return cadre_fail(CADRE_EINVALID, "argument %s is there twice", name);
        }
    }

    return 0;
}

/* Checks the tensors of the message by decoding them, and gives the closure references to their
 * bytes. */
static int
add_arguments(const cadre_message_t *message, cadre_closure_t *closure)
{
    const cadre_schedule_message_t *schedule = &message->schedule;
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    int status = cadre_tensor_list_decode(schedule->tensors, message,
                                          CADRE_CLIENT_ARGUMENTS_SIZE_MAX, &tensors, &count);
    if (status < 0) {
        return status;
    }

    cadre_tensors_fini(&tensors, count);
    if (count != schedule->names.count) {
        return cadre_fail(CADRE_EMALFORMED, "%zu names of %zu tensors", schedule->names.count,
                          count);
    }

    closure->names = cadre_calloc(count, sizeof(*closure->names));
    for (size_t i = 0; i < count; i++) {
        status = check_argument(schedule, i);
        if (status < 0) {
            return status;
        }
        closure->names[closure->name_count++] = cadre_strdup(schedule->names.items[i]);
    }

    cadre_tensor_list_share(&closure->tensors, schedule->tensors, message->chunks,
                            message->chunk_count);
    return 0;
}

/* Finds the function that the message names. Refuses one that may push where the closures of the
 * job's own program have an order: a client's closure has no place in it. */
static int
take_function(const cadre_client_closures_links_t *links, const char *name,
              const cadre_function_t **out)
{
    const cadre_function_t *function = find_function(links->catalogue, name);
    if (!function) {
        return cadre_fail(CADRE_ENOTFOUND, "the job has no function %s", name);
    }
    if (function->may_push && links->options->consistency != CADRE_ASYNC) {
        return cadre_fail(CADRE_EREFUSED,
                          "function %s may push, and the job is not asynchronous: its updates "
                          "have an order, in which a client's have no place",
                          name);
    }

    *out = function;
    return 0;
}

/* Makes the closure that the message describes. */
static int
make_closure(const cadre_client_closures_links_t *links, const cadre_message_t *message,
             cadre_closure_t **out)
{
    const cadre_schedule_message_t *schedule = &message->schedule;
    const cadre_function_t *function = NULL;
    if (!links->options->client_closures) {
        return cadre_fail(CADRE_EREFUSED,
                          "the job takes no closures of clients: its coordinator says so with "
                          "client_closures");
    }

    int status = take_function(links, schedule->function, &function);
    if (status < 0) {
        return status;
    }

    cadre_closure_t *closure = cadre_closure_new(function->id);
    closure->may_push = function->may_push;
    closure->steps = schedule->steps > 0 ? (uint32_t)schedule->steps : 1;
    closure->deadline_ms =
        schedule->deadline_ms > 0 ? schedule->deadline_ms : links->options->deadline_ms;
    closure->variables = cadre_catalogue_whole_count(links->catalogue);
    closure->wants_results = true;
    status = add_rows(links->catalogue, schedule, closure);
    if (status == 0) {
        status = add_arguments(message, closure);
    }
    if (status < 0) {
        cadre_closure_destroy(&closure);
        return status;
    }

    *out = closure;
    return 0;
}

/* --- the entries --- */

/* Adds an entry without results, with this thread's error text. */
static cadre_client_entry_t *
add_refusal(cadre_client_closures_t *self, uint64_t request, int status)
{
    cadre_client_entry_t *entry = &self->items[self->count++];
    *entry = (cadre_client_entry_t){
        .request = request, .status = status, .text = cadre_strdup(cadre_error_text())};
    return entry;
}

/* Puts the closure into the queue, in the group of the client; frees it where there is no room. */
static int
put(cadre_client_closures_t *self, const cadre_client_closures_links_t *links,
    cadre_closure_t *closure)
{
    if (!self->group) {
        self->group = cadre_closure_group_new_unpaced();
        cadre_closure_group_forsake(self->group); /* a client joins nothing */
    }
    closure->group = cadre_closure_group_ref(self->group);
    closure->results = cadre_results_new();
    if (cadre_closure_queue_put(links->queue, closure) < 0) {
        cadre_closure_destroy(&closure);
        return CADRE_EAGAIN;
    }

    links->totals->scheduled++;
    links->of_clients->scheduled++;
    return 0;
}

/* Schedules the closure of a message, or keeps why it is refused. */
cadre_client_entry_t *
cadre_client_closures_put(cadre_client_closures_t *self, const cadre_client_closures_links_t *links,
                          const cadre_message_t *message)
{
    if (self->count == CADRE_CLIENT_REQUESTS_MAX) {
        return NULL;
    }

    cadre_closure_t *closure = NULL;
    int status = make_closure(links, message, &closure);
    if (status < 0) {
        return add_refusal(self, message->request, status);
    }

    if (put(self, links, closure) < 0) {
        return NULL;
    }

    cadre_client_entry_t *entry = &self->items[self->count++];
    *entry = (cadre_client_entry_t){.request = message->request,
                                    .results = cadre_results_ref(closure->results)};
    return entry;
}

cadre_client_entry_t *
cadre_client_closures_find(cadre_client_closures_t *self, uint64_t request)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->items[i].request == request) {
            return &self->items[i];
        }
    }
    return NULL;
}

bool
cadre_client_entry_has_ended(const cadre_client_entry_t *self)
{
    return !self->results || self->results->ended;
}

/* Replaces results that are more than a client may have by an error, so that what is kept for a
 * client that does not settle stays bounded. */
static void
drop_large_results(cadre_client_entry_t *self)
{
    if (!self->results || self->results->status < 0 ||
        self->results->tensors.size_bytes <= CADRE_CLIENT_RESULTS_SIZE_MAX) {
        return;
    }
    self->status = CADRE_ETOOLARGE;
    self->text =
        cadre_asprintf("the closure has ended well, and counts; its results are %zu bytes, "
                       "those of a client's closure %d at most",
                       self->results->tensors.size_bytes, CADRE_CLIENT_RESULTS_SIZE_MAX);
    cadre_results_unref(&self->results);
}

/* Fills in how the closure has ended: its results, or status and text of its failure. */
void
cadre_client_entry_result(cadre_client_entry_t *self, cadre_message_t *answer)
{
    drop_large_results(self);
    self->told = true;
    answer->request = self->request;
    const cadre_results_t *results = self->results;
    if (!results) {
        answer->result =
            (cadre_result_message_t){.status = (uint64_t)-self->status, .text = self->text};
        return;
    }

    if (results->status < 0) {
        answer->result = (cadre_result_message_t){.status = (uint64_t)-results->status,
                                                  .text = results->text,
                                                  .closure = results->closure_id};
        return;
    }

    answer->result = (cadre_result_message_t){
        .closure = results->closure_id,
        .names = {(const char *const *)results->names, results->name_count},
        .tensors = cadre_tensor_list_items(&results->tensors)};
    cadre_tensor_list_add_chunks(&results->tensors, answer);
}

/* Frees an entry; the last one takes its place. */
static void
forget(cadre_client_closures_t *self, size_t index)
{
    cadre_client_entry_t *entry = &self->items[index];
    cadre_results_unref(&entry->results);
    free(entry->text);
    *entry = self->items[--self->count];
}

/* Forgets the entries below `settled`. One that has not ended stays: the client cannot have its
 * answer, whatever the message says. */
void
cadre_client_closures_settle(cadre_client_closures_t *self, uint64_t settled)
{
    self->settled = settled > self->settled ? settled : self->settled;
    for (size_t i = self->count; i > 0; i--) {
        const cadre_client_entry_t *entry = &self->items[i - 1];
        if (entry->request < self->settled && cadre_client_entry_has_ended(entry)) {
            forget(self, i - 1);
        }
    }
}

/* Ends what is queued of the client, has workers stop what runs, and forgets all entries. */
size_t
cadre_client_closures_cancel(cadre_client_closures_t *self, cadre_closure_queue_t *queue)
{
    size_t unended = 0;
    for (size_t i = 0; i < self->count; i++) {
        unended += !cadre_client_entry_has_ended(&self->items[i]);
    }

    if (self->group) {
        cadre_closure_queue_cancel_group(queue, self->group);
    }
    cadre_client_closures_fini(self);
    return unended;
}

void
cadre_client_closures_fini(cadre_client_closures_t *self)
{
    while (self->count > 0) {
        forget(self, self->count - 1);
    }
    cadre_closure_group_unref(&self->group);
}
