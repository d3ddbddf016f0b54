#include "worker/slot/invocation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/system/clock.h"
#include "worker/slot/gradient_buffer.h"
#include "worker/slot/row_access.h"
#include "worker/slot/value_buffer.h"

typedef struct {
    const cadre_variable_entry_t *variable;
    cadre_value_buffer_t buffer;
    cadre_tensor_t tensor; /* a view of the buffer */
} pulled_t;

struct cadre_slot_state {
    struct cadre_slot_state *next;
    const cadre_native_entry_t *entry;
    void *state;
    cadre_destructor_t destructor;
};

struct cadre_invocation {
    cadre_slot_link_t *link;
    cadre_slot_t *slot;
    cadre_slot_states_t *states;
    const cadre_native_entry_t *entry;
    cadre_work_t *work;
    cadre_tensor_t *tensors; /* the closure's arguments, in the order of its names */
    size_t tensor_count;
    pulled_t **pulled;
    size_t pulled_count;
    cadre_tensor_t **row_tensors; /* rows that were pulled */
    size_t row_tensor_count;
    cadre_gradient_t *gradients;   /* of this step */
    cadre_row_access_t **accesses; /* of each gradient of rows what lists them; else NULL */
    size_t gradient_count;
    char *result_names[CADRE_RESULTS_MAX];
    cadre_tensor_t results[CADRE_RESULTS_MAX];
    size_t result_count;
    char reason[CADRE_TEXT_SIZE_MAX + 1]; /* cadre_invocation_fail */
    /* Status of the last call that failed; its text becomes the closure's if the function returns
     * it. */
    int noted;
    char noted_text[CADRE_TEXT_SIZE_MAX + 1];
};

/* Remembers the status and error text of a failed call; returns the status. The text becomes the
 * closure's if the function returns this status. */
static int
note(cadre_invocation_t *self, int status)
{
    if (status < 0) {
        self->noted = status;
        cadre_utf8_clean(cadre_error_text(), CADRE_TEXT_SIZE_MAX, self->noted_text);
    }
    return status;
}

/* --- arguments, variables and other inputs --- */

const cadre_tensor_t *
cadre_invocation_argument(cadre_invocation_t *self, const char *name)
{
    return name ? cadre_work_argument(self->work, self->tensors, name) : NULL;
}

/* Returns where this invocation keeps the pulled variable; made at the first pull, so that a second
 * one gives the same tensor. */
static pulled_t *
pulled_of(cadre_invocation_t *self, const cadre_variable_entry_t *variable)
{
    for (size_t i = 0; i < self->pulled_count; i++) {
        if (self->pulled[i]->variable == variable) {
            return self->pulled[i];
        }
    }

    pulled_t *pulled = cadre_calloc(1, sizeof(*pulled));
    pulled->variable = variable;
    pulled->tensor.dtype = variable->dtype;
    pulled->tensor.rank = variable->rank;
    memcpy(pulled->tensor.shape, variable->shape, sizeof(pulled->tensor.shape));
    self->pulled = cadre_realloc((void *)self->pulled, self->pulled_count + 1, sizeof(pulled));
    self->pulled[self->pulled_count++] = pulled;
    return pulled;
}

/* Pulls the whole of a variable; waits for the network. The tensor belongs to the invocation. */
int
cadre_invocation_pull(cadre_invocation_t *self, const char *variable, const cadre_tensor_t **value)
{
    if (!variable || !value) {
        return cadre_fail(CADRE_EINVALID, "pull: no variable or no room for its value");
    }

    const cadre_variable_entry_t *entry = NULL;
    cadre_value_t *values = NULL;
    int status = cadre_slot_link_resolve(self->link, variable, &entry);
    if (status < 0) {
        return note(self, status);
    }

    const cadre_wanted_t whole = {.variable = entry};
    status = cadre_slot_link_pull(self->link, &whole, 1, &values);
    if (status < 0) {
        return note(self, status);
    }

    pulled_t *pulled = pulled_of(self, entry);
    const void *data = cadre_value_buffer_put(&pulled->buffer, &values[0]);
    pulled->tensor.data = (void *)(uintptr_t)data; /* the tensor is const for the function */
    cadre_values_fini(&values, 1);
    *value = &pulled->tensor;
    return 0;
}

/* Writes the shape that so many rows of a variable have; returns its rank. That of a table is one
 * row's. */
static int
rows_shape(const cadre_variable_entry_t *entry, int64_t rows, int64_t shape[CADRE_RANK_MAX])
{
    memcpy(shape, entry->shape, sizeof(entry->shape));
    if (entry->is_table) {
        shape[1] = entry->shape[0];
    }
    if (entry->rank > 0) {
        shape[0] = rows;
    }
    return entry->is_table ? 2 : entry->rank;
}

/* Pulls the listed rows into one piece of memory, and copies them to a tensor of the invocation in
 * the order in which they were asked for. */
static int
pull_rows(cadre_invocation_t *self, const cadre_variable_entry_t *entry,
          const cadre_row_access_t *access, const cadre_tensor_t **rows)
{
    const cadre_wanted_t wanted = {.variable = entry, .rows = &access->rows};
    cadre_value_t *values = NULL;
    int status = cadre_slot_link_pull(self->link, &wanted, 1, &values);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_value_buffer_fini) cadre_value_buffer_t buffer = {0};
    cadre_tensor_t *tensor = cadre_calloc(1, sizeof(*tensor));
    int64_t shape[CADRE_RANK_MAX];
    const int rank = rows_shape(entry, (int64_t)access->list.position_count, shape);
    status = cadre_tensor_init(tensor, entry->dtype, shape, rank);
    if (status == 0) {
        const void *data =
            cadre_value_buffer_put_rows(&buffer, &values[0], access->rows.count, false);
        cadre_row_access_gather(access, entry->row_size_bytes, data, tensor->data);
    }
    cadre_values_fini(&values, 1);
    if (status < 0) {
        free(tensor);
        return status;
    }

    self->row_tensors = cadre_realloc((void *)self->row_tensors, self->row_tensor_count + 1,
                                      sizeof(*self->row_tensors));
    self->row_tensors[self->row_tensor_count++] = tensor;
    *rows = tensor;
    return 0;
}

/* Pulls rows of a variable; waits for the network. */
int
cadre_invocation_pull_rows(cadre_invocation_t *self, const char *variable, const int64_t *ids,
                           int64_t count, const cadre_tensor_t **rows)
{
    if (!variable || !rows) {
        return cadre_fail(CADRE_EINVALID, "pull: no variable or no room for its rows");
    }

    const cadre_variable_entry_t *entry = NULL;
    int status = cadre_slot_link_resolve(self->link, variable, &entry);
    if (status < 0) {
        return note(self, status);
    }
    cadre_auto(cadre_row_access_fini) cadre_row_access_t access = {.rows = {.count = 0}};
    status = cadre_row_access_init(&access, entry, ids, count);
    return note(self, status < 0 ? status : pull_rows(self, entry, &access, rows));
}

bool
cadre_invocation_is_cancelled(cadre_invocation_t *self)
{
    return cadre_closure_call_is_cancelled(self->work->call);
}

uint64_t
cadre_invocation_closure_id(const cadre_invocation_t *self)
{
    return cadre_closure_call_id(self->work->call);
}

uint64_t
cadre_invocation_seed(const cadre_invocation_t *self)
{
    return self->work->call->message.closure.seed;
}

uint32_t
cadre_invocation_worker_index(const cadre_invocation_t *self)
{
    return self->work->worker_index;
}

/* Returns how many places of workers the job has, by what the coordinator said when it handed the
 * closure out; at least enough that this worker has one of them. */
uint32_t
cadre_invocation_worker_count(const cadre_invocation_t *self)
{
    uint32_t index = self->work->worker_index;
    uint32_t count = (uint32_t)self->work->call->message.closure.workers;
    return count > index ? count : index + 1;
}

void *
cadre_invocation_stream(cadre_invocation_t *self)
{
    return cadre_slot_stream(self->slot);
}

/* --- resources and state that stay on a worker --- */

/* Keeps `pointer` as what the resource that is being built is on this worker; the worker destroys
 * it with `destructor`. */
int
cadre_invocation_set_resource(cadre_invocation_t *self, void *pointer,
                              cadre_destructor_t destructor)
{
    cadre_work_t *work = self->work;
    if (!work->call->builds) {
        return note(self, cadre_fail(CADRE_ESTATE, "a closure puts no resource: only a function "
                                                   "that builds one does"));
    }

    if (!work->holding) {
        work->holding = cadre_holding_new(work->call->builds->message.resource.name);
    }

    cadre_holding_put(work->holding, pointer, destructor);
    return 0;
}

void *
cadre_invocation_resource(cadre_invocation_t *self, const char *name)
{
    const cadre_holding_t *holding =
        name ? cadre_closure_call_holding(self->work->call, name) : NULL;
    return holding ? holding->pointer : NULL;
}

/* Returns the state that this native function keeps on this slot, or NULL. */
static struct cadre_slot_state *
find_slot_state(const cadre_invocation_t *self)
{
    struct cadre_slot_state *state = self->states->first;
    while (state && state->entry != self->entry) {
        state = state->next;
    }
    return state;
}

void *
cadre_invocation_slot_state(const cadre_invocation_t *self)
{
    const struct cadre_slot_state *state = find_slot_state(self);
    return state ? state->state : NULL;
}

/* Sets the state that this native function keeps on this slot from call to call. A state that was
 * set before is not destroyed: the caller does that. */
void
cadre_invocation_set_slot_state(cadre_invocation_t *self, void *pointer,
                                cadre_destructor_t destructor)
{
    struct cadre_slot_state *state = find_slot_state(self);
    if (!state) {
        state = cadre_calloc(1, sizeof(*state));
        state->entry = self->entry;
        state->next = self->states->first;
        self->states->first = state;
    }
    state->state = pointer;
    state->destructor = destructor;
}

/* Destroys the states that native functions have kept on this slot. */
void
cadre_slot_states_fini(cadre_slot_states_t *self)
{
    while (self->first) {
        struct cadre_slot_state *state = self->first;
        self->first = state->next;
        if (state->destructor && state->state) {
            state->destructor(state->state);
        }
        free(state);
    }
}

/* --- pushes and results --- */

/* Fails unless the gradient has dtype and shape of its variable, but for `rows` rows, and is the
 * first for that variable in this step. */
static int
check_gradient(const cadre_invocation_t *self, const cadre_variable_entry_t *entry,
               const cadre_tensor_t *gradient, int64_t rows)
{
    int64_t shape[CADRE_RANK_MAX];
    const int rank = rows_shape(entry, rows, shape);
    if (gradient->dtype != entry->dtype) {
        return cadre_fail(CADRE_EDTYPE, "the gradient of %s is %s, the variable %s", entry->name,
                          cadre_dtype_text(gradient->dtype), cadre_dtype_text(entry->dtype));
    }

    if (gradient->rank < 0 || gradient->rank > CADRE_RANK_MAX ||
        !cadre_shape_equal(gradient->shape, gradient->rank, shape, rank)) {
        char text[CADRE_SHAPE_TEXT_SIZE];
        return cadre_fail(CADRE_ESHAPE, "the gradient of %s does not have its shape %s",
                          entry->name, cadre_shape_text(shape, rank, text));
    }

    for (size_t i = 0; i < self->gradient_count; i++) {
        if (self->gradients[i].variable == entry) {
            return cadre_fail(CADRE_EEXISTS, "two gradients of %s in one step", entry->name);
        }
    }

    return 0;
}

static void
destroy_access(cadre_row_access_t **access_p)
{
    if (*access_p) {
        cadre_row_access_fini(*access_p);
        cadre_free(access_p);
    }
}

/* Keeps a copy of a gradient until cadre_invocation_flush: a step is pushed whole, or not at all.
 * `access_p`, NULL for a whole variable, is taken. */
static int
add_gradient(cadre_invocation_t *self, const cadre_variable_entry_t *entry, const void *gradient,
             size_t rows, cadre_row_access_t **access_p)
{
    cadre_chunk_t *chunk = NULL;
    int status = cadre_gradient_new_chunk(entry, gradient, rows, &chunk);
    if (status < 0) { /* not finite: fails the closure, even if the function ignores the status */
        cadre_work_end(self->work, status, CADRE_FAILURE_USER, cadre_error_text());
        return status;
    }

    const size_t count = self->gradient_count + 1;
    self->gradients = cadre_realloc(self->gradients, count, sizeof(*self->gradients));
    self->accesses = cadre_realloc((void *)self->accesses, count, sizeof(*self->accesses));
    cadre_row_access_t *access = access_p ? *access_p : NULL;
    if (access_p) {
        *access_p = NULL;
    }
    self->gradients[self->gradient_count] = (cadre_gradient_t){
        .variable = entry, .gradient = chunk, .rows = access ? &access->rows : NULL};
    self->accesses[self->gradient_count++] = access;
    return 0;
}

/* Adds a gradient of a variable to the update of this step; it is copied. */
int
cadre_invocation_push(cadre_invocation_t *self, const char *variable,
                      const cadre_tensor_t *gradient)
{
    if (!variable || !gradient || !gradient->data) {
        return cadre_fail(CADRE_EINVALID, "push: no variable or no gradient");
    }

    const cadre_variable_entry_t *entry = NULL;
    int status = cadre_slot_link_resolve(self->link, variable, &entry);
    if (status < 0) {
        return note(self, status);
    }

    status = entry->is_table
                 ? cadre_fail(CADRE_EINVALID, "%s is a table, and is pushed by rows only", variable)
                 : check_gradient(self, entry, gradient, entry->rows);
    return status < 0 ? note(self, status)
                      : add_gradient(self, entry, gradient->data, (size_t)entry->rows, NULL);
}

/* Returns what lists the rows of a gradient, which the step keeps; fails as
 * cadre_row_access_init. */
static int
new_access(const cadre_variable_entry_t *entry, const int64_t *ids, int64_t count,
           cadre_row_access_t **out)
{
    cadre_row_access_t *access = cadre_calloc(1, sizeof(*access));
    int status = cadre_row_access_init(access, entry, ids, count);
    if (status < 0) {
        destroy_access(&access);
        return status;
    }
    if (entry->takes_rows) {
        cadre_row_access_cover(access, entry);
    }
    *out = access;
    return 0;
}

/* Adds gradients of rows of a variable to the update of this step; they are copied. */
int
cadre_invocation_push_rows(cadre_invocation_t *self, const char *variable, const int64_t *ids,
                           int64_t count, const cadre_tensor_t *gradients)
{
    if (!variable || !gradients || !gradients->data) {
        return cadre_fail(CADRE_EINVALID, "push: no variable or no gradients");
    }

    const cadre_variable_entry_t *entry = NULL;
    cadre_auto(destroy_access) cadre_row_access_t *access = NULL;
    int status = cadre_slot_link_resolve(self->link, variable, &entry);
    status = status < 0 ? status : new_access(entry, ids, count, &access);
    status = status < 0 ? status : check_gradient(self, entry, gradients, count);
    if (status == 0 && entry->dtype != CADRE_F32) {
        status = cadre_fail(CADRE_EDTYPE, "gradients of rows are f32, %s is %s", entry->name,
                            cadre_dtype_text(entry->dtype));
    }
    if (status < 0) {
        return note(self, status);
    }

    const bool is_whole = !entry->takes_rows;
    cadre_auto(cadre_free) float *sums =
        cadre_row_access_sum(access, entry, gradients->data, is_whole);
    if (is_whole) {
        return add_gradient(self, entry, sums, (size_t)entry->rows, NULL);
    }
    return add_gradient(self, entry, sums, access->rows.count, &access);
}

/* Writes `number` in the dtype of a variable; returns its size, 0 if that dtype cannot hold it. */
static size_t
write_number(cadre_dtype_t dtype, double number, void *out)
{
    float rounded = (float)number;
    /* A number that is out of range must not be converted: it becomes 0, and is then refused. */
    int64_t whole = number > -0x1p62 && number < 0x1p62 ? (int64_t)number : 0;
    int32_t small = whole >= INT32_MIN && whole <= INT32_MAX ? (int32_t)whole : 0;
    switch (dtype) {
    case CADRE_F32:
        memcpy(out, &rounded, sizeof(rounded));
        return sizeof(rounded);
    case CADRE_F64:
        memcpy(out, &number, sizeof(number));
        return sizeof(number);
    case CADRE_I32:
        memcpy(out, &small, sizeof(small));
        return (double)small == number ? sizeof(small) : 0;
    case CADRE_I64:
        memcpy(out, &whole, sizeof(whole));
        return (double)whole == number ? sizeof(whole) : 0;
    case CADRE_U64:
    case CADRE_U8:
    case CADRE_BF16:
        break; /* no variable has such a type */
    }
    return 0;
}

/* Adds a number as the gradient of a scalar variable, in the variable's dtype; fails when that
 * cannot hold it. */
int
cadre_invocation_push_number(cadre_invocation_t *self, const char *variable, double number)
{
    int64_t bytes = 0; /* room for a number of any dtype */
    const cadre_variable_entry_t *entry = NULL;
    if (!variable) {
        return cadre_fail(CADRE_EINVALID, "push: no variable");
    }
    int status = cadre_slot_link_resolve(self->link, variable, &entry);
    if (status < 0) {
        return note(self, status);
    }
    if (write_number(entry->dtype, number, &bytes) == 0) {
        return note(self, cadre_fail(CADRE_EINVALID, "push: %s, which is %s, cannot hold %g",
                                     entry->name, cadre_dtype_text(entry->dtype), number));
    }
    const cadre_tensor_t gradient = cadre_tensor_view(entry->dtype, &bytes, NULL, 0);
    return cadre_invocation_push(self, variable, &gradient);
}

static void
drop_gradients(cadre_invocation_t *self)
{
    for (size_t i = 0; i < self->gradient_count; i++) {
        cadre_chunk_unref(&self->gradients[i].gradient);
        destroy_access(&self->accesses[i]);
    }
    self->gradient_count = 0;
}

/* Sends the gradients of this step and waits until every shard has answered; then the next step
 * begins. */
int
cadre_invocation_flush(cadre_invocation_t *self)
{
    if (self->work->status < 0) { /* a gradient of this step may be missing */
        drop_gradients(self);
        return self->work->status;
    }
    int status = cadre_slot_link_push(self->link, self->gradients, self->gradient_count);
    drop_gradients(self);
    return status;
}

/* Fails unless the name is valid and the value is a tensor that is not too large. */
static int
check_result(const char *name, const cadre_tensor_t *value)
{
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > CADRE_NAME_SIZE_MAX || !cadre_utf8_valid(name, length)) {
        return cadre_fail(CADRE_EINVALID, "a result's name is 1 to %d characters",
                          CADRE_NAME_SIZE_MAX);
    }

    size_t size_bytes = 0;
    int status = value
                     ? cadre_shape_size(value->dtype, value->shape, value->rank, NULL, &size_bytes)
                     : CADRE_EINVALID;
    if (status < 0 || (size_bytes > 0 && !value->data)) {
        return cadre_fail(CADRE_EINVALID, "result %s is no tensor", name);
    }

    return size_bytes > CADRE_RESULT_SIZE_MAX
               ? cadre_fail(CADRE_ETOOLARGE, "result %s has %zu bytes, at most %d are taken", name,
                            size_bytes, CADRE_RESULT_SIZE_MAX)
               : 0;
}

/* Sets a named result of the closure; it is copied, or dropped when nobody wants results. */
int
cadre_invocation_set_result(cadre_invocation_t *self, const char *name, const cadre_tensor_t *value)
{
    int status = check_result(name, value);
    if (status < 0 || !cadre_work_wants_results(self->work)) {
        return note(self, status);
    }

    /* When a result is given twice, the second takes the place of the first. */
    size_t at = 0;
    while (at < self->result_count && strcmp(self->result_names[at], name) != 0) {
        at++;
    }

    if (at == CADRE_RESULTS_MAX) {
        return cadre_fail(CADRE_EFULL, "more than %d results", CADRE_RESULTS_MAX);
    }

    cadre_tensor_t copy = {0};
    status = cadre_tensor_init(&copy, value->dtype, value->shape, value->rank);
    if (status < 0) {
        return status;
    }
    if (cadre_tensor_size_bytes(&copy) > 0) {
        memcpy(copy.data, value->data, cadre_tensor_size_bytes(&copy));
    }
    if (at == self->result_count) {
        self->result_names[self->result_count++] = cadre_strdup(name);
    }

    cadre_tensor_fini(&self->results[at]);
    self->results[at] = copy;
    return 0;
}

/* Sets the error text of the closure and returns `status`, for the function to return. */
int
cadre_invocation_fail(cadre_invocation_t *self, int status, const char *format, ...)
{
    char text[CADRE_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    cadre_utf8_clean(text, CADRE_TEXT_SIZE_MAX, self->reason);
    return status;
}

/* --- running --- */

/* Frees what the invocation holds: arguments, pulled values, gradients and results. */
static void
fini(cadre_invocation_t *self)
{
    cadre_tensors_fini(&self->tensors, self->tensor_count);
    for (size_t i = 0; i < self->pulled_count; i++) {
        cadre_value_buffer_fini(&self->pulled[i]->buffer);
        free(self->pulled[i]);
    }

    for (size_t i = 0; i < self->row_tensor_count; i++) {
        cadre_tensor_fini(self->row_tensors[i]);
        free(self->row_tensors[i]);
    }

    free((void *)self->pulled);
    free((void *)self->row_tensors);
    drop_gradients(self);
    free(self->gradients);
    free((void *)self->accesses);
    for (size_t i = 0; i < self->result_count; i++) {
        free(self->result_names[i]);
        cadre_tensor_fini(&self->results[i]);
    }
}

/* Returns the text of the function's failure: what it said itself, else that of the last call that
 * failed with this status. */
static const char *
reason_for(const cadre_invocation_t *self, int status)
{
    if (*self->reason) {
        return self->reason;
    }

    return status == self->noted ? self->noted_text : cadre_status_text(status);
}

/* Ends the work with the status that the function returned: pushes the gradients of the last step,
 * and gives the results. If the work has failed already, in a pull or push, that status stays,
 * whatever the function returns: an update may be missing on a shard, or a value did not come for a
 * reason that is not the function's (slot_link.h). */
static void
conclude(cadre_invocation_t *self, int status)
{
    cadre_work_t *work = self->work;
    if (status < 0 || work->status < 0) {
        /* A number that no message can carry as a status. */
        status = status < -9999 ? CADRE_EFUNCTION : status;
        cadre_work_end(work, status, CADRE_FAILURE_USER, reason_for(self, status));
        return;
    }

    if (self->gradient_count > 0 && cadre_invocation_flush(self) < 0) {
        return;
    }

    /* Where results are wanted, an empty list of them is given, too. */
    status = self->result_count == 0 && !cadre_work_wants_results(work)
                 ? 0
                 : cadre_work_give_results(work, (const char *const *)self->result_names,
                                           self->results, self->result_count);
    if (status < 0) {
        cadre_work_end(work, status, CADRE_FAILURE_USER, cadre_error_text());
    }
}

/* Runs the closure that is the link's work, whose function is native, and puts the outcome into the
 * work. */
void
cadre_invocation_run(cadre_slot_link_t *link, const cadre_registry_t *registry, cadre_slot_t *slot,
                     cadre_slot_states_t *states)
{
    cadre_work_t *work = link->work;
    const cadre_native_entry_t *entry = cadre_registry_find(registry, work->call->function->name);

    cadre_assert(entry); /* the core hands back closures whose function is not in this worker */
    cadre_invocation_t self;
    /* Zeroes only what is read before it is written: names and texts make the struct large. */
    memset(&self, 0, offsetof(cadre_invocation_t, result_names));
    memset(self.results, 0, sizeof(self.results));
    self.result_count = 0;
    self.reason[0] = '\0';
    self.noted = 0;
    self.link = link;
    self.slot = slot;
    self.states = states;
    self.entry = entry;
    self.work = work;
    int status = cadre_closure_call_tensors(work->call, &self.tensors, &self.tensor_count);
    if (status < 0) {
        cadre_work_end(work, status, CADRE_FAILURE_USER, cadre_error_text());
        return;
    }

    int64_t begin_us = cadre_clock_now_us();
    cadre_slot_link_begin_native(link);
    status = entry->function(&self, entry->state);
    cadre_slot_link_end_native(link);
    work->compute_us = (uint64_t)(cadre_clock_now_us() - begin_us);
    conclude(&self, status);
    fini(&self);
}
