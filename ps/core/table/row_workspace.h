/*
 * row_workspace - some rows of a table, copied out of its pages to be read or updated, and back.
 *
 * Owner:   a table, or whoever changes rows of it for a moment.
 * Thread:  one at a time. Two workspaces may change different rows of the same pages at once, where
 *          nobody else holds these pages (cadre_row_pages_is_owned).
 *
 * Its arrays are small enough for a core's first cache: all copies and the optimizer stay there.
 */
#ifndef CADRE_PS_CORE_TABLE_ROW_WORKSPACE_H
#define CADRE_PS_CORE_TABLE_ROW_WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

#include "common/spec/table_spec.h"
#include "common/tensor/dtype.h"
#include "ps/core/table/row_optimizer.h"
#include "ps/core/table/row_pages.h"

typedef struct {
    const cadre_row_optimizer_t *optimizer; /* borrowed */
    size_t dim;
    size_t rows_max; /* that it takes at a time: a block */
    cadre_row_block_t block;
    uint16_t *words; /* [rows_max, dim]: values as they are stored; NULL: as f32 */
} cadre_row_workspace_t;

/* Makes room for rows of a table of this spec, which are updated by `optimizer`. */
void cadre_row_workspace_init(cadre_row_workspace_t *self, const cadre_table_spec_t *spec,
                              const cadre_row_optimizer_t *optimizer);

void cadre_row_workspace_fini(cadre_row_workspace_t *self);

/* Copies the values of some rows, at most a block, to `values`, as f32. */
void cadre_row_workspace_gather(cadre_row_workspace_t *self, const cadre_row_pages_t *pages,
                                const cadre_row_numbers_t *rows, float *values);

/* Applies update number `step` to some rows, at most a block. `gradient` is [count, dim] of
 * `dtype`, f32 or bf16, at any address. */
void cadre_row_workspace_apply(cadre_row_workspace_t *self, cadre_row_pages_t *pages,
                               const cadre_row_numbers_t *rows, cadre_dtype_t dtype,
                               const void *gradient, uint64_t step);

#endif
