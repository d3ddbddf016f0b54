#include "common/graph/program.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/graph/program_data.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

/* Frees a program with all that it owns, and nulls the pointer. */
void
cadre_program_destroy(cadre_program_t **self_p)
{
    cadre_program_t *self = self_p ? *self_p : NULL;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (int i = 0; i < self->symbol_count; i++) {
        cadre_free(&self->symbols[i]);
    }

    for (int i = 0; i < self->argument_count; i++) {
        free(self->arguments[i].name);
    }

    for (int i = 0; i < self->variable_count; i++) {
        free(self->variables[i].name);
    }

    for (int i = 0; i < self->constant_count; i++) {
        cadre_tensor_fini(&self->constants[i]);
    }

    for (int i = 0; i < self->result_count; i++) {
        free(self->results[i].name);
    }

    for (int i = 0; i < self->scope_count; i++) {
        cadre_free(&self->scopes[i]);
    }

    free(self->variables);
    free(self->constants);
    free(self->pushes);
    free(self->nodes);
    free(self->text);
    free(self->bytes);
    free(self->name);
    free(self);
}

/* Makes room for one more element, and returns where the array is now. Its capacity is the next
 * power of two of its count, so it is full when the count is a power of two, or 0. */
static void *
grown(void *array, int count, size_t size_bytes)
{
    if ((count & (count - 1)) != 0) {
        return array;
    }

    return cadre_realloc(array, count ? 2 * (size_t)count : 1, size_bytes);
}

/* Checks the length of a name, and that it has no control characters; `what` names its owner in the
 * error text. */
int
cadre_program_check_name(const char *what, const char *name)
{
    size_t length = name ? strlen(name) : 0;
    if (length == 0 || length > CADRE_NAME_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "the name of %s has %zu characters, not 1 to %d", what,
                          length, CADRE_NAME_SIZE_MAX);
    }

    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f) {
            return cadre_fail(CADRE_EINVALID, "the name of %s has a control character", what);
        }
    }

    return 0;
}

static int
full(const char *what, int limit)
{
    return cadre_fail(CADRE_ETOOLARGE, "more than %d %s", limit, what);
}

/* Returns whether `text` is a word of letters, digits and underscores that does not begin with a
 * digit. */
static bool
is_word(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return text[length] == '\0' && length > 0 && !(text[0] >= '0' && text[0] <= '9');
}

/* Gives the index of a symbol, which is added if the program does not have it. */
int
cadre_program_find_symbol(cadre_program_t *self, const char *symbol, int *index)
{
    for (int i = 0; i < self->symbol_count; i++) {
        if (strcmp(self->symbols[i], symbol) == 0) {
            *index = i;
            return 0;
        }
    }
    return cadre_program_add_symbol(self, symbol, index);
}

/* Adds a symbol that the program does not have yet, and gives its index. */
int
cadre_program_add_symbol(cadre_program_t *self, const char *symbol, int *index)
{
    if (!is_word(symbol) || strlen(symbol) > CADRE_SYMBOL_SIZE_MAX) {
        return cadre_fail(CADRE_EINVALID, "a symbol is a word of at most %d characters",
                          CADRE_SYMBOL_SIZE_MAX);
    }

    for (int i = 0; i < self->symbol_count; i++) {
        if (strcmp(self->symbols[i], symbol) == 0) {
            return cadre_fail(CADRE_EEXISTS, "symbol %s is there already", symbol);
        }
    }

    if (self->symbol_count == CADRE_SYMBOLS_MAX) {
        return full("symbols", CADRE_SYMBOLS_MAX);
    }

    self->symbols[self->symbol_count] = cadre_strdup(symbol);
    *index = self->symbol_count++;
    return 0;
}

/* Returns a shape of plain numbers as extents, that is, without symbols. */
static cadre_extents_t
numbers(const int64_t *shape, int rank)
{
    cadre_extents_t extents = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        extents.extents[i] = cadre_extent_number(shape[i]);
    }
    return extents;
}

/* Adds an argument to the table of arguments, and the leaf that stands for it to the nodes. */
int
cadre_program_add_argument(cadre_program_t *self, const char *name, cadre_dtype_t dtype,
                           const cadre_extents_t *shape, int32_t *node)
{
    int status = cadre_program_check_name("an argument", name);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < self->argument_count; i++) {
        if (strcmp(self->arguments[i].name, name) == 0) {
            return cadre_fail(CADRE_EEXISTS, "argument %s is there already", name);
        }
    }

    if (!cadre_dtype_traits(dtype)->is_of_programs) {
        return cadre_fail(CADRE_EDTYPE, "argument %s must be f32, f64, i32, i64 or bf16, not %s",
                          name, cadre_dtype_text(dtype));
    }

    if (self->argument_count == CADRE_ARGUMENTS_MAX) {
        return full("arguments", CADRE_ARGUMENTS_MAX);
    }

    cadre_program_argument_t *argument = &self->arguments[self->argument_count++];
    *argument = (cadre_program_argument_t){
        .name = cadre_strdup(name), .dtype = dtype, .shape = *shape, .node = self->node_count};
    cadre_program_node_t leaf = {.op = CADRE_OP_ARG,
                                 .dtype = dtype,
                                 .shape = *shape,
                                 .attributes = {self->argument_count - 1}};
    return cadre_program_add_node(self, &leaf, node);
}

/* Returns whether variables and constants of a program may have this dtype. */
static bool
is_of_leaves(cadre_dtype_t dtype)
{
    const cadre_dtype_traits_t *traits = cadre_dtype_traits(dtype);
    return traits->is_of_variables && traits->is_of_programs;
}

/* Adds a variable to the table of variables, and the leaf that stands for it to the nodes. */
int
cadre_program_add_variable(cadre_program_t *self, const char *name, cadre_dtype_t dtype,
                           const cadre_extents_t *shape, int32_t *node)
{
    int status = cadre_program_check_name("a variable", name);
    if (status < 0) {
        return status;
    }

    if (!is_of_leaves(dtype)) {
        return cadre_fail(CADRE_EDTYPE, "variable %s must be f32, f64, i32 or i64, not %s", name,
                          cadre_dtype_text(dtype));
    }

    for (int i = 0; i < self->variable_count; i++) {
        if (strcmp(self->variables[i].name, name) == 0) {
            return cadre_fail(CADRE_EEXISTS, "variable %s is there already", name);
        }
    }

    if (self->variable_count == CADRE_PROGRAM_VARIABLES_MAX) {
        return full("variables", CADRE_PROGRAM_VARIABLES_MAX);
    }

    self->variables = grown(self->variables, self->variable_count, sizeof(*self->variables));
    cadre_program_variable_t *variable = &self->variables[self->variable_count++];
    *variable = (cadre_program_variable_t){
        .name = cadre_strdup(name), .dtype = dtype, .rank = shape->rank, .node = self->node_count};
    for (int i = 0; i < shape->rank; i++) {
        variable->shape[i] = shape->extents[i].factor;
    }

    cadre_program_node_t leaf = {.op = CADRE_OP_VAR,
                                 .dtype = dtype,
                                 .shape = *shape,
                                 .attributes = {self->variable_count - 1}};
    return cadre_program_add_node(self, &leaf, node);
}

/* Adds a constant to the table of constants, whose memory it takes, and its leaf to the nodes. */
int
cadre_program_add_constant(cadre_program_t *self, cadre_tensor_t *tensor, int32_t *node)
{
    if (!is_of_leaves(tensor->dtype)) {
        return cadre_fail(CADRE_EDTYPE, "a constant must be f32, f64, i32 or i64, not %s",
                          cadre_dtype_text(tensor->dtype));
    }

    size_t size_bytes = cadre_tensor_size_bytes(tensor);
    if (self->constant_count == CADRE_PROGRAM_CONSTANTS_MAX) {
        return full("constants", CADRE_PROGRAM_CONSTANTS_MAX);
    }
    if (size_bytes > CADRE_PROGRAM_CONSTANT_SIZE_MAX - self->constants_size_bytes) {
        return full("bytes of constants", CADRE_PROGRAM_CONSTANT_SIZE_MAX);
    }

    self->constants = grown(self->constants, self->constant_count, sizeof(*self->constants));
    cadre_program_node_t leaf = {.op = CADRE_OP_CONST,
                                 .dtype = tensor->dtype,
                                 .shape = numbers(tensor->shape, tensor->rank),
                                 .attributes = {self->constant_count}};
    self->constants[self->constant_count++] = *tensor;
    self->constants_size_bytes += size_bytes;
    *tensor = (cadre_tensor_t){0};
    return cadre_program_add_node(self, &leaf, node);
}

/* Makes the value of `node` the gradient that is pushed to a variable; each variable has one push.
 * */
int
cadre_program_add_push(cadre_program_t *self, int variable, int32_t node)
{
    cadre_assert(variable >= 0 && variable < self->variable_count);
    cadre_assert(node >= 0 && node < self->node_count);
    const cadre_program_variable_t *to = &self->variables[variable];
    const cadre_program_node_t *from = &self->nodes[node];

    for (int i = 0; i < self->push_count; i++) {
        if (self->pushes[i].variable == variable) {
            return cadre_fail(CADRE_EEXISTS, "push: variable %s has one already", to->name);
        }
    }

    char left[CADRE_EXTENTS_TEXT_SIZE];
    char right[CADRE_EXTENTS_TEXT_SIZE];
    const cadre_extents_t *shape = &self->nodes[to->node].shape;
    if (!cadre_extents_equal(&from->shape, shape)) {
        return cadre_fail(CADRE_ESHAPE, "push: variable %s is %s, the gradient %s", to->name,
                          cadre_extents_text(shape, self->symbols, left),
                          cadre_extents_text(&from->shape, self->symbols, right));
    }

    if (from->dtype != to->dtype) {
        return cadre_fail(CADRE_EDTYPE, "push: the gradient of %s must be %s, not %s", to->name,
                          cadre_dtype_text(to->dtype), cadre_dtype_text(from->dtype));
    }

    self->pushes = grown(self->pushes, self->push_count, sizeof(*self->pushes));
    self->pushes[self->push_count++] = (cadre_program_push_t){.variable = variable, .node = node};
    return 0;
}

/* Makes the value of `node` a result of the program, under a name that no other result has. */
int
cadre_program_add_result(cadre_program_t *self, const char *name, int32_t node)
{
    cadre_assert(node >= 0 && node < self->node_count);
    int status = cadre_program_check_name("a result", name);
    if (status < 0) {
        return status;
    }

    for (int i = 0; i < self->result_count; i++) {
        if (strcmp(self->results[i].name, name) == 0) {
            return cadre_fail(CADRE_EEXISTS, "result %s is there already", name);
        }
    }

    if (self->result_count == CADRE_RESULTS_MAX) {
        return full("results", CADRE_RESULTS_MAX);
    }

    self->results[self->result_count++] =
        (cadre_program_result_t){.name = cadre_strdup(name), .node = node};
    return 0;
}

/* Returns what the rules of shapes see of the program: nodes and symbols, borrowed. */
cadre_infer_t
cadre_program_before(const cadre_program_t *self)
{
    return (cadre_infer_t){
        .nodes = self->nodes, .symbols = self->symbols, .symbol_count = self->symbol_count};
}

/* Checks a copy of the node, infers its dtype and shape, and appends it to the nodes. */
int
cadre_program_add_node(cadre_program_t *self, const cadre_program_node_t *node, int32_t *index)
{
    cadre_program_node_t copy = *node;
    cadre_infer_t before = cadre_program_before(self);
    int status = cadre_infer(&before, &copy);
    if (status < 0) {
        return status;
    }
    if (self->node_count == CADRE_PROGRAM_NODES_MAX) {
        return full("nodes", CADRE_PROGRAM_NODES_MAX);
    }

    self->nodes = grown(self->nodes, self->node_count, sizeof(*self->nodes));
    self->nodes[self->node_count] = copy;
    *index = self->node_count++;
    return 0;
}

/* Checks what can be checked only of a whole program: that it gives something back, and that each
 * symbol, but that of rows, is in the shape of an argument, from which its value follows when the
 * program runs. */
int
cadre_program_check(const cadre_program_t *self)
{
    if (self->push_count == 0 && self->result_count == 0) {
        return cadre_fail(CADRE_EINVALID, "the program has no push and no result");
    }

    for (int symbol = 0; symbol < self->symbol_count; symbol++) {
        bool bound = symbol == cadre_program_rows_symbol(self);
        for (int i = 0; i < self->argument_count && !bound; i++) {
            const cadre_extents_t *shape = &self->arguments[i].shape;
            for (int axis = 0; axis < shape->rank; axis++) {
                bound = bound || shape->extents[axis].symbol == symbol;
            }
        }
        if (!bound) {
            return cadre_fail(CADRE_EINVALID, "symbol %s is in the shape of no argument",
                              self->symbols[symbol]);
        }
    }

    return 0;
}

const char *
cadre_program_name(const cadre_program_t *self)
{
    return self->name;
}

uint64_t
cadre_program_hash(const cadre_program_t *self)
{
    return self->hash;
}

int
cadre_program_symbol_count(const cadre_program_t *self)
{
    return self->symbol_count;
}

const char *const *
cadre_program_symbols(const cadre_program_t *self)
{
    return self->symbols;
}

int
cadre_program_rows_symbol(const cadre_program_t *self)
{
    return self->rows_symbol - 1;
}

int
cadre_program_argument_count(const cadre_program_t *self)
{
    return self->argument_count;
}

const cadre_program_argument_t *
cadre_program_argument(const cadre_program_t *self, int index)
{
    cadre_assert(index >= 0 && index < self->argument_count);
    return &self->arguments[index];
}

int
cadre_program_variable_count(const cadre_program_t *self)
{
    return self->variable_count;
}

const cadre_program_variable_t *
cadre_program_variable(const cadre_program_t *self, int index)
{
    cadre_assert(index >= 0 && index < self->variable_count);
    return &self->variables[index];
}

int
cadre_program_constant_count(const cadre_program_t *self)
{
    return self->constant_count;
}

const cadre_tensor_t *
cadre_program_constant(const cadre_program_t *self, int index)
{
    cadre_assert(index >= 0 && index < self->constant_count);
    return &self->constants[index];
}

int
cadre_program_push_count(const cadre_program_t *self)
{
    return self->push_count;
}

const cadre_program_push_t *
cadre_program_push(const cadre_program_t *self, int index)
{
    cadre_assert(index >= 0 && index < self->push_count);
    return &self->pushes[index];
}

int
cadre_program_result_count(const cadre_program_t *self)
{
    return self->result_count;
}

const cadre_program_result_t *
cadre_program_result(const cadre_program_t *self, int index)
{
    cadre_assert(index >= 0 && index < self->result_count);
    return &self->results[index];
}

int
cadre_program_node_count(const cadre_program_t *self)
{
    return self->node_count;
}

const cadre_program_node_t *
cadre_program_node(const cadre_program_t *self, int32_t index)
{
    cadre_assert(index >= 0 && index < self->node_count);
    return &self->nodes[index];
}

const uint8_t *
cadre_program_bytes(const cadre_program_t *self, size_t *size_bytes)
{
    cadre_assert(self->bytes);
    *size_bytes = self->size_bytes;
    return self->bytes;
}
