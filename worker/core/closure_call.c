#include "worker/core/closure_call.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/record_list.h"
#include "common/wire/tensor_list.h"

/* Returns whether every dataset that the CLOSURE names has an id that a dataset can have. */
static bool
names_datasets(const cadre_closure_message_t *closure)
{
    const cadre_batch_rows_list_t batches = cadre_batch_rows_list_view(&closure->batches);
    for (size_t i = 0; i < batches.count; i++) {
        if (batches.items[i].dataset > UINT32_MAX) {
            return false;
        }
    }
    return true;
}

/* Returns whether a CLOSURE can be run: its id is below those of builds, its datasets exist as ids,
 * the numbers of its lists make up whole records, and each result of another closure that it takes
 * has a name among the arguments. */
bool
cadre_closure_call_accepts(const cadre_closure_message_t *closure)
{
    const cadre_batch_rows_list_t batches = cadre_batch_rows_list_view(&closure->batches);
    const cadre_taken_value_list_t values = cadre_taken_value_list_view(&closure->values);
    return names_datasets(closure) && closure->id < CADRE_BUILD_IDS &&
           cadre_batch_rows_list(batches.items, batches.count).count == closure->batches.count &&
           cadre_taken_value_list(values.items, values.count).count == closure->values.count &&
           values.count <= closure->names.count;
}

void
cadre_closure_call_init(cadre_closure_call_t *self, cadre_message_t *message)
{
    self->message = *message;
    *message = (cadre_message_t){0};
    atomic_init(&self->cancelled, false);
}

/* Gives back what the call holds: its references to kept results, and its message. `holdings`
 * borrows what the resources hold, so only the array is freed. */
void
cadre_closure_call_fini(cadre_closure_call_t *self)
{
    free((void *)self->holdings);
    for (size_t i = 0; self->values && i < cadre_closure_call_value_count(self); i++) {
        cadre_kept_value_unref(&self->values[i]);
    }
    free(self->values);
    cadre_message_fini(&self->message);
}

uint64_t
cadre_closure_call_id(const cadre_closure_call_t *self)
{
    return self->message.closure.id;
}

void
cadre_closure_call_set_function(cadre_closure_call_t *self, const cadre_directory_t *directory)
{
    self->function = cadre_directory_function(directory, (uint32_t)self->message.closure.function);
    self->functions_gone = directory->functions_gone;
}

void
cadre_closure_call_set_builds(cadre_closure_call_t *self, const cadre_resource_entry_t *resource)
{
    self->builds = resource;
}

void
cadre_closure_call_cancel(cadre_closure_call_t *self)
{
    atomic_store(&self->cancelled, true);
}

bool
cadre_closure_call_is_cancelled(const cadre_closure_call_t *self)
{
    return atomic_load(&self->cancelled);
}

/* Returns what this worker built for the resource called `resource`; NULL when the closure does not
 * name that resource, or its resources are not built yet. */
const cadre_holding_t *
cadre_closure_call_holding(const cadre_closure_call_t *self, const char *resource)
{
    for (size_t i = 0; self->holdings && i < self->message.closure.resources.count; i++) {
        if (strcmp(self->holdings[i]->name, resource) == 0) {
            return self->holdings[i];
        }
    }
    return NULL;
}

/* Returns the result that is called `argument` ("RESOURCE.RESULT") of a resource that the closure
 * names; NULL when there is none. */
const cadre_tensor_t *
cadre_closure_call_resource_value(const cadre_closure_call_t *self, const char *argument)
{
    const cadre_tensor_t *found = NULL;
    for (size_t i = 0; self->holdings && i < self->message.closure.resources.count && !found; i++) {
        found = cadre_holding_value(self->holdings[i], argument);
    }
    return found;
}

size_t
cadre_closure_call_value_count(const cadre_closure_call_t *self)
{
    return cadre_taken_value_list_view(&self->message.closure.values).count;
}

/* Returns the tensors that came in a CLOSURE as a list, which borrows the message's chunks. */
static cadre_tensor_list_t
told_by(const cadre_message_t *message)
{
    const cadre_u64s_t *items = &message->closure.tensors;
    return (cadre_tensor_list_t){.items = (uint64_t *)(uintptr_t)items->items,
                                 .count = items->count,
                                 .chunks = message->chunks,
                                 .chunk_count = message->chunk_count};
}

/* Takes references to the kept results that the CLOSURE names as arguments, and keeps those results
 * whose tensors came in the message (`is_told`) for later closures. Returns false when a result
 * that came without its tensor is not kept on this worker. values[i] stays NULL for a result that
 * came in the message. */
bool
cadre_closure_call_take_values(cadre_closure_call_t *self, cadre_kept_values_t *kept,
                               cadre_worker_counters_t *counters)
{
    const cadre_taken_value_list_t arguments =
        cadre_taken_value_list_view(&self->message.closure.values);
    const cadre_tensor_list_t list = told_by(&self->message);
    bool found = true;
    if (arguments.count == 0) {
        return true;
    }
    self->values = cadre_calloc(arguments.count, sizeof(*self->values));
    for (size_t i = 0; i < arguments.count; i++) {
        const cadre_taken_value_t *value = &arguments.items[i];
        const uint64_t key[3] = {value->closure, value->attempt, value->result};
        if (!value->is_told) {
            self->values[i] = cadre_kept_values_take(kept, key);
            found = found && self->values[i];
            cadre_worker_counters_note(counters, self->values[i]
                                                     ? CADRE_WORKER_COUNTER_values_found
                                                     : CADRE_WORKER_COUNTER_values_missed);
        }
    }

    /* Keep the results that came in the message, only after all others were taken: keeping one
     * may evict another. In the message they follow the closure's own arguments. */
    size_t position = self->message.closure.names.count - arguments.count;
    for (size_t i = 0; i < arguments.count; i++) {
        const cadre_taken_value_t *value = &arguments.items[i];
        const uint64_t key[3] = {value->closure, value->attempt, value->result};
        if (value->is_told) {
            cadre_kept_values_put(kept, key, &list, position++);
        }
    }
    return found;
}

void
cadre_closure_call_give_holdings(cadre_closure_call_t *self, const cadre_holding_t **holdings)
{
    free((void *)self->holdings);
    self->holdings = holdings;
}

/* Decodes a copy of a kept value, which is a list of one tensor, into *out. There is no limit of
 * size (SIZE_MAX): the value was taken when it came. */
static int
copy_value(const cadre_kept_value_t *value, cadre_tensor_t *out)
{
    const cadre_message_t message = {.chunks = value->tensor.chunks,
                                     .chunk_count = value->tensor.chunk_count};
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    int status = cadre_tensor_list_decode(cadre_tensor_list_items(&value->tensor), &message,
                                          SIZE_MAX, &tensors, &count);
    if (status == 0) {
        *out = tensors[0];
        tensors[0] = (cadre_tensor_t){.data = NULL};
        cadre_tensors_fini(&tensors, count);
    }
    return status;
}

/* Merges the kept values into `*tensors`, the tensors that came in the message, so that there is
 * one for each name of an argument. Results of other closures are the last arguments; one that is
 * not kept came in the message, in its place. */
static int
insert_values(const cadre_closure_call_t *self, cadre_tensor_t **tensors, size_t *count)
{
    size_t names = self->message.closure.names.count;
    size_t values = cadre_closure_call_value_count(self);
    cadre_tensor_t *all = cadre_calloc(names, sizeof(*all));
    size_t told = 0;
    int status = 0;
    for (size_t i = 0; i < names && status == 0; i++) {
        const cadre_kept_value_t *value =
            i >= names - values ? self->values[i - (names - values)] : NULL;
        if (value) {
            status = copy_value(value, &all[i]);
        } else if (told < *count) {
            all[i] = (*tensors)[told];
            (*tensors)[told++] = (cadre_tensor_t){.data = NULL};
        } else {
            status = cadre_fail(CADRE_EMALFORMED, "argument %zu was not told", i);
        }
    }
    if (status == 0 && told < *count) {
        status = cadre_fail(CADRE_EMALFORMED, "%zu arguments have no name", *count - told);
    }
    cadre_tensors_fini(tensors, *count);
    *tensors = all;
    *count = names;
    return status;
}

/* Decodes the arguments of the closure, one tensor for each of its names: those in the message, and
 * the results of other closures that this worker has kept. */
int
cadre_closure_call_tensors(const cadre_closure_call_t *self, cadre_tensor_t **tensors,
                           size_t *count)
{
    const cadre_message_t *message = &self->message;
    *tensors = NULL;
    *count = 0;
    if (message->closure.names.count == 0) {
        return 0;
    }
    int status =
        cadre_tensor_list_decode(message->closure.tensors, message, SIZE_MAX, tensors, count);
    if (status == 0 && self->values) {
        status = insert_values(self, tensors, count);
    } else if (status == 0 && *count != message->closure.names.count) {
        status = cadre_fail(CADRE_EMALFORMED, "%zu arguments have %zu names", *count,
                            message->closure.names.count);
    }
    if (status < 0) {
        cadre_tensors_fini(tensors, *count);
        *count = 0;
    }
    return status;
}
