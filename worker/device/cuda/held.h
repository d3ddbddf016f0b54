/*
 * held - which variables' values are in a slot's block of memory already, so that they need not be
 * copied again.
 *
 * The list says which variables the last run left in the block: only copies in write to their
 * places, and the next run, of any plan, may put other values there. Variables come first in a
 * block, so plans of one program for several batch sizes, and programs with the same variables,
 * have them at the same offsets. The list is cleared when the block is replaced.
 *
 * Owner:   a slot. Thread: the slot's.
 */
#ifndef CADRE_WORKER_DEVICE_CUDA_HELD_H
#define CADRE_WORKER_DEVICE_CUDA_HELD_H

#include "worker/device/cuda/layout.h"

/* Zeroed memory holds nothing. */
typedef struct {
    struct cadre_held_value *values;
    int count;
} cadre_held_t;

void cadre_held_fini(cadre_held_t *self);

/* Returns whether the block holds the variable with this content number; false for 0 (unknown). */
bool cadre_held_has(const cadre_held_t *self, const cadre_layout_input_t *variable,
                    uint64_t version);

/* Notes that the block holds the variables of the layout and no others. `versions` are their
 * content numbers in the program's order; NULL: all unknown. */
void cadre_held_set(cadre_held_t *self, const cadre_layout_t *layout, const uint64_t *versions);

/* Forgets what the device's memory holds. */
void cadre_held_clear(cadre_held_t *self);

#endif
