/*
 * value_buffer - a pulled variable as one piece of memory.
 *
 * Owner:   one slot. Thread: the slot's.
 *
 * A value that came as one chunk is used where it is; several chunks are copied into one piece of
 * memory, which the next pull uses again. If the next pull brings the same content (by its content
 * number), nothing is copied.
 */
#ifndef CADRE_WORKER_SLOT_VALUE_BUFFER_H
#define CADRE_WORKER_SLOT_VALUE_BUFFER_H

#include "worker/core/closure_run.h"
#include "worker/slot/host_memory.h"

/* Zeroed memory is an empty buffer; `memory.device` may be set before the first use. */
typedef struct {
    void *data;                 /* the value that was put in last: in `chunk` or in `memory` */
    cadre_chunk_t *chunk;       /* the reference to a value that came as one chunk; NULL: none */
    cadre_host_memory_t memory; /* where several chunks are joined */
    uint64_t content;           /* content number of what is in `memory`; 0: unknown */
} cadre_value_buffer_t;

/* Takes the value (and the references to its chunks), converted to the variable's dtype if it came
 * in another; returns self->data. A buffer is used with this function only, or with
 * cadre_value_buffer_put_wire only. */
const void *cadre_value_buffer_put(cadre_value_buffer_t *self, cadre_value_t *value);

/* Takes the value's bytes unconverted, in the variable's wire dtype; returns self->data. */
const void *cadre_value_buffer_put_wire(cadre_value_buffer_t *self, cadre_value_t *value);

/* Takes rows of a variable, in the variable's dtype or with `on_wire` in its wire dtype, and makes
 * them `capacity` rows, at least as many: what is missing is filled with copies of the first.
 * Returns self->data. */
const void *cadre_value_buffer_put_rows(cadre_value_buffer_t *self, cadre_value_t *value,
                                        size_t capacity, bool on_wire);

/* Drops the reference to the value's chunk, so that another holder may write to it; the buffer's
 * own memory stays for the next use. */
void cadre_value_buffer_release(cadre_value_buffer_t *self);

void cadre_value_buffer_fini(cadre_value_buffer_t *self);

#endif
