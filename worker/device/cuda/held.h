/*
 * held - which variables' values are in a slot's block of memory already, so that they need not be
 * copied again.
 *
 * It says what the last run left there: nothing but copies in writes to where variables are, and
 * the next run of any plan may put something else there. Variables come first in a block, so plans
 * of one program for several batch sizes, and programs of the same variables, find them where they
 * are. It takes no memory but this list, and forgets with the block.
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

/* Whether the variable of that version is there; false for version 0, which is unknown. */
bool cadre_held_has(const cadre_held_t *self, const cadre_layout_input_t *variable,
                    uint64_t version);

/* From now on those of the layout are there, and nothing else; `versions` by the program's order,
 * NULL: all unknown. */
void cadre_held_set(cadre_held_t *self, const cadre_layout_t *layout, const uint64_t *versions);

/* Forgets what the device's memory holds. */
void cadre_held_clear(cadre_held_t *self);

#endif
