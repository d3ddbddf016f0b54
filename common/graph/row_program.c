#include "common/graph/row_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/graph/program_data.h"
#include "common/tensor/tensor.h"

enum { NONE = -1 };

/* A program that is being copied, node by node. */
typedef struct {
    const cadre_program_t *from;
    cadre_program_t *to;
    int32_t *nodes; /* [nodes of `from`]: the node of `to` that each has become */
} copier_t;

static void
copier_fini(copier_t *self)
{
    free(self->nodes);
    cadre_program_destroy(&self->to);
}

/* --- copying --- */

/* Copies the tables that have no nodes of their own: name and symbols. */
static int
begin(copier_t *self, const cadre_program_t *from)
{
    self->from = from;
    self->to = cadre_program_new(cadre_program_name(from));
    self->nodes = cadre_calloc((size_t)from->node_count, sizeof(*self->nodes));
    int status = self->to->status;
    for (int i = 0; i < from->symbol_count && status == 0; i++) {
        int index = 0;
        status = cadre_program_add_symbol(self->to, from->symbols[i], &index);
    }
    return status;
}

/* Copies all arguments, so that they keep their numbers whatever is added behind them. */
static int
copy_arguments(copier_t *self)
{
    int status = 0;
    for (int i = 0; i < self->from->argument_count && status == 0; i++) {
        const cadre_program_argument_t *argument = &self->from->arguments[i];
        status = cadre_program_add_argument(self->to, argument->name, argument->dtype,
                                            &argument->shape, &self->nodes[argument->node]);
    }
    return status;
}

static int
copy_variable(copier_t *self, const cadre_program_node_t *node, int32_t *out)
{
    const cadre_program_variable_t *variable =
        &self->from->variables[node->attributes[CADRE_LEAF_INDEX]];
    return cadre_program_add_variable(self->to, variable->name, variable->dtype, &node->shape, out);
}

static int
copy_constant(copier_t *self, const cadre_program_node_t *node, int32_t *out)
{
    const cadre_tensor_t *from = &self->from->constants[node->attributes[CADRE_LEAF_INDEX]];
    cadre_auto(cadre_tensor_fini) cadre_tensor_t copy = {0};
    int status = cadre_tensor_init(&copy, from->dtype, from->shape, from->rank);
    if (status < 0) {
        return status;
    }
    memcpy(copy.data, from->data, cadre_tensor_size_bytes(from));
    return cadre_program_add_constant(self->to, &copy, out);
}

/* Adds node `index` of `from`, changed as `node` says, whose inputs are nodes of `to`. */
static int
add(copier_t *self, int32_t index, const cadre_program_node_t *node)
{
    return cadre_program_add_node(self->to, node, &self->nodes[index]);
}

/* Returns node `index` of `from` with the nodes of `to` as its inputs. */
static cadre_program_node_t
translated(const copier_t *self, int32_t index)
{
    cadre_program_node_t node = self->from->nodes[index];
    for (int i = 0; i < node.input_count; i++) {
        node.inputs[i] = self->nodes[node.inputs[i]];
    }
    return node;
}

/* Ends the copy: checks and encodes it, and gives it to the caller. */
static int
finish(copier_t *self, cadre_program_t **out)
{
    int status = cadre_program_finish(self->to);
    if (status < 0) {
        return status;
    }
    *out = self->to;
    self->to = NULL;
    return 0;
}

/* --- the id program --- */

/* Returns the argument whose memory a node is; NONE for what is computed. */
static int
argument_of(const cadre_program_t *program, int32_t index)
{
    const cadre_program_node_t *node = &program->nodes[index];
    while (node->op == CADRE_OP_RESHAPE || node->op == CADRE_OP_DETACH) {
        node = &program->nodes[node->inputs[0]];
    }
    return node->op == CADRE_OP_ARG ? (int)node->attributes[CADRE_LEAF_INDEX] : NONE;
}

/* Says where the ids of each lookup come from, and marks the nodes that are computed for them; the
 * same ids are computed once. Returns how many ids are computed. */
static int
find_sources(cadre_row_program_t *self, const cadre_program_t *program, bool *needed)
{
    int count = 0;
    for (int i = 0; i < self->sets.lookup_count; i++) {
        int32_t index = self->sets.lookups[i].index;
        self->sources[i] = (cadre_row_ids_t){argument_of(program, index), NONE};
        for (int k = 0; k < i; k++) {
            if (self->sets.lookups[k].index == index) {
                self->sources[i] = self->sources[k];
            }
        }
        if (self->sources[i].argument == NONE && self->sources[i].result == NONE) {
            self->sources[i].result = count++;
            needed[index] = true;
        }
    }
    return count;
}

/* Marks what the marked nodes depend on: inputs come before the nodes that read them. */
static void
spread(const cadre_program_t *program, bool *needed)
{
    for (int32_t i = program->node_count - 1; i >= 0; i--) {
        const cadre_program_node_t *node = &program->nodes[i];
        for (int k = 0; k < node->input_count && needed[i]; k++) {
            needed[node->inputs[k]] = true;
        }
    }
}

/* Copies the needed nodes; none of them is a variable. */
static int
copy_needed(copier_t *self, const bool *needed)
{
    int status = 0;
    for (int32_t i = 0; i < self->from->node_count && status == 0; i++) {
        const cadre_program_node_t node = translated(self, i);
        if (!needed[i] || node.op == CADRE_OP_ARG) {
            continue;
        }
        status = node.op == CADRE_OP_CONST ? copy_constant(self, &node, &self->nodes[i])
                                           : add(self, i, &node);
    }
    return status;
}

/* Makes the id program, if ids are computed. */
static int
make_ids(cadre_row_program_t *self, const cadre_program_t *program)
{
    cadre_auto(cadre_free) bool *needed = cadre_calloc((size_t)program->node_count, sizeof(bool));
    if (find_sources(self, program, needed) == 0) {
        return 0;
    }
    spread(program, needed);
    cadre_auto(copier_fini) copier_t copier = {0};
    int status = begin(&copier, program);
    status = status < 0 ? status : copy_arguments(&copier);
    status = status < 0 ? status : copy_needed(&copier, needed);
    int named = 0;
    for (int i = 0; i < self->sets.lookup_count && status == 0; i++) {
        if (self->sources[i].result == named) {
            char name[16];
            snprintf(name, sizeof(name), "%d", named++);
            status = cadre_program_add_result(copier.to, name,
                                              copier.nodes[self->sets.lookups[i].index]);
        }
    }
    return status < 0 ? status : finish(&copier, &self->ids);
}

/* --- the row program --- */

/* Adds the symbol of the number of rows, under a name that the program does not have. */
static int
add_rows_symbol(cadre_program_t *to)
{
    char name[16] = "U";
    for (int i = 0; i < to->symbol_count; i++) {
        if (strcmp(to->symbols[i], name) == 0) {
            snprintf(name, sizeof(name), "U%d", to->symbol_count);
            i = -1;
        }
    }
    int index = 0;
    int status = cadre_program_add_symbol(to, name, &index);
    to->rows_symbol = status < 0 ? 0 : index + 1;
    return status;
}

/* Returns whether the program has an argument of this name. */
static bool
has_argument(const cadre_program_t *program, const char *name)
{
    for (int i = 0; i < program->argument_count; i++) {
        if (strcmp(program->arguments[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds an argument for the positions of each lookup: `positions` [lookups] become their nodes. */
static int
add_positions(copier_t *self, const cadre_row_sets_t *sets, int32_t *positions)
{
    int status = 0;
    int number = 0;
    for (int i = 0; i < sets->lookup_count && status == 0; i++) {
        char name[32];
        do {
            snprintf(name, sizeof(name), "positions %d", number++);
        } while (has_argument(self->to, name));
        status = cadre_program_add_argument(self->to, name, CADRE_I32,
                                            &self->from->nodes[sets->lookups[i].index].shape,
                                            &positions[i]);
    }
    return status;
}

/* Returns the row-wise node of a set whose rows the node reads or adds to at the ids of its input
 * 1; NONE when it does not. */
static int32_t
rows_read_by(const cadre_program_node_t *node, int32_t index)
{
    bool of_weights = node->attributes[CADRE_BAG_GRAD_OF_WEIGHTS] != 0;
    switch (cadre_op_info(node->op)->indexes) {
    case CADRE_INDEXES_ROWS:
    case CADRE_INDEXES_BAGS:
        return node->inputs[0];
    case CADRE_INDEXES_RESULT_ROWS:
        return index;
    case CADRE_INDEXES_RESULT_BAGS:
        return of_weights ? node->inputs[3] : index;
    case CADRE_INDEXES_NONE:
    case CADRE_INDEXES_LABELS:
        break;
    }
    return NONE;
}

/* Returns the number of the lookup at the ids `index` in the rows of `set`. */
static int
lookup_of(const cadre_row_sets_t *sets, int set, int32_t index)
{
    int i = 0;
    while (sets->lookups[i].set != set || sets->lookups[i].index != index) {
        i++;
        cadre_assert(i < sets->lookup_count);
    }
    return i;
}

/* Copies a node that computes something. One that reads rows at ids reads them at positions; one
 * that carries the shape of whole variables has their rows instead. */
static int
copy_operation(copier_t *self, const cadre_row_sets_t *sets, const int32_t *positions,
               int32_t index)
{
    const cadre_program_node_t *from = &self->from->nodes[index];
    cadre_program_node_t node = translated(self, index);
    int32_t rows = rows_read_by(from, index);
    if (rows != NONE && sets->sets[rows] != NONE) {
        node.inputs[1] = positions[lookup_of(sets, sets->sets[rows], from->inputs[1])];
    }
    if (sets->sets[index] != NONE) {
        node.shape.extents[0] = (cadre_extent_t){.factor = 1, .symbol = self->to->rows_symbol - 1};
    }
    return add(self, index, &node);
}

/* Copies all nodes but arguments. */
static int
copy_nodes(copier_t *self, const cadre_row_sets_t *sets, const int32_t *positions)
{
    int status = 0;
    for (int32_t i = 0; i < self->from->node_count && status == 0; i++) {
        const cadre_program_node_t *node = &self->from->nodes[i];
        if (node->op == CADRE_OP_VAR) {
            status = copy_variable(self, node, &self->nodes[i]);
            if (status == 0 && sets->sets[i] != NONE) {
                self->to->nodes[self->nodes[i]].shape.extents[0] =
                    (cadre_extent_t){.factor = 1, .symbol = self->to->rows_symbol - 1};
            }
        } else if (node->op == CADRE_OP_CONST) {
            status = copy_constant(self, node, &self->nodes[i]);
        } else if (node->op != CADRE_OP_ARG) {
            status = copy_operation(self, sets, positions, i);
        }
    }
    return status;
}

static int
copy_outputs(copier_t *self)
{
    int status = 0;
    for (int i = 0; i < self->from->push_count && status == 0; i++) {
        const cadre_program_push_t *push = &self->from->pushes[i];
        status = cadre_program_add_push(self->to, push->variable, self->nodes[push->node]);
    }
    for (int i = 0; i < self->from->result_count && status == 0; i++) {
        const cadre_program_result_t *result = &self->from->results[i];
        status = cadre_program_add_result(self->to, result->name, self->nodes[result->node]);
    }
    return status;
}

static int
make_rows(cadre_row_program_t *self, const cadre_program_t *program)
{
    cadre_auto(cadre_free) int32_t *positions =
        cadre_calloc((size_t)self->sets.lookup_count, sizeof(*positions));
    cadre_auto(copier_fini) copier_t copier = {0};
    int status = begin(&copier, program);
    status = status < 0 ? status : add_rows_symbol(copier.to);
    status = status < 0 ? status : copy_arguments(&copier);
    status = status < 0 ? status : add_positions(&copier, &self->sets, positions);
    status = status < 0 ? status : copy_nodes(&copier, &self->sets, positions);
    status = status < 0 ? status : copy_outputs(&copier);
    return status < 0 ? status : finish(&copier, &self->program);
}

/* --- both --- */

/* Finds the sets, and makes the two programs if there are any. */
static int
make(cadre_row_program_t *self, const cadre_program_t *program, const bool *may)
{
    int room = CADRE_ARGUMENTS_MAX - program->argument_count;
    room = room < CADRE_RESULTS_MAX ? room : CADRE_RESULTS_MAX;
    bool is_full = program->symbol_count == CADRE_SYMBOLS_MAX ||
                   program->node_count > CADRE_PROGRAM_NODES_MAX - room;
    cadre_row_sets_init(&self->sets, program, may, is_full ? 0 : room);
    if (self->sets.count == 0) {
        return 0;
    }

    self->argument_count = program->argument_count;
    self->variables = cadre_calloc((size_t)program->variable_count, sizeof(*self->variables));
    for (int i = 0; i < program->variable_count; i++) {
        self->variables[i] = self->sets.sets[program->variables[i].node];
    }
    self->sources = cadre_calloc((size_t)self->sets.lookup_count, sizeof(*self->sources));
    int status = make_ids(self, program);
    return status < 0 ? status : make_rows(self, program);
}

int
cadre_row_program_new(const cadre_program_t *program, const bool *may, cadre_row_program_t **out)
{
    cadre_auto(cadre_row_program_destroy) cadre_row_program_t *self =
        cadre_calloc(1, sizeof(*self));
    int status = make(self, program, may);
    *out = NULL;
    if (status == CADRE_ETOOLARGE) {
        return 0; /* with what is added it is no program any more: it runs over whole variables */
    }
    if (status == 0 && self->program) {
        *out = self;
        self = NULL;
    }
    return status;
}

void
cadre_row_program_destroy(cadre_row_program_t **self_p)
{
    cadre_row_program_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_row_sets_fini(&self->sets);
    cadre_program_destroy(&self->program);
    cadre_program_destroy(&self->ids);
    free(self->variables);
    free(self->sources);
    free(self);
}
