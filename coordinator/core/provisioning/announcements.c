#include "coordinator/core/provisioning/announcements.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/spec/wire_dtype.h"
#include "common/wire/codec.h"

enum {
    /* First pause between answers to the same WANT, which a worker repeats each second. */
    WANT_REST_MS = 900,
    /* Longest pause between answers to the same WANT: the answer may still wait in a slow
     * connection. */
    WANT_REST_MS_MAX = 8000,
};

void
cadre_announcements_init(cadre_announcements_t *self, const cadre_announcements_links_t *links)
{
    *self = (cadre_announcements_t){.links = *links};
}

void
cadre_announcements_fini(cadre_announcements_t *self)
{
    cadre_definitions_fini(&self->definitions);
}

/* Returns how the gradients of a variable may come. */
static cadre_variable_kind_t
kind_of(const cadre_variable_t *variable)
{
    if (variable->table) {
        const bool counts =
            variable->table->age_max > 0 || cadre_optimizer_spec_counts(&variable->optimizer);
        return counts ? CADRE_VARIABLE_COUNTED_TABLE : CADRE_VARIABLE_TABLE;
    }
    return cadre_optimizer_spec_takes_rows(&variable->optimizer) ? CADRE_VARIABLE_ROWS
                                                                 : CADRE_VARIABLE_WHOLE;
}

/* Appends the variable to the log that workers are sent: as many records as the list of its
 * partitions' shards takes. */
void
cadre_announcements_add_variable(cadre_announcements_t *self, const cadre_variable_t *variable)
{
    uint64_t shape[CADRE_RANK_MAX];
    uint64_t *shards = cadre_calloc(CADRE_VARIABLE_SHARDS_MAX, sizeof(*shards));
    for (int i = 0; i < variable->rank; i++) {
        shape[i] = (uint64_t)variable->shape[i];
    }

    for (uint32_t first = 0; first < variable->partitions; first += CADRE_VARIABLE_SHARDS_MAX) {
        uint32_t count =
            (uint32_t)cadre_min_u64(variable->partitions - first, CADRE_VARIABLE_SHARDS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            shards[i] = variable->shards[first + i];
        }

        cadre_message_t message =
            cadre_effects_message(self->links.effects, CADRE_MESSAGE_VARIABLE);
        message.variable = (cadre_variable_message_t){
            .id = variable->id,
            .name = variable->name,
            .dtype = variable->dtype,
            .wire = cadre_wire_dtype_encode(variable->dtype, variable->wire),
            .shape = {shape, (size_t)variable->rank},
            .partitions = variable->partitions,
            .first = first,
            .shards = {shards, count},
            .kind = kind_of(variable)};
        cadre_definitions_add(&self->definitions, &message);
    }

    self->untold = true;
    free(shards);
}

/* Sends a worker the encoded message in `entry`: all workers get the same bytes. */
static void
send_kept(cadre_announcements_t *self, const cadre_member_t *member, cadre_outbox_entry_t *entry)
{
    entry->destination = member->task;
    cadre_outbox_repeat(&self->links.effects->outbox, entry);
}

/* Sends a worker a FUNCTION, which is encoded once for all workers. */
static void
send_function(cadre_announcements_t *self, const cadre_member_t *member, cadre_function_t *function)
{
    if (!function->told.header) {
        cadre_message_t message =
            cadre_effects_message(self->links.effects, CADRE_MESSAGE_FUNCTION);
        message.function = (cadre_function_message_t){.id = function->id,
                                                      .kind = function->kind,
                                                      .name = function->name,
                                                      .hash = function->hash};
        size_t size_bytes = function->program ? cadre_chunk_size_bytes(function->program) : 0;
        for (size_t at = 0; at < size_bytes; at += CADRE_CHUNK_SIZE_MAX) {
            size_t size = (size_t)cadre_min_u64(size_bytes - at, CADRE_CHUNK_SIZE_MAX);
            const char *bytes = cadre_chunk_data(function->program);
            cadre_message_add_chunk(&message, cadre_chunk_new_copy(bytes + at, size));
        }
        cadre_outbox_entry_init(&function->told, &member->task, &message);
    }
    send_kept(self, member, &function->told);
}

/* Returns a DATASET that says what the dataset is; `piece` is of the rows of the program's memory
 * that the caller adds, 0 where it adds none. */
static cadre_message_t
dataset_message(const cadre_announcements_t *self, const cadre_dataset_t *dataset, uint64_t piece)
{
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_DATASET);
    message.dataset = (cadre_dataset_message_t){.id = dataset->id,
                                                .name = dataset->name,
                                                .features = (uint64_t)dataset->rows.features,
                                                .label = (uint64_t)dataset->rows.label,
                                                .pieces = cadre_dataset_pieces(dataset),
                                                .piece = piece};
    return message;
}

/* Sends a worker a DATASET, which is encoded once for all workers. Rows of the program's memory are
 * left out: the worker asks for them piece by piece. */
void
cadre_announcements_send_dataset(cadre_announcements_t *self, const cadre_member_t *member,
                                 cadre_dataset_t *dataset)
{
    if (!dataset->told.header) {
        cadre_message_t message = dataset_message(self, dataset, 0);
        if (message.dataset.pieces == 0) {
            cadre_message_add_chunk(
                &message, cadre_chunk_new_copy(dataset->description, strlen(dataset->description)));
        }
        cadre_outbox_entry_init(&dataset->told, &member->task, &message);
    }
    send_kept(self, member, &dataset->told);
}

/* Sends a worker one piece of the rows of a dataset from memory, counted from 1. All workers are
 * sent the same chunks. */
static void
send_rows(cadre_announcements_t *self, const cadre_member_t *member, const cadre_dataset_t *dataset,
          uint64_t piece)
{
    if (piece < 1 || piece > cadre_dataset_pieces(dataset)) {
        return;
    }

    cadre_message_t message = dataset_message(self, dataset, piece);
    size_t first = (size_t)(piece - 1) * CADRE_MEMORY_PIECE_CHUNKS;
    size_t end = (size_t)cadre_min_u64(first + CADRE_MEMORY_PIECE_CHUNKS, dataset->rows.count);
    for (size_t i = first; i < end; i++) {
        cadre_message_add_chunk(&message, cadre_chunk_ref(dataset->rows.chunks[i]));
    }
    cadre_outbox_send(&self->links.effects->outbox, &member->task, &message);
    cadre_message_fini(&message);
}

/* Sends a worker the records of the log of variables that it was not sent yet. */
static void
send_definitions(cadre_announcements_t *self, cadre_member_t *member)
{
    cadre_message_t sender = cadre_effects_message(self->links.effects, CADRE_MESSAGE_DEFINITIONS);
    cadre_definitions_send(&self->definitions, &sender, &member->task, member->definitions,
                           &self->links.effects->outbox);
    member->definitions = self->definitions.count;
}

/* Sends a worker that says HELLO all that it lacks. A worker that has been in this session before
 * (`goes_on`) has what its HELLO counts. */
void
cadre_announcements_brief(cadre_announcements_t *self, cadre_member_t *member,
                          const cadre_hello_message_t *hello)
{
    bool goes_on = hello->session == self->links.options->incarnation;
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        cadre_recovery_tell(self->links.recovery, member, i);
    }

    /* records of another session are other records */
    uint64_t has = goes_on ? hello->definitions : 0;
    member->definitions = cadre_min_u64(has, self->definitions.count);
    member->briefed = true;
    send_definitions(self, member);

    uint64_t functions = goes_on ? hello->functions : 0;
    for (uint64_t i = functions; i < self->links.catalogue->function_count; i++) {
        if (!self->links.catalogue->functions[i]->removed) { /* else the log says so */
            send_function(self, member, self->links.catalogue->functions[i]);
        }
    }

    for (uint32_t i = 0; i < self->links.catalogue->dataset_count; i++) {
        /* Datasets that have failed are not sent. */
        if (self->links.catalogue->datasets[i]->status == 0) {
            cadre_announcements_send_dataset(self, member, self->links.catalogue->datasets[i]);
        }
    }
}

/* Runs the following statement for every worker that is connected, as `member`. */
#define FOR_EACH_WORKER(self, member)                                                              \
    for (uint32_t worker_ = 0; worker_ < (self)->links.members->worker_capacity; worker_++)        \
        if (((member) = (self)->links.members->workers[worker_]))

/* Appends a record which says that this id has no variable. Workers take records in the order of
 * ids: without it they would wait for the id. */
void
cadre_announcements_add_vacancy(cadre_announcements_t *self, uint32_t id)
{
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_VARIABLE);
    message.variable = (cadre_variable_message_t){.id = id, .name = "", .last = id};
    cadre_definitions_add(&self->definitions, &message);
    self->untold = true;
}

/* Appends a record which says that the variable is dropped; `drop` is the number of the drop. */
void
cadre_announcements_add_drop(cadre_announcements_t *self, const cadre_variable_t *variable)
{
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_VARIABLE);
    message.variable = (cadre_variable_message_t){
        .id = variable->id, .name = "", .last = variable->id, .drop = variable->dropped};
    cadre_definitions_add(&self->definitions, &message);
    self->untold = true;
}

/* Appends a record which says that this id is of no function, or resource, any more. */
void
cadre_announcements_add_removal(cadre_announcements_t *self, cadre_defined_t of, uint32_t id)
{
    cadre_message_t message = cadre_effects_message(self->links.effects, CADRE_MESSAGE_VARIABLE);
    message.variable = (cadre_variable_message_t){.id = id, .name = "", .last = id, .of = of};
    cadre_definitions_add(&self->definitions, &message);
    self->untold = true;
}

/* Sends all workers the records that were added since the last call. */
void
cadre_announcements_tell_variables(cadre_announcements_t *self)
{
    if (!self->untold) {
        return;
    }

    cadre_member_t *member = NULL;
    FOR_EACH_WORKER(self, member)
    {
        if (member->briefed && member->definitions < self->definitions.count) {
            send_definitions(self, member);
        }
    }
    self->untold = false;
}

/* Sends a new function to all workers. */
void
cadre_announcements_tell_function(cadre_announcements_t *self, cadre_function_t *function)
{
    const cadre_member_t *member = NULL;
    FOR_EACH_WORKER(self, member)
    {
        send_function(self, member, function);
    }
}

/* Sends a new dataset to all workers. */
void
cadre_announcements_tell_dataset(cadre_announcements_t *self, cadre_dataset_t *dataset)
{
    const cadre_member_t *member = NULL;
    self->datasets_ms = self->links.effects->now_ms;
    FOR_EACH_WORKER(self, member)
    {
        cadre_announcements_send_dataset(self, member, dataset);
    }
}

/* Returns whether datasets are to be sent again, to workers that have not answered, and restarts
 * the time. */
bool
cadre_announcements_take_datasets_due(cadre_announcements_t *self)
{
    uint64_t now_ms = self->links.effects->now_ms;
    bool due = now_ms >= self->datasets_ms + self->links.options->resend_ms;
    if (due) {
        self->datasets_ms = now_ms;
    }
    return due;
}

/* Answers a worker that has the first `known` records and asks for more. The rest may be lost, or
 * still be on its way: so the same question is answered again only after a pause, a longer one each
 * time. */
static void
want_definitions(cadre_announcements_t *self, cadre_member_t *member, uint64_t known)
{
    if (known >= member->definitions || !member->briefed) {
        return;
    }

    bool is_again = known == member->wanted && member->want_rest_ms > 0;
    if (is_again && self->links.effects->now_ms < member->want_ms) {
        return;
    }

    uint64_t longer_ms = cadre_min_u64(2 * member->want_rest_ms, WANT_REST_MS_MAX);
    member->wanted = known;
    member->want_rest_ms = is_again ? longer_ms : WANT_REST_MS;
    member->want_ms = self->links.effects->now_ms + member->want_rest_ms;
    member->definitions = known;
    send_definitions(self, member);
}

/* Answers a WANT of a worker: sends again what it asks for, if that exists. */
void
cadre_announcements_on_want(cadre_announcements_t *self, cadre_member_t *member,
                            const cadre_want_message_t *want)
{
    const cadre_catalogue_t *catalogue = self->links.catalogue;
    uint64_t id = want->id;
    switch ((cadre_want_t)want->kind) {
    case CADRE_WANT_SHARD:
        if (id < self->links.options->ps_count) {
            cadre_recovery_tell(self->links.recovery, member, (uint32_t)id);
        }
        break;
    case CADRE_WANT_DEFINITIONS:
        want_definitions(self, member, id);
        break;
    case CADRE_WANT_FUNCTION:
        if (id >= 1 && id <= catalogue->function_count && !catalogue->functions[id - 1]->removed) {
            send_function(self, member, catalogue->functions[id - 1]);
        }
        break;
    case CADRE_WANT_DATASET:
        if (id >= 1 && id <= catalogue->dataset_count) {
            cadre_announcements_send_dataset(self, member, catalogue->datasets[id - 1]);
        }
        break;
    case CADRE_WANT_ROWS:
        if (id >= 1 && id <= catalogue->dataset_count) {
            send_rows(self, member, catalogue->datasets[id - 1], want->piece);
        }
        break;
    }
}
