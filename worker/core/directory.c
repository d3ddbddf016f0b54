#include "worker/core/directory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/wire_dtype.h"
#include "common/tensor/dtype.h"
#include "common/tensor/split.h"
#include "common/tensor/tensor.h"
#include "common/wire/codec.h"

static void
free_variable(cadre_variable_entry_t *entry)
{
    free(entry->name);
    free(entry->shards);
    free(entry);
}

static void
free_function(cadre_function_entry_t *entry)
{
    free(entry->name);
    cadre_chunk_unref(&entry->program);
    free(entry);
}

static void
free_dataset(cadre_dataset_entry_t *entry)
{
    free(entry->name);
    free(entry->description);
    cadre_row_chunks_fini(&entry->rows);
    free(entry);
}

static void
free_resource(cadre_resource_entry_t *entry)
{
    cadre_message_fini(&entry->message);
    cadre_holding_destroy(&entry->holding);
    free(entry);
}

/* Empties the directory and makes room for `shard_count` shards, none of which is known yet. */
void
cadre_directory_init(cadre_directory_t *self, uint32_t shard_count)
{
    cadre_directory_fini(self);
    self->shard_count = shard_count;
    self->shards = cadre_calloc(shard_count, sizeof(*self->shards));
}

/* Frees all entries, and with them what the resources hold. The directory is then as zeroed
 * memory. */
void
cadre_directory_fini(cadre_directory_t *self)
{
    for (uint32_t i = 0; i < self->shard_count; i++) {
        free(self->shards[i].address);
    }

    free(self->shards);
    void *entry = NULL;
    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->variables, &cursor));) {
        free_variable(entry);
    }

    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->functions, &cursor));) {
        free_function(entry);
    }

    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->datasets, &cursor));) {
        free_dataset(entry);
    }

    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->resources, &cursor));) {
        free_resource(entry);
    }

    cadre_u64_map_fini(&self->resources);
    cadre_u64_map_fini(&self->variables);
    cadre_name_map_fini(&self->variable_names);
    cadre_u64_map_fini(&self->functions);
    free(self->lacks);
    free(self->functions_leaving.ids);
    free(self->resources_leaving.ids);
    cadre_u64_map_fini(&self->datasets);
    *self = (cadre_directory_t){0};
}

/* Returns whether SHARD says that the shard was restored since the SHARD before: it has another
 * generation, or another process serves it. Incarnation 0 is no process: a shard that is only away
 * was not restored. A shard that this worker first hears of may have been restored after a closure
 * came here, unless its generation is 1, the first. */
static bool
was_restored(const cadre_shard_entry_t *entry, const cadre_shard_message_t *message)
{
    if (!entry->known) {
        return message->generation > 1;
    }
    bool replaced = message->incarnation != 0 && entry->task.incarnation != 0 &&
                    message->incarnation != entry->task.incarnation;
    return message->generation != entry->generation || replaced;
}

/* Takes over what SHARD says. A shard that is merely away keeps its last address and task: these
 * tell whether the ps that comes back is the same. */
static void
set_shard(cadre_directory_t *self, cadre_shard_entry_t *entry, const cadre_shard_message_t *message)
{
    bool restored = was_restored(entry, message);
    entry->away = message->incarnation == 0;
    if (restored) {
        entry->restored = ++self->restores;
    }

    if (!entry->away || restored || !entry->known) {
        free(entry->address);
        entry->address = cadre_strdup(message->address);
        entry->task = (cadre_task_t){CADRE_ROLE_PS, (uint32_t)message->index, message->incarnation};
        entry->generation = message->generation;
    }

    entry->known = true;
}

/* Takes over what SHARD says of one shard; `*changed`: whether that is news. Incarnation 0 and an
 * empty address go together: no ps serves the shard now. */
int
cadre_directory_set_shard(cadre_directory_t *self, const cadre_shard_message_t *message,
                          bool *changed)
{
    if (message->index >= self->shard_count) {
        return cadre_fail(CADRE_EMALFORMED, "SHARD: index %" PRIu64 " of %u shards", message->index,
                          self->shard_count);
    }

    bool away = message->incarnation == 0;
    if (away != (message->address[0] == '\0')) {
        return cadre_fail(CADRE_EMALFORMED, "SHARD: address \"%s\" with incarnation %" PRIu64,
                          message->address, message->incarnation);
    }

    cadre_shard_entry_t *entry = &self->shards[message->index];
    *changed = false;
    if (entry->known && message->generation < entry->generation) {
        return 0; /* a SHARD of an earlier generation, overtaken by a later one */
    }

    *changed = !entry->known || entry->away != away || entry->generation != message->generation ||
               (!away && (entry->task.incarnation != message->incarnation ||
                          strcmp(entry->address, message->address) != 0));
    if (*changed) {
        set_shard(self, entry, message);
    }

    return 0;
}

/* Returns the sum of the shards' generations. They only grow, so the coordinator sees by the sum
 * whether this worker has missed a SHARD. */
uint64_t
cadre_directory_generations(const cadre_directory_t *self)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < self->shard_count; i++) {
        sum += self->shards[i].generation;
    }
    return sum;
}

/* Returns whether a variable of this shape may have so many partitions: at most one for each row. A
 * table, whose shape is that of a row, has one on each shard. */
static bool
has_partitions(const cadre_variable_message_t *message, int rank, const int64_t *shape)
{
    if (message->kind == CADRE_VARIABLE_TABLE || message->kind == CADRE_VARIABLE_COUNTED_TABLE) {
        return rank == 1 && message->dtype == CADRE_F32 && message->partitions <= CADRE_SHARDS_MAX;
    }
    return message->partitions <= (uint64_t)(rank ? shape[0] : 1);
}

/* Returns the entry of a variable as its VARIABLE describes it; NULL when no variable can have that
 * shape, dtype, kind or number of partitions. */
static cadre_variable_entry_t *
new_variable(const cadre_variable_message_t *message)
{
    int64_t shape[CADRE_RANK_MAX];
    int rank = (int)message->shape.count;
    for (int i = 0; i < rank; i++) {
        if (message->shape.items[i] > INT64_MAX) {
            return NULL;
        }
        shape[i] = (int64_t)message->shape.items[i];
    }

    size_t size_bytes = 0;
    cadre_dtype_t wire = CADRE_F32;
    if (!cadre_dtype_valid(message->dtype) ||
        cadre_wire_dtype_decode(message->wire, (cadre_dtype_t)message->dtype, &wire) < 0 ||
        cadre_shape_size((cadre_dtype_t)message->dtype, shape, rank, NULL, &size_bytes) < 0 ||
        size_bytes == 0 || message->partitions < 1 || !has_partitions(message, rank, shape)) {
        return NULL;
    }

    cadre_variable_entry_t *entry = cadre_calloc(1, sizeof(*entry));
    entry->id = (uint32_t)message->id;
    entry->name = cadre_strdup(message->name);
    entry->dtype = (cadre_dtype_t)message->dtype;
    entry->wire = wire;
    entry->rank = rank;
    memcpy(entry->shape, shape, sizeof(shape[0]) * (size_t)rank);
    entry->is_counted = message->kind == CADRE_VARIABLE_COUNTED_TABLE;
    entry->is_table = message->kind == CADRE_VARIABLE_TABLE || entry->is_counted;
    entry->rows = rank ? shape[0] : 1;
    entry->row_size_bytes = entry->is_table ? size_bytes : size_bytes / (size_t)entry->rows;
    entry->rows = entry->is_table ? CADRE_TABLE_KEYS : entry->rows;
    entry->wire_row_size_bytes =
        entry->row_size_bytes / cadre_dtype_size(entry->dtype) * cadre_dtype_size(wire);
    entry->takes_rows = message->kind != CADRE_VARIABLE_WHOLE;
    entry->partitions = (uint32_t)message->partitions;
    entry->shards = cadre_calloc(entry->partitions, sizeof(*entry->shards));
    return entry;
}

/* Returns how rows of a partition are cut into the chunks of a message: cut by the variable's own
 * dtype, with the sizes that the chunks have in its wire dtype. */
cadre_chunk_layout_t
cadre_variable_entry_rows_layout(const cadre_variable_entry_t *self, size_t rows)
{
    cadre_chunk_layout_t layout;
    int status = cadre_chunk_layout_init(&layout, rows, self->row_size_bytes);
    cadre_assert(status == 0); /* new_variable checked the size of the whole variable */
    return cadre_chunk_layout_convert(&layout, cadre_dtype_size(self->dtype),
                                      cadre_dtype_size(self->wire));
}

cadre_chunk_layout_t
cadre_variable_entry_layout(const cadre_variable_entry_t *self, uint32_t partition)
{
    int64_t rows = cadre_split_rows(self->rows, self->partitions, partition);
    return cadre_variable_entry_rows_layout(self, (size_t)rows);
}

/* Enters the variable under its name. Variables of one name (each was dropped before the next was
 * created) form a list by descending id; the map has its first, the newest. */
static void
note_name(cadre_directory_t *self, cadre_variable_entry_t *entry)
{
    cadre_variable_entry_t *newest = cadre_name_map_get(&self->variable_names, entry->name);
    if (!newest || newest->id < entry->id) {
        cadre_name_map_take(&self->variable_names, entry->name);
        cadre_name_map_put(&self->variable_names, entry->name, entry);
        entry->older = newest;
        return;
    }

    while (newest->older && newest->older->id > entry->id) {
        newest = newest->older;
    }

    entry->older = newest->older;
    newest->older = entry;
}

/* Moves `variables_complete` on: every id up to it has a complete variable or is vacant. */
static void
count_complete(cadre_directory_t *self)
{
    while (cadre_directory_variable(self, self->variables_complete + 1)) {
        self->variables_complete++;
    }
}

/* Takes the record that a variable was dropped. Drops are numbered in the order of the definitions
 * log; a variable is dropped once. */
static int
set_dropped(cadre_directory_t *self, const cadre_variable_message_t *message)
{
    cadre_variable_entry_t *entry = cadre_u64_map_get(&self->variables, message->id);
    if (!entry || (entry->drop && entry->drop != message->drop)) {
        return cadre_fail(
            CADRE_EMALFORMED, "VARIABLE: drop %" PRIu64 " is of variable %" PRIu64 ", %s",
            message->drop, message->id, entry ? "which was dropped before" : "which is not known");
    }
    entry->drop = message->drop;
    self->drops = message->drop > self->drops ? message->drop : self->drops;
    return 0;
}

/* Marks the variables whose ids are from `first` to `last` as gone: no closure may name them any
 * more. */
static void
mark_gone(cadre_directory_t *self, uint64_t first, uint64_t last)
{
    cadre_variable_entry_t *entry = NULL;
    for (size_t cursor = 0; (entry = cadre_u64_map_next(&self->variables, &cursor));) {
        if (entry->id >= first && entry->id <= last && !entry->is_gone) {
            entry->is_gone = true;
            self->gone++;
        }
    }
}

static void
add_leaving(cadre_leaving_t *self, uint64_t id)
{
    self->ids = cadre_realloc(self->ids, self->count + 1, sizeof(*self->ids));
    self->ids[self->count++] = id;
}

/* Takes an id out of those that are leaving; the last one takes its place. */
static void
take_leaving(cadre_leaving_t *self, uint64_t id)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->ids[i] == id) {
            self->ids[i] = self->ids[--self->count];
            return;
        }
    }
}

/* Moves `functions_complete` on: all functions with ids up to it are known, or gone. */
static void
count_functions(cadre_directory_t *self)
{
    while (cadre_u64_map_get(&self->functions, (uint64_t)self->functions_complete + 1)) {
        self->functions_complete++;
    }
}

/* Takes a function out of those that HEARTBEAT says this worker lacks. */
static void
forget_lack(cadre_directory_t *self, uint64_t id)
{
    for (size_t i = 0; i < self->lack_count; i++) {
        if (self->lacks[i] == id) {
            self->lacks[i] = self->lacks[--self->lack_count];
            return;
        }
    }
}

/* Takes the record that a function is gone. A worker that joins later was never told of it: it
 * needs the id all the same, to see that it misses none. */
static void
set_function_gone(cadre_directory_t *self, uint64_t id)
{
    cadre_function_entry_t *entry = cadre_u64_map_get(&self->functions, id);
    if (entry && atomic_load_explicit(&entry->is_gone, memory_order_relaxed)) {
        return;
    }
    if (entry) {
        add_leaving(&self->functions_leaving, id);
        forget_lack(self, id);
    } else {
        entry = cadre_calloc(1, sizeof(*entry));
        entry->id = (uint32_t)id;
        entry->kind = CADRE_FUNCTION_PROGRAM;
        entry->name = cadre_strdup("");
        cadre_u64_map_put(&self->functions, id, entry);
        count_functions(self);
    }
    atomic_store_explicit(&entry->is_gone, true, memory_order_relaxed);
    self->functions_gone++;
}

/* Takes the record that ids from `id` to `last` are of no function, or resource, any more. */
static int
set_gone(cadre_directory_t *self, const cadre_variable_message_t *message)
{
    if (message->id == 0 || message->last != message->id || message->shards.count > 0 ||
        message->drop > 0) {
        return cadre_fail(CADRE_EMALFORMED,
                          "VARIABLE: ids %" PRIu64 " to %" PRIu64 " are gone, of kind %" PRIu64,
                          message->id, message->last, message->of);
    }
    if (message->of == CADRE_DEFINED_FUNCTION) {
        set_function_gone(self, message->id);
    } else if (cadre_directory_resource(self, message->id)) {
        add_leaving(&self->resources_leaving, message->id);
    }
    return 0;
}

/* Takes a range of vacant ids, from `id` to `last`: variables that are gone, or could not be
 * created. The worker must know of them to see that no record of the log is missing.
 * `variables_complete` stays if the range comes before the records of smaller ids: those are asked
 * for again (WANT). */
static int
set_vacant(cadre_directory_t *self, const cadre_variable_message_t *message)
{
    if (message->id == 0 || message->last < message->id || message->shards.count > 0) {
        return cadre_fail(CADRE_EMALFORMED,
                          "VARIABLE: ids %" PRIu64 " to %" PRIu64 " of no variable, on %zu shards",
                          message->id, message->last, message->shards.count);
    }

    mark_gone(self, message->id, message->last);
    if (message->id <= (uint64_t)self->variables_complete + 1 &&
        message->last > self->variables_complete) {
        self->variables_complete = (uint32_t)message->last;
        count_complete(self);
    }

    return 0;
}

/* Takes a record of the definitions log. With partitions, it is a piece of a variable: the shards
 * of its partitions from `first` on. Without partitions, it is the drop of a variable (`drop` is
 * not 0), a range of vacant ids, or, by `of`, an id of a function or resource that is gone. */
int
cadre_directory_set_variable(cadre_directory_t *self, const cadre_variable_message_t *message)
{
    if (message->of != CADRE_DEFINED_VARIABLE) {
        return set_gone(self, message);
    }
    if (message->partitions == 0) {
        return message->drop ? set_dropped(self, message) : set_vacant(self, message);
    }

    uint64_t last = message->first + message->shards.count;
    cadre_variable_entry_t *entry = cadre_u64_map_get(&self->variables, message->id);
    if (last > message->partitions || (entry && entry->partitions != message->partitions)) {
        return cadre_fail(CADRE_EMALFORMED,
                          "VARIABLE %s: partitions %" PRIu64 " to %" PRIu64 " of %" PRIu64,
                          message->name, message->first, last, message->partitions);
    }

    for (size_t i = 0; i < message->shards.count; i++) {
        if (message->shards.items[i] >= self->shard_count) {
            return cadre_fail(CADRE_EMALFORMED, "VARIABLE %s: shard %" PRIu64 " of %u",
                              message->name, message->shards.items[i], self->shard_count);
        }
    }

    if (!entry) {
        entry = new_variable(message);
        if (!entry) {
            return cadre_fail(CADRE_EMALFORMED, "VARIABLE %s: bad shape or dtype", message->name);
        }
        cadre_u64_map_put(&self->variables, message->id, entry);
        note_name(self, entry);
    }

    /* The pieces of one variable are taken in order; a piece that comes early is asked for again
     * (WANT). */
    if (message->first <= entry->shards_known && last > entry->shards_known) {
        for (size_t i = 0; i < message->shards.count; i++) {
            entry->shards[message->first + i] = (uint16_t)message->shards.items[i];
        }
        entry->shards_known = (uint32_t)last;
    }

    count_complete(self);
    return 0;
}

/* Decodes the record of DEFINITIONS at *at, its length and then a VARIABLE message, into
 * `variable`, and moves *at behind it. */
static int
next_definition(const char *bytes, size_t size_bytes, size_t *at, cadre_message_t *variable)
{
    uint32_t length = 0;
    if (size_bytes - *at < sizeof(length)) {
        return cadre_fail(CADRE_EMALFORMED, "DEFINITIONS: ends within a length");
    }

    memcpy(&length, bytes + *at, sizeof(length));
    *at += sizeof(length);
    if (length > size_bytes - *at) {
        return cadre_fail(CADRE_EMALFORMED, "DEFINITIONS: a record of %u bytes, where %zu are left",
                          length, size_bytes - *at);
    }

    int status = cadre_message_decode(bytes + *at, length, NULL, 0, variable);
    *at += length;
    if (status == 0 && variable->type != CADRE_MESSAGE_VARIABLE) {
        status = cadre_fail(CADRE_EMALFORMED, "DEFINITIONS: a record is a %s",
                            cadre_message_type_text(variable->type));
        cadre_message_fini(variable);
    }

    return status;
}

/* Takes the records of a DEFINITIONS, which has those of the log from number `first` on. Skips
 * records that were taken before; takes none, and returns 0, when earlier ones are missing (WANT
 * asks for them). */
int
cadre_directory_take_definitions(cadre_directory_t *self, const cadre_message_t *message)
{
    const cadre_definitions_message_t *definitions = &message->definitions;
    if (message->chunk_count != 1) {
        return cadre_fail(CADRE_EMALFORMED, "DEFINITIONS: %zu payload chunks, not 1",
                          message->chunk_count);
    }

    /* Records between those taken and the first one here are missing. */
    if (definitions->first > self->definitions) {
        return 0;
    }

    const char *bytes = cadre_chunk_data(message->chunks[0]);
    size_t size_bytes = cadre_chunk_size_bytes(message->chunks[0]);
    uint64_t number = definitions->first;
    int status = 0;
    for (size_t at = 0; at < size_bytes && status == 0; number++) {
        cadre_message_t variable = {.storage = NULL};
        status = next_definition(bytes, size_bytes, &at, &variable);
        if (status == 0 && number == self->definitions) {
            status = cadre_directory_set_variable(self, &variable.variable);
            self->definitions += status == 0;
        }
        cadre_message_fini(&variable);
    }

    if (status == 0 && number - definitions->first != definitions->count) {
        status = cadre_fail(CADRE_EMALFORMED, "DEFINITIONS: %" PRIu64 " records, not %" PRIu64,
                            number - definitions->first, definitions->count);
    }

    return status;
}

/* Notes that this worker lacks native function `id`, for HEARTBEAT, which has room for so many
 * only. */
static void
note_lack(cadre_directory_t *self, uint64_t id)
{
    if (self->lack_count < CADRE_LACKS_MAX) {
        self->lacks = cadre_realloc(self->lacks, self->lack_count + 1, sizeof(*self->lacks));
        self->lacks[self->lack_count++] = id;
    }
}

/* Takes a FUNCTION, unless its id is known already. `lacking`: it is a native function that this
 * worker does not have; the coordinator hears of it by HEARTBEAT. */
int
cadre_directory_set_function(cadre_directory_t *self, const cadre_message_t *message, bool lacking)
{
    const cadre_function_message_t *function = &message->function;
    if (function->kind != CADRE_FUNCTION_PROGRAM && function->kind != CADRE_FUNCTION_NATIVE) {
        return cadre_fail(CADRE_EMALFORMED, "FUNCTION %s: kind %" PRIu64, function->name,
                          function->kind);
    }

    if (cadre_u64_map_get(&self->functions, function->id)) {
        return 0;
    }

    cadre_function_entry_t *entry = cadre_calloc(1, sizeof(*entry));
    entry->id = (uint32_t)function->id;
    entry->kind = (cadre_function_kind_t)function->kind;
    entry->name = cadre_strdup(function->name);
    entry->hash = function->hash;
    entry->lacking = lacking;
    if (lacking) {
        note_lack(self, function->id);
    }

    if (entry->kind == CADRE_FUNCTION_PROGRAM) {
        size_t size_bytes = 0;
        for (size_t i = 0; i < message->chunk_count; i++) {
            size_bytes += cadre_chunk_size_bytes(message->chunks[i]);
        }

        /* A program may come in several chunks, and is decoded from one. */
        entry->program = cadre_chunk_new(size_bytes);
        char *at = cadre_chunk_data(entry->program);
        for (size_t i = 0; i < message->chunk_count; i++) {
            size_t size = cadre_chunk_size_bytes(message->chunks[i]);
            memcpy(at, cadre_chunk_data(message->chunks[i]), size);
            at += size;
        }
    }

    cadre_u64_map_put(&self->functions, function->id, entry);
    /* Functions may come in any order: `functions_complete` ends before the first missing id. */
    count_functions(self);
    return 0;
}

/* Returns an entry for the dataset that the DATASET names, of which no rows came yet. A description
 * in its payload is taken. */
static cadre_dataset_entry_t *
new_dataset(const cadre_message_t *message)
{
    const cadre_dataset_message_t *told = &message->dataset;
    cadre_dataset_entry_t *entry = cadre_calloc(1, sizeof(*entry));
    entry->id = (uint32_t)told->id;
    entry->name = cadre_strdup(told->name);
    entry->pieces = told->pieces;
    if (told->pieces == 0) {
        entry->description = cadre_strndup(cadre_chunk_data(message->chunks[0]),
                                           cadre_chunk_size_bytes(message->chunks[0]));
        return entry;
    }

    entry->rows = (cadre_row_chunks_t){.features = (int64_t)told->features,
                                       .label = (cadre_dtype_t)told->label};
    return entry;
}

/* Refuses a DATASET whose payload is not what its fields promise: a description, a piece of rows,
 * or nothing. */
static int
check_dataset(const cadre_message_t *message)
{
    const cadre_dataset_message_t *told = &message->dataset;
    const bool has_file = told->pieces == 0;
    const size_t wanted = has_file ? 1 : 0;
    if (told->piece > told->pieces || (told->piece == 0 && message->chunk_count != wanted)) {
        return cadre_fail(CADRE_EMALFORMED,
                          "DATASET %s: %zu payload chunks with a piece %" PRIu64 " of %" PRIu64,
                          told->name, message->chunk_count, told->piece, told->pieces);
    }
    const bool has_labels = told->label == CADRE_I32 || told->label == CADRE_F32;
    if (!has_file && (told->features == 0 || !has_labels)) {
        return cadre_fail(CADRE_EMALFORMED, "DATASET %s: rows without features or labels",
                          told->name);
    }
    return 0;
}

/* Takes a piece of rows if it is the next that is missing; one that came before counts once. */
static int
add_piece(cadre_dataset_entry_t *entry, const cadre_message_t *message, bool *is_whole)
{
    if (message->dataset.pieces != entry->pieces) {
        return cadre_fail(CADRE_EMALFORMED,
                          "DATASET %s: %" PRIu64 " pieces, and %" PRIu64 " before", entry->name,
                          message->dataset.pieces, entry->pieces);
    }
    if (message->dataset.piece != entry->piece + 1) {
        return 0;
    }

    for (size_t i = 0; i < message->chunk_count; i++) {
        int status = cadre_row_chunks_add(&entry->rows, cadre_chunk_ref(message->chunks[i]));
        if (status < 0) {
            return cadre_fail(CADRE_EMALFORMED, "DATASET %s: more rows than the limit",
                              entry->name);
        }
    }
    entry->piece++;
    entry->wanted_ms = 0;
    *is_whole = entry->piece == entry->pieces;
    return 0;
}

/* Takes a DATASET: its description, or the next piece of its rows. */
int
cadre_directory_set_dataset(cadre_directory_t *self, const cadre_message_t *message, bool *is_whole)
{
    *is_whole = false;
    int status = check_dataset(message);
    if (status < 0) {
        return status;
    }

    cadre_dataset_entry_t *entry = cadre_u64_map_get(&self->datasets, message->dataset.id);
    if (!entry) {
        entry = new_dataset(message);
        cadre_u64_map_put(&self->datasets, message->dataset.id, entry);
        *is_whole = entry->pieces == 0;
    }
    return message->dataset.piece == 0 ? 0 : add_piece(entry, message, is_whole);
}

/* Returns which piece of the rows to ask for now, at most once in `retry_ms`; 0 for none. */
uint64_t
cadre_dataset_entry_take_wanted(cadre_dataset_entry_t *self, uint64_t retry_ms, uint64_t now_ms)
{
    bool is_early = self->wanted_ms > 0 && now_ms < self->wanted_ms + retry_ms;
    if (self->piece == self->pieces || is_early) {
        return 0;
    }
    self->wanted_ms = now_ms;
    return self->piece + 1;
}

cadre_row_chunks_t
cadre_dataset_entry_take_rows(cadre_dataset_entry_t *self)
{
    cadre_row_chunks_t rows = self->rows;
    self->rows = (cadre_row_chunks_t){0};
    return rows;
}

/* Takes a RESOURCE (and its message), unless its id is known already: its function is still to run
 * here. */
int
cadre_directory_set_resource(cadre_directory_t *self, cadre_message_t *message)
{
    const cadre_resource_message_t *resource = &message->resource;
    if (resource->id == 0) {
        return cadre_fail(CADRE_EMALFORMED, "RESOURCE %s: id 0", resource->name);
    }
    if (cadre_directory_resource(self, resource->id)) {
        return 0;
    }

    cadre_resource_entry_t *entry = cadre_calloc(1, sizeof(*entry));
    entry->message = *message;
    *message = (cadre_message_t){0};
    cadre_u64_map_put(&self->resources, entry->message.resource.id, entry);
    cadre_resource_set_put(&self->resources_known, entry->message.resource.id);
    self->resources_unbuilt++;
    return 0;
}

/* Notes how the opening of the dataset ended, as `ready` says, so that DATASET_READY can be sent,
 * and sent again. In messages a status is positive. */
void
cadre_dataset_entry_answer(cadre_dataset_entry_t *self, const cadre_dataset_ready_message_t *ready)
{
    self->answered = true;
    self->status = -(int)ready->status;
    self->ready = *ready;
    self->ready.id = self->id;
    snprintf(self->text, sizeof(self->text), "%s", ready->text ? ready->text : "");
    self->ready.text = self->text;
}

/* Moves a resource to another state, with the counts that depend on it. HEARTBEAT lists a resource
 * as built when it is BUILT or FAILED: either way closures that name it need not wait. */
static void
mark_resource(cadre_directory_t *self, cadre_resource_entry_t *entry, cadre_resource_state_t state)
{
    self->resources_unbuilt -= entry->state == CADRE_RESOURCE_UNBUILT;
    self->resources_unbuilt += state == CADRE_RESOURCE_UNBUILT;
    entry->state = state;
    if (state == CADRE_RESOURCE_BUILT || state == CADRE_RESOURCE_FAILED) {
        cadre_resource_set_put(&self->resources_built, entry->message.resource.id);
    }
}

void
cadre_directory_build(cadre_directory_t *self, cadre_resource_entry_t *entry)
{
    mark_resource(self, entry, CADRE_RESOURCE_BUILDING);
}

/* Notes that a resource was built; it owns `holding`, what its function has made, from now on. */
void
cadre_directory_built(cadre_directory_t *self, cadre_resource_entry_t *entry,
                      cadre_holding_t *holding)
{
    entry->holding = holding;
    mark_resource(self, entry, CADRE_RESOURCE_BUILT);
}

/* Notes that the build of a resource has failed for good, for the reason `text`. */
void
cadre_directory_build_failed(cadre_directory_t *self, cadre_resource_entry_t *entry,
                             const char *text)
{
    snprintf(entry->text, sizeof(entry->text), "%s", text);
    mark_resource(self, entry, CADRE_RESOURCE_FAILED);
}

void
cadre_directory_build_again(cadre_directory_t *self, cadre_resource_entry_t *entry, uint64_t due_ms)
{
    entry->due_ms = due_ms;
    mark_resource(self, entry, CADRE_RESOURCE_UNBUILT);
}

uint32_t
cadre_resource_entry_tried(cadre_resource_entry_t *self)
{
    return ++self->tries;
}

cadre_holding_t *
cadre_resource_entry_release(cadre_resource_entry_t *self)
{
    cadre_holding_t *holding = self->holding;
    self->holding = NULL;
    return holding;
}

/* Returns the variable with this id; NULL when it is not known, or the shards of some of its
 * partitions are not known yet. */
const cadre_variable_entry_t *
cadre_directory_variable(const cadre_directory_t *self, uint32_t id)
{
    const cadre_variable_entry_t *entry = cadre_u64_map_get(&self->variables, id);
    return entry && entry->shards_known == entry->partitions ? entry : NULL;
}

/* Returns the variable that a closure means by `name`: the oldest that existed when `drops`
 * variables had been dropped. Walks from the newest to older ones, as long as they existed then
 * (never dropped, or by a later drop). `*was_dropped`: whether an earlier variable of the name was
 * dropped by then. */
const cadre_variable_entry_t *
cadre_directory_variable_by_name(const cadre_directory_t *self, const char *name, uint64_t drops,
                                 bool *was_dropped)
{
    const cadre_variable_entry_t *found = NULL;
    const cadre_variable_entry_t *entry = cadre_name_map_get(&self->variable_names, name);
    *was_dropped = false;
    while (entry && (entry->drop == 0 || entry->drop > drops)) {
        found = entry->shards_known == entry->partitions ? entry : NULL;
        entry = entry->older;
    }
    *was_dropped = entry != NULL;
    return found;
}

/* Frees the program of a function that no run names. Its entry stays, for slots that look whether
 * it is gone. */
void
cadre_directory_remove_function(cadre_directory_t *self, uint64_t id)
{
    cadre_function_entry_t *entry = cadre_u64_map_get(&self->functions, id);
    cadre_assert(entry && atomic_load_explicit(&entry->is_gone, memory_order_relaxed));
    take_leaving(&self->functions_leaving, id);
    cadre_chunk_unref(&entry->program);
}

/* Frees a resource that no run names, and returns what it held. */
cadre_holding_t *
cadre_directory_remove_resource(cadre_directory_t *self, uint64_t id)
{
    cadre_resource_entry_t *entry = cadre_u64_map_take(&self->resources, id);
    cadre_assert(entry && entry->state != CADRE_RESOURCE_BUILDING);
    take_leaving(&self->resources_leaving, id);
    self->resources_unbuilt -= entry->state == CADRE_RESOURCE_UNBUILT;
    cadre_holding_t *holding = cadre_resource_entry_release(entry);
    free_resource(entry);
    return holding;
}

/* Returns the function with this id; NULL when it is not known, or gone. */
const cadre_function_entry_t *
cadre_directory_function(const cadre_directory_t *self, uint32_t id)
{
    const cadre_function_entry_t *entry = cadre_u64_map_get(&self->functions, id);
    return entry && !atomic_load_explicit(&entry->is_gone, memory_order_relaxed) ? entry : NULL;
}

cadre_dataset_entry_t *
cadre_directory_dataset(const cadre_directory_t *self, uint32_t id)
{
    return cadre_u64_map_get(&self->datasets, id);
}

cadre_resource_entry_t *
cadre_directory_resource(const cadre_directory_t *self, uint64_t id)
{
    return cadre_u64_map_get(&self->resources, id);
}
