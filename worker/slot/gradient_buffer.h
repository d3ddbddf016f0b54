/*
 * gradient_buffer - memory into which a gradient is computed, and the chunk in which it is pushed.
 *
 * A push takes the gradient of a variable, or of some of its rows, as one chunk in the variable's
 * wire dtype. Where
 * that is the variable's own dtype, the gradient is computed into the chunk itself. Else it is
 * computed into other memory and then converted, unless the device that computes it writes the wire
 * dtype.
 *
 * Owner:   one slot. Thread: the slot's; messages hold references to the chunk.
 */
#ifndef CADRE_WORKER_SLOT_GRADIENT_BUFFER_H
#define CADRE_WORKER_SLOT_GRADIENT_BUFFER_H

#include "worker/core/directory.h"
#include "worker/slot/host_memory.h"

/* Zeroed memory is an empty buffer; `unconverted.device` may be set before the first use. */
typedef struct {
    cadre_chunk_t *chunk;            /* in the wire dtype; used again once no message holds it */
    cadre_host_memory_t unconverted; /* in the variable's own dtype, where that is not the wire's */
} cadre_gradient_buffer_t;

/* Returns the memory to write the gradient of `rows` rows of `variable` to (each buffer is of one
 * variable): in the variable's own dtype, or with `on_wire` in its wire dtype, which is the chunk
 * itself. */
void *cadre_gradient_buffer_reserve(cadre_gradient_buffer_t *self,
                                    const cadre_variable_entry_t *variable, size_t rows,
                                    bool on_wire);

/* Completes the chunk: converts the first `rows` rows if it was reserved without `on_wire`. Fails
 * with CADRE_ENOTFINITE and the variable's name when one of the numbers is infinite or NaN, or has
 * become so by the conversion. */
int cadre_gradient_buffer_close(cadre_gradient_buffer_t *self,
                                const cadre_variable_entry_t *variable, size_t rows);

void cadre_gradient_buffer_fini(cadre_gradient_buffer_t *self);

/* Copies a gradient of `rows` rows in the variable's dtype into a new chunk in its wire dtype;
 * fails as cadre_gradient_buffer_close does. */
int cadre_gradient_new_chunk(const cadre_variable_entry_t *variable, const void *gradient,
                             size_t rows, cadre_chunk_t **out);

/* Returns CADRE_ENOTFINITE with a text that names the variable: its gradient is infinite or NaN in
 * the wire dtype. */
int cadre_gradient_fail(const cadre_variable_entry_t *variable);

#endif
