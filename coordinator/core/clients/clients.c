#include "coordinator/core/clients/clients.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/keys/peer_key.h"
#include "common/tensor/split.h"
#include "common/wire/codec.h"
#include "common/wire/row_list.h"
#include "coordinator/core/catalogue/variable_slots.h"
#include "coordinator/core/members/rights.h"

void
cadre_clients_init(cadre_clients_t *self, const cadre_clients_links_t *links)
{
    *self = (cadre_clients_t){.links = *links};
}

static cadre_attached_t *
find(const cadre_clients_t *self, const cadre_task_t *task)
{
    return cadre_u64_map_get(&self->attached, task->incarnation);
}

static void
destroy(cadre_attached_t *client)
{
    cadre_client_closures_fini(&client->closures);
    free(client);
}

void
cadre_clients_fini(cadre_clients_t *self)
{
    cadre_attached_t *client = NULL;
    for (size_t cursor = 0; (client = cadre_u64_map_next(&self->attached, &cursor));) {
        destroy(client);
    }
    cadre_u64_map_fini(&self->attached);
}

/* --- coming and going --- */

static void
log_attached(cadre_clients_t *self, const cadre_attached_t *client)
{
    char task[CADRE_TASK_TEXT_SIZE];
    char key[CADRE_KEY_ID_TEXT_SIZE];
    cadre_effects_log(self->links.effects, 'I', "client_attached",
                      "task=\"%s\" key_id=%s may_schedule=%d clients=%zu",
                      cadre_task_text(&client->task, task), cadre_key_id_text(client->key, key),
                      self->links.options->client_closures, self->attached.count);
}

/* Takes a client out: cancels those of its closures that have not ended, and forgets what it
 * reads. */
static void
detach(cadre_clients_t *self, cadre_attached_t *client, const char *why)
{
    char task[CADRE_TASK_TEXT_SIZE];
    cadre_shard_requests_forget(self->links.requests, client);
    size_t cancelled = cadre_client_closures_cancel(&client->closures, self->links.queue);
    cadre_effects_log(self->links.effects, 'I', "client_left",
                      "task=\"%s\" why=\"%s\" reads=%" PRIu64 " closures=%zu next=\"%s\"",
                      cadre_task_text(&client->task, task), why, client->reads, cancelled,
                      cancelled > 0 ? "its closures are cancelled" : "nothing of it is left");
    cadre_u64_map_take(&self->attached, client->task.incarnation);
    destroy(client);
}

/* Returns 0 when a client that is not attached may attach: it is of the same release, and there is
 * room for one more. */
static int
check_attach(const cadre_clients_t *self, const cadre_attach_message_t *attach)
{
    if (attach->schema != cadre_message_schema_hash()) {
        return cadre_fail(CADRE_EPROTOCOL,
                          "the client is of release %s, the coordinator of %s: use the same",
                          attach->build, self->links.options->build);
    }
    if (self->attached.count >= CADRE_CLIENTS_MAX) {
        return cadre_fail(CADRE_EFULL, "there are %d clients, which is the most",
                          CADRE_CLIENTS_MAX);
    }
    return 0;
}

/* Makes the record of a client that attaches. */
static cadre_attached_t *
add(cadre_clients_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    cadre_attached_t *client = cadre_calloc(1, sizeof(*client));
    client->clients = self;
    client->task = *from;
    client->key = message->key;
    client->heard_ms = self->links.effects->now_ms;
    cadre_u64_map_put(&self->attached, from->incarnation, client);
    log_attached(self, client);
    return client;
}

/* Returns whether a request of the client is under way, so that its answer will come. */
static bool
is_under_way(cadre_attached_t *client, uint64_t request)
{
    const cadre_client_entry_t *entry = cadre_client_closures_find(&client->closures, request);
    return request == client->reading || (entry && !cadre_client_entry_has_ended(entry));
}

/* Answers ATTACH: names those of the requests that the client awaits whose answers will not come.
 * One connection keeps the order of its messages, so what the client sent before ATTACH has arrived
 * or was lost, and what was answered before it has arrived, too, or was lost. */
static void
send_attached(cadre_clients_t *self, cadre_attached_t *client, const cadre_message_t *attach)
{
    const cadre_core_options_t *options = self->links.options;
    const cadre_u64s_t *awaited = &attach->attach.awaited;
    uint64_t unknown[CADRE_CLIENT_REQUESTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < awaited->count; i++) {
        if (!is_under_way(client, awaited->items[i])) {
            unknown[count++] = awaited->items[i];
        }
    }

    cadre_message_t answer = cadre_effects_message(self->links.effects, CADRE_MESSAGE_ATTACHED);
    answer.request = attach->request;
    answer.attached = (cadre_attached_message_t){.job = options->job,
                                                 .heartbeat_ms = options->heartbeat_ms,
                                                 .lease_ms = options->lease_ms,
                                                 .may_schedule = options->client_closures,
                                                 .unknown = {unknown, count}};
    cadre_effects_send(self->links.effects, &client->task, &answer);
}

/* Answers the ATTACH of a client that may not attach. */
static void
refuse(cadre_clients_t *self, const cadre_task_t *from, uint64_t request, int status)
{
    char task[CADRE_TASK_TEXT_SIZE];
    cadre_effects_log(self->links.effects, 'W', "client_refused", "task=\"%s\" why=\"%s\"",
                      cadre_task_text(from, task), cadre_error_text());
    cadre_message_t answer = cadre_effects_message(self->links.effects, CADRE_MESSAGE_ATTACHED);
    answer.request = request;
    answer.attached = (cadre_attached_message_t){
        .status = (uint64_t)-status, .text = cadre_error_text(), .job = self->links.options->job};
    cadre_effects_send(self->links.effects, from, &answer);
}

/* Tells a client that it is not attached, or not any more. */
static void
tell_unknown(cadre_clients_t *self, const cadre_task_t *from)
{
    cadre_message_t answer = cadre_effects_message(self->links.effects, CADRE_MESSAGE_UNKNOWN_PEER);
    cadre_effects_send(self->links.effects, from, &answer);
}

/* Takes an ATTACH with epoch 0: of a client that begins, or has not had its answer. It says so
 * several times, and one that is read after the client was lost attaches it again. That is
 * harmless: a client asks for nothing before it has an answer, from when on it names the session,
 * and what it says comes in order, over a second connection only once the first is read to its end
 * (no ROUTER_HANDOVER). So of what was forgotten nothing can come again and count twice. Of a
 * client that has gone for good the record stays for a lease. */
static void
begin(cadre_clients_t *self, const cadre_task_t *from, const cadre_message_t *message)
{
    cadre_attached_t *client = find(self, from);
    int status = client ? 0 : check_attach(self, &message->attach);
    if (status < 0) {
        refuse(self, from, message->request, status);
        return;
    }
    client = client ? client : add(self, from, message);
    send_attached(self, client, message);
}

/* --- what there is --- */

/* Fills in one item of LISTED for a variable. The rows of a table are not counted: 0 stands there,
 * which no other variable has. */
static void
describe_variable(const cadre_variable_t *variable, uint64_t *item)
{
    item[0] = variable->id;
    item[1] = (uint64_t)variable->dtype;
    item[2] = variable->partitions;
    item[3] = variable->optimizer.average_momentum > 0;
    const int first = variable->table ? 1 : 0;
    item[4] = (uint64_t)(variable->rank + first);
    for (int i = 0; i < variable->rank; i++) {
        item[5 + first + i] = (uint64_t)variable->shape[i];
    }
}

/* What one LISTED has room for. */
typedef struct {
    const char *names[CADRE_LISTED_MAX];
    uint64_t items[CADRE_LISTED_MAX * CADRE_LISTED_ITEMS];
    size_t count;
    bool more;
} listed_t;

/* Returns the place of the next item; NULL where there is no more room, which `more` then says. */
static uint64_t *
add_item(listed_t *self, const char *name)
{
    if (self->count == CADRE_LISTED_MAX) {
        self->more = true;
        return NULL;
    }
    self->names[self->count] = name;
    return &self->items[CADRE_LISTED_ITEMS * self->count++];
}

/* Lists the variables with ids above `after` which exist on all shards and were not dropped. */
static void
list_variables(const cadre_catalogue_t *catalogue, uint64_t after, listed_t *list)
{
    for (uint64_t i = after; i < catalogue->variable_count && !list->more; i++) {
        const cadre_variable_t *variable = catalogue->variables[i];
        if (!variable->created || variable->dropped > 0) {
            continue; /* a vacant place is not created either */
        }
        uint64_t *item = add_item(list, variable->name);
        if (item) {
            describe_variable(variable, item);
        }
    }
}

/* Lists the datasets behind the first `after` that the workers have opened. */
static void
list_datasets(const cadre_catalogue_t *catalogue, uint64_t after, listed_t *list)
{
    for (uint64_t i = after; i < catalogue->dataset_count && !list->more; i++) {
        const cadre_dataset_t *dataset = catalogue->datasets[i];
        if (!dataset->opened || dataset->status < 0) {
            continue;
        }
        uint64_t *item = add_item(list, dataset->name);
        if (item) {
            item[0] = dataset->id;
            item[1] = (uint64_t)dataset->info.rows;
        }
    }
}

/* Answers LIST. */
static void
on_list(cadre_clients_t *self, cadre_attached_t *client, const cadre_message_t *message)
{
    cadre_auto(cadre_free) listed_t *list = cadre_calloc(1, sizeof(*list));
    if (message->list.kind == CADRE_LISTED_VARIABLES) {
        list_variables(self->links.catalogue, message->list.after, list);
    } else {
        list_datasets(self->links.catalogue, message->list.after, list);
    }

    cadre_message_t answer = cadre_effects_message(self->links.effects, CADRE_MESSAGE_LISTED);
    answer.request = message->request;
    answer.listed =
        (cadre_listed_message_t){.names = {list->names, list->count},
                                 .items = {list->items, CADRE_LISTED_ITEMS * list->count},
                                 .more = list->more};
    cadre_effects_send(self->links.effects, &client->task, &answer);
}

/* --- values --- */

/* Answers a READ with status and text. */
static void
refuse_read(cadre_attached_t *client, uint64_t request, int status, const char *text)
{
    cadre_effects_t *effects = client->clients->links.effects;
    cadre_message_t answer = cadre_effects_message(effects, CADRE_MESSAGE_PART);
    answer.request = request;
    answer.part = (cadre_part_message_t){.status = (uint64_t)-status, .text = text};
    cadre_effects_send(effects, &client->task, &answer);
}

/* Takes the VALUES of the partition that a client reads, and sends the client references to its
 * chunks. */
static void
on_values(void *context, uint64_t request, const cadre_message_t *reply, int status)
{
    cadre_attached_t *client = context;
    client->reading = 0;
    if (!reply || reply->type != CADRE_MESSAGE_VALUES || reply->values.partitions.count < 1) {
        refuse_read(client, request, status < 0 ? status : CADRE_EMALFORMED,
                    "a shard answered out of turn");
        return;
    }
    if (reply->values.status != 0) {
        refuse_read(client, request, -(int)reply->values.status, reply->values.text);
        return;
    }

    cadre_effects_t *effects = client->clients->links.effects;
    cadre_message_t answer = cadre_effects_message(effects, CADRE_MESSAGE_PART);
    answer.request = request;
    answer.part = (cadre_part_message_t){.version = reply->values.partitions.items[0],
                                         .absent = reply->values.absent};
    for (size_t i = 0; i < reply->chunk_count; i++) {
        cadre_message_add_chunk(&answer, cadre_chunk_ref(reply->chunks[i]));
    }
    client->reads++;
    cadre_effects_send(effects, &client->task, &answer);
}

/* Returns how many bytes of values answer a READ. */
static uint64_t
read_size_bytes(const cadre_variable_t *variable, const cadre_read_message_t *read)
{
    const uint64_t rows = read->rows > 0
                              ? read->rows
                              : (uint64_t)cadre_split_rows(variable->rows, variable->partitions,
                                                           (int64_t)read->partition);
    return rows * variable->row_size_bytes;
}

/* Gives the slot that a client asks for, as a PULL names it; 0 for none. */
static int
find_slot(const cadre_variable_t *variable, const cadre_read_message_t *read, uint64_t *slot)
{
    *slot = 0;
    return read->slot[0] ? cadre_variable_slots_find(variable, read->slot, slot) : 0;
}

/* Checks that a client may read of a variable what it asks for. */
static int
check_read(const cadre_variable_t *variable, const cadre_message_t *message)
{
    const cadre_read_message_t *read = &message->read;
    const size_t ids_bytes =
        message->chunk_count == 1 ? cadre_chunk_size_bytes(message->chunks[0]) : 0;
    if (read->rows > 0 && ids_bytes != read->rows * sizeof(uint64_t)) {
        return cadre_fail(CADRE_EMALFORMED, "READ: %zu chunks with %zu bytes name %" PRIu64 " rows",
                          message->chunk_count, ids_bytes, read->rows);
    }
    if (variable->table && read->rows == 0) {
        return cadre_fail(CADRE_EINVALID,
                          "variable %s is a table, which is read by rows: name their keys "
                          "(cadre_client_read_rows, or `cadre variables %s --rows KEY,...`)",
                          variable->name, variable->name);
    }
    uint64_t slot = 0;
    int status = find_slot(variable, read, &slot);
    if (status < 0) {
        return status;
    }
    if (read->average && variable->optimizer.average_momentum == 0) {
        return cadre_fail(CADRE_EINVALID, "variable %s keeps no average", variable->name);
    }
    const uint64_t size_bytes = read_size_bytes(variable, read);
    if (size_bytes > CADRE_CLIENT_READ_SIZE_MAX) {
        return cadre_fail(
            CADRE_ETOOLARGE, "variable %s: %s %" PRIu64 " bytes, of which a client may read %d: %s",
            variable->name, read->rows > 0 ? "the rows have" : "a partition has", size_bytes,
            CADRE_CLIENT_READ_SIZE_MAX,
            read->rows > 0 ? "ask for fewer of them" : "cut the variable into more partitions");
    }
    return 0;
}

/* Returns the variable with this id, if clients may read that of it now; else NULL, with the reason
 * as this thread's error text. */
static const cadre_variable_t *
find_readable(const cadre_clients_t *self, const cadre_message_t *message, int *status)
{
    const cadre_read_message_t *read = &message->read;
    const cadre_catalogue_t *catalogue = self->links.catalogue;
    const cadre_variable_t *variable =
        read->variable >= 1 && read->variable <= catalogue->variable_count
            ? catalogue->variables[read->variable - 1]
            : NULL;
    if (!variable || !variable->created || variable->dropped > 0 ||
        read->partition >= variable->partitions) {
        *status = cadre_fail(CADRE_ENOTFOUND, "there is no such variable any more");
        return NULL;
    }

    *status = check_read(variable, message);
    return *status < 0 ? NULL : variable;
}

/* Logs what a client reads: a variable with its first partition; of rows the first time, until it
 * reads those of another variable. */
static void
log_read(cadre_clients_t *self, cadre_attached_t *client, const cadre_variable_t *variable,
         const cadre_read_message_t *read)
{
    const bool is_told = read->rows > 0 ? client->rows_of == variable->id : read->partition > 0;
    char task[CADRE_TASK_TEXT_SIZE];
    if (is_told) {
        return;
    }
    if (read->rows > 0) {
        client->rows_of = variable->id;
    }
    cadre_effects_log(self->links.effects, 'I', "client_reads",
                      "task=\"%s\" variable=%s partitions=%" PRIu32 " average=%d rows=%d slot=%s",
                      cadre_task_text(&client->task, task), variable->name, variable->partitions,
                      read->average != 0, read->rows > 0, read->slot);
}

/* Asks the shard for the partition that a client reads. A READ beside one that is under way is
 * dropped: the client asks again, as the next ATTACHED calls it unknown. */
static void
on_read(cadre_clients_t *self, cadre_attached_t *client, const cadre_message_t *message)
{
    const cadre_read_message_t *read = &message->read;
    int status = 0;
    if (client->reading > 0) {
        return;
    }

    const cadre_variable_t *variable = find_readable(self, message, &status);
    if (!variable) {
        refuse_read(client, message->request, status, cadre_error_text());
        return;
    }

    log_read(self, client, variable, read);
    uint64_t slot = 0;
    (void)find_slot(variable, read, &slot); /* it was checked */

    const uint64_t whole[] = {variable->id, read->partition, 0}; /* 0: the client holds none */
    const uint64_t rows[] = {variable->id, read->partition, CADRE_ROWS_LISTED, read->rows};
    cadre_message_t pull = cadre_effects_message(self->links.effects, CADRE_MESSAGE_PULL);
    pull.pull = (cadre_pull_message_t){.partitions = {whole, read->rows > 0 ? 0 : 3},
                                       .rows = {rows, read->rows > 0 ? 4 : 0},
                                       .average = read->average,
                                       .slot = slot,
                                       .absence = read->rows > 0};
    if (read->rows > 0) {
        cadre_message_add_chunk(&pull, cadre_chunk_ref(message->chunks[0]));
    }
    uint32_t shard = variable->shards[read->partition];
    client->reading = message->request;
    cadre_shard_requests_ask(self->links.requests, shard, &pull, on_values, client,
                             message->request);
    /* time limits allow for the bytes that the answer will have */
    cadre_shard_requests_expect(self->links.requests, shard,
                                (size_t)read_size_bytes(variable, read));
}

/* --- closures --- */

/* Tells a client how its closure has ended. */
static void
send_result(cadre_clients_t *self, cadre_attached_t *client, cadre_client_entry_t *entry)
{
    cadre_message_t answer = cadre_effects_message(self->links.effects, CADRE_MESSAGE_RESULT);
    cadre_client_entry_result(entry, &answer);
    cadre_effects_send(self->links.effects, &client->task, &answer);
}

/* Logs what a client has scheduled, or why that is refused. */
static void
log_scheduled(cadre_clients_t *self, const cadre_attached_t *client, const char *function,
              const cadre_client_entry_t *entry)
{
    char task[CADRE_TASK_TEXT_SIZE];
    cadre_task_text(&client->task, task);
    if (entry->results) {
        cadre_effects_log(self->links.effects, 'I', "client_scheduled",
                          "task=\"%s\" request=%" PRIu64 " function=%s", task, entry->request,
                          function);
    } else {
        cadre_effects_log(self->links.effects, 'W', "client_closure_refused",
                          "task=\"%s\" request=%" PRIu64 " function=%s why=\"%.200s\"", task,
                          entry->request, function, entry->text);
    }
}

/* Takes a SCHEDULE: schedules it, unless it was before; where the closure has ended, the client
 * hears again how. */
static void
on_schedule(cadre_clients_t *self, cadre_attached_t *client, const cadre_message_t *message)
{
    if (message->request < client->closures.settled) {
        return; /* the client has its answer */
    }

    cadre_client_entry_t *entry = cadre_client_closures_find(&client->closures, message->request);
    if (!entry) {
        const cadre_client_closures_links_t links = {.options = self->links.options,
                                                     .catalogue = self->links.catalogue,
                                                     .queue = self->links.queue,
                                                     .totals = self->links.totals,
                                                     .of_clients = self->links.of_clients};
        entry = cadre_client_closures_put(&client->closures, &links, message);
        if (!entry) {
            return; /* there is no room now: the client asks again */
        }
        log_scheduled(self, client, message->schedule.function, entry);
    }

    if (cadre_client_entry_has_ended(entry)) {
        send_result(self, client, entry);
    }
}

/* Tells a client of those of its closures that have ended since it was told last. */
static void
tell_ended(cadre_clients_t *self, cadre_attached_t *client)
{
    for (size_t i = 0; i < client->closures.count; i++) {
        cadre_client_entry_t *entry = &client->closures.items[i];
        if (!entry->told && cadre_client_entry_has_ended(entry)) {
            send_result(self, client, entry);
        }
    }
}

/* --- messages and time --- */

/* Acts on a message of an attached client. */
static void
from_attached(cadre_clients_t *self, cadre_attached_t *client, const cadre_message_t *message)
{
    client->heard_ms = self->links.effects->now_ms;
    switch (message->type) {
    case CADRE_MESSAGE_ATTACH:
        cadre_client_closures_settle(&client->closures, message->attach.settled);
        send_attached(self, client, message);
        break;
    case CADRE_MESSAGE_LIST:
        on_list(self, client, message);
        break;
    case CADRE_MESSAGE_READ:
        on_read(self, client, message);
        break;
    case CADRE_MESSAGE_SCHEDULE:
        on_schedule(self, client, message);
        break;
    case CADRE_MESSAGE_GOODBYE:
        detach(self, client, "it has said so");
        break;
    default:
        break; /* STATUS, which the shell answers; a client may send nothing else */
    }
}

/* Takes a message of a client. One that is not attached, or attached in another session, hears
 * that: what it has asked before would not be recognised. */
void
cadre_clients_receive(cadre_clients_t *self, const cadre_task_t *from,
                      const cadre_message_t *message)
{
    cadre_attached_t *client = find(self, from);
    if (client && client->key != message->key) {
        return; /* somebody else under its name */
    }
    if (message->type == CADRE_MESSAGE_ATTACH && message->epoch == 0) {
        begin(self, from, message);
        return;
    }
    if (client && message->epoch == self->links.options->epoch) {
        from_attached(self, client, message);
        return;
    }
    if (message->type != CADRE_MESSAGE_GOODBYE) {
        tell_unknown(self, from);
    }
}

/* Returns a client whose lease has run out; NULL when there is none. Lowers `due_ms` to when the
 * next one may. */
static cadre_attached_t *
find_expired(const cadre_clients_t *self, uint64_t *due_ms)
{
    cadre_attached_t *client = NULL;
    for (size_t cursor = 0; (client = cadre_u64_map_next(&self->attached, &cursor));) {
        uint64_t end_ms = client->heard_ms + self->links.options->lease_ms;
        if (end_ms <= self->links.effects->now_ms) {
            return client;
        }
        *due_ms = cadre_min_u64(*due_ms, end_ms);
    }
    return NULL;
}

uint64_t
cadre_clients_tick(cadre_clients_t *self, bool unread)
{
    uint64_t due_ms = UINT64_MAX;
    cadre_attached_t *client = NULL;
    if (self->attached.count == 0) {
        return due_ms;
    }

    /* A message that came in time may be among those that are unread. */
    while (!unread && (client = find_expired(self, &due_ms))) {
        detach(self, client, "its lease ran out");
    }

    for (size_t cursor = 0; (client = cadre_u64_map_next(&self->attached, &cursor));) {
        tell_ended(self, client);
    }

    return due_ms;
}

void
cadre_clients_excuse(cadre_clients_t *self, uint64_t ms)
{
    cadre_attached_t *client = NULL;
    for (size_t cursor = 0; (client = cadre_u64_map_next(&self->attached, &cursor));) {
        client->heard_ms += ms;
    }
}

void
cadre_clients_lose(cadre_clients_t *self, const cadre_task_t *task, const char *why)
{
    cadre_attached_t *client = find(self, task);
    if (client) {
        detach(self, client, why);
    }
}

/* Returns a client that attached under a key which is not allowed any more; NULL: there is none. */
static cadre_attached_t *
find_withdrawn(const cadre_clients_t *self, const uint64_t *ids, size_t count)
{
    cadre_attached_t *client = NULL;
    for (size_t cursor = 0; (client = cadre_u64_map_next(&self->attached, &cursor));) {
        if (client->key != 0 && !cadre_rights_is_key_of(client->key, ids, count)) {
            return client;
        }
    }
    return NULL;
}

void
cadre_clients_keys_withdrawn(cadre_clients_t *self, const uint64_t *ids, size_t count)
{
    cadre_attached_t *client = NULL;
    while ((client = find_withdrawn(self, ids, count))) {
        detach(self, client, "its key is revoked");
    }
}

/* Tells every client that the job ends, and takes it out. */
void
cadre_clients_stop(cadre_clients_t *self, const char *reason)
{
    cadre_attached_t *client = NULL;
    for (size_t cursor = 0; (client = cadre_u64_map_next(&self->attached, &cursor)); cursor = 0) {
        cadre_message_t stop = cadre_effects_message(self->links.effects, CADRE_MESSAGE_STOP);
        stop.stop.reason = reason;
        cadre_effects_send(self->links.effects, &client->task, &stop);
        detach(self, client, "the job ends");
    }
}
