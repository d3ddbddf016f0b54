#include "coordinator/core/checkpoint/checkpoint_manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/split.h"

/* Returns an object of the parameters by name, as `table` names them. */
static json_t *
parameters_json(const cadre_parameter_t *table, const double *values, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(object, table[i].name, json_real(values[i]));
    }
    return object;
}

static json_t *
numbers_json(const double *numbers, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, json_real(numbers[i]));
    }
    return array;
}

/* Returns a learning-rate schedule as JSON: kind and parameters, and for one of steps the numbers
 * of updates (boundaries) at which the rate changes, and the rates. */
static json_t *
schedule_json(const cadre_schedule_spec_t *schedule)
{
    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_schedule_parameters(schedule->kind, &table);
    json_t *object = json_pack("{s:s, s:o}", "kind", cadre_schedule_kind_text(schedule->kind),
                               "parameters", parameters_json(table, schedule->parameters, count));
    if (schedule->boundary_count > 0) {
        json_object_set_new(object, "boundaries",
                            numbers_json(schedule->boundaries, schedule->boundary_count));
        json_object_set_new(object, "values",
                            numbers_json(schedule->values, schedule->boundary_count));
    }
    return object;
}

/* Returns an optimizer as JSON: kind and parameters, and of the options (schedule, clipping,
 * running average, delay compensation, lazy) those that are on. */
static json_t *
optimizer_json(const cadre_optimizer_spec_t *optimizer)
{
    const cadre_parameter_t *table = NULL;
    const size_t count = cadre_optimizer_parameters(optimizer->kind, &table);
    json_t *object = json_pack("{s:s, s:o}", "kind", cadre_optimizer_kind_text(optimizer->kind),
                               "parameters", parameters_json(table, optimizer->parameters, count));
    if (optimizer->schedule.kind != 0) {
        json_object_set_new(object, "schedule", schedule_json(&optimizer->schedule));
    }
    if (optimizer->clip_value > 0) {
        json_object_set_new(object, "clip_value", json_real(optimizer->clip_value));
    }
    if (optimizer->average_momentum > 0) {
        json_object_set_new(object, "average_momentum", json_real(optimizer->average_momentum));
        json_object_set_new(object, "average_overwrite",
                            json_integer((json_int_t)optimizer->average_overwrite));
    }
    if (optimizer->delay_compensation > 0) {
        json_object_set_new(object, "delay_compensation", json_real(optimizer->delay_compensation));
    }
    if (optimizer->lazy) {
        json_object_set_new(object, "lazy", json_true());
    }
    return object;
}

/* Returns how a table keeps its rows as JSON. */
static json_t *
table_json(const cadre_table_spec_t *table)
{
    return json_pack(
        "{s:s, s:b, s:I, s:I, s:s, s:I, s:f, s:f}", "storage", cadre_dtype_text(table->storage),
        "row_wise", (int)table->row_wise, "admit_after", (json_int_t)table->admit_after, "rows_max",
        (json_int_t)table->rows_max, "when_full", cadre_table_policy_text(table->when_full),
        "age_max", (json_int_t)table->age_max, "group_lasso", table->group_lasso, "norm_min",
        table->norm_min);
}

/* Fills in shape and kind of a variable's entry. The shape of a table is [0, dim]. */
static void
fill_shape(cadre_manifest_variable_t *entry, const cadre_variable_t *variable)
{
    const int first = variable->table ? 1 : 0;
    entry->dtype = variable->dtype;
    entry->wire = variable->wire;
    entry->rank = variable->rank + first;
    memcpy(entry->shape + first, variable->shape, sizeof(int64_t) * (size_t)variable->rank);
    entry->table = variable->table ? table_json(variable->table) : NULL;
}

/* Fills in the manifest's entry of one variable. */
static void
fill_variable(cadre_manifest_variable_t *entry, const cadre_variable_t *variable)
{
    const cadre_parameter_t *table = NULL;
    entry->name = cadre_strdup(variable->name);
    fill_shape(entry, variable);
    size_t count = cadre_initializer_parameters(variable->initializer.kind, &table);
    /* A JSON integer is signed: the seed is written without its lowest bit. */
    entry->initializer = json_pack("{s:s, s:I, s:o}", "kind",
                                   cadre_initializer_kind_text(variable->initializer.kind), "seed",
                                   (json_int_t)(variable->initializer.seed >> 1), "parameters",
                                   parameters_json(table, variable->initializer.parameters, count));
    entry->optimizer = optimizer_json(&variable->optimizer);
    int64_t row_elements = (int64_t)(variable->row_size_bytes / cadre_dtype_size(variable->dtype));
    entry->partition_count = variable->partitions;
    entry->partitions = cadre_calloc(variable->partitions, sizeof(*entry->partitions));
    for (uint32_t i = 0; i < variable->partitions; i++) {
        entry->partitions[i] = (cadre_manifest_partition_t){
            .shard = variable->shards[i],
            .first_element =
                row_elements * cadre_split_first(variable->rows, variable->partitions, i),
            .count = row_elements * cadre_split_rows(variable->rows, variable->partitions, i)};
    }
}

/* Fills in the manifest's entry of one shard: its file, and counters of the ps that go on after a
 * resume. */
static void
fill_shard(cadre_manifest_shard_t *entry, const cadre_checkpoint_t *self, uint32_t shard)
{
    const cadre_written_shard_t *written = &self->shards[shard];
    entry->file = cadre_strdup(written->file);
    entry->size_bytes = written->size_bytes;
    entry->hash = written->hash;
    entry->state =
        (cadre_shard_state_t){.window_base = self->cut,
                              .generation = self->links.recovery->places[shard].generation,
                              .applied = written->counters[CADRE_PS_COUNTER_applied],
                              .duplicate = written->counters[CADRE_PS_COUNTER_duplicate],
                              .refused = written->counters[CADRE_PS_COUNTER_refused]};
}

/* What cadre_coordinator_totals counts since the job began. */
#define CADRE_TOTALS_LIST(X)                                                                       \
    X(scheduled)                                                                                   \
    X(finished)                                                                                    \
    X(failed)                                                                                      \
    X(attempts)                                                                                    \
    X(workers_lost)                                                                                \
    X(ps_lost)                                                                                     \
    X(ps_restored)                                                                                 \
    X(replayed)                                                                                    \
    X(closures_at_risk)                                                                            \
    X(checkpoints)                                                                                 \
    X(checkpoints_failed)                                                                          \
    X(retentions_failed)                                                                           \
    X(deadlines_missed)                                                                            \
    X(reports_refused)

static json_t *
totals_json(const cadre_checkpoint_t *self)
{
    cadre_totals_t totals = self->totals;
    json_t *object = json_object();
    totals.checkpoints++; /* whoever reads this manifest finds its checkpoint committed */
#define PACK(name) json_object_set_new(object, #name, json_integer((json_int_t)totals.name));
    CADRE_TOTALS_LIST(PACK)
#undef PACK
    return object;
}

/* Returns the manifest's progress record: the user's record beside the coordinator's counters.
 * NULL, with an error text, when the user's is no JSON object. */
static json_t *
progress_json(const cadre_checkpoint_t *self)
{
    json_t *user = json_null();
    if (self->progress) {
        json_error_t error;
        user = json_loads(self->progress, JSON_REJECT_DUPLICATES, &error);
        if (!json_is_object(user)) {
            json_decref(user);
            cadre_fail(CADRE_EINVALID, "the progress record is no JSON object: %s", error.text);
            return NULL;
        }
    }

    return json_pack("{s:o, s:o, s:o}", "user", user, "totals", totals_json(self), "sequences",
                     cadre_sequences_json(&self->held));
}

/* Fails unless each shard has written the values after the synchronous step that the cut lies
 * after: the others have those, and the progress record says that this step is done (I5). */
static int
check_steps(const cadre_checkpoint_t *self)
{
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        const cadre_written_shard_t *shard = &self->shards[i];
        if (shard->written_step != shard->step) {
            return cadre_fail(CADRE_ESTATE,
                              "ps %" PRIu32 " wrote the values after step %" PRIu64
                              ", and the cut lies after step %" PRIu64,
                              i, shard->written_step, shard->step);
        }
    }
    return 0;
}

/* Builds the manifest of the checkpoint under way, which all shards have written. */
int
cadre_checkpoint_manifest(const cadre_checkpoint_t *self, cadre_manifest_t **out)
{
    int status = check_steps(self);
    if (status < 0) {
        return status;
    }
    json_t *progress = progress_json(self);
    if (!progress) {
        return CADRE_EINVALID;
    }

    cadre_manifest_t *manifest = cadre_calloc(1, sizeof(*manifest));
    manifest->job = cadre_strdup(self->links.options->job);
    manifest->id = self->id;
    manifest->cut = self->cut;
    manifest->since = self->since;
    manifest->epoch = self->links.options->epoch;
    manifest->seed = self->links.options->seed;
    manifest->progress = progress;

    /* Only variables that existed at the cut (I5): ids are in the order of creation. */
    manifest->variables = cadre_calloc(self->variable_count, sizeof(*manifest->variables));
    for (uint32_t i = 0; i < self->variable_count; i++) {
        const cadre_variable_t *variable = self->links.catalogue->variables[i];
        bool is_dropped = variable->dropped > 0 && variable->dropped <= self->drops;
        if (variable->created && !is_dropped) {
            fill_variable(&manifest->variables[manifest->variable_count++], variable);
        }
    }

    manifest->shard_count = self->links.options->ps_count;
    manifest->shards = cadre_calloc(manifest->shard_count, sizeof(*manifest->shards));
    for (uint32_t i = 0; i < self->links.options->ps_count; i++) {
        fill_shard(&manifest->shards[i], self, i);
    }

    *out = manifest;
    return 0;
}

/* Reads one counter of the totals. Returns false unless it is an integer of 0 or more. */
static bool
take_total(const json_t *totals, const char *name, uint64_t *total)
{
    const json_t *value = json_object_get(totals, name);
    bool good = json_is_integer(value) && json_integer_value(value) >= 0;
    *total = good ? (uint64_t)json_integer_value(value) : 0;
    return good;
}

/* Reads the job's totals and the user's progress record (JSON text, or NULL) from a manifest. */
int
cadre_checkpoint_totals(const cadre_manifest_t *manifest, cadre_totals_t *totals, char **progress)
{
    json_t *user = NULL;
    const json_t *counted = NULL;
    json_error_t error;
    if (json_unpack_ex(manifest->progress, &error, 0, "{s:o, s:o}", "user", &user, "totals",
                       &counted) < 0) {
        return cadre_fail(CADRE_EMALFORMED, "the manifest's progress record: %s", error.text);
    }

    cadre_totals_t read = {.scheduled = 0};
#define UNPACK(name)                                                                               \
    if (!take_total(counted, #name, &read.name)) {                                                 \
        return cadre_fail(CADRE_EMALFORMED, "the manifest's progress record: no total %s", #name); \
    }
    CADRE_TOTALS_LIST(UNPACK)
#undef UNPACK
    *totals = read;
    *progress = json_is_object(user) ? json_dumps(user, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    return 0;
}

int
cadre_checkpoint_sequences(const cadre_manifest_t *manifest, cadre_sequences_t *sequences)
{
    int status = cadre_sequences_read(sequences, json_object_get(manifest->progress, "sequences"));
    return status < 0 ? cadre_fail_within(status, "the manifest's progress record") : 0;
}
