/*
 * builder - the life of a program under construction: scopes, the sticky mistake, leaves, outputs.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/graph/program_data.h"

static const cadre_node_t none = {0};

cadre_dim_t
cadre_dim(int64_t size)
{
    return (cadre_dim_t){.factor = size, .symbol = NULL};
}

cadre_dim_t
cadre_dim_symbol(const char *symbol)
{
    return cadre_dim_symbol_times(symbol, 1);
}

cadre_dim_t
cadre_dim_symbol_times(const char *symbol, int64_t factor)
{
    return (cadre_dim_t){.factor = factor, .symbol = symbol ? symbol : ""};
}

/* Makes an empty program. A bad name is its first mistake. */
cadre_program_t *
cadre_program_new(const char *name)
{
    cadre_program_t *self = cadre_calloc(1, sizeof(*self));
    self->name = cadre_strdup(name ? name : "");
    int status = cadre_program_check_name("a program", self->name);
    if (status < 0) {
        cadre_program_mistake(self, status);
    }
    return self;
}

/* Notes the first mistake; later ones are ignored. Its text is the current error text behind the
 * open scopes, "outer/inner: text". */
void
cadre_program_mistake(cadre_program_t *self, int status)
{
    cadre_assert(status < 0);
    if (self->status < 0) {
        return;
    }
    self->status = status;

    /* From the innermost scope to the outermost: each is put before the text so far. */
    for (int i = self->scope_count - 1; i >= 0; i--) {
        bool last = i == self->scope_count - 1;
        char *text = cadre_asprintf("%s%s%s", self->scopes[i], last ? ": " : "/",
                                    last ? cadre_error_text() : self->text);
        free(self->text);
        self->text = text;
    }
    if (!self->text) {
        self->text = cadre_strdup(cadre_error_text());
    }
}

/* Returns whether nodes may be added: no mistake was made, and the program is not finished. Adding
 * to a finished program is a bug of the caller; as cadre_program_finish has returned already, the
 * error text is set at once. */
static bool
building(cadre_program_t *self)
{
    if (self->finished) {
        cadre_fail(CADRE_ESTATE, "program %s is finished", self->name);
        return false;
    }
    return self->status == 0;
}

/* Opens a scope, whose name shows in error texts until it is ended. */
void
cadre_program_scope_begin(cadre_program_t *self, const char *name)
{
    if (!building(self)) {
        return;
    }
    if (self->scope_count == CADRE_SCOPE_DEPTH_MAX) {
        cadre_program_mistake(
            self, cadre_fail(CADRE_ETOOLARGE, "more than %d scopes deep", CADRE_SCOPE_DEPTH_MAX));
        return;
    }
    self->scopes[self->scope_count++] = cadre_strndup(name, strnlen(name, CADRE_NAME_SIZE_MAX));
}

/* Ends the scope that was opened last. */
void
cadre_program_scope_end(cadre_program_t *self)
{
    if (!building(self)) {
        return;
    }
    if (self->scope_count == 0) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "no scope to end"));
        return;
    }
    cadre_free(&self->scopes[--self->scope_count]);
}

/* Returns whether `node` may be an input of a new node: building goes on, and the program has the
 * node. Notes the mistake that `what` got a wrong node. */
bool
cadre_program_has(cadre_program_t *self, cadre_node_t node, const char *what)
{
    if (!building(self)) {
        return false;
    }
    if (node.id < 1 || node.id > self->node_count) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "%s: an input is %s", what,
                                               node.id == 0 ? "empty" : "of another program"));
        return false;
    }
    return true;
}

/* Notes the mistake that the shapes of two nodes do not go together; the text has both names and
 * shapes. */
void
cadre_program_misfit(cadre_program_t *self, const char *what, cadre_named_node_t left,
                     cadre_named_node_t right)
{
    char left_text[CADRE_EXTENTS_TEXT_SIZE];
    char right_text[CADRE_EXTENTS_TEXT_SIZE];
    const char *const *symbols = cadre_program_symbols(self);
    cadre_extents_text(&cadre_program_at(self, left.node)->shape, symbols, left_text);
    cadre_extents_text(&cadre_program_at(self, right.node)->shape, symbols, right_text);
    cadre_program_mistake(self, cadre_fail(CADRE_ESHAPE, "%s: %s %s does not go with %s %s", what,
                                           left.name, left_text, right.name, right_text));
}

const cadre_program_node_t *
cadre_program_at(const cadre_program_t *self, cadre_node_t node)
{
    return cadre_program_node(self, node.id - 1);
}

/* Appends a node and returns it; notes the mistake, and returns the empty node, when it is refused.
 * Public ids count from 1, indexes of nodes from 0. */
cadre_node_t
cadre_program_emit(cadre_program_t *self, const cadre_program_node_t *node)
{
    if (!building(self)) {
        return none;
    }
    int32_t index = 0;
    int status = cadre_program_add_node(self, node, &index);
    if (status < 0) {
        cadre_program_mistake(self, status);
        return none;
    }
    return (cadre_node_t){.id = index + 1};
}

/* Appends a node with one input and one attribute. */
cadre_node_t
cadre_program_emit1(cadre_program_t *self, cadre_op_t op, int64_t attribute, cadre_node_t x)
{
    if (!cadre_program_has(self, x, cadre_op_text(op, attribute))) {
        return none;
    }
    cadre_program_node_t node = {
        .op = op, .input_count = 1, .inputs = {x.id - 1}, .attributes = {attribute}};
    return cadre_program_emit(self, &node);
}

/* Appends a node with two inputs and one attribute. */
cadre_node_t
cadre_program_emit2(cadre_program_t *self, cadre_op_t op, int64_t attribute, cadre_node_t left,
                    cadre_node_t right)
{
    const char *text = cadre_op_text(op, attribute);
    if (!cadre_program_has(self, left, text) || !cadre_program_has(self, right, text)) {
        return none;
    }
    cadre_program_node_t node = {.op = op,
                                 .input_count = 2,
                                 .inputs = {left.id - 1, right.id - 1},
                                 .attributes = {attribute}};
    return cadre_program_emit(self, &node);
}

/* Converts the dimensions that a caller gave to a shape, adding new symbols to the program. Returns
 * false, and notes the mistake, when they are no shape. */
bool
cadre_program_shape(cadre_program_t *self, const char *what, const cadre_dim_t *dims, int rank,
                    cadre_extents_t *out)
{
    if (!building(self)) {
        return false;
    }
    if (rank < 0 || rank > CADRE_PROGRAM_RANK_MAX) {
        cadre_program_mistake(self, cadre_fail(CADRE_EINVALID, "%s: rank %d is not in 0..%d", what,
                                               rank, CADRE_PROGRAM_RANK_MAX));
        return false;
    }
    cadre_extents_t shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        shape.extents[i] = cadre_extent_number(dims[i].factor);
        int status = 0;
        if (dims[i].factor < 1) {
            status = cadre_fail(CADRE_EINVALID, "dimension %d is %" PRId64, i, dims[i].factor);
        } else if (dims[i].symbol) {
            status = cadre_program_find_symbol(self, dims[i].symbol, &shape.extents[i].symbol);
        }
        if (status < 0) {
            cadre_program_mistake(self, cadre_fail_within(status, "%s", what));
            return false;
        }
    }
    *out = shape;
    return true;
}

/* Returns the node of a leaf that was added; notes the mistake, and returns the empty node, when
 * `status` is a failure. */
static cadre_node_t
leaf(cadre_program_t *self, int status, int32_t index)
{
    if (status < 0) {
        cadre_program_mistake(self, status);
        return none;
    }
    return (cadre_node_t){.id = index + 1};
}

/* Adds an argument, which each closure brings under this name, and returns its node. */
cadre_node_t
cadre_op_arg(cadre_program_t *self, const char *name, cadre_dtype_t dtype, const cadre_dim_t *dims,
             int rank)
{
    cadre_extents_t shape = {0};
    if (!cadre_program_shape(self, "arg", dims, rank, &shape)) {
        return none;
    }
    int32_t index = 0;
    int status = cadre_program_add_argument(self, name, dtype, &shape, &index);
    return leaf(self, status, index);
}

/* Gives the shape of a variable as extents, without symbols. */
static int
variable_shape(const char *name, const int64_t *shape, int rank, cadre_extents_t *out)
{
    if (rank < 0 || rank > CADRE_PROGRAM_RANK_MAX) {
        return cadre_fail(CADRE_EINVALID, "variable %s: rank %d is not in 0..%d", name ? name : "",
                          rank, CADRE_PROGRAM_RANK_MAX);
    }
    out->rank = rank;
    for (int i = 0; i < rank; i++) {
        out->extents[i] = cadre_extent_number(shape[i]);
    }
    return 0;
}

/* Returns whether a variable has this shape, of plain numbers. */
static bool
has_shape(const cadre_program_variable_t *variable, const cadre_extents_t *shape)
{
    bool same = variable->rank == shape->rank;
    for (int axis = 0; same && axis < shape->rank; axis++) {
        same = variable->shape[axis] == shape->extents[axis].factor;
    }
    return same;
}

/* Gives the node of variable `name`. CADRE_ENOTFOUND, without a text, when the program has none;
 * CADRE_ESHAPE or CADRE_EDTYPE when it has another shape or dtype. */
static int
find_variable(const cadre_program_t *self, const char *name, cadre_dtype_t dtype,
              const cadre_extents_t *shape, int32_t *index)
{
    for (int i = 0; i < self->variable_count; i++) {
        const cadre_program_variable_t *variable = &self->variables[i];
        if (!name || strcmp(variable->name, name) != 0) {
            continue;
        }
        if (!has_shape(variable, shape)) {
            return cadre_fail(CADRE_ESHAPE, "variable %s is there with another shape", name);
        }
        if (variable->dtype != dtype) {
            return cadre_fail(CADRE_EDTYPE, "variable %s is there as %s, not %s", name,
                              cadre_dtype_text(variable->dtype), cadre_dtype_text(dtype));
        }
        *index = variable->node;
        return 0;
    }
    return CADRE_ENOTFOUND;
}

cadre_node_t
cadre_op_var(cadre_program_t *self, const char *name, const int64_t *shape, int rank)
{
    return cadre_op_var_of(self, name, CADRE_F32, shape, rank);
}

/* Returns the node of a variable's value; the first call with a name adds it. */
cadre_node_t
cadre_op_var_of(cadre_program_t *self, const char *name, cadre_dtype_t dtype, const int64_t *shape,
                int rank)
{
    if (!building(self)) {
        return none;
    }
    int32_t index = 0;
    cadre_extents_t numbers = {0};
    int status = variable_shape(name, shape, rank, &numbers);
    status = status < 0 ? status : find_variable(self, name, dtype, &numbers, &index);
    if (status == CADRE_ENOTFOUND) {
        status = cadre_program_add_variable(self, name, dtype, &numbers, &index);
    }
    return leaf(self, status, index);
}

/* Returns the node of a table, which to a program is a variable with a row for each id. */
cadre_node_t
cadre_op_table(cadre_program_t *self, const char *name, int64_t dim)
{
    if (building(self) && (dim < 1 || dim > CADRE_EXTENTS_FACTOR_MAX / CADRE_PROGRAM_TABLE_ROWS)) {
        cadre_program_mistake(self,
                              cadre_fail(CADRE_EINVALID,
                                         "table: rows of %" PRId64 " numbers, not 1 to %" PRId64,
                                         dim, CADRE_EXTENTS_FACTOR_MAX / CADRE_PROGRAM_TABLE_ROWS));
        return none;
    }
    return cadre_op_var(self, name, (int64_t[]){CADRE_PROGRAM_TABLE_ROWS, dim}, 2);
}

/* Adds a copy of a tensor as a constant, and returns its node. */
cadre_node_t
cadre_op_const(cadre_program_t *self, const cadre_tensor_t *tensor)
{
    if (!building(self)) {
        return none;
    }
    int32_t index = 0;
    cadre_auto(cadre_tensor_fini) cadre_tensor_t copy = {0};
    int status = tensor->rank > CADRE_PROGRAM_RANK_MAX
                     ? cadre_fail(CADRE_EINVALID, "const: rank %d is not in 0..%d", tensor->rank,
                                  CADRE_PROGRAM_RANK_MAX)
                     : cadre_tensor_init(&copy, tensor->dtype, tensor->shape, tensor->rank);
    if (status == 0) {
        memcpy(copy.data, tensor->data, cadre_tensor_size_bytes(tensor));
        status = cadre_program_add_constant(self, &copy, &index);
    }
    return leaf(self, status, index);
}

cadre_node_t
cadre_op_const_f32(cadre_program_t *self, float value)
{
    cadre_tensor_t tensor = {.dtype = CADRE_F32, .rank = 0, .data = &value};
    return cadre_op_const(self, &tensor);
}

cadre_node_t
cadre_op_const_f64(cadre_program_t *self, double value)
{
    cadre_tensor_t tensor = {.dtype = CADRE_F64, .rank = 0, .data = &value};
    return cadre_op_const(self, &tensor);
}

cadre_node_t
cadre_op_const_i64(cadre_program_t *self, int64_t value)
{
    cadre_tensor_t tensor = {.dtype = CADRE_I64, .rank = 0, .data = &value};
    return cadre_op_const(self, &tensor);
}

/* Pushes `gradient` to a variable at the end of each closure; `variable` is a node of cadre_op_var.
 * */
void
cadre_op_push(cadre_program_t *self, cadre_node_t variable, cadre_node_t gradient)
{
    if (!cadre_program_has(self, variable, "push") || !cadre_program_has(self, gradient, "push")) {
        return;
    }
    const cadre_program_node_t *to = cadre_program_at(self, variable);
    int status = 0;
    if (to->op != CADRE_OP_VAR) {
        status = cadre_fail(CADRE_EINVALID, "push: the target is no variable");
    } else {
        status =
            cadre_program_add_push(self, (int)to->attributes[CADRE_LEAF_INDEX], gradient.id - 1);
    }
    if (status < 0) {
        cadre_program_mistake(self, status);
    }
}

/* Makes the value of a node a result of each closure, under a name. */
void
cadre_op_result(cadre_program_t *self, const char *name, cadre_node_t node)
{
    if (!cadre_program_has(self, node, "result")) {
        return;
    }
    int status = cadre_program_add_result(self, name, node.id - 1);
    if (status < 0) {
        cadre_program_mistake(self, status);
    }
}
