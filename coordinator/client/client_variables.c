/* The public calls of a client on the variables of its job. */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/split.h"
#include "coordinator/client/calls.h"

/* What cadre_client_variables collects, and one variable that is looked for by name. */
typedef struct {
    cadre_client_variable_t *variables;
    uint64_t *ids; /* [count] */
    size_t count;
} variables_t;

static void
variables_fini(variables_t *self)
{
    free(self->variables);
    free(self->ids);
}

/* Adds a variable of LISTED. What a coordinator says is not trusted with a rank or size. */
static void
take_variable(void *context, const char *name, const uint64_t *item)
{
    variables_t *self = context;
    if (item[4] > CADRE_RANK_MAX) {
        return;
    }

    cadre_client_variable_t variable = {.dtype = (cadre_dtype_t)item[1],
                                        .partitions = (uint32_t)item[2],
                                        .has_average = item[3] != 0,
                                        .rank = (int)item[4]};
    memcpy(variable.name, name, strnlen(name, sizeof(variable.name) - 1));
    for (int i = 0; i < variable.rank; i++) {
        variable.shape[i] = (int64_t)item[5 + i];
    }

    self->variables = cadre_realloc(self->variables, self->count + 1, sizeof(*self->variables));
    self->ids = cadre_realloc(self->ids, self->count + 1, sizeof(*self->ids));
    self->variables[self->count] = variable;
    self->ids[self->count++] = item[0];
}

/* Under the lock: lists all variables. */
static int
list_variables(cadre_client_t *self, int64_t deadline_ms, variables_t *all)
{
    const cadre_client_listing_t listing = {
        .kind = CADRE_LISTED_VARIABLES, .take = take_variable, .context = all};
    return cadre_client_list(self, &listing, deadline_ms);
}

int
cadre_client_variables(cadre_client_t *self, int64_t timeout_ms,
                       cadre_client_variable_t **variables, size_t *count)
{
    cadre_auto(variables_fini) variables_t all = {.count = 0};
    cadre_gate_lock(self->gate);
    int status = list_variables(self, cadre_gate_deadline_ms(timeout_ms), &all);
    cadre_gate_unlock_and_wake(self->gate);
    if (status < 0) {
        return status;
    }

    if (count) {
        *count = all.count;
    }
    if (variables) {
        *variables = all.variables;
        all.variables = NULL;
    }
    return 0;
}

/* Copies the payload of PART to its place in the value. */
static int
copy_part(const cadre_message_t *message, const cadre_client_variable_t *variable,
          uint32_t partition, cadre_tensor_t *value)
{
    int64_t rows = variable->rank > 0 ? variable->shape[0] : 1;
    size_t row_bytes = rows > 0 ? cadre_tensor_size_bytes(value) / (size_t)rows : 0;
    size_t at = row_bytes * (size_t)cadre_split_first(rows, variable->partitions, partition);
    size_t left = row_bytes * (size_t)cadre_split_rows(rows, variable->partitions, partition);
    for (size_t i = 0; i < message->chunk_count; i++) {
        size_t size_bytes = cadre_chunk_size_bytes(message->chunks[i]);
        if (size_bytes > left) {
            return cadre_fail(CADRE_EMALFORMED, "variable %s: a partition is too long",
                              variable->name);
        }
        memcpy((char *)value->data + at, cadre_chunk_data(message->chunks[i]), size_bytes);
        at += size_bytes;
        left -= size_bytes;
    }
    return left == 0 ? 0
                     : cadre_fail(CADRE_EMALFORMED, "variable %s: a partition is too short",
                                  variable->name);
}

/* A variable that is being read. */
typedef struct {
    const cadre_client_variable_t *variable;
    uint64_t id;
    bool average;
    int64_t deadline_ms;
    cadre_tensor_t *value;
} reading_t;

/* Under the lock: reads one partition into its place. */
static int
read_part(cadre_client_t *self, const reading_t *reading, uint32_t partition)
{
    cadre_client_request_t request = {.next = NULL};
    cadre_message_t message = {
        .type = CADRE_MESSAGE_READ,
        .read = {.variable = reading->id, .partition = partition, .average = reading->average}};
    int status =
        cadre_client_ask(self, &message, CADRE_MESSAGE_PART, reading->deadline_ms, &request);
    if (status == 0 && request.answer.part.status != 0) {
        status = cadre_fail(-(int)request.answer.part.status, "variable %s: %s",
                            reading->variable->name, request.answer.part.text);
    }
    if (status == 0) {
        status = copy_part(&request.answer, reading->variable, partition, reading->value);
    }
    cadre_attachment_forget(&self->attachment, &request);
    return status;
}

/* Under the lock: waits until no other call reads a variable, as the coordinator answers one READ
 * of a client at a time. */
static int
await_turn(cadre_client_t *self, int64_t deadline_ms)
{
    while (self->is_reading) {
        int status = cadre_gate_wait(self->gate, deadline_ms);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Under the lock: reads all partitions of the variable in `all` that has this name, one after the
 * other. */
static int
read_all(cadre_client_t *self, const variables_t *all, const char *name, reading_t *reading)
{
    size_t index = 0;
    while (index < all->count && strcmp(all->variables[index].name, name) != 0) {
        index++;
    }
    if (index == all->count) {
        return cadre_fail(CADRE_ENOTFOUND, "the job has no variable %s", name);
    }

    reading->variable = &all->variables[index];
    reading->id = all->ids[index];
    int status = cadre_tensor_init(reading->value, reading->variable->dtype,
                                   reading->variable->shape, reading->variable->rank);
    for (uint32_t i = 0; status == 0 && i < reading->variable->partitions; i++) {
        status = read_part(self, reading, i);
    }
    return status;
}

/* Under the lock: finds the variable by its name, and reads it when it is this call's turn. */
static int
read_by_name(cadre_client_t *self, const char *name, reading_t *reading)
{
    cadre_auto(variables_fini) variables_t all = {.count = 0};
    int status = await_turn(self, reading->deadline_ms);
    if (status < 0) {
        return status;
    }

    self->is_reading = true;
    status = list_variables(self, reading->deadline_ms, &all);
    if (status == 0) {
        status = read_all(self, &all, name, reading);
    }
    self->is_reading = false;
    cadre_gate_broadcast(self->gate);
    return status;
}

/* Reads values or averages of a variable. */
static int
read_either(cadre_client_t *self, const char *name, bool average, cadre_tensor_t *value,
            int64_t timeout_ms)
{
    cadre_tensor_t whole = {.data = NULL};
    reading_t reading = {
        .average = average, .deadline_ms = cadre_gate_deadline_ms(timeout_ms), .value = &whole};
    cadre_gate_lock(self->gate);
    int status = read_by_name(self, name ? name : "", &reading);
    cadre_gate_unlock_and_wake(self->gate);
    if (status < 0 || !value) {
        cadre_tensor_fini(&whole);
        return status;
    }

    cadre_tensor_fini(value);
    *value = whole;
    return 0;
}

int
cadre_client_read(cadre_client_t *self, const char *name, cadre_tensor_t *value, int64_t timeout_ms)
{
    return read_either(self, name, false, value, timeout_ms);
}

int
cadre_client_read_average(cadre_client_t *self, const char *name, cadre_tensor_t *value,
                          int64_t timeout_ms)
{
    return read_either(self, name, true, value, timeout_ms);
}
