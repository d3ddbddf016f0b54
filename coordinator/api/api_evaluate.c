/*
 * The public calls that run a program once on the caller's thread, by the CPU code of workers, but
 * without ps or workers.
 */
#include <stdlib.h>
#include <string.h>

#include <cadre/inspection.h>
#include <cadre/table.h>

#include "common/base/bounds.h"
#include "common/base/limits.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/graph/program.h"
#include "common/system/cpu_quota.h"
#include "common/system/float_mode.h"
#include "common/tensor/tensor.h"
#include "coordinator/api/evaluation_rows.h"
#include "coordinator/coordinator.h"
#include "coordinator/options.h"
#include "worker/device/device.h"

enum { READ_TIMEOUT_MS = 60000 };

/* The name of a result or gradient, and the position of its tensor in the list of values. */
typedef struct {
    char *name;
    size_t place;
} entry_t;

/* The keys that were looked up in a table. */
typedef struct {
    char *name;
    uint64_t *keys; /* [count], ascending */
    size_t count;
} keys_t;

struct cadre_inspection {
    int32_t *nodes; /* [node_count] nodes of results and nodes asked for, each once */
    size_t node_count;
    cadre_tensor_t *values; /* [node_count] the value of each node */
    entry_t *results;       /* [result_count] names of results, with places in `values` */
    size_t result_count;
    entry_t *gradients; /* [gradient_count] names of variables, with places in `gradient_values` */
    size_t gradient_count;
    cadre_tensor_t *gradient_values; /* [gradient_count] */
    keys_t *tables;                  /* [table_count] */
    size_t table_count;
};

/* What one run on the device reads and writes. */
typedef struct {
    const cadre_program_t *program;
    const cadre_inspection_options_t *options;
    cadre_tensor_t *arguments; /* [argument_count] views of the caller's tensors */
    int argument_count;
    cadre_tensor_t *read;   /* [variable_count] read from the coordinator, or, of a table, rows
                               that are looked up; empty if given as a whole */
    bool has_rows;          /* rows of tables were read: the first run over them does it */
    const void **variables; /* [variable_count] values that the device reads */
    int variable_count;
    void **gradients; /* [push_count] where the device writes; memory of the inspection */
} inputs_t;

static void
inputs_fini(inputs_t *self)
{
    cadre_tensors_fini(&self->read, (size_t)self->variable_count);
    free(self->arguments);
    free((void *)self->variables);
    free((void *)self->gradients);
}

/* --- arguments and variables --- */

/* Returns the tensor of this name that the caller gave; NULL when there is none. */
static const cadre_tensor_t *
find_tensor(const cadre_argument_t *tensors, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].name && tensors[i].tensor && strcmp(tensors[i].name, name) == 0) {
            return tensors[i].tensor;
        }
    }
    return NULL;
}

/* Finds the tensor of each argument of the program among those that the caller gave, and makes a
 * view of it: nothing is copied. */
static int
take_arguments(inputs_t *self)
{
    const cadre_inspection_options_t *options = self->options;
    for (int i = 0; i < self->argument_count; i++) {
        const char *name = cadre_program_argument(self->program, i)->name;
        const cadre_tensor_t *given = find_tensor(options->tensors, options->tensor_count, name);
        if (!given) {
            return cadre_fail(CADRE_EINVALID, "program %s: argument %s is missing",
                              cadre_program_name(self->program), name);
        }
        self->arguments[i] =
            cadre_tensor_view(given->dtype, given->data, given->shape, given->rank);
    }

    return 0;
}

static int64_t
timeout_of(const inputs_t *self)
{
    return self->options->timeout_ms ? self->options->timeout_ms : READ_TIMEOUT_MS;
}

/* Finds a variable at the coordinator of the options. */
static int
find_variable(const inputs_t *self, const char *name, cadre_variable_t **out)
{
    cadre_coordinator_t *coordinator = self->options->coordinator;
    cadre_variable_t *variable = NULL;
    if (coordinator) {
        cadre_gate_lock(coordinator->gate);
        variable = cadre_catalogue_variable(&coordinator->core.catalogue, name);
        variable = variable && variable->created && variable->dropped == 0 ? variable : NULL;
        cadre_gate_unlock(coordinator->gate);
    }

    if (!variable) {
        return cadre_fail(CADRE_ENOTFOUND, "program %s: variable %s has no value: %s",
                          cadre_program_name(self->program), name,
                          coordinator ? "the coordinator has none of that name"
                                      : "give it, or a coordinator that has it");
    }

    *out = variable;
    return 0;
}

/* Reads the value of one variable from the coordinator of the options. */
static int
read_variable(const inputs_t *self, const char *name, cadre_tensor_t *value)
{
    cadre_variable_t *variable = NULL;
    int status = find_variable(self, name, &variable);
    return status < 0 ? status : cadre_variable_read(variable, value, timeout_of(self));
}

/* Fails unless the value has the dtype and the shape that the program says. */
static int
check_variable(const cadre_program_t *program, const cadre_program_variable_t *wanted,
               const cadre_tensor_t *value)
{
    char mine[CADRE_SHAPE_TEXT_SIZE];
    char theirs[CADRE_SHAPE_TEXT_SIZE];

    if (value->dtype != wanted->dtype) {
        return cadre_fail(CADRE_EDTYPE, "program %s: variable %s is %s, not %s",
                          cadre_program_name(program), wanted->name, cadre_dtype_text(value->dtype),
                          cadre_dtype_text(wanted->dtype));
    }

    if (!cadre_shape_equal(value->shape, value->rank, wanted->shape, wanted->rank)) {
        return cadre_fail(CADRE_ESHAPE, "program %s: variable %s is %s, not %s",
                          cadre_program_name(program), wanted->name,
                          cadre_shape_text(value->shape, value->rank, mine),
                          cadre_shape_text(wanted->shape, wanted->rank, theirs));
    }

    return 0;
}

/* Finds the value of each variable of the program that is no table: as the caller gave it, else
 * read from the coordinator. */
static int
take_variables(inputs_t *self)
{
    const cadre_inspection_options_t *options = self->options;
    for (int i = 0; i < self->variable_count; i++) {
        const cadre_program_variable_t *wanted = cadre_program_variable(self->program, i);
        const cadre_tensor_t *value =
            find_tensor(options->variables, options->variable_count, wanted->name);
        if (cadre_evaluation_rows_is_table(wanted)) {
            continue;
        }
        if (!value) {
            int status = read_variable(self, wanted->name, &self->read[i]);
            if (status < 0) {
                return status;
            }
            value = &self->read[i];
        }

        int status = check_variable(self->program, wanted, value);
        if (status < 0) {
            return status;
        }
        self->variables[i] = value->data;
    }

    return 0;
}

/* --- nodes and gradients --- */

/* Returns the position of a node in self->nodes; adds the node when it is new. */
static size_t
add_node(cadre_inspection_t *self, int32_t node)
{
    for (size_t i = 0; i < self->node_count; i++) {
        if (self->nodes[i] == node) {
            return i;
        }
    }
    self->nodes[self->node_count] = node;
    return self->node_count++;
}

/* Lists the nodes whose values are wanted: those of the program's results, and those that the
 * caller asks for. A handle of a node counts from 1, the program's own numbers from 0. */
static int
list_nodes(cadre_inspection_t *self, const cadre_program_t *program,
           const cadre_inspection_options_t *options)
{
    self->result_count = (size_t)cadre_program_result_count(program);
    self->results = cadre_calloc(self->result_count, sizeof(*self->results));
    self->nodes = cadre_calloc(self->result_count + options->node_count, sizeof(*self->nodes));
    for (size_t i = 0; i < self->result_count; i++) {
        const cadre_program_result_t *result = cadre_program_result(program, (int)i);
        self->results[i] = (entry_t){cadre_strdup(result->name), add_node(self, result->node)};
    }

    for (size_t i = 0; i < options->node_count; i++) {
        int32_t node = options->nodes[i].id - 1;
        if (node < 0 || node >= cadre_program_node_count(program)) {
            return cadre_fail(CADRE_EINVALID, "program %s: nodes[%zu] is no node of it",
                              cadre_program_name(program), i);
        }
        add_node(self, node);
    }

    self->values = cadre_calloc(self->node_count, sizeof(*self->values));
    return 0;
}

/* Allocates a tensor for each gradient, and puts its memory into `data`, where the device writes;
 * those of tables follow with their rows. */
static int
list_gradients(cadre_inspection_t *self, const cadre_program_t *program, void **data)
{
    self->gradient_count = (size_t)cadre_program_push_count(program);
    self->gradients = cadre_calloc(self->gradient_count, sizeof(*self->gradients));
    self->gradient_values = cadre_calloc(self->gradient_count, sizeof(*self->gradient_values));
    for (size_t i = 0; i < self->gradient_count; i++) {
        const cadre_program_push_t *push = cadre_program_push(program, (int)i);
        const cadre_program_variable_t *variable = cadre_program_variable(program, push->variable);
        self->gradients[i] = (entry_t){cadre_strdup(variable->name), i};
        if (cadre_evaluation_rows_is_table(variable)) {
            continue;
        }
        int status = cadre_tensor_init(&self->gradient_values[i], variable->dtype, variable->shape,
                                       variable->rank);
        if (status < 0) {
            return status;
        }
        data[i] = self->gradient_values[i].data;
    }

    return 0;
}

/* --- tables --- */

/* Copies the rows of keys from a value of a table that the caller gave, row i of which is that of
 * key i. */
static int
copy_rows(const inputs_t *self, const cadre_program_variable_t *table, const cadre_tensor_t *given,
          const cadre_id_list_t *list, char *rows)
{
    char shape[CADRE_SHAPE_TEXT_SIZE];
    const char *program = cadre_program_name(self->program);
    const size_t row_size_bytes = (size_t)table->shape[1] * sizeof(float);
    if (given->dtype != table->dtype) {
        return cadre_fail(CADRE_EDTYPE, "program %s: table %s is %s, not %s", program, table->name,
                          cadre_dtype_text(given->dtype), cadre_dtype_text(table->dtype));
    }
    if (given->rank != 2 || given->shape[1] != table->shape[1]) {
        return cadre_fail(CADRE_ESHAPE,
                          "program %s: table %s is %s, not [rows,%lld], where row i is that of "
                          "key i",
                          program, table->name, cadre_shape_text(given->shape, given->rank, shape),
                          (long long)table->shape[1]);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->ids[i] >= (uint64_t)given->shape[0]) {
            return cadre_fail(CADRE_EDATA,
                              "program %s: key %llu of table %s has no row: %lld rows were given, "
                              "for keys from 0 on",
                              program, (unsigned long long)list->ids[i], table->name,
                              (long long)given->shape[0]);
        }
        memcpy(rows + i * row_size_bytes, (const char *)given->data + list->ids[i] * row_size_bytes,
               row_size_bytes);
    }
    return 0;
}

/* Reads the rows of keys of a table of the coordinator. */
static int
read_rows(const inputs_t *self, const cadre_program_variable_t *table, const cadre_id_list_t *list,
          char *rows)
{
    cadre_auto(cadre_tensor_fini) cadre_tensor_t read = {0};
    cadre_variable_t *variable = NULL;
    int status = find_variable(self, table->name, &variable);
    if (status < 0) {
        return status;
    }
    if (!cadre_variable_is_table(variable) || variable->shape[0] != table->shape[1]) {
        char shape[CADRE_SHAPE_TEXT_SIZE];
        return cadre_fail(CADRE_ESHAPE,
                          "program %s: variable %s of the coordinator is %s, not a table of rows "
                          "of %lld numbers",
                          cadre_program_name(self->program), table->name,
                          cadre_shape_text(variable->shape, variable->rank, shape),
                          (long long)table->shape[1]);
    }
    if (list->count == 0) {
        return 0;
    }
    status = cadre_variable_read_keys(variable, list->ids, list->count, &read, timeout_of(self));
    if (status == 0) {
        memcpy(rows, read.data, cadre_tensor_size_bytes(&read));
    }
    return status;
}

/* Gives a table the rows of its list: as the caller gave them, else read from the coordinator.
 * Padding up to the capacity of all tables is 0. */
static int
take_rows(inputs_t *self, const cadre_evaluation_rows_t *rows, int number)
{
    const cadre_program_variable_t *table = cadre_program_variable(self->program, number);
    const cadre_id_list_t *list = cadre_evaluation_rows_of(rows, number);
    const int64_t shape[] = {rows->capacity, table->shape[1]};
    int status = cadre_tensor_init(&self->read[number], table->dtype, shape, 2);
    if (status < 0) {
        return status;
    }
    self->variables[number] = self->read[number].data;
    const cadre_tensor_t *given =
        find_tensor(self->options->variables, self->options->variable_count, table->name);
    return given ? copy_rows(self, table, given, list, self->read[number].data)
                 : read_rows(self, table, list, self->read[number].data);
}

/* Allocates the gradients of a table, [rows, dim] with room for padding, and keeps its keys. */
static int
keep_rows(cadre_inspection_t *self, const inputs_t *inputs, const cadre_evaluation_rows_t *rows,
          int number)
{
    const cadre_program_variable_t *table = cadre_program_variable(inputs->program, number);
    const cadre_id_list_t *list = cadre_evaluation_rows_of(rows, number);
    keys_t *kept = &self->tables[self->table_count++];
    *kept = (keys_t){cadre_strdup(table->name), cadre_calloc(list->count + 1, sizeof(*kept->keys)),
                     list->count};
    if (list->count > 0) {
        memcpy(kept->keys, list->ids, list->count * sizeof(*kept->keys));
    }
    for (size_t i = 0; i < self->gradient_count; i++) {
        const int64_t shape[] = {rows->capacity, table->shape[1]};
        if (cadre_program_push(inputs->program, (int)i)->variable != number) {
            continue;
        }
        int status = cadre_tensor_init(&self->gradient_values[i], table->dtype, shape, 2);
        if (status < 0) {
            return status;
        }
        inputs->gradients[i] = self->gradient_values[i].data;
        self->gradient_values[i].shape[0] = (int64_t)list->count;
    }
    return 0;
}

/* Takes the rows of all tables, once: every run of the program looks up the same. */
static int
take_tables(cadre_inspection_t *self, inputs_t *inputs, const cadre_evaluation_rows_t *rows)
{
    if (!rows->made || inputs->has_rows) {
        return 0;
    }
    self->tables = cadre_calloc((size_t)inputs->variable_count, sizeof(*self->tables));
    for (int i = 0; i < inputs->variable_count; i++) {
        if (!cadre_evaluation_rows_is_table(cadre_program_variable(inputs->program, i))) {
            continue;
        }
        int status = take_rows(inputs, rows, i);
        status = status < 0 ? status : keep_rows(self, inputs, rows, i);
        if (status < 0) {
            return status;
        }
    }
    inputs->has_rows = true;
    return 0;
}

/* --- the run --- */

/* Runs the program once with nodes first .. first + count - 1 as its results. Nodes are observed in
 * portions: a program has at most CADRE_RESULTS_MAX results. */
static int
run_some(cadre_inspection_t *self, inputs_t *inputs, cadre_slot_t *slot, size_t first, size_t count)
{
    cadre_auto(cadre_program_destroy) cadre_program_t *observed = NULL;
    cadre_auto(cadre_evaluation_rows_fini) cadre_evaluation_rows_t rows = {0};
    const cadre_program_t *program = inputs->program;
    if (count > 0) {
        int status = cadre_program_observe(program, self->nodes + first, (int)count, &observed);
        if (status < 0) {
            return status;
        }
        program = observed;
    }

    cadre_slot_run_t run = {.program = program,
                            .arguments = inputs->arguments,
                            .argument_count = inputs->argument_count,
                            .variables = inputs->variables,
                            .seed = inputs->options->seed,
                            .gradients = inputs->gradients,
                            .results = self->values + first};
    int status = cadre_evaluation_rows_init(&rows, slot, &run);
    status = status < 0 ? status : take_tables(self, inputs, &rows);
    return status < 0 ? status : cadre_slot_run(slot, &run);
}

/* Runs the program until all wanted nodes have their values: once for each CADRE_RESULTS_MAX of
 * them, with the same seed each time. */
static int
run_all(cadre_inspection_t *self, inputs_t *inputs, cadre_slot_t *slot)
{
    size_t first = 0;
    do { /* runs once even without nodes, for the gradients */
        size_t count = cadre_min_u64(self->node_count - first, CADRE_RESULTS_MAX);
        int status = run_some(self, inputs, slot, first, count);
        if (status < 0) {
            return status;
        }
        first += count;
    } while (first < self->node_count);

    return 0;
}

/* Opens the CPU as a worker does, with a thread for each core, and runs the program on it. */
static int
run_on_device(cadre_inspection_t *self, inputs_t *inputs)
{
    cadre_auto(cadre_device_close) cadre_device_t *device = NULL;
    cadre_auto(cadre_slot_close) cadre_slot_t *slot = NULL;
    int status = cadre_device_open("cpu", cadre_cpu_count(), &device);
    if (status < 0) {
        return status;
    }

    status = cadre_slot_open(device, NULL, &slot);
    return status < 0 ? status : run_all(self, inputs, slot);
}

/* Gathers arguments and variables, runs the program once, and leaves its values in the inspection.
 */
static int
evaluate(cadre_inspection_t *self, const cadre_program_t *program,
         const cadre_inspection_options_t *options)
{
    cadre_auto(inputs_fini)
        inputs_t inputs = {.program = program,
                           .options = options,
                           .argument_count = cadre_program_argument_count(program),
                           .variable_count = cadre_program_variable_count(program)};
    inputs.arguments = cadre_calloc((size_t)inputs.argument_count, sizeof(*inputs.arguments));
    inputs.read = cadre_calloc((size_t)inputs.variable_count, sizeof(*inputs.read));
    inputs.variables = cadre_calloc((size_t)inputs.variable_count, sizeof(*inputs.variables));
    inputs.gradients =
        cadre_calloc((size_t)cadre_program_push_count(program), sizeof(*inputs.gradients));

    int status = list_nodes(self, program, options);
    if (status < 0) {
        return status;
    }

    status = take_arguments(&inputs);
    if (status < 0) {
        return status;
    }

    status = take_variables(&inputs);
    if (status < 0) {
        return status;
    }

    status = list_gradients(self, program, inputs.gradients);
    if (status < 0) {
        return status;
    }

    /* As on a worker, subnormal numbers are 0 in this run; the caller's mode is put back after
     * it. */
    uint64_t mode = cadre_float_mode();
    cadre_flush_subnormals();
    status = run_on_device(self, &inputs);
    cadre_float_mode_set(mode);
    return status;
}

/* Evaluates a program once, without ps and workers, and gives its values as an inspection. */
int
cadre_program_evaluate(cadre_program_t *program, const cadre_inspection_options_t *given,
                       cadre_inspection_t **out)
{
    cadre_inspection_options_t options = cadre_inspection_options();
    int status =
        given ? cadre_options_take(given, &options, sizeof(options), "cadre_inspection_options_t")
              : 0;
    if (status < 0) {
        return status;
    }
    if (!program) {
        return cadre_fail(CADRE_EINVALID, "this is no program: NULL");
    }
    if ((!options.tensors && options.tensor_count > 0) ||
        (!options.variables && options.variable_count > 0) ||
        (!options.nodes && options.node_count > 0)) {
        return cadre_fail(CADRE_EINVALID, "program evaluation: a count whose array is NULL");
    }

    status = cadre_program_finish(program);
    if (status < 0) {
        return status;
    }

    cadre_auto(cadre_inspection_destroy) cadre_inspection_t *self = cadre_calloc(1, sizeof(*self));
    status = evaluate(self, program, &options);
    if (status == 0 && out) {
        *out = self;
        self = NULL;
    }
    return status;
}

/* --- reading an inspection --- */

/* Returns the value of a node that was asked for or is a result; NULL for any other. */
const cadre_tensor_t *
cadre_inspection_node(const cadre_inspection_t *self, cadre_node_t node)
{
    for (size_t i = 0; self && i < self->node_count; i++) {
        if (self->nodes[i] == node.id - 1) {
            return &self->values[i];
        }
    }
    return NULL;
}

/* Returns the entry of this name, the first one for NULL; NULL when there is none. */
static const entry_t *
find_entry(const entry_t *entries, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (!name || strcmp(entries[i].name, name) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

const cadre_tensor_t *
cadre_inspection_result(const cadre_inspection_t *self, const char *name)
{
    const entry_t *entry = self ? find_entry(self->results, self->result_count, name) : NULL;
    return entry ? &self->values[entry->place] : NULL;
}

const cadre_tensor_t *
cadre_inspection_gradient(const cadre_inspection_t *self, const char *variable)
{
    const entry_t *entry =
        self && variable ? find_entry(self->gradients, self->gradient_count, variable) : NULL;
    return entry ? &self->gradient_values[entry->place] : NULL;
}

const uint64_t *
cadre_inspection_keys(const cadre_inspection_t *self, const char *table, size_t *count)
{
    for (size_t i = 0; self && table && i < self->table_count; i++) {
        if (strcmp(self->tables[i].name, table) == 0) {
            if (count) {
                *count = self->tables[i].count;
            }
            return self->tables[i].keys;
        }
    }
    return NULL;
}

/* Frees an inspection and the values in it. */
void
cadre_inspection_destroy(cadre_inspection_t **self_p)
{
    cadre_inspection_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t i = 0; i < self->result_count; i++) {
        free(self->results[i].name);
    }
    for (size_t i = 0; self->gradients && i < self->gradient_count; i++) {
        free(self->gradients[i].name);
    }
    for (size_t i = 0; i < self->table_count; i++) {
        free(self->tables[i].name);
        free(self->tables[i].keys);
    }
    cadre_tensors_fini(&self->gradient_values, self->gradient_count);
    cadre_tensors_fini(&self->values, self->node_count);
    free(self->tables);
    free(self->results);
    free(self->gradients);
    free(self->nodes);
    free(self);
}
