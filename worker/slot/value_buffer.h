/*
 * value_buffer - a pulled variable as one piece of memory.
 *
 * Owner:   one slot. Thread: the slot's.
 *
 * A value that came as one chunk is read where it lies; several are copied together, into memory
 * that the next pull uses again. When that has brought nothing new, nothing is copied either.
 */
#ifndef CADRE_WORKER_SLOT_VALUE_BUFFER_H
#define CADRE_WORKER_SLOT_VALUE_BUFFER_H

#include "worker/core/closure_run.h"
#include "worker/slot/host_memory.h"

/* Zeroed memory is an empty buffer; `memory.device` may be set then. */
typedef struct {
    void *data; /* what was put in last */
    cadre_chunk_t *chunk;
    cadre_host_memory_t memory;
    uint64_t content; /* number of what lies in `memory`; 0: of nothing that is known */
} cadre_value_buffer_t;

/* Takes the value's bytes (and its chunks' references), converted to the variable's dtype where
 * they came in another; returns self->data. Values of one buffer are all put in this way, or all as
 * below. */
const void *cadre_value_buffer_put(cadre_value_buffer_t *self, cadre_value_t *value);

/* Takes the value's bytes unconverted, in the variable's wire dtype; returns self->data. */
const void *cadre_value_buffer_put_wire(cadre_value_buffer_t *self, cadre_value_t *value);

/* Drops the reference to a chunk, so that who else holds it may write; keeps the memory. */
void cadre_value_buffer_release(cadre_value_buffer_t *self);

void cadre_value_buffer_fini(cadre_value_buffer_t *self);

#endif
