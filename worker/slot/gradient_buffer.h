/*
 * gradient_buffer - a gradient on its way from who computed it to a message.
 *
 * A push takes the gradient of a whole variable as one chunk in the variable's wire dtype. Where
 * that is the variable's own, it is computed into the chunk itself; else it is computed into memory
 * beside it and converted, or the device that computes it converts it.
 *
 * Owner:   one slot. Thread: the slot's; messages hold references to the chunk.
 */
#ifndef CADRE_WORKER_SLOT_GRADIENT_BUFFER_H
#define CADRE_WORKER_SLOT_GRADIENT_BUFFER_H

#include "worker/core/directory.h"
#include "worker/slot/host_memory.h"

/* Zeroed memory is an empty buffer; `wide.device` may be set then. */
typedef struct {
    cadre_chunk_t *chunk;     /* in the wire dtype; used again once no message holds it */
    cadre_host_memory_t wide; /* in the variable's dtype, where the chunk is not; kept */
} cadre_gradient_buffer_t;

/* Room for the gradient of `variable`, always the same one, in its dtype; with `on_wire` in its
 * wire dtype: the chunk itself. */
void *cadre_gradient_buffer_reserve(cadre_gradient_buffer_t *self,
                                    const cadre_variable_entry_t *variable, bool on_wire);

/* Converts what was written to the room of a reserve without `on_wire` into the chunk.
 * CADRE_ENOTFINITE, naming the variable, when one of its numbers is infinite or NaN, or has become
 * so by the conversion. */
int cadre_gradient_buffer_close(cadre_gradient_buffer_t *self,
                                const cadre_variable_entry_t *variable);

void cadre_gradient_buffer_fini(cadre_gradient_buffer_t *self);

/* A copy of a gradient in the variable's dtype, as a chunk in its wire dtype; fails as close does.
 */
int cadre_gradient_new_chunk(const cadre_variable_entry_t *variable, const void *gradient,
                             cadre_chunk_t **out);

/* Fails as close does, and names the variable. */
int cadre_gradient_fail(const cadre_variable_entry_t *variable);

#endif
