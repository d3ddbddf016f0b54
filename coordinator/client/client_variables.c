/* The public calls of a client on the variables of its job. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/table_spec.h"
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

/* Returns whether the item of LISTED can be a variable's. */
static bool
is_variable(const uint64_t *item)
{
    bool fits =
        item[4] <= CADRE_RANK_MAX && item[2] >= 1 && item[2] <= CADRE_PARTITIONS_PER_VARIABLE_MAX;
    for (uint64_t i = 0; fits && i < item[4]; i++) {
        fits = item[5 + i] <= INT64_MAX;
    }
    return fits;
}

/* Adds a variable of LISTED. What a coordinator says is not trusted with a rank or size. */
static void
take_variable(void *context, const char *name, const uint64_t *item)
{
    variables_t *self = context;
    if (!is_variable(item)) {
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

/* A variable, or some of its rows, being read. */
typedef struct {
    const cadre_client_variable_t *variable;
    uint64_t id;
    bool average;
    const char *slot; /* of the optimizer; "": values are read */
    int64_t deadline_ms;
    cadre_tensor_t *value;
    const uint64_t *keys; /* [count] of the rows; NULL: all of the variable */
    size_t count;
    bool *found; /* [count] */
} reading_t;

/* Under the lock: reads one partition into its place. */
static int
read_part(cadre_client_t *self, const reading_t *reading, uint32_t partition)
{
    cadre_client_request_t request = {.next = NULL};
    cadre_message_t message = {.type = CADRE_MESSAGE_READ,
                               .read = {.variable = reading->id,
                                        .partition = partition,
                                        .average = reading->average,
                                        .slot = reading->slot}};
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

/* Under the lock: reads all partitions of a variable, one after the other. */
static int
read_whole(cadre_client_t *self, reading_t *reading)
{
    int status = cadre_tensor_init(reading->value, reading->variable->dtype,
                                   reading->variable->shape, reading->variable->rank);
    for (uint32_t i = 0; status == 0 && i < reading->variable->partitions; i++) {
        status = read_part(self, reading, i);
    }
    return status;
}

/* --- rows --- */

/* One of the rows that are read: `position` in the keys, and the partition that has it. */
typedef struct {
    uint32_t partition;
    size_t position;
} place_t;

/* Whether the variable is a table, as LISTED tells one. */
static bool
is_table(const cadre_client_variable_t *variable)
{
    return variable->rank == 2 && variable->shape[0] == 0;
}

/* Orders places by partition, and those of a partition as they were asked. */
static int
compare_places(const void *left, const void *right)
{
    const place_t *a = left;
    const place_t *b = right;
    if (a->partition != b->partition) {
        return a->partition > b->partition ? 1 : -1;
    }
    return (a->position > b->position) - (a->position < b->position);
}

/* Finds the partition of each row, and writes `places` [count], in the order in which they are
 * read. */
static int
find_places(const reading_t *reading, place_t *places)
{
    const cadre_client_variable_t *variable = reading->variable;
    const bool by_key = is_table(variable);
    for (size_t i = 0; i < reading->count; i++) {
        const uint64_t key = reading->keys[i];
        if (!by_key && key >= (uint64_t)variable->shape[0]) {
            return cadre_fail(CADRE_EINVALID,
                              "key %zu is %" PRIu64 ", variable %s has rows 0 to %" PRId64, i, key,
                              variable->name, variable->shape[0] - 1);
        }
        places[i] = (place_t){.partition = by_key ? cadre_table_shard(key, variable->partitions)
                                                  : (uint32_t)cadre_split_part(variable->shape[0],
                                                                               variable->partitions,
                                                                               (int64_t)key),
                              .position = i};
    }
    qsort(places, reading->count, sizeof(*places), compare_places);
    return 0;
}

/* Copies the rows of PART, and which of them there are, to the places of the `count` keys that were
 * asked for. */
static int
copy_rows(const cadre_message_t *message, const reading_t *reading, const place_t *places,
          size_t count)
{
    const cadre_u64s_t *absent = &message->part.absent;
    const size_t size_bytes = cadre_message_chunks_size_bytes(message);
    if (reading->slot[0] && is_table(reading->variable) && size_bytes == count * sizeof(float)) {
        reading->value->shape[1] = 1; /* one accumulator for each row */
    }
    const size_t row_bytes = cadre_tensor_size_bytes(reading->value) / reading->count;
    if (size_bytes != row_bytes * count || absent->count != (count + 63) / 64) {
        return cadre_fail(CADRE_EMALFORMED,
                          "variable %s: %zu bytes and %zu words came for %zu rows of %zu bytes",
                          reading->variable->name, size_bytes, absent->count, count, row_bytes);
    }

    cadre_auto(cadre_free) char *bytes = cadre_calloc(size_bytes + 1, 1);
    size_t at = 0;
    for (size_t i = 0; i < message->chunk_count; i++) {
        const size_t here = cadre_chunk_size_bytes(message->chunks[i]);
        memcpy(bytes + at, cadre_chunk_data(message->chunks[i]), here);
        at += here;
    }
    for (size_t k = 0; k < count; k++) {
        const size_t position = places[k].position;
        memcpy((char *)reading->value->data + position * row_bytes, bytes + k * row_bytes,
               row_bytes);
        reading->found[position] = (absent->items[k / 64] >> k % 64 & 1) == 0;
    }
    return 0;
}

/* Under the lock: reads `count` rows of one partition into their places. */
static int
read_some(cadre_client_t *self, const reading_t *reading, const place_t *places, size_t count)
{
    cadre_client_request_t request = {.next = NULL};
    cadre_message_t message = {.type = CADRE_MESSAGE_READ,
                               .read = {.variable = reading->id,
                                        .partition = places[0].partition,
                                        .rows = count,
                                        .slot = reading->slot}};
    cadre_chunk_t *keys = cadre_chunk_new(count * sizeof(uint64_t));
    for (size_t k = 0; k < count; k++) {
        memcpy((char *)cadre_chunk_data(keys) + k * sizeof(uint64_t),
               &reading->keys[places[k].position], sizeof(uint64_t));
    }
    cadre_message_add_chunk(&message, keys);

    int status =
        cadre_client_ask(self, &message, CADRE_MESSAGE_PART, reading->deadline_ms, &request);
    cadre_message_fini(&message); /* what was not sent */
    if (status == 0 && request.answer.part.status != 0) {
        status = cadre_fail(-(int)request.answer.part.status, "variable %s: %s",
                            reading->variable->name, request.answer.part.text);
    }
    if (status == 0) {
        status = copy_rows(&request.answer, reading, places, count);
    }
    cadre_attachment_forget(&self->attachment, &request);
    return status;
}

/* Returns how many of the rows at `places`, of which there are `left`, one request reads. */
static size_t
count_together(const reading_t *reading, const place_t *places, size_t left)
{
    const size_t row_bytes = cadre_tensor_size_bytes(reading->value) / reading->count;
    const size_t fitting = row_bytes > 0 ? CADRE_ROWS_SIZE_MAX / row_bytes : CADRE_ROWS_SIZE_MAX;
    size_t most = fitting < CADRE_CLIENT_ROWS_MAX ? fitting : CADRE_CLIENT_ROWS_MAX;
    most = most < left ? most : left;
    size_t count = 1; /* a row of more bytes comes alone */
    while (count < most && places[count].partition == places[0].partition) {
        count++;
    }
    return count;
}

/* Under the lock: reads the rows of a variable that the keys name. */
static int
read_rows(cadre_client_t *self, reading_t *reading)
{
    int64_t shape[CADRE_RANK_MAX];
    const cadre_client_variable_t *variable = reading->variable;
    if (variable->rank == 0) {
        return cadre_fail(CADRE_ESHAPE, "variable %s is a scalar and has no rows", variable->name);
    }
    cadre_auto(cadre_free) place_t *places = cadre_calloc(reading->count, sizeof(*places));
    int status = find_places(reading, places);
    if (status < 0) {
        return status;
    }

    memcpy(shape, variable->shape, sizeof(shape));
    shape[0] = (int64_t)reading->count;
    status = cadre_tensor_init(reading->value, variable->dtype, shape, variable->rank);
    size_t count = 0;
    for (size_t i = 0; status == 0 && i < reading->count; i += count) {
        count = count_together(reading, places + i, reading->count - i);
        status = read_some(self, reading, places + i, count);
    }
    return status;
}

/* --- either --- */

/* Under the lock: reads what is wanted of the variable in `all` that has this name. */
static int
read_among(cadre_client_t *self, const variables_t *all, const char *name, reading_t *reading)
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
    return reading->keys ? read_rows(self, reading) : read_whole(self, reading);
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
        status = read_among(self, &all, name, reading);
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
    reading_t reading = {.average = average,
                         .slot = "",
                         .deadline_ms = cadre_gate_deadline_ms(timeout_ms),
                         .value = &whole};
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

void
cadre_client_rows_fini(cadre_client_rows_t *rows)
{
    if (rows) {
        cadre_tensor_fini(&rows->values);
        free(rows->found);
        rows->found = NULL;
    }
}

/* Reads some rows of the values or of a slot. */
static int
read_named(cadre_client_t *self, const cadre_client_slot_rows_t *what, cadre_client_rows_t *rows,
           int64_t timeout_ms)
{
    const char *name = what->variable ? what->variable : "";
    if (!what->keys || what->count == 0) {
        return cadre_fail(CADRE_EINVALID, "no row of variable %s is asked for", name);
    }
    if (what->count > CADRE_CLIENT_ROWS_PER_CALL_MAX) {
        return cadre_fail(CADRE_ETOOLARGE, "%zu rows of variable %s: one call takes %d",
                          what->count, name, CADRE_CLIENT_ROWS_PER_CALL_MAX);
    }

    cadre_client_rows_t read = {.found = cadre_calloc(what->count, sizeof(*read.found))};
    reading_t reading = {.slot = what->slot,
                         .deadline_ms = cadre_gate_deadline_ms(timeout_ms),
                         .value = &read.values,
                         .keys = what->keys,
                         .count = what->count,
                         .found = read.found};
    cadre_gate_lock(self->gate);
    int status = read_by_name(self, name, &reading);
    cadre_gate_unlock_and_wake(self->gate);
    if (status < 0 || !rows) {
        cadre_client_rows_fini(&read);
        return status;
    }

    cadre_client_rows_fini(rows);
    *rows = read;
    return 0;
}

int
cadre_client_read_rows(cadre_client_t *self, const char *name, const uint64_t *keys, size_t count,
                       cadre_client_rows_t *rows, int64_t timeout_ms)
{
    const cadre_client_slot_rows_t what = {
        .variable = name, .slot = "", .keys = keys, .count = count};
    return read_named(self, &what, rows, timeout_ms);
}

int
cadre_client_read_slot_rows(cadre_client_t *self, const cadre_client_slot_rows_t *what,
                            cadre_client_rows_t *rows, int64_t timeout_ms)
{
    if (!what || !what->slot || !what->slot[0] || strlen(what->slot) > CADRE_NAME_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "the name of a slot has 1 to %d bytes",
                          CADRE_NAME_SIZE_MAX);
    }
    return read_named(self, what, rows, timeout_ms);
}
