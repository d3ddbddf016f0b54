/*
 * row_optimizer - applies gradients to rows of a table.
 *
 * Formulas are those of ps/core/values/optimizer.h, by the same loops, and two more. With row_wise
 * adagrad has one accumulator a for each row, of D numbers (Mudigere and others 2022,
 * "Software-hardware co-design for fast and scalable training of deep learning recommendation
 * models", 4.1.4):
 *
 *     a += sum(g^2) / D;  w -= lr / sqrt(a + epsilon) g
 *
 * With a group_lasso of c every update ends with (Duchi and Singer 2009, "Efficient online and
 * batch learning using forward backward splitting", 5.2)
 *
 *     w *= max(0, 1 - lr c / ||w||)
 *
 * in which lr is the learning rate of this update, whatever the optimizer makes of it for each
 * number. Sums over a row are computed in double, from the first column on.
 *
 * Owner:   one table.
 * Thread:  immutable after init.
 */
#ifndef CADRE_PS_CORE_TABLE_ROW_OPTIMIZER_H
#define CADRE_PS_CORE_TABLE_ROW_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "common/spec/table_spec.h"
#include "ps/core/values/optimizer.h"

typedef struct {
    cadre_ps_optimizer_t optimizer;
    uint32_t dim;
    bool row_wise;
    double group_lasso;
} cadre_row_optimizer_t;

/* Some rows, one after the other in each array. Values and slots are changed in place. */
typedef struct {
    size_t rows;
    const void *gradient; /* [rows, dim] of f32 at any address; finite */
    float *room;   /* [rows, dim]: for the gradient where the spec clips it; it may be there */
    float *values; /* [rows, dim] */
    float *slots[CADRE_OPTIMIZER_SLOTS_MAX]; /* each [rows, cadre_row_optimizer_slot_width] */
} cadre_row_block_t;

/* Makes a checked spec ready. */
void cadre_row_optimizer_init(cadre_row_optimizer_t *self, const cadre_table_spec_t *spec);

size_t cadre_row_optimizer_slot_count(const cadre_row_optimizer_t *self);

/* Returns how many numbers of each slot a row has. */
size_t cadre_row_optimizer_slot_width(const cadre_row_optimizer_t *self);

/* Writes what slot number `slot` of a row begins with. */
void cadre_row_optimizer_begin_slot(const cadre_row_optimizer_t *self, size_t slot, float *numbers);

/* Applies update number `step`, from 1, of the table. */
void cadre_row_optimizer_apply(const cadre_row_optimizer_t *self, uint64_t step,
                               const cadre_row_block_t *block);

#endif
