/* The public calls that schedule closures and wait for them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cadre/coordinator.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "coordinator/api/future.h"
#include "coordinator/api/group.h"
#include "coordinator/coordinator.h"
#include "coordinator/options.h"

/* Under the lock: returns whether the pointer is a function of this coordinator; nothing is read
 * through it before that is known. */
static bool
is_function(const cadre_coordinator_t *self, const cadre_function_t *function)
{
    for (uint32_t i = 0; i < self->core.catalogue.function_count; i++) {
        if (self->core.catalogue.functions[i] == function) {
            return !function->dropped;
        }
    }
    return false;
}

/* Checks the batches of a call and copies them into the closure: four numbers for each, as the
 * CLOSURE message has them (dataset, order of rows, first row, count). */
static int
copy_batches(const cadre_coordinator_t *self, cadre_closure_t *closure, const cadre_call_t *call)
{
    closure->batches = cadre_calloc(4 * call->batch_count, sizeof(*closure->batches));
    for (size_t i = 0; i < call->batch_count; i++) {
        const cadre_batch_t *batch = &call->batches[i];
        if (!batch->dataset || batch->dataset->coordinator != self) {
            return cadre_fail(CADRE_EINVALID, "batch %zu is of no dataset of this coordinator", i);
        }

        int64_t rows = batch->dataset->info.rows;
        if (batch->first < 0 || batch->count < 1 || batch->count > rows ||
            batch->first > rows - batch->count) {
            return cadre_fail(CADRE_EINVALID,
                              "batch %zu: rows %" PRId64 " to %" PRId64 " of %" PRId64, i,
                              batch->first, batch->first + batch->count, rows);
        }

        uint64_t items[] = {batch->dataset->id, batch->order, (uint64_t)batch->first,
                            (uint64_t)batch->count};
        memcpy(closure->batches + 4 * i, items, sizeof(items));
        closure->batch_items += 4;
    }
    if (call->batch_count > 0) {
        const cadre_batch_t *batch = &call->batches[0];
        cadre_dataset_note_range(batch->dataset, batch->order, batch->first, batch->count, closure);
    }

    return 0;
}

/* Copies the call's tensors and their names into the closure; fails with CADRE_ETOOLARGE beyond
 * CADRE_ARGUMENTS_SIZE_MAX bytes. */
static int
copy_tensors(cadre_closure_t *closure, const cadre_call_t *call)
{
    cadre_tensor_t *tensors = cadre_calloc(call->tensor_count, sizeof(*tensors));
    closure->names = cadre_calloc(call->tensor_count, sizeof(char *));
    for (size_t i = 0; i < call->tensor_count; i++) {
        closure->names[closure->name_count++] = cadre_strdup(call->tensors[i].name);
        tensors[i] = *call->tensors[i].tensor;
    }

    int status = cadre_tensor_list_encode(tensors, call->tensor_count, CADRE_ARGUMENTS_SIZE_MAX,
                                          &closure->tensors);
    free(tensors);
    return status;
}

/* Returns whether an argument of that name could be a result of the resource: "resource.result". */
static bool
is_result_of(const cadre_resource_t *resource, const char *name)
{
    size_t length = strlen(resource->name);
    return strncmp(name, resource->name, length) == 0 && name[length] == '.';
}

/* Returns the name of argument `i` of the call; its tensors come first, then its futures. */
static const char *
argument_name(const cadre_call_t *call, size_t i)
{
    return i < call->tensor_count ? call->tensors[i].name
                                  : call->futures[i - call->tensor_count].name;
}

/* Refuses arguments whose name could be that of a result of the resource: the names of its results
 * begin with its own, and only workers know which there are. */
static int
check_result_names(const cadre_call_t *call, const cadre_resource_t *resource)
{
    for (size_t i = 0; i < call->tensor_count + call->future_count; i++) {
        const char *name = argument_name(call, i);
        if (is_result_of(resource, name)) {
            return cadre_fail(CADRE_EINVALID,
                              "argument %s could be a result of resource %s, which the call names",
                              name, resource->name);
        }
    }

    for (size_t i = 0; i < call->resource_count; i++) {
        const cadre_resource_t *other = call->resources[i];
        if (other && is_result_of(resource, other->name)) {
            return cadre_fail(CADRE_EINVALID,
                              "resources %s and %s in one call: results of both could be called "
                              "%s.NAME",
                              resource->name, other->name, other->name);
        }
    }

    return 0;
}

/* Checks the resources that a call names and notes their ids in the closure. */
static int
copy_resources(const cadre_coordinator_t *self, cadre_closure_t *closure, const cadre_call_t *call)
{
    closure->resources = cadre_calloc(call->resource_count, sizeof(*closure->resources));
    for (size_t i = 0; i < call->resource_count; i++) {
        const cadre_resource_t *resource = call->resources[i];
        if (!resource || resource->coordinator != self || resource->dropped) {
            return cadre_fail(CADRE_EINVALID, "resource %zu is none of this coordinator", i);
        }
        int status = check_result_names(call, resource);
        if (status < 0) {
            return status;
        }
        closure->resources[closure->resource_count++] = resource->id;
    }

    return 0;
}

/* Under the lock: adds the call's futures as arguments of the closure. */
static int
add_futures(cadre_coordinator_t *self, cadre_closure_t *closure, const cadre_call_t *call)
{
    for (size_t i = 0; i < call->future_count; i++) {
        const cadre_future_argument_t *argument = &call->futures[i];
        cadre_results_t *from = cadre_future_results(argument->future, self);
        if (!from) {
            return cadre_fail(CADRE_EINVALID, "argument %s: this is no future of this coordinator",
                              argument->name);
        }
        cadre_closure_add_argument(closure, argument->name, argument->result, from);
    }

    return 0;
}

/* Under the lock: returns 0 if each argument that is a result of another closure is there, or may
 * come. */
static int
check_futures(const cadre_closure_t *closure)
{
    for (size_t i = 0; i < closure->argument_count; i++) {
        int status = cadre_closure_argument_check(&closure->arguments[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Under the lock: refuses a sequence number when the numbers of closures that have ended are too
 * many ranges (CADRE_EFULL): every checkpoint holds these ranges, so they are bounded. */
static int
check_sequence(const cadre_coordinator_t *self, const cadre_closure_t *closure)
{
    const cadre_checkpoint_t *checkpoint = &self->core.checkpoint;
    bool is_full = checkpoint->held.count + checkpoint->later.count >= CADRE_SEQUENCE_RANGES_MAX;
    if (closure->sequence == 0 || !is_full) {
        return 0;
    }
    return cadre_fail(CADRE_EFULL,
                      "sequence number %" PRIu64
                      ": those that have ended are more than %d ranges; number closures in the "
                      "order in which they are scheduled",
                      closure->sequence, CADRE_SEQUENCE_RANGES_MAX);
}

/* Fails unless the array is there, or has no items; `what` names the items in the error. */
static int
check_array(const void *array, size_t count, const char *what)
{
    return array || count == 0 ? 0 : cadre_fail(CADRE_EINVALID, "%zu %s in NULL", count, what);
}

/* Refuses an array of the call that is NULL with a count above 0. */
static int
check_arrays(const cadre_call_t *call)
{
    int status = check_array(call->batches, call->batch_count, "batches");
    if (status < 0) {
        return status;
    }

    status = check_array(call->tensors, call->tensor_count, "tensors");
    if (status < 0) {
        return status;
    }

    status = check_array(call->futures, call->future_count, "futures");
    if (status < 0) {
        return status;
    }

    return check_array(call->resources, call->resource_count, "resources");
}

/* Checks the counts, sequence number, deadline and steps of a call against their limits. */
static int
check_counts(const cadre_call_t *call)
{
    if (call->batch_count > CADRE_BATCHES_MAX || call->tensor_count > CADRE_ARGUMENTS_MAX ||
        call->future_count > CADRE_ARGUMENTS_MAX - call->tensor_count) {
        return cadre_fail(
            CADRE_ETOOLARGE,
            "%zu batches, %zu tensors and %zu futures: %d and together %d are the most",
            call->batch_count, call->tensor_count, call->future_count, CADRE_BATCHES_MAX,
            CADRE_ARGUMENTS_MAX);
    }

    if (call->resource_count > CADRE_RESOURCES_PER_CLOSURE_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%zu resources: %d are the most", call->resource_count,
                          CADRE_RESOURCES_PER_CLOSURE_MAX);
    }

    if (call->sequence > CADRE_SEQUENCE_MAX) {
        return cadre_fail(CADRE_EINVALID, "sequence number %" PRIu64 ": %" PRIu64 " is the highest",
                          call->sequence, CADRE_SEQUENCE_MAX);
    }

    if (call->priority > CADRE_PRIORITY_LOW) {
        return cadre_fail(CADRE_EINVALID, "priority %d: CADRE_PRIORITY_NORMAL, _HIGH or _LOW",
                          (int)call->priority);
    }

    if (call->deadline_ms < -1) {
        return cadre_fail(CADRE_EINVALID, "a deadline of %lld ms", (long long)call->deadline_ms);
    }

    if (call->steps > CADRE_STEPS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%u steps: %d are the most", call->steps,
                          CADRE_STEPS_MAX);
    }

    return 0;
}

/* Returns the index of the call's batch that has a column of that name (x, y, x1, y1, ...); the
 * number of batches when none has. */
static size_t
find_column(const cadre_call_t *call, const char *name)
{
    size_t batch = 0;
    for (; batch < call->batch_count; batch++) {
        char number[8] = "";
        if (batch > 0) {
            snprintf(number, sizeof(number), "%zu", batch);
        }
        if ((name[0] == 'x' || name[0] == 'y') && strcmp(name + 1, number) == 0) {
            break;
        }
    }

    return batch;
}

/* Refuses an argument without a valid name, or with the name of another argument or of a column. */
static int
check_name(const cadre_call_t *call, size_t index)
{
    const char *name = argument_name(call, index);
    int status = cadre_name_check("argument", name);
    if (status < 0) {
        return status;
    }

    size_t batch = find_column(call, name);
    if (batch < call->batch_count) {
        return cadre_fail(CADRE_EINVALID, "argument %s is there twice: batch %zu has that column",
                          name, batch);
    }

    for (size_t i = 0; i < index; i++) {
        if (strcmp(name, argument_name(call, i)) == 0) {
            return cadre_fail(CADRE_EINVALID, "argument %s is there twice", name);
        }
    }

    return 0;
}

/* Checks the names of all arguments of a call, and that each tensor is there. */
static int
check_arguments(const cadre_call_t *call)
{
    for (size_t i = 0; i < call->tensor_count + call->future_count; i++) {
        int status = check_name(call, i);
        if (status < 0) {
            return status;
        }
        if (i < call->tensor_count && !call->tensors[i].tensor) {
            return cadre_fail(CADRE_EINVALID, "argument %s has no tensor", call->tensors[i].name);
        }
    }

    return 0;
}

/* Checks a call for everything that can be checked without the lock. */
static int
check_call(const cadre_call_t *call)
{
    int status = check_arrays(call);
    if (status < 0) {
        return status;
    }
    status = check_counts(call);
    if (status < 0) {
        return status;
    }
    return check_arguments(call);
}

/* Copies and checks the call that the caller of the API gave; NULL stands for a call without
 * arguments. */
static int
take_call(const cadre_call_t *given, cadre_call_t *call)
{
    *call = cadre_call();
    int status = given ? cadre_options_take(given, call, sizeof(*call), "cadre_call_t") : 0;
    if (status < 0) {
        return status;
    }
    return check_call(call);
}

/* Copies the call's batches, tensors and resources into the closure. Futures are added under the
 * lock. */
static int
copy_arguments(const cadre_coordinator_t *self, cadre_closure_t *closure, const cadre_call_t *call)
{
    int status = 0;
    if (call->batch_count > 0) {
        status = copy_batches(self, closure, call);
    }
    if (status < 0) {
        return status;
    }
    if (call->tensor_count > 0) {
        status = copy_tensors(closure, call);
    }
    if (status < 0) {
        return status;
    }

    return call->resource_count > 0 ? copy_resources(self, closure, call) : 0;
}

/* Returns how long an attempt may run, in ms; 0: as long as it takes. A negative deadline of the
 * call means none, 0 the job's. */
static uint64_t
deadline_of(const cadre_coordinator_t *self, const cadre_call_t *call)
{
    if (call->deadline_ms == 0) {
        return self->core.options.deadline_ms;
    }
    return call->deadline_ms > 0 ? (uint64_t)call->deadline_ms : 0;
}

/* Makes a closure of `function` with everything of `call` copied. Refuses what a synchronous or
 * bounded job cannot do: several steps in one closure that pushes, or a priority. */
static int
make_closure(const cadre_coordinator_t *self, const cadre_function_t *function,
             const cadre_call_t *call, cadre_closure_t **out)
{
    const uint32_t steps = call->steps ? call->steps : 1;
    if (steps > 1 && function->may_push && self->core.options.consistency == CADRE_SYNC) {
        return cadre_fail(CADRE_EINVALID,
                          "function %s: a closure of %" PRIu32
                          " steps cannot be part of a synchronous one: schedule a closure for each",
                          function->name, steps);
    }

    if (call->priority != CADRE_PRIORITY_NORMAL && self->core.options.consistency != CADRE_ASYNC) {
        return cadre_fail(CADRE_EINVALID,
                          "function %s: closures of a job that is not asynchronous "
                          "run in the order of their calls, without a priority",
                          function->name);
    }

    cadre_closure_t *closure = cadre_closure_new(function->id);
    closure->priority = call->priority;
    closure->deadline_ms = deadline_of(self, call);
    closure->steps = steps;
    closure->sequence = call->sequence;
    closure->may_push = function->may_push;
    int status = copy_arguments(self, closure, call);
    if (status < 0) {
        cadre_closure_destroy(&closure);
        return status;
    }

    *out = closure;
    return 0;
}

/* Under the lock: raises the pending error of closures without a group (`queue.own` stands for
 * their group). CADRE_EAGAIN while closures that the error cancelled are still in flight. */
static int
raise(cadre_coordinator_t *self)
{
    return cadre_group_raise(self, &self->core.queue.own);
}

/* Under the lock: raises the pending error of the closure's group, or of closures without a group,
 * before the closure is put into the queue. A group that goes on after errors raises them at its
 * join alone. */
static int
raise_before(cadre_coordinator_t *self, cadre_closure_t *closure)
{
    cadre_closure_group_t *group = closure->group ? closure->group : &self->core.queue.own;
    return group->goes_on ? 0 : cadre_group_raise(self, group);
}

/* Under the lock: puts the closure into the queue. CADRE_EAGAIN when that has to wait: for room, or
 * until a pending error can be raised. */
static int
try_to_put(cadre_coordinator_t *self, cadre_closure_t *closure)
{
    int status = cadre_coordinator_usable(self);
    if (status < 0) {
        return status;
    }

    status = raise_before(self, closure);
    if (status < 0) {
        return status;
    }
    if (atomic_load(&self->gate->interrupted)) {
        return cadre_fail(CADRE_EINTERRUPTED, "interrupted");
    }

    status = check_futures(closure);
    if (status < 0) {
        return status;
    }

    /* the call may have waited, while another thread has dropped what it names */
    status = cadre_catalogue_check_names(&self->core.catalogue, closure);
    if (status < 0) {
        return status;
    }

    return cadre_closure_queue_put(&self->core.queue, closure) == 0 ? 0 : CADRE_EAGAIN;
}

/* Under the lock: puts the closure into the queue as soon as there is room. */
static int
put(cadre_coordinator_t *self, cadre_closure_t *closure, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    int status = try_to_put(self, closure);
    while (status == CADRE_EAGAIN) {
        status = cadre_coordinator_wait(self, deadline_ms, "room in the queue", &since_ms);
        if (status < 0) {
            return status;
        }
        status = try_to_put(self, closure);
    }

    return status;
}

/* Fails with CADRE_EINVALID unless the function is registered with this coordinator. */
static int
check_function(cadre_coordinator_t *self, const cadre_function_t *function)
{
    cadre_gate_lock(self->gate);
    bool known = is_function(self, function);
    cadre_gate_unlock(self->gate);
    return known
               ? 0
               : cadre_fail(CADRE_EINVALID, "this is no function registered with this coordinator");
}

/* Under the lock: returns how many variables exist on all shards. */
static uint32_t
variables_now(const cadre_coordinator_t *self)
{
    return cadre_catalogue_whole_count(&self->core.catalogue);
}

/* Returns whether a call names anything that the call of a resource may not have. */
static bool
has_more_than_tensors(const cadre_call_t *call)
{
    return call->batch_count || call->resource_count || call->future_count || call->steps ||
           call->sequence || call->group || call->priority;
}

/* Makes the closure that builds a resource on each worker. */
static int
make_builder(cadre_coordinator_t *self, const char *name, const cadre_function_t *function,
             const cadre_call_t *given, cadre_closure_t **out)
{
    cadre_call_t call;
    int status = check_function(self, function);
    if (status < 0) {
        return status;
    }

    status = take_call(given, &call);
    if (status < 0) {
        return status;
    }

    if (has_more_than_tensors(&call)) {
        return cadre_fail(CADRE_EINVALID, "resource %s: its call has tensors only",
                          name ? name : "");
    }

    return make_closure(self, function, &call, out);
}

/* Under the lock: adds a resource that the closure builds (takes it on success), and has workers
 * told of it. The closure may use the variables that exist now. */
static int
add_resource(cadre_coordinator_t *self, const char *name, cadre_closure_t **closure_p,
             cadre_resource_t **out)
{
    cadre_resource_t *resource = NULL;
    (*closure_p)->variables = variables_now(self);
    int status = cadre_catalogue_check_names(&self->core.catalogue, *closure_p);
    if (status < 0) {
        return status;
    }

    status = cadre_catalogue_add_resource(&self->core.catalogue, name, closure_p, &resource);
    if (status < 0) {
        return status;
    }

    resource->coordinator = self;
    cadre_resources_announce(&self->core.resources);
    if (out) {
        *out = resource;
    }

    return 0;
}

/* Makes a resource, which each worker builds for itself; returns before any has. */
int
cadre_resource_create(cadre_coordinator_t *self, const char *name, const cadre_function_t *function,
                      const cadre_call_t *given, cadre_resource_t **out)
{
    cadre_closure_t *closure = NULL;
    int status = make_builder(self, name, function, given, &closure);
    if (status < 0) {
        return status;
    }

    cadre_gate_lock(self->gate);
    status = add_resource(self, name, &closure, out);
    cadre_gate_unlock_and_wake(self->gate);
    cadre_closure_destroy(&closure); /* closure is NULL if the resource has taken it */
    return status;
}

const char *
cadre_resource_name(const cadre_resource_t *self)
{
    return self->name;
}

/* Under the lock: puts a new closure into the queue, in the group of the call. The closure may use
 * the variables that exist now, and takes its futures as arguments. */
static int
put_new(cadre_coordinator_t *self, cadre_closure_t *closure, const cadre_call_t *call,
        int64_t deadline_ms)
{
    closure->variables = variables_now(self);
    int status = check_sequence(self, closure);
    if (status < 0) {
        return status;
    }

    status = cadre_group_closures(call->group, self, &closure->group);
    if (status < 0) {
        return status;
    }

    status = add_futures(self, closure, call);
    if (status < 0) {
        return status;
    }

    status = put(self, closure, deadline_ms);
    if (status < 0) {
        return status;
    }

    cadre_core_note_scheduled(&self->core);
    return 0;
}

/* Checks function and call, and makes the closure of the call. */
static int
take_scheduled(cadre_coordinator_t *self, const cadre_function_t *function,
               const cadre_call_t *given, cadre_call_t *call, cadre_closure_t **closure)
{
    int status = check_function(self, function);
    if (status < 0) {
        return status;
    }
    status = take_call(given, call);
    if (status < 0) {
        return status;
    }
    return make_closure(self, function, call, closure);
}

/* Schedules a call on any worker, or on the one with index `tag` unless that is CADRE_TAG_NONE. */
static int
schedule(cadre_coordinator_t *self, uint32_t tag, const cadre_function_t *function,
         const cadre_call_t *given, int64_t timeout_ms, cadre_future_t **future)
{
    cadre_closure_t *closure = NULL;
    cadre_call_t call;
    int status = take_scheduled(self, function, given, &call, &closure);
    if (status < 0) {
        return status;
    }

    closure->tag = tag;
    /* Results that nobody takes are not sent back by the worker. */
    closure->wants_results = future != NULL;
    cadre_gate_lock(self->gate);
    status = put_new(self, closure, &call, cadre_gate_deadline_ms(timeout_ms));
    if (status < 0) {
        /* Under the lock: the closure shares results with futures. */
        cadre_closure_destroy(&closure);
    } else if (future) {
        *future = cadre_future_new(self, closure);
    }

    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* --- one closure for each worker --- */

/* Under the lock: waits until there is a worker, and gives the indexes of all workers that take new
 * closures. */
static int
await_workers(cadre_coordinator_t *self, int64_t deadline_ms, cadre_each_t *each)
{
    const cadre_membership_t *members = &self->core.membership;
    int64_t since_ms = 0;
    while (each->count == 0) {
        each->workers =
            cadre_realloc(each->workers, members->worker_capacity + 1, sizeof(*each->workers));
        for (uint32_t i = 0; i < members->worker_capacity; i++) {
            if (members->workers[i] && !members->workers[i]->draining) {
                each->workers[each->count++] = i;
            }
        }

        int status = each->count > 0 ? 0
                                     : cadre_coordinator_wait_while_usable(
                                           self, deadline_ms, "a worker to join", &since_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Under the lock: puts a closure for each of these workers into the queue. Waits for room for the
 * first alone and then puts all, so that the call has all its closures or none. Takes `closure`,
 * which becomes that of the first worker; the others are copies. */
static int
put_on_each(cadre_coordinator_t *self, cadre_closure_t *closure, const cadre_call_t *call,
            int64_t deadline_ms, const cadre_each_t *each)
{
    closure->tag = each->workers[0];
    int status = put_new(self, closure, call, deadline_ms);
    if (status < 0) {
        cadre_closure_destroy(&closure);
        return status;
    }

    for (size_t i = 0; i < each->count; i++) {
        cadre_closure_t *of_worker = i == 0 ? closure : cadre_closure_copy(closure);
        if (i > 0) {
            of_worker->tag = each->workers[i];
            status = add_futures(self, of_worker, call);
            cadre_assert(status == 0); /* the futures were checked for the first closure */
            cadre_closure_queue_put_beside(&self->core.queue, of_worker);
            cadre_core_note_scheduled(&self->core);
        }
        if (each->futures) {
            each->futures[i] = cadre_future_new(self, of_worker);
        }
    }
    return 0;
}

/* Under the lock: schedules copies of the closure (takes it) on all workers that there are now.
 * Gives workers and futures where the caller wants them (`out`). */
static int
schedule_on_each(cadre_coordinator_t *self, cadre_closure_t *closure, const cadre_call_t *call,
                 int64_t deadline_ms, cadre_each_t *out)
{
    cadre_each_t each = {.count = 0};
    int status = await_workers(self, deadline_ms, &each);
    if (status < 0) {
        cadre_closure_destroy(&closure);
        free(each.workers);
        return status;
    }

    each.futures = out ? cadre_calloc(each.count, sizeof(*each.futures)) : NULL;
    status = put_on_each(self, closure, call, deadline_ms, &each);
    if (status < 0 || !out) {
        free(each.workers);
        free(each.futures);
        return status;
    }

    *out = each;
    return 0;
}

/* Schedules a call on each worker that is there. A sequence number is refused: it stands for one
 * closure. */
int
cadre_coordinator_schedule_on_each(cadre_coordinator_t *self, const cadre_function_t *function,
                                   const cadre_call_t *given, int64_t timeout_ms, cadre_each_t *out)
{
    cadre_closure_t *closure = NULL;
    cadre_call_t call;
    int status = take_scheduled(self, function, given, &call, &closure);
    if (status < 0) {
        return status;
    }
    if (call.sequence > 0) {
        cadre_closure_destroy(&closure);
        return cadre_fail(CADRE_EINVALID, "sequence number %" PRIu64 ": it is of one closure",
                          call.sequence);
    }

    closure->wants_results = out != NULL;
    cadre_gate_lock(self->gate);
    status = schedule_on_each(self, closure, &call, cadre_gate_deadline_ms(timeout_ms), out);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}

/* Frees what cadre_coordinator_schedule_on_each gave; the closures go on. */
void
cadre_each_fini(cadre_each_t *self)
{
    if (!self) {
        return;
    }
    for (size_t i = 0; i < self->count; i++) {
        cadre_future_destroy(&self->futures[i]);
    }
    free(self->futures);
    free(self->workers);
    *self = (cadre_each_t){.count = 0};
}

/* --- one closure --- */

int
cadre_coordinator_schedule(cadre_coordinator_t *self, const cadre_function_t *function,
                           const cadre_call_t *call, int64_t timeout_ms, cadre_future_t **future)
{
    return schedule(self, CADRE_TAG_NONE, function, call, timeout_ms, future);
}

/* Schedules a call on the worker with this index alone. */
int
cadre_coordinator_schedule_on(cadre_coordinator_t *self, uint32_t worker,
                              const cadre_function_t *function, const cadre_call_t *call,
                              int64_t timeout_ms, cadre_future_t **future)
{
    if (worker >= CADRE_TASKS_MAX) {
        return cadre_fail(CADRE_EINVALID, "worker %" PRIu32 " is not in 0..%d", worker,
                          CADRE_TASKS_MAX - 1);
    }
    return schedule(self, worker, function, call, timeout_ms, future);
}

/* Under the lock: returns whether every closure has ended and the shards have all updates of those
 * that ended well. */
static bool
is_done(const cadre_coordinator_t *self)
{
    return cadre_closure_queue_done(&self->core.queue) &&
           cadre_recovery_is_settled(&self->core.recovery);
}

/* A call that waits for the closures scheduled before it. */
typedef struct {
    const cadre_coordinator_t *coordinator;
    uint64_t barrier; /* behind those closures */
} joined_t;

/* Under the lock: returns whether the closures of the call have ended and the shards have their
 * updates. */
static bool
have_ended(const joined_t *self)
{
    const cadre_core_t *core = &self->coordinator->core;
    return cadre_closure_queue_passed(&core->queue, self->barrier) &&
           cadre_recovery_is_settled(&core->recovery);
}

/* Under the lock: returns whether these closures have ended, or never will. */
static bool
is_over(const void *context)
{
    const joined_t *self = context;
    return self->coordinator->core.fatal < 0 || have_ended(self);
}

/* Under the lock: waits until all closures that were scheduled before have ended and the shards
 * have their updates (docs/protocol.md, I2). Then raises the pending error, once the closures that
 * it cancelled have ended too. The barrier stands between closures put into the queue before and
 * after it. */
static int
join(cadre_coordinator_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    const joined_t joined = {self, cadre_closure_queue_set_barrier(&self->core.queue)};
    while (!have_ended(&joined)) {
        cadre_gate_question_t question = {.is_over = is_over, .context = &joined};
        int status = cadre_coordinator_usable(self);
        if (status == 0) {
            status = cadre_coordinator_wait_until(self, deadline_ms, "closures to end", &since_ms,
                                                  &question);
        }
        if (status < 0) {
            return cadre_coordinator_fail_unended(self, &(cadre_waited_t){.group = NULL}, status);
        }
    }

    int status = raise(self);
    while (status == CADRE_EAGAIN) {
        status = cadre_coordinator_wait(self, deadline_ms, "cancelled closures to end", &since_ms);
        if (status < 0) {
            return cadre_coordinator_fail_unended(self, &(cadre_waited_t){.group = NULL}, status);
        }
        status = raise(self);
    }

    return status;
}

/* Waits for all closures scheduled so far, and raises their first error. The synchronous step that
 * is being filled ends with the closures it has: the caller schedules no more while it waits. */
int
cadre_coordinator_join(cadre_coordinator_t *self, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    cadre_coordinator_cut_step_short(self);
    int status = join(self, deadline_ms);
    cadre_gate_unlock(self->gate);
    return status;
}

/* Under the lock: raises the pending error, or says in `done` whether everything is done. An error
 * that cannot be raised yet, since closures that it cancelled are in flight (CADRE_EAGAIN), means:
 * not done. */
static int
look_whether_done(cadre_coordinator_t *self, bool *done)
{
    int status = cadre_coordinator_usable(self);
    if (status < 0) {
        return status;
    }

    status = raise(self);
    if (status < 0 && status != CADRE_EAGAIN) {
        return status;
    }
    if (done) {
        *done = status == 0 && is_done(self);
    }

    return 0;
}

/* Says whether every closure has ended, without waiting. */
int
cadre_coordinator_is_done(cadre_coordinator_t *self, bool *done)
{
    cadre_gate_lock(self->gate);
    int status = look_whether_done(self, done);
    cadre_gate_unlock(self->gate);
    return status;
}

/* Under the lock: cancels all closures, tells futures of those that were queued, and waits until
 * those in flight have ended. */
static int
cancel(cadre_coordinator_t *self, int64_t deadline_ms)
{
    int64_t since_ms = 0;
    cadre_core_cancel(&self->core);
    cadre_coordinator_tell_ended(self);
    uint64_t barrier = cadre_closure_queue_set_barrier(&self->core.queue);
    cadre_gate_broadcast(self->gate);
    while (!cadre_closure_queue_passed(&self->core.queue, barrier)) {
        int status = cadre_coordinator_wait_while_usable(self, deadline_ms,
                                                         "cancelled closures to end", &since_ms);
        if (status < 0) {
            return cadre_coordinator_fail_unended(self, &(cadre_waited_t){.group = NULL}, status);
        }
    }

    return 0;
}

/* Cancels all closures, and waits until none runs any more. */
int
cadre_coordinator_cancel(cadre_coordinator_t *self, int64_t timeout_ms)
{
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    cadre_gate_lock(self->gate);
    int status = cancel(self, deadline_ms);
    cadre_gate_unlock_and_wake(self->gate);
    return status;
}
