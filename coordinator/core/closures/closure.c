#include "coordinator/core/closures/closure.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/codec.h"

cadre_closure_t *
cadre_closure_new(uint32_t function)
{
    cadre_closure_t *self = cadre_calloc(1, sizeof(*self));
    self->function = function;
    self->steps = 1;
    self->tag = CADRE_TAG_NONE;
    return self;
}

/* Frees a closure with all that it owns, and drops its references to its results and group. */
void
cadre_closure_destroy(cadre_closure_t **self_p)
{
    cadre_closure_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    free(self->batches);
    free(self->resources);
    cadre_suspicion_fini(&self->suspicion);
    free(self->handed);
    for (size_t i = 0; i < self->name_count; i++) {
        free(self->names[i]);
    }

    free(self->names);
    cadre_tensor_list_fini(&self->tensors);
    for (size_t i = 0; i < self->argument_count; i++) {
        cadre_closure_argument_fini(&self->arguments[i]);
    }

    free(self->arguments);
    cadre_results_unref(&self->results);
    cadre_closure_drop_report(self);
    cadre_closure_group_unref(&self->group);
    free(self);
}

static uint64_t *
copy_of(const uint64_t *items, size_t count)
{
    uint64_t *copy = cadre_calloc(count, sizeof(*copy));
    if (count > 0) {
        memcpy(copy, items, count * sizeof(*copy));
    }
    return copy;
}

/* Returns a new closure that makes the same call: function, batches, resources, tensors and
 * options, but no arguments that are results of other closures. */
cadre_closure_t *
cadre_closure_copy(const cadre_closure_t *self)
{
    cadre_closure_t *copy = cadre_closure_new(self->function);
    copy->steps = self->steps;
    copy->variables = self->variables;
    copy->may_push = self->may_push;
    copy->priority = self->priority;
    copy->tag = self->tag;
    copy->wants_results = self->wants_results;
    copy->deadline_ms = self->deadline_ms;
    copy->group = self->group ? cadre_closure_group_ref(self->group) : NULL;

    copy->batches = copy_of(self->batches, self->batch_items);
    copy->batch_items = self->batch_items;
    copy->range = self->range;
    copy->ranges = self->ranges;
    copy->resources = copy_of(self->resources, self->resource_count);
    copy->resource_count = self->resource_count;
    copy->names = cadre_calloc(self->name_count, sizeof(*copy->names));
    for (size_t i = 0; i < self->name_count; i++) {
        copy->names[copy->name_count++] = cadre_strdup(self->names[i]);
    }

    cadre_tensor_list_share(&copy->tensors, cadre_tensor_list_items(&self->tensors),
                            self->tensors.chunks, self->tensors.chunk_count);
    return copy;
}

/* Keeps a worker's report of the closure's end: the header as encoded bytes, the chunks by
 * reference, in an outbox entry that serves as a container only. */
void
cadre_closure_keep_report(cadre_closure_t *self, const cadre_message_t *message)
{
    cadre_message_t copy = *message;
    copy.chunks = cadre_calloc(message->chunk_count, sizeof(cadre_chunk_t *));
    for (size_t i = 0; i < message->chunk_count; i++) {
        copy.chunks[i] = cadre_chunk_ref(message->chunks[i]);
    }
    self->report = cadre_calloc(1, sizeof(*self->report));
    /* the entry is not sent: its destination means nothing */
    cadre_outbox_entry_init(self->report, &(cadre_task_t){.role = CADRE_ROLE_COORDINATOR}, &copy);
}

/* Decodes the kept report into `out` and frees what was kept. */
int
cadre_closure_take_report(cadre_closure_t *self, cadre_message_t *out)
{
    cadre_outbox_entry_t *report = self->report;
    int status = cadre_message_decode(cadre_chunk_data(report->header),
                                      cadre_chunk_size_bytes(report->header), report->chunks,
                                      report->chunk_count, out);
    cadre_closure_drop_report(self);
    return status;
}

void
cadre_closure_drop_report(cadre_closure_t *self)
{
    if (self->report) {
        cadre_outbox_entry_fini(self->report);
        cadre_free(&self->report);
    }
}

/* Adds an argument `name` whose value will be the result `result` (NULL: the first) of `from`;
 * takes a reference to `from`. */
void
cadre_closure_add_argument(cadre_closure_t *self, const char *name, const char *result,
                           cadre_results_t *from)
{
    self->arguments =
        cadre_realloc(self->arguments, self->argument_count + 1, sizeof(*self->arguments));
    self->arguments[self->argument_count++] =
        (cadre_closure_argument_t){.closure = self,
                                   .name = cadre_strdup(name),
                                   .result = result ? cadre_strdup(result) : NULL,
                                   .from = cadre_results_ref(from)};
}

/* Fills in the values of all arguments that are results of other closures, and checks that the
 * arguments fit into one message. */
int
cadre_closure_take_values(cadre_closure_t *self)
{
    size_t size_bytes = self->tensors.size_bytes;
    size_t chunks = self->tensors.chunk_count;

    for (size_t i = 0; i < self->argument_count; i++) {
        cadre_closure_argument_t *argument = &self->arguments[i];
        int status = cadre_closure_argument_take(argument);
        if (status < 0) {
            return status;
        }

        size_bytes += argument->value.size_bytes;
        chunks += argument->value.chunk_count;
        if (size_bytes > CADRE_ARGUMENTS_SIZE_MAX || chunks > CADRE_MESSAGE_CHUNKS_MAX) {
            return cadre_fail(CADRE_ETOOLARGE,
                              "argument %s: with it the arguments are %zu bytes in %zu chunks, at "
                              "most %d and %d can be sent",
                              argument->name, size_bytes, chunks, CADRE_ARGUMENTS_SIZE_MAX,
                              CADRE_MESSAGE_CHUNKS_MAX);
        }
    }

    return 0;
}

/* Begins the next attempt, on the worker with this incarnation. The incarnations of the workers of
 * earlier attempts stay in the ring `handed`, so that a late report can be checked. */
void
cadre_closure_hand_to(cadre_closure_t *self, uint64_t incarnation)
{
    if (self->attempt > 0 && !self->handed) {
        self->handed = cadre_calloc(CADRE_HANDED_MAX, sizeof(*self->handed));
    }
    if (self->attempt > 0) {
        self->handed[self->attempt % CADRE_HANDED_MAX] = self->handed_to;
    }
    self->attempt++;
    self->handed_to = incarnation;
}

bool
cadre_closure_is_of_client(const cadre_closure_t *self)
{
    return self->group && self->group->is_unpaced;
}

bool
cadre_closure_is_apart(const cadre_closure_t *self)
{
    return self->overruns > 0 || cadre_suspicion_is_strong(&self->suspicion);
}

bool
cadre_closure_is_kept_back(const cadre_closure_t *self, const cadre_closure_filter_t *filter)
{
    return filter && filter->keeps_back(filter->context, self);
}

/* Returns whether attempt number `attempt` went to the worker with this incarnation; false for an
 * attempt that is too old to be remembered. */
bool
cadre_closure_was_handed_to(const cadre_closure_t *self, uint64_t attempt, uint64_t incarnation)
{
    if (attempt == 0 || attempt > self->attempt || self->attempt - attempt >= CADRE_HANDED_MAX) {
        return false;
    }
    uint64_t handed_to =
        attempt == self->attempt ? self->handed_to : self->handed[attempt % CADRE_HANDED_MAX];
    return handed_to == incarnation;
}

/* Returns whether the closure ran past its deadline on the worker with this incarnation. */
bool
cadre_closure_has_overrun_on(const cadre_closure_t *self, uint64_t incarnation)
{
    for (uint32_t i = 0; i < self->overruns; i++) {
        if (self->overran_on[i] == incarnation) {
            return true;
        }
    }
    return false;
}

cadre_needs_t
cadre_closure_needs(const cadre_closure_t *self)
{
    return (cadre_needs_t){.function = self->function,
                           .resources = self->resources,
                           .resource_count = self->resource_count,
                           .batches = self->batches,
                           .batch_items = self->batch_items};
}

/* Returns about how much memory the closure takes, without arguments that are results of others. */
size_t
cadre_closure_size_bytes(const cadre_closure_t *self)
{
    size_t size_bytes = sizeof(*self) + self->batch_items * sizeof(self->batches[0]) +
                        self->resource_count * sizeof(self->resources[0]) +
                        self->argument_count * sizeof(self->arguments[0]);
    for (size_t i = 0; i < self->name_count; i++) {
        size_bytes += sizeof(self->names[0]) + strlen(self->names[i]) + 1;
    }
    return size_bytes + self->tensors.size_bytes;
}

/* Appends a closure at the end of a list. */
void
cadre_closure_list_push(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    closure->next = NULL;
    closure->previous = self->last;
    if (self->last) {
        self->last->next = closure;
    } else {
        self->first = closure;
    }
    self->last = closure;
    self->count++;
}

/* Inserts a closure at the front of a list. */
void
cadre_closure_list_push_front(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    closure->previous = NULL;
    closure->next = self->first;
    if (self->first) {
        self->first->previous = closure;
    } else {
        self->last = closure;
    }
    self->first = closure;
    self->count++;
}

/* Takes a closure out of the list that it stands in. */
void
cadre_closure_list_remove(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    if (closure->previous) {
        closure->previous->next = closure->next;
    } else {
        self->first = closure->next;
    }

    if (closure->next) {
        closure->next->previous = closure->previous;
    } else {
        self->last = closure->previous;
    }

    closure->next = NULL;
    closure->previous = NULL;
    self->count--;
}

/* Moves the closures of a group (NULL: those in no group) to the end of `to`, in their order.
 * Returns how many. */
size_t
cadre_closure_list_move(cadre_closure_list_t *self, const cadre_closure_group_t *group,
                        cadre_closure_list_t *to)
{
    const size_t before = self->count;
    cadre_closure_t *next = NULL;
    for (cadre_closure_t *closure = self->first; closure; closure = next) {
        next = closure->next;
        if (closure->group == group) {
            cadre_closure_list_remove(self, closure);
            cadre_closure_list_push(to, closure);
        }
    }
    return before - self->count;
}

/* Links a closure in between two neighbours; NULL for `before` or `after` is that end of the
 * list. */
static void
link_between(cadre_closure_list_t *self, cadre_closure_t *before, cadre_closure_t *closure,
             cadre_closure_t *after)
{
    closure->previous = before;
    closure->next = after;
    if (before) {
        before->next = closure;
    } else {
        self->first = closure;
    }

    if (after) {
        after->previous = closure;
    } else {
        self->last = closure;
    }

    self->count++;
}

/* Inserts a closure into a list that ascends by id, searching from both ends at once, since most
 * closures belong near one of them. */
void
cadre_closure_list_insert(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    cadre_closure_t *from_front = self->first;
    cadre_closure_t *from_back = self->last;
    while (from_front && from_front->id <= closure->id && from_back->id > closure->id) {
        from_front = from_front->next;
        from_back = from_back->previous;
    }

    if (!from_front || from_front->id > closure->id) {
        link_between(self, from_front ? from_front->previous : NULL, closure, from_front);
    } else {
        link_between(self, from_back, closure, from_back->next);
    }
}

/* Inserts a closure into a list that ascends by turn, behind those of the same turn. */
void
cadre_closure_list_insert_by_turn(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    cadre_closure_t *before = self->last;
    while (before && before->turn > closure->turn) {
        before = before->previous;
    }
    link_between(self, before, closure, before ? before->next : self->first);
}

/* Inserts a closure into a list that ascends by place: its number in the order of the queue. */
void
cadre_closure_list_insert_by_place(cadre_closure_list_t *self, cadre_closure_t *closure)
{
    cadre_closure_t *before = self->last;
    while (before && before->place > closure->place) {
        before = before->previous;
    }
    link_between(self, before, closure, before ? before->next : self->first);
}
