#include "coordinator/core/catalogue/catalogue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/data_ranges.h"
#include "common/spec/data_spec.h"
#include "common/spec/wire_dtype.h"
#include "common/tensor/split.h"

/* Initialises an empty catalogue. The seed of the job is what seeds of variables and resources are
 * made of; without `round_robin` a partition goes to the shard that has the fewest bytes. */
void
cadre_catalogue_init(cadre_catalogue_t *self, uint32_t shard_count, bool round_robin, uint64_t seed)
{
    *self = (cadre_catalogue_t){.seed = seed};
    cadre_placement_init(&self->placement, shard_count, round_robin);
    self->vacant.name = cadre_strdup("");
}

static void
destroy_variable(cadre_variable_t *variable)
{
    free(variable->name);
    free(variable->shards);
    free(variable->table);
    free(variable);
}

/* Frees the set of names of dropped variables. In this map a name is its own value, so freeing the
 * values frees the names. */
static void
fini_dropped_names(cadre_catalogue_t *self)
{
    for (size_t i = 0; i < self->dropped_names.capacity; i++) {
        free(self->dropped_names.entries[i].value);
    }
    cadre_name_map_fini(&self->dropped_names);
}

static void
destroy_function(cadre_function_t *function)
{
    free(function->name);
    cadre_chunk_unref(&function->program);
    cadre_outbox_entry_fini(&function->told);
    free(function);
}

/* Frees a dataset, with the answers of workers about it. */
static void
destroy_dataset(cadre_dataset_t *dataset)
{
    free(dataset->name);
    free(dataset->description);
    cadre_row_chunks_fini(&dataset->rows);
    cadre_outbox_entry_fini(&dataset->told);
    for (uint32_t i = 0; i < dataset->answer_count; i++) {
        free(dataset->answers[i].text);
    }
    free(dataset->answers);
    free(dataset);
}

/* Frees a resource, with the closure that builds it on a worker (`call`). */
static void
destroy_resource(cadre_resource_t *resource)
{
    free(resource->name);
    cadre_closure_destroy(&resource->call);
    free(resource->error);
    cadre_suspicion_fini(&resource->suspicion);
    free(resource);
}

/* Frees all entries. Vacant ids share one entry, `vacant`, which is freed once. */
void
cadre_catalogue_fini(cadre_catalogue_t *self)
{
    for (uint32_t i = 0; i < self->variable_count; i++) {
        if (!cadre_catalogue_is_vacant(self, i + 1)) {
            destroy_variable(self->variables[i]);
        }
    }
    for (uint32_t i = 0; i < self->function_count; i++) {
        destroy_function(self->functions[i]);
    }
    for (uint32_t i = 0; i < self->dataset_count; i++) {
        destroy_dataset(self->datasets[i]);
    }
    for (uint32_t i = 0; i < self->resource_count; i++) {
        destroy_resource(self->resources[i]);
    }

    free(self->vacant.name);
    free(self->variables);
    free(self->functions);
    free(self->datasets);
    free(self->resources);
    fini_dropped_names(self);
    cadre_name_map_fini(&self->variable_names);
    cadre_placement_fini(&self->placement);
    *self = (cadre_catalogue_t){0};
}

/* Returns whether `c` is an ASCII letter or digit, whatever the program's locale calls a letter. */
static bool
is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Checks the name of a variable, function, dataset or resource; `what` says which, for the
 * error. */
int
cadre_name_check(const char *what, const char *name)
{
    size_t length = name ? strlen(name) : 0;
    bool good = length >= 1 && length <= CADRE_NAME_SIZE_MAX && is_alphanumeric(name[0]);
    for (size_t i = 0; good && i < length; i++) {
        good = is_alphanumeric(name[i]) || strchr("._-", name[i]);
    }
    if (!good) {
        return cadre_fail(CADRE_EINVALID,
                          "%s name \"%.140s\": 1 to %d characters of A-Z a-z 0-9 . _ -, beginning "
                          "with a letter or digit",
                          what, name ? name : "", CADRE_NAME_SIZE_MAX);
    }
    return 0;
}

cadre_variable_t *
cadre_catalogue_variable(const cadre_catalogue_t *self, const char *name)
{
    return cadre_name_map_get(&self->variable_names, name);
}

/* Returns the seed of a variable's first values: the one that was asked for, or else one made of
 * the job's seed and the variable's name. */
static uint64_t
seed_of(const cadre_catalogue_t *self, const cadre_variable_t *variable, uint64_t asked)
{
    return asked ? asked : XXH3_64bits_withSeed(variable->name, strlen(variable->name), self->seed);
}

/* Sets and checks a new variable's initializer and optimizer. */
static int
set_specs(const cadre_catalogue_t *self, cadre_variable_t *variable,
          const cadre_variable_options_t *options)
{
    int status = cadre_initializer_spec_take(&variable->initializer, &options->initializer);
    if (status < 0) {
        return status;
    }

    variable->initializer.seed = seed_of(self, variable, options->seed);
    status = cadre_initializer_spec_check(&variable->initializer, variable->dtype, variable->rank);
    if (status < 0) {
        return status;
    }

    status = cadre_optimizer_spec_take(&variable->optimizer, &options->optimizer);
    if (status < 0) {
        return status;
    }
    status = cadre_schedule_spec_take(&variable->optimizer.schedule, &options->schedule);
    if (status < 0) {
        return status;
    }
    variable->optimizer.clip_value = options->clip_value;
    variable->optimizer.average_momentum = options->average_momentum;
    variable->optimizer.average_overwrite = options->average_overwrite;
    variable->optimizer.delay_compensation = options->delay_compensation;
    variable->optimizer.lazy = options->lazy != 0;
    return cadre_optimizer_spec_check(&variable->optimizer, variable->dtype);
}

int
cadre_catalogue_change_rate(cadre_variable_t *variable, uint64_t updates, double rate)
{
    if (variable->optimizer.kind == CADRE_OPTIMIZER_ADD) {
        return cadre_fail(CADRE_EINVALID, "%s: the optimizer add has no learning rate",
                          variable->name);
    }

    cadre_optimizer_spec_t changed = variable->optimizer;
    int status = cadre_schedule_spec_extend(&changed.schedule, updates, rate);
    if (status < 0) {
        return cadre_fail_within(status, "%s", variable->name);
    }

    variable->optimizer = changed;
    return 0;
}

/* Returns how many bytes the values of one partition take. */
static uint64_t
part_size_bytes(const cadre_variable_t *variable, uint32_t part)
{
    return variable->row_size_bytes *
           (uint64_t)cadre_split_rows(variable->rows, variable->partitions, part);
}

/* Checks the options that place a variable whole on one shard, and gives that shard; 0 if they are
 * not set. */
static int
pinned_shard(const cadre_catalogue_t *self, const cadre_variable_options_t *options,
             uint16_t *shard)
{
    const uint32_t count = self->placement.shard_count;
    if (options->is_pinned && options->colocate_with) {
        return cadre_fail(CADRE_EINVALID,
                          "is_pinned and colocate_with: a variable is placed by one of them");
    }
    if (options->is_pinned && (options->shard < 0 || (uint32_t)options->shard >= count)) {
        return cadre_fail(CADRE_EINVALID, "shard %d is not in 0..%" PRIu32, options->shard,
                          count - 1);
    }
    *shard = options->colocate_with ? options->colocate_with->shards[0] : (uint16_t)options->shard;
    return 0;
}

/* Cuts a new variable into partitions and chooses the shard of each. With `colocate_with` there is
 * a single partition, on the shard of that variable's first; with `is_pinned`, on `shard`. */
static int
place(cadre_catalogue_t *self, cadre_variable_t *variable, const cadre_variable_options_t *options)
{
    const bool is_whole = options->colocate_with || options->is_pinned;
    uint16_t shard = 0;
    int status = pinned_shard(self, options, &shard);
    if (status < 0) {
        return cadre_fail_within(status, "variable %s", variable->name);
    }

    variable->partitions = 1;
    if (!is_whole) {
        status = cadre_partitioner_count(options, variable->shape, variable->rank,
                                         cadre_dtype_size(variable->dtype),
                                         self->placement.shard_count, &variable->partitions);
        if (status < 0) {
            return status;
        }
    }

    variable->shards = cadre_calloc(variable->partitions, sizeof(*variable->shards));
    for (uint32_t i = 0; i < variable->partitions; i++) {
        uint64_t size_bytes = part_size_bytes(variable, i);
        if (is_whole) {
            variable->shards[i] = shard;
            cadre_placement_add(&self->placement, shard, size_bytes);
        } else {
            variable->shards[i] = (uint16_t)cadre_placement_place(&self->placement, size_bytes,
                                                                  variable->partitions == 1);
        }
    }
    return 0;
}

void
cadre_catalogue_begin_creation(cadre_catalogue_t *self)
{
    self->creating++;
}

void
cadre_catalogue_end_creation(cadre_catalogue_t *self)
{
    cadre_assert(self->creating > 0);
    self->creating--;
}

uint32_t
cadre_catalogue_whole_count(const cadre_catalogue_t *self)
{
    return self->variable_count - self->creating;
}

/* Checks that the name is one, and that no variable has it. */
static int
check_free_name(const cadre_catalogue_t *self, const char *name)
{
    int status = cadre_name_check("variable", name);
    if (status < 0) {
        return status;
    }
    if (cadre_catalogue_variable(self, name)) {
        return cadre_fail(CADRE_EEXISTS, "a variable called %s exists already", name);
    }
    return 0;
}

/* Checks that a variable of this name, shape and type can be added; gives its size. */
static int
check_new(const cadre_catalogue_t *self, const char *name, const cadre_tensor_t *like,
          size_t *size_bytes)
{
    int status = check_free_name(self, name);
    if (status < 0) {
        return status;
    }
    status = cadre_shape_size(like->dtype, like->shape, like->rank, NULL, size_bytes);
    if (status < 0) {
        return status;
    }
    if (*size_bytes == 0) {
        return cadre_fail(CADRE_EINVALID, "variable %s has no elements", name);
    }
    return 0;
}

/* Returns a variable of this name, and of the shape and type of `like`; id, options and partitions
 * are set later. A scalar is one row. */
static cadre_variable_t *
new_variable(const char *name, const cadre_tensor_t *like, size_t size_bytes)
{
    cadre_variable_t *variable = cadre_calloc(1, sizeof(*variable));
    variable->name = cadre_strdup(name);
    variable->dtype = like->dtype;
    variable->rank = like->rank;
    memcpy(variable->shape, like->shape, sizeof(variable->shape));
    variable->rows = like->rank ? like->shape[0] : 1;
    variable->row_size_bytes = size_bytes / (size_t)variable->rows;
    return variable;
}

/* Sets and checks the type of a variable's elements on the wire. */
static int
set_wire(cadre_variable_t *variable, cadre_dtype_t wire)
{
    /* 0 stands for the variable's own type */
    uint64_t encoded = wire == variable->dtype ? 0 : (uint64_t)wire;
    return cadre_wire_dtype_decode(encoded, variable->dtype, &variable->wire);
}

/* Sets and checks everything that the program chose for a new variable: the element type on the
 * wire, initializer, optimizer, and the shard of each partition. */
static int
set_options(cadre_catalogue_t *self, cadre_variable_t *variable,
            const cadre_variable_options_t *options)
{
    int status = set_wire(variable, options->wire);
    if (status < 0) {
        return status;
    }
    status = set_specs(self, variable, options);
    if (status < 0) {
        return status;
    }
    return place(self, variable, options);
}

/* Lists a variable under the next id. */
static void
enlist(cadre_catalogue_t *self, cadre_variable_t *variable)
{
    /* whether a variable that was dropped had this name before */
    variable->again = cadre_catalogue_was_dropped(self, variable->name);
    variable->id = ++self->variable_count;
    self->variables =
        cadre_realloc(self->variables, self->variable_count, sizeof(*self->variables));
    self->variables[self->variable_count - 1] = variable;
    cadre_name_map_put(&self->variable_names, variable->name, variable);
}

/* Adds a variable under the next id and places its partitions on shards. Fails, and adds nothing,
 * when the name exists or an option is wrong. */
int
cadre_catalogue_add_variable(cadre_catalogue_t *self, const char *name, const cadre_tensor_t *like,
                             const cadre_variable_options_t *options, cadre_variable_t **out)
{
    size_t size_bytes = 0;
    int status = check_new(self, name, like, &size_bytes);
    if (status < 0) {
        return status;
    }

    cadre_variable_t *variable = new_variable(name, like, size_bytes);
    status = set_options(self, variable, options);
    if (status < 0) {
        destroy_variable(variable);
        return cadre_fail_within(status, "variable %s", name);
    }

    enlist(self, variable);
    *out = variable;
    return 0;
}

/* Sets how a new table keeps its rows, by a spec that was checked. */
static int
set_table(const cadre_catalogue_t *self, cadre_variable_t *variable, const cadre_table_spec_t *spec,
          cadre_dtype_t wire)
{
    *variable->table = *spec;
    variable->initializer = spec->initializer;
    variable->initializer.seed = seed_of(self, variable, spec->initializer.seed);
    variable->optimizer = spec->optimizer;
    return set_wire(variable, wire);
}

/* Adds a table under the next id, with a part on every shard. How many rows a part will have is not
 * known, so its bytes do not count where other variables are placed. */
int
cadre_catalogue_add_table(cadre_catalogue_t *self, const char *name, const cadre_table_spec_t *spec,
                          cadre_dtype_t wire, cadre_variable_t **out)
{
    int status = check_free_name(self, name);
    if (status < 0) {
        return status;
    }
    status = cadre_table_spec_check(spec);
    if (status < 0) {
        return cadre_fail_within(status, "table %s", name);
    }

    const cadre_tensor_t like = {.dtype = CADRE_F32, .rank = 1, .shape = {spec->dim}};
    cadre_variable_t *variable = new_variable(name, &like, sizeof(float));
    variable->rows = 0;
    variable->row_size_bytes = spec->dim * sizeof(float);
    variable->table = cadre_calloc(1, sizeof(*variable->table));
    status = set_table(self, variable, spec, wire);
    if (status < 0) {
        destroy_variable(variable);
        return cadre_fail_within(status, "table %s", name);
    }

    variable->partitions = self->placement.shard_count;
    variable->shards = cadre_calloc(variable->partitions, sizeof(*variable->shards));
    for (uint32_t i = 0; i < variable->partitions; i++) {
        variable->shards[i] = (uint16_t)i;
        cadre_placement_add(&self->placement, i, 0);
    }
    enlist(self, variable);
    *out = variable;
    return 0;
}

/* Frees a dropped variable and makes its id vacant. Its bytes no longer count when partitions are
 * placed on shards. */
void
cadre_catalogue_drop_variable(cadre_catalogue_t *self, cadre_variable_t *variable)
{
    cadre_assert(self->variables[variable->id - 1] == variable);
    for (uint32_t i = 0; i < variable->partitions; i++) {
        cadre_placement_take(&self->placement, variable->shards[i], part_size_bytes(variable, i));
    }
    self->variables[variable->id - 1] = &self->vacant;
    /* By now the name may be free, or belong to a newer variable. */
    if (cadre_catalogue_variable(self, variable->name) == variable) {
        cadre_name_map_take(&self->variable_names, variable->name);
    }
    destroy_variable(variable);
}

/* Makes the name of a variable that is being dropped free for a new one, and remembers it as
 * dropped. */
void
cadre_catalogue_free_name(cadre_catalogue_t *self, const cadre_variable_t *variable)
{
    cadre_name_map_take(&self->variable_names, variable->name);
    if (!cadre_catalogue_was_dropped(self, variable->name)) {
        char *name = cadre_strdup(variable->name);
        cadre_name_map_put(&self->dropped_names, name, name);
    }
}

bool
cadre_catalogue_was_dropped(const cadre_catalogue_t *self, const char *name)
{
    return cadre_name_map_get(&self->dropped_names, name) != NULL;
}

int
cadre_variable_check_dense(const cadre_variable_t *variable)
{
    return variable->table
               ? cadre_fail(CADRE_EINVALID,
                            "variable %s is a table: the job's own program reads its rows by key "
                            "(cadre_variable_read_keys), and `cadre checkpoint export` writes "
                            "those of a checkpoint",
                            variable->name)
               : 0;
}

/* Returns whether the shard has a partition of the variable. */
bool
cadre_variable_is_on(const cadre_variable_t *variable, uint32_t shard)
{
    for (uint32_t i = 0; i < variable->partitions; i++) {
        if (variable->shards[i] == shard) {
            return true;
        }
    }
    return false;
}

bool
cadre_catalogue_is_vacant(const cadre_catalogue_t *self, uint32_t id)
{
    return self->variables[id - 1] == &self->vacant;
}

/* Adds a function, or gives the one of this kind, name and content hash that exists already. */
int
cadre_catalogue_add_function(cadre_catalogue_t *self, const cadre_function_t *like,
                             cadre_function_t **out, bool *is_new)
{
    *is_new = false;
    int status = cadre_name_check("function", like->name);
    if (status < 0) {
        return status;
    }

    for (uint32_t i = 0; i < self->function_count; i++) {
        cadre_function_t *function = self->functions[i];
        if (!function->dropped && function->kind == like->kind && function->hash == like->hash &&
            strcmp(function->name, like->name) == 0) {
            *out = function;
            return 0;
        }
    }

    cadre_function_t *function = cadre_calloc(1, sizeof(*function));
    *function = *like;
    function->id = ++self->function_count;
    function->name = cadre_strdup(like->name);
    function->program = like->program ? cadre_chunk_ref(like->program) : NULL;

    self->functions =
        cadre_realloc(self->functions, self->function_count, sizeof(*self->functions));
    self->functions[self->function_count - 1] = function;
    *out = function;
    *is_new = true;
    return 0;
}

/* Drops a function, unless a resource is built by it: workers that join build that, too. */
int
cadre_catalogue_drop_function(const cadre_catalogue_t *self, cadre_function_t *function)
{
    for (uint32_t i = 0; i < self->resource_count; i++) {
        const cadre_resource_t *resource = self->resources[i];
        if (!resource->dropped && resource->call->function == function->id) {
            return cadre_fail(CADRE_ESTATE, "function %s builds resource %s: drop that before",
                              function->name, resource->name);
        }
    }
    cadre_assert(self->functions[function->id - 1] == function);
    function->dropped = true;
    return 0;
}

/* Frees the program of a dropped function, and the message that workers were sent. */
void
cadre_catalogue_remove_function(cadre_catalogue_t *self, uint32_t id)
{
    cadre_function_t *function = self->functions[id - 1];
    cadre_assert(function->dropped);
    function->removed = true;
    cadre_chunk_unref(&function->program);
    cadre_outbox_entry_fini(&function->told);
    function->told = (cadre_outbox_entry_t){.header = NULL};
}

void
cadre_catalogue_drop_resource(const cadre_catalogue_t *self, cadre_resource_t *resource)
{
    cadre_assert(self->resources[resource->id - 1] == resource);
    resource->dropped = true;
}

/* Frees the arguments that a dropped resource was built from. */
void
cadre_catalogue_remove_resource(cadre_catalogue_t *self, uint32_t id)
{
    cadre_resource_t *resource = self->resources[id - 1];
    cadre_assert(resource->dropped);
    resource->removed = true;
    cadre_closure_destroy(&resource->call);
}

cadre_dataset_t *
cadre_catalogue_dataset(const cadre_catalogue_t *self, const char *name)
{
    for (uint32_t i = 0; i < self->dataset_count; i++) {
        if (strcmp(self->datasets[i]->name, name) == 0) {
            return self->datasets[i];
        }
    }
    return NULL;
}

void
cadre_catalogue_release_dataset(const cadre_catalogue_t *self, cadre_dataset_t *dataset)
{
    cadre_assert(self->datasets[dataset->id - 1] == dataset);
    dataset->name[0] = '\0';
    cadre_row_chunks_fini(&dataset->rows);
}

/* Adds a dataset that has a name and nothing else. A name can be added once. */
static int
add_named_dataset(cadre_catalogue_t *self, const char *name, cadre_dataset_t **out)
{
    int status = cadre_name_check("dataset", name);
    if (status < 0) {
        return status;
    }
    if (cadre_catalogue_dataset(self, name)) {
        return cadre_fail(CADRE_EEXISTS, "a dataset called %s exists already", name);
    }

    cadre_dataset_t *dataset = cadre_calloc(1, sizeof(*dataset));
    dataset->id = ++self->dataset_count;
    dataset->name = cadre_strdup(name);
    dataset->ranges = 1;

    self->datasets = cadre_realloc(self->datasets, self->dataset_count, sizeof(*self->datasets));
    self->datasets[self->dataset_count - 1] = dataset;
    *out = dataset;
    return 0;
}

/* Returns how many ranges a description asks for; 1 for one that workers will refuse. */
static int64_t
ranges_of(const char *description)
{
    cadre_auto(cadre_data_spec_fini) cadre_data_spec_t spec = {0};
    int status = cadre_data_spec_decode(description, strlen(description), &spec);
    return status == 0 && spec.is_streamed ? spec.ranges : 1;
}

/* Adds a dataset that workers open from a description. */
int
cadre_catalogue_add_dataset(cadre_catalogue_t *self, const char *name, const char *description,
                            cadre_dataset_t **out)
{
    if (!description || strlen(description) > CADRE_CHUNK_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "dataset %s: no description, or one of over %d bytes",
                          name ? name : "", CADRE_CHUNK_SIZE_MAX);
    }
    int status = add_named_dataset(self, name, out);
    if (status < 0) {
        return status;
    }
    (*out)->description = cadre_strdup(description);
    (*out)->ranges = ranges_of(description);
    return 0;
}

/* Adds a dataset whose rows workers are sent. Takes `rows`, unless it fails. */
int
cadre_catalogue_add_memory_dataset(cadre_catalogue_t *self, const char *name,
                                   cadre_row_chunks_t *rows, cadre_dataset_t **out)
{
    int status = add_named_dataset(self, name, out);
    if (status < 0) {
        return status;
    }
    (*out)->description = cadre_strdup("");
    (*out)->rows = *rows;
    *rows = (cadre_row_chunks_t){0};
    return 0;
}

void
cadre_dataset_note_range(const cadre_dataset_t *self, uint64_t order, int64_t first, int64_t count,
                         cadre_closure_t *closure)
{
    if (self->ranges > 1) {
        closure->ranges = (uint32_t)self->ranges;
        closure->range = 1 + (uint32_t)cadre_data_range_of(self->info.rows, self->ranges,
                                                           order != 0, first, count);
    }
}

uint64_t
cadre_dataset_pieces(const cadre_dataset_t *self)
{
    return (self->rows.count + CADRE_MEMORY_PIECE_CHUNKS - 1) / CADRE_MEMORY_PIECE_CHUNKS;
}

/* Adds a resource, which each worker builds by running the closure *call_p; takes that closure,
 * unless it fails. */
int
cadre_catalogue_add_resource(cadre_catalogue_t *self, const char *name, cadre_closure_t **call_p,
                             cadre_resource_t **out)
{
    int status = cadre_name_check("resource", name);
    if (status < 0) {
        return status;
    }
    if (self->resource_count == CADRE_RESOURCES_MAX) {
        return cadre_fail(CADRE_EFULL, "resource %s: %d are the most", name, CADRE_RESOURCES_MAX);
    }
    for (uint32_t i = 0; i < self->resource_count; i++) {
        if (!self->resources[i]->dropped && strcmp(self->resources[i]->name, name) == 0) {
            return cadre_fail(CADRE_EEXISTS, "a resource called %s exists already", name);
        }
    }

    cadre_resource_t *resource = cadre_calloc(1, sizeof(*resource));
    resource->id = ++self->resource_count;
    resource->name = cadre_strdup(name);
    /* from the inverted seed: a variable of the same name gets other numbers */
    resource->seed = XXH3_64bits_withSeed(name, strlen(name), ~self->seed);
    resource->call = *call_p;
    *call_p = NULL;

    self->resources =
        cadre_realloc(self->resources, self->resource_count, sizeof(*self->resources));
    self->resources[self->resource_count - 1] = resource;
    *out = resource;
    return 0;
}

int
cadre_catalogue_check_names(const cadre_catalogue_t *self, const cadre_closure_t *closure)
{
    const cadre_function_t *function = self->functions[closure->function - 1];
    if (function->dropped) {
        return cadre_fail(CADRE_EINVALID, "function %s was dropped", function->name);
    }
    for (size_t i = 0; i < closure->resource_count; i++) {
        const cadre_resource_t *resource = self->resources[closure->resources[i] - 1];
        if (resource->dropped) {
            return cadre_fail(CADRE_EINVALID, "resource %s was dropped", resource->name);
        }
    }
    return 0;
}

/* Adds to a CREATE how a table keeps its rows. */
static void
add_table_fields(const cadre_table_spec_t *table, cadre_create_lists_t *lists,
                 cadre_create_message_t *create)
{
    const uint64_t numbers[] = {(uint64_t)table->storage,   table->row_wise,
                                table->admit_after,         table->rows_max,
                                (uint64_t)table->when_full, table->age_max};
    memcpy(lists->table, numbers, sizeof(numbers));
    lists->table_numbers[0] = table->group_lasso;
    lists->table_numbers[1] = table->norm_min;
    create->table = (cadre_u64s_t){lists->table, sizeof(numbers) / sizeof(numbers[0])};
    create->table_numbers = (cadre_f64s_t){lists->table_numbers, 2};
}

/* Returns the CREATE message that asks a shard to create one partition of the variable. It points
 * into `variable` and `lists`, which have to live as long as it. */
cadre_message_t
cadre_catalogue_create_message(const cadre_variable_t *variable, uint32_t partition,
                               cadre_create_lists_t *lists)
{
    const cadre_parameter_t *table = NULL;
    for (int i = 0; i < variable->rank; i++) {
        lists->shape[i] = (uint64_t)variable->shape[i];
    }

    cadre_message_t message = {.type = CADRE_MESSAGE_CREATE};
    message.create = (cadre_create_message_t){
        .variable = variable->id,
        .name = variable->name,
        .partition = partition,
        .partitions = variable->partitions,
        .dtype = variable->dtype,
        .wire = cadre_wire_dtype_encode(variable->dtype, variable->wire),
        .shape = {lists->shape, (size_t)variable->rank},
        .first_row = (uint64_t)cadre_split_first(variable->rows, variable->partitions, partition),
        .rows = (uint64_t)cadre_split_rows(variable->rows, variable->partitions, partition),
        .initializer = variable->initializer.kind,
        .initializer_parameters = {variable->initializer.parameters,
                                   cadre_initializer_parameters(variable->initializer.kind,
                                                                &table)},
        .seed = variable->initializer.seed,
        .optimizer = variable->optimizer.kind,
        .optimizer_parameters = {variable->optimizer.parameters,
                                 cadre_optimizer_parameters(variable->optimizer.kind, &table)},
        .schedule = variable->optimizer.schedule.kind,
        .schedule_numbers = {lists->schedule, cadre_schedule_spec_encode(
                                                  &variable->optimizer.schedule, lists->schedule)},
        /* options that are off are empty lists */
        .clip_value = {&variable->optimizer.clip_value, variable->optimizer.clip_value > 0},
        .average_momentum = {&variable->optimizer.average_momentum,
                             variable->optimizer.average_momentum > 0},
        .average_overwrite = variable->optimizer.average_overwrite,
        .shard = variable->shards[partition],
        .delay_compensation = {&variable->optimizer.delay_compensation,
                               variable->optimizer.delay_compensation > 0},
        .lazy = variable->optimizer.lazy,
    };
    if (variable->table) {
        add_table_fields(variable->table, lists, &message.create);
    }
    return message;
}

/* Returns whether a worker can build the resource: it is not removed, and the worker does not lack
 * the function that builds it. */
bool
cadre_resource_is_buildable(const cadre_resource_t *self, const cadre_abilities_t *abilities)
{
    return !self->removed && !cadre_id_set_has(&abilities->lacked, self->call->function);
}

/* Returns whether a worker that was told of the resource can build it and has not done so yet. */
bool
cadre_resource_is_under_way(const cadre_resource_t *self, const cadre_resource_set_t *told,
                            const cadre_abilities_t *abilities)
{
    return cadre_resource_is_buildable(self, abilities) && cadre_resource_set_has(told, self->id) &&
           !cadre_resource_set_has(&abilities->built, self->id);
}
