#include "coordinator/client/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/net/cluster_config.h"
#include "common/net/security.h"
#include "common/system/clock.h"
#include "common/tensor/split.h"
#include "coordinator/client/calls.h"
#include "coordinator/options.h"

enum { OPEN_MS = 10000 }; /* default of timeout_ms */

/* --- opening and closing --- */

/* Frees a client whose thread does not run (any more). */
static void
destroy(cadre_client_t *self)
{
    cadre_monitor_close(&self->monitor);
    cadre_socket_close(&self->socket, 0);
    if (self->context) {
        cadre_context_close(&self->context);
    }
    cadre_gate_unref(&self->gate);
    free(self);
}

/* Finds out where the coordinator is: by the options, or else by the environment. */
static int
find_coordinator(cadre_client_t *self, const char *address)
{
    cadre_auto(cadre_cluster_config_fini) cadre_cluster_config_t config = {0};
    cadre_cluster_sources_t sources = {.coordinator = address};
    cadre_cluster_sources_from_environment(&sources);
    sources.role = "worker"; /* a role whose tasks need no index */
    int status = cadre_cluster_config_read(&sources, &config);
    if (status == CADRE_ENOTFOUND) {
        return cadre_fail(CADRE_ECONFIG, "where is the coordinator? Give the options an address, "
                                         "or set CADRE_CLUSTER or TF_CONFIG");
    }
    if (status < 0) {
        return status;
    }

    self->coordinator = config.coordinator;
    return 0;
}

/* Opens context and socket, guarded by the keys of a client. */
static int
open_socket(cadre_client_t *self, const cadre_client_options_t *options)
{
    cadre_security_t security = {.keys = options->keys, .insecure = options->insecure_transport};
    int status = cadre_security_read(&security);
    if (status < 0) {
        return status;
    }
    status = cadre_context_open(&self->context);
    if (status < 0) {
        return status;
    }
    status = cadre_security_apply(&security, CADRE_KEY_CLIENT, self->context);
    return status < 0 ? status : cadre_client_connect(self);
}

/* Opens everything that can fail before there is a thread. */
static int
open_parts(cadre_client_t *self, const cadre_client_options_t *options)
{
    cadre_task_t task = {CADRE_ROLE_CLIENT, CADRE_INDEX_ANY, 0};
    if (getrandom(&task.incarnation, sizeof(task.incarnation), 0) < 0) {
        return cadre_fail(CADRE_EIO, "no random number: %s", strerror(errno));
    }

    cadre_attachment_init(&self->attachment, &task, (uint64_t)cadre_clock_now_ms());
    int status = cadre_gate_open(&self->gate);
    if (status < 0) {
        return status;
    }
    status = find_coordinator(self, options->address);
    return status < 0 ? status : open_socket(self, options);
}

/* Waits until the coordinator has answered, or `timeout_ms` have passed. */
static int
await_attached(cadre_client_t *self, int64_t timeout_ms)
{
    char address[CADRE_ENDPOINT_TEXT_SIZE];
    int64_t deadline_ms = cadre_gate_deadline_ms(timeout_ms);
    int status = 0;
    cadre_gate_lock(self->gate);
    while (status == 0 && self->attachment.state == CADRE_ATTACHMENT_BEGINS) {
        status = cadre_gate_wait(self->gate, deadline_ms);
    }
    if (self->attachment.state == CADRE_ATTACHMENT_ENDED) {
        status = cadre_fail(self->attachment.status, "%s", self->attachment.text);
    }
    cadre_gate_unlock(self->gate);

    cadre_endpoint_text(&self->coordinator, address);
    if (status == CADRE_ETIMEOUT) {
        return cadre_fail(status, "%s: no answer within %lld ms: does a coordinator run there?",
                          address, (long long)timeout_ms);
    }
    return status < 0 ? cadre_fail_within(status, "%s", address) : 0;
}

int
cadre_client_open(const cadre_client_options_t *given, cadre_client_t **out)
{
    cadre_client_options_t options = cadre_client_options();
    int status =
        given ? cadre_options_take(given, &options, sizeof(options), "cadre_client_options_t") : 0;
    if (status < 0) {
        return status;
    }
    if (!out || options.timeout_ms < 0) {
        return cadre_fail(CADRE_EINVALID, "there is nowhere to put the client, or timeout_ms is "
                                          "below 0");
    }

    cadre_client_t *self = cadre_calloc(1, sizeof(*self));
    status = open_parts(self, &options);
    if (status == 0) {
        status =
            cadre_actor_open(self->context, "cadre-client", cadre_client_run, self, &self->actor);
    }
    if (status < 0) {
        destroy(self);
        return status;
    }

    status = await_attached(self, options.timeout_ms > 0 ? options.timeout_ms : OPEN_MS);
    if (status < 0) {
        cadre_client_close(&self);
        return status;
    }

    *out = self;
    return 0;
}

/* Ends the thread, which says GOODBYE, and frees the client. */
void
cadre_client_close(cadre_client_t **self_p)
{
    cadre_client_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    /* the thread does nothing that takes long: it ends within its next turn */
    while (self->actor && cadre_actor_stop(&self->actor, CADRE_ACTOR_STOP_MS) < 0) {
    }
    destroy(self);
}

const char *
cadre_client_job(const cadre_client_t *self)
{
    return self->attachment.job;
}

bool
cadre_client_may_schedule(const cadre_client_t *self)
{
    return self->attachment.may_schedule;
}

/* --- requests --- */

int
cadre_client_await(cadre_client_t *self, cadre_client_request_t *request, int64_t deadline_ms,
                   const char *what)
{
    int status = 0;
    while (status == 0 && !request->ended) {
        status = cadre_gate_wait(self->gate, deadline_ms);
    }
    if (request->ended) {
        return request->status < 0 ? cadre_fail(request->status, "%s", request->text) : 0;
    }

    int64_t silent_ms = cadre_clock_now_ms() - (int64_t)self->attachment.heard_ms;
    return cadre_fail(status, "%s: no answer in time; the coordinator was heard %lld ms ago", what,
                      (long long)(silent_ms > 0 ? silent_ms : 0));
}

/* Asks and waits for the answer, which must be of that type. The caller ends the request with
 * cadre_attachment_forget in any case. */
static int
ask(cadre_client_t *self, cadre_message_t *message, cadre_message_type_t expected,
    int64_t deadline_ms, cadre_client_request_t *request)
{
    const char *what = cadre_message_type_text(message->type);
    int status = cadre_attachment_ask(&self->attachment, message, request);
    if (status < 0) {
        return status;
    }
    status = cadre_client_await(self, request, deadline_ms, what);
    if (status < 0) {
        return status;
    }
    return request->answer.type == expected
               ? 0
               : cadre_fail(CADRE_EMALFORMED, "%s: the coordinator answered something else", what);
}

int
cadre_client_list(cadre_client_t *self, const cadre_client_listing_t *listing, int64_t deadline_ms)
{
    uint64_t after = 0;
    bool more = true;
    while (more) {
        cadre_client_request_t request = {.next = NULL};
        cadre_message_t message = {.type = CADRE_MESSAGE_LIST,
                                   .list = {.kind = listing->kind, .after = after}};
        int status = ask(self, &message, CADRE_MESSAGE_LISTED, deadline_ms, &request);
        const cadre_listed_message_t *listed = &request.answer.listed;
        if (status == 0 && listed->items.count != CADRE_LISTED_ITEMS * listed->names.count) {
            status = cadre_fail(CADRE_EMALFORMED, "LISTED: names and items do not agree");
        }
        for (size_t i = 0; status == 0 && i < listed->names.count; i++) {
            const uint64_t *item = &listed->items.items[CADRE_LISTED_ITEMS * i];
            after = item[0];
            listing->take(listing->context, listed->names.items[i], item);
        }
        more = status == 0 && listed->more && listed->names.count > 0;
        cadre_attachment_forget(&self->attachment, &request);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* --- variables --- */

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
    int status = ask(self, &message, CADRE_MESSAGE_PART, reading->deadline_ms, &request);
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
