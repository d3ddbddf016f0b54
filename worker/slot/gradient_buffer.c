#include "worker/slot/gradient_buffer.h"

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"

/* Returns whether the variable travels in another dtype than its own. */
static bool
is_converted(const cadre_variable_entry_t *variable)
{
    return variable->wire != variable->dtype;
}

int
cadre_gradient_fail(const cadre_variable_entry_t *variable)
{
    return cadre_fail(
        CADRE_ENOTFINITE,
        "the gradient of %s is infinite or NaN as %s, which is what it has on the wire",
        variable->name, cadre_dtype_text(variable->wire));
}

/* Converts a gradient of f32, of `rows` rows, into the wire dtype; fails where a number is not
 * finite in it. */
static int
to_wire(const cadre_variable_entry_t *variable, const void *from, size_t rows, cadre_chunk_t *to)
{
    size_t count = rows * (variable->wire_row_size_bytes / cadre_dtype_size(variable->wire));
    bool is_finite =
        cadre_dtype_traits(variable->wire)->from_f32(from, cadre_chunk_data(to), count);
    return is_finite ? 0 : cadre_gradient_fail(variable);
}

/* Returns the memory for the next gradient of the variable: the chunk that will be sent, or, where
 * the gradient is still to be converted to the wire dtype, other memory. A chunk that a message
 * still holds (it is being sent) is left to the message, and another one takes its place; so is one
 * of another number of rows. */
void *
cadre_gradient_buffer_reserve(cadre_gradient_buffer_t *self, const cadre_variable_entry_t *variable,
                              size_t rows, bool on_wire)
{
    const size_t size_bytes = rows * variable->wire_row_size_bytes;
    if (self->chunk &&
        (!cadre_chunk_alone(self->chunk) || cadre_chunk_size_bytes(self->chunk) != size_bytes)) {
        cadre_chunk_unref(&self->chunk);
    }
    if (!self->chunk) {
        self->chunk = cadre_host_memory_chunk(self->unconverted.device, size_bytes);
    }
    if (on_wire || !is_converted(variable)) {
        return cadre_chunk_data(self->chunk);
    }

    cadre_host_memory_reserve(&self->unconverted, variable->row_size_bytes * rows);
    return self->unconverted.data;
}

int
cadre_gradient_buffer_close(cadre_gradient_buffer_t *self, const cadre_variable_entry_t *variable,
                            size_t rows)
{
    return is_converted(variable) ? to_wire(variable, self->unconverted.data, rows, self->chunk)
                                  : 0;
}

void
cadre_gradient_buffer_fini(cadre_gradient_buffer_t *self)
{
    cadre_chunk_unref(&self->chunk);
    cadre_host_memory_fini(&self->unconverted);
}

/* Copies a gradient in the variable's dtype into a new chunk in its wire dtype; fails when a number
 * is not finite in it. */
int
cadre_gradient_new_chunk(const cadre_variable_entry_t *variable, const void *gradient, size_t rows,
                         cadre_chunk_t **out)
{
    const size_t size_bytes = variable->wire_row_size_bytes * rows;
    cadre_auto(cadre_chunk_unref) cadre_chunk_t *chunk =
        is_converted(variable) ? cadre_chunk_new(size_bytes)
                               : cadre_chunk_new_copy(gradient, size_bytes);
    int status = is_converted(variable) ? to_wire(variable, gradient, rows, chunk) : 0;
    if (status < 0) {
        return status;
    }
    *out = cadre_chunk_ref(chunk);
    return 0;
}
