#include "worker/slot/work.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"

cadre_work_t *
cadre_work_new(cadre_run_t *run)
{
    cadre_work_t *self = cadre_calloc(1, sizeof(*self));
    self->run = run;
    self->call = run ? &run->call : NULL;
    return self;
}

/* Frees the work with its outcome; the run in it stays the core's. */
void
cadre_work_destroy(cadre_work_t **self_p)
{
    cadre_work_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t i = 0; self->names && self->names[i]; i++) {
        free(self->names[i]);
    }

    free(self->names);
    cadre_holding_destroy(&self->holding);
    cadre_tensor_list_fini(&self->results);
    free(self->text);
    free(self);
}

/* Ends the work with a failure; does nothing for status 0, or if the work has failed before: the
 * first failure stays. */
void
cadre_work_end(cadre_work_t *self, int status, cadre_failure_t failure, const char *text)
{
    if (self->status < 0 || status == 0) {
        return;
    }
    self->status = status;
    self->failure = failure;
    self->text = cadre_strdup(text);
}

/* Returns the argument `name`: of the batches, of the closure's `tensors`, or a result of a
 * resource that the closure names; NULL when there is none. */
const cadre_tensor_t *
cadre_work_argument(const cadre_work_t *self, const cadre_tensor_t *tensors, const char *name)
{
    const cadre_tensor_t *found = self->load ? cadre_load_tensor(self->load, name) : NULL;
    const cadre_strs_t *names = &self->call->message.closure.names;
    for (size_t i = 0; i < names->count && !found; i++) {
        found = strcmp(names->items[i], name) == 0 ? &tensors[i] : NULL;
    }
    return found ? found : cadre_closure_call_resource_value(self->call, name);
}

/* Moves the results of a build, as tensors with their names, into what the worker holds of the
 * resource. */
static int
hold_results(cadre_work_t *self)
{
    cadre_holding_t *holding = self->holding;
    /* The decoder takes the chunks as the payload of a message. */
    const cadre_message_t message = {.chunks = self->results.chunks,
                                     .chunk_count = self->results.chunk_count};
    int status =
        cadre_tensor_list_decode(cadre_tensor_list_items(&self->results), &message,
                                 CADRE_RESULT_SIZE_MAX, &holding->tensors, &holding->count);
    if (status < 0) {
        return status;
    }

    holding->names = self->names;
    self->names = NULL;
    return 0;
}

/* Ends the build of a resource: its results become part of what this worker holds of the resource,
 * together with the object that the function may have set. If the build has failed, both are
 * destroyed. */
void
cadre_work_end_build(cadre_work_t *self)
{
    if (!self->holding) {
        self->holding = cadre_holding_new(self->call->builds->message.resource.name);
    }
    if (self->status == 0 && self->names && hold_results(self) < 0) {
        cadre_work_end(self, CADRE_EMALFORMED, CADRE_FAILURE_USER, cadre_error_text());
    }
    if (self->status < 0) {
        cadre_holding_destroy(&self->holding);
    }
}

bool
cadre_work_wants_results(const cadre_work_t *self)
{
    return self->call->message.closure.flags & CADRE_CLOSURE_WANTS_RESULTS;
}

/* Copies the results into the outcome of the work, under their names; fails when they are too many
 * or too large. */
int
cadre_work_give_results(cadre_work_t *self, const char *const *names, const cadre_tensor_t *tensors,
                        size_t count)
{
    if (count > CADRE_RESULTS_MAX) {
        return cadre_fail(CADRE_EFULL, "%zu results, a closure has at most %d", count,
                          CADRE_RESULTS_MAX);
    }

    int status = cadre_tensor_list_encode(tensors, count, CADRE_RESULT_SIZE_MAX, &self->results);
    if (status < 0) {
        return cadre_fail_within(status, "results");
    }

    self->names = cadre_calloc(count + 1, sizeof(*self->names));
    for (size_t i = 0; i < count; i++) {
        self->names[i] = cadre_strdup(names[i]);
    }

    return 0;
}
