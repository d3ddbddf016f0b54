/* The public calls that schedule closures of a client, and wait for them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/wire/tensor_list.h"
#include "coordinator/client/calls.h"
#include "coordinator/options.h"

enum { EVALUATE_BATCHES = 16 }; /* batches of an evaluation that are under way at a time */

struct cadre_client_closure {
    cadre_client_t *client;
    cadre_client_request_t request;
};

/* --- scheduling --- */

/* Copies and checks the call that the caller gave. */
static int
take_call(const char *function, const cadre_client_call_t *given, cadre_client_call_t *call)
{
    *call = cadre_client_call();
    int status = given ? cadre_options_take(given, call, sizeof(*call), "cadre_client_call_t") : 0;
    if (status < 0) {
        return status;
    }

    if (!function || !function[0] || strlen(function) > CADRE_NAME_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "the name of a function has 1 to %d characters",
                          CADRE_NAME_SIZE_MAX);
    }
    if (call->dataset && strlen(call->dataset) > CADRE_NAME_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "the name of a dataset has 1 to %d characters",
                          CADRE_NAME_SIZE_MAX);
    }
    if (call->first < 0 || call->count < 0 || call->deadline_ms < 0) {
        return cadre_fail(CADRE_EINVALID, "first, count or deadline_ms is below 0");
    }
    if (call->steps > CADRE_STEPS_MAX || call->tensor_count > CADRE_ARGUMENTS_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%u steps, %zu tensors: %d and %d are the most",
                          call->steps, call->tensor_count, CADRE_STEPS_MAX, CADRE_ARGUMENTS_MAX);
    }
    if (call->tensor_count > 0 && !call->tensors) {
        return cadre_fail(CADRE_EINVALID, "%zu tensors in NULL", call->tensor_count);
    }
    return 0;
}

/* Encodes the tensors of the call into `list`, with their names. */
static int
take_tensors(const cadre_client_call_t *call, const char **names, cadre_tensor_list_t *list)
{
    cadre_tensor_t tensors[CADRE_ARGUMENTS_MAX];
    for (size_t i = 0; i < call->tensor_count; i++) {
        const cadre_client_argument_t *argument = &call->tensors[i];
        if (!argument->name || strlen(argument->name) > CADRE_NAME_SIZE_MAX || !argument->tensor) {
            return cadre_fail(CADRE_EINVALID, "argument %zu has no name, a long one, or no tensor",
                              i);
        }
        names[i] = argument->name;
        tensors[i] = *argument->tensor;
    }
    return cadre_tensor_list_encode(tensors, call->tensor_count, CADRE_CLIENT_ARGUMENTS_SIZE_MAX,
                                    list);
}

/* Under the lock: sends SCHEDULE; takes the tensors of `list` into the message. */
static int
ask(cadre_client_t *self, const char *function, const cadre_client_call_t *call,
    const char *const *names, const cadre_tensor_list_t *list, cadre_client_request_t *request)
{
    cadre_message_t message = {.type = CADRE_MESSAGE_SCHEDULE,
                               .schedule = {.function = function,
                                            .dataset = call->dataset,
                                            .first = (uint64_t)call->first,
                                            .count = (uint64_t)call->count,
                                            .names = {names, call->tensor_count},
                                            .tensors = cadre_tensor_list_items(list),
                                            .steps = call->steps,
                                            .deadline_ms = (uint64_t)call->deadline_ms}};
    cadre_tensor_list_add_chunks(list, &message);
    int status = cadre_attachment_ask(&self->attachment, &message, request);
    cadre_message_fini(&message); /* drops the chunks where they were not taken */
    return status;
}

int
cadre_client_schedule(cadre_client_t *self, const char *function, const cadre_client_call_t *given,
                      cadre_client_closure_t **out)
{
    cadre_auto(cadre_tensor_list_fini) cadre_tensor_list_t list = {.count = 0};
    const char *names[CADRE_ARGUMENTS_MAX];
    cadre_client_call_t call;
    int status = take_call(function, given, &call);
    if (status < 0) {
        return status;
    }
    if (!out) {
        return cadre_fail(CADRE_EINVALID, "there is nowhere to put the closure: NULL");
    }

    status = take_tensors(&call, names, &list);
    if (status < 0) {
        return status;
    }

    cadre_client_closure_t *closure = cadre_calloc(1, sizeof(*closure));
    closure->client = self;
    cadre_gate_lock(self->gate);
    status = ask(self, function, &call, names, &list, &closure->request);
    cadre_gate_unlock_and_wake(self->gate);
    if (status < 0) {
        free(closure);
        return status;
    }

    *out = closure;
    return 0;
}

/* --- the end --- */

/* Under the lock: waits for the end of the closure. */
static int
wait_locked(cadre_client_closure_t *self, int64_t deadline_ms)
{
    int status = cadre_client_await(self->client, &self->request, deadline_ms, "a closure");
    if (status < 0) {
        return status;
    }

    const cadre_message_t *answer = &self->request.answer;
    if (answer->type != CADRE_MESSAGE_RESULT) {
        return cadre_fail(CADRE_EMALFORMED, "a closure: the coordinator answered something else");
    }
    return answer->result.status == 0
               ? 0
               : cadre_fail(-(int)answer->result.status, "%s", answer->result.text);
}

int
cadre_client_closure_wait(cadre_client_closure_t *self, int64_t timeout_ms)
{
    cadre_gate_lock(self->client->gate);
    int status = wait_locked(self, cadre_gate_deadline_ms(timeout_ms));
    cadre_gate_unlock(self->client->gate);
    return status;
}

/* Decodes the result `name` of a closure that has ended well. */
static int
decode_result(const cadre_message_t *message, const char *name, cadre_tensor_t *value)
{
    const cadre_result_message_t *result = &message->result;
    cadre_tensor_t *tensors = NULL;
    size_t count = 0;
    size_t index = 0;
    while (index < result->names.count && name && strcmp(result->names.items[index], name) != 0) {
        index++;
    }
    if (index == result->names.count) {
        return cadre_fail(CADRE_ENOTFOUND, "closure %" PRIu64 " has no result called %s",
                          result->closure, name ? name : "anything");
    }

    int status =
        cadre_tensor_list_decode(result->tensors, message, CADRE_RESULT_SIZE_MAX, &tensors, &count);
    if (status == 0 && index >= count) {
        status = cadre_fail(CADRE_EMALFORMED, "RESULT: %zu names of %zu tensors",
                            result->names.count, count);
    }
    if (status == 0 && value) {
        cadre_tensor_fini(value);
        *value = tensors[index];
        tensors[index] = (cadre_tensor_t){0};
    }
    cadre_tensors_fini(&tensors, count);
    return status;
}

int
cadre_client_closure_fetch(cadre_client_closure_t *self, const char *name, cadre_tensor_t *value,
                           int64_t timeout_ms)
{
    int status = cadre_client_closure_wait(self, timeout_ms);
    /* an answer never changes: no lock */
    return status < 0 ? status : decode_result(&self->request.answer, name, value);
}

void
cadre_client_closure_destroy(cadre_client_closure_t **self_p)
{
    cadre_client_closure_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    cadre_gate_lock(self->client->gate);
    cadre_attachment_forget(&self->client->attachment, &self->request);
    cadre_gate_unlock(self->client->gate);
    free(self);
}

/* --- evaluation --- */

/* An evaluation: what it calls, and its batches, of which those under way are a ring. */
typedef struct {
    cadre_client_evaluation_t what;
    int64_t dataset_rows;
    int64_t deadline_ms;
    cadre_client_closure_t *closures[EVALUATE_BATCHES];
    int64_t rows[EVALUATE_BATCHES];
    size_t begun;
    size_t ended;
    double sum; /* of the result times the rows of its batch */
} evaluation_t;

/* What looks for a dataset by its name. */
typedef struct {
    const char *name;
    int64_t rows; /* -1: it was not found */
} dataset_t;

static void
take_dataset(void *context, const char *name, const uint64_t *item)
{
    dataset_t *self = context;
    if (strcmp(name, self->name) == 0) {
        self->rows = (int64_t)item[1];
    }
}

/* Finds out how many rows a dataset of the job has. */
static int
count_rows(cadre_client_t *self, const char *name, int64_t deadline_ms, int64_t *rows)
{
    dataset_t dataset = {.name = name, .rows = -1};
    const cadre_client_listing_t listing = {
        .kind = CADRE_LISTED_DATASETS, .take = take_dataset, .context = &dataset};
    cadre_gate_lock(self->gate);
    int status = cadre_client_list(self, &listing, deadline_ms);
    cadre_gate_unlock_and_wake(self->gate);
    if (status < 0) {
        return status;
    }

    *rows = dataset.rows;
    return dataset.rows >= 0 ? 0 : cadre_fail(CADRE_ENOTFOUND, "the job has no dataset %s", name);
}

/* Returns how much time is left until the deadline, as a timeout. */
static int64_t
left_ms(int64_t deadline_ms)
{
    int64_t now_ms = cadre_gate_deadline_ms(0);
    if (deadline_ms == INT64_MAX) {
        return -1;
    }
    return deadline_ms > now_ms ? deadline_ms - now_ms : 0;
}

/* Waits for the oldest batch under way, and adds its result. */
static int
add_oldest(evaluation_t *self)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t value = {0};
    double number = 0;
    size_t at = self->ended++ % EVALUATE_BATCHES;
    int status = cadre_client_closure_fetch(self->closures[at], self->what.result, &value,
                                            left_ms(self->deadline_ms));
    cadre_client_closure_destroy(&self->closures[at]);
    if (status < 0) {
        return status;
    }

    status = cadre_tensor_number(&value, &number);
    self->sum += number * (double)self->rows[at];
    return status;
}

/* Schedules the batch that begins at row `first`, once fewer than EVALUATE_BATCHES are under
 * way. */
static int
begin_batch(cadre_client_t *client, evaluation_t *self, int64_t first)
{
    int64_t left = self->dataset_rows - first;
    size_t at = self->begun % EVALUATE_BATCHES;
    cadre_client_call_t call = cadre_client_call();
    call.dataset = self->what.dataset;
    call.first = first;
    call.count = left < self->what.batch_size ? left : self->what.batch_size;
    if (self->begun - self->ended == EVALUATE_BATCHES) {
        int status = add_oldest(self);
        if (status < 0) {
            return status;
        }
    }

    int status = cadre_client_schedule(client, self->what.function, &call, &self->closures[at]);
    if (status < 0) {
        return status;
    }

    self->rows[at] = call.count;
    self->begun++;
    return 0;
}

/* Runs all batches and adds up their results. Stops at the first that fails; those that were begun
 * behind it end by themselves. */
static int
run_batches(cadre_client_t *client, evaluation_t *self)
{
    int status = 0;
    int64_t first = 0;
    while (status == 0 && first < self->dataset_rows) {
        status = begin_batch(client, self, first);
        first += cadre_min_i64(self->what.batch_size, self->dataset_rows - first);
    }
    while (status == 0 && self->ended < self->begun) {
        status = add_oldest(self);
    }
    return status;
}

int
cadre_client_evaluate(cadre_client_t *self, const cadre_client_evaluation_t *what,
                      int64_t timeout_ms, double *mean)
{
    if (!what || !what->dataset || what->batch_size < 1) {
        return cadre_fail(CADRE_EINVALID, "there is no dataset, or the batch size is below 1");
    }

    evaluation_t evaluation = {.what = *what, .deadline_ms = cadre_gate_deadline_ms(timeout_ms)};
    int status = count_rows(self, what->dataset, evaluation.deadline_ms, &evaluation.dataset_rows);
    if (status < 0) {
        return status;
    }

    status = run_batches(self, &evaluation);
    for (size_t i = 0; i < EVALUATE_BATCHES; i++) {
        cadre_client_closure_destroy(&evaluation.closures[i]);
    }
    if (status < 0) {
        return status;
    }

    if (mean && evaluation.dataset_rows > 0) {
        *mean = evaluation.sum / (double)evaluation.dataset_rows;
    }
    return 0;
}
