#include "ps/core/table/row_workspace.h"

#include <stdlib.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/tensor/bf16.h"

enum {
    BLOCK_ROWS = 64,      /* rows that are copied, or given to the optimizer, at a time, at most, */
    BLOCK_NUMBERS = 2048, /* and numbers, or a single row: all arrays of a block fit a core's L1 */
};

void
cadre_row_workspace_init(cadre_row_workspace_t *self, const cadre_table_spec_t *spec,
                         const cadre_row_optimizer_t *optimizer)
{
    const size_t dim = spec->dim;
    const size_t rows = cadre_max_u64(1, cadre_min_u64(BLOCK_ROWS, BLOCK_NUMBERS / dim));
    *self = (cadre_row_workspace_t){.optimizer = optimizer, .dim = dim, .rows_max = rows};
    self->block.room = cadre_calloc(rows * dim, sizeof(float));
    self->block.values = cadre_calloc(rows * dim, sizeof(float));
    if (spec->storage == CADRE_BF16) {
        self->words = cadre_calloc(rows * dim, sizeof(*self->words));
    }
    for (size_t s = 0; s < cadre_row_optimizer_slot_count(optimizer); s++) {
        self->block.slots[s] =
            cadre_calloc(rows * cadre_row_optimizer_slot_width(optimizer), sizeof(float));
    }
}

void
cadre_row_workspace_fini(cadre_row_workspace_t *self)
{
    free(self->words);
    free(self->block.room);
    free(self->block.values);
    for (size_t s = 0; s < CADRE_OPTIMIZER_SLOTS_MAX; s++) {
        free(self->block.slots[s]);
    }
}

void
cadre_row_workspace_gather(cadre_row_workspace_t *self, const cadre_row_pages_t *pages,
                           const cadre_row_numbers_t *rows, float *values)
{
    if (self->words) {
        cadre_row_pages_gather(pages, -1, rows, self->words);
        cadre_bf16_to_f32(self->words, values, rows->count * self->dim);
    } else {
        cadre_row_pages_gather(pages, -1, rows, values);
    }
}

/* Stores the values of some rows, at most a block. */
static void
scatter(cadre_row_workspace_t *self, cadre_row_pages_t *pages, const cadre_row_numbers_t *rows,
        const float *values)
{
    if (self->words) {
        cadre_bf16_from_f32(values, self->words, rows->count * self->dim);
        cadre_row_pages_scatter(pages, -1, rows, self->words);
    } else {
        cadre_row_pages_scatter(pages, -1, rows, values);
    }
}

void
cadre_row_workspace_apply(cadre_row_workspace_t *self, cadre_row_pages_t *pages,
                          const cadre_row_numbers_t *rows, cadre_dtype_t dtype,
                          const void *gradient, uint64_t step)
{
    cadre_row_block_t *block = &self->block;
    const size_t slots = cadre_row_optimizer_slot_count(self->optimizer);
    block->rows = rows->count;
    block->gradient = gradient;
    if (dtype == CADRE_BF16) {
        cadre_bf16_to_f32(gradient, block->room, rows->count * self->dim);
        block->gradient = block->room;
    }

    cadre_row_workspace_gather(self, pages, rows, block->values);
    for (size_t s = 0; s < slots; s++) {
        cadre_row_pages_gather(pages, (int)s, rows, block->slots[s]);
    }
    cadre_row_optimizer_apply(self->optimizer, step, block);
    scatter(self, pages, rows, block->values);
    for (size_t s = 0; s < slots; s++) {
        cadre_row_pages_scatter(pages, (int)s, rows, block->slots[s]);
    }
}
