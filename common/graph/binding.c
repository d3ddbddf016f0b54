/*
 * binding - finds the sizes that a program's symbols stand for, from the shapes of its arguments.
 */
#include <inttypes.h>

#include "common/graph/program_data.h"
#include "common/tensor/tensor.h"

/* Fails with a text that says which shape the argument has, and which it should have. */
static int
mismatch(const cadre_program_t *self, const cadre_program_argument_t *argument,
         const cadre_tensor_t *tensor)
{
    char expected[CADRE_EXTENTS_TEXT_SIZE];
    char given[CADRE_SHAPE_TEXT_SIZE];
    return cadre_fail(CADRE_ESHAPE, "%s: argument %s is %s, not %s", self->name, argument->name,
                      cadre_shape_text(tensor->shape, tensor->rank, given),
                      cadre_extents_text(&argument->shape, self->symbols, expected));
}

/* Returns whether an extent (a factor, or a factor times a symbol) can be `size`. Gives a symbol
 * that has no value yet (0) the value that follows, and compares with the value of another. */
static bool
bind_extent(cadre_extent_t extent, int64_t size, int64_t *symbol_values)
{
    if (extent.symbol < 0) {
        return size == extent.factor;
    }
    int64_t value = size / extent.factor;
    if (size < 1 || size % extent.factor != 0) {
        return false;
    }
    if (symbol_values[extent.symbol] == 0) {
        symbol_values[extent.symbol] = value;
    }
    return symbol_values[extent.symbol] == value;
}

/* Checks the dtype and the shape of argument `index`, and gives values to the symbols that no
 * argument before it has. `f32_dtype` is what arguments that are declared as f32 must have. */
static int
bind_argument(const cadre_program_t *self, int index, const cadre_tensor_t *tensor,
              cadre_dtype_t f32_dtype, int64_t *symbol_values)
{
    const cadre_program_argument_t *argument = &self->arguments[index];
    cadre_dtype_t dtype = argument->dtype == CADRE_F32 ? f32_dtype : argument->dtype;
    if (tensor->dtype != dtype) {
        return cadre_fail(CADRE_EDTYPE, "%s: argument %s is %s, not %s", self->name, argument->name,
                          cadre_dtype_text(tensor->dtype), cadre_dtype_text(dtype));
    }
    if (tensor->rank != argument->shape.rank) {
        return mismatch(self, argument, tensor);
    }
    int64_t before[CADRE_SYMBOLS_MAX]; /* values that earlier arguments gave; 0: none yet */
    for (int i = 0; i < self->symbol_count; i++) {
        before[i] = symbol_values[i];
    }
    for (int i = 0; i < tensor->rank; i++) {
        cadre_extent_t extent = argument->shape.extents[i];
        if (bind_extent(extent, tensor->shape[i], symbol_values)) {
            continue;
        }
        int status = mismatch(self, argument, tensor);
        /* An earlier argument has given the symbol its value: the text names it. */
        if (extent.symbol >= 0 && before[extent.symbol] > 0 && tensor->shape[i] > 0) {
            char given[CADRE_SHAPE_TEXT_SIZE];
            char expected[CADRE_EXTENTS_TEXT_SIZE];
            return cadre_fail(
                CADRE_ESHAPE, "%s: argument %s is %s, not %s with %s = %" PRId64 " as before",
                self->name, argument->name, cadre_shape_text(tensor->shape, tensor->rank, given),
                cadre_extents_text(&argument->shape, self->symbols, expected),
                self->symbols[extent.symbol], before[extent.symbol]);
        }
        return status;
    }
    return 0;
}

/* Checks the arguments of a call against those that the program declares, and finds the number that
 * each symbol stands for (the batch size and so on). Writes symbol_values only on success. */
int
cadre_program_bind(const cadre_program_t *self, const cadre_tensor_t *arguments, int count,
                   cadre_dtype_t f32_dtype, int64_t *symbol_values)
{
    if (count != self->argument_count) {
        return cadre_fail(CADRE_EINVALID, "%s: takes %d arguments, not %d", self->name,
                          self->argument_count, count);
    }
    int64_t values[CADRE_SYMBOLS_MAX] = {0};
    for (int i = 0; i < count; i++) {
        int status = bind_argument(self, i, &arguments[i], f32_dtype, values);
        if (status < 0) {
            return status;
        }
    }
    for (int i = 0; i < self->symbol_count; i++) {
        symbol_values[i] = values[i];
    }
    return 0;
}

/* Computes the shape of a node in numbers, from the numbers that the symbols stand for. */
int
cadre_program_node_shape(const cadre_program_t *self, int32_t node, const int64_t *symbol_values,
                         int64_t *shape)
{
    const cadre_extents_t *extents = &cadre_program_node(self, node)->shape;
    for (int i = 0; i < extents->rank; i++) {
        int status = cadre_extent_value(extents->extents[i], symbol_values, &shape[i]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}
